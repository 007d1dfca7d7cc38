"""The two lanes, seen from outside: what came first, what waited, what was not opened any more (design 1,
2).

Orders and times are read from journals, terminals and the phone's own truth. Times are the run's own time
line.
"""

from __future__ import annotations

import json
from datetime import datetime
from itertools import pairwise
from pathlib import Path
from typing import Any

from tests.conftest import WarmLibrary
from tests.main_job import (
    SMALL_FEED,
    MainJob,
    events,
    item_folder,
    journal,
    nothing_reserved,
    served,
)


def opened_at(library: Path, item: dict[str, Any]) -> datetime:
    first = journal(library, item)[0]
    assert first["event"] == "ITEM_OPENED"
    return datetime.fromisoformat(first["at"])


def triggered_at(library: Path, item: dict[str, Any]) -> datetime:
    (intent,) = [record for record in journal(library, item) if record["event"] == "TRIGGER_INTENT"]
    return datetime.fromisoformat(intent["at"])


def closed_at(library: Path, item: dict[str, Any]) -> datetime:
    terminal = json.loads((item_folder(library, item) / "terminal.json").read_bytes())
    return datetime.fromisoformat(terminal["written_at"])


def of_source(items: list[dict[str, Any]], source: str) -> list[dict[str, Any]]:
    return [item for item in items if item["source"] == source]


# -- the default run --------------------------------------------------------------------------------------


def test_all_pure_items_come_before_any_new_item(warm: WarmLibrary) -> None:
    items = warm.first.items
    assert [item["source"] for item in items] == ["CACHE_REUSE"] * 4 + ["NEW_TRIGGER"] * 6
    last_pure = max(opened_at(warm.path, item) for item in of_source(items, "CACHE_REUSE"))
    first_new = min(opened_at(warm.path, item) for item in of_source(items, "NEW_TRIGGER"))
    assert last_pure < first_new


def test_each_lane_takes_the_newest_first(warm: WarmLibrary) -> None:
    """The practice feed numbers its reports by age."""
    for source in ("CACHE_REUSE", "NEW_TRIGGER"):
        numbers = [item["report_id"] for item in of_source(warm.first.items, source)]
        assert numbers == sorted(numbers, reverse=True)


def test_canary_is_verified_before_a_second_report_is_reserved(warm: WarmLibrary) -> None:
    canary, second, *_rest = of_source(warm.first.items, "NEW_TRIGGER")
    reserved = {event["item_id"]: event["at"] for event in events(warm.path) if event["type"] == "RESERVED"}
    closed = closed_at(warm.path, canary)
    assert closed <= datetime.fromisoformat(reserved[second["item_id"]])


def test_after_the_canary_the_lanes_overlap(warm: WarmLibrary) -> None:
    """At least one item was opened on the phone before the one before it was packed."""
    new = of_source(warm.first.items, "NEW_TRIGGER")[1:]
    pairs = list(pairwise(new))
    assert any(opened_at(warm.path, later) < closed_at(warm.path, earlier) for earlier, later in pairs)


def test_the_host_lane_packs_one_item_at_a_time(warm: WarmLibrary) -> None:
    """Ledger and manifest have one writer: no item's packing begins inside another's."""
    spans = []
    for item in warm.first.items:
        timing = json.loads((item_folder(warm.path, item) / "timing.json").read_bytes())
        host = [stage for stage in timing["stages"] if stage["lane"] == "host"]
        spans.append((min(stage["entered_s"] for stage in host), max(stage["left_s"] for stage in host)))
    spans.sort()
    assert all(left <= entered for (_begun, left), (entered, _left) in pairwise(spans))


def test_triggers_are_at_least_eight_seconds_apart(warm: WarmLibrary) -> None:
    times = sorted(triggered_at(warm.path, item) for item in of_source(warm.first.items, "NEW_TRIGGER"))
    gaps = [(later - earlier).total_seconds() for earlier, later in pairwise(times)]
    assert len(gaps) == 5 and min(gaps) >= 8


# -- other runs ------------------------------------------------------------------------------------------


def test_a_task_may_raise_the_spacing(main_job: MainJob, tmp_path: Path) -> None:
    task = tmp_path / "task.toml"
    text = 'library = "library"\naccount = "team-a"\ncount = 3\n[quota]\nspacing_s = 60\n'
    task.write_text(text, encoding="utf-8")
    library = tmp_path / "library"
    options = ("--task", task, "--scenario", main_job.scenario(SMALL_FEED), "--library", library)
    run = main_job(*options, scale=30)
    assert run.summary() == (0, "COMPLETE", None), run.stderr
    times = [triggered_at(library, item) for item in run.items]
    gaps = [(later - earlier).total_seconds() for earlier, later in pairwise(times)]
    assert len(gaps) == 2 and min(gaps) >= 60
    assert run.document["timing"]["waited_s"] > 0


def test_rejected_candidate_is_listed_and_replaced_by_the_next_newest(
    main_job: MainJob, tmp_path: Path
) -> None:
    """Ruling R15: another file has the final name; nothing is spent for it and the file is left alone."""
    library = tmp_path / "library"
    options = ("--library", library, "--scenario", main_job.scenario(SMALL_FEED), "--count", "1")
    looked = main_job(*options, "--quota-limit", "0")
    (wanted,) = looked.items
    assert wanted["stop_code"] == "QUOTA_EXHAUSTED"
    year, month, _day = wanted["date"].split("-")
    name = f"{wanted['date']}_{wanted['institution']}_{wanted['title']}_{wanted['report_id']}.pdf"
    foreign = library / "reports" / year / month / name
    foreign.parent.mkdir(parents=True, exist_ok=True)
    foreign.write_bytes(b"%PDF-1.4 somebody else's")

    run = main_job(*options)
    assert run.summary()[:2] == (0, "COMPLETE"), run.document["stop_reason"]
    rejected, replacement = run.items
    assert (rejected["report_id"], rejected["stop_code"]) == (wanted["report_id"], "CANDIDATE_REJECTED")
    assert (rejected["status"], rejected["quota_state"]) == ("STOPPED", "NONE")
    assert (replacement["status"], replacement["source"]) == ("SUCCESS", "NEW_TRIGGER")
    assert replacement["report_id"] < rejected["report_id"]  # the next newest
    assert foreign.read_bytes() == b"%PDF-1.4 somebody else's"
    assert served(library) == [replacement["report_id"]]


CAPTCHA = """
[cache]
prefilled = [4, 5]

[[fault]]
kind = "captcha_wall"
site = "download"
call = 2
times = 0
"""


def test_breaker_ends_the_new_lane_and_leaves_reuse_alone(main_job: MainJob, tmp_path: Path) -> None:
    """A captcha at the second download: it is not solved, not waited for, and nothing more is opened.

    The item itself is proved not to have cost anything (ruling R21); the wall is what stops the lane.
    """
    library = tmp_path / "library"
    scenario = main_job.scenario(SMALL_FEED + CAPTCHA)
    run = main_job("--library", library, "--scenario", scenario)
    assert run.summary() == (10, "PARTIAL", "ACCESS_CONTROL_PRESENT")
    reused, new = of_source(run.items, "CACHE_REUSE"), of_source(run.items, "NEW_TRIGGER")
    assert [item["status"] for item in reused] == ["SUCCESS"] * 2
    assert [(item["status"], item["stop_code"]) for item in new] == [
        ("SUCCESS", None), ("STOPPED", "TRIGGER_NOT_OCCURRED"),
    ]  # fmt: skip
    assert served(library) == [new[0]["report_id"]]
    assert [event["type"] for event in events(library)][-2:] == ["RESERVED", "RELEASED"]
    assert "No further download is started in this run: ACCESS_CONTROL_PRESENT" in run.stderr


def test_window_that_is_too_short(main_job: MainJob, tmp_path: Path) -> None:
    """What was not begun stays for the next run; nothing is left half-way."""
    library = tmp_path / "library"
    scenario = main_job.scenario(SMALL_FEED)
    options = ("--library", library, "--scenario", scenario, "--count", "5")
    run = main_job(*options, "--deadline", "60")
    assert (run.exit_code, run.document["status"]) == (12, "DEADLINE_STOP")
    assert sum(item["status"] == "SUCCESS" for item in run.items) < 5
    assert run.document["quota"]["reserved"] == 0
    again = main_job(*options)
    assert again.summary()[:2] == (0, "COMPLETE")
    assert len(served(library)) == len(set(served(library))) == 5


def test_only_reuse(main_job: MainJob, tmp_path: Path) -> None:
    task = tmp_path / "task.toml"
    text = 'library = "library"\naccount = "team-a"\n[policy]\nreuse = "only"\n'
    task.write_text(text, encoding="utf-8")
    library = tmp_path / "library"
    scenario = main_job.scenario(SMALL_FEED + "\n[cache]\nprefilled = [1, 3]\n")
    run = main_job("--task", task, "--scenario", scenario, "--library", library)
    assert run.exit_code == 0 and run.document["status"] == "COMPLETE"
    assert [item["source"] for item in run.items] == ["CACHE_REUSE"] * 2
    assert nothing_reserved(library) and served(library) == []
