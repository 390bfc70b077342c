"""The mixture: shares as asked, epochs capped, an order that has the shares everywhere."""

import hashlib
import io
import json
from collections import Counter

import numpy as np
import pyarrow as pa
import pytest
from click.testing import CliRunner
from hypothesis import given, settings
from hypothesis import strategies as st
from rich.console import Console

from dataplane import schema
from dataplane.cli import main
from dataplane.corpus.groups import columns_of, group_names
from dataplane.corpus.mixture import MixParams, Mixture, in_phases, mix, plan, sizes
from dataplane.corpus.mixture_plan import Size
from dataplane.corpus.shares import unimax
from dataplane.errors import DataError, ParamsError


def documents(groups: dict[str, list[int]]) -> pa.Table:
    rows = [(kind, size) for kind, group in groups.items() for size in group]
    return pa.table({
        "doc_id": [hashlib.md5(str(i).encode()).hexdigest() for i in range(len(rows))],
        "source": [f"{kind}_{i % 2}" for i, (kind, _) in enumerate(rows)],
        "kind": [kind for kind, _ in rows],
        "n_bytes": pa.array([size for _, size in rows], pa.int64()),
    })  # fmt: skip


def corpus(seed: int = 0, n: int = 3000) -> pa.Table:
    rng = np.random.default_rng(seed)
    return documents({kind: rng.lognormal(6, 1.3, n // k).astype(int).tolist() for k, kind in enumerate(("books", "code", "web"), 1)})


def params(**values: object) -> MixParams:
    return MixParams.parse(values, where="mix")


def bytes_by_kind(mixture: Mixture, table: pa.Table) -> Counter[str]:
    size = dict(zip(table["doc_id"].to_pylist(), table["n_bytes"].to_pylist(), strict=True))
    found: Counter[str] = Counter()
    for row in mixture.table.to_pylist():
        found[row["kind"]] += size[row["doc_id"]]
    return found


@pytest.mark.parametrize("total", [None, 1_000_000, 2_345_678])
def test_achieved_shares_are_within_half_a_percent_of_the_asked(total: int | None) -> None:
    table = corpus()
    asked = {"books": 0.2, "code": 0.5, "web": 0.3}
    mixture = mix(table, params(targets=asked, total=total))
    found = bytes_by_kind(mixture, table)
    for kind, share in asked.items():
        assert abs(found[kind] / found.total() - share) < 0.005
        assert mixture.plan.to_json()["groups"][kind]["taken"] == found[kind]


@given(
    st.dictionaries(st.sampled_from("abcd"), st.lists(st.integers(0, 5000), min_size=1, max_size=40), min_size=1),
    st.integers(1, 100_000),
    st.floats(0.1, 5),
)
@settings(deadline=None)
def test_every_group_is_within_one_document_of_its_plan_and_no_document_comes_twice_in_an_epoch(
    groups: dict[str, list[int]], total: int, max_epochs: float
) -> None:
    table = documents(groups)
    mixture = mix(table, params(total=total, max_epochs=max_epochs))
    found = bytes_by_kind(mixture, table)
    for group in plan(sizes(table, params(total=total, max_epochs=max_epochs)), params(total=total, max_epochs=max_epochs)).groups:
        assert abs(found[group.name] - group.taken) <= max(groups[group.name]) + group.wanted * 1e-3
    keys = list(zip(mixture.table["doc_id"].to_pylist(), mixture.table["epoch"].to_pylist(), strict=True))
    assert len(keys) == len(set(keys))
    assert mixture.table["position"].to_pylist() == list(range(len(keys)))
    assert mixture.table.schema.equals(schema.MIXTURE)


def test_without_targets_every_document_comes_once() -> None:
    table = corpus()
    mixture = mix(table, params())
    assert sorted(mixture.table["doc_id"].to_pylist()) == sorted(table["doc_id"].to_pylist())
    assert set(mixture.table["epoch"].to_pylist()) == {0}
    assert set(mixture.table["weight"].to_pylist()) == {1.0}


def test_epochs_are_whole_passes_and_then_part_of_one() -> None:
    table = documents({"a": [100] * 50, "b": [100] * 1000})
    mixture = mix(table, params(targets={"a": 1, "b": 5}, total=75_000))  # a: 12,500 bytes are 2.5 epochs
    rows = [row for row in mixture.table.to_pylist() if row["kind"] == "a"]
    assert Counter(row["epoch"] for row in rows) == {0: 50, 1: 50, 2: 25}
    assert {row["weight"] for row in rows} == {2.5}


def test_a_group_runs_short_at_max_epochs_and_the_plan_says_so() -> None:
    available = {"books": Size(10, 1000), "web": Size(100, 100_000)}
    planned = plan(available, params(targets={"books": 0.5, "web": 0.5}, total=20_000, max_epochs=4))
    assert [(g.name, g.wanted, g.epochs, g.taken, g.short) for g in planned.groups] == [
        ("books", 10_000.0, 4.0, 4000.0, True),
        ("web", 10_000.0, 0.1, 10_000.0, False),
    ]
    assert json.loads(json.dumps(planned.to_json()))["groups"]["books"]["achieved"] == pytest.approx(4 / 14)


def test_without_a_total_the_mixture_is_the_largest_in_which_nothing_runs_short() -> None:
    available = {"books": Size(10, 1000), "web": Size(100, 100_000)}
    planned = plan(available, params(targets={"books": 0.5, "web": 0.5}, max_epochs=4))
    assert [(g.taken, g.short) for g in planned.groups] == [(4000.0, False), (4000.0, False)]


def test_temperature_flattens_shares() -> None:
    available = {"a": Size(1, 100), "b": Size(1, 10_000)}
    shares = [[round(g.asked, 4) for g in plan(available, params(temperature=t)).groups] for t in (1, 2, 1e9)]
    assert shares == [[0.0099, 0.9901], [0.0909, 0.9091], [0.5, 0.5]]


def test_groups_not_named_share_the_rest_or_are_refused() -> None:
    available = {"a": Size(1, 100), "b": Size(1, 300), "c": Size(1, 100)}
    assert [g.asked for g in plan(available, params(targets={"a": 6}, rest=4)).groups] == pytest.approx([0.6, 0.3, 0.1])
    assert [g.asked for g in plan(available, params(targets={"a": 6}, rest=0)).groups] == [1.0, 0.0, 0.0]
    with pytest.raises(ParamsError, match=r"no target for kind 'b', 'c'"):
        plan(available, params(targets={"a": 6}))


def test_a_misspelt_target_is_refused_with_a_hint() -> None:
    with pytest.raises(ParamsError, match="did you mean 'books'"):
        plan({"books": Size(1, 1)}, params(targets={"boks": 1}))


@pytest.mark.parametrize(
    "bad",
    [
        {"targets": {"a": -1}},
        {"targets": {"a": 0}},
        {"targets": {"a": float("nan")}},
        {"by": ""},
        {"unit": "tokens"},
        {"replay": {"a": 1}},
        {"replay": {"a": 0.1}, "targets": {"a": 1}},
        {"targets": {"a": 1}, "phases": [{"name": "x", "share": 1}]},
    ],
)
def test_params_out_of_range_are_refused(bad: dict[str, object]) -> None:
    with pytest.raises(ParamsError):
        params(**bad)


def test_nothing_to_mix_is_an_error() -> None:
    with pytest.raises(DataError, match="no document is left"):
        mix(documents({"a": [1]}).slice(0, 0), params())


def test_the_order_of_the_documents_does_not_matter_and_the_seed_does() -> None:
    table = corpus(n=300)
    shuffled = table.take(pa.array(np.random.default_rng(3).permutation(table.num_rows)))
    asked = params(targets={"books": 1, "code": 1, "web": 1}, seed=5)
    assert mix(table, asked).table.equals(mix(shuffled, asked).table)
    other = mix(table, params(targets={"books": 1, "code": 1, "web": 1}, seed=6))
    assert not mix(table, asked).table.equals(other.table)


def test_every_stretch_of_training_has_the_shares_of_the_whole_and_repeats_are_an_epoch_apart() -> None:
    table = documents({"a": [100] * 500, "b": [100] * 4000})
    rows = mix(table, params(targets={"a": 0.5, "b": 0.5}, max_epochs=8, total=400_000)).table.to_pylist()
    halves = [sum(row["kind"] == "a" for row in part) / len(part) for part in (rows[: len(rows) // 2], rows[len(rows) // 2 :])]
    assert halves == pytest.approx([0.5, 0.5], abs=0.02)
    epochs_of_a = [row["epoch"] for row in rows if row["kind"] == "a"]
    assert epochs_of_a == sorted(epochs_of_a)


def test_the_plan_prints_as_a_table() -> None:
    console = Console(width=120, record=True, file=io.StringIO())
    console.print(plan({"[books]": Size(10, 1000)}, params(total=10_000)).to_table())
    shown = console.export_text()
    assert "[books]" in shown
    assert "runs short" in shown


def unimax_by_filling(limits: dict[str, float], budget: float) -> dict[str, float]:
    """Water: the level at which all groups, each up to its limit, hold the budget."""
    low, high = 0.0, max(limits.values(), default=0.0)
    for _ in range(200):
        level = (low + high) / 2
        low, high = (level, high) if sum(min(level, limit) for limit in limits.values()) < budget else (low, level)
    return {name: min(high, limit) for name, limit in limits.items()}


@given(st.dictionaries(st.text(max_size=3), st.floats(1, 1e6), min_size=1, max_size=8), st.floats(0.05, 2))
def test_unimax_gives_all_the_same_up_to_their_limits(limits: dict[str, float], part: float) -> None:
    budget = part * sum(limits.values())
    assert unimax(limits, budget) == pytest.approx(unimax_by_filling(limits, budget), rel=1e-6)


def test_unimax_repeats_small_groups_as_often_as_they_may_and_evens_out_the_rest() -> None:
    available = {"big": Size(1, 10_000), "mid": Size(1, 3000), "tiny": Size(1, 100)}
    planned = plan(available, params(spread="unimax", max_epochs=4, total=6400))
    assert [group.taken for group in planned.groups] == pytest.approx([3000, 3000, 400])
    planned = plan(available, params(targets={"big": 1}, rest=1, spread="unimax", max_epochs=2, total=1000))
    assert [group.taken for group in planned.groups] == pytest.approx([500, 300, 200])


def test_a_group_may_have_a_cap_of_its_own() -> None:
    available = {"books": Size(10, 1000), "web": Size(10, 100_000)}
    planned = plan(available, params(targets={"books": 0.5, "web": 0.5}, total=20_000, max_epochs=4, max_epochs_of={"books": 1.5}))
    assert [(group.epochs, group.short) for group in planned.groups] == [(1.5, True), (0.1, False)]
    with pytest.raises(ParamsError, match=r"'boks' is no kind.*books"):
        plan(available, params(max_epochs_of={"boks": 1}))


def test_replay_takes_its_share_whatever_the_others_get() -> None:
    available = {"general": Size(1, 10**6), "law": Size(1, 3000), "medicine": Size(1, 1000)}
    assert [g.asked for g in plan(available, params(replay={"general": 0.25})).groups] == pytest.approx([0.25, 0.75 * 0.75, 0.75 * 0.25])
    of = params(replay={"general": 0.2}, targets={"law": 3}, rest=1)
    assert [g.asked for g in plan(available, of).groups] == pytest.approx([0.2, 0.6, 0.2])
    only = {"general": Size(1, 10)}
    assert [g.asked for g in plan(only, params(replay={"general": 0.3})).groups] == [1.0]


def test_groups_are_whatever_sql_tells_apart() -> None:
    table = corpus().append_column("language__lang", pa.array(["en", "zh", None] * 1834)[: corpus().num_rows])
    by = "CASE WHEN kind = 'web' THEN 'web-' || language.lang ELSE kind END"
    assert columns_of(by, table.schema) == ["kind", "language__lang"]
    names = group_names(table, by).to_pylist()
    rows = zip(table["kind"].to_pylist(), table["language__lang"].to_pylist(), strict=True)
    assert names == [kind if kind != "web" else (f"web-{lang}" if lang else "") for kind, lang in rows]
    mixture = mix(table, params(by=by, targets={"web-en": 1, "books": 1}, rest=0, total=400_000))
    assert {group.name: round(mixture.plan.achieved(group), 2) for group in mixture.plan.groups} == {
        "": 0.0, "books": 0.5, "code": 0.0, "web-en": 0.5, "web-zh": 0.0,
    }  # fmt: skip
    for wrong in ("no_such_column", "kind ||", "count(*)"):
        with pytest.raises(ParamsError):
            mix(table, params(by=wrong))


def test_tokens_are_counted_where_they_are_asked_for() -> None:
    table = corpus().append_column("n_tokens", pa.array(np.arange(corpus().num_rows), pa.int64()))
    mixture = mix(table, params(unit="tokens", tokenizer="t.json", targets={"books": 1, "code": 2, "web": 1}))
    tokens = dict(zip(table["doc_id"].to_pylist(), table["n_tokens"].to_pylist(), strict=True))
    found: Counter[str] = Counter()
    for row in mixture.table.to_pylist():
        found[row["kind"]] += tokens[row["doc_id"]]
    assert [found[kind] / found.total() for kind in ("books", "code", "web")] == pytest.approx([0.25, 0.5, 0.25], abs=0.005)
    assert mixture.plan.largest_gap < 0.005


PHASES = [
    {"name": "broad", "share": 6, "targets": {"web": 7, "code": 2}, "rest": 1},
    {"name": "code", "share": 3, "targets": {"code": 1}, "replay": {"web": 0.25, "books": 0}},
    {"name": "anneal", "share": 1, "targets": {"books": 1}, "rest": 0},
]


def test_each_phase_has_its_shares_in_its_stretch_of_training() -> None:
    table = corpus(n=9000)
    mixture = mix(table, params(phases=PHASES))
    size = dict(zip(table["doc_id"].to_pylist(), table["n_bytes"].to_pylist(), strict=True))
    rows = mixture.table.to_pylist()
    total, at = sum(size[row["doc_id"]] for row in rows), 0
    found = [Counter[str]() for _ in PHASES]
    for row in rows:
        middle = (at + size[row["doc_id"]] / 2) / total
        found[0 if middle < 0.6 else 1 if middle < 0.9 else 2][row["kind"]] += size[row["doc_id"]]
        at += size[row["doc_id"]]
    shares = [[counted[kind] / counted.total() for kind in ("books", "code", "web")] for counted in found]
    asked = [[0.1, 0.2, 0.7], [0, 0.75, 0.25], [1, 0, 0]]
    for got, want in zip(shares, asked, strict=True):
        assert got == pytest.approx(want, abs=0.01)
    assert mixture.plan.largest_gap < 0.005
    assert [phase.part for phase in mixture.plan.phases] == pytest.approx([0.6, 0.3, 0.1])
    assert sum(
        sum(phase["groups"][kind]["achieved"] for kind in ("books", "code", "web")) for phase in mixture.plan.to_json()["phases"]
    ) == pytest.approx(3)


def test_a_document_comes_again_in_a_phase_only_after_its_group_was_gone_through() -> None:
    table = documents({"a": [100] * 40, "b": [100] * 40})
    phases = [{"name": "one", "share": 1, "targets": {"a": 3, "b": 1}}, {"name": "two", "share": 1, "targets": {"a": 1, "b": 3}}]
    rows = [row for row in mix(table, params(phases=phases, total=16_000)).table.to_pylist() if row["kind"] == "a"]
    assert Counter(row["epoch"] for row in rows) == {0: 40, 1: 40}
    assert [row["epoch"] for row in rows] == [0] * 40 + [1] * 40


def test_without_phases_places_stay_as_they_are() -> None:
    places = np.array([0.5, 0.1, 0.9])
    assert in_phases(places, np.array([1, 2, 3]), []).tolist() == places.tolist()
    assert in_phases(places, np.array([0, 0, 0]), [1.0, 1.0]).astype(int).tolist() == [0, 0, 0]


def test_the_plan_is_shown_and_nothing_written(put, project) -> None:  # type: ignore[no-untyped-def]
    table = corpus(n=300)
    extra = {"url": None, "mime": None, "text_hash": "", "text": "x"}
    rows = [row | extra for row in table.to_pylist()]
    put("documents", pa.Table.from_pylist(rows, schema=schema.DOCUMENTS))
    put("decontaminated", table.select(["doc_id"]).cast(schema.IDS))
    put("cuts", schema.CUTS.empty_table())
    (project / "params.yaml").write_text("mix: {targets: {books: 1, code: 1, web: 1}, held_out: {share: 0.1}}\n")
    before = sorted(path for path in project.rglob("*") if path.is_file())
    told = CliRunner().invoke(main, ["plan-mixture", "--json"])
    assert (told.exit_code, sorted(path for path in project.rglob("*") if path.is_file())) == (0, before), told.output
    planned = json.loads(told.output)
    assert {name: round(group["asked"], 3) for name, group in planned["groups"].items()} == {"books": 0.333, "code": 0.333, "web": 0.333}
    shown = CliRunner().invoke(main, ["plan-mixture"]).output
    assert "mixture by kind, in bytes" in shown
