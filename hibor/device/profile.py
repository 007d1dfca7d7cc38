"""Loading app profiles: strict TOML to `Profile`, with file and line for every fault (design 5, "App
profile").

Rules of this file: an unknown key, a wrong type, a bad regular expression or a broken rule is a fault, and
all faults are told at once; nothing is coerced (`"3"` is no number). What the keys mean is said field by
field in `profile_types`, which is the documentation for whoever writes a profile.
"""

from __future__ import annotations

import hashlib
import re
import tomllib
from collections.abc import Iterator
from importlib import resources
from pathlib import Path
from typing import Any, Final

import attrs
import cattrs
from cattrs.errors import ClassValidationError, ForbiddenExtraKeysError, IterableValidationError

from hibor.device.profile_types import Profile
from hibor.reading import read_named
from hibor.toml_lines import Place, key_lines

__all__ = [
    "Profile",
    "ProfileError",
    "find_shipped",
    "load_profile",
    "parse_profile",
    "profile_sha256",
    "shipped_profiles",
]

SCHEMA_VERSION: Final = 1


class ProfileError(Exception):
    """The profile cannot be used. `faults` are lines `file:line key: what is wrong`."""

    def __init__(self, faults: tuple[str, ...]) -> None:
        self.faults = faults
        super().__init__("\n".join(faults))


def _exact(kind: type) -> Any:
    """cattrs would turn "3" into 3; here a wrong type is a fault."""

    def check(value: object, _: object) -> object:
        if kind is float and type(value) is int:
            return float(value)
        if type(value) is not kind:
            raise TypeError(f"must be {kind.__name__}, not {type(value).__name__}")
        return value

    return check


def _converter() -> cattrs.Converter:
    converter = cattrs.Converter(forbid_extra_keys=True)
    for kind in (str, int, float, bool):
        converter.register_structure_hook(kind, _exact(kind))
    return converter


def _faults(error: BaseException, path: Place) -> Iterator[tuple[Place, str]]:
    """The leaves of cattrs' error tree, each with the path of the key it is about."""
    if isinstance(error, ClassValidationError):
        noted, bare = error.group_exceptions()
        for inner, note in noted:
            yield from _faults(inner, (*path, note.name))
        for inner in bare:
            yield from _faults(inner, path)
    elif isinstance(error, IterableValidationError):
        listed, bare_items = error.group_exceptions()
        for inner, place in listed:
            yield from _faults(inner, (*path, place.index))
        for inner in bare_items:
            yield from _faults(inner, path)
    elif isinstance(error, ForbiddenExtraKeysError):
        for key in sorted(error.extra_fields):
            yield (*path, key), "unknown key"
    elif isinstance(error, KeyError):
        key = str(error.args[0])
        yield (path if path and path[-1] == key else (*path, key)), "is missing"
    else:
        yield path, str(error) or type(error).__name__


def _line(lines: dict[Place, int], path: Place) -> int:
    """The line of a key, or of the nearest thing around it that has one."""
    return next((lines[path[:end]] for end in range(len(path), 0, -1) if path[:end] in lines), 1)


def _dotted(path: Place) -> str:
    text = ""
    for part in path:
        text += f"[{part}]" if isinstance(part, int) else f".{part}"
    return text.lstrip(".") or "(document)"


def parse_profile(data: bytes, source: str) -> Profile:
    """TOML bytes → profile. Raises `ProfileError` with every fault as `source:line key: message`."""
    try:
        text = data.decode("utf-8-sig")
        raw = tomllib.loads(text)
    except (UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        found = re.search(r"line (\d+)", str(error))
        raise ProfileError((f"{source}:{found.group(1) if found else 1} not TOML: {error}",)) from error
    lines = key_lines(text)
    faults: list[tuple[Place, str]] = [((key,), "unknown key") for key in ("source", "sha256") if key in raw]
    version = raw.get("schema_version")
    if version != SCHEMA_VERSION or type(version) is not int:
        faults.append((("schema_version",), f"must be {SCHEMA_VERSION}"))
    profile: Profile | None = None
    try:
        profile = _converter().structure(raw, Profile)
    except (ClassValidationError, IterableValidationError) as error:
        faults.extend(_faults(error, ()))
    if faults or profile is None:
        ordered = sorted((_line(lines, path), _dotted(path), said) for path, said in faults)
        raise ProfileError(tuple(f"{source}:{number} {key}: {said}" for number, key, said in ordered))
    return attrs.evolve(profile, source=source, sha256=hashlib.sha256(data).hexdigest())


def shipped_profiles() -> tuple[str, ...]:
    """Names of the profiles that come with the program."""
    folder = resources.files("hibor").joinpath("profiles")
    return tuple(sorted(f.name[: -len(".toml")] for f in folder.iterdir() if f.name.endswith(".toml")))


def _read(path_or_name: str | Path) -> tuple[bytes, str]:
    text = str(path_or_name)
    if isinstance(path_or_name, str) and text in shipped_profiles():
        return resources.files("hibor").joinpath("profiles", f"{text}.toml").read_bytes(), f"{text}.toml"
    try:
        return read_named(Path(path_or_name)), Path(path_or_name).name
    except OSError as error:
        known = ", ".join(shipped_profiles())
        raise ProfileError((f"{text}:1 cannot be read ({error.strerror}); shipped: {known}",)) from error


def load_profile(path_or_name: str | Path) -> Profile:
    """A file, or the name of a shipped profile. Raises `ProfileError`."""
    return parse_profile(*_read(path_or_name))


def profile_sha256(path_or_name: str | Path) -> str:
    """sha256 of the profile's bytes, lower-case hex."""
    return hashlib.sha256(_read(path_or_name)[0]).hexdigest()


def find_shipped(package: str, version_name: str) -> Profile | None:
    """The shipped profile for this app version, else any for the package, else None."""
    profiles = [p for p in map(load_profile, shipped_profiles()) if p.app.package == package]
    exact = [p for p in profiles if p.supports(version_name)]
    best = exact or profiles
    return best[0] if best else None
