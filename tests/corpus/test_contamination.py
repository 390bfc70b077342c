"""Planted leaks are found in any formatting, chance meetings are not, and wrong benchmark files are named."""

import gzip
import json
import pickle
import random
import re
import unicodedata
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from dataplane import schema
from dataplane.corpus.benchmark_items import Benchmark, benchmark_files, read_items
from dataplane.corpus.contamination import DecontaminateParams, Index, build_index, by_benchmark, contaminated, index_items, scan
from dataplane.errors import ParamsError, SourceError

RNG = random.Random(11)
VOCABULARY = ["".join(RNG.choices("etaoinshrdlu", k=RNG.randint(2, 8))) for _ in range(4000)]
HAN = [chr(code) for code in range(0x4E00, 0x5400)]


def english(n: int) -> str:
    words = RNG.choices(VOCABULARY, k=n)
    return " ".join(word + RNG.choice(["", "", "", ",", "."]) for word in words).capitalize()


def chinese(n: int) -> str:
    return "".join(char + RNG.choice([""] * 8 + ["，", "。"]) for char in RNG.choices(HAN, k=n))


ITEMS = [{"id": f"q{i}", "q": english(40) if i % 2 else chinese(60), "a": english(20), "short": "yes"} for i in range(40)]


def full_width(text: str) -> str:
    return "".join(chr(ord(c) + 0xFEE0) if "!" <= c <= "~" else c for c in text)


FORMATS: dict[str, Callable[[str], str]] = {
    "verbatim": str,
    "upper": str.upper,
    "swapped case": str.swapcase,
    "full width": full_width,
    "line breaks": lambda text: text.replace(" ", "\r\n\r\n"),
    "no white space": lambda text: "".join(text.split()),
    "spaced out": lambda text: "  ".join(text),
    "ideographic spaces": lambda text: text.replace(" ", "\u3000"),
    "no punctuation": lambda text: re.sub(r"[,.，。]", "", text),
    "markdown": lambda text: re.sub(r"(\S+)", r"**\1**", text),
    "hyphenated": lambda text: re.sub(r"(\w{3})(\w{3})", "\\1-\n\\2", text),
    "zero-width spaces": lambda text: "\u200b".join(text),
    "decomposed": lambda text: unicodedata.normalize("NFD", text),
    "quoted lines": lambda text: "> " + text.replace(" ", "\n> "),
}


def params(path: str = "bench.jsonl", **more: object) -> DecontaminateParams:
    benchmark = {"name": "bench", "paths": [path], "fields": ["q", "a", "short"], "id_field": "id"}
    return DecontaminateParams.parse({"benchmarks": [benchmark], **more}, where="decontaminate")


@pytest.fixture
def root(tmp_path: Path) -> Path:
    (tmp_path / "bench.jsonl").write_text("".join(json.dumps(item, ensure_ascii=False) + "\n" for item in ITEMS), encoding="utf-8")
    return tmp_path


def rows(index: Index, texts: list[str]) -> list[dict[str, object]]:
    ids = pa.array([f"d{i}" for i in range(len(texts))])
    batch = scan(index, ids, pa.array(texts, pa.large_string()))
    assert batch.schema == schema.CONTAMINATION
    return batch.to_pylist()


@pytest.mark.parametrize("form", FORMATS)
def test_every_leak_is_found_in_any_formatting(root: Path, form: str) -> None:
    index = build_index(params(), root)
    hosts = [english(200) + FORMATS[form](str(item["q"])) + " " + chinese(100) for item in ITEMS]
    got = rows(index, hosts)
    assert [(r["doc_id"], r["item_id"], r["covered"]) for r in got] == [(f"d{i}", item["id"], 1.0) for i, item in enumerate(ITEMS)]
    assert contaminated(pa.Table.from_pylist(got, schema.CONTAMINATION), params()).to_pylist() == sorted(f"d{i}" for i in range(len(ITEMS)))


def test_clean_text_has_no_hits(root: Path) -> None:
    index = build_index(params(), root)
    assert rows(index, [english(3000), chinese(3000), "", "\x00\u0301", "a" * 5000]) == []


def test_half_a_question_is_covered_as_far_as_its_ngrams_are(root: Path) -> None:
    """Against brute force over word tuples."""
    index = build_index(params(), root)
    question = str(ITEMS[1]["q"])
    words = re.findall(r"\w+", question.lower())
    grams = {tuple(words[i : i + 13]) for i in range(len(words) - 12)}
    for kept in (12, 13, 20, 33):
        part = " ".join(question.split()[:kept])
        leaked = re.findall(r"\w+", part.lower())
        hits = len(grams & {tuple(leaked[i : i + 13]) for i in range(len(leaked) - 12)})
        want = [{"doc_id": "d0", "benchmark": "bench", "item_id": "q1", "n": 13, "hits": hits, "covered": hits / len(grams)}]
        assert rows(index, [part]) == (want if hits else [])


def test_a_threshold_decides_and_documents_come_once(root: Path) -> None:
    index = build_index(params(), root)
    both = f"{ITEMS[1]['q']} {ITEMS[3]['q']}"
    part = " ".join(str(ITEMS[5]["q"]).split()[:20])
    hits = scan(index, pa.array(["z", "part", "a"]), pa.array([both, part, both], pa.large_string()))
    assert contaminated(hits, params()).to_pylist() == ["a", "z"]
    assert contaminated(hits, params(min_covered=0.1)).to_pylist() == ["a", "part", "z"]
    assert contaminated(hits.slice(0, 0), params()).to_pylist() == []


def test_short_passages_are_one_ngram_and_shorter_ones_are_not_looked_for(tmp_path: Path) -> None:
    items = [{"id": "eight", "q": "one two three four five six seven eight"}, {"id": "seven", "q": "one two three four five six nine"}]
    (tmp_path / "b.jsonl").write_text("\n".join(map(json.dumps, items)), encoding="utf-8")
    setup = DecontaminateParams(benchmarks=[Benchmark(name="b", paths=["*.jsonl"], fields=["q"], id_field="id")])
    index = build_index(setup, tmp_path)
    assert index.skipped == {"b": 1}
    got = rows(index, ["zero one two three four five six seven eight nine", "one two three four five six nine"])
    assert [(r["item_id"], r["n"], r["covered"]) for r in got] == [("eight", 8, 1.0)]


def test_an_answer_alone_is_a_leak_of_its_item(root: Path) -> None:
    got = rows(build_index(params(), root), [f"the answer is {ITEMS[2]['a']} and no more"])
    assert [(r["item_id"], r["covered"]) for r in got] == [("q2", 1.0)]


def test_the_index_pickles_and_the_batching_changes_nothing(root: Path) -> None:
    index = build_index(params(), root)
    texts = [f"{english(50)} {item['q']}" for item in ITEMS]
    together = rows(index, texts)
    again = pickle.loads(pickle.dumps(index))
    alone = [row | {"doc_id": f"d{i}"} for i, text in enumerate(texts) for row in rows(again, [text])]
    assert together == alone


def test_no_benchmarks_give_no_rows() -> None:
    assert rows(build_index(DecontaminateParams()), ["anything", ""]) == []


def test_nested_fields_lists_and_gz_are_read(tmp_path: Path) -> None:
    item = {"doc": {"turns": [english(15), {"content": english(15)}], "none": None}}
    with gzip.open(tmp_path / "b.jsonl.gz", "wt", encoding="utf-8") as stream:
        stream.write("\n" + json.dumps(item) + "\n")
    setup = DecontaminateParams(benchmarks=[Benchmark(name="b", paths=["b.*"], fields=["doc.turns", "doc.none"])])
    index = build_index(setup, tmp_path)
    text = " ".join([item["doc"]["turns"][0], item["doc"]["turns"][1]["content"]])
    assert [(r["item_id"], r["covered"]) for r in rows(index, [text])] == [("b.jsonl.gz:2", 1.0)]


@pytest.mark.parametrize(
    ("content", "error", "message"),
    [
        (b'{"q": 1', SourceError, "line 1"),
        (b"[1]", SourceError, "expected an object, got list"),
        (b"\xff\xfe", SourceError, "cannot be read"),
        (b'{"id": "x", "question": "y", "a": "", "short": ""}', ParamsError, "no field 'q'"),
        (b"[" * 100_000, SourceError, "cannot be read"),
    ],
)
def test_wrong_benchmark_files_are_named(tmp_path: Path, content: bytes, error: type[Exception], message: str) -> None:
    (tmp_path / "bench.jsonl").write_bytes(content)
    with pytest.raises(error, match=message):
        build_index(params(), tmp_path)


def test_a_path_that_matches_nothing_and_a_cut_gzip_are_named(tmp_path: Path) -> None:
    with pytest.raises(ParamsError, match=r"no file matches 'bench\.jsonl'"):
        build_index(params(), tmp_path)
    (tmp_path / "bench.jsonl.gz").write_bytes(gzip.compress(b'{"q": "x"}' * 100)[:-9])
    with pytest.raises(SourceError, match="cannot be read"):
        build_index(params("bench.jsonl.gz"), tmp_path)
    squeezed = bytearray(gzip.compress(json.dumps(ITEMS).encode()))
    squeezed[40:60] = b"\xff" * 20
    (tmp_path / "bench.jsonl.gz").write_bytes(squeezed)
    with pytest.raises(SourceError, match="cannot be read"):
        build_index(params("bench.jsonl.gz"), tmp_path)
    assert benchmark_files(params("*.gz").benchmarks[0], tmp_path) == [tmp_path / "bench.jsonl.gz"]


WORDS_AND_HAN = st.lists(st.one_of(st.sampled_from(VOCABULARY), st.sampled_from(HAN)), min_size=8, max_size=40)
# What may stand between words, and what may be done to all letters, without making it another text.
BETWEEN = st.sampled_from([" ", "\n", "\t\t", "\u3000", ", ", " — ", "\u200b ", " **", "\r\n> ", "_ "])
CHANGES = st.lists(
    st.sampled_from([str, str.upper, str.title, str.swapcase, full_width, lambda t: unicodedata.normalize("NFD", t)]), max_size=3
)


@given(WORDS_AND_HAN, st.data())
@settings(max_examples=150)
def test_a_verbatim_leak_is_found_whatever_its_case_width_space_and_punctuation(words: list[str], data: st.DataObject) -> None:
    setup = DecontaminateParams(n=[13, 8], n_cjk=[13, 8])
    index = index_items([("bench", "q", [" ".join(words)])], setup)
    leak = "".join(word + data.draw(BETWEEN) for word in words)
    for change in data.draw(CHANGES):
        leak = change(leak)
    before, after = data.draw(st.text(max_size=30)), data.draw(st.text(max_size=30))
    got = rows(index, [f"{before} {leak} {after}"])
    assert [(r["item_id"], r["covered"]) for r in got] == [("q", 1.0)] * len({min(13, len(words)), 8})


def test_every_length_is_looked_for_at_once_and_told_apart(root: Path) -> None:
    both, one = params(n=[13, 8], n_cjk=[20, 10]), [params(n=n, n_cjk=m) for n, m in ((8, 10), (13, 20))]
    texts = [" ".join(str(item["q"]).split()[:k]) if i % 2 else str(item["q"])[:k] for i, item in enumerate(ITEMS) for k in (9, 15, 30)]
    key = lambda r: (r["doc_id"], r["item_id"], r["n"])  # noqa: E731
    alone = sorted((row for setup in one for row in rows(build_index(setup, root), texts)), key=key)
    assert sorted(rows(build_index(both, root), texts), key=key) == alone
    assert {row["n"] for row in alone} == {8, 10, 13, 20}


def test_the_report_counts_items_and_documents_of_each_benchmark(root: Path) -> None:
    (root / "other.jsonl").write_text('{"q": "too short"}\n')
    given = [*params().model_dump()["benchmarks"], {"name": "other", "paths": ["other.jsonl"], "fields": ["q"]}]
    setup = DecontaminateParams.parse({"benchmarks": given}, where="decontaminate")
    index = build_index(setup, root)
    part = " ".join(str(ITEMS[1]["q"]).split()[:15])
    texts = [str(ITEMS[3]["q"]), str(ITEMS[3]["a"]), part]
    hits = pa.Table.from_batches([scan(index, pa.array(["a", "b", "c"]), pa.array(texts, pa.large_string()))])
    assert by_benchmark(hits, index, setup) == {
        "bench": {"items": 40, "too_short": 0, "items_hit": 2, "documents_hit": 3, "items_found": 1, "documents_contaminated": 2},
        "other": {"items": 1, "too_short": 1, "items_hit": 0, "documents_hit": 0, "items_found": 0, "documents_contaminated": 0},
    }


def test_json_and_csv_files_are_read(tmp_path: Path) -> None:
    a, b, c = (english(15) for _ in range(3))
    (tmp_path / "list.json").write_text(json.dumps([{"q": a}]))
    (tmp_path / "object.json").write_text(json.dumps({"canary": "x", "examples": [{"q": b}]}))
    with gzip.open(tmp_path / "table.csv.gz", "wt") as stream:
        stream.write(f'id,q\n7,"{c}"\n')
    (tmp_path / "bare.csv").write_text(f'"{a}",A\n"{b}",B\n')
    named = {"q": ["list.json", "object.json", "table.csv.gz"], "0": ["bare.csv"]}
    found = {
        item: passages
        for field, paths in named.items()
        for item, passages in read_items(Benchmark(name="b", paths=paths, fields=[field]), tmp_path)
    }
    assert found == {"list.json:1": [a], "object.json:1": [b], "table.csv.gz:2": [c], "bare.csv:1": [a], "bare.csv:2": [b]}
    (tmp_path / "two.json").write_text('{"a": [], "b": []}')
    with pytest.raises(SourceError, match="object that holds one"):
        list(read_items(Benchmark(name="b", paths=["two.json"], fields=["q"]), tmp_path))


def test_a_benchmark_is_files_with_fields_or_a_task() -> None:
    for wrong in ({"paths": ["x"]}, {"fields": ["q"]}, {}, {"task": "t.yaml", "paths": ["x"]}):
        with pytest.raises(ParamsError, match="paths"):
            DecontaminateParams.parse({"benchmarks": [{"name": "b", **wrong}]}, where="decontaminate")


@pytest.mark.slow
def test_the_items_of_a_harness_task_are_the_fields_of_its_templates(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("lm_eval")
    monkeypatch.setenv("HF_DATASETS_CACHE", str(tmp_path / "cache"))
    item = {"question": english(20), "choices": [english(12), english(13)], "answer": 1, "note": english(20)}
    (tmp_path / "items.jsonl").write_text(json.dumps(item) + "\n")
    templates = {"doc_to_text": "Question: {{question}}\nAnswer:", "doc_to_choice": "{{choices}}", "doc_to_target": "answer"}
    data = {"dataset_path": "json", "dataset_kwargs": {"data_files": {"test": str(tmp_path / "items.jsonl")}}}
    task = {"task": "mine", "output_type": "multiple_choice", "test_split": "test", **data, **templates}
    (tmp_path / "mine.yaml").write_text(yaml.safe_dump(task))
    benchmark = Benchmark(name="mine", task="mine.yaml")
    assert list(read_items(benchmark, tmp_path)) == [("test:0", [item["question"], *item["choices"]])]
    assert benchmark_files(benchmark, tmp_path) == [tmp_path / "items.jsonl", tmp_path / "mine.yaml"]
    (tmp_path / "mine.yaml").write_text("- no task")
    with pytest.raises(ParamsError, match="no single task"):
        list(read_items(benchmark, tmp_path))


@pytest.mark.slow
def test_published_benchmarks_leaked_into_real_text_are_all_found(shared_data: Path) -> None:
    path = str(shared_data / "benchmarks" / "gsm8k" / "test.jsonl")
    setup = DecontaminateParams(benchmarks=[Benchmark(name="gsm8k", paths=[path], fields=["question", "answer"])])
    index = build_index(setup)
    items = [json.loads(line) for line in Path(path).read_text(encoding="utf-8").splitlines()]
    forms = list(FORMATS.values())
    texts = [english(50) + " " + forms[i % len(forms)](item["question"]) + " " + english(50) for i, item in enumerate(items)]
    found = {(r["doc_id"], r["item_id"]) for r in rows(index, texts) if r["covered"] == 1.0}
    assert {(f"d{i}", f"test.jsonl:{i + 1}") for i in range(len(items))} <= found
