"""The pretrain stage: killed and run again it gives the weights and ledger of an undisturbed run; the trace leads to raw records."""

import json
import re
import signal
import subprocess
import time
from pathlib import Path

import numpy as np
import pytest
import yaml

from dataplane.snapshot import Snapshot
from tests.training.small_project import PARAMS, SEQUENCES, finish, make, result, start

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]


@pytest.fixture(scope="module")
def done(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = make(tmp_path_factory.mktemp("pretrain") / "undisturbed")
    finish(root)
    return root


def kill_at_step(root: Path, step: int) -> None:
    """Kills the run once its ledger has `step` lines."""
    process = start(root)
    deadline = time.monotonic() + 300
    while process.poll() is None and time.monotonic() < deadline:
        lines = [len(path.read_bytes().splitlines()) for path in root.glob("journal/pretrain/*/ledger.jsonl")]
        if lines and max(lines) >= step:
            process.send_signal(signal.SIGKILL)
            break
        time.sleep(0.002)
    process.communicate()
    assert process.returncode == -signal.SIGKILL


def test_kills_change_neither_weights_nor_ledger(done: Path, tmp_path: Path) -> None:
    root = make(tmp_path / "killed")
    for step in (2, 5, 10):
        kill_at_step(root, step)
    finish(root)
    assert result(root) == result(done)


def test_two_ranks_see_the_same_order_and_come_to_the_same_losses_within_rounding(done: Path, tmp_path: Path) -> None:
    root = make(tmp_path / "two_ranks")
    finish(root, ranks=2)
    assert result(root)[1] == result(done)[1]
    (one, two) = (Snapshot.load("consumed", folder).to_table().to_pydict() for folder in (done, root))
    assert {name for name in one if name != "run_id" and one[name] != two[name]} <= {"loss", "losses", "document_losses", "grad_norm"}
    np.testing.assert_allclose(one["loss"], two["loss"], rtol=1e-5)
    np.testing.assert_allclose(one["losses"], two["losses"], rtol=1e-4)


def test_a_killed_run_goes_on_at_another_zero_stage_and_other_ranks(done: Path, tmp_path: Path) -> None:
    root = make(tmp_path / "moved")
    kill_at_step(root, 5)
    (before,) = root.glob("journal/pretrain/*/ledger.jsonl")
    first_steps = before.read_text().splitlines()[:3]  # of the checkpoint that it goes on from
    (root / "params.yaml").write_text(yaml.safe_dump(PARAMS | {"pretrain": PARAMS["pretrain"] | {"zero_stage": 2}}))
    finish(root, ranks=2)
    (after,) = root.glob("journal/pretrain/*/ledger.jsonl")
    assert after.read_text().splitlines()[:3] == first_steps
    assert result(root)[1] == result(done)[1]
    one, two = (Snapshot.load("consumed", folder).to_table(columns=["loss"]).column(0).to_numpy() for folder in (done, root))
    np.testing.assert_allclose(one, two, rtol=1e-5)


@pytest.mark.parametrize(
    ("layout", "ranks"),
    [
        ({"zero_stage": 2}, 2),
        ({"zero_stage": 3}, 2),
        ({"parallel": {"pipeline": 2}}, 2),
        ({"zero_stage": 1, "parallel": {"pipeline": 2}}, 4),
    ],
)
def test_a_model_in_parts_is_saved_whole_with_the_weights_of_one_rank_within_rounding(
    done: Path, tmp_path: Path, layout: dict, ranks: int
) -> None:
    from trainplane.model.build import load
    from trainplane.pretrain.watch import read

    root = make(tmp_path / "parts")
    (root / "params.yaml").write_text(yaml.safe_dump(PARAMS | {"pretrain": PARAMS["pretrain"] | layout}))
    finish(root, ranks=ranks)
    one, two = (load(folder / "models/pretrain").state_dict() for folder in (done, root))
    assert one.keys() == two.keys()
    for name in one:
        np.testing.assert_allclose(one[name].numpy(), two[name].numpy(), atol=2e-4, err_msg=name)
    # The same draws from nearly the same softmax.
    assert read(root / "models/pretrain/samples.jsonl") == read(done / "models/pretrain/samples.jsonl")


def test_a_masked_model_with_pairs_is_trained_watched_and_saved(tmp_path: Path) -> None:
    from trainplane.model.build import load
    from trainplane.pretrain.watch import read

    root = make(tmp_path / "masked")
    bert = {"model_type": "bert", "hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 64}
    pretrain = PARAMS["pretrain"] | {"objective": "masked", "next_sentence": True}
    (root / "params.yaml").write_text(yaml.safe_dump({"model": {"config": bert | {"max_position_embeddings": 32}}, "pretrain": pretrain}))
    finish(root)
    (folder,) = root.glob("journal/pretrain/*")
    lines = read(folder / "metrics.jsonl")
    # Both documents of each of a step's four sequences are pairs.
    assert [line["pair_loss"] for line in lines] == pytest.approx([np.log(2)] * 12, abs=0.4)
    metrics = json.loads((root / "metrics/pretrain.json").read_text())
    assert metrics["held_out_loss"]["12"] == pytest.approx(metrics["ln_vocabulary"], abs=0.5)
    assert load(root / "models/pretrain", "pairs").cls.seq_relationship.weight.shape == (2, 32)


def test_the_ledger_crosses_epochs_and_proves_itself(done: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from trainplane.lineage.verify import verify_run

    monkeypatch.chdir(done)
    proof = verify_run()
    assert (proof["steps"], proof["chain_hash"]) == (12, result(done)[1])
    consumed = Snapshot.load("consumed").to_table().to_pylist()
    assert [row["epoch"] for row in consumed] == [0] * 6 + [1] * 6
    for epoch in (0, 1):
        seen = [seq_id for row in consumed if row["epoch"] == epoch for seq_id in row["seq_ids"]]
        assert sorted(seen) == list(range(SEQUENCES))


def test_a_step_is_traced_to_its_raw_records_and_a_document_to_its_steps(done: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from trainplane.lineage.trace import trace_document, trace_step

    monkeypatch.chdir(done)
    found = trace_step(7)
    spans = [span for sequence in found["sequences"] for span in sequence["spans"]]
    assert len(found["sequences"]) == 4
    assert [span["origin"]["uri"] for span in spans] == [f"data/{span['doc_id']}.txt" for span in spans]
    doc_id = spans[0]["doc_id"]
    steps = trace_document(doc_id)["steps"]
    assert 7 in [step["step"] for step in steps]
    assert len(steps) == 2  # two epochs
    (span,) = (span for span in spans if span["doc_id"] == doc_id)
    (own,) = (step["document_losses"] for step in steps if step["step"] == 7)
    assert own == [span["loss"]]
    one_epoch = trace_document(doc_id, before=6)
    assert ([step["step"] for step in one_epoch["steps"]], one_epoch["certificate"]["up_to_step"]) == ([steps[0]["step"]], 6)


def test_a_document_that_no_step_saw_has_a_certificate(done: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from trainplane.lineage.trace import trace_document

    monkeypatch.chdir(done)
    found = trace_document(f"{1000:032x}")
    assert (found["seq_ids"], found["steps"], found["certificate"]["seen"]) == ([], [], False)
    assert found["certificate"]["chain_hash"] == result(done)[1]


def test_the_loss_starts_at_guessing_and_falls(done: Path) -> None:
    metrics = json.loads((done / "metrics/pretrain.json").read_text())
    assert metrics["first_loss"] == pytest.approx(metrics["ln_vocabulary"], abs=0.1)
    assert metrics["last_loss"] < metrics["first_loss"]
    assert set(metrics["held_out_loss"]) == {"6", "12"}


def test_losses_are_told_by_source_and_language_and_add_up(done: Path) -> None:
    import csv

    from trainplane.pretrain.watch import read

    (folder,) = done.glob("journal/pretrain/*")
    lines, metrics = read(folder / "metrics.jsonl"), json.loads((done / "metrics/pretrain.json").read_text())
    groups = ["lang/en", "lang/zh", "source/s0", "source/s1"]
    told = {line["step"]: line for line in lines if "held_out_loss" in line}
    assert sorted(told) == [6, 12]
    # Sequences are of one source and both documents of it are equally long: steps are plain means of their groups.
    consumed = Snapshot.load("consumed", done).to_table().to_pylist()
    for last, line in told.items():
        of: dict[str, list[float]] = {"train/source/s0": [], "train/source/s1": []}
        for row in consumed[last - 6 : last]:
            for seq_id, losses in zip(row["seq_ids"], row["document_losses"], strict=True):
                of[f"train/source/s{seq_id % 2}"] += losses
        assert {name: line[name] for name in of} == pytest.approx({name: np.mean(losses) for name, losses in of.items()}, rel=1e-6)
        assert line["train/lang/en"] == line["train/source/s0"]
    with (done / "plots/pretrain.csv").open() as stream:
        final = list(csv.DictReader(stream))[-1]
    assert {name: float(final[f"held_out/{name}"]) for name in groups} == metrics["held_out"]
    assert np.mean([metrics["held_out"]["source/s0"], metrics["held_out"]["source/s1"]]) == pytest.approx(told[12]["held_out_loss"])


def test_samples_are_written_at_the_end_and_go_with_the_model(done: Path) -> None:
    from trainplane.pretrain.watch import read

    found = read(done / "models/pretrain/samples.jsonl")
    assert [(line["step"], line["prompt"]) for line in found] == [(12, "The "), (12, "今天")]
    (folder,) = done.glob("journal/pretrain/*")
    assert read(folder / "samples.jsonl") == found


def test_changed_params_start_anew(done: Path, tmp_path: Path) -> None:
    root = make(tmp_path / "changed")
    kill_at_step(root, 5)
    changed = PARAMS | {"pretrain": PARAMS["pretrain"] | {"learning_rate": 0.001}}
    (root / "params.yaml").write_text(yaml.safe_dump(changed))
    finish(root)
    rates = [Snapshot.load("consumed", folder).to_table(columns=["learning_rate"]).column(0).to_numpy() for folder in (root, done)]
    np.testing.assert_allclose(rates[0], rates[1] / 3, rtol=1e-12)  # of step 1 too


def test_the_commands_of_the_page_print_what_it_shows(done: Path) -> None:
    from tests.docs.test_console_examples import DOCS, examples, pattern, shell

    before, environment = shell(done)
    wrong = []
    text = (DOCS / "training.md").read_text(encoding="utf-8").partition("\n## Resume\n")[2]
    for command, shown in examples(text):
        ran = subprocess.run(["bash", "-c", before + command], cwd=done, env=environment, capture_output=True, text=True, check=False)
        printed = "".join(f"{line.rstrip()}\n" for line in ran.stdout.splitlines())
        if ran.returncode or not re.fullmatch(pattern(shown), printed):
            wrong.append(f"$ {command}\n{printed}{ran.stderr}")
    assert wrong == []


def test_the_settings_and_params_of_the_page_are_some() -> None:
    from dataplane.settings import Settings
    from tests.docs.test_console_examples import DOCS
    from trainplane.params import PretrainParams

    text = (DOCS / "training.md").read_text(encoding="utf-8")
    settings, params = (yaml.safe_load(block) for block in re.findall(r"^```yaml\n(.*?)^```$", text, re.MULTILINE | re.DOTALL))
    assert Settings.parse(settings, where="settings").training.processes == 2
    assert PretrainParams.parse(params["pretrain"], where="pretrain") == PretrainParams()
