"""What a library's own documents have noted of its ledgers (design 4: "heads are kept elsewhere").

Rules of this file:
- It reads and changes nothing; a document that cannot be read notes nothing.
- A ledger that does not contain every noted head lost lines or was replaced, which its own chain cannot
  notice. Whoever opens a ledger, for whatever reason, compares it with these.
- Heads are read before the ledger: a run that works meanwhile notes a head only after it appended.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

from hibor.durable import Durable, DurableError
from hibor.package.journal import JournalInvalid, read_journal
from hibor.package.layout import LEDGER_NAME, ItemFolder, Library, account_of_folder, children
from hibor.quota.events import Head
from hibor.quota.index import index_path
from hibor.reading import first_line, read_object


def known_heads(library: Library, durable: Durable, account: str | None = None) -> list[Head]:
    """Heads noted in terminals, run documents and journals; with `account`, not those of another account's
    runs.
    """
    heads: list[Head] = []
    for run in library.run_folders():
        document = read_object(run.run_json)
        if account is not None and _account_in(document) not in (account, None):
            continue
        heads += _heads_in(document)
        for folder in run.item_folders():
            heads += _heads_in(read_object(folder.terminal)) or _heads_of_open(folder, durable)
    return heads


def accounts_served(library: Library) -> set[str]:
    """The accounts for which runs have been in this library, as far as their documents say."""
    return {account for run in library.run_folders() if (account := _account_in(read_object(run.run_json)))}


def ledgers_of(library: Library) -> list[tuple[str, Path]]:
    """(account, ledger) of every ledger that is there or that runs of this library have kept, by path."""
    kept = {library.ledger(account): account for account in accounts_served(library)}
    there = {folder / LEDGER_NAME for folder in children(library.ledger_root) if _is_ledgers(folder)}
    return [
        (_account_in_first_line(path) or kept.get(path) or account_of_folder(path.parent.name), path)
        for path in sorted(there | set(kept))
    ]


def _is_ledgers(folder: Path) -> bool:
    """Whether a folder holds a ledger, or what was made beside one."""
    names = (LEDGER_NAME, "ledger.lock", index_path(Path(LEDGER_NAME)).name)
    return any(os.path.lexists(folder / name) for name in names)


def _account_in_first_line(path: Path) -> str | None:
    try:
        return str(json.loads(first_line(path))["account"])
    except (OSError, ValueError, KeyError, TypeError):
        return None


def _account_in(run_document: dict[str, Any]) -> str | None:
    task = run_document.get("task")
    account = task.get("account") if isinstance(task, dict) else None
    return account if isinstance(account, str) and account else None


def _heads_in(document: dict[str, Any]) -> list[Head]:
    """The head a terminal or a run's document notes."""
    provenance = document.get("provenance")
    head = document.get("ledger_head") or (isinstance(provenance, dict) and provenance.get("ledger_head"))
    return _head(head)


def _heads_of_open(folder: ItemFolder, durable: Durable) -> list[Head]:
    """The heads in the journal of an item that has no terminal one can read."""
    try:
        records = read_journal(folder.journal, durable).records
    except (JournalInvalid, DurableError):
        return []
    return [head for record in records for head in _head(record.data.get("ledger_head"))]


def _head(value: object) -> list[Head]:
    if not isinstance(value, dict):
        return []
    count, digest = value.get("count"), value.get("hash")
    return [Head(count, digest)] if isinstance(count, int) and isinstance(digest, str) else []
