"""sft: models/pretrain and instruction data -> models/sft."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from dataplane.lineage.record import StageRun, stage_main
from trainplane.align import session
from trainplane.align.adapter import merge, read_run, save
from trainplane.align.base import base_of
from trainplane.align.params import SFTParams
from trainplane.align.sft import Tokenised, answer_loss, pick, tokenise, train
from trainplane.align.training_data import examples_of, provenance
from trainplane.data.chat import ChatEncoder, read_examples
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
        data = tokenise(pick(examples, "train", params.max_examples, params.seed, params.shares), encoder, params, "train")
        unseen = pick(examples, "held_out", params.held_out_examples, params.seed)
        held_out = tokenise(unseen, encoder, params, "held_out")
        probes = {"held_out_answer_loss": held_out} | _retained(params, encoder, run.root)
        before = _losses(model, probes, tokenizer.pad_token_id, params)
        WORK.mkdir(parents=True, exist_ok=True)
        adapted, book = train(model, tokenizer, data, params, WORK)
        merged, delta = merge(adapted, PARENT, params.method) if params.merges() else (None, None)
        final = merged if merged is not None else adapted
        record = {
            "stage": "sft", "digest": weights_digest(final), "method": params.method, "merged": params.merges(),
            "parent": parent["digest"], "steps": params.max_steps, "seed": params.seed, "chain_hash": book.head(),
        } | provenance(params, run.root)  # fmt: skip
        after = _losses(final, probes, tokenizer.pad_token_id, params)
        save(
            FOLDER, parent=PARENT, merged=merged, adapted=adapted, record=record, ledger=WORK / "consumed.jsonl",
            stop_ids=encoder.stop_ids(), held_out=unseen,
        )  # fmt: skip
        write_curve(run.root / PLOT, book.curve)
        run.metrics(_sizes(params, data, held_out) | {
            "digest": record["digest"], "method": params.method, "merged": params.merges(),
            "merge_max_logit_delta": delta, "first_loss": book.curve[0]["loss"], "last_loss": book.curve[-1]["loss"],
        } | _named(before, "before") | _named(after, "after"))  # fmt: skip


def _named(losses: dict[str, float], when: str) -> dict[str, float]:
    return {f"{name}_{when}": loss for name, loss in losses.items()}


def _retained(params: SFTParams, encoder: ChatEncoder, root: Path) -> dict[str, Tokenised]:
    """Examples of what the model could do before; those that are too long are left out."""
    if not params.retain:
        return {}
    chosen = session.sample(read_examples(params.retain, root), params.held_out_examples, params.seed)
    return {"retained_answer_loss": tokenise(chosen, encoder, params.model_copy(update={"overlong": "leave_out"}), "retained")}


def _losses(model: Any, probes: dict[str, Tokenised], pad_id: int, params: SFTParams) -> dict[str, float]:
    return {name: answer_loss(model, data.encoded, pad_id, params.micro()) for name, data in probes.items()}


def _sizes(params: SFTParams, data: Tokenised, held_out: Tokenised) -> dict[str, float]:
    """What went in, and what did not."""
    return {
        "steps": params.max_steps, "examples": len(data.ids), "epochs": params.max_steps * params.batch_size / len(data.ids),
        "truncated_answers": data.n_truncated, "too_long": data.n_too_long, "held_out_examples": len(held_out.ids),
        "held_out_truncated": held_out.n_truncated, "held_out_too_long": held_out.n_too_long,
    }  # fmt: skip


if __name__ == "__main__":
    stage_main(main)
