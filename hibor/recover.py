"""`python -m hibor.recover`: go on with what earlier runs left (design 4 "Recovery"). It never taps for a
download.

Exit codes: 0 done and nothing is left open, 1 something is left open (kept, or with --list and --dry-run:
found),
2 done without a phone that was asked for, 26 an item breaks the contract, 27 the ledger or an item is in
doubt,
64 the command line or the library cannot be used, 75 a run holds the library. `--list` and `--dry-run` take
no
lock and change nothing at all.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from typing import Any

import click

EPILOG = (
    "Exit codes: 0 nothing is left open; 1 something is (kept, or found by --list); 2 the phone could not be "
    "reached; 26 an item breaks the contract; 27 the ledger or an item is in doubt; 64 usage; 75 a run holds "
    "the "
    "library."
)


@click.command(
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110}, epilog=EPILOG
)
@click.option(
    "--library", type=click.Path(), help="Library folder [default: the task's; else ./hibor-library]."
)
@click.option("--task", type=click.Path(), help="Task file; its library, account and phone are used.")
@click.option("--account", help="The account whose ledger is meant, where a library has several.")
@click.option("--device", metavar="SERIAL", help="The phone to look at, as `adb devices` lists it.")
@click.option("--adb-server", metavar="HOST:PORT", help="adb server to use [default: 127.0.0.1:5037].")
@click.option("--profile", help="App profile: a file, or the name of a shipped one.")
@click.option("--time-scale", type=float, metavar="X", help="Simulated phone only: X seconds pass in one.")
@click.option("--list", "only_list", is_flag=True, help="Show what is open and change nothing.")
@click.option("--dry-run", is_flag=True, help="Show what would be done and change nothing.")
@click.option(
    "--close", multiple=True, metavar="ITEM", help="Close this item for good if it cannot be finished."
)
@click.option("--json", "as_json", is_flag=True, help="Answer with one JSON document.")
@click.option("--lang", type=click.Choice(["zh", "en"]), help="Language of what people read.")
@click.option("--quiet", is_flag=True, help="Only warnings on stderr.")
def command(**options: Any) -> None:
    """Finish, settle or close what earlier runs left behind, oldest paid items first.

    It looks at the phone when there is one and never starts a download. Without a phone it does what needs
    none.
    """
    from hibor.collect.recover_session import recover_session

    raise SystemExit(recover_session(options))


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; returns the exit code."""
    from generated.governance import COMMAND_EXITS
    from hibor.people.console import use_utf8

    use_utf8()
    words = list(sys.argv[1:] if arguments is None else arguments)
    try:
        command.main(args=words, prog_name="python -m hibor.recover", standalone_mode=False)
    except SystemExit as ended:
        return ended.code if isinstance(ended.code, int) else 0
    except click.exceptions.Abort:
        return COMMAND_EXITS["found"]
    except click.ClickException as error:
        if "--json" in words:
            sys.stdout.write(json.dumps({"schema_version": 1, "error": error.format_message()}) + "\n")
        error.show()
        return COMMAND_EXITS["usage"]
    return 0


if __name__ == "__main__":
    sys.exit(main())
