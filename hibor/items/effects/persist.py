"""P06 to P10: manifest row, delivery.md, timing.json, terminal.json (V006 §1; rulings R5, R24).

Each file is written once and compared after reopening. A file that is there already with the very bytes that
would
be written is this item's own of an earlier attempt, so that recovery ends in the same bytes.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import attrs

from fsm import ItemOutcome, TerminalItem, build_terminal_item
from hibor.items.draft import lane_seconds
from hibor.items.evidence import Evidence, announced_final
from hibor.items.failures import EffectFailure
from hibor.package.delivery import item_delivery
from hibor.package.manifest import ManifestRow, row_id
from hibor.package.terminal import Stage, Terminal, Timing, write_terminal, write_timing

if TYPE_CHECKING:
    from hibor.items.item import ItemRun


def advance(item: ItemRun) -> str:
    """The next file, if there is still time for it."""
    item.services.deadline.require_host_time()
    tables = item.services.tables
    events = tables.work[item.job.lane][item.machine.node][2]
    closing = tables.close_events.get((item.job.lane, item.machine.node), {})
    onward = [event for event in events if item.machine.may(event, item.facts())]
    return onward[0] if onward else closing[finishing_variant(item)]


def finishing_variant(item: ItemRun) -> str:
    """The closure that ends a delivered item from P09: success or duplicate of its lane."""
    tables = item.services.tables
    status = tables.status_of_class["DUPLICATE" if item.draft.duplicate else "NONE"]
    closing = tables.close_events[item.job.lane, tables.states[9]]
    return next(variant for variant in closing if tables.closures[variant]["statuses"] == (status,))


def manifest_append(item: ItemRun) -> None:
    """Step `manifest.append`."""
    draft, job, entry = item.draft, item.job, item.job.entry
    final = announced_final(draft)
    if final is None:
        raise EffectFailure("manifest_invalid", "there is no final file to record")
    row = ManifestRow(
        manifest_row_id=row_id(job.run_id, job.item_id),
        run_id=job.run_id,
        item_id=job.item_id,
        report_id=entry.report_id,
        source=job.source,
        title=entry.title,
        institution=entry.institution,
        date=entry.date,
        analysts=entry.analysts,
        stock_code=entry.stock_code,
        stock_name=entry.stock_name,
        industry=entry.industry,
        report_type=entry.report_type,
        rating=entry.rating,
        final_path=final.path,
        bytes=final.size_bytes,
        sha256=final.sha256,
        page_count=final.page_count,
        restricted=draft.restricted,
        match_basis=None if draft.identity is None else draft.identity.basis,
        quota_state=draft.quota_state,
        reservation_event_id=None if draft.reservation is None else draft.reservation.event_id,
        quota_terminal_event_id=None if draft.quota_terminal is None else draft.quota_terminal.event_id,
        artifact_event_id=None if draft.artifact is None else draft.artifact.event_id,
        at=item.services.stamp(),
    )
    draft.manifest_row_id = item.services.manifest.append(row, step="manifest.append").manifest_row_id


def delivery_write(item: ItemRun) -> None:
    """Step `delivery.write`: what a person reads, saying what the item will be once it is closed."""
    public = closed_item(item, item.probe(), successors=True)
    text = item_delivery(
        public.to_dict(), ledger_head=item.services.ledger_head().to_dict(), lang=item.services.lang
    )
    item.services.durable.write_once(item.folder.delivery, text.encode(), step="delivery.write")


def timing_write(item: ItemRun) -> None:
    """Step `timing.write`: where the seconds went, up to here."""
    draft, services = item.draft, item.services
    stages, started_at = tuple(draft.stages), services.started_at
    if item.recovering:
        records = item.journal.records
        stages, started_at = draft.journalled_stages(records), records[0].at
    timing = Timing(
        run_id=item.job.run_id,
        item_id=item.job.item_id,
        deadline_s=services.deadline.deadline_s,
        started_at=started_at,
        stages=tuple(Stage(s.state, round(s.entered_s, 3), round(s.left_s, 3), s.lane) for s in stages),
        phone_s=lane_seconds(stages, "phone"),
        host_s=lane_seconds(stages, "host"),
        waited_s=round(draft.waited_s, 3),
    )
    write_timing(item.folder.timing, timing, services.durable, step="timing.write")


def closing_journal(item: ItemRun) -> None:
    """Step `closing.journal`: which closure begins, so that recovery can finish it."""
    draft, tables = item.draft, item.services.tables
    variant = draft.variant
    if draft.closing is not None:
        return
    final: dict[str, Any] | None = None
    if variant is None:  # the duplicate decided at P05 is the only closure an event names
        variant = next(
            v
            for v, event in tables.close_events[item.job.lane, item.machine.node].items()
            if event == "identical"
        )
        report = draft.report
        assert report is not None
        final = {
            "path": item.job.final_path,
            "size_bytes": report.size_bytes,
            "sha256": report.sha256,
            "page_count": report.page_count,
        }
        draft.duplicate = True
        draft.code = next(code for code, kind in tables.code_class.items() if kind == "DUPLICATE")
    data = {
        "variant": variant,
        "source_state": item.machine.state,
        "code": draft.code,
        "detail": draft.detail,
        "final": final,
        "restricted": draft.restricted,
    }
    item.note("CLOSING", data, step="closing.journal")


def terminal_write(item: ItemRun) -> None:
    """Step `terminal.write`: the item as it is once this file stands (ruling R24)."""
    evidence = item.probe()
    public = closed_item(item, evidence, successors=False)
    closure = item.closure_now()
    row = item.services.manifest.find(item.job.run_id, item.job.item_id)
    terminal = Terminal(
        item=public.to_dict(),
        presence=evidence.presence[:-1] + "V",
        closure_variant=closure.variant,
        source_state=closure.source_state,
        ledger_head=item.services.ledger_head(),
        delivery_sha256=_sha256(item, item.folder.delivery),
        timing_sha256=_sha256(item, item.folder.timing),
        manifest_line_sha256=None if row is None else row.line_sha256,
        written_at=item.services.stamp(),
    )
    write_terminal(
        item.folder.terminal,
        terminal,
        item.services.durable,
        item_keys=item.services.tables.keys,
        step="terminal.write",
    )


def closed_item(item: ItemRun, evidence: Evidence, *, successors: bool) -> TerminalItem:
    """The public item after its closing; `successors` tells it as if M, D and T stood already."""
    shown = evidence.presence
    presence = shown[:4] + ("VVV" if successors else shown[4:7]) + "V"
    row = item.draft.manifest_row_id if presence[4] == "V" else None
    closed = attrs.evolve(evidence, presence=presence, manifest_row_id=row)
    tables = item.services.tables
    snapshot = item.draft.snapshot(tables.closed_state, closed)
    closure = item.closure_now()
    return build_terminal_item(snapshot, ItemOutcome(item.closing_code(closure), closure), tables)


def kept_journal(item: ItemRun) -> None:
    """Step `kept.journal`: the item stays where it is, and why; said once for each reason."""
    last = item.journal.records[-1] if item.journal.records else None
    data = {"state": item.machine.state, "code": item.draft.code, "detail": item.draft.detail}
    if last is None or last.event != "KEPT" or dict(last.data) != data:
        item.note("KEPT", data, step="kept.journal")


def _sha256(item: ItemRun, path: Path) -> str | None:
    facts = item.services.files.facts(path)
    return None if facts is None else facts.sha256
