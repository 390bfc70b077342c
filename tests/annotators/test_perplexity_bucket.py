"""Buckets of perplexity: a third of the reference in each, per language, from artefacts that the commands make."""

import json
import random
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from click.testing import CliRunner, Result

from dataplane.annotators.perplexity import Perplexity
from dataplane.annotators.perplexity_bucket import PerplexityBucket
from dataplane.cli import main
from dataplane.errors import DataError, ModelMissing, ParamsError
from dataplane.testing import Example, conformance

WORDS = "the cat dog mat log sat on saw ran and a".split()
CHARACTERS = "今天气很好不的我们去公园"


def run(*arguments: str) -> Result:
    return CliRunner().invoke(main, arguments)


def english(draw: random.Random) -> str:
    return " ".join(draw.choice(WORDS) for _ in range(8))


def chinese(draw: random.Random) -> str:
    return "".join(draw.choice(CHARACTERS) for _ in range(10))


@pytest.fixture
def trained(project: Path) -> Path:
    """Models and cut points of English, by words, and Chinese, by characters, made by the commands."""
    draw = random.Random(0)
    for lang, make, tokens in (("en", english, "words"), ("zh", chinese, "characters")):
        Path(f"{lang}.txt").write_text("\n".join(make(draw) for _ in range(60)))
        Path(f"{lang}.jsonl").write_text("".join(json.dumps({"text": make(draw)}) + "\n" for _ in range(90)))
        trained = run("train-lm", "--data", f"{lang}.txt", "--out", f"lm/{lang}.arpa", "--tokens", tokens, "--set", "order=3")
        assert trained.exit_code == 0, trained.output
        fitted = run("fit-buckets", f"lm/{lang}.arpa", "--reference", f"{lang}.jsonl")
        assert fitted.exit_code == 0, fitted.output
    return project


def annotated(rows: list[tuple[str | None, str | None]], **params: object) -> list[tuple[float | None, str | None]]:
    operator = PerplexityBucket({"models": {"en": "lm/en.arpa", "zh": "lm/zh.arpa"}, **params})
    operator.open()
    text, lang = pa.array([row[0] for row in rows], pa.large_string()), pa.array([row[1] for row in rows], pa.string())
    found = operator.annotate(pa.record_batch({"text": text, "language__lang": lang}))
    return list(zip(found["value"].to_pylist(), found["bucket"].to_pylist(), strict=True))


@pytest.mark.parametrize("lang", ["en", "zh"])
def test_a_third_of_the_reference_is_in_each_bucket_by_perplexity(trained: Path, lang: str) -> None:
    texts = [json.loads(line)["text"] for line in Path(f"{lang}.jsonl").read_text().splitlines()]
    found = annotated([(text, lang) for text in texts])
    value = np.array([row[0] for row in found])
    assert [sum(row[1] == bucket for row in found) for bucket in ("head", "middle", "tail")] == [30, 30, 30]
    assert [found[i][1] for i in np.argsort(value, kind="stable")] == ["head"] * 30 + ["middle"] * 30 + ["tail"] * 30
    operator = Perplexity({"model": f"lm/{lang}.arpa"})
    operator.open()
    expected = operator.annotate(pa.record_batch({"text": pa.array(texts, pa.large_string())}))["value"]
    assert value.tolist() == expected.to_pylist()


def test_a_document_without_model_or_tokens_has_no_bucket(trained: Path) -> None:
    found = annotated([("the cat", "de"), ("the cat", None), (" ", "en"), (None, "zh"), ("the cat", "en")])
    assert found[:4] == [(None, None)] * 4
    assert found[4][1] in ("head", "middle", "tail")


def test_cut_points_of_params_come_before_those_beside_the_model(trained: Path) -> None:
    rows = [("the cat sat", "en")]
    ((value, _),) = annotated(rows)
    assert value is not None
    cuts = {"head": (value, value + 1), "middle": (1, value), "tail": (1, 1)}
    assert {annotated(rows, cuts={"en": cut})[0][1] for cut in cuts.values()} == {"head", "middle", "tail"}
    Path("lm/en.arpa.cuts.json").unlink()
    with pytest.raises(ModelMissing, match=r"fit-buckets lm/en\.arpa"):
        annotated(rows)
    assert annotated(rows, cuts={"en": cuts["tail"]}) == [(value, "tail")]


def test_it_conforms_and_drops_the_buckets_that_are_not_kept(trained: Path) -> None:
    lang = {"language__lang": "en"}
    examples = [
        Example("the cat sat", columns=lang),
        Example("zebra quagga", {"in_tail"}, lang),
        Example("zebra"),
        Example("", columns=lang),
    ]
    conformance(PerplexityBucket, examples=examples, params={"models": {"en": "lm/en.arpa"}, "keep": ["head", "middle"]})
    assert PerplexityBucket().rules() == {}


def test_cut_points_out_of_order_and_damaged_ones_are_refused(trained: Path) -> None:
    for cut in ([2, 1], [0.5, 2]):
        with pytest.raises(ParamsError, match="not in order"):
            PerplexityBucket({"cuts": {"en": cut}})
    for damage in ("{", "{}", '{"cuts": [1]}', '{"cuts": 3}'):
        Path("lm/en.arpa.cuts.json").write_text(damage)
        with pytest.raises(ModelMissing, match="holds no cut points"):
            annotated([("a", "en")])


def test_the_commands_write_what_the_operators_need_and_name_what_is_wrong(trained: Path) -> None:
    told = json.loads(Path("lm/zh.arpa.json").read_text())
    assert (told["reading"]["tokens"], told["sentences"], told["params"]["order"]) == ("characters", 60, 3)
    fitted = json.loads(run("fit-buckets", "lm/zh.arpa", "--reference", "zh.jsonl", "--percentiles", "30", "60", "--json").output)
    assert (fitted["documents"], fitted["percentiles"], len(fitted["deciles"])) == (90, [30, 60], 11)
    Path("few.jsonl").write_text('{"text": "the cat"}\n' * 3)
    wrong = [
        (["train-lm", "--data", "en.txt", "--out", "m.bin"], 2, "does not end in .arpa"),
        (["train-lm", "--data", "absent", "--out", "m.arpa"], 2, "no file matches 'absent'"),
        (["train-lm", "--data", "en.txt", "--out", "m.arpa", "--set", "ordr=3"], 2, "did you mean 'order'?"),
        (["train-lm", "--data", "en.txt", "--out", "m.arpa", "--tokens", "absent.model"], 3, "absent.model does not exist"),
        (["fit-buckets", "lm/en.arpa", "--reference", "few.jsonl"], 1, "3 documents are too few"),
        (["fit-buckets", "lm/en.arpa", "--reference", "en.jsonl", "--percentiles", "60", "30"], 2, "not in order"),
        (["fit-buckets", "absent.arpa", "--reference", "en.jsonl"], 3, "absent.arpa does not exist"),
    ]
    for arguments, code, message in wrong:
        done = run(*arguments)
        assert (done.exit_code, message in done.output) == (code, True), done.output


def test_text_comes_in_bounded_batches_whatever_the_format(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from dataplane.corpus import labelled

    monkeypatch.setattr(labelled, "BATCH_CHARS", 10)
    Path("a.txt").write_text("one\ntwo\nthree\n\nfour")
    Path("b.jsonl").write_text('{"text": "five"}\n\n{"text": "six\\nseven"}\n')
    Path("c.csv").write_text('text\n"eight\nnine"\n')
    by_line = [batch.to_pylist() for batch in labelled.text_batches(["a.txt", "b.jsonl", "c.csv"], "text", by_line=True)]
    assert by_line == [["one", "two", "three"], ["", "four", "five", "six\nseven"], ["eight\nnine"]]
    whole = [text for batch in labelled.text_batches(["a.txt", "b.jsonl"], "text", by_line=False) for text in batch.to_pylist()]
    assert whole == ["one\ntwo\nthree\n\nfour", "five", "six\nseven"]
    Path("bad.txt").write_bytes(b"\xff\xfe\xfa")
    with pytest.raises(DataError, match="cannot be read"):
        list(labelled.text_batches(["bad.txt"], "text", by_line=True))
