"""The phone's shell: runs the adapter's commands against the virtual phone, and nothing on the host.

Rules of this file:
- A line is read by `shell_words`, its commands run one after the other, joined by `;`, `&&` and `||`; the
  exit code is that of the last one run.
- A command substitution expands to nothing and an unquoted glob stays as written; both leave the event
  `shell` with the detail `substitution` in the phone's truth, so a test can prove that none was ever sent.
- A name that is not in the table answers what Android answers, exit code 127.
"""

from __future__ import annotations

from collections.abc import Callable

from hibor.sim.seam import PhoneCore
from hibor.sim.shell_device import DEVICE_TOOLS
from hibor.sim.shell_files import FILE_TOOLS
from hibor.sim.shell_io import Tool, ToolIo
from hibor.sim.shell_words import Command, Redirect, ShellSyntaxError, Word, parse
from hibor.sim.vfs import VfsError

SHELL_NAME = "/system/bin/sh"
TOOLS: dict[str, Tool] = {**FILE_TOOLS, **DEVICE_TOOLS}
_VARIABLES = {
    "HOME": "/", "SHELL": SHELL_NAME, "USER": "shell", "EXTERNAL_STORAGE": "/sdcard", "PWD": "/",
    "PATH": "/system/bin", "TMPDIR": "/data/local/tmp", "$": "4711", "#": "0", "0": SHELL_NAME,
}
Sink = Callable[[bytes], None]


class Shell:
    """Runs command lines for one phone; may be used by several threads at once."""

    def __init__(self, core: PhoneCore) -> None:
        self._core = core

    def run(self, line: str, stdout: Sink, stderr: Sink) -> int:
        """Run a command line; the sinks get the output as it comes. Returns the exit code, 0–255."""
        return _Run(self._core, stdout, stderr).line(line)


class _Run:
    """One command line with its variables and last exit code."""

    def __init__(self, core: PhoneCore, stdout: Sink, stderr: Sink) -> None:
        self._core = core
        self._stdout = stdout
        self._stderr = stderr
        self._variables = dict(_VARIABLES)
        self._last = 0

    def line(self, line: str) -> int:
        try:
            commands = parse(line)
        except ShellSyntaxError as error:
            self._stderr(f"{SHELL_NAME}: {error}\n".encode(errors="surrogateescape"))
            return 1
        for command in commands:
            if (command.connector == "&&" and self._last) or (command.connector == "||" and not self._last):
                continue
            leaves = self._command(command)
            if command.negated:
                self._last = int(not self._last)
            if leaves:
                break
        return self._last

    def _command(self, command: Command) -> bool:
        """Run one command and keep its exit code; True when it was `exit`."""
        arguments = self._with_assignments(command.words)
        io = self._redirected(command.redirects)
        if io is None:
            self._last = 1
            return False
        if not arguments:
            self._last = 0
            return False
        name, *rest = arguments
        if name == "exit":
            self._last = int(rest[0]) & 0xFF if rest and rest[0].isdigit() else self._last
            return True
        tool = TOOLS.get(name.rpartition("/")[2] if name.startswith("/system/bin/") else name)
        if tool is None:
            io.err(f"{SHELL_NAME}: {name}: inaccessible or not found\n")
            self._last = 127
            return False
        self._last = tool(io, rest) & 0xFF
        return False

    def _with_assignments(self, words: tuple[Word, ...]) -> list[str]:
        """The expanded words, after taking `NAME=value` words in front as variables."""
        start = 0
        for word in words:
            name = word.source.partition("=")[0]
            first = word.pieces[0] if word.pieces else None
            if first is None or first.quoted or not name.isidentifier():
                break
            if not first.text.startswith(f"{name}="):
                break
            self._variables[name] = "".join(self._expand(word, split=False)).partition("=")[2]
            start += 1
        return [text for word in words[start:] for text in self._expand(word, split=True)]

    def _expand(self, word: Word, *, split: bool) -> list[str]:
        if word.has_substitution or (split and word.has_glob):
            self._core.record("shell", None, "substitution")
        fields: list[str] = []
        open_field = False
        for piece in word.pieces:
            text = piece.text
            if piece.kind == "substitution":
                text = ""
            elif piece.kind == "parameter":
                text = str(self._last) if piece.text == "?" else self._variables.get(piece.text, "")
            if piece.kind == "text" or piece.quoted or not split:
                parts, glued, ends_open = [text], open_field, True
            else:
                # An unquoted parameter is split at blanks, and an empty one makes no word at all.
                parts = text.split()
                glued = open_field and text[:1].strip() != ""
                ends_open = text[-1:].strip() != "" if text else open_field
            for part in parts:
                if glued and fields:
                    fields[-1] += part
                else:
                    fields.append(part)
                glued = False
            open_field = ends_open
        return fields

    def _redirected(self, redirects: tuple[Redirect, ...]) -> ToolIo | None:
        """The command's output after its redirections; None when a target cannot be opened."""
        sinks: dict[int, Sink] = {1: self._stdout, 2: self._stderr}
        for redirect in redirects:
            if isinstance(redirect.target, int):
                sinks[redirect.fd] = sinks[redirect.target]
                continue
            path = "".join(self._expand(redirect.target, split=False))
            if redirect.fd == 0:
                continue
            try:
                sinks[redirect.fd] = self._file_sink(path, redirect.append)
            except VfsError as error:
                message = f"{SHELL_NAME}: can't create {path}: {error.text}\n"
                self._stderr(message.encode(errors="surrogateescape"))
                return None
        return ToolIo(self._core, sinks[1], sinks[2])

    def _file_sink(self, path: str, append: bool) -> Sink:
        if path == "/dev/null":
            return lambda data: None
        vfs = self._core.vfs
        if not append or not vfs.exists(path, checked=True):
            vfs.write_file(path, b"", checked=True)

        def sink(data: bytes) -> None:
            try:
                vfs.append(path, data, checked=True)
            except VfsError as error:
                self._stderr(f"{SHELL_NAME}: write failed: {error.text}\n".encode())

        return sink
