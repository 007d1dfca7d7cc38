"""runs, quota, explain, task, schedule, quarantine, and `hibor` itself."""

from __future__ import annotations

import csv
import io
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from fsm import Tables
from generated.codes import CODE_CLASS, CODES
from generated.presence import NODE_QUOTA
from generated.terminal import NOTES, STATUSES
from hibor.cli import COMMANDS
from hibor.cli import main as hibor
from hibor.explain import main as explain
from hibor.quarantine import main as quarantine
from hibor.quota_cli import main as quota
from hibor.run import main as run_main
from hibor.runs import main as runs
from hibor.schedule import cron_line, windows_line
from hibor.schedule import main as schedule
from hibor.task import Task, load_task
from hibor.task_cli import main as task
from hibor.want import main as want
from tests.main_job import ROOT, environment
from tests.people.conftest import Ask, Told
from tests.people.test_messages import ENGLISH


def test_runs_lists_newest_first(own: Told, ask: Ask) -> None:
    code, out, _err = ask(runs, "--library", own.path, "--json")
    listed = json.loads(out)["runs"]
    assert code == 0 and [one["status"] for one in listed][-1] == "PARTIAL"
    assert [one["run_id"] for one in listed] == sorted((one["run_id"] for one in listed), reverse=True)
    code, out, _err = ask(runs, "--library", own.path, "--lang", "zh", "--last", "5")
    assert "PDF 需要密码" in out and not ENGLISH.search(out)


def test_runs_says_which_did_not_end(own: Told, ask: Ask) -> None:
    own.first.folder.run_json.unlink()
    assert "中途被打断" in ask(runs, "--library", own.path, "--lang", "zh")[1]


def test_quota_counts_as_the_run_did(own: Told, ask: Ask) -> None:
    document = own.en.document["quota"]
    code, out, _err = ask(quota, "--library", own.path, "--json", "--day", document["day"])
    answer = json.loads(out)
    sums = answer["accounts"][document["account"]][document["day"]]
    assert code == 0 and (sums["confirmed"], sums["uncertain"]) == (
        document["confirmed"],
        document["uncertain"],
    )
    assert len(answer["uses"]) == sums["confirmed"] + sums["uncertain"] + sums["released"]
    code, out, _err = ask(quota, "--library", own.path, "--csv")
    rows = list(csv.DictReader(io.StringIO(out.removeprefix("\ufeff"), newline="")))
    assert len(rows) == len(answer["uses"])


@pytest.mark.parametrize("lang", ["zh", "en"])
def test_a_quota_day_is_a_statement(own: Told, ask: Ask, lang: str) -> None:
    """Opening, each download with the time of its tap, closing, unexplained; the balances follow."""
    first, document = own.zh.document["quota"], own.en.document["quota"]
    where = ("--library", own.path, "--day", document["day"], "--lang", lang)
    _code, out, _err = ask(quota, *where, "--csv")
    rows = list(csv.reader(io.StringIO(out.removeprefix("\ufeff"), newline="")))
    header, opening, *downloads, closing, unexplained = rows
    assert all(len(row) == len(header) == 15 for row in rows)
    units, balance, label = -3, -2, -1
    assert (opening[balance], opening[label]) == (str(first["limit"]), str(first["label_before"]))
    left = document["limit"]
    for row in downloads:
        left -= int(row[units])
        assert row[balance] == str(left) and row[3] <= row[11], "reserved before it is tapped"
    assert (closing[balance], closing[label]) == (str(left), str(document["label_after"]))
    lost = first["label_before"] - document["label_after"] - document["confirmed"]
    assert unexplained[units] == str(lost)
    _code, out, _err = ask(quota, *where)
    assert {"zh": "期初", "en": "opening"}[lang] in out and {"zh": "期末", "en": "closing"}[lang] in out


def test_quota_of_a_ledger_in_doubt_counts_nothing(own: Told, ask: Ask) -> None:
    (ledger,) = own.path.glob("quota/*/ledger.jsonl")
    ledger.write_bytes(ledger.read_bytes().replace(b"RESERVED", b"RELEASED", 1))
    code, out, err = ask(quota, "--library", own.path, "--lang", "zh")
    assert (code, out) == (27, "") and "ledger verify" in err


@pytest.mark.parametrize("lang", ["zh", "en"])
def test_explain_knows_every_word(ask: Ask, lang: str) -> None:
    code, out, _err = ask(explain, "--json", "--lang", lang)
    words = {one["word"]: one for one in json.loads(out)["words"]}
    assert code == 0 and set(CODES) < set(words)
    assert all(words[one]["next"] for one in CODES)
    assert ask(explain, "trigger_uncertain", "--lang", lang)[0] == 0
    assert "FINAL_PATH_CONFLICT" in ask(explain, "STOP:FINAL_PATH_CONFLICT", "--lang", lang)[1]
    code, _out, err = ask(explain, "TRIGER_UNCERTAIN", "--lang", lang)
    assert code == 64 and "TRIGGER_UNCERTAIN" in err


@pytest.mark.parametrize("lang", ["zh", "en"])
def test_the_template_is_a_valid_task_with_the_defaults(ask: Ask, tmp_path: Path, lang: str) -> None:
    path = tmp_path / "早会 task.toml"
    library = tmp_path / 'a "b" \\ c'
    assert ask(task, "init", path, "--library", str(library), "--lang", lang)[0] == 0
    made = load_task(path)
    default = Task(library=made.library, account="team-a", lang=lang, source=made.source)  # type: ignore[arg-type]
    assert made == default
    assert path.read_text("utf-8").count("#") > 15
    assert ask(task, "check", path, "--lang", lang)[0] == 0
    assert ask(task, "init", path)[0] == 1 and load_task(path) == default
    assert ask(task, "init", tmp_path / "b.toml", "--account", "a/b")[0] == 64


BAD = """\
library = 3
account = "nul"
kount = 1
limit = 3
lang = "fr"
count = 0
[select]
since_days = 0
pages_min = -1
keywords_any = [""]
institutions = "国信"
lang = "zh"
[quota]
spacing_s = 2
limit = true
[policy]
reuse = "maybe"
keep_awake = 1
"""


def test_every_problem_of_a_task_is_told_with_its_line_in_chinese(ask: Ask, tmp_path: Path) -> None:
    path = tmp_path / "t.toml"
    variants = [BAD, BAD.replace("library = 3", 'library = ""').replace("kount = 1\nlimit = 3\n", ""),
                'library = "a"\naccount = "nul"\nlang = "fr"\ncount = 0\nmin_count = 4\n'
                '[select]\nsince_days = 0\npages_min = -1\nkeywords_any = [""]\n'
                '[quota]\nspacing_s = 2\nlimit = -1\n[policy]\nreuse = "x"\n',
                "library = \n", 'library = "a\n', 'account = "a"\nquota = 3\n']  # fmt: skip
    for text in variants:
        path.write_text(text, "utf-8")
        code, out, err = ask(task, "check", path, "--lang", "zh")
        lines = [line for line in out.splitlines() if line.startswith(str(path))]
        assert code == 64 and err == "" and lines
        assert all(line.removeprefix(f"{path}:").split(":")[0].isdecimal() for line in lines)
        assert not ENGLISH.search(out.replace(str(path), "")) and "这一行不能使用" not in out
    path.write_bytes(b"\xff\xfe")
    assert "UTF-8" in ask(task, "check", path, "--lang", "zh")[1]
    assert "无法读取" in ask(task, "check", tmp_path / "none.toml", "--lang", "zh")[1]


def test_schedule_lines_survive_blanks_and_percent_signs() -> None:
    program = ["C:\\Program Files\\py\\python.exe", "-m", "hibor.run", "--task", "D:\\研报 50%\\task.toml"]
    line, fits = windows_line(program, "Hibor", 8, 5, ["MON", "FRI"])
    assert fits and "/ST 08:05" in line and "/D MON,FRI" in line
    assert '/TR "\\"C:\\Program Files\\py\\python.exe\\" -m hibor.run --task' in line
    assert not windows_line([*program, "x" * 261], "Hibor", 8, 5, ["MON"])[1]
    cron = cron_line(
        ["python", "-m", "hibor.run", "--task", "/a b/50%.toml"], Path("/a b/log"), 8, 5, ["MON", "SUN"]
    )
    assert cron == r"5 8 * * 1,0 python -m hibor.run --task '/a b/50\%.toml' >> '/a b/log' 2>&1"


def test_schedule_print_checks_what_it_is_given(ask: Ask, tmp_path: Path) -> None:
    path = tmp_path / "task.toml"
    assert ask(task, "init", path)[0] == 0
    code, out, _err = ask(schedule, "print", "--task", path, "--at", "7:45", "--lang", "zh")
    assert code == 0 and "45 7 * * 1,2,3,4,5" in out and "schtasks /Create" in out and "--wait 30m" in out
    for wrong in (
        ["--at", "25:00"],
        ["--days", "MON,XXX"],
        ["--wait", "soon"],
        ["--task", str(tmp_path / "no.toml")],
    ):
        assert ask(schedule, "print", "--task", path, *wrong)[0] == 64


def test_quarantine_shows_and_copies(own: Told, ask: Ask, tmp_path: Path) -> None:
    code, out, _err = ask(quarantine, "list", "--library", own.path, "--json")
    (one,) = json.loads(out)["files"]
    assert code == 0 and one["code"] == "PDF_ENCRYPTED" and one["title"] and one["head"].startswith("%PDF-")
    target = tmp_path / "look.pdf"
    assert ask(quarantine, "copy", one["name"], "-o", target, "--library", own.path)[0] == 0
    assert target.stat().st_size == one["size_bytes"]
    for wrong in ("nothing.pdf", "../manifest.jsonl"):
        assert ask(quarantine, "copy", wrong, "--library", own.path)[0] == 1


# -- `hibor` -----------------------------------------------------------------------------------------------


def test_help_imports_no_command(tmp_path: Path) -> None:
    program = (
        "import sys, hibor.cli; code = hibor.cli.main(['--help']); "
        "heavy = {'pymupdf', 'adbutils', 'transitions', 'jinja2', 'rich', 'attrs', 'sqlite3', 'hibor.task'};"
        "print(sorted(heavy & set(sys.modules)), code, file=sys.stderr)"
    )
    ended = subprocess.run(
        [sys.executable, "-c", program],
        cwd=ROOT,
        env=environment(),
        capture_output=True,
        timeout=60,
        check=True,
    )
    assert ended.stderr.decode().strip() == "[] 0"
    assert all(f"  {name} " in ended.stdout.decode() for name in COMMANDS)


def test_exit_codes_and_arguments_pass_through(own: Told, ask: Ask) -> None:
    assert ask(hibor, "find", "没有这样的词", "--library", own.path)[0] == 1
    assert ask(hibor, "no-such-command", "--lang", "zh")[2].strip() == "没有 no-such-command 这个命令。"
    assert ask(hibor, "no-such-command")[0] == 64
    code, out, _err = ask(hibor, "run", "--nonsense")
    assert code == 64 and json.loads(out)["status"] == "TASK_INVALID"


MODULES = [
    "quota",
    "package",
    "report",
    "schedule",
    "task",
    "find",
    "library",
    "want",
    "runs",
    "explain",
    "quarantine",
]
RUN_EACH = """\
import runpy, sys
for name in sys.argv[1:]:
    sys.argv = ["x", "--help", "--lang", "en"]
    try:
        runpy.run_module("hibor." + name, run_name="__main__", alter_sys=True)
    except SystemExit as ended:
        assert not ended.code, name
"""


def test_every_command_is_a_module_too() -> None:
    ended = subprocess.run(
        [sys.executable, "-c", RUN_EACH, *MODULES],
        cwd=ROOT,
        env=environment(),
        capture_output=True,
        timeout=60,
    )
    told = ended.stdout.decode()
    assert ended.returncode == 0, ended.stderr.decode()
    assert [name for name in MODULES if f"Usage: hibor {name}" not in told] == []


def test_a_narrow_console_breaks_nothing(own: Told) -> None:
    """A Windows console with a code page that has no Chinese."""
    env = {**environment(), "PYTHONIOENCODING": "cp1252", "PYTHONUTF8": "0"}
    ended = subprocess.run(
        [sys.executable, "-m", "hibor.runs", "--library", str(own.path), "--lang", "zh"],
        cwd=ROOT, env=env, capture_output=True, timeout=60,
    )  # fmt: skip
    assert ended.returncode == 0 and b"Traceback" not in ended.stderr
    assert "交付" in ended.stdout.decode("utf-8")


def test_works_without_posix(own: Told, ask: Ask, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Links refused, folders that cannot be fsynced, no O_NOFOLLOW: as on Windows and on exFAT."""

    def refused(*_: object) -> None:
        raise OSError(1, "operation not permitted")

    monkeypatch.setattr(os, "link", refused)
    monkeypatch.setattr("hibor.durable_fs.OsFileSystem.fsync_dir", lambda self, path: None)
    target = tmp_path / "研报.zip"
    assert ask(hibor, "package", own.first.run_id, "--zip", target, "--library", own.path)[0] == 2
    assert target.is_file() and not target.with_name(target.name + ".tmp").exists()
    assert ask(hibor, "report", own.first.run_id, "--library", own.path)[0] == 0


@pytest.mark.parametrize("lang", ["zh", "en"])
def test_a_group_without_a_command_names_its_commands(
    ask: Ask, lang: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for arguments in ((), ("--lang", lang)):
        monkeypatch.setenv("HIBOR_LANG", lang)
        code, _out, err = ask(want, *arguments)
        assert code == 64 and all(name in err for name in ("add", "list", "remove")), err


@pytest.mark.parametrize("lang", ["zh", "en"])
def test_a_task_check_warns_of_a_library_that_is_anothers(
    own: Told, ask: Ask, tmp_path: Path, lang: str
) -> None:
    """The simulated phone's library, another account's ledger, and a folder only Windows knows."""
    file = tmp_path / "task.toml"

    def check(library: Path | str, account: str = "team-a") -> tuple[list[str], str]:
        text = f"library = '{library}'\naccount = '{account}'\n"
        file.write_text(text, "utf-8")
        code, out, err = ask(task, "check", file, "--lang", lang, "--json")
        assert code == 0
        return json.loads(out)["warnings"], err

    assert check(own.path)[0] == ["other_account"] and "team-a" in check(own.path)[1]
    assert check(own.path, "simulated")[0] == []
    (own.path / "sim-phone").mkdir()
    assert check(own.path)[0] == ["simulated_library"] and "sim-phone/" in check(own.path)[1]
    assert check(tmp_path / "new")[0] == []
    assert check("D:/reports")[0] == ([] if os.name == "nt" else ["foreign"])


@pytest.mark.skipif(os.name == "nt", reason="Windows has drives")
@pytest.mark.parametrize("lang", ["zh", "en"])
def test_a_run_refuses_a_folder_that_only_windows_knows(ask: Ask, tmp_path: Path, lang: str) -> None:
    file = tmp_path / "task.toml"
    file.write_text('library = "D:/reports"\naccount = "a"\n', "utf-8")
    for given in (("--task", file), ("--library", "D:\\reports")):
        code, out, err = ask(run_main, *given, "--lang", lang)
        assert (code, json.loads(out)["status"]) == (64, "TASK_INVALID") and "~/reports" in err
    assert not (tmp_path / "D:").exists() and not Path("D:").exists() and not Path("D:\\reports").exists()


@pytest.mark.parametrize("lang", ["zh", "en"])
@pytest.mark.parametrize("plan", ["", "[]", '{"schema_version": 1, "rows": 5}', '{"rows": []}'])
def test_what_is_no_plan_is_refused_in_plain_words(ask: Ask, tmp_path: Path, plan: str, lang: str) -> None:
    file = tmp_path / "plan.json"
    file.write_text(plan, "utf-8")
    code, out, err = ask(run_main, "--library", tmp_path / "a", "--plan", file, "--lang", lang)
    assert (code, json.loads(out)["status"]) == (64, "TASK_INVALID")
    assert "--dry-run --plan" in err and "Expecting" not in err


def test_schedule_without_a_task_says_how_to_get_one(ask: Ask, tmp_path: Path) -> None:
    code, _out, err = ask(schedule, "print", "--task", tmp_path / "none.toml", "--lang", "en")
    assert code == 64 and "`hibor task init`" in err


@pytest.mark.parametrize("lang", ["zh", "en"])
def test_explain_knows_every_word_of_a_table(ask: Ask, lang: str) -> None:
    """States with and without their mark, closures, quota states, outcomes and notes."""
    tables = Tables.default()
    nodes = {node for lane in tables.recovery.values() for node in lane}
    quota_states = {one for at in NODE_QUOTA.values() for states in at.values() for one in states}
    notes = {*NOTES["SUCCESS"].values(), NOTES["success_uncertain_trigger"], NOTES["DUPLICATE"]}
    for word in (*nodes, *tables.states, *tables.closures, *quota_states, *STATUSES, *notes):
        code, out, err = ask(explain, word, "--lang", lang)
        assert code == 0 and len(out.splitlines()) > 1 and word.rpartition(":")[2] in out, err
    for code_word, kind in CODE_CLASS.items():
        assert ask(explain, f"{kind}:{code_word}", "--lang", lang)[0] == 0
    both = [ask(explain, f"P02_TRIGGER_UNKNOWN-{mark}", "--lang", lang)[1] for mark in "NVU"]
    assert len(set(both)) == 3
