"""Training of n-gram models over tokens: interpolated modified Kneser-Ney, out of core, written as an ARPA file.

The text is read twice: once for the vocabulary, which is held in memory, and once for the n-grams, which are counted, discounted
and interpolated by DuckDB in `memory` at most, on disk beyond that. Sums are of whole numbers, so equal text gives an equal file
whatever the order of the documents and the number of threads.

`<s>` is given and never predicted, `</s>` ends every line (or text), and `<unk>` has the share of a word that was never seen: unigrams
are interpolated with the uniform distribution over the vocabulary without `<s>`. Discounts come from all n-grams, those that are
pruned included; what is pruned goes to the back-off weight.

Source: Chen and Goodman 1998 (TR-10-98, Harvard), section 3; Heafield et al. 2013 (ACL P13-2121), whose lmplz it equals.
"""

from __future__ import annotations

import tempfile
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pydantic import Field, field_validator

from dataplane.corpus.kneser_ney import F64
from dataplane.corpus.kneser_ney_sql import columns, estimate
from dataplane.errors import DataError, EnvironmentFault
from dataplane.kernels.ngram_lm import BOS, MAX_ORDER, UNKNOWN
from dataplane.kernels.token_lm import EOS, SPECIAL
from dataplane.params import Params

if TYPE_CHECKING:
    import duckdb

Batches = Callable[[], Iterable[pa.Array]]


class TokenLmParams(Params):
    """How large the model is."""

    order: int = Field(5, ge=1, le=MAX_ORDER, description="Tokens of the longest n-gram.")
    prune: tuple[int, ...] = Field(
        (),
        description="Occurrences up to which n-grams of 1, 2, ... tokens are left out, as of lmplz; the last holds for longer ones.",
    )
    vocabulary: int = Field(0, ge=0, description="Most frequent words that are known; 0 knows all.")
    min_count: int = Field(1, ge=1, description="Occurrences below which a word is an unknown one.")
    memory: str = Field("1GB", pattern=r"^\d+(MB|GB)$", description="Memory for counting and sorting; the vocabulary comes on top.")
    threads: int = Field(1, ge=1, le=256, description="Threads that count and sort.")

    @field_validator("prune")
    @classmethod
    def _rising(cls, prune: tuple[int, ...]) -> tuple[int, ...]:
        if any(value < 0 for value in prune) or (prune and prune[0]) or any(a > b for a, b in pairwise(prune)):
            raise ValueError("the first is 0 and none is smaller than the one before: a longer n-gram stands on the shorter ones")
        return prune

    def pruned(self, n: int) -> int:
        """Occurrences up to which an n-gram of n tokens is left out."""
        return self.prune[min(n, len(self.prune)) - 1] if self.prune else 0


@dataclass(frozen=True)
class Trained:
    """What is told of a model.

    Attributes:
        tokens: Tokens that were read, the ends of sentences not counted.
        sentences: Sentences that were read.
        n_grams: How many n-grams of each length the model has.
        discounts: Of each length: what is taken off the counts 1, 2, and 3 or more.
    """

    tokens: int
    sentences: int
    n_grams: list[int]
    discounts: list[list[float]]

    def report(self) -> dict[str, Any]:
        """The same for JSON."""
        return {**vars(self), "discounts": [[round(d, 6) for d in row] for row in self.discounts]}


def train(batches: Batches, params: TokenLmParams, path: Path, by_line: bool = True) -> Trained:
    """Trains a model and writes it.

    Args:
        batches: Gives the text, twice the same: string or large_string arrays, tokens parted by white space.
        params: How large the model is.
        path: Of the ARPA file.
        by_line: Whether each line is a sentence; otherwise each text is.

    Raises:
        DataError: There is no token.
        EnvironmentFault: There is too little memory or disk.
    """
    words, n_tokens = _vocabulary(batches(), params, by_line)
    path.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=path.parent, prefix="train-lm-") as folder:
        partial = Path(folder) / "model.arpa"
        with _database(Path(folder), params) as database:
            sentences = _count(database, batches(), words, params.order, by_line)
            discounts = [estimate(database, n, params.order, params.pruned(n), len(words)) for n in range(1, params.order + 1)]
            sizes = [_size(database, f"p{n}") for n in range(1, params.order + 1)]
            with partial.open("w", encoding="utf-8", newline="\n") as stream:
                stream.writelines(_arpa(database, words, sizes))
        partial.replace(path)
    return Trained(n_tokens, sentences, sizes, discounts)


@contextmanager
def _database(folder: Path, params: TokenLmParams) -> Iterator[duckdb.DuckDBPyConnection]:
    """A database that spills into a folder; what it lacks is an error that says how to mend it."""
    import duckdb

    config = {"memory_limit": params.memory, "threads": str(params.threads), "temp_directory": str(folder / "spilled")}
    try:
        with duckdb.connect(str(folder / "n_grams.duckdb"), config={**config, "preserve_insertion_order": "false"}) as database:
            yield database
    except duckdb.OutOfMemoryException as error:
        fix = "give it more: --set memory=4GB"
        raise EnvironmentFault(f"{params.memory} of memory are too little: {error}", where="train-lm", fix=fix) from None
    except duckdb.IOException as error:
        fix = "make room for n-grams beside the model, some 100 bytes for each token, or set a smaller order"
        raise EnvironmentFault(str(error), where="train-lm", fix=fix) from None


def _size(database: duckdb.DuckDBPyConnection, table: str) -> int:
    return int(database.execute(f"SELECT count(*) FROM {table}").fetchall()[0][0])


def _sentences(text: pa.Array, by_line: bool) -> pa.ListArray:
    """Tokens of each sentence that has some: list<large_string>."""
    text = pc.fill_null(text.cast(pa.large_string()), "")
    lines = pc.split_pattern(text, "\n").flatten() if by_line else text
    lines = pc.ascii_trim_whitespace(lines)
    return pc.ascii_split_whitespace(lines.filter(pc.greater(pc.binary_length(lines), 0)))


def _vocabulary(batches: Iterable[pa.Array], params: TokenLmParams, by_line: bool) -> tuple[list[str], int]:
    """The words by id, the most frequent first behind SPECIAL, and how many tokens there are."""
    counts: Counter[str] = Counter()
    for text in batches:
        found = pc.value_counts(_sentences(text, by_line).flatten())
        counts.update(dict(zip(found.field("values").to_pylist(), found.field("counts").to_pylist(), strict=True)))
    if not counts:
        raise DataError("there is no token to train on", where="train-lm", fix="check the files and the field of the text")
    ranked = sorted((-n, word) for word, n in counts.items() if n >= params.min_count and word not in SPECIAL)
    return [*SPECIAL, *(word for _, word in ranked[: params.vocabulary or None])], counts.total()


def _count(database: duckdb.DuckDBPyConnection, batches: Iterable[pa.Array], words: list[str], order: int, by_line: bool) -> int:
    """Makes the tables c1, c2, ...: ids w1, w2, ... and occurrences of every n-gram. Returns how many sentences there are."""
    ids = {word: i for i, word in enumerate(words)}
    for name in SPECIAL:
        ids[name] = UNKNOWN  # written in a text, they are words like any other that is not known
    for n in range(1, order + 1):
        database.execute(f"CREATE TABLE part{n} ({', '.join(f'w{i} INTEGER' for i in range(1, n + 1))}, count BIGINT)")
    n_sentences = 0
    for text in batches:
        sentences = _sentences(text, by_line)
        n_sentences += len(sentences)
        database.register("positions", _positions(sentences, ids, order))
        for n in range(1, order + 1):
            tokens = ", ".join(f"t{n - i}" for i in range(1, n + 1))
            database.execute(f"INSERT INTO part{n} SELECT {tokens}, count(*) FROM positions WHERE t{n - 1} >= 0 GROUP BY ALL")
        database.unregister("positions")
    for n in range(1, order + 1):
        database.execute(f"CREATE TABLE c{n} AS SELECT {columns(n)}, sum(count)::BIGINT AS count FROM part{n} GROUP BY ALL")
        database.execute(f"DROP TABLE part{n}")
    return n_sentences


def _positions(sentences: pa.ListArray, ids: dict[str, int], order: int) -> pa.Table:
    """Every token as t0, and those before it as t1, t2, ..., -1 before the start: int32 columns, `<s>` and `</s>` included."""
    coded = pc.dictionary_encode(sentences.flatten())
    known = np.array([ids.get(word, UNKNOWN) for word in coded.dictionary.to_pylist()], np.int32)
    tokens = known[coded.indices.to_numpy()] if len(coded) else np.zeros(0, np.int32)
    lengths = pc.list_value_length(sentences).to_numpy().astype(np.int64)
    starts = np.concatenate([[0], np.cumsum(lengths)])
    line = np.insert(tokens, starts[1:], EOS)
    line = np.insert(line, (starts + np.arange(len(starts)))[:-1], BOS)
    place = np.arange(len(line)) - np.repeat(starts[:-1] + 2 * np.arange(len(lengths)), lengths + 2)
    found = {}
    for back in range(order):
        shifted = np.full(len(line), -1, np.int32)
        shifted[back:] = line[: len(line) - back]
        found[f"t{back}"] = np.where(place >= back, shifted, np.int32(-1))
    return pa.table(found)


def _arpa(database: duckdb.DuckDBPyConnection, words: list[str], sizes: list[int]) -> Iterator[str]:
    """Lines of the file."""
    yield "\\data\\\n" + "".join(f"ngram {n}={size}\n" for n, size in enumerate(sizes, start=1))
    spelled = np.array(words, object)
    for n in range(1, len(sizes) + 1):
        yield f"\n\\{n}-grams:\n"
        last = n == len(sizes)
        behind = "1.0" if last else "coalesce(remainder, 1.0)"
        joined = "" if last else f"LEFT JOIN x{n + 1} USING ({columns(n)})"
        rows = database.sql(f"SELECT {columns(n, names=['p', behind])} FROM p{n} {joined} ORDER BY ALL")
        for batch in rows.to_arrow_reader(100_000):
            *ids, p, weight = (column.to_numpy(zero_copy_only=False) for column in batch.columns)
            yield from _lines([spelled[column] for column in ids], p, weight, last)
    yield "\n\\end\\\n"


def _lines(words: list[Any], p: F64, behind: F64, last: bool) -> Iterator[str]:
    with np.errstate(divide="ignore"):
        logs, backoffs = np.log10(p).tolist(), np.maximum(np.log10(behind), -99.0).tolist()
    for gram, log, backoff in zip(zip(*words, strict=True), logs, backoffs, strict=True):
        yield f"{log:.8g}\t{' '.join(gram)}\n" if last else f"{log:.8g}\t{' '.join(gram)}\t{backoff:.8g}\n"
