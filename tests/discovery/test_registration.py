"""Registration finds every mistake at once, calls two methods of the host, and imports no engine."""

from __future__ import annotations

import inspect
import pickle
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import hibor.discovery as discovery
from hibor.discovery import DiscoveryHandler, register_discovery

from .listing import Job, PlainContext


class Host:
    """A home-made host with the two methods and nothing else."""

    def __init__(self) -> None:
        self.handlers: dict[str, Any] = {}
        self.options: dict[str, Any] = {}
        self.rerun: dict[str, str] = {}

    def register_handler(
        self, task_type: str, handler_func: Any, default_resources: Any = None, payload_schema: Any = None
    ) -> None:
        self.handlers[task_type] = handler_func
        self.options[task_type] = (default_resources, payload_schema)

    def set_discovery_rerun(self, task_type: str, rerun: str) -> None:
        self.rerun[task_type] = rerun


def fetch(job: Any, ctx: Any, page: int) -> list[str]:
    return ["a", "b"] if page == 1 else []


def same(item: str) -> str:
    return item


def spawn(job: Any, ctx: Any, item: str, content_id: str) -> None:
    ctx.spawned.append(content_id)


def register(host: Any, **changes: Any) -> None:
    arguments: dict[str, Any] = {
        "task_type": "scan", "fetch_func": fetch, "id_func": same, "process_item_func": spawn,
        "process_task_type": "proc",
    }  # fmt: skip
    register_discovery(host, **{**arguments, **changes})


def test_registers_a_working_picklable_handler_and_the_rerun_default() -> None:
    host = Host()
    register(host, default_resources={"net": 1.0}, payload_schema=dict)
    assert host.rerun == {"scan": "every_run"}
    assert host.options["scan"] == ({"net": 1.0}, dict)
    context = PlainContext()
    handler = pickle.loads(pickle.dumps(host.handlers["scan"]))
    assert isinstance(handler, DiscoveryHandler)
    assert handler(Job(), context) is True
    assert context.spawned == ["a", "b"]


def test_two_listings_that_share_a_task_type_do_not_share_a_debt() -> None:
    host = Host()
    register(host)
    register(host, task_type="other")
    assert host.handlers["scan"].debt_key() != host.handlers["other"].debt_key()


def local_function() -> Any:
    return lambda *arguments: []


@pytest.mark.parametrize(
    ("changes", "error"),
    [
        *[
            ({name: value}, TypeError)
            for name in ("task_type", "process_task_type")
            for value in ("", None, 3)
        ],
        *[({name: "a::b"}, ValueError) for name in ("task_type", "process_task_type")],
        *[({name: "text"}, TypeError) for name in ("fetch_func", "id_func", "process_item_func")],
        *[({name: None}, TypeError) for name in ("fetch_func", "id_func", "process_item_func")],
        *[
            ({name: value}, TypeError)
            for name in (
                "cursor_key_func",
                "on_missing",
                "alias_func",
                "pinned_func",
                "stop_func",
                "skip_func",
            )
            for value in (5, local_function())
        ],
        *[({name: local_function()}, TypeError) for name in ("fetch_func", "id_func", "process_item_func")],
        *[({"max_pages": value}, ValueError) for value in (0, -1, True, 1.5, "9", None)],
        *[({"rerun": value}, ValueError) for value in ("", "always", None)],
        *[({"scan_mode": value}, ValueError) for value in ("", "FULL", None)],
    ],
)
def test_mistakes_are_refused_before_the_host_is_touched(
    changes: dict[str, Any], error: type[Exception]
) -> None:
    host = Host()
    with pytest.raises(error, match=next(iter(changes))):
        register(host, **changes)
    assert (host.handlers, host.rerun) == ({}, {})


def test_names_and_defaults_are_those_of_design_6() -> None:
    def positional(function: Any) -> dict[str, Any]:
        return {
            name: parameter.default
            for name, parameter in inspect.signature(function).parameters.items()
            if parameter.kind is parameter.POSITIONAL_OR_KEYWORD
        }

    empty = inspect.Parameter.empty
    assert positional(DiscoveryHandler) == {
        "fetch_func": empty, "id_func": empty, "process_item_func": empty, "process_task_type": empty,
        "cursor_key_func": None, "max_pages": 1000, "scan_mode": "incremental", "on_missing": None,
    }  # fmt: skip
    expected = {
        "host": empty,
        "task_type": empty,
        "fetch_func": empty,
        "id_func": empty,
        "process_item_func": empty,
        "process_task_type": empty,
        "cursor_key_func": None,
        "default_resources": None,
        "payload_schema": None,
        "max_pages": 1000,
        "rerun": "every_run",
        "scan_mode": "incremental",
        "on_missing": None,
    }
    assert list(positional(register_discovery).items()) == list(expected.items())
    api = {
        "DiscoveryJob", "DiscoveryContext", "DiscoveryHost", "sanitize_content_id", "DiscoveryHandler",
        "register_discovery", "Page", "ScanReport",
    }  # fmt: skip
    assert api <= set(discovery.__all__)


def test_the_library_stands_alone() -> None:
    """Imported by itself it brings in nothing of the collector and no engine."""
    program = (
        "import sys, hibor.discovery\n"
        "print(sorted(name for name in sys.modules if name.split('.')[0] in "
        "('hibor', 'fsm', 'generated', 'adbutils', 'pymupdf', 'transitions', 'sqlite3', 'dbos', 'tasklite')))"
    )
    done = subprocess.run(
        [sys.executable, "-c", program],
        capture_output=True,
        text=True,
        check=True,
        cwd=Path(__file__).parents[2],
    )
    names = ["hibor", "hibor.discovery"]
    names += [
        f"hibor.discovery.{part}"
        for part in ("ids", "protocols", "registration", "report", "scanner", "walk")
    ]
    assert done.stdout.strip() == str(names)
