"""The training loop: from a packed snapshot to weights, with a ledger of every step, resumable after any kill.

Every rank runs the same loop and comes to the same decisions; rank 0 keeps the ledger.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from dataplane.settings import TrainingSettings
from trainplane.data.groups import GroupLosses, SpanGroups
from trainplane.data.loader import Loader
from trainplane.data.order import sequences_at
from trainplane.data.packed import I64, Sequences
from trainplane.errors import NotFinite, TrainingError
from trainplane.lineage.ledger import Ledger, Position
from trainplane.params import PretrainParams
from trainplane.pretrain.alarms import Alarms
from trainplane.pretrain.checkpoint import Checkpoints
from trainplane.pretrain.engine import Engine, StepResult
from trainplane.pretrain.evidence import write_evidence
from trainplane.pretrain.held_out import HeldOut
from trainplane.pretrain.metrics import progress_bar
from trainplane.pretrain.randomness import seed_step
from trainplane.pretrain.ranks import gather, rank
from trainplane.pretrain.samples import Sampler
from trainplane.pretrain.schedule import learning_rate
from trainplane.pretrain.stability import Interventions, SpikeDetector
from trainplane.pretrain.watch import RATIOS_EVERY_STEPS, Watch, flops_per_token, memory_bytes, mfu, peak_flops

LEDGER = "ledger.jsonl"
HELD_OUT_LOSS, HELD_OUT_BY, TRAIN_BY = "held_out_loss", "held_out_by_group", "train_by_group"
SHOWN_AS = {HELD_OUT_BY: "held_out", TRAIN_BY: "train"}
SMOKE_STEPS = 3  # the update of the first shows in the loss of the second, the optimizer's moments in the third
SMOKE_TOLERANCE_ON_GPU = 1e-3  # relative; kernels there sum in no fixed order


@dataclass(frozen=True)
class Watched:
    """What a run measures of itself beside its steps.

    Attributes:
        held_out: What the held-out loss is measured on.
        groups: Sources and languages of what is trained on; rank 0 alone tells of them.
        sampler: What lets the model write.
    """

    held_out: HeldOut | None = None
    groups: SpanGroups | None = None
    sampler: Sampler | None = None


class Trainer:
    """One run.

    Args:
        engine: The model under DeepSpeed.
        packed: The sequences.
        params: Of pretraining.
        folder: Of the run's checkpoints and ledger; seen by every rank.
        watched: What is measured while it goes.
        settings: What is kept, and how it is written.

    Attributes:
        step: Finished steps.
        place: Sequences of the order that are behind the run, used or skipped.
        interventions: The rollbacks so far.
        seconds: Step -> how long it took, of the steps of this process.
    """

    def __init__(
        self, engine: Engine, packed: Sequences, params: PretrainParams, folder: Path, watched: Watched, settings: TrainingSettings
    ) -> None:
        self.engine, self.packed, self.params, self.folder, self.watched = engine, packed, params, folder, watched
        self.batches, self.loader, self.by_group = params.batches(), Loader(packed), GroupLosses()
        folder.mkdir(parents=True, exist_ok=True)
        self.checkpoints = Checkpoints(folder, engine, settings)
        self.detector, self.interventions = SpikeDetector(params.stability), Interventions()
        self.alarms = Alarms(folder, settings)
        self.flops, self.peak = _flops(engine, packed.sequence_length), peak_flops()
        self.ledger: Ledger | None = None
        self.watch: Watch | None = None
        self.began = False  # what the smoke test does is told to nobody
        self.step, self.place, self.seconds = 0, 0, dict[int, float]()
        state = self.checkpoints.restore()
        if state is None:
            self.ledger = Ledger(folder / LEDGER) if rank() == 0 else None
            self._save()
            if 0 < settings.smoke_test_from <= params.steps:
                self._smoke_test()
        else:
            self.interventions = Interventions.parse(state["interventions"])
            self._continue(state)
        self.began, self.watch = True, Watch(folder, self.step, settings) if rank() == 0 else None

    def _continue(self, state: dict[str, Any]) -> None:
        """Puts the loop where a checkpoint was made. Rollbacks made since are not forgotten."""
        self.step, self.place = state["step"], state["place"]
        self.detector.restore(state["window"])
        self.by_group = GroupLosses(state["by_group"])
        if rank() == 0:
            self.ledger = Ledger(self.folder / LEDGER, Position(**state["ledger"]))

    def _smoke_test(self) -> None:
        """Before a long run: trains a few steps, restores the checkpoint of step 0, and trains them again.

        Raises:
            TrainingError: The losses differ: what is saved is not all that training depends on.
        """
        # As many as no checkpoint falls among.
        n_steps, tried = min(SMOKE_STEPS, self.params.checkpoint_every - 1), list[list[float]]()
        for _ in range(2):
            tried.append([self._advance() for _ in range(n_steps)])
            state = self.checkpoints.restore()
            if state is None or state["step"]:
                raise TrainingError("the checkpoint of step 0 is gone", where="smoke test", fix="look at the disk")
            self._continue(state)
        tolerance = SMOKE_TOLERANCE_ON_GPU if self.engine.device.type == "cuda" else 0.0
        if not np.allclose(tried[0], tried[1], rtol=tolerance, atol=0.0):
            raise TrainingError(
                f"the first steps gave the losses {tried[0]}, and {tried[1]} from the checkpoint",
                where="smoke test",
                fix="this model cannot be resumed exactly: look for state that is neither weight nor buffer, or sums in no fixed order",
            )

    def run(self) -> None:
        """Trains to the last step."""
        with progress_bar() as progress, self.alarms:
            bar = progress.add_task("pretrain", total=self.params.steps, completed=self.step, said="")
            while self.step < self.params.steps:
                loss = self._advance()
                progress.update(bar, completed=self.step, said=f"loss {loss:.3f}")
        self.checkpoints.wait()
        self.loader.close()
        if self.watch is not None:
            self.watch.close()

    def _rows(self, step: int, first: int) -> I64:
        """The sequences of a step that this rank reads, where the step's first stands at place `first`."""
        size = self.batches.size(step)
        return sequences_at(self.params.seed, first, size, self.packed.n_sequences)[self.engine.layout.rows(size)]

    def _advance(self) -> float:
        """One step, or a rollback; the loss of the step."""
        step, started = self.step + 1, time.monotonic()
        skipped = self.interventions.skipped_before(step)
        first, size = self.place + skipped, self.batches.size(step)
        seq_ids = sequences_at(self.params.seed, first, size, self.packed.n_sequences)
        # A skip before the next step is passed over where it is read; what was read ahead is then thrown away.
        batch = self.loader.batch(self._rows(step, first), self._rows(step + 1, first + size))
        waited = time.monotonic() - started
        rng = seed_step(self.params.seed, step, rank())
        rate = learning_rate(step, self.params) * self.interventions.lr_scale(step)
        result = self.engine.step(batch, rate, step=step, ratios=step % RATIOS_EVERY_STEPS == 0)
        fault = None if self._overflowed(result) else self.detector.fault(result.loss, result.grad_norm)
        if fault is not None and self._stops(step, fault, result):
            self._roll_back(step, seq_ids, result, fault)
            return result.loss
        measured = self._write_down(step, first, time.monotonic() - started, {
            "step": step, "epoch": first // self.packed.n_sequences, "skipped": skipped, "seq_ids": seq_ids.tolist(),
            "token_hash": result.token_hash, "rng": rng, "losses": result.losses, "document_losses": result.document_losses,
            "loss": result.loss, "learning_rate": rate, "grad_norm": result.grad_norm,
        })  # fmt: skip
        self._tell(step, result, size * self.packed.sequence_length, {"learning_rate": rate, "data_wait_s": waited, **flat(measured)})
        if self.began and self.params.samples.due(step, self.params.steps):
            self._write_samples(step)
        if step % self.params.checkpoint_every == 0 or step == self.params.steps:
            self._save(**{name: value for name, value in measured.items() if name == HELD_OUT_LOSS})
        return result.loss

    def _write_samples(self, step: int) -> None:
        """Lets the model write."""
        samples = self.watched.sampler.write(self.engine, step) if self.watched.sampler is not None else []
        if self.watch is not None:
            self.watch.show(samples)

    def _tell(self, step: int, result: StepResult, n_tokens: int, more: dict[str, float]) -> None:
        """What is to be seen of a step."""
        if self.watch is None:
            return
        speed = n_tokens / self.seconds[step]
        used = None if self.peak is None else mfu(speed, self.flops, self.peak * self.engine.layout.world)
        ratios = {f"update_ratio/{name}": ratio for name, ratio in (result.update_ratios or {}).items()}
        self.watch.write(step, {
            "loss": result.loss, "grad_norm": result.grad_norm, "tokens_per_s": speed, "mfu": used, "memory_bytes": memory_bytes(),
            **ratios, **more, **({} if result.pair_loss is None else {"pair_loss": result.pair_loss}),
        })  # fmt: skip

    def _overflowed(self, result: StepResult) -> bool:
        """Whether DeepSpeed has skipped the update and lowers its loss scale: under fp16 that is nothing unusual."""
        return str(self.params.precision) == "fp16" and not np.isfinite(result.grad_norm)

    def _write_down(self, step: int, first: int, seconds: float, entry: dict[str, Any]) -> dict[str, Any]:
        """Writes a step into the ledger, with what is measured where that is due; returns what was."""
        told = gather((self.checkpoints.status(), seconds))
        self.checkpoints.settle([status for status, _ in told])
        self.alarms.beat(step, [taken for _, taken in told])
        self.seconds[step] = seconds
        if self.watched.groups is not None:
            self.by_group.add(self.watched.groups.sums(np.array(entry["seq_ids"]), entry["document_losses"]))
        measured = self._measure() if step % self.params.held_out_every == 0 or step == self.params.steps else {}
        self.step, self.place = step, first + len(entry["seq_ids"])
        if self.ledger is not None:
            self.ledger.append(entry | measured)
        return measured

    def _measure(self) -> dict[str, Any]:
        """The held-out loss, and the losses by source and language of the held-out documents and of what was trained on since."""
        measured: dict[str, Any] = {}
        if self.watched.held_out is not None:
            loss, by_group = self.watched.held_out.losses(self.engine)
            measured = {HELD_OUT_LOSS: loss, HELD_OUT_BY: by_group}
        return measured | ({TRAIN_BY: self.by_group.take()} if self.watched.groups is not None else {})

    def _save(self, **measured: float) -> None:
        """Saves where the run stands."""
        if self.ledger is not None:
            self.ledger.sync()
        self.checkpoints.save({
            "step": self.step, "place": self.place, "window": self.detector.state(), "interventions": self.interventions.to_json(),
            "by_group": self.by_group.sums, "ledger": self.ledger.position.to_json() if self.ledger is not None else None, **measured,
        })  # fmt: skip

    def _stops(self, step: int, fault: str, result: StepResult) -> bool:
        """Whether the run cannot go on as if nothing was.

        Raises:
            NotFinite: Something is not finite, or a spike, and the params say to stop.
        """
        finite = bool(np.isfinite([result.loss, result.grad_norm]).all())
        if self.params.stability.policy == "off" and finite:
            return False
        if self.params.stability.policy == "rollback":
            return True
        raise NotFinite(
            f"step {step}: {fault}",
            where="pretrain",
            fix="lower learning_rate, set stability.policy: rollback, or look at the data",
        )

    def _roll_back(self, step: int, seq_ids: I64, result: StepResult, fault: str) -> None:
        """Goes back to the last checkpoint, writes down what is known of the spike, and has its sequences skipped.

        Raises:
            TrainingError: There were too many rollbacks.
        """
        state = self.checkpoints.restore()
        if state is None or len(self.interventions.made) >= self.params.stability.max_rollbacks:
            raise TrainingError(
                f"step {step}: {fault}; {len(self.interventions.made)} rollbacks were made already",
                where="pretrain",
                fix=f"look at the evidence in {self.folder}/evidence; lower learning_rate, or raise pretrain.stability.max_rollbacks",
            )
        self._continue(state)
        if self.watch is not None:
            self.watch.cut(self.step)
        one = self.interventions.add(self.params.stability, step, self.step, self.batches, fault)
        write_evidence(self.folder, self.engine, self.packed, seq_ids, result, one)


def _flops(engine: Engine, length: int) -> float:
    """Operations of a token; a config that does not tell its layers counts without attention."""
    layers, width = (int(getattr(engine.model.config, name, 0)) for name in ("num_hidden_layers", "hidden_size"))
    return flops_per_token(engine.n_parameters, layers, width, length)


def flat(measured: Mapping[str, Any]) -> dict[str, float]:
    """What `_measure` gives as names and numbers: held_out_loss, held_out/source/web, train/lang/zh."""
    named = {f"{SHOWN_AS[of]}/{name}": loss for of, by in measured.items() if of in SHOWN_AS for name, loss in by.items()}
    return {name: measured[name] for name in (HELD_OUT_LOSS,) if name in measured} | named
