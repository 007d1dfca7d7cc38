"""The index saves time and is never believed when anything differs (design 4)."""

from __future__ import annotations

import os
import sqlite3
from datetime import timedelta
from pathlib import Path

import pytest

from hibor.quota import store as store_module
from hibor.quota.errors import LedgerInvalid
from hibor.quota.index import Index, index_path
from tests.quota.support import DAY, Bench, fill, reserve


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    made = Bench(tmp_path)
    with made.open() as ledger:
        fill(ledger, 40)
    return made


def test_an_unchanged_ledger_opens_from_the_index(bench: Bench) -> None:
    with bench.open_without_index() as whole, bench.open() as quick:
        assert (whole.verified_whole, quick.verified_whole) == (True, False)
        assert quick.head == whole.head
        assert quick.sums(DAY) == whole.sums(DAY)
        assert quick.open_reservations() == whole.open_reservations()
        assert quick.history("HB00003") == whole.history("HB00003")


def test_what_is_appended_on_top_of_the_index_is_saved_with_it(bench: Bench) -> None:
    for number in range(3):
        with bench.open() as ledger:
            assert not ledger.verified_whole
            event = reserve(ledger, f"NEW{number}")
            if number:
                ledger.append("CONFIRMED", event, {})
            sums, head = ledger.sums(DAY), ledger.head
    with bench.open() as quick, bench.open_without_index() as whole:
        assert quick.head == whole.head == head
        assert quick.sums(DAY) == whole.sums(DAY) == sums
        assert quick.open_reservations() == whole.open_reservations()


@pytest.mark.parametrize("change", ["touched", "longer", "replaced", "altered last line"])
def test_any_difference_leads_to_full_verification(bench: Bench, change: str) -> None:
    data = bench.path.read_bytes()
    facts = bench.path.stat()
    if change == "touched":
        os.utime(bench.path, ns=(facts.st_atime_ns, facts.st_mtime_ns + 1))
    elif change == "longer":
        other = Bench(bench.path.parent)
        ledger = other.open()
        reserve(ledger, "MORE")
    elif change == "replaced":
        copy = bench.path.with_name("copy")
        copy.write_bytes(data)
        os.utime(copy, ns=(facts.st_atime_ns, facts.st_mtime_ns))
        copy.replace(bench.path)
    else:
        bench.path.write_bytes(data.replace(b'"seq":40', b'"seq":41'))
        os.utime(bench.path, ns=(facts.st_atime_ns, facts.st_mtime_ns))
        with pytest.raises(LedgerInvalid):
            bench.open()
        return
    with bench.open() as ledger:
        assert ledger.verified_whole


def test_silent_alteration_below_the_index_is_what_verify_finds(bench: Bench) -> None:
    data, facts = bench.path.read_bytes(), bench.path.stat()
    at = data.index(b"item-HB00002")
    bench.path.write_bytes(data[:at] + b"I" + data[at + 1 :])
    os.utime(bench.path, ns=(facts.st_atime_ns, facts.st_mtime_ns))
    with bench.open() as ledger, pytest.raises(LedgerInvalid):
        ledger.verify()
    bench.clock.moment += timedelta(days=1)
    with pytest.raises(LedgerInvalid):
        bench.open()


def test_the_index_itself_is_a_known_head(bench: Bench) -> None:
    lines = bench.path.read_bytes().splitlines(keepends=True)
    bench.path.write_bytes(b"".join(lines[:-3]))
    with pytest.raises(LedgerInvalid, match="missing at the end"):
        bench.open()
    bench.path.unlink()
    with pytest.raises(LedgerInvalid, match="missing at the end"):
        bench.open()


@pytest.mark.parametrize("damage", ["no database", "empty", "half a schema", "another version"])
def test_a_broken_index_costs_time_only(bench: Bench, damage: str) -> None:
    path = index_path(bench.path)
    if damage == "another version":
        with sqlite3.connect(path) as connection:
            connection.execute("update meta set value = replace(value, '\"version\": 1', '\"version\": 0')")
        connection.close()
    elif damage == "half a schema":
        with sqlite3.connect(path) as connection:
            connection.execute("drop table families")
        connection.close()
    else:
        path.write_bytes(b"" if damage == "empty" else b"not a database " * 400)
    with bench.open() as ledger:
        assert (ledger.verified_whole, ledger.head.count, ledger.index_note) == (True, 40, None)
    with bench.open() as ledger:
        assert not ledger.verified_whole


def test_an_index_moved_on_by_another_process_is_noticed(bench: Bench) -> None:
    """Mixing this object's fold with a newer index would refuse or double what the other process did."""
    one = bench.open()
    open_before = one.open_reservations()
    with bench.open() as two:
        event = reserve(two, "OTHER")
        two.append("CONFIRMED", event, {})
    assert len(one.history("OTHER")) == 1
    one.append("ARTIFACT_SUCCESS", event, {})
    reserve(one, "MINE")
    assert one.open_reservations()[: len(open_before)] == open_before
    one.close()
    with bench.open() as quick, bench.open_without_index() as whole:
        assert quick.sums(DAY) == whole.sums(DAY)
        assert quick.history("OTHER") == whole.history("OTHER")


def test_a_locked_index_is_noted_not_raised(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_arguments: object, **_options: object) -> Index:
        raise sqlite3.OperationalError("database is locked")

    ledger = bench.open()
    reserve(ledger, "X")
    monkeypatch.setattr(store_module, "save_index", refuse)
    ledger.close()
    assert "locked" in str(ledger.index_note)
    assert bench.open_without_index().head.count == 41
