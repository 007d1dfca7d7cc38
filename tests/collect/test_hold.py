"""The hold on an account: fails closed whatever lies in its place, durable once anybody relies on it."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from hibor.clock import SystemClock
from hibor.collect.hold import clear_hold, hold_path, read_hold, set_hold
from hibor.durable import Durable
from hibor.durable_fs import OsFileSystem

STEPS = frozenset({"hold.write", "hold.remove"})
AT = "2026-12-01T09:00:00.000+08:00"


class Counting(OsFileSystem):
    """The real disk, and which folders were put on stable storage."""

    def __init__(self) -> None:
        self.synced: list[Path] = []

    def fsync_dir(self, path: Path) -> None:
        self.synced.append(path)
        super().fsync_dir(path)


def disk(system: OsFileSystem) -> Durable:
    return Durable(system, SystemClock(), STEPS)


def test_a_hold_is_read_and_cleared(tmp_path: Path) -> None:
    durable = disk(OsFileSystem())
    assert read_hold(tmp_path) is None
    set_hold(tmp_path, durable, code="ACCESS_CONTROL_PRESENT", detail="a wall", at=AT)
    set_hold(tmp_path, durable, code="ACCESS_CONTROL_PRESENT", detail="another", at=AT)
    assert "a wall" in (read_hold(tmp_path) or "")
    assert clear_hold(tmp_path, durable) and read_hold(tmp_path) is None


def test_a_hold_that_is_there_is_made_durable(tmp_path: Path) -> None:
    """A process that was killed while it set the hold may not have put its name on stable storage."""
    folder = tmp_path / "team-a"
    folder.mkdir()
    hold_path(folder).write_bytes(b'{"schema_version":1,"at":"now","code":"X","detail":"first"}\n')
    system = Counting()
    set_hold(folder, disk(system), code="ACCESS_CONTROL_PRESENT", detail="second", at=AT)
    assert folder in system.synced
    assert "first" in (read_hold(folder) or "")


@pytest.mark.skipif(os.name == "nt", reason="links and FIFOs of POSIX")
@pytest.mark.parametrize("shape", ["dangling link", "fifo", "folder", "junk"])
def test_what_cannot_be_read_holds(tmp_path: Path, shape: str) -> None:
    path = hold_path(tmp_path)
    if shape == "dangling link":
        path.symlink_to("nowhere")
    elif shape == "fifo":
        os.mkfifo(path)
    elif shape == "folder":
        path.mkdir()
    else:
        path.write_bytes(b"{")
    assert "cannot be read" in (read_hold(tmp_path) or "")
