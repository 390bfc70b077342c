"""National identity, tax and health numbers: shapes and checksums of presidio-analyzer, and the words that name them.

Nine digits with a right check digit are an order number ten times as often as they are an identity. Unless its shape is one that
little else has, a number counts only beside a word that names it; words are found together, by Aho-Corasick.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from dataplane.transforms.pii_checks import valid_mod_11_10
from dataplane.transforms.pii_look import Look
from dataplane.transforms.pii_presidio import predefined

_BEFORE_CHARS, _AFTER_CHARS = 64, 32
_LOOKED_AT = 4  # words behind a number; the first of them may begin inside it


@dataclass(frozen=True)
class NationalId:
    """A kind: presidio's recogniser, the words beside it in lower case, and the shape that counts without them."""

    recognizer: str
    words: str
    alone: str | None = None


# Letters of US Medicare numbers: none that looks like a digit. Source: CMS, Understanding the MBI format.
_MBI, _MBI_ANY = "[AC-HJKMNP-RT-Y]", "[0-9AC-HJKMNP-RT-Y]"
# Prefixes that are given out. Source: HMRC, National Insurance Manual NIM39110.
_NINO = r"(?!BG|GB|KN|NK|NT|TN|ZZ)[A-CEGHJ-PR-TW-Z][A-CEGHJ-NPR-TW-Z]"
_DE_VAT = r"(?:DE|de)(?:[ .-]?\d{3}){3}"
_DAY = r"(?:0[1-9]|1[0-2])(?:0[1-9]|[12]\d|3[01])"

NATIONAL_IDS = {
    "us_ssn": NationalId(
        "UsSsnRecognizer", "social security,ssn,ssns", r"(?<![.,+/=])\d{3}-\d{2}-\d{4}(?![.,/]\d)"
    ),
    "us_itin": NationalId("UsItinRecognizer", "itin,taxpayer,tax id,tin"),
    "us_npi": NationalId("UsNpiRecognizer", "npi,national provider,provider identifier"),
    "us_mbi": NationalId("UsMbiRecognizer", "medicare,mbi,beneficiary", rf"[1-9]{_MBI}{_MBI_ANY}\d-{_MBI}{_MBI_ANY}\d-{_MBI}{{2}}\d\d"),
    "us_aba": NationalId("AbaRoutingRecognizer", "aba,routing"),
    "uk_nino": NationalId(
        "UkNinoRecognizer", "national insurance,nino,ni number", rf"{_NINO}(?: ?\d\d){{3}} ?[A-D]|(?i:{_NINO}(?: \d\d){{3}} [A-D])"
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
        "DeHealthInsuranceRecognizer",
        "krankenversichertennummer,versichertennummer,krankenversicherungsnummer,kvnr,krankenkasse,egk,egk-nummer",
    ),
    "de_vat_id": NationalId(
        "DeVatIdRecognizer", "ust-idnr,ust-id,ustidnr,umsatzsteuer,vat,mehrwertsteuer,rechnung", _DE_VAT
    ),
    "es_nif": NationalId("EsNifRecognizer", "dni,nif,documento nacional"),
    "es_nie": NationalId("EsNieRecognizer", "nie,extranjero", r"[XYZ]\d{7}-?[A-Z]|[xyz]\d{7}-?[a-z]"),
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
    "kr_rrn": NationalId("KrRrnRecognizer", "주민등록번호,주민번호,rrn,resident registration", rf"\d\d{_DAY}-[1-4]\d{{6}}"),
    "kr_frn": NationalId("KrFrnRecognizer", "외국인등록번호,foreigner registration,frn", rf"\d\d{_DAY}-[5-8]\d{{6}}"),
    "kr_brn": NationalId("KrBrnRecognizer", "사업자등록번호,business registration,brn"),
    "ng_nin": NationalId("NgNinRecognizer", "nin,national identification,nimc"),
    "pl_pesel": NationalId("PlPeselRecognizer", "pesel"),
    "ph_tin": NationalId("PhTinRecognizer", "tin,bir,tax id"),
    "se_personnummer": NationalId("SePersonnummerRecognizer", "personnummer,pnr,personal identity"),
    "sg_fin": NationalId("SgFinRecognizer", "nric,fin,uin"),
    "th_tnin": NationalId("ThTninRecognizer", "เลขประจำตัวประชาชน,บัตรประชาชน,thai national id,thai id,tnin"),
    "tr_national_id": NationalId("TrNationalIdRecognizer", "tc kimlik,kimlik,tckn,t.c.,turkish id,tc no,vatandaşlık"),
    "za_id": NationalId("ZaIdNumberRecognizer", "south african id,rsa id,identity number,id number,smart id,permanent resident,refugee id"),
}  # fmt: skip


# Checks beside those of presidio, on the digits alone.
_CHECKS: dict[str, Callable[[str], bool]] = {"de_vat_id": valid_mod_11_10}
# Ten digits with these check digits are books and points of time as well: without words they count only in groups.
_BARE = {"uk_nhs": re.compile(r"\d{3}([ -])\d{3}\1\d{4}"), "kr_brn": re.compile(r"\d{3}-\d\d-\d{5}")}


@dataclass(frozen=True)
class _Shape:
    patterns: tuple[re.Pattern[str], ...]
    alone: re.Pattern[str] | None
    recognizer: Any
    check: Callable[[str], bool] | None
    bare: re.Pattern[str] | None

    def accepts(self, number: str) -> bool:
        """Whether no check refuses it; some kinds have none."""
        if self.check is not None and not self.check(re.sub(r"\D", "", number)):
            return False
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

        self._shapes = {kind: _shape(kind) for kind in kinds}
        self._need_words = words
        # One look for all shapes spares most texts a look for each; they have a digit behind six letters at most.
        shapes = [shape.alone.pattern for shape in self._shapes.values() if shape.alone is not None]
        self._any_alone = re.compile(rf"(?<![\w-])(?=[A-Za-z]{{0,6}}[ .-]?\d)(?:{'|'.join(shapes)})" if shapes else "(?!)")
        pairs = [(word, kind) for kind in kinds for word in NATIONAL_IDS[kind].words.split(",")]
        self._words, self._kinds = [word for word, _ in pairs], [kind for _, kind in pairs]
        self._automaton = ahocorasick_rs.AhoCorasick(self._words)

    def find(self, look: Look) -> Iterator[tuple[str, int, int]]:
        """(kind, start, stop) of every number, those beside their words first."""
        for kind, words in self._mentions(look.said).items():
            for start, stop in self._numbers(kind, look):
                if words.beside(start, stop):
                    yield kind, start, stop
        if self._any_alone.search(look.seen):
            yield from self._alone(look)
        if look.bare or not self._need_words:
            for kind in self._shapes:
                yield from ((kind, *place) for place in self._numbers(kind, look) if self._counts(kind, look, *place))

    def _counts(self, kind: str, look: Look, start: int, stop: int) -> bool:
        """Whether a number counts without a word."""
        bare = self._shapes[kind].bare
        return not self._need_words or (look.alone(start, stop) and (bare is None or bare.fullmatch(look.seen, start, stop) is not None))

    def _alone(self, look: Look) -> Iterator[tuple[str, int, int]]:
        for kind, shape in self._shapes.items():
            if shape.alone is not None:
                yield from ((kind, *match.span()) for match in shape.alone.finditer(look.seen) if shape.accepts(match[0]))

    def _mentions(self, said: str) -> dict[str, _Words]:
        # This is the one character whose lower case is longer, which would move what follows.
        lower = said.replace("İ", "i").lower()
        found: dict[str, _Words] = {}
        for index, start, stop in self._automaton.find_matches_as_indexes(lower, overlapping=True):
            if _is_word(lower, start, stop):
                found.setdefault(self._kinds[index], _Words(said)).add(start, stop)
        return found

    def _numbers(self, kind: str, look: Look) -> Iterator[tuple[int, int]]:
        shape = self._shapes[kind]
        for pattern in shape.patterns:
            yield from (match.span() for match in pattern.finditer(look.seen) if shape.accepts(match[0]))


class _Words:
    """Where the words of a kind stand in a text."""

    def __init__(self, text: str) -> None:
        self._text, self._starts, self._stops = text, list[int](), list[int]()

    def add(self, start: int, stop: int) -> None:
        """One more, which ends behind those before."""
        self._starts.append(start)
        self._stops.append(stop)

    def beside(self, start: int, stop: int) -> bool:
        """Whether the nearest on one side is near enough, and on the same line."""
        i = bisect_right(self._stops, start)
        before = i > 0 and start - self._stops[i - 1] <= _BEFORE_CHARS and "\n" not in self._text[self._stops[i - 1] : start]
        return before or any(
            stop <= first <= stop + _AFTER_CHARS and "\n" not in self._text[stop:first] for first in self._starts[i : i + _LOOKED_AT]
        )


def _shape(kind: str) -> _Shape:
    national = NATIONAL_IDS[kind]
    recognizer = getattr(predefined(), national.recognizer)()
    # No find spans two lines.
    shapes = [pattern.regex.replace("(?i)", "").replace(r"\s", " ") for pattern in recognizer.patterns]
    patterns = tuple(re.compile(rf"(?<![\w-])(?:{shape})(?![\w-]|\.\d)", re.IGNORECASE) for shape in shapes)
    alone = re.compile(rf"(?<![\w-])(?:{national.alone})(?![\w-])") if national.alone else None
    return _Shape(patterns, alone, recognizer, _CHECKS.get(kind), _BARE.get(kind))


def _is_word(text: str, start: int, stop: int) -> bool:
    edges = text[max(0, start - 1) : start] + text[stop : stop + 1]
    return not any(edge.isascii() and edge.isalnum() for edge in edges)
