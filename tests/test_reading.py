"""Reading the library's own files: only a regular file counts, and nothing is ever waited for."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from hibor.reading import first_line, read_kept, read_named


def _link(path: Path) -> None:
    other = path.with_name("other")
    other.write_bytes(b"something else\n")
    path.symlink_to(other)


@pytest.mark.parametrize(
    "make",
    [lambda path: path.mkdir(), _link, lambda path: path.symlink_to("nowhere"), lambda path: os.mkfifo(path)],
    ids=["folder", "link", "dangling link", "fifo"],
)
@pytest.mark.skipif(os.name == "nt", reason="links and FIFOs of POSIX")
def test_what_is_no_file_is_refused_at_once(tmp_path: Path, make: Callable[[Path], None]) -> None:
    path = tmp_path / "kept"
    make(path)
    with pytest.raises(OSError) as caught:
        read_kept(path)
    assert not isinstance(caught.value, FileNotFoundError), "something lies there"
    assert caught.value.strerror and caught.value.filename == str(path)


def test_nothing_there_is_told_apart(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        read_kept(tmp_path / "kept")


def test_bytes_and_first_line(tmp_path: Path) -> None:
    path = tmp_path / "kept"
    path.write_bytes(b"one\ntwo")
    assert (read_kept(path), first_line(path)) == (b"one\ntwo", b"one\n")


def test_a_named_file_has_a_limit(tmp_path: Path) -> None:
    path = tmp_path / "named"
    path.write_bytes(b"12345")
    assert read_named(path, 5) == b"12345"
    with pytest.raises(OSError, match="longer than"):
        read_named(path, 4)


@pytest.mark.skipif(not os.path.exists("/dev/zero"), reason="devices of POSIX")
def test_a_named_device_is_not_read_for_ever() -> None:
    with pytest.raises(OSError, match="longer than"):
        read_named(Path("/dev/zero"), 1000)
