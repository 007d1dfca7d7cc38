"""The want-list: what fits, when a wish ends, what damage does."""

from __future__ import annotations

import json
from datetime import UTC, datetime

import pytest

from hibor.clock import SystemClock
from hibor.durable import Durable
from hibor.durable_fs import OsFileSystem
from hibor.items.catalogue import CatalogueEntry
from hibor.people.run_view import manifest_rows
from hibor.want import Want, main, read_wants, want_path, want_unfunded
from tests.people.conftest import Ask, Told


def entry(**facts: str) -> CatalogueEntry:
    return CatalogueEntry(**{"report_id": "HB1", "title": "半导体周报", **facts})  # type: ignore[arg-type]


def want(**facts: str) -> Want:
    return Want(want_id="1", at="2026-11-30T08:00:00.000+08:00", **facts)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("wish", "report", "fits"),
    [
        (want(code="600519"), entry(stock_code="600519"), True),
        (want(code="hb1"), entry(), True),
        (want(code="600519"), entry(stock_code="600518"), False),
        (want(code="600519", institution="国信"), entry(stock_code="600519", institution="国信证券"), True),
        (want(code="600519", institution="国信"), entry(stock_code="600519", institution="中信证券"), False),
        (want(keyword="半导体"), entry(), True),
        (want(keyword="ＡＩ"), entry(title="ai 算力"), True),
        (want(), entry(), False),
    ],
)
def test_everything_given_must_fit(wish: Want, report: CatalogueEntry, fits: bool) -> None:
    assert wish.fits(report) is fits


def test_wanted_reports_go_first_and_order_is_kept(own: Told, ask: Ask) -> None:
    assert ask(main, "add", "--keyword", "存储", "--library", own.path)[0] == 0
    reports = [entry(report_id=str(n), title=title) for n, title in enumerate(["a", "存储一", "b", "存储二"])]
    assert [one.report_id for one in read_wants(own.library).first(reports)] == ["1", "3", "0", "2"]


def test_add_list_remove(own: Told, ask: Ask) -> None:
    assert ask(main, "add", "600519", "--institution", "国信证券", "--library", own.path)[0] == 0
    assert (
        ask(main, "add", "600519", "--institution", "国信证券", "--library", own.path)[0] == 0
    )  # the same wish
    code, out, _err = ask(main, "list", "--library", own.path, "--json")
    (one,) = json.loads(out)["wants"]
    assert code == 0 and (one["code"], one["institution"]) == ("600519", "国信证券")
    assert ask(main, "remove", one["want_id"], "--library", own.path)[0] == 0
    assert ask(main, "remove", one["want_id"], "--library", own.path)[0] == 1
    assert read_wants(own.library).wants == ()
    assert ask(main, "add", "--library", own.path)[0] == 64


def test_unfunded_reports_are_wished_for_once(own: Told) -> None:
    durable = Durable(
        OsFileSystem(), SystemClock(), frozenset({"want.append", "lock.note", "lock.drop_note"})
    )
    for at in ("2026-12-01T08:00:00.000+08:00", "2026-12-02T08:00:00.000+08:00"):
        want_unfunded(own.library, durable, ["HB9", "HB8"], at=at)
    found = read_wants(own.library).wants
    assert [(one.code, one.source) for one in found] == [("HB9", "unfunded"), ("HB8", "unfunded")]


def test_a_wish_ends_when_a_report_comes_after_it(own: Told) -> None:
    row = manifest_rows(own.library)[-1]
    came = datetime.fromisoformat(row.at)
    lines = []
    for want_id, year in (("before", came.year - 1), ("after", came.year + 1)):
        at = datetime(year, 1, 1, tzinfo=UTC).isoformat()
        wish = {"want_id": want_id, "at": at, "code": row.report_id, "institution": None, "keyword": None}
        lines.append(json.dumps({"schema_version": 1, "event": "added", **wish, "source": "person"}))
    want_path(own.library).write_text("\n".join(lines) + "\n", "utf-8")
    assert [one.want_id for one in read_wants(own.library).wants] == ["after"]


def test_damage_costs_one_line_and_an_unfinished_one_is_moved(own: Told, ask: Ask) -> None:
    path = want_path(own.library)
    assert ask(main, "add", "1", "--library", own.path)[0] == 0
    with path.open("ab") as stream:
        stream.write(b'{"junk":1}\n{"schema_version":1,"event":"added","want')
    found = read_wants(own.library)
    assert (len(found.wants), found.unread) == (1, 1)
    assert ask(main, "add", "2", "--library", own.path)[0] == 0
    assert [one.code for one in read_wants(own.library).wants] == ["1", "2"]
    assert len(list(own.path.glob("want.jsonl.unfinished-*"))) == 1
