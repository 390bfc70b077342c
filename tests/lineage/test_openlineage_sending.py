"""Where OpenLineage events go: a file or a server, and that telling never costs a run more than a moment."""

import json
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from dataplane.errors import ParamsError
from dataplane.lineage import openlineage
from dataplane.lineage.record import StageRun
from dataplane.settings import load_settings
from dataplane.snapshot import Snapshot

NUMBERS = pa.schema([("n", pa.int64())])
SECRET = "ol-key-4711"


@pytest.fixture
def ready(project: Path) -> Path:
    (project / "params.yaml").write_text("x: 1\n")
    return project


def run_numbers() -> None:
    with StageRun("first", params=("x",)) as run:
        run.write("numbers", NUMBERS, [pa.record_batch({"n": [1, 2]}, schema=NUMBERS)])


def sent(root: Path) -> list[dict[str, Any]]:
    """The events in the project's file."""
    return [json.loads(line) for line in (root / "lake/runs/openlineage.jsonl").read_text().splitlines()]


def kinds(events: list[dict[str, Any]]) -> list[str]:
    return [event["eventType"] for event in events]


class Server:
    """An HTTP server that keeps what it is sent; `answer` is a status, or how it misbehaves."""

    def __init__(self, answer: int | str) -> None:
        self.bodies: list[dict[str, Any]] = []
        self.headers: list[tuple[str, str, str | None]] = []
        self.done = threading.Event()
        outer = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                outer.headers.append((self.path, self.headers["Content-Type"], self.headers["Authorization"]))
                outer.bodies.append(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
                if answer == "hangs":
                    outer.done.wait()
                elif answer == "trickles":
                    self.wfile.write(b"HTTP/1.1 200 OK\r\nX-Slow: ")
                    while not outer.done.wait(0.05):
                        self.wfile.write(b"x")
                else:
                    self.send_response(int(answer))
                    self.send_header("Content-Length", "0")
                    self.end_headers()

            def log_message(self, *args: Any) -> None: ...

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.handle_error = lambda *args: None  # type: ignore[method-assign]  # the client may be gone
        self.thread = threading.Thread(target=self.server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server.server_address[1]}"

    def __enter__(self) -> "Server":
        self.thread.start()
        return self

    def __exit__(self, *error: object) -> None:
        self.done.set()
        self.server.shutdown()
        self.server.server_close()
        self.thread.join()


@pytest.mark.parametrize("path", ["", "/", "/base", "/base/"])
def test_over_http_the_server_gets_the_events_and_the_key(
    ready: Path, path: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("OPENLINEAGE_API_KEY", SECRET)
    with Server(201) as server:
        monkeypatch.setenv("TERRAPLANE_LINEAGE_URL", server.url + path)
        monkeypatch.setenv("TERRAPLANE_LINEAGE_NAMESPACE", "mine")
        run_numbers()
    assert [(event["job"]["namespace"], event["eventType"]) for event in server.bodies] == [("mine", "START"), ("mine", "COMPLETE")]
    assert set(server.headers) == {(path.rstrip("/") + "/api/v1/lineage", "application/json", f"Bearer {SECRET}")}
    assert not (ready / "lake/runs/openlineage.jsonl").exists()
    left = [path for path in ready.rglob("*") if path.is_file() and SECRET.encode() in path.read_bytes()]
    assert (left, SECRET in json.dumps(server.bodies), SECRET in capsys.readouterr().err) == ([], False, False)


@pytest.mark.parametrize(
    ("answer", "fault"), [("hangs", "no answer in time"), ("trickles", "no answer in time"), (500, "HTTP 500"), (401, "HTTP 401")]
)
def test_a_server_that_fails_costs_a_moment_and_a_warning_and_no_event(
    ready: Path, answer: int | str, fault: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    seconds = 0.4 if isinstance(answer, str) else 2.0
    monkeypatch.setattr(openlineage, "SECONDS", seconds)
    with Server(answer) as server:
        monkeypatch.setenv("TERRAPLANE_LINEAGE_URL", server.url)
        began = time.monotonic()
        run_numbers()
        took = time.monotonic() - began
    assert kinds(server.bodies) == ["START", "COMPLETE"]
    assert sent(ready) == server.bodies
    warnings = [line for line in capsys.readouterr().err.splitlines() if line.startswith("warning")]
    assert warnings == [
        f"warning: OpenLineage: the server at lineage.url did not take an event ({fault}); it stands in lake/runs/openlineage.jsonl"
    ]
    assert Snapshot.load("numbers", ready).rows == 2
    assert took < 2 * seconds + 3.0


def test_a_server_that_is_not_there_fails_no_run(ready: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    with Server(201) as server:
        nobody = server.url
    (ready / "settings.yaml").write_text(f"lineage: {{url: '{nobody}'}}\n")
    run_numbers()
    assert kinds(sent(ready)) == ["START", "COMPLETE"]
    assert capsys.readouterr().err.count("did not take an event (ConnectionError)") == 1


def test_a_file_that_cannot_be_written_fails_no_run(ready: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (ready / "lake/runs/openlineage.jsonl").mkdir(parents=True)
    run_numbers()
    assert Snapshot.load("numbers", ready).rows == 2
    assert capsys.readouterr().err.splitlines()[0] == "warning: OpenLineage: no event was written (IsADirectoryError)"


def test_off_means_no_event(ready: Path) -> None:
    (ready / "settings.yaml").write_text("lineage: {openlineage: off, url: 'http://localhost:1'}\n")
    run_numbers()
    assert [path.name for path in (ready / "lake/runs").iterdir() if path.suffix != ".json"] == []


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("", "file"),
        ("lineage: {namespace: mine}", "file"),
        ("lineage: {url: 'http://localhost:5000'}", "http"),
        ("lineage: {openlineage: file, url: 'http://localhost:5000'}", "file"),
        ("lineage: {openlineage: off}", "off"),
        ("lineage: {openlineage: 'off'}", "off"),
    ],
)
def test_a_url_alone_means_http_and_a_bare_off_means_off(tmp_path: Path, text: str, kind: str) -> None:
    (tmp_path / "settings.yaml").write_text(text)
    assert load_settings(tmp_path).lineage.openlineage == kind


@pytest.mark.parametrize("url", ["", "localhost:5000", "ftp://localhost", "http://"])
def test_http_needs_a_url(tmp_path: Path, url: str) -> None:
    (tmp_path / "settings.yaml").write_text(f"lineage: {{openlineage: http, url: '{url}'}}")
    with pytest.raises(ParamsError, match="needs a url that begins with http"):
        load_settings(tmp_path)


@pytest.mark.parametrize("url", ["http://me:{}@localhost:5000", "me:{}@localhost", "http://{}@[", "http://{}@localhost"])
def test_a_credential_in_the_url_is_refused_and_not_repeated(tmp_path: Path, url: str) -> None:
    (tmp_path / "settings.yaml").write_text(f"lineage: {{url: '{url.format(SECRET)}'}}")
    with pytest.raises(ParamsError, match="holds a user or a password") as error:
        load_settings(tmp_path)
    assert SECRET not in error.value.render()
    assert "OPENLINEAGE_API_KEY" in error.value.fix


def test_lines_of_many_writers_stay_whole(tmp_path: Path) -> None:
    path = tmp_path / "events.jsonl"
    lines = [json.dumps({"writer": i, "filler": str(i) * 100_000}) for i in range(8)]

    def write(line: str) -> None:
        for _ in range(5):
            openlineage.append_line(path, line)

    threads = [threading.Thread(target=write, args=(line,)) for line in lines]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(path.read_text().splitlines()) == sorted(lines * 5)


def test_a_line_cut_short_spoils_no_other(tmp_path: Path) -> None:
    path = tmp_path / "events.jsonl"
    path.write_text('{"whole": 1}\n{"cut sho')
    openlineage.append_line(path, '{"whole": 2}')
    openlineage.append_line(path, '{"whole": 3}')
    assert path.read_text() == '{"whole": 1}\n{"cut sho\n{"whole": 2}\n{"whole": 3}\n'
