"""What a run would be, before it starts: sizes, params and the DeepSpeed config."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from dataplane.params import load_params
from dataplane.snapshot import Snapshot
from trainplane.params import ModelParams
from trainplane.pretrain.defaults import AUTO, read, size
from trainplane.pretrain.layout import check, deepspeed_config
from trainplane.tokenizer import load_tokenizer


def describe(ranks: int, root: Path = Path()) -> dict[str, Any]:
    """The plan of a project's pretraining.

    Args:
        ranks: Processes that the run would have.
        root: Folder of the project, whose sequences are packed.

    Raises:
        ParamsError: These params cannot run, or not on so many ranks.
    """
    tree = load_params(root / "params.yaml")
    values, model = dict(tree.get("pretrain") or {}), ModelParams.parse(tree.get("model"), where="model")
    length = int(Snapshot.load("packed", root).open().schema.field("input_ids").type.list_size)
    vocabulary = len(load_tokenizer(root / "models" / "tokenizer"))
    params = read(values, model, vocabulary, length)
    check(params, ranks)
    return {
        "parameters_without_embedding": size(model, vocabulary, length, params.head),
        "tokens_per_step": params.global_batch * length,
        "tokens": params.batches().before(params.steps + 1) * length,
        "derived": {name: getattr(params, name) for name, value in values.items() if value == AUTO},
        "pretrain": json.loads(params.model_dump_json()),
        "deepspeed": deepspeed_config(params, ranks),
    }
