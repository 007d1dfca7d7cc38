"""The cache file of a report: told by content, never guessed."""

from __future__ import annotations

import attrs
import pytest

from hibor.package.match import (
    Ambiguous,
    Candidate,
    Match,
    NoMatch,
    Wanted,
    by_first_bytes,
    canonical_path,
    judge,
    named_like,
    new_files,
    settled,
    shows_date,
)

ROOT = "/sdcard/Android/data/com.huibo.research/files/Download/"
ALIAS = "/storage/emulated/0/Android/data/com.huibo.research/files/Download/"
WANTED = Wanted(
    title="贵州茅台三季报点评：业绩超预期，毛利率环比改善",
    institution="国信证券",
    date="2026-11-30",
    stock_code="600519",
    stock_name="贵州茅台",
    page_count=12,
)
PAGE = "国信证券 公司研究\n贵州茅台三季报点评：业绩超预期，\n毛利率环比改善\n600519 2026 年 11 月 30 日\n"


@attrs.frozen
class File:
    path: str
    size_bytes: int = 100
    mtime_s: int = 1000
    inode: int = 1


def candidate(
    text: str | None, *, path: str = ROOT + "a.pdf", pages: int = 12, sha256: str = "1" * 64
) -> Candidate:
    return Candidate(path, sha256, pages, text)


def test_new_and_changed_files_against_the_baseline() -> None:
    baseline = [File(ROOT + "old.pdf"), File(ROOT + "again.pdf"), File(ROOT + "swapped.pdf")]
    listing = [
        File(ROOT + "old.pdf"),
        File(ROOT + "again.pdf", size_bytes=200),
        File(ROOT + "swapped.pdf", inode=9),
        File(ROOT + "new.pdf"),
        File(ROOT + "new without extension"),
        *(File(ROOT + name) for name in ("x.pdf.temp", "x.pdf.TMP", "x.part", "y.pdf.part.1")),
    ]
    names = [entry.path.removeprefix(ROOT) for entry in new_files(baseline, listing)]
    assert names == ["again.pdf", "new without extension", "new.pdf", "swapped.pdf"]


def test_one_file_under_two_names_of_the_storage() -> None:
    assert new_files([File(ROOT + "old.pdf")], [File(ALIAS + "old.pdf")]) == ()
    assert len(new_files([], [File(ROOT + "new.pdf"), File(ALIAS + "new.pdf")])) == 1
    assert canonical_path("/sdcard//Download/a") == "/storage/emulated/0/Download/a"
    assert canonical_path("/sdcardx/a") == "/sdcardx/a"


def test_first_five_bytes_choose_not_the_extension() -> None:
    entries = [File("a.pdf"), File("b.dat"), File("c.pdf"), File("d.pdf")]
    heads = {"a.pdf": b"<html", "b.dat": b"%PDF-1.7", "c.pdf": b"%PDF", "d.pdf": b" %PDF"}
    assert by_first_bytes(entries, heads) == (File("b.dat"),)


def test_settled_needs_the_whole_window() -> None:
    small, grown = File("a", size_bytes=5), File("a", size_bytes=9)
    assert not settled([], 2.0)
    assert not settled([(0.0, grown)], 2.0)
    assert not settled([(0.0, grown), (1.9, grown)], 2.0)
    assert settled([(0.0, grown), (1.0, grown), (2.0, grown)], 2.0)
    assert not settled([(0.0, small), (1.0, grown), (2.5, grown)], 2.0)
    assert settled([(0.0, small), (1.0, grown), (3.0, grown)], 2.0)
    assert not settled([(0.0, grown), (1.0, None), (2.5, grown)], 2.0)
    assert not settled([(0.0, grown), (3.0, None)], 2.0)
    assert not settled([(0.0, File("a", size_bytes=0)), (3.0, File("a", size_bytes=0))], 2.0)
    assert not settled([(0.0, grown), (3.0, attrs.evolve(grown, mtime_s=1001))], 2.0)


def test_match_by_title_over_broken_lines() -> None:
    assert judge(WANTED, [candidate(PAGE)]) == Match(ROOT + "a.pdf", "title", 1.0)


def test_match_by_stock_code_and_date() -> None:
    page = "国信证券 食品饮料 三季度业绩回顾与展望\n600519.SH 买入\n2026/11/30"
    outcome = judge(WANTED, [candidate(page)])
    assert isinstance(outcome, Match) and outcome.basis == "code_date"
    for old, new in (("600519", "600518"), ("11/30", "11/29"), ("600519", "1600519")):
        other = page.replace(old, new)
        assert isinstance(judge(WANTED, [candidate(other)]), NoMatch)


def test_another_broker_on_the_same_stock_and_day_is_another_report() -> None:
    """What was delivered as a report once: another broker's on the same company, of the same day."""
    page = "招商证券 公司研究\n贵州茅台深度报告：库存去化接近尾声\n600519 2026 年 11 月 30 日\n"
    outcome = judge(WANTED, [candidate(page, path=ROOT + "招商证券-贵州茅台深度报告-600519-261130.pdf")])
    assert isinstance(outcome, NoMatch) and "not its institution" in outcome.reasons.popitem()[1]
    own_name = candidate(page.replace("招商证券", ""), path=ROOT + "国信证券-2cf3.pdf")
    outcome = judge(WANTED, [own_name])
    assert isinstance(outcome, Match) and outcome.basis == "code_date"
    longer = attrs.evolve(own_name, page_count=40)
    outcome = judge(WANTED, [longer])
    assert isinstance(outcome, NoMatch) and "40 pages instead of 12" in outcome.reasons[longer.path]


def test_a_file_with_the_title_goes_before_one_with_the_stock_and_the_day() -> None:
    page = "国信证券 公司研究\n贵州茅台深度报告：库存去化接近尾声\n600519 2026 年 11 月 30 日\n"
    other = candidate(page, path=ROOT + "b.pdf", sha256="2" * 64)
    assert judge(WANTED, [other, candidate(PAGE)]) == Match(ROOT + "a.pdf", "title", 1.0)


def test_the_same_title_of_another_company_is_another_report() -> None:
    """More than 60 % of the words agree; the stock does not."""
    page = PAGE.replace("贵州茅台", "五粮液").replace("600519", "000858")
    outcome = judge(WANTED, [candidate(page)])
    assert isinstance(outcome, NoMatch)
    assert "neither stock nor institution" in outcome.reasons[ROOT + "a.pdf"]


def test_the_same_title_of_another_industry_and_broker_is_another_report() -> None:
    wanted = Wanted("半导体行业周报：景气度回升，关注龙头配置机会", institution="国信证券", date="2026-11-30")
    page = "中信证券\n汽车行业周报：景气度回升，关注龙头配置机会\n2026-11-30"
    assert isinstance(judge(wanted, [candidate(page)]), NoMatch)
    short = "国信证券 行业研究\n半导体行业周报：景气度回升，关注龙头\n2026-11-30"
    assert isinstance(judge(wanted, [candidate(short)]), Match)
    undated = Wanted("半导体行业周报：景气度回升，关注龙头配置机会")
    assert isinstance(judge(undated, [candidate(short)]), Match)


def test_a_wrong_file_gives_no_match_with_a_reason() -> None:
    page = "宏观周报：出口韧性仍在，内需温和修复\n中金公司\n2026年11月30日"
    outcome = judge(WANTED, [candidate(page)])
    assert isinstance(outcome, NoMatch) and "title covered" in outcome.reasons[ROOT + "a.pdf"]
    assert judge(WANTED, []) == NoMatch({})


def test_no_text_layer_only_by_exclusion() -> None:
    for text in (None, "", " \n", "扫描件 1"):
        assert judge(WANTED, [candidate(text)]) == Match(ROOT + "a.pdf", "exclusion", 0.0)
    assert isinstance(judge(WANTED, [candidate("", pages=11)]), NoMatch)
    assert isinstance(judge(attrs.evolve(WANTED, page_count=None), [candidate("")]), NoMatch)
    two = [candidate("", path="a", sha256="1" * 64), candidate("", path="b", sha256="2" * 64)]
    assert isinstance(judge(WANTED, two), NoMatch), "not the single new file"


def test_the_right_one_beside_a_wrong_and_a_scanned_one() -> None:
    wrong = candidate("宏观周报：出口韧性仍在，内需温和修复", path="b", sha256="2" * 64)
    scanned = candidate("", path="c", sha256="3" * 64)
    assert judge(WANTED, [wrong, candidate(PAGE), scanned]) == Match(ROOT + "a.pdf", "title", 1.0)


def test_several_that_fit_are_ambiguous_unless_they_are_the_same() -> None:
    other = candidate(PAGE + "更新", path=ROOT + "b.pdf", sha256="2" * 64)
    assert judge(WANTED, [other, candidate(PAGE)]) == Ambiguous((ROOT + "a.pdf", ROOT + "b.pdf"))
    copy = candidate(PAGE, path=ROOT + "b.pdf")
    assert judge(WANTED, [copy, candidate(PAGE)]) == Match(ROOT + "a.pdf", "title", 1.0)


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("2026年11月30日", True),
        ("2026 年11月 30日", True),
        ("报告-261130", True),
        ("20261130", True),
        ("2026.11.30", True),
        ("2026-11-3", False),
        ("12026-11-30", False),
        ("120261130", False),
        ("2026年11月3日", False),
        ("", False),
    ],
)
def test_dates_as_reports_print_them(text: str, shown: bool) -> None:
    assert shows_date(text, "2026-11-30") is shown
    assert shows_date("2026年1月3日", "2026-01-03") and not shows_date("2026年1月3日", "today")


@pytest.mark.parametrize("kept, fits", [(60, True), (40, True), (39, False)])
def test_a_title_the_app_cut_in_the_file_name_is_recognised(kept: int, fits: bool) -> None:
    title = "".join(chr(0x4E00 + place * 7) for place in range(290))
    wanted = attrs.evolve(WANTED, title=title, stock_code=None)
    assert named_like(f"{ROOT}国信证券-{title[:kept]}-261130.pdf", wanted) is fits


def test_a_cut_title_needs_institution_and_date_too() -> None:
    title = "".join(chr(0x4E00 + place * 7) for place in range(290))
    wanted = attrs.evolve(WANTED, title=title, stock_code=None)
    assert not named_like(f"{ROOT}国信证券-{title[:60]}-261129.pdf", wanted)
    assert not named_like(f"{ROOT}华泰证券-{title[:60]}-261130.pdf", wanted)
