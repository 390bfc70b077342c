"""The whole page over small projects: an empty one, and one in which every text is hostile."""

from __future__ import annotations

import json
import re
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from dataplane import schema
from dataplane.errors import DataError
from dataplane.report.page import SECTIONS, render, write_report
from dataplane.snapshot import commit_parts, write_part

HOSTILE = "<script>alert(1)</script><img src=x onerror=alert(2)>\x00\u202e\"'&amp;{{ 7*7 }} 酒店很好 " + "é" * 400
VOID = frozenset({"meta", "rect", "line", "circle", "polyline", "img", "br"})


def _id(n: int) -> str:
    return f"{n:032x}"


class _Page(HTMLParser):
    """Collects tags and text, and checks that tags nest."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.ids: list[str] = []
        self.links: list[str] = []
        self.attributes: set[str] = set()
        self.quotes: list[str] = []
        self.code: list[str] = []
        self._open: list[str] = []
        self.feed(html)
        assert self._open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        values = dict(attrs)
        self.tags.append(tag)
        self.attributes |= set(values)
        self.ids += [values["id"] or ""] if "id" in values else []
        self.links += [values["href"] or ""] if "href" in values else []
        if tag == "blockquote":
            self.quotes.append("")
        if tag == "pre":
            self.code.append("")
        if tag not in VOID:
            self._open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        if tag not in VOID:
            assert self._open.pop() == tag

    def handle_data(self, data: str) -> None:
        if "blockquote" in self._open:
            self.quotes[-1] += data
        if "pre" in self._open:
            self.code[-1] += data


def _table(root: Path, name: str, arrow: pa.Schema, rows: list[dict[str, Any]]) -> None:
    full = [{field: row.get(field) for field in arrow.names} for row in rows]
    table = pa.Table.from_pylist(full, schema=arrow)
    commit_parts(name, arrow, [write_part(name, arrow, table.to_batches(), root)], root)


def _json(path: Path, value: Any) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(value), encoding="utf-8")


def _lake(root: Path) -> None:
    docs = [{"doc_id": _id(n), "source": HOSTILE, "kind": "web", "text": f"text {n} {HOSTILE}"} for n in range(6)]
    _table(root, "documents", schema.DOCUMENTS, docs)
    for table, ids in (("selected", (0, 2, 5)), ("deduplicated", (0, 2))):
        _table(root, table, schema.IDS, [{"doc_id": _id(n)} for n in ids])
    _table(root, "mixture", schema.MIXTURE, [{"doc_id": _id(2), "epoch": epoch} for epoch in (0, 1)])
    reason = {"stage": "select", "operator": HOSTILE, "reason": HOSTILE, "signals": json.dumps({HOSTILE: 0.25})}
    _table(root, "select_decisions", schema.DECISIONS, [reason | {"doc_id": _id(n)} for n in (4, 1, 3)])
    _table(root, "edits", schema.EDITS, [{"doc_id": _id(2), "operator": HOSTILE, "kind": HOSTILE, "count": 3}])
    pair = {"cluster_id": _id(0), "representative": _id(0), "how": "minhash"}
    copies = [pair | {"doc_id": _id(0), "kept": True, "similarity": 1.0}, pair | {"doc_id": _id(5), "kept": False, "similarity": 0.8125}]
    _table(root, "duplicates", schema.DUPLICATES, copies)
    passage = {
        "doc_id": _id(2),
        "start": 3,
        "stop": 9,
        "tokens": 60,
        "how": "substring",
        "first": _id(0),
        "first_start": 0,
        "effect": "cut",
    }
    _table(root, "repeats", schema.REPEATS, [passage, passage | {"start": 20, "stop": 31, "tokens": 73}])
    hit = {"doc_id": _id(5), "benchmark": HOSTILE, "item_id": HOSTILE, "n": 13, "hits": 4, "covered": 0.5}
    _table(root, "contamination", schema.CONTAMINATION, [hit])
    failed = {"stage": "ingest", "source": HOSTILE, "uri": HOSTILE, "member": HOSTILE, "error": HOSTILE, "message": HOSTILE}
    _table(root, "ingest_quarantine", schema.QUARANTINE, [failed])


def _training(root: Path) -> None:
    span = {"doc_id": _id(3), "seq_start": 0, "doc_start": 0, "length": 2}
    _table(root, "packed", schema.packed(2), [{"seq_id": 7, "n_tokens": 2, "input_ids": [1, 2], "spans": [span]}])
    _table(root, "consumed", schema.CONSUMED, [{"stage": "pretrain", "step": step, "seq_ids": [7]} for step in (1, 2)])
    measured = {"task": HOSTILE, "n": 5, "standard_error": 0.01, "contamination": HOSTILE}
    bits = [
        ("gzip", "source=" + HOSTILE, 3.5),
        ("pretrain", "source=" + HOSTILE, 2.125),
        ("gzip", "all", 3.25),
        ("pretrain", "all", 2.0625),
    ]
    rows = [measured | {"stage": stage, "group": group, "metric": "bits_per_byte", "value": value} for stage, group, value in bits]
    _table(root, "evals", schema.EVALS, [*rows, measured | {"stage": "sft", "group": "all", "metric": "acc", "value": 0.625}])
    _json(root / "metrics/generations.json", [{"model": HOSTILE, "prompt": HOSTILE, "mode": "greedy", "text": HOSTILE}])
    spike = {"spike": 2, "reason": HOSTILE, "sequences": 48, "from_step": 2, "lr_scale": 1.0}
    _json(root / "metrics/pretrain.json", {"steps": 2, "held_out_loss": {"2": 4.5}, "rollbacks": [spike]})
    documents = [
        {"doc_id": _id(3), "tokens": 17, "loss": 11.75, "share": 0.5},
        {"doc_id": HOSTILE, "tokens": 5, "loss": "nan", "share": "nan"},
    ]
    _json(root / "models/pretrain/evidence/step_00000002.json", {"documents": documents, "loss": 7.5})
    samples = [{"step": step, "prompt": "It ", "text": f"wrote {step} {HOSTILE}"} for step in range(1, 21)]
    (root / "models/pretrain/samples.jsonl").write_text("".join(json.dumps(line) + "\n" for line in samples), encoding="utf-8")
    _json(root / "models/pretrain/run.json", {"digest": HOSTILE, "step": 2})
    plots = root / "plots"
    plots.mkdir()
    columns = "step,loss,learning_rate,tokens_per_s,held_out/lang/zh,train/source/<b>,held_out/source/<b>"
    rows = "1,5.0,0.1,987654,3.125,4.0625,3.5625\n2,nan,0.2,,2.125,1.0625,\nx,<b>,,,,,"
    (plots / "pretrain.csv").write_text(f"{columns}\n{rows}\n", encoding="utf-8")
    (plots / "sft.csv").write_text("step,loss\n1,3.0\n2,2.0\n", encoding="utf-8")
    (plots / "dpo.csv").write_text("step,loss,margin,accuracy\n1,0.7,0.0,0.5\n2,0.6,0.2,0.75\n", encoding="utf-8")


def _runs(root: Path) -> None:
    """Of clean an old run and a newer one, then a failed one; and one of a stage that the report does not know."""
    same = {"version": "0.1.0", "rows": {}, "inputs": {}, "outputs": {}, "op_ids": {}, "params": {}}
    made = [
        ("clean", "COMPLETE", "01", "old"),
        ("clean", "COMPLETE", "02", "newest"),
        ("clean", "FAIL", "03", "failed"),
        (HOSTILE, "COMPLETE", "01", HOSTILE),
    ]
    for i, (stage, status, day, params) in enumerate([*made, ("ingest", "COMPLETE", "09", "late")]):
        record = same | {"run_id": f"run{i}", "stage": stage, "status": status, "started_at": f"2026-01-{day}", "params_digest": params}
        _json(root / f"lake/runs/run{i}.json", record)


def _metrics(root: Path) -> None:
    _json(root / "metrics/ingest.json", {
        "rows": {"in": 10, "kept": 8, "dropped": 0, "quarantined": 2},
        "sources": {HOSTILE: {"kind": HOSTILE, "formats": [HOSTILE], "records": 8, "bytes": 12_345}},
    })  # fmt: skip
    _json(root / "metrics/select.json", {"rows": {"in": 8, "kept": 5, "dropped": 3, "quarantined": 0}})
    group = {"documents": 1_234_567, "available": 9, "asked": 0.5, "achieved": 0.25, "epochs": 2.0, "short": True}
    _json(root / "metrics/mix.json", {"plan": {"by": "kind", "unit": "bytes", "groups": {HOSTILE: group}}, "held_out": 1})
    _json(root / "metrics/tokenize.json", {"by_kind": {HOSTILE: {"tokens": 9, "documents": 1, "bytes_per_token": 3.0}}})
    _json(root / "metrics/pack.json", {"sequences": 1, "tokens": 2})


@pytest.fixture(scope="module")
def full(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("project")
    _lake(root)
    _metrics(root)
    _training(root)
    _runs(root)
    return root


@pytest.fixture(scope="module")
def html(full: Path) -> str:
    return render(full)


def test_an_empty_project_says_of_every_section_that_it_has_not_run(tmp_path: Path) -> None:
    page = render(tmp_path)
    _Page(page)
    # The three stages of training say so each; snapshots and models in the header too.
    assert page.count("Not run yet.") == len(SECTIONS) - 1 + 3 + 3 + 3


def test_a_project_where_all_ran_has_no_section_that_has_not(html: str) -> None:
    assert html.count('<p class="absent">') == 0


def test_repeated_passages_are_counted_among_the_duplicates(html: str) -> None:
    section = html[html.index("Passages that stood in the corpus before") : html.index('id="contamination"')]
    cells = [re.sub("<[^>]*>", "", cell) for cell in re.findall(r"<td[^>]*>(.*?)</td>", section, re.DOTALL)]
    assert cells == ["substring", "cut", "2", "1", "133"]


def test_hostile_text_becomes_no_markup(html: str) -> None:
    page = _Page(html)
    assert not {"script", "img", "iframe", "link", "object"} & set(page.tags)
    assert not {name for name in page.attributes if name.startswith("on")} | {"src"} & page.attributes
    assert "49" not in {word for quote in page.quotes for word in quote.split()}
    assert not set("\x00\u202e") & set(html)
    assert "<script>alert(1)</script>" in page.quotes[0]
    assert "酒店很好" in page.quotes[0]


def test_snippets_are_short(html: str) -> None:
    assert {len(quote) <= 300 for quote in _Page(html).quotes} == {True}


def test_contents_link_to_the_sections_in_order_and_nowhere_else(html: str) -> None:
    page = _Page(html)
    assert page.ids == [
        "funnel", "sources", "dropped", "edits", "duplicates", "contamination", "quarantine", "mixture", "tokens", "packing", "training",
        "evaluation", "runs", "ask",
    ]  # fmt: skip
    assert page.links[: len(SECTIONS)] == [f"#{name}" for name in page.ids]
    assert set(page.links) == {f"#{name}" for name in page.ids}


def test_samples_are_those_with_the_smallest_ids(html: str) -> None:
    dropped = html.split('<section id="dropped">')[1].split("</section>")[0]
    assert [n for n in range(6) if f"<bdi>{_id(n)}</bdi>" in dropped] == [1, 3]
    assert [n for n in range(6) if f"text {n} " in dropped] == [1, 3]


def test_numbers_of_every_stage_are_shown(html: str) -> None:
    for expected in ("1,234,567", "12.3\u202fkB", "0.812", "2.062", "3.250", "0.625", "3.00", "11.750"):
        assert expected in html


def _cells(html: str, section: str) -> list[list[str]]:
    """Texts of the first table's cells, by row."""
    table = html.split(f'<section id="{section}">')[1].split("</table>")[0]
    rows = [re.findall(r"<t[hd][^>]*>(.*?)</t[hd]>", row, re.DOTALL) for row in table.split("<tr>")[1:]]
    return [[re.sub(r"<[^>]+>", "", cell) for cell in row] for row in rows]


def test_documents_are_counted_by_source_after_each_stage_that_has_run(html: str) -> None:
    heads, row = _cells(html, "sources")
    assert heads == ["Source", "Kind", "Formats", "Size", "Records", "After clean", "After select", "After dedup", "After mix", "Left"]
    assert row[3:] == ["12.3\u202fkB", "8", "6", "3", "2", "1", "12.5\u202f%"]
    assert "Not run yet: decontaminate." in html


def test_runs_are_the_last_complete_ones_in_the_order_of_the_pipeline(html: str) -> None:
    rows = _cells(html, "runs")
    assert rows[:3] == [["Stage", "Version", "Params digest"], ["ingest", "0.1.0", "late"], ["clean", "0.1.0", "newest"]]
    assert [row[0][:8] for row in rows[3:]] == ["&lt;scri"]


def test_how_fast_the_machine_was_is_not_shown(html: str) -> None:
    assert "987" not in html


def test_commands_carry_ids_of_the_project(html: str) -> None:
    assert _Page(html).code == [
        'dataplane sql "SELECT stage, status, started_at, seconds FROM runs ORDER BY started_at"',
        'dataplane sql "SELECT reason, count(*) FROM decisions GROUP BY 1 ORDER BY 2 DESC"',
        f"dataplane why {_id(3)}",
        "trainplane trace --run latest --step 2",
    ]


def test_equal_projects_give_equal_pages_and_the_folder_is_replaced_whole(full: Path, html: str) -> None:
    (full / "report").mkdir()
    (full / "report/stale.html").write_text("old", encoding="utf-8")
    before = {path.name for path in full.iterdir()}
    page = write_report(full)
    assert page.read_text(encoding="utf-8") == html
    assert [path.name for path in (full / "report").iterdir()] == ["index.html"]
    assert {path.name for path in full.iterdir()} == before


def test_damaged_metrics_are_named(tmp_path: Path) -> None:
    (tmp_path / "metrics").mkdir()
    (tmp_path / "metrics/ingest.json").write_text("{", encoding="utf-8")
    with pytest.raises(DataError, match=r"metrics/ingest\.json is not JSON"):
        write_report(tmp_path)
    assert not (tmp_path / "report").exists()


def test_losses_by_group_stand_in_a_table_and_languages_in_a_chart(html: str) -> None:
    rows = [re.findall(r"<td[^>]*>(.*?)</td>", row, re.DOTALL) for row in re.findall(r"<tr>(.*?)</tr>", html, re.DOTALL)]
    found = [cells for cells in rows if cells[:1] in (["lang"], ["source"])]
    assert found == [["lang", "zh", "–", "–", "3.125", "2.125"], ["source", "&lt;b&gt;", "4.062", "1.062", "3.562", "3.562"]]
    assert html.count("Held-out loss by language") == 1


def test_what_the_model_wrote_is_shown_at_a_few_steps_from_the_first_to_the_last(html: str) -> None:
    shown = [step for step in range(1, 21) if f"wrote {step} " in html]
    assert shown == [1, 5, 9, 12, 16, 20]


def test_a_spike_is_a_dot_in_the_curve_and_its_documents_can_be_read(html: str) -> None:
    assert html.count('class="dot s2"') == 1
    assert html.count(f"dataplane why {_id(3)}") == 2  # the appendix names it too
