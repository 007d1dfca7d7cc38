"""The order of the catalogue: many scans, each reading a stretch of a list that grows at the top."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from hypothesis import given
from hypothesis import strategies as st

from hibor.items.catalogue import CatalogueEntry, ListOrder

BEGIN = datetime(2026, 11, 30, 1, 0, tzinfo=UTC)


@given(
    st.lists(st.tuples(st.lists(st.integers(0, 30), max_size=4), st.integers(1, 14)), min_size=1, max_size=8)
)
def test_keys_keep_the_lists_order_whatever_was_read_when(scans: list[tuple[list[int], int]]) -> None:
    """Reports come in anywhere (a list that is not only added to at its top), scans read from the top to
    any depth.
    """
    listing = [f"r{number}" for number in range(10)]
    keys: dict[str, str] = {}
    for number, (inserts, depth) in enumerate(scans):
        for place in inserts:
            listing.insert(min(place, len(listing)), f"n{number}-{len(listing)}")
        order = ListOrder(BEGIN + timedelta(minutes=number), "2026-11-30")
        for report in listing[:depth]:
            if report in keys:
                order.passed(keys[report])
            else:
                keys[report] = order.next_key("2026-11-30")
        found = sorted(keys, key=lambda report: keys[report], reverse=True)
        assert found == [report for report in listing if report in keys]


def test_a_later_day_is_newer_and_an_undated_report_has_the_day_of_the_one_above_it() -> None:
    order = ListOrder(BEGIN, "2026-11-30")
    undated_on_top, old, undated, older = (
        order.next_key(day) for day in (None, "2026-11-29", None, "2026-11-28")
    )
    assert undated_on_top[:10] == "2026-11-30" and undated[:10] == "2026-11-29"
    assert undated_on_top > old > undated > older


def test_zones_do_not_matter() -> None:
    first = ListOrder(BEGIN, "2026-11-30").next_key("2026-11-30")
    later = (BEGIN + timedelta(minutes=1)).astimezone()
    assert ListOrder(later, "2026-11-30").next_key("2026-11-30") > first


def test_what_a_row_did_not_show_is_filled_in_and_nothing_else() -> None:
    whole = CatalogueEntry(
        report_id="HB1", title="t", date="2026-11-30", stock_code="600519", page_count_hint=12
    )
    cut = CatalogueEntry(report_id="HB1", title="t", date="2026-11-29", rating="买入")
    filled = cut.filled_from(whole)
    assert (filled.date, filled.stock_code, filled.page_count_hint, filled.rating) == (
        "2026-11-29",
        "600519",
        12,
        "买入",
    )
