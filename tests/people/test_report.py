"""The page of a run: what it says, that it is one file, and how it looks and works in a browser."""

from __future__ import annotations

import json
import re
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote

import attrs
import pytest

from hibor.clock import SystemClock
from hibor.durable import Durable
from hibor.durable_fs import OsFileSystem
from hibor.messages import advice
from hibor.people.run_view import RunView, load_run
from hibor.report import report_html, write_run_report
from hibor.report.__main__ import main
from hibor.report.context import link_to
from tests.people.chromium import Browser
from tests.people.conftest import Ask, Told


class Page(HTMLParser):
    """Addresses and text of a page."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.links: list[str] = []
        self.sources: list[str] = []
        self.words: list[str] = []
        self._silent = False
        self.feed(html)

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        found = dict(attributes)
        self.links += [found["href"]] if tag == "a" and found.get("href") else []  # type: ignore[list-item]
        self.sources += [found["src"]] if found.get("src") else []  # type: ignore[list-item]
        self._silent = tag in ("style", "script", "code")

    def handle_endtag(self, tag: str) -> None:
        self._silent = False

    def handle_data(self, data: str) -> None:
        if not self._silent and data.strip():
            self.words.append(data.strip())


def html_of(view: RunView, lang: str = "zh") -> str:
    return b"".join(report_html(view, lang, beside=view.folder.path)).decode()  # type: ignore[arg-type]


def page_of(told: Told, lang: str = "zh") -> tuple[str, Path]:
    return html_of(told.first, lang), told.first.folder.path


def test_page_says_outcome_reason_and_next_step(told: Told) -> None:
    html, _ = page_of(told)
    view = told.first
    refused = next(one for one in view.items if not one.delivered)
    assert refused.code == "PDF_ENCRYPTED"
    for sentence in (*advice("zh", "PARTIAL"), *advice("zh", "PDF_ENCRYPTED")):
        assert sentence in html
    for one in view.items:
        assert str(one.item["title"]) in html and str(one.item["report_id"]) in html
    quota = view.part("quota")
    assert f"{quota['safe_before']} → {quota['safe_after']}" in html
    assert f"{view.document['provenance']['ledger_head']['hash']}" in html


def test_every_link_leads_to_a_file(told: Told) -> None:
    html, beside = page_of(told)
    page = Page(html)
    files = [link for link in page.links if not link.startswith("#")]
    assert len(files) > 10
    for link in files:
        assert (beside / unquote(link)).is_file(), link
    assert any("quarantine/" in link for link in files)


def test_page_loads_nothing_from_anywhere(told: Told) -> None:
    html, _ = page_of(told)
    page = Page(html)
    assert len(page.sources) == len(told.first.delivered)
    assert all(source.startswith("data:image/png;base64,") for source in page.sources)
    assert not re.search(r"https?://|@import|url\(", html)


def test_same_run_gives_the_same_page(told: Told) -> None:
    assert page_of(told)[0] == page_of(told)[0]


def test_every_run_leaves_its_page_in_its_language(told: Told) -> None:
    """Written by the run itself; made again from the same files it is the same page."""
    for folder, lang in zip(told.library.run_folders(), ("zh", "en"), strict=True):
        assert folder.report.read_text("utf-8") == html_of(load_run(told.library, folder), lang)


def test_a_long_page_is_made_in_pieces(own: Told) -> None:
    """No more than a row of it is there at once, however many items the run had."""
    view = own.first
    most = max(len(piece) for piece in report_html(view, "zh", beside=view.folder.path))
    long = attrs.evolve(view, items=view.items * 50)
    pieces = [len(piece) for piece in report_html(long, "zh", beside=view.folder.path)]
    assert sum(pieces) > 20 * most and max(pieces) < 3 * most


def test_a_page_is_never_replaced(own: Told) -> None:
    durable = Durable(OsFileSystem(), SystemClock(), frozenset({"run.report"}))
    run_id = own.first.run_id
    first = write_run_report(durable, own.library, run_id, "zh")
    before = first.read_bytes()
    assert write_run_report(durable, own.library, run_id, "zh") == first
    second = write_run_report(durable, own.library, run_id, "en")
    assert second.name == "report-2.html" != first.name
    assert first.read_bytes() == before
    assert write_run_report(durable, own.library, run_id, "en") == second


def test_a_page_whose_half_written_file_a_recovery_removed_is_written_again(
    own: Told, monkeypatch: pytest.MonkeyPatch
) -> None:
    durable = Durable(OsFileSystem(), SystemClock(), frozenset({"run.report"}))
    own.first.folder.report.unlink()
    taken: list[Path] = []
    link = OsFileSystem.link

    def removed_first(self: OsFileSystem, source: Path, target: Path) -> None:
        if not taken:
            taken.append(source)
            source.unlink()
        link(self, source, target)

    monkeypatch.setattr(OsFileSystem, "link", removed_first)
    path = write_run_report(durable, own.library, own.first.run_id, "zh")
    assert path.name == "report.html" and taken and path.read_bytes().endswith(b"</html>\n")


def test_a_hostile_title_stays_text(own: Told) -> None:
    view = own.first
    hostile = "</td><script>alert(1)</script><img src=x onerror=alert(2)>\u202egnp.exe"
    items = tuple(attrs.evolve(one, item={**one.item, "title": hostile}) for one in view.items)
    html = html_of(attrs.evolve(view, items=items))
    assert "<script>alert" not in html and "<img src=x" not in html
    assert len(Page(html).sources) == len(view.delivered)


def test_a_file_that_is_gone_is_said(own: Told) -> None:
    one = own.first.delivered[0]
    own.library.absolute(str(one.item["final_path"])).unlink()
    html, _ = page_of(own)
    assert "文件已不在资料库中" in html


def test_a_run_that_never_ended_has_a_page(own: Told, ask: Ask) -> None:
    folder = own.first.folder
    folder.run_json.write_text("{", "utf-8")
    code, out, _err = ask(main, folder.run_id, "--library", own.path, "--lang", "zh")
    assert code == 0 and "尚未结束" in Path(out.strip()).read_text("utf-8")


def test_command_answers_with_the_page(own: Told, ask: Ask, tmp_path: Path) -> None:
    code, out, _err = ask(main, "--latest", "--library", own.path, "--json", "--lang", "en")
    assert code == 0 and Path(json.loads(out)["path"]).name == "report.html"
    target = tmp_path / "看.html"
    assert ask(main, own.first.run_id[:16], "--library", own.path, "-o", target)[0] == 0
    links = [unquote(link) for link in Page(target.read_text("utf-8")).links if link.endswith(".pdf")]
    assert links and all((target.parent / link).is_file() for link in links)
    assert ask(main, "--library", own.path, "-o", target)[0] == 64
    assert ask(main, "--library", own.path, "-o", target, "--replace")[0] == 0
    assert ask(main, "20990101", "--library", own.path)[0] == 64
    assert ask(main, "--library", own.path / "none")[0] == 64


def test_a_manifest_that_cannot_be_read_is_told_by_its_own_name(own: Told, ask: Ask, tmp_path: Path) -> None:
    """The page is made of what there is; the file it is written to is not to blame."""
    own.library.manifest.unlink()
    own.library.manifest.mkdir()
    page = tmp_path / "page.html"
    code, out, err = ask(main, "--library", own.path, "-o", page, "--lang", "en")
    assert (code, out.strip()) == (0, str(page)) and page.is_file()
    assert str(own.library.manifest) in err and str(page) not in err


def test_link_to_another_drive_is_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """On Windows there is no relative way from one drive to another."""

    def refuse(*_: object) -> str:
        raise ValueError("path is on mount 'D:', start on mount 'C:'")

    monkeypatch.setattr("os.path.relpath", refuse)
    assert link_to(tmp_path, "reports/甲 乙.pdf", tmp_path) == (tmp_path / "reports" / "甲 乙.pdf").as_uri()


# -- in a browser ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("width", "dark"), [(1280, False), (1280, True), (390, False), (390, True)])
def test_page_looks_right(told: Told, browser: Browser, tmp_path: Path, width: int, dark: bool) -> None:
    html, _ = page_of(told)
    page = tmp_path / "report.html"
    page.write_text(html, "utf-8")
    browser.complaints.clear()
    browser.open(page, width=width, dark=dark)
    picture = browser.picture(tmp_path / "report.png")
    assert len(picture) > 20_000
    assert browser.complaints == []
    assert browser.value("document.documentElement.scrollWidth <= innerWidth"), "it scrolls sideways"
    assert browser.value("[...document.images].every(one => one.complete && one.naturalWidth > 100)")
    colours = browser.value("getComputedStyle(document.body).backgroundColor")
    assert colours == ("rgb(18, 22, 28)" if dark else "rgb(246, 247, 249)")
    assert contrast(browser) >= 4.5


CONTRAST = """(() => {
  const lum = text => { const [r, g, b] = text.match(/[0-9.]+/g).map(Number).map(v => { v /= 255;
    return v <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4; });
    return 0.2126*r + 0.7152*g + 0.0722*b; };
  const ground = el => { for (; el; el = el.parentElement) { const c = getComputedStyle(el).backgroundColor;
    if (!c.endsWith(", 0)")) return c; } return "rgb(255, 255, 255)"; };
  let least = 99;
  for (const el of document.querySelectorAll("p,h1,h2,h3,a,code,td,th,dt,dd,summary,button,span,b")) {
    if (!el.textContent.trim() || el.matches(".skip")) continue;
    const a = lum(getComputedStyle(el).color), b = lum(ground(el));
    least = Math.min(least, (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05));
  }
  return least;
})()"""


def contrast(browser: Browser) -> float:
    """The least contrast of any text on the page (4.5 is what WCAG AA asks for)."""
    return float(browser.value(CONTRAST))


def test_page_works_by_keyboard(told: Told, browser: Browser, tmp_path: Path) -> None:
    page = tmp_path / "report.html"
    page.write_text(page_of(told)[0], "utf-8")
    browser.open(page)
    browser.press("Tab")
    assert browser.value("document.activeElement.className") == "skip"
    browser.press("Enter")
    assert browser.value("location.hash") == "#outcome"
    seen = set()
    for _ in range(60):
        browser.press("Tab")
        seen.add(browser.value("document.activeElement.tagName"))
        if browser.value("document.activeElement.dataset.filter") == "bad":
            browser.press(" ")
            visible = browser.value(
                "[...document.querySelectorAll('[data-tone]')].filter(r => !r.hidden).length"
            )
            assert visible == len(told.first.missing)
        if browser.value("document.activeElement.tagName") == "SUMMARY":
            browser.press("Enter")
            assert browser.value("document.activeElement.parentElement.open") is True
            if browser.value("document.activeElement.parentElement.className") == "block":
                break
    assert {"BUTTON", "SUMMARY"} <= seen
    assert browser.value("getComputedStyle(document.activeElement).outlineStyle") == "solid"


def test_page_prints_with_everything_unfolded(told: Told, browser: Browser, tmp_path: Path) -> None:
    from hibor.pdf import check_pdf

    page, printed = tmp_path / "report.html", tmp_path / "printed.pdf"
    page.write_text(page_of(told)[0], "utf-8")
    browser.open(page)
    printed.write_bytes(browser.printed())
    found = check_pdf(printed)
    assert found.ok and found.page_count is not None and 1 <= found.page_count <= 8
    assert "选中" in (found.text_page1 or "") and "全部" not in (found.text_page1 or "").splitlines()
    assert browser.value("document.querySelectorAll('details[open]').length") == 0
