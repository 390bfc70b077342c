"""Rule sets: the files are whole, thresholds are the published ones, predicates are SQL, faults are named."""

import math
import re
from typing import Any

import duckdb
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dataplane.annotators.text_signals import TextSignals, published_stop_words
from dataplane.errors import ParamsError, PluginError
from dataplane.ruleset import ResolvedRules, load_rule_set, parse_rule_set, referenced_signals, sql_literal

SETS = ("c4", "fineweb", "fineweb2", "gopher_quality", "gopher_repetition")
KNOWN = {"text_signals": list(TextSignals.writes), "language": ["lang", "score"]}

PROSE = (
    "The river that runs through the town has been there longer than any of the houses, and people have always lived with it. "
    "In spring the water rises to the second step of the old stair; in August children walk to the island and back without "
    "wetting their knees. Nobody remembers who built the bridge, but everyone knows which stones move when a cart goes over."
)
CHINESE = (
    "这条河流过小镇，比任何一座房子都要古老，人们一直和它生活在一起。春天河水涨到旧石阶的第二级，八月里孩子们可以走到河心的小岛上再走回来，"
    "连膝盖都不会湿。没有人记得那座桥是谁修的，但是大家都知道马车经过的时候哪几块石头会动。老人们说，只要桥还在，镇子就不会有事。"
)


def decide(rules: ResolvedRules, text: str, kind: str = "prose", lang: str = "en") -> set[str]:
    """Reasons for which a text is dropped, by DuckDB."""
    batch = pa.record_batch({"text": pa.array([text], pa.large_string())})
    signals = {name: column[0].as_py() for name, column in TextSignals({}).annotate(batch).items()}
    connection = duckdb.connect()
    parts = ", ".join(f"'{name}': {value!r}" for name, value in signals.items())
    connection.execute(f"CREATE TABLE d AS SELECT {{{parts}}} AS text_signals, {{'lang': '{lang}'}} AS language, '{kind}' AS kind")
    found = rules.predicates().items()
    return {
        reason for reason, predicate in found if connection.execute(f"SELECT coalesce({predicate}, false) FROM d").fetchone() == (True,)
    }


@pytest.fixture(scope="module")
def quality() -> ResolvedRules:
    return load_rule_set("gopher_quality").resolve()


@pytest.fixture(scope="module")
def repetition() -> ResolvedRules:
    return load_rule_set("gopher_repetition").resolve()


def test_thresholds_are_the_published_ones(quality: ResolvedRules, repetition: ResolvedRules) -> None:
    """Rae et al. 2021, A1.1 and table A1."""
    assert [quality.params[f"{side}_words"] for side in ("min", "max")] == [50, 100_000]
    assert [quality.params[f"{side}_mean_word_length"] for side in ("min", "max")] == [3.0, 10.0]
    assert [quality.params[f"max_{name}"] for name in ("hash_ratio", "ellipsis_ratio")] == [0.1, 0.1]
    assert [quality.params[f"max_{name}_line_share"] for name in ("bullet", "ellipsis")] == [0.9, 0.3]
    assert [quality.params[f"min_{name}"] for name in ("alphabetic_word_share", "stop_words")] == [0.8, 2]
    lines = [repetition.params[f"max_duplicate_{name}_share"] for name in ("line", "line_char", "paragraph", "paragraph_char")]
    assert lines == [0.3, 0.2, 0.3, 0.2]
    assert [repetition.params[f"max_top_{n}_gram_share"] for n in (2, 3, 4)] == [0.2, 0.18, 0.16]
    assert [repetition.params[f"max_duplicate_{n}_gram_share"] for n in range(5, 11)] == [0.15, 0.14, 0.13, 0.12, 0.11, 0.1]


@pytest.fixture(scope="module")
def web() -> dict[str, ResolvedRules]:
    return {name: load_rule_set(name).resolve() for name in ("c4", "fineweb")}


def test_thresholds_for_web_text_are_the_published_ones(web: dict[str, ResolvedRules]) -> None:
    """Penedo et al. 2024, 3.6; Raffel et al. 2020, 2.2."""
    names = ("min_terminal_line_share", "max_short_line_share", "max_duplicate_line_char_share", "max_newline_ratio")
    assert [web["fineweb"].params[name] for name in names] == [0.12, 0.67, 0.01, 0.3]
    assert [web["c4"].params[name] for name in ("min_sentences", "max_lorem_ipsum_lines", "max_curly_bracket_lines")] == [5, 0, 0]


FIVE = "One is here now. Two is here now. Three is here now. Four is here now. Five is here now."
PAGE, PAGE_ZH = f"{PROSE}\n{FIVE}", f"{CHINESE}\n今天很好。明天也好。后天更好。"


@pytest.mark.parametrize(("text", "lang"), [(PAGE, "en"), (PAGE_ZH, "zh")])
def test_pages_of_both_languages_pass_the_rules_for_web_text(web: dict[str, ResolvedRules], text: str, lang: str) -> None:
    assert {name: decide(rules, text, "web", lang) for name, rules in web.items()} == {"c4": set(), "fineweb": set()}


@pytest.mark.parametrize(
    ("name", "text", "want"),
    [
        ("c4", "One is here now. Two is here now.", {"too_few_sentences"}),
        ("c4", f"{FIVE}\nHome.", set()),
        ("c4", "One is here. Two is here. Three is here. Four is here, says this privacy policy. Five.", {"too_few_sentences"}),
        ("c4", f"{FIVE}\nLorem Ipsum dolor sit amet.", {"lorem_ipsum"}),
        ("c4", f"{FIVE}\nif x then {{ y }}", {"curly_bracket"}),
        ("c4", f"{FIVE}\nEnable javascript to see {{ y }} here.", set()),
        ("c4", f"{FIVE}\n{{ }}", set()),
        ("c4", "今天很好。明天也好。", {"too_few_sentences"}),
        (
            "fineweb",
            "a line that is quite long enough but never comes to its end\n" + "and another one of them that goes on and on too\n",
            {"too_few_terminal_lines"},
        ),
        ("fineweb", f"{PROSE}\nHome.\nAbout us.\nContact.", {"too_many_short_lines"}),
        (
            "fineweb",
            f"{PROSE}\nThis line about the river has been written twice.\nThis line about the river has been written twice.",
            {"duplicate_line_chars"},
        ),
        ("fineweb", "\n\n\n\n".join(f"The long way to the bridge number {i}." for i in range(9)), {"too_many_newlines"}),
        ("fineweb", "\n".join(f"第{i}条路走到桥边，水已经退了。" for i in range(9)), set()),
        ("fineweb", "\n".join(["首页", "联系我们", "新闻。", "关于。", CHINESE]), {"too_many_short_lines"}),
        ("fineweb", "", {"too_few_terminal_lines"}),
    ],
)
def test_reasons_for_web_text_are_given_for_what_they_name(web: dict[str, ResolvedRules], name: str, text: str, want: set[str]) -> None:
    assert decide(web[name], text, "web") == want


def test_code_is_spared_what_its_nature_is(web: dict[str, ResolvedRules]) -> None:
    code = "def f(x):\n    return {x: 1}\n\n\n" * 9
    assert {name: decide(rules, code, "code") for name, rules in web.items()} == {"c4": set(), "fineweb": set()}
    assert decide(web["c4"], code, "web") == {"curly_bracket"}
    assert decide(web["fineweb"], code, "web") >= {"too_few_terminal_lines", "too_many_short_lines", "duplicate_line_chars"}


@pytest.mark.parametrize("name", SETS)
def test_every_signal_that_a_set_reads_is_there(name: str) -> None:
    rules = load_rule_set(name).resolve()
    for predicate in rules.predicates().values():
        mentioned = set(re.findall(r"\b(text_signals|language)\.(\w+)", predicate))
        assert mentioned
        assert set(referenced_signals(predicate, KNOWN)) == mentioned
        assert {operator for operator, _ in mentioned} <= set(load_rule_set(name).reads)


@pytest.mark.parametrize(("text", "lang"), [(PROSE, "en"), (CHINESE, "zh")])
def test_prose_of_both_languages_passes(quality: ResolvedRules, repetition: ResolvedRules, text: str, lang: str) -> None:
    assert decide(quality, text, lang=lang) == set()
    assert decide(repetition, text, lang=lang) == set()


@pytest.mark.parametrize(
    ("reason", "text", "kind", "lang"),
    [
        ("too_few_words", "A short note that I have to send to the office.", "prose", "en"),
        ("too_few_words", "", "prose", "en"),
        ("too_few_characters", CHINESE[:70], "prose", "zh"),
        ("too_many_words", PROSE * 2000, "prose", "en"),
        ("too_many_characters", CHINESE * 1500, "prose", "zh"),
        ("words_too_short", "I am at it to be or a b c d e f g " * 9, "prose", "en"),
        ("words_too_long", "incomprehensibilities and counterrevolutionaries " * 40, "prose", "en"),
        ("too_many_hashes", PROSE + " # tag" * 30, "prose", "en"),
        ("too_many_hashes", CHINESE + "#" * 30, "prose", "zh"),
        ("too_many_ellipses", PROSE + " so ..." * 30, "prose", "en"),
        ("too_many_bullet_lines", "\n".join(f"- {line}" for line in PROSE.split(".") if line), "prose", "en"),
        ("too_many_ellipsis_lines", PROSE + "\nand then...\nread more…", "prose", "en"),
        ("too_few_alphabetic_words", PROSE + " 12 34 56 78" * 20, "prose", "en"),
        ("too_few_stop_words", "cheap flights hotel booking deals " * 20, "prose", "en"),
        ("too_few_stop_characters", "特价机票酒店预订优惠打折" * 10, "prose", "zh"),
    ],
)
def test_each_reason_is_given_for_what_it_names(quality: ResolvedRules, reason: str, text: str, kind: str, lang: str) -> None:
    assert reason in decide(quality, text, kind, lang)


@pytest.mark.parametrize(
    ("reason", "text", "lang"),
    [
        ("duplicate_lines", "one line here\n" * 4 + PROSE, "en"),
        ("duplicate_line_chars", f"{PROSE}\n{PROSE}\nx\ny\nz", "en"),
        ("duplicate_paragraphs", "one\n\n" * 4 + PROSE, "en"),
        ("duplicate_paragraph_chars", f"{PROSE}\n\n{PROSE}\n\na\n\nb\n\nc", "en"),
        ("frequent_2_gram", "buy now! " * 20 + PROSE, "en"),
        ("frequent_3_gram", "call us today " * 20 + PROSE, "en"),
        ("frequent_4_gram", "call us today again " * 20 + PROSE, "en"),
        ("frequent_2_gram", "特价房" * 60 + CHINESE, "zh"),
        *((f"duplicate_{n}_grams", f"{PROSE} {PROSE}", "en") for n in range(5, 11)),
        ("duplicate_5_grams", CHINESE + CHINESE, "zh"),
        ("duplicate_6_grams", CHINESE + CHINESE, "zh"),
    ],
)
def test_each_repetition_is_named(repetition: ResolvedRules, reason: str, text: str, lang: str) -> None:
    assert reason in decide(repetition, text, lang=lang)


def test_every_reason_has_its_example(quality: ResolvedRules, repetition: ResolvedRules) -> None:
    marks = [*test_each_reason_is_given_for_what_it_names.pytestmark, *test_each_repetition_is_named.pytestmark]
    shown = {case[0] for mark in marks for case in mark.args[1]}
    assert shown == {*quality.rules, *repetition.rules}


def test_code_is_spared_the_rules_of_prose_and_short_kinds_the_lower_limit(quality: ResolvedRules) -> None:
    code = "# a\n# b\nx = [1]\n" * 30
    assert decide(quality, code, "prose") >= {"too_many_hashes", "too_few_alphabetic_words"}
    assert decide(quality, code, "code") == set()
    assert decide(quality, "See you there.", "dialogue") == set()


def test_stop_words_are_asked_of_their_languages_alone(quality: ResolvedRules) -> None:
    german = "Der Fluss fliesst seit jeher durch unsere kleine Stadt, niemand kennt den Namen seiner Quelle. " * 6
    assert "too_few_stop_words" not in decide(quality, german, lang="de")
    assert "too_few_stop_words" in decide(quality, german, lang="en")


def test_identity_follows_the_thresholds() -> None:
    rules = load_rule_set("gopher_quality")
    assert rules.resolve({}).op_id == rules.resolve({"min_words": 50}).op_id
    assert rules.resolve({"min_words": 51}).op_id != rules.resolve({}).op_id
    assert "text_signals.n_words < 51" in rules.resolve({"min_words": 51}).predicates()["too_few_words"]


@pytest.mark.parametrize(
    ("params", "message"),
    [
        ({"min_word": 3}, "did you mean 'min_words'"),
        ({"min_words": -1}, "greater than or equal to 0"),
        ({"min_words": "50; DROP TABLE d"}, "valid integer"),
        ({"min_words": 2.5}, "valid integer"),
        ({"min_words": True}, "valid integer"),
        ({"max_hash_ratio": math.inf}, "finite"),
        ({"max_hash_ratio": math.nan}, "finite|greater"),
        ({"code_kinds": "code"}, "valid list"),
        ({"code_kinds": [1]}, "valid string"),
    ],
)
def test_wrong_params_are_refused(params: dict[str, Any], message: str) -> None:
    with pytest.raises(ParamsError, match=message):
        load_rule_set("gopher_quality").resolve(params, where="select.rules[0].params")


def test_an_unknown_set_is_named_with_the_nearest() -> None:
    with pytest.raises(PluginError, match="did you mean 'gopher_quality'"):
        load_rule_set("gopher_qualty")


def test_every_fault_of_a_file_is_named() -> None:
    text = """
    name: other
    version: "1"
    title: t
    source: s
    reads: []
    params:
      Bad-Name: {default: 1, description: d}
      high: {default: 2.0, le: 1, description: d}
    rules:
      wrong: {where: "a < {hight}", source: s}
    """
    with pytest.raises(PluginError) as caught:
        parse_rule_set(text, "mine", origin="mine.yaml")
    for part in ("called 'other'", "did you mean 'high'", "'Bad-Name' is no name", "'high' is used by no rule", "'high' is outside"):
        assert part in str(caught.value)


VARYING = """
name: mine
version: "1"
title: t
source: s
reads: [text_signals, language]
params:
  most: {default: 0.3, le: 1, description: d, by_language: {de: 0.2, fr: 1}}
rules:
  high: {where: "text_signals.digit_share > {most}", source: s}
"""


def varying(params: dict[str, Any] | None = None) -> ResolvedRules:
    return parse_rule_set(VARYING, "mine", origin="mine.yaml").resolve(params)


@pytest.mark.parametrize(
    ("given", "want"),
    [
        (None, {"*": 0.3, "de": 0.2, "fr": 1.0}),
        ({"most": {}}, {"*": 0.3, "de": 0.2, "fr": 1.0}),
        ({"most": {"de": 0.5}}, {"*": 0.3, "de": 0.5, "fr": 1.0}),
        ({"most": {"*": 0.1, "zh-Hant": 0}}, {"*": 0.1, "de": 0.2, "fr": 1.0, "zh-Hant": 0.0}),
        ({"most": 0.7}, 0.7),
        ({"most": 1}, 1.0),
    ],
)
def test_a_number_by_language_is_given_for_all_or_for_some(given: dict[str, Any] | None, want: object) -> None:
    assert varying(given).params == {"most": want}


@pytest.mark.parametrize("given", [{}, {"most": {"de": 0.5}}, {"most": {"*": 0.1}}, {"most": 0.7}, {"most": 0}])
@pytest.mark.parametrize("lang", ["de", "fr", "en", "it's", None])
@pytest.mark.parametrize("share", [0.05, 0.25, 0.4, 0.6, 0.9])
def test_a_document_is_held_against_the_number_of_its_language(given: dict[str, Any], lang: str | None, share: float) -> None:
    """Against a plain look-up; a document whose language is not known is of no language with a number of its own."""
    numbers = {"*": 0.3, "de": 0.2, "fr": 1.0}
    asked = given.get("most", {})
    limit = {**numbers, **asked}.get(lang or "*", asked.get("*", 0.3)) if isinstance(asked, dict) else asked
    predicate = varying(given).predicates()["high"]
    connection = duckdb.connect()
    connection.execute(
        "CREATE TABLE d AS SELECT {'digit_share': ?::DOUBLE} AS text_signals, {'lang': ?::VARCHAR} AS language", [share, lang]
    )
    assert connection.execute(f"SELECT {predicate} FROM d").fetchone() == (share > limit,)


def test_a_language_cannot_end_its_quotes() -> None:
    literal = sql_literal({"*": 1.5, "it's": 2.5})
    assert duckdb.sql(f"SELECT {literal} FROM (SELECT {{'lang': 'it''s'}} AS language)").fetchall() == [(2.5,)]


def test_identity_follows_the_numbers_by_language_and_not_how_they_are_given() -> None:
    same = [varying(given).op_id for given in (None, {}, {"most": {}}, {"most": {"de": 0.2}}, {"most": {"fr": 1, "*": 0.3}})]
    others = [varying({"most": given}).op_id for given in (0.3, 0.2, {"de": 0.21}, {"*": 0.31}, {"sv": 0.3})]
    assert len(set(same)) == 1
    assert len({*same, *others}) == 6


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ("much", r"most\.\*: Input should be a valid number \(got 'much'\)"),
        (2, r"most\.\*: Input should be less than or equal to 1 \(got 2\)"),
        ({"de": 2, "fr": "x"}, r"most\.de: Input should be less than or equal to 1 \(got 2\); most\.fr: Input should be a valid number"),
        ({"de": math.nan}, "finite number"),
        ({"de": True}, "valid number"),
        ({"german": 0.1}, "should match pattern"),
        ({False: 0.1}, "valid string"),  # no: 0.1, which YAML does not read as Norwegian
        (None, r"most\.\*: Input should be a valid number \(got None\)"),
    ],
)
def test_wrong_numbers_by_language_are_refused(given: object, message: str) -> None:
    with pytest.raises(ParamsError, match=message):
        varying({"most": given})


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (("reads: [text_signals, language]", "reads: [text_signals]"), "'most' has values by language, and 'language' is not among"),
        (("default: 0.3, le: 1", "default: high"), "values by language of 'most' are not of one kind of number"),
        (("default: 0.3, le: 1", "default: true"), "values by language of 'most' are not of one kind of number"),
        (("default: 0.3, le: 1", "default: 3"), "values by language of 'most' are not of one kind of number"),
        (("de: 0.2", "de: 1.2"), "'most' is outside its own range"),
        (("de: 0.2", "deutsch: 0.2"), "should match pattern"),
        (("de: 0.2", "no: 0.2"), "valid string"),
    ],
)
def test_faults_of_numbers_by_language_are_named(change: tuple[str, str], message: str) -> None:
    with pytest.raises(PluginError, match=message):
        parse_rule_set(VARYING.replace(*change), "mine", origin="mine.yaml")


def test_numbers_by_language_are_named_where_people_read_them() -> None:
    rules = parse_rule_set(VARYING, "mine", origin="mine.yaml")
    assert [rule.predicate for rule in rules.described().values()] == ["text_signals.digit_share > most[language.lang]"]
    plain = load_rule_set("gopher_quality")
    assert plain.described() == plain.resolve().rules


def test_fineweb2_has_the_published_numbers() -> None:
    """Configs of five languages at the commit that the file names, and the pipeline's own; datatrove's names in the comments."""
    params = load_rule_set("fineweb2").resolve().params
    names = [
        "max_duplicate_line_share",  # dup_line_frac
        *(f"max_top_{n}_gram_share" for n in (2, 3, 4)),
        *(f"max_duplicate_{n}_gram_share" for n in range(5, 11)),
        "min_terminal_line_share",  # line_punct_thr
        "max_newline_ratio",
        "min_mean_word_length",
        "max_mean_word_length",
        "min_alphabetic_word_share",  # max_non_alpha_words_ratio
    ]
    want = {
        "*": [0.3, 0.2, 0.18, 0.16, 0.15, 0.14, 0.13, 0.12, 0.11, 0.1, 0.12, 0.3, 3, 10, 0.8],
        "de": [0.263, 0.169, 0.153, 0.137, 0.141, 0.134, 0.126, 0.117, 0.108, 0.098, 0.0, 0.152, 0, 15, 0.774],
        "zh": [0.287, 0.256, 0.201, 0.171, 0.198, 0.182, 0.167, 0.154, 0.14, 0.127, 0.106, 0.178, 1, 5, 0.735],
        "da": [0.305, 0.367, 0.297, 0.232, 0.169, 0.158, 0.147, 0.134, 0.123, 0.112, 0.1, 0.182, 3, 11, 0.798],
        "hi": [0.206, 0.208, 0.198, 0.161, 0.135, 0.125, 0.116, 0.108, 0.099, 0.09, 0.091, 0.316, 2, 21, 0.837],
        "ar": [0.304, 0.197, 0.172, 0.146, 0.165, 0.153, 0.142, 0.131, 0.12, 0.109, 0.143, 0.189, 2, 9, 0.787],
    }
    found = {lang: [numbers[lang] for name in names if isinstance(numbers := params[name], dict)] for lang in want}
    assert found == want
    assert [params[name] for name in ("max_duplicate_line_char_share", "min_stop_words", "min_words", "max_words")] == [0.1, 2, 50, 100_000]


def test_fineweb2_asks_for_stop_words_where_there_is_a_list() -> None:
    languages = load_rule_set("fineweb2").resolve().params["stop_word_languages"]
    assert sorted(published_stop_words("fineweb2")) == languages
    for name in ("max_duplicate_line_share", "max_mean_word_length"):
        numbers = load_rule_set("fineweb2").spec.params[name].by_language
        assert sorted([*numbers, "en"]) == languages


@pytest.mark.parametrize("text", ["", "[1, 2]", "a: [", "name: x\nrules: {a: {wher: b}}"])
def test_what_is_no_rule_set_is_refused(text: str) -> None:
    with pytest.raises(PluginError):
        parse_rule_set(text, "mine", origin="mine.yaml")


@given(
    st.one_of(
        st.integers(-(2**62), 2**62),
        st.floats(allow_nan=False, allow_infinity=False),
        st.booleans(),
        st.text(st.characters(codec="utf-8", exclude_characters="\x00")),
    )
)
def test_values_mean_the_same_in_sql(value: bool | int | float | str) -> None:
    got = duckdb.sql(f"SELECT {sql_literal(value)}").fetchall()[0][0]
    assert float(got) == value if isinstance(value, float) else got == value


def test_lists_are_safe_in_sql() -> None:
    def within(value: str, items: list[str]) -> bool:
        return bool(duckdb.sql(f"SELECT {sql_literal(value)} NOT IN {sql_literal(items)}").fetchall()[0][0])

    assert [within("x", []), within("x", ["x"]), within("it's", ["it's", "y"])] == [True, False, False]


@pytest.mark.parametrize(
    ("predicate", "want"),
    [
        ("text_signals.n_words < 5 AND language.lang = 'text_signals.n_chars'", [("text_signals", "n_words"), ("language", "lang")]),
        ('"TEXT_SIGNALS"."N_Words" > 1 OR text_signals__n_words > 2', [("text_signals", "n_words")]),
        ("other.n_words > 1 AND text_signals.unknown = 2 AND kind = 'it''s language.lang'", []),
    ],
)
def test_referenced_signals_are_those_a_predicate_looks_at(predicate: str, want: list[tuple[str, str]]) -> None:
    assert referenced_signals(predicate, KNOWN) == want
