"""What has to run again when the pipeline of `clean` changed: often only an operator's own columns, and no text.

The rows and the text of `documents` are made by the transforms and the filters that drop at once. While those are what
they were, an annotator that comes after the last of them sees the text as it is stored, so its signals can be computed
from there.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa

from dataplane.engine.journal import Journal
from dataplane.engine.tables import Result
from dataplane.lake.store import Fragment
from dataplane.operator import Operator, Transform
from dataplane.pipeline import READ_ROWS, Pipeline, Step, batches, documents_schema
from dataplane.snapshot import content_sum, open_store

COMPUTED_LAST = ("n_bytes", "text_hash")  # known when the last transform has run, so no operator sees them


@dataclass(frozen=True)
class PlannedStep:
    """One step as far as a result depends on it.

    Attributes:
        name: Name of the operator.
        op_id: Its identity, params and models included.
        when: Its gate.
        makes_rows: Whether it changes text or rows.
        place: How many steps that make rows come before it.
    """

    name: str
    op_id: str
    when: str
    makes_rows: bool
    place: int


def planned(steps: Sequence[Step], operators: Sequence[Operator]) -> list[PlannedStep]:
    """The steps of a pipeline as they are compared."""
    found: list[PlannedStep] = []
    for step, operator in zip(steps, operators, strict=True):
        makes_rows = isinstance(operator, Transform) or step.drop == "now"
        found.append(PlannedStep(step.use, operator.op_id, step.when, makes_rows, sum(other.makes_rows for other in found)))
    return found


def to_json(steps: Sequence[PlannedStep]) -> list[dict[str, Any]]:
    """As a journal keeps them."""
    return [asdict(step) for step in steps]


def from_json(values: Sequence[dict[str, Any]]) -> list[PlannedStep]:
    """From what a journal keeps."""
    return [PlannedStep(**value) for value in values]


def to_rerun(before: Sequence[PlannedStep], after: Sequence[PlannedStep], operators: Sequence[Operator]) -> list[int] | None:
    """Places of the annotators whose columns have to be computed, given documents of an earlier pipeline.

    Args:
        before: The pipeline that made the documents.
        after: The pipeline that is wanted.
        operators: Its operators.

    Returns:
        Places in `after`, in order; None where text or rows may differ, so that the documents have to be made anew.
    """
    if [step for step in before if step.makes_rows] != [step for step in after if step.makes_rows]:
        return None
    last = sum(step.makes_rows for step in after)
    same = set(before)
    changed: list[int] = []
    for i, step in enumerate(after):
        stale = {after[j].name for j in changed}
        if step in same and not _depends_on(step, operators[i], stale):
            continue
        if step.place < last or step.makes_rows:
            return None
        changed.append(i)
    return changed


def _depends_on(step: PlannedStep, operator: Operator, names: set[str]) -> bool:
    """Whether an operator reads, or is gated by, a signal of one of these operators."""
    read = {column.partition("__")[0] for column in operator.reads} | set(re.findall(r"[a-z][a-z0-9_]*", step.when.lower()))
    gates = {name for word in read for name in names if word == name or word.startswith(f"{name}__")}
    return bool(gates)


@dataclass(frozen=True)
class Earlier:
    """Documents that an earlier pipeline made, and what of them has to be computed.

    Attributes:
        digest: Of that version of `documents`.
        schema: Its schema.
        places: The annotators to run.
    """

    digest: str
    schema: pa.Schema
    places: list[int]


@dataclass(frozen=True)
class EarlierRun:
    """A run of an earlier pipeline whose documents can serve again.

    Attributes:
        journal: Its journal.
        documents: What it made.
        fragments: The data of their fragments.
    """

    journal: Journal
    documents: Earlier
    fragments: frozenset[str]

    def result(self, key: str) -> Any | None:
        """What it left of a unit; None for what a later run, which did not come to its end, added to the journal."""
        found = self.journal.get(key)
        if found is None or not self.fragments.issuperset(f.data for f in Result.parse(found).tables.get("documents", [])):
            return None
        return found


def find_earlier(journal: Journal, plan: Sequence[PlannedStep], operators: Sequence[Operator], root: Path) -> list[EarlierRun]:
    """Runs of earlier pipelines whose documents can serve again, newest first."""
    store = open_store(root)
    found = []
    if not store.adds_columns:
        return []
    for other in journal.others():
        about = other.about()
        version = store.version("documents", about["tables"]["documents"]) if "tables" in about else None
        if version is None:
            continue
        places = to_rerun(from_json(about["pipeline"]), plan, operators)
        if places is not None:
            documents = Earlier(version.digest, store.open("documents", version.digest).schema, places)
            found.append(EarlierRun(other, documents, frozenset(fragment.data for fragment in version.fragments)))
    return found


def renew(root: Path, pipeline: Pipeline, earlier: Earlier, result: Result) -> Result | None:
    """The result of a unit under the new pipeline: the earlier one with other signals beside the same rows.

    Returns:
        None where an operator broke on a row, or had: then the rows themselves change.
    """
    if sum(fragment.rows for fragment in result.tables.get("clean_quarantine", [])):
        return None
    after = documents_schema(pipeline.operators)
    fragments = []
    for fragment in result.tables.get("documents", []):
        renewed = _renew_fragment(root, pipeline, earlier, fragment, after)
        if renewed is None:
            return None
        fragments.append(renewed)
    return Result(result.tables | {"documents": fragments}, Counter())


def _renew_fragment(root: Path, pipeline: Pipeline, earlier: Earlier, fragment: Fragment, after: pa.Schema) -> Fragment | None:
    store = open_store(root)
    kept = [name for name in earlier.schema.names if name in after.names]
    total, new_columns = 0, []
    for batch in batches(store.fragment_batches("documents", earlier.digest, fragment.data, kept, READ_ROWS)):
        given = batch.select([name for name in kept if name not in COMPUTED_LAST])
        measured, broken = pipeline.measure(given, earlier.places)
        if broken:
            return None
        columns = {name: batch.column(name) for name in kept} | {name: measured.column(name) for name in measured.schema.names}
        whole = pa.record_batch([columns[name] for name in after.names], schema=after)
        total += content_sum(whole)
        new_columns.append(whole.select(pipeline.signals(earlier.places)))
    if earlier.places:
        data = store.add_columns("documents", fragment.data, earlier.schema, after, new_columns)
    else:
        data = store.keep_columns(fragment.data, earlier.schema, after)
    return Fragment(data, fragment.rows, f"{total % (1 << 128):032x}")
