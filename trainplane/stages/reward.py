"""reward: models/sft and preference pairs -> models/reward."""

from __future__ import annotations

from pathlib import Path

from dataplane.lineage.record import StageRun, stage_main
from trainplane.align import session
from trainplane.align.adapter import read_run, save
from trainplane.align.preference import of_split
from trainplane.align.reward import fresh_scorer, merge, pair_rewards, train
from trainplane.align.rl_params import RewardModelParams
from trainplane.align.training_data import pairs_of, provenance
from trainplane.data.chat import ChatEncoder
from trainplane.data.preference import encode_pair
from trainplane.evaluate.calibration import calibration
from trainplane.model.build import weights_digest
from trainplane.pretrain.metrics import write_curve
from trainplane.tokenizer import load_tokenizer

PARENT = Path("models/sft")
FOLDER = Path("models/reward")
WORK = Path("journal/reward")
PLOT = Path("plots/reward.csv")


def main() -> None:
    """Runs the stage in the current project."""
    with StageRun("reward", params=("reward",)) as run, session.quiet():
        params = RewardModelParams.parse(run.params["reward"], where="reward")
        parent = read_run(PARENT, "reward")
        pairs = pairs_of(params, run.root, "reward")
        session.prepare_torch(params.seed, params.threads)
        tokenizer = load_tokenizer(PARENT)
        encoder, pad_id = ChatEncoder(tokenizer), tokenizer.pad_token_id
        data = of_split(pairs, "train", params.max_pairs, encode_pair, encoder, params, "reward")
        held_out = of_split(pairs, "held_out", params.held_out_pairs, encode_pair, encoder, params, "reward")
        WORK.mkdir(parents=True, exist_ok=True)
        adapted, book = train(fresh_scorer(PARENT), tokenizer, data, params, WORK)
        rewards = pair_rewards(adapted, held_out.encoded, pad_id, params.micro())
        merged, delta = merge(adapted, PARENT, rewards, held_out.encoded, pad_id, params.micro())
        record = {
            "stage": "reward", "digest": weights_digest(merged), "parent": parent["digest"], "steps": params.max_steps, "seed": params.seed,
            "chain_hash": book.head(),
        } | provenance(params, run.root)  # fmt: skip
        save(
            FOLDER, parent=PARENT, merged=merged, adapted=adapted, record=record, ledger=WORK / "consumed.jsonl",
            stop_ids=encoder.stop_ids(),
        )  # fmt: skip
        write_curve(run.root / PLOT, book.curve)
        margins = (rewards[:, 0] - rewards[:, 1]).tolist()
        run.metrics({
            "digest": record["digest"], "steps": params.max_steps, "pairs": len(data.ids), "pairs_too_long": data.n_too_long,
            "epochs": params.max_steps * params.batch_size / len(data.ids), "merge_max_reward_delta": delta,
            "first_loss": book.curve[0]["loss"], "last_loss": book.curve[-1]["loss"],
            "held_out": calibration(margins, params.bins, seed=params.seed),
        })  # fmt: skip


if __name__ == "__main__":
    stage_main(main)
