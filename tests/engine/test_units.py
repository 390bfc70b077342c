"""Groups of work that keep their borders when something is put in the middle."""

from hypothesis import given
from hypothesis import strategies as st

from dataplane.engine.units import MAX_GROUP, content_groups

SIZE = 100
ITEMS = st.lists(st.tuples(st.uuids().map(str), st.integers(1, 60)), max_size=80, unique_by=lambda item: item[0])


def groups(items: list[tuple[str, int]]) -> list[list[tuple[str, int]]]:
    return list(content_groups(items, SIZE, weight=lambda item: item[1], name=lambda item: item[0]))


@given(ITEMS)
def test_groups_are_the_items_in_order_and_none_is_much_too_heavy(items: list[tuple[str, int]]) -> None:
    found = groups(items)
    assert [item for group in found for item in group] == items
    assert [group for group in found if not group or sum(weight for _, weight in group[:-1]) >= MAX_GROUP * SIZE] == []


@given(ITEMS, st.tuples(st.uuids().map(str), st.integers(1, 60)), st.data())
def test_an_insertion_changes_the_group_it_falls_in_and_no_other(
    items: list[tuple[str, int]], new: tuple[str, int], data: st.DataObject
) -> None:
    place = data.draw(st.integers(0, len(items)))
    before, after = groups(items), groups([*items[:place], new, *items[place:]])
    if all(sum(weight for _, weight in group) < MAX_GROUP * SIZE for group in [*before, *after]):
        assert len([group for group in before if group not in after]) <= 1
        assert len([group for group in after if group not in before]) <= 2


def test_groups_are_as_heavy_in_the_mean_as_asked() -> None:
    items = [(f"file-{i}", 10) for i in range(20_000)]
    found = groups(items)
    assert abs(200_000 / len(found) - SIZE) < 10
