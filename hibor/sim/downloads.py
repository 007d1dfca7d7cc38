"""The app's downloads: the server's preparation, the growing file in the cache, what is there at the end.

Rules: everything follows from the clock and the persistent records, so a download goes on when its page is
left, when nobody looks, and when the phone is killed and started again. A file appears as `….pdf.temp`,
grows, and is renamed when it is whole. Whether a report is in the cache is asked of the file system each
time: somebody may have removed the file through adb.
"""

from __future__ import annotations

import contextlib
import random
import threading
from collections.abc import Callable, Sequence
from datetime import datetime

from hibor.sim.feed import ServerFeed
from hibor.sim.reports import Report
from hibor.sim.scenario import Fault, PaceSettings
from hibor.sim.state import PHONE_ZONE, CachedFile, Download, StateStore
from hibor.sim.versions import EXPORT_FOLDER, PUBLIC_FOLDER, cache_folder, has_export
from hibor.sim.vfs import Vfs, VfsError

CACHE_FOLDER = PUBLIC_FOLDER
TITLE_LIMIT_CHARS = 60
EARLY_SHARE = 0.6
OUTDATED = "outdated:"


def cache_name(report: Report, taken: Callable[[str], bool]) -> str:
    """The name the app gives a file: `<institution>-<title>-<stock code>-<YYMMDD>.pdf`.

    Only `/` is replaced and long titles are cut; the app does nothing else for other systems. A name that is
    already `taken` by another report gets a number.
    """
    parts = [report.institution, report.title[:TITLE_LIMIT_CHARS]]
    parts += [report.stock_code] if report.stock_code else []
    parts.append(f"{report.published:%y%m%d}")
    stem = "-".join(parts).replace("/", "_")
    name, number = f"{stem}.pdf", 1
    while taken(name):
        name, number = f"{stem}({number}).pdf", number + 1
    return name


class GrowingContent:
    """The bytes of a file of which only the first `shown_bytes` exist yet; `extend` adds foreign bytes."""

    def __init__(self, make: Callable[[], bytes], shown_bytes: int | None) -> None:
        self._make = make
        self._shown_bytes = shown_bytes
        self._extra = b""
        self._whole: bytes | None = None
        self._lock = threading.Lock()

    def whole(self) -> bytes:
        """All bytes the file will have."""
        with self._lock:
            if self._whole is None:
                self._whole = self._make()
            return self._whole + self._extra

    def show(self, shown_bytes: int | None) -> None:
        """Let the file have `shown_bytes` bytes, all of them for None."""
        self._shown_bytes = shown_bytes

    def extend(self, data: bytes) -> None:
        """Append bytes that belong to no report."""
        self._extra += data

    def size_bytes(self) -> int:
        """The size now."""
        whole = len(self.whole())
        return whole if self._shown_bytes is None else min(whole, self._shown_bytes)

    def read(self, offset: int, length: int) -> bytes:
        """A piece of what exists now."""
        return self.whole()[offset : min(offset + length, self.size_bytes())]


class Downloads:
    """All downloads of one phone, running and finished."""

    def __init__(
        self, store: StateStore, feed: ServerFeed, vfs: Vfs, pace: PaceSettings, seed: int, app: str = "1"
    ) -> None:
        self._store = store
        self._state = store.state
        self._feed = feed
        self._vfs = vfs
        self._pace = pace
        self._seed = seed
        self._growing: dict[str, GrowingContent] = {}
        self._folder = cache_folder(app)
        self._exports = has_export(app)
        vfs.make_folders(self._folder)

    def _moment(self, at_s: float) -> datetime:
        return datetime.fromtimestamp(self._state.first_start.timestamp() + at_s, PHONE_ZONE)

    def restore(self) -> None:
        """Put the finished files of earlier lives back into the file system."""
        for file in self._state.files:
            self._place(file)

    def prefill(self, ranks: Sequence[int]) -> None:
        """Files that were downloaded on the days before the phone's first start."""
        for place, rank in enumerate(ranks):
            report = self._feed.at_rank(rank)
            path = self._new_path(report, self._folder)
            age_s = (self._state.first_start - report.published).total_seconds()
            finished_s = -max(30.0, age_s * 0.5) + place * 0.01
            self._finish(report.report_id, path, report.report_id, "good", finished_s)
            self._state.history.append((report.report_id, finished_s))
            if self._exports:
                self.export(report.report_id, finished_s)

    def leave_outdated(self, ranks: Sequence[int]) -> None:
        """Files the app keeps under these reports' names and does not count as theirs (fault F28)."""
        for rank in ranks:
            report, other = self._feed.at_rank(rank), self._feed.at_rank(rank + 1)
            path = self._new_path(report, self._folder)
            self._finish(f"{OUTDATED}{report.report_id}", path, other.report_id, "good", -86_400.0)

    def _new_path(self, report: Report, folder: str) -> str:
        kept = [file for file in self._state.files if not file.report_id.startswith(OUTDATED)]
        paths = {file.path for file in kept} | {one.path for one in self._state.downloads}
        return f"{folder}/{cache_name(report, lambda name: f'{folder}/{name}' in paths)}"

    def export(self, report_id: str, now_s: float) -> None:
        """Copy a finished file to where adb can read it; a name that is taken gets a number."""
        source = next(file for file in self._state.files if file.report_id == report_id and self._own(file))
        path = self._new_path(self._feed.report(report_id), EXPORT_FOLDER)
        self._finish(report_id, path, source.made_of, source.variant, now_s)

    def _own(self, file: CachedFile) -> bool:
        return not file.path.startswith(EXPORT_FOLDER)

    def _finish(self, report_id: str, path: str, made_of: str, variant: str, finished_s: float) -> None:
        data = self._store.pdf(self._feed.report(made_of), variant)
        inode = self._state.next_inode
        self._state.next_inode += 1
        file = CachedFile(report_id, path, made_of, variant, len(data), inode, finished_s)
        self._state.files = [one for one in self._state.files if one.path != path]
        self._state.files.append(file)
        self._place(file)

    def _place(self, file: CachedFile) -> None:
        content = GrowingContent(lambda: self._store.pdf(self._feed.report(file.made_of), file.variant), None)
        moment = self._moment(file.finished_s)
        self._vfs.make_folders(file.path.rpartition("/")[0])
        self._vfs.write_file(file.path, content, mtime=moment, permissions=0o660, inode=file.inode)
        self._growing[file.path] = content

    def accept(self, report: Report, now_s: float, faults: Sequence[Fault]) -> None:
        """The server took the order: it prepares the file and the app will fetch it."""
        dice = random.Random(f"prepare:{self._seed}:{report.report_id}")
        download = Download(
            report.report_id, now_s, dice.uniform(self._pace.prepare_min_s, self._pace.prepare_max_s),
            self._new_path(report, self._folder), report.report_id,
        )
        for fault in faults:
            self._mark(download, fault)
        self._state.downloads.append(download)
        self._state.history.append((report.report_id, now_s))

    def _mark(self, download: Download, fault: Fault) -> None:
        """Note on a download what will go wrong with it."""
        if fault.kind == "pdf":
            download.variant = fault.variant
        elif fault.kind == "wrong_file":
            rank = self._feed.rank(download.report_id)
            other = rank + 1 if rank < len(self._feed.original) else rank - 1
            download.made_of = self._feed.at_rank(max(1, other)).report_id
        elif fault.kind == "prepare_slow":
            download.prepare_s += fault.wait_s
        elif fault.kind in ("download_stalls", "file_renamed_early"):
            download.stall_s = fault.wait_s or 3.0
            download.early_name = fault.kind == "file_renamed_early"
        download.never = download.never or fault.kind == "file_never"
        download.twin = download.twin or fault.kind == "two_files"
        download.storage_full = download.storage_full or fault.kind == "storage_full"

    def in_cache(self, report_id: str) -> bool:
        """Whether the app finds a finished file of this report."""
        return any(
            file.report_id == report_id and self._own(file) and self._vfs.exists(file.path)
            for file in self._state.files
        )

    def percent(self, report_id: str, now_s: float) -> int | None:
        """Progress of a running download in percent, None when there is none."""
        for download in self._state.downloads:
            if download.report_id == report_id:
                whole = self._whole_bytes(download)
                return min(99, self._arrived_bytes(download, now_s) * 100 // max(1, whole))
        return None

    def _whole_bytes(self, download: Download) -> int:
        return len(self._store.pdf(self._feed.report(download.made_of), download.variant))

    def _arrived_bytes(self, download: Download, now_s: float) -> int:
        """Bytes that came so far; a stall holds the flow at `EARLY_SHARE` of the file."""
        passed_s = now_s - download.accepted_s - download.prepare_s
        if passed_s < 0 or download.never:
            return 0
        whole = self._whole_bytes(download)
        held = int(whole * EARLY_SHARE)
        if download.storage_full:
            return min(int(passed_s * self._pace.cache_bytes_per_s), held)
        arrived = int(passed_s * self._pace.cache_bytes_per_s)
        if not download.stall_s or arrived <= held:
            return arrived
        resumed_s = passed_s - held / self._pace.cache_bytes_per_s - download.stall_s
        return held + max(0, int(resumed_s * self._pace.cache_bytes_per_s))

    def advance(self, now_s: float) -> list[tuple[str, str]]:
        """Bring the file system up to `now_s`; returns (report id, toast text) of what ended."""
        ended: list[tuple[str, str]] = []
        for download in list(self._state.downloads):
            passed_s = now_s - download.accepted_s - download.prepare_s
            if passed_s < 0 or download.never:
                continue
            arrived, whole = self._arrived_bytes(download, now_s), self._whole_bytes(download)
            if arrived >= whole:
                self._end(download)
                ended.append((download.report_id, "下载完成"))
            elif download.storage_full and passed_s > 2.0:
                self._state.downloads.remove(download)
                self._grow(download, arrived, now_s)
                ended.append((download.report_id, "存储空间不足，下载失败"))
            else:
                self._grow(download, arrived, now_s)
        return ended

    def _grow(self, download: Download, arrived: int, now_s: float) -> None:
        early = download.early_name and arrived >= int(self._whole_bytes(download) * EARLY_SHARE)
        path = download.path if early else f"{download.path}.temp"
        content = self._growing.get(path)
        if content is None:
            report = self._feed.report(download.made_of)
            variant = download.variant
            content = GrowingContent(lambda: self._store.pdf(report, variant), arrived)
            self._growing[path] = content
            self._vfs.write_file(path, content, mtime=self._moment(now_s), permissions=0o660)
            if early:
                self._forget(f"{download.path}.temp")
        if content.size_bytes() != arrived:
            content.show(arrived)
            with contextlib.suppress(VfsError):  # somebody may have removed the unfinished file
                self._vfs.set_mtime(path, self._moment(now_s))

    def _end(self, download: Download) -> None:
        """The file is whole: its final name replaces the unfinished one."""
        self._state.downloads.remove(download)
        whole = self._whole_bytes(download)
        finished_s = download.accepted_s + download.prepare_s + download.stall_s
        finished_s += whole / self._pace.cache_bytes_per_s
        self._finish(download.report_id, download.path, download.made_of, download.variant, finished_s)
        self._forget(f"{download.path}.temp")
        if download.twin:
            twin = download.path.removesuffix(".pdf") + "(1).pdf"
            self._finish(download.report_id, twin, download.made_of, download.variant, finished_s)

    def _forget(self, path: str) -> None:
        self._growing.pop(path, None)
        with contextlib.suppress(VfsError):
            self._vfs.remove(path)

    def grow_file(self, path: str, amount: int, now: datetime) -> bool:
        """Append `amount` foreign bytes to a finished file (it changes while somebody reads it)."""
        try:
            content = self._growing.get(self._vfs.canonical(path))
        except VfsError:
            return False
        if content is None:
            return False
        content.extend(b"\x00" * amount)
        self._vfs.set_mtime(path, now)
        return True

    def notice_removed(self) -> None:
        """Drop the records of files that are no longer in the file system."""
        # Asking the file system brings the phone up to the clock, which may add a file to the list meanwhile.
        gone = {file.path for file in tuple(self._state.files) if not self._vfs.exists(file.path)}
        self._state.files = [file for file in self._state.files if file.path not in gone]
