"""Lines of TOML keys: the scanner must know exactly the places `tomllib` reads."""

from __future__ import annotations

import tomllib
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hibor.toml_lines import Place, key_lines

TEXT = '''# comment with = and [brackets] and "quotes"
title = "a # not a comment, = no key" # comment
literal = 'C:\\dir\\'
"quoted key" = 1
long = """
key = "inside a string"
[not.a.table]
"""
raw = \'\'\'
also = "inside"''\'\'\'
[select]
keywords_any = [
    "半导体",   # first
    # a comment between
    "存储 ] , #",
    ["nested", [1, 2]],
]
dotted . "inner key" . deep = { x = 1, y = { z = [1, 2] } }
dotted.other = 2026-11-30T08:31:05+08:00
[a.b.c]
k = 1
[[phone]]
serial = "one"
[phone.usb]
port = 1
[[phone]]
serial = "two"
[[phone.app]]
name = "x"
[[phone.app]]
name = "y"
[empty]
list = []
table = {}
last = -inf'''


def places(value: Any, place: Place = ()) -> set[Place]:
    found: set[Place] = {place} if place else set()
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, inner in items:
        found |= places(inner, (*place, key))
    return found


@pytest.mark.parametrize("newline", ["\n", "\n\n"])
def test_every_place_of_the_document_and_no_other(newline: str) -> None:
    text = TEXT.replace("\n", newline)
    assert set(key_lines(text)) == places(tomllib.loads(text))


def test_the_lines_are_right() -> None:
    lines = key_lines(TEXT)
    rows = TEXT.split("\n")
    for place, start in {
        ("title",): "title",
        ("quoted key",): '"quoted key"',
        ("long",): 'long = """',
        ("raw",): "raw",
        ("select",): "[select]",
        ("select", "keywords_any", 0): '    "半导体"',
        ("select", "keywords_any", 1): '    "存储',
        ("select", "keywords_any", 2, 1): '    ["nested"',
        ("select", "dotted", "inner key", "deep", "y", "z", 1): "dotted .",
        ("select", "dotted", "other"): "dotted.other",
        ("a", "b", "c"): "[a.b.c]",
        ("last",): None,
        ("empty", "last"): "last",
    }.items():
        if start is None:
            assert place not in lines
        else:
            assert rows[lines[place] - 1].startswith(start), place
    assert rows[lines[("phone", 1, "serial")] - 1] == 'serial = "two"'
    assert rows[lines[("phone", 0, "usb", "port")] - 1] == "port = 1"
    assert rows[lines[("phone", 1, "app", 1, "name")] - 1] == 'name = "y"'


def test_quotes_at_the_end_of_long_strings() -> None:
    text = 'a = """x"""""\n'
    text += 'b = \'\'\'y\'\'\'\'\'\nc = """\\\\"""\nd = """\\""""\ne = ""\nf = \'\'\ng = ""\nh = 1'
    assert key_lines(text) == {(key,): line for line, key in enumerate(tomllib.loads(text), 1)}


SCALARS = st.one_of(
    st.text(st.characters(exclude_categories=("Cs", "Cc")), max_size=12).map(
        lambda text: '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'
    ),
    st.text("ab#=[]{},. ", max_size=8).map(lambda text: f"'{text}'"),
    st.integers().map(str),
    st.sampled_from(["true", "1.5", "nan", "2026-11-30", '"""a\n#]"""', "'''\n'\n'''"]),
)
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=3).map(lambda parts: "[ # [\n" + ",\n ".join(parts) + "\n]"),
    max_leaves=6,
)


@given(st.lists(VALUES, max_size=6))
def test_any_document(values: list[str]) -> None:
    text, expected = "", {}
    for number, value in enumerate(values):
        expected[(f"k{number}",)] = text.count("\n") + 2
        text += f"\nk{number} = {value} # tail\n"
    lines = key_lines(text)
    assert set(lines) == places(tomllib.loads(text))
    assert {place: line for place, line in lines.items() if len(place) == 1} == expected
