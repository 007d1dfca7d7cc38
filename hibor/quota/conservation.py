"""Conservation: nothing that was spent, pulled or published gets lost between the books (design 4, V006 §1).

discovered → selected → reserved → tapped → pulled → verified → published → manifest row. Every item is in
exactly one bucket, every quota unit is delivered, released, kept or explained, every file of the library has
its one row.

Rules of this file: it reads and changes nothing; it believes the bytes on disk and not a run's own summary;
what it cannot place is said with the id, never counted away.
"""

from __future__ import annotations

import hashlib
import json
import sqlite3
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from contextlib import closing, suppress
from pathlib import Path
from typing import Any, Final

import attrs

from hibor.durable import Durable, DurableError
from hibor.package.journal import JournalInvalid, read_journal
from hibor.package.layout import ItemFolder, Library
from hibor.package.manifest import ManifestInvalid, ManifestRow, parse_row
from hibor.reading import is_kept, open_kept, read_kept

STAGES: Final = ("selected", "reserved", "tapped", "pulled", "verified", "published", "manifest row")
ITEM_BUCKETS: Final = ("delivered", "duplicate", "stopped", "failed", "kept", "unreadable")
UNIT_BUCKETS: Final = (
    "delivered", "released", "kept", "refused", "written off", "open", "elsewhere", "unexplained"
)  # fmt: skip
_REUSE: Final = ("PROJECT_REUSE", "CACHE_REUSE")
_BLOCK_BYTES: Final = 1 << 20
_COUNT_REPORTS: Final = "SELECT count(*) FROM catalogue WHERE task_type = 'catalogue'"


@attrs.frozen
class Finding:
    """Something that is in no bucket or in two; `what` names the id and what to look at."""

    kind: str
    name: str
    what: str

    def __str__(self) -> str:
        return f"{self.kind} {self.name}: {self.what}"


@attrs.define
class Item:
    """One item folder as its files tell it."""

    folder: ItemFolder
    run_id: str
    report_id: str = ""
    source: str = ""
    events: frozenset[str] = frozenset()
    terminal: Mapping[str, Any] | None = None
    final: Mapping[str, Any] | None = None
    duplicate: bool = False
    unreadable: str | None = None

    @property
    def item_id(self) -> str:
        """The item's id."""
        return self.folder.item_id

    @property
    def bucket(self) -> str:
        """The one bucket the item is in."""
        if self.unreadable is not None:
            return "unreadable"
        if self.terminal is None:
            return "kept"
        return {"SUCCESS": "delivered", "DUPLICATE": "duplicate", "STOPPED": "stopped", "FAILED": "failed"}[
            str(self.terminal["item"]["status"])
        ]


@attrs.define
class Unit:
    """One quota family: what the account paid, or might have paid."""

    family: str
    report_id: str
    item_id: str
    day: str
    run_id: str
    quota: str = "RESERVED"
    artifact: str | None = None
    kind: str | None = None


@attrs.frozen
class Account:
    """What the audit found. Counts by name; `findings` is empty when everything is conserved.

    `ended`: stage → bucket → items that came just so far; over all of them it is every item once.
    """

    stages: Mapping[str, int]
    items: Mapping[str, int]
    units: Mapping[str, int]
    files: Mapping[str, int]
    findings: tuple[Finding, ...]
    ended: Mapping[str, Mapping[str, int]] = attrs.field(factory=dict)

    def to_dict(self) -> dict[str, Any]:
        """JSON-ready."""
        return {
            "stages": dict(self.stages),
            "items": dict(self.items),
            "units": dict(self.units),
            "files": dict(self.files),
            "ended": {stage: dict(buckets) for stage, buckets in self.ended.items()},
            "findings": [attrs.asdict(finding) for finding in self.findings],
        }


def audit(library: Library, ledger: Path, durable: Durable) -> Account:
    """Compare all books of a library. The ledger is verified by the caller."""
    items = list(read_items(library, durable))
    units, elsewhere = _ours(library, read_units(ledger))
    findings: list[Finding] = []
    rows = read_rows(library.manifest, findings)
    by_item = _unique(items, findings)
    rows_of = Counter(row.item_id for row in rows)
    came = _came(items, units, rows)
    stages = _stages(library, items, came)
    unit_counts = _units(units, by_item, rows_of, findings) | elsewhere
    _items(items, rows, units, findings)
    files = _files(library, items, rows, findings)
    return Account(
        stages,
        _counted(ITEM_BUCKETS, (item.bucket for item in items)),
        unit_counts,
        files,
        tuple(findings),
        _ended(items, came),
    )


# -- reading ---------------------------------------------------------------------------------------


def read_items(library: Library, durable: Durable) -> Iterator[Item]:
    """Every item folder of every run."""
    for run in library.run_folders():
        for folder in run.item_folders():
            yield _read_item(folder, run.run_id, durable)


def _read_item(folder: ItemFolder, run_id: str, durable: Durable) -> Item:
    item = Item(folder, run_id)
    try:
        records = read_journal(folder.journal, durable).records
        if folder.terminal.exists():
            item.terminal = json.loads(read_kept(folder.terminal))
            item.report_id = str(item.terminal["item"]["report_id"])
            item.source = str(item.terminal["item"]["source"])
            assert item.bucket in ITEM_BUCKETS
    except (JournalInvalid, DurableError, OSError, ValueError, KeyError, TypeError, AssertionError) as error:
        item.unreadable = str(error) or type(error).__name__
        item.terminal = None
        return item
    item.events = frozenset(record.event for record in records)
    if records and records[0].event == "ITEM_OPENED":
        data = records[0].data
        item.report_id, item.source = str(data["entry"]["report_id"]), str(data["source"])
    for record in records:
        if record.event == "PUBLISH_INTENT" or (
            record.event in ("STATE", "CLOSING") and record.data.get("final")
        ):
            item.final = record.data["final"]
            item.duplicate = record.event == "CLOSING" or bool(record.data.get("duplicate"))
    return item


def read_rows(manifest: Path, findings: list[Finding]) -> tuple[ManifestRow, ...]:
    """Every row of a manifest, each item's first; what is no row, or one too many, is a finding.

    A run stops at the first of them; here the rest still has to be told.
    """
    rows: dict[str, ManifestRow] = {}
    data = read_kept(manifest) if manifest.exists() else b""
    for number, line in enumerate(data[: data.rfind(b"\n") + 1].splitlines(), 1):
        place = f"{manifest.name}:{number}"
        try:
            row = parse_row(manifest, number, line)
        except ManifestInvalid as error:
            findings.append(Finding("manifest row", place, f"this line is no row: {error.what}"))
            continue
        if row.manifest_row_id in rows:
            findings.append(Finding("manifest row", place, f"a second row of item {row.item_id}"))
        rows.setdefault(row.manifest_row_id, row)
    return tuple(rows.values())


def read_units(ledger: Path) -> dict[str, Unit]:
    """Every family of a verified ledger, by id; an unfinished last line was never acknowledged."""
    units: dict[str, Unit] = {}
    if not ledger.exists():
        return units
    with open_kept(ledger) as lines:
        for line in lines:
            if not line.endswith(b"\n"):
                break
            event = json.loads(line)
            if event["family"] is None:
                continue
            unit = units.setdefault(
                event["family"],
                Unit(event["family"], event["report_id"], event["item_id"], event["day"], event["run_id"]),
            )
            if str(event["type"]).startswith("ARTIFACT"):
                unit.artifact, unit.kind = event["type"], event["data"].get("kind")
            else:
                unit.quota = event["type"]
    return units


def discovered(library: Library) -> int | None:
    """How many reports the catalogue knows; None without one that can be read. Its note of how far the list
    was read is no report.
    """
    if not is_kept(library.catalogue):
        return None
    for mode in ("mode=ro", "immutable=1"):  # the second where even the reader's own file cannot be made
        with suppress(sqlite3.Error):
            return _count_reports(f"{library.catalogue.absolute().as_uri()}?{mode}")
    return None


def _count_reports(uri: str) -> int | None:
    with closing(sqlite3.connect(uri, uri=True)) as database:
        tables = [row[0] for row in database.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
        if "catalogue" not in tables:
            return None
        return int(database.execute(_COUNT_REPORTS).fetchone()[0])


# -- judging ---------------------------------------------------------------------------------------


def _counted(names: Iterable[str], found: Iterable[str]) -> dict[str, int]:
    counts = Counter(found)
    return {name: counts[name] for name in names}


def _unique(items: list[Item], findings: list[Finding]) -> dict[str, Item]:
    by_item: dict[str, Item] = {}
    for item in items:
        if item.item_id in by_item:
            findings.append(Finding("item", item.item_id, "two folders have this id"))
        by_item[item.item_id] = item
        if item.unreadable is not None:
            findings.append(Finding("item", item.item_id, f"cannot be read: {item.unreadable}"))
    return by_item


def _came(
    items: list[Item], units: Mapping[str, Unit], rows: tuple[ManifestRow, ...]
) -> dict[str, set[str]]:
    """Stage → the ids that came to it; PURE items pay nothing and enter at their file."""
    final = {item.item_id for item in items if item.final is not None}
    published = {unit.item_id for unit in units.values() if unit.artifact == "ARTIFACT_SUCCESS"}
    return {
        "selected": {item.item_id for item in items},
        "reserved": {unit.item_id for unit in units.values()},
        "tapped": {item.item_id for item in items if "TRIGGER_INTENT" in item.events},
        "pulled": final | {item.item_id for item in items if "CACHE_IDENTITY" in item.events},
        "verified": final,
        "published": published | {item.item_id for item in items if item.source in _REUSE and item.final},
        "manifest row": {row.item_id for row in rows},
    }


def _stages(library: Library, items: list[Item], came: Mapping[str, set[str]]) -> dict[str, int]:
    """How many ids came how far."""
    known = discovered(library)
    counts = {} if known is None else {"discovered": known}
    return {**counts, **{stage: len(came[stage]) for stage in STAGES}, "selected": len(items)}


def _ended(items: list[Item], came: Mapping[str, set[str]]) -> dict[str, dict[str, int]]:
    """Every item once: at the last stage it came to, in its bucket."""
    found: dict[str, Counter[str]] = {stage: Counter() for stage in STAGES}
    for item in items:
        last = [stage for stage in STAGES if item.item_id in came[stage]][-1]
        found[last][item.bucket] += 1
    return {
        stage: {name: buckets[name] for name in ITEM_BUCKETS if buckets[name]}
        for stage, buckets in found.items()
        if buckets
    }


def _ours(library: Library, units: Mapping[str, Unit]) -> tuple[dict[str, Unit], dict[str, int]]:
    """The units to account for here, and the count of those that are another library's: where several
    libraries share an account's ledger, a run without a folder here was one of theirs.
    """
    runs = {run.run_id for run in library.run_folders()}
    ours = {name: unit for name, unit in units.items() if library.ledger_dir is None or unit.run_id in runs}
    return ours, {"elsewhere": len(units) - len(ours)}


def _units(
    units: Mapping[str, Unit],
    by_item: Mapping[str, Item],
    rows_of: Mapping[str, int],
    findings: list[Finding],
) -> dict[str, int]:
    buckets = []
    for unit in units.values():
        bucket, why = unit_bucket(unit, by_item.get(unit.item_id), rows_of.get(unit.item_id, 0))
        buckets.append(bucket)
        if bucket == "unexplained":
            findings.append(Finding("quota unit", unit.family, f"report {unit.report_id}, {unit.day}: {why}"))
    return _counted(UNIT_BUCKETS, buckets)


def unit_bucket(unit: Unit, item: Item | None, rows: int) -> tuple[str, str]:
    """(bucket, why) of one quota unit, from its events, its item and how many manifest rows the item has."""
    if unit.quota == "RELEASED":
        return ("released", "") if not rows else ("unexplained", "released, and yet the manifest has a row")
    delivered = unit.artifact == "ARTIFACT_SUCCESS" or unit.kind == "DUPLICATE"
    if item is None:
        if unit.quota == "RESERVED":
            return "open", "its item's folder is missing; the next run settles it as uncertain"
        settled = unit.artifact is None and unit.quota == "UNCERTAIN"  # ruling R19 wrote it off
        return ("written off", "") if settled else ("unexplained", "its item's folder is missing")
    if item.terminal is None and not item.events and not item.unreadable and unit.quota == "CONFIRMED":
        return "unexplained", "its item's journal is missing"
    if item.bucket in ("kept", "unreadable"):
        return ("open", "") if unit.quota == "RESERVED" else ("kept", "")
    if delivered:
        closed_after = item.bucket in ("delivered", "duplicate") or rows > 0
        return ("delivered", "") if closed_after else _published_only(item)
    if unit.quota == "RESERVED":
        return "open", "the next run settles it"
    if unit.artifact is not None:
        return ("refused", "") if item.bucket == "failed" else ("unexplained", "refused, and yet not failed")
    return ("written off", "") if item.bucket == "stopped" else ("unexplained", f"paid and {item.bucket}")


def _published_only(item: Item) -> tuple[str, str]:
    """Published and closed before the manifest row (C09): the file is there and the terminal says why."""
    code = None if item.terminal is None else item.terminal["item"]["stop_code"]
    return ("delivered", "") if code is not None else ("unexplained", "published, and neither row nor reason")


def _items(
    items: list[Item], rows: tuple[ManifestRow, ...], units: Mapping[str, Unit], findings: list[Finding]
) -> None:
    """A delivered item has its row, a row its item, a new item's quota state its family."""
    rows_of = {row.item_id: row for row in rows}
    families: dict[str, list[Unit]] = {}
    for unit in units.values():
        families.setdefault(unit.item_id, []).append(unit)
    known = {item.item_id for item in items}
    for item in items:
        row, mine = rows_of.get(item.item_id), families.get(item.item_id, [])
        if item.bucket in ("delivered", "duplicate") and row is None:
            findings.append(Finding("item", item.item_id, "delivered without a manifest row"))
        if len(mine) > 1:
            findings.append(Finding("item", item.item_id, "has more than one quota family"))
        if item.source in _REUSE and mine:
            findings.append(Finding("item", item.item_id, "a reuse that has a quota family"))
        if item.terminal is None or item.source != "NEW_TRIGGER":
            continue
        said = item.terminal["item"]["quota_reservation_event_id"] is not None
        if said != bool(mine):
            findings.append(
                Finding("item", item.item_id, "its terminal and the ledger disagree on a reservation")
            )
    for row in rows:
        if row.item_id not in known:
            findings.append(
                Finding("manifest row", row.manifest_row_id, f"its item {row.item_id} has no folder")
            )


def _files(
    library: Library, items: list[Item], rows: tuple[ManifestRow, ...], findings: list[Finding]
) -> dict[str, int]:
    """Every file below reports/ has one row of the item that published it, and every row its file.

    A reuse and a duplicate have a row for a file that was there before them; they published nothing. A file
    that a person took away is published again by a later run: nothing ever replaces one that is there.
    """
    found = {item.item_id for item in items if item.duplicate or item.source == "PROJECT_REUSE"}
    first = Counter(
        (row.final_path, row.run_id) for row in rows if row.final_path and row.item_id not in found
    )
    claims: Counter[str] = Counter()
    for (name, _run), count in first.items():
        claims[name] = max(claims[name], count)
    named = {row.final_path for row in rows if row.final_path}
    announced = {str(item.final["path"]) for item in items if item.final is not None}
    counts = Counter({"with a row": 0, "announced": 0, "without a row": 0})
    for path in sorted(library.reports.rglob("*")) if library.reports.is_dir() else ():
        if not path.is_file():
            continue
        name = library.relative(path)
        if name in named:
            counts["with a row"] += 1
            if claims[name] > 1:
                what = f"{claims[name]} rows of one run say they published it"
                findings.append(Finding("file", name, what))
        elif name in announced:
            counts["announced"] += 1  # between link and row, or closed before its row (C09): the item says so
        else:
            counts["without a row"] += 1
            findings.append(Finding("file", name, "no row and no item knows it"))
    for row in rows:
        if row.final_path is not None:
            _row_file(library, row, findings)
    return dict(counts)


def _row_file(library: Library, row: ManifestRow, findings: list[Finding]) -> None:
    path = library.absolute(str(row.final_path))
    if not path.is_file():
        findings.append(Finding("manifest row", row.manifest_row_id, f"its file {row.final_path} is gone"))
        return
    digest, size = hashlib.sha256(), 0
    with open_kept(path) as file:
        while block := file.read(_BLOCK_BYTES):
            digest.update(block)
            size += len(block)
    if (size, digest.hexdigest()) != (row.bytes, row.sha256):
        findings.append(
            Finding("manifest row", row.manifest_row_id, f"its file {row.final_path} has other bytes")
        )


__all__ = [
    "ITEM_BUCKETS",
    "STAGES",
    "UNIT_BUCKETS",
    "Account",
    "Finding",
    "Item",
    "ManifestInvalid",
    "Unit",
    "audit",
    "discovered",
    "read_items",
    "read_rows",
    "read_units",
    "unit_bucket",
]
