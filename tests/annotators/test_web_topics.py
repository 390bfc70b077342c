"""Pages that sell sex, gambling and spam, told from texts that speak of them."""

import pyarrow as pa
import pytest

from dataplane.annotators.web_topics import TOPICS, WebTopics
from dataplane.testing import Example, conformance

SELLING = {
    "adult": "成人电影在线看，国产自拍，无码番号，人妻熟女，激情视频",
    "gambling": "澳门威尼斯人现金网址，百家乐，真人荷官，注册送彩金，开户送58",
    "spam": "代开发票，办证刻章，加微信，咨询热线，当天放款",
}
SPEAKING = [
    "公安机关近日破获一起跨境网络赌博案件，犯罪嫌疑人利用境外网站组织他人参与赌博，涉案金额达两亿余元，目前案件正在进一步审理之中，多名嫌疑人已被依法逮捕。",
    "虚开发票是指不如实开具发票的违法行为，税务机关查处后将依法追缴税款并处以罚款，情节严重的，移送司法机关追究刑事责任，企业应当依法使用发票。",
    "性教育应当从儿童时期开始，医生建议家长用科学的语言解释身体的变化，学校也应当开设健康课程，帮助青少年了解避孕知识和预防性传播疾病的办法。",
    "The casino and the betting odds are the subject of this long English article about the economics of gambling.",
]


def annotated(texts: list[str]) -> dict[str, list[float]]:
    operator = WebTopics()
    operator.open()
    found = operator.annotate(pa.record_batch({"text": pa.array(texts, pa.large_string())}))
    return {name: column.to_pylist() for name, column in found.items()}


def test_each_topic_counts_its_own_terms() -> None:
    found = annotated(list(SELLING.values()))
    assert [[found[f"n_{topic}"][row] >= 3 for topic in TOPICS] for row in range(3)] == [[i == j for j in range(3)] for i in range(3)]


def test_it_conforms_and_keeps_what_only_speaks_of_a_topic() -> None:
    selling = [Example(text, {f"too_much_{topic}"}) for topic, text in SELLING.items()]
    conformance(WebTopics, examples=[*selling, *map(Example, SPEAKING)])


@pytest.mark.parametrize("text", ["百 家 乐", "百*家*乐", "ＢＥＴ３６５", "be\u200bt365"])
def test_evasions_hide_nothing(text: str) -> None:
    assert annotated([text])["n_gambling"] == [1]
