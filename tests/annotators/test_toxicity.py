"""Word lists: whole words in alphabets, runs of characters in Chinese, no evasion by width, no hit inside innocent words."""

import time
from pathlib import Path

import pyarrow as pa
import pytest

from dataplane.annotators.toxicity import Toxicity
from dataplane.annotators.word_lists import read_terms
from dataplane.errors import ParamsError
from dataplane.testing import Example, conformance


def hits(text: str, **params: object) -> tuple[int, float]:
    operator = Toxicity(params)
    operator.open()
    signals = operator.annotate(pa.record_batch({"text": pa.array([text], pa.large_string())}))
    return signals["n_hits"][0].as_py(), pytest.approx(signals["share"][0].as_py())


@pytest.mark.parametrize(
    ("text", "n"),
    [
        ("", 0),
        ("Scunthorpe, classic assassins, and a cocktail in Essex", 0),
        ("you bastard", 1),
        ("BASTARD! bastard, ｂａｓｔａｒｄ", 3),
        ("bastards bastardised", 1),
        ("piece of shit", 1),
        ("你这个王八蛋，滚蛋", 2),
        ("中文bastard中文", 1),
        ("今天天气很好，我们去公园散步", 0),
        ("他妈妈是医生，情操你懂吗，智障儿童学校", 0),
        ("他妈的", 1),
        ("rape yourself kill yourself", 1),
        ("shut the fuckers up", 1),
        ("fucking-idiot, fuck_you, x_fuck", 3),
        ("Kick against the pricks, a herd of swine, summa cum laude", 0),
        ("f u c k, s.h.i.t, sh1t, fuuuck, f*ck, b!tch", 6),
        ("你 傻 逼，你这傻*逼", 2),
    ],
)
def test_terms_are_counted(text: str, n: int) -> None:
    assert hits(text)[0] == n


def test_it_conforms() -> None:
    conformance(
        Toxicity,
        examples=[Example("fuck you, bastard", {"too_toxic"}), Example("你这个王八蛋，混蛋", {"too_toxic"}), Example("plain", set())],
    )


def test_terms_that_overlap_hide_none_that_stands_alone(tmp_path: Path) -> None:
    (tmp_path / "own.txt").write_text("a bad\nbad word\nbad\n坏词\n词典坏\n")
    own = {"lists": [str(tmp_path / "own.txt")]}
    assert hits("sea bad word", **own)[0] == 1
    assert hits("a bad word and a baddy", **own)[0] == 1
    assert hits("坏词典坏", **own)[0] == 1


@pytest.mark.parametrize("text", ["fuck " * 200_000, "他妈妈" * 300_000, "a" * 1_000_000, "傻逼" * 500_000])
def test_a_long_text_takes_bounded_time(text: str) -> None:
    started = time.process_time()
    hits(text)
    assert time.process_time() - started < 10


def test_share_is_by_word_and_by_chinese_character() -> None:
    assert hits("you bastard over there") == (1, 1 / 4)
    assert hits("你是混蛋") == (1, 1 / 4)


def test_own_lists_take_the_place_of_the_packaged_ones(tmp_path: Path) -> None:
    (tmp_path / "own.txt").write_text("# mine\nfrobnicate\n坏词\n")
    own = {"lists": [str(tmp_path / "own.txt")]}
    assert hits("do not FROBNICATE, 这是坏词, bastard", **own)[0] == 2
    assert Toxicity(own).op_id != Toxicity().op_id


@pytest.mark.parametrize("content", [None, b"", b"# only a comment\n", b"\xff\xfe\xfa"])
def test_a_list_that_cannot_be_used_is_named(tmp_path: Path, content: bytes | None) -> None:
    path = tmp_path / "list.txt"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(ParamsError, match=r"list\.txt"):
        read_terms(path)


def test_a_list_that_is_not_there_is_named_before_anything_runs(tmp_path: Path) -> None:
    with pytest.raises(ParamsError, match=r"absent\.txt"):
        _ = Toxicity({"lists": [str(tmp_path / "absent.txt")]}).op_id


def test_false_positives_on_plain_prose_are_rare(shared_data: Path) -> None:
    """A word list alone says little: on Shakespeare, where insults are old-fashioned, fewer than one line in a thousand is hit."""
    lines = (shared_data / "shakespeare" / "input.txt").read_text(encoding="utf-8").splitlines()
    operator = Toxicity()
    operator.open()
    found = operator.annotate(pa.record_batch({"text": pa.array(lines, pa.large_string())}))["n_hits"].to_numpy()
    assert (found > 0).mean() < 0.005


def test_hits_that_evade_are_told_apart() -> None:
    operator = Toxicity()
    operator.open()
    text = pa.array(["shit sh1t s h i t", "shit"], pa.large_string())
    assert operator.annotate(pa.record_batch({"text": text}))["n_evasions"].to_pylist() == [2, 0]
