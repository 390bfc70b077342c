"""Sections on texts that occur twice: duplicates in the corpus, and benchmark items in it."""

from __future__ import annotations

from typing import Any

from dataplane.report.blocks import Block, Column, Heading, Note, Sample, Samples, Section, Table
from dataplane.report.project import Project
from dataplane.report.writing import number

CLUSTERS = 8
PAIRS = 6
ITEMS = 3

_HOW = "SELECT how, count(*) AS n, min(similarity) AS least FROM duplicates WHERE NOT kept GROUP BY how ORDER BY how"
_CLUSTERS = """
    SELECT cluster_id, count(*) AS members, count(*) FILTER (WHERE kept) AS kept, min(similarity) AS least,
           min(doc_id) FILTER (WHERE kept) AS representative
    FROM duplicates GROUP BY cluster_id ORDER BY members DESC, cluster_id LIMIT ?
"""
_PAIRS = """
    SELECT doc_id, representative, similarity FROM duplicates
    WHERE NOT kept AND how <> 'exact' ORDER BY similarity, doc_id LIMIT ?
"""
_REPEATS = """
    SELECT how, effect, count(*) AS passages, count(DISTINCT doc_id) AS documents, CAST(sum(tokens) AS BIGINT) AS tokens
    FROM repeats GROUP BY how, effect ORDER BY how, effect
"""
_BENCHMARKS = """
    SELECT benchmark, count(DISTINCT item_id) AS items, count(DISTINCT doc_id) AS documents, count(*) AS hits, avg(covered) AS covered
    FROM contamination GROUP BY benchmark ORDER BY benchmark
"""
_HITS = """
    SELECT benchmark, doc_id, item_id, n, hits, covered FROM contamination
    QUALIFY row_number() OVER (PARTITION BY benchmark ORDER BY doc_id, item_id) <= ? ORDER BY benchmark, doc_id, item_id
"""


def duplicates(project: Project) -> Section:
    """Exact and near duplicates: how many, the largest clusters, the least similar pairs; passages that stood before."""
    section = Section("duplicates", "Duplicates", "Copies and near copies: of each cluster one document is kept.")
    if not project.has("duplicates"):
        return section
    found = project.ask(_HOW)
    if found:
        columns = [Column("Found by", "code"), Column("Documents dropped", "int"), Column("Least similarity", "decimal")]
        section.blocks.append(Table(columns, [[r["how"], r["n"], r["least"]] for r in found]))
        section.blocks += _clusters(project) + _pairs(project)
    else:
        section.blocks.append(Note("No duplicates were found."))
    section.blocks += _repeats(project)
    return section


def _repeats(project: Project) -> list[Block]:
    found = project.ask(_REPEATS) if project.has("repeats") else []
    if not found:
        return []
    columns = [
        Column("Found as", "code"), Column("Effect", "code"), Column("Passages", "int"), Column("Documents", "int"),
        Column("Tokens", "int"),
    ]  # fmt: skip
    rows = [[r["how"], r["effect"], r["passages"], r["documents"], r["tokens"]] for r in found]
    return [Heading("Passages that stood in the corpus before"), Table(columns, rows)]


def _clusters(project: Project) -> list[Block]:
    found = project.ask(_CLUSTERS, [CLUSTERS])
    columns = [
        Column("Cluster", "code"), Column("Documents", "int"), Column("Kept", "int"), Column("Least similarity", "decimal"), 
        Column("Text of the kept one"),
    ]  # fmt: skip
    texts = project.texts({r["representative"] for r in found if r["representative"]})
    rows = [[r["cluster_id"], r["members"], r["kept"], r["least"], texts.get(r["representative"])] for r in found]
    return [Heading("Largest clusters"), Table(columns, rows)]


def _pairs(project: Project) -> list[Block]:
    found = project.ask(_PAIRS, [PAIRS])
    if not found:
        return []
    texts = project.texts({r[name] for r in found for name in ("doc_id", "representative")})
    items = [[_side(r, "doc_id", "dropped", texts), _side(r, "representative", "kept", texts)] for r in found]
    return [Heading("Near duplicates"), Samples("The least similar pairs that were still taken for copies", items, open=True)]


def _side(row: dict[str, Any], column: str, what: str, texts: dict[str, str]) -> Sample:
    return Sample(row[column], texts.get(row[column], ""), f"{what}, similarity {row['similarity']:.3f}")


def contamination(project: Project) -> Section:
    """Benchmark items found in documents."""
    lead = (
        "Documents in which items of a benchmark were found. They are taken out, so that the evaluation measures what was not trained on."
    )
    section = Section("contamination", "Contamination", lead)
    if not project.has("contamination"):
        return section
    found = project.ask(_BENCHMARKS)
    if not found:
        section.blocks.append(Note("No item of a benchmark was found in the corpus."))
        return section
    columns = [
        Column("Benchmark", "code"), Column("Items seen", "int"), Column("Documents", "int"), Column("Pairs", "int"),
        Column("Mean share of an item found", "share"),
    ]  # fmt: skip
    section.blocks.append(Table(columns, [[r["benchmark"], r["items"], r["documents"], r["hits"], r["covered"]] for r in found]))
    section.blocks += _hits(project)
    return section


def _hits(project: Project) -> list[Samples]:
    found = project.ask(_HITS, [ITEMS])
    texts = project.texts({r["doc_id"] for r in found})
    groups: dict[str, list[Sample]] = {}
    for r in found:
        note = f"item {r['item_id']}: {number(r['hits'])} {r['n']}-grams, {100 * r['covered']:.0f}% of the item"
        groups.setdefault(r["benchmark"], []).append(Sample(r["doc_id"], texts.get(r["doc_id"], ""), note))
    return [Samples(f"Documents that hold items of {benchmark}", [items]) for benchmark, items in groups.items()]
