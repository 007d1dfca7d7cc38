"""The virtual file system: one tree under two names, rights, capacity, contents that change."""

from __future__ import annotations

import errno
from datetime import datetime, timedelta, timezone

import pytest

from hibor.sim.vfs import BytesContent, LazyContent, Vfs, VfsError

NOW = datetime(2026, 11, 30, 9, 0, tzinfo=timezone(timedelta(hours=8)))
DATA = "/sdcard/Android/data"
DOWNLOAD = f"{DATA}/com.huibo.research/files/Download"


@pytest.fixture
def vfs() -> Vfs:
    tree = Vfs(lambda: NOW)
    tree.make_folders(DOWNLOAD)
    return tree


def refused(call: object, *arguments: object, **options: object) -> int:
    """The errno with which a call is refused."""
    assert callable(call)
    with pytest.raises(VfsError) as caught:
        call(*arguments, **options)
    assert caught.value.errno is not None
    return caught.value.errno


def test_sdcard_and_storage_emulated_are_one_tree(vfs: Vfs) -> None:
    vfs.write_file("/storage/emulated/0/报告.pdf", b"%PDF-")
    assert vfs.read("/sdcard/报告.pdf") == b"%PDF-"
    assert vfs.stat("/sdcard/报告.pdf").inode == vfs.stat("/storage/emulated/0/报告.pdf").inode
    assert vfs.canonical("/sdcard/../0/./new") == "/storage/emulated/0/new"
    vfs.remove("/sdcard/报告.pdf")
    assert not vfs.exists("/storage/emulated/0/报告.pdf")


def test_sdcard_itself_is_a_link_and_a_slash_follows_it(vfs: Vfs) -> None:
    assert vfs.lstat("/sdcard").kind == "link"
    assert vfs.lstat("/sdcard/").kind == vfs.stat("/sdcard").kind == "folder"


def test_growth_then_rename_keeps_the_inode(vfs: Vfs) -> None:
    first = vfs.write_file(f"{DOWNLOAD}/a.pdf.temp", b"%PDF", mtime=NOW - timedelta(seconds=9))
    vfs.append(f"{DOWNLOAD}/a.pdf.temp", b"-1.7")
    vfs.rename(f"{DOWNLOAD}/a.pdf.temp", f"{DOWNLOAD}/a.pdf")
    after = vfs.stat(f"{DOWNLOAD}/a.pdf")
    assert (after.inode, after.size_bytes, after.mtime) == (first.inode, 8, NOW)
    assert [name for name, _ in vfs.list(DOWNLOAD)] == ["a.pdf"]


def test_overwrite_keeps_the_inode_and_a_given_one_is_never_handed_out_again(vfs: Vfs) -> None:
    one = vfs.write_file("/sdcard/a", b"1")
    assert vfs.write_file("/sdcard/a", b"22").inode == one.inode
    vfs.write_file("/sdcard/b", b"", inode=500_000)
    assert vfs.write_file("/sdcard/c", b"").inode > 500_000


def test_an_open_reader_keeps_its_file(vfs: Vfs) -> None:
    vfs.write_file("/sdcard/a", b"0123456789")
    reader = vfs.open("/sdcard/a")
    assert reader.read(4) == b"0123"
    vfs.remove("/sdcard/a")
    vfs.write_file("/sdcard/a", b"other")
    assert reader.read(100) == b"456789"


def test_lazy_contents_are_made_once_and_only_when_read(vfs: Vfs) -> None:
    made: list[int] = []

    def make() -> bytes:
        made.append(1)
        return b"12345"

    vfs.write_file("/sdcard/lazy", LazyContent(make, size_bytes=5))
    assert vfs.stat("/sdcard/lazy").size_bytes == 5
    assert made == []
    assert vfs.read("/sdcard/lazy") + vfs.read("/sdcard/lazy") == b"1234512345"
    assert made == [1]


def test_refresh_runs_before_a_look_and_not_inside_itself(vfs: Vfs) -> None:
    def refresh() -> None:
        if not vfs.exists("/sdcard/grown"):
            vfs.write_file("/sdcard/grown", b"")
        vfs.append("/sdcard/grown", b"x")

    vfs.refresh = refresh
    assert vfs.stat("/sdcard/grown").size_bytes == 1
    assert vfs.stat("/sdcard/grown").size_bytes == 2


def test_denied_folder_is_told_apart_from_an_empty_one(vfs: Vfs) -> None:
    vfs.write_file(f"{DOWNLOAD}/a.pdf", b"1")
    vfs.set_access(DATA, "denied")
    assert refused(vfs.list, DATA, checked=True) == errno.EACCES
    assert refused(vfs.stat, f"{DOWNLOAD}/a.pdf", checked=True) == errno.EACCES
    assert vfs.stat(DATA, checked=True).kind == "folder"
    assert vfs.read(f"{DOWNLOAD}/a.pdf") == b"1", "the app itself is not stopped"


def test_hidden_folder_lists_empty_and_its_children_do_not_exist(vfs: Vfs) -> None:
    vfs.set_access(DATA, "hidden")
    assert vfs.list(DATA, checked=True) == []
    assert refused(vfs.stat, DOWNLOAD, checked=True) == errno.ENOENT


def test_opaque_entry_is_listed_without_facts(vfs: Vfs) -> None:
    vfs.write_file(f"{DOWNLOAD}/a.pdf", b"1")
    vfs.write_file(f"{DOWNLOAD}/b.pdf", b"2")
    vfs.set_access(f"{DOWNLOAD}/a.pdf", "opaque")
    entries = dict(vfs.list(DOWNLOAD, checked=True))
    assert entries["a.pdf"] is None
    assert entries["b.pdf"] is not None
    assert refused(vfs.stat, f"{DOWNLOAD}/a.pdf", checked=True) == errno.EACCES


def test_shell_user_writes_only_where_it_may(vfs: Vfs) -> None:
    vfs.write_file("/sdcard/../../../data/local/tmp/ok", b"", checked=True)
    vfs.write_file("/system/bin/tool", b"")
    assert refused(vfs.remove, "/system/bin/tool", checked=True) == errno.EROFS
    assert refused(vfs.remove, "/sdcard/../../../system/bin/tool", checked=True) == errno.EROFS
    vfs.symlink("/sdcard/way_out", "/system/bin")
    assert refused(vfs.write_file, "/sdcard/way_out/x", b"", checked=True) == errno.EROFS


def test_full_storage_takes_what_fits_and_says_so(vfs: Vfs) -> None:
    vfs.write_file("/sdcard/a", b"12345")
    vfs.capacity_bytes = vfs.used_bytes() + 3
    assert refused(vfs.append, "/sdcard/a", b"6789") == errno.ENOSPC
    assert vfs.read("/sdcard/a") == b"12345678"
    assert refused(vfs.write_file, "/sdcard/b", b"1") == errno.ENOSPC
    assert not vfs.exists("/sdcard/b")
    vfs.write_file("/sdcard/a", b"", checked=True)
    assert vfs.free_bytes() == 8


def test_link_loop_and_names_too_long_are_errors(vfs: Vfs) -> None:
    vfs.symlink("/sdcard/loop", "/sdcard/loop")
    assert refused(vfs.stat, "/sdcard/loop") == errno.ELOOP
    assert vfs.lstat("/sdcard/loop").target == "/sdcard/loop"
    vfs.write_file("/sdcard/" + "长" * 85, b"")
    assert refused(vfs.write_file, "/sdcard/" + "长" * 86, b"") == errno.ENAMETOOLONG


def test_removing_and_renaming_over_folders_is_refused(vfs: Vfs) -> None:
    vfs.write_file("/sdcard/a", b"")
    assert refused(vfs.remove, "/sdcard/Android") == errno.ENOTEMPTY
    assert refused(vfs.rename, "/sdcard/a", "/sdcard/Android") == errno.EEXIST
    assert refused(vfs.list, "/sdcard/a") == errno.ENOTDIR
    assert refused(vfs.open, "/sdcard/Android") == errno.EISDIR
    assert refused(vfs.stat, "/sdcard/a/b") == errno.ENOTDIR


def test_walk_names_every_node_below(vfs: Vfs) -> None:
    vfs.write_file(f"{DOWNLOAD}/a.pdf", BytesContent(b"1"))
    assert [path for path, _ in vfs.walk("/sdcard/Android/data")] == [
        f"{DATA}/com.huibo.research", f"{DATA}/com.huibo.research/files", DOWNLOAD, f"{DOWNLOAD}/a.pdf",
    ]
