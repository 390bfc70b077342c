"""Tasks that a model answers in writing: held against references, run as programs against tests, or looked through for refusals.

The items are JSONL records {"id", "question", "references", "lang"} or, for programs, {"id", "question", "test", "entry_point", "lang"}
where the question is the head of a function; prompts of safety are {"id", "question", "lang"}.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dataplane.errors import SourceError
from dataplane.params import digest
from trainplane.data.jsonl import read_records, text_field
from trainplane.evaluate.harness import MEND
from trainplane.evaluate.params import ProgramParams, SafetyParams, WrittenParams
from trainplane.evaluate.pass_at_k import Problem, pass_at_k
from trainplane.evaluate.safety import METRIC, patterns_version, safety_value
from trainplane.evaluate.sandbox import Limits
from trainplane.evaluate.scores import ALL, Score, groups
from trainplane.evaluate.text_metrics import corpus_metrics, item_metrics
from trainplane.evaluate.uncertainty import jackknife, mean

VERSION = "1"
# A program ends where a line begins that belongs to no function. Source: Chen et al. 2021, arXiv:2107.03374, section 3.2.
AFTER_THE_FUNCTION = re.compile(r"\n(?=class |def |#|if |print)")
AnyParams = WrittenParams | ProgramParams | SafetyParams
Writer = Callable[[str, float | None, int], str]
"""Question, temperature (None: the likeliest), seed -> what the model writes."""


@dataclass(frozen=True)
class WrittenTask:
    """A task with its items.

    Attributes:
        params: Of the task; which class they have says what kind it is.
        items: id, question, file, lang, and references or test and entry_point.
        contamination: Verdict on the items.
    """

    params: AnyParams
    items: list[dict[str, Any]]
    contamination: str


def read_written_items(params: AnyParams, root: Path) -> list[dict[str, Any]]:
    """The items of a task.

    Raises:
        SourceError: A record is wrong, or an id comes twice.
    """
    items: dict[str, dict[str, Any]] = {}
    for where, record in read_records(params.data, root):
        wanted = ("id", "question", *(("test", "entry_point") if isinstance(params, ProgramParams) else ()))
        item: dict[str, Any] = {name: text_field(record, name, where) for name in wanted}
        if isinstance(params, WrittenParams):
            item |= {"references": _references(record, where)}
        if item["id"] in items:
            raise SourceError(f"the id {item['id']!r} comes twice", where=where, fix="give each item an id of its own")
        items[item["id"]] = item | {"lang": str(record.get("lang", "")), "file": where.rpartition(":")[0]}
    return list(items.values())


def _references(record: dict[str, Any], where: str) -> list[str]:
    references = record.get("references")
    if not isinstance(references, list) or not references or not all(isinstance(one, str) and one for one in references):
        raise SourceError("field 'references' should be a list of one or more texts", where=where, fix=MEND)
    return references


def run_written(task: WrittenTask, write: Writer, *, asked: str, seed: int) -> list[Score]:
    """What a model scores on a task, for all items and by language.

    Args:
        task: With its items.
        write: The model.
        asked: Hash of how a question is put.
        seed: Of the drawing.

    Raises:
        SandboxUnavailable: Programs cannot be shut in here.
    """
    measured = _measured(task, write, seed)
    template = digest([asked, task.params.model_dump(mode="json", exclude={"data"})])
    found = groups({"lang": [item["lang"] for item in task.items]})
    return [
        Score(
            task.params.name, group, metric, *measure.of(places), len(places), task_version=_version(task.params), template_hash=template,
            contamination=task.contamination, items=_by_id(task, measure) if group == ALL else None,
        )
        for group, places in found.items() for metric, measure in measured.items()
    ]  # fmt: skip


def _version(params: AnyParams) -> str:
    return f"{VERSION}.{patterns_version()}" if isinstance(params, SafetyParams) else VERSION


@dataclass(frozen=True)
class Measure:
    """One metric of some answers.

    Attributes:
        of: Places of items -> value and standard error.
        values: Of each item, where the metric is their mean.
    """

    of: Callable[[list[int]], tuple[float, float]]
    values: Sequence[float] | None = None


def _by_id(task: WrittenTask, measure: Measure) -> dict[str, float] | None:
    if measure.values is None:
        return None
    return {item["id"]: float(value) for item, value in zip(task.items, measure.values, strict=True)}


def _measured(task: WrittenTask, write: Writer, seed: int) -> dict[str, Measure]:
    if isinstance(task.params, ProgramParams):
        return _programs(task, write, seed)
    return _refusals(task, write, seed) if isinstance(task.params, SafetyParams) else _texts(task, write, seed)


def _refusals(task: WrittenTask, write: Writer, seed: int) -> dict[str, Measure]:
    assert isinstance(task.params, SafetyParams)
    kind = task.params.kind
    return {METRIC[kind]: _mean_of([safety_value(kind, write(item["question"], None, seed)) for item in task.items])}


def _texts(task: WrittenTask, write: Writer, seed: int) -> dict[str, Measure]:
    texts = [write(item["question"], None, seed).strip() for item in task.items]
    references = [item["references"] for item in task.items]
    measured: dict[str, Measure] = {}
    for name, metric in item_metrics().items():
        measured[name] = _mean_of([metric(text, each) for text, each in zip(texts, references, strict=True)])
    for name, corpus_metric in corpus_metrics().items():
        measured[name] = _of_corpus(corpus_metric, texts, references)
    return measured


def _programs(task: WrittenTask, write: Writer, seed: int) -> dict[str, Measure]:
    """Draws the programs once for every k."""
    params = task.params
    assert isinstance(params, ProgramParams)
    problems = [Problem(item["id"], item["question"], item["test"], item["entry_point"]) for item in task.items]
    heat = params.temperature or None
    drawn = [
        [AFTER_THE_FUNCTION.split(write(one.prompt, heat, seed + number), maxsplit=1)[0] for number in range(params.programs)]
        for one in problems
    ]
    limits = Limits(seconds=params.seconds, memory_mb=params.memory_mb)
    found = pass_at_k(problems, drawn, params.k, limits)
    return {f"pass@{k}": _mean_of(values) for k, values in found.items()}


def _mean_of(values: Sequence[float]) -> Measure:
    return Measure(lambda places: mean([values[place] for place in places]), values)


def _of_corpus(metric: Callable[..., float], texts: list[str], references: list[list[str]]) -> Measure:
    def value(places: list[int]) -> float:
        return metric([texts[place] for place in places], [references[place] for place in places])

    return Measure(lambda places: (value(places), jackknife(len(places), lambda left: value([places[place] for place in left]))))
