"""Final names that work on every platform, and keys that treat the same report as the same."""

from __future__ import annotations

import unicodedata

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from hibor.package.names import (
    NameImpossible,
    clean_text,
    duplicate_key,
    final_relative_path,
    is_reserved,
    normalise_text,
    report_key,
    safe_component,
    title_coverage,
    utf16_length,
)

DAY = "2026-11-30"
HOSTILE = st.text(
    alphabet=st.one_of(
        st.characters(),
        st.sampled_from("./\\:*?\"<>|\0\r\n\t \u200b\u202e\ufeff\u0301半导体🇨🇳👍🏽a\ud800ガe\u3099"),
    ),
    max_size=150,
)
IDS = st.text(alphabet="ABCXYZabc0123456789-_.", min_size=1, max_size=120).filter(
    lambda text: not text.endswith(".")
)
FORBIDDEN = set('<>:"/\\|?*')


def check_component(name: str, limit_bytes: int = 200) -> None:
    assert 0 < len(name.encode("utf-8")) <= limit_bytes
    assert unicodedata.is_normalized("NFC", name)
    assert not FORBIDDEN & set(name)
    assert not any(unicodedata.category(c) in ("Cc", "Cf", "Cs", "Cn", "Zl", "Zp") for c in name)
    assert name[-1] not in ". " and not name[-1].isspace() and name not in (".", "..")
    assert not is_reserved(name)


def test_the_form_of_design_9() -> None:
    path = final_relative_path(DAY, "国信证券", "半导体行业周报：存储涨价", "HB2026113000012", windows=True)
    assert path == "reports/2026/11/2026-11-30_国信证券_半导体行业周报：存储涨价_HB2026113000012.pdf"


NO_DATES = [None, "", "2026-13-01", "2026-02-30", "今天", "2026-11-30x", "２０２６-11-30"]


@pytest.mark.parametrize("date", NO_DATES)
def test_anything_but_a_date_is_filed_as_undated(date: str | None) -> None:
    assert final_relative_path(date, "A", "B", "ID") == "reports/undated/undated_A_B_ID.pdf"


def test_empty_parts_have_a_word() -> None:
    assert final_relative_path(DAY, None, "\u200b ", "ID").endswith("/2026-11-30_unknown_untitled_ID.pdf")


@given(st.one_of(st.none(), HOSTILE), HOSTILE, HOSTILE, HOSTILE, st.booleans())
@example(DAY, "../../a", "../../a", "../../a", True)
@example(DAY, "a\0b", "a\0b", "a\0b", True)
@example(DAY, "CON", "nul.pdf", "..", False)
def test_f81_one_component_whatever_the_phone_shows(
    date: str | None, institution: str, title: str, report_id: str, windows: bool
) -> None:
    path = final_relative_path(date, institution, title, report_id, windows=windows)
    parts = path.split("/")
    assert parts[0] == "reports" and len(parts) in (3, 4)
    for part in parts:
        check_component(part)
    assert parts[-1].endswith(".pdf")
    assert path == final_relative_path(date, institution, title, report_id, windows=windows)


@given(HOSTILE, HOSTILE, IDS, st.integers(0, 60))
def test_the_id_is_always_whole(institution: str, title: str, report_id: str, root_length: int) -> None:
    path = final_relative_path(DAY, institution, title, report_id, root_length=root_length, windows=True)
    assert path.endswith(f"_{report_id}.pdf")
    assert root_length + 1 + utf16_length(path) <= 240 or root_length == 0


def test_windows_path_limit() -> None:
    long = "半" * 300
    path = final_relative_path(DAY, "国信证券", long, "HB1", root_length=190, windows=True)
    assert 190 + 1 + utf16_length(path) <= 240 and path.endswith("_HB1.pdf")
    free = final_relative_path(DAY, "国信证券", long, "HB1", root_length=190, windows=False)
    assert len(free) > len(path)
    emoji = final_relative_path(DAY, "A", "📈" * 100, "HB1", root_length=150, windows=True)
    assert 150 + 1 + utf16_length(emoji) <= 240
    with pytest.raises(NameImpossible, match="nearer the root"):
        final_relative_path(DAY, "国信证券", long, "HB1", root_length=235, windows=True)


def test_the_institution_is_cut_only_when_the_title_is_used_up() -> None:
    name = final_relative_path(DAY, "券" * 100, "标题", "HB1").rsplit("/", 1)[1]
    check_component(name)
    assert name.startswith("2026-11-30_券券") and name.endswith("_HB1.pdf")
    kept = final_relative_path(DAY, "国信证券", "题" * 100, "HB1").rsplit("/", 1)[1]
    assert kept.startswith("2026-11-30_国信证券_题题") and len(kept.encode()) > 195


def test_f80_reserved_names_also_made_by_the_cut() -> None:
    assert safe_component("nullify", limit_bytes=3) not in ("nul", "nullify")
    for name in ("CON", "nul.pdf", "Aux", "com1", "LPT9.txt", "COM¹", "con .x", "CONIN$", "報告.", "a ", "."):
        check_component(safe_component(name))
    assert safe_component("报告.") == "报告" and safe_component("a ") == "a"
    assert safe_component("console") == "console" and safe_component("com10") == "com10"


@given(HOSTILE, st.integers(1, 60))
@example("nullify", 3)
@example("_nullify", 4)
@example("con.", 4)
@example("aux . . ", 7)
@example("com1.. ..x", 7)
def test_components_are_safe_and_stable(text: str, limit_bytes: int) -> None:
    name = safe_component(text, limit_bytes=limit_bytes)
    check_component(name, limit_bytes)
    assert safe_component(name, limit_bytes=limit_bytes) == name
    assert clean_text(clean_text(text)) == clean_text(text)


def test_cuts_keep_a_character_together() -> None:
    accented = "q\u0301" * 40  # no composed form exists
    cut = safe_component(accented, limit_bytes=10)
    assert cut == "q\u0301" * 3
    assert safe_component("a" * 8 + "👍🏽", limit_bytes=13) == "a" * 8
    assert safe_component("a" * 8 + "🇨🇳", limit_bytes=13) == "a" * 8


@given(HOSTILE, HOSTILE, IDS)
@example("ガイド", "ガイド", "HB1")
def test_f83_nfc_and_nfd_twins_are_one(institution: str, title: str, report_id: str) -> None:
    composed, apart = (unicodedata.normalize(form, title) for form in ("NFC", "NFD"))
    assert final_relative_path(DAY, institution, composed, report_id) == final_relative_path(
        DAY, institution, apart, report_id
    )
    assert report_key(institution, composed, DAY) == report_key(institution, apart, DAY)
    names = [final_relative_path(DAY, "A", "B", twin + "x") for twin in (composed, apart)]
    assert names[0] == names[1]


def test_f85_different_ids_never_share_a_name() -> None:
    ids = ["a/b", "a／b", "a\\b", "ab", "a\0b", "a b", "a b ", "a.", "a", "x" * 300, "x" * 301, "", "_", "~"]
    names = {final_relative_path(DAY, "A", "B", report_id) for report_id in ids}
    assert len(names) == len(ids)


@given(HOSTILE)
def test_normalising_is_idempotent(text: str) -> None:
    once = normalise_text(text)
    assert normalise_text(once) == once
    assert "\n" not in once and not once.startswith(" ") and not once.endswith(" ")


def test_what_counts_as_the_same() -> None:
    same = ["半导体：Q3 点评", "半导体:q3点评", "半导体：Ｑ３　点评", "半导体：\u200bQ3\n点评 "]
    assert len({normalise_text(text) for text in same}) == 1
    assert normalise_text("Price Target") == "price target" != normalise_text("pricetarget")
    key = report_key("国信证券", "半导体：Q3 点评", DAY)
    assert len(key) == 32 and int(key, 16) >= 0
    assert key == report_key("国信证券 ", "半导体:q3点评", DAY)
    others = [report_key("国信证券", "半导体:q3点评", None), report_key("国信", "证券半导体:q3点评", DAY)]
    assert key not in others and len(set(others)) == 2


def test_duplicates_ignore_the_date_in_the_title() -> None:
    key = duplicate_key("国信证券", "600519", "贵州茅台点评-261130")
    assert key == duplicate_key("国信证券", "600519", "贵州茅台点评-20261128")
    assert key != duplicate_key("国信证券", "000858", "贵州茅台点评-261130")


def test_title_coverage() -> None:
    page = "国信证券研究所\n2026年11月30日\n贵州茅台（600519.SH）2026年三季报\n点评：直营渠道放量\nQ3 review"
    full = title_coverage("贵州茅台2026年三季报点评：直营渠道放量", page)
    assert full == 1.0
    assert title_coverage("国信证券-贵州茅台-600519-三季报点评-261130", page, institution="国信证券") == 1.0
    assert title_coverage("半导体行业周报：存储涨价", page) < 0.2
    assert title_coverage("261130", page) == 0.0, "a date alone identifies nothing"
    assert title_coverage("国信证券 600519", page, institution="国信证券") == 0.0
    assert title_coverage("", page) == title_coverage("标题", "") == 0.0


@given(HOSTILE, HOSTILE)
def test_coverage_is_a_share_and_complete_for_the_text_itself(title: str, text: str) -> None:
    share = title_coverage(title, text)
    assert 0.0 <= share <= 1.0
    assert title_coverage(title, title) in (0.0, 1.0)
