"""Which columns of its inputs each column of a table was made from: what OpenLineage calls column lineage.

Said here for the tables of the pipeline; for the signals of `documents` it is what the operators read. A table that is not
named has no column lineage: nothing is guessed from names.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from dataplane.operator import Operator, Transform
from dataplane.schema import signal_column

# Table -> input -> columns that are taken over as they are.
COPIED: dict[str, dict[str, list[str]]] = {
    "documents": {"raw": ["doc_id", "source", "kind", "url", "mime"]},
    "edits": {"raw": ["doc_id"]},
    "clean_decisions": {"raw": ["doc_id"]},
    "clean_quarantine": {"raw": ["doc_id", "source"]},
    "selected": {"documents": ["doc_id"]},
    "select_decisions": {"documents": ["doc_id"]},
    "signatures": {"documents": ["doc_id"]},
    "duplicates": {"documents": ["doc_id"]},
    "repeats": {"documents": ["doc_id"]},
    "deduplicated": {"documents": ["doc_id"]},
    "contamination": {"documents": ["doc_id"]},
    "decontaminated": {"deduplicated": ["doc_id"]},
    "cuts": {"repeats": ["doc_id", "start", "stop", "how"], "documents": ["doc_id"]},
    "held_out": {"documents": ["doc_id", "source", "kind"]},
    "mixture": {"documents": ["doc_id", "source", "kind"]},
    "tokens": {"documents": ["doc_id"]},
}

_PAYLOAD = ["raw.payload", "raw.mime", "raw.charset"]  # what decoding looks at
_TEXT = ["documents.text"]
_SIZES = ["documents.source", "documents.kind", "documents.n_bytes"]
_SURVIVAL = ["documents.text", "documents.doc_id", "documents.source", "documents.n_bytes"]

# Table -> column -> the columns that it is computed from.
COMPUTED: dict[str, dict[str, list[str]]] = {
    "documents": {"text": _PAYLOAD, "n_bytes": _PAYLOAD, "text_hash": _PAYLOAD},
    "edits": {"kind": _PAYLOAD, "count": _PAYLOAD, "hash_before": _PAYLOAD, "hash_after": _PAYLOAD, "spans": _PAYLOAD},
    "signatures": {"content_hash": _TEXT, "signature": _TEXT},
    "duplicates": {"cluster_id": _SURVIVAL, "kept": _SURVIVAL, "representative": _SURVIVAL, "similarity": _TEXT, "how": _TEXT},
    "repeats": dict.fromkeys(("start", "stop", "tokens", "how", "first", "first_start", "effect"), _SURVIVAL),
    "cuts": dict.fromkeys(("start", "stop", "how"), _TEXT),
    "contamination": {"benchmark": _TEXT, "item_id": _TEXT, "hits": _TEXT, "covered": _TEXT},
    "mixture": {"weight": _SIZES, "epoch": _SIZES, "position": ["documents.doc_id", *_SIZES]},
    "tokens": {"n_tokens": _TEXT, "n_words": _TEXT, "input_ids": _TEXT},
    "packed": {
        "seq_id": ["mixture.position"],
        "n_tokens": ["tokens.n_tokens"],
        "input_ids": ["tokens.input_ids"],
        "spans": ["mixture.doc_id", "mixture.position", "tokens.n_tokens"],
    },
    "consumed": {
        "seq_ids": ["packed.seq_id"],
        "token_hash": ["packed.input_ids"],
        "losses": ["packed.input_ids"],
        "document_losses": ["packed.input_ids"],
        "loss": ["packed.input_ids"],
    },
    "checkpoints": {"digest": ["packed.input_ids"]},
}

# Table -> the columns that decided which rows it has.
CHOSEN: dict[str, list[str]] = {
    "signatures": ["selected.doc_id"],
    "duplicates": ["selected.doc_id"],
    "repeats": ["selected.doc_id"],
    "deduplicated": ["selected.doc_id", *_SURVIVAL],
    "contamination": ["deduplicated.doc_id"],
    "decontaminated": _TEXT,
    "cuts": ["deduplicated.doc_id", "repeats.effect"],
    "held_out": ["decontaminated.doc_id", "documents.source", "documents.n_bytes"],
    "mixture": ["decontaminated.doc_id", *_SIZES],
    "tokens": ["mixture.doc_id", "held_out.doc_id"],
}


def made_by(operators: Sequence[Operator]) -> dict[str, list[str]]:
    """What each column that operators write is made from: the columns that they read, some of which operators have written."""
    transforms = [operator for operator in operators if isinstance(operator, Transform)]
    made = {"text": sorted({name for operator in transforms for name in operator.reads})}
    for operator in operators:
        made |= {signal_column(operator.name, signal): sorted(operator.reads) for signal in operator.writes}
    return made


def computed(table: str, made: Mapping[str, Sequence[str]]) -> dict[str, list[str]]:
    """Column -> the columns of inputs that it is computed from.

    Args:
        table: The table.
        made: As `made_by` gives it; empty for tables that no operator writes to.
    """
    return COMPUTED.get(table, {}) | {column: _origins(table, column, made) for column in made}


def _origins(table: str, column: str, made: Mapping[str, Sequence[str]]) -> list[str]:
    """The columns of inputs behind a column, through whatever operators wrote in between."""
    origins: set[str] = set()
    seen: set[str] = set()
    waiting = [column]
    while waiting:
        name = waiting.pop()
        if name not in seen:
            seen.add(name)
            waiting += made.get(name, [])
            origins.update(COMPUTED.get(table, {}).get(name, []))
            origins.update(f"{given}.{name}" for given, copied in COPIED.get(table, {}).items() if name in copied)
    return sorted(origins)
