"""Answers that the policy draws, and what the policy and its reference say of their tokens.

Prompts are padded on the left, answers on the right, so that all answers of a batch begin at one place. Nothing is cut off the
distribution: with top-k or top-p the log-probabilities would be those of another one than was drawn from (trl issue 6789).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Rollout:
    """A batch of answers.

    Attributes:
        ids_BL: int64, prompts and answers.
        attention_BL: int64, 0 at padding.
        mask_BT: float32, 1 at the answers' tokens, the one that ends them included.
        finished_B: bool, whether an answer ended by itself.
    """

    ids_BL: Any
    attention_BL: Any
    mask_BT: Any
    finished_B: Any

    @property
    def answer_ids(self) -> list[list[int]]:
        """Tokens of each answer, without padding."""
        start = self.ids_BL.shape[1] - self.mask_BT.shape[1]
        rows = zip(self.ids_BL[:, start:], self.mask_BT, strict=True)
        return [ids_T[: int(mask_T.sum())].tolist() for ids_T, mask_T in rows]

    def rows(self, places: Sequence[int]) -> Rollout:
        """Some of the answers."""
        chosen = list(places)
        return Rollout(self.ids_BL[chosen], self.attention_BL[chosen], self.mask_BT[chosen], self.finished_B[chosen])


def draw(
    model: Any,
    prompts: Sequence[Sequence[int]],
    *,
    stop_ids: Sequence[int],
    pad_id: int,
    max_new_tokens: int,
    temperature: float,
    seed: int,
) -> Rollout:
    """One answer to each prompt.

    Args:
        model: It writes.
        prompts: Tokens of each prompt.
        stop_ids: Tokens that end an answer.
        pad_id: Padding token.
        max_new_tokens: Length at most.
        temperature: Of the drawing.
        seed: Of the drawing.
    """
    import torch
    from transformers import GenerationConfig

    config = GenerationConfig(
        max_new_tokens=max_new_tokens, eos_token_id=list(stop_ids), pad_token_id=pad_id, do_sample=True, temperature=temperature, top_k=0,
        top_p=1.0, use_cache=True,
    )  # fmt: skip
    ids_BP, attention_BP = left_padded(prompts, pad_id, model.device)
    model.eval()
    with torch.random.fork_rng(devices=range(torch.cuda.device_count())), torch.no_grad():
        torch.manual_seed(seed)
        ids_BL = model.generate(ids_BP, attention_mask=attention_BP, generation_config=config)
    return finish(ids_BL, attention_BP, stop_ids)


def left_padded(prompts: Sequence[Sequence[int]], pad_id: int, device: Any) -> tuple[Any, Any]:
    """Prompts of one length, int64 [B, P], and their attention mask."""
    import torch

    length = max(len(prompt) for prompt in prompts)
    ids = [[pad_id] * (length - len(prompt)) + list(prompt) for prompt in prompts]
    attention = [[0] * (length - len(prompt)) + [1] * len(prompt) for prompt in prompts]
    return torch.tensor(ids, device=device), torch.tensor(attention, device=device)


def finish(ids_BL: Any, attention_BP: Any, stop_ids: Sequence[int]) -> Rollout:
    """Marks where each answer ends: at its first stop token, by place and not by padding's token id, which an answer may hold."""
    import torch

    answers_BT = ids_BL[:, attention_BP.shape[1] :]
    stops_BT = torch.isin(answers_BT, torch.tensor(list(stop_ids), device=ids_BL.device))
    before_BT = stops_BT.long().cumsum(-1) - stops_BT.long()  # stop tokens before this one
    mask_BT = (before_BT == 0).float()
    return Rollout(ids_BL, torch.cat([attention_BP, mask_BT.long()], -1), mask_BT, stops_BT.any(-1))


@dataclass(frozen=True)
class Said:
    """What a model says of the answers' tokens.

    Attributes:
        logps_BT: Log-probability of each token, nats.
        entropy_BT: Of the distribution each was drawn from, nats.
        hidden_BTD: Last hidden state before each token.
    """

    logps_BT: Any
    entropy_BT: Any
    hidden_BTD: Any


def say(model: Any, rollout: Rollout, temperature: float) -> Said:
    """One pass over prompts and answers."""
    positions_BL = (rollout.attention_BL.cumsum(-1) - 1).clamp(min=0)
    length = rollout.mask_BT.shape[1]
    out = model(
        input_ids=rollout.ids_BL, attention_mask=rollout.attention_BL, position_ids=positions_BL, use_cache=False,
        output_hidden_states=True, logits_to_keep=length + 1,
    )  # fmt: skip
    all_BTV = (out.logits[:, :-1].float() / temperature).log_softmax(-1)
    logps_BT = all_BTV.gather(-1, rollout.ids_BL[:, -length:, None])[..., 0]
    entropy_BT = -(all_BTV.exp() * all_BTV).sum(-1)
    return Said(logps_BT, entropy_BT, out.hidden_states[-1][:, -length - 1 : -1].float())


@contextmanager
def reference(model: Any) -> Iterator[Any]:
    """The model without its adapter: what the run began with."""
    with model.disable_adapter():
        yield model
