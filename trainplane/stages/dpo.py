"""dpo: models/sft and preference pairs -> models/dpo."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from dataplane.lineage.record import StageRun, stage_main
from trainplane.align import session
from trainplane.align.adapter import merge, read_run, save
from trainplane.align.params import DPOParams
from trainplane.align.preference import accuracy, answer_logps, of_split, train
from trainplane.align.training_data import pairs_of, provenance
from trainplane.data.chat import ChatEncoder
from trainplane.model.build import load, weights_digest
from trainplane.pretrain.metrics import write_curve
from trainplane.tokenizer import load_tokenizer

PARENT = Path("models/sft")
FOLDER = Path("models/dpo")
WORK = Path("journal/dpo")
PLOT = Path("plots/dpo.csv")


def _held_out_metrics(before: Any, after: Any) -> dict[str, float]:
    """Of held-out pairs; a reward accuracy before training would be over rewards that are all 0, so that there is none."""
    gains = after - before
    return {
        "held_out_accuracy_before": accuracy(before), "held_out_accuracy_after": accuracy(after),
        "held_out_reward_accuracy": accuracy(after, before), "held_out_margin_nats": float((gains[:, 0] - gains[:, 1]).mean()),
    }  # fmt: skip


def main() -> None:
    """Runs the stage in the current project."""
    with StageRun("dpo", params=("dpo",)) as run, session.quiet():
        params = DPOParams.parse(run.params["dpo"], where="dpo")
        parent = read_run(PARENT, "dpo")
        pairs = pairs_of(params, run.root, "dpo")
        session.prepare_torch(params.seed, params.threads)
        tokenizer, model = load_tokenizer(PARENT), load(PARENT)
        encoder = ChatEncoder(tokenizer)
        data = of_split(pairs, "train", params.max_pairs, encoder, params, "dpo")
        held_out = of_split(pairs, "held_out", params.held_out_pairs, encoder, params, "dpo")
        before = answer_logps(model, held_out.encoded, tokenizer.pad_token_id, params.micro())
        WORK.mkdir(parents=True, exist_ok=True)
        adapted, book, alarms = train(model, tokenizer, data, params, WORK)
        merged, delta = merge(adapted, PARENT)
        after = answer_logps(merged, held_out.encoded, tokenizer.pad_token_id, params.micro())
        record = {
            "stage": "dpo", "digest": weights_digest(merged), "parent": parent["digest"], "loss": params.loss,
            "steps": params.max_steps, "seed": params.seed, "chain_hash": book.head(),
        } | provenance(params, run.root)  # fmt: skip
        save(
            FOLDER, parent=PARENT, merged=merged, adapted=adapted, record=record, ledger=WORK / "consumed.jsonl",
            stop_ids=encoder.stop_ids(),
        )  # fmt: skip
        write_curve(run.root / PLOT, book.curve)
        run.metrics({
            "digest": record["digest"], "steps": params.max_steps, "pairs": len(data.ids),
            "epochs": params.max_steps * params.batch_size / len(data.ids), "pairs_too_long": data.n_too_long,
            "held_out_pairs": len(held_out.ids), "merge_max_logit_delta": delta, "first_loss": book.curve[0]["loss"],
            "last_loss": book.curve[-1]["loss"], "last_margin": book.curve[-1]["margin"], "loss": params.loss,
            "alarms": alarms,
        } | _held_out_metrics(before, after))  # fmt: skip


if __name__ == "__main__":
    stage_main(main)
