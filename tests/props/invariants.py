"""What holds after every item, whatever happened to it (design 7 "Invariants").

Everything is read again from disk by readers of this folder: the ledger line by line, the journal record by
record, and the public item is rebuilt by the naive twin of V006 §3.
"""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

import attrs

from fsm import Closure, ItemOutcome
from hibor.collect.services import Services
from hibor.items.draft import Draft, ItemJob
from hibor.items.evidence import probe
from hibor.items.item import ItemRun
from hibor.package.journal import read_journal
from hibor.quota.errors import LedgerInvalid
from tests.fsm import samples, v006
from tests.main_job import read_ledger


def check_item(item: ItemRun) -> None:
    """The public item, its package and the books agree with the disk."""
    result = item.result
    assert result is not None
    shown = result.item.to_dict()
    assert list(shown) == list(samples.KEYS)
    assert (shown["state"] == v006.CLOSED) == result.closed == item.folder.terminal.exists()
    assert shown["status"] == v006.STATUS_OF_CODE[result.code]
    if result.closed:
        check_closed(item, shown)
    elif not (result.uncertain or result.contract_error or item.services.ledger_blocked):
        check_kept(item, shown)
    if shown["final_path"] is not None:
        data = (item.services.library.root / shown["final_path"]).read_bytes()
        assert (len(data), hashlib.sha256(data).hexdigest()) == (shown["bytes"], shown["sha256"])
    if item.services.ledger is not None and item.services.ledger_blocked is None:
        check_ledger(item.services.ledger.path)
    if item.job.lane == v006.PURE:
        assert not [event for event in _events(item) if event["item_id"] == item.job.item_id]


def check_closed(item: ItemRun, shown: dict[str, Any]) -> None:
    """Z holds the item; rebuilt from disk with the ledger up to Z's head it is the same (ruling R19)."""
    stored = json.loads(item.folder.terminal.read_text(encoding="utf-8"))
    assert stored["item"] == shown
    lane, source = item.job.lane, v006.SHORT_OF[stored["source_state"]]
    status = shown["status"]
    key = (lane, source, stored["presence"], _kind(item, stored), status)
    assert v006.accepted_closings().get(key) == stored["closure_variant"], key
    seeing = _seeing(item.services)
    try:
        draft = fresh_draft(item, seeing)
    except LedgerInvalid:
        return  # its books are really in doubt: there is nothing to compare with
    if draft.reservation is not None:
        family = seeing.require_ledger().family_of(draft.reservation, head=_head(stored))
        draft.quota_terminal, draft.artifact = family.quota, family.artifact
        draft.quota_state = family.quota_state
    evidence = attrs.evolve(probe(attrs.evolve(draft, doubts=set(draft.doubts)), seeing), uncertain=False)
    closed = attrs.evolve(evidence, presence=stored["presence"], artifact=_kind(item, stored))
    snapshot = draft.snapshot(v006.CLOSED, closed)
    closure = Closure(stored["closure_variant"], stored["source_state"])
    code = shown["stop_code"] or "NONE"
    assert samples.public_item(snapshot, ItemOutcome(code, closure)) == shown


def _seeing(services: Services) -> Services:
    """The services of a run that looks at the ledger although it is said to be in doubt: the item was built
    from what was read before that.
    """
    return attrs.evolve(services, ledger_blocked=None) if services.ledger_blocked else services


def _head(stored: dict[str, Any]) -> Any:
    from hibor.quota.events import Head

    return Head(stored["ledger_head"]["count"], stored["ledger_head"]["hash"])


def _kind(item: ItemRun, stored: dict[str, Any]) -> str | None:
    return item.draft.artifact_kind if stored["presence"][3] == "V" else None


def check_kept(item: ItemRun, shown: dict[str, Any]) -> None:
    """A kept item says what disk and journal say, and why it stopped stands in its journal."""
    draft = fresh_draft(item)
    evidence = probe(draft, item.services)
    draft.presence = evidence.presence
    snapshot = draft.snapshot(shown["state"], evidence)
    assert samples.public_item(snapshot, ItemOutcome(shown["stop_code"])) == shown


def fresh_draft(item: ItemRun, services: Services | None = None) -> Draft:
    """The item's facts, from its journal and the ledger alone."""
    records = read_journal(item.folder.journal, item.services.durable).records
    draft = Draft(job=ItemJob.from_opened(records[0].data) if records else item.job)
    draft.replay(records)
    probe(draft, services or item.services)
    return draft


def check_ledger(path: Path) -> list[dict[str, Any]]:
    """The chain holds, and every family lived as V006 allows: at most one quota terminal, at most one
    artifact.
    """
    events = read_ledger(path) if path.exists() else []
    families: dict[str, list[str]] = {}
    for event in events:
        if event["family"] is not None:
            families.setdefault(event["family"], []).append(event["type"])
    for types in families.values():
        assert types[0] == "RESERVED" and len(types) == len(set(types)) <= 3, types
        if len(types) > 1:
            assert types[1] in ("RELEASED", "CONFIRMED", "UNCERTAIN"), types
        if len(types) > 2:
            assert types[1] != "RELEASED" and types[2].startswith("ARTIFACT_"), types
    return events


def _events(item: ItemRun) -> list[dict[str, Any]]:
    path = item.services.library.ledger(item.services.task.account)
    return [json.loads(line) for line in path.read_bytes().splitlines()] if path.exists() else []


def tree(folder: Path) -> dict[str, bytes]:
    """Every file below a folder with its bytes; lock notes aside."""
    return {
        path.relative_to(folder).as_posix(): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file()
        and ".lock" not in path.name
        and not path.name.endswith((".sqlite3", "-wal", "-shm"))
    }
