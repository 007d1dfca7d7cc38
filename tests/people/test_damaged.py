"""A library whose files are not what they should be: every command says which, and none shows a traceback."""

from __future__ import annotations

import pytest

from hibor.cli import main
from tests.people.conftest import Ask, Told

COMMANDS = (
    ("package", "--zip", "{folder}/x.zip"),
    ("library", "verify"),
    ("ledger", "audit", "--account", "simulated"),
    ("quota",),
    ("find", "行业"),
)


@pytest.mark.parametrize("lang, words", [("en", "cannot be used"), ("zh", "不能使用")])
def test_a_folder_where_the_manifest_should_be_is_told(own: Told, ask: Ask, lang: str, words: str) -> None:
    manifest = own.library.manifest
    manifest.unlink()
    manifest.mkdir()
    for command in COMMANDS:
        given = [part.format(folder=own.path.parent) for part in command]
        code, _out, said = ask(main, *given, "--library", own.path, "--lang", lang)
        assert code == 1, command
        assert words in said and "manifest.jsonl" in said
