"""CSV, JSON arrays, Arrow files and nested fields: what is read is what reference libraries read, and what was written."""

import csv
import io
import json
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from test_source_formats import put, read

from dataplane.source import Fault, Record
from dataplane.sources.csv_rows import Csv
from dataplane.sources.hub import Hub
from dataplane.sources.json_values import Json
from dataplane.sources.locator import read_payload


def errors(faults: list[dict]) -> list[str]:
    return [fault["error"] for fault in faults]


def payloads(root: Path, **spec: object) -> tuple[list[str], list[str]]:
    """Texts and errors; every record is read back from its locator on the way."""
    raw, faults, specs = read(root, **spec)
    assert [read_payload(root, row, specs) for row in raw] == [row["payload"] for row in raw]
    return [row["payload"].decode() for row in raw], errors(faults)


CELL = st.text(st.sampled_from('ab,;|\t" \n中'), max_size=8)


@given(st.lists(st.tuples(CELL, CELL), min_size=1, max_size=6), st.sampled_from(",;\t|"))
@settings(max_examples=150)
def test_any_cells_that_pythons_csv_writes_come_back(rows: list[tuple[str, str]], delimiter: str) -> None:
    sink = io.StringIO(newline="")
    csv.writer(sink, delimiter=delimiter, quoting=csv.QUOTE_ALL).writerows([("text", "note"), *rows])
    data = sink.getvalue().encode()
    found = list(Csv().read(io.BytesIO(data), "a.csv"))
    assert [record.payload.decode() for record in found if isinstance(record, Record)] == [text for text, _ in rows]
    for record in found:
        assert Csv().reread(io.BytesIO(data), "a.csv", record.offset, record.length, None) == record.payload


@pytest.mark.parametrize(
    ("data", "texts"),
    [
        ("text;n\nein Satz, lang;1,5\nnoch einer;2\n", ["ein Satz, lang", "noch einer"]),
        ('text\tn\nsays 5" tall\t1\n"no end\t2\n', ['says 5" tall', '"no end']),
        ('text,n\n"say \\"hi\\", he said",1\n"b \\"c\\"",2\n', ['say "hi", he said', 'b "c"']),
        ("text\nHello, world\nOne, two, three\n", ["Hello, world", "One, two, three"]),
        ("\ufefftext,n\r\na,1\r\n\r\nb,2\r\n", ["a", "b"]),
    ],
    ids=["semicolons", "tabs without quoting", "escaped quotes", "one column", "mark and line ends of Windows"],
)
def test_the_dialect_is_found(tmp_path: Path, data: str, texts: list[str]) -> None:
    put(tmp_path, "a.csv", data.encode())
    assert payloads(tmp_path) == (texts, [])


def test_columns_go_by_number_without_a_header_and_several_make_one_text(tmp_path: Path) -> None:
    put(tmp_path, "a.tsv", b"7\tTitle\tBody\n8\t\tOnly\n")
    raw, faults, _ = read(tmp_path, options={"header": False, "text": ["2", "3"], "id": "1", "meta": {"title": "2"}})
    assert [(row["payload"], json.loads(row["meta"])) for row in raw] == [
        (b"Title\n\nBody", {"title": "Title"}),
        (b"\n\nOnly", {"title": ""}),
    ]
    assert faults == []


def test_a_csv_in_another_charset_is_read_by_its_head_and_a_stray_row_keeps_its_bytes(tmp_path: Path) -> None:
    lines = ["今天天气很好，我们一起去公园散步。", "北京是中华人民共和国的首都，历史悠久。"]
    put(tmp_path, "a.csv", ("text,n\n" + "".join(f"{line},1\n" for line in lines)).encode("gb18030"))
    assert payloads(tmp_path) == (lines, [])
    put(tmp_path, "a.csv", b"text,n\n" + "".join(f"{line},1\n" for line in lines).encode() + b"caf\xe9,2\n")
    raw, faults, specs = read(tmp_path)
    assert (raw[-1]["payload"], raw[-1]["charset"], faults) == (b"caf\xe9", None, [])
    assert read_payload(tmp_path, raw[-1], specs) == b"caf\xe9"


def test_a_bad_row_costs_itself_alone(tmp_path: Path) -> None:
    good = "".join(f'"row, {i}",{i}\n' for i in range(40))
    put(tmp_path, "a.csv", f'text,n\n{good}"open"x,1\n{good}a,b,c\n{good}"never closed,1\n{good}'.encode())
    texts, faults = payloads(tmp_path)
    assert texts == [f"row, {i}" for i in range(40)] * 4
    assert faults == ["BadRow", "ExtraCells", "BadRow"]


def test_a_cell_is_bounded_and_the_rows_after_it_are_read(tmp_path: Path) -> None:
    put(tmp_path, "a.csv", ("text,n\na,1\n" + "x" * 5000 + ',2\nb,3\n"open\n' + "y\n" * 600 + "c,4\n").encode())
    texts, faults = payloads(tmp_path, options={"max_bytes": 1000, "quotes": "doubled"})
    assert (texts, faults) == (["a", "b", *["y"] * 600, "c"], ["TooLarge", "TooLarge"])


def test_a_csv_without_the_column_says_which_there_are() -> None:
    (fault,) = Csv().read(io.BytesIO(b"title,body\na,b\n"), "a.csv")
    assert fault == Fault(0, "NoText", "no column 'text' (columns: title, body); set the option `text`")


VALUE = st.recursive(
    st.text(st.sampled_from('[]{}"\\, a中'), max_size=6), lambda v: st.lists(v, max_size=3) | st.dictionaries(st.just("k"), v)
)


@given(st.lists(VALUE, max_size=5), st.sampled_from([None, 2]), st.booleans(), st.integers(1, 40))
@settings(max_examples=150)
def test_objects_of_json_are_those_that_json_reads(values: list, indent: int | None, in_array: bool, chunk: int) -> None:
    rows = [{"text": str(i), "value": value} for i, value in enumerate(values)]
    text = json.dumps(rows, indent=indent) if in_array else "\n".join(json.dumps(row, indent=indent) for row in rows)
    data = text.encode()

    class Slow(io.BytesIO):
        def read(self, n: int | None = -1, /) -> bytes:
            return super().read(chunk)

    found = [record for record in Json().read(Slow(data), "a.json") if isinstance(record, Record)]
    assert [json.loads(data[record.offset : record.offset + record.length]) for record in found] == rows


def test_json_that_is_cut_gives_what_is_whole(tmp_path: Path) -> None:
    put(tmp_path, "a.json", b'[{"text": "a"}, {"text": "b"}, {"text": "c')
    assert payloads(tmp_path) == (["a", "b"], ["Truncated"])
    put(tmp_path, "a.json", b'{"version": 1}')
    assert payloads(tmp_path) == ([], ["NoText"])
    put(tmp_path, "a.json", b"[1, 2]")
    assert payloads(tmp_path) == ([], ["NoObjects"])


def test_what_datasets_saves_is_read_row_by_row(tmp_path: Path) -> None:
    datasets = pytest.importorskip("datasets")
    rows = [{"text": f"第 {i} row", "info": {"title": str(i)}} for i in range(2500)]
    datasets.Dataset.from_list(rows).save_to_disk(str(tmp_path / "data" / "set"), num_shards=2)
    raw, faults, specs = read(tmp_path, paths=["data/**/*.arrow"], options={"meta": {"title": "info.title"}})
    assert [row["payload"].decode() for row in raw] == [row["text"] for row in rows]
    assert [json.loads(row["meta"]) for row in raw] == [row["info"] for row in rows]
    assert [read_payload(tmp_path, row, specs) for row in raw[::300]] == [row["payload"] for row in raw[::300]]
    assert faults == []


def test_arrow_files_of_both_kinds_hold_the_same_rows_and_a_cut_one_gives_its_head() -> None:
    table = pa.table({"text": [str(i) for i in range(3000)]})
    kinds = {}
    for kind, make in {"stream": pa.ipc.new_stream, "file": pa.ipc.new_file}.items():
        sink = io.BytesIO()
        with make(sink, table.schema) as writer:
            writer.write_table(table, max_chunksize=1000)
        kinds[kind] = sink.getvalue()
    whole = [[record.payload for record in Hub().read(io.BytesIO(data), "a.arrow")] for data in kinds.values()]
    assert whole == [[str(i).encode() for i in range(3000)]] * 2
    *rows, fault = Hub().read(io.BytesIO(kinds["stream"][: len(kinds["stream"]) // 2]), "a.arrow")
    assert ([record.payload for record in rows], fault.error) == (whole[0][:1000], "BadArrow")


def test_only_the_columns_asked_for_are_read_from_parquet(tmp_path: Path) -> None:
    from dataplane.sources.columns import wanted
    from dataplane.sources.fields import Fields

    rows = [{"doc": {"body": f"t{i}", "big": "x" * 100}, "turns": [{"who": "a", "says": f"s{i}"}], "n": i} for i in range(5)]
    table = pa.Table.from_pylist(rows)
    (tmp_path / "data").mkdir()
    pq.write_table(table, tmp_path / "data" / "a.parquet")
    assert wanted(table.schema, Fields(text=("doc.body", "turns.0.says"), meta={})) == ["doc.body", "turns"]
    assert wanted(table.schema, Fields(text="doc.body")) == ["doc.body", "n"]
    texts, faults = payloads(tmp_path, options={"text": ["doc.body", "turns.0.says"]})
    assert (texts, faults) == ([f"t{i}\n\ns{i}" for i in range(5)], [])
