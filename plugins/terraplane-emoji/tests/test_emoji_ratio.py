"""The plugin against the conformance kit, and against numbers worked out by hand."""

import pyarrow as pa
import pytest
from terraplane_emoji import EmojiRatio

from dataplane.testing import Example, conformance

MANY = "😀😀😀 ok"


def test_emoji_ratio_conforms() -> None:
    conformance(
        EmojiRatio, examples=[Example(MANY, {"too_many_emoji"}), Example("plain text"), Example("你好，世界 👍 这是一段很长的中文")]
    )


@pytest.mark.parametrize(
    ("text", "ratio"),
    [
        ("", 0.0),
        ("plain", 0.0),
        ("😀", 1.0),
        ("a😀", 0.5),
        (MANY, 3 / 6),
        ("👍🏽", 1.0),
        ("👨‍👩‍👧", 1.0),
        ("🇨🇳", 1.0),
        ("你好😀吧", 0.25),
        ("1 # *", 0.0),
    ],
)
def test_ratio_is_the_share_of_characters(text: str, ratio: float) -> None:
    batch = pa.record_batch({"text": pa.array([text], pa.large_string())})
    assert EmojiRatio().annotate(batch)["ratio"].to_pylist() == [pytest.approx(ratio)]


def test_the_threshold_is_in_the_rule() -> None:
    assert EmojiRatio({"max_ratio": 0.25}).rules() == {"too_many_emoji": "emoji_ratio.ratio > 0.25"}
