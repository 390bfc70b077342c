"""The card of an export, README.md: YAML that the Hugging Face Hub reads, then what people should know. It shows no text."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import yaml

from dataplane.publish.facts import Facts, public
from dataplane.publish.licenses import hub_licenses

FILE = "README.md"
# A language with a smaller share of the bytes is more likely a slip of the classifier than a language of the data.
MIN_LANGUAGE_SHARE = 0.01
_LANGUAGE = re.compile(r"[a-z]{2,3}$")
_SIZES = [(10**3, "n<1K"), (10**4, "1K<n<10K"), (10**5, "10K<n<100K"), (10**6, "100K<n<1M"), (10**7, "1M<n<10M"),
          (10**8, "10M<n<100M"), (10**9, "100M<n<1B"), (10**10, "1B<n<10B"), (10**11, "10B<n<100B"), (10**12, "100B<n<1T")]  # fmt: skip
_CHOICES = {
    "all": "every document, dropped ones and duplicates included",
    "selected": "the documents that no rule dropped, duplicates included",
    "deduplicated": "the documents that no rule dropped, duplicates removed, not decontaminated",
    "decontaminated": "the documents that no rule dropped, duplicates and benchmark text removed",
    "mixture": "the training mixture: in training order, a document as often as it is trained on",
    "held_out": "the documents that are held out of training, to be measured on",
}
# A choice that stands on none of a stage leaves the stage's work undone.
_UNDONE = "not done for these rows"


def card(record: Mapping[str, Any], facts: Facts) -> str:
    """The card's text.

    Args:
        record: terraplane.json of the export.
        facts: What the lake knows of it.
    """
    header = yaml.safe_dump(metadata(record, facts), sort_keys=False, allow_unicode=True, width=1000)
    parts = [
        f"# {record['title']}",
        _introduction(record),
        *_section("Sources", _sources(facts)),
        *_section("Languages", _languages(facts)),
        *_section("How it was made", _stages(facts)),
        *_section("What was dropped", _dropped(facts)),
        *_section("Personal data", _personal(facts)),
        *_section("Contamination", _contamination(facts)),
        *_section("Versions", _versions(record, facts)),
    ]
    return f"---\n{header}---\n\n" + "\n\n".join(parts) + "\n"


def metadata(record: Mapping[str, Any], facts: Facts) -> dict[str, Any]:
    """The YAML header."""
    languages = [name for name, share in facts.languages.items() if share >= MIN_LANGUAGE_SHARE and _LANGUAGE.match(name)]
    values = {
        "pretty_name": record["title"],
        "license": hub_licenses(facts.licenses()),
        "language": sorted(languages),
        "size_categories": [size_category(record["rows"])],
        "task_categories": ["text-generation"],
        "tags": ["terraplane"],
        "configs": [{"config_name": "default", "data_files": [{"split": record["split"], "path": f"data/{record['split']}-*"}]}],
    }
    return {name: value for name, value in values.items() if value}


def size_category(rows: int) -> str:
    """The Hub's name for a number of rows."""
    return next((name for limit, name in _SIZES if rows < limit), "n>1T")


def _introduction(record: Mapping[str, Any]) -> str:
    names = ", ".join(f"`{column['name']}` ({column['type']})" for column in record["columns"])
    every = record["select"] == "all" and record["table"] != "documents"
    what = "all of it" if every else _CHOICES[record["select"]]
    return (
        f"{record['rows']:,} rows of the table `{record['table']}`: {what}.\n\n"
        f"Made with Terraplane {record['terraplane']}. `terraplane.json` holds the digests of the versions and the files.\n\n"
        f"Columns: {names}."
    )


def _section(title: str, body: str) -> list[str]:
    return [f"## {title}", body] if body else []


def _sources(facts: Facts) -> str:
    if not facts.sources:
        return ""
    rows = [
        (
            source.name,
            source.kind,
            source.license,
            f"{source.ingested:,}" if source.ingested is not None else "-",
            f"{source.documents:,}",
            f"{source.n_bytes:,}",
        )
        for source in facts.sources
    ]
    total = ("all", "", "", "", f"{sum(s.documents for s in facts.sources):,}", f"{sum(s.n_bytes for s in facts.sources):,}")
    head = ("source", "kind", "licence", "records read", "documents here", "bytes of text here")
    note = "A document that the rows repeat is counted once. `unknown` means that nobody stated a licence: it is no permission."
    return f"{table(head, [*rows, total])}\n\n{note}"


def _languages(facts: Facts) -> str:
    large = [(name, f"{share:.1%}") for name, share in facts.languages.items() if share >= MIN_LANGUAGE_SHARE]
    rest = 1 - sum(share for share in facts.languages.values() if share >= MIN_LANGUAGE_SHARE)
    rows = [*large, *([("others", f"{rest:.1%}")] if rest > 0 and len(large) < len(facts.languages) else [])]
    return table(("language", "share of bytes"), rows) if rows else ""


def _stages(facts: Facts) -> str:
    parts = []
    for stage in facts.stages:
        operators = ", ".join(f"`{name}` {op_id}" for name, op_id in stage.op_ids.items())
        params = yaml.safe_dump(public(stage.params), sort_keys=False, allow_unicode=True, width=120)
        parts.append(
            f"### {stage.name}\n\nparams digest {stage.params_digest}" + (f"; operators: {operators}" if operators else "")
            + f"\n\n{_fenced(params)}"
        )  # fmt: skip
    return "\n\n".join(parts)


def _fenced(text: str) -> str:
    """A block of YAML; the fence is longer than any run of backticks in it."""
    longest = max((len(run) for run in re.findall(r"`+", text)), default=0)
    fence = "`" * max(3, longest + 1)
    return f"{fence}yaml\n{text}{fence}"


def _dropped(facts: Facts) -> str:
    names = ("in", "kept", "dropped", "quarantined")
    rows = [(stage.name, *(f"{stage.rows.get(name, 0):,}" for name in names)) for stage in facts.stages if stage.rows]
    if not rows:
        return ""
    funnel = table(("stage", *names), rows)
    if not facts.reasons:
        return funnel
    reasons = table(("stage", "reason", "documents"), [(r["stage"], r["reason"], f"{r['documents']:,}") for r in facts.reasons])
    return f"{funnel}\n\nA document that failed several rules is counted for each.\n\n{reasons}"


def _personal(facts: Facts) -> str:
    clean = facts.stage("clean")
    if clean is None:
        return ""
    if "scrub_pii" not in clean.op_ids:
        return "No operator looked for personal data."
    rows = [(row["kind"], f"{row['found']:,}", f"{row['documents']:,}") for row in facts.pii]
    found = table(("kind", "replaced", "documents"), rows) if rows else "Nothing was found."
    return (
        "`scrub_pii` replaced what it recognised, in all documents of the stage `clean`; its params stand above. "
        f"What it does not recognise, names above all, is still there.\n\n{found}"
    )


def _contamination(facts: Facts) -> str:
    stage = facts.stage("decontaminate")
    if stage is None:
        return f"Decontamination: {_UNDONE}." if facts.stages else ""
    benchmarks = [benchmark["name"] for benchmark in stage.params.get("decontaminate", {}).get("benchmarks") or []]
    found = {row["benchmark"]: row for row in facts.contamination}
    none = {"found": 0, "documents": 0}
    rows = [(name, f"{found.get(name, none)['found']:,}", f"{found.get(name, none)['documents']:,}") for name in benchmarks]
    if not rows:
        return "Decontamination ran against no benchmark."
    head = ("benchmark", "items found", "documents that quoted them")
    return f"Checked against these benchmarks, and against no other.\n\n{table(head, rows)}"


def _versions(record: Mapping[str, Any], facts: Facts) -> str:
    known: dict[str, str] = {}
    for stage in facts.stages:
        known |= stage.outputs
    rows = sorted((known | record["snapshots"]).items())
    return table(("table", "digest"), [(f"{name} (exported)" if name == record["table"] else name, digest) for name, digest in rows])


def table(head: Sequence[str], rows: Iterable[Sequence[Any]]) -> str:
    """A Markdown table; what could end a cell or start markup is escaped."""
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join("| " + " | ".join(_cell(value) for value in line) + " |" for line in lines)


def _cell(value: Any) -> str:
    return re.sub(r"([\\`*<>\[\]|])", r"\\\1", str(value)).replace("\n", " ")
