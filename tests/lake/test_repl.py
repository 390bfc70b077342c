"""The loop of `dataplane sql` on a terminal, played through prompt_toolkit's own pipe."""

import os
import signal
import threading
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from prompt_toolkit.buffer import Buffer
from prompt_toolkit.completion import CompleteEvent
from prompt_toolkit.document import Document
from prompt_toolkit.history import FileHistory, InMemoryHistory
from prompt_toolkit.input import create_pipe_input
from prompt_toolkit.output import DummyOutput

from dataplane.lake.repl import NameCompleter, Repl, open_history
from dataplane.lake.sql import Answer, connect

ENDLESS = "SELECT count(*) FROM range(1000000) a, range(1000000) b WHERE a.range + b.range = 7;\n"


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path / "cache" / "terraplane" / "sql_history"


@pytest.fixture
def connection(put: Any) -> Any:
    put(
        "documents",
        pa.table({"doc_id": ["a", "b"], "source": ["web", "books"], "language__lang": ["en", "zh"], "language__score": [0.9, 0.8]}),
    )
    put("deduplicated", pa.table({"doc_id": ["a"]}))
    return connect()


def played(connection: Any, keys: str, timeout: float | None = None) -> list[list[dict[str, Any]]]:
    """The answers to what is typed."""
    shown: list[list[dict[str, Any]]] = []

    def show(answer: Answer) -> None:
        shown.append(answer.to_table().to_pylist())

    with create_pipe_input() as source:
        source.send_text(keys)
        Repl(connection, show, timeout=timeout, source=source, screen=DummyOutput()).run()
    return shown


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("SELECT * FROM d", ["deduplicated", "documents"]),
        ("select * from documents JOIN ded", ["deduplicated"]),
        ("\\d snap", ["snapshots"]),
        ("SELECT * FROM ", ["deduplicated", "documents", "runs", "snapshots"]),
        ("SELECT language.", ["language.lang", "language.score"]),
        ("SELECT doc_id, lang", ["language", "language.lang", "language.score"]),
        ("SELECT sou", ["source"]),
        ("summ", ["SUMMARIZE"]),
        ("SELECT nothing_is_called_so", []),
    ],
)
def test_names_are_completed(connection: Any, text: str, expected: list[str]) -> None:
    found = NameCompleter(connection).get_completions(Document(text, len(text)), CompleteEvent())
    assert [completion.text for completion in found] == expected


def test_a_name_says_what_it_is(connection: Any) -> None:
    text = "SELECT language.s"
    (found,) = NameCompleter(connection).get_completions(Document(text, len(text)), CompleteEvent())
    assert (found.text, found.display_meta_text) == ("language.score", "signal in documents")


def test_a_tab_completes(connection: Any) -> None:
    with create_pipe_input() as source:
        repl = Repl(connection, lambda answer: None, source=source, screen=DummyOutput())
        texts: list[str] = []

        def leave_once_completed(buffer: Buffer) -> None:
            texts.append(buffer.text)
            if buffer.text.endswith("deduplicated"):
                source.send_text("\x03\x04")

        repl.session.default_buffer.on_text_changed += leave_once_completed
        source.send_text("FROM deduplic\t")
        repl.run()
    assert texts[-2:] == ["FROM deduplic", "FROM deduplicated"]


def test_a_statement_takes_lines_until_its_semicolon(connection: Any) -> None:
    assert played(connection, "SELECT doc_id\nFROM documents -- all;\nORDER BY 1;\nSELECT 'x;\ny' AS t;\n\\q\n") == [
        [{"doc_id": "a"}, {"doc_id": "b"}],
        [{"t": "x;\ny"}],
    ]


def test_an_error_does_not_end_the_loop(connection: Any, capsys: pytest.CaptureFixture[str]) -> None:
    assert played(connection, "SELEKT;\nSELECT 1 AS one;\nCOPY documents TO 'x';\nSELECT 2 AS two;\n\\q\n") == [[{"one": 1}], [{"two": 2}]]
    assert [line[:24] for line in capsys.readouterr().err.splitlines() if "rror" in line] == [
        "error: sql: Parser Error",
        "error: sql: only one rea",
    ]


def test_the_loop_has_commands_of_its_own(connection: Any, capsys: pytest.CaptureFixture[str]) -> None:
    tables, columns, one, two = played(
        connection, "\\d\n\\d deduplicated\n\\timing\nSELECT 1 AS one;\n\\timing\nSELECT 2 AS two;\n\\?\n\\q\n"
    )
    assert [row["name"] for row in tables] == ["deduplicated", "documents", "runs", "snapshots"]
    assert [(row["column_name"], row["column_type"]) for row in columns] == [("doc_id", "VARCHAR")]
    assert (one, two) == ([{"one": 1}], [{"two": 2}])
    said = capsys.readouterr().err.splitlines()
    assert [line for line in said if line.startswith("timing") or line.endswith(" s")][::2] == ["timing is on", "timing is off"]
    assert [line.split()[0] for line in said[-7:] if line.startswith("\\")] == ["\\d", "\\d", "\\timing", "\\?", "\\q"]


@pytest.mark.parametrize("end", ["\\q\n", "\\q;\n", "\x04"])
def test_the_user_leaves(connection: Any, end: str) -> None:
    assert played(connection, "SELECT 1 AS one;\n" + end) == [[{"one": 1}]]


def test_ctrl_c_at_the_prompt_throws_the_text_away(connection: Any) -> None:
    assert played(connection, "SELECT nonsense\x03SELECT 1 AS one;\n\\q\n") == [[{"one": 1}]]


def test_ctrl_c_stops_a_question_and_not_the_loop(connection: Any, capsys: pytest.CaptureFixture[str]) -> None:
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    timer = threading.Timer(0.5, os.kill, (os.getpid(), signal.SIGINT))
    try:
        timer.start()
        assert played(connection, ENDLESS + "SELECT 1 AS one;\n\\q\n") == [[{"one": 1}]]
    finally:
        timer.join()
        signal.signal(signal.SIGINT, before)
    assert capsys.readouterr().err.splitlines()[1:] == ["stopped"]


def test_a_question_has_its_time_limit(connection: Any, capsys: pytest.CaptureFixture[str]) -> None:
    assert played(connection, ENDLESS + "SELECT 1 AS one;\n\\q\n", timeout=0.2) == [[{"one": 1}]]
    assert "cut after 0.2 s" in capsys.readouterr().err


def test_history_is_kept_in_the_users_cache(connection: Any, cache: Path) -> None:
    played(connection, "SELECT 1\nAS one;\n\\q\n")
    assert [line[1:] for line in cache.read_text().splitlines() if line.startswith("+")] == ["SELECT 1", "AS one;", "\\q"]
    assert list(FileHistory(cache).load_history_strings()) == ["\\q", "SELECT 1\nAS one;"]
    # The question before the last, from the time before.
    assert played(connection, "\x1b[A\x1b[A\n\\q\n") == [[{"one": 1}]]


def test_a_cache_that_cannot_be_written_costs_only_the_history(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    assert type(open_history()) is InMemoryHistory
