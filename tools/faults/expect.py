"""What each scenario must come to: the authored table `expected.toml`.

Rules of this file: strict, as every file people write: an unknown key, a wrong type, a scenario without a
row and a row without a scenario are errors. What is written in a row must hold; what may differ with the
machine's speed is left out of it.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import attrs

TIME_SCALE = 20.0
"""Simulated seconds in one real second, where a row says nothing else."""
EXPECTED_FILE = Path(__file__).parent / "expected.toml"


class ExpectationError(ValueError):
    """The table cannot be used; the text lists every reason."""


@attrs.frozen(kw_only=True)
class RunExpected:
    """One run: status word, exit code, stop reason's code ("": none, "*": not fixed), items delivered (None:
    not fixed), the other items as `STATE STATUS NOTE QUOTA`, in any order, and in the same words the items of
    the run before that were gone on with (`["*"]` in the file, None here: not fixed)."""

    status: str
    exit: int
    stop: str = ""
    delivered: int | None = None
    odd: tuple[str, ...] | None = ()
    recovered: tuple[str, ...] | None = ()


@attrs.frozen(kw_only=True)
class Expected:
    """One row. `rows` are the fault catalogue's ids; `why` is for people; `served` what the phone served in
    the first run; `quota` the ledger's families by state after it; `evidence` says that screen evidence must
    lie there, and `mentions` what its diagnosis, or the run's stop detail, must say; `scale` the seconds in
    a second it is played with."""

    name: str
    why: str
    first: RunExpected
    after: RunExpected
    rows: tuple[str, ...] = ()
    served: int | None = None
    quota: Mapping[str, int] | None = None
    evidence: bool = False
    mentions: tuple[str, ...] = ()
    unexplained: int | None = None
    hold: bool = False
    scale: float = TIME_SCALE


_RUN_KEYS: Mapping[str, type[Any]] = {
    "status": str, "exit": int, "stop": str, "delivered": int, "odd": list, "recovered": list,
}  # fmt: skip
_ROW_KEYS: Mapping[str, type[Any]] = {
    "why": str, "first": dict, "after": dict, "rows": list, "served": int, "quota": dict, "evidence": bool,
    "mentions": list, "unexplained": int, "hold": bool, "scale": float,
}  # fmt: skip
_AFTER_DEFAULT = {"status": "COMPLETE", "exit": 0, "delivered": 10}


def load_expected(path: Path = EXPECTED_FILE) -> dict[str, Expected]:
    """All rows by scenario name. Raises ExpectationError, TOMLDecodeError, OSError."""
    problems: list[str] = []
    rows: dict[str, Expected] = {}
    for name, data in tomllib.loads(path.read_text(encoding="utf-8")).items():
        if not _fits(name, data, _ROW_KEYS, ("why", "first"), problems):
            continue
        rows[name] = _row(name, data, problems)
    if problems:
        raise ExpectationError("\n".join(problems))
    return rows


def _row(name: str, data: dict[str, Any], problems: list[str]) -> Expected:
    values: dict[str, Any] = {key: _frozen(value) for key, value in data.items()}
    for key in ("first", "after"):
        run = data.get(key, {}) if key == "first" else {**_AFTER_DEFAULT, **data.get(key, {})}
        fits = _fits(f"{name}.{key}", run, _RUN_KEYS, ("status", "exit"), problems)
        values[key] = _run(run if fits else {"status": "", "exit": -1})
    return Expected(name=name, **values)


def _run(data: dict[str, Any]) -> RunExpected:
    values: dict[str, Any] = {key: _frozen(value) for key, value in data.items()}
    values.update({key: None for key in ("odd", "recovered") if values.get(key) == ("*",)})
    return RunExpected(**values)


def _frozen(value: Any) -> Any:
    return tuple(value) if isinstance(value, list) else value


def _fits(
    where: str, data: Any, keys: Mapping[str, type[Any]], required: tuple[str, ...], problems: list[str]
) -> bool:
    """Note what is wrong with a table; True when nothing is."""
    if not isinstance(data, dict):
        problems.append(f"{where}: must be a table")
        return False
    found = [f"{where}.{key}: unknown key" for key in data if key not in keys]
    found += [f"{where}.{key}: missing" for key in required if key not in data]
    found += [
        f"{where}.{key}: must be {keys[key].__name__}"
        for key, value in data.items()
        if key in keys and type(value) is not keys[key]
    ]
    problems += found
    return not found
