"""P05: the PDF checks and the decision between publishing, duplicate and refusal (design 5; rulings R7, R13,
R30).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from fsm import FinalFile
from hibor.durable import FileFacts
from hibor.items.failures import EffectFailure
from hibor.pdf import PdfReport, check_pdf

if TYPE_CHECKING:
    from hibor.items.item import ItemRun


def check(item: ItemRun) -> str:
    """`sound`, or `identical` when the path holds the same verified file; a finding becomes its code."""
    services, draft = item.services, item.draft
    services.deadline.require_host_time()
    report = inspect_staging(item)
    if not report.ok:
        raise EffectFailure("file_rejected", f"the file failed its check: {report.finding}", code=report.code)
    if draft.publish_intent is not None:
        return "sound"  # the publish window of ruling R29 is gone on with
    final = services.library.root / item.job.final_path
    refused = services.files.refused_name(final)
    if refused is not None:
        raise EffectFailure("publish_refused", f"{item.job.final_path} cannot be a name here: {refused}")
    existing = services.files.facts(final)
    if existing == FileFacts(report.size_bytes or 0, report.sha256 or ""):
        return "identical"
    if services.files.occupied(final):
        raise EffectFailure("final_conflict", f"a different file stands at {item.job.final_path}")
    return "sound"


def inspect_staging(item: ItemRun) -> PdfReport:
    """Check the staging file against its identity; the report stays with the item."""
    identity, entry, services = item.draft.identity, item.job.entry, item.services
    report = check_pdf(
        item.folder.staging,
        size_bytes=None if identity is None else identity.size_bytes,
        sha256=None if identity is None else identity.sha256,
        page_count=entry.page_count_hint if services.pages_are_exact else None,
        accept_restricted=services.task.policy.accept_restricted,
    )
    item.draft.report = report
    item.draft.restricted = report.restricted
    return report


def final_of(item: ItemRun) -> FinalFile:
    """The final file this item's checked staging becomes."""
    report = item.draft.report or inspect_staging(item)
    if not report.ok or report.size_bytes is None or report.sha256 is None or report.page_count is None:
        raise EffectFailure("unexpected", "a file is published before it was checked")
    return FinalFile(item.job.final_path, report.size_bytes, report.sha256, report.page_count)


def finish_rejected(item: ItemRun) -> str:
    """The verdict on the file is durable; what is left is to close with its code (ruling R11)."""
    draft = item.draft
    code = draft.verdict_code
    if code is None and draft.artifact is not None:
        code = str(draft.artifact.data["code"])
    raise EffectFailure("file_rejected", draft.detail or "the file was refused", code=code)
