"""`hibor explain [WORD]`: what a code, run status, stop word or failure word means and what to do (design 7
"Habits").

Rules of this file: words and where they may occur come from the generated tables, sentences from the
catalogue.
"""

from __future__ import annotations

import difflib
import sys
from collections.abc import Sequence
from typing import Any, Final

import click

from generated.closures import CLOSURES
from generated.codes import CODE_CLASS, NODE_CODES
from generated.failures import FAILURE_CODES
from generated.governance import RUN_STATUSES, STOP_WORDS
from generated.ledger import EVENT_QUOTA
from generated.presence import NODES, STATES
from hibor.messages import advice, catalogue, failure_text
from hibor.people.commandline import DONE, USAGE, Answers, Refusal, SpokenCommand, Words, run_command, shared

EXITS: Final = {status: code for status, code, _when, _meaning in RUN_STATUSES}


def known_words() -> tuple[str, ...]:
    """Every word that has an explanation: codes, run statuses, stop words, failure words."""
    words = (*CODE_CLASS, *EXITS, *STOP_WORDS, *FAILURE_CODES, *_term_sections())
    return tuple(dict.fromkeys(words))


def _term_sections() -> dict[str, str]:
    """Every word of the tables people read, and the section of the catalogue that explains it."""
    sections = {word: "states" for word in STATES}
    for node in (node for nodes in NODES.values() for node in nodes):
        sections[node] = "states"
    sections |= {word: "closures" for word in CLOSURES}
    sections |= {word: "quota" for word in EVENT_QUOTA.values()}
    return sections | {word: "outcomes" for word in catalogue("en")["terms"]["outcomes"]}


def _term(word: str, words: Words) -> dict[str, Any]:
    """A state (`P05_STAGING_VALID-N` or without its mark), closure, quota state or outcome."""
    section = _term_sections()[word]
    name, _, mark = word.partition("-")
    what = words(f"terms.{section}.{name}")
    if mark:  # V006 §2.3: P02 is split by Q, P03 to P05 by A
        what += " " + words(f"terms.{'marks' if name == STATES[2] else 'artifact_marks'}.{mark}")
    return {"word": word, "kind": "term", "what": what}


def explain(word: str, words: Words) -> dict[str, Any]:
    """What is known of a word, JSON-ready. Raises `Refusal` for a word there is none of."""
    name = word.strip().rpartition(":")[2]  # a note is a status or class, a colon and its code
    by_fold = {known.casefold(): known for known in reversed(known_words())}
    known = name if name in known_words() else by_fold.get(name.casefold())
    if known is None:
        near = difflib.get_close_matches(name.casefold(), list(by_fold), n=3, cutoff=0.5)
        close = words("explain.separator").join(by_fold[one] for one in near)
        if close:
            raise Refusal("explain.near", exit_code=USAGE, word=word, near=close)
        raise Refusal("explain.unknown", exit_code=USAGE, word=word)
    if known not in {*CODE_CLASS, *EXITS, *STOP_WORDS, *FAILURE_CODES}:
        return _term(known, words)
    if known in FAILURE_CODES:
        codes = sorted(set(FAILURE_CODES[known].values()))
        return {"word": known, "kind": "failure", "what": failure_text(words.lang, known), "codes": codes}
    found: dict[str, Any] = {"word": known, "kind": "code" if known in CODE_CLASS else "status"}
    if known in STOP_WORDS and known not in EXITS:
        found["kind"] = "stop_word"
    found |= advice(words.lang, known)._asdict()
    if known in CODE_CLASS:
        found["class"] = CODE_CLASS[known]
        found["states"] = sorted({node.split("-")[0] for node, codes in NODE_CODES.items() if known in codes})
        found["failures"] = sorted(one for one, at in FAILURE_CODES.items() if known in at.values())
    if known in EXITS:
        found["exit_code"] = EXITS[known]
    return found


def _tell(found: dict[str, Any], words: Words, answers: Answers) -> None:
    answers.tell(found["word"])
    for name in ("what", "effect", "next"):
        if found.get(name):
            answers.tell(f"  {words(f'explain.{name}')} {found[name]}")
    if found.get("class"):
        answers.tell(f"  {words('explain.class')} {words('explain.classes.' + found['class'])}")
    for name in ("states", "codes", "exit_code"):
        value = found.get(name)
        if value or value == 0:
            shown = ", ".join(value) if isinstance(value, list) else value
            answers.tell(f"  {words(f'explain.{name}')} {shown}")
    if found.get("failures"):
        answers.tell(f"  {words('explain.failures')}")
        for failure in found["failures"]:
            answers.tell(f"    {failure}: {failure_text(words.lang, failure)}")


def build(words: Words) -> click.Command:
    """The command in a language."""

    @click.command(cls=SpokenCommand, words=words, section="explain")
    @click.argument("word", required=False)
    @shared(words, library=False)
    def command(word: str | None, json_wanted: bool, quiet: bool, lang: str | None) -> int:
        del lang
        answers = Answers(words, quiet=quiet, json_wanted=json_wanted)
        if word is not None:
            found = explain(word, words)
            _tell(found, words, answers)
            answers.document(found)
            return DONE
        listed = [explain(one, words) for one in known_words()]
        for kind in ("status", "stop_word", "code", "failure", "term"):
            answers.tell(words(f"explain.kinds.{kind}"))
            for one in listed:
                if one["kind"] == kind:
                    answers.tell(f"  {one['word']:<30} {one['what']}")
        answers.document({"words": listed})
        return DONE

    return command


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line and return the exit code."""
    return run_command(build, "explain", arguments)


if __name__ == "__main__":
    sys.exit(main())
