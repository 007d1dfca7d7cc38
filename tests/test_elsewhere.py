"""The main job where the system lacks what Linux has: no hard links, no folder fsync, no O_NOFOLLOW, no
SIGHUP, a console of another code page, a library in a sync program's folder with a Chinese name and blanks.

Rules of this file: what is missing is taken away in every process of the run (a `sitecustomize` on the path),
so that the fallbacks of Windows and macOS work end to end here. What only those systems have (their own locks
and their rename) is not imitated.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import attrs
import pytest

from tests.main_job import ROOT, ledgers, read_ledger, served

LACKING = '''
import errno, os, signal

os.O_NOFOLLOW = os.O_NONBLOCK = os.O_DIRECTORY = 0  # packages of ours name them without asking
for name in ("register_at_fork", "fork", "killpg", "getuid"):
    if hasattr(os, name):
        delattr(os, name)
if hasattr(signal, "SIGHUP"):
    del signal.SIGHUP
really_open, really_replace = os.open, os.replace


def open_no_folder(path, flags, *more, **named):
    """Folders cannot be opened, so none can be put on stable storage."""
    if os.path.isdir(path):
        raise OSError(errno.ENOTSUP, "folders cannot be opened here", os.fspath(path))
    return really_open(path, flags, *more, **named)


def refuse(source, target, *more, **named):
    """A file system without hard links, as on a stick or a share."""
    raise OSError(errno.EPERM, "no hard links here", os.fspath(source), None, os.fspath(target))


os.open, os.link = open_no_folder, refuse
with open(os.environ["HIBOR_TEST_LACKING"], "a") as said:
    said.write("x")
'''
FEED = """\
description = "Six reports, one in the phone's cache."

[feed]
reports = 6
pinned = []
notices = []
adverts_every = 0

[cache]
prefilled = [2]
"""


@attrs.frozen
class Elsewhere:
    """A library on such a system, and commands run there."""

    folder: Path
    library: Path

    def run(self, *words: str | Path, encoding: str = "cp1252") -> subprocess.CompletedProcess[bytes]:
        """`python -m …` there."""
        known = {name: value for name, value in os.environ.items() if not name.startswith(("LC_", "LANG"))}
        paths = [str(self.folder / "lacking"), str(ROOT)]
        environment = {
            **known,
            "PYTHONPATH": os.pathsep.join([*paths, str(self.folder)]),
            "PYTHONIOENCODING": encoding,
            "LC_CTYPE": "C.UTF-8",
            "HIBOR_TEST_LACKING": str(self.folder / "processes"),
        }
        command = [sys.executable, "-m", *map(str, words)]
        done = subprocess.run(
            command, cwd=self.folder, env=environment, capture_output=True, timeout=150, check=False
        )
        assert b"Traceback" not in done.stderr and b"UnicodeEncode" not in done.stderr, done.stderr
        return done


@pytest.fixture(scope="module")
def there(tmp_path_factory: pytest.TempPathFactory) -> Elsewhere:
    """One run has been made."""
    folder = tmp_path_factory.mktemp("elsewhere")
    (folder / "lacking").mkdir()
    (folder / "lacking" / "sitecustomize.py").write_text(LACKING, "utf-8")
    (folder / "feed.toml").write_text(FEED, "utf-8")
    made = Elsewhere(folder, folder / "OneDrive - 某某证券" / "研报 库")
    return made


def options(there: Elsewhere) -> list[str | Path]:
    return ["--library", there.library, "--scenario", there.folder / "feed.toml", "--time-scale", "25"]


def test_main_job_ends_well_and_warns_of_the_sync_folder(there: Elsewhere) -> None:
    done = there.run("hibor.run", *options(there), "--count", "3", "--lang", "zh")
    document = json.loads(done.stdout.decode("utf-8"))
    assert (done.returncode, document["status"]) == (0, "COMPLETE"), done.stderr
    assert [item["source"] for item in document["items"]].count("CACHE_REUSE") == 1
    for item in document["items"]:
        final = there.library / item["final_path"]
        assert final.stat().st_size == item["bytes"] and final.stat().st_nlink == 1
    assert b"OneDrive" in done.stderr  # the warning; what the console cannot show is a question mark
    assert b"?" in done.stderr and "研".encode() not in done.stderr
    (ledger,) = ledgers(there.library)
    assert len(read_ledger(ledger)) == 3 * len(served(there.library)) == 6
    assert len((there.folder / "processes").read_text()) >= 3  # the run, its phone, its PDF worker


COMMANDS = (
    "runs", "find 证券", "ledger audit --account simulated", "recover --list", "report --latest", "quota",
    "package --zip @", "want list", "explain CACHE_TIMEOUT", "library verify", "--help",
)  # fmt: skip
ASK = """\
import sys
from hibor.cli import main
library, name, *lines = sys.argv[1:]
for line in lines:
    words = line.replace("@", name).split()
    sys.stdout.buffer.write(b"## " + line.encode() + b"\\n")
    sys.stdout.flush()
    where = [] if words[0] in ("explain", "--help") else ["--library", library]
    code = main([*words, *where, "--lang", "zh"])
    print("##", code, flush=True)
"""


@pytest.mark.parametrize("encoding", ["ascii", "cp936"])
def test_commands_answer_on_every_console(there: Elsewhere, encoding: str) -> None:
    """All in one process; what each prints on stdout is whole, whatever code page the console has."""
    (there.folder / "ask.py").write_text(ASK, "utf-8")
    done = there.run("ask", there.library, f"{encoding}.zip", *COMMANDS, encoding=encoding)
    answers = done.stdout.decode("utf-8").split("## ")[1:]
    assert done.returncode == 0 and len(answers) == 2 * len(COMMANDS), done.stderr
    for asked, ended in zip(answers[::2], answers[1::2], strict=True):
        assert ended.strip() in ("0", "2"), (asked, done.stderr)
        assert len(asked.splitlines()) > 1, asked
