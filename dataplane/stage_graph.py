"""The pipeline of a project as DVC reads it. `dataplane init` writes it; the repository's own dvc.yaml is the same.

The stages are data here, so that what a stage reads and writes is said once.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import yaml

from dataplane import tombstones

DATA_CODE = ("code.dataplane", "plugins")
TRAIN_CODE = ("code.trainplane",)
LOCK = "plugins.lock.json"


@dataclass(frozen=True)
class Stage:
    """One DVC stage.

    Attributes:
        name: Its name; metrics go to metrics/NAME.json.
        reads: Tables whose snapshot files it depends on.
        params: Subtrees of params.yaml.
        writes: Tables it writes.
        deps: Further files it reads.
        outs: Further files it writes.
        package: Which plane's `stages` package holds it.
        plots: CSV files it writes for `dvc plots`.
    """

    name: str
    reads: Sequence[str] = ()
    params: Sequence[str] = ()
    writes: Sequence[str] = ()
    deps: Sequence[str] = ()
    outs: Sequence[str] = ()
    package: str = "dataplane"
    plots: Sequence[str] = field(default=())

    def definition(self, held: str = "lance") -> dict[str, Any]:
        """The stage as dvc.yaml spells it.

        Args:
            held: Suffix of the tables that DVC holds; empty where it holds only their snapshot files.
        """
        lock = {LOCK: list(TRAIN_CODE if self.package == "trainplane" else DATA_CODE)}
        tables = [entry for table in self.writes for entry in table_outs(table, held)]
        stage: dict[str, Any] = {
            "cmd": f"python -m {self.package}.stages.{self.name}",
            "deps": [*(f"lake/{table}.json" for table in self.reads), *self.deps],
            "params": [*self.params, lock],
            "outs": [*tables, *self.outs],
            "metrics": [f"metrics/{self.name}.json"],
        }
        if self.plots:
            stage["plots"] = [{path: {"x": "step", "y": "loss"}} for path in self.plots]
        return {key: value for key, value in stage.items() if value}


def table_outs(table: str, held: str) -> list[Any]:
    """What DVC holds of a table: its rows, which a run goes on from, and its snapshot file, which tells them until it ends."""
    paths = [*([f"lake/{table}.{held}"] if held else []), f"lake/{table}.json"]
    return [{path: {"persist": True}} for path in paths]


DATA_STAGES = (
    Stage("train_lm", reads=["raw"], params=["train_lm"], outs=["models/ngram_lm"]),
    Stage(
        "clean",
        reads=["raw"],
        params=["clean"],
        writes=["documents", "edits", "clean_decisions", "clean_quarantine"],
        deps=["models/ngram_lm"],
    ),
    Stage("select", reads=["documents"], params=["select", "clean.pipeline"], writes=["selected", "select_decisions"]),
    Stage(
        "dedup", reads=["raw", "documents", "selected"], params=["dedup"], writes=["signatures", "deduplicated", "duplicates", "repeats"]
    ),
    Stage(
        "decontaminate",
        reads=["documents", "deduplicated", "repeats"],
        params=["decontaminate"],
        writes=["decontaminated", "contamination", "cuts"],
    ),
    Stage("mix", reads=["documents", "decontaminated", "cuts"], params=["mix"], writes=["mixture", "held_out"]),
    Stage("tokenizer", reads=["documents", "mixture", "cuts"], params=["tokenizer"], outs=["models/tokenizer"]),
    Stage(
        "tokenize", reads=["documents", "mixture", "held_out", "cuts"], params=["tokenize"], writes=["tokens"], deps=["models/tokenizer"]
    ),
    Stage("pack", reads=["mixture", "tokens"], params=["pack"], writes=["packed"], deps=["models/tokenizer"]),
)
PRETRAIN = Stage(
    "pretrain",
    reads=["packed", "held_out", "tokens"],
    params=["model", "pretrain"],
    writes=["consumed", "checkpoints"],
    deps=["models/tokenizer"],
    outs=["models/pretrain"],
    package="trainplane",
    plots=["plots/pretrain.csv"],
)
# What these learn from may be documents of the lake.
SFT = Stage(
    "sft",
    reads=["raw", "documents", "decontaminated"],
    params=["sft"],
    deps=["models/pretrain"],
    outs=["models/sft"],
    package="trainplane",
    plots=["plots/sft.csv"],
)
DPO = Stage(
    "dpo",
    reads=["raw", "documents", "decontaminated"],
    params=["dpo"],
    deps=["models/sft"],
    outs=["models/dpo"],
    package="trainplane",
    plots=["plots/dpo.csv"],
)
REWARD = replace(DPO, name="reward", params=["reward"], outs=["models/reward"], plots=["plots/reward.csv"])
PPO = replace(DPO, name="ppo", params=["ppo"], outs=["models/ppo"], plots=["plots/ppo.csv"])
GRPO = replace(DPO, name="grpo", params=["grpo"], outs=["models/grpo"], plots=["plots/grpo.csv"])
EVALUATE = Stage(
    "evaluate",
    reads=["documents", "held_out", "tokens", "contamination", "cuts"],
    params=["evaluate", "decontaminate"],
    writes=["evals"],
    deps=["models/pretrain"],
    outs=["metrics/generations.json", "metrics/item_scores.json"],
    package="trainplane",
)


@dataclass(frozen=True)
class Inputs:
    """What a project starts from.

    Attributes:
        raw: Files and folders that ingest reads.
        benchmarks: Files of benchmark items, for decontamination and evaluation.
        instructions: Files of instruction examples; without them there is no sft.
        preferences: Files of preference pairs; without them there is no dpo.
        prompts: Files of prompts, for reinforcement learning.
        align: Which of the stages reward, ppo and grpo there are.
        sample: Whether the raw files are the default sample, written by a stage of its own.
        training: Whether the project trains at all.
        held: Suffix of the tables that DVC holds; empty where it holds only their snapshot files.
    """

    raw: Sequence[str]
    benchmarks: Sequence[str] = ()
    instructions: Sequence[str] = ()
    preferences: Sequence[str] = ()
    prompts: Sequence[str] = ()
    align: Sequence[str] = ()
    sample: bool = False
    training: bool = True
    held: str = "lance"


def dvc_yaml(inputs: Inputs) -> dict[str, Any]:
    """The pipeline as DVC reads it."""
    stages: dict[str, Any] = {}
    if inputs.sample:
        stages["sample"] = {
            "cmd": "python -m dataplane.stages.sample",
            "params": ["sample", {LOCK: ["code.dataplane", "sample"]}],
            "outs": ["data/sample"],
        }
    ingest = Stage("ingest", params=["sources"], writes=["raw", "ingest_quarantine"], deps=[*inputs.raw, tombstones.FILE])
    for stage in [ingest, *DATA_STAGES, *_training(inputs)]:
        definition = stage.definition(inputs.held)
        if stage.name in ("decontaminate", "evaluate"):
            definition["deps"] = [*definition["deps"], *inputs.benchmarks]
        stages[stage.name] = definition
    stages["report"] = _report(inputs, list(stages)).definition()
    return {"stages": stages}


def _training(inputs: Inputs) -> list[Stage]:
    if not inputs.training:
        return []
    stages = [PRETRAIN]
    if inputs.instructions:
        stages.append(_with_deps(SFT, inputs.instructions))
        if inputs.preferences:
            stages.append(_with_deps(DPO, inputs.preferences))
        stages += _reinforcement(inputs)
    models = [f"models/{stage.name}" for stage in stages[1:] if stage.name != "reward"]
    return [*stages, _with_deps(EVALUATE, models)]


def _reinforcement(inputs: Inputs) -> list[Stage]:
    """The stages asked for; the policies wait for the reward model where there is one."""
    rewarded = ["models/reward"] if "reward" in inputs.align else []
    reads = [(REWARD, inputs.preferences), (PPO, [*inputs.prompts, *rewarded]), (GRPO, [*inputs.prompts, *rewarded])]
    return [_with_deps(stage, files) for stage, files in reads if stage.name in inputs.align]


def _with_deps(stage: Stage, more: Sequence[str]) -> Stage:
    return replace(stage, deps=[*stage.deps, *more])


def _report(inputs: Inputs, names: Sequence[str]) -> Stage:
    written = [table for stage in DATA_STAGES for table in stage.writes]
    tables = ["raw", "ingest_quarantine", *(t for t in written if t != "signatures")]
    metrics = [f"metrics/{name}.json" for name in names if name != "sample"]
    plots = [path for stage in _training(inputs) for path in stage.plots]
    trained = ["consumed", "evals"] if inputs.training else []
    models = [f"models/{stage.name}/run.json" for stage in _training(inputs) if stage.name != "evaluate"]
    more = ["metrics/generations.json", *models] if inputs.training else []
    return Stage("report", reads=[*tables, *trained], deps=[*metrics, *more, *plots], outs=["report"])


def dump(value: Any) -> str:
    """YAML in the order given."""
    return yaml.safe_dump(value, sort_keys=False, allow_unicode=True, width=140)
