"""The live view: facts on the board, drawings of every size, and a real run on a real pseudo-terminal."""

from __future__ import annotations

import io
import os
import re
from pathlib import Path

import attrs
import pytest
from rich.cells import cell_len
from rich.console import Console

from generated.presence import STATES
from hibor.collect.deadline import Deadline
from hibor.messages import LANGS, catalogue
from hibor.people.board import Action, Board, Row
from hibor.people.live_view import GRID_FROM_COLUMNS, LiveView
from hibor.people.progress import Progress, can_show_a_view
from tests.main_job import SMALL_FEED, check_streams
from tests.people.terminal import Seen, watch

TITLE = "海康威视深度报告：格局优化，价格企稳，龙头地位进一步巩固，全年业绩有望超出市场预期"
needs_a_terminal = pytest.mark.skipif(os.name != "posix", reason="no pseudo-terminals here")


class Still:
    """A clock that stands where it is put."""

    at_s = 0.0

    def monotonic_s(self) -> float:
        return self.at_s


def board(reports: int = 10, **more: object) -> Board:
    clock = Still()
    made = Board(last_stage=len(STATES) - 1, deadline=Deadline(clock, 600.0, 20.0), **more)  # type: ignore[arg-type]
    clock.at_s = 123.0
    made.chosen((str(number), TITLE, "NEW_TRIGGER") for number in range(reports))
    return made


def drawn(made: Board, lang: str = "zh", width: int = 80, height: int | None = 24) -> list[str]:
    view = LiveView(made, lang, io.StringIO())
    console = Console(file=io.StringIO(), width=width, height=height or 99, color_system=None)
    console.print(view.frame(width, height))
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue().splitlines()


def test_a_terminal_that_can_and_streams_that_cannot() -> None:
    assert can_show_a_view(Terminal(), {"TERM": "xterm"})
    assert not can_show_a_view(io.StringIO(), {"TERM": "xterm"})
    for environment in ({"TERM": "dumb"}, {"TERM": "xterm", "NO_COLOR": "1"}, {"TERM": "unknown"}):
        assert not can_show_a_view(Terminal(), environment)
    assert can_show_a_view(Terminal(), {"TERM": "xterm", "NO_COLOR": ""})


@pytest.mark.parametrize("lang", LANGS)
@pytest.mark.parametrize("width", [30, 40, 60, 69, 70, 80, 100, 200])
@pytest.mark.parametrize("height", [10, 24, 50])
def test_no_line_is_wider_and_no_frame_higher_than_the_terminal(lang: str, width: int, height: int) -> None:
    made = board(30, simulated=True, phone=("SIM-A1 极长的型号名称 Ultra", "7.2.1"), quota_before=20)
    made.action = Action("open_detail", TITLE, 100.0)
    made.turn_left_s = lambda: 5.0
    for number in range(5):
        made.event(TITLE * 2, warning=number % 2 == 0)
    lines = drawn(made, lang, width, height)
    assert max(cell_len(line) for line in lines) <= width
    assert len(lines) < height or height == 10
    whole = drawn(made, lang, width, None)
    assert max(cell_len(line) for line in whole) <= width


def test_grid_shows_where_each_report_stands() -> None:
    made = board(0)
    about = {"title": "甲", "source": "NEW_TRIGGER"}
    for report_id, facts in {
        "done": {"number": 1, "stage": 10, "passed": set(range(11)), "status": "SUCCESS"},
        "reuse": {"number": 2, "stage": 10, "passed": {0, 6, 7, 8, 9, 10}, "status": "SUCCESS"},
        "now": {"number": 3, "stage": 4, "passed": {0, 1, 2, 3, 4}, "since_s": 120.0},
        "bad": {"number": 4, "stage": 3, "passed": {0, 1, 2, 3}, "status": "STOPPED", "code": "THE_CODE"},
        "ahead": {},
    }.items():
        made.rows[report_id] = Row(report_id=report_id, **{**about, **facts})  # type: ignore[arg-type]
    rows = [line for line in drawn(made) if "甲" in line]
    assert "=" * 22 in rows[0] and rows[0].rstrip().endswith("已交付")
    assert "== - - - - -==========" in rows[1]
    assert "========04 . . . . . ." in rows[2] and "3 s" in rows[2]
    assert "======xx . . . . . . ." in rows[3] and "THE_CODE" in rows[3]
    assert rows[4].lstrip().startswith("-") and "等待中" in rows[4]


def test_what_does_not_fit_is_counted_and_what_is_under_way_stays() -> None:
    made = board(40)
    made.rows["25"].number, made.rows["25"].stage = 26, 4
    lines = drawn(made, "en", 80, 20)
    assert any(re.match(r" *26 new", line) for line in lines)
    (more,) = [line for line in lines if "more" in line]
    shown = sum(bool(re.match(r" *(\d+|-) new", line)) for line in lines)
    assert f"and {40 - shown} more" in more and shown >= 3
    assert not any("more" in line for line in drawn(made, "en", 80, None))


def test_narrow_terminal_has_no_grid_and_still_says_the_stage() -> None:
    made = board(1)
    made.rows["0"].number, made.rows["0"].stage, made.rows["0"].since_s = 1, 4, 120.0
    narrow = "\n".join(drawn(made, "en", GRID_FROM_COLUMNS - 1))
    assert " . ." not in narrow and "04  3 s" in narrow


def test_quota_left_counts_what_is_reserved_and_a_release_gives_back() -> None:
    made = board(3, quota_before=20)
    assert made.quota_left == 20
    made.rows["0"].pays = made.rows["1"].pays = True
    assert made.quota_left == 18 and "额度剩余 18" in "\n".join(drawn(made))
    made.rows["1"].pays = False
    assert made.quota_left == 19


def test_phone_line_says_what_is_done_and_that_the_next_tap_has_to_wait() -> None:
    made = board(1)
    made.action = Action("open_detail", TITLE, 120.0)
    assert "手机： 正在打开报告页  3 s  海康威视" in "\n".join(drawn(made))
    made.turn_left_s = lambda: 5.0
    assert "等待 5 秒：两次下载至少间隔 8 秒" in "\n".join(drawn(made))


def test_a_hostile_title_moves_no_cursor() -> None:
    made = board(0)
    made.chosen([("1", "甲\x1b[2J\u202e\r\n乙\u200b", "NEW_TRIGGER")])
    (line,) = [line for line in drawn(made) if "甲" in line]
    assert "乙" in line and not set(line) & set("\x1b\u202e\r\u200b")


def test_every_work_of_the_contract_and_every_source_has_its_words() -> None:
    from hibor.items.effects import WORK

    for lang in LANGS:
        assert set(WORK) <= set(catalogue(lang)["live"]["doing"])
        assert set(catalogue(lang)["live"]["sources"]) == {"PROJECT_REUSE", "CACHE_REUSE", "NEW_TRIGGER"}


def test_a_drawing_that_fails_ends_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    view = LiveView(board(), "zh", io.StringIO())
    monkeypatch.setattr(view, "frame", lambda *_: 1 / 0)
    assert str(view._drawn()) == ""


class Terminal(io.StringIO):
    """A stream that says it is one."""

    encoding = "utf-8"

    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize("wanted", [True, False])
@pytest.mark.parametrize("stream", [Terminal, io.StringIO])
@pytest.mark.parametrize("quiet", [True, False])
def test_a_view_only_where_it_is_seen_and_wanted(
    wanted: bool, stream: type[io.StringIO], quiet: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.delenv("NO_COLOR", raising=False)
    console = stream()
    progress = Progress("en", quiet=quiet, stream=console)
    with progress.shown(wanted=wanted, last_stage=10, simulated=True):
        assert (progress.board is not None) == (wanted and stream is Terminal and not quiet)
        progress.note("ERROR something")
        progress.say("simulated")
        progress.doing("preflight")
    progress.last_frame()
    assert console.getvalue().count("ERROR something\n") >= 1


# -- on a real terminal ------------------------------------------------------------------------------------


@pytest.fixture(scope="session")
def small(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("live") / "small.toml"
    path.write_text(SMALL_FEED, "utf-8")
    return path


@pytest.fixture(scope="session")
def whole(small: Path) -> Seen:
    """A run to its end, in Chinese, on 80 columns."""
    options = ["--scenario", small, "--time-scale", "10", "--count", "3", "--lang", "zh"]
    return watch(options, small.parent / "whole")


@needs_a_terminal
def test_run_on_a_terminal_is_drawn_and_leaves_its_last_frame(whole: Seen) -> None:
    assert whole.run.exit_code == 0
    check_streams(attrs.evolve(whole.run, stderr=""))
    drawings = ["\n".join(screen) for screen in whole.screens]
    assert any("正在读取应用列表" in drawing for drawing in drawings)
    assert any(re.search(r"=0[1-9] \.", drawing) for drawing in drawings), "no stage was seen under way"
    last = "\n".join(whole.screen.text)
    assert last.count("已交付 3/3") == 1 and last.count("=" * 22) == 3
    for item in whole.run.items:
        assert last.count(str(item["title"])[:6]) == 1
    told = "COMPLETE：选中 3 篇，交付 3 篇；未交付：0；剩余额度：17；手机用时"
    assert "".join(whole.screen.text).split("COMPLETE")[-1].startswith(told.removeprefix("COMPLETE"))
    assert "正在" not in last


@needs_a_terminal
def test_drawing_keeps_inside_the_columns_and_gives_the_cursor_back(whole: Seen) -> None:
    region = [line for screen in whole.screens for line in screen if re.search(r"==|窗口 [#.]", line)]
    assert region and max(map(cell_len, region)) <= 80
    assert whole.screen.cursor_shown and whole.screen.coloured
    assert b"\x1b[?1049h" not in whole.raw  # never another screen: what was there before stays


@needs_a_terminal
def test_ctrl_c_on_a_terminal_closes_the_view_and_the_run(small: Path) -> None:
    options = ["--scenario", small, "--time-scale", "10", "--count", "4", "--lang", "en"]
    seen = watch(
        options,
        small.parent / "stopped",
        interrupt_when=lambda screen: any(re.search(r"Delivered 1/4", line) for line in screen),
    )
    assert seen.run.exit_code == 130 and seen.run.document["status"] == "INTERRUPTED"
    last = "\n".join(seen.screen.text)
    assert seen.screen.cursor_shown and "Interrupted: a tap in flight" in last
    assert last.count("Window") == 1 and "not begun" in last and "INTERRUPTED: 1 of 4" in last
    assert "Traceback" not in last
