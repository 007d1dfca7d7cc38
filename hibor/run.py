"""`python -m hibor.run`: the main job. stdout carries exactly one JSON document, whatever happens.

Everything for people goes to stderr. Mistakes on the command line end with the same document (`TASK_INVALID`,
64).
Heavy imports happen only once there is something to do.
"""

from __future__ import annotations

import json
import signal
import sys
import threading
from collections.abc import Sequence
from typing import Any

import click

from generated.governance import RUN_STATUSES

GUARD_RAILS_TEXT = """\
Guard rails: use it only with an account and a phone you are entitled to use, within the app's terms. It
presses the
buttons a person would, stays within the account's quota, never passes login, captcha, paywall or copy
protection, and
hides nothing from the app; the reports stay the brokers' property. At least 8 s lie between two downloads,
one run
with new downloads an account, and every access-control text stops new downloads until a person has looked.
"""

EXIT_CODES_TEXT = "\n".join(
    f"  {code:>3}  {status}: {meaning}"
    for code, status, meaning in sorted(
        (code, status, meaning) for status, code, _when, meaning in RUN_STATUSES
    )
)
"""From the contract's table, the one place where they are stated."""


@click.command(
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110},
    epilog=f"{GUARD_RAILS_TEXT}\n\b\nExit codes:\n{EXIT_CODES_TEXT}",
)
@click.option("--task", type=click.Path(), help="Task file (TOML). Without one: the simulated phone.")
@click.option(
    "--library", type=click.Path(), help="Library folder [default: the task's; else ./hibor-library]."
)
@click.option("--device", metavar="SERIAL", help="The phone to use, as `adb devices` lists it.")
@click.option("--adb-server", metavar="HOST:PORT", help="adb server to use [default: 127.0.0.1:5037].")
@click.option("--profile", help="App profile: a file, or the name of a shipped one.")
@click.option("--deadline", type=float, metavar="SECONDS", help="Length of the window [default: the task's].")
@click.option("--quota-limit", type=int, metavar="N", help="Use at most N downloads a day; may only lower.")
@click.option("--count", type=int, metavar="N", help="Collect at most N reports.")
@click.option("--scenario", help="Simulated phone only: a scenario file or the name of a shipped one.")
@click.option("--time-scale", type=float, metavar="X", help="Simulated phone only: X seconds pass in one.")
@click.option("--retrigger", multiple=True, metavar="REPORT_ID", help="Download this paid report once more.")
@click.option("--wait", metavar="DURATION", help="Wait for the phone first, e.g. 90s, 30m, 1h.")
@click.option("--plan", type=click.Path(), help="Collect exactly what this plan file says (see --dry-run).")
@click.option("--dry-run", is_flag=True, help="Show what would be collected; reserve and tap nothing.")
@click.option("--yes", is_flag=True, help="Answer the first-use question with yes.")
@click.option("--lang", type=click.Choice(["zh", "en"]), help="Language of what people read.")
@click.option("--quiet", is_flag=True, help="Only warnings on stderr.")
@click.option("--verbose", is_flag=True, help="The run's log on stderr too.")
def command(**options: Any) -> None:
    """Collect research reports from the app as verified PDFs.

    Without --task and --device it runs the embedded default: a simulated phone, 6 new downloads and 4 reuses.

    \b
    Examples:
      hibor run                                  the simulated phone, for practice
      hibor run --task task.toml --dry-run       what would be collected, and its cost
      hibor run --task task.toml --wait 30m      the morning run
    """
    from hibor.collect.session import run_session

    raise SystemExit(run_session(options))


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; returns the exit code. The JSON document is on stdout."""
    from hibor.people.console import use_utf8

    use_utf8()
    given = list(sys.argv[1:] if arguments is None else arguments)
    _end_signals_as_ctrl_c()
    try:
        command.main(args=given, standalone_mode=False)
    except SystemExit as ended:
        return ended.code if isinstance(ended.code, int) else 0
    except click.exceptions.Abort:
        from hibor.collect.session import end_interrupted

        return end_interrupted()
    except click.ClickException as error:
        return _refused(error.format_message(), given)
    except Exception as error:  # a broken installation: the document is owed all the same
        return _last_resort(error)
    return 0


def _last_resort(error: Exception) -> int:
    """Tell a failure of the program's own parts with nothing but the contract's tables."""
    from fsm import failure_code
    from hibor.collect.governance import RunFacts
    from hibor.package.run_terminal import RunDocument, StopReason

    code = failure_code("unexpected", "run")
    reason = StopReason(code, f"{type(error).__name__}: {error}")
    document = RunDocument(run_id="", facts=RunFacts(cause=code), stop_reason=reason).build()
    print(json.dumps(document, ensure_ascii=False, indent=2))
    print(f"{code}: {reason.detail}", file=sys.stderr)
    return int(document["exit_code"])


def _end_signals_as_ctrl_c() -> None:
    """Until the session takes over, SIGTERM and a closed console end the command as Ctrl-C does (R26)."""
    if threading.current_thread() is threading.main_thread():
        for name in ("SIGTERM", "SIGHUP", "SIGBREAK"):
            if hasattr(signal, name):
                signal.signal(getattr(signal, name), signal.default_int_handler)


def _refused(message: str, given: list[str]) -> int:
    from hibor.collect.session import refuse
    from hibor.messages import chosen_lang

    return refuse(message, chosen_lang(given))


if __name__ == "__main__":
    sys.exit(main())
