"""The documents whose verdict flips when rules change, summed in one pass over what the rules look at."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy.typing as npt

from dataplane.deciding import Rule
from dataplane.lake.sql import private_connection
from dataplane.lake.store import Data
from dataplane.lake.views import quoted
from dataplane.lineage.alignment import align
from dataplane.lineage.books import Mask, Unchanged, are_current
from dataplane.lineage.signals import LANGUAGE, PLACE, FlatRules, any_of, stream
from dataplane.lineage.thresholds import Change
from dataplane.lineage.token_counts import BytesPerToken, Counts, TokenCounts, sampling_step
from dataplane.snapshot import Snapshot, snapshot_path

MEMORY_LIMIT = "200MB"
SPREAD = 2654435761  # a place times this, modulo 2^32, orders places as if at random, and always the same way


@dataclass(frozen=True)
class Known:
    """What other tables say of each document.

    Attributes:
        fails: bool [rows], whether it fails a rule that the question leaves alone; None where the rules have to be asked.
        counts: int32 [rows], its tokens, UNKNOWN where they were not counted; None without the table `tokens`.
    """

    fails: Mask | None
    counts: Counts | None


def known(documents: Snapshot, data: Data, changed: Change) -> Known:
    """Reads `tokens`, and `select_decisions` where it is about these documents and rules."""
    root = documents.root
    tokens = TokenCounts(Snapshot.load("tokens", root).open(), documents.rows) if snapshot_path("tokens", root).exists() else None
    books = are_current(root, documents, changed)
    unchanged = Unchanged(Snapshot.load("select_decisions", root), changed.gone, documents.rows) if books else None
    align(data, [follower for follower in (tokens, unchanged) if follower])
    if tokens and not tokens.finished:
        tokens.join(data)
    return Known(unchanged.fails if unchanged and unchanged.finished else None, tokens.counts if tokens else None)


class Flips:
    """Sums over the documents whose verdict flips.

    Args:
        documents: The table of that name.
        data: Its rows.
        changed: The rules before and after; some differ.
        samples: Most documents whose places are kept of each cell.

    Attributes:
        flat: Rules over the columns of the documents.
        reasons: For gained (True) and lost documents: reason -> the rules that speak of it. What failed before is why a
            document is gained, what fails now is why it is lost.
        cells: Documents, bytes, known_tokens, estimated and places of samples, by everything that is told apart.
    """

    def __init__(self, documents: Snapshot, data: Data, changed: Change, samples: int) -> None:
        self._data, self._changed = data, changed
        self._connection = private_connection(MEMORY_LIMIT)
        self.flat = FlatRules(self._connection, data.schema)
        self.reasons = {True: _by_reason(changed.gone), False: _by_reason(changed.new)}
        self._known = known(documents, data, changed)
        self._register()
        self.cells = self._with_estimates(self._summed(sampling_step(documents.rows), samples))

    @property
    def counted(self) -> bool:
        """Whether tokens were counted at all."""
        return self._known.counts is not None

    def _register(self) -> None:
        """Makes what is needed known to DuckDB, to be read once."""
        rules = [*self._changed.gone, *self._changed.new, *(self._changed.same if self._known.fails is None else [])]
        language = [LANGUAGE] if LANGUAGE in self._data.schema.names else []
        columns = list(dict.fromkeys(["source", "kind", "n_bytes", *language, *self.flat.columns(rules)]))
        beside: dict[str, npt.NDArray[Any]] = {}
        if self._known.fails is not None:
            beside["fails_unchanged"] = self._known.fails
        if self._known.counts is not None:
            beside["n_tokens"] = self._known.counts
        self._connection.register("documents", stream(self._data, columns, place=True, beside=beside))

    def _summed(self, step: int, samples: int) -> list[dict[str, Any]]:
        """The documents that flip, and among cells of their own, those from which bytes per token are told."""
        before, after = self._any_of(self._changed.gone), self._any_of(self._changed.new)
        same = self._any_of(self._changed.same) if self._known.fails is None else "fails_unchanged"
        flips = f"CASE WHEN ({before}) = ({after}) THEN false WHEN {same} THEN false ELSE true END"
        sampled = f"{PLACE} % {step} = 0" if self.counted else "false"
        language = quoted(LANGUAGE) if LANGUAGE in self._data.schema.names else "NULL::VARCHAR"
        places = f"arg_min({PLACE}, ({PLACE} * {SPREAD}) % (1::BIGINT << 32), {samples})" if samples else "[]::BIGINT[]"
        of_known = "FILTER (n_tokens >= 0)" if self.counted else "FILTER (false)"
        tokens = "n_tokens" if self.counted else "0"
        # A row that is not sampled is here because it flips: the rules need not be asked again.
        query = (
            f"SELECT ({before}) AS gained, CASE WHEN {sampled} THEN {flips} ELSE true END AS flipped, {sampled} AS sampled,"
            f" source, kind, {language} AS language{self._flags()}, count(*) AS documents, sum(n_bytes)::BIGINT AS bytes,"
            f" coalesce(sum(n_bytes) {of_known}, 0)::BIGINT AS known_bytes,"
            f" coalesce(sum({tokens}) {of_known}, 0)::BIGINT AS known_tokens, {places} AS places"
            f" FROM documents WHERE {f'{sampled} OR ' if self.counted else ''}{flips} GROUP BY ALL"
        )
        return list(self._connection.sql(query).to_arrow_table().to_pylist())

    def _flags(self) -> str:
        """One column for each side's reasons: whether it holds. None of the other side's rules holds where a verdict flips."""
        return "".join(
            f", {self._any_of(rules)} AS {flag(gained, i)}"
            for gained, by_reason in self.reasons.items()
            for i, rules in enumerate(by_reason.values())
        )

    def _any_of(self, rules: Sequence[Rule]) -> str:
        return any_of([self.flat.predicate(rule) for rule in rules])

    def _with_estimates(self, cells: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
        """The cells that flip, with `estimated` tokens for the documents whose tokens were not counted."""
        ratio = BytesPerToken(cell for cell in cells if cell["sampled"])
        return [cell | {"estimated": ratio.tokens(cell, cell["bytes"] - cell["known_bytes"])} for cell in cells if cell["flipped"]]


def flag(gained: bool, i: int) -> str:
    """Name of the column that says whether a side's i-th reason holds."""
    return f"gained_for_{i}" if gained else f"lost_for_{i}"


def _by_reason(rules: Sequence[Rule]) -> dict[str, list[Rule]]:
    """Rules by what they say is wrong; a rule set may be used several times."""
    found: dict[str, list[Rule]] = {}
    for rule in rules:
        found.setdefault(f"{rule.operator}.{rule.reason}", []).append(rule)
    return found
