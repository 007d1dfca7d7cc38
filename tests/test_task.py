"""The task file: every mistake names its line, nothing is widened silently."""

from __future__ import annotations

from pathlib import Path

import attrs
import pytest

from hibor.task import Policy, QuotaTask, Select, Task, TaskError, load_task, with_options

COMPLETE = """library = "D:/reports"
account = "team-a"
device = "R58M123ABC"
profile = "hibor-7.toml"
deadline_s = 600
count = 10
min_count = 0
lang = "zh"
[select]
keywords_any = ["半导体", "存储"]
keywords_not = ["晨会"]
institutions = ["国信证券"]
since_days = 3
report_ids = []
pages_min = 3
[quota]
limit = 20
new_max = 6
spacing_s = 8
[policy]
reuse = "allow"
accept_restricted = true
keep_awake = false
ledger_dir = ""
"""
MINIMAL = 'library = "reports"\naccount = "team-a"\n'


def put(folder: Path, text: str | bytes) -> Path:
    path = folder / "task.toml"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return path


def error_of(folder: Path, text: str | bytes) -> TaskError:
    with pytest.raises(TaskError) as caught:
        load_task(put(folder, text))
    return caught.value


def test_the_file_of_design_9(tmp_path: Path) -> None:
    path = put(tmp_path, COMPLETE)
    assert load_task(path) == Task(
        library="D:/reports",
        account="team-a",
        device="R58M123ABC",
        profile="hibor-7.toml",
        deadline_s=600.0,
        count=10,
        min_count=0,
        lang="zh",
        select=Select(
            keywords_any=("半导体", "存储"),
            keywords_not=("晨会",),
            institutions=("国信证券",),
            since_days=3,
            report_ids=(),
            pages_min=3,
        ),
        quota=QuotaTask(limit=20, new_max=6, spacing_s=8.0),
        policy=Policy(reuse="allow", accept_restricted=True, keep_awake=False, ledger_dir=""),
        source=path,
    )


@pytest.mark.parametrize(("spoken", "lang"), [("zh_CN.UTF-8", "zh"), ("C.UTF-8", "en"), ("de_DE", "en")])
def test_a_task_that_names_no_language_is_told_in_the_systems(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, spoken: str, lang: str
) -> None:
    monkeypatch.delenv("HIBOR_LANG", raising=False)
    monkeypatch.setenv("LC_ALL", spoken)
    silent = load_task(put(tmp_path, MINIMAL))
    assert (silent.spoken(None), silent.spoken("zh"), silent.lang) == (lang, "zh", "zh")
    assert load_task(put(tmp_path, 'lang = "zh"\n' + MINIMAL)).spoken(None) == "zh"


def test_defaults(tmp_path: Path) -> None:
    task = load_task(put(tmp_path, MINIMAL))
    embedded = Task.embedded(tmp_path / "library")
    for field in attrs.fields(Task):
        if field.name not in ("library", "account", "source", "as_read", "names_lang"):
            assert getattr(task, field.name) == getattr(embedded, field.name) == field.default
    assert (task.deadline_s, task.count, task.min_count, task.lang) == (600.0, 10, 0, "zh")
    assert task.select == Select() and task.select.since_days == 3 and task.select.pages_min == 0
    assert task.quota == QuotaTask(limit=20, new_max=6, spacing_s=8.0)
    assert task.policy == Policy(reuse="allow", accept_restricted=True, keep_awake=False, ledger_dir="")


def test_paths_start_from_the_task_files_folder(tmp_path: Path) -> None:
    task = load_task(put(tmp_path, MINIMAL))
    assert task.library_path == tmp_path / "reports"
    assert task.ledger_path == tmp_path / "reports" / "quota"
    moved = load_task(put(tmp_path, MINIMAL + '[policy]\nledger_dir = "../ledgers"\n'))
    assert moved.ledger_path == tmp_path / ".." / "ledgers"
    assert Task.embedded("x").library_path == Path.cwd() / "x"
    with pytest.raises(attrs.exceptions.FrozenInstanceError):
        task.count = 3  # type: ignore[misc]


def test_a_file_from_notepad(tmp_path: Path) -> None:
    text = "\ufeff" + COMPLETE.replace("\n", "\r\n")
    assert load_task(put(tmp_path, text)).select.keywords_any == ("半导体", "存储")
    assert error_of(tmp_path, text.replace("since_days", "since_day")).line == 13


def test_unknown_key_names_file_line_and_the_likely_key(tmp_path: Path) -> None:
    error = error_of(tmp_path, COMPLETE.replace("keywords_any", "keyword_any"))
    path = str(tmp_path / "task.toml")
    assert (error.path, error.line) == (path, 10)
    assert str(error) == f'{path}:10: unknown key "keyword_any" in [select] — did you mean "keywords_any"?'


@pytest.mark.parametrize(
    ("change", "line", "words"),
    [
        (('count = 10', 'count = "10"'), 6, '"count" must be a whole number, not \'10\''),
        (("count = 10", "count = 10.0"), 6, "whole number"),
        (("count = 10", "count = true"), 6, "whole number, not true"),
        (("count = 10", "count = 0"), 6, '"count" must be at least 1'),
        (("min_count = 0", "min_count = 11"), 7, "between 0 and"),
        (("min_count = 0", "min_count = -1"), 7, "between 0 and"),
        (("deadline_s = 600", "deadline_s = 0"), 5, "greater than 0"),
        (("deadline_s = 600", "deadline_s = nan"), 5, "greater than 0"),
        (("deadline_s = 600", "deadline_s = inf"), 5, "greater than 0"),
        (("deadline_s = 600", 'deadline_s = "10m"'), 5, "number of seconds"),
        (("deadline_s = 600", "deadline_s = 1e9"), 5, "at most 604800"),
        (("deadline_s = 600", f"deadline_s = 1{'0' * 400}"), 5, "number of seconds"),
        (('lang = "zh"', 'lang = "fr"'), 8, '"zh" or "en"'),
        (('lang = "zh"', "lang = 1"), 8, "a string"),
        (('"半导体", "存储"', '"半导体",\n  3'), 11, "a list of strings; 3 is not one"),
        (('"半导体", "存储"', '"半导体",\n\n  " "'), 12, "match all"),
        (('["晨会"]', '"晨会"'), 11, "a list of strings, not '晨会'"),
        (("since_days = 3", "since_days = 0"), 13, "at least 1"),
        (("since_days = 3", f"since_days = 1{'0' * 20}"), 13, "at most 36500"),
        (("count = 10", "count = 10001"), 6, "at most 10000"),
        (("new_max = 6", f"new_max = 1{'0' * 400}"), 18, "at most 10000"),
        (("pages_min = 3", "pages_min = -1"), 15, "negative"),
        (("limit = 20", "limit = -1"), 17, "negative"),
        (("new_max = 6", "new_max = -1"), 18, "negative"),
        (("spacing_s = 8", "spacing_s = 7.9"), 19, "raise it, not lower it"),
        (('reuse = "allow"', 'reuse = "always"'), 21, '"allow", "only" or "never"'),
        (("keep_awake = false", "keep_awake = 0"), 23, "true or false"),
        (("[quota]", "[quotas]"), 16, 'unknown key "quotas" — did you mean "quota"?'),
        (("[policy]", "[select.policy]"), 20, 'unknown key "policy" in [select]'),
        (('account = "team-a"', 'account = "a/b"'), 2, "ledger's folder"),
        (('account = "team-a"', 'account = "nul"'), 2, "ledger's folder"),
        (('account = "team-a"', 'account = ""'), 2, "ledger's folder"),
        (('library = "D:/reports"', 'library = " "'), 1, "name a folder"),
        (('lang = "zh"', 'lang = "zh"\nlimit = 3'), 9, 'unknown key "limit" — it belongs into [quota]'),
        (("limit = 20", "limit = 20\ncount = 3"), 18, "it belongs above the first [table]"),
        (('lang = "zh"\n', 'lang = "zh"\nsource = "x"\n'), 9, 'unknown key "source"'),
        (('lang = "zh"\n[select]', 'lang = "zh"\nquota = 3\n[select]'), 9, "must be a table"),
    ],
)  # fmt: skip
def test_mistakes(tmp_path: Path, change: tuple[str, str], line: int, words: str) -> None:
    assert COMPLETE.count(change[0]) == 1 or change[0] == "limit = 20"
    text = COMPLETE.replace(*change)
    if words == "must be a table":
        text = text.split("[quota]")[0]
    error = error_of(tmp_path, text)
    assert words in error.message, error.message
    assert error.line == line


def test_a_number_with_more_digits_than_python_reads_is_a_mistake(tmp_path: Path) -> None:
    assert "not valid TOML" in error_of(tmp_path, f"{MINIMAL}count = {'1' * 5000}\n").message


def test_missing_keys(tmp_path: Path) -> None:
    error = error_of(tmp_path, 'count = 3\nlibrary = "x"\n')
    assert '"account" is required' in error.message
    assert len(error_of(tmp_path, "").problems) == 2


def test_all_mistakes_at_once_in_the_order_of_the_file(tmp_path: Path) -> None:
    text = COMPLETE.replace("count = 10", "counts = 10").replace("limit = 20", "limit = true")
    error = error_of(tmp_path, text)
    assert [problem.split(": ", 1)[1].split(" ")[0] for problem in error.problems] == ["unknown", '"limit"']
    assert error.line == 6 and str(error).count("\n") == 1


def test_not_toml(tmp_path: Path) -> None:
    error = error_of(tmp_path, MINIMAL + "count = \n")
    assert error.line == 3 and "not valid TOML" in error.message and "line" not in error.message
    assert error_of(tmp_path, MINIMAL + "count = 1\ncount = 2\n").line is not None
    assert error_of(tmp_path, MINIMAL.encode() + "k = '半'".encode("gbk")).line == 3
    with pytest.raises(TaskError, match="cannot be read"):
        load_task(tmp_path / "none.toml")
    with pytest.raises(TaskError, match="cannot be read"):
        load_task(tmp_path)


def test_options_make_a_new_task(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    task = load_task(put(tmp_path, COMPLETE.replace("min_count = 0", "min_count = 5")))
    assert with_options(task) == task
    changed = with_options(
        task, library="lib", device="S", deadline_s=60.0, quota_limit=0, count=2, lang="en", profile="p.toml"
    )
    assert changed.library_path == tmp_path / "lib" and changed.device == "S" and changed.lang == "en"
    assert (changed.deadline_s, changed.quota.limit, changed.count, changed.min_count) == (60.0, 0, 2, 2)
    assert changed.profile == "p.toml" and task.count == 10 and task.quota.limit == 20
    (tmp_path / "p.toml").touch()
    assert with_options(task, profile="p.toml").profile == str(tmp_path / "p.toml")


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"quota_limit": 21}, "--quota-limit 21: may only lower the task's limit 20"),
        ({"quota_limit": -1}, "--quota-limit: "),
        ({"count": 0}, "--count: "),
        ({"deadline_s": -5.0}, "--deadline: "),
        ({"lang": "fr"}, "--lang: "),
        ({"library": ""}, "--library: "),
    ],
)
def test_options_follow_the_same_rules(options: dict[str, object], words: str) -> None:
    with pytest.raises(TaskError) as caught:
        with_options(Task.embedded(), **options)  # type: ignore[arg-type]
    assert str(caught.value).startswith(words) and caught.value.line is None
