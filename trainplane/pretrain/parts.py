"""Which part of the model a rank holds: all, some rows or columns of its matrices (tensor parallelism), or some layers (a pipeline)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from trainplane.errors import TrainingError
from trainplane.pretrain.engine import Engine
from trainplane.pretrain.ranks import gather

UNKNOWN = -1  # dimension of a matrix that is cut, but not in one piece for each rank: several in one, as a fused query, key and value


@dataclass(frozen=True)
class Part:
    """What a rank holds of one parameter.

    Attributes:
        name: Of the parameter in the whole model.
        key: Its name in the file that `layer` says.
        layer: In a pipeline, which of DeepSpeed's layers it is saved with; None elsewhere, and where another stage saves it.
        shape: Of what is held; under ZeRO 3 of the whole.
        dim: Along which ranks share it, in their order; None where each that holds it has all of it.
    """

    name: str
    key: str
    layer: int | None
    shape: tuple[int, ...]
    dim: int | None

    def to_json(self) -> list[Any]:
        """For a checkpoint."""
        return [self.name, self.key, self.layer, list(self.shape), self.dim]

    @classmethod
    def parse(cls, row: list[Any]) -> Part:
        """From JSON."""
        name, key, layer, shape, dim = row
        return cls(name, key, layer, tuple(shape), dim)


Groups = list[list[Part]]  # by optimizer group


def parts_of_ranks(engine: Engine) -> list[Groups]:
    """What each rank of a model holds, in their order. Every rank has to ask."""
    names = {id(parameter): name for name, parameter in engine.model.named_parameters()}
    saved, shared = _saved_with(engine), engine.layout.tensor > 1

    def part(parameter: Any) -> Part:
        name = names[id(parameter)]
        key, layer = saved.get(id(parameter), (name, None))
        return Part(name, key, layer, tuple(getattr(parameter, "ds_shape", parameter.shape)), _dim(parameter) if shared else None)

    found: list[Groups] = gather([[part(parameter) for parameter in group] for group in engine.parameters.values()])
    return found[: engine.layout.tensor * engine.layout.pipeline]


def holders(ranks: Sequence[Groups]) -> dict[str, list[tuple[int, Part]]]:
    """Name of a parameter -> the ranks that it lies on, with what each has of it; the first alone where each has all.

    Args:
        ranks: As `parts_of_ranks` tells them.
    """
    found: dict[str, list[tuple[int, Part]]] = {}
    for number, groups in enumerate(ranks):
        for part in (part for group in groups for part in group):
            if part.name not in found or part.dim is not None:
                found.setdefault(part.name, []).append((number, part))
    return found


def check_known(held: Sequence[tuple[int, Part]]) -> None:
    """Refuses a parameter that cannot be put together.

    Raises:
        TrainingError: It is cut in a way that is not known here.
    """
    if held[0][1].dim == UNKNOWN:
        raise TrainingError(
            f"{held[0][1].name} is several matrices in one, and each rank has a piece of each of them",
            where="pretrain.parallel.tensor",
            fix="go on with as many ranks in a layer as before; for a model that can be exported set it to 1",
        )


def _dim(parameter: Any) -> int | None:
    """As DeepSpeed's AutoTP notes it on the parameter; what it left alone, and the bias of a sum, every rank has whole."""
    from deepspeed.checkpoint.constants import DS_AUTOTP_UC_META
    from deepspeed.runtime.utils import is_model_parallel_parameter

    about = getattr(parameter, DS_AUTOTP_UC_META, None)
    if about is None:
        return UNKNOWN if is_model_parallel_parameter(parameter) else None
    if about["conversion"]["replicated"]:
        return None
    plain = about["partition_sizes"] is not None and about["sub_param_sizes"] is None
    return int(about["partition_dim"]) if plain else UNKNOWN


def _saved_with(engine: Engine) -> dict[int, tuple[str, int | None]]:
    """In a pipeline: id of a parameter -> its name in the file of a layer, and that layer's number."""
    if engine.pipeline is None:
        return {}
    module = engine.deepspeed.module
    found: dict[int, tuple[str, int | None]] = {}
    for number, layer in enumerate(module.forward_funcs, module._local_start):
        if hasattr(layer, "state_dict"):
            found |= {id(parameter): (name, number) for name, parameter in layer.named_parameters()}
    return found
