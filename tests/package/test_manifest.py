"""The manifest: exact keys, one row an item, faults named by line (design 9)."""

from __future__ import annotations

import errno
import hashlib
import json
import threading
from pathlib import Path

import attrs
import pytest

from hibor.clock import SystemClock
from hibor.durable import DurableError
from hibor.locks import Locks
from hibor.package.manifest import Manifest, ManifestInvalid, ManifestRow, row_id
from tests.durable_support import error, short
from tests.package.support import Desk, row

KEYS = [
    "schema_version",
    "manifest_row_id",
    "run_id",
    "item_id",
    "report_id",
    "source",
    "title",
    "institution",
    "date",
    "analysts",
    "stock_code",
    "stock_name",
    "industry",
    "report_type",
    "rating",
    "final_path",
    "bytes",
    "sha256",
    "page_count",
    "restricted",
    "match_basis",
    "quota_state",
    "reservation_event_id",
    "quota_terminal_event_id",
    "artifact_event_id",
    "at",
    "line_sha256",
]


@pytest.fixture
def desk(tmp_path: Path) -> Desk:
    return Desk(tmp_path)


def items(count: int) -> list[str]:
    return [f"{number:016x}" for number in range(count)]


def test_keys_ids_and_hash_are_the_format(desk: Desk) -> None:
    """Recomputed here from the design's words."""
    written = desk.manifest().append(row())
    line = (desk.folder / "manifest.jsonl").read_bytes().rstrip(b"\n")
    value = json.loads(line)
    assert list(value) == KEYS
    digest = hashlib.sha256(f"{value['run_id']}\n{value['item_id']}".encode()).hexdigest()
    assert value["manifest_row_id"] == f"m-{digest[:16]}"
    noted = value.pop("line_sha256")
    bare = json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode()
    assert noted == written.line_sha256 == hashlib.sha256(bare).hexdigest()


def test_lookup_by_item_report_path(desk: Desk) -> None:
    manifest = desk.manifest()
    for number, item in enumerate(items(4)):
        manifest.append(row(item, report_id=f"HB{number % 2}", final_path=f"reports/undated/{number}.pdf"))
    other = desk.manifest()
    assert [found.item_id for found in other.rows()] == items(4)
    assert [found.item_id for found in other.by_report("HB1")] == items(4)[1::2]
    assert [found.item_id for found in other.by_path("reports/undated/2.pdf")] == [items(4)[2]]
    found = other.find("20261130T000000Z-abcdef", items(4)[3])
    assert found is not None and found.report_id == "HB1"
    assert other.find("20261130T000000Z-abcdef", "f" * 16) is None


def test_the_same_row_again_returns_the_first(desk: Desk) -> None:
    first = desk.manifest().append(row())
    again = desk.manifest().append(row(at="2026-12-01T00:00:00.000+08:00"))
    assert again == first
    with pytest.raises(ManifestInvalid, match="another row"):
        desk.manifest().append(row(title="another"))
    with pytest.raises(ManifestInvalid, match="does not fit its run"):
        desk.manifest().append(row(manifest_row_id=row_id("x", "y")))
    assert len(desk.manifest().rows()) == 1


def test_every_damage_names_its_line(desk: Desk) -> None:
    manifest = desk.manifest()
    for item in items(5):
        manifest.append(row(item))
    path = desk.folder / "manifest.jsonl"
    data = path.read_bytes()
    lines = data.splitlines(keepends=True)
    start = len(lines[0]) + len(lines[1])
    for offset in range(len(lines[2])):
        at = start + offset
        path.write_bytes(data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :])
        with pytest.raises(ManifestInvalid) as raised:
            desk.manifest().rows()
        assert raised.value.line == 3
    path.write_bytes(b"".join([*lines[:3], lines[2], *lines[3:]]))
    with pytest.raises(ManifestInvalid, match="second row") as doubled:
        desk.manifest().rows()
    assert doubled.value.line == 4


@pytest.mark.parametrize(
    "changes",
    [
        {"bytes": "12"},
        {"bytes": -1},
        {"restricted": 1},
        {"analysts": ["a", 1]},
        {"title": 5},
        {"run_id": None},
    ],
)
def test_wrong_types_are_refused_before_anything_is_written(desk: Desk, changes: dict[str, object]) -> None:
    wrong = attrs.evolve(row(), **changes)  # type: ignore[arg-type]
    if "run_id" in changes:
        wrong = attrs.evolve(wrong, manifest_row_id=row_id("None", wrong.item_id))
    with pytest.raises(ManifestInvalid):
        desk.manifest().append(wrong)
    assert not (desk.folder / "manifest.jsonl").exists()


@pytest.mark.parametrize("tail", [b'{"schema_version":1,"mani', b"\0" * 100])
def test_unfinished_last_row(desk: Desk, tail: bytes) -> None:
    desk.manifest().append(row())
    path = desk.folder / "manifest.jsonl"
    whole = path.read_bytes()
    path.write_bytes(whole + tail)
    manifest = desk.manifest()
    assert len(manifest.rows()) == 1
    with pytest.raises(ManifestInvalid, match="recovery"):
        manifest.append(row("1" * 16))
    moved = manifest.move_unfinished()
    assert moved is not None and moved.side.read_bytes() == tail
    manifest.append(row("1" * 16))
    assert path.read_bytes().startswith(whole)
    assert len(desk.manifest().rows()) == 2


def test_full_disk_then_space_and_doubt(desk: Desk) -> None:
    manifest = desk.manifest()
    manifest.append(row())
    desk.fs.fail("write", short(9))
    with pytest.raises(DurableError) as raised:
        manifest.append(row("1" * 16))
    assert raised.value.known == "N"
    manifest.append(row("1" * 16))
    desk.fs.fail("fsync", error(errno.EIO))
    with pytest.raises(DurableError) as doubtful:
        manifest.append(row("2" * 16))
    assert doubtful.value.known == "U"
    with pytest.raises(ManifestInvalid, match="doubt"):
        manifest.append(row("3" * 16))


def test_several_writers(desk: Desk) -> None:
    locks = Locks(desk.durable, SystemClock(), manifest_limit_s=60.0)

    def write(part: list[str]) -> None:
        manifest = Manifest(desk.folder / "manifest.jsonl", desk.durable, locks)
        for item in part:
            manifest.append(row(item))

    everything = items(60)
    threads = [threading.Thread(target=write, args=(everything[first::3],)) for first in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(found.item_id for found in desk.manifest().rows()) == everything


def test_absent_values_are_null(desk: Desk) -> None:
    bare = row(
        analysts=None, title=None, final_path=None, bytes=None, sha256=None, page_count=None, restricted=None
    )
    assert desk.manifest().append(bare).same_but_time(bare)
    assert isinstance(desk.manifest().rows()[0], ManifestRow)
