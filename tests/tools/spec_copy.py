"""A private copy of the spec that a test may change, one place at a time."""

from __future__ import annotations

import shutil
from pathlib import Path

import attrs

ROOT = Path(__file__).resolve().parents[2]


@attrs.frozen
class SpecCopy:
    """A folder named `spec`, so that faults read as they do in the repository."""

    folder: Path

    def change(self, name: str, old: str, new: str) -> int:
        """Replaces the only occurrence of `old` in `<name>.yaml`; returns its line."""
        path = self.folder / f"{name}.yaml"
        text = path.read_text(encoding="utf-8")
        assert text.count(old) == 1, f"{old!r} stands {text.count(old)} times in {name}.yaml"
        path.write_bytes(text.replace(old, new).encode("utf-8"))
        return text[: text.index(old)].count("\n") + 1

    def add(self, name: str, text: str) -> int:
        """Appends text to `<name>.yaml`; returns the line it begins on."""
        path = self.folder / f"{name}.yaml"
        before = path.read_text(encoding="utf-8")
        path.write_bytes((before + text).encode("utf-8"))
        return before.count("\n") + 1


def copy_spec(parent: Path) -> SpecCopy:
    """Copies the repository's spec below `parent`."""
    folder = parent / "spec"
    shutil.copytree(ROOT / "spec", folder)
    return SpecCopy(folder)
