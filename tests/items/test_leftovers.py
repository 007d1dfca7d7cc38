"""Leftovers and their recovery: age limit, closing on request, the quarantine, items nobody understands."""

from __future__ import annotations

import os
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import pytest

from hibor.durable import DurableError
from hibor.items import leftovers
from hibor.items.catalogue import CatalogueEntry
from hibor.items.draft import Draft, Stage
from hibor.items.item import ItemRun
from hibor.items.recovery import empty_quarantine, recover_all
from hibor.messages import advice
from hibor.package.journal import Record
from hibor.people.recover_telling import Telling
from tests.faults.world import ACCOUNT, FIRST_RUN, World, moment, open_world

ENTRY = CatalogueEntry(report_id="HB1", title="半导体行业深度报告", institution="国信证券", date="2026-11-30")
AT = moment()


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    world = open_world(tmp_path / "library", None, AT, run_id=FIRST_RUN)
    yield world
    world.close()


def intended(world: World) -> ItemRun:
    """A NEW item whose process ended right after TRIGGER_INTENT."""
    item = world.item(ENTRY, "NEW_TRIGGER")
    item.ensure_opened()
    from hibor.items.effects.reserve import reserve_append

    reserve_append(item)
    item.note("TRIGGER_INTENT", {"baseline": [], "analysts": None}, step="intent.journal")
    return item


def later(world: World, days: float) -> World:
    return open_world(world.services.library.root, None, AT + timedelta(days=days))


def ledger_types(world: World) -> list[str]:
    import json

    path = world.services.library.ledger(ACCOUNT)
    return [json.loads(line)["type"] for line in path.read_bytes().splitlines()]


def test_without_a_phone_a_tap_in_flight_is_kept_and_blocks_its_report(world: World) -> None:
    intended(world)
    next_run = later(world, 0.1)
    done = recover_all(next_run.services)
    assert [leftover.action for leftover in done.kept] == ["ask_phone"]
    assert next_run.services.attempted_reports == {"HB1"}
    assert ledger_types(world) == ["RESERVED"]
    again = recover_all(next_run.services)
    assert len(again.kept) == 1
    next_run.close()


def test_an_item_older_than_the_limit_is_closed_where_a_closure_accepts_it(world: World) -> None:
    item = intended(world)
    next_run = later(world, 7.5)
    done = recover_all(next_run.services)
    assert [result.closed for result in done.results] == [True]
    assert item.folder.terminal.exists()
    assert ledger_types(world) == ["RESERVED", "UNCERTAIN"]
    next_run.close()


def test_an_item_is_closed_on_request(world: World) -> None:
    item = intended(world)
    next_run = later(world, 0.1)
    done = recover_all(next_run.services, close=[item.job.item_id])
    assert [result.closed for result in done.results] == [True]
    assert ledger_types(world) == ["RESERVED", "UNCERTAIN"]
    assert recover_all(next_run.services).results == []
    next_run.close()


def test_a_reservation_without_a_folder_is_settled_as_uncertain(world: World) -> None:
    ledger = world.services.require_ledger()
    ledger.reserve("HB9", "0" * 16, FIRST_RUN, world.services.day, 5, "task", None, step="reserve.append")
    next_run = later(world, 0.1)
    recover_all(next_run.services)
    assert ledger_types(world) == ["RESERVED", "UNCERTAIN"]
    next_run.close()


def test_a_reservation_of_another_library_at_work_is_left_alone(world: World) -> None:
    from hibor.clock import SystemClock
    from hibor.locks import Locks

    ledger = world.services.require_ledger()
    ledger.reserve("HB9", "0" * 16, FIRST_RUN, world.services.day, 5, "task", None, step="reserve.append")
    folder = world.services.library.ledger_folder(ACCOUNT)
    other = Locks(world.services.durable, SystemClock()).account(folder)
    next_run = later(world, 0.1)
    other.acquire()
    import threading

    thread = threading.Thread(target=lambda: recover_all(next_run.services))
    thread.start()
    thread.join()
    other.release()
    assert ledger_types(world) == ["RESERVED"]
    next_run.close()


def test_a_damaged_journal_is_told_and_blocks_only_its_report(world: World) -> None:
    item = intended(world)
    data = item.folder.journal.read_bytes()
    item.folder.journal.write_bytes(data.replace(b'"seq":2', b'"seq":3'))
    next_run = later(world, 0.1)
    done = recover_all(next_run.services)
    assert [(broken.report_id, broken.uncertain) for broken in done.broken] == [("HB1", False)]
    assert next_run.services.attempted_reports == {"HB1"}
    assert ledger_types(world) == ["RESERVED"]
    next_run.close()


def test_looking_changes_nothing(world: World) -> None:
    item = intended(world)
    with item.folder.journal.open("ab") as stream:
        stream.write(b'{"schema_version":1,"seq":3')
    before = {path: path.read_bytes() for path in world.services.library.root.rglob("*.jsonl")}
    found, broken = leftovers.find(later(world, 0.1).services, writes=False)
    assert [leftover.node for leftover in found] == ["P02_TRIGGER_UNKNOWN-N"]
    assert broken == []
    assert {path: path.read_bytes() for path in world.services.library.root.rglob("*.jsonl")} == before


def test_refused_files_leave_the_quarantine_after_thirty_days(world: World) -> None:
    folder = world.services.library.quarantine
    folder.mkdir()
    for name, days in (("old.pdf", 31), ("young.pdf", 29)):
        (folder / name).write_bytes(b"refused")
        seconds = (AT - timedelta(days=days)).timestamp()
        os.utime(folder / name, (seconds, seconds))
    assert recover_all(world.services).expired == ["old.pdf"]
    assert [path.name for path in folder.iterdir()] == ["young.pdf"]


def test_a_refused_file_goes_from_its_closed_item_too(world: World) -> None:
    """Both names hold the same bytes; an item that is still open keeps its own."""
    library = world.services.library
    library.quarantine.mkdir()
    staged = []
    for number, closed in ((1, True), (2, False)):
        folder = library.run(world.services.run_id).item(number, f"{number:016x}")
        folder.path.mkdir(parents=True)
        folder.staging.write_bytes(b"refused")
        if closed:
            folder.terminal.write_bytes(b"{}")
        kept = library.quarantine_file(world.services.run_id, folder.item_id)
        os.link(folder.staging, kept)
        seconds = (AT - timedelta(days=31)).timestamp()
        os.utime(kept, (seconds, seconds))
        assert library.refused_item(kept) == folder
        staged.append(folder.staging)
    assert len(empty_quarantine(world.services)) == 2
    assert [path.exists() for path in staged] == [False, True]


@pytest.mark.parametrize("lang", ["zh", "en"])
def test_a_recovery_says_what_a_code_means_and_what_to_do(
    world: World, lang: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """The code in the table of what was done is explained below it, once for all items that have it."""
    intended(world)
    next_run = later(world, 7.5)
    done = recover_all(next_run.services)
    next_run.close()
    (code,) = {result.code for result in done.results}
    Telling(lang, as_json=False, quiet=False).recovered(done, "library", ())
    said = capsys.readouterr().out
    assert said.count(advice(lang, code).what) == 1 and advice(lang, code).next in said


def test_temporary_files_of_an_open_item_go(world: World) -> None:
    item = intended(world)
    (item.folder.path / "candidate-1.tmp").write_bytes(b"half")
    next_run = later(world, 0.1)
    recover_all(next_run.services)
    assert not list(item.folder.path.glob("*.tmp"))
    next_run.close()


def test_half_written_files_of_the_library_go_and_strangers_stay(world: World) -> None:
    """Also of closed items and of runs that ended: what SIGKILL left under a temporary name."""
    item = intended(world)
    root, run = world.services.library.root, item.folder.path.parent.parent
    closed = item.folder.path.parent / "02-0123456789abcdef"
    for folder in (root / "consent", root / "quarantine", run / "evidence", closed / "evidence"):
        folder.mkdir(parents=True)
    ours = [
        root / "consent" / "practice.json.tmp",
        root / "quarantine" / "20261130T010000Z-00000a-0123456789abcdef.pdf.tmp",
        run / "report.html.tmp",
        run / "report-2.html.tmp",
        run / "run.json.tmp",
        run / "evidence" / "01-list.png.tmp",
        closed / "terminal.json.tmp",
        closed / "evidence" / "01-detail.png.tmp",
    ]
    strangers = [root / "notes.tmp", root / "reports" / "mine.pdf.tmp", run / "table.xlsx.tmp"]
    (root / "reports").mkdir(exist_ok=True)
    for path in (*ours, *strangers):
        path.write_bytes(b"half")
    (closed / "terminal.json").write_bytes(b"{}")
    recover_all(later(world, 0.1).services)
    assert [path for path in ours if path.exists()] == []
    assert all(path.read_bytes() == b"half" for path in strangers)


def test_stages_come_from_the_journal_alone() -> None:
    draft = Draft(job=_job())
    records = [
        Record(1, "2026-11-30T09:00:00.000+08:00", "ITEM_OPENED", {}),
        Record(2, "2026-11-30T09:00:04.000+08:00", "TRIGGER_INTENT", {}),
        Record(3, "2026-11-30T09:00:09.500+08:00", "STATE", {"state": "P03_CACHE_MATCHED"}),
        Record(4, "2026-11-30T09:00:11.000+08:00", "KEPT", {}),
    ]
    assert draft.journalled_stages(records) == (
        Stage("P00_INIT", 0.0, 4.0, "phone"),
        Stage("P02_TRIGGER_UNKNOWN", 4.0, 9.5, "phone"),
        Stage("P03_CACHE_MATCHED", 9.5, 9.5, "phone"),
    )


def _job():  # type: ignore[no-untyped-def]
    from hibor.items.draft import ItemJob

    return ItemJob(
        index=1, item_id="0" * 16, run_id=FIRST_RUN, source="NEW_TRIGGER", lane="NEW_TRIGGER", entry=ENTRY,
        final_path="reports/2026/11/x.pdf",
    )  # fmt: skip


def test_a_settling_that_fails_does_not_undo_the_closing(world: World) -> None:
    item = intended(world)
    item.draft.intent = item.draft.intent
    next_run = later(world, 7.5)
    ledger = next_run.services.require_ledger()
    real = ledger._store._durable

    class Full:
        def __getattr__(self, name: str):  # type: ignore[no-untyped-def]
            if name != "append_line":
                return getattr(real, name)

            def refuse(path: Path, line: bytes, *, step: str) -> None:
                raise DurableError("disk_failed", "N", step=step, path=path, detail="no space")

            return refuse

    ledger._store._durable = Full()  # type: ignore[assignment]
    done = recover_all(next_run.services)
    assert [result.closed for result in done.results] == [True]
    assert ledger_types(world) == ["RESERVED"]
    ledger._store._durable = real
    recover_all(next_run.services)
    assert ledger_types(world) == ["RESERVED", "UNCERTAIN"]
    next_run.close()
