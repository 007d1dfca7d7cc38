"""The moving list: what stands between the reports, paging by offset, inserts and deletes, scrolling."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

from hibor.sim.feed import AppList, ServerFeed
from hibor.sim.pages import list_date
from hibor.sim.scenario import Fault, FeedSettings
from hibor.sim.state import PhoneState
from tests.sim.driving import MORNING, Person, nodes_of, with_faults

VIEWPORT = 1900


def new_feed(settings: FeedSettings | None = None) -> ServerFeed:
    return ServerFeed(settings or FeedSettings(), PhoneState(first_start=MORNING))


def report_keys(shown: AppList) -> list[str]:
    return [row.key for row in shown.rows if row.kind == "report"]


def test_default_rows_are_forty_reports_with_other_rows_between() -> None:
    rows = new_feed().rows()
    kinds = [row.kind for row in rows]
    assert kinds.count("report") == 40
    assert kinds[:2] == ["notice", "pinned"] and kinds.count("advert") == 6
    # The pinned row shows a report that also stands in its own place.
    assert rows[1].report == new_feed().at_rank(25)


def test_paging_by_offset_repeats_a_row_after_an_insert_and_hides_one_after_a_delete() -> None:
    feed = new_feed(FeedSettings(notices=(), pinned=(), adverts_every=0))
    shown = AppList(feed, 10)
    before = report_keys(shown)
    feed.insert(MORNING, 1)
    shown.load_page()
    assert report_keys(shown).count(before[-1]) == 2
    other = new_feed(FeedSettings(notices=(), pinned=(), adverts_every=0))
    shown = AppList(other, 10)
    hidden = other.reports()[10].report_id
    other.delete(other.reports()[0].report_id)
    shown.load_page()
    assert hidden not in report_keys(shown)


def test_follow_server_keeps_the_first_visible_row_in_place() -> None:
    feed = new_feed()
    shown = AppList(feed, 20)
    shown.scroll(1000, VIEWPORT)
    before = shown.visible(VIEWPORT)[0]
    feed.insert(MORNING, 2)
    shown.follow_server()
    assert shown.visible(VIEWPORT)[0] == before


def test_at_the_very_top_an_insert_is_seen() -> None:
    feed = new_feed()
    shown = AppList(feed, 20)
    feed.insert(MORNING, 1)
    shown.follow_server()
    assert feed.reports()[0].report_id in [row.key for row, _ in shown.visible(VIEWPORT)]


def test_relative_dates_lead_back_to_the_right_day() -> None:
    for minutes in range(0, 60 * 60, 7):
        published = MORNING - timedelta(minutes=minutes)
        text = list_date(published, MORNING, relative=True)
        if text.startswith("今天"):
            assert published.date() == MORNING.date() and text.endswith(f"{published:%H:%M}")
        elif text.endswith("小时前"):
            hours = int(text.removesuffix("小时前"))
            assert hours >= 1 and (MORNING - timedelta(hours=hours)).date() == published.date()
            assert abs((MORNING - timedelta(hours=hours)) - published) < timedelta(hours=1)
        elif text.startswith("昨天"):
            assert (MORNING - timedelta(days=1)).date() == published.date()
        else:
            assert text == f"{published:%Y-%m-%d}"


def test_all_forms_of_dates_stand_in_the_default_list(tmp_path: Path) -> None:
    person = Person(tmp_path)
    texts = [list_date(report.published, person.phone.now(), True) for report in person.phone.feed.original]
    assert {"今天", "昨天", "2026"} <= {text.split(" ")[0].split("-")[0] for text in texts}
    assert any(text.endswith("小时前") for text in texts)


def walk_list(person: Person) -> list[str]:
    """Every report id that is ever visible while the list is paged to its end."""
    seen: list[str] = []
    for _ in range(60):
        nodes = person.look()
        shown = [node.text.split()[1] for node in nodes if node.id_name == "row_code"]
        seen += [report_id for report_id in dict.fromkeys(shown) if report_id not in seen]
        if any(node.text == "没有更多了" for node in nodes):
            return seen
        person.phone.swipe(540, 1900, 540, 700, 1200)
    raise AssertionError("the list has no end")


def test_a_walk_through_the_default_list_sees_forty_reports_in_order(tmp_path: Path) -> None:
    person = Person(tmp_path)
    person.begin()
    seen = walk_list(person)
    expected = [report.report_id for report in person.phone.feed.original]
    assert len(seen) == 40
    pinned = expected[24]
    assert [one for one in seen if one != pinned] == [one for one in expected if one != pinned]


def test_rows_at_the_edges_are_clipped_and_may_miss_fields(tmp_path: Path) -> None:
    person = Person(tmp_path)
    person.begin()
    person.phone.swipe(540, 1800, 540, 1650, 1000)
    nodes = person.look()
    box = next(node.bounds for node in nodes if node.id_name == "report_list")
    rows = [node for node in nodes if node.id_name == "report_row"]
    assert all(box[1] <= node.bounds[1] and node.bounds[3] <= box[3] for node in rows)
    assert any(node.bounds[3] - node.bounds[1] < 300 for node in rows)
    assert sum(node.id_name == "row_industry" for node in nodes) < len(rows)


def test_footer_says_loading_then_retry_then_end(tmp_path: Path) -> None:
    person = Person(tmp_path, with_faults(Fault("load_fails", "load")))
    person.begin()
    for _ in range(12):
        person.phone.swipe(540, 2000, 540, 400, 1200)
    footer = next(node for node in person.look() if node.id_name == "list_footer")
    assert footer.text == "加载失败，点击重试" and footer.clickable
    person.phone.tap(*footer.middle)
    person.clock.sleep(2.0)
    for _ in range(12):
        person.phone.swipe(540, 2000, 540, 400, 1200)
    assert person.find("list_footer").text == "没有更多了"


def test_a_list_that_never_loads_never_shows_its_end(tmp_path: Path) -> None:
    person = Person(tmp_path, "load_stuck")
    person.begin()
    for _ in range(20):
        person.phone.swipe(540, 2000, 540, 400, 1200)
    assert person.find("list_footer").text == "正在加载…"


def test_swipe_factor_and_refresh(tmp_path: Path) -> None:
    still = Person(tmp_path / "a", with_faults(Fault("swipe_factor", "swipe", factor=0.0)))
    still.begin()
    before = still.texts()
    still.phone.swipe(540, 1800, 540, 900, 1000)
    assert still.texts() == before
    jumping = Person(tmp_path / "b", with_faults(Fault("feed_refresh", "swipe", call=3)))
    jumping.begin()
    for _ in range(3):
        jumping.phone.swipe(540, 1800, 540, 900, 1000)
    assert jumping.phone.app.list.offset == 0


def test_pulling_at_the_top_reloads_the_list(tmp_path: Path) -> None:
    person = Person(tmp_path)
    person.begin()
    person.phone.feed.insert(person.clock.now(), 1)
    fresh = person.phone.feed.reports()[0].report_id
    assert f"编号 {fresh}" not in person.texts()
    person.phone.swipe(540, 600, 540, 1600, 1000)
    assert f"编号 {fresh}" in person.texts()


def test_list_survives_a_new_life_of_the_phone(tmp_path: Path) -> None:
    moves = with_faults(Fault("feed_insert", "swipe", amount=2), Fault("feed_delete", "swipe", report=6))
    person = Person(tmp_path, moves)
    person.begin()
    person.phone.swipe(540, 1800, 540, 900, 1000)
    listed = [report.report_id for report in person.phone.feed.reports()]
    assert len(listed) == 41
    later = Person(tmp_path, "default", person.clock)
    assert [report.report_id for report in later.phone.feed.reports()] == listed


def test_opaque_web_view_is_not_an_empty_list(tmp_path: Path) -> None:
    person = Person(tmp_path, "opaque_webview")
    person.begin()
    xml = person.phone.dump_xml(False).xml
    assert xml is not None and b"android.webkit.WebView" in xml
    assert not any(node.id_name == "report_list" for node in nodes_of(xml))


def test_empty_feed_shows_its_end_at_once(tmp_path: Path) -> None:
    person = Person(tmp_path, "empty_feed")
    person.begin()
    assert person.find("list_footer").text == "没有更多了"
