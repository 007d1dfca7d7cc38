"""P00 of a NEW item: nothing is reserved before everything that can be known is known (rulings R15, R18;
design 4).
"""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING, Final

from hibor.items.failures import EffectFailure

if TYPE_CHECKING:
    from hibor.items.item import ItemRun


LEAST_FREE_BYTES: Final = 24 * 1024 * 1024
"""Room a new download needs: its file may be on the disk twice, and is paid for by then."""


def admit(item: ItemRun) -> str:
    """Check window, room, phone, final path and quota day; the quota itself is decided together with the
    append.

    A phone that is gone is found out here, where nothing is reserved yet.
    """
    services = item.services
    services.deadline.require_phone_time(services.pace.new_item_s)
    refuse_full_disk(item)
    services.require_device().check_identity()
    refuse_taken_path(item)
    services.calendar.check(services.clock.now(), services.day)
    return "admitted"


def refuse_full_disk(item: ItemRun) -> None:
    """A file that cannot be kept is not paid for."""
    free_bytes = shutil.disk_usage(item.services.library.root).free
    if free_bytes < LEAST_FREE_BYTES:
        free, needed = (round(size_bytes / 1e6, 1) for size_bytes in (free_bytes, LEAST_FREE_BYTES))
        raise EffectFailure(
            "task_invalid",
            f"the library's disk is full: {free} MB are free and a new download needs {needed} MB",
        )


def refuse_taken_path(item: ItemRun) -> None:
    """A file at the final path that this item did not publish is foreign: nothing is spent for it (ruling
    R15).
    """
    path = item.services.library.root / item.job.final_path
    refused = item.services.files.refused_name(path)
    if refused is not None:
        raise EffectFailure("foreign_final", f"{item.job.final_path} cannot be a name here: {refused}")
    if item.services.files.occupied(path):
        report, named = item.job.entry.report_id, item.job.final_path
        rows = item.services.manifest.rows()
        if any((row.report_id, row.final_path) == (report, named) for row in rows):
            raise EffectFailure(
                "already_paid", f"report {report} is delivered already: {named}; nothing is paid for it again"
            )
        raise EffectFailure("foreign_final", f"a file this item did not publish stands at {named}")


def open_journal(item: ItemRun) -> None:
    """Step `open.journal`: the first record; done once."""
    item.ensure_opened()


def reserve_append(item: ItemRun) -> None:
    """Step `reserve.append`: decide and append under one lock."""
    services, job = item.services, item.job
    if services.ledger_blocked is not None:
        raise EffectFailure("ledger_invalid", services.ledger_blocked)
    item.draft.reservation = services.require_ledger().reserve(
        job.entry.report_id,
        job.item_id,
        job.run_id,
        services.day,
        services.quota_limit,
        services.quota_limit_source,
        services.quota_label,
        services.attempted_reports,
        retrigger=job.retrigger,
        step="reserve.append",
    )


def abandon(item: ItemRun) -> str:
    """Recovery of an item that never tapped anything: it closes and its reservation is released (R19)."""
    if item.job.lane == "PURE_REUSE":
        item.services.durable.remove(item.folder.staging, step="staging.remove")
    raise EffectFailure("abandoned", "the run that opened this item ended before anything was tapped")


def halt(item: ItemRun) -> str:
    """A sub-state with U: nothing is written after it (V006 §1)."""
    raise EffectFailure("disk_uncertain", "it cannot be told whether a write is durable")
