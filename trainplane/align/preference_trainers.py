"""trl's trainer for each preference loss, on pairs that are tokens already: trl would tokenise texts, and take `<|end|>` in them for
the end."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict
from typing import Any

from dataplane.errors import DataError
from trainplane.align import session
from trainplane.align.params import DPOParams
from trainplane.data.judged import EncodedAnswer
from trainplane.data.packed import IGNORED
from trainplane.data.preference import EncodedPair

Step = list[EncodedPair]
Kit = tuple[Any, Any, list[dict[str, Any]]]  # the trainer's class, its config, its rows


def make(model: Any, tokenizer: Any, steps: list[list[Any]], params: DPOParams, *, args: dict[str, Any], peft_config: Any) -> Any:
    """A trainer that is ready to run under a book.

    Args:
        model: The base. Where the loss needs a reference, it is this model with the adapter switched off.
        tokenizer: Of the model.
        steps: Pairs of each step; judged answers where params say unpaired.
        params: Of the stage.
        args: What the trainer's config takes for any loss.
        peft_config: Of the adapter.
    """
    import datasets

    trainer_class, config, rows = (_judged if params.unpaired else KITS[params.loss])(steps, params, args)
    return session.booked(trainer_class)(
        model=model, args=config, train_dataset=datasets.Dataset.from_list(rows), processing_class=tokenizer, peft_config=peft_config
    )


def _paired(steps: list[Step], params: DPOParams, args: dict[str, Any]) -> Kit:
    """DPO and IPO."""
    from trl import DPOConfig, DPOTrainer

    kind = {"dpo": "sigmoid", "ipo": "ipo"}[params.loss]
    config = DPOConfig(**args, beta=params.beta, loss_type=[kind], disable_dropout=True)
    return prepared(DPOTrainer), config, [asdict(pair) for step in steps for pair in step]


def _kto(steps: list[Step], params: DPOParams, args: dict[str, Any]) -> Kit:
    from trl import KTOConfig, KTOTrainer

    args = args | {"per_device_train_batch_size": 2 * args["per_device_train_batch_size"]}  # each answer is a row
    config = KTOConfig(**args, beta=params.beta, loss_type="kto", disable_dropout=True)
    return prepared(KTOTrainer), config, [row for step in steps for row in kto_rows(step)]


def _judged(steps: list[list[EncodedAnswer]], params: DPOParams, args: dict[str, Any]) -> Kit:
    from trl import KTOConfig, KTOTrainer

    config = KTOConfig(
        **args, beta=params.beta, loss_type="kto", disable_dropout=True, desirable_weight=params.desirable_weight,
        undesirable_weight=params.undesirable_weight,
    )  # fmt: skip
    return prepared(KTOTrainer), config, [row for step in steps for row in judged_rows(step)]


def kto_rows(step: Step) -> list[dict[str, Any]]:
    """The answers of a step's pairs, each by itself, the chosen ones first.

    The divergence is estimated from the same answers behind another pair's prompt (equation 8 of the paper), which is why a step needs
    two pairs.
    """
    previous = step[-1:] + step[:-1]
    return [
        {"prompt_ids": pair.prompt_ids, "completion_ids": getattr(pair, name), "KL_completion_ids": getattr(other, name), "label": wanted}
        for name, wanted in (("chosen_ids", True), ("rejected_ids", False))
        for pair, other in zip(step, previous, strict=True)
    ]


def judged_rows(step: Sequence[EncodedAnswer]) -> list[dict[str, Any]]:
    """The answers of a step as trl's KTO takes them.

    The divergence is estimated from an answer of the step to another prompt (equation 8 of the paper): that of the nearest one before,
    in a circle.

    Raises:
        DataError: All answers of the step are to one prompt.
    """
    rows = []
    for place, one in enumerate(step):
        before = (step[place - back] for back in range(1, len(step)))
        other = next((each for each in before if each.prompt_ids != one.prompt_ids), None)
        if other is None:
            raise DataError(
                f"the {len(step)} answers of a step are to one prompt: the divergence cannot be estimated",
                where="kto",
                fix="raise dpo.batch_size, or add prompts",
            )
        rows.append({
            "prompt_ids": one.prompt_ids, "completion_ids": one.answer_ids, "KL_completion_ids": other.answer_ids, "label": one.desirable,
        })  # fmt: skip
    return rows


def _orpo(steps: list[Step], params: DPOParams, args: dict[str, Any]) -> Kit:
    from trl.experimental.orpo import ORPOConfig, ORPOTrainer

    class AnswersAlone(rows_of_tokens(ORPOTrainer)):  # type: ignore[misc]
        """trl takes the prompt's tokens into the supervised part too; the paper's equation 6 is of the answer given the prompt."""

        def concatenated_forward(self, model: Any, batch: dict[str, Any]) -> Any:
            chosen, rejected, chosen_logits, rejected_logits, _, *more = super().concatenated_forward(model, batch)
            lengths = (batch["chosen_labels"] != IGNORED).sum(-1)
            nll = -(chosen * lengths).sum() / lengths.sum()
            return (chosen, rejected, chosen_logits, rejected_logits, nll, *more)

    config = ORPOConfig(**args | {"max_length": params.max_length}, beta=params.beta, disable_dropout=True)
    return AnswersAlone, config, _token_rows(steps)


def _simpo(steps: list[Step], params: DPOParams, args: dict[str, Any]) -> Kit:
    from trl.experimental.cpo import CPOConfig, CPOTrainer

    config = CPOConfig(
        **args | {"max_length": params.max_length}, beta=params.beta, loss_type="simpo", cpo_alpha=0.0, simpo_gamma=params.gamma,
        disable_dropout=True,
    )  # fmt: skip
    return rows_of_tokens(CPOTrainer), config, _token_rows(steps)


def prepared(trainer_class: Any) -> Any:
    """The trainer's class, which takes its data as it is."""

    class Prepared(trainer_class):  # type: ignore[misc]
        def _prepare_dataset(self, dataset: Any, *args: Any, **kwargs: Any) -> Any:
            return dataset

    return Prepared


def rows_of_tokens(trainer_class: Any) -> Any:
    """The class of trl's older trainers, which takes rows of `_token_row` as they are."""

    class Rows(trainer_class):  # type: ignore[misc]
        def tokenize_row(self, feature: dict[str, Any], model: Any = None) -> dict[str, Any]:
            return feature

    return Rows


def _token_rows(steps: list[Step]) -> list[dict[str, Any]]:
    return [_token_row(pair) for step in steps for pair in step]


def _token_row(pair: EncodedPair) -> dict[str, list[int]]:
    """A pair with the names that trl's older trainers have for its tokens."""
    row = {"prompt_input_ids": pair.prompt_ids, "prompt_attention_mask": [1] * len(pair.prompt_ids)}
    for name, answer in (("chosen", pair.chosen_ids), ("rejected", pair.rejected_ids)):
        ids = pair.prompt_ids + answer
        row |= {
            f"{name}_input_ids": ids, f"{name}_attention_mask": [1] * len(ids),
            f"{name}_labels": [IGNORED] * len(pair.prompt_ids) + answer,
        }  # fmt: skip
    return row


KITS: dict[str, Callable[[list[Step], DPOParams, dict[str, Any]], Kit]] = {
    "dpo": _paired, "ipo": _paired, "kto": _kto, "orpo": _orpo, "simpo": _simpo,
}  # fmt: skip
