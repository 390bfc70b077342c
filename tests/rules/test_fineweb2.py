"""The rule set fineweb2 decides as datatrove's filters do with the arguments of FineWeb2's pipeline, in several languages."""

import random
from collections.abc import Iterator, Mapping

import pytest

from benchmarks.quality.fineweb2 import LABELS, NAME, WAYS, arguments
from benchmarks.quality.parity import decisions
from dataplane.annotators.text_signals import TextSignals, published_stop_words
from dataplane.ruleset import load_rule_set

SENTENCES = {
    "da": (
        "Floden gennem byen er ældre end husene.", "Om foråret stiger vandet til det andet trin på trappen.",
        "Ingen ved, hvem der byggede broen.",
        "Kl. 10.30 den 3. maj kom der 1.200 mennesker, bl.a. fra Århus.",
    ),
    "de": (
        "Der Fluss, der durch die Stadt geht, ist älter als ihre Häuser.", "Im Frühling steigt das Wasser bis zur zweiten Stufe.",
        "Niemand weiß, wer die Brücke gebaut hat, z.B. am 3. Mai 1927.", "Die Donaudampfschifffahrtsgesellschaft hat geschlossen!",
    ),
    "fr": (
        "L'été, l'eau de la rivière monte jusqu'à la deuxième marche de l'escalier.", "Personne n'a dit qu'il y avait un pont aujourd'hui.",
        "C'est-à-dire que les enfants vont à l'île et en reviennent.", "Le 3 mai, à 10 h 30, on a vu 1 200 personnes.",
    ),
    "ru": (
        "Река, которая течёт через город, старше его домов.", "Весной вода поднимается до второй ступени лестницы.",
        "Никто не знает, кто построил мост в 1927 г. на этом месте.", "Дети ходят на остров и обратно, и никто из них не тонул.",
    ),
}  # fmt: skip


def documents(lang: str, n: int) -> Iterator[str]:
    """Texts of real sentences that repeat themselves, break off, count, and shout, each to a degree of its own."""
    rng = random.Random(lang)
    sentences = SENTENCES[lang]
    words = [word for sentence in sentences for word in sentence.split()]
    for _ in range(n):
        noise = rng.choice([0.0, 0.0, 0.1, 0.3, 0.6])
        lines = []
        for _ in range(rng.choice([2, 8, 20])):
            line = " ".join(rng.sample(words, rng.randint(3, len(words) // 2))) if rng.random() > noise else rng.choice(sentences)
            line += rng.choice([".", ".", "", "...", "…"]) if rng.random() < 0.3 else ""
            line = rng.choice(["- ", "• ", "# ", "12 34 ! ", "#" * 9 + " "]) + line if rng.random() < noise / 2 else line
            lines.append(line)
        yield rng.choice(["\n", "\n", " ", "\n\n\n"]).join(lines)
    yield from ("x y z " * 30, "1 2 3 4 5 " * 20, words[0], f"{words[0]} {words[1]}\n" * 40, "Supercalifragilistic " * 60, "\n".join(words))


def theirs(lang: str, texts: list[str]) -> list[dict[str, bool]]:
    """What each of datatrove's filters drops."""
    pytest.importorskip("datatrove", reason="datatrove is not installed: pip install 'terraplane[datatrove]'")
    from benchmarks.quality.parity_peer import fineweb2, verdict

    filters = fineweb2(arguments(lang))
    return [{name: verdict(filter_, text) != "" for name, filter_ in filters.items()} for text in texts]


def by_filter(predicates: Mapping[str, str]) -> dict[str, dict[str, str]]:
    """The rules under the names of the filters that they come from."""
    fineweb = {"too_few_terminal_lines", "duplicate_line_chars", "too_many_newlines"}
    names = {
        reason: "fineweb" if reason in fineweb else "repetition" if reason.startswith(("duplicate", "frequent")) else "quality"
        for reason in predicates
    }
    return {name: {reason: rule for reason, rule in predicates.items() if names[reason] == name} for name in set(names.values())}


@pytest.mark.slow  # it loads spaCy's tokenizers, one for each language
@pytest.mark.parametrize("lang", sorted(SENTENCES))
def test_decisions_are_those_of_datatrove_filter_by_filter(lang: str) -> None:
    texts = list(documents(lang, 300))
    signals = TextSignals({"stop_words": NAME, "tokenizer_language": lang, **WAYS["exact"][0]})
    rules = load_rule_set(NAME).resolve({"count_single_grams": True, **WAYS["exact"][1]})
    found = decisions(texts, lang, signals, by_filter(rules.predicates()))
    want = theirs(lang, texts)
    assert [{name: reasons != "" for name, reasons in row.items()} for row in found] == want
    for name in found[0]:
        dropped = sum(row[name] for row in want)
        assert 0.02 * len(texts) < dropped < 0.98 * len(texts), (name, dropped)
    reached = {reason for row in found for reasons in row.values() for reason in reasons.split(",")}
    assert len(reached) >= 15


def test_the_arguments_of_datatrove_are_those_of_a_config() -> None:
    """configs/rus_Cyrl.yml at the commit that the rule set names."""
    assert arguments("ru") == {
        "language": "rus_Cyrl",
        "repetition": {
            "dup_line_frac": 0.322,
            "top_n_grams": [[2, 0.184], [3, 0.164], [4, 0.146]],
            "dup_n_grams": [[5, 0.168], [6, 0.156], [7, 0.145], [8, 0.133], [9, 0.121], [10, 0.109]],
        },
        "fineweb": {"line_punct_thr": 0.231, "new_line_ratio": 0.139},
        "quality": {
            "min_avg_word_length": 3.0,
            "max_avg_word_length": 11.0,
            "max_non_alpha_words_ratio": 0.713,
            "stop_words": "в и на с года по году из был к не от что за для его как а он также до после".split(),
        },
    }


def test_every_language_has_its_label_and_stop_words() -> None:
    assert sorted([*LABELS, "en"]) == sorted(published_stop_words(NAME))
