"""National identity, tax and health numbers: shapes and checksums of presidio-analyzer, and the words that name them.

Nine digits with a right check digit are an order number ten times as often as they are an identity. Unless its shape is one that
little else has, a number counts only beside a word that names it; words are found together, by Aho-Corasick.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

_BEFORE_CHARS, _AFTER_CHARS = 64, 32


@dataclass(frozen=True)
class NationalId:
    """A kind: presidio's recogniser, the words beside it in lower case, and the shape that counts without them."""

    recognizer: str
    words: str
    alone: str | None = None


NATIONAL_IDS = {
    "us_ssn": NationalId(
        "UsSsnRecognizer", "social security,ssn,ssns", r"(?<![.,+/=])\d{3}-\d{2}-\d{4}(?![.,/]\d)"
    ),
    "us_itin": NationalId("UsItinRecognizer", "itin,taxpayer,tax id,tin"),
    "us_npi": NationalId("UsNpiRecognizer", "npi,national provider"),
    "us_mbi": NationalId("UsMbiRecognizer", "medicare,mbi,beneficiary", r"\d[A-Z][0-9A-Z]\d-[A-Z][0-9A-Z]\d-[A-Z]{2}\d\d"),
    "us_aba": NationalId("AbaRoutingRecognizer", "aba,routing"),
    "uk_nino": NationalId(
        "UkNinoRecognizer", "national insurance,nino,ni number", r"[A-Z]{2}(?: ?\d\d){3} ?[A-D]|[a-z]{2}(?: \d\d){3} [a-d]"
    ),
    "uk_nhs": NationalId("NhsRecognizer", "nhs,national health service"),
    "uk_driving_licence": NationalId(
        "UkDrivingLicenceRecognizer", "licence,license,dvla", r"[A-Z]{2,5}9{0,3}\d{6}[A-Z][0-9A-Z]\d[A-Z]{2}"
    ),
    "au_abn": NationalId("AuAbnRecognizer", "abn,australian business"),
    "au_acn": NationalId("AuAcnRecognizer", "acn,australian company"),
    "au_medicare": NationalId("AuMedicareRecognizer", "medicare"),
    "au_tfn": NationalId("AuTfnRecognizer", "tfn,tax file"),
    "ca_sin": NationalId("CaSinRecognizer", "social insurance,sin,assurance sociale,nas"),
    "de_id_card": NationalId("DeIdCardRecognizer", "personalausweis,ausweis,ausweisnummer,personalausweisnummer,identity card"),
    "de_tax_id": NationalId(
        "DeTaxIdRecognizer", "steuer-id,steueridentifikationsnummer,steuer id,identifikationsnummer,idnr,steuer-idnr,steuerliche"
    ),
    "de_social_security": NationalId(
        "DeSocialSecurityRecognizer", "rentenversicherungsnummer,sozialversicherungsnummer,versicherungsnummer,rvnr,svnr,sv-nummer",
        r"\d{8}[A-Z]\d{3}",
    ),
    "de_health_insurance": NationalId(
        "DeHealthInsuranceRecognizer", "krankenversicherungsnummer,krankenversichertennummer,versichertennummer,kvnr,krankenkasse"
    ),
    "de_vat_id": NationalId(
        "DeVatIdRecognizer", "ust-idnr,ust-id,ustidnr,umsatzsteuer,vat,mehrwertsteuer,rechnung", r"DE\d{9}"
    ),
    "es_nif": NationalId("EsNifRecognizer", "dni,nif,documento nacional"),
    "es_nie": NationalId("EsNieRecognizer", "nie,extranjero", r"[XYZ]\d{7}-?[A-Z]"),
    "fi_hetu": NationalId(
        "FiPersonalIdentityCodeRecognizer", "hetu,henkilötunnus,personbeteckning,personbeteckningen,personal identity code",
        r"\d{6}[-+A-FU-Y]\d{3}[0-9A-FHJ-NPR-Y]",
    ),
    "in_aadhaar": NationalId("InAadhaarRecognizer", "aadhaar,uidai,aadhar"),
    "in_pan": NationalId("InPanRecognizer", "pan,permanent account"),
    "in_gstin": NationalId("InGstinRecognizer", "gstin,gst", r"\d{2}[A-Z]{5}\d{4}[A-Z][0-9A-Z]Z[0-9A-Z]"),
    "it_fiscal_code": NationalId(
        "ItFiscalCodeRecognizer", "codice fiscale,fiscal code", r"[A-Z]{6}\d\d[A-EHLMPRST]\d\d[A-Z]\d{3}[A-Z]"
    ),
    "it_vat_code": NationalId("ItVatCodeRecognizer", "partita iva,piva,p.iva"),
    "kr_rrn": NationalId("KrRrnRecognizer", "주민등록번호,주민번호,rrn,resident registration", r"\d{6}-[1-4]\d{6}"),
    "kr_frn": NationalId("KrFrnRecognizer", "외국인등록번호,foreigner registration,frn", r"\d{6}-[5-8]\d{6}"),
    "kr_brn": NationalId("KrBrnRecognizer", "사업자등록번호,business registration,brn"),
    "ng_nin": NationalId("NgNinRecognizer", "nin,national identification,nimc"),
    "pl_pesel": NationalId("PlPeselRecognizer", "pesel"),
    "ph_tin": NationalId("PhTinRecognizer", "tin,bir"),
    "se_personnummer": NationalId("SePersonnummerRecognizer", "personnummer,pnr,personal identity"),
    "sg_fin": NationalId("SgFinRecognizer", "nric,fin,uin"),
    "th_tnin": NationalId("ThTninRecognizer", "เลขประจำตัวประชาชน,บัตรประชาชน,thai national id,thai id,tnin"),
    "tr_national_id": NationalId("TrNationalIdRecognizer", "tc kimlik,kimlik,tckn,t.c."),
    "za_id": NationalId("ZaIdNumberRecognizer", "south african id,rsa id,identity number,id number,smart id,permanent resident,refugee id"),
}  # fmt: skip


@dataclass(frozen=True)
class _Shape:
    patterns: tuple[re.Pattern[str], ...]
    alone: re.Pattern[str] | None
    recognizer: Any

    def accepts(self, number: str) -> bool:
        """Whether presidio's check does not refuse it; some kinds have none."""
        checked = self.recognizer.validate_result(number)
        return checked is not False and not (checked is None and self.recognizer.invalidate_result(number))


class NationalIds:
    """The recognisers of some kinds.

    Args:
        kinds: Keys of `NATIONAL_IDS`.
        words: Whether a number whose shape is not rare needs a word beside it.
    """

    def __init__(self, kinds: Sequence[str], *, words: bool) -> None:
        import ahocorasick_rs

        self._shapes = {kind: _shape(NATIONAL_IDS[kind]) for kind in kinds}
        self._need_words = words
        pairs = [(word, kind) for kind in kinds for word in NATIONAL_IDS[kind].words.split(",")]
        self._words, self._kinds = [word for word, _ in pairs], [kind for _, kind in pairs]
        self._automaton = ahocorasick_rs.AhoCorasick(self._words)

    def find(self, seen: str, said: str) -> Iterator[tuple[str, int, int]]:
        """(kind, start, stop) of every number, those beside their words first."""
        words = self._mentions(said)
        for kind, places in words.items():
            for start, stop in self._numbers(kind, seen):
                if any(_beside(said, start, stop, *place) for place in places):
                    yield kind, start, stop
        for kind, shape in self._shapes.items():
            if shape.alone is not None:
                yield from ((kind, *match.span()) for match in shape.alone.finditer(seen) if shape.accepts(match[0]))
        if not self._need_words:
            yield from ((kind, start, stop) for kind in self._shapes for start, stop in self._numbers(kind, seen))

    def _mentions(self, said: str) -> dict[str, list[tuple[int, int]]]:
        # Lower case of some characters is longer, which would move what follows.
        lower = said.lower() if said.isascii() else "".join(c.lower() if len(c.lower()) == 1 else c for c in said)
        found: dict[str, list[tuple[int, int]]] = {}
        for index, start, stop in self._automaton.find_matches_as_indexes(lower, overlapping=True):
            if _is_word(lower, start, stop):
                found.setdefault(self._kinds[index], []).append((start, stop))
        return found

    def _numbers(self, kind: str, seen: str) -> Iterator[tuple[int, int]]:
        shape = self._shapes[kind]
        for pattern in shape.patterns:
            yield from (match.span() for match in pattern.finditer(seen) if shape.accepts(match[0]))


def _shape(national: NationalId) -> _Shape:
    import presidio_analyzer.predefined_recognizers as presidio

    recognizer = getattr(presidio, national.recognizer)()
    # No find spans two lines.
    shapes = [pattern.regex.replace("(?i)", "").replace(r"\s", " ") for pattern in recognizer.patterns]
    patterns = tuple(re.compile(rf"(?<![\w-])(?:{shape})(?![\w-]|\.\d)", re.IGNORECASE) for shape in shapes)
    alone = re.compile(rf"(?<![\w-])(?:{national.alone})(?![\w-])") if national.alone else None
    return _Shape(patterns, alone, recognizer)


def _is_word(text: str, start: int, stop: int) -> bool:
    edges = text[max(0, start - 1) : start] + text[stop : stop + 1]
    return not any(edge.isascii() and edge.isalnum() for edge in edges)


def _beside(text: str, start: int, stop: int, word_start: int, word_stop: int) -> bool:
    if word_stop <= start:
        return start - word_stop <= _BEFORE_CHARS and "\n" not in text[word_stop:start]
    return stop <= word_start <= stop + _AFTER_CHARS and "\n" not in text[stop:word_start]
