"""The ledger's file, its fold and its index, kept together under one lock.

Rules of this file:
- Everything that decides or appends runs through `write`, everything that only looks through `read`; both
  first fold what other processes have appended.
- The store knows at which size, mtime and inode of the file its fold is right. A file that became shorter,
  was replaced, or was touched without growing is read again in full or refused; never trusted.
- An append whose outcome is unknown puts the store in doubt for good (ruling R28).
- An index that another process has moved on is dropped and the fold is made anew before anything is decided.
"""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Callable, Iterable, Mapping
from datetime import datetime
from pathlib import Path
from typing import Any, TypeVar

from hibor.clock import Clock
from hibor.durable import Durable, DurableError
from hibor.locks import Lock, LockTimeout, LockUnusable
from hibor.quota import events
from hibor.quota.day import QuotaCalendar
from hibor.quota.errors import LedgerInvalid
from hibor.quota.events import Event, Head
from hibor.quota.family import Automaton
from hibor.quota.fold import Fold
from hibor.quota.index import (
    FULL_VERIFY_EVERY_S,
    BaseMoved,
    FileMark,
    Index,
    IndexState,
    index_path,
    save_index,
)
from hibor.quota.scan import Marks, Place, check_heads, scan
from hibor.quota.tail import unfinished_tail

Result = TypeVar("Result")


class LedgerStore:
    """One ledger file with its fold. Safe for several threads and processes."""

    def __init__(
        self,
        path: Path,
        account: str,
        *,
        durable: Durable,
        lock: Lock,
        clock: Clock,
        automaton: Automaton,
        calendar: QuotaCalendar,
    ) -> None:
        self.path = path
        self.account = account
        self.verified_whole = False
        self.index_note: str | None = None
        self._durable = durable
        self._lock = lock
        self._clock = clock
        self._automaton = automaton
        self._calendar = calendar
        self._guard = threading.RLock()
        self._doubt: LedgerInvalid | None = None
        self._index: Index | None = None
        self._file: FileMark | None = None
        self._verified_s = 0.0
        self.fold = Fold(automaton)
        self.marks = Marks()
        self.place = Place()

    def load(self, known_heads: Iterable[Head], *, save_index: bool = True) -> None:
        """Verify the file and fold it; without `save_index` nothing at all is written yet.

        Raises `LedgerInvalid`, `LockTimeout`, `LockUnusable`.
        """
        with self._guard, self._lock:
            self._load(known_heads, save_index=save_index)

    def read(self, action: Callable[[], Result]) -> Result:
        """Run a look at the fold, brought up to date. Takes the lock only when the file has changed."""
        with self._guard:
            if self._mark() == self._file:
                try:
                    return action()
                except BaseMoved:
                    pass
            with self._lock:
                return self._up_to_date(action)

    def write(self, action: Callable[[], Result]) -> Result:
        """Run a decision with its append under the lock, on an up-to-date fold. Raises `LedgerInvalid` in
        doubt.

        The action may run a second time if it raised `BaseMoved`, which it can only do before it appends.
        """
        with self._guard:
            if self._doubt is not None:
                raise self._doubt
            with self._lock:
                return self._up_to_date(action)

    def append(
        self, event_type: str, now: datetime, step: str, *, day: str, data: Mapping[str, Any], **ids: Any
    ) -> Event:
        """Append one event; only within `write`. `DurableError` N: nothing is there; in doubt:
        `LedgerInvalid`.
        """
        place = self.place
        event, line = events.make_event(
            event_type,
            account=self.account,
            at=self._calendar.stamp(now),
            day=day,
            data=data,
            prev=place.prev,
            seq=place.count + 1,
            **ids,
        )
        # Loaded now, because after the append nothing may fail any more.
        self.fold.sums(day)
        try:
            added = self._durable.append_line(self.path, line, step=step)
        except DurableError as error:
            if error.known == "N":
                self._file = self._mark()
                raise
            self._doubt = LedgerInvalid(self.path, event.seq, f"the last append is in doubt: {error.detail}")
            raise self._doubt from error
        except BaseException:
            self._doubt = LedgerInvalid(self.path, event.seq, "the last append was interrupted")
            raise
        self.fold.apply(event, (added.offset_bytes, len(line)))
        self.marks.note(event.seq, added.offset_bytes)
        end = added.offset_bytes + added.size_bytes
        self.place = Place(event.seq, end, event.hash, events.sha256_hex(line), event.at, len(line))
        self._file = FileMark.of(added.file)
        return event

    def verify(self, heads: Iterable[Head]) -> Head:
        """Read and verify every line up to the present end. The lock is held only to find that end."""
        with self._guard:
            with self._lock:
                mark = self._mark()
            marks = Marks()
            end_bytes = 0 if mark is None else mark.size_bytes
            place = scan(self.path, self.account, Fold(self._automaton), marks, end_bytes=end_bytes)
            check_heads(self.path, place, marks, [self.place.head, *heads])
            return place.head

    def close(self, *, save_index: bool = True) -> None:
        """Save the index; losing it costs time only, so a failure is noted in `index_note`, not raised."""
        with self._guard:
            try:
                moved = self._index is None or self._index.state.place != self.place
                if save_index and self._doubt is None and moved and self.place.count:
                    with self._lock:
                        if self._mark() == self._file:
                            self._save_index(whole=self._index is None)
            except (LockTimeout, LockUnusable, LedgerInvalid) as error:
                self.index_note = str(error)
            self._drop_index()
            self._doubt = self._doubt or LedgerInvalid(self.path, 0, "this ledger object is closed")

    # ---- parts -------------------------------------------------------------------------------------------

    def _up_to_date(self, action: Callable[[], Result]) -> Result:
        """The lock is held."""
        try:
            self._catch_up()
            return action()
        except BaseMoved:
            head = self.place.head
            self._start_over()
            self._load([head])
            return action()

    def _start_over(self) -> None:
        self.fold = Fold(self._automaton)
        self.marks = Marks()
        self.place = Place()
        self._drop_index()

    def _drop_index(self) -> None:
        if self._index is not None:
            self._index.close()
            self._index = None

    def _mark(self) -> FileMark | None:
        try:
            facts = self._durable.stat(self.path)
        except DurableError as error:
            raise LedgerInvalid(self.path, 0, error.detail) from error
        return None if facts is None else FileMark.of(facts)

    def _load(self, known_heads: Iterable[Head], *, save_index: bool = True) -> None:
        """Take the fold from the index if it fits exactly, else from every line."""
        heads = list(known_heads)
        mark = self._mark()
        index = Index.open(index_path(self.path))
        now_s = self._clock.now().timestamp()
        if index is not None and mark is not None and self._adopt(index, mark, now_s):
            check_heads(self.path, self.place, self.marks, heads)
            return
        if index is not None:
            index.close()
        try:
            self.place = scan(self.path, self.account, self.fold, self.marks)
        except LedgerInvalid as error:
            if error.torn:
                unfinished_tail(self.path, self.account, self._automaton, heads)  # is it that line alone?
            raise
        check_heads(self.path, self.place, self.marks, heads)
        if index is not None and index.state.account == self.account:
            noted = [index.state.place.head]
            check_heads(self.path, self.place, self.marks, noted, index=index_path(self.path).name)
        self._file, self._verified_s, self.verified_whole = mark, now_s, True
        if self.place.count and save_index:
            self._save_index(whole=True)

    def _adopt(self, index: Index, mark: FileMark, now_s: float) -> bool:
        """Use the index if the ledger is exactly as it was when the index was made."""
        state = index.state
        fresh = 0 <= now_s - state.verified_s < FULL_VERIFY_EVERY_S
        if state.account != self.account or state.file != mark or not fresh:
            return False
        if state.place.size_bytes != mark.size_bytes or not self._last_line_is(state.place):
            return False
        try:
            self.fold = Fold(self._automaton, index)
            self.marks = index.marks()
        except (sqlite3.Error, BaseMoved, ValueError, IndexError):
            self._start_over()
            return False
        self.place, self._file, self._verified_s, self._index = state.place, mark, state.verified_s, index
        return True

    def _last_line_is(self, place: Place) -> bool:
        if place.count == 0:
            return True
        start = place.size_bytes - place.last_bytes - 1
        try:
            line = self._durable.read_bytes(self.path, offset_bytes=start, size_bytes=place.last_bytes + 1)
        except DurableError as error:
            raise LedgerInvalid(self.path, place.count, error.detail) from error
        return line.endswith(b"\n") and events.sha256_hex(line[:-1]) == place.prev

    def _catch_up(self) -> None:
        """Fold what other processes appended. The lock is held."""
        mark = self._mark()
        if mark == self._file:
            return
        try:
            self._check_growth(mark)
            self.place = scan(self.path, self.account, self.fold, self.marks, start=self.place)
        except LedgerInvalid as error:
            self._doubt = error
            raise
        self._file = mark

    def _check_growth(self, mark: FileMark | None) -> None:
        size_bytes = 0 if mark is None else mark.size_bytes
        replaced = mark is not None and self._file is not None and mark.inode != self._file.inode
        if size_bytes < self.place.size_bytes or replaced:
            raise LedgerInvalid(
                self.path, self.place.count, "the file was shortened or replaced while in use"
            )
        if size_bytes == self.place.size_bytes:
            # Same length but touched: only a full reading can say that nothing was altered.
            marks = Marks()
            place = scan(self.path, self.account, Fold(self._automaton), marks)
            check_heads(self.path, place, marks, [self.place.head])
        elif not self._last_line_is(self.place):
            raise LedgerInvalid(self.path, self.place.count, "the line was altered while in use")

    def _save_index(self, *, whole: bool) -> None:
        """Write the index and take it as the fold's base. The lock is held."""
        if self._file is None:
            return
        path = index_path(self.path)
        state = IndexState(self.account, self._file, self.place, self._verified_s)
        for again in (True, False):
            try:
                saved = save_index(path, state, self.fold, self.marks, whole=whole)
                self.fold.rebase(saved)
                self._drop_index()
                self._index = saved
                self.index_note = None
                return
            except (sqlite3.Error, BaseMoved, OSError) as error:
                self.index_note = f"{path.name}: {error}"
                if not (again and whole and type(error) is sqlite3.DatabaseError):
                    return
                # Not a database at all: what lies there has no value, and everything is about to be written.
                self._durable.drop_note(path, step="lock.drop_note")
