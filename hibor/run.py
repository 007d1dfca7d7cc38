"""`python -m hibor.run`: the main job. stdout carries exactly one JSON document, whatever happens.

Everything for people goes to stderr, in their language. Mistakes on the command line end with the same
document (`TASK_INVALID`, 64). Heavy imports happen only once there is something to do; what can be missing in
a broken installation is imported where its absence is told.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import threading
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from hibor.messages import Lang
    from hibor.people.commandline import Words

OPTIONS = (
    "task", "library", "device", "adb_server", "profile", "deadline", "quota_limit", "count", "scenario",
    "time_scale", "retrigger", "wait", "plan", "dry_run", "yes", "lang", "quiet", "verbose",
)  # fmt: skip
"""The options of the main job (design 1), by their names in `hibor.people.options`."""


def build(words: Words) -> click.Command:
    """The command in a language."""
    from hibor.people.commandline import SpokenCommand
    from hibor.people.options import with_options

    @click.command(cls=SpokenCommand, words=words, section="run", exits="run")
    @with_options(words, *OPTIONS)
    def run(**options: Any) -> None:
        from hibor.collect.session import run_session

        raise SystemExit(run_session(options))

    return run


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; returns the exit code. The JSON document is on stdout."""
    given = list(sys.argv[1:] if arguments is None else arguments)
    _end_signals_as_ctrl_c()
    try:
        from hibor.people.console import opened
    except Exception as error:  # a broken installation: the document is owed all the same
        return _last_resort(error, _lang_of(given))
    with opened():
        return _ended(given)


def _ended(given: list[str]) -> int:
    """Run the command on streams that take everything; its exit code is the document's."""
    try:
        from hibor.people.commandline import Words, answered

        words = Words(_lang_of(given))
        build(words).main(args=given, prog_name="hibor run", standalone_mode=False)
        return answered(0, words)  # of --help, the one answer that is no document
    except SystemExit as ended:
        return ended.code if isinstance(ended.code, int) else 0
    except (click.exceptions.Abort, KeyboardInterrupt):
        from hibor.collect.session import end_interrupted

        return end_interrupted(_lang_of(given))
    except click.ClickException as error:
        return _refused(error.format_message(), given)
    except Exception as error:  # a broken installation: the document is owed all the same
        return _last_resort(error, _lang_of(given))


def _lang_of(given: list[str]) -> Lang:
    """The reader's language, also where the catalogue cannot be reached."""
    try:
        from hibor.messages import chosen_lang

        return chosen_lang(given)
    except Exception:  # a broken installation: what is left to look at is the command line and the locale
        spoken = f"{os.environ.get('HIBOR_LANG', '')}{os.environ.get('LANG', '')}"
        return "zh" if "zh" in given or "--lang=zh" in given or spoken.startswith("zh") else "en"


def _last_resort(error: Exception, lang: str) -> int:
    """Tell a failure of the program's own parts with nothing but the contract's tables."""
    from fsm import failure_code
    from hibor.collect.governance import RunFacts
    from hibor.package.run_terminal import RunDocument, StopReason

    code = failure_code("unexpected", "run")
    reason = StopReason(code, f"{type(error).__name__}: {error}")
    document = RunDocument(run_id="", facts=RunFacts(cause=code), stop_reason=reason).build()
    print(json.dumps(document, ensure_ascii=False, indent=2))
    try:
        from hibor.messages import text

        told = text(lang, "run.last_resort", detail=type(error).__name__)
    except Exception:  # without a catalogue the code alone says it, in every language
        told = type(error).__name__
    print(f"{code}: {told}", file=sys.stderr)
    return int(document["exit_code"])


def _end_signals_as_ctrl_c() -> None:
    """Until the session takes over, SIGTERM and a closed console end the command as Ctrl-C does (R26)."""
    if threading.current_thread() is threading.main_thread():
        for name in ("SIGTERM", "SIGHUP", "SIGBREAK"):
            if hasattr(signal, name):
                signal.signal(getattr(signal, name), signal.default_int_handler)


def _refused(message: str, given: list[str]) -> int:
    from hibor.collect.session import refuse

    return refuse(message, _lang_of(given))


if __name__ == "__main__":
    sys.exit(main())
