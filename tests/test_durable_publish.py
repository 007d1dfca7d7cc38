"""Publishing under every fault of the PUB area, on real files through the seam (faults F69–F76)."""

from __future__ import annotations

import errno
import hashlib
import os
import sys
from pathlib import Path

import pytest

from hibor.durable import Durable, DurableError, FileAlreadyThere
from hibor.durable_fs import OsFileSystem
from tests.durable_support import FaultyFileSystem, error
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


# ---- publish -------------------------------------------------------------------------------------------


@pytest.fixture
def staged(tmp_path: Path) -> tuple[Path, Path]:
    (tmp_path / "runs").mkdir()
    (tmp_path / "reports").mkdir()
    staging = tmp_path / "runs" / "staging.pdf"
    staging.write_bytes(b"%PDF-1.7 ours")
    return staging, tmp_path / "reports" / "final.pdf"


def test_publish_order_is_fsync_staging_link_fsync_folder(
    durable: Durable, fs: FaultyFileSystem, staged: tuple[Path, Path]
) -> None:
    """F69: a name that is not fsynced is lost after a power cut although success was reported."""
    staging, final = staged
    published = durable.publish(staging, final, step=STEP)
    assert (published.method, published.already) == ("link", False)
    assert fs.order("fsync", "link", "fsync_dir") == [
        "fsync staging.pdf",
        "link final.pdf",
        "fsync_dir reports",
    ]
    assert os.path.samefile(staging, final)


def test_publish_twice_recognises_its_own_link(durable: Durable, staged: tuple[Path, Path]) -> None:
    staging, final = staged
    durable.publish(staging, final, step=STEP)
    again = durable.publish(staging, final, step=STEP)
    assert again.already


def test_publish_over_a_foreign_file_changes_nothing(durable: Durable, staged: tuple[Path, Path]) -> None:
    staging, final = staged
    final.write_bytes(b"foreign")
    with pytest.raises(FileAlreadyThere) as raised:
        durable.publish(staging, final, step=STEP)
    assert (raised.value.failure, raised.value.known) == ("final_conflict", "N")
    assert final.read_bytes() == b"foreign"
    assert staging.exists()


def test_publish_recognises_a_link_whose_reply_was_lost(
    durable: Durable, fs: FaultyFileSystem, staged: tuple[Path, Path]
) -> None:
    def made_but_refused(_fs: object, source: Path, target: Path) -> None:
        os.link(source, target)
        raise error(errno.EIO)

    staging, final = staged
    fs.fail("link", made_but_refused)
    assert durable.publish(staging, final, step=STEP).method == "link"


LINK_REFUSALS = [
    errno.EPERM,
    errno.EACCES,
    errno.ENOSYS,
    errno.EIO,
    errno.EOPNOTSUPP,
    errno.EINVAL,
    errno.EMLINK,
]


@pytest.mark.parametrize("number", LINK_REFUSALS)
def test_refused_link_falls_back_to_a_rename_that_cannot_replace(
    durable: Durable, fs: FaultyFileSystem, staged: tuple[Path, Path], number: int
) -> None:
    """F73: link() may be refused in many ways; no-replace is kept in the fallback."""
    staging, final = staged
    fs.fail("link", error(number))
    published = durable.publish(staging, final, step=STEP)
    assert published.method == "rename"
    assert fs.order("fsync", "rename_no_replace", "fsync_dir") == [
        "fsync staging.pdf",
        "rename_no_replace final.pdf",
        "fsync_dir reports",
        "fsync_dir runs",
    ]
    assert final.read_bytes() == b"%PDF-1.7 ours"
    assert not staging.exists()


@pytest.mark.parametrize("number", LINK_REFUSALS)
def test_the_fallback_does_not_replace_either(
    durable: Durable, fs: FaultyFileSystem, staged: tuple[Path, Path], number: int
) -> None:
    staging, final = staged
    final.write_bytes(b"foreign")
    fs.fail("link", error(number))
    with pytest.raises(FileAlreadyThere):
        durable.publish(staging, final, step=STEP)
    assert final.read_bytes() == b"foreign"
    assert staging.read_bytes() == b"%PDF-1.7 ours"


@pytest.mark.parametrize("number", [errno.EINVAL, errno.ENOSYS, errno.EIO])
def test_without_any_no_replace_way_publishing_is_refused(
    durable: Durable, fs: FaultyFileSystem, staged: tuple[Path, Path], number: int
) -> None:
    """F74: renameat2 says EINVAL on ZFS, gluster, ntfs-3g; a plain rename is never the answer."""
    staging, final = staged
    fs.fail("link", error(errno.EPERM))
    fs.fail("rename_no_replace", error(number))
    with pytest.raises(DurableError) as raised:
        durable.publish(staging, final, step=STEP)
    assert (raised.value.failure, raised.value.known) == ("publish_refused", "N")
    assert not final.exists()
    assert staging.exists()


def test_publish_across_file_systems_says_so(
    durable: Durable, fs: FaultyFileSystem, staged: tuple[Path, Path]
) -> None:
    """F76."""
    fs.fail("link", error(errno.EXDEV))
    with pytest.raises(DurableError, match="another file system") as raised:
        durable.publish(*staged, step=STEP)
    assert (raised.value.failure, raised.value.known) == ("publish_refused", "N")
    assert fs.order("rename_no_replace") == []


@pytest.mark.parametrize("number", [errno.EINVAL, errno.ENOTSUP, errno.EOPNOTSUPP])
def test_folder_fsync_that_does_not_exist_is_tolerated_and_recorded(
    durable: Durable, fs: FaultyFileSystem, staged: tuple[Path, Path], number: int
) -> None:
    """F71."""
    fs.fail("fsync_dir", error(number))
    durable.publish(*staged, step=STEP)
    assert list(durable.tolerated) == [str(staged[1].parent)]


@pytest.mark.parametrize("number", [errno.EIO, errno.ENOSPC])
def test_folder_fsync_that_fails_is_fatal(
    durable: Durable, fs: FaultyFileSystem, staged: tuple[Path, Path], number: int
) -> None:
    fs.fail("fsync_dir", error(number))
    with pytest.raises(DurableError) as raised:
        durable.publish(*staged, step=STEP)
    assert raised.value.known == "U"
    assert durable.tolerated == {}


def test_failed_fsync_of_staging_publishes_nothing(
    durable: Durable, fs: FaultyFileSystem, staged: tuple[Path, Path]
) -> None:
    fs.fail("fsync", error(errno.EIO))
    with pytest.raises(DurableError) as raised:
        durable.publish(*staged, step=STEP)
    assert raised.value.known == "U"
    assert fs.order("link") == []


def test_probe_tells_the_way_and_leaves_nothing(
    durable: Durable, fs: FaultyFileSystem, staged: tuple[Path, Path]
) -> None:
    folders = (staged[0].parent, staged[1].parent)
    assert durable.probe_publish(*folders, step=STEP) == "link"
    fs.fail("link", error(errno.EPERM), error(errno.EPERM))
    assert durable.probe_publish(*folders, step=STEP) == "rename"
    assert [path.name for folder in folders for path in folder.iterdir()] == ["staging.pdf"]


def test_probe_refuses_folders_where_a_file_would_be_replaced(
    durable: Durable, fs: FaultyFileSystem, staged: tuple[Path, Path]
) -> None:
    """A rename that claims to refuse and replaces is found before anything is spent."""
    fs.fail("link", error(errno.EPERM), error(errno.EPERM))
    replacing = lambda _fs, source, target: os.replace(source, target)  # noqa: E731
    fs.fail("rename_no_replace", replacing, replacing)
    with pytest.raises(DurableError, match="replaced") as raised:
        durable.probe_publish(staged[0].parent, staged[1].parent, step=STEP)
    assert raised.value.failure == "publish_refused"


@pytest.mark.skipif(sys.platform != "linux", reason="renameat2 is Linux")
def test_the_real_exclusive_rename_refuses_an_existing_target(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"a")
    (tmp_path / "b").write_bytes(b"b")
    fs = OsFileSystem()
    with pytest.raises(FileExistsError):
        fs.rename_no_replace(tmp_path / "a", tmp_path / "b")
    fs.rename_no_replace(tmp_path / "a", tmp_path / "c")
    assert (tmp_path / "c").read_bytes() == b"a"


@pytest.mark.parametrize("refused", [False, True])
def test_keep_copy_by_link_or_copy(
    durable: Durable, fs: FaultyFileSystem, staged: tuple[Path, Path], refused: bool
) -> None:
    staging, final = staged
    if refused:
        fs.fail("link", error(errno.EPERM))
    facts = durable.keep_copy(staging, final, step=STEP)
    assert facts.sha256 == sha256(b"%PDF-1.7 ours")
    assert os.path.samefile(staging, final) is not refused
    with pytest.raises(FileAlreadyThere):
        durable.keep_copy(staging, final, step=STEP)
    assert {path.name for path in final.parent.iterdir()} == {"final.pdf"}
