"""Perplexity under ARPA, KenLM and causal models: equal to the libraries themselves, nothing fetched, every missing part named."""

import math
import random
import time
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from dataplane.annotators.causal_lm import windows
from dataplane.annotators.lm_tokens import Reading, folded
from dataplane.annotators.perplexity import Perplexity
from dataplane.corpus.token_lm import TokenLmParams, train
from dataplane.errors import EnvironmentFault, ModelMissing, ParamsError
from dataplane.testing import Example, conformance

LINES = ["the cat sat on the mat", "the dog sat on the log", "a cat and a dog", "今天天气很好", "今天的天气很不好", "the mat"] * 2
TEXTS = ["the cat sat\n\non the zebra", "今天很好", "", " \n", None, "the\tmat  and\u3000the log"]


def arpa(path: Path, tokens: str = "words", order: int = 3) -> Path:
    spaced = Reading.parse({"tokens": tokens}, where="test").spaced()
    train(lambda: [spaced(pa.array(LINES, pa.large_string()))], TokenLmParams.parse({"order": order}, where="test"), path)
    return path


def annotated(texts: list[str | None], **params: object) -> dict[str, list[float]]:
    operator = Perplexity(params)
    operator.open()
    found = operator.annotate(pa.record_batch({"text": pa.array(texts, pa.large_string())}))
    return {name: array.to_pylist() for name, array in found.items()}


def test_an_arpa_file_gives_the_perplexity_that_kenlm_gives(project: Path) -> None:
    kenlm = pytest.importorskip("kenlm")
    arpa(project / "m.arpa")
    config = kenlm.Config()
    config.show_progress = False
    theirs = kenlm.Model("m.arpa", config)
    texts = [*LINES, "the zebra", "很 好 the"]
    found = annotated([*texts], model="m.arpa")
    assert found["value"] == pytest.approx([theirs.perplexity(text) for text in texts], rel=1e-4)
    bits = [-theirs.score(text) * math.log2(10) / len(text) for text in texts]
    assert found["bits_per_char"] == pytest.approx(bits, rel=1e-4)


def test_a_binary_file_of_kenlm_gives_what_the_arpa_file_gives(project: Path) -> None:
    pytest.importorskip("kenlm")
    arpa(project / "m.arpa")
    (project / "m.bin").write_bytes((project / "m.arpa").read_bytes())  # the binding reads both by their content
    ours, theirs = annotated(TEXTS, model="m.arpa"), annotated(TEXTS, model="m.bin")
    for name in ours:
        assert ours[name] == pytest.approx(theirs[name], rel=1e-4)
    assert ours["value"][2:5] == [1.0] * 3
    whole = [annotated(TEXTS, model=f"m.{kind}", sentences="text")["value"] for kind in ("arpa", "bin")]
    assert whole[0] == pytest.approx(whole[1], rel=1e-4)
    assert whole[0][0] != ours["value"][0]


def test_tokens_may_be_characters_or_pieces_of_a_tokenizer(project: Path) -> None:
    from tokenizers import Tokenizer, models, pre_tokenizers, trainers

    tokenizer = Tokenizer(models.BPE(unk_token="?"))
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace()
    tokenizer.train_from_iterator(LINES, trainers.BpeTrainer(vocab_size=60, special_tokens=["?"], show_progress=False))
    tokenizer.save("t.json")
    read = {name: Reading.parse({"tokens": name}, where="test").spaced() for name in ("characters", "t.json")}
    text = pa.array(["the cat\n 天 气 "])
    assert read["characters"](text).to_pylist() == ["t h e ▁ c a t\n天 ▁ 气"]
    pieces = read["t.json"](text).to_pylist()[0]
    assert pieces.replace(" ", "").replace("▁", " ").split("\n") == [" the cat", " 天 气"]
    assert len(pieces.split()) > 3
    for tokens in ("characters", "t.json"):
        arpa(project / "m.arpa", tokens)
        value = annotated(["the cat sat", "teh tca ats"], model="m.arpa", tokens=tokens)["value"]
        assert value[0] < value[1]


def test_pieces_of_sentencepiece_are_its_own(project: Path) -> None:
    sentencepiece = pytest.importorskip("sentencepiece")
    options = {"vocab_size": 48, "model_prefix": "sp", "hard_vocab_limit": False, "minloglevel": 2}
    sentencepiece.SentencePieceTrainer.train(sentence_iterator=iter(LINES), **options)
    model = sentencepiece.SentencePieceProcessor(model_file="sp.model")
    found = Reading.parse({"tokens": "sp.model"}, where="test").spaced()(pa.array(["the cat\n\n今天 好", None]))
    lines = [" ".join(model.encode(line, out_type=str)) for line in ("the cat", "", "今天 好")]
    assert found.to_pylist() == ["\n".join(lines), ""]


def test_folding_takes_off_case_accents_digits_and_width() -> None:
    assert folded("Ça “coûte” １２３，０５€。 한국어 É") == 'ca "coute" 000,00€. 한국어 e'
    spaced = Reading.parse({"fold": True}, where="test").spaced()
    assert spaced(pa.array(["ÀB\n7", None])).to_pylist() == ["ab\n0", ""]


def test_an_operator_with_an_arpa_model_conforms(project: Path) -> None:
    arpa(project / "m.arpa", "characters", 5)
    params = {"model": "m.arpa", "tokens": "characters", "max_perplexity": 20.0}
    conformance(Perplexity, examples=[Example("the cat sat on the mat"), Example("zqxjkw", {"too_surprising"}), Example("")], params=params)


def test_the_file_beside_a_model_says_how_it_reads_and_is_part_of_the_identity(project: Path) -> None:
    arpa(project / "m.arpa", "characters")
    words = annotated(["the cat"], model="m.arpa")
    before = Perplexity({"model": "m.arpa"}).op_id
    Path("m.arpa.json").write_text('{"reading": {"tokens": "characters"}}')
    assert annotated(["the cat"], model="m.arpa") == annotated(["the cat"], model="m.arpa", tokens="characters")
    assert annotated(["the cat"], model="m.arpa", tokens="words") == words
    assert Perplexity({"model": "m.arpa"}).op_id != before


@pytest.mark.parametrize(
    ("params", "error", "message"),
    [
        ({"model": "absent.arpa"}, ModelMissing, "absent.arpa does not exist"),
        ({"model": "m.txt"}, ParamsError, "of no known kind"),
        ({"model": "m.arpa", "tokens": "absent.model"}, ModelMissing, "absent.model does not exist"),
        ({"model": "m.arpa", "tokens": "m.txt"}, ParamsError, "of no known kind"),
        ({"model": "m.arpa", "tokens": "bad.json"}, ModelMissing, "no tokenizer"),
        ({"model": "m.arpa", "tokens": "bad.model"}, (ModelMissing, EnvironmentFault), "SentencePiece|not installed"),
        ({"model": "bad.bin"}, (ModelMissing, EnvironmentFault), "no model of KenLM|not installed"),
        ({"model": "folder"}, ModelMissing, "safetensors"),
    ],
)
def test_what_is_missing_or_damaged_is_named(project: Path, params: dict[str, str], error: type[Exception], message: str) -> None:
    arpa(project / "m.arpa")
    for name in ("m.txt", "bad.json", "bad.model", "bad.bin"):
        Path(name).write_text("nothing")
    Path("folder").mkdir()
    Path("folder/pytorch_model.bin").write_bytes(b"a pickle")
    Path("folder/config.json").write_text("{}")
    operator = Perplexity(params)
    with pytest.raises(error, match=message):
        operator.open()


@pytest.mark.parametrize(("n", "size", "overlap"), [(1, 4, 2), (2, 4, 2), (9, 4, 2), (9, 4, 0), (30, 8, 7), (5, 8, 4)])
def test_windows_score_every_token_but_the_first_once_with_context(n: int, size: int, overlap: int) -> None:
    scored = []
    start = 0
    for window, context in windows(list(range(n)), size, overlap):
        assert len(window) <= size
        assert context >= 1
        assert window[0] >= start
        start = window[0]
        scored += window[context:]
    assert scored == list(range(1, n))


@pytest.fixture
def causal(project: Path) -> Path:
    """A small GPT-2 with random weights, over the characters of the lines."""
    torch = pytest.importorskip("torch")
    transformers = pytest.importorskip("transformers")
    from tokenizers import Regex, Tokenizer, models, pre_tokenizers

    letters = {char: i for i, char in enumerate(["<bos>", "?", *sorted(set("".join(LINES)))])}
    tokenizer = Tokenizer(models.WordLevel(letters, unk_token="?"))
    tokenizer.pre_tokenizer = pre_tokenizers.Split(Regex(r"[\s\S]"), "isolated")
    transformers.PreTrainedTokenizerFast(tokenizer_object=tokenizer, bos_token="<bos>", unk_token="?").save_pretrained("gpt")
    torch.manual_seed(0)
    config = transformers.GPT2Config(
        vocab_size=len(letters), n_positions=64, n_embd=16, n_layer=2, n_head=2, bos_token_id=0, eos_token_id=0, initializer_range=0.5
    )
    transformers.GPT2LMHeadModel(config).save_pretrained("gpt", safe_serialization=True)
    return Path("gpt")


@pytest.mark.slow
def test_a_causal_model_gives_its_own_loss(causal: Path) -> None:
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer

    model, tokenizer = AutoModelForCausalLM.from_pretrained(causal).eval(), AutoTokenizer.from_pretrained(causal)
    found = annotated([*LINES, "", "the cat sat " * 3], model="gpt")
    for text, value, bits in zip([*LINES, "", "the cat sat " * 3], found["value"], found["bits_per_char"], strict=True):
        ids = torch.tensor([[tokenizer.bos_token_id, *tokenizer(text, add_special_tokens=False)["input_ids"]]])
        with torch.inference_mode():
            loss = float(model(input_ids=ids, labels=ids).loss) if text else 0.0
        assert value == pytest.approx(math.exp(loss), rel=1e-4)
        assert bits == pytest.approx(loss * (ids.shape[1] - 1) / math.log(2) / max(1, len(text.strip())), rel=1e-4)


@pytest.mark.slow
def test_long_texts_are_read_in_windows_and_cut(causal: Path) -> None:
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer

    draw = random.Random(0)
    text = "".join(draw.choice("thecatsonmd") for _ in range(300))
    found = annotated([text], model="gpt", causal={"window": 32, "overlap": 0.75})["value"]
    model, tokenizer = AutoModelForCausalLM.from_pretrained(causal).eval(), AutoTokenizer.from_pretrained(causal)
    ids = [tokenizer.bos_token_id, *tokenizer(text, add_special_tokens=False)["input_ids"]]
    nats = 0.0
    for window, context in windows(ids, 32, 24):
        with torch.inference_mode():
            logs = model(input_ids=torch.tensor([window])).logits[0].log_softmax(dim=-1)
        nats -= sum(float(logs[at - 1, window[at]]) for at in range(context, len(window)))
    assert found == pytest.approx([math.exp(nats / (len(ids) - 1))], rel=1e-4)
    assert annotated([text], model="gpt", causal={"max_tokens": 100}) == annotated([text[:100]], model="gpt")


@pytest.mark.slow
def test_an_operator_with_a_causal_model_conforms(causal: Path) -> None:
    params = {"model": "gpt", "causal": {"max_tokens": 256, "device": "cpu"}, "max_perplexity": 2.0}
    conformance(Perplexity, examples=[Example("the cat sat on the mat", {"too_surprising"}), Example("")], params=params)


@pytest.mark.slow
def test_asking_for_a_gpu_that_is_not_there_is_an_error(causal: Path) -> None:
    import torch

    if torch.cuda.is_available():
        pytest.skip("there is a GPU here")
    with pytest.raises(EnvironmentFault, match="no GPU"):
        annotated(["a"], model="gpt", causal={"device": "cuda"})


def test_scores_do_not_depend_on_neighbours(project: Path) -> None:
    arpa(project / "m.arpa")
    together = annotated(TEXTS, model="m.arpa")["value"]
    assert together == [annotated([text], model="m.arpa")["value"][0] for text in TEXTS]
    assert np.isfinite(together).all()


def test_folding_takes_linear_time_over_marks_out_of_order() -> None:
    started = time.process_time()
    assert folded("a" + "\u0301\u0316" * 300_000) == "a"
    assert folded("a" + "\u302e\U0001d165" * 300_000) == "a"
    assert time.process_time() - started < 5
