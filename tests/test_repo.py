"""The house rules hold for every tracked file, and everything the README, the spec and the messages name is
there.

A rule that cannot fail is worthless: `test_rules_find_what_they_forbid` gives each of them a file that
breaks it.
"""

from __future__ import annotations

import ast
import importlib
import importlib.util
import os
import re
import shlex
import string
import subprocess
import sys
import tomllib
from collections.abc import Callable, Iterable

import pytest

import fsm
from generated.edges import EDGES
from generated.governance import ERROR_EXITS, RUN_STATUSES
from generated.steps import STEPS
from hibor.items.effects import STEPS as ACTIONS
from tests.house_rules import (
    FILE_LINES,
    FUNCTION_LINES,
    ROOT,
    RULES,
    RUN_TIME,
    TOP_LEVEL,
    Finding,
    Source,
    top,
    tracked,
)


@pytest.fixture(scope="module")
def sources() -> list[Source]:
    paths = [path for path in tracked() if path.suffix == ".py"]
    return [Source(path.relative_to(ROOT).as_posix(), path.read_text("utf-8")) for path in paths]


# -- rules -----------------------------------------------------------------------------------------------


BREAKERS: dict[str, list[tuple[str, str]]] = {
    "every_file_parses": [("hibor/a.py", "x = (")],
    "fsm_is_pure": [
        ("fsm/a.py", "from hibor import item"),
        ("fsm/a.py", "import time"),
        ("fsm/a.py", "open('x')"),
    ],
    "generated_imports_nothing": [("generated/a.py", "import attrs")],
    "only_adb_imports_adbutils": [("hibor/items/item.py", "def f():\n    from adbutils import adb")],
    "only_pdf_imports_pymupdf": [
        ("hibor/items/item.py", "import pymupdf"),
        ("hibor/sim/app.py", "import fitz"),
    ],
    "only_the_composition_root_imports_sim": [
        ("hibor/items/item.py", "from hibor import sim"),
        ("hibor/items/item.py", "import hibor.sim.app"),
    ],
    "run_time_code_never_imports_tools": [
        ("fsm/a.py", "import tools.compile"),
        ("hibor/a.py", "from tools import x"),
    ],
    "compile_works_when_all_else_is_broken": [("tools/compile/a.py", "from generated.steps import STEPS")],
    "only_durable_changes_the_disk": [
        ("hibor/a.py", "p.write_text('x')"),
        ("hibor/a.py", "os.replace(a, b)"),
        ("hibor/a.py", "open(p, 'w')"),
        ("hibor/a.py", "p.open('ab')"),
        ("hibor/a.py", "p.open(mode='r+b')"),
        ("hibor/a.py", "shutil.rmtree(p)"),
        ("hibor/a.py", "os.fsync(3)"),
        ("hibor/a.py", "p.unlink()"),
    ],
    "only_reading_opens_files": [
        ("hibor/a.py", "p.read_bytes()"),
        ("hibor/a.py", "p.read_text('utf-8')"),
        ("hibor/a.py", "open(p, 'rb')"),
        ("hibor/a.py", "p.open('rb')"),
    ],
    "only_the_clock_reads_the_time": [
        ("hibor/a.py", "time.sleep(1)"),
        ("hibor/a.py", "x = datetime.now(UTC)"),
    ],
    "files_are_short": [("tests/a.py", "\n" * (FILE_LINES + 1))],
    "functions_are_short": [("tests/a.py", "def f():\n" + "    x = 1\n" * FUNCTION_LINES)],
    "modules_state_their_rules": [("hibor/a.py", "x = 1")],
    "contract_names_live_in_spec": [
        ("hibor/a.py", "x = 'LOCK_TIMEOUT'"),
        ("tools/a.py", "x = f'at P00_INIT {y}'"),
    ],
}


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.__name__)
def test_house_rule(rule: Callable[[Source], Iterable[Finding]], sources: list[Source]) -> None:
    assert [finding for source in sources for finding in rule(source)] == []


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.__name__)
def test_rules_find_what_they_forbid(rule: Callable[[Source], Iterable[Finding]]) -> None:
    for name, text in BREAKERS[rule.__name__]:
        assert list(rule(Source(name, text))), (name, text)


def test_rules_see_every_package(sources: list[Source]) -> None:
    """A tree that is looked for in the wrong place is always clean."""
    for folder in ("fsm", "generated", "hibor", "hibor/sim", "hibor/device", "tools/compile", "tests"):
        assert any(source.inside(folder) for source in sources), folder


# -- steps -----------------------------------------------------------------------------------------------


def step_names(sources: list[Source]) -> dict[str, Finding]:
    """Every step name code hands to a durable operation, or lists as one, with a place where it does."""
    found: dict[str, Finding] = {}
    shape = re.compile(r"[a-z]+(_[a-z]+)?\.[a-z]+(_[a-z]+)?")
    for source in sources:
        if not source.inside("hibor") or source.inside("hibor/sim"):
            continue
        for node in ast.walk(source.tree):
            values: list[ast.expr] = []
            if isinstance(node, ast.keyword) and node.arg in ("step", "steps"):
                values = [node.value]
            elif isinstance(node, (ast.Assign, ast.AnnAssign)) and node.value is not None:
                target = node.targets[0] if isinstance(node, ast.Assign) else node.target
                named = isinstance(target, ast.Name) and "step" in target.id.lower()
                values = [node.value] if named else []
            for value in values:
                for part in ast.walk(value):
                    if (
                        isinstance(part, ast.Constant)
                        and isinstance(part.value, str)
                        and shape.fullmatch(part.value)
                    ):
                        found.setdefault(part.value, source.says(part, part.value))
    return found


def test_every_step_name_in_code_is_registered(sources: list[Source]) -> None:
    found = step_names(sources)
    assert len(found) > 20  # the search itself works
    assert [place for name, place in sorted(found.items()) if name not in STEPS] == []


def test_every_registered_step_is_used(sources: list[Source]) -> None:
    assert sorted(set(STEPS) - set(step_names(sources))) == []


def test_generated_steps_are_the_authored_ones() -> None:
    text = (ROOT / "spec" / "steps.yaml").read_text("utf-8")
    assert re.findall(r"- \{step: ([a-z_.]+),", text) == list(STEPS)


def test_item_steps_have_their_action() -> None:
    """Every step an edge names can be done, and nothing can be done that no edge or no other effect names."""
    on_edges = {name for edge in EDGES for name in edge[-1]}
    assert on_edges - set(ACTIONS) == set()
    assert set(ACTIONS) <= set(STEPS)


# -- messages --------------------------------------------------------------------------------------------


def flat(table: dict[str, object], prefix: str = "") -> dict[str, str]:
    found: dict[str, str] = {}
    for key, value in table.items():
        name = f"{prefix}{key}"
        found |= flat(value, f"{name}.") if isinstance(value, dict) else {name: str(value)}
    return found


def catalogue(lang: str) -> dict[str, str]:
    return flat(tomllib.loads((ROOT / "hibor" / "messages" / f"{lang}.toml").read_text("utf-8")))


def fields(text: str) -> set[str]:
    return {name for _text, name, _spec, _conversion in string.Formatter().parse(text) if name is not None}


def test_both_languages_have_the_same_messages_with_the_same_fields() -> None:
    zh, en = catalogue("zh"), catalogue("en")
    assert list(zh) == list(en)
    assert {key: fields(text) for key, text in zh.items()} == {key: fields(text) for key, text in en.items()}


def test_chinese_messages_are_chinese() -> None:
    english = catalogue("en")
    same = [
        key
        for key, text in catalogue("zh").items()
        if text == english[key] and re.search(r"[a-z]{4} [a-z]", text)
    ]
    assert same == []


def test_progress_keys_exist(sources: list[Source]) -> None:
    known = {key.split(".", 1)[1] for key in catalogue("en") if key.startswith("progress.")}
    live = tomllib.loads((ROOT / "hibor" / "messages" / "live.en.toml").read_text("utf-8"))
    known |= {f"doing {key}" for key in live["live"]["doing"]}
    used: dict[str, Finding] = {}
    for source in sources:
        for node in ast.walk(source.tree) if source.inside("hibor") else ():
            if not (isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.args):
                continue
            owner = ast.unparse(node.func.value)
            first = node.args[0]
            if (
                owner.endswith("progress")
                and isinstance(first, ast.Constant)
                and isinstance(first.value, str)
            ):
                key = f"doing {first.value}" if node.func.attr == "doing" else first.value
                used.setdefault(key, source.says(node, key))
    assert len(used) > 10
    assert [place for key, place in sorted(used.items()) if key not in known] == []


# -- errors ----------------------------------------------------------------------------------------------


def test_exit_codes_are_unique() -> None:
    codes = [exit_code for _status, exit_code, _when, _meaning in RUN_STATUSES]
    assert len(codes) == len(set(codes)) == 11
    errors = {error.__name__: error.exit_code for error in fsm.FsmError.__subclasses__()}
    assert errors == dict(ERROR_EXITS) == {"ContractError": 26, "StateUncertain": 27}


# -- README ----------------------------------------------------------------------------------------------

README = ROOT / "README.md"
MODULE_CALL = re.compile(r"python3? -m ([a-z_.]+)((?: [^\n`&|;#]+)?)")


def readme_calls() -> list[tuple[str, list[str]]]:
    """(module, arguments) of every `python -m …` the README shows."""
    text = README.read_text("utf-8").replace("-->", "")
    return [(module, shlex.split(rest)) for module, rest in MODULE_CALL.findall(text)]


def test_readme_commands_exist() -> None:
    modules = {module for module, _arguments in readme_calls()}
    assert {"hibor.run", "pytest", "tools.compile"} <= modules
    missing = [name for name in sorted(modules) if importlib.util.find_spec(runnable(name)) is None]
    assert missing == []


def runnable(module: str) -> str:
    """The module `python -m` would run: a package's `__main__`."""
    found = importlib.util.find_spec(module)
    is_own_package = (
        found is not None and found.submodule_search_locations and top(module) in (*RUN_TIME, "tools")
    )
    return f"{module}.__main__" if is_own_package else module


def help_of(*command: str) -> str:
    """What `python -m <command> --help` prints."""
    return subprocess.run(
        [sys.executable, "-m", *command, "--help"],
        cwd=ROOT,
        capture_output=True,
        timeout=60,
        check=True,
        env={**os.environ, "PYTHONPATH": str(ROOT), "PYTHONUTF8": "1"},
    ).stdout.decode()


def test_readme_options_exist() -> None:
    """Every `--option` the README shows is in the help of the command, or sub-command, it stands behind."""
    wanted: dict[tuple[str, ...], set[str]] = {}
    for module, arguments in readme_calls():
        if top(module) in (*RUN_TIME, "tools"):
            options = {word.split("=")[0] for word in arguments if word.startswith("--")}
            first = tuple(word for word in arguments[:1] if word.isalpha())
            grouped = bool(first) and re.search(rf"^  {first[0]}\s", help_of(module), re.MULTILINE)
            wanted.setdefault((module, *(first if grouped else ())), set()).update(options)
    for command, options in wanted.items():
        if options and importlib.util.find_spec(runnable(command[0])) is not None:
            help_text = help_of(*command)
            assert sorted(option for option in options if option not in help_text) == [], command


def test_readme_extras_exist() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    used = re.findall(r"-e '?\.\[([a-z,]+)\]", README.read_text("utf-8"))
    assert used and {extra for group in used for extra in group.split(",")} <= set(
        project["optional-dependencies"]
    )


def test_readme_has_the_two_commands_and_ci_runs_the_second() -> None:
    blocks = [block.strip() for block in re.findall(r"```sh\n(.*?)```", README.read_text("utf-8"), re.DOTALL)]
    assert len({block for block in blocks if block.endswith("-m hibor.run")}) == 1  # in both languages
    (tests_command,) = {block for block in blocks if block.endswith("-m pytest")}
    assert tests_command in (ROOT / ".ci" / "run").read_text("utf-8")


def test_readme_lists_the_exit_codes() -> None:
    text = README.read_text("utf-8")
    for status, exit_code, _when, _meaning in RUN_STATUSES:
        assert re.search(rf"\| {exit_code} \| `{status}` \|", text), status


def test_console_script_exists() -> None:
    scripts = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]["scripts"]
    for target in scripts.values():
        module, _, function = target.partition(":")
        assert importlib.util.find_spec(module) is not None, target
        assert callable(getattr(importlib.import_module(module), function)), target


# -- the tree --------------------------------------------------------------------------------------------


def test_top_level_is_exactly_the_listed_one() -> None:
    found = {path.relative_to(ROOT).parts[0] for path in tracked()}
    assert {name for name in found if not name.startswith(".")} == TOP_LEVEL


MACHINE_PATHS = [
    re.compile(pattern)
    for pattern in (r"/work" + r"/(main|shared|\.library)", r"/ro" + r"ot/", r"/tmp" + r"/(brief|bash_jobs)")
]


def test_no_tracked_file_names_a_path_of_this_machine() -> None:
    found = []
    for path in tracked():
        for number, line in enumerate(path.read_bytes().decode("utf-8", "replace").splitlines(), 1):
            if any(pattern.search(line) for pattern in MACHINE_PATHS):
                found.append(f"{path.relative_to(ROOT).as_posix()}:{number} {line.strip()[:80]}")
    assert found == []


def test_every_package_folder_is_a_package(sources: list[Source]) -> None:
    names = {source.name for source in sources}
    folders = {name.rsplit("/", 1)[0] for name in names if "/" in name}
    assert sorted(folder for folder in folders if f"{folder}/__init__.py" not in names) == []


def test_licence_and_python_version_are_declared() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    assert project["license"] == "AGPL-3.0-or-later" and project["requires-python"] == ">=3.11"
    assert "AGPL-3.0-or-later" in README.read_text("utf-8")
    assert {"spec", "test", "farm", "tasklite", "dev"} <= set(project["optional-dependencies"])
