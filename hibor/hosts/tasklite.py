"""Discovery on the real `tasklite-engine`, 1.4 and 2.x (design 6 'Hosts', 'tasklite').

Rules of this file:

* The two engines differ in one name: 1.4 registers with `register_handler`, 2.x with `register_task`.
* The engine runs handlers in spawned processes, so what is registered must be picklable; `OnTasklite` is
  a module-level class for that reason.
* The engine commits a job's spawned children and its cursors together with its success, and throws both away
  when it fails. That is the host duty of `hibor.discovery.protocols`; so scan debt, frontier and the missing
  ids of the last full scan are kept as cursors: an attempt that died has handed out nothing that could hide
  anything.
* The engine has no place for declined marks; a declined entry is offered again (the scanner says so).

The engine is imported only where a job is built, inside its own processes.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Mapping
from typing import Any

from hibor.discovery import DiscoveryHandler, Frontier

_PREFIX = "hibor-discovery"


class TaskliteHost:
    """`DiscoveryHost` over a `tasklite.TaskLite` object of either version, which the caller makes and
    runs.
    """

    def __init__(self, engine: Any) -> None:
        self.engine = engine
        if not hasattr(engine, "register_handler") and not hasattr(engine, "register_task"):
            raise TypeError(f"not a tasklite engine: {type(engine).__name__}")

    def register_handler(
        self,
        task_type: str,
        handler_func: Callable[..., Any],
        default_resources: dict[str, float] | None = None,
        payload_schema: type | None = None,
    ) -> None:
        """Registers `handler_func` under the engine's own name for it; contexts get this module's
        additions.
        """
        register = getattr(self.engine, "register_handler", None) or self.engine.register_task
        register(
            task_type,
            OnTasklite(handler_func),
            default_resources=default_resources,
            payload_schema=payload_schema,
        )

    def set_discovery_rerun(self, task_type: str, rerun: str) -> None:
        """Passes the default rerun policy on to the engine."""
        self.engine.set_discovery_rerun(task_type, rerun)


class OnTasklite:
    """A handler that sees a `TaskliteContext`; what it returns and raises goes to the engine unchanged."""

    def __init__(self, handler: Callable[..., Any] | DiscoveryHandler) -> None:
        self.handler = handler

    def __call__(self, job: Any, ctx: Any) -> Any:
        return self.handler(job, TaskliteContext(ctx))


class TaskliteContext:
    """The engine's context with scan debt, frontier and missing ids; all else is the engine's own."""

    def __init__(self, engine_context: Any) -> None:
        self._engine_context = engine_context

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        return getattr(self._engine_context, name)

    def is_completed(self, uid: str) -> bool:
        """Whether `uid` is on the engine's wall as of dispatch."""
        return bool(self._engine_context.is_completed(uid))

    def is_failed(self, uid: str) -> bool:
        """Whether `uid` is among the engine's failures as of dispatch."""
        return bool(self._engine_context.is_failed(uid))

    def attempted_uids(self) -> Collection[str]:
        """The engine's wall and failures as of dispatch; a set in memory, as the engine keeps it."""
        uids: Collection[str] = self._engine_context.attempted_uids()
        return uids

    def spawn(
        self, task_type_or_job: Any, job_id: str | None = None, payload: Mapping[str, Any] | None = None
    ) -> None:
        """`spawn(task_type, job_id, payload)` as on the other hosts, or `spawn(job)` with the engine's
        Job.
        """
        job = task_type_or_job
        if isinstance(task_type_or_job, str):
            from tasklite import Job

            job = Job(task_type_or_job, job_id, dict(payload or {}))
        self._engine_context.spawn(job)

    def scan_debt(self, key: str) -> bool:
        """Whether the last finished scan of `key` was incomplete."""
        return self._recall("debt", key) is not None

    def set_scan_debt(self, key: str, debt: bool) -> None:
        """Takes effect with the job's success, as everything this job hands out does."""
        self._remember("debt", key, True if debt else None)

    def scan_frontier(self, key: str) -> Frontier | None:
        """How far the last incomplete scan of `key` got, or None."""
        value = self._recall("frontier", key)
        return None if value is None else Frontier(int(value["page"]), tuple(value["ids"]))

    def set_scan_frontier(self, key: str, frontier: Frontier | None) -> None:
        """Replaces the frontier of `key`, with the job's success."""
        value = None if frontier is None else {"page": frontier.page, "ids": list(frontier.ids)}
        self._remember("frontier", key, value)

    def missing_before(self, key: str) -> list[str]:
        """Content ids the last complete full scan of `key` missed."""
        return [str(content_id) for content_id in self._recall("missing", key) or ()]

    def set_missing_before(self, key: str, content_ids: Collection[str]) -> None:
        """Replaces the missing ids of `key`, with the job's success."""
        self._remember("missing", key, sorted(content_ids) or None)

    def _recall(self, kind: str, key: str) -> Any:
        text = self._engine_context.get_cursor(f"{_PREFIX}:{kind}:{key}")
        return None if text is None else json.loads(text)

    def _remember(self, kind: str, key: str, value: Any) -> None:
        text = None if value is None else json.dumps(value, ensure_ascii=False)
        self._engine_context.set_cursor(f"{_PREFIX}:{kind}:{key}", text)
