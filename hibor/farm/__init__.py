"""`python -m hibor.farm`: many phones, on one or several machines, sharing one list of work (design 6
"Hosts").

`plan` hands wanted reports out, `work` is the one worker of a phone, `status` tells. The report's id is the
job's id, so a report that two phones are to have is collected once. Nothing heavy is imported before there
is something to do.
"""

from __future__ import annotations

from collections.abc import Sequence

import click

from hibor.people.commandline import Words, run_command


def build(words: Words) -> click.Command:
    """The command in a language."""
    from hibor.farm.command import build as build_farm

    return build_farm(words)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; returns the exit code."""
    return run_command(build, "farm", arguments)
