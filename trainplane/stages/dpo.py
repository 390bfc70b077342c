"""dpo: models/sft and preference pairs, or judged answers, -> models/dpo."""

from __future__ import annotations

from dataclasses import asdict
from math import isnan
from pathlib import Path
from typing import Any

from dataplane.lineage.record import StageRun, stage_main
from trainplane.align import session
from trainplane.align.adapter import merge, read_run, save
from trainplane.align.judged import check_labels, judged_metrics
from trainplane.align.params import DPOParams
from trainplane.align.preference import Tokenised, answer_logps, correct, judged_logps, of_split, train
from trainplane.align.training_data import judged_of, pairs_of, provenance
from trainplane.data.chat import ChatEncoder
from trainplane.data.judged import encode_judged
from trainplane.data.preference import encode_pair
from trainplane.evaluate.calibration import wilson
from trainplane.evaluate.uncertainty import mean, paired_bootstrap
from trainplane.model.build import load, weights_digest
from trainplane.pretrain.metrics import write_curve
from trainplane.tokenizer import load_tokenizer

PARENT = Path("models/sft")
FOLDER = Path("models/dpo")
WORK = Path("journal/dpo")
PLOT = Path("plots/dpo.csv")


def _held_out_metrics(before: Any, after: Any, seed: int) -> dict[str, Any]:
    """Of held-out pairs, with 95 % intervals: gains by pairs drawn again, the reward accuracy by Wilson's.

    A reward accuracy before training would be over rewards that are all 0, so that there is none: an untrained policy is at 1/2.
    """
    first, second, rewarded = correct(before), correct(after), correct(after, before)
    margins = (after - before)[:, 0] - (after - before)[:, 1]
    low, high = wilson(int(sum(rewarded)), len(rewarded))
    return {
        "held_out_accuracy_before": mean(first)[0], "held_out_accuracy_after": mean(second)[0],
        "held_out_accuracy_gain": asdict(paired_bootstrap(first, second, seed=seed)),
        "held_out_reward_accuracy": mean(rewarded)[0], "held_out_reward_accuracy_low": low, "held_out_reward_accuracy_high": high,
        "held_out_margin_nats": float(margins.mean()),
        "held_out_margin_gain": asdict(paired_bootstrap([0.0] * len(margins), margins.tolist(), seed=seed)),
    }  # fmt: skip


def main() -> None:
    """Runs the stage in the current project."""
    with StageRun("dpo", params=("dpo",)) as run, session.quiet():
        params = DPOParams.parse(run.params["dpo"], where="dpo")
        parent = read_run(PARENT, "dpo")
        read = _judged if params.unpaired else _pairs
        session.prepare_torch(params.seed, params.threads)
        tokenizer, model = load_tokenizer(PARENT), load(PARENT)
        encoder = ChatEncoder(tokenizer)
        data, held_out = read(params, run.root, encoder)
        logps = judged_logps if params.unpaired else answer_logps
        before = logps(model, held_out.encoded, tokenizer.pad_token_id, params.micro())
        WORK.mkdir(parents=True, exist_ok=True)
        adapted, book, alarms = train(model, tokenizer, data, params, WORK)
        merged, delta = merge(adapted, PARENT)
        after = logps(merged, held_out.encoded, tokenizer.pad_token_id, params.micro())
        record = {
            "stage": "dpo", "digest": weights_digest(merged), "parent": parent["digest"], "loss": params.loss,
            "steps": params.max_steps, "seed": params.seed, "chain_hash": book.head(),
        } | provenance(params, run.root)  # fmt: skip
        save(
            FOLDER, parent=PARENT, merged=merged, adapted=adapted, record=record, ledger=WORK / "consumed.jsonl",
            stop_ids=encoder.stop_ids(),
        )  # fmt: skip
        write_curve(run.root / PLOT, book.curve)
        told = (
            judged_metrics(data, held_out, after - before, params)
            if params.unpaired
            else _pair_metrics(data, held_out, before, after, params)
        )
        margins = [row["margin"] for row in book.curve if not isnan(row["margin"])]
        run.metrics({
            "digest": record["digest"], "steps": params.max_steps, "epochs": params.max_steps * params.batch_size / len(data.ids),
            "merge_max_logit_delta": delta, "first_loss": book.curve[0]["loss"],
            "last_loss": book.curve[-1]["loss"], "last_margin": margins[-1] if margins else None, "loss": params.loss,
            "alarms": alarms,
        } | told)  # fmt: skip


def _pairs(params: DPOParams, root: Path, encoder: ChatEncoder) -> tuple[Tokenised[Any], Tokenised[Any]]:
    """Pairs to train on, and held-out ones."""
    pairs = pairs_of(params, root, "dpo")
    return (
        of_split(pairs, "train", params.max_pairs, encode_pair, encoder, params, "dpo"),
        of_split(pairs, "held_out", params.held_out_pairs, encode_pair, encoder, params, "dpo"),
    )


def _judged(params: DPOParams, root: Path, encoder: ChatEncoder) -> tuple[Tokenised[Any], Tokenised[Any]]:
    """Judged answers to train on, and held-out ones; both labels are in both."""
    answers = judged_of(params, root, "dpo")
    data = of_split(answers, "train", params.max_pairs, encode_judged, encoder, params, "dpo")
    held_out = of_split(answers, "held_out", params.held_out_pairs, encode_judged, encoder, params, "dpo")
    check_labels(data.encoded, "train")
    check_labels(held_out.encoded, "held_out")
    return data, held_out


def _pair_metrics(data: Tokenised[Any], held_out: Tokenised[Any], before: Any, after: Any, params: DPOParams) -> dict[str, Any]:
    return {
        "pairs": len(data.ids), "pairs_too_long": data.n_too_long,
        "held_out_pairs": len(held_out.ids), "held_out_pairs_too_long": held_out.n_too_long,
    } | _held_out_metrics(before, after, params.seed)  # fmt: skip


if __name__ == "__main__":
    stage_main(main)
