"""Reading a command line as the phone's shell does: words, quotes, connectors, redirections.

Rules of this file:
- Nothing is expanded here. A word keeps its pieces, and the shell expands parameters when the command runs.
- Command substitutions (`$(…)`, backticks, `$((…))`) and unquoted globs are found and marked, never carried
  out: a caller that lets one through has a quoting fault (F18), and the mark proves it.
- Blanks are space, tab and newline only: an ideographic space belongs to its word.
- What this shell does not have (pipes, subshells, background jobs) is a syntax error, not a guess.
"""

from __future__ import annotations

from typing import Literal

import attrs

PieceKind = Literal["text", "parameter", "substitution"]
_BLANK = " \t"
_OPERATOR = ";&|()<>\n"
_NAME_START = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ_"
_NAME_REST = _NAME_START + "0123456789"


class ShellSyntaxError(Exception):
    """The line cannot be read; the text is what the shell prints after its own name."""


@attrs.frozen
class Piece:
    """A part of a word. `text` is the text, the parameter's name, or the source of the substitution."""

    kind: PieceKind
    text: str
    quoted: bool


@attrs.frozen
class Word:
    """One word before expansion."""

    pieces: tuple[Piece, ...]

    @property
    def source(self) -> str:
        """The word's literal text, parameters and substitutions left out."""
        return "".join(piece.text for piece in self.pieces if piece.kind == "text")

    @property
    def has_substitution(self) -> bool:
        """Whether a command would be run to build this word."""
        return any(piece.kind == "substitution" for piece in self.pieces)

    @property
    def has_glob(self) -> bool:
        """Whether an unquoted pattern would be matched against file names."""
        bare = "".join(piece.text for piece in self.pieces if piece.kind == "text" and not piece.quoted)
        opened = bare.find("[")
        return "*" in bare or "?" in bare or (opened >= 0 and "]" in bare[opened + 2 :])


@attrs.frozen
class Redirect:
    """`fd > target`; for `2>&1` the target is the number, `append` is `>>`."""

    fd: int
    target: Word | int
    append: bool


@attrs.frozen
class Command:
    """One simple command and how it is joined to the one before (`;`, `&&`, `||`)."""

    connector: str
    negated: bool
    words: tuple[Word, ...]
    redirects: tuple[Redirect, ...]


def parse(line: str) -> list[Command]:
    """The commands of a line. Raises `ShellSyntaxError`."""
    return _Parser(line).commands()


class _Parser:
    def __init__(self, line: str) -> None:
        self._line = line
        self._at = 0

    def commands(self) -> list[Command]:
        found: list[Command] = []
        connector = ";"
        while True:
            command = self._command(connector)
            operator = self._operator()
            if command is not None:
                found.append(command)
            elif connector != ";" or operator not in ("", "\n"):
                raise ShellSyntaxError(f"syntax error: unexpected '{operator or 'newline'}'")
            if not operator:
                return found
            connector = ";" if operator == "\n" else operator
            if connector != ";":
                self._skip_newlines()

    def _command(self, connector: str) -> Command | None:
        words: list[Word] = []
        redirects: list[Redirect] = []
        negated = False
        while True:
            self._skip_blanks()
            here = self._peek()
            if not here or here in ";&|()\n":
                break
            redirect = self._redirect()
            if redirect is not None:
                redirects.append(redirect)
                continue
            word = self._word()
            if not words and not redirects and word == Word((Piece("text", "!", False),)):
                negated = not negated
            else:
                words.append(word)
        if not words and not redirects:
            return None
        return Command(connector, negated, tuple(words), tuple(redirects))

    def _operator(self) -> str:
        for operator in ("&&", "||", ";", "\n"):
            if self._line.startswith(operator, self._at):
                self._at += len(operator)
                return operator
        if self._at >= len(self._line):
            return ""
        raise ShellSyntaxError(f"syntax error: unexpected '{self._peek()}'")

    def _redirect(self) -> Redirect | None:
        start = self._at
        digits = start
        while digits < len(self._line) and self._line[digits] in "0123456789":
            digits += 1
        mark = self._line[digits : digits + 1]
        if mark not in (">", "<") or not mark:
            return None
        fd = int(self._line[start:digits]) if digits > start else (1 if mark == ">" else 0)
        self._at = digits + 1
        append = self._line.startswith(">", self._at)
        self._at += append
        if self._line.startswith("&", self._at):
            self._at += 1
            number = self._word().source
            if number not in ("1", "2"):
                raise ShellSyntaxError(f"{number}: bad file descriptor")
            return Redirect(fd, int(number), False)
        self._skip_blanks()
        word = self._word()
        if not word.pieces:
            raise ShellSyntaxError("syntax error: unexpected 'newline'")
        return Redirect(fd, word, append)

    def _word(self) -> Word:
        pieces: list[Piece] = []
        while self._at < len(self._line):
            here = self._peek()
            if here in _BLANK or here in _OPERATOR:
                break
            if here == "'":
                pieces.append(Piece("text", self._until("'"), True))
            elif here == '"':
                self._double_quoted(pieces)
            elif here == "\\":
                escaped = self._line[self._at + 1 : self._at + 2]
                self._at += 1 + len(escaped)
                if escaped != "\n":
                    pieces.append(Piece("text", escaped or "\\", True))
            elif here in "$`":
                pieces.append(self._dollar(False))
            else:
                pieces.append(Piece("text", here, False))
                self._at += 1
        return Word(tuple(_joined(pieces)))

    def _double_quoted(self, pieces: list[Piece]) -> None:
        self._at += 1
        pieces.append(Piece("text", "", True))
        while self._at < len(self._line):
            here = self._peek()
            if here == '"':
                self._at += 1
                return
            if here == "\\" and self._line[self._at + 1 : self._at + 2] in ('"', "\\", "$", "`", "\n"):
                escaped = self._line[self._at + 1]
                self._at += 2
                if escaped != "\n":
                    pieces.append(Piece("text", escaped, True))
            elif here in "$`":
                pieces.append(self._dollar(True))
            else:
                pieces.append(Piece("text", here, True))
                self._at += 1
        raise ShellSyntaxError('no closing quote')

    def _dollar(self, quoted: bool) -> Piece:
        """A parameter, a substitution, or a lone dollar sign."""
        if self._peek() == "`":
            return Piece("substitution", self._until("`"), quoted)
        after = self._line[self._at + 1 : self._at + 2]
        if after == "(":
            return Piece("substitution", self._balanced(), quoted)
        if after == "{":
            end = self._line.find("}", self._at)
            if end < 0:
                raise ShellSyntaxError("no closing brace")
            name = self._line[self._at + 2 : end]
            self._at = end + 1
            return Piece("parameter", name, quoted)
        if after and (after in _NAME_START):
            end = self._at + 1
            while end < len(self._line) and self._line[end] in _NAME_REST:
                end += 1
            name = self._line[self._at + 1 : end]
            self._at = end
            return Piece("parameter", name, quoted)
        if after and after in "?$#!@*-0123456789":
            self._at += 2
            return Piece("parameter", after, quoted)
        self._at += 1
        return Piece("text", "$", quoted)

    def _until(self, quote: str) -> str:
        end = self._line.find(quote, self._at + 1)
        if end < 0:
            raise ShellSyntaxError("no closing quote")
        text = self._line[self._at + 1 : end]
        self._at = end + 1
        return text

    def _balanced(self) -> str:
        start = self._at
        depth = 0
        while self._at < len(self._line):
            depth += {"(": 1, ")": -1}.get(self._line[self._at], 0)
            self._at += 1
            if depth == 0 and self._at > start + 1:
                return self._line[start : self._at]
        raise ShellSyntaxError("no closing parenthesis")

    def _skip_blanks(self) -> None:
        while self._at < len(self._line):
            if self._line[self._at] in _BLANK:
                self._at += 1
            elif self._line.startswith("\\\n", self._at):
                self._at += 2
            elif self._line[self._at] == "#":
                end = self._line.find("\n", self._at)
                self._at = len(self._line) if end < 0 else end
            else:
                return

    def _skip_newlines(self) -> None:
        self._skip_blanks()
        while self._peek() == "\n":
            self._at += 1
            self._skip_blanks()

    def _peek(self) -> str:
        return self._line[self._at : self._at + 1]


def _joined(pieces: list[Piece]) -> list[Piece]:
    """Neighbouring text of the same quoting as one piece."""
    joined: list[Piece] = []
    for piece in pieces:
        last = joined[-1] if joined else None
        if last is not None and last.kind == piece.kind == "text" and last.quoted == piece.quoted:
            joined[-1] = Piece("text", last.text + piece.text, piece.quoted)
        else:
            joined.append(piece)
    return joined
