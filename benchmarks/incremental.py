"""What one per cent of new documents costs, against a run from nothing over all of them; the digests have to be equal.

One project: a run from nothing over all files, a run without the file of new documents, the history removed, and the run that
is measured, with the file back.

    python benchmarks/incremental.py [--quick] [--plain] [--corpus FOLDER] [--copies N]

Prints one JSON line for each stage and one for all of them. The corpus is a crawl: texts of the packaged sample as web pages with the
menus and footers that such pages have, and as much text as a page of C4 has in the mean. They are multiplied by shuffling the words of
each line, so that a copy has the letters and lengths of real text and is no duplicate. Or it is the files below FOLDER: texts, or web
pages that keep their own markup and are multiplied by shuffling the words between two tags. The pages made of the packaged sample have
10 kB, and those of Common Crawl 164 kB in the mean (CC-MAIN-2024-51: 394 TiB, 2.64 billion pages), so real pages say more.
`--plain` takes single texts and leaves the markup out, which makes a whole run cheap and the passes over all ids dear beside it. The
language model and the tokenizer are frozen, as they have to be where a corpus grows: otherwise new text changes every score.
"""

from __future__ import annotations

import sys
from pathlib import Path

if __package__ in (None, ""):  # run by its path: tokenize.py must not hide the standard library's
    sys.path[0] = str(Path(__file__).parents[1])

import argparse
import html
import json
import os
import platform
import random
import re
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import yaml

from dataplane import lockfile
from dataplane.snapshot import Snapshot, open_store, tables
from dataplane.sources.decode import decode

ROOT = Path(__file__).parents[1]
STAGES = ("ingest", "train_lm", "clean", "select", "dedup", "decontaminate", "mix", "tokenizer", "tokenize", "pack")
FILES = 100  # of the base; the new documents are one more
NEW_SHARE = 0.01
# Of text. C4: about 750 GB (Raffel et al. 2020, arXiv:1910.10683) in 365 million documents (Dodge et al. 2021, arXiv:2104.08758).
PAGE_BYTES = 2_000
HTML = "text/html"
_PARTS = re.compile(r"(?is)<(script|style|noscript|textarea|svg)\b.*?</\1\s*>|<!--.*?-->|<[^>]*>|[^<]+|<")
STYLE = "body { font: 16px/1.5 serif; margin: 2em auto; max-width: 40em } nav li { display: inline }\n" * 20


def documents(folder: Path) -> Iterator[str]:
    """The texts or pages of a project's `raw`."""
    for batch in Snapshot.load("raw", folder).batches(["payload", "mime", "charset"], batch_size=512):
        for row in batch.to_pylist():
            yield decode(row["payload"], row["mime"], row["charset"]).text


def of_pages(folder: Path) -> bool:
    """Whether all documents of a project's `raw` are web pages."""
    return set(Snapshot.load("raw", folder).to_table(columns=["mime"]).column("mime").to_pylist()) == {HTML}


def joined(texts: Iterable[str], size: int) -> Iterator[str]:
    """Neighbouring texts in one, as soon as they have so many bytes."""
    parts: list[str] = []
    for text in texts:
        parts.append(text)
        if sum(len(part.encode()) for part in parts) >= size:
            yield "\n".join(parts)
            parts = []
    if parts:
        yield "\n".join(parts)


def multiplied(texts: Iterable[str], copies: int, shuffle: Callable[[str, int], str]) -> Iterator[str]:
    """Each text, and `copies` - 1 shuffled versions of it."""
    for text in texts:
        yield text
        yield from (shuffle(text, seed) for seed in range(1, copies))


def shuffled(text: str, seed: int) -> str:
    """The words of each line in another order; characters, where there are no spaces."""
    rng = random.Random(f"{seed}{text[:64]}")
    return "\n".join(_mixed(line, rng) for line in text.split("\n"))


def shuffled_page(page: str, seed: int) -> str:
    """The words of each stretch of text in another order; tags, scripts, styles and comments as they are."""
    rng = random.Random(f"{seed}{page[:64]}")
    return _PARTS.sub(lambda found: found[0] if found[0].startswith("<") else _around(found[0], rng), page)


def _around(text: str, rng: random.Random) -> str:
    """Text between two tags, mixed but for the white space at its ends."""
    inner = text.strip()
    return text.replace(inner, _mixed(" ".join(inner.split()), rng), 1) if inner else text


def _mixed(line: str, rng: random.Random) -> str:
    parts = line.split(" ")
    parts = parts if len(parts) > 3 else list(line)
    rng.shuffle(parts)
    return (" " if len(parts) > 3 and " " in line else "").join(parts)


def web_page(text: str) -> str:
    """The text in a page with a head, a menu, a side bar and a footer."""
    title = html.escape(text[:60].replace("\n", " "))
    links = "".join(f'<li><a href="/{i}">Section {i}</a></li>' for i in range(20))
    paragraphs = "".join(f"<p>{html.escape(line)}</p>\n" for line in text.split("\n") if line.strip())
    return (
        f'<!DOCTYPE html><html><head><meta charset="utf-8"><title>{title}</title><style>{STYLE}</style></head><body>'
        f'<nav class="menu"><ul>{links}</ul></nav><main><article><h1>{title}</h1>\n{paragraphs}</article></main>'
        f'<aside class="sidebar"><ul>{links}</ul></aside><footer>Contact · Imprint · Cookies</footer></body></html>'
    )


def run(folder: Path, stage: str) -> float:
    """Seconds that a stage took as a process of its own, start-up included."""
    started = time.perf_counter()
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    done = subprocess.run(
        [sys.executable, "-m", f"dataplane.stages.{stage}"], cwd=folder, env=environment, stderr=subprocess.PIPE, check=False
    )
    if done.returncode:
        raise SystemExit(done.stderr.decode())
    return time.perf_counter() - started


def project(folder: Path, sources: list[dict[str, Any]], **changes: Any) -> None:
    """Writes the repository's params for these sources."""
    params = yaml.safe_load((ROOT / "params.yaml").read_text(encoding="utf-8"))
    params["sources"] = sources
    params["decontaminate"]["benchmarks"] = []
    params["mix"] = {}
    params["train_lm"] = {"sources": [], **changes.get("train_lm", {})}
    params["tokenizer"] |= changes.get("tokenizer", {})
    (folder / "params.yaml").write_text(yaml.safe_dump({key: params[key] for key in ("sources", *STAGES[1:], "select") if key in params}))
    lockfile.write(folder)


def sample(folder: Path, fraction: float) -> None:
    """Makes `raw` of the packaged sample."""
    folder.mkdir()
    params = yaml.safe_load((ROOT / "params.yaml").read_text(encoding="utf-8"))
    params["sample"]["fraction"] = fraction
    (folder / "params.yaml").write_text(yaml.safe_dump(params))
    lockfile.write(folder)
    run(folder, "sample")
    run(folder, "ingest")


def lay_out(folder: Path, texts: Iterable[str]) -> int:
    """Deals the texts to the files of the base, one in a hundred to the file that comes later; their number."""
    rng, count = random.Random(0), 0
    (folder / "data").mkdir(parents=True)
    streams = [(folder / "data" / f"{i:03}.jsonl").open("w", encoding="utf-8") for i in range(FILES)]
    with (folder / "late.jsonl").open("w", encoding="utf-8") as late:
        for text in texts:
            target = late if rng.random() < NEW_SHARE else rng.choice(streams)
            target.write(json.dumps({"text": text}, ensure_ascii=False) + "\n")
            count += 1
    for stream in streams:
        stream.close()
    return count


def digests(folder: Path) -> dict[str, str]:
    """Table -> digest."""
    return {table: Snapshot.load(table, folder).digest for table in tables(folder)}


def main() -> None:
    """Runs the benchmark and prints its rows."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="A small corpus; start-up of the stages is most of the time.")
    parser.add_argument("--plain", action="store_true", help="Texts without markup.")
    parser.add_argument("--corpus", type=Path, help="Folder of raw files instead of the packaged sample.")
    parser.add_argument("--copies", type=int, default=1, help="How often the corpus is repeated, shuffled.")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        copies, fraction = (1, 0.05) if given.quick else (given.copies, 1.0)
        for row in compare(Path(name), given.corpus, copies, fraction, as_pages=not given.plain and not given.corpus):
            print(json.dumps(row), flush=True)


def compare(work: Path, corpus: Path | None, copies: int, fraction: float, *, as_pages: bool) -> Iterator[dict[str, Any]]:
    """The rows: each stage over the grown corpus, after a run over the base and from nothing."""
    if corpus is None:
        sample(work / "sample", fraction)
    else:
        (work / "sample").mkdir()
        project(work / "sample", [{"name": "given", "kind": "prose", "paths": [f"{corpus.resolve()}/**"]}])
        run(work / "sample", "ingest")
    folder = work / "project"
    texts, pages = documents(work / "sample"), of_pages(work / "sample")
    if as_pages:
        crawl: Iterator[str] = map(web_page, multiplied(joined(texts, PAGE_BYTES), copies, shuffled))
    else:
        crawl = multiplied(texts, copies, shuffled_page if pages else shuffled)
    count = lay_out(folder, crawl)
    late = folder / "data/050-late.jsonl"
    (folder / "late.jsonl").rename(late)
    freeze(folder, work / "sample")
    mime = HTML if pages or as_pages else "text/plain"
    source = [{"name": "text", "kind": "web", "paths": ["data/*.jsonl"], "options": {"mime": mime}}]
    project(folder, source, train_lm={"model": "frozen/model.npz"}, tokenizer={"path": "frozen/tokenizer.json"})
    whole = {stage: run(folder, stage) for stage in STAGES}
    wanted = digests(folder)
    late.rename(folder / "late.jsonl")
    for stage in STAGES:
        run(folder, stage)
    drop_history(folder)
    (folder / "late.jsonl").rename(late)
    new = {stage: run(folder, stage) for stage in STAGES}
    equal = digests(folder) == wanted
    for stage in STAGES:
        yield _row(f"{stage}: 1% new", new[stage], whole[stage], count)
    yield _row("data stages: 1% new", sum(new.values()), sum(whole.values()), count) | {"digests_equal": equal}
    if not equal:
        raise SystemExit("the digests differ")


def freeze(folder: Path, sample_folder: Path) -> None:
    """Trains the language model and the tokenizer on the packaged sample, or on the given corpus, once."""
    specs = yaml.safe_load((sample_folder / "params.yaml").read_text(encoding="utf-8"))["sources"]
    project(sample_folder, specs)
    for stage in STAGES[1:8]:
        run(sample_folder, stage)
    (folder / "frozen").mkdir()
    (sample_folder / "models/ngram_lm/model.npz").rename(folder / "frozen/model.npz")
    (sample_folder / "models/tokenizer/tokenizer.json").rename(folder / "frozen/tokenizer.json")


def drop_history(folder: Path) -> None:
    """Removes every version but the current ones, so that nothing of the whole run can serve again."""
    store = open_store(folder)
    for table in tables(folder):
        current = Snapshot.load(table, folder).digest
        store.drop(table, [version.digest for version in store.versions(table) if version.digest != current])


def _row(name: str, ours: float, peer: float, count: int) -> dict[str, Any]:
    return {
        "name": name, "ours": round(ours, 2), "peer": round(peer, 2), "peer_name": "run from nothing", "peer_version": lockfile_version(),
        "ratio": round(ours / peer, 4), "unit": "s", "documents": count, "python": platform.python_version(), "cpus": os.cpu_count(),
    }  # fmt: skip


def lockfile_version() -> str:
    """The version that is measured."""
    from importlib.metadata import version

    return version("terraplane")


if __name__ == "__main__":
    main()
