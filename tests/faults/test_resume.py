"""Runs that are killed, run out of room, find a damaged checkpoint or meet a bad document, against runs that nothing happened to."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.faults.scenario import scenario
from tests.faults.small_stage import ROOT

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]


def test_killed_runs_resume_bit_for_bit() -> None:
    command = [sys.executable, "-m", "tests.faults.resume", "--count", "5", "--seed", "3", "--json"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    *trials, total = [json.loads(line) for line in done.stdout.splitlines()]
    assert [trial["faults"] for trial in trials] == [[]] * len(trials)
    assert (done.returncode, total["kills"], total["exact"]) == (0, 5, 5)


def test_the_harness_sees_random_numbers_that_are_not_resumed() -> None:
    """Of several kills: one before the first checkpoint makes a run begin anew, which shows nothing."""
    broken = (
        "import trainplane.pretrain.loop as l, torch, random; torch.manual_seed(random.randrange(1 << 30)); l.seed_step = lambda *a: ''"
    )
    code = f"{broken}\nimport sys; sys.argv = ['resume', '--count', '6']\nfrom tests.faults.resume import main\nmain()"
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=False)
    assert "undisturbed runs differ" in done.stderr or "differs" in done.stdout


def test_a_full_disk_leaves_the_checkpoint_before_whole_and_the_run_goes_on_later(tmp_path: Path) -> None:
    found = scenario(
        tmp_path,
        """
from trainplane.pretrain.checkpoint import damaged_files
expected = s.finish(here / "undisturbed")
def full():
    import torch
    save, calls = torch.save, [0]
    def fails(*args):
        calls[0] += 1
        if os.environ["RANK"] == "0" and calls[0] > 2:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        save(*args)
    torch.save = fails
run = s.start(here / "full", before=full)
codes = run.wait()
left = sorted(path.name for path in (here / "full").glob("step_*"))
whole = [damaged_files(here / "full" / name) for name in left if not name.endswith("partial")]
print(json.dumps([codes, "No space left" in run.said(), left, whole, s.finish(here / "full") == expected]))
""",
    )
    # Rank 0 writes one file a checkpoint at ZeRO 0: those of steps 0 and 3 fit, that of step 6 does not.
    assert found == [[1, 1], True, ["step_00000000", "step_00000003", "step_00000006.partial"], [[], []], True]


def test_a_damaged_checkpoint_is_passed_over_and_the_result_is_the_same(tmp_path: Path) -> None:
    found = scenario(
        tmp_path,
        """
expected = s.finish(here / "undisturbed")
run = s.start(here / "damaged")
while not (here / "damaged" / "step_00000009" / "state.json").exists():
    time.sleep(0.001)
run.kill([0, 1])
run.wait()
newest = sorted(path for path in (here / "damaged").glob("step_*") if not path.name.endswith("partial"))[-1]
(weights,) = newest.glob("step_*/mp_rank_00_model_states.pt")
content = bytearray(weights.read_bytes())
content[len(content) // 2] ^= 1
weights.write_bytes(content)
run = s.start(here / "damaged")
codes = run.wait()
print(json.dumps([codes, "is damaged" in run.said(), json.loads((here / "damaged" / RESULT).read_text()) == expected]))
""",
    )
    assert found == [[0, 0], True, True]


@pytest.mark.parametrize("zero", [1, 2, 3])
def test_zero_stages_resume_bit_for_bit(tmp_path: Path, zero: int) -> None:
    found = scenario(
        tmp_path,
        f"""
params = PARAMS.model_copy(update={{"zero_stage": {zero}}})
expected = s.finish(here / "undisturbed", params=params)
run = s.start(here / "killed", params=params)
while not (here / "killed" / "step_00000006").exists():
    time.sleep(0.001)
run.kill([0, 1])
run.wait()
print(json.dumps(s.finish(here / "killed", params=params) == expected))
""",
    )
    assert found is True


LEGS = """
import itertools
from trainplane.lineage.ledger import verify
s.DROPOUT = 0.0  # other ranks draw other random numbers
def stops_at(step):
    import trainplane.pretrain.loop as loop
    advance = loop.Trainer._advance
    def stopping(self):
        if self.step >= step:
            self.checkpoints.wait()
            os._exit(0)
        return advance(self)
    loop.Trainer._advance = stopping
def ledger(name):
    return list(verify(map(json.loads, (here / name / "ledger.jsonl").open())))
expected = s.finish(here / "whole", ranks=1)
codes = []
for number, (ranks, zero, parallel) in enumerate(LEGS_OF_RUN, 1):
    params = PARAMS.model_copy(update={"zero_stage": zero, "precision": PRECISION, "parallel": PARAMS.parallel.model_copy(update=parallel)})
    run = s.start(here / "legs", ranks=ranks, params=params, before=lambda: stops_at(number * 12 // len(LEGS_OF_RUN)))
    codes += run.wait()
    if any(codes): print(run.said(), file=sys.stderr)
one, other = ledger("whole"), ledger("legs")
off = [max(abs(a[name] - b[name]) / a[name] for a, b in zip(one, other)) for name in ("loss", "grad_norm")]
print(json.dumps([set(codes) == {0}, one[-1]["chain_hash"] == other[-1]["chain_hash"], len(other), *off]))
"""
LEG_CASES = [
    ([(2, 0, {}), (1, 0, {}), (4, 0, {})], "fp32"),
    ([(2, 1, {}), (1, 1, {}), (4, 1, {})], "fp32"),
    ([(2, 2, {}), (1, 2, {}), (4, 2, {})], "fp32"),
    ([(2, 3, {}), (1, 3, {}), (4, 3, {})], "fp32"),
    ([(2, 0, {}), (2, 2, {}), (1, 3, {}), (2, 1, {}), (2, 3, {}), (1, 0, {})], "fp32"),
    ([(2, 1, {"tensor": 2}), (4, 1, {"tensor": 2})], "fp32"),
    ([(2, 1, {"sequence": 2}), (1, 0, {}), (4, 2, {"sequence": 2})], "fp32"),
    ([(2, 1, {}), (1, 1, {}), (4, 2, {})], "bf16"),
    ([(2, 0, {"tensor": 2}), (1, 0, {}), (2, 0, {"tensor": 2})], "fp32"),
    ([(1, 3, {}), (4, 1, {"tensor": 2}), (2, 2, {}), (2, 2, {"tensor": 2}), (2, 3, {}), (2, 1, {"tensor": 2})], "fp32"),
    ([(2, 0, {"pipeline": 2}), (1, 0, {}), (2, 0, {"pipeline": 2})], "fp32"),
    ([(2, 1, {"pipeline": 2}), (2, 2, {}), (4, 1, {"pipeline": 2}), (4, 0, {"pipeline": 2}), (2, 0, {"tensor": 2}),
      (2, 1, {"pipeline": 2})], "fp32"),
    ([(2, 1, {"pipeline": 2}), (1, 1, {}), (2, 1, {"tensor": 2})], "bf16"),
]  # fmt: skip


@pytest.mark.parametrize(("legs", "precision"), LEG_CASES)
def test_a_run_goes_on_at_other_ranks_and_zero_stages(tmp_path: Path, legs: list[Any], precision: str) -> None:
    """The order and the ledger's chain are equal; losses differ by what sums in another order make, or bf16's 8 bits."""
    found = scenario(tmp_path, LEGS.replace("LEGS_OF_RUN", repr(legs)).replace("PRECISION", repr(precision)))
    assert found[:3] == [True, True, 12]
    assert found[3:] == pytest.approx([0.0, 0.0], abs=2e-6 if precision == "fp32" else 0.05)


def test_half_precision_at_zero_0_is_not_cut_anew(tmp_path: Path) -> None:
    said = scenario(
        tmp_path,
        """
for ranks in (2, 1):
    run = s.start(here / "half", ranks=ranks, params=PARAMS.model_copy(update={"precision": "bf16", "steps": 3}))
    run.wait()
print(json.dumps(run.said()))
""",
    )
    assert "half precision at ZeRO 0 keeps its state in parts that cannot be cut anew" in said


SHARED = """
s.DROPOUT = 0.0
from dataclasses import replace
from safetensors.numpy import load_file
def spoiled():
    import trainplane.pretrain.engine as engine
    import trainplane.pretrain.evidence as evidence
    step, rerun, calls = engine.Engine.step, evidence.rerun, [0]
    def bad(self, batch, rate, **how):
        calls[0] += 1
        found = step(self, batch, rate, **how)
        return replace(found, loss=float("nan")) if calls[0] in (4, 6) else found
    def broken(engine, batch, step):
        import torch
        weight = engine.model.model.layers[1].mlp.down_proj.weight
        kept = weight.detach().clone()
        if calls[0] == 6:
            with torch.no_grad():
                weight[0] = float("nan")
        found = rerun(engine, batch, step)
        with torch.no_grad():
            weight.copy_(kept)
        return found
    engine.Engine.step, evidence.rerun = bad, broken
found = []
for name, ranks, zero, parallel in [("one", 1, 0, {}), *LAYOUTS]:
    update = {"steps": 6, "zero_stage": zero, "parallel": PARAMS.parallel.model_copy(update=parallel)}
    s.finish(here / name, ranks=ranks, params=PARAMS.model_copy(update=update), before=spoiled)
    told = [json.loads(path.read_text()) for path in sorted((here / name / "evidence").glob("*.json"))]
    layers = {layer["layer"]: [layer["weight_norm"], layer["grad_norm"]] for layer in told[0]["layers"]}
    weights = {tensor: values.tolist() for tensor, values in load_file(here / name / "model" / "model.safetensors").items()}
    found.append([[one["anomaly"] for one in told], layers, weights])
print(json.dumps(found))
"""
SHARED_LAYOUTS = [
    ("tensor", 2, 0, {"tensor": 2}), ("tensor_of_4", 4, 1, {"tensor": 2}),
    ("stages", 2, 0, {"pipeline": 2}), ("stages_of_4", 4, 1, {"pipeline": 2}),
]  # fmt: skip


def test_ranks_that_share_the_layers_leave_the_model_and_the_evidence_of_one_rank(tmp_path: Path) -> None:
    """Weights and norms to within rounding; where a weight is NaN the module is named, and no rank waits for another for ever."""
    one, *others = scenario(tmp_path, SHARED.replace("*LAYOUTS", f"*{SHARED_LAYOUTS!r}"))
    assert list(one[1]) == ["model.embed_tokens.weight", "model.layers.0", "model.layers.1", "model.norm.weight"]
    assert "nan" in one[0][1]  # as PyTorch says it
    for anomalies, layers, weights in others:
        assert anomalies == [None, "the output of model.layers.1.mlp.down_proj is not finite"]
        assert list(layers) == list(one[1])
        np.testing.assert_allclose(list(layers.values()), list(one[1].values()), rtol=1e-5)
        assert weights.keys() == one[2].keys()
        for name, values in weights.items():
            # Adam makes a step of the sign of a gradient that is all rounding.
            np.testing.assert_allclose(values, one[2][name], atol=5e-5)


def test_latest_best_and_every_nth_checkpoint_stay(tmp_path: Path) -> None:
    found = scenario(
        tmp_path,
        """
settings = TrainingSettings(keep_checkpoints=2, keep_every=6)
s.finish(here / "run", settings=settings)
best = json.loads((here / "run" / "best.json").read_text())
measured = {row["step"]: row["held_out_loss"] for row in map(json.loads, (here / "run" / "ledger.jsonl").open()) if "held_out_loss" in row}
names = sorted(path.name for path in (here / "run").glob("step_*"))
print(json.dumps([names, best["name"], best["held_out_loss"] == min(measured.values())]))
""",
    )
    assert found[0] == ["step_00000000", "step_00000006", "step_00000009", "step_00000012"]
    assert found[1:] == ["step_00000012", True]


def test_a_long_run_begins_with_a_smoke_test_that_changes_nothing_and_finds_state_that_is_not_saved(tmp_path: Path) -> None:
    same, code, said = scenario(
        tmp_path,
        """
expected = s.finish(here / "without", ranks=1)
tested = TrainingSettings(smoke_test_from=12)
same = s.finish(here / "with", ranks=1, settings=tested) == expected
def forgetful():
    import trainplane.model.build as build
    make = build.build
    def changed(*args, **kwargs):
        model, calls = make(*args, **kwargs), [1.0]
        def drift(module, args, output):
            calls[0] *= 1.01
            return output * calls[0]
        model.lm_head.register_forward_hook(drift)
        return model
    build.build = changed
run = s.start(here / "drifts", ranks=1, settings=tested, before=forgetful)
(code,) = run.wait()
print(json.dumps([same, code, run.said()]))
""",
    )
    assert (same, code) == (True, 1)
    assert "smoke test: the first steps gave the losses" in said


GARBAGE = """
from trainplane.pretrain.stability import StabilityParams
from trainplane.lineage.ledger import verify
SPIKE = 90
params = PARAMS.model_copy(update={
    "steps": 140, "checkpoint_every": 20, "global_batch": 4, "held_out_every": 140, "min_lr_ratio": 0.0,
    "stability": StabilityParams(window=32, min_samples=16, skip_steps=1),
})
clean = s.sequences(400)
spoiled = s.InMemory(clean.input_ids.copy())
from trainplane.data.order import sequences_of_step
BAD = int(sequences_of_step(params.seed, SPIKE, 4, 400)[1])
spoiled.input_ids[BAD, 8:] = np.random.default_rng(1).integers(2, VOCABULARY, 8)
without = s.finish(here / "without", packed=clean, params=params, ranks=RANKS_OF_RUN // STAGES_OF_RUN)
params = params.model_copy(update={"parallel": PARAMS.parallel.model_copy(update={"pipeline": STAGES_OF_RUN})})
found = s.finish(here / "with", packed=spoiled, params=params, ranks=RANKS_OF_RUN)
rows = [list(map(json.loads, (here / name / "ledger.jsonl").open())) for name in ("without", "with")]
evidence = json.loads((here / "with" / "evidence" / "step_00000090.json").read_text())
steps = len(list(verify(rows[1])))
print(json.dumps({
    "clean": without["interventions"], "made": found["interventions"], "held_out": [of[-1]["held_out_loss"] for of in rows], "steps": steps,
    "skipped": [[row["step"], row["skipped"]] for row in rows[1] if row["skipped"]], "seen": any(BAD in row["seq_ids"] for row in rows[1]),
    "equal_before": [a == b for a, b in zip(*rows)][:SPIKE - 1], "document": evidence["documents"][0], "bad": f"{2 * BAD + 1:032x}",
    "layers": [layer["layer"] for layer in evidence["layers"]], "anomaly": evidence["anomaly"], "reason": evidence["reason"],
    "shares": sum(row["share"] for row in evidence["documents"]),
}))
"""


@pytest.mark.parametrize(("ranks", "stages"), [(1, 1), (2, 1), (2, 2)])
def test_a_document_of_garbage_is_named_skipped_and_leaves_the_loss_as_without_it(tmp_path: Path, ranks: int, stages: int) -> None:
    """With stages, against a run without: dropout draws other numbers there, so that the steps before are not equal."""
    found = scenario(tmp_path, GARBAGE.replace("RANKS_OF_RUN", str(ranks)).replace("STAGES_OF_RUN", str(stages)))
    assert found["clean"] == []
    (made,) = found["made"]
    assert (made["spike"], made["from_step"], made["sequences"]) == (90, 90, 4)
    assert found["reason"].startswith(("loss", "grad_norm"))
    assert (found["steps"], found["skipped"], found["seen"]) == (140, [[90, 4]], False)
    assert found["document"]["doc_id"] == found["bad"]
    assert found["shares"] == pytest.approx(1.0)
    assert found["layers"] == ["model.embed_tokens.weight", "model.layers.0", "model.layers.1", "model.norm.weight"]
    assert found["anomaly"] is None
    assert stages > 1 or False not in found["equal_before"]
    one, two = found["held_out"]
    assert two == pytest.approx(one, rel=0.01)


def test_a_run_that_goes_on_spiking_stops_and_names_the_evidence(tmp_path: Path) -> None:
    code, said, evidence = scenario(
        tmp_path,
        """
from trainplane.pretrain.stability import StabilityParams
params = PARAMS.model_copy(update={"stability": StabilityParams(max_rollbacks=2)})
def broken():
    import trainplane.pretrain.engine as engine
    from dataclasses import replace
    step, calls = engine.Engine.step, [0]
    def bad(self, batch, rate, **how):
        calls[0] += 1
        found = step(self, batch, rate, **how)
        return replace(found, loss=float("nan")) if calls[0] > 5 else found
    engine.Engine.step = bad
run = s.start(here / "run", params=params, before=broken, ranks=1)
(code,) = run.wait()
print(json.dumps([code, run.said(), sorted(path.name for path in (here / "run" / "evidence").glob("*"))]))
""",
    )
    assert code == 1
    assert "2 rollbacks were made already" in said
    assert evidence[0].startswith("step_0000000")
