"""`timing.json` and `terminal.json`: written once, compared, strict (design 9, ruling R24)."""

from __future__ import annotations

import errno
import json
from pathlib import Path
from typing import Any

import attrs
import pytest

from generated.terminal import KEYS as ITEM_KEYS
from hibor.durable import DurableError, FileAlreadyThere
from hibor.package.layout import ItemFolder
from hibor.package.terminal import (
    PackageFileInvalid,
    Stage,
    Terminal,
    Timing,
    check_package,
    read_terminal,
    read_timing,
    write_terminal,
    write_timing,
)
from hibor.quota.events import Head
from tests.durable_support import error
from tests.package.support import STEP, Desk, row

TIMING = Timing(
    run_id="20261130T000000Z-abcdef",
    item_id="0" * 16,
    deadline_s=600,
    started_at="2026-11-30T08:31:05.120+08:00",
    stages=(Stage("x", 0.0, 1.5, "phone"), Stage("y", 1.5, None, "host")),
    phone_s=1.5,
    host_s=0.25,
    waited_s=0.0,
)


@pytest.fixture
def desk(tmp_path: Path) -> Desk:
    return Desk(tmp_path)


def terminal(**changes: Any) -> Terminal:
    item: dict[str, Any] = dict.fromkeys(ITEM_KEYS)
    item |= {"run_id": TIMING.run_id, "item_id": TIMING.item_id, "analysts": ("张三",)}
    values: dict[str, Any] = {
        "item": item,
        "presence": "NVVVVVVV",
        "closure_variant": "variant",
        "source_state": "state",
        "ledger_head": Head(3, "a" * 64),
        "delivery_sha256": None,
        "timing_sha256": None,
        "manifest_line_sha256": None,
        "written_at": "2026-11-30T08:31:05.120+08:00",
    }
    return Terminal(**(values | changes))


def write(desk: Desk, value: Terminal) -> Path:
    path = desk.folder / "terminal.json"
    write_terminal(path, value, desk.durable, item_keys=ITEM_KEYS, step=STEP)
    return path


def test_timing_round_trip_and_keys(desk: Desk) -> None:
    path = desk.folder / "timing.json"
    facts = write_timing(path, TIMING, desk.durable, step=STEP)
    assert facts == desk.durable.facts(path)
    assert read_timing(path, desk.durable) == TIMING
    value = json.loads(path.read_bytes())
    assert list(value) == (
        [
            "schema_version",
            "run_id",
            "item_id",
            "deadline_s",
            "started_at",
            "stages",
            "phone_s",
            "host_s",
            "waited_s",
        ]
    )
    assert list(value["stages"][0]) == ["state", "entered_s", "left_s", "lane"]


def test_terminal_round_trip_and_keys(desk: Desk) -> None:
    path = write(desk, terminal())
    read = read_terminal(path, desk.durable, item_keys=ITEM_KEYS)
    assert read.to_bytes() == terminal().to_bytes() == path.read_bytes()
    assert list(json.loads(path.read_bytes())) == [
        "schema_version",
        "item",
        "presence",
        "closure_variant",
        "source_state",
        "ledger_head",
        "delivery_sha256",
        "timing_sha256",
        "manifest_line_sha256",
        "written_at",
    ]


def test_terminal_is_never_replaced(desk: Desk) -> None:
    path = write(desk, terminal())
    before = path.read_bytes()
    with pytest.raises(FileAlreadyThere):
        write(desk, terminal(presence="NNNNNNNV"))
    assert path.read_bytes() == before


@pytest.mark.parametrize(("call", "known"), [("write", "N"), ("fsync", "U"), ("fsync_dir", "U")])
def test_failed_terminal(desk: Desk, call: str, known: str) -> None:
    desk.fs.fail(call, error(errno.EIO))
    with pytest.raises(DurableError) as raised:
        write(desk, terminal())
    assert raised.value.known == known


def test_an_item_with_other_keys_is_refused(desk: Desk) -> None:
    item = dict(terminal().item)
    for wrong in ({**item, "more": 1}, dict(reversed(item.items())), {}):
        with pytest.raises(ValueError, match="exactly its keys"):
            write(desk, terminal(item=wrong))
    assert list(desk.folder.iterdir()) == []


@pytest.mark.parametrize(
    "change",
    [
        {"schema_version": 2},
        {"presence": None},
        {"ledger_head": {"count": 1}},
        {"ledger_head": {"count": -1, "hash": "a" * 64}},
        {"delivery_sha256": 7},
        {"item": {}},
        {"unknown": 1},
    ],
)
def test_strict_reading(desk: Desk, change: dict[str, Any]) -> None:
    path = write(desk, terminal())
    path.write_text(json.dumps(json.loads(path.read_bytes()) | change))
    with pytest.raises(PackageFileInvalid):
        read_terminal(path, desk.durable, item_keys=ITEM_KEYS)


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b"null", b"\xff"])
def test_what_is_no_document(desk: Desk, content: bytes) -> None:
    for name in ("terminal.json", "timing.json"):
        (desk.folder / name).write_bytes(content)
    with pytest.raises(PackageFileInvalid):
        read_terminal(desk.folder / "terminal.json", desk.durable, item_keys=ITEM_KEYS)
    with pytest.raises(PackageFileInvalid):
        read_timing(desk.folder / "timing.json", desk.durable)


def test_the_package_is_compared_with_what_z_noted(desk: Desk) -> None:
    folder = ItemFolder(desk.folder)
    manifest = desk.manifest()
    line = manifest.append(row(TIMING.item_id)).line_sha256
    timing = write_timing(folder.timing, TIMING, desk.durable, step=STEP).sha256
    delivery = desk.durable.write_once(folder.delivery, b"# delivered\n", step=STEP).sha256
    noted = terminal(delivery_sha256=delivery, timing_sha256=timing, manifest_line_sha256=line)
    assert check_package(folder, noted, manifest, desk.durable) == []
    folder.delivery.write_bytes(b"# altered\n")
    folder.timing.unlink()
    other = attrs.evolve(noted, manifest_line_sha256=None)
    assert check_package(folder, other, manifest, desk.durable) == [
        "delivery.md: differs from what was noted",
        "timing.json: is missing",
        "manifest.jsonl: is there, but was not noted",
    ]
