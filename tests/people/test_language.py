"""A run told in Chinese has no English sentence for people in it, and the other way round."""

from __future__ import annotations

import importlib
import json
import re
import shutil
from collections.abc import Iterable
from pathlib import Path

import pytest

from hibor.cli import COMMANDS
from hibor.cli import main as hibor
from hibor.package_zip import CSV_NAME, PAGE_NAME, contents_csv, contents_page, plan_package
from hibor.people.commandline import Words
from hibor.people.formatting import cells, wrapped
from hibor.people.run_view import load_run
from hibor.report import report_html
from tests.people.conftest import Ask, Told
from tests.people.test_report import Page

ENGLISH = re.compile(r"\b[A-Za-z]{2,}(?:[ ,]+[a-z]{2,}){2,}")
IDEOGRAPH = re.compile("[\u3400-\u9fff]")
MARKED = re.compile(r"`[^`]*`")
def every_command() -> list[str]:
    """`name` or `name sub` of everything `hibor` can do."""
    found: list[str] = []
    for name, module in COMMANDS.items():
        built = importlib.import_module(module).build(Words("en"))
        found.append(name)
        found += [f"{name} {one}" for one in getattr(built, "commands", {})]
    return found


@pytest.fixture(autouse=True)
def signals_stay(monkeypatch: pytest.MonkeyPatch) -> None:
    """The main job takes the process's signals; here the process is the tests'."""
    monkeypatch.setattr("hibor.run._end_signals_as_ctrl_c", lambda: None)


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
    notes = [one.delivery for one in folder.item_folders() if one.delivery.is_file()]
    words = Words(lang)  # type: ignore[arg-type]
    package = plan_package(view, words)
    html = b"".join(report_html(view, lang, beside=folder.path)).decode()  # type: ignore[arg-type]
    page = Page(html)
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


@pytest.mark.parametrize("name", every_command())
def test_help_is_in_the_readers_language(ask: Ask, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    zh = ask(hibor, *name.split(), "--help", "--lang", "zh")
    en = ask(hibor, *name.split(), "--help", "--lang", "en")
    assert zh[0] == en[0] == 0 and zh[2] == en[2] == ""
    assert ENGLISH.findall(without(re.sub(r"(?m)^(用法： |  )hibor .*$", "", zh[1]), ())) == []
    assert IDEOGRAPH.search(zh[1]) and all(word in zh[1] for word in ("用法", "示例", "退出码"))
    told_en = re.sub(r"(?m)^  hibor .*$|目录|\"[^\"]*\"", "", en[1])
    assert IDEOGRAPH.findall(told_en) == [] and "Examples" in en[1] and "Exit codes" in en[1]
    for line in (zh[1] + en[1]).splitlines():
        assert cells(line) <= 80 or line.startswith("  hibor "), line
    assert f"hibor {name}" in en[1].replace("\n  ", " ")  # the usage, or an example, shows it
    for variable in ("HIBOR_LANG", "LC_ALL", "LC_MESSAGES"):
        monkeypatch.delenv(variable, raising=False)
    monkeypatch.setenv("LANG", "zh_CN.UTF-8")
    assert ask(hibor, *name.split(), "--help") == zh


def test_lines_break_by_cells_and_closing_marks_never_begin_one() -> None:
    whole = "只用于您有权使用的手机与账号，遵守应用条款；library 在 ./hibor-library。"
    lines = list(wrapped(whole, 20))
    assert "".join(lines).replace(" ", "") == whole.replace(" ", "")
    assert all(cells(line) <= 20 and line[0] not in "，。；" for line in lines) and len(lines) > 3


@pytest.mark.parametrize("name", every_command())
def test_a_wrong_option_is_told_in_the_readers_language(ask: Ask, name: str) -> None:
    for lang, said in (("zh", "没有选项"), ("en", "o such option")):
        code, _out, err = ask(hibor, *name.split(), "--nonsense", "--lang", lang)
        assert code == 64 and said in err and "--nonsense" in err and "Traceback" not in err
        if lang == "zh":
            assert ENGLISH.findall(without(err, ())) == []
        else:
            assert IDEOGRAPH.findall(err) == []


ANSWERS = (
    "ledger verify --account simulated",
    "ledger show --account simulated",
    "ledger audit --account simulated",
    "ledger audit",
    "ledger verify --account nobody",
    "ledger repair --yes --account simulated",
    "recover --list",
    "recover --dry-run",
    "recover --close 0123",
    "recover --account simulated",
    "runs",
    "quota",
    "quota --day 2026-12-01",
    "quota --day yesterday",
    "want list",
    "want remove 0123",
    "quarantine list",
    "quarantine copy nothing.pdf",
    "library verify",
    "find 报告",
    "explain STOPPED",
    "package --zip OUT",
    "report --latest -o PAGE",
    "report 2099",
    "discover --max-pages 0",
    "run --wait soon",
    "run --scenario nonono",
    "run --plan nowhere.json",
    "run --device X --scenario default",
    "run --count 0",
    "run --time-scale 0",
)


@pytest.fixture(scope="module")
def asked(told: Told, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy that commands may index, verify and recover, one after the other."""
    path = tmp_path_factory.mktemp("asked") / "library"
    shutil.copytree(told.path, path, ignore=shutil.ignore_patterns("sim-phone"))
    return path


@pytest.mark.parametrize("line", ANSWERS)
def test_answers_and_refusals_are_in_the_readers_language(
    asked: Path, told: Told, ask: Ask, line: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    names = titles(told) | {str(tmp_path)}
    for lang in ("zh", "en"):
        words = [word.replace("OUT", f"{lang}.zip").replace("PAGE", f"{lang}.html") for word in line.split()]
        library = [] if words[0] == "explain" else ["--library", asked]
        code, out, err = ask(hibor, *words, *library, "--lang", lang)
        if words[0] == "run":
            assert json.loads(out)["exit_code"] == code
            out = ""  # a document: its keys and codes are the same in every language
        shown = re.sub(r"reports/\S+|'[^']*'|/\S+", "", without(out + err, names))
        assert "Traceback" not in shown and (out + err).strip(), line
        if not shown.strip():
            continue  # a path alone
        if lang == "zh":
            assert IDEOGRAPH.search(shown) and ENGLISH.findall(shown) == [], line
        elif words[0] != "find":
            assert IDEOGRAPH.findall(shown) == [], line


def test_what_ends_before_the_session_is_told_in_the_readers_language(
    ask: Ask, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An interrupt before there is a task, and a part of the program that is missing."""
    for lang in ("zh", "en"):
        for error, code, status in ((KeyboardInterrupt, 130, "INTERRUPTED"), (ImportError, 21, "FAILED")):

            def fail(_options: object, error: type[BaseException] = error) -> int:
                raise error("No module named 'missing part of it'")

            monkeypatch.setattr("hibor.collect.session.run_session", fail)
            ended, out, err = ask(hibor, "run", "--lang", lang)
            assert (ended, json.loads(out)["status"]) == (code, status)
            found = (ENGLISH if lang == "zh" else IDEOGRAPH).findall(err)
            assert found == [] and (IDEOGRAPH if lang == "zh" else ENGLISH).search(err), err


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
