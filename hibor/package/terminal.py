"""`timing.json` and `terminal.json` of an item: written once, compared after reopening, read strictly
(design 9).

Rules of this file:
- Both files are written by one no-replace publish and read back; the caller gets their hash only after that.
- `terminal.json` is Z: it names the hashes of manifest line, delivery and timing (ruling R24), so that one
  file proves the whole package. `check_package` compares them with what is on disk.
- Keys stand in the order of design 9; an unknown, missing or misplaced key is an error that names the file.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import attrs

from hibor.durable import Durable, DurableError, FileFacts
from hibor.package.layout import ItemFolder
from hibor.package.manifest import Manifest
from hibor.quota.events import Head

SCHEMA_VERSION = 1


class PackageFileInvalid(Exception):
    """A package file that is not what it should be; the message names file and fault."""

    failure = "unexpected"

    def __init__(self, path: Path, what: str) -> None:
        super().__init__(f"{path.name}: {what}")
        self.path = path
        self.what = what


@attrs.frozen
class Stage:
    """When an item was in a state: seconds since the item began, and the lane that worked (`phone`,
    `host`).
    """

    state: str
    entered_s: float
    left_s: float | None
    lane: str


@attrs.frozen
class Timing:
    """`timing.json`. Durations in seconds, `started_at` ISO 8601 with offset."""

    run_id: str
    item_id: str
    deadline_s: float
    started_at: str
    stages: tuple[Stage, ...]
    phone_s: float
    host_s: float
    waited_s: float

    def to_bytes(self) -> bytes:
        """The file's bytes."""
        value = {"schema_version": SCHEMA_VERSION, **attrs.asdict(self)}
        value["stages"] = list(value["stages"])
        return _spell(value)


@attrs.frozen
class Terminal:
    """`terminal.json`. Hashes are null for package files the item does not have."""

    item: Mapping[str, Any] = attrs.field(hash=False)
    presence: str
    closure_variant: str
    source_state: str
    ledger_head: Head
    delivery_sha256: str | None
    timing_sha256: str | None
    manifest_line_sha256: str | None
    written_at: str

    def to_bytes(self) -> bytes:
        """The file's bytes."""
        value = {
            "schema_version": SCHEMA_VERSION,
            "item": dict(self.item),
            "presence": self.presence,
            "closure_variant": self.closure_variant,
            "source_state": self.source_state,
            "ledger_head": self.ledger_head.to_dict(),
            "delivery_sha256": self.delivery_sha256,
            "timing_sha256": self.timing_sha256,
            "manifest_line_sha256": self.manifest_line_sha256,
            "written_at": self.written_at,
        }
        return _spell(value)


def write_timing(path: Path, timing: Timing, durable: Durable, *, step: str) -> FileFacts:
    """Write T and compare it after reopening. Raises `DurableError`."""
    facts = durable.write_once(path, timing.to_bytes(), step=step)
    if read_timing(path, durable).to_bytes() != timing.to_bytes():
        raise DurableError("disk_uncertain", "U", step=step, path=path, detail="reads back as another timing")
    return facts


def write_terminal(
    path: Path, terminal: Terminal, durable: Durable, *, item_keys: tuple[str, ...], step: str
) -> FileFacts:
    """Write Z and compare it after reopening. `item_keys` are the 26 keys in order. Raises `DurableError`."""
    if tuple(terminal.item) != item_keys:
        raise ValueError("the public item does not have exactly its keys in order")
    facts = durable.write_once(path, terminal.to_bytes(), step=step)
    if read_terminal(path, durable, item_keys=item_keys).to_bytes() != terminal.to_bytes():
        raise DurableError(
            "disk_uncertain", "U", step=step, path=path, detail="reads back as another terminal"
        )
    return facts


def read_timing(path: Path, durable: Durable) -> Timing:
    """Read T strictly. Raises `PackageFileInvalid`, `DurableError` (N: not there, U: unreadable)."""
    value = _read(path, durable, ("schema_version", *(field.name for field in attrs.fields(Timing))))
    stage_keys = tuple(field.name for field in attrs.fields(Stage))
    stages = value.pop("stages")
    if not isinstance(stages, list):
        raise PackageFileInvalid(path, "stages is not a list")
    for stage in stages:
        if not isinstance(stage, dict) or tuple(stage) != stage_keys:
            raise PackageFileInvalid(path, "a stage has unknown, missing or misplaced keys")
        _check(path, stage, text=("state", "lane"), number=("entered_s",), number_or_null=("left_s",))
    _check(
        path,
        value,
        text=("run_id", "item_id", "started_at"),
        number=("deadline_s", "phone_s", "host_s", "waited_s"),
    )
    return Timing(**value, stages=tuple(Stage(**stage) for stage in stages))


def read_terminal(path: Path, durable: Durable, *, item_keys: tuple[str, ...]) -> Terminal:
    """Read Z strictly. Raises `PackageFileInvalid`, `DurableError` (N: not there, U: unreadable)."""
    value = _read(path, durable, ("schema_version", *(field.name for field in attrs.fields(Terminal))))
    item, head = value["item"], value["ledger_head"]
    if not isinstance(item, dict) or tuple(item) != item_keys:
        raise PackageFileInvalid(path, "item has unknown, missing or misplaced keys")
    if not isinstance(head, dict) or tuple(head) != ("count", "hash"):
        raise PackageFileInvalid(path, "ledger_head has unknown, missing or misplaced keys")
    try:
        value["ledger_head"] = Head.parse(f"{head['count']}:{head['hash']}")
    except ValueError as error:
        raise PackageFileInvalid(path, "ledger_head is not a head") from error
    _check(
        path,
        value,
        text=("presence", "closure_variant", "source_state", "written_at"),
        text_or_null=("delivery_sha256", "timing_sha256", "manifest_line_sha256"),
    )
    return Terminal(**value)


def check_package(folder: ItemFolder, terminal: Terminal, manifest: Manifest, durable: Durable) -> list[str]:
    """What on disk differs from the hashes in Z; empty when the package is whole (ruling R24)."""
    faults: list[str] = []
    for path, noted in ((folder.delivery, terminal.delivery_sha256), (folder.timing, terminal.timing_sha256)):
        found = None if durable.stat(path) is None else durable.facts(path).sha256
        if found != noted:
            faults.append(f"{path.name}: {_difference(found, noted)}")
    row = manifest.find(str(terminal.item["run_id"]), str(terminal.item["item_id"]))
    found = None if row is None else row.line_sha256
    if found != terminal.manifest_line_sha256:
        faults.append(f"{manifest.path.name}: {_difference(found, terminal.manifest_line_sha256)}")
    return faults


def _difference(found: str | None, noted: str | None) -> str:
    if found is None:
        return "is missing"
    return "is there, but was not noted" if noted is None else "differs from what was noted"


def _spell(value: Mapping[str, Any]) -> bytes:
    return (json.dumps(value, ensure_ascii=False, indent=2, allow_nan=False) + "\n").encode()


def _read(path: Path, durable: Durable, keys: tuple[str, ...]) -> dict[str, Any]:
    """The file's object without `schema_version`."""
    try:
        value = json.loads(durable.read_bytes(path).decode())
    except ValueError as error:
        raise PackageFileInvalid(path, "is not JSON") from error
    if not isinstance(value, dict) or tuple(value) != keys:
        raise PackageFileInvalid(path, "has unknown, missing or misplaced keys")
    if value.pop("schema_version") != SCHEMA_VERSION:
        raise PackageFileInvalid(path, "has an unknown schema_version")
    return value


def _check(
    path: Path,
    value: Mapping[str, Any],
    *,
    text: tuple[str, ...] = (),
    text_or_null: tuple[str, ...] = (),
    number: tuple[str, ...] = (),
    number_or_null: tuple[str, ...] = (),
) -> None:
    for key in (*text, *text_or_null, *number, *number_or_null):
        content = value[key]
        if content is None and key in (*text_or_null, *number_or_null):
            continue
        wanted = (str,) if key in (*text, *text_or_null) else (int, float)
        if not isinstance(content, wanted) or isinstance(content, bool):
            raise PackageFileInvalid(path, f"{key} has the wrong type")
