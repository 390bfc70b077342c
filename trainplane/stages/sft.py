"""sft: models/pretrain and instruction data -> models/sft."""

from __future__ import annotations

from pathlib import Path

from dataplane.lineage.record import StageRun, stage_main
from trainplane.align import session
from trainplane.align.adapter import merge, read_run, save
from trainplane.align.base import base_of
from trainplane.align.params import SFTParams
from trainplane.align.sft import Tokenised, answer_loss, pick, tokenise, train
from trainplane.align.training_data import examples_of, provenance
from trainplane.data.chat import ChatEncoder
from trainplane.model.build import weights_digest
from trainplane.pretrain.metrics import write_curve
from trainplane.tokenizer import load_tokenizer

PARENT = Path("models/pretrain")
FOLDER = Path("models/sft")
WORK = Path("journal/sft")
PLOT = Path("plots/sft.csv")


def main() -> None:
    """Runs the stage in the current project."""
    with StageRun("sft", params=("sft",)) as run, session.quiet():
        params = SFTParams.parse(run.params["sft"], where="sft")
        parent = read_run(PARENT, "sft")
        examples = examples_of(params, run.root, "sft")
        session.prepare_torch(params.seed, params.threads)
        tokenizer, model = load_tokenizer(PARENT), base_of(params.method, PARENT)
        encoder = ChatEncoder(tokenizer)
        data = tokenise(pick(examples, "train", params.max_examples, params.seed), encoder, params, "train")
        unseen = pick(examples, "held_out", params.held_out_examples, params.seed)
        held_out = tokenise(unseen, encoder, params, "held_out")
        before = answer_loss(model, held_out.encoded, tokenizer.pad_token_id, params.micro())
        WORK.mkdir(parents=True, exist_ok=True)
        adapted, book = train(model, tokenizer, data, params, WORK)
        merged, delta = merge(adapted, PARENT, params.method) if params.merges() else (None, None)
        final = merged if merged is not None else adapted
        record = {
            "stage": "sft", "digest": weights_digest(final), "method": params.method, "merged": params.merges(),
            "parent": parent["digest"], "steps": params.max_steps, "seed": params.seed, "chain_hash": book.head(),
        } | provenance(params, run.root)  # fmt: skip
        after = answer_loss(final, held_out.encoded, tokenizer.pad_token_id, params.micro())
        save(
            FOLDER, parent=PARENT, merged=merged, adapted=adapted, record=record, ledger=WORK / "consumed.jsonl",
            stop_ids=encoder.stop_ids(), held_out=unseen,
        )  # fmt: skip
        write_curve(run.root / PLOT, book.curve)
        run.metrics(_sizes(params, data, held_out) | {
            "digest": record["digest"], "method": params.method, "merged": params.merges(),
            "held_out_answer_loss_before": before, "held_out_answer_loss_after": after, "merge_max_logit_delta": delta,
            "first_loss": book.curve[0]["loss"], "last_loss": book.curve[-1]["loss"],
        })  # fmt: skip


def _sizes(params: SFTParams, data: Tokenised, held_out: Tokenised) -> dict[str, float]:
    """What went in, and what did not."""
    return {
        "steps": params.max_steps, "examples": len(data.ids), "epochs": params.max_steps * params.batch_size / len(data.ids),
        "truncated_answers": data.n_truncated, "too_long": data.n_too_long, "held_out_examples": len(held_out.ids),
        "held_out_truncated": held_out.n_truncated, "held_out_too_long": held_out.n_too_long,
    }  # fmt: skip


if __name__ == "__main__":
    stage_main(main)
