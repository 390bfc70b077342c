"""Every operator that this distribution registers passes the kit that plugin authors are given."""

from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
import spacy

from dataplane.annotators.local_models import quiet
from dataplane.contract import check_class
from dataplane.corpus.linear_model import Labelled, TrainParams
from dataplane.corpus.linear_model import train as train_classifier
from dataplane.corpus.ngram_lm import TrainLmParams, train
from dataplane.corpus.site_lines import SiteLinesParams, fit
from dataplane.errors import ModelMissing
from dataplane.kernels.instruction_pool import Pool, vector
from dataplane.registry import entries, operator_class
from dataplane.testing import Example, conformance
from tests.annotators.embedding_model import save as save_embedding_model

OWN = "terraplane"
ENGLISH = "The quick brown fox jumps over the lazy dog, and then it goes home to sleep for the rest of the day."
CHINESE = "今天天气很好，我们一起去公园散步，看到了许多美丽的花。"
HTML, WIKI = {"mime": "text/html"}, {"mime": "text/x-wiki"}
PAGE = f"<html><head><title>T</title></head><body><nav>menu</nav><p>{ENGLISH}</p><p>{CHINESE}</p></body></html>"

ASKED = "⟦user⟧\nName a colour.\n⟦assistant⟧\nRed is a colour."
ASKED_ZH = "⟦user⟧\n说一种颜色。\n⟦assistant⟧\n红色，红色，红色"

EXAMPLES: dict[str, list[Example]] = {
    "augment": [Example("one two three four five"), Example(CHINESE), Example("")],
    "c4_lines": [Example(f"{ENGLISH}\nMenu [1]\n\n{ENGLISH} [2]"), Example(CHINESE), Example("")],
    "canonical_url": [Example("a", columns={"url": "HTTP://www.Example.com/?b&a#c"}), Example("b", columns={"url": "none"}), Example("c")],
    "datatrove": [Example(ENGLISH), Example("buy cheap pills now", {"dropped_by_datatrove"})],
    "code_signals": [
        Example("#!/bin/sh\n# SPDX-License-Identifier: MIT\n"), Example("x" * 200, columns={"mime": "text/x-css"}), Example(""),
    ],
    "embedding": [Example("the river and the mill"), Example("the boat " * 30), Example(CHINESE), Example("")],
    "encoding_repair": [Example("schÃ¶n"), Example("a\r\nb\x00c"), Example("e\u0301 \u200b"), Example(CHINESE), Example("")],
    "html_text": [Example(PAGE, columns=HTML), Example("<p>no page</p>", columns={"mime": "text/plain"}), Example(PAGE)],
    "instruction_difficulty": [Example(ASKED), Example(ASKED_ZH), Example(ENGLISH)],
    "instruction_novelty": [Example(ASKED, {"too_near"}), Example(ASKED_ZH), Example(ENGLISH)],
    "instruction_signals": [Example(ASKED), Example(ASKED_ZH, {"repetitive_answer"}), Example(ENGLISH)],
    "language": [
        Example(ENGLISH), Example(CHINESE, {"other_language"}), Example("1234", {"low_confidence", "other_language"}),
    ],
    "latex_text": [Example(r"\section{A} $x$ \cite{b} % c", columns={"mime": "text/x-tex"}), Example(ENGLISH)],
    "length_bucket": [Example(ENGLISH), Example(CHINESE), Example("")],
    "perplexity": [Example(ENGLISH), Example("zqx jkv wpy qqq xzv kjq", {"too_surprising"}), Example("")],
    "perplexity_bucket": [
        Example(ENGLISH, columns={"language__lang": "en"}),
        Example("The lazy dog sleeps and the brown fox goes.", {"in_middle"}, {"language__lang": "en"}),
        Example("zqx jkv wpy qqq xzv kjq", {"in_tail"}, {"language__lang": "en"}),
        Example("zqx jkv wpy qqq xzv kjq", columns={"language__lang": "de"}),
    ],
    "quality_model": [Example(ENGLISH), Example("buy cheap pills now", {"low_quality"})],
    "refinedweb_lines": [Example(f"{ENGLISH}\n3 likes\nHome | News\nSoon. Read more..."), Example(f"{CHINESE}\n登录 注册")],
    "readability": [Example(ENGLISH), Example(CHINESE), Example("12 ...")],
    "scrub_names": [Example("Ann Lee is here", columns={"language__lang": "en"}), Example(CHINESE, columns={"language__lang": "zh"})],
    "scrub_pii": [Example("write to ann@example.com"), Example("手机13812345678，谢谢"), Example(ENGLISH)],
    "structure": [Example("$x$ is\n\n| a | b |\n|---|---|\n| 1 | 2 |"), Example(CHINESE), Example("")],
    "site_lines": [Example(f"Menu\n{ENGLISH}", columns={"url": "http://paper.example/"}), Example(f"Menu\n{ENGLISH}"), Example("")],
    "text_signals": [Example(ENGLISH), Example(CHINESE), Example("- a\n- b\n- a\n"), Example("")],
    "toxicity": [Example(ENGLISH), Example(CHINESE), Example("shit fuck shit", {"too_toxic"})],
    "toxicity_model": [
        Example(ENGLISH, columns={"language__lang": "en"}),
        Example("buy cheap pills now", {"too_toxic"}, {"language__lang": "en"}),
        Example("buy cheap pills now", columns={"language__lang": "de"}),
    ],
    "url_blocklist": [Example("a", {"blocked_url"}, {"url": "http://bad.example/"}), Example("b", columns={"url": "http://x.example"})],
    "web_topics": [
        Example(ENGLISH),
        Example("现金网址，百家乐，注册送彩金", {"too_much_gambling"}),
        Example("成人电影，国产自拍，无码", {"too_much_adult"}),
        Example("代开发票，加微信，咨询热线", {"too_much_spam"}),
        Example("警方破获网络赌博案。" + CHINESE),
    ],
    "wikitext": [Example("'''A''' [[b|c]] {{d}}", columns=WIKI), Example("'''no''' page", columns={"mime": None})],
}  # fmt: skip
PARAMS = {
    "datatrove": {"filters": [{"filter": "RegexFilter", "arguments": {"regex_exp": "pills"}}]},
    "instruction_difficulty": {"model": "models/causal", "causal": {"device": "cpu"}},
    "instruction_novelty": {"min_distance": 0.2},
    "instruction_signals": {"min_distinct_2": 0.5},
    "language": {"keep": ["en"]},
    "perplexity": {"max_perplexity": 20.0},
    "perplexity_bucket": {"models": {"en": "models/ngram_lm/model.npz"}, "cuts": {"en": [2.0, 20.0]}, "keep": ["head"]},
    "quality_model": {"model": "models/pills.npz", "min_score": 0.5},
    "site_lines": {"path": "site_lines.npy"},
    "scrub_names": {"models": {"en": "models/names"}},
    "toxicity_model": {"models": {"en": "models/no_pills.npz"}},
    "url_blocklist": {"path": "blocked"},
}


def registered() -> list[str]:
    return [name for name, point in entries("dataplane.operators").items() if point.dist and point.dist.name == OWN]


def test_every_registered_operator_has_examples_here() -> None:
    assert registered() == sorted(EXAMPLES)


@pytest.mark.parametrize("name", registered())
def test_a_registered_class_is_sound(name: str) -> None:
    check_class(operator_class(name))


@pytest.fixture
def trained(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A project with small models, lines that a site repeats, and instructions."""
    monkeypatch.chdir(tmp_path)
    write_models()


def write_models() -> None:
    """Into the current folder: an n-gram model that knows the English example, classifiers that know spam, a model of one name,
    an embedding model of random weights where torch is installed, the lines that a site repeats, and a block list."""
    batch = pa.record_batch({"source": ["good"] * 3, "text": pa.array([ENGLISH] * 3, pa.large_string())})
    path = Path("models/ngram_lm/model.npz")
    train([batch], TrainLmParams.parse(None, where="train_lm")).save(path)
    words = [f"{text} {i}" for i in range(20) for text in (ENGLISH, "buy cheap pills now")]
    for name, has in (("pills", [True, False]), ("no_pills", [False, True])):
        labelled = Labelled(pa.array(words, pa.large_string()), ("it",), np.array(has * 20)[:, None])
        train_classifier(labelled, TrainParams(bits=12))[0].save(Path(f"models/{name}.npz"))
    names = spacy.blank("en")
    names.add_pipe("entity_ruler").add_patterns([{"label": "PERSON", "pattern": "Ann Lee"}])  # type: ignore[attr-defined]
    names.to_disk(Path("models/names"))
    if find_spec("torch") and find_spec("transformers"):
        save_embedding_model(Path("models/embedding"))
    write_instruction_models()
    pages = {"url": ["http://paper.example/"] * 2, "text": pa.array(["Menu\nOne", "Menu\nTwo"], pa.large_string())}
    fit([pa.record_batch(pages)], SiteLinesParams(min_pages=2)).lines.save(Path("site_lines.npy"))
    Path("blocked/adult").mkdir(parents=True)
    Path("blocked/adult/domains").write_text("bad.example\n")


def write_instruction_models() -> None:
    """A pool of one instruction; and, where transformers is installed, a causal model over letters that finds all of them as likely."""
    Pool(("f" * 32,), vector(["name", "a", "colour"])[None]).save(Path("models/instruction_pool.npz"))
    try:
        import transformers
    except ImportError:
        return
    from tokenizers import Regex, Tokenizer, models, pre_tokenizers

    letters = {char: i for i, char in enumerate(["<bos>", "?", *"abcdefghijklmnopqrstuvwxyz ."])}
    tokenizer = Tokenizer(models.WordLevel(letters, unk_token="?"))
    tokenizer.pre_tokenizer = pre_tokenizers.Split(Regex(r"[\s\S]"), "isolated")
    transformers.PreTrainedTokenizerFast(tokenizer_object=tokenizer, bos_token="<bos>", unk_token="?").save_pretrained("models/causal")
    config = transformers.GPT2Config(
        vocab_size=len(letters), n_positions=64, n_embd=8, n_layer=1, n_head=1, bos_token_id=0, eos_token_id=0, initializer_range=1e-6
    )
    with quiet():
        transformers.GPT2LMHeadModel(config).save_pretrained("models/causal")


@pytest.mark.slow
@pytest.mark.usefixtures("trained")
@pytest.mark.parametrize("name", registered())
def test_a_registered_operator_conforms(name: str) -> None:
    try:
        conformance(operator_class(name), examples=EXAMPLES[name], params=PARAMS.get(name))
    except ModelMissing as missing:
        pytest.skip(missing.render())
