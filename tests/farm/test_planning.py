"""Which phone gets which report, and which reports are not handed out (no engine needed)."""

from __future__ import annotations

from collections.abc import Mapping

import attrs

from hibor.farm.planning import PAID, Planned, hand_out
from hibor.hosts.dbos_host import JobView
from hibor.items.catalogue import CatalogueEntry


def report(number: int) -> CatalogueEntry:
    return CatalogueEntry(report_id=f"HB{number}", title=f"title {number}")


@attrs.define
class Queue:
    """A home-made queue that refuses a job it has, as the engine does."""

    had: set[str] = attrs.field(factory=set)
    calls: list[tuple[str, str, str]] = attrs.field(factory=list)

    def enqueue(
        self, task_type: str, job_id: str, payload: Mapping[str, object], *, phone: str, rerun: str
    ) -> bool:
        assert task_type == "report" and payload["entry"]
        if job_id in self.had:
            return False
        self.calls.append((job_id, phone, rerun))
        return True


def phones_of(planned: list[Planned]) -> list[str | None]:
    return [one.phone for one in planned]


def test_the_phone_with_the_least_to_do_is_next() -> None:
    planned = hand_out(Queue(), [report(n) for n in range(4)], {"a": 2, "b": 0}, [])
    assert phones_of(planned) == ["b", "b", "a", "b"]


def test_count_bounds_what_is_handed_out_not_what_is_looked_at() -> None:
    jobs = [JobView("HB0", "a", "SUCCESS"), JobView("HB1", "a", "ENQUEUED")]
    planned = hand_out(Queue(), [report(n) for n in range(9)], {"a": 0}, jobs, count=2)
    assert [(one.phone, one.why) for one in planned] == [
        (None, "done"),
        (None, "planned"),
        ("a", ""),
        ("a", ""),
    ]


def test_a_report_the_engine_has_already_is_not_counted_as_handed_out() -> None:
    planned = hand_out(Queue(had={"HB0"}), [report(0), report(1)], {"a": 0, "b": 0}, [])
    assert [(one.phone, one.why) for one in planned] == [(None, "planned"), ("a", "")]


def test_failed_ones_go_out_again_only_when_asked_and_paid_ones_only_to_their_phone() -> None:
    jobs = [
        JobView("HB0", "a", "ERROR", "no page for it"),
        JobView("HB1", "a", "ERROR", f"{PAID}the file was damaged"),
        JobView("HB2", "c", "ERROR", f"{PAID}the file was damaged"),
        JobView("HB3", "a", "MAX_RECOVERY_ATTEMPTS_EXCEEDED", None),
    ]
    reports = [report(n) for n in range(4)]
    plain = hand_out(Queue(), reports, {"b": 0, "a": 9}, jobs)
    assert [one.why for one in plain] == ["failed"] * 4
    queue = Queue()
    again = hand_out(queue, reports, {"b": 0, "a": 9}, jobs, again=True)
    assert [(one.phone, one.why) for one in again] == [("b", ""), ("a", ""), (None, "paid"), ("a", "")]
    assert {rerun for _job, _phone, rerun in queue.calls} == {"on_failure"}
