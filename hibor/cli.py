"""`hibor`: all commands under one name; the same as `python -m hibor.COMMAND`.

Rules of this file:

* Nothing of a command is imported before it is asked for: `hibor --help` reads only the catalogue.
* A command gets its arguments unread and answers with its own exit code; `hibor run` therefore ends with
  its JSON document also when its command line is wrong.
* A command that this installation does not have is said so, not a traceback.
"""

from __future__ import annotations

import importlib
import importlib.util
import os
import sys
from collections.abc import Sequence
from typing import Any, Final

import click

from hibor.people.commandline import USAGE, Refusal, SpokenGroup, Words, run_command

COMMANDS: Final[dict[str, str]] = {
    "run": "hibor.run",
    "recover": "hibor.recover",
    "doctor": "hibor.doctor.command",
    "discover": "hibor.discover",
    "report": "hibor.report.__main__",
    "package": "hibor.package_zip",
    "ledger": "hibor.ledger",
    "quota": "hibor.quota_cli",
    "runs": "hibor.runs",
    "find": "hibor.find",
    "want": "hibor.want",
    "explain": "hibor.explain",
    "task": "hibor.task_cli",
    "sim": "hibor.sim.__main__",
    "farm": "hibor.farm",
    "schedule": "hibor.schedule",
    "library": "hibor.library",
    "quarantine": "hibor.quarantine",
}
"""Each command and the module whose `main(arguments)` runs it."""


class LazyGroup(SpokenGroup):
    """The commands, found by name and imported when called."""

    hands_on = True

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Every command, in the order of a day's work."""
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """A stand-in that hands the arguments on."""
        if cmd_name not in COMMANDS:
            raise Refusal("cli.unknown", name=cmd_name)
        if "_HIBOR_COMPLETE" in os.environ:
            return _real(cmd_name, self.words)
        return HandOn(cmd_name, self.words)


class HandOn(click.Command):
    """One command as the group sees it: all its arguments belong to the module."""

    def __init__(self, name: str, words: Words) -> None:
        super().__init__(name, short_help=words(f"cli.commands.{name}"), add_help_option=False)
        self.params = [click.Argument(["arguments"], nargs=-1, type=click.UNPROCESSED)]
        self.context_settings = {"ignore_unknown_options": True, "allow_interspersed_args": False}
        self.words = words

    def invoke(self, ctx: click.Context) -> int:
        """Import the module and run it. Raises `Refusal` when it is not installed."""
        assert self.name is not None
        return call(self.name, ctx.params["arguments"])


def call(name: str, arguments: Sequence[str]) -> int:
    """Run one command with its arguments and return its exit code. Raises `Refusal` for one that is not
    there.
    """
    module_name = COMMANDS[name]
    if _missing(module_name):
        raise Refusal("cli.not_here", exit_code=USAGE, name=name)
    main_of: Any = importlib.import_module(module_name).main
    try:
        return int(main_of(list(arguments)) or 0)
    except SystemExit as ended:  # a command that ends its process itself
        return ended.code if isinstance(ended.code, int) else int(ended.code is not None)


def _missing(module_name: str) -> bool:
    try:
        return importlib.util.find_spec(module_name) is None
    except ModuleNotFoundError:
        return True


def _real(name: str, words: Words) -> click.Command | None:
    """The command itself, for shell completion."""
    if _missing(COMMANDS[name]):
        return None
    module: Any = importlib.import_module(COMMANDS[name])
    if hasattr(module, "build"):
        built: click.Command = module.build(words)
        return built
    found = getattr(module, "command", None) or getattr(module, "cli", None)
    return found if isinstance(found, click.Command) else None


def build(words: Words) -> click.Command:
    """The group in a language."""
    return LazyGroup("hibor", words=words, section="cli", exits="run")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line and return the exit code."""
    return run_command(build, "", arguments)


if __name__ == "__main__":
    sys.exit(main())
