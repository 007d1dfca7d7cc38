"""`python -m hibor.ledger`: look at, verify and repair an account's quota ledger (design 4).

Exit codes: 0 done and well, 1 nothing was done (declined, or a lock is held), 27 the ledger is invalid, 64
the command line is wrong. Every answer says which file was read and what to do next.

`show`, `verify` and `audit` change nothing, so they work on a library that cannot be written. `show` takes no
lock; the others take it where it can be taken. All compare the ledger with every head the library noted.
"""

from __future__ import annotations

import errno
import re
import shlex
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final, TypeVar

import attrs
import click

from fsm import failure_code
from generated.governance import COMMAND_EXITS, ERROR_EXITS
from hibor.clock import SystemClock
from hibor.durable import Durable, DurableError
from hibor.durable_fs import OsFileSystem
from hibor.locks import NOTE_STEPS, Locks, LockTimeout, LockUnusable
from hibor.messages import advice, told
from hibor.package.layout import Library
from hibor.people.commandline import (
    DEFAULT_LIBRARY,
    Answers,
    Refusal,
    SpokenCommand,
    SpokenGroup,
    Words,
    run_command,
)
from hibor.people.options import with_options
from hibor.quota import conservation
from hibor.quota.day import DEFAULT_ZONE, QuotaCalendar
from hibor.quota.errors import LedgerInvalid
from hibor.quota.events import Head
from hibor.quota.family import Automaton
from hibor.quota.ledger import STEPS, Ledger
from hibor.quota.noted import known_heads, ledgers_of
from hibor.quota.reading import LedgerReading
from hibor.quota.repair import repair_ledger

DONE, FOUND = COMMAND_EXITS["done"], COMMAND_EXITS["found"]
INVALID = ERROR_EXITS["StateUncertain"]
_SHOWN_DAYS = 7
_COMMAND: Final = re.compile(r"(?<=`python -m hibor\.ledger )\w+")
Function = TypeVar("Function", bound=Callable[..., Any])


@attrs.frozen
class Target:
    """The ledger a command works on. `witness` is the library whose documents noted its heads; None where
    only the ledger's own folder was named.
    """

    path: Path
    account: str
    calendar: QuotaCalendar
    durable: Durable
    locks: Locks
    clock: SystemClock
    library: Library
    witness: Library | None

    def noted(self, *given: Head) -> list[Head]:
        """Every head that a person or the library's documents noted of this ledger."""
        found = [] if self.witness is None else known_heads(self.witness, self.durable, self.account)
        return [*given, *found]

    def read(self, *heads: Head) -> LedgerReading:
        """Verify every line, under the lock where one can be taken. Nothing is written."""
        noted = self.noted(*heads)
        with self._held():
            return LedgerReading(self.path, self.account, noted)

    @contextmanager
    def _held(self) -> Iterator[None]:
        lock = self.locks.ledger(self.path)
        try:
            lock.acquire()
        except LockUnusable as error:
            if not _is_read_only(error):
                raise
            yield  # what nobody can write needs no lock
            return
        try:
            yield
        finally:
            lock.release()

    def open(self) -> Ledger:
        """Open to write, and verify."""
        return Ledger.open(
            self.path,
            self.account,
            durable=self.durable,
            locks=self.locks,
            clock=self.clock,
            automaton=automaton(),
            calendar=self.calendar,
            known_heads=self.noted(),
        )


def automaton() -> Automaton:
    """The contract's family automaton."""
    from generated.ledger import AUTOMATON

    return Automaton(AUTOMATON)


def build(words: Words) -> click.Command:
    """The command in a language."""
    group = SpokenGroup(words=words, section="ledger", exits="ledger.exits", callback=_remember)
    group.params = [*_where_options(words), *group.params]
    for make in (_build_verify, _build_show, _build_repair, _build_audit, _build_accept_clock):
        group.add_command(make(words))
    return group


@click.pass_context
def _remember(context: click.Context, /, **where: Any) -> None:
    """The options before the command's name count for the command."""
    context.obj = where


_WHERE: Final = ("library", "account", "ledger_dir", "zone")


def _where_options(words: Words) -> list[click.Parameter]:
    """The options that name a ledger; accepted before and after the command's name."""

    @with_options(words, *_WHERE)
    def nothing() -> None: ...

    found: list[click.Parameter] = nothing.__click_params__  # type: ignore[attr-defined]
    return list(reversed(found))


def _command(words: Words, name: str) -> Callable[[Callable[..., int]], click.Command]:
    """A command that gets its ledger in place of the options that name it."""

    def decorate(function: Callable[..., int]) -> click.Command:
        def run(context: click.Context, /, **options: Any) -> int:
            before = context.obj
            named = {key: options.pop(key) or before[key] for key in _WHERE}
            quiet = options.pop("quiet")
            del options["lang"]
            wanted = options.get("as_json", False)
            answers = Answers(words, quiet=quiet, json_wanted=wanted)
            where = " ".join(_where_given(named))
            return _guarded(answers, lambda: function(answers, _target(**named), **options), where)

        run.__dict__.update(function.__dict__)  # the options that stand below the command
        made = with_options(words, *_WHERE, "lang", "quiet")(click.pass_context(run))
        return click.command(
            cls=SpokenCommand, words=words, section=f"ledger.{name}", exits="ledger.exits"
        )(made)

    return decorate


def _target(*, library: str | None, account: str | None, ledger_dir: str | None, zone: str | None) -> Target:
    try:
        calendar = QuotaCalendar(zone or DEFAULT_ZONE)
    except (ValueError, OSError, KeyError) as error:
        raise Refusal("ledger.unusable", why=zone) from error
    if library and not Path(library).is_dir():
        raise Refusal("common.no_library", path=library)
    try:
        folder = None if ledger_dir is None else Path(ledger_dir)
        place = Library(Path(library or DEFAULT_LIBRARY), folder)
        account, path = (account, place.ledger(account)) if account else _only_ledger(place)
    except ValueError as error:
        raise Refusal("ledger.unusable", why=account) from error
    clock = SystemClock()
    durable = Durable(OsFileSystem(), clock, STEPS | NOTE_STEPS)
    witness = place if library or not ledger_dir else None
    target = Target(path, account, calendar, durable, Locks(durable, clock), clock, place, witness)
    if not path.parent.is_dir():
        if any(head.count for head in target.noted()):
            raise LedgerInvalid(path, 0, "the ledger this library knows of is gone")
        raise Refusal("ledger.no_folder", path=path.parent)
    return target


def _only_ledger(place: Library) -> tuple[str, Path]:
    """A library's one ledger and its account. Raises `Refusal` where there is none, or several."""
    found = ledgers_of(place)
    if len(found) != 1:
        raise Refusal("ledger.need_account")
    return found[0]


def _is_read_only(error: BaseException | None) -> bool:
    """Whether an error came of a place that cannot be written."""
    while error is not None:
        if isinstance(error, OSError) and error.errno in (errno.EROFS, errno.EACCES, errno.EPERM):
            return True
        error = error.__cause__
    return False


def _head_option(words: Words) -> Callable[[Function], Function]:
    return click.option("--head", callback=_head, metavar="N:HASH", help=words("options.head"))


def _head(context: click.Context, option: click.Parameter, value: str | None) -> Head | None:
    """Read `--head N:HASH`."""
    try:
        return None if value is None else Head.parse(value)
    except ValueError as error:
        raise click.BadParameter(str(error), context, option) from error


def _build_verify(words: Words) -> click.Command:
    @_command(words, "verify")
    @_head_option(words)
    def verify(answers: Answers, target: Target, head: Head | None) -> int:
        ledger = target.read(*([head] if head else []))
        found, waiting = ledger.head, ledger.open_reservations()
        answers.tell(words("ledger.valid", path=target.path, count=found.count, head=found))
        if head is not None:
            answers.tell(words("ledger.contains", count=head.count))
        if waiting:
            answers.tell(words("ledger.waiting", count=len(waiting)))
        return DONE

    return verify


def _build_show(words: Words) -> click.Command:
    @_command(words, "show")
    @with_options(words, "json")
    def show(answers: Answers, target: Target, as_json: bool) -> int:
        ledger = LedgerReading(target.path, target.account, target.noted(), in_use=True)
        if as_json:
            sys.stdout.buffer.writelines(ledger.lines())
            return DONE
        answers.tell(words("ledger.events", path=target.path, count=ledger.head.count, head=ledger.head))
        for day in sorted({event.day for event in ledger.events()})[-_SHOWN_DAYS:]:
            answers.tell(words("ledger.day", **{"day": day, **attrs.asdict(ledger.sums(day))}))
        for one in ledger.open_reservations():
            answers.tell(words("ledger.open", day=one.day, report=one.report_id, item=one.item_id))
        return DONE

    return show


def _build_repair(words: Words) -> click.Command:
    @_command(words, "repair")
    @click.option("--yes", is_flag=True, help=words("options.no_question"))
    @_head_option(words)
    def repair(answers: Answers, target: Target, yes: bool, head: Head | None) -> int:
        def confirmed(question: str) -> bool:
            return yes or click.confirm(f"{told(words.lang, question, question)}?", err=True)

        done = repair_ledger(
            target.path,
            target.account,
            durable=target.durable,
            locks=target.locks,
            clock=target.clock,
            automaton=automaton(),
            calendar=target.calendar,
            known_heads=target.noted(*([head] if head else [])),
            confirm=confirmed,
        )
        if done is None:
            answers.tell(words("ledger.unchanged"))
            return FOUND
        if done.moved is not None:
            answers.tell(words("ledger.moved", size=done.moved.size_bytes, name=done.moved.side.name))
        key = "ledger.repaired" if done.recorded else "ledger.sound"
        answers.tell(words(key, count=len(done.recorded)))
        return DONE

    return repair


def _build_audit(words: Words) -> click.Command:
    @_command(words, "audit")
    @with_options(words, "json")
    def audit(answers: Answers, target: Target, as_json: bool) -> int:
        del as_json
        target.read()  # verified; a ledger in doubt has nothing to tell (27)
        found = conservation.audit(target.library, target.path, target.durable)
        for line in _account_lines(found, words):
            answers.tell(line)
        answers.document(found.to_dict())
        return FOUND if found.findings else DONE

    return audit


def _account_lines(found: conservation.Account, words: Words) -> Iterator[str]:
    """The account as lines people read."""
    came = " → ".join(f"{words(f'ledger.counted.{one}')} {count}" for one, count in found.stages.items())
    yield f"{words('ledger.groups.stages')}: {came}"
    for stage, buckets in found.ended.items():
        named = words(f"ledger.counted.{stage}")
        yield "  " + words("ledger.came_to", stage=named, sum=_sum(buckets, words))
    for name, counts in (("items", found.items), ("units", found.units), ("files", found.files)):
        yield f"{words(f'ledger.groups.{name}')}: {_sum(counts, words)}"
    for one in found.findings:
        what = told(words.lang, one.what, words("sentences.see_run"))
        finding = f"{words(f'ledger.kinds.{one.kind}')} {one.name}: {what}"
        yield words("ledger.not_conserved", finding=finding)
    if not found.findings:
        yield words("ledger.conserved")


def _sum(counts: Mapping[str, int], words: Words) -> str:
    """`10 = delivered 9 + stopped 1`: the whole, and its parts by name."""
    parts = [f"{words(f'ledger.counted.{name}')} {count}" for name, count in counts.items() if count]
    return f"{sum(counts.values())}" + (" = " + " + ".join(parts) if parts else "")


def _build_accept_clock(words: Words) -> click.Command:
    @_command(words, "accept-clock")
    @click.option("--reason", required=True, help=words("options.reason"))
    def accept_clock(answers: Answers, target: Target, reason: str) -> int:
        if not reason.strip():
            raise Refusal("ledger.say_why")
        with target.open() as ledger:
            event = ledger.accept_clock(reason)
        answers.tell(words("ledger.accepted", seq=event.seq, at=event.at))
        return DONE

    return accept_clock


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line and return the exit code."""
    return run_command(build, "ledger", arguments)


def _where_given(named: Mapping[str, str | None]) -> Iterator[str]:
    """The options that named a ledger, as they are written for another command on it."""
    for name, value in named.items():
        if value:
            yield f"--{name.replace('_', '-')} {shlex.quote(value)}"


def _guarded(answers: Answers, run: Callable[[], int], where: str) -> int:
    """The command's exit code; what a ledger, a lock or a disk refuses is told with what to do now. `where`:
    the options that name the ledger, for the commands in an advice.
    """
    words = answers.words
    try:
        return run()
    except click.Abort:
        answers.warn("ledger.unchanged")
        return FOUND
    except LedgerInvalid as error:
        next_step = advice(words.lang, failure_code(error.failure, "run"))
        what = told(words.lang, error.what, next_step.what).rstrip("。")
        answers.warn("ledger.invalid", where=error.where, what=what)
        command = _COMMAND.sub(lambda found: f"{found[0]} {where}".rstrip(), error.what_now)
        answers.warn("ledger.now", now=told(words.lang, command, next_step.next).rstrip("。"))
        return INVALID
    except LockUnusable as error:
        if words.lang == "en":
            print(f"{error}.", file=sys.stderr)
        answers.warn("ledger.no_lock")
        return FOUND
    except LockTimeout as error:
        why = f"{error}." if words.lang == "en" else told(words.lang, str(error), words("ledger.held"))
        answers.warn("ledger.busy", why=why)
        return FOUND
    except DurableError as error:
        if words.lang == "en":
            print(f"{error}.", file=sys.stderr)
        answers.warn("ledger.not_written" if error.known == "N" else "ledger.unknown")
        return FOUND if error.known == "N" else INVALID


if __name__ == "__main__":
    sys.exit(main())
