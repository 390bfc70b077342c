"""Conversations: every published shape gives its turns, and what nothing can be learnt from is a fault."""

import io
import json
import tarfile
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dataplane.conversation import ROLES, Conversation, NotAConversation, Turn, checked, parse, render
from dataplane.source import Fault, Record
from dataplane.sources.chat import Chat

WORDS = st.text(st.characters(exclude_categories=["Cs"]), max_size=40) | st.sampled_from(["⟦user⟧", "a\n⟦chosen⟧\n\nb", "⟦⟧x", "\n", " "])
TURNS = st.lists(st.builds(Turn, st.sampled_from(ROLES), WORDS), min_size=1, max_size=5)
ASKED, ANSWERED = Turn("user", "1+1?"), Turn("assistant", "2")


def read(layout: str, *values: object, **options: object) -> list[Record | Fault]:
    data = "\n".join(json.dumps(value, ensure_ascii=False) for value in values).encode()
    return list(Chat({"layout": layout} | options).read(io.BytesIO(data), "a.json"))


def conversation(layout: str, value: object, **options: object) -> Conversation:
    (found,) = read(layout, value, **options)
    assert isinstance(found, Record), found
    return parse(found.payload.decode())


def comes_back(whole: Conversation) -> None:
    """Its text is read as what it was, or refused for what was wrong with it before."""
    try:
        checked(whole)
    except NotAConversation:
        with pytest.raises(NotAConversation):
            parse(render(whole))
        return
    assert parse(render(whole)) == whole


@given(TURNS, WORDS, st.booleans())
def test_a_judgement_comes_back_whatever_its_words_are(turns: list[Turn], answer: str, desirable: bool) -> None:
    comes_back(Conversation(tuple(turns), judged=answer, desirable=desirable))


@given(TURNS, st.none() | st.tuples(WORDS, WORDS))
def test_a_conversation_comes_back_whatever_its_words_are(turns: list[Turn], answers: tuple[str, str] | None) -> None:
    comes_back(Conversation(tuple(turns), *(answers or (None, None))))


@pytest.mark.parametrize(
    ("layout", "value", "expected"),
    [
        ("messages", {"messages": [{"role": "user", "content": "1+1?"}, {"role": "assistant", "content": "2"}]}, (ASKED, ANSWERED)),
        (
            "messages",
            {
                "messages": [
                    {"role": "user", "content": "1+1?"}, {"role": "assistant", "content": None, "tool_calls": [{"name": "add"}]},
                    {"role": "tool", "content": "2"}, {"role": "assistant", "content": "2"},
                ],
                "tools": [{"name": "add"}],
            },
            (Turn("system", '[{"name": "add"}]'), ASKED, Turn("assistant", '[{"name": "add"}]'), Turn("tool", "2"), ANSWERED),
        ),
        (
            "sharegpt",
            {"system": "Be short.", "conversations": [{"from": "human", "value": "1+1?"}, {"from": "gpt", "value": "2"}]},
            (Turn("system", "Be short."), ASKED, ANSWERED),
        ),
        ("alpaca", {"instruction": "Add.", "input": "1+1", "output": "2"}, (Turn("user", "Add.\n1+1"), ANSWERED)),
        (
            "alpaca",
            {"instruction": "1+1?", "input": "", "output": "2", "history": [["hi", "hello"]]},
            (Turn("user", "hi"), Turn("assistant", "hello"), ASKED, ANSWERED),
        ),
        (
            "oasst",
            {
                "message_tree_id": "t",
                "prompt": {
                    "text": "1+1?", "role": "prompter",
                    "replies": [
                        {"text": "3", "role": "assistant", "rank": 1, "replies": []},
                        {"text": "2", "role": "assistant", "rank": 0, "replies": [{"text": "thanks", "role": "prompter", "replies": []}]},
                    ],
                },
            },
            (ASKED, ANSWERED),
        ),
    ],
)  # fmt: skip
def test_each_shape_gives_its_turns(layout: str, value: object, expected: tuple[Turn, ...]) -> None:
    assert conversation(layout, value) == Conversation(expected)


@pytest.mark.parametrize(
    ("layout", "value"),
    [
        ("pairs", {"prompt": "1+1?", "chosen": "2", "rejected": "3"}),
        ("pairs", {"prompt": [{"role": "user", "content": "1+1?"}], "chosen": [{"role": "assistant", "content": "2"}], "rejected": "3"}),
        ("hh", {"chosen": "\n\nHuman: 1+1?\n\nAssistant: 2", "rejected": "\n\nHuman: 1+1?\n\nAssistant: 3"}),
        (
            "sharegpt",
            {"conversations": [{"from": "human", "value": "1+1?"}], "chosen": {"from": "gpt", "value": "2"}, "rejected": {"value": "3"}},
        ),
        ("alpaca", {"instruction": "1+1?", "chosen": "2", "rejected": "3"}),
    ],
)
def test_each_shape_of_a_comparison_gives_its_answers(layout: str, value: object) -> None:
    assert conversation(layout, value) == Conversation((ASKED,), "2", "3")


@pytest.mark.parametrize("label", [True, 1, "true", "1", False, 0, -1, "False"])
def test_a_judged_answer_has_its_label(label: object) -> None:
    expected = Conversation((ASKED,), judged="2", desirable=label in (True, "true", "1"))
    assert conversation("judged", {"prompt": "1+1?", "completion": "2", "label": label}) == expected
    talk = {"prompt": [{"role": "user", "content": "1+1?"}], "completion": [{"role": "assistant", "content": "2"}], "label": label}
    assert conversation("judged", talk) == expected
    named = {"fields": {"user": "q", "assistant": "a", "label": "thumb"}}
    assert conversation("fields", {"q": "1+1?", "a": "2", "thumb": label}, **named) == expected


def test_a_judgement_that_an_operator_broke_is_no_conversation() -> None:
    for text in ("⟦user⟧\nq\n⟦desirable⟧\na\n⟦undesirable⟧\na", "⟦user⟧\nq\n⟦desirable⟧\na\n⟦user⟧\nb", "⟦user⟧\nq\n⟦desirable⟧\n "):
        with pytest.raises(NotAConversation, match="judg"):
            parse(text)


def test_any_object_is_read_by_a_map_of_its_fields() -> None:
    options = {"fields": {"user": "q.text", "assistant": "a.0"}, "id": "n", "meta": {"split": "part"}}
    (found,) = read("fields", {"q": {"text": "1+1?"}, "a": ["2"], "n": 7, "part": "held_out"}, **options)
    assert isinstance(found, Record)
    assert (parse(found.payload.decode()), found.key, found.meta) == (Conversation((ASKED, ANSWERED)), "7", {"split": "held_out"})


@pytest.mark.parametrize(
    ("layout", "value", "told"),
    [
        ("messages", {"messages": []}, "there is no turn"),
        ("judged", {"prompt": "q", "completion": " ", "label": True}, "judged answer is empty"),
        ("judged", {"prompt": "q", "completion": "a"}, "the label is 'None', expected true or false"),
        ("judged", {"prompt": "q", "completion": "a", "label": [1]}, "expected true or false"),
        ("judged", {"prompt": [{"role": "assistant", "content": "x"}], "completion": "a", "label": 1}, "follows a turn of the assistant"),
        ("messages", {"messages": [{"role": "user", "content": "q"}]}, "nothing to learn"),
        ("messages", {"messages": [{"role": "user", "content": "q"}, {"role": "assistant", "content": " "}]}, "nothing to learn"),
        ("messages", {"messages": [{"role": "stranger", "content": "q"}]}, "unknown speaker"),
        ("messages", {"messages": "hello"}, "no list of objects"),
        ("alpaca", {"instruction": "q", "output": 3}, "'output' holds int"),
        ("alpaca", {"instruction": "q", "output": "a", "history": [["alone"]]}, "history"),
        ("pairs", {"prompt": "q", "chosen": "yes", "rejected": " yes "}, "nothing to prefer"),
        ("pairs", {"prompt": "q", "chosen": "yes", "rejected": ""}, "empty"),
        ("hh", {"chosen": "\n\nHuman: a\n\nAssistant: x", "rejected": "\n\nHuman: b\n\nAssistant: y"}, "do not part at their last answer"),
        ("hh", {"chosen": "hello", "rejected": "hello"}, "does not begin with Human"),
        ("oasst", {"prompt": {"text": "q", "role": "prompter", "replies": 3}}, "no turn"),
    ],
)
def test_what_cannot_be_learnt_from_is_a_fault(layout: str, value: object, told: str) -> None:
    found = read(layout, value, {"messages": [{"role": "assistant", "content": "hi"}]})[0]
    assert isinstance(found, Fault)
    assert (found.error, told in found.message) == ("NotAConversation", True), found


@pytest.mark.parametrize("layout", ["messages", "sharegpt", "alpaca", "pairs", "hh", "oasst", "fields"])
@given(value=st.dictionaries(
    st.sampled_from(["messages", "conversations", "instruction", "output", "history", "chosen", "rejected", "prompt", "tools", "replies"]),
    st.recursive(st.none() | st.integers() | st.text(max_size=5), lambda inner: st.lists(inner, max_size=3)
                 | st.dictionaries(st.sampled_from(["role", "from", "content", "value", "text", "replies", "rank"]), inner, max_size=3)),
))  # fmt: skip
def test_no_object_stops_the_reading(layout: str, value: dict[str, object]) -> None:
    (found,) = read(layout, value, fields={"user": "prompt", "assistant": "output"})
    assert isinstance(found, Record | Fault)


def test_a_record_is_read_again_from_its_place() -> None:
    values = [{"instruction": f"say {i}", "output": f"第{i}"} for i in range(3)]
    data = json.dumps(values, ensure_ascii=False, indent=1).encode()
    source = Chat({"layout": "alpaca"})
    for found in source.read(io.BytesIO(data), "a.json"):
        assert isinstance(found, Record)
        assert source.reread(io.BytesIO(data), "a.json", found.offset, found.length, None) == found.payload


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "layout", "rows", "is_pair"),
    [("alpaca_zh_demo", "alpaca", 1000, False), ("alpaca_en_demo", "alpaca", 999, False), ("dpo_zh_demo", "sharegpt", 300, True)],
)
def test_public_sets_are_read_whole(shared_data: Path, name: str, layout: str, rows: int, is_pair: bool) -> None:
    with tarfile.open(shared_data / "instruct" / "llamafactory_demos.tar.xz") as archive:
        data = archive.extractfile(f"llamafactory_demos/{name}.json")
        assert data is not None
        found = list(Chat({"layout": layout}).read(io.BytesIO(data.read()), "a.json"))
    assert (len(found), sum(isinstance(one, Fault) for one in found)) == (rows, 0)
    assert {parse(one.payload.decode()).is_pair() for one in found if isinstance(one, Record)} == {is_pair}
