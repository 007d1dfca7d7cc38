"""`python -m hibor.recover`: go on with what earlier runs left (design 4 "Recovery"). It never taps for a
download.

Exit codes: 0 done and nothing is left open, 1 something is left open (kept, or with --list and --dry-run:
found), 2 done without a phone that was asked for, 26 an item breaks the contract, 27 the ledger or an item is
in doubt, 64 the command line or the library cannot be used, 75 a run holds the library, 130 interrupted.
`--list` and `--dry-run` take no lock and change nothing at all.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from typing import Any

import click

from hibor.people.commandline import USAGE, SpokenCommand, Words, run_command
from hibor.people.options import with_options

OPTIONS = (
    "task", "library", "account", "device", "adb_server", "profile", "time_scale", "only_list",
    "dry_recovery", "close", "json", "lang", "quiet",
)  # fmt: skip


def build(words: Words) -> click.Command:
    """The command in a language."""

    @click.command(cls=SpokenCommand, words=words, section="recover", exits="recover.exits")
    @with_options(words, *OPTIONS)
    def recover(**options: Any) -> int:
        from hibor.collect.interrupts import Interrupts
        from hibor.collect.recover_session import recover_session

        with Interrupts().installed():  # SIGTERM and a closed console end it as Ctrl-C does
            return recover_session(options)

    return recover


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; returns the exit code."""
    given = list(sys.argv[1:] if arguments is None else arguments)
    return run_command(build, "recover", given, on_mistake=_tell_mistake if "--json" in given else None)


def _tell_mistake(message: str) -> None:
    """A wrong command line that asked for JSON gets its document too."""
    values = {"schema_version": 1, "exit_code": USAGE, "error": message}
    sys.stdout.write(json.dumps(values, ensure_ascii=False) + "\n")


if __name__ == "__main__":
    sys.exit(main())
