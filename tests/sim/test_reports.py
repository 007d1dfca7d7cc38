"""The catalogue and its PDFs: deterministic, realistic, and bad exactly where a variant says so."""

from __future__ import annotations

import subprocess
import sys
from datetime import datetime, timedelta

import pymupdf
import pytest

from hibor.sim.reports import HOSTILE_TITLES, VARIANTS, Report, Stroke, make_catalogue, make_pdf, paint_png
from hibor.sim.state import PHONE_ZONE

NOW = datetime(2026, 11, 30, 9, 0, tzinfo=PHONE_ZONE)
CATALOGUE = make_catalogue(7, NOW, 60)


def small() -> Report:
    return min(CATALOGUE, key=lambda report: abs(report.pages - 4))


def test_catalogue_is_newest_first_with_unique_ids_and_titles() -> None:
    times = [report.published for report in CATALOGUE]
    assert times == sorted(times, reverse=True)
    assert times[0] < NOW and NOW - times[0] < timedelta(hours=1)
    assert len({report.report_id for report in CATALOGUE}) == 60
    assert len({report.title for report in CATALOGUE}) == 60


def test_catalogue_has_all_kinds_and_mostly_middle_sized_reports() -> None:
    assert {report.kind for report in CATALOGUE} == {"个股", "行业", "宏观"}
    assert all(1 <= report.pages <= 60 for report in CATALOGUE)
    middle = [report for report in CATALOGUE if 3 <= report.pages <= 20]
    assert len(middle) >= 40
    assert any(not 3 <= report.pages <= 20 for report in CATALOGUE)


def test_same_seed_same_catalogue_other_seed_another() -> None:
    assert make_catalogue(7, NOW, 60) == CATALOGUE
    assert make_catalogue(8, NOW, 60) != CATALOGUE


def test_pdf_opens_clean_and_page_one_identifies_the_report() -> None:
    report = next(one for one in CATALOGUE if one.stock_code)
    with pymupdf.open(stream=make_pdf(report)) as document:
        assert not document.is_repaired and not document.needs_pass
        assert document.page_count == report.pages
        text = document[0].get_text()
    for part in (report.title, report.institution, report.date_text, report.stock_code):
        assert part in text


def test_pdf_pages_have_text_tables_and_vector_charts() -> None:
    with pymupdf.open(stream=make_pdf(small())) as document:
        for page in document:
            assert len(page.get_text()) > 40
        assert len(document[0].get_drawings()) >= 2
        assert "营业收入" in document[1].get_text()


def test_pdf_bytes_are_the_same_in_another_process() -> None:
    code = (
        "import sys,hashlib;from datetime import datetime;from hibor.sim.state import PHONE_ZONE;"
        "from hibor.sim.reports import make_catalogue,make_pdf;"
        "r=make_catalogue(7,datetime(2026,11,30,9,0,tzinfo=PHONE_ZONE),60)[3];"
        "sys.stdout.buffer.write(make_pdf(r))"
    )
    other = subprocess.run([sys.executable, "-c", code], capture_output=True, check=True, timeout=60)
    assert other.stdout == make_pdf(CATALOGUE[3])


def opened(variant: str) -> pymupdf.Document:
    return pymupdf.open(stream=make_pdf(small(), variant), filetype="pdf")


def test_variants_are_bad_in_their_own_way() -> None:
    pages = small().pages
    assert opened("encrypted").needs_pass
    owner_only = opened("owner_only")
    assert not owner_only.needs_pass and owner_only.metadata["encryption"] and owner_only.page_count == pages
    assert opened("zero_pages").page_count == 0
    assert opened("damaged_xref").is_repaired
    assert opened("truncated").is_repaired
    assert opened("count_mismatch").page_count != pages
    assert opened("page_extra").page_count == pages + 1
    assert not opened("no_text")[0].get_text().strip()
    assert opened("no_text").page_count == pages
    assert make_pdf(small(), "html").startswith(b"<!DOCTYPE html>")
    assert make_pdf(small(), "zip").startswith(b"PK")
    assert make_pdf(small(), "junk_header").startswith(b"HTTP/1.1")
    assert make_pdf(small(), "empty") == b""
    with pytest.raises(ValueError, match="unknown PDF variant"):
        make_pdf(small(), "nothing")


def test_every_variant_differs_from_the_good_file() -> None:
    good = make_pdf(small())
    assert all(make_pdf(small(), variant) != good for variant in VARIANTS if variant != "good")


def test_count_mismatch_is_a_mismatch_for_every_page_count() -> None:
    wrong = set()
    for report in CATALOGUE[:25]:
        with pymupdf.open(stream=make_pdf(report, "count_mismatch")) as document:
            assert document.page_count != report.pages
            wrong.add(document.page_count > 0)
    assert wrong == {True}


def test_hostile_titles_make_pdfs_all_the_same() -> None:
    hostile = make_catalogue(7, NOW, 12, hostile=True)
    assert [report.title for report in hostile[:10]] == list(HOSTILE_TITLES)
    assert hostile[2].hide_date
    for report in hostile[:6]:
        with pymupdf.open(stream=make_pdf(report)) as document:
            assert document.page_count == report.pages


def test_painted_picture_is_a_png_of_that_size() -> None:
    data = paint_png(200, 120, [Stroke((10, 10, 190, 100), (1.0, 0.0, 0.0), "确定", 30)])
    picture = pymupdf.Pixmap(data)
    assert (picture.width, picture.height) == (200, 120)
    assert picture.pixel(15, 15) == (255, 0, 0) and picture.pixel(5, 5) == (255, 255, 255)
