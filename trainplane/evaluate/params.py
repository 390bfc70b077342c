"""Params of the evaluation."""

from __future__ import annotations

from typing import Literal, Self

from pydantic import Field, model_validator

from dataplane.params import Params


class TaskParams(Params):
    """A multiple-choice task on local items."""

    name: str = Field("terraplane_choice", min_length=1, description="Name of a template in trainplane/evaluate/tasks.")
    data: list[str] = Field(..., min_length=1, description="Patterns of the JSONL files of items, below the project.")


class WrittenParams(Params):
    """A task whose answers are held against references: BLEU, chrF, ROUGE, exact match, F1."""

    name: str = Field(..., min_length=1, description="Of the task, in the table `evals`.")
    data: list[str] = Field(..., min_length=1, description="Patterns of the JSONL files of items, below the project.")
    max_new_tokens: int = Field(64, ge=1, description="Tokens of an answer at most.")


class ProgramParams(Params):
    """A task whose answers are run as programs: pass@k."""

    name: str = Field(..., min_length=1, description="Of the task, in the table `evals`.")
    data: list[str] = Field(..., min_length=1, description="Patterns of the JSONL files of items, below the project.")
    max_new_tokens: int = Field(256, ge=1, description="Tokens of a program at most.")
    programs: int = Field(1, ge=1, description="Programs drawn for each problem.")
    k: list[int] = Field([1], min_length=1, description="Of pass@k, each at most `programs`.")
    temperature: float = Field(0.8, ge=0, description="Of the drawing; 0 takes the likeliest.")
    seconds: float = Field(5.0, gt=0, description="Seconds that a program may take.")
    memory_mb: int = Field(512, ge=64, description="MB of memory that a program may take.")

    @model_validator(mode="after")
    def _enough_programs(self) -> Self:
        if not all(1 <= k <= self.programs for k in self.k):
            raise ValueError(f"k should be between 1 and programs = {self.programs}, got {self.k}")
        return self


class SafetyParams(Params):
    """A task that counts how often a model gives in to harmful prompts, or refuses harmless ones."""

    name: str = Field(..., min_length=1, description="Of the task, in the table `evals`.")
    kind: Literal["harmful", "harmless"] = Field(
        ..., description="What the prompts are; of harmful ones compliance is counted, else refusals."
    )
    data: list[str] = Field(..., min_length=1, description="Patterns of the JSONL files of prompts, below the project.")
    max_new_tokens: int = Field(64, ge=1, description="Tokens of an answer at most.")


class EvaluateParams(Params):
    """What is measured, and on how much."""

    models: list[str] = Field(["pretrain", "sft", "dpo"], min_length=1, description="Folders below models/.")
    held_out_documents: int = Field(100, ge=1, description="Held-out documents at most, for bits per byte.")
    max_document_tokens: int = Field(4096, ge=1, description="Longer held-out documents are left out, and counted.")
    batch_tokens: int = Field(1024, ge=1, description="Tokens that go through the model at once, at least one window.")
    prompts: list[str] = Field(
        ["In the beginning", "The purpose of this function is to", "今天", "这本书"], description="Texts that the models continue."
    )
    max_new_tokens: int = Field(48, ge=1, description="Tokens of a generation at most.")
    temperature: float = Field(0.8, gt=0, description="Of the sampled generations.")
    tasks: list[TaskParams] = Field([], description="Multiple-choice tasks.")
    written: list[WrittenParams] = Field([], description="Tasks whose answers are held against references.")
    programs: list[ProgramParams] = Field([], description="Tasks whose answers are run as programs, shut in.")
    safety: list[SafetyParams] = Field([], description="Tasks that count refusals.")
    task_limit: int = Field(100, ge=1, description="Items of a task at most.")
    seed: int = Field(0, ge=0, description="Choice of documents and items, and sampling.")
    threads: int = Field(1, ge=1, description="Torch threads on CPU; sums of floats depend on them, so this is a param.")
