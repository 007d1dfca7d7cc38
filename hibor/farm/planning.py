"""Which reports are wanted and which phone is to collect each (design 6 "Hosts", farm).

1. A report's job id is its id, whatever the phone: the engine refuses the second job.
2. A report that failed is planned again only when it is asked for, and one that may have been paid for only
   for the phone that tapped: its ledger and its items are there.
3. The phone with the least to do gets the next report.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from datetime import date
from typing import Final, Protocol

import attrs

from hibor.collect.feed import ENTRY_TASK
from hibor.collect.selection import matches
from hibor.discovery import sanitize_content_id
from hibor.hosts.dbos_host import JobView
from hibor.hosts.local import LocalHost
from hibor.items.catalogue import CatalogueEntry
from hibor.package.layout import Library
from hibor.people.run_view import manifest_rows
from hibor.task import Select
from hibor.want import read_wants

REPORT_TASK: Final = "report"
PAID: Final = "PAID "
"""Begins the reason of a failed job whose report was, or may have been, paid for."""


class Queues(Protocol):
    """What planning needs of the host."""

    def enqueue(
        self, task_type: str, job_id: str, payload: Mapping[str, object], *, phone: str, rerun: str
    ) -> bool:
        """Enqueue a job; False when it exists already."""


@attrs.frozen
class Planned:
    """One wanted report: the phone it went to, None where it was not handed out, and why not."""

    report_id: str
    title: str
    phone: str | None
    why: str = ""


def job_id_of(report_id: str) -> str:
    """The job id of a report."""
    return sanitize_content_id(report_id)


def wanted_reports(library: Library, select: Select, today: date) -> list[CatalogueEntry]:
    """Reports of the library's catalogue that match and are not in the library yet: those on its want-list
    first, then newest first. Raises HostError, ManifestInvalid.
    """
    have = {row.report_id for row in manifest_rows(library) if row.final_path is not None}
    with LocalHost(library.catalogue) as host:
        rows = host.entries(ENTRY_TASK, include_vanished=False)
        found = [
            entry for row in rows if (entry := CatalogueEntry.from_dict(row.entry)).report_id not in have
        ]
    return read_wants(library).first(entry for entry in found if matches(entry, select, today))


def hand_out(
    host: Queues,
    reports: Iterable[CatalogueEntry],
    load: Mapping[str, int],
    jobs: Collection[JobView],
    *,
    again: bool = False,
    count: int | None = None,
) -> list[Planned]:
    """Enqueue the reports, at most `count` new jobs; `load` are the phones and how much each has to do
    already.
    """
    loads, known = dict(load), {job.job_id: job for job in jobs}
    planned: list[Planned] = []
    for entry in reports:
        if count is not None and sum(one.phone is not None for one in planned) >= count:
            break
        phones, why = _phones_for(known.get(job_id_of(entry.report_id)), list(loads), again)
        if not phones:
            planned.append(Planned(entry.report_id, entry.title, None, why))
            continue
        phone = min(phones, key=lambda name: loads[name])
        rerun = "on_failure" if again else "never"
        job_id = job_id_of(entry.report_id)
        if host.enqueue(REPORT_TASK, job_id, {"entry": entry.to_dict()}, phone=phone, rerun=rerun):
            loads[phone] += 1
            planned.append(Planned(entry.report_id, entry.title, phone))
        else:
            planned.append(Planned(entry.report_id, entry.title, None, "planned"))
    return planned


def _phones_for(job: JobView | None, phones: Sequence[str], again: bool) -> tuple[list[str], str]:
    """The phones that may have a report, and why there are none: `planned`, `done`, `failed` or `paid`."""
    if job is None:
        return list(phones), ""
    if not job.failed:
        return [], "done" if job.finished else "planned"
    if not again:
        return [], "failed"
    if job.reason is not None and not job.reason.startswith(PAID):
        return list(phones), ""
    return [phone for phone in phones if phone == job.phone], "paid"
