"""Lines that repeat over a site: found as a plain count finds them, taken out on that site alone, and fitted by a command."""

import json
from collections import defaultdict
from pathlib import Path

import pyarrow as pa
import pytest
import yaml
from click.testing import CliRunner
from hypothesis import given, settings
from hypothesis import strategies as st

from dataplane import schema
from dataplane.cli import main
from dataplane.corpus.site_lines import SiteLinesParams, fit
from dataplane.errors import ModelMissing, ParamsError
from dataplane.kernels.line_edits import cut
from dataplane.kernels.site_lines import line_keys
from dataplane.testing import Example, conformance
from dataplane.transforms.site_lines import SiteLineRemoval

LINES = st.sampled_from(["menu", " Menu", "3 comments", "12 Comments", "text", "正文", "菜单", "", " ", "a b"])
PAGES = st.lists(
    st.tuples(st.sampled_from(["a.com", "www.a.com", "b.co.uk", None]), st.lists(LINES, max_size=6).map("\n".join)), max_size=12
)


def pages(rows: list[tuple[str | None, str]]) -> pa.RecordBatch:
    urls = [f"http://{host}/x" if host else None for host, _ in rows]
    return pa.record_batch({"text": pa.array([text for _, text in rows], pa.large_string()), "url": pa.array(urls, pa.string())})


def fold(line: str) -> str:
    line = line.strip().lower()
    return "0 comments" if line.endswith(" comments") else line


def repeated_by_hand(rows: list[tuple[str | None, str]], min_pages: int) -> set[tuple[str, str]]:
    texts = defaultdict(set)
    for host, text in rows:
        for line in text.splitlines():
            if host and line.strip():
                texts[host.removeprefix("www."), fold(line)].add(text)
    return {line for line, found in texts.items() if len(found) >= min_pages}


def removal(batch: pa.RecordBatch, path: Path, **params: object) -> list[str]:
    operator = SiteLineRemoval({"path": str(path), **params})
    operator.open()
    made: list[str] = operator.transform(batch).text.to_pylist()
    return made


@settings(max_examples=40)  # each writes files
@given(rows=PAGES, split=st.integers(0, 12), min_pages=st.integers(2, 4))
def test_repeated_lines_are_those_of_a_plain_count(rows: list[tuple[str | None, str]], split: int, min_pages: int) -> None:
    batch = pages(rows)
    found = fit([batch.slice(0, split), batch.slice(split)], SiteLinesParams(min_pages=min_pages))
    expected = sorted(repeated_by_hand(rows, min_pages))
    sites = pa.array([site for site, _ in expected], pa.string())
    keys, _ = line_keys(cut(pa.array([line for _, line in expected], pa.large_string())), sites)
    assert sorted(found.lines.keys.tolist()) == sorted(keys.tolist())


@pytest.fixture
def corpus(tmp_path: Path) -> tuple[pa.RecordBatch, Path]:
    rows = [("www.paper.com", f"Home News Sport\n\nStory {word} is told here.\n\nShare this page") for word in "abcdefghijkl"]
    rows += [("other.com", "Home News Sport\nanother text"), (None, "Home News Sport")]
    fit([pages(rows)], SiteLinesParams(min_pages=10)).lines.save(tmp_path / "lines.npy")
    return pages(rows), tmp_path / "lines.npy"


def test_lines_go_on_the_site_that_repeats_them_and_nowhere_else(corpus: tuple[pa.RecordBatch, Path]) -> None:
    batch, path = corpus
    assert removal(batch, path) == [
        *(f"Story {word} is told here." for word in "abcdefghijkl"), "Home News Sport\nanother text", "Home News Sport",
    ]  # fmt: skip


def test_removed_share_is_that_of_the_words(corpus: tuple[pa.RecordBatch, Path]) -> None:
    batch, path = corpus
    operator = SiteLineRemoval({"path": str(path)})
    operator.open()
    made = operator.transform(batch.slice(11))
    assert made.signals["removed_share"].to_pylist() == [pytest.approx(6 / 11), 0.0, 0.0]
    assert made.edits["site_line"].to_pylist() == [2, 0, 0]


def test_a_page_that_was_crawled_often_is_one_page() -> None:
    rows = [("a.com", "Its only text")] * 20
    assert fit([pages(rows)], SiteLinesParams(min_pages=2)).lines.keys.tolist() == []


def test_hosts_of_one_domain_are_one_site_or_several() -> None:
    rows = [(host, f"Menu\ntext {host}") for host in ("a.site.com", "b.site.com")]
    found = {by: len(fit([pages(rows)], SiteLinesParams(by=by, min_pages=2)).lines.keys) for by in ("domain", "host")}
    assert found == {"domain": 1, "host": 0}


def test_the_command_fits_on_what_the_operators_above_leave(project: Path, put) -> None:  # type: ignore[no-untyped-def]
    html = "<html><body><p>Story {} is told here, and it has an end that nobody expected.</p><p>All of our papers</p></body></html>"
    rows = [
        {
            "doc_id": f"{i:032x}", "source": "web", "kind": "web", "url": f"http://paper.com/{i}", "mime": "text/html",
            "payload": html.format(chr(97 + i)).encode(),
        }
        for i in range(12)
    ]  # fmt: skip
    put("raw", pa.Table.from_pylist(rows, schema=schema.RAW))
    steps = [{"use": "html_text", "when": "mime = 'text/html'"}, {"use": "site_lines", "params": {"path": "models/site_lines.npy"}}]
    Path("params.yaml").write_text(yaml.safe_dump({"clean": {"pipeline": steps}}))
    done = CliRunner().invoke(main, ["fit-site-lines", "--out", "models/site_lines.npy", "--json"])
    assert done.exit_code == 0, done.output
    assert json.loads(done.output) == [{"pages": 12, "lines": 13, "repeated": 1, "out": "models/site_lines.npy"}]
    assert removal(pages([("paper.com", "All of our papers\nNews")]), Path("models/site_lines.npy")) == ["News"]


def test_a_file_that_is_not_there_is_named_with_its_fix(tmp_path: Path) -> None:
    with pytest.raises(ParamsError, match="fit-site-lines"):
        SiteLineRemoval().files()
    with pytest.raises(ModelMissing, match="there is no file"):
        SiteLineRemoval({"path": str(tmp_path / "none.npy")}).open()
    (tmp_path / "wrong.npy").write_text("no array")
    with pytest.raises(ModelMissing, match="holds no repeated lines"):
        SiteLineRemoval({"path": str(tmp_path / "wrong.npy")}).open()


@pytest.mark.slow
def test_it_conforms(corpus: tuple[pa.RecordBatch, Path]) -> None:
    examples = [Example("Home News Sport\ntext", columns={"url": "http://paper.com/"}), Example("Home News Sport"), Example("")]
    conformance(SiteLineRemoval, examples=examples, params={"path": str(corpus[1])})


def test_over_the_corpus_a_line_counts_wherever_it_stands(tmp_path: Path) -> None:
    rows = [
        ("a.com", "Read our terms of use\none"),
        (None, "Read our terms of use\ntwo"),
        ("b.com", "three\n请阅读使用条款"),
        (None, "请阅读使用条款"),
    ]
    found = fit([pages(rows)], SiteLinesParams(by="corpus", min_pages=2))
    found.lines.save(tmp_path / "lines.npy")
    assert (found.pages, found.different) == (4, 5)
    assert removal(pages(rows), tmp_path / "lines.npy", by="corpus") == ["one", "two", "three", ""]
