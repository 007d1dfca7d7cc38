"""A run that went well and brought fewer than the task's count: whether that is short of what was wanted."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from hibor.clock import SystemClock
from hibor.collect.collector import Collector, Orders
from hibor.collect.deadline import Deadline
from hibor.collect.feed import FeedReading
from hibor.collect.governance import RunFacts
from hibor.collect.telling import _facts, _shortfall
from hibor.task import Task


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
