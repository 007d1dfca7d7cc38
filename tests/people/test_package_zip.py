"""The package for the people who receive the reports."""

from __future__ import annotations

import csv
import hashlib
import io
import json
import zipfile
from pathlib import Path
from typing import Any

from hibor.cli import main as hibor
from hibor.package.layout import ItemFolder, Library
from hibor.package_zip import CSV_NAME, PAGE_NAME, SUMS_NAME, main, spreadsheet_cell
from hibor.people.run_view import records_of
from hibor.recover import main as recover
from hibor.want import main as want
from tests.main_job import SMALL_FEED, finish, start, wait_until
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


def test_what_a_killed_run_left_is_in_the_next_package_once(ask: Ask, tmp_path: Path) -> None:
    """A run is killed while its third file is fetched; recovery finishes it; the next run packs it."""
    library, scenario = tmp_path / "library", tmp_path / "small.toml"
    scenario.write_text(SMALL_FEED, "utf-8")
    phone = ["--library", str(library), "--scenario", str(scenario), "--time-scale", "20", "--lang", "zh"]
    killed = start([*phone, "--count", "3"])
    wait_until(lambda: _paid_and_open(library, 3), killed)
    killed.kill()
    killed.communicate()
    (run,) = Library(library).run_folders()
    report = _opened(run.item_folders()[2])["entry"]["report_id"]
    code, _out, err = ask(recover, "--library", library, "--time-scale", "20", "--lang", "zh")
    assert code == 0, err
    assert json.loads(run.item_folders()[2].terminal.read_bytes())["item"]["status"] == "SUCCESS"
    again = finish(start([*phone, "--count", "1"]), library)
    assert again.exit_code == 0, again.stderr
    (newest,) = again.items
    assert newest["source"] == "PROJECT_REUSE" and newest["report_id"] != report
    code, package = packed_newest(library, ask, tmp_path / "a.zip")
    rows = list(csv.DictReader(io.StringIO(package.read(CSV_NAME).decode("utf-8-sig"), newline="")))
    ids = [row["报告编号"] for row in rows]
    assert code == 0 and sorted(ids) == sorted(set(ids)) and len(ids) == 3
    assert ids[0] == newest["report_id"] and report in ids
    assert "以前的运行" in package.read(PAGE_NAME).decode()


def _opened(folder: ItemFolder) -> dict[str, Any]:
    return dict(records_of(folder)[0].data)


def _paid_and_open(library: Path, number: int) -> bool:
    """Whether the item with this number has its file recognised and is not through."""
    runs = Library(library).run_folders() if library.is_dir() else []
    items = runs[0].item_folders() if runs else []
    if len(items) < number:
        return False
    events = {record.event for record in records_of(items[number - 1])}
    return "CACHE_IDENTITY" in events and not items[number - 1].terminal.is_file()


def packed_newest(library: Path, ask: Ask, target: Path) -> tuple[int, zipfile.ZipFile]:
    code, out, _err = ask(main, "--zip", target, "--library", library, "--lang", "zh")
    assert Path(out.strip()) == target
    return code, zipfile.ZipFile(target)


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
