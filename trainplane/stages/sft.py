"""sft: models/pretrain and instruction data -> models/sft."""

from __future__ import annotations

from collections import Counter
from dataclasses import asdict
from pathlib import Path
from typing import Any

from dataplane.lineage.record import StageRun, stage_main
from trainplane.align import session
from trainplane.align.adapter import merge, read_run, save
from trainplane.align.base import base_of
from trainplane.align.params import SFTParams
from trainplane.align.sft import Tokenised, answer_losses, pick, short_enough, tokenise, train
from trainplane.align.training_data import examples_of, provenance
from trainplane.data.chat import ChatEncoder, read_examples
from trainplane.evaluate.uncertainty import paired_ratio_bootstrap
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
        examples, left_out = short_enough(examples, encoder, params)
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
        run.metrics(_sizes(params, data, held_out, left_out) | {
            "digest": record["digest"], "method": params.method, "merged": params.merges(),
            "merge_max_logit_delta": delta, "first_loss": book.curve[0]["loss"], "last_loss": book.curve[-1]["loss"],
        } | _changes(before, after, params.seed))  # fmt: skip


def _changes(before: dict[str, Any], after: dict[str, Any], seed: int) -> dict[str, Any]:
    """Mean loss a token before and after, and the difference with its 95 % interval over examples drawn again."""
    told: dict[str, Any] = {}
    for name, first in before.items():
        nats, n_labels = first.sum(0).tolist()
        told[f"{name}_before"] = nats / n_labels
        told[f"{name}_after"] = float(after[name][:, 0].sum()) / n_labels
        gain = paired_ratio_bootstrap(first[:, 0].numpy(), after[name][:, 0].numpy(), first[:, 1].numpy(), seed=seed)
        told[f"{name}_gain"] = asdict(gain) | {"n": len(first)}
    return told


def _retained(params: SFTParams, encoder: ChatEncoder, root: Path) -> dict[str, Tokenised]:
    """Examples of what the model could do before; those that are too long are left out."""
    if not params.retain:
        return {}
    lenient = params.model_copy(update={"overlong": "leave_out"})
    fit, _ = short_enough(read_examples(params.retain, root), encoder, lenient)
    chosen = session.sample(fit, params.held_out_examples, params.seed)
    return {"retained_answer_loss": tokenise(chosen, encoder, lenient, "retained")}


def _losses(model: Any, probes: dict[str, Tokenised], pad_id: int, params: SFTParams) -> dict[str, Any]:
    return {name: answer_losses(model, data.encoded, pad_id, params.micro()) for name, data in probes.items()}


def _sizes(params: SFTParams, data: Tokenised, held_out: Tokenised, left_out: Counter[str]) -> dict[str, float]:
    """What went in, and what did not."""
    return {
        "steps": params.max_steps, "examples": len(data.ids), "epochs": params.max_steps * params.batch_size / len(data.ids),
        "truncated_answers": data.n_truncated, "too_long": data.n_too_long + left_out["train"], "held_out_examples": len(held_out.ids),
        "held_out_truncated": held_out.n_truncated, "held_out_too_long": held_out.n_too_long + left_out["held_out"],
    }  # fmt: skip


if __name__ == "__main__":
    stage_main(main)
