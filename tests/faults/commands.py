"""The scenes: every command that changes a disk outside a run."""

from __future__ import annotations

import json
import zipfile
from io import BytesIO
from pathlib import Path

import pytest

import hibor.doctor.command
import hibor.ledger
import hibor.package_zip
import hibor.recover
import hibor.report.__main__
import hibor.want
from generated.governance import COMMAND_EXITS
from generated.steps import STEPS
from hibor.collect.hold import set_hold
from hibor.doctor.command import NAMED_ACCOUNT
from hibor.durable import Durable
from hibor.package.layout import Library, item_id
from tests.faults.again import read_only
from tests.faults.disk import Image
from tests.faults.plays import ALWAYS, NO_PHONE
from tests.faults.scenes import DONE, Scene, files_of, said, station_at
from tests.faults.sweep import visits
from tests.faults.theatre import Theatre
from tests.faults.world import ACCOUNT, FIRST_RUN, StillClock, UnsyncedDisk, open_world

REASON = "the clock was set back"
TORN = b'{"schema_version":1,"seq":'
"""The beginning of a line that a power cut left unfinished."""


# -- the library before a command ---------------------------------------------------------------------------


def _books(theatre: Theatre, room: Path) -> Path:
    """A ledger of a few events, made by a run that is gone; returns its file."""
    world = open_world(room, None, theatre.at, run_id=FIRST_RUN)
    ledger = world.services.require_ledger()
    for number in range(3):
        report = f"OLD{number}"
        made = ledger.reserve(
            report,
            item_id(FIRST_RUN, report, "NEW_TRIGGER"),
            FIRST_RUN,
            world.services.day,
            99,
            "task",
            None,
            step="reserve.append",
        )
        ledger.append("RELEASED", made, {}, step="release.append")
    path = ledger.path
    world.close()
    return path


def _sound_books(theatre: Theatre, room: Path) -> None:
    _books(theatre, room)


def _torn_books(theatre: Theatre, room: Path) -> None:
    path = _books(theatre, room)
    path.write_bytes(path.read_bytes() + TORN)


def _leftovers(theatre: Theatre, room: Path) -> None:
    """What a run left that lost its power while it published: an open item, a reservation whose item is lost,
    unfinished last lines, and a refused file older than its limit."""
    recording = theatre.recording("cache_reuse")
    image = next(
        image
        for point, phone, image in visits(recording)
        if (point.step, point.moment, phone) == ("publish.link", "after", NO_PHONE)
    )
    image.write_to(room)
    world = open_world(room, None, theatre.at, run_id=FIRST_RUN)
    services = world.services
    services.require_ledger().reserve(
        "LOST", item_id(FIRST_RUN, "LOST", "NEW_TRIGGER"), FIRST_RUN, services.day, 99, "task", None,
        step="reserve.append",
    )  # fmt: skip
    world.close()
    library = Library(room)
    for torn in (library.manifest, *room.glob("runs/*/items/*/journal.jsonl")):
        torn.write_bytes((torn.read_bytes() if torn.exists() else b"") + TORN)
    library.quarantine.mkdir()
    (library.quarantine / "refused.pdf").write_bytes(b"%PDF-1.4 refused")


def _delivered(theatre: Theatre, room: Path) -> None:
    """A library whose one run delivered a report, with the run's own document."""
    recording = theatre.recording("cache_reuse")
    *_all, (_point, _phone, image) = visits(recording)
    image.write_to(room)
    (run,) = (room / "runs").iterdir()
    (terminal,) = run.glob("items/*/terminal.json")
    item = json.loads(terminal.read_bytes())["item"]
    (run / "run.json").write_bytes(json.dumps(_document(run.name, item)).encode())


def _document(run_id: str, item: dict[str, object]) -> dict[str, object]:
    values: dict[str, object] = {"schema_version": 1, "run_id": run_id, "status": "COMPLETE", "exit_code": 0}
    return {**values, "items": [item], "counts": {}, "recovered": [], "stop_reason": None, "quota": None}


def _held(theatre: Theatre, room: Path) -> None:
    """A library whose account a wall holds."""
    folder = Library(room).ledger_folder(NAMED_ACCOUNT)
    folder.mkdir(parents=True)
    durable = Durable(UnsyncedDisk(), StillClock(theatre.at), frozenset(STEPS))
    set_hold(folder, durable, code="APP_WALL", detail="the app showed a wall", at=theatre.at.isoformat())


def examined(theatre: Theatre, room: Path) -> tuple[int, str]:
    """`doctor --walk` at the theatre's phone."""
    phone = theatre.phones[ALWAYS]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(hibor.doctor.command, "real_station", lambda server, serial: station_at(phone))
        code, out, errors = said(
            hibor.doctor.command.main, "--device", phone.process.serial, "--walk", "--yes", "--json",
            "--library", room, "--lang", "en",
        )  # fmt: skip
    return code, out + errors


# -- what has to come out -----------------------------------------------------------------------------------


def _everything(image: Image) -> object:
    return read_only(image).files


def _repaired(image: Image) -> object:
    """The books before it, the unfinished line kept aside, and a record of each line that was: a repair that
    was cut while it wrote its record leaves a second one.
    """
    (ledger,) = files_of(image, "ledger.jsonl").values()
    events = [json.loads(line) for line in ledger.splitlines()]
    others = [event["event_id"] for event in events if event["type"] != "REPAIRED"]
    recorded = {event["data"]["side_file"] for event in events if event["type"] == "REPAIRED"}
    aside = {Path(name).name: data for name, data in image.files if ".unfinished-" in name}
    return others, TORN in aside.values(), sorted(aside.keys() ^ recorded)


def _accepted(image: Image) -> object:
    """The books before it, and that the clock was accepted: a second answer to the same question is one more.
    """
    (ledger,) = files_of(image, "ledger.jsonl").values()
    events = [json.loads(line) for line in ledger.splitlines()]
    clock = [event["data"]["reason"] for event in events if event["type"] == "CLOCK_ACCEPTED"]
    others = [event["event_id"] for event in events if event["type"] not in ("CLOCK_ACCEPTED", "REPAIRED")]
    return others, set(clock)


def _wishes(image: Image) -> object:
    return files_of(image, "want.jsonl")


def _page(image: Image) -> object:
    return files_of(image, "page.html")


def _zipped(image: Image) -> object:
    """Names and bytes in the zip; its own times are the command's."""
    (data,) = files_of(image, "out.zip").values()
    with zipfile.ZipFile(BytesIO(data)) as file:
        assert file.testzip() is None
        return {name: file.read(name) for name in file.namelist()}


def _free(image: Image) -> object:
    """No hold any more, and that the app was walked through; pictures are named by their time."""
    walked = [json.loads(data)["model"] for name, data in image.files if "/walked-" in name]
    return walked, sorted(files_of(image, "hold.json"))


_EXISTS = COMMAND_EXITS["usage"]
_OF_LIBRARY = ("--library", "{room}", "--lang", "en")

SCENES: tuple[Scene, ...] = (
    Scene(
        "ledger repair",
        _torn_books,
        hibor.ledger.main,
        ("repair", "--yes", *_OF_LIBRARY),
        _repaired,
    ),
    Scene(
        "ledger accept-clock",
        _sound_books,
        hibor.ledger.main,
        ("accept-clock", "--reason", REASON, *_OF_LIBRARY),
        _accepted,
        repeats=False,
        days_later=-1,
    ),
    Scene(
        "recover leftovers",
        _leftovers,
        hibor.recover.main,
        ("--json", "--account", ACCOUNT, *_OF_LIBRARY),
        _everything,
        days_later=40,
    ),
    Scene("want add", _sound_books, hibor.want.main, ("add", "600519", *_OF_LIBRARY), _wishes),
    Scene(
        "package",
        _delivered,
        hibor.package_zip.main,
        ("--latest", "--zip", "{room}/out.zip", *_OF_LIBRARY),
        _zipped,
        ends=(DONE, _EXISTS),
    ),
    Scene(
        "report",
        _delivered,
        hibor.report.__main__.main,
        ("--latest", "-o", "{room}/page.html", "--replace", *_OF_LIBRARY),
        _page,
    ),
    Scene("doctor --walk", _held, hibor.doctor.command.main, (), _free, repeats=False, alone=examined),
)


def scene_named(name: str) -> Scene:
    """The scene of a name."""
    return next(scene for scene in SCENES if scene.name == name)
