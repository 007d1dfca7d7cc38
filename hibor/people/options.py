"""The options several commands share, each with one spelling and one text (`options.*` of the catalogue).

Rules of this file: a command lists the names it takes; what an option is called, takes and says is stated
here alone. Values are checked where they are used, so that the main job can answer with its document.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final, TypeVar

import click

from hibor.messages import LANGS
from hibor.people.commandline import Words
from hibor.people.numbers import FASTEST, LONGEST_S, MOST_REPORTS, Number

Function = TypeVar("Function", bound=Callable[..., Any])

_FILE: Final = {"type": click.Path()}
_OPTIONS: Final[Mapping[str, tuple[tuple[str, ...], Mapping[str, Any]]]] = {
    "task": (("--task",), _FILE),
    "library": (("--library",), _FILE),
    "account": (("--account",), {"metavar": "NAME"}),
    "device": (("--device",), {"metavar": "SERIAL"}),
    "adb_server": (("--adb-server",), {"metavar": "HOST:PORT"}),
    "profile": (("--profile",), {"metavar": "PROFILE"}),
    "deadline": (("--deadline",), {"type": Number(1.0, LONGEST_S), "metavar": "SECONDS"}),
    "quota_limit": (("--quota-limit",), {"type": Number(0, MOST_REPORTS), "metavar": "N"}),
    "count": (("--count",), {"type": Number(1, MOST_REPORTS), "metavar": "N"}),
    "scenario": (("--scenario",), {"metavar": "NAME"}),
    "time_scale": (("--time-scale",), {"type": Number(0.01, FASTEST), "metavar": "X"}),
    "retrigger": (("--retrigger",), {"multiple": True, "metavar": "REPORT_ID"}),
    "wait": (("--wait",), {"metavar": "DURATION"}),
    "plan": (("--plan",), {"type": click.Path(), "metavar": "FILE"}),
    "dry_run": (("--dry-run",), {"is_flag": True}),
    "dry_scan": (("--dry-run", "dry_run"), {"is_flag": True}),
    "dry_recovery": (("--dry-run", "dry_run"), {"is_flag": True}),
    "yes": (("--yes",), {"is_flag": True}),
    "lang": (("--lang",), {"type": click.Choice(LANGS)}),
    "quiet": (("--quiet",), {"is_flag": True}),
    "verbose": (("--verbose",), {"is_flag": True}),
    "full": (("--full",), {"is_flag": True}),
    "max_pages": (("--max-pages",), {"type": Number(1, MOST_REPORTS), "metavar": "N"}),
    "json": (("--json", "as_json"), {"is_flag": True}),
    "only_list": (("--list", "only_list"), {"is_flag": True}),
    "close": (("--close",), {"multiple": True, "metavar": "ITEM"}),
    "zone": (("--zone",), {"metavar": "ZONE"}),
    "ledger_dir": (("--ledger-dir",), _FILE),
}


def with_options(words: Words, *names: str) -> Callable[[Function], Function]:
    """Give a command these options, in this order."""

    def decorate(function: Function) -> Function:
        for name in reversed(names):
            flags, settings = _OPTIONS[name]
            function = click.option(*flags, help=words(f"options.{name}"), **settings)(function)
        return function

    return decorate
