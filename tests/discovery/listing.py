"""A listing in memory that can move between fetches, and a host in memory that keeps the contract's promises.

The listing is the model of the truth: `alive` in order, `ever` with everything that was ever listed. Moves
are queued per fetch, so a test says exactly between which two fetches what happens.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from hibor.discovery import DiscoveryHandler, Frontier, ScanReport


class Job:
    """A home-made job."""

    def __init__(self, payload: dict[str, Any] | None = None) -> None:
        self.payload = payload if payload is not None else {}


class PlainContext:
    """A home-made context with the three contract methods and nothing else."""

    def __init__(self, completed: Iterable[str] = (), failed: Iterable[str] = ()) -> None:
        self._completed = frozenset(completed)
        self._failed = frozenset(failed)
        self.spawned: list[str] = []

    def is_completed(self, uid: str) -> bool:
        return uid in self._completed

    def is_failed(self, uid: str) -> bool:
        return uid in self._failed

    def attempted_uids(self) -> Iterable[str]:
        yield from self._completed
        yield from self._failed


class MemoryHost:
    """Wall, failed and the optional memories of a host, with the atomic success that hosts owe."""

    def __init__(self, task_type: str = "proc", *, extended: bool = False) -> None:
        self.task_type = task_type
        self.extended = extended
        self.wall: set[str] = set()
        self.failed: set[str] = set()
        self.debts: set[str] = set()
        self.marks: dict[str, str] = {}
        self.frontiers: dict[str, Frontier | None] = {}
        self.missing: dict[str, tuple[str, ...]] = {}
        self.handled: list[str] = []
        self.executions: dict[str, int] = {}

    def context(self) -> Any:
        """The snapshot for one job."""
        if self.extended:
            return ExtendedContext(self)
        return PlainContext(self.wall, self.failed)

    def scan(self, handler: DiscoveryHandler, payload: dict[str, Any] | None = None) -> ScanReport:
        """Runs one scan job; what it handed out takes effect only when it returns."""
        context = self.context()
        report = handler.scan(Job(payload), context)
        self.commit(context)
        return report

    def commit(self, context: Any) -> None:
        for content_id in context.spawned:
            uid = f"{self.task_type}::{content_id}"
            self.handled.append(content_id)
            if uid not in self.wall and uid not in self.failed:
                self.executions[content_id] = self.executions.get(content_id, 0) + 1
                self.wall.add(uid)
        for effect in getattr(context, "effects", ()):
            effect()


class ExtendedContext(PlainContext):
    """The contract's context with every optional protocol of the library."""

    def __init__(self, host: MemoryHost) -> None:
        super().__init__(host.wall, host.failed)
        self._host = host
        self._marks = frozenset(host.marks)
        self._debts = frozenset(host.debts)
        self.effects: list[Callable[[], Any]] = []

    def scan_debt(self, key: str) -> bool:
        return key in self._debts

    def set_scan_debt(self, key: str, debt: bool) -> None:
        if debt:
            self._host.debts.add(key)
        else:
            self.effects.append(lambda: self._host.debts.discard(key))

    def scan_frontier(self, key: str) -> Frontier | None:
        return self._host.frontiers.get(key)

    def set_scan_frontier(self, key: str, frontier: Frontier | None) -> None:
        self.effects.append(lambda: self._host.frontiers.__setitem__(key, frontier))

    def mark_seen(self, uid: str) -> None:
        self.mark_declined(uid, "", "")

    def mark_declined(self, uid: str, reason: str, rule_version: str) -> None:
        self.effects.append(lambda: self._host.marks.__setitem__(uid, f"{rule_version}: {reason}"))

    def is_marked_seen(self, uid: str) -> bool:
        return uid in self._marks

    def missing_before(self, key: str) -> Iterable[str]:
        return self._host.missing.get(key, ())

    def set_missing_before(self, key: str, content_ids: Iterable[str]) -> None:
        remembered = tuple(content_ids)
        self.effects.append(lambda: self._host.missing.__setitem__(key, remembered))


class Listing:
    """Newest first, `page_size` entries a page, with moves that happen before the n-th fetch of a scan."""

    def __init__(self, ids: Iterable[str] = (), page_size: int = 10) -> None:
        self.alive = list(ids)
        self.page_size = page_size
        self.fetched: list[int] = []
        self.before_fetch: dict[int, list[Callable[[], Any]]] = {}

    def fetch(self, job: Any, ctx: Any, page: int) -> list[str]:
        """The `fetch_func`; the first fetch of a scan is number 0 (see `start`)."""
        for move in self.before_fetch.pop(len(self.fetched), ()):
            move()
        self.fetched.append(page)
        return self.alive[(page - 1) * self.page_size : page * self.page_size]

    def start(self) -> None:
        """Forgets the fetches of the scan before."""
        self.fetched.clear()

    def at(self, fetch: int, move: Callable[[], Any]) -> None:
        """Schedules `move` right before fetch number `fetch` of the next scan."""
        self.before_fetch.setdefault(fetch, []).append(move)

    def insert(self, *ids: str) -> None:
        """New entries on top, the first one topmost."""
        self.alive[:0] = ids

    def delete(self, content_id: str) -> None:
        """Takes an entry out, if it is there."""
        if content_id in self.alive:
            self.alive.remove(content_id)

    def bump(self, content_id: str) -> None:
        """Moves an entry to the top."""
        if content_id in self.alive:
            self.alive.remove(content_id)
            self.alive.insert(0, content_id)


def same(item: Any) -> str:
    """An `id_func` for listings of plain ids."""
    return item  # type: ignore[no-any-return]


def spawn(job: Any, ctx: Any, item: Any, content_id: str) -> None:
    """A `process_item_func` that hands the entry out."""
    ctx.spawned.append(content_id)


def names(count: int, start: int = 0) -> list[str]:
    """`count` ids, newest first, deliberately not in alphabetical order."""
    return [f"r{(start + index) * 7919 % 100003}" for index in range(count)]
