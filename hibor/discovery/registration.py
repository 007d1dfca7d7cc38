"""Mounting a scan on a host, with every mistake found at registration.

Rules of this file (design 6 'Registration checks'): a scan that would fail, or quietly find nothing, when it
is first run in another process is refused here, where the mistake is. Only the two methods of `DiscoveryHost`
are called on the host; no engine is imported.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable, Sequence
from typing import Any, TypedDict, Unpack

from .protocols import DiscoveryHost, Frontier
from .scanner import DiscoveryHandler, check_max_pages, check_scan_mode

RERUN_POLICIES = ("never", "on_failure", "every_run", "on_input_change")
"""When a job whose uid was already attempted runs again."""


class Additions(TypedDict, total=False):
    """The additions of `DiscoveryHandler`, by keyword; see there for their meaning."""

    continuity: bool
    continuity_rounds: int
    confirm_missing: bool
    missing_share: float
    alias_func: Callable[[Any], Sequence[str]] | None
    pinned_func: Callable[[Any], bool] | None
    stop_after: int
    stop_func: Callable[[Any, Any, int], bool] | None
    resume: bool
    skip_func: Callable[[Any, Any, int, Frontier], int | None] | None
    scan_key: str | None
    dry_run: bool


_CALLBACK_ADDITIONS = ("alias_func", "pinned_func", "stop_func", "skip_func")


def register_discovery(
    host: DiscoveryHost,
    task_type: str,
    fetch_func: Callable[[Any, Any, int], Any],
    id_func: Callable[[Any], str],
    process_item_func: Callable[[Any, Any, Any, str], Any],
    process_task_type: str,
    cursor_key_func: Callable[[dict[str, Any]], str] | None = None,
    default_resources: dict[str, float] | None = None,
    payload_schema: type | None = None,
    max_pages: int = 1000,
    rerun: str = "every_run",
    scan_mode: str = "incremental",
    on_missing: Callable[[Any, Any, list[str]], Any] | None = None,
    **additions: Unpack[Additions],
) -> None:
    """Registers a `DiscoveryHandler` with these options as the handler of `task_type` on `host`.

    `rerun` is the host's default for jobs of `task_type`: with `never`, a scan cut short by max_pages is
    never made up for. The other options, and all additions, are the handler's (see there); `scan_key` is the
    task type unless it is named.

    Raises `TypeError` for a task type that is not a non-empty str, for a callback that is not callable or not
    picklable (module level) and for an unknown addition, and `ValueError` for a task type with `::` or a bad
    max_pages, rerun or scan_mode.
    """
    _check_task_type("task_type", task_type)
    _check_task_type("process_task_type", process_task_type)
    callbacks: dict[str, Any] = {
        "fetch_func": fetch_func,
        "id_func": id_func,
        "process_item_func": process_item_func,
    }
    optional = {"cursor_key_func": cursor_key_func, "on_missing": on_missing}
    optional |= {name: additions.get(name) for name in _CALLBACK_ADDITIONS}  # type: ignore[misc]
    callbacks |= {name: callback for name, callback in optional.items() if callback is not None}
    for name, callback in callbacks.items():
        _check_callback(name, callback)
    check_max_pages(max_pages)
    if rerun not in RERUN_POLICIES:
        raise ValueError(f"rerun must be one of {', '.join(RERUN_POLICIES)}, got {rerun!r}")
    check_scan_mode(scan_mode)
    additions["scan_key"] = additions.get("scan_key") or task_type
    handler = DiscoveryHandler(
        fetch_func,
        id_func,
        process_item_func,
        process_task_type,
        cursor_key_func=cursor_key_func,
        max_pages=max_pages,
        scan_mode=scan_mode,
        on_missing=on_missing,
        **additions,
    )
    host.register_handler(
        task_type, handler, default_resources=default_resources, payload_schema=payload_schema
    )
    host.set_discovery_rerun(task_type, rerun)


def _check_task_type(name: str, task_type: object) -> None:
    if not isinstance(task_type, str) or not task_type:
        raise TypeError(f"{name} must be a non-empty str, got {task_type!r}")
    if "::" in task_type:
        raise ValueError(
            f"{name} must not contain '::', which separates type and id in a uid, got {task_type!r}"
        )


def _check_callback(name: str, callback: object) -> None:
    if not callable(callback):
        raise TypeError(f"{name} must be callable, got {type(callback).__name__}")
    # pickle raises whatever the object's own reduction raises, so every Exception means 'not picklable'.
    try:
        pickle.dumps(callback)
    except Exception as error:
        raise TypeError(
            f"{name} must be picklable (a module-level function), because hosts run scans in other "
            f"processes; got {callback!r}: {error}"
        ) from error
