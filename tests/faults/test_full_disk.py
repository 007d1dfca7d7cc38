"""A disk that is full: nothing is paid for that cannot be kept; what was paid for already waits for room.

The run on a really full file system needs a private one, which not every machine lets a test mount; the other
tests of this folder let every single call fail with ENOSPC.
"""

from __future__ import annotations

import errno
import json
import os
import shutil
import subprocess
import sys
from collections import namedtuple
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from hibor.collect.stops import unusable
from hibor.durable import DurableError
from hibor.locks import LockUnusable
from hibor.messages import reason_text
from tests.faults.plays import ALWAYS
from tests.faults.test_commands import DEEP, ENVIRONMENT, UNHURRIED, ledger_types, run, served, tree
from tests.faults.theatre import Theatre
from tests.faults.world import open_world

SIZE_BYTES = 3_000_000
CARELESS = """
import sys
from hibor.items.effects import reserve
reserve.LEAST_FREE_BYTES = 0
from hibor.run import main
sys.exit(main(sys.argv[1:]))
"""
"""A run that does not look at the room first, so that the disk fills after the download is paid for."""


def test_nothing_is_reserved_on_a_full_disk(theatre: Theatre, monkeypatch: pytest.MonkeyPatch) -> None:
    room, phone = theatre.room(), theatre.phones[ALWAYS]
    taps = phone.trigger_taps
    world = open_world(room, phone, theatre.at)
    usage = namedtuple("usage", "total used free")(10**9, 10**9 - 1_500_000, 1_500_000)
    monkeypatch.setattr("hibor.items.effects.reserve.shutil.disk_usage", lambda path: usage)
    item = world.item(theatre.spare[0], "NEW_TRIGGER")
    result = item.run_host()
    world.close()
    assert (result.code, result.item["quota_state"], result.closed) == ("TASK_SPEC_INVALID", "NONE", True)
    assert "1.5 MB are free" in (result.detail or "")
    assert phone.trigger_taps == taps
    shutil.rmtree(room)


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of a few megabytes."""
    folder = tmp_path / "small"
    folder.mkdir()
    tool = shutil.which("mount")
    options = ["-t", "tmpfs", "-o", f"size={SIZE_BYTES}"]
    done = tool and subprocess.run([tool, *options, "tmpfs", str(folder)], capture_output=True, check=False)
    if not done or done.returncode:
        pytest.skip("no file system can be mounted here")
    try:
        yield folder
    finally:
        subprocess.run(["umount", str(folder)], check=True)


@pytest.mark.skipif(not DEEP, reason="four whole runs; HIBOR_DEEP=1")
def test_a_run_on_a_disk_that_fills_is_finished_when_there_is_room(small_disk: Path, tmp_path: Path) -> None:
    library, phone, filler = small_disk / "library", tmp_path / "phone", small_disk / "other.bin"
    for folder in (library, phone):
        folder.mkdir()
    (library / "sim-phone").symlink_to(phone)  # the practice phone's own files are on another disk
    filler.write_bytes(bytes(SIZE_BYTES - 1_600_000))
    done = subprocess.run(
        [sys.executable, "-c", CARELESS, "--library", str(library), "--count", "5", *UNHURRIED],
        capture_output=True,
        env={**ENVIRONMENT, "HIBOR_LANG": "en"},
        check=False,
    )
    document = json.loads(done.stdout)
    kept = [item for item in document["items"] if item["state"] != "P10_CLOSED"]
    assert (done.returncode, document["status"], len(kept)) == (10, "PARTIAL", 1), done.stderr
    assert "No space left on device" in document["stop_reason"]["detail"]
    report, charged = kept[0]["report_id"], served(library)
    assert charged[report] == 1
    # A second run on the full disk begins nothing and changes nothing.
    with suppress(OSError), (small_disk / "last.bin").open("wb", buffering=0) as last:
        while last.write(bytes(4096)):
            pass
    before = tree(library)
    code, document, _said = run("--library", str(library), "--count", "5", *UNHURRIED)
    assert (code, document["status"]) == (64, "TASK_INVALID"), document
    assert "No space left on device" in document["stop_reason"]["detail"]
    assert tree(library) == before
    filler.unlink()
    (small_disk / "last.bin").unlink()
    code, document, said = run("--library", str(library), "--json", *UNHURRIED[:2], module="hibor.recover")
    assert (code, [item["status"] for item in document["recovered"]]) == (0, ["SUCCESS"]), said
    assert ledger_types(library, report) == ["RESERVED", "CONFIRMED", "ARTIFACT_SUCCESS"]
    assert served(library) == charged
    assert not [name for name in os.listdir(library) if name.startswith(".probe")]


@pytest.mark.parametrize("lang, words", [("en", "the disk is full: "), ("zh", "磁盘已满：")])
def test_a_full_disk_is_told_with_its_place_and_what_is_left(tmp_path: Path, lang: str, words: str) -> None:
    """Whatever error it came wrapped in, and although the code is that of an unusable library."""
    full = OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
    wrapped = DurableError("disk_failed", "N", step="library.folder", path=tmp_path / "x", detail="no")
    wrapped.__cause__ = full
    locked = LockUnusable("no lock")
    locked.__cause__ = wrapped
    for error in (full, wrapped, locked):
        stop = unusable("the library", tmp_path / "library", error)
        told = reason_text(lang, stop.code, stop.detail)
        assert stop.task_invalid and words in told and "MB" in told and str(tmp_path / "library") in told
    other = unusable("the library", tmp_path, OSError(errno.EACCES, "Permission denied"))
    assert words not in reason_text(lang, other.code, other.detail)
    assert str(tmp_path) in reason_text(lang, other.code, other.detail)


@pytest.mark.parametrize("lang, words", [("en", "the disk is full"), ("zh", "磁盘已满")])
def test_a_practice_phone_without_room_says_so(small_disk: Path, lang: str, words: str) -> None:
    """Its own log has no room either, so nothing else can tell."""
    with suppress(OSError), (small_disk / "other.bin").open("wb", buffering=0) as filler:
        while filler.write(bytes(4096)):
            pass
    code, document, said = run("--library", str(small_disk / "library"), "--lang", lang)
    assert (code, document["status"]) == (64, "TASK_INVALID")
    assert words in said and str(small_disk) in said
