"""The task file: what a person asks the collector to do (design 9 "task.toml").

Rules of this file:

* Strict: an unknown key, a wrong type and a value out of range are errors that name file and line, all of
  them at once. A typing mistake must not silently widen what is downloaded.
* A `Task` is a frozen value. Options of the command line make a new one (`with_options`), under the same
  rules; `--quota-limit` can only lower what the file allows.
* Nothing here reads the clock, the phone or the library.
* Names relative to nothing are relative to the task file's folder, so a task can be moved with its library.
"""

from __future__ import annotations

import difflib
import math
import os
import re
import tomllib
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, Final, Literal, get_type_hints

import attrs
import cattrs
from cattrs.errors import ForbiddenExtraKeysError

from hibor.limits import MOST_DAYS, MOST_REPORTS, MOST_SECONDS
from hibor.messages import default_lang
from hibor.package.names import safe_component
from hibor.reading import read_named
from hibor.toml_lines import Place, key_lines

Lang = Literal["zh", "en"]
Reuse = Literal["allow", "only", "never"]

_DRIVE: Final = re.compile(r"[A-Za-z]:[/\\]")
SPACING_MIN_S: Final = 8.0
"""Seconds between two triggers; a task may raise it, never lower it (design 1 "Guard rails")."""

EMBEDDED_ACCOUNT: Final = "simulated"


class TaskError(Exception):
    """The task cannot be used; a person corrects it.

    `path` and `line` (from 1) say where, None where there is no such place (an option); `message` is the
    first problem and `problems` all of them, in the order of the file.
    """

    def __init__(
        self, path: str | None, line: int | None, message: str, problems: Iterable[str] | None = None
    ) -> None:
        self.path, self.line, self.message = path, line, message
        self.problems = tuple(problems) if problems is not None else (_placed(path, line, message),)
        super().__init__("\n".join(self.problems))


@attrs.frozen(kw_only=True)
class Select:
    """Which reports: any of the keywords and none of the others in the title, and so on; empty means all.

    `since_days` is also the discovery horizon; `pages_min` 0 accepts any length.
    """

    keywords_any: tuple[str, ...] = ()
    keywords_not: tuple[str, ...] = ()
    institutions: tuple[str, ...] = ()
    since_days: int = 3
    report_ids: tuple[str, ...] = ()
    pages_min: int = 0


@attrs.frozen(kw_only=True)
class QuotaTask:
    """Downloads a day the ledger may reach, NEW items a run may open, seconds between two triggers."""

    limit: int = 20
    new_max: int = 6
    spacing_s: float = SPACING_MIN_S


@attrs.frozen(kw_only=True)
class Policy:
    """Reuse of files that exist, owner-only encryption (R30), screen kept on, where the ledgers are."""

    reuse: Reuse = "allow"
    accept_restricted: bool = True
    keep_awake: bool = False
    ledger_dir: str = ""


@attrs.frozen(kw_only=True)
class Task:
    """One task, complete and in range.

    `source` is the file it came from and `as_read` its bytes, None for the embedded default; `names_lang`:
    the file chose the language.
    """

    library: str
    account: str
    device: str | None = None
    profile: str | None = None
    deadline_s: float = 600.0
    count: int = 10
    min_count: int = 0
    lang: Lang = "zh"
    select: Select = Select()
    quota: QuotaTask = QuotaTask()
    policy: Policy = Policy()
    source: Path | None = None
    as_read: bytes | None = attrs.field(default=None, repr=False, eq=False)
    names_lang: bool = attrs.field(default=False, repr=False, eq=False)

    @classmethod
    def embedded(cls, library: Path | str = "hibor-library") -> Task:
        """The task of a run without arguments: the 6 + 4 package on the simulated phone."""
        return cls(library=str(library), account=EMBEDDED_ACCOUNT)

    def spoken(self, option: str | None) -> str:
        """The language to tell its readers: the option's, else the file's, else the system's."""
        return option or (self.lang if self.names_lang else default_lang())

    @property
    def base(self) -> Path:
        """The folder relative names start from: the task file's, else the working folder."""
        return self.source.parent if self.source is not None else Path.cwd()

    @property
    def library_path(self) -> Path:
        """The library folder."""
        return self.base / expanded(self.library)

    @property
    def ledger_path(self) -> Path:
        """The folder that holds one ledger folder per account (design 4: default `<library>/quota`)."""
        if not self.policy.ledger_dir:
            return self.library_path / "quota"
        return self.base / expanded(self.policy.ledger_dir)


def expanded(path: Path | str) -> Path:
    """A path with `~` and `~user` filled in. Raises `ValueError` where there is no such home."""
    try:
        return Path(path).expanduser()
    except RuntimeError as error:
        raise ValueError(f"{path}: there is no such user's home folder here") from error


def load_task(path: Path | str) -> Task:
    """Read and check a task file. Raises `TaskError` with file and line."""
    path = Path(path)
    name = str(path)
    data = _read(path, name)
    text = _text(data, name)
    try:
        values = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        found = re.search(r"\(at line (\d+), column (\d+)\)", str(error))
        line = int(found.group(1)) if found else text.count("\n") + 1
        message = re.sub(r"\s*\(at [^)]*\)$", "", str(error))
        raise TaskError(name, line, f"not valid TOML: {message}") from error
    except ValueError as error:  # a number with more digits than Python reads
        raise TaskError(name, None, f"not valid TOML: {error}") from error
    lines = key_lines(text)
    problems = _shape_problems(values)
    task: Task | None = None
    if not problems:
        try:
            structured: Task = _CONVERTER.structure(values, Task)
        except (cattrs.BaseValidationError, ForbiddenExtraKeysError) as error:
            raise TaskError(name, None, "; ".join(cattrs.transform_error(error))) from error
        named = "lang" in values
        task = attrs.evolve(structured, source=path.absolute(), as_read=data, names_lang=named)
        problems = list(_range_problems(task))
    if problems or task is None:
        raise _located(name, lines, problems)
    return task


def with_options(
    task: Task,
    *,
    library: str | None = None,
    device: str | None = None,
    profile: str | None = None,
    deadline_s: float | None = None,
    quota_limit: int | None = None,
    count: int | None = None,
    lang: str | None = None,
) -> Task:
    """The task with the command line's options put over it; None leaves the file's value.

    A library, device or profile given as an option is used as written (relative to the working folder).
    `count` below the file's `min_count` lowers that too. Raises `TaskError` naming the option.
    """
    changes: dict[str, Any] = {"deadline_s": deadline_s, "count": count, "lang": lang, "device": device}
    changes = {key: value for key, value in changes.items() if value is not None}
    if library is not None:
        try:
            changes["library"] = str(expanded(library).absolute()) if library else ""
        except ValueError as error:
            raise TaskError(None, None, f"--library: {error}") from error
    if profile is not None:
        written = Path(profile)
        changes["profile"] = str(written.absolute()) if written.is_file() else profile
    if quota_limit is not None:
        if quota_limit > task.quota.limit:
            message = f"--quota-limit {quota_limit}: may only lower the task's limit {task.quota.limit}"
            raise TaskError(None, None, message)
        changes["quota"] = attrs.evolve(task.quota, limit=quota_limit)
    if count is not None:
        changes["min_count"] = min(task.min_count, count)
    changed = attrs.evolve(task, **changes)
    for place, message in _range_problems(changed):
        raise TaskError(None, None, f"{_OPTION_OF.get(place, '.'.join(map(str, place)))}: {message}")
    return changed


def foreign_path(*paths: str | None) -> str | None:
    """The first path that only Windows understands, where this is not Windows: `D:/reports` would become a
    folder named `D:` in the working folder.
    """
    if os.name == "nt":
        return None
    return next((path for path in paths if path and _DRIVE.match(path)), None)


_OPTION_OF: Final[Mapping[Place, str]] = {
    ("library",): "--library",
    ("device",): "--device",
    ("profile",): "--profile",
    ("deadline_s",): "--deadline",
    ("count",): "--count",
    ("lang",): "--lang",
    ("quota", "limit"): "--quota-limit",
}

_Problem = tuple[Place, str]


def _placed(path: str | None, line: int | None, message: str) -> str:
    where = ":".join(str(part) for part in (path, line) if part is not None)
    return f"{where}: {message}" if where else message


def _read(path: Path, name: str) -> bytes:
    try:
        return read_named(path)
    except OSError as error:
        raise TaskError(name, None, f"cannot be read: {error.strerror or error}") from error


def _text(data: bytes, name: str) -> str:
    try:
        return data.decode("utf-8-sig").replace("\r\n", "\n")  # Notepad writes a BOM and CRLF
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        message = "not UTF-8; save the file as UTF-8 (Notepad: 另存为 → 编码 UTF-8)"
        raise TaskError(name, line, message) from error


def _located(name: str, lines: Mapping[Place, int], problems: list[_Problem]) -> TaskError:
    """The error for these problems, each with the line of the closest place that is in the file."""

    def line_of(place: Place) -> int:
        while place and place not in lines:
            place = place[:-1]
        return lines.get(place, 1)

    found = sorted((line_of(place), message) for place, message in problems)
    return TaskError(name, *found[0], (_placed(name, line, message) for line, message in found))


def error_at(task: Task, problems: list[_Problem]) -> TaskError:
    """The error for problems of a task that was read, each with the line of its key."""
    name = str(task.source)
    return _located(name, key_lines(_text(task.as_read or b"", name)), problems)


# ---- shape: keys and types ------------------------------------------------------------------------------


def _is_int(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _is_seconds(value: object) -> bool:
    if isinstance(value, int) and abs(value) > 10**15:  # too large for the arithmetic of seconds
        return False
    return _is_int(value) or isinstance(value, float)


_Check = tuple[str, Callable[[object], bool]]
_STRING: Final[_Check] = ("a string", lambda value: isinstance(value, str))
_INT: Final[_Check] = ("a whole number", _is_int)
_SECONDS: Final[_Check] = ("a number of seconds", _is_seconds)
_BOOL: Final[_Check] = ("true or false", lambda value: isinstance(value, bool))
_STRINGS: Final = "a list of strings"

_KINDS: Final[Mapping[object, _Check]] = {
    str: _STRING,
    str | None: _STRING,
    int: _INT,
    float: _SECONDS,
    bool: _BOOL,
    Lang: _STRING,
    Reuse: _STRING,
}
_TABLES: Final = (Select, QuotaTask, Policy)
NOT_IN_FILE: Final = frozenset({"source", "as_read", "names_lang"})
"""What a task knows beside the file's keys."""


def _shape_problems(data: Mapping[str, Any]) -> list[_Problem]:
    """Unknown keys, missing keys and wrong types of a parsed document."""
    problems = list(_table_problems(data, Task, ()))
    for key in ("library", "account"):
        if key not in data:
            problems.append(((), f'"{key}" is required'))
    return problems


def _table_problems(data: Mapping[str, Any], kind: type, place: Place) -> Iterable[_Problem]:
    fields = {name: wanted for name, wanted in get_type_hints(kind).items() if name not in NOT_IN_FILE}
    for key, value in data.items():
        here = (*place, key)
        if key not in fields:
            yield here, _unknown(key, fields, place)
        elif fields[key] in _TABLES:
            if isinstance(value, dict):
                yield from _table_problems(value, fields[key], here)
            else:
                yield here, f'"{key}" must be a table ([{key}]), not {_shown(value)}'
        elif fields[key] == tuple[str, ...]:
            if not isinstance(value, list):
                yield here, f'"{key}" must be {_STRINGS}, not {_shown(value)}'
                continue
            for position, element in enumerate(value):
                if not isinstance(element, str):
                    yield (*here, position), f'"{key}" must be {_STRINGS}; {_shown(element)} is not one'
        else:
            wanted, accepts = _KINDS[fields[key]]
            if not accepts(value):
                yield here, f'"{key}" must be {wanted}, not {_shown(value)}'


def _unknown(key: str, fields: Iterable[str], place: Place) -> str:
    inside = f" in [{place[0]}]" if place else ""
    message = f'unknown key "{key}"{inside}'
    if close := difflib.get_close_matches(key, list(fields), n=1, cutoff=0.6):
        return f'{message} — did you mean "{close[0]}"?'
    homes = [
        name
        for name, kind in (("select", Select), ("quota", QuotaTask), ("policy", Policy))
        if any(field.name == key for field in attrs.fields(kind)) and place != (name,)
    ]
    if homes:
        return f"{message} — it belongs into [{homes[0]}]"
    if place and any(field.name == key for field in attrs.fields(Task)):
        return f"{message} — it belongs above the first [table]"
    return message


def _shown(value: object) -> str:
    """A value as the file has it, short."""
    text = str(value).lower() if isinstance(value, bool) else repr(value)
    return text if len(text) <= 40 else f"{text[:37]}…"


# ---- ranges --------------------------------------------------------------------------------------------


def _range_problems(task: Task) -> Iterable[_Problem]:
    """Everything about a task that is of the right type and still cannot be used."""
    if not task.library.strip() or "\0" in task.library:
        yield ("library",), '"library" must name a folder'
    for place, path in ((("library",), task.library), (("policy", "ledger_dir"), task.policy.ledger_dir)):
        try:
            expanded(path)
        except ValueError as error:
            yield place, f'"{place[-1]}" {error}'
    account = task.account
    if not account or safe_component(account, limit_bytes=100) != account:
        hint = "it names the ledger's folder: no separators, no reserved name, at most 100 bytes"
        yield ("account",), f'"account" {_shown(account)} cannot be used — {hint}'
    if not math.isfinite(task.deadline_s) or task.deadline_s <= 0:
        yield ("deadline_s",), '"deadline_s" must be greater than 0'
    if task.count < 1:
        yield ("count",), '"count" must be at least 1'
    if not 0 <= task.min_count <= max(task.count, 0):
        yield ("min_count",), f'"min_count" must be between 0 and "count" ({task.count})'
    if task.lang not in ("zh", "en"):
        yield ("lang",), f'"lang" must be "zh" or "en", not {_shown(task.lang)}'
    if task.select.since_days < 1:
        yield ("select", "since_days"), '"since_days" must be at least 1'
    if task.select.pages_min < 0:
        yield ("select", "pages_min"), '"pages_min" must not be negative'
    if task.quota.limit < 0:
        yield ("quota", "limit"), '"limit" must not be negative'
    if task.quota.new_max < 0:
        yield ("quota", "new_max"), '"new_max" must not be negative'
    if not math.isfinite(task.quota.spacing_s) or task.quota.spacing_s < SPACING_MIN_S:
        message = f'"spacing_s" must be at least {SPACING_MIN_S:g}; a task may raise it, not lower it'
        yield ("quota", "spacing_s"), message
    for place, value, most in (
        (("deadline_s",), task.deadline_s, MOST_SECONDS),
        (("count",), task.count, MOST_REPORTS),
        (("select", "since_days"), task.select.since_days, MOST_DAYS),
        (("select", "pages_min"), task.select.pages_min, MOST_REPORTS),
        (("quota", "limit"), task.quota.limit, MOST_REPORTS),
        (("quota", "new_max"), task.quota.new_max, MOST_REPORTS),
        (("quota", "spacing_s"), task.quota.spacing_s, MOST_SECONDS),
    ):
        if most < value < math.inf:
            yield place, f'"{place[-1]}" must be at most {most}'
    if task.policy.reuse not in ("allow", "only", "never"):
        message = f'"reuse" must be "allow", "only" or "never", not {_shown(task.policy.reuse)}'
        yield ("policy", "reuse"), message
    for name in ("keywords_any", "keywords_not", "institutions", "report_ids"):
        for position, element in enumerate(getattr(task.select, name)):
            if not element.strip():
                yield ("select", name, position), f'"{name}" holds an empty string, which would match all'


# ---- structuring ---------------------------------------------------------------------------------------


def _converter() -> cattrs.Converter:
    converter = cattrs.Converter(forbid_extra_keys=True)
    # The shape was checked before; these hooks keep ranges' messages ours, not the library's.
    converter.register_structure_hook_func(lambda kind: kind in (Lang, Reuse), lambda value, _: value)
    converter.register_structure_hook(str | None, lambda value, _: value or None)
    return converter


_CONVERTER: Final = _converter()


if __name__ == "__main__":
    import sys

    from hibor.task_cli import main

    sys.exit(main())
