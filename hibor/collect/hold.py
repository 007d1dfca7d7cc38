"""An access-control text stops new downloads until a person has looked (design 1, guard rails).

The hold is a file beside the account's ledger, so that every library of the account sees it. `doctor` removes
it.
"""

from __future__ import annotations

import json
from pathlib import Path

from hibor.durable import Durable, FileAlreadyThere
from hibor.reading import read_kept


def hold_path(ledger_folder: Path) -> Path:
    """Where an account's hold lies."""
    return ledger_folder / "hold.json"


def set_hold(ledger_folder: Path, durable: Durable, *, code: str, detail: str, at: str) -> None:
    """Stop new downloads of the account. An earlier hold stays as it is, and is made durable: who set it may
    have been killed before it was.
    """
    values = {"schema_version": 1, "at": at, "code": code, "detail": detail}
    data = (json.dumps(values, ensure_ascii=False) + "\n").encode()
    try:
        durable.write_once(hold_path(ledger_folder), data, step="hold.write")
    except FileAlreadyThere:
        durable.confirm(hold_path(ledger_folder), ledger_folder.parent, step="hold.write")


def read_hold(ledger_folder: Path) -> str | None:
    """Why new downloads of the account are stopped, None when they are not."""
    try:
        values = json.loads(read_kept(hold_path(ledger_folder)))
        return f"{values['detail']} (since {values['at']}; `python -m hibor.doctor` ends this)"
    except FileNotFoundError:
        return None
    except (OSError, ValueError, KeyError, TypeError):
        return "the account's hold cannot be read; `python -m hibor.doctor` ends this"


def clear_hold(ledger_folder: Path, durable: Durable) -> bool:
    """A person has looked: new downloads may be opened again. False when there was no hold."""
    return durable.remove(hold_path(ledger_folder), step="hold.remove")
