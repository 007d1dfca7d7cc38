"""The audit's records: coverage, mutants and crash atlas, each stamped with the hash of the spec it was made
from.

A record is a JSON object in the records folder. One that is missing or carries another stamp is 'not run':
what it says is about another contract.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import attrs

from generated.stamp import SPEC_SHA256

FOLDER: Final = Path(__file__).with_name("records")
NAMES: Final = ("coverage", "mutants", "atlas")
_MAKERS: Final[Mapping[str, tuple[str, ...]]] = {
    "coverage": ("-m", "pytest", "-q", "-n", "0", "tests/props"),
    "mutants": ("-m", "tools.mutants"),
    "atlas": ("-m", "tools.atlas", "--out", "{folder}"),
}
STAMP: Final = "spec_sha256"


@attrs.frozen
class Record:
    """One record. `state` is `current`, `stale`, `missing` or `damaged`; `data` is empty unless it is
    current.
    """

    name: str
    state: str
    data: Mapping[str, Any] = attrs.field(factory=dict)

    @property
    def current(self) -> bool:
        """Made from this spec."""
        return self.state == "current"

    @property
    def shown(self) -> str:
        """What people read: `current`, or `not run` and why."""
        if self.current:
            return self.state
        why = {"stale": "stale: made from another spec"}.get(self.state, self.state)
        return f"not run ({why}); make it with: python {' '.join(maker(self.name))}"


def maker(name: str, folder: str = "tools/audit/records") -> tuple[str, ...]:
    """The interpreter's arguments that make a record in `folder`."""
    return tuple(word.format(folder=folder) for word in _MAKERS[name])


def read_record(name: str, folder: Path = FOLDER) -> Record:
    """One record of a folder."""
    path = folder / f"{name}.json"
    try:
        value = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return Record(name, "missing")
    except (OSError, ValueError):
        return Record(name, "damaged")
    if not isinstance(value, dict):
        return Record(name, "damaged")
    if value.get(STAMP) != SPEC_SHA256:
        return Record(name, "stale")
    return Record(name, "current", value)


def write_record(name: str, data: Mapping[str, Any], folder: Path = FOLDER) -> Path:
    """Write a record with this spec's stamp; returns its path."""
    if name not in NAMES:
        raise ValueError(f"{name} is no record")
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{name}.json"
    text = json.dumps({STAMP: SPEC_SHA256, **data}, ensure_ascii=False, indent=1, sort_keys=False)
    path.write_bytes((text + "\n").encode())
    return path


def faults_of(record: Record) -> list[str]:
    """What a current record calls wrong: gaps of coverage, survivors without a reason, empty squares."""
    if not record.current:
        return []
    data = record.data
    if record.name == "coverage":
        tables: Mapping[str, Any] = data.get("tables", {})
        return [
            f"{name}: {key} was not reached" for name, table in tables.items() for key in table["missing"]
        ]
    if record.name == "mutants":
        return [f"survivor: {row['change']}" for row in data.get("survivors", ()) if not row.get("reason")]
    survived = [
        f"a broken variant was not noticed: {name}" for name, killed in data["mutants"].items() if not killed
    ]
    return [
        *map(str, data["violations"]),
        *(f"empty square: {square}" for square in data["empty"]),
        *survived,
    ]
