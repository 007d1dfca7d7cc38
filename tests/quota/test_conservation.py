"""`python -m hibor.ledger audit`: every cell and closing of the contract has its bucket, and what is lost is
found.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import attrs
import pytest

from fsm.snapshot import Closure
from hibor.ledger import main
from hibor.package.layout import ItemFolder
from hibor.package.manifest import row_id
from hibor.quota.conservation import Account, Item, Unit, audit, unit_bucket
from tests.fsm import v006
from tests.props.cells import Cell, Made, cells, make
from tests.props.world import World, world

NEW, PURE = v006.NEW, v006.PURE
DELIVERED = Cell(NEW, "P09", "NVVVVVVV", "CONFIRMED", "NEW_TRIGGER", "SUCCESS")
C01 = Closure("C01_NEW_SUCCESS", v006.FULL["P09"])


@pytest.fixture
def place(tmp_path: Path) -> Iterator[World]:
    with world(tmp_path / "library") as opened:
        yield opened


def audited(place: World) -> Account:
    return audit(place.services.library, place.ledger_path, place.services.durable)


def closed(cell: Cell, variant: str, code: str) -> tuple[Cell, Closure, str]:
    closing = None if variant[:3] in ("C01", "C03", "C04") else variant
    return attrs.evolve(cell, closing=closing), Closure(variant, v006.FULL[cell.short]), code


CLOSED = {
    "delivered": closed(DELIVERED, "C01_NEW_SUCCESS", "NONE"),
    "duplicate": closed(
        Cell(NEW, "P05-N", "VVVVVVVV", "CONFIRMED", "NEW_TRIGGER", "DUPLICATE"),
        "C02_NEW_DUPLICATE",
        "DUPLICATE_EXISTING_ARTIFACT",
    ),
    "reused": closed(Cell(PURE, "P09", "NVNNVVVV", "NONE", "CACHE_REUSE"), "C03_REUSE_SUCCESS", "NONE"),
    "nothing reserved": closed(
        Cell(NEW, "P00", "NNNNNNNV", "NONE", "NEW_TRIGGER"), "C05_PREQUOTA_STOP", "QUOTA_EXHAUSTED"
    ),
    "released": closed(
        Cell(NEW, "P02-V", "NNVNNNNV", "RELEASED", "NEW_TRIGGER"),
        "C07_TRIGGER_CLOSED_NO_ARTIFACT",
        "TRIGGER_NOT_OCCURRED",
    ),
    "written off": closed(
        Cell(NEW, "P03-N", "NNVNNNNV", "CONFIRMED", "NEW_TRIGGER"),
        "C07_TRIGGER_CLOSED_NO_ARTIFACT",
        "CACHE_TIMEOUT",
    ),
    "refused": closed(
        Cell(NEW, "P05-V", "VNVVNNNV", "CONFIRMED", "NEW_TRIGGER", "FAILURE"),
        "C08_PROCESSING_FAILED",
        "PDF_ENCRYPTED",
    ),
    "published and stopped": closed(
        Cell(NEW, "P06", "NVVVNNNV", "CONFIRMED", "NEW_TRIGGER", "SUCCESS"),
        "C09_POSTPUBLISH_STOP",
        "MANIFEST_INVALID",
    ),
}


def test_every_closing_and_every_cell_is_in_exactly_one_bucket(place: World) -> None:
    running = [cell for cell in cells() if "U" not in cell.presence]
    for cell, closure, code in CLOSED.values():
        make(place, cell, closure=closure, code=code)
    for cell in running:
        make(place, cell)
    account = audited(place)
    assert account.findings == ()
    assert sum(account.items.values()) == len(CLOSED) + len(running)
    assert account.items["kept"] == len(running) and account.items["unreadable"] == 0
    new = [cell for cell in running if cell.lane == NEW and cell.quota != "NONE"]
    closed_units = {"delivered": 3, "released": 1, "written off": 1, "refused": 1}
    assert {name: account.units[name] for name in closed_units} == {
        **closed_units,
        "released": 1 + sum(cell.quota == "RELEASED" for cell in new),
    }
    assert sum(account.units.values()) == 6 + len(new)
    ended = Counter({name: sum(by.get(name, 0) for by in account.ended.values()) for name in account.items})
    assert ended == Counter(account.items), "every id once, at the last stage it came to"
    assert account.units["unexplained"] == 0 and account.files["without a row"] == 0


def _lost_row(place: World, made: Made) -> None:
    place.services.library.manifest.unlink()


def _lost_file(place: World, made: Made) -> None:
    (place.services.library.root / made.final.path).unlink()


def _changed_file(place: World, made: Made) -> None:
    (place.services.library.root / made.final.path).write_bytes(b"%PDF-1.4 other")


def _foreign_file(place: World, made: Made) -> None:
    (place.services.library.reports / "stranger.pdf").write_bytes(b"%PDF-1.4")


def _lost_folder(place: World, made: Made) -> None:
    for path in made.folder.path.iterdir():
        path.unlink()
    made.folder.path.rmdir()


def _lost_ledger(place: World, made: Made) -> None:
    place.ledger_path.write_bytes(b"")


def _lost_journal_line(place: World, made: Made) -> None:
    lines = made.folder.journal.read_bytes().splitlines(keepends=True)
    made.folder.journal.write_bytes(b"".join(lines[:1] + lines[2:]))


def _doubled_row(place: World, made: Made) -> None:
    manifest = place.services.library.manifest
    manifest.write_bytes(manifest.read_bytes() * 2)


def _foreign_row(place: World, made: Made) -> None:
    with place.services.library.manifest.open("ab") as file:
        file.write(b'{"schema_version":1}\n')


LOSSES: tuple[tuple[Callable[[World, Made], None], str], ...] = (
    (_lost_row, "item"),
    (_lost_file, "manifest row"),
    (_doubled_row, "manifest row"),
    (_foreign_row, "manifest row"),
    (_changed_file, "manifest row"),
    (_foreign_file, "file"),
    (_lost_folder, "manifest row"),
    (_lost_ledger, "item"),
    (_lost_journal_line, "item"),
)


@pytest.mark.parametrize(("lose", "kind"), LOSSES, ids=[lose.__name__ for lose, _kind in LOSSES])
def test_what_is_lost_is_found(place: World, lose: Callable[[World, Made], None], kind: str) -> None:
    made = make(place, DELIVERED, closure=C01, code="NONE")
    assert audited(place).findings == ()
    lose(place, made)
    assert kind in {finding.kind for finding in audited(place).findings}


def test_a_paid_unit_without_file_or_reason_is_unexplained(place: World) -> None:
    made = make(place, DELIVERED, closure=C01, code="NONE")
    place.services.library.manifest.unlink()
    terminal = json.loads(made.folder.terminal.read_text(encoding="utf-8"))
    terminal["item"].update(status="SUCCESS", stop_code=None)
    made.folder.terminal.write_text(json.dumps(terminal), encoding="utf-8")
    folder = made.folder.path
    (folder / "journal.jsonl").write_bytes(b"")
    account = audited(place)
    assert "delivered without a manifest row" in {finding.what for finding in account.findings}


def test_the_command_says_figures_and_ends_with_one_for_a_loss(
    place: World, capsys: pytest.CaptureFixture[str]
) -> None:
    made = make(place, DELIVERED, closure=C01, code="NONE")
    where = ["--library", str(place.root), "--account", "props"]
    assert main(["audit", *where]) == 0
    assert "quota units: 1 = delivered 1" in capsys.readouterr().out
    _lost_file(place, made)
    assert main(["audit", "--json", *where]) == 1
    document = json.loads(capsys.readouterr().out)
    assert document["units"]["delivered"] == 1 and len(document["findings"]) == 1


def test_a_duplicate_names_a_file_that_another_item_published(place: World) -> None:
    make(place, DELIVERED, closure=C01, code="NONE")
    place._serial -= 1  # the same report once more, from the phone's cache
    again = attrs.evolve(
        Cell(PURE, "P09", "NVNNVVVV", "NONE", "CACHE_REUSE"), duplicate=True, closing=None
    )
    closure = Closure("C04_REUSE_DUPLICATE", v006.FULL["P09"])
    made = make(place, again, closure=closure, code="DUPLICATE_EXISTING_ARTIFACT")
    found = audited(place)
    assert found.findings == ()
    assert found.items["delivered"] == found.items["duplicate"] == found.files["with a row"] == 1
    assert [row.final_path for row in place.services.manifest.rows()] == [made.final.path] * 2


def test_a_paid_unit_whose_item_left_no_trace_is_told(tmp_path: Path) -> None:
    """Only what recovery wrote off itself (ruling R19) may have neither folder nor journal."""
    bare = Item(ItemFolder(tmp_path / "01-0123456789abcdef"), "20261130T040506Z-0a1b2c")
    paid = Unit("f", "HB1", bare.item_id, "2026-11-30", bare.run_id, "CONFIRMED")
    assert unit_bucket(attrs.evolve(paid, quota="UNCERTAIN"), None, 0) == ("written off", "")
    assert unit_bucket(paid, None, 0) == ("unexplained", "its item's folder is missing")
    assert unit_bucket(paid, bare, 0) == ("unexplained", "its item's journal is missing")


@pytest.mark.parametrize("same_run", [False, True])
def test_a_file_that_was_taken_away_is_published_again(place: World, same_run: bool) -> None:
    """Rows of two runs may name one path; within one run that is a fault."""
    make(place, DELIVERED, code="NONE", closure=C01)
    manifest = place.services.manifest
    (row,) = manifest.rows()
    run, item = row.run_id if same_run else "20261201T040506Z-0a1b2c", "f" * 16
    manifest.append(attrs.evolve(row, run_id=run, item_id=item, manifest_row_id=row_id(run, item)))
    said = [one.what for one in audited(place).findings if one.kind == "file"]
    assert said == (["2 rows of one run say they published it"] if same_run else [])
