"""What a stage learns from: JSONL files, documents of the lake that came through its rules, or both."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dataplane.conversation import Conversation, NotAConversation, Turn, parse
from dataplane.errors import ParamsError
from dataplane.snapshot import Snapshot
from trainplane.align.params import AlignParams
from trainplane.data.chat import Example, read_examples
from trainplane.data.jsonl import files_digest
from trainplane.data.judged import Judged, read_judged
from trainplane.data.overlap import check_overlap, plain_question
from trainplane.data.preference import Pair, read_pairs
from trainplane.errors import TrainingError

SHOWN = 3


@dataclass(frozen=True)
class Found:
    """A conversation of the lake, and what `raw` says of it.

    Attributes:
        doc_id: Of its document.
        source: Where it comes from.
        lang: Its language, "" where `meta` does not tell it.
        split: train | held_out
        conversation: As the operators left it.
        meta: What the source took over of the record.
    """

    doc_id: str
    source: str
    lang: str
    split: str
    conversation: Conversation
    meta: dict[str, Any]


def examples_of(params: AlignParams, root: Path, stage: str) -> list[Example]:
    """Conversations to train on and held-out ones.

    Raises:
        SourceError: A file's record is wrong.
        TrainingError: A document is no conversation any more, or a question is in both splits.
    """
    examples = read_examples(params.data, root)
    examples += [
        Example(one.doc_id, one.conversation.turns, one.source, one.lang, one.split)
        for one in lake_conversations(params, root)
        if not (one.conversation.is_pair() or one.conversation.is_judged())
    ]
    check_overlap(((example.id, example.split, _asked(example.messages)) for example in examples), stage)
    return examples


def _asked(messages: Sequence[Turn]) -> str:
    """Everything but the last turn."""
    return "\n".join(f"{message.role}: {message.content}" for message in messages[:-1])


def pairs_of(params: AlignParams, root: Path, stage: str) -> list[Pair]:
    """Comparisons to train on and held-out ones.

    Raises:
        SourceError: A file's record is wrong.
        TrainingError: A document is no conversation any more, or a question is in both splits.
    """
    pairs = read_pairs(params.data, root) + [_pair(one) for one in lake_conversations(params, root) if one.conversation.is_pair()]
    check_overlap(((pair.id, pair.split, _asked([*pair.messages(), Turn("assistant", "")])) for pair in pairs), stage)
    return pairs


def _pair(found: Found) -> Pair:
    *history, last = found.conversation.turns
    chosen, rejected = str(found.conversation.chosen), str(found.conversation.rejected)
    return Pair(found.doc_id, last.content, chosen, rejected, found.source, found.split, tuple(history), last.role)


def judged_of(params: AlignParams, root: Path, stage: str) -> list[Judged]:
    """Judged answers to train on and held-out ones.

    Raises:
        SourceError: A file's record is wrong.
        TrainingError: A document is no conversation any more, or a question is in both splits.
    """
    found = read_judged(params.data, root) + [
        Judged(one.doc_id, one.conversation.turns, one.conversation.judged, one.conversation.desirable, one.source, one.split)
        for one in lake_conversations(params, root)
        if one.conversation.judged is not None
    ]
    check_overlap(((one.id, one.split, _asked([*one.asked, Turn("assistant", "")])) for one in found), stage)
    return found


def provenance(params: AlignParams, root: Path) -> dict[str, Any]:
    """For run.json: which files, and which snapshots of the lake."""
    told: dict[str, Any] = {"data": params.data, "data_digest": files_digest(params.data, root)}
    if params.sources:
        told |= {
            "sources": params.sources,
            "snapshots": {name: Snapshot.load(name, root).digest for name in ("documents", params.snapshot)},
        }
    return told


def lake_texts(doc_ids: Sequence[str], root: Path) -> Iterator[tuple[str, str]]:
    """Id and text of documents."""
    for batch in Snapshot.load("documents", root).batches(["doc_id", "text"], {"doc_id": sorted(doc_ids)}):
        yield from zip(batch.column("doc_id").to_pylist(), batch.column("text").to_pylist(), strict=True)


def lake_conversations(params: AlignParams, root: Path) -> list[Found]:
    """Conversations of the sources that came through the rules, by doc_id.

    Raises:
        TrainingError: A document is no conversation any more.
        ParamsError: Nothing of a source came through.
    """
    if not params.sources:
        return []
    ids = set(Snapshot.load(params.snapshot, root).to_table(["doc_id"]).column("doc_id").to_pylist())
    meta = _meta_of(params.sources, root)
    found: list[Found] = []
    broken: list[str] = []
    for batch in Snapshot.load("documents", root).batches(["doc_id", "source", "text"], {"source": params.sources}):
        for row in batch.to_pylist():
            if row["doc_id"] not in ids:
                continue
            try:
                conversation = parse(row["text"])
            except NotAConversation as error:
                broken.append(f"{row['doc_id']} ({error.message})")
                continue
            told = meta.get(row["doc_id"], {})
            split = _split(conversation, told.get("split"), params.held_out_share)
            found.append(Found(row["doc_id"], row["source"], str(told.get("lang", "")), split, conversation, told))
    _refuse(broken, found, params)
    return sorted(found, key=lambda one: one.doc_id)


def _refuse(broken: list[str], found: list[Found], params: AlignParams) -> None:
    if broken:
        raise TrainingError(
            f"{len(broken)} documents are no conversations: {'; '.join(broken[:SHOWN])}",
            where="documents",
            fix="give the operators that take lines out a `when: mime <> 'text/x-chat'`, and the source `format: chat`",
        )
    if missing := sorted(set(params.sources) - {one.source for one in found}):
        raise ParamsError(
            f"{params.snapshot} holds no document of {', '.join(missing)}",
            where="sources",
            fix="name sources of params.yaml that come that far",
        )


def _meta_of(sources: Sequence[str], root: Path) -> dict[str, dict[str, Any]]:
    rows = Snapshot.load("raw", root).to_table(["doc_id", "meta"], {"source": list(sources)}).to_pylist()
    return {row["doc_id"]: json.loads(row["meta"]) for row in rows if row["meta"]}


def _split(conversation: Conversation, told: Any, held_out_share: float) -> str:
    """As the record says; else by a hash of the question, so that it stays where it is when others come, with all its answers."""
    if told in ("train", "held_out"):
        return str(told)
    question = plain_question("\n".join(turn.content for turn in conversation.asked()))
    place = int.from_bytes(hashlib.sha256(f"held out {question}".encode()).digest()[:8]) / 2**64
    return "held_out" if place < held_out_share else "train"
