"""Word lists: whole words in alphabets, runs of characters in Chinese, no evasion by width, no hit inside innocent words."""

from pathlib import Path

import pyarrow as pa
import pytest

from dataplane.annotators.toxicity import Toxicity, read_terms
from dataplane.errors import ParamsError


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
    ],
)
def test_terms_are_counted(text: str, n: int) -> None:
    assert hits(text)[0] == n


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


def test_false_positives_on_plain_prose_are_rare(shared_data: Path) -> None:
    """A word list alone says little: on Shakespeare, where insults are old-fashioned, fewer than one line in a thousand is hit."""
    lines = (shared_data / "shakespeare" / "input.txt").read_text(encoding="utf-8").splitlines()
    operator = Toxicity()
    operator.open()
    found = operator.annotate(pa.record_batch({"text": pa.array(lines, pa.large_string())}))["n_hits"].to_numpy()
    assert (found > 0).mean() < 0.005
