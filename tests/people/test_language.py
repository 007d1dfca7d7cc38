"""A run told in Chinese has no English sentence for people in it, and the other way round."""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path

import pytest

from hibor.cli import main as hibor
from hibor.package_zip import CSV_NAME, PAGE_NAME, contents_csv, contents_page, plan_package
from hibor.people.run_view import load_run
from hibor.report import report_html
from tests.people.conftest import Ask, Told
from tests.people.test_report import Page

ENGLISH = re.compile(r"\b[A-Za-z]{2,}(?:[ ,]+[a-z]{2,}){2,}")
IDEOGRAPH = re.compile("[\u3400-\u9fff]")
MARKED = re.compile(r"`[^`]*`")
OWN = (
    "explain",
    "runs",
    "quota",
    "find",
    "report",
    "package",
    "want",
    "task",
    "schedule",
    "library",
    "quarantine",
)
"""Commands whose texts are all in the catalogue."""


def titles(told: Told) -> set[str]:
    """What the reports say of themselves, and the names of files: the same in every language."""
    found: set[str] = {CSV_NAME, PAGE_NAME, "目录"}
    for folder in told.library.run_folders():
        view = load_run(told.library, folder)
        found |= {str(one["title"]) for one in view.part("counts").get("likely_duplicates") or ()}
        for one in view.items:
            names = [one.item.get("title"), one.item.get("institution"), *(one.item.get("analysts") or ())]
            if one.row is not None:
                names += [one.row.stock_name, one.row.industry, one.row.rating, one.row.report_type]
            found |= {str(name) for name in names if name}
            found |= {str(one.item["title"])[:length] + "…" for length in range(5, 11)}  # in a drawing
    return found


def without(text: str, names: Iterable[str]) -> str:
    for name in sorted(names, key=len, reverse=True):
        text = text.replace(name, "")
    return MARKED.sub("", text)


def texts_of(told: Told, lang: str) -> dict[str, str]:
    """Everything a person reads of a run, by where it stands."""
    folder = told.library.run_folders()[0 if lang == "zh" else 1]
    view = load_run(told.library, folder)
    run = told.zh if lang == "zh" else told.en
    from hibor.people.commandline import Words

    notes = [one.delivery for one in folder.item_folders() if one.delivery.is_file()]
    words = Words(lang)  # type: ignore[arg-type]
    package = plan_package(view, words)
    page = Page(report_html(view, lang, beside=folder.path))  # type: ignore[arg-type]
    return {
        "stderr": run.stderr,
        "run delivery": folder.delivery.read_text("utf-8").partition("\n")[2],
        **{f"item {path.parent.name}": path.read_text("utf-8").partition("\n")[2] for path in notes},
        "report": "\n".join(page.words),
        "contents": "\n".join(Page(contents_page(package, words).decode()).words),
        "csv": contents_csv(package, words).decode(),
    }  # fmt: skip


def test_chinese_run_has_no_english_sentence(told: Told) -> None:
    found = texts_of(told, "zh")
    assert len(found) >= 6
    for place, text in found.items():
        assert IDEOGRAPH.search(without(text, titles(told))), place
        assert ENGLISH.findall(without(text, titles(told))) == [], place


def test_english_run_has_no_chinese_sentence(told: Told) -> None:
    names = titles(told)
    for place, text in texts_of(told, "en").items():
        assert IDEOGRAPH.findall(re.sub(r"reports/\S+", "", without(text, names))) == [], place


@pytest.mark.parametrize("name", OWN)
def test_help_is_in_the_readers_language(ask: Ask, name: str) -> None:
    zh = ask(hibor, name, "--help", "--lang", "zh")
    en = ask(hibor, name, "--help", "--lang", "en")
    assert zh[0] == en[0] == 0 and zh[2] == en[2] == ""
    assert ENGLISH.findall(without(re.sub(r"(?m)^  hibor .*$", "", zh[1]), ())) == []
    assert IDEOGRAPH.search(zh[1]) and "用法" in zh[1] and "退出码" in zh[1]
    told_en = re.sub(r"(?m)^  hibor .*$|目录|\"[^\"]*\"", "", en[1])
    assert IDEOGRAPH.findall(told_en) == [] and "Exit codes" in en[1]


@pytest.mark.parametrize("arguments", [["--nonsense"], ["--limit"], ["--limit", "x", "y"], ["--lang", "fr"]])
def test_mistakes_are_told_in_the_readers_language(ask: Ask, arguments: list[str]) -> None:
    code, out, err = ask(hibor, "find", *arguments, "--lang", "zh")
    assert (code, out) == (64, "") and IDEOGRAPH.search(err)
    assert ENGLISH.findall(without(err, ())) == []


def test_a_wrong_command_line_of_the_main_job_is_told_in_chinese(told: Told, tmp_path: Path) -> None:
    from tests.main_job import finish, start

    run = finish(start(["--nonsense", "--lang", "zh"]), None)
    assert run.summary() == (64, "TASK_INVALID", "TASK_SPEC_INVALID")
    assert "没有选项 --nonsense" in run.stderr and ENGLISH.findall(run.stderr) == []
