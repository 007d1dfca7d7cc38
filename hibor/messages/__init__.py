"""What people read, in Chinese and English: one catalogue a language, found by dotted keys.

Rules of this package:

* Texts are data (`*.zh.toml`, `*.en.toml`, and `zh.toml`, `en.toml`); both languages have the same keys
  with the same placeholders, and every code, run status, stop word and failure word has its texts (tests).
* A key that is missing raises `KeyError`: a person never gets a line in the wrong language instead.
* Codes, states, keys of files and commands are the same in every language.
* A fact stays within its line (`messages.lines`).
* Light to import: every `--help` passes through here.
"""

from __future__ import annotations

import locale
import os
import re
import sys
import tomllib
from functools import lru_cache
from importlib import resources
from pathlib import PurePath
from typing import Any, Final, Literal, NamedTuple

from hibor.messages.lines import one_line

Lang = Literal["zh", "en"]
LANGS: Final[tuple[Lang, Lang]] = ("zh", "en")
_WORD_SECTIONS: Final = ("codes", "statuses", "stop_words", "reasons")
_PRIMARY_CHINESE: Final = 0x04
RUN_INTERRUPTED: Final = "the run was interrupted"
"""In the detail of everything that an interrupt stopped."""
OTHER_PHONE: Final = "the tap was made on another phone"
"""In the detail of an item whose phone is not the one that is connected."""
_REASONS: Final = (
    (RUN_INTERRUPTED, "INTERRUPTED"),
    (OTHER_PHONE, "OTHER_PHONE"),
    ("(ENOSPC)", "DISK_FULL"),
    ("(EDQUOT)", "DISK_FULL"),
    ("disk is full", "DISK_FULL"),
)
"""What a detail says that no code of the contract has a word for, and whose sentences then are told."""
_IDEOGRAPH: Final = re.compile("[\u3400-\u9fff]")
_ENGLISH: Final = re.compile(r"\b[A-Za-z]{2,}(?: [a-z]{2,}){2,}")


class Advice(NamedTuple):
    """What a word means for a person: what happened, what it means for quota and files, what to do next."""

    what: str
    effect: str
    next: str


@lru_cache(maxsize=2)
def catalogue(lang: str) -> dict[str, Any]:
    """All texts of a language (`zh` or `en`), as nested tables. Raises `KeyError` for another language."""
    if lang not in LANGS:
        raise KeyError(f"there are no texts in {lang!r}")
    texts: dict[str, Any] = {}
    folder = resources.files("hibor").joinpath("messages")
    for entry in sorted(folder.iterdir(), key=lambda found: found.name):
        if entry.name == f"{lang}.toml" or entry.name.endswith(f".{lang}.toml"):
            for key, value in tomllib.loads(entry.read_text(encoding="utf-8")).items():
                if key in texts:
                    raise KeyError(f"{entry.name} has section {key!r}, which another file has")
                texts[key] = value
    return texts


def text(lang: str, key: str, /, **facts: Any) -> str:
    """The text with the dotted `key`, facts filled in. Raises `KeyError` for a key there is none of."""
    found: Any = catalogue(lang)
    for part in key.split("."):
        found = found[part]
    if not isinstance(found, str):
        raise KeyError(f"{key!r} is a section, not a text")
    return found.format(**{name: _within_a_line(fact) for name, fact in facts.items()}) if facts else found


def _within_a_line(fact: Any) -> Any:
    """A fact of a text. Names of files and what an app shows hold whatever somebody typed."""
    if isinstance(fact, PurePath):
        return one_line(str(fact))
    return one_line(fact) if isinstance(fact, str) else fact


def advice(lang: str, word: str) -> Advice:
    """The three sentences of one of the 41 codes, a run status or a stop word. Raises `KeyError`."""
    texts = catalogue(lang)
    for section in _WORD_SECTIONS:
        if word in texts[section]:
            return Advice(**texts[section][word])
    raise KeyError(word)


def item_advice(lang: str, code: str, detail: str | None) -> Advice:
    """The three sentences of an item's code, or of the plainer reason that its detail names: one that an
    interrupt stopped has the window's code (ruling R26) and is told as interrupted. Raises `KeyError`.
    """
    plainer = (word for phrase, word in _REASONS if phrase in (detail or ""))
    return advice(lang, next(plainer, code))


def was_interrupted(detail: str | None) -> bool:
    """Whether a detail says that a person ended the run, and not its window."""
    return RUN_INTERRUPTED in (detail or "")


def failure_text(lang: str, word: str) -> str:
    """The sentence of a failure word (`spec/failures.yaml`). Raises `KeyError`."""
    return str(catalogue(lang)["failures"][word])


def reason_text(lang: str, code: str, detail: str | None) -> str:
    """Why something stopped, in the reader's language.

    Details are written for the log, in English. Where they are not in the reader's language, the code's own
    sentence stands in; the detail stays in `run.json` and the journal.
    """
    told = [told_line(lang, line) for line in (detail or "").splitlines() if line.strip()]
    if told and all(told):
        return "\n".join(filter(None, told))
    try:
        return advice(lang, code).what
    except KeyError:
        return text(lang, "sentences.see_run") if detail else code


def told(lang: str, detail: str, otherwise: str) -> str:
    """A detail in the reader's language, or `otherwise`, which is in it, where there is no telling it."""
    lines = [told_line(lang, line) for line in detail.splitlines() if line.strip()]
    return "\n".join(filter(None, lines)) if lines and all(lines) else otherwise


def told_line(lang: str, line: str) -> str | None:
    """One line of a detail in the reader's language; None when there is no telling it in that language."""
    if lang == "en":
        return line
    from hibor.messages.sentences import recognised, split_place

    place, message = split_place(line)
    found = recognised(message) or recognised(line)
    if found is None:
        return line if _IDEOGRAPH.search(line) and not _ENGLISH.search(line) else None
    return (place if recognised(message) else "") + text(lang, f"sentences.{found[0]}", **found[1])


def default_lang() -> Lang:
    """The language of this computer's user: Chinese where the system speaks Chinese, English otherwise."""
    for name in ("HIBOR_LANG", "LC_ALL", "LC_MESSAGES", "LANG"):
        value = os.environ.get(name, "")
        if value:
            return "zh" if value.lower().startswith("zh") else "en"
    if sys.platform == "win32":
        import ctypes

        primary = ctypes.windll.kernel32.GetUserDefaultUILanguage() & 0x3FF  # type: ignore[attr-defined,unused-ignore]
        return "zh" if primary == _PRIMARY_CHINESE else "en"
    spoken = locale.getlocale()[0] or ""
    return "zh" if spoken.lower().startswith(("zh", "chinese")) else "en"


def chosen_lang(arguments: list[str]) -> Lang:
    """The language named by `--lang` among a command's arguments, else the default: `--help` needs it
    early.
    """
    for position, argument in enumerate(arguments):
        if argument == "--":
            break
        value = ""
        if argument == "--lang" and position + 1 < len(arguments):
            value = arguments[position + 1]
        elif argument.startswith("--lang="):
            value = argument.removeprefix("--lang=")
        if value == "zh":
            return "zh"
        if value == "en":
            return "en"
    return default_lang()
