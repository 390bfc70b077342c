"""What a preference run is held to while it trains: its first loss is known, the loss moves, and the margin does not run away.

Source of the traps: trl issues 2553 and 1311 (a loss that stays at 0.6931), 1236 (loss 0 with margins over 15: the answers fell apart).
"""

from __future__ import annotations

from trainplane.align.losses import Answers, JudgedAnswers, loss_value
from trainplane.align.params import DPOParams
from trainplane.errors import TrainingError

MAX_FIRST_LOSS_DELTA = 1e-3
STILL = 1e-7  # a loss that moved by no more has not moved


class PreferenceWatch:
    """Looks at each step's log.

    Args:
        params: Of the stage.
        first: The first step's pairs or judged answers, by the model that the run starts from.
    """

    def __init__(self, params: DPOParams, first: Answers | JudgedAnswers) -> None:
        self.params = params
        if isinstance(first, JudgedAnswers):
            self.expected = first.loss_value(params.beta)
        else:
            self.expected = loss_value(params.loss, first, beta=params.beta, gamma=params.gamma)
        self.alarms: list[dict[str, object]] = []
        self._losses: list[float] = []

    def see(self, step: int, log: dict[str, float]) -> None:
        """Takes note of a step (from 1) and what the trainer logged of it.

        Raises:
            TrainingError: The first loss is not the paper's; the loss does not move; or an alarm is raised and params say to stop.
        """
        self._losses.append(float(log["loss"]))
        if step == 1:
            self._check_first()
        if step == self.params.stuck_steps:
            self._check_moves()
        for what in self._alarms(log):
            self.alarms.append({"step": step, "alarm": what})
            if self.params.stop_on_alarm:
                raise TrainingError(f"step {step}: {what}", where=self.params.loss, fix="lower dpo.learning_rate, or take better pairs")

    def _check_first(self) -> None:
        got = self._losses[0]
        if not abs(got - self.expected) <= MAX_FIRST_LOSS_DELTA * max(1.0, abs(self.expected)):
            raise TrainingError(
                f"the first loss is {got:.6f}, the paper's formula says {self.expected:.6f}",
                where=self.params.loss,
                fix="report it: masks, reference or dropout are not what they should be",
            )

    def _check_moves(self) -> None:
        if max(self._losses) - min(self._losses) <= STILL:
            raise TrainingError(
                f"the loss stood still at {self._losses[0]:.6f} for {len(self._losses)} steps",
                where=self.params.loss,
                fix="raise dpo.learning_rate; if it is not tiny, the adapter is not trained: report it",
            )

    def _alarms(self, log: dict[str, float]) -> list[str]:
        params, found = self.params, []
        # A step of judged answers may hold none of one label, and has no reward of it.
        if (margin := float(log.get("rewards/margins", 0.0))) > params.max_margin:
            found.append(f"the margin between the rewards is {margin:.2f}, over {params.max_margin}")
        if params.has_reference() and (reward := float(log.get("rewards/chosen", 0.0))) < -params.max_chosen_fall:
            found.append(f"the chosen answers' reward fell to {reward:.2f}, below -{params.max_chosen_fall}")
        return found
