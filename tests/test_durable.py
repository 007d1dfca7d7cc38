"""Durable lines, files and sinks under faults, on real files through the seam (design 4, faults F65, F87)."""

from __future__ import annotations

import errno
import hashlib
import os
import stat
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from hibor.durable import Durable, DurableError, FileAlreadyThere, FileFacts, UnknownStep
from hibor.durable_fs import APPEND_FLAGS, OsFileSystem
from tests.durable_support import FaultyFileSystem, error, short
from tests.quota.support import SetClock

STEP = "test.step"
OTHER = "test.other"


@pytest.fixture
def fs() -> FaultyFileSystem:
    return FaultyFileSystem()


@pytest.fixture
def durable(fs: FaultyFileSystem) -> Durable:
    return Durable(fs, SetClock(), frozenset({STEP, OTHER}))


def sha256(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


# ---- names of steps ------------------------------------------------------------------------------------


def test_unknown_step_raises_before_anything_is_written(durable: Durable, tmp_path: Path) -> None:
    path = tmp_path / "lines"
    calls: list[Callable[[], object]] = [
        lambda: durable.append_line(path, b"x", step="no.such"),
        lambda: durable.write_once(path, b"x", step="no.such"),
        lambda: durable.publish(path, tmp_path / "y", step="no.such"),
        lambda: durable.remove(path, step="no.such"),
        lambda: durable.make_folders(tmp_path / "a", step="no.such"),
        lambda: durable.open_sink(path, step="no.such"),
        lambda: durable.move_unfinished_tail(path, step="no.such"),
        lambda: durable.probe_publish(tmp_path, tmp_path, step="no.such"),
        lambda: durable.leave_note(path, "x", step="no.such"),
    ]
    for call in calls:
        with pytest.raises(UnknownStep):
            call()
    assert list(tmp_path.iterdir()) == []


# ---- append --------------------------------------------------------------------------------------------


def test_append_order_of_calls(durable: Durable, fs: FaultyFileSystem, tmp_path: Path) -> None:
    durable.append_line(tmp_path / "lines", b"one", step=STEP)
    assert fs.order("begin", "write", "fsync", "close", "fsync_dir", "read", "end") == [
        f"begin {STEP}",
        "write lines",
        "fsync lines",
        "close lines",
        f"fsync_dir {tmp_path.name}",
        "read lines",
        "close lines",
        f"end {STEP}",
    ]
    fs.log.clear()
    second = durable.append_line(tmp_path / "lines", b"two", step=STEP)
    assert (second.offset_bytes, second.size_bytes, second.file.st_size) == (4, 4, 8)
    assert fs.order("fsync_dir") == []
    assert (tmp_path / "lines").read_bytes() == b"one\ntwo\n"


@pytest.mark.parametrize("line", [b"", b"a\nb", b"\n"])
def test_append_refuses_what_is_not_one_line(durable: Durable, tmp_path: Path, line: bytes) -> None:
    with pytest.raises(ValueError, match="line"):
        durable.append_line(tmp_path / "lines", line, step=STEP)


@pytest.mark.parametrize(
    "fault", [short(3), short(0), error(errno.ENOSPC), error(errno.EIO), error(errno.EDQUOT)]
)
def test_failed_write_is_cut_back_and_the_next_append_survives(
    durable: Durable, fs: FaultyFileSystem, tmp_path: Path, fault: Any
) -> None:
    """F87: a prefix stays after ENOSPC, and the next acknowledged append vanishes on reopen."""
    path = tmp_path / "lines"
    durable.append_line(path, b"first", step=STEP)
    fs.log.clear()
    fs.fail("write", fault)
    with pytest.raises(DurableError) as raised:
        durable.append_line(path, b"second", step=STEP)
    assert (raised.value.known, raised.value.failure) == ("N", "disk_failed")
    assert fs.order("write", "truncate", "fsync") == ["write lines", "truncate lines", "fsync lines"]
    assert path.read_bytes() == b"first\n"
    durable.append_line(path, b"third", step=STEP)
    assert path.read_bytes() == b"first\nthird\n"


@pytest.mark.parametrize("call", ["truncate", "fsync"])
def test_a_cut_back_that_fails_is_unknown(
    durable: Durable, fs: FaultyFileSystem, tmp_path: Path, call: str
) -> None:
    durable.append_line(tmp_path / "lines", b"first", step=STEP)
    fs.fail("write", short(3))
    fs.fail(call, error(errno.EIO))
    with pytest.raises(DurableError) as raised:
        durable.append_line(tmp_path / "lines", b"second", step=STEP)
    assert (raised.value.known, raised.value.failure) == ("U", "disk_uncertain")


def test_a_failed_fsync_is_unknown_and_never_repeated(
    durable: Durable, fs: FaultyFileSystem, tmp_path: Path
) -> None:
    fs.fail("fsync", error(errno.EIO))
    with pytest.raises(DurableError) as raised:
        durable.append_line(tmp_path / "lines", b"one", step=STEP)
    assert raised.value.known == "U"
    assert fs.order("fsync", "truncate") == ["fsync lines"]
    assert fs.order("end") == []


@pytest.mark.parametrize(
    ("call", "fault"),
    [
        ("close", error(errno.EIO)),
        ("fsync_dir", error(errno.EIO)),
        ("fsync_dir", error(errno.ENOSPC)),
        ("read", lambda _fs, descriptor, size: os.read(descriptor, size)[:-1] + b"?"),
        ("read", error(errno.EIO)),
    ],
)
def test_what_cannot_be_read_back_is_unknown(
    durable: Durable, fs: FaultyFileSystem, tmp_path: Path, call: str, fault: Any
) -> None:
    fs.fail(call, fault)
    with pytest.raises(DurableError) as raised:
        durable.append_line(tmp_path / "lines", b"one", step=STEP)
    assert raised.value.known == "U"


@pytest.mark.parametrize("number", [errno.EACCES, errno.EROFS, errno.EMFILE])
def test_append_that_cannot_open_is_known(
    durable: Durable, fs: FaultyFileSystem, tmp_path: Path, number: int
) -> None:
    fs.fail("open", error(number))
    with pytest.raises(DurableError) as raised:
        durable.append_line(tmp_path / "lines", b"one", step=STEP)
    assert raised.value.known == "N"
    assert not (tmp_path / "lines").exists()


def test_append_never_glues_onto_an_unfinished_line(durable: Durable, tmp_path: Path) -> None:
    path = tmp_path / "lines"
    path.write_bytes(b"whole\nhal")
    with pytest.raises(DurableError) as raised:
        durable.append_line(path, b"next", step=STEP)
    assert raised.value.known == "N"
    assert path.read_bytes() == b"whole\nhal"


@pytest.mark.skipif(sys.platform == "win32", reason="no FIFOs or links there")
def test_append_neither_follows_a_link_nor_waits_for_a_fifo(durable: Durable, tmp_path: Path) -> None:
    """F65: our own open must not hang or write elsewhere."""
    target = tmp_path / "target"
    target.write_bytes(b"kept\n")
    (tmp_path / "link").symlink_to(target)
    os.mkfifo(tmp_path / "fifo")
    for name in ("link", "fifo"):
        with pytest.raises(DurableError) as raised:
            durable.append_line(tmp_path / name, b"x", step=STEP)
        assert raised.value.known == "N"
        with pytest.raises(DurableError) as refused:
            durable.facts(tmp_path / name)
        assert refused.value.failure == "not_regular"
    assert target.read_bytes() == b"kept\n"


def test_windows_sharing_violation_is_waited_for_two_seconds(
    durable: Durable, fs: FaultyFileSystem, tmp_path: Path
) -> None:
    violation = PermissionError(errno.EACCES, "used by another process")
    violation.winerror = 32  # type: ignore[attr-defined,unused-ignore]
    path = tmp_path / "lines"
    durable.append_line(path, b"one", step=STEP)
    fs.fail("open", *[violation] * 20)
    durable.append_line(path, b"two", step=STEP)
    assert path.read_bytes() == b"one\ntwo\n"
    fs.fail("open", *[violation] * 1000)
    with pytest.raises(DurableError) as raised:
        durable.append_line(path, b"three", step=STEP)
    assert raised.value.known == "N"
    tries = 1000 - len(fs.faults["open"])
    assert 40 <= tries <= 42, "two seconds at 50 ms a try"


# ---- write once ----------------------------------------------------------------------------------------


def test_write_once_order_and_facts(durable: Durable, fs: FaultyFileSystem, tmp_path: Path) -> None:
    facts = durable.write_once(tmp_path / "a.json", b"data", step=STEP)
    assert facts == FileFacts(4, sha256(b"data"))
    assert fs.order("write", "fsync", "link", "fsync_dir", "read")[:5] == [
        "write a.json.tmp",
        "fsync a.json.tmp",
        "link a.json",
        f"fsync_dir {tmp_path.name}",
        "read a.json",
    ]
    assert [path.name for path in tmp_path.iterdir()] == ["a.json"]


def test_write_once_never_replaces(durable: Durable, tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    path.write_bytes(b"old")
    with pytest.raises(FileAlreadyThere) as raised:
        durable.write_once(path, b"new", step=STEP)
    assert raised.value.known == "N"
    assert path.read_bytes() == b"old"
    assert [found.name for found in tmp_path.iterdir()] == ["a.json"]


def test_write_once_replaces_only_its_own_leftover(durable: Durable, tmp_path: Path) -> None:
    (tmp_path / "a.json.tmp").write_bytes(b"half of an earlier try")
    durable.write_once(tmp_path / "a.json", b"new", step=STEP)
    assert [found.name for found in tmp_path.iterdir()] == ["a.json"]


@pytest.mark.parametrize(
    ("call", "fault", "known", "there"),
    [
        ("open", error(errno.EROFS), "N", False),
        ("write", error(errno.ENOSPC), "N", False),
        ("write", short(0), "N", False),
        ("fsync", error(errno.EIO), "U", False),
        ("fsync_dir", error(errno.EIO), "U", True),
        ("read", lambda _fs, descriptor, size: b"", "U", True),
    ],
)
def test_write_once_faults(
    durable: Durable, fs: FaultyFileSystem, tmp_path: Path, call: str, fault: Any, known: str, there: bool
) -> None:
    fs.fail(call, fault)
    with pytest.raises(DurableError) as raised:
        durable.write_once(tmp_path / "a.json", b"data", step=STEP)
    assert raised.value.known == known
    assert (tmp_path / "a.json").exists() is there


# ---- remove, folders, sink -----------------------------------------------------------------------------


def test_remove_fsyncs_the_folder(durable: Durable, fs: FaultyFileSystem, tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"a")
    assert durable.remove(tmp_path / "a", step=STEP)
    assert fs.order("unlink", "fsync_dir") == ["unlink a", f"fsync_dir {tmp_path.name}"]
    assert not durable.remove(tmp_path / "a", step=STEP)
    fs.fail("unlink", error(errno.EACCES))
    with pytest.raises(DurableError) as raised:
        durable.remove(tmp_path / "a", step=STEP)
    assert raised.value.known == "N"


def test_make_folders_fsyncs_each_parent(durable: Durable, fs: FaultyFileSystem, tmp_path: Path) -> None:
    durable.make_folders(tmp_path / "a" / "b", step=STEP)
    assert fs.order("mkdir", "fsync_dir") == [
        "mkdir a",
        f"fsync_dir {tmp_path.name}",
        "mkdir b",
        "fsync_dir a",
    ]
    fs.log.clear()
    durable.make_folders(tmp_path / "a" / "b", step=STEP)
    assert fs.order("mkdir") == []
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(DurableError, match="not a folder"):
        durable.make_folders(tmp_path / "file" / "c", step=STEP)


def test_sink_streams_and_proves(durable: Durable, fs: FaultyFileSystem, tmp_path: Path) -> None:
    path = tmp_path / "staging.pdf"
    path.write_bytes(b"left over from a killed pull")
    with durable.open_sink(path, step=STEP) as sink:
        assert path.read_bytes() == b"", "a leftover is never trusted (F07)"
        sink.write(b"%PDF-")
        sink.write(b"1.7")
        facts = sink.finish(step=OTHER)
    assert facts == FileFacts(8, sha256(b"%PDF-1.7"))
    assert fs.order("fsync", "end") == [f"end {STEP}", "fsync staging.pdf", f"end {OTHER}"]


def test_sink_takes_short_writes_and_reports_a_full_disk(
    durable: Durable, fs: FaultyFileSystem, tmp_path: Path
) -> None:
    sink = durable.open_sink(tmp_path / "staging.pdf", step=STEP)
    fs.fail("write", short(2))
    sink.write(b"abcdef")
    assert (tmp_path / "staging.pdf").read_bytes() == b"abcdef"
    fs.fail("write", error(errno.ENOSPC))
    with pytest.raises(DurableError) as raised:
        sink.write(b"more")
    assert (raised.value.known, raised.value.failure) == ("N", "disk_failed")
    with pytest.raises(ValueError, match="closed"):
        sink.finish(step=OTHER)


@pytest.mark.parametrize(
    ("call", "fault"),
    [("fsync", error(errno.EIO)), ("read", lambda _fs, descriptor, size: os.read(descriptor, size)[1:])],
)
def test_sink_that_cannot_prove_its_bytes_is_unknown(
    durable: Durable, fs: FaultyFileSystem, tmp_path: Path, call: str, fault: Any
) -> None:
    sink = durable.open_sink(tmp_path / "staging.pdf", step=STEP)
    sink.write(b"abc")
    fs.fail(call, fault)
    with pytest.raises(DurableError) as raised:
        sink.finish(step=OTHER)
    assert raised.value.known == "U"


# ---- unfinished last line ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("content", "kept"),
    [
        (b"one\ntw", b"one\n"),
        (b"one\n" + b"\0" * 40, b"one\n"),
        (b"one\n\0\0two\n", b"one\n"),
        (b"{", b""),
        (b"x" * 70_000 + b"\nhalf", b"x" * 70_000 + b"\n"),
        (b"one\n" + b"y" * 200_000, b"one\n"),
    ],
)
def test_unfinished_last_line_moves_aside(
    durable: Durable, tmp_path: Path, content: bytes, kept: bytes
) -> None:
    path = tmp_path / "lines"
    path.write_bytes(content)
    assert durable.has_unfinished_tail(path)
    moved = durable.move_unfinished_tail(path, step=STEP)
    assert moved is not None
    assert path.read_bytes() == kept
    assert moved.side.read_bytes() == content[len(kept) :]
    assert not durable.has_unfinished_tail(path)
    assert durable.move_unfinished_tail(path, step=STEP) is None


@pytest.mark.parametrize("content", [b"", b"one\n", b"one\ntwo\n", b"z" * 100_000 + b"\n"])
def test_whole_lines_are_left_alone(durable: Durable, tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "lines"
    path.write_bytes(content)
    assert durable.move_unfinished_tail(path, step=STEP) is None
    assert path.read_bytes() == content
    assert durable.move_unfinished_tail(tmp_path / "missing", step=STEP) is None


def test_crash_between_side_file_and_cut_ends_in_the_same_bytes(
    durable: Durable, fs: FaultyFileSystem, tmp_path: Path
) -> None:
    path = tmp_path / "lines"
    path.write_bytes(b"one\nha")
    fs.fail("truncate", error(errno.EIO))
    with pytest.raises(DurableError) as raised:
        durable.move_unfinished_tail(path, step=STEP)
    assert raised.value.known == "U"
    moved = durable.move_unfinished_tail(path, step=STEP)
    assert moved is not None
    assert sorted(found.name for found in tmp_path.iterdir()) == ["lines", moved.side.name]


def test_descriptors_are_not_inherited(tmp_path: Path) -> None:
    fs = OsFileSystem()
    descriptor = fs.open(tmp_path / "a", APPEND_FLAGS | os.O_CREAT)
    try:
        assert not os.get_inheritable(descriptor)
        assert stat.S_ISREG(fs.fstat(descriptor).st_mode)
    finally:
        fs.close(descriptor)
