"""The shell's file commands, as toybox prints them: ls, stat, cat, sha256sum, rm, mkdir, test, echo, printf.

Rules of this file:
- Everything goes through the virtual file system with the shell user's rights (`checked=True`).
- Names are printed raw, as toybox does when its output is not a terminal: a newline in a name is a newline.
- Errors go to stderr with the path in them, the other arguments are still worked on, the exit code is 1.
"""

from __future__ import annotations

import hashlib
import re
import stat as stat_modes
from collections.abc import Callable, Iterator
from datetime import datetime

from hibor.sim.shell_io import Tool, ToolIo
from hibor.sim.vfs import FileFacts, VfsError, split_path

PIECE_BYTES = 256 * 1024
_KIND_WORDS = {"file": "regular file", "folder": "directory", "link": "symbolic link"}


def local_time(io: ToolIo, moment: datetime) -> datetime:
    """A moment in the phone's own time zone."""
    return moment.astimezone(io.core.now().tzinfo)


# -- ls ------------------------------------------------------------------------------------------------------


def _ls(io: ToolIo, arguments: list[str]) -> int:
    flags, paths = _flags(arguments)
    unknown = flags - set("laA1dinp")
    if unknown:
        io.err(f"ls: Unknown option '{min(unknown)}' (see \"ls --help\")\n")
        return 1
    code = 0
    folders: list[str] = []
    for path in paths or ["."]:
        try:
            follow = path.endswith("/") or not (flags & {"l", "d", "i"})
            facts = (io.core.vfs.stat if follow else io.core.vfs.lstat)(path, checked=True)
        except VfsError as error:
            io.err(f"ls: {path}: {error.text}\n")
            code = 1
            continue
        if facts.kind == "folder" and "d" not in flags:
            folders.append(path)
        else:
            io.out(_ls_line(io, facts, path, flags))
    for path in folders:
        if len(paths) > 1:
            io.out(f"\n{path}:\n")
        code |= _ls_folder(io, path, flags)
    return code


def _ls_folder(io: ToolIo, path: str, flags: set[str]) -> int:
    vfs = io.core.vfs
    try:
        entries = vfs.list(path, checked=True)
        own, above = vfs.stat(path, checked=True), vfs.stat(f"{path}/..", checked=True)
    except VfsError as error:
        io.err(f"ls: {path}: {error.text}\n")
        return 1
    code = 0
    lines: list[str] = []
    total_blocks = 0
    if "a" in flags:
        lines += [_ls_line(io, own, ".", flags), _ls_line(io, above, "..", flags)]
    for name, facts in entries:
        if facts is None:
            io.err(f"ls: {path.rstrip('/')}/{name}: Permission denied\n")
            code = 1
        elif not name.startswith(".") or flags & {"a", "A"}:
            total_blocks += -(-facts.size_bytes // 1024)
            lines.append(_ls_line(io, facts, name, flags))
    if "l" in flags:
        io.out(f"total {total_blocks}\n")
    io.out("".join(lines))
    return code


def _ls_line(io: ToolIo, facts: FileFacts, name: str, flags: set[str]) -> str:
    inode = f"{facts.inode} " if "i" in flags else ""
    if "p" in flags and facts.kind == "folder":
        name += "/"
    if "l" not in flags and "n" not in flags:
        return f"{inode}{name}\n"
    owner, group = ("10123", "1023") if "n" in flags else ("u0_a123", "media_rw")
    time = local_time(io, facts.mtime).strftime("%Y-%m-%d %H:%M")
    arrow = f" -> {facts.target}" if facts.target is not None else ""
    mode = stat_modes.filemode(facts.mode)
    return f"{inode}{mode} {facts.links:>2} {owner} {group} {facts.size_bytes:>10} {time} {name}{arrow}\n"


# -- stat ----------------------------------------------------------------------------------------------------

_STAT_FIELDS: dict[str, Callable[[ToolIo, FileFacts, str], str]] = {
    "s": lambda io, facts, path: str(facts.size_bytes),
    "Y": lambda io, facts, path: str(facts.mtime_s),
    "X": lambda io, facts, path: str(facts.mtime_s),
    "Z": lambda io, facts, path: str(facts.mtime_s),
    "y": lambda io, facts, path: _stat_time(io, facts),
    "i": lambda io, facts, path: str(facts.inode),
    "F": lambda io, facts, path: "regular empty file" if facts.empty_file else _KIND_WORDS[facts.kind],
    "n": lambda io, facts, path: path,
    "N": lambda io, facts, path: f"'{path}'" + (f" -> '{facts.target}'" if facts.target else ""),
    "a": lambda io, facts, path: f"{facts.mode & 0o7777:o}",
    "A": lambda io, facts, path: stat_modes.filemode(facts.mode),
    "f": lambda io, facts, path: f"{facts.mode:x}",
    "h": lambda io, facts, path: str(facts.links),
    "b": lambda io, facts, path: str(-(-facts.size_bytes // 512)),
    "B": lambda io, facts, path: "512",
    "d": lambda io, facts, path: "45",
    "u": lambda io, facts, path: "10123",
    "U": lambda io, facts, path: "u0_a123",
    "g": lambda io, facts, path: "1023",
    "G": lambda io, facts, path: "media_rw",
    "%": lambda io, facts, path: "%",
}


def _stat_time(io: ToolIo, facts: FileFacts) -> str:
    time = local_time(io, facts.mtime)
    return time.strftime("%Y-%m-%d %H:%M:%S.") + f"{time.microsecond * 1000:09d} " + time.strftime("%z")


def _stat(io: ToolIo, arguments: list[str]) -> int:
    line_format: str | None = None
    follow = False
    paths: list[str] = []
    queue = iter(arguments)
    for argument in queue:
        if argument == "-c":
            line_format = next(queue, None)
        elif argument == "-L":
            follow = True
        elif argument != "--":
            paths.append(argument)
    if line_format is None or not paths:
        io.err("stat: Needs -c FORMAT and 1 argument (see \"stat --help\")\n")
        return 1
    code = 0
    for path in paths:
        try:
            facts = (io.core.vfs.stat if follow else io.core.vfs.lstat)(path, checked=True)
        except VfsError as error:
            io.err(f"stat: '{path}': {error.text}\n")
            code = 1
            continue
        io.out(_stat_line(io, line_format, facts, path) + "\n")
    return code


def _stat_line(io: ToolIo, line_format: str, facts: FileFacts, path: str) -> str:
    def field(match: re.Match[str]) -> str:
        make = _STAT_FIELDS.get(match[1])
        return "?" if make is None else make(io, facts, path)

    return re.sub(r"%(.)", field, line_format, flags=re.DOTALL)


# -- cat, sha256sum ------------------------------------------------------------------------------------------


def _pieces(io: ToolIo, path: str) -> Iterator[bytes]:
    reader = io.core.vfs.open(path, checked=True)
    while piece := reader.read(PIECE_BYTES):
        yield piece


def _cat(io: ToolIo, arguments: list[str]) -> int:
    code = 0
    for path in [argument for argument in arguments if argument != "--"]:
        try:
            for piece in _pieces(io, path):
                io.stdout(piece)
        except VfsError as error:
            io.err(f"cat: {path}: {error.text}\n")
            code = 1
    return code


def _sha256sum(io: ToolIo, arguments: list[str]) -> int:
    flags, paths = _flags(arguments)
    code = 0
    for path in paths:
        digest = hashlib.sha256()
        try:
            for piece in _pieces(io, path):
                digest.update(piece)
        except VfsError as error:
            io.err(f"sha256sum: {path}: {error.text}\n")
            code = 1
            continue
        io.out(digest.hexdigest() + ("\n" if "b" in flags else f"  {path}\n"))
    return code


# -- rm, mkdir -----------------------------------------------------------------------------------------------


def _rm(io: ToolIo, arguments: list[str]) -> int:
    flags, paths = _flags(arguments)
    vfs = io.core.vfs
    code = 0
    for path in paths:
        try:
            if vfs.lstat(path.rstrip("/"), checked=True).kind == "folder":
                io.err(f"rm: {path}: is directory\n")
                code = 1
                continue
            vfs.remove(path, checked=True)
        except VfsError as error:
            if "f" in flags and error.text == "No such file or directory":
                continue
            io.err(f"rm: {path}: {error.text}\n")
            code = 1
    return code


def _mkdir(io: ToolIo, arguments: list[str]) -> int:
    flags, paths = _flags(arguments)
    vfs = io.core.vfs
    code = 0
    for path in paths:
        parent = "/" + "/".join(split_path(path)[:-1])
        try:
            if "p" in flags and vfs.exists(path, checked=True):
                continue
            if "p" not in flags and vfs.exists(path, checked=True):
                io.err(f"mkdir: '{path}': File exists\n")
                code = 1
                continue
            if "p" not in flags:
                vfs.stat(parent, checked=True)
            else:
                vfs.require_writable(path)
            vfs.require_writable(path)
            vfs.make_folders(path)
        except VfsError as error:
            io.err(f"mkdir: '{path}': {error.text}\n")
            code = 1
    return code


# -- test, echo, printf --------------------------------------------------------------------------------------

_NUMBER_TESTS: dict[str, Callable[[int, int], bool]] = {
    "-eq": lambda a, b: a == b, "-ne": lambda a, b: a != b, "-lt": lambda a, b: a < b,
    "-le": lambda a, b: a <= b, "-gt": lambda a, b: a > b, "-ge": lambda a, b: a >= b,
}


def _test(io: ToolIo, arguments: list[str]) -> int:
    if not arguments:
        return 1
    if arguments[0] == "!" and len(arguments) > 1:
        result = _test(io, arguments[1:])
        return result if result > 1 else 1 - result
    if len(arguments) == 1:
        return int(arguments[0] == "")
    if len(arguments) == 2:
        return _test_one(io, *arguments)
    if len(arguments) == 3:
        left, operator, right = arguments
        if operator in ("=", "=="):
            return int(left != right)
        if operator == "!=":
            return int(left == right)
        if operator in _NUMBER_TESTS:
            try:
                return int(not _NUMBER_TESTS[operator](int(left), int(right)))
            except ValueError:
                io.err(f"/system/bin/sh: {left}: bad number\n")
                return 2
    io.err("/system/bin/sh: [: unexpected operator/operand\n")
    return 2


def _test_one(io: ToolIo, operator: str, operand: str) -> int:
    if operator == "-n":
        return int(operand == "")
    if operator == "-z":
        return int(operand != "")
    look = io.core.vfs.lstat if operator in ("-L", "-h") else io.core.vfs.stat
    try:
        facts = look(operand, checked=True)
        if operator == "-r":
            if facts.kind == "folder":
                io.core.vfs.list(operand, checked=True)
            else:
                io.core.vfs.open(operand, checked=True)
        elif operator == "-w":
            io.core.vfs.require_writable(operand)
    except VfsError:
        return 1
    answers = {
        "-e": True, "-r": True, "-w": True, "-f": facts.kind == "file", "-d": facts.kind == "folder",
        "-L": facts.kind == "link", "-h": facts.kind == "link", "-s": facts.size_bytes > 0,
        "-x": facts.kind == "folder",
    }
    if operator not in answers:
        io.err(f"/system/bin/sh: [: {operator}: unexpected operator/operand\n")
        return 2
    return int(not answers[operator])


def _bracket(io: ToolIo, arguments: list[str]) -> int:
    if not arguments or arguments[-1] != "]":
        io.err("/system/bin/sh: [: missing ]\n")
        return 2
    return _test(io, arguments[:-1])


def _echo(io: ToolIo, arguments: list[str]) -> int:
    newline = "\n"
    if arguments[:1] == ["-n"]:
        newline, arguments = "", arguments[1:]
    io.out(" ".join(arguments) + newline)
    return 0


_ESCAPES = {"n": "\n", "t": "\t", "r": "\r", "\\": "\\", "0": "\0"}


def _printf(io: ToolIo, arguments: list[str]) -> int:
    """`%s`, `%d` and `%%`, with the format used again while arguments are left."""
    if not arguments:
        io.err("printf: Needs 1 argument (see \"printf --help\")\n")
        return 1
    pattern, *values = arguments
    pattern = re.sub(r"\\(.)", lambda match: _ESCAPES.get(match[1], match[0]), pattern, flags=re.DOTALL)
    wanted = len(re.findall(r"%[sd]", pattern.replace("%%", "")))
    rounds = max(1, -(-len(values) // wanted)) if wanted else 1
    left = iter(values)

    def field(match: re.Match[str]) -> str:
        if match[1] == "%":
            return "%"
        value = next(left, "")
        return value if match[1] == "s" else str(int(value) if value.lstrip("-").isdigit() else 0)

    io.out("".join(re.sub(r"%([sd%])", field, pattern) for _ in range(rounds)))
    return 0


def _flags(arguments: list[str]) -> tuple[set[str], list[str]]:
    """Single-letter options (before `--`) and the rest."""
    flags: set[str] = set()
    rest: list[str] = []
    ended = False
    for argument in arguments:
        if argument == "--" and not ended:
            ended = True
        elif not ended and len(argument) > 1 and argument.startswith("-"):
            flags |= set(argument[1:])
        else:
            rest.append(argument)
    return flags, rest


FILE_TOOLS: dict[str, Tool] = {
    "ls": _ls, "stat": _stat, "cat": _cat, "sha256sum": _sha256sum, "rm": _rm, "mkdir": _mkdir,
    "test": _test, "[": _bracket, "echo": _echo, "printf": _printf,
    "true": lambda io, arguments: 0, ":": lambda io, arguments: 0, "false": lambda io, arguments: 1,
}
