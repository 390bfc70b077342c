"""Multiple-choice tasks by lm-evaluation-harness, on local items and a model in memory; nothing is fetched."""

from __future__ import annotations

import contextlib
import io
import logging
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from dataplane.errors import ParamsError, SourceError, did_you_mean
from dataplane.params import digest
from trainplane.data.jsonl import read_records, text_field
from trainplane.evaluate.scores import ALL, Score, groups

TEMPLATES = Path(__file__).parent / "tasks"
METRICS = ("acc", "acc_norm")
MEND = "mend or remove the line"


@dataclass(frozen=True)
class Task:
    """A task with its items.

    Attributes:
        name: Of the task.
        template: Its YAML, read.
        items: id, question, choices, answer, lang, file.
        contamination: Verdict on the items.
    """

    name: str
    template: dict[str, Any]
    items: list[dict[str, Any]]
    contamination: str


def read_template(name: str) -> dict[str, Any]:
    """The template of a task.

    Raises:
        ParamsError: There is none of this name.
    """
    known = {path.stem: path for path in TEMPLATES.glob("*.yaml")}
    if name not in known:
        raise ParamsError(f"unknown task {name!r}, {did_you_mean(name, known)}", where="evaluate.tasks", fix="edit params.yaml")
    template: dict[str, Any] = yaml.safe_load(known[name].read_text(encoding="utf-8"))
    return template


def read_items(globs: Sequence[str], root: Path) -> list[dict[str, Any]]:
    """The items of JSONL files.

    Raises:
        SourceError: A record is wrong, or an id comes twice.
    """
    items: dict[str, dict[str, Any]] = {}
    for where, record in read_records(globs, root):
        item = _item(record, where)
        if item["id"] in items:
            raise SourceError(f"the id {item['id']!r} comes twice", where=where, fix="give each item an id of its own")
        items[item["id"]] = item
    return list(items.values())


def _item(record: dict[str, Any], where: str) -> dict[str, Any]:
    choices, answer = record.get("choices"), record.get("answer")
    if not isinstance(choices, list) or len(choices) < 2 or not all(isinstance(choice, str) and choice for choice in choices):
        raise SourceError("field 'choices' should be a list of two or more texts", where=where, fix=MEND)
    if not isinstance(answer, int) or isinstance(answer, bool) or not 0 <= answer < len(choices):
        raise SourceError(f"field 'answer' should be the place of a choice, got {answer!r:.80}", where=where, fix=MEND)
    return {
        "id": text_field(record, "id", where), "question": text_field(record, "question", where), "choices": choices, "answer": answer,
        "lang": str(record.get("lang", "")), "file": where.rpartition(":")[0],
    }  # fmt: skip


def verdict(items: Sequence[dict[str, Any]], seen_ids: set[str], checked_files: set[str]) -> str:
    """What decontamination says of the items: documents that hold one were found, and dropped before training.

    Args:
        items: With id and file.
        seen_ids: Items that decontamination found in documents.
        checked_files: Files whose items it looked for; it says nothing of the others.
    """
    n, seen = len(items), sum(item["id"] in seen_ids for item in items)
    unchecked = sum(item["file"] not in checked_files for item in items)
    if unchecked == n:
        return "unchecked"
    told = f"{seen} of {n} items seen in the raw corpus and dropped" if seen else "clean"
    return f"{told}; {unchecked} of {n} unchecked" if unchecked else told


def run_task(model: Any, tokenizer: Any, task: Task, *, chat: bool, batch_size: int) -> list[Score]:
    """Accuracy of a model on a task, for all items and by language.

    Args:
        model: In memory.
        tokenizer: Of the model.
        task: With its items.
        chat: Whether the question is put as a user's message, by the chat template.
        batch_size: Choices that go through the model at once.
    """
    with _quiet():
        from lm_eval.evaluator import evaluate
        from lm_eval.models.huggingface import HFLM

        lm = HFLM(pretrained=model, tokenizer=tokenizer, batch_size=batch_size, max_length=model.config.max_position_embeddings)
        found = evaluate(lm, {"tasks": {task.name: _harness_task(task)}}, apply_chat_template=chat)
    asked = digest([task.template, tokenizer.chat_template if chat else None])
    return _scores(task, found["samples"][task.name], asked)


def _harness_task(task: Task) -> Any:
    import datasets
    from lm_eval.api.task import ConfigurableTask

    items = datasets.Dataset.from_list(task.items)
    return ConfigurableTask(config=dict(task.template) | {"custom_dataset": lambda **more: {"test": items}})


def _scores(task: Task, samples: Sequence[dict[str, Any]], asked: str) -> list[Score]:
    """Means over the items; the standard error is that of a mean."""
    scores = []
    for group, places in groups({"lang": [sample["doc"]["lang"] for sample in samples]}).items():
        for metric in METRICS:
            values = [float(samples[place][metric]) for place in places]
            n, mean = len(values), math.fsum(values) / len(values)
            error = math.sqrt(math.fsum((value - mean) ** 2 for value in values) / (n - 1) / n) if n > 1 else math.nan
            scores.append(
                Score(
                    task.name, group, metric, mean, error, n, task_version=str(task.template["metadata"]["version"]), template_hash=asked,
                    contamination=task.contamination,
                    items=dict(zip((samples[place]["doc"]["id"] for place in places), values, strict=True)) if group == ALL else None,
                )
            )  # fmt: skip
    return scores


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """The harness logs its doings and draws bars, whatever it is asked."""
    before = logging.root.manager.disable
    logging.disable(logging.WARNING)
    try:
        with contextlib.redirect_stderr(io.StringIO()), contextlib.redirect_stdout(io.StringIO()):
            yield
    finally:
        logging.disable(before)
