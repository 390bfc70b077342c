"""What the models write: the likeliest continuation, and one drawn at random from a seed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Prompt:
    """What a model is asked to go on from.

    Attributes:
        shown: The prompt as people read it.
        ids: Its tokens.
    """

    shown: str
    ids: list[int]


def generate(
    model: Any, tokenizer: Any, prompt: Prompt, *, max_new_tokens: int, stop_ids: list[int], temperature: float | None, seed: int
) -> str:
    """The text that follows a prompt.

    Args:
        model: It writes.
        tokenizer: Of the model.
        prompt: What comes before; its last tokens, where model's window is too short for all.
        max_new_tokens: Length at most.
        stop_ids: Tokens that end the text.
        temperature: None takes the likeliest token at each place.
        seed: Of the drawing.
    """
    import torch
    from transformers import GenerationConfig, set_seed

    room = model.config.max_position_embeddings - max_new_tokens
    ids_1T = torch.tensor([prompt.ids[-max(1, room) :]], device=model.device)
    drawing = {"do_sample": True, "temperature": temperature, "top_k": 0, "top_p": 1.0} if temperature else {"do_sample": False}
    config = GenerationConfig(
        max_new_tokens=max_new_tokens, eos_token_id=stop_ids, pad_token_id=tokenizer.pad_token_id, use_cache=True, **drawing
    )
    set_seed(seed)
    out_1T = model.generate(ids_1T, attention_mask=torch.ones_like(ids_1T), generation_config=config)
    return str(tokenizer.decode(out_1T[0, ids_1T.shape[1] :], skip_special_tokens=True))


def samples(
    model: Any,
    tokenizer: Any,
    name: str,
    prompts: Sequence[Prompt],
    *,
    max_new_tokens: int,
    stop_ids: list[int],
    temperature: float,
    seed: int,
) -> list[dict[str, str]]:
    """Both kinds of texts for each prompt: model, prompt, mode, text."""
    return [
        {
            "model": name, "prompt": prompt.shown, "mode": f"temperature {heat:g}" if heat else "greedy",
            "text": generate(model, tokenizer, prompt, max_new_tokens=max_new_tokens, stop_ids=stop_ids, temperature=heat, seed=seed),
        }
        for prompt in prompts for heat in (None, temperature)
    ]  # fmt: skip
