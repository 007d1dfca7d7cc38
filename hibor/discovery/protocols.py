"""What a scan needs of the world, as small protocols; no engine is imported anywhere in this package.

Rules of this file (design 6 'API'):

* `DiscoveryJob`, `DiscoveryContext`, `DiscoveryHost` are the whole requirement. Any object with these members
  will do; nothing has to inherit from them.
* The further context protocols are optional. The scanner looks for them once per scan, with `hasattr`, and
  does without when they are missing. Each adds one protection that the plain contract lacks.

**Duty of every host.** What a scan hands out (spawned jobs, recorded entries, marks, a cleared debt, a moved
frontier) becomes visible atomically with the success of the scan's job, or the host keeps scan debt:
otherwise a crash between the first and the last of them leaves entries that later scans take for 'already
handled below'. `set_scan_debt(key, True)` alone must be durable when it returns, before anything is fetched.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from typing import Any, Protocol, runtime_checkable

import attrs


class DiscoveryJob(Protocol):
    """The scan's task: only its payload is read."""

    @property
    def payload(self) -> dict[str, Any]:
        """The job's input; may name `scan_mode` and `max_pages` for this scan."""


class DiscoveryContext(Protocol):
    """The host's snapshot at dispatch. It must not change while the scan runs.

    The seen set is complete = finished ∪ failed; a host never cuts it to a window (contract S1, S2).
    """

    def is_completed(self, uid: str) -> bool:
        """Whether the job `uid` has finished with success."""

    def is_failed(self, uid: str) -> bool:
        """Whether the job `uid` has failed for good."""

    def attempted_uids(self) -> Iterable[str]:
        """Every finished or failed uid of every task type; possibly lazy, of any size, in any order."""


class DiscoveryHost(Protocol):
    """What `register_discovery` needs of an engine."""

    def register_handler(
        self,
        task_type: str,
        handler_func: Callable[..., Any],
        default_resources: dict[str, float] | None = None,
        payload_schema: type | None = None,
    ) -> None:
        """Run `handler_func(job, ctx)` for every job of `task_type`."""

    def set_discovery_rerun(self, task_type: str, rerun: str) -> None:
        """Default rerun policy of `task_type`: `never | on_failure | every_run | on_input_change`."""


@runtime_checkable
class ScanDebtContext(Protocol):
    """Optional: remembers that a stretch of the listing has not been proven read (cures losses T1 and
    crashes).
    """

    def scan_debt(self, key: str) -> bool:
        """Whether an earlier scan of `key` ended before a complete end."""

    def set_scan_debt(self, key: str, debt: bool) -> None:
        """True: durable when this returns. False: takes effect with the job's success."""


@runtime_checkable
class BatchContext(Protocol):
    """Optional, for hosts that also keep scan debt: answers for a whole page with one query."""

    def seen_uids(self, uids: Collection[str]) -> Collection[str]:
        """Those of `uids` that are finished or failed in the snapshot."""


@attrs.frozen
class Frontier:
    """How far an incomplete scan got on a gapless walk from the top.

    `page` is the last page read, `ids` the content ids on it, newest first.
    """

    page: int
    ids: tuple[str, ...]


@runtime_checkable
class FrontierContext(Protocol):
    """Optional: keeps the frontier of an incomplete scan, so that the next one need not start over."""

    def scan_frontier(self, key: str) -> Frontier | None:
        """The frontier of the last incomplete scan of `key`."""

    def set_scan_frontier(self, key: str, frontier: Frontier | None) -> None:
        """Replaces it; takes effect with the job's success."""


@runtime_checkable
class MarkContext(Protocol):
    """Optional: entries that were declined for good; seen for page hits, never for `on_missing`."""

    def mark_seen(self, uid: str) -> None:
        """Declines `uid`; takes effect with the job's success."""

    def is_marked_seen(self, uid: str) -> bool:
        """Whether `uid` was declined before this scan."""


@runtime_checkable
class ReasonedMarkContext(MarkContext, Protocol):
    """Optional: marks that carry why, so that they can be listed and taken back when the rule changes."""

    def mark_declined(self, uid: str, reason: str, rule_version: str) -> None:
        """As `mark_seen`, with the reason for people and the version of the rule that declined."""


@runtime_checkable
class MissingContext(Protocol):
    """Optional: remembers what the last complete full scan did not find (for `confirm_missing`).

    Without it the handler remembers in its own process: after a restart one more full scan is needed.
    """

    def missing_before(self, key: str) -> Iterable[str]:
        """Content ids the last complete full scan of `key` missed."""

    def set_missing_before(self, key: str, content_ids: Collection[str]) -> None:
        """Replaces them; takes effect with the job's success."""


@runtime_checkable
class ReportContext(Protocol):
    """Optional: stores scan reports, so that a later 'nothing new' can be checked."""

    def store_scan_report(self, key: str, report: dict[str, Any]) -> None:
        """`report` holds JSON values only; takes effect with the job's success."""
