"""P00 of a PURE item: a file that is already had, verified and taken over in one step (V006 §2.2; rulings R7,
R20).

Nothing in the app is opened and nothing is spent. Until STATE is journalled the item is P00, whatever lies in
its
folder; a failure removes the staging file and closes the item there.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import attrs

from fsm import FinalFile
from hibor.device.errors import DeviceError
from hibor.durable import FileFacts
from hibor.items.effects.match import identity_of, wanted_of
from hibor.items.effects.pull import MOST_PULLS
from hibor.items.effects.verify import final_of, inspect_staging
from hibor.items.failures import EffectFailure
from hibor.package.match import Candidate, Match, judge, same_state
from hibor.pdf import check_pdf

if TYPE_CHECKING:
    from hibor.device.protocol import RemoteFile
    from hibor.items.item import ItemRun

_AGAIN: Final = frozenset(
    {"command_timeout", "link_lost", "pull_hash_mismatch", "remote_changed", "short_pull"}
)


def validate(item: ItemRun) -> str:
    """`held` for a library copy; `published` or `identical` for a file from the phone's cache."""
    if item.job.copy is not None:
        return _validate_copy(item, item.job.copy)
    if item.job.cached is None:
        raise EffectFailure("unexpected", "a reuse without a file")
    return _validate_cached(item, item.job.cached)


def _validate_copy(item: ItemRun, copy: FinalFile) -> str:
    """Hash and open the library's copy again."""
    item.services.deadline.require_host_time()
    services = item.services
    report = check_pdf(
        services.library.absolute(copy.path),
        size_bytes=copy.size_bytes,
        sha256=copy.sha256,
        page_count=copy.page_count,
        accept_restricted=services.task.policy.accept_restricted,
    )
    if not report.ok:
        raise EffectFailure(
            "copy_rejected", f"the library copy {copy.path} failed its check: {report.finding}"
        )
    item.draft.report, item.draft.restricted, item.draft.pending_final = report, report.restricted, copy
    return "held"


def _validate_cached(item: ItemRun, cached: RemoteFile) -> str:
    """Pull the cached file, check it, look at the path it is to have."""
    services, draft = item.services, item.draft
    services.deadline.require_phone_time()
    item.ensure_opened()
    try:
        cached = _pull_cached(item, cached)
        report = inspect_staging(item)
        if not report.ok:
            raise EffectFailure("file_rejected", f"the cached file failed its check: {report.finding}")
        candidate = Candidate(cached.path, report.sha256 or "", report.page_count, report.text_page1)
        verdict = judge(wanted_of(item), [candidate])
        if not isinstance(verdict, Match):
            raise EffectFailure("file_rejected", "the cached file is not this report")
        draft.identity = identity_of(cached, report.sha256 or "", verdict.basis)
        draft.pending_final = final_of(item)
        final = services.library.root / item.job.final_path
        existing = services.files.facts(final)
        if existing == FileFacts(report.size_bytes or 0, report.sha256 or ""):
            draft.duplicate = True
            return "identical"
        if services.files.occupied(final):
            raise EffectFailure("final_conflict", f"a different file stands at {item.job.final_path}")
        return "published"
    except BaseException:
        services.durable.remove(item.folder.staging, step="staging.remove")
        raise


def _pull_cached(item: ItemRun, cached: RemoteFile) -> RemoteFile:
    """Pull the file, anew where the link broke or the file changed meanwhile; returns it as it then was
    (R14).
    """
    for attempt in range(1, MOST_PULLS + 1):
        try:
            return _pull_once(item, cached.path)
        except (DeviceError, EffectFailure) as error:
            if error.failure not in _AGAIN or attempt == MOST_PULLS:
                raise
            item.services.log.warning("pull %d of %s: %s", attempt, item.job.item_id, error.detail)
            item.services.durable.remove(item.folder.staging, step="staging.remove")
    raise EffectFailure("unexpected", "the pulls ran out")


def _pull_once(item: ItemRun, path: str) -> RemoteFile:
    services, device = item.services, item.services.require_device()
    before = device.stat(path)
    if before.kind != "file":
        raise EffectFailure("file_rejected", f"the cache has a {before.kind} under the report's name")
    sink = services.durable.open_sink(item.folder.staging, step="staging.create")
    with sink:
        device.pull(path, sink, limit_bytes=services.pull_limit_bytes, expected_bytes=before.size_bytes)
        if not same_state(before, device.stat(path)):
            raise EffectFailure("remote_changed", "the file changed while it was read")
        sink.finish(step="staging.fill")
    said = device.sha256(path)
    if said is not None and said != sink.sha256:
        raise EffectFailure("pull_hash_mismatch", "the bytes differ from the phone's own hash of the file")
    return before


def reuse_journal(item: ItemRun) -> None:
    """Step `reuse.journal`: P06 is entered by this record (V006 §2.2 P05)."""
    draft = item.draft
    final = draft.pending_final or draft.publish_intent
    if final is None:
        raise EffectFailure("unexpected", "a reuse without a final file")
    data = {
        "state": item.services.tables.states[6],
        "final": attrs.asdict(final),
        "duplicate": draft.duplicate,
        "restricted": draft.restricted,
        "identity": None if draft.identity is None else attrs.asdict(draft.identity),
    }
    item.note("STATE", data, step="reuse.journal")
