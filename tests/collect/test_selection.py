"""Selection (design 1): newest first, matching the filter, at most `count`; a library copy before a cached
file before a new download; likely duplicates are left out with a warning.
"""

from __future__ import annotations

from datetime import date, timedelta

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as some

from fsm import FinalFile
from hibor.collect.selection import (
    Choice,
    Holdings,
    choose,
    find_duplicate,
    likeness,
    matches,
    require_named,
)
from hibor.collect.stops import RunStop
from hibor.device.protocol import RemoteFile
from hibor.items.catalogue import CatalogueEntry
from hibor.task import Policy, QuotaTask, Select, Task

TODAY = date(2026, 11, 30)


def entry(number: int, **facts: object) -> CatalogueEntry:
    values: dict[str, object] = {
        "report_id": f"HB{number:04}",
        "title": f"行业周报{number}",
        "institution": "国信证券",
        "date": "2026-11-30",
    }
    return CatalogueEntry(**{**values, **facts})  # type: ignore[arg-type]


def copy_of(number: int) -> FinalFile:
    return FinalFile(f"reports/2026/11/{number}.pdf", 10, "0" * 64, 1)


def cached(number: int) -> RemoteFile:
    return RemoteFile(f"/sdcard/{number}.pdf", f"{number}.pdf", "file", 10, 1, number)


def holdings(copies: tuple[int, ...] = (), in_cache: tuple[int, ...] = ()) -> Holdings:
    return Holdings(
        copies={f"HB{number:04}": copy_of(number) for number in copies},
        cached={f"HB{number:04}": cached(number) for number in in_cache},
        likeness={},
    )


TASK = Task(library="library", account="team-a", count=10, quota=QuotaTask(new_max=6))


def ids(choices: list[Choice]) -> list[str]:
    return [choice.entry.report_id for choice in choices]


# -- sources ---------------------------------------------------------------------------------------------


def test_library_copy_before_cached_file_before_download() -> None:
    selected, _spare, _ = choose([entry(1), entry(2), entry(3)], TASK, TODAY, holdings((1, 2), (2, 3)))
    assert [choice.source for choice in selected] == ["PROJECT_REUSE", "PROJECT_REUSE", "CACHE_REUSE"]
    assert {choice.lane for choice in selected} == {"PURE_REUSE"}


def test_six_plus_four() -> None:
    entries = [entry(number) for number in range(1, 41)]
    selected, spare, _ = choose(entries, TASK, TODAY, holdings(in_cache=(2, 5, 7, 9)))
    assert ids(selected) == [f"HB{number:04}" for number in range(1, 11)]
    assert [choice.source for choice in selected].count("NEW_TRIGGER") == 6
    assert ids(spare)[:2] == ["HB0011", "HB0012"]


def test_new_max_leaves_room_for_older_reuse() -> None:
    """New downloads beyond `new_max` are spare; a reuse further down still fills the package."""
    task = attrs.evolve(TASK, quota=QuotaTask(new_max=1), count=2)
    selected, spare, _ = choose([entry(1), entry(2), entry(3)], task, TODAY, holdings(in_cache=(3,)))
    assert ids(selected) == ["HB0001", "HB0003"] and ids(spare) == ["HB0002"]


@pytest.mark.parametrize(
    ("reuse", "sources"),
    [
        ("allow", ["PROJECT_REUSE", "CACHE_REUSE", "NEW_TRIGGER"]),
        ("only", ["PROJECT_REUSE", "CACHE_REUSE"]),
        ("never", ["NEW_TRIGGER", "NEW_TRIGGER", "NEW_TRIGGER"]),
    ],
)
def test_reuse_policy(reuse: str, sources: list[str]) -> None:
    task = attrs.evolve(TASK, policy=Policy(reuse=reuse))  # type: ignore[arg-type]
    selected, _spare, _ = choose([entry(1), entry(2), entry(3)], task, TODAY, holdings((1,), (2,)))
    assert [choice.source for choice in selected] == sources


def test_only_a_report_that_is_not_here_is_downloaded_once_more() -> None:
    wanted = frozenset({"HB0001", "HB0002"})
    selected, _spare, _ = choose([entry(1), entry(2)], TASK, TODAY, holdings((1,), (2,)), wanted)
    assert [(one.source, one.retrigger) for one in selected] == [
        ("PROJECT_REUSE", False),
        ("NEW_TRIGGER", True),
    ]


@pytest.mark.parametrize(
    ("named", "why"), [("HB0003", "the task leaves it out"), ("HB0009", "not in the app's list")]
)
def test_what_a_person_names_is_never_left_out_in_silence(named: str, why: str) -> None:
    entries, had = [entry(1), entry(2), entry(3)], holdings((1,), ())
    selected, _spare, _ = choose(entries, attrs.evolve(TASK, count=2), TODAY, had, frozenset({named}))
    require_named({"HB0001", "HB0002"}, entries, selected, had)
    with pytest.raises(RunStop, match=f"{named}: .*{why}") as caught:
        require_named({named}, entries, selected, had)
    assert caught.value.task_invalid


# -- the filter ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("select", "facts", "wanted"),
    [
        (Select(), {}, True),
        (Select(keywords_any=("半导体",)), {"title": "半导体行业月报"}, True),
        (Select(keywords_any=("半导体",)), {"title": "银行业月报"}, False),
        (Select(keywords_any=("半导体",)), {"title": "月报", "industry": "半导体"}, True),
        (Select(keywords_any=("AI",)), {"title": "ＡＩ算力"}, True),
        (Select(keywords_any=("半导体",), keywords_not=("晨会",)), {"title": "半导体晨会纪要"}, False),
        (Select(institutions=("国信证券",)), {"institution": "国信证券"}, True),
        (Select(institutions=("国信证券",)), {"institution": "中信证券"}, False),
        (Select(institutions=("国信证券",)), {"institution": None}, False),
        (Select(report_ids=("HB0001",)), {}, True),
        (Select(report_ids=("HB0002",)), {}, False),
        (Select(pages_min=3), {"page_count_hint": 2}, False),
        (Select(pages_min=3), {"page_count_hint": 3}, True),
        (Select(pages_min=3), {"page_count_hint": None}, True),
        (Select(since_days=3), {"date": "2026-11-27"}, True),
        (Select(since_days=3), {"date": "2026-11-26"}, False),
        (Select(since_days=0), {"date": "2026-11-30"}, True),
        (Select(since_days=0), {"date": "2026-11-29"}, False),
        (Select(since_days=3), {"date": None}, True),
    ],
)
def test_filter(select: Select, facts: dict[str, object], wanted: bool) -> None:
    assert matches(entry(1, **facts), select, TODAY) is wanted


# -- likely duplicates -----------------------------------------------------------------------------------


def with_row(found: CatalogueEntry, row_date: str) -> Holdings:
    key = likeness(found.institution, found.stock_code, found.title)
    return attrs.evolve(holdings(), likeness={key: [(row_date, "reports/2026/11/other.pdf")]})


@pytest.mark.parametrize(("apart", "duplicate"), [(0, True), (7, True), (-7, True), (8, False), (-8, False)])
def test_likely_duplicate_within_a_week(apart: int, duplicate: bool) -> None:
    wanted = entry(1)
    held = with_row(wanted, (TODAY + timedelta(days=apart)).isoformat())
    selected, _spare, duplicates = choose([wanted], TASK, TODAY, held)
    assert (len(duplicates), len(selected)) == ((1, 0) if duplicate else (0, 1))


def test_issue_numbers_do_not_hide_a_duplicate_and_another_stock_is_another_report() -> None:
    wanted = entry(1, title="半导体周报第48期", stock_code="600519")
    held = with_row(entry(2, title="半导体周报第47期", stock_code="600519"), "2026-11-30")
    assert find_duplicate(wanted, held) is not None
    assert find_duplicate(attrs.evolve(wanted, stock_code="000001"), held) is None
    assert find_duplicate(attrs.evolve(wanted, institution="中信证券"), held) is None


def test_duplicates_are_no_reason_against_reuse_or_retrigger() -> None:
    wanted = entry(1)
    held = attrs.evolve(with_row(wanted, "2026-11-30"), cached={"HB0001": cached(1)})
    selected, _spare, duplicates = choose([wanted], TASK, TODAY, held)
    assert [choice.source for choice in selected] == ["CACHE_REUSE"] and duplicates == []
    selected, _spare, duplicates = choose([wanted], TASK, TODAY, held, frozenset({"HB0001"}))
    assert [choice.source for choice in selected] == ["NEW_TRIGGER"] and duplicates == []


# -- what holds for every list ---------------------------------------------------------------------------

NUMBERS = some.lists(some.integers(1, 60), unique=True, max_size=40)


@given(
    NUMBERS,
    some.frozensets(some.integers(1, 60)),
    some.frozensets(some.integers(1, 60)),
    some.integers(0, 12),
    some.integers(0, 12),
)
def test_order_limits_and_completeness(
    numbers: list[int], copies: frozenset[int], in_cache: frozenset[int], count: int, new_max: int
) -> None:
    task = attrs.evolve(TASK, count=count, quota=QuotaTask(new_max=new_max))
    held = holdings(tuple(copies), tuple(in_cache))
    entries = [entry(number) for number in numbers]
    selected, spare, duplicates = choose(entries, task, TODAY, held)
    given_order = [one.report_id for one in entries]
    assert len(selected) <= count
    assert sum(choice.source == "NEW_TRIGGER" for choice in selected) <= new_max
    assert ids(selected) == [name for name in given_order if name in set(ids(selected))]
    assert ids(spare) == [name for name in given_order if name in set(ids(spare))]
    assert sorted(ids(selected) + ids(spare)) == sorted(given_order) and duplicates == []
    had = {f"HB{number:04}" for number in copies | in_cache}
    assert all((choice.lane == "PURE_REUSE") == (choice.entry.report_id in had) for choice in selected)
