"""The probe: disk, ledger and journal → eight letters (V006 §1; rulings R13, R15-R17, R29).

1. A letter is set by validation alone: a file counts as V when it was reopened and its bytes and hash are
  the ones
   on record, as I when it is there and they are not, as N when it is absent or not yet this item's to
   examine.
2. S is examined from the moment the cache identity is on record (P03 on), so a staging file found earlier
  is not
   evidence. In the PURE lane S and F are examined once STATE is journalled, because P06 is entered in one
   step.
3. F is the file this item published: it counts once A is durable (R29), at the path and with the bytes
  announced.
4. What this run saw as U stays U.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import attrs

from fsm import FinalFile
from hibor.durable import FileFacts
from hibor.package.delivery import delivery_belongs_to
from hibor.package.layout import ItemFolder
from hibor.package.manifest import ManifestInvalid
from hibor.package.terminal import PackageFileInvalid, check_package, read_terminal, read_timing
from hibor.reading import read_kept

if TYPE_CHECKING:
    from hibor.collect.services import Services
    from hibor.items.draft import Draft


@attrs.frozen
class Evidence:
    """One observation of one item. `uncertain` is True when something is or was U."""

    presence: str
    artifact: str | None
    final: FinalFile | None
    manifest_row_id: str | None
    uncertain: bool


def probe(draft: Draft, services: Services) -> Evidence:
    """Observe `draft`'s item afresh; the ledger's events of the item are taken into the draft on the way."""
    _read_ledger(draft, services)
    folder = services.item_folder(draft.job.run_id, draft.job.index, draft.job.item_id)
    letters = {
        "S": _staging(draft, folder, services),
        "F": _final(draft, services),
        "Q": "N" if draft.quota_terminal is None else "V",
        "A": "N" if draft.artifact is None else "V",
        "M": _manifest(draft, services),
        "D": _delivery(draft, folder, services),
        "T": _timing(draft, folder, services),
        "Z": _terminal(draft, folder, services),
    }
    for name in draft.doubts:
        letters[name] = "U"
    presence = "".join(letters[name] for name in services.tables.objects)
    return Evidence(
        presence=presence,
        artifact=draft.artifact_kind if letters["A"] == "V" else None,
        final=announced_final(draft) if letters["F"] == "V" else None,
        manifest_row_id=draft.manifest_row_id if letters["M"] == "V" else None,
        uncertain=draft.unsure or "U" in presence,
    )


def announced_final(draft: Draft) -> FinalFile | None:
    """The final file on record: what PUBLISH_INTENT, a PURE item's STATE or C02's CLOSING announced."""
    if draft.job.lane == "PURE_REUSE":
        return draft.final if draft.reused else None
    if draft.artifact_kind == "DUPLICATE" and draft.closing is not None:
        return FinalFile(**draft.closing["final"])
    return draft.publish_intent


def _read_ledger(draft: Draft, services: Services) -> None:
    """Take the item's family, if any. A PURE item has none; one that has is not what it says it is (V006
    §2.2).
    """
    if services.ledger is None or draft.doubts & {"Q", "A"}:
        return
    if services.ledger_blocked is not None:
        return  # a line whose append is in doubt is no evidence (ruling R28); what was read before it stands
    for view in services.ledger.history(draft.job.entry.report_id):
        if view.reservation.item_id != draft.job.item_id:
            continue
        draft.reservation, draft.quota_terminal = view.reservation, view.quota
        draft.quota_state = view.quota_state
        if view.artifact is not None:
            draft.took_artifact(view.artifact)


def _staging(draft: Draft, folder: ItemFolder, services: Services) -> str:
    if draft.job.lane == "PURE_REUSE":
        expected = None if draft.final is None else FileFacts(draft.final.size_bytes, draft.final.sha256)
        if not draft.reused or draft.job.source == "PROJECT_REUSE":
            return "N"
    else:
        identity = draft.identity
        expected = None if identity is None else FileFacts(identity.size_bytes, identity.sha256)
    if expected is None:
        return "N"
    found = services.files.facts(folder.staging)
    if found is None:
        return "N"
    return "V" if found == expected else "I"


def _final(draft: Draft, services: Services) -> str:
    final = announced_final(draft)
    if final is None:
        return "N"
    if draft.job.lane == "NEW_TRIGGER" and draft.artifact_kind not in ("SUCCESS", "DUPLICATE"):
        return "N"
    found = services.files.facts(services.library.root / final.path)
    if found is None:
        return "N"
    return "V" if found == FileFacts(final.size_bytes, final.sha256) else "I"


def _manifest(draft: Draft, services: Services) -> str:
    try:
        row = services.manifest.find(draft.job.run_id, draft.job.item_id)
    except ManifestInvalid:
        # Whether this item's row stands in a file that nobody can read cannot be told (V006 §1).
        draft.doubt([("M", "U")])
        return "U"
    if row is None:
        return "N"
    draft.manifest_row_id = row.manifest_row_id
    return "V"


def _delivery(draft: Draft, folder: ItemFolder, services: Services) -> str:
    if services.files.facts(folder.delivery) is None:
        return "N"
    return (
        "V" if delivery_belongs_to(read_kept(folder.delivery), draft.job.run_id, draft.job.item_id) else "I"
    )


def _timing(draft: Draft, folder: ItemFolder, services: Services) -> str:
    if services.files.facts(folder.timing) is None:
        return "N"
    try:
        timing = read_timing(folder.timing, services.durable)
    except PackageFileInvalid:
        return "I"
    return "V" if (timing.run_id, timing.item_id) == (draft.job.run_id, draft.job.item_id) else "I"


def _terminal(draft: Draft, folder: ItemFolder, services: Services) -> str:
    if services.files.facts(folder.terminal) is None:
        return "N"
    try:
        terminal = read_terminal(folder.terminal, services.durable, item_keys=services.tables.keys)
    except PackageFileInvalid:
        return "I"
    same = (terminal.item["run_id"], terminal.item["item_id"]) == (draft.job.run_id, draft.job.item_id)
    whole = not check_package(folder, terminal, services.manifest, services.durable)
    return "V" if same and whole else "I"
