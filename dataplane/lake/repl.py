r"""Questions one after another on a terminal: `dataplane sql` without a question.

A statement ends with `;` and may take several lines. What starts with a backslash is for the loop itself.
"""

from __future__ import annotations

import os
import re
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

from prompt_toolkit import PromptSession
from prompt_toolkit.application.current import get_app
from prompt_toolkit.completion import CompleteEvent, Completer, Completion, WordCompleter
from prompt_toolkit.document import Document
from prompt_toolkit.filters import Condition
from prompt_toolkit.history import FileHistory, History, InMemoryHistory
from prompt_toolkit.input import Input
from prompt_toolkit.key_binding import KeyBindings, KeyPressEvent
from prompt_toolkit.lexers import PygmentsLexer
from prompt_toolkit.output import Output
from pygments.lexers.sql import SqlLexer

from dataplane.errors import TerraplaneError
from dataplane.lake.at import tokens
from dataplane.lake.sql import Answer, answering
from dataplane.lake.views import quoted, view_names

PROMPT, CONTINUED = "dataplane> ", "       ..> "
HELP = r"""\d          the tables
\d TABLE    the columns of a table
\timing     show how long each answer takes, or no longer
\?          this help
\q          leave (as does Ctrl-D); Ctrl-C stops a question
A statement ends with ; and may take several lines. Tab completes names."""
WORD, NO_WORD = re.compile(r"[\w.]+"), re.compile(r"[^\w.]")
AFTER_THESE_A_TABLE = ("from", "join", "describe", "summarize", r"\d")


class NameCompleter(Completer):
    """Completes tables where one has to stand, and elsewhere columns, ``operator.signal``, tables and keywords.

    Args:
        connection: A connection with the views of the lake.
    """

    def __init__(self, connection: Any) -> None:
        tables = dict.fromkeys(view_names(connection), "table")
        names = dict(_columns(connection)) | tables
        keywords = [row[0] for row in connection.execute("SELECT DISTINCT keyword_name FROM duckdb_keywords()").fetchall()]
        self._tables = _words(tables)
        self._all = _words(names | {word.upper(): "keyword" for word in keywords if word not in names})

    def get_completions(self, document: Document, complete_event: CompleteEvent) -> Iterable[Completion]:
        """Yields what the word before the cursor can become."""
        text = document.text_before_cursor
        word = re.split(NO_WORD, text)[-1]
        before = text.removesuffix(word).split()
        completer = self._tables if before and before[-1].lower() in AFTER_THESE_A_TABLE else self._all
        yield from completer.get_completions(Document(word), complete_event)


def _words(meaning: dict[str, str]) -> WordCompleter:
    return WordCompleter(sorted(meaning), ignore_case=True, meta_dict=meaning, pattern=WORD)


def _columns(connection: Any) -> Iterator[tuple[str, str]]:
    """Each column, and each signal as ``operator.signal``, with the table that has it."""
    for table in view_names(connection):
        relation = connection.table(quoted(table))
        for name, kind in zip(relation.columns, relation.types, strict=True):
            yield name, f"column of {table}"
            if kind.id == "struct":
                yield from ((f"{name}.{signal}", f"signal in {table}") for signal, _ in kind.children)


class Repl:
    """The loop.

    Args:
        connection: A connection with the views of the lake.
        show: Prints an answer.
        root: Folder of the project.
        timeout: Seconds that a question may take; None is without end.
        source: Where keys come from; the terminal by default.
        screen: Where the prompt is drawn; the terminal by default.

    Attributes:
        session: The prompt.
    """

    def __init__(
        self,
        connection: Any,
        show: Callable[[Answer], None],
        *,
        root: Path = Path(),
        timeout: float | None = None,
        source: Input | None = None,
        screen: Output | None = None,
    ) -> None:
        self._connection, self._show, self._root, self._timeout = connection, show, root, timeout
        self._timing = False
        self.session: PromptSession[str] = PromptSession(
            PROMPT,
            multiline=True,
            prompt_continuation=CONTINUED,
            key_bindings=_enter_ends_a_statement(),
            completer=NameCompleter(connection),
            complete_while_typing=False,
            lexer=PygmentsLexer(SqlLexer),
            history=open_history(),
            input=source,
            output=screen,
        )

    def run(self) -> None:
        """Asks and answers until the user leaves."""
        sys.stderr.write("\\? shows help, \\q leaves\n")
        while True:
            try:
                line = self.session.prompt().strip()
            except KeyboardInterrupt:
                continue
            except EOFError:
                return
            if line.rstrip(";").strip() == r"\q":
                return
            if line:
                self._obey(line)

    def _obey(self, line: str) -> None:
        """One statement or command; whatever goes wrong in it is said, and the loop goes on."""
        try:
            if line.startswith("\\"):
                self._command(*line.rstrip(";").split())
            else:
                self._answer(line)
        except TerraplaneError as error:
            sys.stderr.write(f"error: {error.render()}\n")
        except KeyboardInterrupt:
            sys.stderr.write("stopped\n")

    def _command(self, name: str, *given: str) -> None:
        if name == r"\timing":
            self._timing = not self._timing
            sys.stderr.write(f"timing is {'on' if self._timing else 'off'}\n")
        elif name == r"\d":
            self._answer(f"DESCRIBE {quoted(given[0])}" if given else _listing(self._connection))
        else:
            sys.stderr.write(HELP + "\n")

    def _answer(self, query: str) -> None:
        started = time.monotonic()
        with answering(self._connection, query, self._root, self._timeout) as answer:
            self._show(answer)
        if self._timing:
            sys.stderr.write(f"{time.monotonic() - started:.3f} s\n")


def _listing(connection: Any) -> str:
    """A question for the names of the tables."""
    rows = ", ".join("('" + name.replace("'", "''") + "')" for name in view_names(connection))
    return f"SELECT * FROM (VALUES {rows}) AS tables(name)"


def _is_complete(text: str) -> bool:
    """Whether there is nothing to ask, a command, or a statement with its semicolon, which no quote or comment holds."""
    if not text or text.startswith("\\"):
        return True
    return [token.text for token in tokens(text)[-1:]] == [";"]


def _enter_ends_a_statement() -> KeyBindings:
    """Enter sends a text that is complete, and else begins a new line."""
    bindings = KeyBindings()

    @Condition
    def complete() -> bool:
        return _is_complete(get_app().current_buffer.text.strip())

    @bindings.add("enter", filter=complete)
    def _(event: KeyPressEvent) -> None:
        event.current_buffer.validate_and_handle()

    return bindings


def open_history() -> History:
    """What was asked before, from the user's cache folder; only that of this time where it cannot be written."""
    folder = Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache").expanduser() / "terraplane"
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError:
        return InMemoryHistory()
    return FileHistory(folder / "sql_history")
