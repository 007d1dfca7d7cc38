"""From staging to final, and the verdicts on a file (rulings R11, R29; design 4 "Durable writes").

The order is the contract's: journal PUBLISH_INTENT, folder, link, then the artifact event; until that event
is
durable the probe says F=N and recovery goes on from here.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import attrs

from fsm import FinalFile
from hibor.durable import FileAlreadyThere, FileFacts
from hibor.items.effects.verify import final_of
from hibor.items.failures import EffectFailure

if TYPE_CHECKING:
    from hibor.items.item import ItemRun


def publish_journal(item: ItemRun) -> None:
    """Step `publish.journal`: announce path and bytes before the name exists."""
    if item.draft.publish_intent is not None:
        return
    identity = item.draft.identity
    data = {
        "final": attrs.asdict(final_of(item)),
        "restricted": item.draft.restricted,
        "identity": None if identity is None else attrs.asdict(identity),
    }
    item.note("PUBLISH_INTENT", data, step="publish.journal")


def publish_folder(item: ItemRun) -> None:
    """Step `publish.folder`: the folder of the final, each name durable in its parent."""
    folder = (item.services.library.root / item.job.final_path).parent
    item.services.durable.make_folders(folder, step="publish.folder")
    if item.recovering:  # an earlier process may have made it and ended before its name was durable
        item.services.durable.confirm(folder, item.services.library.root, step="recover.sync")


def publish_link(item: ItemRun) -> None:
    """Step `publish.link`: give the staged file its final name, never replacing one.

    A name that is there already with our bytes is this item's own link of an earlier run (R29).
    """
    services, intent = item.services, _intent(item)
    final = services.library.root / intent.path
    staging = item.folder.staging
    try:
        services.durable.publish(staging, final, step="publish.link")
    except FileAlreadyThere:
        if services.files.facts(final) != FileFacts(intent.size_bytes, intent.sha256):
            raise
    if services.files.facts(final) != FileFacts(intent.size_bytes, intent.sha256):
        raise EffectFailure("disk_uncertain", f"{intent.path} reads back differently from what was published")


def artifact_append(item: ItemRun) -> None:
    """Step `artifact.append`: ARTIFACT_SUCCESS, with what was published."""
    intent = _intent(item)
    item.append_event("ARTIFACT_SUCCESS", attrs.asdict(intent), step="artifact.append")


def reject_append(item: ItemRun) -> None:
    """Step `reject.append`: the failure artifact with the verdict's code (ruling R11)."""
    data = {"code": item.draft.verdict_code, "kind": "FAILURE"}
    item.append_event("ARTIFACT_DUPLICATE_OR_FAILED", data, step="reject.append")


def code_journal(item: ItemRun) -> None:
    """Step `code.journal`: the verdict, before it is appended to the ledger."""
    if item.draft.mark == "CODE":
        return
    data = {"code": item.draft.verdict_code, "detail": item.draft.detail, "state": item.machine.state}
    item.note("CODE", data, step="code.journal")


def quarantine_publish(item: ItemRun) -> None:
    """Step `quarantine.publish`: keep the bytes of a paid file that failed its check; staging stays."""
    services, staging = item.services, item.folder.staging
    target = services.library.quarantine_file(item.job.run_id, item.job.item_id)
    services.durable.make_folders(target.parent, step="publish.folder")
    try:
        services.durable.keep_copy(staging, target, step="quarantine.publish")
    except FileAlreadyThere:
        if services.files.facts(target) != services.files.facts(staging):
            raise


def duplicate_append(item: ItemRun) -> None:
    """Step `duplicate.append`: the artifact event of an identical file that was there already (ruling R7)."""
    item.append_event("ARTIFACT_DUPLICATE_OR_FAILED", {"kind": "DUPLICATE"}, step="duplicate.append")


def _intent(item: ItemRun) -> FinalFile:
    intent = item.draft.publish_intent
    if intent is None:
        raise EffectFailure("unexpected", "a file is published without an announcement")
    return intent
