"""What a run was, from what its collector learned: status facts, stop reason, the run terminal's contents."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from hibor.collect.governance import RunFacts
from hibor.collect.stops import RunStop
from hibor.package.run_terminal import RunDocument, StopReason

if TYPE_CHECKING:
    from hibor.collect.collector import Collector


def document_of(run: Collector) -> RunDocument:
    """The run terminal's contents."""
    facts = _facts(run)
    return RunDocument(
        run_id=run.run_id,
        facts=facts,
        stop_reason=_stop_reason(run, facts),
        quota=run.quota,
        recovered=[result.item.to_dict() for result in run.recovered],
    )


def _facts(run: Collector) -> RunFacts:
    results = [*(one.result for one in run.results), *run.recovered]
    blocked = run.services is not None and run.services.ledger_blocked is not None
    broken_uncertain = any(broken.uncertain for broken in run.broken)
    stop = run.stop
    return RunFacts(
        items=[one.result.item.to_dict() for one in run.results],
        replaced=frozenset(run.schedule.replaced if run.schedule else ()),
        uncertain=blocked
        or broken_uncertain
        or any(result.uncertain for result in results)
        or (stop is not None and stop.uncertain),
        contract_error=any(result.contract_error for result in results)
        or any(not broken.uncertain for broken in run.broken),
        interrupted=run.deadline.interrupted,
        task_invalid=stop is not None and stop.task_invalid,
        busy=stop is not None and stop.busy,
        deadline_ended=run.schedule is not None and run.schedule.deadline_ended,
        cause=None if stop is None else stop.code,
        min_count=min(run.task.min_count, _wanted(run)),
    )


def _stop_reason(run: Collector, facts: RunFacts) -> StopReason | None:
    if run.stop is not None:
        return StopReason(run.stop.code, run.stop.detail)
    if run.services is not None and run.services.ledger_blocked is not None:
        doubt = RunStop("ledger_invalid", run.services.ledger_blocked)
        return StopReason(doubt.code, doubt.detail)
    if run.broken:
        return StopReason(RunStop("disk_uncertain", "").code, run.broken[0].why)
    if run.wall is not None:
        return run.wall
    if facts.interrupted:
        return StopReason("INTERRUPTED", "ended by a signal before the run was through")
    undelivered = {item["item_id"] for item in facts.undelivered}
    for one in run.results:
        if one.result.item["item_id"] in undelivered:
            return StopReason(one.result.code, one.result.detail or one.result.code)
    if run.schedule is not None and run.schedule.breaker.reason is not None:
        return StopReason(run.schedule.breaker.reason, "no further download is started in this run")
    return _shortfall(run, facts)


def _wanted(run: Collector) -> int:
    """Reports the run is asked for: a plan's rows, which a person may have made fewer, else the task's count.
    """
    by_plan = run.orders.plan is not None and not run.orders.dry_run and run.reading is not None
    return run.selected if by_plan else run.task.count


def _shortfall(run: Collector, facts: RunFacts) -> StopReason | None:
    """Why fewer came than asked for, when nothing went wrong with an item."""
    if run.plan_rows is not None:
        return StopReason("DRY_RUN", "nothing was reserved and nothing tapped")
    if run.reading is not None and run.reading.incomplete is not None:
        return StopReason("DISCOVERY_INCOMPLETE", run.reading.incomplete)
    if run.reading is None or len(facts.delivered) >= _wanted(run):
        return None
    if not facts.items and not run.more_match:
        return StopReason("NOTHING_NEW", "nothing in the list matches the task and is not had already")
    came = f"{len(facts.delivered)} of at most {run.task.count} reports"
    if run.more_match:
        most = run.task.quota.new_max
        return StopReason(
            "FEWER_THAN_COUNT", f"{came}: more match, and a run downloads at most {most} (new_max)"
        )
    if run.duplicates:
        left_out = len(run.duplicates)
        return StopReason(
            "FEWER_THAN_COUNT", f"{came}: {left_out} more match and are left out as likely duplicates"
        )
    return StopReason("FEWER_THAN_COUNT", f"{came} match the task")


def extras_of(run: Collector) -> dict[str, Any]:
    """Counts that are about reports, not items."""
    likely = [
        {"report_id": one.entry.report_id, "title": one.entry.title, "path": one.path}
        for one in run.duplicates
    ]
    not_begun = [] if run.schedule is None else run.schedule.not_begun
    extras: dict[str, Any] = {
        "likely_duplicates": likely,
        "not_begun": [
            {"report_id": choice.entry.report_id, "title": choice.entry.title} for choice in not_begun
        ],
        "selected": run.selected,
    }
    if run.plan_rows is not None:
        extras["plan"] = run.plan_rows
    return extras
