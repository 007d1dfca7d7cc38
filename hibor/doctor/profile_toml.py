"""A profile as TOML text, the opposite of `hibor.device.profile.parse_profile`.

Rules of this file: what has its default is left out; sections are tables, everything inside them is written
in line; comments are the caller's and stand above the section they are about.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import attrs

from hibor.device.profile_types import Profile

_NOT_KEYS = ("source", "sha256")


def profile_toml(profile: Profile, comments: Mapping[str, str] | None = None) -> str:
    """The file's text; `comments` by section, the key "" for the top."""
    notes = comments or {}
    values = plain(profile)
    lines = [f"# {line}" for line in notes.get("", "").splitlines()]
    tables: list[tuple[str, Any]] = []
    for key, value in values.items():
        if isinstance(value, dict):
            tables.append((key, value))
        elif isinstance(value, list) and value and isinstance(value[0], dict):
            tables.extend((key, one) for one in value)
        else:
            lines.append(f"{key} = {inline(value)}")
    for name, table in tables:
        header = f"[[{name}]]" if isinstance(values[name], list) else f"[{name}]"
        lines += ["", *(f"# {line}" for line in notes.get(name, "").splitlines()), header]
        lines += [f"{key} = {inline(value)}" for key, value in table.items()]
    return "\n".join(lines) + "\n"


def section_toml(name: str, section: Any) -> str:
    """One section alone."""
    lines = [f"[{name}]", *(f"{key} = {inline(value)}" for key, value in plain(section).items())]
    return "\n".join(lines) + "\n"


def plain(value: Any) -> Any:
    """attrs values as dicts and lists, without what has its default."""
    if isinstance(value, tuple):
        return [plain(one) for one in value]
    if not attrs.has(type(value)):
        return value
    kept: dict[str, Any] = {}
    for field in attrs.fields(type(value)):
        own = getattr(value, field.name)
        if own is None or (isinstance(value, Profile) and field.name in _NOT_KEYS):
            continue
        if field.default is not attrs.NOTHING and own == field.default:
            continue
        kept[field.name] = plain(own)
    return kept


def inline(value: Any) -> str:
    """One value in TOML's inline form."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, (int, float)):
        return repr(value)
    if isinstance(value, str):
        literal = "\\" in value and "'" not in value and value.isprintable()
        return f"'{value}'" if literal else json.dumps(value, ensure_ascii=False)
    if isinstance(value, list):
        return "[" + ", ".join(inline(one) for one in value) + "]"
    return "{ " + ", ".join(f"{key} = {inline(one)}" for key, one in value.items()) + " }"
