"""Scenario files: strict, with line numbers, all errors at once; and every shipped one works."""

from __future__ import annotations

from pathlib import Path

import pytest

from hibor.sim.faultbook import FaultBook
from hibor.sim.phone import SimPhone
from hibor.sim.scenario import (
    FAULT_KINDS,
    Fault,
    ScenarioError,
    load_scenario,
    parse_scenario,
    scenario_names,
)
from tests.sim.driving import VirtualClock

GOOD = 'description = "x"\n'


def problems(text: str) -> list[str]:
    with pytest.raises(ScenarioError) as caught:
        parse_scenario(text, "s.toml")
    return caught.value.problems


@pytest.mark.parametrize("name", scenario_names())
def test_shipped_scenario_loads_and_describes_itself(name: str) -> None:
    scenario = load_scenario(name)
    assert scenario.description.endswith(".")
    assert scenario.pace.dump_s <= 3.0 or name == "dump_slow"


def test_every_fault_kind_has_a_shipped_scenario() -> None:
    shown = {fault.kind for name in scenario_names() for fault in load_scenario(name).faults}
    assert shown == set(FAULT_KINDS)


def test_default_figures() -> None:
    scenario = load_scenario("default")
    assert (scenario.feed.reports, scenario.quota.limit, scenario.quota.used) == (40, 20, 0)
    assert len(scenario.cache.prefilled) == 4 and all(rank <= 10 for rank in scenario.cache.prefilled)
    pace = scenario.pace
    assert (pace.dump_s, pace.tap_s, pace.prepare_min_s, pace.prepare_max_s) == (1.2, 0.6, 2.0, 8.0)
    assert (pace.cache_bytes_per_s, pace.pull_bytes_per_s) == (2e6, 2e7)
    slow = load_scenario("slow").pace
    assert (slow.dump_s, slow.prepare_min_s, slow.prepare_max_s) == (3.0, 20.0, 60.0)
    assert scenario.faults == ()


def test_all_errors_are_told_at_once_with_their_lines() -> None:
    text = (
        'description = "x"\n'  # 1
        "colour = 3\n"  # 2
        "[phone]\n"  # 3
        "battery_level = 130\n"  # 4
        'locked = "yes"\n'  # 5
        "wheels = 4\n"  # 6
        "[cache]\n"  # 7
        "prefilled = [2, 77]\n"  # 8
        'access = "closed"\n'  # 9
        "[[fault]]\n"  # 10
        'kind = "dump_junk"\n'  # 11
        "report = 1\n"  # 12
        "[[fault]]\n"  # 13
        'kind = "no_such"\n'  # 14
        "[[fault]]\n"  # 15
        'kind = "link_drop"\n'  # 16
        'site = "tap"\n'  # 17
        "call = 0\n"  # 18
        "times = true\n"  # 19
    )
    found = problems(text)
    lines = sorted(int(problem.split(":")[1].split(" ")[0]) for problem in found)
    assert lines == [2, 4, 5, 6, 8, 9, 12, 14, 17, 18, 19]
    assert "s.toml:4 phone.battery_level: must be 0 to 100, not 130" in found
    assert any("fault[1].kind: unknown fault kind 'no_such'" in problem for problem in found)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("[pace]\n", "description: required"),
        (GOOD + "[pace]\nprepare_min_s = 9.0\nprepare_max_s = 2.0\n", "must not exceed"),
        (GOOD + "pace = 3\n", "must be a table"),
        (GOOD + 'fault = "x"\n', "array of tables"),
        (GOOD + '[[fault]]\nkind = "pdf"\n', "variant: must be one of"),
        (GOOD + '[[fault]]\nkind = "pdf"\nvariant = "good"\nreport = 41\n', "the feed has 40 reports"),
        (GOOD + '[[fault]]\nkind = "anchor_drift"\nrename = { a = 1 }\n', "must be a table of old"),
        (GOOD + "[feed]\nnotices = [1]\n", "must be a list of str"),
        (GOOD + "[pace]\ndump_s = -1.0\n", "must be 0 to"),
        (GOOD + "[pace\n", "not TOML"),
    ],
)
def test_each_rule_has_its_message(text: str, words: str) -> None:
    assert any(words in problem for problem in problems(text))


def test_syntax_error_names_its_line() -> None:
    assert problems(GOOD + "\n[pace]\ndump_s = = 2\n")[0].startswith("s.toml:4 ")


def test_missing_file_names_the_known_scenarios(tmp_path: Path) -> None:
    with pytest.raises(ScenarioError, match=r"known names: .*default"):
        load_scenario(tmp_path / "none.toml")
    good = tmp_path / "own.toml"
    good.write_text('description = "my own"\n', encoding="utf-8")
    assert load_scenario(good).description == "my own"


def book(*faults: Fault) -> tuple[FaultBook, dict[str, int]]:
    counts: dict[str, int] = {}
    return FaultBook(faults, counts, lambda report_id: 1 if report_id == "first" else 2), counts


def test_fault_strikes_from_its_call_on_so_many_times() -> None:
    faults, _ = book(Fault("dump_stale", "dump", call=3, times=2))
    assert [len(faults.take("dump")) for _ in range(6)] == [0, 0, 1, 1, 0, 0]
    always, counts = book(Fault("dump_stale", "dump", call=2, times=0))
    assert [len(always.take("dump")) for _ in range(5)] == [0, 1, 1, 1, 1]
    assert list(counts.values()) == [2]


def test_fault_counts_only_calls_that_match() -> None:
    faults, _ = book(Fault("tap_ignored", "tap", call=2, report=1, control="dialog_ok"))
    ok, download = "dialog_ok", "btn_download"
    calls = [("first", ok), ("other", ok), ("first", download), ("first", ok)]
    assert [len(faults.take("tap", *call)) for call in calls] == [0, 0, 0, 1]
    by_text, _ = book(Fault("link_drop", "shell", match="screencap"))
    assert [len(by_text.take("shell", detail=text)) for text in ("getprop", "screencap -p")] == [0, 1]


@pytest.mark.parametrize("name", ["hostile_names", "empty_feed", "app_missing", "cache_hidden"])
def test_unusual_scenarios_make_a_phone(tmp_path: Path, name: str) -> None:
    assert SimPhone(tmp_path, load_scenario(name), VirtualClock()).dump_xml(False).xml is not None
