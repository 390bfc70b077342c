"""Random signals of documents, and the rules of a project brute-forced over them: what whatif and the funnel are held against."""

from collections import Counter
from pathlib import Path

import numpy as np
import pyarrow as pa

from dataplane.corpus.selection import SelectParams, rules
from dataplane.deciding import Decider
from dataplane.params import load_params
from dataplane.pipeline import CleanParams, build, documents_schema
from dataplane.snapshot import Snapshot

PARAMS = """\
clean:
  pipeline:
    - {use: language, params: {model: no_model}}
    - {use: text_signals}
    - {use: toxicity}
select:
  rules:
    - {use: language, params: {min_score: 0.5}, when: kind <> 'code'}
    - {use: gopher_quality, when: "kind IN ('books', 'news')"}
    - {use: gopher_quality, params: {min_words: 20}, when: kind = 'web'}
    - {use: gopher_repetition}
"""
CODES = [f"{i:032x}" for i in range(4096)]


def write_params(root: Path, text: str = PARAMS) -> None:
    (root / "no_model").touch()
    (root / "params.yaml").write_text(text)


def parsed(root: Path) -> tuple[SelectParams, CleanParams]:
    tree = load_params(root / "params.yaml")
    return SelectParams.parse(tree["select"], where="select"), CleanParams.parse(tree["clean"], where="clean")


def documents(root: Path, n: int, seed: int = 0) -> pa.Table:
    """`documents` of the project's pipeline: about half of them fail some rule, and signals are null here and there."""
    rng = np.random.default_rng(seed)
    columns = documents_schema(build(parsed(root)[1].pipeline))
    kinds = rng.choice(["books", "news", "web", "code"], n)
    values = {
        "doc_id": CODES[:n], "kind": kinds, "source": [f"{kind}_{i}" for kind, i in zip(kinds, rng.integers(0, 2, n), strict=True)],
        "url": [f"https://example.org/{i}" for i in range(n)], "mime": ["text/plain"] * n, "text_hash": CODES[:n],
        "text": [f"document {i} " + "x" * int(length) for i, length in enumerate(rng.integers(0, 400, n))],
        "n_bytes": rng.integers(1, 5000, n), "language__lang": rng.choice(["en", "zh", "de"], n),
        "language__score": rng.beta(5, 1, n), "toxicity__n_hits": rng.poisson(0.5, n), "toxicity__share": rng.beta(1, 60, n),
        "text_signals__n_words": np.exp(rng.normal(4.5, 1.2, n)).astype(int), "text_signals__cjk_share": rng.choice([0.0, 0.9], n),
        "text_signals__mean_word_length": rng.normal(5, 1, n), "text_signals__alphabetic_word_share": rng.beta(20, 1, n),
        "text_signals__stop_words": rng.binomial(8, 0.6, n), "text_signals__stop_characters": rng.binomial(8, 0.6, n),
    }  # fmt: skip
    arrays = {}
    for field in columns:
        given = pa.array(values.get(field.name, rng.beta(1, 60, n)))
        absent = rng.random(n) < 0.02 if "__" in field.name else np.zeros(n, bool)
        arrays[field.name] = pa.array(given.to_pylist(), mask=absent).cast(field.type, safe=False)
    return pa.table(arrays, schema=columns)


class BruteForce:
    """The select stage's own Decider over all rows: who stays, and who fails what."""

    def __init__(self, root: Path) -> None:
        snapshot = Snapshot.load("documents", root)
        decided = rules(*parsed(root))
        (batch,) = snapshot.to_table().combine_chunks().to_batches()
        decider = Decider(decided, snapshot.schema, stage="select", run_id="r")
        self.rows = batch.to_pylist()
        kept, decisions = decider.decide(batch)
        self.kept = dict(zip(batch.column("doc_id").to_pylist(), kept.tolist(), strict=True))
        self.fails: dict[str, list[str]] = {}
        for row in decisions.to_pylist():
            self.fails.setdefault(row["doc_id"], []).append(f"{row['operator']}.{row['reason']}")


def flips(before: BruteForce, after: BruteForce) -> dict:
    """What whatif has to say, without samples: documents and bytes in all and by source, language and reason."""
    sides = {"gained": (before, after), "lost": (after, before)}
    found = {}
    for side, (out, inside) in sides.items():
        rows = [row for row in before.rows if not out.kept[row["doc_id"]] and inside.kept[row["doc_id"]]]
        by = {name: Counter() for name in ("source", "language", "reason")}
        for row in rows:
            by["source"][row["source"]] += 1
            by["language"][row["language__lang"]] += 1
            by["reason"].update(set(out.fails[row["doc_id"]]))
        found[side] = {"documents": len(rows), "bytes": sum(row["n_bytes"] for row in rows), **by}
    return found
