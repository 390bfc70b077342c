"""The tiny tokenizer and model of the tests of training, and a project with prompts."""

import json
from pathlib import Path

import pytest
import yaml

from tests.training.conftest import pretrained, tokenizer, tokenizer_folder

__all__ = ["pretrained", "prompts_project", "tokenizer", "tokenizer_folder"]

QUESTIONS = ["What is the capital of France?", "今天天气很好。", "Who assists students?"]


@pytest.fixture
def prompts_project(project: Path, pretrained: Path) -> Path:
    """A project with a model that has learnt to answer (random weights), and prompts whose answers should hold many letters."""
    (project / "models").mkdir()
    (project / "models" / "sft").symlink_to(pretrained)
    prompts = [
        {"id": f"p{i}", "prompt": f"{QUESTIONS[i % 3]} {i}", "reference": "Paris", "split": "held_out" if i % 3 == 0 else "train"}
        for i in range(24)
    ]
    (project / "prompts.jsonl").write_text("".join(json.dumps(prompt, ensure_ascii=False) + "\n" for prompt in prompts), encoding="utf-8")
    small = {
        "data": ["prompts.jsonl"], "max_steps": 40, "batch_size": 32, "warmup_steps": 1, "lora_rank": 4, "learning_rate": 0.03,
        "max_new_tokens": 12, "max_length": 40, "held_out_prompts": 8, "judge": "none",
        "rewards": [{"use": "regex", "params": {"pattern": "[a-z]", "matches": 12}}],
        "guards": {"on_alarm": "record", "judge_every": 20, "samples_every": 20, "samples": 2},
    }  # fmt: skip
    more = {"ppo": {"kl_coefficient": 0.0, "missing_eos_penalty": 0.0}, "grpo": {"group_size": 4}}
    (project / "params.yaml").write_text(yaml.safe_dump({stage: small | own for stage, own in more.items()}))
    return project
