"""Cut points of perplexity out of documents of reference: a third of them below the lower one, a third above the upper one."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
import pyarrow as pa

from dataplane.annotators.lm_scorers import Scorer
from dataplane.errors import DataError

MIN_DOCUMENTS = 30
TERCILES = (100 / 3, 200 / 3)
_TOLD = (0, 10, 20, 30, 40, 50, 60, 70, 80, 90, 100)


def fit(scorer: Scorer, batches: Iterable[pa.Array], percentiles: tuple[float, float] = TERCILES) -> dict[str, Any]:
    """Cut points, and the distribution that they come from.

    Args:
        scorer: The model.
        batches: Documents of reference; those without tokens do not count.
        percentiles: Where to cut.

    Returns:
        documents, percentiles, cuts, deciles

    Raises:
        DataError: There are too few documents.
    """
    found = [np.zeros(0)]
    for text in batches:
        scored = scorer.score(text)
        found.append(scored.perplexity()[scored.tokens > 0])
    values = np.concatenate(found)
    if len(values) < MIN_DOCUMENTS:
        fix = f"give at least {MIN_DOCUMENTS} documents"
        raise DataError(f"{len(values)} documents are too few to cut into three", where="fit-buckets", fix=fix)
    cuts = [round(float(value), 4) for value in np.percentile(values, percentiles)]
    deciles = [round(float(value), 4) for value in np.percentile(values, _TOLD)]
    return {"documents": len(values), "percentiles": [round(p, 2) for p in percentiles], "cuts": cuts, "deciles": deciles}
