"""A real S3 server (SeaweedFS) on free local ports, and a gateway before it that counts requests and answers with faults."""

import http.client
import json
import os
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import parse_qs, unquote, urlsplit

BUCKET = "lake-tests"
KEY, SECRET = "AKTERRAPLANE", "kept-to-itself-0123456789"
START_SECONDS = 60
BUSY = b"<?xml version='1.0'?><Error><Code>SlowDown</Code><Message>Please reduce your request rate.</Message></Error>"


def environment(url: str, prefix: str, form: str) -> dict[str, str]:
    """What puts a project's lake on the server, and keeps the credentials of whoever runs the tests out of it."""
    return {
        "AWS_ACCESS_KEY_ID": KEY, "AWS_SECRET_ACCESS_KEY": SECRET, "AWS_ENDPOINT_URL": url, "AWS_EC2_METADATA_DISABLED": "true",
        "AWS_CONFIG_FILE": os.devnull, "AWS_SHARED_CREDENTIALS_FILE": os.devnull, "TERRAPLANE_LAKE_DVC": "referenced",
        "TERRAPLANE_LAKE_URI": f"s3://{BUCKET}/{prefix}", "TERRAPLANE_LAKE_FORMAT": form,
    }  # fmt: skip


def free_ports(count: int) -> list[int]:
    """Ports that nobody listens on."""
    sockets = [socket.socket() for _ in range(count)]
    for one in sockets:
        one.bind(("127.0.0.1", 0))
    ports = [one.getsockname()[1] for one in sockets]
    for one in sockets:
        one.close()
    return ports


@contextmanager
def serve(folder: Path) -> Iterator[int]:
    """Runs a server that keeps its objects in `folder`; gives its port."""
    identity = {"name": "lake", "credentials": [{"accessKey": KEY, "secretKey": SECRET}], "actions": ["Admin", "Read", "Write", "List"]}
    (folder / "s3.json").write_text(json.dumps({"identities": [identity]}))
    names = [
        "master.port",
        "master.port.grpc",
        "volume.port",
        "volume.port.grpc",
        "filer.port",
        "filer.port.grpc",
        "s3.port.grpc",
        "s3.port",
    ]
    ports = dict(zip(names, free_ports(len(names)), strict=True))
    options = {
        "dir": folder, "ip": "127.0.0.1", "ip.bind": "127.0.0.1", "master.telemetry": "false", "master.volumeSizeLimitMB": 64,
        "volume.max": 100, "volume.preStopSeconds": 0, "filer": "true", "s3": "true", "s3.config": folder / "s3.json", "s3.iam": "false",
        "s3.autoCreateBucket": "false", "s3.port.iceberg": 0, "s3.port.lance": 0,
    }  # fmt: skip
    with (folder / "log").open("wb") as log:
        command = [
            Path(sys.executable).with_name("weed"),
            "-logtostderr=true",
            "server",
            *(f"-{name}={value}" for name, value in (options | ports).items()),
        ]
        process = subprocess.Popen(command, stdout=log, stderr=subprocess.STDOUT)
    try:
        _wait_until_answered(process, ports["s3.port"], folder / "log")
        yield ports["s3.port"]
    finally:
        process.kill()
        process.wait()


def _wait_until_answered(process: subprocess.Popen[bytes], port: int, log: Path) -> None:
    """Creates the bucket as soon as the server lets it be created."""
    import botocore.session
    from botocore.exceptions import BotoCoreError, ClientError

    session = botocore.session.get_session()
    s3 = session.create_client(
        "s3", "us-east-1", endpoint_url=f"http://127.0.0.1:{port}", aws_access_key_id=KEY, aws_secret_access_key=SECRET
    )
    stop = time.monotonic() + START_SECONDS
    with closing(s3):
        while True:
            try:
                s3.create_bucket(Bucket=BUCKET)
                s3.put_object(Bucket=BUCKET, Key="ready", Body=b"")
                return
            except (BotoCoreError, ClientError):
                if process.poll() is not None or time.monotonic() > stop:
                    raise RuntimeError(f"the S3 server did not start:\n{log.read_text(errors='replace')[-4000:]}") from None
                time.sleep(0.1)


@dataclass(frozen=True)
class Request:
    """What a client asked.

    Attributes:
        method: HTTP method.
        key: Object key, or for a listing its prefix.
        listing: Whether it asked for the names under a prefix.
        sent: Bytes of the body that it was answered with.
    """

    method: str
    key: str
    listing: bool
    sent: int


class Gateway:
    """Hands requests on to the server.

    Attributes:
        url: What AWS_ENDPOINT_URL is set to.
        requests: What was asked, in the order of the answers.
        busy: How many of the next requests are answered with `fault` instead.
        fault: Status and body.
        before: Called with method and key before a request is handed on.
    """

    def __init__(self, upstream: int) -> None:
        self.upstream = upstream
        self.requests: list[Request] = []
        self.busy = 0
        self.fault = (503, BUSY)
        self.before: Callable[[str, str], None] = lambda method, key: None
        self._lock = threading.Lock()

    @contextmanager
    def running(self) -> Iterator["Gateway"]:
        """Listens while the context lasts."""
        server = ThreadingHTTPServer(("127.0.0.1", 0), type("Handler", (_Handler,), {"gateway": self}))
        server.daemon_threads = True
        self.url = f"http://127.0.0.1:{server.server_address[1]}"
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)
        thread.start()
        try:
            yield self
        finally:
            server.shutdown()
            server.server_close()
            thread.join()

    def answer(self, method: str, path: str, headers: dict[str, str], body: bytes) -> tuple[int, dict[str, str], bytes]:
        """Status, headers and body for a request."""
        key, listing = _asked(path)
        with self._lock:
            refused = self.busy > 0
            self.busy -= refused
        if refused:
            status, said = self.fault
            return status, {"Content-Type": "application/xml", "Content-Length": str(len(said))}, said
        self.before(method, key)
        connection = http.client.HTTPConnection("127.0.0.1", self.upstream, timeout=60)
        with closing(connection):
            connection.request(method, path, body or None, headers)
            reply = connection.getresponse()
            found = reply.read()
        self.requests.append(Request(method, key, listing, len(found)))
        return reply.status, dict(reply.getheaders()), found


def _asked(path: str) -> tuple[str, bool]:
    """The key that a request is about, and whether it lists."""
    parts = urlsplit(path)
    query = parse_qs(parts.query)
    key = unquote(parts.path).removeprefix(f"/{BUCKET}").lstrip("/")
    return (query.get("prefix", [""])[0], True) if "list-type" in query else (key, False)


class _Handler(BaseHTTPRequestHandler):
    """One connection to a gateway."""

    gateway: Gateway
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True  # headers and body go out apart, and would wait 40 ms for each other

    def handle_request(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        status, headers, found = self.gateway.answer(self.command, self.path, dict(self.headers.items()), body)
        self.send_response_only(status)
        for name, value in headers.items():
            if name.lower() not in ("transfer-encoding", "connection"):
                self.send_header(name, value)
        if "content-length" not in {name.lower() for name in headers}:
            self.send_header("Content-Length", str(len(found)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(found)

    do_GET = do_PUT = do_POST = do_DELETE = do_HEAD = handle_request

    def log_message(self, format: str, *args: object) -> None:
        """Says nothing."""
