"""`hibor task init | check`: a commented task file to start from, and every problem of one with its line.

Rules of this file:

* The template's values are the defaults of `hibor.task`, its comments are in the reader's language, and it
  passes the check as it is written (test).
* `hibor.task` words its problems in English; here each becomes a sentence of the reader's language. A
  problem this file does not know is told by its place alone, never in the wrong language.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import BinaryIO, Final

import click

from hibor.clock import SystemClock
from hibor.device.profile import shipped_profiles
from hibor.durable import Durable, DurableError, FileAlreadyThere
from hibor.durable_fs import OsFileSystem
from hibor.messages import told_line
from hibor.package.layout import account_folder
from hibor.package.names import safe_component
from hibor.people.commandline import (
    DONE,
    FOUND,
    USAGE,
    Answers,
    Refusal,
    SpokenCommand,
    SpokenGroup,
    Words,
    run_command,
    shared,
)
from hibor.people.libraries import sync_program
from hibor.task import (
    EMBEDDED_ACCOUNT,
    SPACING_MIN_S,
    Task,
    TaskError,
    error_at,
    foreign_path,
    load_task,
)
from hibor.toml_lines import Place

STEP: Final = "export.write"
DEFAULT_TASK_LIBRARY: Final = "hibor-reports"
"""Not the first command's `hibor-library`, which belongs to the simulated phone."""


def told_problem(message: str, words: Words) -> str:
    """A problem's message in the reader's language."""
    return told_line(words.lang, message) or words("sentences.other")


def placed_problems(error: TaskError) -> list[tuple[int | None, str]]:
    """(line or None, message) of every problem of a task file."""
    found: list[tuple[int | None, str]] = []
    for problem in error.problems:
        text = problem.removeprefix(f"{error.path}:")
        line, _, message = text.partition(": ")
        found.append((int(line), message) if line.strip().isdecimal() else (None, text.strip()))
    return found


def template(words: Words, *, library: str, account: str) -> str:
    """A commented task file with the defaults."""
    task = Task(library=library, account=account)
    return words(
        "task.template",
        library=_toml(library),
        account=_toml(account),
        lang=words.lang,
        deadline_s=f"{task.deadline_s:g}",
        count=task.count,
        min_count=task.min_count,
        since_days=task.select.since_days,
        pages_min=task.select.pages_min,
        limit=task.quota.limit,
        new_max=task.quota.new_max,
        spacing_s=f"{SPACING_MIN_S:g}",
        reuse=task.policy.reuse,
    ).lstrip()


def _toml(text: str) -> str:
    """A TOML basic string."""
    escaped = text.replace("\\", "/").replace('"', '\\"')
    return f'"{escaped}"'


def build(words: Words) -> click.Command:
    """The command in a language."""
    group = SpokenGroup(words=words, section="task")
    group.add_command(_build_init(words))
    group.add_command(_build_check(words))
    return group


def _build_init(words: Words) -> click.Command:
    @click.command(cls=SpokenCommand, words=words, section="task.init")
    @click.argument("file", type=click.Path(path_type=Path), default=Path("task.toml"))
    @click.option("--library", default=DEFAULT_TASK_LIBRARY, help=words("task.init.library"))
    @click.option("--account", default="team-a", help=words("task.init.account"))
    @click.option("--replace", is_flag=True, help=words("common.replace"))
    @shared(words, library=False)
    def init(
        file: Path,
        library: str,
        account: str,
        replace: bool,
        json_wanted: bool,
        quiet: bool,
        lang: str | None,
    ) -> int:
        del lang
        if safe_component(account, limit_bytes=100) != account or not library.strip():
            raise Refusal("task.init.unusable")
        answers = Answers(words, quiet=quiet, json_wanted=json_wanted)
        data = template(words, library=library, account=account).encode()
        durable = Durable(OsFileSystem(), SystemClock(), frozenset({STEP}))

        def fill(stream: BinaryIO) -> None:
            stream.write(data)

        path = file.absolute()
        try:
            durable.export(path, fill, step=STEP, replace=replace)
        except FileAlreadyThere as error:
            raise Refusal("common.exists", exit_code=FOUND, path=path) from error
        except DurableError as error:
            raise Refusal("common.not_written", exit_code=FOUND, path=path) from error
        answers.tell(words("task.init.done", path=path))
        answers.document({"path": str(path)})
        return DONE

    return init


def _build_check(words: Words) -> click.Command:
    @click.command(cls=SpokenCommand, words=words, section="task.check")
    @click.argument("file", type=click.Path(path_type=Path), default=Path("task.toml"))
    @shared(words, library=False)
    def check(file: Path, json_wanted: bool, quiet: bool, lang: str | None) -> int:
        del lang
        answers = Answers(words, quiet=quiet, json_wanted=json_wanted)
        try:
            task = load_task(file)
            check_places(task)
        except TaskError as error:
            problems = [(line, told_problem(message, words)) for line, message in placed_problems(error)]
            for number, message in problems:
                answers.tell(f"{file}:{number}: {message}" if number else f"{file}: {message}")
            answers.tell(words("task.check.bad", count=len(problems)))
            answers.document(
                {
                    "valid": False,
                    "problems": [{"line": line, "message": message} for line, message in problems],
                }
            )
            return USAGE
        for line in _meaning(task, words):
            answers.tell(line)
        program = sync_program(task.library_path)
        if program is not None:
            answers.warn("common.sync_folder", program=program)
        warnings = list(_warnings(task))
        for key in warnings:
            written = foreign_path(task.library, task.policy.ledger_dir)
            answers.warn(f"task.check.{key}", path=task.library_path, account=task.account, written=written)
        answers.document(
            {
                "valid": True,
                "problems": [],
                "warnings": warnings,
                "library": str(task.library_path),
                "account": task.account,
            }
        )
        return DONE

    return check


def check_places(task: Task) -> None:
    """Compare what a task names with what lies on this disk, before a run meets it. Raises `TaskError`."""
    problems: list[tuple[Place, str]] = []
    folders: list[tuple[Place, Path]] = [(("library",), task.library_path)]
    if task.policy.ledger_dir:
        folders.append((("policy", "ledger_dir"), task.ledger_path))
    for place, folder in folders:
        there = next(one for one in (folder, *folder.absolute().parents) if os.path.lexists(one))
        if not there.is_dir():
            problems.append((place, f'"{place[-1]}" {there} is not a folder'))
    shipped = shipped_profiles()
    if task.profile and not (task.base / task.profile).is_file() and task.profile not in shipped:
        known = ", ".join(shipped)
        problems.append((("profile",), f'"profile" {task.profile} is no file, and shipped are: {known}'))
    if problems:
        raise error_at(task, problems)


def _warnings(task: Task) -> Iterator[str]:
    """What a task may do and its author hardly wants, as keys below `task.check`."""
    if foreign_path(task.library, task.policy.ledger_dir):
        yield "foreign"
    if (task.library_path / "sim-phone").is_dir() and task.account != EMBEDDED_ACCOUNT:
        yield "simulated_library"
        return
    try:
        accounts = {found.parent.name for found in task.ledger_path.glob("*/ledger.jsonl")}
    except OSError:
        return
    if accounts and account_folder(task.account) not in accounts:
        yield "other_account"


def _meaning(task: Task, words: Words) -> list[str]:
    """What the task will do, in sentences."""
    quota, select = task.quota, task.select
    lines = [
        words("task.check.good"),
        words("task.check.library", path=task.library_path, account=task.account),
        words(
            "task.check.count",
            count=task.count,
            new_max=quota.new_max,
            limit=quota.limit,
            days=select.since_days,
        ),
        words(f"task.check.reuse_{task.policy.reuse}"),
    ]
    filters = (("keywords_any", select.keywords_any), ("keywords_not", select.keywords_not),
               ("institutions", select.institutions), ("report_ids", select.report_ids))  # fmt: skip
    separator = words("explain.separator")
    lines += [
        words(f"task.check.{name}", values=separator.join(values)) for name, values in filters if values
    ]
    return lines


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line and return the exit code."""
    return run_command(build, "task", arguments)


if __name__ == "__main__":
    sys.exit(main())
