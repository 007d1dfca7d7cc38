"""The package for the people who receive the reports."""

from __future__ import annotations

import csv
import hashlib
import io
import json
import zipfile
from pathlib import Path

import attrs

from hibor.cli import main as hibor
from hibor.package_zip import CSV_NAME, PAGE_NAME, SUMS_NAME, main, plan_package, spreadsheet_cell
from hibor.people.commandline import Words
from hibor.people.run_view import load_run
from hibor.want import main as want
from tests.people.chromium import Browser
from tests.people.conftest import Ask, Told


def packed(own: Told, ask: Ask, target: Path, *more: str) -> tuple[int, zipfile.ZipFile]:
    code, out, _err = ask(
        main, own.first.run_id, "--zip", target, "--library", own.path, "--lang", "zh", *more
    )
    assert Path(out.strip()) == target
    return code, zipfile.ZipFile(target)


def test_package_holds_what_was_delivered_and_says_what_is_missing(
    own: Told, ask: Ask, tmp_path: Path
) -> None:
    code, package = packed(own, ask, tmp_path / "研报.zip")
    view = own.first
    assert code == 2  # something is missing
    names = package.namelist()
    pdfs = [name for name in names if name.endswith(".pdf")]
    assert names == [*pdfs, CSV_NAME, PAGE_NAME, SUMS_NAME] and len(pdfs) == len(view.delivered)
    for number, (name, one) in enumerate(zip(pdfs, view.delivered, strict=True), start=1):
        assert name.startswith(f"{number:02}_{one.item['institution']}_") and len(name.encode()) <= 94
        assert hashlib.sha256(package.read(name)).hexdigest() == one.item["sha256"]
    assert package.testzip() is None
    sums = dict(line.split("  ")[::-1] for line in package.read(SUMS_NAME).decode().splitlines())
    assert set(sums) == {*pdfs, CSV_NAME, PAGE_NAME}
    for name, digest in sums.items():
        assert hashlib.sha256(package.read(name)).hexdigest() == digest
    page = package.read(PAGE_NAME).decode()
    assert "PDF 需要密码" in page and str(view.missing[0].item["title"]) in page


def test_csv_opens_in_a_spreadsheet(own: Told, ask: Ask, tmp_path: Path) -> None:
    _code, package = packed(own, ask, tmp_path / "a.zip")
    data = package.read(CSV_NAME)
    assert data.startswith(b"\xef\xbb\xbf") and b"\r\n" in data
    rows = list(csv.DictReader(io.StringIO(data.decode("utf-8-sig"), newline="")))
    assert len(rows) == len(own.first.items)
    assert (
        [row["结果"] for row in rows][-1] == "未交付"
        and "PDF_ENCRYPTED" in rows[-1]["原因"]
        and rows[-1]["下一步"]
    )


def test_no_cell_is_a_formula_and_codes_keep_their_zeros() -> None:
    assert spreadsheet_cell('=HYPERLINK("http://x")') == '\'=HYPERLINK("http://x")'
    assert all(spreadsheet_cell(f"{sign}1+1").startswith("'") for sign in "=+-@")
    assert spreadsheet_cell("000333") == '="000333"' and spreadsheet_cell("600519") == "600519"
    assert spreadsheet_cell(None) == "" and spreadsheet_cell(0) == "0"


def test_same_run_gives_the_same_bytes_and_nothing_is_replaced(own: Told, ask: Ask, tmp_path: Path) -> None:
    first, second = tmp_path / "1.zip", tmp_path / "2.zip"
    packed(own, ask, first)
    packed(own, ask, second)
    assert first.read_bytes() == second.read_bytes()
    code, out, err = ask(main, "--zip", first, "--library", own.path, "--lang", "zh")
    assert (code, out) == (64, "") and "已存在" in err
    assert first.read_bytes() == second.read_bytes()
    assert list(tmp_path.glob("*.tmp")) == []


def test_a_damaged_final_is_not_packed(own: Told, ask: Ask, tmp_path: Path) -> None:
    broken = own.library.absolute(str(own.first.delivered[0].item["final_path"]))
    data = bytearray(broken.read_bytes())
    data[len(data) // 2] ^= 1
    broken.write_bytes(data)
    code, out, _err = ask(
        main, own.first.run_id, "--zip", tmp_path / "a.zip", "--library", own.path, "--json", "--lang", "en"
    )
    answer = json.loads(out)
    assert code == 2 and len(answer["reports"]) == len(own.first.delivered) - 1
    assert "altered" in answer["missing"][0]["reason"]


def test_an_item_finished_later_is_in_the_next_package(own: Told) -> None:
    """The row came after its run ended, as `hibor recover` leaves it; only the next run's package has it."""
    first, second = own.library.run_folders()
    document = json.loads(first.run_json.read_bytes())
    item = next(one for one in document["items"] if one["source"] == "CACHE_REUSE")
    item.update(status="STOPPED", final_path=None, sha256=None, stop_code="DEADLINE_EXPIRED")
    document["timing"]["ended_at"] = document["timing"]["started_at"]
    first.run_json.write_text(json.dumps(document), "utf-8")
    of_first = plan_package(load_run(own.library, first), Words("zh"))
    assert item["report_id"] not in {one.item["report_id"] for one in of_first.reports}
    assert item["report_id"] in {one.report_id for one in of_first.missing}
    view = load_run(own.library, second)
    others = tuple(one for one in view.items if one.item["report_id"] != item["report_id"])
    of_second = plan_package(attrs.evolve(view, items=others), Words("zh"))
    late = [one for one in of_second.reports if one.late]
    assert item["report_id"] in {one.item["report_id"] for one in late}


def test_open_wishes_are_among_the_missing(own: Told, ask: Ask, tmp_path: Path) -> None:
    assert ask(want, "add", "300750", "--institution", "中信证券", "--library", own.path)[0] == 0
    _code, package = packed(own, ask, tmp_path / "a.zip")
    assert "300750" in package.read(PAGE_NAME).decode()


def test_both_ways_to_call_it(own: Told, ask: Ask, tmp_path: Path) -> None:
    from hibor.package.__main__ import main as of_module

    assert of_module is main
    code, _out, _err = ask(
        hibor, "package", own.first.run_id, "--zip", tmp_path / "a.zip", "--library", own.path
    )
    assert code == 2 and (tmp_path / "a.zip").is_file()


def test_contents_page_in_a_browser(own: Told, ask: Ask, browser: Browser, tmp_path: Path) -> None:
    _code, package = packed(own, ask, tmp_path / "a.zip")
    package.extractall(tmp_path / "out")
    browser.complaints.clear()
    for width, dark in ((1280, False), (390, True)):
        browser.open(tmp_path / "out" / PAGE_NAME, width=width, dark=dark)
        assert len(browser.picture(tmp_path / f"{width}.png")) > 10_000
        assert browser.value("document.documentElement.scrollWidth <= innerWidth")
    assert browser.complaints == []
    links = browser.value(
        "[...document.querySelectorAll('a[href$=\".pdf\"]')].map(a => decodeURI(a.getAttribute('href')))"
    )
    assert links and all((tmp_path / "out" / link).is_file() for link in links)
