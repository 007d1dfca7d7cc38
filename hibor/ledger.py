"""`python -m hibor.ledger`: look at, verify and repair an account's quota ledger (design 4).

Exit codes: 0 done and well, 1 nothing was done (declined, or a lock is held), 27 the ledger is invalid, 64
the command line is wrong. Every answer says which file was read and what to do next. `show` takes no lock
and changes nothing.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import attrs
import click

from hibor.clock import SystemClock
from hibor.durable import Durable, DurableError
from hibor.durable_fs import OsFileSystem
from hibor.locks import NOTE_STEPS, Locks, LockTimeout, LockUnusable
from hibor.package.layout import Library
from hibor.package.manifest import ManifestInvalid
from hibor.quota import conservation
from hibor.quota.day import DEFAULT_ZONE, QuotaCalendar
from hibor.quota.errors import LedgerInvalid
from hibor.quota.events import Head
from hibor.quota.family import Automaton
from hibor.quota.fold import Fold
from hibor.quota.ledger import STEPS, Ledger
from hibor.quota.repair import repair_ledger
from hibor.quota.scan import Marks, Place, scan

DONE, FOUND, INVALID, USAGE = 0, 1, 27, 64
_SHOWN_DAYS = 7


@attrs.frozen
class Target:
    """The ledger a command works on."""

    path: Path
    account: str
    calendar: QuotaCalendar
    durable: Durable
    locks: Locks
    clock: SystemClock
    library: Library

    def open(self, *heads: Head) -> Ledger:
        """Open and verify."""
        return Ledger.open(
            self.path,
            self.account,
            durable=self.durable,
            locks=self.locks,
            clock=self.clock,
            automaton=automaton(),
            calendar=self.calendar,
            known_heads=heads,
        )


def automaton() -> Automaton:
    """The contract's family automaton."""
    from generated.ledger import AUTOMATON

    return Automaton(AUTOMATON)


def _head(context: click.Context, option: click.Parameter, value: str | None) -> Head | None:
    """Read `--head N:HASH`."""
    try:
        return None if value is None else Head.parse(value)
    except ValueError as error:
        raise click.BadParameter(str(error), context, option) from error


def _where(command: Callable[..., Any]) -> Callable[..., Any]:
    """The options that name a ledger; accepted before and after the command's name."""
    folder = click.Path(path_type=Path, file_okay=False)
    for option in (
        click.option("--zone", help=f"The account's time zone (default {DEFAULT_ZONE})."),
        click.option("--ledger-dir", type=folder, help="Folder of the ledgers, if the task file names one."),
        click.option("--account", help="The account whose ledger is meant."),
        click.option("--library", type=folder, help="The library folder (default ./hibor-library)."),
    ):
        command = option(command)
    return command


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
@_where
@click.pass_context
def cli(context: click.Context, /, **where: Any) -> None:
    """Verify, show or repair a quota ledger."""
    context.obj = where


def _command(function: Callable[..., int]) -> Callable[..., int]:
    """Give a command its ledger in place of the options that name it."""

    def run(
        context: click.Context,
        /,
        library: Path | None,
        account: str | None,
        ledger_dir: Path | None,
        zone: str | None,
        **options: Any,
    ) -> int:
        before = context.obj
        target = _target(
            library or before["library"] or Path("hibor-library"),
            account or before["account"],
            ledger_dir or before["ledger_dir"],
            zone or before["zone"] or DEFAULT_ZONE,
        )
        return function(target, **options)

    run.__name__, run.__doc__ = function.__name__, function.__doc__
    run.__dict__.update(function.__dict__)  # the options that stand below @_command
    return _where(click.pass_context(run))


def _target(library: Path, account: str | None, ledger_dir: Path | None, zone: str) -> Target:
    if not account:
        raise click.UsageError("--account is needed: the name in the task file")
    try:
        place = Library(library, ledger_dir)
        path = place.ledger(account)
        calendar = QuotaCalendar(zone)
    except (ValueError, OSError, KeyError) as error:
        raise click.UsageError(f"account or zone cannot be used: {error}") from error
    if not path.parent.is_dir():
        raise click.UsageError(f"there is no ledger folder {path.parent}; are --library and --account right?")
    clock = SystemClock()
    durable = Durable(OsFileSystem(), clock, STEPS | NOTE_STEPS)
    return Target(path, account, calendar, durable, Locks(durable, clock), clock, place)


@cli.command()
@click.option(
    "--head",
    callback=_head,
    metavar="N:HASH",
    help="A head noted elsewhere: in delivery.md, terminal.json or run.json.",
)
@_command
def verify(target: Target, head: Head | None) -> int:
    """Read every line and check the chain."""
    with target.open(*([head] if head else [])) as ledger:
        found = ledger.verify(head)
        waiting = ledger.open_reservations()
    click.echo(f"{target.path}: valid, {found.count} events, head {found}")
    if head is not None:
        click.echo(f"It contains the noted head {head.count}.")
    if waiting:
        click.echo(
            f"{len(waiting)} open reservation(s); the next run settles them, or `python -m hibor.recover`."
        )
    return DONE


@cli.command()
@click.option("--json", "as_json", is_flag=True, help="Every event as JSON lines.")
@_command
def show(target: Target, as_json: bool) -> int:
    """Show sums per day and open reservations; takes no lock."""
    if as_json and target.path.exists():
        sys.stdout.buffer.write(_whole_lines(target.path))
        return DONE
    fold, days = Fold(automaton()), _Days()
    place = _read(target, fold, days)
    click.echo(f"{target.path}: {place.count} events, head {place.head}")
    for day in sorted(days.seen)[-_SHOWN_DAYS:]:
        sums = fold.sums(day)
        click.echo(
            f"{day}: confirmed {sums.confirmed}, uncertain {sums.uncertain}, "
            f"released {sums.released}, open {sums.reserved}"
        )
    for family in fold.open_families():
        click.echo(f"open: {family.day} report {family.report_id} item {family.item_id}")
    return DONE


@cli.command()
@click.option("--yes", is_flag=True, help="Do not ask.")
@click.option(
    "--head", callback=_head, metavar="N:HASH", help="A head noted elsewhere, which the ledger must contain."
)
@_command
def repair(target: Target, yes: bool, head: Head | None) -> int:
    """Move an unfinished last line into a side file. Nothing else is ever repaired."""
    done = repair_ledger(
        target.path,
        target.account,
        durable=target.durable,
        locks=target.locks,
        clock=target.clock,
        automaton=automaton(),
        calendar=target.calendar,
        known_heads=[head] if head else [],
        confirm=lambda question: yes or click.confirm(f"{question}?", err=True),
    )
    if done is None:
        click.echo("Nothing was changed.")
        return FOUND
    if done.moved is not None:
        click.echo(f"{done.moved.size_bytes} bytes moved to {done.moved.side.name}.")
    click.echo(
        f"{len(done.recorded)} repair(s) recorded." if done.recorded else "There was nothing to repair."
    )
    return DONE


@cli.command()
@click.option("--json", "as_json", is_flag=True, help="The figures and findings as one JSON document.")
@_command
def audit(target: Target, as_json: bool) -> int:
    """Compare ledger, items, manifest and files: nothing spent or published may be lost between them.

    Exit 0: every item in one bucket, every unit explained, every file with its row. 1: something is not.
    """
    target.open().close()  # verified; a ledger in doubt has nothing to tell (27)
    try:
        found = conservation.audit(target.library, target.path, target.durable)
    except ManifestInvalid as error:
        click.echo(f"The manifest cannot be read: {error}", err=True)
        return FOUND
    if as_json:
        click.echo(json.dumps(found.to_dict(), ensure_ascii=False, indent=2))
    else:
        for line in conservation.as_text(found):
            click.echo(line)
    return FOUND if found.findings else DONE


@cli.command("accept-clock")
@click.option("--reason", required=True, help="Why this computer's clock is right although it is behind.")
@_command
def accept_clock(target: Target, reason: str) -> int:
    """Record that the clock is right, which ends a lock-out after CLOCK_INVALID."""
    if not reason.strip():
        raise click.UsageError("--reason must say something")
    with target.open() as ledger:
        event = ledger.accept_clock(reason)
    click.echo(f"Recorded as event {event.seq} at {event.at}. New reservations are possible again.")
    return DONE


@attrs.define
class _Days:
    """The quota days a ledger has events of."""

    seen: set[str] = attrs.field(factory=set)


def _read(target: Target, fold: Fold, days: _Days) -> Place:
    """Read without a lock: a line that another process is writing right now is left out."""
    end_bytes = len(_whole_lines(target.path)) if target.path.exists() else 0
    place = scan(target.path, target.account, fold, Marks(), end_bytes=end_bytes)
    if end_bytes:
        with target.path.open("rb") as stream:
            for line in stream.read(end_bytes).splitlines():
                days.seen.add(json.loads(line)["day"])
    return place


def _whole_lines(path: Path) -> bytes:
    data = path.read_bytes()
    return data[: data.rfind(b"\n") + 1]


def main(arguments: list[str] | None = None) -> int:
    """Run the command line and return the exit code."""
    return _guarded(lambda: cli.main(arguments, prog_name="python -m hibor.ledger", standalone_mode=False))


def _guarded(run: Callable[[], Any]) -> int:
    try:
        result = run()
    except click.exceptions.Exit as leave:
        return leave.exit_code
    except click.ClickException as error:
        error.show()
        return USAGE
    except click.Abort:
        click.echo("Nothing was changed.", err=True)
        return FOUND
    except LedgerInvalid as error:
        click.echo(f"The ledger is invalid. Where: {error.where}. What: {error.what}.", err=True)
        click.echo(f"What now: {error.what_now}.", err=True)
        return INVALID
    except (LockTimeout, LockUnusable) as error:
        click.echo(f"{error}. Nothing was changed; try again when the other run has ended.", err=True)
        return FOUND
    except DurableError as error:
        outcome = "nothing was changed" if error.known == "N" else "the outcome is unknown: run `verify`"
        click.echo(f"{error}; {outcome}.", err=True)
        return FOUND if error.known == "N" else INVALID
    return int(result or DONE)


if __name__ == "__main__":
    sys.exit(main())
