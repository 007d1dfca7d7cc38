"""`python -m tools.compile [--check] [--spec DIR] [--out DIR]`.

Exit 0: generated/ is up to date (or was written). 1: the spec has faults, or --check found a difference.
64: usage.
"""

from __future__ import annotations

import sys
from pathlib import Path

from tools.commandline import Parser

from .check import compile_folder
from .emit import differences, emit, write

ROOT = Path(__file__).resolve().parents[2]


def main(arguments: list[str] | None = None) -> int:
    parser = Parser(prog="python -m tools.compile", description="Compile spec/*.yaml into generated/*.py.")
    parser.add_argument(
        "--check", action="store_true", help="write nothing; exit 1 if generated/ is not up to date"
    )
    parser.add_argument(
        "--spec", type=Path, default=ROOT / "spec", metavar="DIR", help="folder of the spec files"
    )
    parser.add_argument("--out", type=Path, default=ROOT / "generated", metavar="DIR", help="folder to write")
    options = parser.parse_args(arguments)
    if not options.spec.is_dir():
        parser.error(f"no such folder: {options.spec}")
    result = compile_folder(options.spec)
    if result.faults:
        for fault in result.faults:
            print(fault, file=sys.stderr)
        print(f"{len(result.faults)} fault(s); nothing was written.", file=sys.stderr)
        return 1
    files = emit(result.derived, result.documents)
    if options.check:
        found = differences(files, options.out)
        for text in found:
            print(f"{options.out.name}/{text}", file=sys.stderr)
        if found:
            command = "python -m tools.compile"
            if options.spec != ROOT / "spec":
                command += f" --spec {options.spec}"
            if options.out != ROOT / "generated":
                command += f" --out {options.out}"
            print(f"To fix it, run: {command}", file=sys.stderr)
            return 1
        print(f"{len(files)} generated files are up to date.")
        return 0
    touched = write(files, options.out)
    print(f"{len(files)} files, {len(touched)} changed" + (": " + ", ".join(touched) if touched else ""))
    return 0


if __name__ == "__main__":
    sys.exit(main())
