"""The stage `ppo` on a tiny model: it raises its reward, tells what it did, repeats, and stops where it should."""

import csv
import json
from pathlib import Path

import pytest
import yaml

from dataplane.errors import ModelMissing, ParamsError
from trainplane.errors import NotFinite, TrainingError
from trainplane.lineage.ledger import verify
from trainplane.model.build import load, weights_digest

pytestmark = pytest.mark.slow


def read(path: str) -> dict:
    return json.loads(Path(path).read_text())


def lines(path: str) -> list[dict]:
    return [json.loads(line) for line in Path(path).read_text().splitlines()]


def change(**values: object) -> None:
    params = yaml.safe_load(Path("params.yaml").read_text())
    params["ppo"] |= values
    Path("params.yaml").write_text(yaml.safe_dump(params))


def test_the_stage_raises_its_reward_records_what_it_consumed_and_repeats_bit_for_bit(prompts_project: Path) -> None:
    from trainplane.stages import ppo

    ppo.main()
    metrics, run = read("metrics/ppo.json"), read("models/ppo/run.json")
    assert metrics["held_out_score_after"] > metrics["held_out_score_before"] + 0.1
    assert [seen["step"] for seen in metrics["held_out"]] == [0, 20, 40]
    assert (metrics["held_out"][0]["kl"], metrics["alarms"]) == (0.0, [])
    assert metrics["held_out_kl"] > 0
    assert run["parent"] == read("models/sft/run.json")["digest"]
    assert run["digest"] == weights_digest(load(Path("models/ppo"))) == metrics["digest"] != run["parent"]
    entries = lines("models/ppo/consumed.jsonl")
    assert [entry["chain_hash"] for entry in verify(entries)][-1] == run["chain_hash"]
    assert {name for entry in entries for name in entry["ids"]} == {f"p{i}" for i in range(24) if i % 3}
    with Path("plots/ppo.csv").open() as stream:
        rows = list(csv.DictReader(stream))
    assert float(rows[0]["kl"]) == pytest.approx(0, abs=1e-5)
    assert [(row["step"], row["id"] in {f"p{i}" for i in range(24)}) for row in lines("models/ppo/samples.jsonl")] == [
        (1, True), (1, True), (21, True), (21, True),
    ]  # fmt: skip
    ppo.main()
    assert read("models/ppo/run.json") == run
    assert read("metrics/ppo.json") == metrics


def test_prompts_of_the_lake_are_recorded_and_a_step_leads_back_to_the_raw_records(prompts_project: Path) -> None:
    from click.testing import CliRunner

    from dataplane.stages import clean, decontaminate, dedup, ingest, select
    from trainplane.align.training_data import lake_texts
    from trainplane.cli import main
    from trainplane.stages import ppo

    talks = [{"instruction": f"Say {n}{n}.", "output": f"{n}{n}", "split": "train" if n % 3 else "held_out"} for n in range(12)]
    Path("talks.json").write_text(json.dumps(talks))
    Path("b.jsonl").write_text(json.dumps({"id": 1, "q": "The quick brown fox jumps over the lazy dog while the small cat sleeps there."}))
    params = yaml.safe_load(Path("params.yaml").read_text())
    source = {"name": "talks", "kind": "instruct", "paths": ["talks.json"], "format": "chat", "options": {"layout": "alpaca"}}
    params |= {
        "sources": [source], "clean": {"pipeline": [{"use": "text_signals"}]}, "select": {"rules": []}, "dedup": {},
        "decontaminate": {"benchmarks": [{"name": "b", "paths": ["b.jsonl"], "fields": ["q"], "id_field": "id"}]},
    }  # fmt: skip
    params["ppo"] |= {"data": [], "sources": ["talks"], "max_steps": 2, "batch_size": 4, "held_out_prompts": 2}
    params["ppo"]["rewards"] = [{"use": "exact_match"}]
    Path("params.yaml").write_text(yaml.safe_dump(params))
    for stage in (ingest, clean, select, dedup, decontaminate, ppo):
        stage.main()
    run = read("models/ppo/run.json")
    assert (run["sources"], sorted(run["snapshots"])) == (["talks"], ["decontaminated", "documents"])
    told = json.loads(CliRunner().invoke(main, ["trace", "--model", "models/ppo", "--step", "2", "--json"]).stdout)
    data = Path("talks.json").read_bytes()
    origins = [example["origin"] for example in told["examples"]]
    records = [json.loads(data[origin["offset"] : origin["offset"] + origin["length"]]) for origin in origins]
    assert len(records) == 4
    assert [record["split"] for record in records] == ["train"] * 4
    texts = dict(lake_texts([example["id"] for example in told["examples"]], Path()))
    assert [record["instruction"] in texts[one["id"]] for record, one in zip(records, told["examples"], strict=True)] == [True] * 4
    trained = {name for line in lines("models/ppo/consumed.jsonl") for name in line["ids"]}
    assert {line["id"] for line in lines("models/ppo/samples.jsonl")} <= trained


def test_the_kls_price_holds_the_policy_to_its_reference(prompts_project: Path) -> None:
    from trainplane.stages import ppo

    ppo.main()
    free = read("metrics/ppo.json")["held_out_kl"]
    change(kl_coefficient=1.0, kl_gain=0.0, kl_estimator="k1", whiten_rewards=True)
    ppo.main()
    assert read("metrics/ppo.json")["held_out_kl"] < 0.5 * free


def test_an_alarm_stops_the_run_and_leaves_the_old_model(prompts_project: Path) -> None:
    from trainplane.stages import ppo

    change(guards={"max_kl": 0.01})
    with pytest.raises(TrainingError, match=r"alarm at step .*: kl is"):
        ppo.main()
    assert not Path("models/ppo").exists()
    assert [alarm["name"] for alarm in lines("journal/ppo/alarms.jsonl")] == ["kl"]


def test_a_diverging_run_stops(prompts_project: Path) -> None:
    from trainplane.stages import ppo

    change(learning_rate=1e30, warmup_steps=0)
    with pytest.raises(NotFinite):
        ppo.main()


def test_a_judge_that_is_not_there_is_named(prompts_project: Path) -> None:
    from trainplane.stages import ppo

    change(judge="answers")
    with pytest.raises(ParamsError, match=r"held_out\.jsonl is not there"):
        ppo.main()
    change(judge="model")
    with pytest.raises(ModelMissing, match="models/judge"):
        ppo.main()
