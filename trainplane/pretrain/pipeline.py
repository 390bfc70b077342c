"""Layers on several ranks, one stage after the other: DeepSpeed's pipeline, with the losses by token that a step needs.

DeepSpeed runs the schedule (one forward, one backward) over the micro-batches of a step. What is ours: the loss is scaled by the tokens
of the global batch, and the update waits until it is known that every loss is finite.

Source: the schedule, PipeDream-Flush, Narayanan et al. 2021, arXiv:2006.09503, section 3.1.
"""

from __future__ import annotations

import contextlib
import io
from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any

from dataplane.errors import ParamsError
from trainplane.data.packed import Batch
from trainplane.model.layers import check_layers, layers_of
from trainplane.model.objective import token_losses
from trainplane.params import PretrainParams


def stage_of(model: Any, params: PretrainParams, world: int) -> Any:
    """This rank's stage of a model, as DeepSpeed's PipelineModule. Ranks that share a model are neighbours.

    Args:
        model: Whole, with the same weights on every rank.
        params: Of pretraining.
        world: Ranks of the run.

    Raises:
        ParamsError: The model cannot be cut into so many stages.
    """
    from deepspeed.pipe import PipelineModule
    from deepspeed.runtime.pipe.topology import ProcessTopology

    stages = params.parallel.pipeline
    check_layers(model)
    if stages > len(model.model.layers):
        raise ParamsError(
            f"{len(model.model.layers)} layers do not make {stages} stages", where="pretrain.parallel.pipeline", fix="take fewer stages"
        )
    topology = ProcessTopology(axes=["data", "pipe"], dims=[world // stages, stages])
    with contextlib.redirect_stdout(io.StringIO()):  # it prints the stages, and stdout is for what is asked for
        return PipelineModule(layers=layers_of(model), topology=topology, dynamic_shape=True)


class Pipeline:
    """The stage of this rank at work.

    Args:
        engine: DeepSpeed's PipelineEngine.
        z_loss: Weight of the z-loss.
    """

    def __init__(self, engine: Any, z_loss: float) -> None:
        self.engine, self.z_loss = engine, z_loss
        self._losses: list[Any] = []
        self._scale = 1.0
        engine.module.loss_fn = self._loss

    def gradients(self, parts: Sequence[Batch], scale: float) -> list[Any]:
        """Adds up the gradients of micro-batches.

        Args:
            parts: Of this rank's model, the same on all its ranks.
            scale: On the sum of the losses.

        Returns:
            On the last stage the loss of each token of each part, float32 tensors [b, t]; nothing on the others.
        """
        self.engine.module.train()
        # DeepSpeed divides by the accumulation of its config, whatever this step's is.
        self._begin(parts, scale * self.engine.gradient_accumulation_steps())
        self._run(_schedule("backward", self.engine, len(parts)))
        return self._losses

    def summed(self, parameters: Sequence[Any], parts: Sequence[Batch], n_labels: int) -> list[Any]:
        """Gradients of a batch's mean loss, in float32, without any update; of a matrix that two stages hold, what both add to it.

        Args:
            parameters: Of this stage.
            parts: The same on all ranks.
            n_labels: Of all parts.
        """
        import torch

        totals = {id(p): torch.zeros_like(p, dtype=torch.float32) for p in parameters}

        def add(parameter: Any, gradient: Any) -> None:
            totals[id(parameter)] += gradient

        hooks = [p.register_hook(partial(add, p)) for p in parameters]
        self.gradients(parts, 1 / n_labels)
        for hook in hooks:
            hook.remove()
        self.engine.zero_grad()
        self.engine.optimizer.zero_grad()
        for weight, group in self.engine.module.get_tied_weights_and_groups():
            torch.distributed.all_reduce(totals[id(weight)], group=group)
        return [totals[id(p)] for p in parameters]

    def losses(self, parts: Sequence[Batch]) -> list[Any]:
        """As `gradients`, without them."""
        self._begin([])
        self.engine.eval_batch(_micro_batches(parts), reduce_output=None, bcast_loss=False, num_micro_batches=len(parts))
        return self._losses

    def logits(self, batch: Batch, vocab_size: int) -> Any:
        """What the model says of each place: float32 tensor [b, t, vocabulary], on every rank."""
        import torch

        self._begin([])
        shown = self.engine.eval_batch(
            _micro_batches([batch]), return_logits=True, reduce_output=None, bcast_loss=False, num_micro_batches=1
        )[1]
        if self.engine.is_last_stage():
            found = shown.detach().float().contiguous()
        else:
            found = torch.empty((*batch.input_ids.shape, vocab_size), device=self.engine.device)
        torch.distributed.broadcast(found, self._rank_of(self.engine.num_stages - 1), group=self._group())
        return found

    def update(self) -> None:
        """Applies the gradients."""
        self._run(_schedule("update", self.engine, 1))

    def norm(self, parameters: Sequence[Any]) -> Any:
        """Norm of the gradients of all stages; a matrix that two of them hold counts once.

        Args:
            parameters: Of this stage, with gradients.
        """
        import torch

        square = torch.nn.utils.get_total_norm([p.grad for p in parameters if not p.ds_pipe_replicated]) ** 2
        torch.distributed.all_reduce(square, group=self._group())
        return square.sqrt()

    def gather(self, model: Any) -> None:
        """Puts the weights of all stages into the whole model of every rank."""
        import torch

        own = {id(parameter) for parameter in self.engine.module.parameters()}
        mine = [id(parameter) in own for parameter in model.parameters()]
        held: list[Any] = [None] * self.engine.num_stages
        torch.distributed.all_gather_object(held, mine, group=self._group())
        for number, parameter in enumerate(model.parameters()):
            first = next(stage for stage, names in enumerate(held) if names[number])
            values = parameter.detach().to(self.engine.device, _dtype(self.engine)).contiguous()
            torch.distributed.broadcast(values, self._rank_of(first), group=self._group())
            if not mine[number]:
                parameter.data = values

    def _group(self) -> Any:
        return self.engine.grid.get_pipe_parallel_group()

    def _rank_of(self, stage: int) -> int:
        return int(self.engine.grid.stage_to_global(stage))

    def _begin(self, parts: Sequence[Batch], scale: float = 1.0) -> None:
        self._losses, self._scale = [], scale
        self.engine.set_dataiterator(_micro_batches(parts))

    def _run(self, schedule: Any) -> None:
        # Sums of DeepSpeed's own that `train_batch` begins anew.
        self.engine.total_loss, self.engine._compute_loss = None, True
        self.engine._exec_schedule(schedule)

    def _loss(self, logits_BTV: Any, labels_BT: Any) -> Any:
        """What DeepSpeed calls on the last stage."""
        losses_BT, penalty = token_losses(logits_BTV.float(), labels_BT, self.z_loss)
        self._losses.append(losses_BT.detach())
        return (losses_BT.sum() + penalty) * self._scale


def _micro_batches(parts: Sequence[Batch]) -> Iterator[tuple[Any, Any]]:
    """What the first stage takes in, and the last compares with."""
    import torch

    for part in parts:
        shown = (part.input_ids, part.position_ids, part.documents)
        yield tuple(torch.from_numpy(array) for array in shown), torch.from_numpy(part.labels)


def _dtype(engine: Any) -> Any:
    return next(engine.module.parameters()).dtype


def _schedule(kind: str, engine: Any, micro_batches: int) -> Any:
    """DeepSpeed's schedule of a step in two halves: "backward" comes to the gradients, "update" applies them."""
    from deepspeed.runtime.pipe.schedule import OptimizerStep, TrainSchedule

    class Half(TrainSchedule):  # type: ignore[misc]  # DeepSpeed has no types
        def steps(self) -> Iterator[list[Any]]:
            if kind == "update":
                yield [OptimizerStep()]
                return
            for commands in super().steps():
                yield [command for command in commands if not isinstance(command, OptimizerStep)]

    return Half(micro_batches=micro_batches, stages=engine.num_stages, stage_id=engine.stage_id)
