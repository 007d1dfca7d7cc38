"""What the README tells a stranger is so: commands, exit codes, and the example of a contract change."""

from __future__ import annotations

import importlib
import re
import shlex
from pathlib import Path

import click
import pytest

from generated.governance import RUN_STATUSES
from hibor.cli import COMMANDS
from hibor.messages import LANGS, text
from hibor.people.commandline import Words
from tests.tools.spec_copy import ROOT, copy_spec
from tools.compile.__main__ import main as compile_spec
from tools.diff.__main__ import main as diff

README = (ROOT / "README.md").read_text("utf-8")


def calls() -> list[tuple[str, list[str]]]:
    """(command, arguments) of every `hibor …` the README shows."""
    shown = re.findall(r"`(hibor [^`\n]+)`", README)
    for block in re.findall(r"```sh\n(.*?)```", README, re.DOTALL):
        shown += [line for line in block.splitlines() if line.startswith("hibor ")]
    found = []
    for line in shown:
        words = shlex.split(line.split("&")[0].split(">")[0], comments=True)
        found.append((words[1], words[2:]))
    return found


def test_every_command_and_option_shown_exists() -> None:
    assert len(calls()) > 40
    for name, arguments in calls():
        if name.startswith("--"):
            continue
        assert name in COMMANDS, name
        command: click.Command = importlib.import_module(COMMANDS[name]).build(Words("en"))
        rest = list(arguments)
        if isinstance(command, click.Group):
            assert rest[0] in command.commands, (name, rest)
            command = command.commands[rest.pop(0)]
        options = {option for parameter in command.params for option in parameter.opts} | {"--help", "--lang"}
        assert {word for word in rest if word.startswith("--")} <= options, (name, rest)


@pytest.mark.parametrize("lang", LANGS)
def test_exit_codes_are_those_of_help(lang: str) -> None:
    """One source: the contract's codes and the catalogue's sentences."""
    for status, code, _when, _meaning in RUN_STATUSES:
        assert f"| {code} | `{status}` | {text(lang, f'statuses.{status}.what')} |" in README


def test_example_of_a_contract_change_is_so(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The README's words, done in a copy: one line changed, compiled, compared; then a misspelt code."""
    (changed,) = set(re.findall(r"- (\{code: UI_ANCHOR_DRIFT, at: \d\})", README))
    spec = copy_spec(tmp_path)
    line = spec.change("governance", "{code: UI_ANCHOR_DRIFT, at: 2}", changed)
    generated = tmp_path / "generated"
    for source in sorted((ROOT / "generated").glob("*.py")):
        generated.mkdir(exist_ok=True)
        (generated / source.name).write_bytes(source.read_bytes())
    words = ["--spec", str(spec.folder), "--out", str(generated)]
    assert compile_spec(words) == 0
    assert README.count(capsys.readouterr().out.strip()) == 2
    assert diff([str(ROOT / "spec"), str(spec.folder)]) == 1
    told = capsys.readouterr().out.strip()
    assert README.count(told.splitlines()[-1].strip()) == 2
    spec.change("governance", changed, changed.replace("DRIFT", "DRIFTT"))
    assert compile_spec(words) != 0
    fault = f"spec/governance.yaml:{line} UI_ANCHOR_DRIFTT: unknown code"
    assert fault in "".join(capsys.readouterr()) and README.count(fault) == 2


def test_the_line_that_the_killed_run_waits_for_is_what_a_run_says() -> None:
    """Both languages wait for the same words, and a run in either language says them."""
    (waited_for,) = set(re.findall(r"until grep -q '([^']+)' run\.log", README))
    assert len(re.findall(r"until grep -q", README)) == 2
    for lang in LANGS:
        begun = text(lang, "progress.item_begins", index=7, source="NEW_TRIGGER", title="研报")
        assert waited_for in f"[ 522 s] {begun}"
