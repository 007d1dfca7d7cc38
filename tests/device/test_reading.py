"""What a screen says: rows, kinds, end, walls, dates, ids (faults.md, area UI)."""

from __future__ import annotations

from datetime import datetime, timedelta

import attrs
import pytest

from hibor.device import reading
from hibor.device.anchors import find_one
from hibor.device.dates import parse_date
from hibor.device.errors import DeviceError
from hibor.device.profile import load_profile
from hibor.device.profile_types import Anchor, FieldRule, FieldRules, MergedRule, Profile, RowRule
from hibor.device.windows import AccessControlError, foreign_reason, require_no_wall
from tests.device.dumps import NOW, detail_page, list_page, node, row, tree

PROFILE = load_profile("hibor-sim-1")


def screen(*rows: str, footer: str = "") -> reading.ListScreen:
    return reading.read_list(tree(list_page(*rows, footer=footer)), PROFILE, NOW)


def test_rows_are_read_with_their_kinds() -> None:
    pinned = row(530, "置顶报告", "HB1", extra=node("row_pin", "置顶", (800, 540, 1000, 580)))
    advert = node("ad_row", "", (0, 830, 1080, 1050), node("ad_tag", "广告", (40, 850, 160, 900)))
    notice = node("notice_row", "", (0, 230, 1080, 380), node("notice_text", "公告", (40, 250, 900, 300)))
    found = screen(notice, pinned, advert, row(1050, "存储行业深度", "HB2026113000012"))
    assert [r.kind for r in found.rows] == ["announcement", "pinned", "advert", "report"]
    (entry,) = found.entries()
    assert entry.report_id == "HB2026113000012" and entry.facts.id_read
    assert (entry.facts.institution, entry.facts.date, entry.facts.pages) == ("国信证券", "2026-11-30", 12)


def test_a_cut_row_is_flagged_incomplete() -> None:
    cut = row(2000, "只露出标题", None, height=130, date=None, pages=None)
    found = screen(row(230, "一", "HB1"), row(530, "二", "HB2"), cut)
    assert [r.incomplete for r in found.rows] == [False, False, True]
    assert found.rows[2].clipped and not found.rows[0].clipped


def test_a_cut_row_with_its_code_but_without_date_is_still_incomplete() -> None:
    cut = row(1930, "有编号", "HB3", height=200, date=None, pages=None)
    assert screen(row(230, "一", "HB1"), row(530, "二", "HB2"), cut).rows[2].incomplete


def test_a_whole_row_without_a_date_is_complete() -> None:
    found = screen(row(230, "一", "HB1", date=None), row(530, "二", "HB2"))
    assert [r.incomplete for r in found.rows] == [False, False] and found.rows[0].facts.date is None


@pytest.mark.parametrize(
    ("footer", "end", "loading"),
    [
        ("没有更多了", True, False),
        ("正在加载…", False, True),
        ("加载失败，点击重试", False, True),
        ("", None, False),
    ],
)
def test_end_of_list_is_only_what_the_profile_proves(footer: str, end: bool | None, loading: bool) -> None:
    found = screen(row(230, "没有更多了：一篇研报", "HB1"), row(530, "加载中", "HB2"), footer=footer)
    assert (found.end, found.loading) == (end, loading)


def test_rows_that_lost_their_ids_are_drift_not_an_empty_list() -> None:
    renamed = list_page(row(230, "一", None), row(530, "二", None), row(830, "三", None))
    with pytest.raises(DeviceError) as caught:
        reading.read_list(tree(renamed), PROFILE, NOW)
    assert caught.value.failure == "anchor_drift" and "code" in caught.value.detail


def test_f43_web_view_is_not_an_empty_list() -> None:
    web = node("report_list", "", (0, 230, 1080, 2130), node("", "", kind="android.webkit.WebView"))
    with pytest.raises(DeviceError) as caught:
        reading.read_list(tree(web), PROFILE, NOW)
    assert caught.value.failure == "opaque_webview"
    empty = reading.read_list(tree(list_page(footer="没有更多了")), PROFILE, NOW)
    assert empty.rows == () and empty.end is True


def test_anchor_required_once_zero_or_many_is_diagnosed() -> None:
    one = tree(node("btn_down1oad", "下载", (0, 0, 9, 9)))
    with pytest.raises(DeviceError) as caught:
        find_one(one, Anchor(id="btn_download"), "trigger.button")
    assert caught.value.failure == "anchor_drift"
    assert "trigger.button" in caught.value.detail and "btn_down1oad" in caught.value.detail
    two = tree(node("btn", "a", (0, 0, 9, 9)), node("btn", "b", (0, 9, 9, 20)))
    with pytest.raises(DeviceError) as caught:
        find_one(two, Anchor(id="btn"), "x")
    assert caught.value.failure == "anchor_ambiguous" and "2 nodes" in caught.value.detail
    assert find_one(two, Anchor(id="btn", text="b"), "x").text == "b"


def test_invisible_nodes_are_not_there() -> None:
    hidden = tree(node("a", "", (0, 0, 100, 100), node("btn", "x", (0, 200, 10, 220))))
    with pytest.raises(DeviceError):
        find_one(hidden, Anchor(id="btn"), "x")


def test_detail_page_fields_and_button() -> None:
    page = reading.read_detail(tree(detail_page()), PROFILE, NOW)
    assert page.facts.analysts == ("张三", "李四") and page.facts.report_id == "HB2026113000012"
    for text, state in (("下载", "idle"), ("下载中 45%", "busy"), ("打开", "done"), ("购买", "unknown")):
        assert reading.read_detail(tree(detail_page(text)), PROFILE, NOW).button == state


def test_labels() -> None:
    shown = tree(list_page(row(230, "一", "HB1")))
    quota, account = reading.read_quota(shown, PROFILE), reading.read_account(shown, PROFILE)
    assert quota is not None and quota.left == 14
    assert account is not None and account.text == "138****0001"
    assert reading.read_quota(tree(node("x", "今日剩余 3 次")), PROFILE) is None


def dialog(message: str) -> str:
    return node(
        "dialog_root",
        "",
        (90, 900, 990, 1400),
        node("dialog_message", message, (150, 980, 930, 1200)),
        node("dialog_ok", "确定", (550, 1250, 950, 1370), clickable=True),
        node("dialog_cancel", "取消", (130, 1250, 530, 1370), clickable=True),
    )


@pytest.mark.parametrize(
    ("page", "kind"),
    [
        (node("login_root", "", (0, 0, 1080, 2340), node("login_title", "登录")), "login"),
        (node("captcha_root", "", (0, 0, 1080, 2340), node("captcha_title", "请完成验证")), "captcha"),
        (dialog("账号已在其他设备登录"), "kicked"),
        (dialog("该研报仅限会员，开通会员后下载"), "member"),
        (dialog("今日下载额度已用完"), "quota"),
        (dialog("操作频繁，请稍后再试"), "risk"),
    ],
)
def test_f47_walls_are_told_by_kind(page: str, kind: str) -> None:
    with pytest.raises(AccessControlError) as caught:
        require_no_wall(tree(page), PROFILE)
    assert caught.value.kind == kind and caught.value.failure == "access_control"


def test_f47_report_text_is_no_wall() -> None:
    require_no_wall(tree(list_page(row(230, "开通会员的经济学：操作频繁", "HB1"))), PROFILE)
    require_no_wall(tree(detail_page()), PROFILE)


def test_confirm_dialog_is_recognised() -> None:
    state = reading.read_dialog(tree(dialog("下载将消耗 1 次下载额度，确定下载？")), PROFILE)
    assert state is not None and state.name == "confirm" and "消耗" in state.text
    assert state.dismiss is not None and state.dismiss.short_id == "dialog_cancel"


@pytest.mark.parametrize(
    ("page", "word", "said"),
    [
        (node("alertTitle", "慧博投研没有响应", package="android"), "foreign_window", "respond"),
        (
            node("message", "允许？", package="com.android.permissioncontroller"),
            "foreign_window",
            "permission",
        ),
        (node("keyguard_root_view", "", package="com.android.systemui"), "device_locked", "lock screen"),
        (node("chat", "", package="com.tencent.mm"), "foreign_window", "com.tencent.mm"),
    ],
)
def test_f40_f41_f42_foreign_windows_are_named(page: str, word: str, said: str) -> None:
    error = foreign_reason(tree(page), PROFILE.app.package)
    assert error is not None and error.failure == word and said in error.detail
    assert foreign_reason(tree(detail_page()), PROFILE.app.package) is None


def test_f35_identity_does_not_rest_on_the_raw_title() -> None:
    forms = ["存储报告..", "存储报告\U0001f600", " 存储 报告 ", "存储報告"]
    ids = {reading.derived_id("国信证券", form, "2026-11-30") for form in forms[:3]}
    assert len(ids) == 1 and len(ids.pop()) == 32
    assert reading.derived_id("国信证券", forms[3], "2026-11-30") != reading.derived_id(
        "国信证券", forms[0], "2026-11-30"
    )


def derived_profile() -> Profile:
    fields = attrs.evolve(PROFILE.list.fields, code=None, date=FieldRule(id="row_date"))
    return attrs.evolve(PROFILE, list=attrs.evolve(PROFILE.list, fields=fields))


def test_without_a_printed_code_the_id_is_derived() -> None:
    found = reading.read_list(
        tree(list_page(row(230, "一", "HB1"), row(530, "二", "HB2"))), derived_profile(), NOW
    )
    assert [r.report_id for r in found.rows] == [
        reading.derived_id("国信证券", "一", "2026-11-30"),
        reading.derived_id("国信证券", "二", "2026-11-30"),
    ]
    assert not found.rows[0].facts.id_read


def test_one_merged_node_gives_all_fields() -> None:
    pattern = (
        r"^(?P<institution>[^-]+)-(?P<stock_name>[^-]+)-(?P<stock_code>\d{6})-(?P<title>.+)-(?P<date>\d{6})$"
    )
    lines = attrs.evolve(
        PROFILE.list, row=RowRule(id="line"), fields=FieldRules(), merged=MergedRule(pattern, source="desc")
    )
    profile = attrs.evolve(PROFILE, list=lines)
    line = node("line", "", (0, 230, 1080, 400), desc="国信证券-贵州茅台-600519-深度-续篇-261129")
    (only,) = reading.read_list(tree(list_page(line)), profile, NOW).rows
    facts = only.facts
    assert (facts.institution, facts.stock_name, facts.stock_code) == ("国信证券", "贵州茅台", "600519")
    assert (facts.title, facts.date) == ("深度-续篇", "2026-11-29") and not only.incomplete


def test_rows_by_repeated_shape() -> None:
    fields = FieldRules(title=FieldRule(nth=0), institution=FieldRule(nth=1), date=FieldRule(nth=2))
    shaped = attrs.evolve(PROFILE, list=attrs.evolve(PROFILE.list, row=RowRule(), fields=fields))
    rows = [
        node(
            "",
            "",
            (0, top, 1080, top + 200),
            *(node("", text, (0, top + 9, 900, top + 60)) for text in words),
        )
        for top, words in ((230, ("甲", "国信证券", "昨天")), (430, ("乙", "招商证券", "11-28")))
    ]
    found = reading.read_list(tree(list_page(*rows, footer="没有更多了")), shaped, NOW)
    assert [(r.facts.title, r.facts.date) for r in found.rows] == [("甲", "2026-11-29"), ("乙", "2026-11-28")]
    assert found.end is True


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("2026-11-30", "2026-11-30"),
        ("2026/1/5", "2026-01-05"),
        ("2026年11月3日 08:00", "2026-11-03"),
        ("20261130", "2026-11-30"),
        ("261129", "2026-11-29"),
        ("11-28", "2026-11-28"),
        ("12-25", "2025-12-25"),
        ("11月28日", "2026-11-28"),
        ("今天 08:31", "2026-11-30"),
        ("昨天 17:05", "2026-11-29"),
        ("前天", "2026-11-28"),
        ("刚刚", "2026-11-30"),
        ("3小时前", "2026-11-30"),
        ("9小时前", "2026-11-29"),
        ("5分钟前", "2026-11-30"),
        ("半小时前", "2026-11-30"),
        ("2天前", "2026-11-28"),
        ("两天前", "2026-11-28"),
        ("08:30", "2026-11-30"),
        ("1周前", "2026-11-23"),
        ("02-29", None),
        ("明年", None),
        ("", None),
        ("2026-13-01", None),
    ],
)
def test_dates_become_absolute_by_the_phones_clock(text: str, wanted: str | None) -> None:
    found = parse_date(text, NOW)
    assert (found.isoformat() if found else None) == wanted


def test_relative_dates_cross_the_turn_of_the_year() -> None:
    new_year = datetime(2027, 1, 1, 1, 0, tzinfo=NOW.tzinfo)
    assert str(parse_date("3小时前", new_year)) == "2026-12-31"
    assert str(parse_date("12-31", new_year)) == "2026-12-31"
    assert str(parse_date("昨天", new_year + timedelta(hours=5))) == "2026-12-31"


def test_history_rows() -> None:
    rows = [
        node(
            "history_row",
            "",
            (0, top, 1080, top + 180),
            node("history_title", title, (40, top + 9, 900, top + 60)),
            node("history_code", f"编号 {code}", (40, top + 90, 500, top + 150)),
            node("history_time", "2026-11-30 08:12", (600, top + 90, 1000, top + 150)),
        )
        for top, title, code in ((230, "甲", "HB1"), (410, "乙", "HB2"))
    ]
    page = node("", "", (0, 0, 1080, 2340), *rows)
    assert [(r.report_id, r.title) for r in reading.read_history(tree(page), PROFILE)] == [
        ("HB1", "甲"),
        ("HB2", "乙"),
    ]


def test_rows_under_another_name_are_drift_with_the_nearest_named_and_no_empty_list() -> None:
    changed = [
        row(top, title, report_id).replace("id/report_row", "id/item_root")
        for top, title, report_id in ((230, "一", "HB1"), (530, "二", "HB2"), (830, "三", "HB3"))
    ]
    with pytest.raises(DeviceError) as raised:
        screen(*changed)
    assert raised.value.failure == "anchor_drift"
    assert "list.row" in raised.value.detail and "item_root [0,230]" in raised.value.detail


def test_a_list_of_notices_and_adverts_only_is_an_empty_list() -> None:
    advert = node("ad_row", "", (0, 830, 1080, 1050), node("ad_tag", "广告", (40, 850, 160, 900)))
    notices = [
        node("notice_row", "", (0, top, 1080, top + 150), node("notice_text", "公告", (40, top, 90, top + 9)))
        for top in (230, 400)
    ]
    found = screen(*notices, advert, footer="没有更多了")
    assert found.entries() == () and found.end is True


def test_the_detail_page_under_other_names_is_drift_and_a_list_is_none() -> None:
    page = tree(detail_page().replace("id/btn_download", "id/btn_get"))
    error = reading.drift_of_detail(page, PROFILE)
    assert error is not None and error.failure == "anchor_drift"
    assert "btn_download" in error.detail and "btn_get" in error.detail
    assert reading.drift_of_detail(tree(list_page(row(230, "一", "HB1"))), PROFILE) is None
    assert reading.drift_of_detail(None, PROFILE) is None
