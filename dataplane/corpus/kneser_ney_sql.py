"""Interpolated modified Kneser-Ney estimation in DuckDB, for n-grams that do not fit into memory.

The tables, for n-grams of n tokens: c{n} (ids w1, w2, ..., `count`), given; p{n} (ids, probability `p`) and x{n} (ids of a context of
n - 1 tokens, `total` of the counts behind it, `remainder` for shorter n-grams), made here. What is summed up are whole numbers, so
that the same counts give the same bits on any number of threads.

Source: Chen and Goodman 1998 (TR-10-98, Harvard), section 3; Heafield et al. 2013 (ACL P13-2121), sections 3.2 to 3.4.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from dataplane.corpus.kneser_ney import from_counts_of_counts
from dataplane.kernels.ngram_lm import BOS, UNKNOWN

if TYPE_CHECKING:
    import duckdb


def columns(n: int, of: str = "", names: Sequence[str] = ()) -> str:
    """`w1, w2, ..., wn` of a table, and further columns."""
    return ", ".join([*(f"{of}w{i}" for i in range(1, n + 1)), *names])


def estimate(database: duckdb.DuckDBPyConnection, n: int, order: int, pruned: int, size: int) -> list[float]:
    """Makes p{n} and x{n}; those of shorter n-grams are there.

    Args:
        database: Holds c1, c2, ...
        n: Tokens of the n-grams.
        order: Tokens of the longest ones.
        pruned: Occurrences up to which n-grams are left out; 0 keeps all.
        size: Words of the vocabulary, `<s>`, `</s>` and `<unk>` included.

    Returns:
        The discounts of counts 1, 2, and 3 or more.
    """
    database.execute(f"CREATE TABLE a{n} AS SELECT *, count > {pruned} OR {n} = 1 AS kept FROM ({_adjusted(n, order)})")
    if n == 1:
        database.execute(f"INSERT INTO a1 SELECT {UNKNOWN}, 0, 0, true WHERE {UNKNOWN} NOT IN (SELECT w1 FROM a1)")
    counted = dict(database.execute(f"SELECT adjusted, count(*) FROM a{n} WHERE adjusted BETWEEN 1 AND 4 GROUP BY 1").fetchall())
    discounts = [float(d) for d in from_counts_of_counts([counted.get(k, 0) for k in range(5)])[1:]]
    database.execute(f"CREATE TABLE x{n} AS {_contexts(n, discounts)}")
    # Two joins of two tables each: a join of all three may begin with the contexts and the shorter n-grams, which explodes.
    database.execute(f"CREATE TABLE s{n} AS {_shares(n, discounts)}")
    database.execute(f"CREATE TABLE p{n} AS {_unigrams(size) if n == 1 else _interpolated(n)}")
    database.execute(f"DROP TABLE a{n}")
    database.execute(f"DROP TABLE s{n}")
    return discounts


def _adjusted(n: int, order: int) -> str:
    """Occurrences of the longest n-grams and those behind `<s>`, else how many different tokens come before; `<s>` has none."""
    nothing = f"w1 = {BOS} AND {n} = 1"
    if n == order:
        return f"SELECT {columns(n)}, count, CASE WHEN {nothing} THEN 0 ELSE count END AS adjusted FROM c{n}"
    before = f"SELECT {', '.join(f'w{i + 1} AS w{i}' for i in range(1, n + 1))}, count(*) AS before FROM c{n + 1} GROUP BY ALL"
    adjusted = f"CASE WHEN {nothing} THEN 0 WHEN w1 = {BOS} THEN count ELSE before END AS adjusted"
    return f"SELECT {columns(n)}, count, {adjusted} FROM c{n} LEFT JOIN ({before}) USING ({columns(n)})"


def _contexts(n: int, discounts: list[float]) -> str:
    """Total of the adjusted counts behind each context, and the share of it that is taken off or pruned."""
    taken = " + ".join(
        f"{discount!r}::DOUBLE * count(*) FILTER (kept AND least(adjusted, 3) = {count})"
        for count, discount in enumerate(discounts, start=1)
    )
    remainder = f"({taken} + coalesce(sum(adjusted) FILTER (NOT kept), 0)) / sum(adjusted) AS remainder"
    by = f" GROUP BY {columns(n - 1)}" if n > 1 else ""
    return f"SELECT {columns(n - 1, names=['sum(adjusted) AS total', remainder])} FROM a{n}{by}"


def _shares(n: int, discounts: list[float]) -> str:
    """Discounted share of each n-gram that is kept, and what its context leaves to shorter ones."""
    cases = " ".join(f"WHEN {count} THEN {discount!r}::DOUBLE" for count, discount in enumerate([0.0, *discounts]))
    share = f"(adjusted - CASE least(adjusted, 3) {cases} END) / total AS share"
    joined = f"a{n}, x{n}" if n == 1 else f"a{n} JOIN x{n} USING ({columns(n - 1)})"
    return f"SELECT {columns(n, names=[share, 'remainder'])} FROM {joined} WHERE kept"


def _unigrams(size: int) -> str:
    """Interpolated with the uniform distribution over all words but `<s>`, which is given and has the probability 1."""
    return f"SELECT w1, CASE w1 WHEN {BOS} THEN 1 ELSE share + remainder * {1 / (size - 1)!r}::DOUBLE END AS p FROM s1"


def _interpolated(n: int) -> str:
    shorter = " AND ".join(f"p{n - 1}.w{i - 1} = s{n}.w{i}" for i in range(2, n + 1))
    return f"SELECT {columns(n, f's{n}.', [f'share + remainder * p{n - 1}.p AS p'])} FROM s{n} JOIN p{n - 1} ON {shorter}"
