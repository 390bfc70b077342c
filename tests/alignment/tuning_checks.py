"""Checks of fine-tuning, of preference losses and of the reward model."""

from __future__ import annotations

import copy
import math
from typing import Any

from dataplane.conversation import Turn
from tests.alignment.reference import Lab, Outcome, check
from trainplane.data.chat import ChatEncoder, Encoded
from trainplane.data.packed import IGNORED
from trainplane.data.preference import EncodedPair
from trainplane.errors import TrainingError

EXACT, LOOSE = 1e-6, 1e-5
SIZES = [(3, 9), (5, 2), (1, 1), (4, 14), (2, 6), (8, 3)]  # tokens of prompt and answer
PAIRS = [EncodedPair([5, 6, 7], [8, 9], [10]), EncodedPair([9], [11, 12, 13, 14, 15], [16, 17])]


def examples() -> list[Encoded]:
    rows = [[6 + (40 * first + 3 * place) % 300 for place in range(p + a)] for first, (p, a) in enumerate(SIZES)]
    return [Encoded(ids, [IGNORED] * p + ids[p:]) for ids, (p, _) in zip(rows, SIZES, strict=True)]


def first_log(lab: Lab, **more: object) -> tuple[Any, dict[str, float]]:
    """The model after one step of fine-tuning on all examples, and what the trainer logged."""
    from trainplane.align import session
    from trainplane.align.base import base_of
    from trainplane.align.params import SFTParams
    from trainplane.align.sft import make_trainer

    values = {
        "data": ["x"], "batch_size": 6, "max_steps": 1, "max_length": 32, "lora_rank": 2, "warmup_steps": 0, "learning_rate": 0.01,
    }  # fmt: skip
    params = SFTParams.parse(values | more, where="sft")
    logs: list[dict[str, float]] = []
    with session.quiet():
        session.prepare_torch(0, 1)
        rows = [row for _ in range(params.max_steps) for row in examples()]
        trainer = make_trainer(base_of(params.method, lab.pretrained), lab.tokenizer(), rows, params, lab.work)
        steps = [list(range(6))] * params.max_steps
        book = session.Book(lab.work / "ledger", [str(n) for n in range(6)], steps, "sft", {"loss": "loss"})
        session.run(trainer, book, lambda step, log: logs.append(log))
    return trainer.model, logs[0]


@check(source="LoRA, Hu et al. 2021, arXiv:2106.09685, section 4.1: B = 0; max |delta| of a logit")
def lora_at_step_0_is_its_base(lab: Lab) -> Outcome:
    from peft import get_peft_model

    from trainplane.align import session
    from trainplane.align.adapter import lora_config, probe
    from trainplane.align.params import SFTParams

    base = probe(lab.model())
    with session.quiet():
        adapted = get_peft_model(lab.model(), lora_config(SFTParams.parse({"data": ["x"]}, where="sft")))
    return Outcome(0.0, float((probe(adapted) - base).abs().max()), 0.0)


@check(source="trl #1623, PR #6357: padding that is the end token too hides no end; ends that are learnt, of 6")
def ends_are_learnt_where_padding_is_the_same_token(lab: Lab) -> Outcome:
    from trainplane.data.answer_batch import padded

    end = 2
    rows = [Encoded([*one.input_ids, end], [*one.labels, end]) for one in examples()]
    return Outcome(6, int((padded(rows, end)["labels"] == end).sum()), 0)


@check(source="trl #1623: the end of an answer is among the labels of the chat encoder; the last label of a conversation")
def the_chat_encoder_labels_the_end(lab: Lab) -> Outcome:
    encoder = ChatEncoder(lab.tokenizer())
    encoded = encoder.encode([Turn("user", "Who?"), Turn("assistant", "Paris.")])
    return Outcome(encoder.tokenizer.convert_tokens_to_ids("<|end|>"), encoded.labels[-1], 0)


@check(source="handbook #127: a template that begins a text that begins already is refused; 1 for refused")
def a_doubled_beginning_is_refused(lab: Lab) -> Outcome:
    doubled = copy.deepcopy(lab.tokenizer())
    doubled.bos_token, doubled.chat_template = "<|user|>", "<|user|>" + doubled.chat_template
    try:
        ChatEncoder(doubled).encode([Turn("user", "Who?"), Turn("assistant", "Paris.")])
    except TrainingError as error:
        return Outcome(1, float("twice" in str(error)), 0)
    return Outcome(1, 0, 0)


@check(source="trl #3067, axolotl #3817: packed and unpacked losses agree; |delta| of the first loss")
def packed_loss_is_the_unpacked_one(lab: Lab) -> Outcome:
    return Outcome(first_log(lab)[1]["loss"], first_log(lab, pack=True)[1]["loss"], EXACT)


@check(source="trl #3067: packed and unpacked gradients agree; norm of the first")
def packed_gradient_is_the_unpacked_one(lab: Lab) -> Outcome:
    return Outcome(first_log(lab)[1]["grad_norm"], first_log(lab, pack=True)[1]["grad_norm"], LOOSE)


@check(source="transformers #34191: accumulation changes no loss; first loss by micro-batches of 1, against that of all 6 at once")
def accumulation_changes_no_loss(lab: Lab) -> Outcome:
    return Outcome(first_log(lab)[1]["loss"], first_log(lab, micro_batch=1)[1]["loss"], EXACT)


@check(source="transformers #34191: accumulation changes no gradient; norm of the first")
def accumulation_changes_no_gradient(lab: Lab) -> Outcome:
    return Outcome(first_log(lab)[1]["grad_norm"], first_log(lab, micro_batch=2)[1]["grad_norm"], LOOSE)


@check(source="torchtitan #4167: losses (2, 1 token) and (90, 9 tokens) average to 92 / 10, not to 6")
def losses_are_weighed_by_tokens(lab: Lab) -> Outcome:
    from trainplane.evaluate.scores import ratio

    return Outcome(9.2, ratio([2.0, 90.0], [1.0, 9.0])[0], 1e-12)


@check(source="peft #1043: a merge in fp32 changes no logit; max |delta|")
def merging_changes_no_logit(lab: Lab) -> Outcome:
    from trainplane.align import session
    from trainplane.align.adapter import merge

    model, _ = first_log(lab, max_steps=3)
    with session.quiet():
        return Outcome(0.0, merge(model, lab.pretrained)[1], LOOSE)


def first_preference_loss(lab: Lab, loss: str) -> float:
    """First loss that the trainer logs on two pairs."""
    from trainplane.align import session
    from trainplane.align.params import DPOParams
    from trainplane.align.preference import Tokenised, train

    values = {"data": ["x"], "loss": loss, "batch_size": 2, "max_steps": 1, "lora_rank": 2, "max_length": 32}
    params = DPOParams.parse(values, where="dpo")
    with session.quiet():
        session.prepare_torch(0, 1)
        _, book, _ = train(lab.model(), lab.tokenizer(), Tokenised(["a", "b"], PAIRS, 0), params, lab.work)
    return float(book.curve[0]["loss"])


@check(source="DPO, Rafailov et al. 2023, arXiv:2305.18290, equation 7: -log sigmoid(0) = ln 2")
def dpo_begins_at_ln_2(lab: Lab) -> Outcome:
    return Outcome(math.log(2), first_preference_loss(lab, "dpo"), EXACT)


@check(source="IPO, Azar et al. 2023, arXiv:2310.12036, equation 17: (0 - 1 / (2 beta))^2 = 25 with beta 0.1")
def ipo_begins_at_1_over_4_beta_squared(lab: Lab) -> Outcome:
    return Outcome(25.0, first_preference_loss(lab, "ipo"), 1e-4)


@check(source="Bradley-Terry with a head that says 0, Ouyang et al. 2022, arXiv:2203.02155, equation 1: -log sigmoid(0) = ln 2")
def a_reward_model_begins_at_ln_2(lab: Lab) -> Outcome:
    from trainplane.align import session
    from trainplane.align.preference import Tokenised
    from trainplane.align.reward import fresh_scorer, train
    from trainplane.align.rl_params import RewardModelParams

    values = {"data": ["x"], "batch_size": 2, "max_steps": 1, "lora_rank": 2, "max_length": 32}
    params = RewardModelParams.parse(values, where="reward")
    with session.quiet():
        session.prepare_torch(0, 1)
        _, book = train(fresh_scorer(lab.pretrained), lab.tokenizer(), Tokenised(["a", "b"], PAIRS, 0), params, lab.work)
    return Outcome(math.log(2), float(book.curve[0]["loss"]), EXACT)
