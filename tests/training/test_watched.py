"""What a run tells of itself: losses by source and language, samples, and other programs that take its numbers."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from dataplane import schema
from dataplane.errors import EnvironmentFault
from dataplane.settings import TrainingSettings
from dataplane.snapshot import Snapshot, commit_parts, write_part
from tests.training.on_ranks import LENGTH, MODEL, VOCABULARY
from trainplane.data.groups import GroupLosses, SpanGroups, means_by_group
from trainplane.data.loader import Loader
from trainplane.data.local_copy import local_copy
from trainplane.data.packed import Packed
from trainplane.params import SampleParams
from trainplane.pretrain.watch import JsonLines, Watch, read

N = 12
GROUPS = {"books": "en", "web": None, "news": "zh"}  # source -> language


def put(root: Path, table: str, rows: pa.Table) -> Snapshot:
    return commit_parts(table, rows.schema, [write_part(table, rows.schema, rows.to_batches(), root)], root)


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """Sequences of two documents of three sources; the last document is no longer among `documents`."""
    root, draw = tmp_path_factory.mktemp("watched"), np.random.default_rng(0)
    ids = [f"{int(draw.integers(1 << 62)):032x}" for _ in range(2 * N)]
    spans = [[{"doc_id": ids[2 * i + j], "seq_start": 8 * j, "doc_start": 0, "length": 8 - i % 3} for j in (0, 1)] for i in range(N)]
    rows = [{"seq_id": i, "n_tokens": 16, "input_ids": draw.integers(2, 64, LENGTH).tolist(), "spans": spans[i]} for i in range(N)]
    packed = put(root, "packed", pa.Table.from_pylist(rows, schema=schema.packed(LENGTH)))
    sources = [list(GROUPS)[i % 3] for i in range(2 * N)]
    known = {"doc_id": ids[:-1], "source": sources[:-1], "language__lang": [GROUPS[source] for source in sources[:-1]]}
    return {"root": root, "packed": packed, "documents": put(root, "documents", pa.table(known)), "spans": spans, "sources": sources}


def test_losses_by_source_and_language_are_those_of_a_plain_sum(lake: dict[str, Any]) -> None:
    flat = local_copy(lake["packed"], VOCABULARY, lake["root"] / "copies")
    groups, draw = SpanGroups.of(flat, lake["documents"]), np.random.default_rng(1)
    sums, expected = GroupLosses(), dict[str, list[float]]()
    for seq_ids in (np.array([3, 0, 11]), np.array([7, 3])):
        losses = draw.random((len(seq_ids), 2)).tolist()
        sums.add(groups.sums(seq_ids, losses))
        for i, seq_id in enumerate(seq_ids.tolist()):
            for j in (0, 1):
                document, tokens = 2 * seq_id + j, lake["spans"][seq_id][j]["length"] - 1
                source = lake["sources"][document]
                names = [f"source/{source}", *([f"lang/{GROUPS[source]}"] if GROUPS[source] else [])] if document < 2 * N - 1 else []
                for name in names:
                    of = expected.setdefault(name, [0.0, 0.0])
                    expected[name] = [of[0] + losses[i][j] * tokens, of[1] + tokens]
    assert sums.take() == pytest.approx({name: nats / tokens for name, (nats, tokens) in expected.items()}, rel=1e-12)
    assert sums.sums == {}


def test_means_of_held_out_groups_are_weighted_by_tokens() -> None:
    """Sums 2 and 90 over 1 and 9 tokens are 92/10 together."""
    names = {"source": ["a", "a", "b"], "lang": ["en", None, "zh"]}
    found = means_by_group([2.0, 90.0, 6.0], [1, 9, 2], names)
    assert found == pytest.approx({"source/a": 9.2, "source/b": 3.0, "lang/en": 2.0, "lang/zh": 3.0})


def test_the_local_copy_gives_the_sequences_and_spans_of_the_table(lake: dict[str, Any], tmp_path: Path) -> None:
    flat, table = local_copy(lake["packed"], VOCABULARY, tmp_path), Packed(lake["packed"])
    seq_ids = np.array([5, 0, 11, 5])
    assert flat.spans(seq_ids) == table.spans(seq_ids)
    assert flat.batch(seq_ids).token_hash() == table.batch(seq_ids).token_hash()
    assert [path.name for path in tmp_path.iterdir()] == [lake["packed"].digest]


def test_a_copy_that_another_process_finished_first_is_taken(lake: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from trainplane.data import local_copy as module

    write, first = module.write_batches, [True]

    def slow(*arguments: Any) -> Any:
        if first.pop() if first else False:
            local_copy(lake["packed"], VOCABULARY, tmp_path)
        return write(*arguments)

    monkeypatch.setattr(module, "write_batches", slow)
    assert local_copy(lake["packed"], VOCABULARY, tmp_path).n_sequences == N
    assert [path.name for path in tmp_path.iterdir()] == [lake["packed"].digest]


def test_a_copy_that_fails_leaves_nothing_behind(lake: dict[str, Any], tmp_path: Path) -> None:
    from dataplane.errors import DataError

    with pytest.raises(DataError, match="the vocabulary from 0 to 9"):
        local_copy(lake["packed"], 10, tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_what_is_read_ahead_changes_nothing(lake: dict[str, Any]) -> None:
    table = Packed(lake["packed"])
    loader = Loader(table)
    asked = [np.array([0, 1]), np.array([2, 3]), np.array([4, 9]), np.array([6, 7])]
    guessed = [asked[1], np.array([9, 9]), asked[3], None]  # the second guess is wrong, as after a skip
    for seq_ids, guess in zip(asked, guessed, strict=True):
        assert loader.batch(seq_ids, guess).input_ids.tolist() == table.batch(seq_ids).input_ids.tolist()
    loader.close()


def test_lines_of_undone_steps_are_cut(tmp_path: Path) -> None:
    lines = JsonLines(tmp_path / "samples.jsonl", 0)
    for step in (2, 2, 4, 4):
        lines.append({"step": step, "text": "河"})
    lines.cut(2)
    assert read(tmp_path / "samples.jsonl") == [{"step": 2, "text": "河"}] * 2


def test_samples_are_what_the_model_draws_and_the_same_each_time(tokenizer: Any) -> None:
    pytest.importorskip("torch")
    from trainplane.model.build import build
    from trainplane.params import ModelParams, PretrainParams
    from trainplane.pretrain.engine import Engine
    from trainplane.pretrain.samples import Sampler

    model = build(ModelParams.model_validate(MODEL), vocab_size=len(tokenizer), sequence_length=32, eos_id=0, pad_id=1, seed=3)
    engine = Engine(model, PretrainParams(global_batch=1, micro_batch=1, threads=1))
    greedy = Sampler(SampleParams(prompts=("The capital", "老师"), tokens=6, temperature=0), tokenizer, 32, 0)
    found = greedy.write(engine, 5)
    for sample in found:
        ids = [tokenizer.eos_token_id, *tokenizer.encode(sample["prompt"], add_special_tokens=False)]
        expected = model.generate(
            _tensor([ids]), max_new_tokens=6, do_sample=False, use_cache=False, attention_mask=_tensor([[1] * len(ids)])
        )
        assert sample == {
            "step": 5,
            "prompt": sample["prompt"],
            "text": tokenizer.decode(expected[0, len(ids) :], skip_special_tokens=True),
        }
    drawn = Sampler(SampleParams(prompts=("The",), tokens=8), tokenizer, 32, 0)
    texts = [drawn.write(engine, step)[0]["text"] for step in (5, 5, 6)]
    assert (texts[0] == texts[1], texts[0] == texts[2]) == (True, False)


def _tensor(values: list[list[int]]) -> Any:
    import torch

    return torch.tensor(values)


def test_samples_are_due_every_so_many_steps_and_at_the_end() -> None:
    due = [step for step in range(1, 11) if SampleParams(every=4).due(step, 10)]
    assert (due, any(SampleParams(every=0).due(step, 10) for step in range(1, 11))) == ([4, 8, 10], False)


@pytest.mark.parametrize(("name", "module"), [("mlflow", "mlflow"), ("wandb", "wandb"), ("tensorboard", "torch.utils.tensorboard")])
def test_a_writer_that_is_not_installed_is_named(name: str, module: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, module, None)
    with pytest.raises(EnvironmentFault, match=f"training.{name}") as fault:
        Watch(tmp_path, 0, TrainingSettings.model_validate({name: str(tmp_path / "out")}))
    assert f"pip install terraplane[{name}]" in fault.value.render()


def test_writers_are_imported_only_where_they_are_asked_for(tmp_path: Path) -> None:
    import subprocess
    import sys

    code = (
        "import sys; from pathlib import Path; from dataplane.settings import TrainingSettings\n"
        "from trainplane.pretrain.watch import Watch\n"
        f"w = Watch(Path({str(tmp_path)!r}), 0, TrainingSettings()); w.write(1, {{'loss': 1.0}}); w.close()\n"
        "print([m for m in ('mlflow', 'wandb', 'tensorboard', 'torch') if m in sys.modules])"
    )
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.strip() == "[]"


@pytest.mark.slow
def test_mlflow_has_the_numbers_of_a_run_that_was_resumed_in_one_run(tmp_path: Path) -> None:
    pytest.importorskip("mlflow")
    from mlflow import MlflowClient

    folder, settings = tmp_path / "run", TrainingSettings(mlflow=str(tmp_path / "mlruns"))
    folder.mkdir()
    for steps in ((1, 2), (3,)):
        watch = Watch(folder, steps[0] - 1, settings)
        for step in steps:
            watch.write(step, {"loss": 4.0 - step, "held_out/source/web": 2.0, "mfu": None})
        watch.close()
    client = MlflowClient((tmp_path / "mlruns").as_uri())
    run_id = json.loads((folder / "mlflow.json").read_text())["run_id"]
    assert [(metric.step, metric.value) for metric in client.get_metric_history(run_id, "loss")] == [(1, 3.0), (2, 2.0), (3, 1.0)]
    assert len(client.get_metric_history(run_id, "held_out/source/web")) == 3
    found = client.search_runs([client.get_experiment_by_name("terraplane").experiment_id])
    assert [(run.info.run_id, run.info.run_name, run.info.status) for run in found] == [(run_id, "run", "FINISHED")]


@pytest.mark.slow
def test_wandb_offline_keeps_the_numbers_on_disk(tmp_path: Path) -> None:
    """In a process of its own: W&B starts a service, and leaves hooks behind."""
    import os
    import subprocess
    import sys

    pytest.importorskip("wandb")
    code = f"""
from pathlib import Path; from dataplane.settings import TrainingSettings; from trainplane.pretrain.watch import Watch
watch = Watch(Path({str(tmp_path)!r}), 0, TrainingSettings(wandb="river"))
for step in (1, 2): watch.write(step, {{"loss": 3.0 - step, "held_out/source/web": 2.0}})
watch.close()
"""
    environment = os.environ | {"WANDB_MODE": "offline", "WANDB_CONFIG_DIR": str(tmp_path), "WANDB_CACHE_DIR": str(tmp_path)}
    subprocess.run([sys.executable, "-c", code], env=environment, check=True, capture_output=True, timeout=200)
    (written,) = tmp_path.glob("wandb/offline-run-*/*.wandb")
    assert _wandb_history(written) == [
        {"_step": 1, "loss": 2.0, "held_out/source/web": 2.0},
        {"_step": 2, "loss": 1.0, "held_out/source/web": 2.0},
    ]


def _wandb_history(path: Path) -> list[dict[str, float]]:
    """The steps in W&B's own file: 7 bytes of head, then records of LevelDB's log, each in one piece while the file is small."""
    import struct

    from wandb.proto import wandb_internal_pb2

    data, place, found = path.read_bytes(), 7, []
    while place < len(data):
        _, length, kind = struct.unpack_from("<IHB", data, place)
        assert kind == 1  # a whole record
        record = wandb_internal_pb2.Record()
        record.ParseFromString(data[place + 7 : place + 7 + length])
        place += 7 + length
        if record.WhichOneof("record_type") == "history":
            items = {item.key or "/".join(item.nested_key): json.loads(item.value_json) for item in record.history.item}
            found.append({name: value for name, value in items.items() if name == "_step" or not name.startswith("_")})
    return found
