"""`hibor schedule print`: the lines that make a task run every morning, for Windows and for cron.

Rules of this file: it prints and changes nothing; a person puts the line in place. Paths are whole, because
neither scheduler starts where the person stands.
"""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import click

from hibor.messages.lines import is_plain
from hibor.people.commandline import (
    DONE,
    WARNINGS,
    Answers,
    Refusal,
    SpokenCommand,
    SpokenGroup,
    Words,
    run_command,
    shared,
)
from hibor.people.numbers import duration_s
from hibor.task import TaskError, load_task

SCHTASKS_LIMIT: Final = 261
"""Longest /TR value that schtasks takes, in characters."""
WEEKDAYS: Final = ("MON", "TUE", "WED", "THU", "FRI", "SAT", "SUN")
_TIME: Final = re.compile(r"([01]?\d|2[0-3]):([0-5]\d)")


def windows_line(
    program: Sequence[str], name: str, hour: int, minute: int, days: Sequence[str]
) -> tuple[str, bool]:
    """The schtasks line, and whether Windows takes it (the command in it may be too long)."""
    inner = subprocess.list2cmdline(program)
    line = subprocess.list2cmdline(
        ["schtasks", "/Create", "/F", "/TN", name, "/SC", "WEEKLY", "/D", ",".join(days),
         "/ST", f"{hour:02}:{minute:02}", "/TR", inner]
    )  # fmt: skip
    return line, len(inner) <= SCHTASKS_LIMIT


def cron_line(program: Sequence[str], log: Path, hour: int, minute: int, days: Sequence[str]) -> str:
    """The crontab line; cron reads an unescaped % as a line break. Progress goes to a log beside the task."""
    numbers = ",".join(str((WEEKDAYS.index(day) + 1) % 7) for day in days)
    command = f"{shlex.join(program)} >> {shlex.quote(str(log))} 2>&1"
    escaped = command.replace("%", r"\%")
    return f"{minute} {hour} * * {numbers} {escaped}"


def build(words: Words) -> click.Command:
    """The command in a language."""
    group = SpokenGroup(words=words, section="schedule")
    group.add_command(_build_print(words))
    return group


def _build_print(words: Words) -> click.Command:
    @click.command(cls=SpokenCommand, words=words, section="schedule.print")
    @click.option("--at", default="08:30", metavar="HH:MM", help=words("schedule.print.at"))
    @click.option(
        "--days", default="MON,TUE,WED,THU,FRI", metavar="MON,TUE,…", help=words("schedule.print.days")
    )
    @click.option("--wait", default="30m", metavar="DURATION", help=words("schedule.print.wait"))
    @click.option("--name", default="Hibor", help=words("schedule.print.name"))
    @click.option("--task", type=click.Path(path_type=Path), help=words("schedule.print.task"))
    @shared(words, library=False)
    def print_lines(
        at: str,
        days: str,
        wait: str,
        name: str,
        task: Path | None,
        json_wanted: bool,
        quiet: bool,
        lang: str | None,
    ) -> int:
        del lang
        answers = Answers(words, quiet=quiet, json_wanted=json_wanted)
        moment, chosen = _TIME.fullmatch(at), [day.strip().upper() for day in days.split(",")]
        if moment is None:
            raise Refusal("common.bad_value_refusal", name="--at")
        if not chosen or any(day not in WEEKDAYS for day in chosen):
            raise Refusal("common.bad_value_refusal", name="--days")
        try:
            duration_s(wait)
        except ValueError as error:
            raise Refusal("common.bad_value_refusal", name="--wait") from error
        path = (task or Path("task.toml")).absolute()
        if not is_plain(str(path)):
            raise Refusal("common.strange_argument", argument=path)
        try:
            load_task(path)
        except TaskError as error:
            if not path.exists():
                raise Refusal("schedule.print.no_task", path=path) from error
            raise Refusal("common.task_unreadable", path=path, count=len(error.problems)) from error
        program = [sys.executable, "-m", "hibor.run", "--task", str(path), "--wait", wait.strip()]
        hour, minute = int(moment[1]), int(moment[2])
        windows, fits = windows_line(program, name, hour, minute, chosen)
        cron = cron_line(program, path.with_suffix(".log"), hour, minute, chosen)
        for kind, line in (("windows", windows), ("cron", cron)):
            answers.tell(f"# {words(f'schedule.{kind}')}")
            answers.tell(line)
        answers.say("schedule.first_use")
        if not fits:
            answers.warn("schedule.too_long", limit=SCHTASKS_LIMIT)
        answers.document({"windows": windows, "cron": cron, "windows_fits": fits})
        return DONE if fits or os.name != "nt" else WARNINGS

    return print_lines


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line and return the exit code."""
    return run_command(build, "schedule", arguments)


if __name__ == "__main__":
    sys.exit(main())
