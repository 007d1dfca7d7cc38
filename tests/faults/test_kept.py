"""Items that are kept (ruling R10): what `hibor recover` says can be done with each, and that it is so; and
the question that comes before a paid report is downloaded once more (design 4)."""

from __future__ import annotations

import io
import json
import shutil
import signal
from collections.abc import Iterator
from contextlib import nullcontext
from datetime import datetime, timedelta
from pathlib import Path

import pytest

from hibor.clock import SystemClock
from hibor.collect.consent import confirm_retrigger
from hibor.collect.stops import RunStop
from hibor.messages import Lang
from hibor.package.layout import Library
from hibor.people.progress import Progress
from hibor.recover import main
from hibor.task import Task
from tests.faults.disk import Image
from tests.faults.plays import ALWAYS
from tests.faults.theatre import Theatre
from tests.faults.world import ACCOUNT, moment, open_world


@pytest.fixture
def room(theatre: Theatre) -> Iterator[Path]:
    """A folder for a library."""
    folder = theatre.room()
    yield folder
    shutil.rmtree(folder, ignore_errors=True)


def left_by(theatre: Theatre, play: str, room: Path) -> str:
    """Put what a play left into `room`; the id of its kept item."""
    *_earlier, (_point, last) = theatre.recording(play).points()
    Image(last.folders, last.files, last.shared).write_to(room)
    return next(f.item_id for run in Library(room).run_folders() for f in run.item_folders())


class HourLater(SystemClock):
    """The host's clock, an hour after what the plays wrote, whatever the hour is."""

    def now(self) -> datetime:
        return moment() + timedelta(hours=1)


@pytest.fixture(autouse=True)
def later(monkeypatch: pytest.MonkeyPatch) -> None:
    """A recovery adds to no ledger that is ahead of its clock."""
    monkeypatch.setattr("hibor.collect.recover_session.SystemClock", HourLater)


def recover(room: Path, *more: str) -> int:
    return main(["--library", str(room), "--account", ACCOUNT, "--lang", "en", *more])


@pytest.mark.parametrize(
    ("play", "state", "closable"),
    [
        ("new_no_file", "P03", True),
        ("new_deadline_p04", "P04", False),
        ("new_conflict", "P05", False),
        ("new_deadline_p07", "P07", True),
    ],
)
def test_the_list_says_what_can_be_closed(
    theatre: Theatre, room: Path, capsys: pytest.CaptureFixture[str], play: str, state: str, closable: bool
) -> None:
    item = left_by(theatre, play, room)
    before = Image.of(room)
    assert recover(room, "--list", "--json") == 1
    (listed,) = json.loads(capsys.readouterr().out)["leftovers"]
    assert (listed["item_id"], listed["node"][:3], listed["closable"]) == (item, state, closable)
    assert recover(room, "--list") == 1
    told = " ".join(capsys.readouterr().out.split())
    assert (f"`hibor recover --close {item}` closes it for good" in told) == closable
    assert (f"{item} cannot be closed where it stands" in told) == (not closable)
    assert ("(interrupted;" in told) == ("deadline" in play)  # the code is the window's, the words are not
    assert Image.of(room) == before


def test_what_cannot_be_closed_is_said_and_stays(
    theatre: Theatre, room: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A paid report whose file was found on the phone: no closure fits without an answer from the phone."""
    item = left_by(theatre, "new_deadline_p04", room)
    assert recover(room, "--close", item) == 1
    said = capsys.readouterr().err
    assert f"{item} cannot be closed where it stands" in said
    assert "Connect the phone and run `hibor recover`" in said
    assert recover(room, "--list", "--json") == 1
    assert json.loads(capsys.readouterr().out)["leftovers"][0]["item_id"] == item


def test_a_file_that_is_here_already_needs_its_place_and_no_phone(
    theatre: Theatre, room: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    item = left_by(theatre, "new_conflict", room)
    assert recover(room, "--close", item) == 1
    said = capsys.readouterr().err
    staging = next(room.rglob("staging.pdf"))
    assert f"its whole file is here already ({staging})" in said
    (foreign,) = (path for path in (room / "reports").rglob("*") if path.is_file())
    assert f"nothing else stands at {foreign.relative_to(room).as_posix()}" in said
    foreign.unlink()
    assert recover(room) == 0
    assert foreign.read_bytes().startswith(b"%PDF-") and foreign.stat().st_size > 1_000


def test_closing_on_request_leaves_nothing_open(
    theatre: Theatre, room: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    item = left_by(theatre, "new_no_file", room)
    assert recover(room, "--close", item[:6]) == 0
    capsys.readouterr()
    assert recover(room, "--list", "--json") == 0
    assert json.loads(capsys.readouterr().out)["leftovers"] == []
    (terminal,) = room.rglob("terminal.json")
    assert json.loads(terminal.read_bytes())["closure_variant"].startswith("C07")


def test_a_recovery_whose_clock_is_behind_the_ledger_adds_nothing(
    theatre: Theatre, room: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """An event from another clock would lock every later run out."""

    class HourEarlier(SystemClock):
        def now(self) -> datetime:
            return moment() - timedelta(hours=1)

    left_by(theatre, "new_deadline_p07", room)
    monkeypatch.setattr("hibor.collect.recover_session.SystemClock", HourEarlier)
    before = {path: path.read_bytes() for path in room.rglob("*.jsonl")}
    assert recover(room) == 64
    assert "accept-clock" in capsys.readouterr().err
    assert {path: path.read_bytes() for path in room.rglob("*.jsonl")} == before


@pytest.mark.parametrize("name", ["SIGTERM", "SIGHUP", "SIGINT"])
def test_a_signal_ends_a_recovery_with_a_word(
    room: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    if not hasattr(signal, name):
        pytest.skip(f"there is no {name} here")
    number = getattr(signal, name)
    monkeypatch.setattr(
        "hibor.collect.recover_session.recover_session", lambda _options: signal.raise_signal(number)
    )
    before = signal.getsignal(number)
    assert recover(room) == 130
    assert "Interrupted" in capsys.readouterr().err and signal.getsignal(number) is before


class Console(io.StringIO):
    """A terminal on which a person types."""

    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize(
    ("typed", "yes", "asks", "refused"),
    [
        ("yes\n", False, True, False),
        ("no\n", False, True, True),
        (None, False, False, True),
        (None, True, False, False),
    ],
)
def test_a_paid_report_is_not_downloaded_again_unless_a_person_says_so(
    theatre: Theatre,
    room: Path,
    monkeypatch: pytest.MonkeyPatch,
    typed: str | None,
    yes: bool,
    asks: bool,
    refused: bool,
) -> None:
    left_by(theatre, "new_uncertain_lost", room)
    report = theatre.entries["new_uncertain_lost"].report_id
    monkeypatch.setattr("sys.stdin", io.StringIO() if typed is None else Console(typed))
    said, task = io.StringIO(), Task(library=str(room), account=ACCOUNT, lang="en")
    progress = Progress("en", stream=said)
    confirm_retrigger(task, {"HB-NEVER-SEEN"}, progress, simulated=False, assume_yes=False)
    assert said.getvalue() == ""
    with pytest.raises(RunStop) if refused else nullcontext():
        confirm_retrigger(task, {report}, progress, simulated=False, assume_yes=yes)
    assert f"{report} was paid for or attempted" in said.getvalue()
    assert "UNCERTAIN" in said.getvalue()
    assert ("Type yes" in said.getvalue()) == asks


@pytest.mark.parametrize("lang, words", [("en", "is delivered already"), ("zh", "已经交付")])
def test_a_delivered_report_is_not_asked_for_but_shown(
    theatre: Theatre, room: Path, lang: Lang, words: str
) -> None:
    """It is here, so nobody has to confirm a payment; once its file is gone somebody has."""
    left_by(theatre, "new_success", room)
    report = theatre.entries["new_success"].report_id
    (file,) = (path for path in (room / "reports").rglob("*") if path.is_file())
    said, task = io.StringIO(), Task(library=str(room), account=ACCOUNT, lang=lang)
    progress = Progress(lang, stream=said)
    confirm_retrigger(task, {report}, progress, simulated=False, assume_yes=False)
    assert words in said.getvalue() and file.relative_to(room).as_posix() in said.getvalue()
    file.unlink()
    with pytest.raises(RunStop):
        confirm_retrigger(task, {report}, progress, simulated=False, assume_yes=False)


def test_a_delivered_report_s_place_is_not_called_foreign(theatre: Theatre, room: Path) -> None:
    left_by(theatre, "new_success", room)
    world = open_world(room, theatre.phones[ALWAYS], theatre.at)
    again = world.item(theatre.entries["new_success"], "NEW_TRIGGER")
    result = again.run_host()
    world.close()
    assert result.code == "CANDIDATE_REJECTED" and "is delivered already: reports/" in (result.detail or "")
