"""Names: of final files, and of a report when two of them are compared.

Rules of this file:

* A **final name** is `<YYYY-MM-DD or undated>_<institution>_<title>_<report id>.pdf` under
  `reports/YYYY/MM/` (design 9). It must work on every platform a library may be copied to: NFC, no character
  Windows forbids (full-width twins stand in), nothing invisible, no trailing dot or space, no reserved name,
  at most 200 bytes. Every cut is followed by all of these checks again, because a cut makes names too
  (`nullify` cut to three is `nul`, faults F80).
* Cuts fall into the title first, then into the institution, never into the report id, and never between a
  character and what combines with it.
* Two reports must not share a name (F85): the id is in it, and an id that cannot be written as it is carries
  a hash of what it was.
* A **key** compares what people would call the same: width, case, composition (NFC / NFD twins, F83), spacing
  and invisible characters do not matter.
* Pure functions of strings; nothing here looks at a disk.
"""

from __future__ import annotations

import hashlib
import os
import re
import unicodedata
from collections.abc import Callable
from datetime import date as calendar_date
from typing import Final

COMPONENT_LIMIT_BYTES: Final = 200
"""One path component; leaves room for the longest suffix ever put behind it (255 is the systems' limit)."""

WINDOWS_PATH_LIMIT: Final = 240
"""UTF-16 units of a whole path on Windows."""

UNDATED: Final = "undated"
UNTITLED: Final = "untitled"
UNKNOWN_INSTITUTION: Final = "unknown"
SUFFIX: Final = ".pdf"

_TWINS: Final = str.maketrans('<>:"/\\|?*', "＜＞：＂／＼｜？＊")
_INVISIBLE: Final = re.compile(
    "[\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u2028-\u202e\u2060-\u206f"
    "\u3164\ufe00-\ufe0f\ufeff\uffa0\ufff0-\uffff"
    "\U0001bca0-\U0001bca3\U0001d173-\U0001d17a\U000e0000-\U000e0fff]"
)
_RESERVED: Final = re.compile(
    r"(?:con|prn|aux|nul|conin\$|conout\$|(?:com|lpt)[0-9¹²³])[ ]*(?:\..*)?", re.IGNORECASE | re.DOTALL
)
_DATE: Final = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}")
_ID_LIMIT_BYTES: Final = 160


class NameImpossible(ValueError):
    """No name fits: the library's own path is too long. Says so, and what to do, to a person."""


def final_relative_path(
    date: str | None,
    institution: str | None,
    title: str | None,
    report_id: str,
    *,
    root_length: int = 0,
    windows: bool | None = None,
) -> str:
    """Where a report's final PDF goes, relative to the library, with "/" (design 9 "Final name").

    `date` is `YYYY-MM-DD`; anything else is filed as undated. `root_length` is the library path's length in
    UTF-16 units; with `windows` (default: this platform) the whole path stays within 240 of them. Raises
    `NameImpossible` when the root leaves no room for an unshortened report id.
    """
    day = _day_or_undated(date)
    folder = f"reports/{day[:4]}/{day[5:7]}" if day != UNDATED else f"reports/{UNDATED}"
    limit_units = None
    if os.name == "nt" if windows is None else windows:
        limit_units = WINDOWS_PATH_LIMIT - (root_length + 1 if root_length else 0) - len(folder) - 1
    head = clean_text(institution or "") or UNKNOWN_INSTITUTION
    middle = clean_text(title or "") or UNTITLED
    tail = f"_{_id_part(report_id)}{SUFFIX}"

    def fits(name: str) -> bool:
        return _fits(name, COMPONENT_LIMIT_BYTES, limit_units)

    def name_of(head: str, middle: str) -> str:
        return f"{day}_{head}_{middle}{tail}"

    middle = _longest_fitting(middle, lambda cut: fits(name_of(head, cut)))
    if not fits(name_of(head, middle)):
        head = _longest_fitting(head, lambda cut: fits(name_of(cut, middle)))
    name = name_of(head, middle)
    if not fits(name):
        raise NameImpossible(
            f"the library's path ({root_length} characters) leaves no room for {name!r}: "
            f"on Windows a whole path may have {WINDOWS_PATH_LIMIT}; choose a library folder nearer the root"
        )
    return f"{folder}/{name}"


def safe_component(text: str, *, limit_bytes: int = COMPONENT_LIMIT_BYTES, fallback: str = "_") -> str:
    """`text` as one path component that works on every platform; `fallback` when nothing is left of it.

    Idempotent. A name that is reserved on Windows, also after a cut, gets `_` in front.
    """
    name = clean_text(text)
    while True:
        name = _trimmed(_cut_to(name, lambda cut: _fits(cut, limit_bytes, None)))
        if not name:
            return fallback
        if not is_reserved(name):
            return name
        name = f"_{name}"


def is_reserved(component: str) -> bool:
    """Whether Windows keeps this name for a device, with any extension (`nul`, `CON.pdf`, `com1 .txt`)."""
    return _RESERVED.fullmatch(component) is not None


def clean_text(text: str) -> str:
    """NFC, forbidden characters as full-width twins, nothing invisible, no dot or space at the end."""
    visible = "".join(writable(character) for character in _INVISIBLE.sub("", text))
    return _trimmed(unicodedata.normalize("NFC", visible).translate(_TWINS))


def writable(character: str) -> str:
    """Controls and halves of surrogate pairs go; what no Unicode version assigns becomes `_` (macOS)."""
    category = unicodedata.category(character)
    return "" if category in ("Cc", "Cf", "Cs", "Zl", "Zp") else "_" if category == "Cn" else character


def _trimmed(text: str) -> str:
    """No space in front, no dot or space at the end, whatever order they stand in."""
    text = text.lstrip()
    while text and (text[-1] == "." or text[-1].isspace()):
        text = text[:-1]
    return text


def _day_or_undated(date: str | None) -> str:
    if date is not None and _DATE.fullmatch(date):
        try:
            return calendar_date.fromisoformat(date).isoformat()
        except ValueError:
            return UNDATED
    return UNDATED


def _id_part(report_id: str) -> str:
    """The id as written when a file name can hold it whole; else a readable part and a hash of all of it."""
    composed = unicodedata.normalize("NFC", report_id)
    written = clean_text(report_id)
    if written == composed and written and len(written.encode()) <= _ID_LIMIT_BYTES:
        return written
    mark = hashlib.sha256(composed.encode("utf-8", "surrogatepass")).hexdigest()[:16]
    readable = _trimmed(_cut_to(written, lambda cut: _fits(cut, _ID_LIMIT_BYTES - 17, None)))
    return f"{readable}~{mark}" if readable else f"~{mark}"


def utf16_length(text: str) -> int:
    """Length in UTF-16 units, the way Windows counts a path."""
    return len(text.encode("utf-16-le", "surrogatepass")) // 2


def _fits(name: str, limit_bytes: int, limit_units: int | None) -> bool:
    if len(name.encode("utf-8", "surrogatepass")) > limit_bytes:
        return False
    return limit_units is None or utf16_length(name) <= limit_units


def _longest_fitting(text: str, fits: Callable[[str], bool]) -> str:
    """The longest trimmed start of `text` that fits; one `_` when none does."""
    return _trimmed(_cut_to(text, fits)) or "_"


def _cut_to(text: str, fits: Callable[[str], bool]) -> str:
    """The longest start of `text` that fits and ends between two whole characters; may be empty."""
    if fits(text):
        return text
    low, high = 0, len(text)
    while low < high:  # fits is monotonous: a shorter start never fits worse
        middle = (low + high + 1) // 2
        low, high = (middle, high) if fits(text[:middle]) else (low, middle - 1)
    while low > 0 and _belongs_together(text[low - 1], text[low]):
        low -= 1
    return text[:low]


def _belongs_together(left: str, right: str) -> bool:
    """Whether `right` is drawn as part of `left`: marks, skin tones, flag halves, Hangul jamo."""
    if unicodedata.category(right) in ("Mn", "Mc", "Me"):
        return True
    point = ord(right)
    if 0x1F3FB <= point <= 0x1F3FF or 0x1160 <= point <= 0x11FF:
        return True
    return 0x1F1E6 <= point <= 0x1F1FF and 0x1F1E6 <= ord(left) <= 0x1F1FF


# ---- comparing -----------------------------------------------------------------------------------------

_IDEOGRAPH: Final = (
    "\u2e80-\u2fdf\u3005-\u3007\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff"
    "\uac00-\ud7a3\uf900-\ufaff\U00020000-\U0003ffff"
)
_SPACE_AT_IDEOGRAPH: Final = re.compile(rf"(?<=[{_IDEOGRAPH}]) | (?=[{_IDEOGRAPH}])")


def normalise_text(text: str) -> str:
    """What two texts have in common when a person calls them the same. Idempotent.

    NFKC (so NFC and NFD twins, full- and half-width agree), case folded, invisible characters removed, runs
    of white space one blank, no blank beside an ideograph (line breaks of a PDF fall there).
    """
    previous = None
    while text != previous:
        previous = text
        text = unicodedata.normalize("NFKC", _INVISIBLE.sub("", text)).casefold()
        text = "".join(
            " " if character.isspace() else writable(character) if character != "_" else "_"
            for character in text
        )
        text = _SPACE_AT_IDEOGRAPH.sub("", " ".join(text.split()))
    return text


def report_key(institution: str | None, title: str | None, date: str | None) -> str:
    """A report's id where the app shows none: 32 hex digits of sha256 over the three (design 5)."""
    parts = (normalise_text(part or "") for part in (institution, title, date))
    return hashlib.sha256("\n".join(parts).encode("utf-8", "surrogatepass")).hexdigest()[:32]


def duplicate_key(institution: str | None, stock_code: str | None, title: str | None) -> str:
    """Key for "likely the same report again": institution, stock code and the title without its date."""
    undated = strip_dates(normalise_text(title or ""))
    parts = (normalise_text(institution or ""), normalise_text(stock_code or ""), normalise_text(undated))
    return hashlib.sha256("\n".join(parts).encode("utf-8", "surrogatepass")).hexdigest()[:32]


_DATES: Final = re.compile(
    r"(?<!\d)(?:(?:\d{4}年)?\d{1,2}月\d{1,2}日"
    r"|20\d{2}([-/.]?)(?:0?[1-9]|1[0-2])\1(?:0?[1-9]|[12]\d|3[01])"
    r"|\d{2}(?:0[1-9]|1[0-2])(?:0[1-9]|[12]\d|3[01]))(?!\d)"
)


def strip_dates(normalised: str) -> str:
    """A normalised text without its dates (2026年11月30日, 11月30日, 2026-11-30, 20261130, 261130).

    Only whole days go: a year or a month alone (2026年三季报) says what the report is about.
    """
    return _DATES.sub(" ", normalised)


_STOCK_CODES: Final = re.compile(
    r"(?<![\da-z])(?:\d{5,6}(?:\.(?:sh|sz|bj|hk|ss|oc))?|\d{4}\.hk)(?![\da-z])|hb\d{10,}"
)
_RUNS: Final = re.compile(rf"[{_IDEOGRAPH}]+|[^\W_{_IDEOGRAPH}]+")


def tokens(text: str) -> frozenset[str]:
    """A text's tokens: pairs of neighbouring ideographs (single ones alone), and whole words or numbers."""
    return _tokens_of(normalise_text(text))


def _tokens_of(normalised: str) -> frozenset[str]:
    found: set[str] = set()
    for run in _RUNS.findall(normalised):
        if re.match(f"[{_IDEOGRAPH}]", run) and len(run) > 1:
            found.update(run[start : start + 2] for start in range(len(run) - 1))
        else:
            found.add(run)
    return frozenset(found)


def title_tokens(
    title: str, *, institution: str | None = None, stock_code: str | None = None
) -> frozenset[str]:
    """What is particular to a title: its tokens without broker, codes and dates, which every title has."""
    text = normalise_text(title)
    for word in filter(None, (normalise_text(institution or ""), normalise_text(stock_code or ""))):
        text = text.replace(word, " ")
    # Not `tokens`: normalising again would join what stood on both sides of a removed word.
    return _tokens_of(_STOCK_CODES.sub(" ", strip_dates(text)))


def title_coverage(
    title: str, text: str, *, institution: str | None = None, stock_code: str | None = None
) -> float:
    """Share (0 to 1) of the title's particular tokens found in `text` (design 5 P03).

    A title that has none is covered by nothing: 0.
    """
    wanted = title_tokens(title, institution=institution, stock_code=stock_code)
    return len(wanted & tokens(text)) / len(wanted) if wanted else 0.0
