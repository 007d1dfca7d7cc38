"""A run that went well and brought fewer than the task's count: whether that is short of what was wanted."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import pytest

from hibor.clock import SystemClock
from hibor.collect.collector import Collector, Orders
from hibor.collect.deadline import Deadline
from hibor.collect.feed import FeedReading
from hibor.collect.governance import RunFacts
from hibor.collect.selection import LikelyDuplicate
from hibor.collect.telling import _facts, _shortfall, _stop_reason
from hibor.items.catalogue import CatalogueEntry
from hibor.items.failures import EffectFailure
from hibor.messages import advice, item_advice, reason_text
from hibor.people.progress import Progress
from hibor.task import Task


class Standing(SystemClock):
    """A clock that stands still."""

    def monotonic_s(self) -> float:
        return 1000.0


def run_of(orders: Orders) -> Collector:
    """A run of a task that wants ten and no fewer than five, which has read the list and selected two."""
    nothing: Any = None
    task = Task(library="library", account="team-a", count=10, min_count=5)
    run = Collector(task, nothing, nothing, Deadline(SystemClock(), 600, 20), orders)
    run.reading = FeedReading(entries=(), screens=1, incomplete=None, vanished=(), report=nothing)
    run.selected = 2
    return run


def came(count: int) -> RunFacts:
    items = [{"item_id": str(number), "status": "SUCCESS", "stop_code": None} for number in range(count)]
    return RunFacts(items=items)


def test_all_of_a_trimmed_plan_is_all_that_was_wanted() -> None:
    run = run_of(Orders(plan=Path("plan.json")))
    assert _shortfall(run, came(2)) is None and _facts(run).min_count == 2
    assert _shortfall(run, came(1)) is not None


def test_fewer_than_the_tasks_count_is_said_without_a_plan() -> None:
    run = run_of(Orders())
    short = _shortfall(run, came(2))
    assert short is not None and "2 of at most 10" in short.detail and _facts(run).min_count == 5


@pytest.mark.parametrize(
    ("limited_by", "en", "zh"),
    [
        ("match", "match the task", "只有 2 篇"),
        ("new_max", "more match, and a run downloads at most 6 (new_max)", "至多下载 6 篇"),
        ("alike", "1 more match and are left out as likely duplicates", "疑似重复"),
    ],
)
def test_what_limited_a_run_is_said_as_it_was(limited_by: str, en: str, zh: str) -> None:
    run = run_of(Orders())
    run.more_match = limited_by == "new_max"
    if limited_by == "alike":
        alike = CatalogueEntry(report_id="HB1", title="title")
        run.duplicates.append(LikelyDuplicate(alike, "reports/a.pdf"))
    short = _shortfall(run, came(2))
    assert short is not None and en in short.detail
    assert zh in reason_text("zh", short.code, short.detail)


def test_an_interrupted_run_says_so_and_not_that_its_window_closed() -> None:
    """The item's code is the window's (ruling R26); the words are not."""
    run = run_of(Orders())
    run.deadline.interrupt()
    reason = _stop_reason(run, _facts(run))
    assert reason is not None and reason.code == "INTERRUPTED"
    with pytest.raises(EffectFailure) as stopped:
        run.deadline.require_phone_time()
    assert stopped.value.failure == "deadline"
    for lang, words in (("en", "interrupted"), ("zh", "中断")):
        assert words in reason_text(lang, "DEADLINE_EXPIRED", stopped.value.detail)
        assert words in item_advice(lang, "DEADLINE_EXPIRED", stopped.value.detail).what
        assert item_advice(lang, "DEADLINE_EXPIRED", None) == advice(lang, "DEADLINE_EXPIRED")


@pytest.mark.parametrize(
    ("lang", "before", "after"),
    [("en", "[ 580 s] ", "[interrupted] "), ("zh", "[ 580 秒] ", "[已中断] ")],
)
def test_the_time_left_is_told_in_the_language(lang: str, before: str, after: str) -> None:
    """And after an interrupt no time is told: the window did not run out."""
    said = io.StringIO()
    progress = Progress(lang, stream=said)
    progress.deadline = Deadline(Standing(), 600, 20)
    progress.warn("quota_left", left=1)
    progress.deadline.interrupt()
    progress.warn("quota_left", left=1)
    first, second = said.getvalue().splitlines()
    assert first.startswith(before) and second.startswith(after)
