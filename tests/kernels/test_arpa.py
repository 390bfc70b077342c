"""ARPA files from other tools: read, completed where they are pruned, refused where they are damaged."""

import gzip
import random
from functools import cache
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dataplane.errors import ModelMissing
from dataplane.kernels.arpa import read_arpa
from dataplane.kernels.token_lm import TokenModel

# As SRILM prunes: "b c" is gone though "a b c" is there, and so is "x y" of "x y z"; no <unk>; the weights are made up.
PRUNED = """
\\data\\
ngram 1=8
ngram 2=2
ngram 3=2

\\1-grams:
-99	<s>	-0.3
-1	</s>
-0.9	a	-0.2
-0.8	b	-0.4
-0.7	c	-0.1
-1.1	x	-0.5
-1.2	y	-0.6
-1.3	z

\\2-grams:
-0.5	<s> a	-0.25
-0.4	a b	-0.35

\\3-grams:
-0.05	a b c
-0.06	x y z

\\end\\
"""


def model(tmp_path: Path, text: str, name: str = "m.arpa") -> TokenModel:
    path = tmp_path / name
    path.write_bytes(gzip.compress(text.encode()) if name.endswith(".gz") else text.encode())
    return read_arpa(path)


@cache
def written() -> dict[tuple[str, ...], tuple[float, float]]:
    rows = [row.split("\t") for row in PRUNED.split("\n") if "\t" in row]
    return {("<unk>",): (-100.0, 0.0)} | {tuple(row[1].split()): (float(row[0]), float(row[2]) if len(row) > 2 else 0.0) for row in rows}


def backing_off(line: str) -> float:
    """The score by the definition of back-off, over the n-grams as they are written."""
    table = written()

    def p(gram: tuple[str, ...]) -> float:
        if gram in table:
            return table[gram][0]
        return table.get(gram[:-1], (0.0, 0.0))[1] + p(gram[1:])

    words = ["<s>", *(word if (word,) in table else "<unk>" for word in line.split()), "</s>"]
    return sum(p(tuple(words[max(0, i - 2) : i + 1])) for i in range(1, len(words)))


@given(line=st.lists(st.sampled_from(["a", "b", "c", "x", "y", "z", "q"]), min_size=1, max_size=8).map(" ".join))
def test_what_pruning_left_out_changes_no_score(tmp_path_factory: pytest.TempPathFactory, line: str) -> None:
    read = model(tmp_path_factory.mktemp("arpa"), PRUNED)
    assert read.score(pa.array([line]))[0].tolist() == pytest.approx([backing_off(line)], abs=1e-4)


def test_a_sentence_longer_than_a_block_is_scored_as_one(tmp_path: Path) -> None:
    draw = random.Random(0)
    lines = [" ".join(draw.choices("abcxyzq", k=n)) for n in (20_000, 3, 8_192, 8_191, 8_190)]
    totals, counts = model(tmp_path, PRUNED).score(pa.array(["\n".join(lines), lines[0]]))
    expected = [backing_off(line) for line in lines]
    assert totals.tolist() == pytest.approx([sum(expected), expected[0]], rel=1e-6)
    assert counts.tolist() == [20_000 + 3 + 8_192 + 8_191 + 8_190 + 5, 20_001]


def test_gzip_and_upper_case_unknown_words_are_read(tmp_path: Path) -> None:
    text = PRUNED.replace("ngram 1=8", "ngram 1=10").replace("-99\t<s>", "-2\t<UNK>\n-4\t<UNK>s\n-99\t<s>")
    plain, packed = model(tmp_path, text), model(tmp_path, text, "m.arpa.gz")
    texts = pa.array(["a q b", None, "", "a\n\nb"])
    assert [part.tolist() for part in plain.score(texts)] == [part.tolist() for part in packed.score(texts)]
    assert plain.score(texts)[1].tolist() == [4, 0, 0, 4]
    assert plain.score(texts, by_line=False)[1].tolist() == [4, 0, 0, 3]
    assert plain.score(pa.array(["q", "<UNK>s"]))[0].tolist() == pytest.approx([-0.3 - 2 - 1, -0.3 - 4 - 1])


@pytest.mark.parametrize(
    "text",
    [
        "", "no model", PRUNED[:200], PRUNED.replace("\\2-grams:", "\\3-grams:"), PRUNED.replace("a b c", "a b"),
        PRUNED.replace("a b c", "a b q"),
        PRUNED.replace("-0.9\ta", "x\ta"), PRUNED.replace("-0.9\ta\t", "-0.9\tb\t"), PRUNED.replace("ngram 2=2", "ngram 2=two"),
        PRUNED.replace("-0.9\ta\t-0.2", "-0.9 a"),
    ],
)  # fmt: skip
def test_a_damaged_file_is_refused(tmp_path: Path, text: str) -> None:
    with pytest.raises(ModelMissing, match="no ARPA file"):
        model(tmp_path, text)


def test_a_missing_file_names_the_command_that_makes_one(tmp_path: Path) -> None:
    with pytest.raises(ModelMissing, match="dataplane train-lm"):
        read_arpa(tmp_path / "absent.arpa")


@given(st.lists(st.text(max_size=30), max_size=5))
def test_any_text_has_a_finite_score_that_does_not_depend_on_its_neighbours(
    tmp_path_factory: pytest.TempPathFactory, texts: list[str]
) -> None:
    read = model(tmp_path_factory.mktemp("arpa"), PRUNED)
    totals, counts = read.score(pa.array(texts, pa.string()))
    alone = [read.score(pa.array([text])) for text in texts]
    assert totals.tolist() == [float(t[0]) for t, _ in alone]
    assert counts.tolist() == [int(n[0]) for _, n in alone]
    assert np.isfinite(totals).all()
