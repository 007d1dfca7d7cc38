"""A second reader of what a run left behind: ledger, phone truth, finals, evidence folders.

Rules of this file: it reads the formats (design 9) and shares no reading code with the collector, so that a
mistake the collector makes with its own files cannot hide here. Only the PDF check is the collector's own: a
final is checked again from the disk.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections import Counter
from pathlib import Path
from typing import Any

import attrs

from hibor.pdf import check_pdf

UNPORTABLE = re.compile(
    r'[<>:"/\\|?*\x00-\x1f\u200b-\u200f\u202a-\u202e\ud800-\udfff]|[. ]$|^(con|prn|aux|nul)[.]', re.IGNORECASE
)
"""What no name of a final may hold: reserved and invisible characters, device names (design 9)."""
NO_DUMP, NO_PICTURE = "no dump could be read", "no picture"
TERMINALS = ("CONFIRMED", "RELEASED", "UNCERTAIN")


@attrs.frozen
class Family:
    """One reservation of the ledger: its report, its quota terminal (None: still open)."""

    report_id: str
    item_id: str
    terminal: str | None


@attrs.frozen
class Evidence:
    """One evidence folder: which item (its folder's name, or the run's), the diagnosis, the files in it, and
    where it is, relative to the library."""

    owner: str
    diagnosis: str
    files: tuple[str, ...]
    folder: str = ""

    @property
    def dump(self) -> bool:
        """True when the dump is there, or the words say that none could be read."""
        return "screen.xml" in self.files or NO_DUMP in self.diagnosis

    @property
    def picture(self) -> bool:
        """True when the picture is there, or the words say why not."""
        return "screen.png" in self.files or NO_PICTURE in self.diagnosis

    @property
    def whole(self) -> bool:
        """True when words, dump and picture are there, or it is said why one is not."""
        return "diagnosis.txt" in self.files and self.dump and self.picture


@attrs.frozen
class Books:
    """What a library says after a run. `intents` are item ids whose journal holds TRIGGER_INTENT."""

    families: tuple[Family, ...]
    intents: frozenset[str]
    served: dict[str, int]
    substitutions: int
    evidence: tuple[Evidence, ...]
    wrong_finals: tuple[str, ...]
    hold: str | None

    def quota(self) -> Counter[str]:
        """How many families stand at each quota state; RESERVED are the open ones."""
        return Counter(family.terminal or "RESERVED" for family in self.families)


def lines_of(path: Path) -> list[dict[str, Any]]:
    """The whole JSON lines of a file, none where there is no file."""
    if not path.is_file():
        return []
    raw = path.read_bytes()
    return [json.loads(line) for line in raw[: raw.rfind(b"\n") + 1].splitlines()]


def read_books(library: Path, document: dict[str, Any] | None) -> Books:
    """Everything a verdict needs; `document` names the delivered items whose finals are compared."""
    truth = lines_of(library / "sim-phone" / "truth.jsonl")
    served = Counter(line["report_id"] for line in truth if line["event"] == "served")
    holds = sorted(library.rglob("hold.json"))
    return Books(
        families=tuple(_families(library)),
        intents=frozenset(_intents(library)),
        served=dict(served),
        substitutions=sum(
            line["event"] == "shell" and "substitution" in line["detail"] for line in truth
        ),
        evidence=tuple(_evidence(library)),
        wrong_finals=tuple(_wrong_finals(library, document or {})),
        hold=json.loads(holds[0].read_bytes())["detail"] if holds else None,
    )


def _families(library: Path) -> list[Family]:
    found: list[Family] = []
    for ledger in sorted(library.rglob("ledger.jsonl")):
        events = lines_of(ledger)
        ended = {event["family"]: event["type"] for event in events if event["type"] in TERMINALS}
        found += [
            Family(event["report_id"], event["item_id"], ended.get(event["family"]))
            for event in events
            if event["type"] == "RESERVED"
        ]
    return found


def _intents(library: Path) -> list[str]:
    found: list[str] = []
    for journal in sorted(library.glob("runs/*/items/*/journal.jsonl")):
        if any(record["event"] == "TRIGGER_INTENT" for record in lines_of(journal)):
            found.append(journal.parent.name.split("-", 1)[1])
    return found


def _evidence(library: Path) -> list[Evidence]:
    found: list[Evidence] = []
    for folder in sorted([*library.glob("runs/*/items/*/evidence"), *library.glob("runs/*/evidence")]):
        diagnosis = folder / "diagnosis.txt"
        text = diagnosis.read_text(encoding="utf-8") if diagnosis.is_file() else ""
        names = tuple(sorted(path.name for path in folder.iterdir()))
        place = folder.relative_to(library).as_posix()
        found.append(Evidence(folder.parent.name, text, names, place))
    return found


def _wrong_finals(library: Path, document: dict[str, Any]) -> list[str]:
    """Finals that are not what they should be: damaged, of another report, or not what the item says."""
    wrong: list[str] = []
    for path in sorted(library.glob("reports/**/*.pdf")):
        if UNPORTABLE.search(path.name) or len(path.name.encode()) > 255:
            wrong.append(f"{path.name!r}: not a name for every system")
        report = check_pdf(path)
        if not report.ok:
            wrong.append(f"{path.name}: {report.finding}")
        elif not _is_own(library, path, report.text_page1 or ""):
            wrong.append(f"{path.name}: the bytes are not this report's")
    for item in [*document.get("items", ()), *document.get("recovered", ())]:
        if item["status"] not in ("SUCCESS", "DUPLICATE"):
            continue
        final = library / item["final_path"]
        data = final.read_bytes() if final.is_file() else b""
        if (len(data), hashlib.sha256(data).hexdigest()) != (item["bytes"], item["sha256"]):
            wrong.append(f"{item['report_id']}: the file is not what the item says")
    return wrong


def _is_own(library: Path, path: Path, page: str) -> bool:
    """True when the file is what the simulated phone made for the report its name ends with; where the app
    prints no report number, that it made the file at all and that page 1 carries the title."""
    words = path.stem.split("_")
    data, printed = path.read_bytes(), words[-1].startswith("HB")
    made = library.glob(f"sim-phone/pdf/{words[-1] if printed else '*'}-*.pdf")
    own = any(data.startswith(one.read_bytes() or b"\0") for one in made)
    return own and (printed or _letters("_".join(words[2:-1])) in _letters(page))


def _letters(text: str) -> str:
    return "".join(letter for letter in text if letter.isalnum())
