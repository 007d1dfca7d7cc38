"""The house rules (design 2, 3, 8) as functions from one source file to findings, each told as `file:line
what`.
"""

from __future__ import annotations

import ast
import re
import subprocess
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

from generated.closures import CLOSURES
from generated.codes import CODE_CLASS
from generated.presence import STATES

ROOT = Path(__file__).parents[1]
TOP_LEVEL = {"pyproject.toml", "fsm", "spec", "generated", "hibor", "tests", "tools", "README.md"}
FILE_LINES, FUNCTION_LINES = 500, 70
RUN_TIME = ("fsm", "generated", "hibor")
NAIVE = "tools/bench"  # holds the program without our adapters that the bench compares with
BY_HAND = (
    "tools/audit",
    "tools/mutants",
)  # what people copied from V006, and deliberate faults in the tables
Finding = str


class Source:
    """One Python file: its path inside the repository, its lines, its tree."""

    def __init__(self, name: str, text: str) -> None:
        self.name = name
        self.lines = text.splitlines()
        self.broken: SyntaxError | None = None
        try:
            self.tree = ast.parse(text, name)
        except SyntaxError as error:
            self.tree, self.broken = ast.Module([], []), error

    def inside(self, *folders: str) -> bool:
        """Whether the file is one of, or below one of, these."""
        return any(self.name == folder or self.name.startswith(f"{folder}/") for folder in folders)

    def says(self, node: ast.AST, what: str) -> Finding:
        return f"{self.name}:{getattr(node, 'lineno', 1)} {what}"

    def imports(self) -> Iterator[tuple[ast.AST, str]]:
        """(node, dotted module) of every import, also those inside functions."""
        for node in ast.walk(self.tree):
            if isinstance(node, ast.Import):
                yield from ((node, alias.name) for alias in node.names)
            elif isinstance(node, ast.ImportFrom):
                yield node, "." * node.level + (node.module or "")
                yield from ((node, f"{node.module}.{alias.name}") for alias in node.names if node.module)

    def strings(self) -> Iterator[tuple[ast.Constant, str]]:
        """String constants that are data: neither docstrings nor texts standing alone."""
        prose = {
            id(node.value)
            for node in ast.walk(self.tree)
            if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
        }
        for node in ast.walk(self.tree):
            if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in prose:
                yield node, node.value


def tracked() -> list[Path]:
    """Files of the repository, as git knows or would add them; without git, all that look like source."""
    listed = ["git", "ls-files", "-co", "--exclude-standard", "-z"]
    try:
        found = subprocess.run(listed, cwd=ROOT, capture_output=True, check=True).stdout.decode()
        names = [name for name in found.split("\0") if name]
    except (OSError, subprocess.CalledProcessError):
        folders = [ROOT / name for name in TOP_LEVEL if (ROOT / name).is_dir()]
        names = [path.relative_to(ROOT).as_posix() for folder in folders for path in folder.rglob("*.*")]
        names = [name for name in names if "__pycache__" not in name]
    return [ROOT / name for name in names if (ROOT / name).is_file()]


def every_file_parses(source: Source) -> Iterator[Finding]:
    """With the oldest Python the project supports, which is the one that should run this."""
    if source.broken is not None:
        yield f"{source.name}:{source.broken.lineno} {source.broken.msg}"


# -- who may import what (design 2) ----------------------------------------------------------------------


def top(module: str) -> str:
    return module.split(".")[0]


FSM_MAY = {
    "attrs",
    "transitions",
    "generated",
    "fsm",
    "__future__",
    "collections",
    "typing",
    "types",
    "enum",
    "functools",
    "itertools",
    "weakref",
    "math",
    "re",
}
GENERATED_MAY = {"collections", "typing", "types", "__future__"}


def fsm_is_pure(source: Source) -> Iterator[Finding]:
    """`fsm` imports nothing of `hibor` and nothing that reaches a file, socket, clock or random number."""
    if source.inside("fsm"):
        for node, module in source.imports():
            if not module.startswith(".") and top(module) not in FSM_MAY:
                yield source.says(node, f"fsm imports {module}")
        for node in ast.walk(source.tree):
            if (
                isinstance(node, ast.Call)
                and isinstance(node.func, ast.Name)
                and node.func.id in ("open", "print")
            ):
                yield source.says(node, f"fsm calls {node.func.id}")


def generated_imports_nothing(source: Source) -> Iterator[Finding]:
    """`generated` is plain data; only names for its annotations are imported."""
    if source.inside("generated"):
        for node, module in source.imports():
            if top(module) not in GENERATED_MAY:
                yield source.says(node, f"generated imports {module}")


def only_adb_imports_adbutils(source: Source) -> Iterator[Finding]:
    if source.inside(*RUN_TIME, "tools") and not source.inside("hibor/device/adb.py", NAIVE):
        for node, module in source.imports():
            if top(module) == "adbutils":
                yield source.says(node, f"imports {module}")


def only_pdf_imports_pymupdf(source: Source) -> Iterator[Finding]:
    if source.inside(*RUN_TIME, "tools") and not source.inside("hibor/pdf", "hibor/sim/reports.py", NAIVE):
        for node, module in source.imports():
            if top(module) in ("pymupdf", "fitz"):
                yield source.says(node, f"imports {module}")


def only_the_composition_root_imports_sim(source: Source) -> Iterator[Finding]:
    """What runs against a real phone does not know of the simulated one (a tool may list its scenarios)."""
    if source.inside(*RUN_TIME) and not source.inside("hibor/sim", "hibor/collect/station.py"):
        for node, module in source.imports():
            if module == "hibor.sim" or module.startswith("hibor.sim."):
                yield source.says(node, f"imports {module}")


def run_time_code_never_imports_tools(source: Source) -> Iterator[Finding]:
    if source.inside(*RUN_TIME):
        for node, module in source.imports():
            if top(module) in ("tools", "tests", "ruamel"):
                yield source.says(node, f"imports {module}")


def compile_works_when_all_else_is_broken(source: Source) -> Iterator[Finding]:
    """`tools/compile` imports neither `fsm` nor `generated`; it has to repair them."""
    if source.inside("tools/compile"):
        for node, module in source.imports():
            if top(module) in ("fsm", "generated", "hibor"):
                yield source.says(node, f"compile imports {module}")


# -- who may change the disk (design 2: one file; its parts are `durable_*.py`) --------------------------

WRITES = {
    "write_text",
    "write_bytes",
    "rename",
    "renames",
    "link",
    "link_to",
    "hardlink_to",
    "symlink",
    "symlink_to",
    "unlink",
    "truncate",
    "ftruncate",
    "fsync",
    "fdatasync",
    "touch",
}
WRITES_OF = {
    "os": {"replace", "remove", "write", "pwrite", *WRITES},
    "shutil": {"rmtree", "move", "copy", "copy2", "copyfile", "copytree"},
}
WRITE_MODE = re.compile(r"[wax+]")


def opens_for_writing(call: ast.Call) -> bool:
    name = call.func.attr if isinstance(call.func, ast.Attribute) else getattr(call.func, "id", "")
    if name not in ("open", "fdopen"):
        return False
    first = 0 if isinstance(call.func, ast.Attribute) and name == "open" else 1
    modes = [word.value for word in call.keywords if word.arg == "mode"] + call.args[first : first + 1]
    return any(
        isinstance(mode, ast.Constant) and isinstance(mode.value, str) and bool(WRITE_MODE.search(mode.value))
        for mode in modes
    )


def only_durable_changes_the_disk(source: Source) -> Iterator[Finding]:
    """Writing, renaming, linking, unlinking, truncating, fsyncing: in `hibor/durable*.py`, and in the
    simulated phone.
    """
    durable = re.fullmatch(r"hibor/durable(_\w+)?\.py", source.name)
    if not source.inside("hibor", "fsm", "generated") or source.inside("hibor/sim") or durable:
        return
    for node in ast.walk(source.tree):
        if not isinstance(node, ast.Call):
            continue
        function = node.func
        if isinstance(function, ast.Attribute):
            owner = function.value.id if isinstance(function.value, ast.Name) else ""
            to_pipe = source.name == "hibor/pdf/wire.py" and function.attr == "write"  # between two processes
            if owner in ("os", "shutil") and function.attr in WRITES_OF[owner] and not to_pipe:
                yield source.says(node, f"calls {owner}.{function.attr}")
            elif function.attr in WRITES and owner not in ("durable", "self"):
                yield source.says(node, f"calls .{function.attr}")
        if opens_for_writing(node):
            yield source.says(node, "opens a file for writing")


# -- one place that reads --------------------------------------------------------------------------------

READING_FILES = (
    "hibor/reading.py",
    "hibor/sim",  # the phone's own state
    "hibor/messages/__init__.py",  # what comes with the program
    "hibor/people/progress.py",
    "hibor/device/profile.py",
    "hibor/doctor/ports.py",  # /proc
    "hibor/pdf/memory.py",
)


def only_reading_opens_files(source: Source) -> Iterator[Finding]:
    """A plain open follows links and waits for a FIFO: what a library keeps is read by `hibor/reading.py`, or
    by durable writes, which look first.
    """
    durable = re.fullmatch(r"hibor/durable(_\w+)?\.py", source.name)
    if not source.inside("hibor") or source.inside(*READING_FILES) or durable:
        return
    for node in ast.walk(source.tree):
        if not isinstance(node, ast.Call):
            continue
        function, plain = node.func, not node.args
        if isinstance(function, ast.Name) and function.id == "open":
            yield source.says(node, "opens a file")
        elif isinstance(function, ast.Attribute) and (
            function.attr == "read_text"
            or (function.attr == "read_bytes" and plain)
            or (function.attr == "open" and any(_is_mode(argument) for argument in node.args[:1]))
        ):
            yield source.says(node, f"calls .{function.attr}")


def _is_mode(argument: ast.expr) -> bool:
    return isinstance(argument, ast.Constant) and argument.value in ("r", "rb", "rt")


# -- one clock -------------------------------------------------------------------------------------------

CLOCK_FILES = ("hibor/clock.py", "hibor/sim", "hibor/pdf")  # the PDF workers are watched in real seconds


def only_the_clock_reads_the_time(source: Source) -> Iterator[Finding]:
    """Waiting, measuring and stamping ask a `Clock`, so that the window, the waits and the phone shrink
    together.
    """
    if not source.inside("hibor", "fsm") or source.inside(*CLOCK_FILES):
        return
    for node in ast.walk(source.tree):
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
            name = f"{node.value.id}.{node.attr}"
            if name in ("time.sleep", "time.time", "time.monotonic", "time.perf_counter", "datetime.now"):
                yield source.says(node, f"uses {name}")


# -- sizes (design 8) ------------------------------------------------------------------------------------


def files_are_short(source: Source) -> Iterator[Finding]:
    if not source.inside("generated") and len(source.lines) > FILE_LINES:
        yield f"{source.name}:1 has {len(source.lines)} lines"


def functions_are_short(source: Source) -> Iterator[Finding]:
    for node in ast.walk(source.tree):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            length = (node.end_lineno or node.lineno) - node.lineno + 1
            if length > FUNCTION_LINES:
                yield source.says(node, f"{node.name} has {length} lines")


def modules_state_their_rules(source: Source) -> Iterator[Finding]:
    if source.inside(*RUN_TIME, "tools") and source.lines and ast.get_docstring(source.tree) is None:
        yield f"{source.name}:1 has no docstring"


# -- one place for every name of the contract (design 3) -------------------------------------------------

# NONE is a quota state and an artifact kind as well; as a bare word it says nothing about codes.
CONTRACT_NAMES = frozenset({*STATES, *CLOSURES, *CODE_CLASS, "P10_CLOSED"} - {"NONE"})


def contract_names_live_in_spec(source: Source) -> Iterator[Finding]:
    """State, closure and code names are literals only in `spec/` and `generated/`.

    The files of `BY_HAND` are there to differ from the tables: a table compared with itself proves nothing.
    """
    if source.inside("fsm", "hibor", "tools") and not source.inside(*BY_HAND):
        for node, text in source.strings():
            words = CONTRACT_NAMES.intersection(re.findall(r"[A-Z][A-Z0-9_]+", text))
            yield from (source.says(node, f"says {word}") for word in sorted(words))


RULES: tuple[Callable[[Source], Iterable[Finding]], ...] = (
    every_file_parses,
    fsm_is_pure,
    generated_imports_nothing,
    only_adb_imports_adbutils,
    only_pdf_imports_pymupdf,
    only_the_composition_root_imports_sim,
    run_time_code_never_imports_tools,
    compile_works_when_all_else_is_broken,
    only_durable_changes_the_disk,
    only_reading_opens_files,
    only_the_clock_reads_the_time,
    files_are_short,
    functions_are_short,
    modules_state_their_rules,
    contract_names_live_in_spec,
)
