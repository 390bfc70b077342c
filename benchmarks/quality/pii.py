"""How much personal data is found, and how much that is none: recall and precision by kind on labelled cases.

    python -m benchmarks.quality pii --data FOLDER [--json] [--failures]

Reads pii/: presidio_research (English sentences with spans), cn_cases (Chinese texts with counts), presidio_recognizer_cases (what
presidio's own tests expect). `required` and `optional` are the operator's ways with words beside national numbers. A find counts
where it overlaps a span of its kind; in cases with counts, as many as are expected do.
Kinds of presidio that scrub_pii does not have (names, dates, postcodes, company registers) are not measured.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from dataplane.kernels.pii_candidates import candidates
from dataplane.transforms.pii_recognizers import KINDS, Recognizers, Span, windows_of

# Presidio has recognisers of their own for numbers of these plans.
REGIONS = {"tr_phone_number_recognizer": ("TR",), "ph_mobile_number_recognizer": ("PH",)}
ENTITIES = {
    "CREDIT_CARD": ("card", "bank_card"), "US_SSN": ("us_ssn",), "PHONE_NUMBER": ("phone", "cn_mobile"), "EMAIL_ADDRESS": ("email",),
    "IBAN_CODE": ("iban",), "IP_ADDRESS": ("ip",), "US_DRIVER_LICENSE": ("driver_licence", "uk_driving_licence"),
}  # fmt: skip
CHINESE = {
    "TestCNPhoneRecognizer": ("cn_mobile", "phone"), "TestCNIDCardRecognizer": ("cn_id",),
    "TestCNBankCardRecognizer": ("card", "bank_card"),
    "TestCNPassportRecognizer": ("passport",), "TestCNEmailRecognizer": ("email",),
}  # fmt: skip
# Presidio's recognisers under another name than the kind's.
RENAMED = {
    "credit_card": ("card", "bank_card"), "crypto": ("crypto",), "email": ("email",), "iban": ("iban",), "ip": ("ip",),
    "phone": ("phone", "cn_mobile"),
    "aba_routing": ("us_aba",), "fi_personal_identity_code": ("fi_hetu",), "za_id_number": ("za_id",), "tr_phone_number": ("phone",),
    "ph_mobile_number": ("phone",), "us_driver_license": ("driver_licence",), "it_driver_license": ("driver_licence",),
    "de_fuehrerschein": ("driver_licence",), "kr_driver_license": ("driver_licence",),
}  # fmt: skip


@dataclass
class Case:
    """A text, and how often each group of kinds stands in it, or where."""

    source: str
    text: str
    kinds: tuple[str, ...]
    expected: int
    regions: tuple[str, ...] = ()
    spans: tuple[tuple[int, int], ...] | None = None


@dataclass
class Score:
    """Counts of one kind, and what was missed or found in vain."""

    hit: int = 0
    missed: int = 0
    false: int = 0
    failures: list[str] = field(default_factory=list)

    def add(self, case: Case, finds: list[Span]) -> None:
        """Counts a case."""
        if case.spans is None:
            hit = min(len(finds), case.expected)
            false = len(finds) - hit
        else:
            hit = sum(any(find.start < stop and start < find.stop for find in finds) for start, stop in case.spans)
            false = sum(not any(find.start < stop and start < find.stop for start, stop in case.spans) for find in finds)
        self.hit, self.missed, self.false = self.hit + hit, self.missed + case.expected - hit, self.false + false
        if false or hit < case.expected:
            self.failures.append(f"{case.source} {case.kinds[0]} expected {case.expected}, hit {hit}, false {false}: {case.text!r}")

    def row(self, name: str) -> dict[str, Any]:
        """As one line."""
        recall = self.hit / (self.hit + self.missed) if self.hit + self.missed else None
        precision = self.hit / (self.hit + self.false) if self.hit + self.false else None
        shares = {key: value if value is None else round(value, 3) for key, value in (("recall", recall), ("precision", precision))}
        return {"name": name, **shares, "hit": self.hit, "missed": self.missed, "false": self.false}


def sentences(folder: Path) -> Iterator[Case]:
    for path in sorted(folder.glob("*.json")):
        for case in json.loads(path.read_text(encoding="utf-8")):
            for entity, kinds in ENTITIES.items():
                spans = tuple((s["start_position"], s["end_position"]) for s in case["spans"] if s["entity_type"] == entity)
                yield Case("presidio_research", case["full_text"], kinds, len(spans), spans=spans)


def chinese(path: Path) -> Iterator[Case]:
    for entry in json.loads(path.read_text(encoding="utf-8")):
        kinds, case = CHINESE[entry["group"]], entry["case"]
        if "text" in case:
            yield Case("cn_cases", case["text"], kinds, case["expected_count"])
        for name, values in case.items():
            if isinstance(values, list):
                yield from (Case("cn_cases", value, kinds, int(name.startswith("valid"))) for value in values)


def recognizer_cases(path: Path) -> Iterator[Case]:
    for entry in json.loads(path.read_text(encoding="utf-8")):
        kinds, case = kinds_of(entry["recognizer"].removesuffix("_recognizer")), entry["case"]
        text = case.get("text", case.get("iban"))
        if kinds and text is not None and "expected_len" in case:
            yield Case("presidio_recognizer_cases", text, kinds, case["expected_len"], REGIONS.get(entry["recognizer"], ()))


def kinds_of(recognizer: str) -> tuple[str, ...]:
    if recognizer.endswith("passport"):
        return ("passport",)
    return RENAMED.get(recognizer, (recognizer,) if recognizer in KINDS else ())


def find(recognizers: Recognizers, text: str) -> list[Span]:
    """As the operator finds: behind the candidate pass."""
    import pyarrow as pa

    places = candidates(pa.array([text], pa.large_string()))[:, 1:]
    return recognizers.find(text, windows_of(places.tolist(), len(text)))


def score(cases: Iterable[Case], words: bool) -> dict[tuple[str, str], Score]:
    # One recogniser for each group of kinds: presidio's cases say nothing of other kinds that a number could be.
    made: dict[tuple[tuple[str, ...], tuple[str, ...]], Recognizers] = {}
    scores: dict[tuple[str, str], Score] = {}
    for case in cases:
        together = KINDS if case.source == "presidio_research" else case.kinds
        key = (together, case.regions)
        if key not in made:
            made[key] = Recognizers([k for k in together if k != "cn_id_shaped"], case.regions, private_ips=True, words=words)
        finds = [span for span in find(made[key], case.text) if span.kind in case.kinds]
        scores.setdefault((case.source, case.kinds[0]), Score()).add(case, finds)
    return scores


def main(arguments: list[str]) -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.quality pii", description=__doc__)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--json", action="store_true", help="one JSON object a line")
    parser.add_argument("--failures", action="store_true", help="also every case that is wrong")
    options = parser.parse_args(arguments)
    folder = options.data / "pii"
    cases = [*sentences(folder / "presidio_research"), *chinese(folder / "cn_cases" / "cases.json")]
    cases += recognizer_cases(folder / "presidio_recognizer_cases" / "cases.json")
    for words in (True, False):
        for (source, kind), found in score(cases, words).items():
            line = found.row(f"{source}, {kind}, context {'required' if words else 'optional'}")
            print(json.dumps(line) if options.json else "  ".join(f"{key} {value}" for key, value in line.items()))
            for failure in found.failures if options.failures else []:
                print("   ", failure)
