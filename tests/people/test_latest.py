"""Which run is the latest, what a dry run is, and what is said of runs that were cut off."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from hibor.package.layout import Library, RunFolder
from hibor.package_zip import _late
from hibor.package_zip import main as package
from hibor.people.run_view import load_run
from hibor.report.__main__ import main as report
from hibor.runs import main as runs
from tests.people.conftest import Ask, Told


def dry_run_after(run: RunFolder, run_id: str) -> RunFolder:
    """A dry run's document, as `hibor run --dry-run` leaves it, beside a run's."""
    document = json.loads(run.run_json.read_bytes())
    dry = RunFolder(run.path.with_name(run_id))
    dry.path.mkdir()
    counts = {"by_status": {}, "by_source": {}, "selected": 3, "plan": []}
    document |= {"run_id": run_id, "items": [], "recovered": [], "counts": counts}
    document["stop_reason"] = {"code": "DRY_RUN", "detail": "nothing was reserved and nothing tapped"}
    dry.run_json.write_text(json.dumps(document), "utf-8")
    return dry


def the_runs(own: Told) -> list[RunFolder]:
    return Library(own.path).run_folders()


@pytest.mark.parametrize("how", [(), ("--latest",), ("latest",)])
def test_the_latest_run_is_no_dry_run(own: Told, ask: Ask, tmp_path: Path, how: tuple[str, ...]) -> None:
    newest = the_runs(own)[-1]
    dry = dry_run_after(newest, "29991231T000000Z-ffffff")
    assert the_runs(own)[-1] == dry
    for main, target in ((package, "--zip"), (report, "--output")):
        file = tmp_path / f"made{target}"
        code, out, err = ask(main, *how, target, file, "--library", own.path, "--json")
        assert (code in (0, 2), json.loads(out)["run_id"]) == (True, newest.run_id), err
    code, out, _err = ask(
        report, dry.run_id[:8], "--output", tmp_path / "dry.html", "--library", own.path, "--json"
    )
    assert (code, json.loads(out)["run_id"]) == (0, dry.run_id), "a dry run is shown where it is named"
    shown = ask(runs, "--library", own.path, "--lang", "en")[1].splitlines()
    assert "dry run: 3 planned" in shown[0] and "delivered" in shown[1]


def test_a_dry_run_takes_no_report_from_the_next_package(own: Told) -> None:
    """The first run was cut off and recovered; a dry run came before the second one, which packs it all."""
    first, second = the_runs(own)
    first.run_json.unlink()
    dry_run_after(second, f"{first.run_id[:-1]}~")
    assert [one.row for one in _late(load_run(own.library, second))]


@pytest.mark.parametrize("lang", ["zh", "en"])
def test_a_library_without_an_ended_run_says_what_is_there(own: Told, ask: Ask, lang: str) -> None:
    """Settled: the files are there, and where; open: recover; dry: run; nothing: run."""
    first, second = the_runs(own)
    where = ("--library", own.path, "--lang", lang)
    views = [load_run(own.library, run) for run in (first, second)]
    delivered = {one.item["report_id"] for view in views for one in view.delivered}
    first.run_json.unlink(), second.run_json.unlink()
    for main in (report, package):
        code, _out, err = ask(main, *where)
        assert code == 1 and second.run_id in err and f" {len(delivered)} " in err.replace("：", ": ")
    assert {"zh": "已由恢复了结", "en": "recovery has settled"}[lang] in ask(runs, *where)[1]
    second.item_folders()[0].terminal.unlink()
    assert "`hibor recover`" in ask(report, *where)[2]
    assert "`hibor recover --list`" in ask(runs, *where)[1].splitlines()[0]
    listed = json.loads(ask(runs, *where, "--json")[1])["runs"]
    assert [one["open_items"] for one in listed] == [1, 0]


def test_a_library_of_dry_runs_alone(own: Told, ask: Ask) -> None:
    for run in the_runs(own):
        document = json.loads(run.run_json.read_bytes())
        document["counts"]["plan"] = []
        run.run_json.write_text(json.dumps(document), "utf-8")
    code, _out, err = ask(report, "--library", own.path, "--lang", "en")
    assert code == 1 and "dry runs" in err


def test_a_run_that_may_work_right_now_is_not_called_settled(own: Told, ask: Ask) -> None:
    newest = the_runs(own)[-1]
    newest.run_json.unlink()
    (own.path / "library.lock.owner").write_text("process 1 since now\n", "utf-8")
    shown = ask(runs, "--library", own.path, "--lang", "en")[1].splitlines()[0]
    assert "works right now" in shown and "settled" not in shown
