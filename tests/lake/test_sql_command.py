"""`dataplane sql`: each form of an answer is read again by a library of its own, and a file is whole or as it was."""

import base64
import csv
import io
import json
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner, Result

from dataplane.cli import main
from dataplane.commands import answers

ROWS = pa.table({
    "doc_id": ["a", "b", "c"], "text": pa.array(["plain", 'said "no",\nthen 中文 [red]', None], pa.large_string()),
    "share": [0.5, float("nan"), None], "n": pa.array([1, None, 3], pa.int64()),
    "payload": pa.array([b"\x00\xff", None, b""], pa.large_binary()),
    "spans": [[{"doc_id": "x", "start": 1}], [], None],
})  # fmt: skip
IN_ORDER = "FROM rows_of_all_kinds ORDER BY doc_id"
FAILING = "SELECT CASE WHEN range = 90000 THEN error('late') ELSE 'early' END AS x FROM range(100000)"


@pytest.fixture(autouse=True)
def lake(put: Any) -> None:
    put("rows_of_all_kinds", ROWS)


def sql(*arguments: str, given: str | None = None) -> Result:
    return CliRunner().invoke(main, ["sql", *arguments], input=given)


def written(style: str, *, to_file: bool) -> bytes:
    if to_file:
        assert sql(IN_ORDER, "--format", style, "--out", "answer").output == ""
        return Path("answer").read_bytes()
    return sql(IN_ORDER, "--format", style).stdout_bytes


@pytest.mark.parametrize("to_file", [False, True])
def test_json_holds_every_row(to_file: bool) -> None:
    expected = ROWS.to_pylist()
    expected[1]["share"] = None  # JSON has no NaN
    for row in expected:
        row["payload"] = None if row["payload"] is None else base64.b64encode(row["payload"]).decode()
    assert json.loads(written("json", to_file=to_file)) == expected


@pytest.mark.parametrize("to_file", [False, True])
def test_csv_holds_every_row(to_file: bool) -> None:
    assert list(csv.reader(io.StringIO(written("csv", to_file=to_file).decode()))) == [
        ["doc_id", "text", "share", "n", "payload", "spans"],
        ["a", "plain", "0.5", "1", "AP8=", json.dumps([{"doc_id": "x", "start": 1}], indent=1)],
        ["b", 'said "no",\nthen 中文 [red]', "nan", "", "", "[]"],
        ["c", "", "", "3", "", ""],
    ]


@pytest.mark.parametrize("to_file", [False, True])
def test_parquet_holds_every_row(to_file: bool) -> None:
    found = pq.read_table(io.BytesIO(written("parquet", to_file=to_file)))
    assert found.column_names == ROWS.column_names
    for name in ROWS.column_names:
        assert str(found.column(name).to_pylist()) == str(ROWS.column(name).to_pylist())  # text, because nan != nan


@pytest.mark.parametrize(("suffix", "start"), [("json", b"[\n{"), ("csv", b'"doc_id"'), ("parquet", b"PAR1")])
def test_the_format_is_that_of_the_files_suffix(suffix: str, start: bytes) -> None:
    assert sql(IN_ORDER, "--out", f"answer.{suffix}").exit_code == 0
    assert Path(f"answer.{suffix}").read_bytes()[: len(start)] == start


@pytest.mark.parametrize(("style", "expected"), [("json", "[]\n"), ("csv", '"doc_id"\n')])
def test_no_rows_are_an_answer(style: str, expected: str) -> None:
    assert sql("SELECT doc_id FROM rows_of_all_kinds WHERE false", "--format", style).output == expected


def test_a_table_is_cut_with_a_note_and_other_forms_are_not(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(answers, "MOST_ROWS_SHOWN", 7)
    shown = sql("FROM range(100)")
    assert [line.strip() for line in shown.stdout.splitlines()[2:]] == [str(n) for n in range(7)]
    assert shown.stderr == "only the first 7 rows are shown; --format json, csv or parquet gives them all\n"
    assert [sql("FROM range(7)").stderr, len(json.loads(sql("FROM range(100)", "--json").stdout))] == ["", 100]


def test_a_question_is_read_from_a_pipe() -> None:
    assert json.loads(sql("--json", given="SELECT count(*) AS n\nFROM rows_of_all_kinds -- all\n").stdout) == [{"n": 3}]


@pytest.mark.parametrize("style", ["json", "csv", "parquet"])
def test_a_question_that_fails_late_leaves_the_file_as_it_was(style: str) -> None:
    Path("answer").write_text("before")
    result = sql(FAILING, "--format", style, "--out", "answer")
    assert (result.exit_code, "late" in result.stderr) == (2, True)
    assert [path.read_text() for path in Path().glob("*answer*")] == ["before"]


def test_half_a_parquet_file_is_never_printed() -> None:
    result = sql(FAILING, "--format", "parquet")
    assert (result.exit_code, result.stdout_bytes) == (2, b"")


@pytest.mark.parametrize(
    ("arguments", "exit_code", "message"),
    [
        (["SELECT 1", "--out", "answer"], 2, "a file is written as json, csv or parquet"),
        (["SELECT 1", "--out", "answer.txt"], 2, "a file is written as json, csv or parquet"),
        (["SELECT 1", "--format", "table", "--out", "answer.csv"], 2, "a file is written as json, csv or parquet"),
        (["SELECT 1", "--out", "not/there.csv"], 3, "cannot write not/there.csv"),
        (["SELECT 1", "--memory", "-1"], 2, "no amount of memory"),
        (["SELECT 1", "--timeout", "0"], 2, "0.0 is not in the range"),
        (["FROM range(1000000) a, range(1000000) b, range(9)", "--format", "csv", "--out", "a.csv", "--timeout", "0.2"], 1, "--timeout"),
        (["SELECT INTERVAL 1 month AS i", "--format", "parquet"], 2, "cast it in the question"),
        (["COPY rows_of_all_kinds TO 'answer.csv'"], 2, "only one reading statement"),
    ],
)
def test_what_cannot_be_done_is_said_and_leaves_no_file(arguments: Sequence[str], exit_code: int, message: str) -> None:
    before = sorted(os.listdir())
    result = sql(*arguments)
    assert (result.exit_code, message in result.stderr) == (exit_code, True)
    assert sorted(os.listdir()) == before


def test_parquet_is_not_for_a_terminal() -> None:
    code = "import pty, sys; sys.exit(pty.spawn([sys.executable, '-m', 'dataplane', 'sql', 'SELECT 1', '--format', 'parquet']) >> 8)"
    done = subprocess.run([sys.executable, "-c", code], stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
    assert (done.returncode, "Parquet is not for a terminal" in done.stdout) == (2, True)


def test_a_reader_that_goes_away_ends_the_command_quietly() -> None:
    command = [sys.executable, "-m", "dataplane", "sql", "FROM range(100000000)", "--format", "csv"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        assert process.stdout.readline() == '"range"\n'
        process.stdout.close()
        assert process.stderr.read() == ""
        assert process.wait(30) == 1
