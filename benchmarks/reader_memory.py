"""Peak memory and speed of each source on one large synthetic file: `python benchmarks/reader_memory.py [--gb 1] [--only csv]`.

Each file is made in a temporary folder, read in a process of its own, and taken away. One JSON line a format.
"""

import sys
from pathlib import Path

if __package__ in (None, ""):  # run by its path: tokenize.py must not hide the standard library's
    sys.path[0] = str(Path(__file__).parents[1])

import argparse
import csv
import gzip
import itertools
import json
import resource
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator

import pyarrow as pa
import pyarrow.parquet as pq

PARAGRAPH = "A line of plain text about nothing in particular, 以及一些中文。 "
ROWS_AT_ONCE = 2000
PAGE = "<page><title>T{i}</title><ns>0</ns><id>{i}</id><revision><id>{i}</id><text>{text}</text></revision></page>\n"


def texts() -> Iterator[str]:
    """Endless documents of some 7 KB."""
    return (f"{n} {PARAGRAPH * 80}" for n in itertools.count())


def write_lines(path: Path, size: int, line: Callable[[int, str], str], head: str = "", tail: str = "") -> None:
    with path.open("w", encoding="utf-8", newline="") as file:
        file.write(head)
        for i, text in enumerate(itertools.takewhile(lambda _: file.tell() < size, texts())):
            file.write(line(i, text))
        file.write(tail)


def write_csv(path: Path, size: int) -> None:
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["id", "text"])
        for i, text in enumerate(itertools.takewhile(lambda _: file.tell() < size, texts())):
            writer.writerow([i, text.replace("以", '"\n')])


def tables(size: int) -> Iterator[pa.Table]:
    table = pa.table({"text": list(itertools.islice(texts(), ROWS_AT_ONCE))})
    yield from (table for _ in range(max(1, size // table.nbytes)))


def write_parquet(path: Path, size: int) -> None:
    with pq.ParquetWriter(path, pa.schema({"text": pa.string()}), compression="none", use_dictionary=False) as writer:
        for table in tables(size):
            writer.write_table(table)


def write_arrow(path: Path, size: int) -> None:
    with pa.OSFile(str(path), "wb") as sink, pa.ipc.new_stream(sink, pa.schema({"text": pa.string()})) as writer:
        for table in tables(size):
            writer.write_table(table)


def warc(i: int, text: str) -> str:
    block = f"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\n\r\n<p>{text}</p>"
    head = f"WARC/1.0\r\nWARC-Type: response\r\nWARC-Target-URI: http://h.test/{i}\r\nWARC-Date: 2024-01-01T00:00:00Z\r\n"
    return f"{head}Content-Type: application/http; msgtype=response\r\nContent-Length: {len(block.encode())}\r\n\r\n{block}\r\n\r\n"


def arc(i: int, text: str) -> str:
    block = f"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\n\r\n<p>{text}</p>"
    return f"http://h.test/{i} 1.2.3.4 20240101000000 text/html {len(block.encode())}\n{block}\n"


def write_warc_gz(path: Path, size: int) -> None:
    """Gzipped by record; `size` is that of the records."""
    with path.open("wb") as file:
        members = [gzip.compress(warc(i, text).encode(), 1) for i, text in enumerate(itertools.islice(texts(), 500))]
        one = sum(len(warc(0, PARAGRAPH * 80).encode()) for _ in members)
        for _ in range(max(1, size // one)):
            file.write(b"".join(members))


WRITERS: dict[str, tuple[str, Callable[[Path, int], None]]] = {
    "jsonl": ("a.jsonl", lambda path, size: write_lines(path, size, lambda i, text: json.dumps({"text": text}) + "\n")),
    "json": ("a.json", lambda path, size: write_lines(path, size, lambda i, text: json.dumps({"text": text}) + ",\n", "[", "{}]")),
    "csv": ("a.csv", write_csv),
    "parquet": ("a.parquet", write_parquet),
    "hub": ("a.arrow", write_arrow),
    "mediawiki": ("a.xml", lambda path, size: write_lines(path, size, lambda i, text: PAGE.format(i=i, text=text), "<w>", "</w>")),
    "text": ("a.txt", lambda path, size: write_lines(path, size, lambda i, text: f"{text}\n%\n")),
    "warc": ("a.warc", lambda path, size: write_lines(path, size, warc)),
    "warc.gz": ("a.warc.gz", write_warc_gz),
    "arc": ("a.arc", lambda path, size: write_lines(path, size, arc)),
}  # fmt: skip


def read(path: Path) -> dict[str, object]:
    """Reads the file as ingest does, and tells what it took."""
    from dataplane.sources.files import expand, parse_specs
    from dataplane.sources.records import Reader

    options = {"split": "%"} if path.suffix == ".txt" else {}
    specs = parse_specs([{"name": "s", "kind": "k", "paths": [str(path)], "options": options}])
    (file,) = expand(specs)
    start = time.process_time()
    counts = {"raw": 0, "ingest_quarantine": 0}
    for table, batch in Reader(specs[0], file, "run").batches():
        counts[table] += len(batch)
    seconds = time.process_time() - start
    peak_mb = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    size_mb = path.stat().st_size / 1e6
    return {"mb": round(size_mb), "peak_mb": round(peak_mb), "mb_per_second": round(size_mb / seconds, 1), **counts}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--gb", type=float, default=1.0)
    parser.add_argument("--only", choices=sorted(WRITERS))
    parser.add_argument("--quick", action="store_true", help="50 MB instead")
    parser.add_argument("--read", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.read:
        print(json.dumps(read(options.read)))
        return
    size = 50_000_000 if options.quick else int(options.gb * 1e9)
    for name, (file_name, write) in WRITERS.items():
        if options.only in (None, name):
            with tempfile.TemporaryDirectory() as folder:
                path = Path(folder) / file_name
                write(path, size)
                done = subprocess.run([sys.executable, __file__, "--read", str(path)], capture_output=True, text=True, check=True)
                print(json.dumps({"name": f"read {name}", **json.loads(done.stdout)}), flush=True)


if __name__ == "__main__":
    main()
