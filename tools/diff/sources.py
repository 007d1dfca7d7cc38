"""Finds a spec tree: a folder, or a revision of this repository.

A revision is read with `git show` into a temporary folder; the working tree is not touched.
"""

from __future__ import annotations

import subprocess
from pathlib import Path

from tools.compile.check import Result, compile_folder

ROOT = Path(__file__).resolve().parents[2]
GIT_TIMEOUT_S = 30


class SpecNotFound(Exception):
    """The word names neither a folder with spec files nor a revision that has them."""


def _git(*arguments: str) -> bytes | None:
    try:
        done = subprocess.run(
            ["git", "-C", str(ROOT), *arguments], capture_output=True, timeout=GIT_TIMEOUT_S, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout if done.returncode == 0 else None


def spec_folder(word: str, scratch: Path) -> Path:
    """The folder that holds the spec `word` names; revisions are unpacked below `scratch`."""
    path = Path(word)
    for candidate in (path / "spec", path):
        if candidate.is_dir() and any(candidate.glob("*.yaml")):
            return candidate
    if word.startswith("-"):
        raise SpecNotFound(word)
    listing = _git("ls-tree", "-r", "--name-only", "-z", word, "--", "spec")
    names = [name for name in (listing or b"").decode().split("\0") if name.endswith(".yaml")]
    if not names:
        raise SpecNotFound(word)
    folder = scratch / "spec"
    folder.mkdir(parents=True)
    for name in names:
        content = _git("show", f"{word}:{name}")
        if content is None:
            raise SpecNotFound(word)
        (folder / Path(name).name).write_bytes(content)
    return folder


def load(word: str, scratch: Path) -> Result:
    """Compiles the spec that `word` names. `Result.faults` may not be empty."""
    return compile_folder(spec_folder(word, scratch))
