"""What a package's own tests expect of the PDF files it carries, read from their source.

Rules of this file: the tests are parsed, never run or imported. A file counts as named by a test where its
name stands in the test, in its decorators, or in a constant of some module that the test (or its decorator)
uses. A test that names it and expects an exception (`raises`) is one view, one that gives a password
another, a plain one a third; what a file is to the package follows from all of them.
"""

from __future__ import annotations

import ast
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator
from pathlib import Path

import attrs

READ, LOCKED, REFUSED, BOTH, UNNAMED = "read", "needs a key", "refused", "read and refused", "not named"
_KEYS = re.compile(r"decrypt|password|encrypt|credential", re.IGNORECASE)
_TEST_FILE = re.compile(r"test", re.IGNORECASE)


@attrs.frozen
class View:
    """What the package makes of a file, and the tests it says so in (`file::test`)."""

    kind: str
    tests: tuple[str, ...] = ()


@attrs.frozen
class _Test:
    name: str
    raises: bool
    keys: bool
    words: frozenset[str]


def views_of(names: Iterable[str], folder: Path) -> dict[str, View]:
    """The view of each file name by the tests below `folder`."""
    trees = dict(_modules(folder))
    constants: dict[str, set[str]] = defaultdict(set)
    for tree in trees.values():
        for name, words in _constants(tree):
            constants[name] |= words
    tests = [
        _told(function, f"{path.name}::{function.name}", constants)
        for path, tree in trees.items()
        for function in ast.walk(tree)
        if isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef) and function.name.startswith("test")
    ]
    return {name: _view(name, [one for one in tests if _names(one.words, name)]) for name in names}


def _modules(folder: Path) -> Iterator[tuple[Path, ast.Module]]:
    for path in sorted(folder.rglob("*.py")):
        if not _TEST_FILE.search(path.relative_to(folder).as_posix()):
            continue
        try:
            yield path, ast.parse(path.read_text(encoding="utf-8"))
        except (SyntaxError, UnicodeDecodeError):
            continue


def _constants(tree: ast.Module) -> Iterator[tuple[str, set[str]]]:
    """Module-level names that stand for a file, with the texts they are made of."""
    for statement in tree.body:
        targets = statement.targets if isinstance(statement, ast.Assign) else []
        for target in targets:
            words = {word for word in _texts(statement) if word.lower().endswith(".pdf")}
            if isinstance(target, ast.Name) and words:
                yield target.id, words


def _texts(node: ast.AST) -> set[str]:
    constants = (part.value for part in ast.walk(node) if isinstance(part, ast.Constant))
    return {value for value in constants if isinstance(value, str)}


def _told(
    function: ast.FunctionDef | ast.AsyncFunctionDef, name: str, constants: dict[str, set[str]]
) -> _Test:
    used = {part.id for part in ast.walk(function) if isinstance(part, ast.Name)}
    used |= {part.attr for part in ast.walk(function) if isinstance(part, ast.Attribute)}
    words = _texts(function).union(*(constants[one] for one in used if one in constants))
    keys = any(_KEYS.search(one) for one in (*used, *_keywords(function)))
    return _Test(name, "raises" in used, keys, frozenset(words))


def _keywords(function: ast.AST) -> Iterator[str]:
    for part in ast.walk(function):
        if isinstance(part, ast.keyword) and part.arg:
            yield part.arg


def _names(words: frozenset[str], name: str) -> bool:
    return any(word == name or word.endswith("/" + name) for word in words)


def _view(name: str, tests: list[_Test]) -> View:
    if not tests:
        return View(UNNAMED)
    told = tuple(one.name for one in tests)
    if all(one.keys for one in tests):
        return View(LOCKED, told)
    refusing = [one for one in tests if one.raises]
    if not refusing:
        return View(READ, told)
    return View(REFUSED if len(refusing) == len(tests) else BOTH, told)
