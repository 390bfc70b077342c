"""`diff` agrees with a comparison of all rows in plain Python, over generated versions in both formats."""

import hashlib
import json
import random
import subprocess
from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from click.testing import CliRunner

from dataplane import history
from dataplane.cli import main
from dataplane.errors import UsageError
from dataplane.lineage import diff as module
from dataplane.lineage.diff import Difference, diff, find_side
from dataplane.snapshot import Snapshot, commit_parts, write_part

Rows = list[dict[str, Any]]
DOCUMENTS = pa.schema([
    ("doc_id", pa.string()), ("source", pa.string()), ("url", pa.string()), ("text_hash", pa.string()), ("text", pa.large_string()),
    ("language__lang", pa.string()), ("language__score", pa.float32()),
])  # fmt: skip
DECISIONS = pa.schema([("doc_id", pa.string()), ("run_id", pa.string()), ("operator", pa.string()), ("reason", pa.string())])
SELECTED = pa.schema([("doc_id", pa.string())])
PACKED = pa.schema([("seq_id", pa.int64()), ("input_ids", pa.list_(pa.int32(), 2))])
EDITS = pa.schema([("doc_id", pa.string()), ("run_id", pa.string()), ("kind", pa.string()), ("count", pa.int64())])
SCHEMAS = {
    "documents": DOCUMENTS, "selected": SELECTED, "clean_decisions": DECISIONS, "select_decisions": DECISIONS,
    "packed": PACKED, "edits": EDITS,
}  # fmt: skip
RULES = [("gopher", "too_short"), ("gopher", "too_long"), ("language", "low")]


def document(rng: random.Random, i: int) -> dict[str, Any]:
    # What a document is (but its text) belongs to its id, as it does in a lake.
    own = random.Random(i)
    text = f"{i} " + "".join(rng.choice("abc 中é") for _ in range(300)) if rng.random() < 0.2 else f"text {i}"
    return {
        "doc_id": f"{i:032x}", "source": own.choice(["web", "books", "news"]), "url": own.choice([None, f"https://x/{i}"]), "text": text,
        "text_hash": hashlib.md5(text.encode()).hexdigest(),
        "language__lang": own.choice(["en", "zh", None]), "language__score": rng.random(),
    }  # fmt: skip


def generate(seed: int) -> dict[str, Rows]:
    """All tables at one state of a lake."""
    rng = random.Random(seed)
    documents = [document(rng, i) for i in range(400) if rng.random() < 0.8]
    kept = {row["doc_id"] for row in documents}
    gone = [f"{i:032x}" for i in range(400) if f"{i:032x}" not in kept and rng.random() < 0.7]
    selected = [row["doc_id"] for row in documents if rng.random() < 0.6]
    unselected = [row["doc_id"] for row in documents if row["doc_id"] not in set(selected)]

    def dropped(ids: list[str]) -> Rows:
        names = ("operator", "reason")
        return [
            {"doc_id": i, "run_id": str(seed)} | dict(zip(names, rule, strict=True))
            for i in ids
            for rule in rng.sample(RULES, rng.randint(1, 3))
        ]

    return {
        "documents": documents,
        "selected": [{"doc_id": i} for i in selected],
        "clean_decisions": dropped(gone),
        "select_decisions": dropped(unselected),
        "packed": [{"seq_id": i, "input_ids": [i, rng.randint(0, 2)]} for i in range(rng.randint(20, 40))],
        "edits": [
            {"doc_id": i, "run_id": str(seed), "kind": rng.choice("ab"), "count": rng.randint(1, 2)}
            for i in selected
            for _ in range(rng.randint(0, 2))
        ],
    }


def write(root: Path, tables: dict[str, Rows]) -> dict[str, Snapshot]:
    """Commits the tables in fragments of a few rows, shuffled: order says nothing about content here."""
    written = {}
    for name, rows in tables.items():
        batch = pa.RecordBatch.from_pylist(random.Random(len(rows)).sample(rows, len(rows)), schema=SCHEMAS[name])
        parts = [write_part(name, SCHEMAS[name], [batch.slice(start, 97)], root) for start in range(0, len(rows), 97)]
        written[name] = commit_parts(name, SCHEMAS[name], parts, root)
    return written


@pytest.fixture(params=["lance", "parquet"])
def root(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    (tmp_path / "settings.yaml").write_text(f"lake:\n  format: {request.param}\n")
    return tmp_path


@pytest.fixture
def lake(root: Path) -> tuple[Path, dict[str, Rows], dict[str, Rows]]:
    """Two states, a tagged and b current."""
    a, b = generate(1), generate(2)
    tags = "".join(f"  {name}: {snapshot.digest}\n" for name, snapshot in write(root, a).items())
    (root / "snapshots.yaml").write_text(f"before:\n{tags}")
    write(root, b)
    return root, a, b


def by_key(rows: Rows, key: str, compared: list[str]) -> dict[Any, Counter[str]]:
    found: dict[Any, Counter[str]] = {}
    for row in rows:
        found.setdefault(row[key], Counter())[repr([row[name] for name in compared])] += 1
    return found


def changes(a: Rows, b: Rows, key: str, compared: list[str]) -> dict[str, list[Any]]:
    """The oracle: keys gained, lost and changed, sorted."""
    old, new = by_key(a, key, compared), by_key(b, key, compared)
    return {
        "gained": sorted(new.keys() - old.keys()),
        "lost": sorted(old.keys() - new.keys()),
        "changed": sorted(k for k in old.keys() & new.keys() if old[k] != new[k]),
    }


def tallied(counts: list[tuple[Any, str]], columns: tuple[str, ...], name: str) -> list[dict[str, Any]]:
    """Rows of (value, change) pairs counted, most first, null last."""
    values = {value for value, _ in counts}
    rows = [{name: value} | {change: counts.count((value, change)) for change in columns} for value in values]
    return sorted(rows, key=lambda row: (-sum(row[c] for c in columns), row[name] is None, row[name] or ""))


def expected_by(field: str, name: str, different: dict[str, list[str]], a: Rows, b: Rows) -> list[dict[str, Any]]:
    value = {row["doc_id"]: row[field] for row in [*a, *b]}
    return tallied([(value.get(key), change) for change, keys in different.items() for key in keys], module.CHANGES, name)


def expected_rules(different: dict[str, list[str]], before: Rows, after: Rows) -> list[dict[str, Any]]:
    counted = []
    for change, decisions in (("gained", before), ("lost", after)):
        rules: dict[str, set[str]] = {}
        for row in decisions:
            rules.setdefault(row["doc_id"], set()).add(f"{row['operator']}.{row['reason']}")
        counted += [(rule, change) for key in different[change] for rule in rules.get(key) or [None]]
    return tallied(counted, ("gained", "lost"), "rule")


def counts(difference: Difference) -> dict[str, int]:
    return {change: getattr(difference, change) for change in module.CHANGES}


def lengths(different: dict[str, list[Any]]) -> dict[str, int]:
    return {change: len(keys) for change, keys in different.items()}


def test_documents_are_compared_by_their_text(lake: Any) -> None:
    root, a, b = lake
    found = diff("documents", "before", "current", root=root)
    different = changes(a["documents"], b["documents"], "doc_id", ["text_hash"])
    assert counts(found) == lengths(different)
    assert found.by_source == expected_by("source", "source", different, a["documents"], b["documents"])
    assert found.by_language == expected_by("language__lang", "language", different, a["documents"], b["documents"])
    assert found.by_rule == expected_rules(different, a["clean_decisions"], b["clean_decisions"])
    assert [(side["name"], side["rows"]) for side in (found.a, found.b)] == [
        ("before", len(a["documents"])),
        ("current", len(b["documents"])),
    ]


def test_selected_documents_are_told_with_the_rules_that_dropped_them(lake: Any) -> None:
    root, a, b = lake
    found = diff("selected", "before", "current", root=root)
    different = changes(a["selected"], b["selected"], "doc_id", ["doc_id"])
    assert counts(found) == lengths(different)
    assert found.by_source == expected_by("source", "source", different, a["documents"], b["documents"])
    decisions = [state["clean_decisions"] + state["select_decisions"] for state in (a, b)]
    assert found.by_rule == expected_rules(different, *decisions)


def test_samples_are_the_first_by_key_with_how_their_text_begins(lake: Any) -> None:
    root, a, b = lake
    found = diff("documents", "before", "current", samples=3, root=root).samples
    different = changes(a["documents"], b["documents"], "doc_id", ["text_hash"])
    old, new = ({row["doc_id"]: row for row in state["documents"]} for state in (a, b))
    assert {change: [row["doc_id"] for row in rows] for change, rows in found.items()} == {c: keys[:3] for c, keys in different.items()}
    for change, rows in found.items():
        for row in rows:
            here = (old if change == "lost" else new)[row["doc_id"]]
            assert (row["source"], row["url"], row["text"]) == (here["source"], here["url"], here["text"][:200])
            assert row.get("text_before") == (old[row["doc_id"]]["text"][:200] if change == "changed" else None)


def test_other_tables_are_compared_by_their_key_and_whole_rows(lake: Any) -> None:
    root, a, b = lake
    found = diff("packed", "before", "current", root=root)
    different = changes(a["packed"], b["packed"], "seq_id", ["input_ids"])
    assert (counts(found), found.by_source, found.by_rule) == (lengths(different), [], [])
    assert found.samples == {change: [{"seq_id": key} for key in keys[:5]] for change, keys in different.items()}


def test_a_key_with_several_rows_is_compared_as_a_whole_and_run_ids_count_for_nothing(lake: Any) -> None:
    root, a, b = lake
    assert counts(diff("edits", "before", "current", root=root)) == lengths(changes(a["edits"], b["edits"], "doc_id", ["kind", "count"]))


def test_turned_round_gained_is_lost(lake: Any) -> None:
    root, _, _ = lake
    there, back = diff("selected", "before", "current", root=root), diff("selected", "current", "before", root=root)
    assert (there.gained, there.lost, there.changed) == (back.lost, back.gained, back.changed)
    assert [(row["rule"], row["gained"], row["lost"]) for row in there.by_rule] == [
        (r["rule"], r["lost"], r["gained"]) for r in back.by_rule
    ]


@pytest.mark.parametrize("table", sorted(SCHEMAS))
def test_a_version_does_not_differ_from_itself(lake: Any, table: str) -> None:
    root, _, _ = lake
    found = diff(table, "current", Snapshot.load(table, root).digest[:8], root=root)
    assert (counts(found), found.by_source, found.by_rule) == (dict.fromkeys(module.CHANGES, 0), [], [])


def test_an_empty_version_lost_or_gained_everything(root: Path) -> None:
    state = generate(3)
    full = write(root, state)["selected"]
    write(root, {"selected": []})
    assert counts(diff("selected", full.digest, "current", root=root)) == {"gained": 0, "lost": full.rows, "changed": 0}


def test_what_lay_beside_a_digest_is_known_from_the_run_that_wrote_it(lake: Any) -> None:
    root, a, b = lake
    (root / "snapshots.yaml").rename(root / "tags")
    tagged = dict(line.strip().split(": ") for line in (root / "tags").read_text().splitlines()[1:])
    record = {
        "run_id": "r", "started_at": "2026-12-01T10:00:00+00:00", "seconds": 1.0, "inputs": {"documents": tagged["documents"]},
        "outputs": {name: tagged[name] for name in ("selected", "select_decisions")},
    }  # fmt: skip
    (root / "lake" / "runs").mkdir()
    (root / "lake" / "runs" / "r.json").write_text(json.dumps(record))
    side = find_side("selected", tagged["selected"], root)
    assert {name: version.digest for name, version in side.beside.items()} == record["inputs"] | record["outputs"]  # type: ignore[operator]
    different = changes(a["selected"], b["selected"], "doc_id", ["doc_id"])
    decisions = a["select_decisions"], b["clean_decisions"] + b["select_decisions"]
    assert diff("selected", tagged["selected"], "current", root=root).by_rule == expected_rules(different, *decisions)


def test_a_name_that_means_nothing_is_told_with_what_there_is(lake: Any) -> None:
    root, _, _ = lake
    with pytest.raises(
        UsageError, match=r"'nope' is no version of 'selected'; known: before, [0-9a-f]{32}.*no dvc\.lock at revision 'nope'"
    ):
        diff("selected", "nope", "current", root=root)


def test_a_git_revision_is_a_version(lake: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """A repository whose dvc.lock named the older state, with DVC's cache beside it."""
    root, a, b = lake
    tagged = dict(line.strip().split(": ") for line in (root / "snapshots.yaml").read_text().splitlines()[1:])
    (root / "snapshots.yaml").unlink()
    outs = []
    for name, digest in tagged.items():
        snapshot = Snapshot(name, digest, len(a[name]), root)
        path = root / ".dvc" / "cache" / "files" / "md5" / snapshot.md5[:2] / snapshot.md5[2:]
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(snapshot.text())
        outs.append({"path": f"lake/{name}.json", "md5": snapshot.md5})
    (root / "dvc.lock").write_text(json.dumps({"stages": {"s": {"outs": outs}}}))  # JSON is YAML
    git = ["git", "-c", "user.name=t", "-c", "user.email=t@example.org"]
    for command in (["init", "-q"], ["add", "dvc.lock"], ["commit", "-qm", "first"]):
        subprocess.run([*git, *command], cwd=root, check=True)
    monkeypatch.setattr(history.dvc, "cache_dir", lambda root: root / ".dvc" / "cache" / "files" / "md5")
    found = diff("selected", "HEAD", "current", root=root)
    different = changes(a["selected"], b["selected"], "doc_id", ["doc_id"])
    decisions = [state["clean_decisions"] + state["select_decisions"] for state in (a, b)]
    assert (counts(found), found.a["name"]) == (lengths(different), "HEAD")
    assert found.by_rule == expected_rules(different, *decisions)
    with pytest.raises(UsageError, match="no table 'mixture' at revision HEAD"):
        find_side("mixture", "HEAD", root)


def test_the_command_prints_the_difference(lake: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    root, _, _ = lake
    monkeypatch.chdir(root)
    found = diff("documents", "before", "current", samples=1)
    as_json = CliRunner().invoke(main, ["diff", "before", "current", "--samples", "1", "--json"])
    assert json.loads(as_json.stdout) == found.as_dict()
    lines = CliRunner().invoke(main, ["diff", "before", "current", "--samples", "1"]).stdout.splitlines()
    assert lines[2] == f"gained {found.gained}, lost {found.lost}, changed {found.changed}"
    assert [line for line in lines if line in ("by source", "by language", "by rule", "gained", "lost", "changed")] == [
        "by source", "by language", "by rule", "gained", "lost", "changed",
    ]  # fmt: skip
