"""What a mixture is made of: the documents that are left, with those held out of training and those over a cap told apart."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from dataplane.corpus import tokenizer
from dataplane.corpus.caps import capped_column, over_cap
from dataplane.corpus.groups import columns_of
from dataplane.corpus.held_out import held_out
from dataplane.corpus.mixture import MixParams
from dataplane.corpus.tokens import TokenizeParams, tokenize
from dataplane.engine.documents import chosen, sized
from dataplane.schema import DOC_ID
from dataplane.snapshot import Snapshot

Mask = npt.NDArray[np.bool_]

COLUMNS = ("source", "kind", "n_bytes")


@dataclass(frozen=True)
class Input:
    """Documents of a mixture.

    Attributes:
        kept: Columns doc_id, source, kind, n_bytes and what the params look at [n].
        held_out: bool [n], kept out of training.
        over_cap: bool [n], left out of training because their site has enough.
    """

    kept: pa.Table
    held_out: Mask
    over_cap: Mask

    @property
    def training(self) -> pa.Table:
        """The documents that the mixture is sampled from."""
        return self.kept.filter(pa.array(~self.held_out & ~self.over_cap))


def read_input(documents: Snapshot, ids: Sequence[Snapshot], params: MixParams, cuts: Snapshot, root: Path = Path()) -> Input:
    """Reads what a mixture is made of.

    Args:
        documents: The documents.
        ids: Tables whose doc_ids are left.
        params: What to read.
        cuts: What is cut out of the texts.
        root: Folder of the project.

    Raises:
        ParamsError: The params name a column or a signal that is not there.
        ModelMissing: There is no tokenizer to count with.
    """
    capped = capped_column(params.cap, documents.schema.names)
    columns = list(dict.fromkeys([*COLUMNS, *columns_of(params.by, documents.schema), *([capped] if capped else [])]))
    fields = pa.schema([DOC_ID, *(documents.schema.field(name) for name in columns)])
    kept = pa.Table.from_batches(chosen(documents, ids, columns), schema=fields)
    kept = sized(kept, documents, cuts)
    if params.unit == "tokens":
        kept = kept.append_column("n_tokens", _token_counts(documents, ids, cuts, root / params.tokenizer))
    aside = held_out(kept, params.held_out)
    over = np.zeros(kept.num_rows, np.bool_)
    if capped:
        # After held_out, whose choice is to look at no other document.
        over[~aside] = over_cap(kept.filter(pa.array(~aside)), capped, params.cap, params.seed)
    return Input(kept, aside, over)


def _token_counts(documents: Snapshot, ids: Sequence[Snapshot], cuts: Snapshot, path: Path) -> pa.ChunkedArray:
    """Tokens of each document that is left, EOS not counted: int64 [n]."""
    known, params = tokenizer.load(path.parent, path.name), TokenizeParams.parse(None, where="mix")
    batches = chosen(documents, ids, ["text"], cuts)
    counts = [tokenize(b.column("doc_id"), b.column("text"), known, params).column("n_tokens") for b in batches]
    return pa.chunked_array(counts, pa.int64())
