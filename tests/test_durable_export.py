"""Files a person names: whole or not there, never in place of another one unless asked."""

from __future__ import annotations

from pathlib import Path
from typing import BinaryIO

import pytest

from hibor.clock import SystemClock
from hibor.durable import Durable, DurableError, FileAlreadyThere, UnknownStep
from hibor.durable_fs import OsFileSystem

STEP = "export.write"


@pytest.fixture
def durable() -> Durable:
    return Durable(OsFileSystem(), SystemClock(), frozenset({STEP}))


def test_fill_may_seek_and_read_back(durable: Durable, tmp_path: Path) -> None:
    def fill(stream: BinaryIO) -> None:
        stream.write(b"....body")
        stream.seek(0)
        assert stream.read(4) == b"...."
        stream.seek(0)
        stream.write(b"head")

    facts = durable.export(tmp_path / "a.bin", fill, step=STEP)
    assert (tmp_path / "a.bin").read_bytes() == b"headbody" and facts.size_bytes == 8
    assert [path.name for path in tmp_path.iterdir()] == ["a.bin"]


def test_an_existing_file_stays_unless_replacing_is_asked_for(durable: Durable, tmp_path: Path) -> None:
    path = tmp_path / "a.bin"
    path.write_bytes(b"old")
    with pytest.raises(FileAlreadyThere):
        durable.export(path, lambda stream: None, step=STEP)
    assert path.read_bytes() == b"old"

    def fill(stream: BinaryIO) -> None:
        stream.write(b"new")

    durable.export(path, fill, step=STEP, replace=True)
    assert path.read_bytes() == b"new"


def test_a_failed_fill_leaves_old_file_and_no_rest(durable: Durable, tmp_path: Path) -> None:
    path = tmp_path / "a.bin"
    path.write_bytes(b"old")

    def fail(stream: BinaryIO) -> None:
        stream.write(b"half")
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        durable.export(path, fail, step=STEP, replace=True)
    assert path.read_bytes() == b"old" and [one.name for one in tmp_path.iterdir()] == ["a.bin"]


def test_a_folder_that_is_not_there_is_said(durable: Durable, tmp_path: Path) -> None:
    with pytest.raises(DurableError) as caught:
        durable.export(tmp_path / "none" / "a.bin", lambda stream: None, step=STEP)
    assert caught.value.known == "N"


def test_step_must_be_registered(durable: Durable, tmp_path: Path) -> None:
    with pytest.raises(UnknownStep):
        durable.export(tmp_path / "a", lambda stream: None, step="export.unknown")
