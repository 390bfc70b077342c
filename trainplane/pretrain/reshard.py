"""A checkpoint of other ranks, in a layer or one layer after the other too, or of another ZeRO stage, put into an engine: weights and
optimizer state are cut anew, bit for bit.

DeepSpeed loads its files only where both are as they were. Here the files are mapped into memory, each parameter's pieces are found in
them, and every rank copies the part that it holds now: nothing is converted on disk, and no optimizer state is read by a rank that does not
keep it. What a checkpoint holds is named in runtime/zero/stage_1_and_2.py and stage3.py of DeepSpeed (`state_dict`); the layouts are
ZeRO's, Rajbhandari et al. 2020, arXiv:1910.02054, section 5.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from trainplane.errors import TrainingError
from trainplane.pretrain.deepspeed_file import read_file
from trainplane.pretrain.parts import Groups, Part, check_known, holders

WEIGHTS = "fp32"


@dataclass
class Pieces:
    """One parameter and its optimizer state, as flat pieces in order.

    Attributes:
        values: "fp32" and each name of the optimizer's state -> float tensors that give all of it one after another.
        scalars: What the optimizer keeps once for a parameter, or for its group: the step.
    """

    values: dict[str, list[Any]] = field(default_factory=dict)
    scalars: dict[str, Any] = field(default_factory=dict)

    def part(self, name: str, start: int, stop: int) -> Any:
        """Elements start .. stop of a value; fewer where it ends before."""
        import torch

        return torch.cat([*cut(self.values[name], start, stop), torch.empty(0)])


def cut(parts: Sequence[Any], start: int, stop: int) -> list[Any]:
    """What lies from start to stop, where flat tensors follow one another."""
    found, at = [], 0
    for part in parts:
        first, last = max(start - at, 0), min(stop - at, part.numel())
        if first < last:
            found.append(part[first:last])
        at += part.numel()
    return found


@dataclass
class Shared:
    """What this rank holds of a parameter that was, or is, cut into rows or columns; put together when it is asked for.

    Attributes:
        made: What each rank had of it, with its pieces.
        here: What each rank has of it now.
        mine: Which of them this rank has.
    """

    made: list[tuple[Part, Pieces]]
    here: list[Part]
    mine: int

    @property
    def scalars(self) -> dict[str, Any]:
        """As in `Pieces`."""
        return self.made[0][1].scalars

    @property
    def values(self) -> Iterable[str]:
        """The names."""
        return self.made[0][1].values

    def part(self, name: str, start: int, stop: int) -> Any:
        """As in `Pieces`."""
        import torch

        had = [pieces.part(name, 0, math.prod(part.shape)).view(part.shape) for part, pieces in self.made]
        whole = had[0] if len(had) == 1 else torch.cat(had, self.made[0][0].dim or 0)
        dim, size = self.here[self.mine].dim, self.here[self.mine].shape
        if dim is not None:
            whole = whole.narrow(dim, sum(part.shape[dim] for part in self.here[: self.mine]), size[dim])
        return whole.flatten()[start:stop]


Read = Callable[[Part], Pieces | Shared]


def reshard(engine: Any, groups: Sequence[Sequence[Any]], folder: Path, stage: int, made: Sequence[Groups], here: Sequence[Groups]) -> None:
    """Puts a checkpoint into DeepSpeed's engine.

    Args:
        engine: DeepSpeed's, with any number of ranks, at any ZeRO stage.
        groups: Its parameters, by optimizer group.
        folder: DeepSpeed's files.
        stage: ZeRO stage that they were made at.
        made: What each rank of a model had then.
        here: What each has now.

    Raises:
        TrainingError: The files, or this engine, hold the state in a form that is not known here.
    """
    import torch

    now = engine.zero_optimization_stage()
    if not (stage or _is_plain_file(folder)) or not (now or isinstance(engine.optimizer, torch.optim.Optimizer)):
        raise TrainingError(
            "half precision at ZeRO 0 keeps its state in parts that cannot be cut anew",
            where=str(folder),
            fix="go on with as many ranks as before, or set pretrain.zero_stage to 1 from the start",
        )
    if stage and now:
        engine.optimizer.loss_scaler = read_file(_zero_files(folder, 0)[0], mmap=True)["optimizer_state_dict"]["loss_scaler"]
    mine = torch.distributed.get_rank() % len(here)
    put = {0: _put_plain, 1: _put_partitions, 2: _put_partitions, 3: _put_parameters}[now]
    put(engine, groups, here[mine], _reader(folder, stage, made, here, mine))


def _reader(folder: Path, stage: int, made: Sequence[Groups], here: Sequence[Groups], mine: int) -> Read:
    """Finds what is saved of a parameter, as this rank holds it."""
    read = _of_zero if stage else _of_plain
    saved = [
        dict(zip((part.name for group in of for part in group), read(folder, stage, number, of), strict=True))
        for number, of in enumerate(made)
    ]
    had, have = holders(made), holders(here)

    def found(part: Part) -> Pieces | Shared:
        then, now = had[part.name], have[part.name]
        if [(one.dim, one.shape) for _, one in then] == [(one.dim, one.shape) for _, one in now]:
            return saved[mine if part.dim is not None else then[0][0]][part.name]
        check_known(then)
        check_known(now)
        return Shared([(one, saved[rank][part.name]) for rank, one in then], [one for _, one in now], mine if len(now) > 1 else 0)

    return found


def _is_plain_file(folder: Path) -> bool:
    found = read_file(_model_file(folder, 0), mmap=True)["optimizer"]
    return isinstance(found, dict) and found.keys() == {"state", "param_groups"}


def _model_file(folder: Path, model_rank: int) -> Path:
    return folder / f"mp_rank_{model_rank:02d}_model_states.pt"


def _of_plain(folder: Path, _: int, model_rank: int, groups: Groups) -> Iterator[Pieces]:
    """Of ZeRO 0: PyTorch's own optimizer state, by the number of the parameter. In a pipeline weights are in a file for each layer, which
    one stage alone writes where two hold it.
    """
    found = read_file(_model_file(folder, model_rank), mmap=True)
    layers = {part.layer for group in groups for part in group} - {None}
    weights = {number: read_file(folder / f"layer_{number:02d}-model_states.pt", mmap=True) for number in layers}
    for number, part in enumerate(part for group in groups for part in group):
        of = found["module"] if part.layer is None else weights[part.layer]
        pieces = Pieces({WEIGHTS: [of[part.key].float().flatten()]} if of is not None else {})
        _sort(found["optimizer"]["state"].get(number, {}), pieces, lambda tensor: [tensor.flatten()])
        yield pieces


def _of_zero(folder: Path, stage: int, model_rank: int, groups: Groups) -> Iterator[Pieces]:
    """Of ZeRO 1 to 3: flat parts of whole groups, or, at ZeRO 3, of each parameter."""
    ranks = [read_file(path, mmap=True)["optimizer_state_dict"] for path in _zero_files(folder, model_rank)]
    if any(padding for group in ranks[0].get("param_alignment_paddings") or [] for padding in group):
        raise TrainingError("its parameters are padded one by one", where=str(folder), fix="go on with as many ranks as before")
    states = [(rank["optimizer_state_dict"] if stage == 3 else rank["base_optimizer_state"])["state"] for rank in ranks]
    weights = [rank["fp32_flat_groups" if stage == 3 else "single_partition_of_fp32_groups"] for rank in ranks]
    for number, group in enumerate(groups):
        whole = Pieces({WEIGHTS: [of[number] for of in weights]}, {})
        for name in states[0].get(number, {}):
            values = [of[number][name] for of in states]
            _sort({name: values[0]}, whole, lambda _, values=values: values)
        yield from _cut_group(whole, [math.prod(part.shape) for part in group], len(ranks), by_parameter=stage == 3)


def _cut_group(whole: Pieces, sizes: Sequence[int], n_ranks: int, *, by_parameter: bool) -> Iterator[Pieces]:
    """The parameters of a group, whose values are one flat tensor of each rank."""
    at = 0
    for size in sizes:
        if by_parameter:
            each = -(-size // n_ranks)
            held = [max(0, min(each, size - number * each)) for number in range(n_ranks)]
            values = {
                name: [part[at : at + count] for part, count in zip(parts, held, strict=True)] for name, parts in whole.values.items()
            }
            at += each
        else:
            values = {name: cut(parts, at, at + size) for name, parts in whole.values.items()}
            at += size
        yield Pieces(values, whole.scalars)


def _zero_files(folder: Path, model_rank: int) -> list[Path]:
    """Of the data-parallel ranks, in their order."""
    found = folder.glob(f"*zero_pp_rank_*_mp_rank_{model_rank:02d}_optim_states.pt")
    return sorted(found, key=lambda path: int(str(path.name).partition("zero_pp_rank_")[2].partition("_")[0]))


def _sort(state: dict[str, Any], pieces: Pieces, parts: Any) -> None:
    """Tells what is as large as the parameter from what there is once."""
    import torch

    for name, value in state.items():
        if isinstance(value, torch.Tensor) and value.ndim:
            pieces.values[name] = parts(value)
        else:
            pieces.scalars[name] = value


def _put_plain(engine: Any, groups: Sequence[Sequence[Any]], parts: Groups, read: Read) -> None:
    for parameter, part in zip((p for group in groups for p in group), (part for group in parts for part in group), strict=True):
        pieces = read(part)
        whole = {name: pieces.part(name, 0, parameter.numel()).view(parameter.shape).to(parameter.device) for name in pieces.values}
        parameter.data.copy_(whole.pop(WEIGHTS))
        engine.optimizer.state[parameter] = whole | _copies(pieces.scalars)


def _put_partitions(engine: Any, groups: Sequence[Sequence[Any]], parts: Groups, read: Read) -> None:
    """ZeRO 1 and 2: each rank has a stretch of each group; all have the weights."""
    import torch

    for number, group in enumerate(groups):
        mine, optimizer = engine.optimizer.single_partition_of_fp32_groups[number], engine.optimizer.optimizer
        start = torch.distributed.get_rank(engine.optimizer.real_dp_process_group[number]) * mine.numel()
        stretches: dict[str, Any] = {}  # of the group's parameters one after another; zeros behind the last
        at = 0
        for parameter, part in zip(group, parts[number], strict=True):
            pieces, size = read(part), parameter.numel()
            parameter.data.copy_(pieces.part(WEIGHTS, 0, size).view(parameter.shape))
            for name in pieces.values:
                target = stretches.setdefault(name, torch.zeros_like(mine))
                first, last = max(start - at, 0), min(start + mine.numel() - at, size)
                if first < last:
                    target[at + first - start : at + last - start] = pieces.part(name, first, last)
            at += size
        mine.data.copy_(stretches.pop(WEIGHTS))
        optimizer.state[mine] = stretches | _copies(pieces.scalars)


def _put_parameters(engine: Any, groups: Sequence[Sequence[Any]], parts: Groups, read: Read) -> None:
    """ZeRO 3: each rank has a stretch of each parameter, in flat tensors of sub-groups."""
    import deepspeed
    import torch

    optimizer = engine.optimizer
    by_id = dict(zip((id(p) for group in groups for p in group), (part for group in parts for part in group), strict=True))
    rank = torch.distributed.get_rank(optimizer.dp_process_group)
    for number, group in enumerate(optimizer.fp16_groups):
        flat, at = optimizer.fp32_partitioned_groups_flat[number], 0
        state = optimizer.optimizer.state[flat]
        for parameter in group:
            pieces, each = read(by_id[id(parameter)]), parameter.partition_numel()
            for name in pieces.values:
                part = pieces.part(name, rank * each, (rank + 1) * each)
                target = flat.data if name == WEIGHTS else state.setdefault(name, torch.zeros_like(flat))
                target[at : at + part.numel()] = part
            state |= _copies(pieces.scalars)
            at += each
            with deepspeed.zero.GatheredParameters([parameter], modifier_rank=0):
                parameter.data.copy_(pieces.part(WEIGHTS, 0, parameter.ds_numel).view(parameter.shape))


def _copies(scalars: dict[str, Any]) -> dict[str, Any]:
    return {name: value.clone() if hasattr(value, "clone") else value for name, value in scalars.items()}
