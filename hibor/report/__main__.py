"""`hibor report [RUN]`: the page of a run."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

import click

from hibor.clock import SystemClock
from hibor.durable import Durable, DurableError, FileAlreadyThere
from hibor.durable_fs import OsFileSystem
from hibor.people.commandline import DONE, FOUND, Answers, Refusal, SpokenCommand, Words, run_command, shared
from hibor.people.libraries import library_at
from hibor.people.run_view import LATEST, find_run, load_run
from hibor.report import STEP, report_html, write_run_report

EXPORT = "export.write"


def build(words: Words) -> click.Command:
    """The command in a language."""

    @click.command(cls=SpokenCommand, words=words, section="report")
    @click.argument("run", required=False)
    @click.option("--latest", is_flag=True, help=words("report.latest"))
    @click.option("-o", "--output", type=click.Path(path_type=Path), help=words("report.output"))
    @click.option("--replace", is_flag=True, help=words("common.replace"))
    @shared(words)
    def report(
        run: str | None,
        latest: bool,
        output: Path | None,
        replace: bool,
        library: Path | None,
        task: Path | None,
        json_wanted: bool,
        quiet: bool,
        lang: str | None,
    ) -> int:
        del lang  # read before the command was built
        if run and latest:
            raise Refusal("report.both")
        answers = Answers(words, quiet=quiet, json_wanted=json_wanted)
        place = library_at(library, task)
        folder = find_run(place, LATEST if latest else run)
        view = load_run(place, folder)
        if view.unread is not None:
            answers.warn(view.unread.key, **view.unread.facts)
        durable = Durable(OsFileSystem(), SystemClock(), frozenset({STEP, EXPORT}))
        try:
            if output is None:
                path = write_run_report(durable, place, folder.run_id, words.lang, view)
            else:
                path = output.absolute()
                page = report_html(view, words.lang, beside=path.parent)
                durable.export(path, lambda stream: stream.writelines(page), step=EXPORT, replace=replace)
        except FileAlreadyThere as error:
            raise Refusal("common.exists", path=output) from error
        except DurableError as error:
            raise Refusal("common.not_written", exit_code=FOUND, path=output or folder.path) from error
        answers.tell(str(path))
        answers.document({"run_id": folder.run_id, "path": str(path)})
        return DONE

    return report


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line and return the exit code."""
    return run_command(build, "report", arguments)


if __name__ == "__main__":
    sys.exit(main())
