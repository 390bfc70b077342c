"""Sends the events of runs, in the format of OpenLineage: to a file of the project, or over HTTP to a server.

An event that cannot be sent never fails a run and holds it up for two seconds at most; what a server did not take
is kept in the file.
"""

from __future__ import annotations

import errno
import fcntl
import json
import os
import sys
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from dataplane.engine.journal import FOLDER as JOURNAL_FOLDER
from dataplane.lake.objectstore import write_atomically
from dataplane.lineage.openlineage_event import run_event
from dataplane.settings import LineageSettings
from dataplane.snapshot import LAKE

FILE = "openlineage.jsonl"
API_KEY = "OPENLINEAGE_API_KEY"
SECONDS = 2.0


class Events:
    """The events of one run.

    Args:
        settings: Where they go.
        stage: Name of the stage, whose lock the caller holds.
        root: Folder of the project.
    """

    def __init__(self, settings: LineageSettings, stage: str, root: Path = Path()) -> None:
        self.settings, self.root = settings, root
        self._begun = root / JOURNAL_FOLDER / f"{stage}.begun"
        self._warned = False

    def send(self, record: Mapping[str, Any]) -> None:
        """Sends the event of a record. A run that begins also ends, in the eyes of the readers, the one that was killed before it."""
        if self.settings.openlineage == "off":
            return
        try:
            if record["status"] == "RUNNING":
                self._begin(record["run_id"])
            self._send(record)
            if record["status"] != "RUNNING":
                self._begun.unlink(missing_ok=True)
        except Exception as error:  # noqa: BLE001 - a run is worth more than the news of it
            self._warn(f"no event was written ({type(error).__name__})")

    def _begin(self, run_id: str) -> None:
        killed = _record(self.root, self._begun)
        if killed and killed["status"] == "RUNNING":
            self._send(killed | {"status": "ABORT"})
        write_atomically(self._begun, run_id, self._begun.name)

    def _send(self, record: Mapping[str, Any]) -> None:
        event = run_event(record, namespace=self.settings.namespace, root=self.root)
        if self.settings.openlineage == "http":
            fault = _within(SECONDS, lambda: _post(self.settings.url, event))
            if not fault:
                return
            self._warn(f"the server at lineage.url did not take an event ({fault}); it stands in {LAKE}/runs/{FILE}")
        append_line(self.root / LAKE / "runs" / FILE, json.dumps(event, sort_keys=True))

    def _warn(self, message: str) -> None:
        if not self._warned:
            sys.stderr.write(f"warning: OpenLineage: {message}\n")
            self._warned = True


def _record(root: Path, begun: Path) -> dict[str, Any] | None:
    """The record of the run that began last and of whose end nothing was sent."""
    try:
        run_id = begun.read_text(encoding="utf-8")
        return dict(json.loads((root / LAKE / "runs" / f"{run_id}.json").read_text(encoding="utf-8")))
    except (FileNotFoundError, ValueError):
        return None


def _within(seconds: float, send: Any) -> str:
    """What went wrong, in a word that holds no part of the request; empty where it was sent in time.

    A thread of its own, for a request's timeout bounds neither the look-up of a name nor an answer that trickles in.
    """
    fault = ["no answer in time"]

    def run() -> None:
        try:
            send()
            fault[0] = ""
        except Exception as error:  # noqa: BLE001 - whatever it is, it is told by its class alone
            status = getattr(getattr(error, "response", None), "status_code", None)
            fault[0] = f"HTTP {status}" if status else type(error).__name__

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    thread.join(seconds)
    return fault[0]


def _post(url: str, event: Any) -> None:
    from openlineage.client.transport.http import ApiKeyTokenProvider, HttpConfig, HttpTransport, TokenProvider

    key = os.environ.get(API_KEY)
    auth = ApiKeyTokenProvider({"api_key": key}) if key else TokenProvider({})
    # No retries, for the run waits; and a path in the url is part of it only where a slash follows. Nobody waits for the timeout: it ends
    # the thread some time behind the deadline of `_within`, which else would race with it for the name of the fault.
    config = HttpConfig(url=url.rstrip("/") + "/", timeout=2 * SECONDS, auth=auth, retry={"total": 0})
    transport = HttpTransport(config)
    try:
        transport.emit(event)
    finally:
        transport.close()


def append_line(path: Path, line: str) -> None:
    """Appends a line in one write, so that lines of two runs never mix; one that a full disk cut short is ended first."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("ab+", buffering=0) as stream:
        fcntl.flock(stream, fcntl.LOCK_EX)
        size = stream.seek(0, os.SEEK_END)
        stream.seek(max(size - 1, 0))
        torn = stream.read(1) not in (b"", b"\n")
        data = b"\n" * torn + line.encode() + b"\n"
        if stream.write(data) < len(data):
            raise OSError(errno.ENOSPC, "only a part was written", str(path))
