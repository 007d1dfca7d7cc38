"""The simulated phone's file system: one tree in memory, with what the adapter can see of it.

Rules of this file:
- Paths are absolute POSIX paths as text; bytes that are not UTF-8 travel as surrogate escapes, so a name is
  byte-exact from the wire to the tree and back (fault F16).
- `/sdcard` and `/storage/emulated/0` are one tree: the first is a link, as on Android.
- The app itself writes without checks. The transport half passes `checked=True` and then meets what the
  shell user meets: unreadable folders (fault F25), read-only places, a full storage.
- `refresh` is called before every access from outside, so that the app can let downloads grow by the clock
  instead of by threads.
- An open `Reader` keeps the file it was opened on, even when the name is removed or replaced meanwhile.
"""

from __future__ import annotations

import errno
import stat as stat_modes
import threading
from collections.abc import Callable, Iterator
from datetime import datetime
from typing import Literal, Protocol

import attrs

Access = Literal["readable", "denied", "hidden", "opaque"]
Kind = Literal["file", "folder", "link"]

NAME_LIMIT_BYTES = 255
LINK_LIMIT = 40
SHELL_WRITABLE = ("/storage/emulated/0", "/data/local/tmp")
FOLDER_SIZE_BYTES = 3452

_TEXT = {
    errno.ENOENT: "No such file or directory",
    errno.EACCES: "Permission denied",
    errno.ENOTDIR: "Not a directory",
    errno.EISDIR: "Is a directory",
    errno.ENOSPC: "No space left on device",
    errno.EEXIST: "File exists",
    errno.ELOOP: "Too many symbolic links encountered",
    errno.ENAMETOOLONG: "File name too long",
    errno.ENOTEMPTY: "Directory not empty",
    errno.EINVAL: "Invalid argument",
    errno.EROFS: "Read-only file system",
}


class VfsError(OSError):
    """A refused file operation; `errno` is the host's number, `text` what Android prints for it."""

    def __init__(self, number: int, path: str) -> None:
        self.text = _TEXT[number]
        self.path = path
        super().__init__(number, self.text, path)


class Content(Protocol):
    """The bytes of one file, provided when asked for. May grow or change between calls."""

    def size_bytes(self) -> int:
        """The size now, in bytes."""

    def read(self, offset: int, length: int) -> bytes:
        """At most `length` bytes from `offset`; empty at and after the end."""


class BytesContent:
    """Contents held in memory."""

    def __init__(self, data: bytes | bytearray) -> None:
        self._data = bytearray(data)

    def size_bytes(self) -> int:
        """The size in bytes."""
        return len(self._data)

    def read(self, offset: int, length: int) -> bytes:
        """A copy of the wanted piece."""
        return bytes(memoryview(self._data)[offset : offset + length])

    def extend(self, data: bytes) -> None:
        """Append `data`."""
        self._data += data


class LazyContent:
    """Contents made on first need and kept. With `size_bytes` given, asking for the size makes nothing."""

    def __init__(self, make: Callable[[], bytes], size_bytes: int | None = None) -> None:
        self._make = make
        self._size_bytes = size_bytes
        self._data: bytes | None = None
        self._lock = threading.Lock()

    def _made(self) -> bytes:
        with self._lock:
            if self._data is None:
                self._data = self._make()
            return self._data

    def size_bytes(self) -> int:
        """The declared size, else that of the made bytes."""
        return len(self._made()) if self._size_bytes is None else self._size_bytes

    def read(self, offset: int, length: int) -> bytes:
        """The wanted piece of the made bytes."""
        return self._made()[offset : offset + length]


@attrs.frozen
class FileFacts:
    """What `stat` says of one node; `mode` has the type bits, `target` is set for links."""

    name: str
    kind: Kind
    mode: int
    size_bytes: int
    mtime: datetime
    inode: int
    links: int
    target: str | None = None

    @property
    def mtime_s(self) -> int:
        """Modification time in whole seconds since 1970."""
        return int(self.mtime.timestamp() // 1)

    @property
    def empty_file(self) -> bool:
        """True for a regular file without a byte in it."""
        return self.kind == "file" and self.size_bytes == 0


@attrs.define(eq=False)
class _Node:
    kind: Kind
    permissions: int
    mtime: datetime
    inode: int
    access: Access = "readable"
    content: Content | None = None
    target: str | None = None
    children: dict[str, _Node] = attrs.Factory(dict)


class Reader:
    """An open file: reads go on although the name is removed, replaced or renamed."""

    def __init__(self, content: Content) -> None:
        self._content = content
        self._offset = 0

    def size_bytes(self) -> int:
        """The size now."""
        return self._content.size_bytes()

    def read(self, length: int) -> bytes:
        """The next bytes, empty at the end."""
        piece = self._content.read(self._offset, length)
        self._offset += len(piece)
        return piece


def split_path(path: str) -> list[str]:
    """The components of a path; relative paths start at `/`, the shell's working folder."""
    return [part for part in path.split("/") if part not in ("", ".")]


class Vfs:
    """The tree. Every method may be called from any thread; times are the phone's own clock."""

    def __init__(self, now: Callable[[], datetime], capacity_bytes: int | None = None) -> None:
        self._now = now
        self._lock = threading.RLock()
        self._refreshing = threading.local()
        self._next_inode = 100_001
        self.capacity_bytes = capacity_bytes
        self.refresh: Callable[[], None] | None = None
        self._root = _Node("folder", 0o755, now(), 2)
        for folder in ("/storage/emulated/0/Android/data", "/storage/self", "/data/local/tmp", "/system/bin"):
            self.make_folders(folder)
        self.symlink("/storage/self/primary", "/storage/emulated/0")
        self.symlink("/sdcard", "/storage/self/primary")
        self.symlink("/mnt/sdcard", "/storage/self/primary")

    # -- looking ---------------------------------------------------------------------------------------

    def stat(self, path: str, *, checked: bool = False) -> FileFacts:
        """Facts of what `path` leads to (links followed). Raises `VfsError`."""
        with self._entered():
            node, _ = self._find(path, follow=True, checked=checked)
            return self._facts(node, _last_name(path))

    def lstat(self, path: str, *, checked: bool = False) -> FileFacts:
        """Facts of the node itself; a trailing `/` follows a link, as POSIX says. Raises `VfsError`."""
        with self._entered():
            node, _ = self._find(path, follow=path.endswith("/"), checked=checked)
            return self._facts(node, _last_name(path))

    def exists(self, path: str, *, checked: bool = False) -> bool:
        """Whether `path` leads to something that may be looked at."""
        try:
            self.stat(path, checked=checked)
        except VfsError:
            return False
        return True

    def list(self, path: str, *, checked: bool = False) -> list[tuple[str, FileFacts | None]]:
        """Names and facts in a folder, sorted by name; facts are None for an entry that refuses `stat`.

        Raises `VfsError`: ENOENT, ENOTDIR, EACCES. A `hidden` folder lists as empty (fault F25).
        """
        with self._entered():
            node, _ = self._find(path, follow=True, checked=checked)
            if node.kind != "folder":
                raise VfsError(errno.ENOTDIR, path)
            if checked and node.access == "denied":
                raise VfsError(errno.EACCES, path)
            if checked and node.access == "hidden":
                return []
            return [
                (name, None if checked and child.access == "opaque" else self._facts(child, name))
                for name, child in sorted(node.children.items())
            ]

    def open(self, path: str, *, checked: bool = False) -> Reader:
        """Open a file for reading. Raises `VfsError`: ENOENT, EISDIR, EACCES."""
        with self._entered():
            node, _ = self._find(path, follow=True, checked=checked)
            if node.content is None:
                raise VfsError(errno.EISDIR, path)
            if checked and node.access != "readable":
                raise VfsError(errno.EACCES, path)
            return Reader(node.content)

    def read(self, path: str, *, checked: bool = False) -> bytes:
        """The whole contents as they are now. Raises `VfsError`."""
        reader = self.open(path, checked=checked)
        return reader.read(reader.size_bytes())

    def walk(self, path: str) -> Iterator[tuple[str, FileFacts]]:
        """Every node below a folder, parents first, links not followed, as (absolute path, facts)."""
        for name, facts in self.list(path):
            if facts is not None:
                child = f"{path.rstrip('/')}/{name}"
                yield child, facts
                if facts.kind == "folder":
                    yield from self.walk(child)

    def canonical(self, path: str) -> str:
        """The path without links, `.` and `..`; what does not exist is kept as named. Raises `VfsError`."""
        with self._lock:
            known = split_path(path)
            missing: list[str] = []
            while True:
                try:
                    found = self._find("/" + "/".join(known), follow=True, checked=False)[1]
                    return "/" + "/".join([*split_path(found), *missing[::-1]])
                except VfsError as error:
                    if error.errno != errno.ENOENT or not known or known[-1] == "..":
                        raise
                    missing.append(known.pop())

    def used_bytes(self) -> int:
        """The sum of all file sizes."""
        with self._lock:
            return _tree_bytes(self._root)

    # -- changing --------------------------------------------------------------------------------------

    def make_folders(self, path: str, *, permissions: int = 0o770, mtime: datetime | None = None) -> None:
        """Create a folder and what is missing above it; links on the way are followed."""
        with self._lock:
            done = ""
            for name in split_path(path):
                done = f"{done}/{name}"
                try:
                    self._find(done, follow=True, checked=False)
                except VfsError as error:
                    if error.errno != errno.ENOENT:
                        raise
                    self._insert(done, _Node("folder", permissions, mtime or self._now(), self._inode()))

    def write_file(
        self, path: str, content: bytes | Content, *, mtime: datetime | None = None,
        permissions: int = 0o660, inode: int | None = None, checked: bool = False,
    ) -> FileFacts:
        """Create or overwrite a file; an existing one keeps its inode unless `inode` is given.

        The folder must exist. Raises `VfsError`: ENOENT, EISDIR, ENOSPC, and EACCES when `checked`.
        """
        body: Content = BytesContent(content) if isinstance(content, bytes) else content
        with self._entered():
            self._check_writable(path, checked)
            try:
                node, _ = self._find(path, follow=True, checked=checked)
            except VfsError as error:
                if error.errno != errno.ENOENT:
                    raise
                self._check_space(path, body.size_bytes())
                node = _Node("file", permissions, self._now(), self._inode(), content=body)
                self._insert(path, node, checked)
            else:
                if node.content is None:
                    raise VfsError(errno.EISDIR, path)
                self._check_space(path, body.size_bytes() - node.content.size_bytes())
                node.content, node.permissions = body, permissions
            node.mtime = mtime or self._now()
            if inode is not None:
                node.inode = inode
                self._next_inode = max(self._next_inode, inode + 1)
            return self._facts(node, _last_name(path))

    def append(self, path: str, data: bytes, *, mtime: datetime | None = None, checked: bool = False) -> None:
        """Append to a file made with bytes. A full storage takes what fits, then raises ENOSPC."""
        with self._entered():
            self._check_writable(path, checked)
            node, _ = self._find(path, follow=True, checked=checked)
            if not isinstance(node.content, BytesContent):
                raise VfsError(errno.EINVAL, path)
            free_bytes = self.free_bytes()
            node.content.extend(data if free_bytes is None else data[: max(0, free_bytes)])
            node.mtime = mtime or self._now()
            if free_bytes is not None and len(data) > free_bytes:
                raise VfsError(errno.ENOSPC, path)

    def rename(self, source: str, target: str, *, checked: bool = False) -> None:
        """Rename, replacing a file of the target's name; inode and mtime stay. Raises `VfsError`."""
        with self._entered():
            self._check_writable(source, checked)
            self._check_writable(target, checked)
            (old_folder, _), old_name = self._parent(source, checked)
            node = old_folder.children.get(old_name)
            if node is None:
                raise VfsError(errno.ENOENT, source)
            (new_folder, _), new_name = self._parent(target, checked)
            replaced = new_folder.children.get(new_name)
            if replaced is not None and replaced is not node and replaced.kind == "folder":
                raise VfsError(errno.EEXIST, target)
            del old_folder.children[old_name]
            new_folder.children[new_name] = node
            old_folder.mtime = new_folder.mtime = self._now()

    def remove(self, path: str, *, checked: bool = False) -> None:
        """Remove a file, a link or an empty folder. Raises `VfsError`: ENOENT, ENOTEMPTY, EACCES."""
        with self._entered():
            self._check_writable(path, checked)
            (folder, _), name = self._parent(path, checked)
            node = folder.children.get(name)
            if node is None:
                raise VfsError(errno.ENOENT, path)
            if node.children:
                raise VfsError(errno.ENOTEMPTY, path)
            del folder.children[name]
            folder.mtime = self._now()

    def symlink(self, path: str, target: str) -> None:
        """Make a link at `path`, with the folders above it."""
        with self._lock:
            self.make_folders("/" + "/".join(split_path(path)[:-1]))
            self._insert(path, _Node("link", 0o777, self._now(), self._inode(), target=target))

    def set_access(self, path: str, access: Access) -> None:
        """What the shell user meets here.

        `denied`: a folder neither lists nor opens, a file does not open; `hidden`: the folder looks empty;
        `opaque`: the name is listed by its parent but even `stat` is refused.
        """
        with self._lock:
            self._find(path, follow=True, checked=False)[0].access = access

    def set_mtime(self, path: str, mtime: datetime) -> None:
        """Set the modification time."""
        with self._lock:
            self._find(path, follow=True, checked=False)[0].mtime = mtime

    def set_permissions(self, path: str, permissions: int) -> None:
        """Set the permission bits."""
        with self._lock:
            self._find(path, follow=True, checked=False)[0].permissions = permissions

    def free_bytes(self) -> int | None:
        """Room left, None when the storage has no limit; negative when the limit was lowered below use."""
        return None if self.capacity_bytes is None else self.capacity_bytes - self.used_bytes()

    def require_writable(self, path: str) -> None:
        """Raise `VfsError` EROFS unless the shell user may write at this place."""
        canonical = self.canonical(path)
        if not any(canonical.startswith(f"{root}/") for root in SHELL_WRITABLE):
            raise VfsError(errno.EROFS, path)

    # -- inside ----------------------------------------------------------------------------------------

    def _entered(self) -> threading.RLock:
        """The lock, after the app has brought the tree up to date (outside the lock, never nested)."""
        if self.refresh is not None and not getattr(self._refreshing, "on", False):
            self._refreshing.on = True
            try:
                self.refresh()
            finally:
                self._refreshing.on = False
        return self._lock

    def _inode(self) -> int:
        self._next_inode += 1
        return self._next_inode

    def _facts(self, node: _Node, name: str) -> FileFacts:
        if node.kind == "file" and node.content is not None:
            size_bytes, bits = node.content.size_bytes(), stat_modes.S_IFREG
        elif node.kind == "link":
            size_bytes, bits = len((node.target or "").encode(errors="surrogateescape")), stat_modes.S_IFLNK
        else:
            size_bytes, bits = FOLDER_SIZE_BYTES, stat_modes.S_IFDIR
        folders = sum(child.kind == "folder" for child in node.children.values())
        links = 2 + folders if node.kind == "folder" else 1
        return FileFacts(
            name, node.kind, bits | node.permissions, size_bytes, node.mtime, node.inode, links, node.target
        )

    def _find(self, path: str, *, follow: bool, checked: bool) -> tuple[_Node, str]:
        """The node and its canonical path. Links before the last component are always followed."""
        todo = split_path(path)[::-1]
        trail: list[tuple[str, _Node]] = []
        followed = 0
        while todo:
            name = todo.pop()
            folder = trail[-1][1] if trail else self._root
            if folder.kind != "folder":
                raise VfsError(errno.ENOTDIR, path)
            if name == "..":
                del trail[-1:]
                continue
            node = self._child(folder, name, path, checked)
            if node.kind == "link" and (todo or follow):
                followed += 1
                if followed > LINK_LIMIT:
                    raise VfsError(errno.ELOOP, path)
                target = node.target or ""
                if target.startswith("/"):
                    trail.clear()
                todo.extend(split_path(target)[::-1])
                continue
            trail.append((name, node))
        if checked and trail and trail[-1][1].access == "opaque":
            raise VfsError(errno.EACCES, path)
        canonical = "/" + "/".join(name for name, _ in trail)
        return (trail[-1][1] if trail else self._root), canonical

    def _child(self, folder: _Node, name: str, path: str, checked: bool) -> _Node:
        if len(name.encode(errors="surrogateescape")) > NAME_LIMIT_BYTES:
            raise VfsError(errno.ENAMETOOLONG, path)
        if checked and folder.access in ("denied", "opaque"):
            raise VfsError(errno.EACCES, path)
        node = folder.children.get(name)
        if node is None or (checked and folder.access == "hidden"):
            raise VfsError(errno.ENOENT, path)
        return node

    def _parent(self, path: str, checked: bool) -> tuple[tuple[_Node, str], str]:
        parts = split_path(path)
        if not parts or parts[-1] == "..":
            raise VfsError(errno.EINVAL, path)
        folder = self._find("/" + "/".join(parts[:-1]), follow=True, checked=checked)
        if folder[0].kind != "folder":
            raise VfsError(errno.ENOTDIR, path)
        if checked and folder[0].access != "readable":
            raise VfsError(errno.EACCES, path)
        return folder, parts[-1]

    def _insert(self, path: str, node: _Node, checked: bool = False) -> None:
        (folder, _), name = self._parent(path, checked)
        if len(name.encode(errors="surrogateescape")) > NAME_LIMIT_BYTES:
            raise VfsError(errno.ENAMETOOLONG, path)
        folder.children[name] = node
        folder.mtime = self._now()

    def _check_writable(self, path: str, checked: bool) -> None:
        if checked:
            self.require_writable(path)

    def _check_space(self, path: str, added_bytes: int) -> None:
        free_bytes = self.free_bytes()
        if free_bytes is not None and added_bytes > max(0, free_bytes):
            raise VfsError(errno.ENOSPC, path)


def _last_name(path: str) -> str:
    parts = split_path(path)
    return parts[-1] if parts else "/"


def _tree_bytes(node: _Node) -> int:
    own_bytes = node.content.size_bytes() if node.content is not None else 0
    return own_bytes + sum(_tree_bytes(child) for child in node.children.values())
