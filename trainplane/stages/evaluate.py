"""evaluate: models, held-out documents and tasks -> evals, metrics/evaluate.json, metrics/generations.json, metrics/item_scores.json."""

from __future__ import annotations

import json
from dataclasses import replace
from itertools import pairwise
from operator import itemgetter
from pathlib import Path
from typing import Any

import pyarrow as pa

from dataplane import schema
from dataplane.conversation import Turn
from dataplane.engine.cuts import Cuts, without
from dataplane.errors import DataError
from dataplane.lake.objectstore import write_atomically
from dataplane.lineage.record import StageRun, stage_main
from dataplane.params import digest
from trainplane.align import session
from trainplane.align.adapter import read_run
from trainplane.data.chat import ChatEncoder, read_examples
from trainplane.data.jsonl import matching_files
from trainplane.evaluate.compare import compare, item_rows
from trainplane.evaluate.consumed import Consumed, consumed, told
from trainplane.evaluate.generation import Prompt, generate, samples
from trainplane.evaluate.harness import Task, read_items, read_template, run_task, verdict
from trainplane.evaluate.params import EvaluateParams, ProgramParams, TaskParams
from trainplane.evaluate.perplexity import Documents, document_bits, gzip_scores, score_bits
from trainplane.evaluate.sandbox import require_sandbox
from trainplane.evaluate.scores import ALL, Score
from trainplane.evaluate.written import AnyParams, Writer, WrittenTask, read_written_items, run_written
from trainplane.model.build import load
from trainplane.tokenizer import load_tokenizer

INPUTS = ("documents", "held_out", "tokens", "contamination", "cuts")
MODELS = Path("models")
GENERATIONS = Path("metrics/generations.json")
ITEM_SCORES = Path("metrics/item_scores.json")
LANGUAGE = schema.signal_column("language", "lang")
TASK_BATCH = 16
CHAT_PROMPTS = 2
AnyTask = Task | WrittenTask


def _documents(run: StageRun, params: EvaluateParams) -> Documents:
    """A sample of the held-out documents.

    Raises:
        DataError: There are none.
    """
    held_out = run.inputs["held_out"].to_table(columns=["doc_id"]).column("doc_id").to_pylist()
    chosen = sorted(session.sample(held_out, params.held_out_documents, params.seed, name=str))
    if not chosen:
        raise DataError("no document was held out", where="evaluate", fix="raise mix.held_out.share")
    among = {"doc_id": chosen}
    available = run.inputs["documents"].schema.names
    columns = ["doc_id", "source", "text", *([LANGUAGE] if LANGUAGE in available else [])]
    rows = run.inputs["documents"].to_table(columns=columns, among=among).sort_by("doc_id").to_pylist()
    cuts = Cuts.load(run.inputs["cuts"])
    rows = [row | {"text": without(row["text"], cuts.spans(row["doc_id"]))} for row in rows]
    tokens = run.inputs["tokens"].to_table(columns=["doc_id", "input_ids"], among=among).to_pylist()
    by_id = {row["doc_id"]: row["input_ids"] for row in tokens}
    fit = [row for row in rows if row["text"] and len(by_id[row["doc_id"]]) <= params.max_document_tokens]
    names = {"source": [row["source"] for row in fit], "lang": [row.get(LANGUAGE) for row in fit]}
    return Documents([r["doc_id"] for r in fit], [r["text"] for r in fit], [by_id[r["doc_id"]] for r in fit], names, len(rows) - len(fit))


def _checked_files(run: StageRun) -> set[str]:
    """Files whose items decontamination looked for in the corpus."""
    benchmarks = (run.params["decontaminate"] or {}).get("benchmarks") or []
    globs = [pattern for benchmark in benchmarks for pattern in benchmark.get("paths", [])]
    return {path.as_posix() for path in matching_files(globs, run.root)}


def _chosen(run: StageRun, items: list[dict[str, Any]], params: EvaluateParams) -> tuple[list[dict[str, Any]], str]:
    """The items to ask, and what decontamination says of them."""
    chosen = session.sample(items, params.task_limit, params.seed, name=itemgetter("id"))
    seen = set(run.inputs["contamination"].to_table(columns=["item_id"]).column("item_id").to_pylist())
    return chosen, verdict(chosen, seen, _checked_files(run))


def _task(run: StageRun, wanted: TaskParams, params: EvaluateParams) -> Task:
    items = read_items(wanted.data, run.root)
    return Task(wanted.name, read_template(wanted.name), *_chosen(run, items, params))


def _written_task(run: StageRun, wanted: AnyParams, params: EvaluateParams) -> WrittenTask:
    items = read_written_items(wanted, run.root)
    return WrittenTask(wanted, *_chosen(run, items, params))


def _questions() -> list[Turn]:
    """First messages of held-out chat examples, of different languages, which the sft stage left beside its model."""
    path = MODELS / "sft" / "held_out.jsonl"
    examples = read_examples([path.as_posix()], Path()) if path.is_file() else []
    by_language = {example.lang: example for example in reversed(examples)}
    return [by_language[lang].messages[0] for lang in sorted(by_language)][:CHAT_PROMPTS]


def _prompts(encoder: ChatEncoder, params: EvaluateParams, questions: list[Turn], *, chat: bool) -> list[Prompt]:
    """Plain texts go behind an EOS, questions into the chat template where the model has learnt it."""
    eos = encoder.tokenizer.eos_token_id
    plain = [Prompt(text, [eos, *encoder.plain(text)]) for text in params.prompts]
    asked = [encoder.prompt([question]) if chat else [eos, *encoder.plain(question.content + "\n")] for question in questions]
    return plain + [Prompt(question.content, ids) for question, ids in zip(questions, asked, strict=True)]


def _marked(run: StageRun, task: AnyTask, seen: Consumed) -> AnyTask:
    """The task, its verdict told of this model too."""
    more = told(task.items, seen, run.params["decontaminate"] or {})
    return replace(task, contamination=f"{task.contamination}; {more}" if more else task.contamination)


def _writer(model: Any, encoder: ChatEncoder, max_new_tokens: int, *, chat: bool) -> Writer:
    """The model, as what goes on from a question: a user's message where it has learnt to chat, text behind an EOS elsewhere."""

    def write(question: str, temperature: float | None, seed: int) -> str:
        ids = encoder.prompt([Turn("user", question)]) if chat else [encoder.tokenizer.eos_token_id, *encoder.plain(question)]
        return generate(
            model, encoder.tokenizer, Prompt(question, ids), max_new_tokens=max_new_tokens, stop_ids=encoder.stop_ids(),
            temperature=temperature, seed=seed,
        )  # fmt: skip

    return write


def _run_task(model: Any, encoder: ChatEncoder, task: AnyTask, params: EvaluateParams, *, chat: bool) -> list[Score]:
    if isinstance(task, Task):
        return run_task(model, encoder.tokenizer, task, chat=chat, batch_size=TASK_BATCH)
    as_message = chat and not isinstance(task.params, ProgramParams)  # a program is gone on with, not talked about
    asked = digest(["chat", encoder.tokenizer.chat_template] if as_message else ["EOS question"])
    write = _writer(model, encoder, task.params.max_new_tokens, chat=as_message)
    return run_written(task, write, asked=asked, seed=params.seed)


def _measure(name: str, params: EvaluateParams, documents: Documents, tasks: list[AnyTask]) -> tuple[list[Score], list[dict[str, str]]]:
    """All scores and generations of one model."""
    folder = MODELS / name
    record = read_run(folder, "evaluate")
    session.prepare_torch(params.seed, params.threads)
    model, tokenizer = load(folder), load_tokenizer(folder)
    encoder, chat = ChatEncoder(tokenizer), record["stage"] != "pretrain"
    scores = score_bits(documents, document_bits(model, documents.tokens, tokenizer.eos_token_id, params.batch_tokens))
    for task in tasks:
        scores += _run_task(model, encoder, task, params, chat=chat)
    written = samples(
        model, tokenizer, name, _prompts(encoder, params, _questions(), chat=chat), max_new_tokens=params.max_new_tokens,
        stop_ids=encoder.stop_ids(), temperature=params.temperature, seed=params.seed,
    )  # fmt: skip
    return [score.of(name, record["digest"]) for score in scores], written


def _summary(scores: list[Score]) -> dict[str, dict[str, float]]:
    """Model -> metric -> value, over all groups."""
    summary: dict[str, dict[str, float]] = {}
    for score in scores:
        if score.group == ALL:
            metric = score.metric if score.metric == "bits_per_byte" else f"{score.task}.{score.metric}"
            summary.setdefault(score.stage, {})[metric] = score.value
    return summary


def main() -> None:
    """Runs the stage in the current project."""
    with StageRun("evaluate", inputs=INPUTS, params=("evaluate", "decontaminate")) as run, session.quiet():
        params = EvaluateParams.parse(run.params["evaluate"], where="evaluate")
        documents = _documents(run, params)
        tasks: list[AnyTask] = [_task(run, wanted, params) for wanted in params.tasks]
        tasks += [_written_task(run, wanted, params) for wanted in params.written]
        tasks += [_written_task(run, wanted, params) for wanted in params.programs]
        tasks += [_written_task(run, wanted, params) for wanted in params.safety]
        if params.programs:
            require_sandbox()
        scores, generations = gzip_scores(documents), []
        for name in params.models:
            seen = consumed(MODELS, name, run.root)
            measured, written = _measure(name, params, documents, [_marked(run, task, seen) for task in tasks])
            scores += measured
            generations += written
        rows: list[dict[str, Any]] = [score.row(run.run_id, params.seed) for score in scores]
        run.write("evals", schema.EVALS, [pa.RecordBatch.from_pylist(rows, schema=schema.EVALS)])
        write_atomically(run.root / GENERATIONS, json.dumps(generations, indent=1, ensure_ascii=False) + "\n")
        items = item_rows(scores)
        write_atomically(run.root / ITEM_SCORES, json.dumps(items, indent=1, ensure_ascii=False) + "\n")
        run.metrics(_summary(scores) | {"gains": [one for pair in pairwise(params.models) for one in compare(items, *pair, params.seed)]})


if __name__ == "__main__":
    stage_main(main)
