"""Runs whose layers lie on several ranks: they resume, skip and export as others do, and come to the numbers of one rank."""

from pathlib import Path

import pytest

from tests.faults.scenario import scenario

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]

# Ranks, params, and whether input and output embeddings are one matrix.
PIPELINES = [
    (2, {}, True),
    (4, {"zero_stage": 1, "activation_checkpointing": True}, False),
    (4, {"zero_stage": 1, "precision": "bf16"}, True),
]
STAGED = """
def staged(stages=2, **update):
    return PARAMS.model_copy(update={**update, "parallel": PARAMS.parallel.model_copy(update={"pipeline": stages})})
def comes_to(step, run, folder):
    while run.alive() and not (folder / f"step_{step:08d}").exists():
        time.sleep(0.001)
def entries(name):
    from trainplane.lineage.ledger import verify
    return list(verify(map(json.loads, (here / name / "ledger.jsonl").open())))
"""


@pytest.mark.parametrize(("ranks", "params", "tied"), PIPELINES)
def test_a_killed_pipeline_resumes_bit_for_bit(tmp_path: Path, ranks: int, params: dict, tied: bool) -> None:
    """With dropout, over epochs of 2.5 steps; one kill ends all ranks, one the last stage alone."""
    found = scenario(
        tmp_path,
        f"""{STAGED}
s.MODEL = s.MODEL.model_copy(update={{"tie_embeddings": {tied}}})
params = staged(**{params})
expected = s.finish(here / "undisturbed", ranks={ranks}, params=params)
for step, killed in ((3, range({ranks})), (9, [{ranks} - 1])):
    run = s.start(here / "killed", ranks={ranks}, params=params)
    comes_to(step, run, here / "killed")
    run.kill(list(killed))
    run.wait()
print(json.dumps([s.finish(here / "killed", ranks={ranks}, params=params) == expected, len(entries("killed"))]))
""",
    )
    assert found == [True, 12]


@pytest.mark.parametrize(("ranks", "zero", "tied"), [(2, 0, True), (2, 0, False), (4, 1, True)])
def test_a_pipeline_trains_the_model_of_one_rank(tmp_path: Path, ranks: int, zero: int, tied: bool) -> None:
    """Order and chain are equal; losses, norms, held-out losses and weights differ by rounding."""
    chains, off, weights = scenario(
        tmp_path,
        f"""{STAGED}
s.DROPOUT = 0.0  # other ranks draw other random numbers
s.MODEL = s.MODEL.model_copy(update={{"tie_embeddings": {tied}}})
s.finish(here / "one", ranks=1)
s.finish(here / "stages", ranks={ranks}, params=staged(zero_stage={zero}))
one, other = entries("one"), entries("stages")
off = [max(abs(a[name] - b[name]) / a[name] for a, b in zip(one, other) if name in a) for name in ("loss", "grad_norm", "held_out_loss")]
from trainplane.model.build import load
a, b = (load(here / name / SAVED).state_dict() for name in ("one", "stages"))
weights = [float((a[name] - b[name]).abs().max()) for name in a] if a.keys() == b.keys() else ["other names"]
print(json.dumps([[of[-1]["chain_hash"] for of in (one, other)], off, weights]))
""",
    )
    assert chains[0] == chains[1]
    assert off == pytest.approx([0.0] * 3, abs=5e-6)
    assert max(weights) < 1e-4


@pytest.mark.parametrize(("ranks", "stages", "zero"), [(2, 2, 0), (4, 2, 1), (2, 1, 0), (2, 1, 1), (2, 1, 2)])
def test_a_step_whose_loss_is_not_finite_leaves_no_trace(tmp_path: Path, ranks: int, stages: int, zero: int) -> None:
    """Before step 5 comes one with a broken weight, which is mended: the run ends as if there had been none."""
    same, applied = scenario(
        tmp_path,
        f"""{STAGED}
s.DROPOUT = 0.0  # the broken step would draw
params = staged({stages}, zero_stage={zero})
expected = s.finish(here / "undisturbed", ranks={ranks}, params=params)
def broken():
    import torch
    import trainplane.pretrain.engine as engine
    step, calls = engine.Engine.step, [0]
    def twice(self, batch, rate, **how):
        calls[0] += 1
        if calls[0] == 5:
            weight = self.model.model.norm.weight
            before = weight.detach().clone()
            with torch.no_grad():
                weight[0] = float("nan")
            found = step(self, batch, rate, **how)
            with torch.no_grad():
                weight.copy_(before)
            (here / f"applied_{{os.environ['RANK']}}").write_text(str(found.applied))
        return step(self, batch, rate, **how)
    engine.Engine.step = twice
run = s.start(here / "broken", ranks={ranks}, params=params, before=broken)
codes = run.wait()
if any(codes): print(run.said(), file=sys.stderr)
same = not any(codes) and s.result(here / "broken") == expected
print(json.dumps([same, [(here / f"applied_{{number}}").read_text() for number in range({ranks})]]))
""",
    )
    assert (same, applied) == (True, ["False"] * ranks)


def test_another_pipeline_is_refused(tmp_path: Path) -> None:
    said = scenario(
        tmp_path,
        f"""{STAGED}
said = []
for name, (ranks, params) in {{"fewer": (1, PARAMS), "wider": (4, staged(steps=3))}}.items():
    s.finish(here / name, params=staged(steps=3))
    run = s.start(here / name, ranks=ranks, params=params)
    run.wait()
    said.append(run.said())
print(json.dumps(said))
""",
    )
    assert "2 ranks had the layers one after the other when the checkpoint was made, and 1 do now" in said[0]
    assert "the checkpoint of a pipeline is of 2 ranks at ZeRO 0, and cannot be cut anew" in said[1]
