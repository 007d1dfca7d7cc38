"""Where everything lies in a library, and the ids in its names: one place (design 4, 9).

Rules of this file:
- A layout is names; the disk is touched only to list what lies in a folder.
- A folder named after an account cannot leave its place, whatever the account is called.
- Paths inside a library are written with `/`, relative to the library.
"""

from __future__ import annotations

import hashlib
import os
import re
import secrets
from datetime import UTC, date, datetime
from pathlib import Path, PurePosixPath
from urllib.parse import unquote

import attrs

LEDGER_NAME = "ledger.jsonl"
_RUN_ID = re.compile(r"\d{8}T\d{6}Z-[0-9a-f]{6}")
_ITEM_FOLDER = re.compile(r"(\d{2,})-([0-9a-f]{16})")
_RESERVED_NAMES = frozenset(
    {"con", "prn", "aux", "nul", *(f"com{n}" for n in range(1, 10)), *(f"lpt{n}" for n in range(1, 10))}
)


def new_run_id(now: datetime) -> str:
    """`YYYYMMDDTHHMMSSZ-` and 6 random hex digits; `now` is aware."""
    return f"{now.astimezone(UTC):%Y%m%dT%H%M%SZ}-{secrets.token_hex(3)}"


def is_run_id(text: str) -> bool:
    """Whether the text has the form of a run id."""
    return _RUN_ID.fullmatch(text) is not None


def item_id(run_id: str, report_id: str, source: str) -> str:
    """First 16 hex digits of sha256(run_id, report_id, source joined by newlines)."""
    return hashlib.sha256(f"{run_id}\n{report_id}\n{source}".encode()).hexdigest()[:16]


def account_folder(account: str) -> str:
    """The account's name as one safe folder name: letters, digits and `-_.` stay, the rest becomes `%XX`."""
    if not account:
        raise ValueError("an account has a name")
    parts = [
        sign if sign.isalnum() or sign in "-_." else "".join(f"%{byte:02X}" for byte in sign.encode())
        for sign in account
    ]
    name = "".join(parts)
    if name.startswith(".") or name.endswith(".") or name.split(".")[0].lower() in _RESERVED_NAMES:
        name = f"%{ord(name[0]):02X}{name[1:]}" if not name.endswith(".") else f"{name[:-1]}%2E"
        if name.startswith("."):
            name = f"%2E{name[1:]}"
    return name


def account_of_folder(name: str) -> str:
    """The account whose folder has this name; the name itself where no account gives it."""
    account = unquote(name, errors="replace")
    return account if account and account_folder(account) == name else name


def children(folder: Path) -> list[Path]:
    """What lies in a folder of the library, nothing where there is no such folder yet. Raises `OSError` where
    something else has its name, or it cannot be read: that is not the same as empty.
    """
    return list(folder.iterdir()) if os.path.lexists(folder) else []


@attrs.frozen
class ItemFolder:
    """The files of one item of one run."""

    path: Path

    @property
    def journal(self) -> Path:
        """What the item did, in order."""
        return self.path / "journal.jsonl"

    @property
    def staging(self) -> Path:
        """S: the PDF being pulled and checked."""
        return self.path / "staging.pdf"

    @property
    def delivery(self) -> Path:
        """D."""
        return self.path / "delivery.md"

    @property
    def timing(self) -> Path:
        """T."""
        return self.path / "timing.json"

    @property
    def terminal(self) -> Path:
        """Z."""
        return self.path / "terminal.json"

    @property
    def evidence(self) -> Path:
        """Folder with dumps and screenshots."""
        return self.path / "evidence"

    def candidate(self, number: int) -> Path:
        """A cache file pulled for matching by content; not staging (ruling R14)."""
        return self.path / f"candidate-{number}.tmp"

    @property
    def index(self) -> int:
        """The item's number in its run, from 1."""
        return int(self._parts()[0])

    @property
    def item_id(self) -> str:
        """The item's id."""
        return self._parts()[1]

    def _parts(self) -> tuple[str, str]:
        found = _ITEM_FOLDER.fullmatch(self.path.name)
        if found is None:
            raise ValueError(f"{self.path.name} is not an item folder")
        return found[1], found[2]


@attrs.frozen
class RunFolder:
    """The files of one run."""

    path: Path

    @property
    def run_id(self) -> str:
        """The run's id."""
        return self.path.name

    @property
    def evidence(self) -> Path:
        """Folder with dumps and screenshots of what stopped the run itself."""
        return self.path / "evidence"

    @property
    def run_json(self) -> Path:
        """The run terminal, the document on stdout."""
        return self.path / "run.json"

    @property
    def delivery(self) -> Path:
        """What people read first."""
        return self.path / "delivery.md"

    @property
    def report(self) -> Path:
        """The run as a page."""
        return self.path / "report.html"

    @property
    def task(self) -> Path:
        """The task as it was run."""
        return self.path / "task.toml"

    @property
    def items(self) -> Path:
        """Folder of the item folders."""
        return self.path / "items"

    def item(self, index: int, item: str) -> ItemFolder:
        """`<nn>-<item id>`, `index` from 1."""
        return ItemFolder(self.items / f"{index:02}-{item}")

    def item_folders(self) -> list[ItemFolder]:
        """The item folders that exist, in item order. Raises as `children`."""
        found = [ItemFolder(path) for path in children(self.items) if _ITEM_FOLDER.fullmatch(path.name)]
        return sorted(found, key=lambda item: (item.index, item.item_id))

    def evidence_files(self) -> list[Path]:
        """Every file kept of a screen at which the run or one of its items stopped: the run's own first."""
        folders = [self.evidence, *(item.evidence for item in self.item_folders())]
        return [path for folder in folders if folder.is_dir() for path in sorted(folder.iterdir())]


@attrs.frozen
class Library:
    """A library folder. `ledger_dir` replaces `<library>/quota` when the task names one."""

    root: Path
    ledger_dir: Path | None = None

    @property
    def reports(self) -> Path:
        """Folder of the final PDFs."""
        return self.root / "reports"

    @property
    def manifest(self) -> Path:
        """M: one row a delivered report."""
        return self.root / "manifest.jsonl"

    @property
    def catalogue(self) -> Path:
        """What discovery knows."""
        return self.root / "catalogue.sqlite3"

    @property
    def quarantine(self) -> Path:
        """Paid files that failed a check."""
        return self.root / "quarantine"

    def quarantine_file(self, run_id: str, item: str) -> Path:
        """Where the refused bytes of one item are kept."""
        return self.quarantine / f"{run_id}-{item}.pdf"

    def refused_item(self, path: Path) -> ItemFolder | None:
        """The folder of the item whose refused bytes a file of the quarantine holds; None when it is gone."""
        run_id, _, item = path.stem.rpartition("-")
        try:
            folders = self.run(run_id).item_folders()
        except ValueError:
            return None
        return next((folder for folder in folders if folder.item_id == item), None)

    @property
    def runs(self) -> Path:
        """Folder of the runs."""
        return self.root / "runs"

    @property
    def phone_state(self) -> Path:
        """State of the simulated phone that a run starts beside the library."""
        return self.root / "sim-phone"

    def report_folder(self, day: str | None) -> Path:
        """`reports/YYYY/MM` for an ISO date, `reports/undated` without one. Raises `ValueError`."""
        if day is None:
            return self.reports / "undated"
        found = date.fromisoformat(day)
        return self.reports / f"{found.year:04}" / f"{found.month:02}"

    @property
    def ledger_root(self) -> Path:
        """Folder of the accounts' ledger folders."""
        return self.ledger_dir or self.root / "quota"

    def ledger_folder(self, account: str) -> Path:
        """The account's ledger folder."""
        return self.ledger_root / account_folder(account)

    def ledger(self, account: str) -> Path:
        """The account's ledger."""
        return self.ledger_folder(account) / LEDGER_NAME

    def run(self, run_id: str) -> RunFolder:
        """A run's folder. Raises `ValueError` for text that is no run id."""
        if not is_run_id(run_id):
            raise ValueError(f"{run_id!r} is not a run id")
        return RunFolder(self.runs / run_id)

    def run_folders(self) -> list[RunFolder]:
        """The runs that exist, oldest first. Raises as `children`."""
        return [RunFolder(path) for path in sorted(children(self.runs)) if is_run_id(path.name)]

    def relative(self, path: Path) -> str:
        """A path inside the library as files name it. Raises `ValueError` for one outside."""
        return path.relative_to(self.root).as_posix()

    def absolute(self, relative: str) -> Path:
        """The path a file names. Raises `ValueError` for one that would leave the library."""
        pure = PurePosixPath(relative)
        odd = (
            not relative
            or pure.is_absolute()
            or ".." in pure.parts
            or "\\" in relative
            or ":" in pure.parts[0]
        )
        if odd:
            raise ValueError(f"{relative!r} is not a path inside the library")
        return self.root.joinpath(*pure.parts)
