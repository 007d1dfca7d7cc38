"""`python -m tools.audit [--all] [--html FILE] [--json FILE] [--records DIR]`.

Enumerates the whole contract, reads what the suites recorded about it, and writes `audit.html` and
`audit.json` (into the current folder unless told where). Exit 0: nothing wrong and every record is there and
of this spec. 1: a violation. 3: no violation, but a record was not run. 64: usage.
`--all` makes the records first, with the same interpreter.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

from generated.stamp import SPEC_SHA256
from tools.commandline import Parser

try:
    from .gate import Enumeration, enumerate_all
    from .page import render
except ModuleNotFoundError as missing:  # what is expected stands in the tests, written apart from the tables
    raise SystemExit(f"the audit needs {missing.name}: pip install -e '.[test]'") from missing
from .records import FOLDER, NAMES, Record, faults_of, maker, read_record

EXIT_VIOLATION, EXIT_NOT_RUN = 1, 3
ROOT = Path(__file__).resolve().parents[2]


def main(arguments: list[str] | None = None) -> int:
    parser = Parser(
        prog="python -m tools.audit", description="Enumerate the contract and judge the suites' records."
    )
    parser.add_argument("--all", action="store_true", help="make coverage, mutants and crash atlas first")
    parser.add_argument(
        "--html", type=Path, default=Path("audit.html"), metavar="FILE", help="the page [%(default)s]"
    )
    parser.add_argument(
        "--json", type=Path, default=Path("audit.json"), metavar="FILE", help="the findings [%(default)s]"
    )
    parser.add_argument("--records", type=Path, default=FOLDER, metavar="DIR", help="folder of the records")
    options = parser.parse_args(arguments)
    failed = make_records(options.records) if options.all else []
    enumeration = enumerate_all()
    records = {name: read_record(name, options.records) for name in NAMES}
    try:
        options.html.write_bytes(render(enumeration, records).encode())
        options.json.write_bytes(_json(enumeration, records))
    except OSError as error:
        parser.error(f"cannot write {error.filename}: {error.strerror}")
    code = tell(enumeration, records, failed)
    print(f"page: {options.html}, findings: {options.json}")
    return code


def make_records(folder: Path) -> list[str]:
    """Run what makes the records; returns the names of those whose maker failed."""
    failed = []
    environment = {**os.environ, "HIBOR_AUDIT_RECORDS": str(folder.resolve())}
    for name in NAMES:
        words = maker(name, str(folder.resolve()))
        print(f"making {name}: python {' '.join(words)}", file=sys.stderr)
        done = subprocess.run(
            [sys.executable, *words], cwd=ROOT, env=environment, stdout=sys.stderr, check=False
        )
        if done.returncode != 0:
            failed.append(name)
    return failed


def tell(enumeration: Enumeration, records: Mapping[str, Record], failed: list[str]) -> int:
    """Print counts and faults; returns the exit code."""
    print("Compared with V006 and the rulings as copied by hand, never with the tables themselves.")
    for check in enumeration.checks:
        counts = ", ".join(f"{key} {count:,}" for key, count in check.counts.items())
        print(f"{'ok ' if not check.violations else 'BAD'} {check.name}: {counts}\n      {check.says}")
    without = enumeration.named("stops without a closure")
    pairs = sum(note.count(",") + 1 for note in without.notes)
    print(f"{pairs} stops have no closure, all of them implied by rulings R10 and R12; such an item is kept:")
    for note in without.notes:
        print(f"    {note}")
    bad = 0
    for violation in enumeration.violations:
        bad += 1
        print(f"violation: {violation}")
    for record in records.values():
        print(f"{record.name}: {record.shown}{_summary(record)}")
        for fault in faults_of(record):
            bad += 1
            print(f"violation: {record.name}: {fault}")
    for name in failed:
        bad += 1
        print(f"violation: {name}: what makes it failed")
    print(
        f"{enumeration.seconds:.2f} s ({enumeration.cpu_seconds:.2f} s of processor time), "
        f"peak {enumeration.peak_mb} MB"
    )
    print(f"{bad} violation{'s' if bad != 1 else ''}")
    if bad:
        return EXIT_VIOLATION
    return 0 if all(record.current for record in records.values()) else EXIT_NOT_RUN


def _summary(record: Record) -> str:
    if not record.current:
        return ""
    if record.name == "coverage":
        return "; " + ", ".join(
            f"{name} {len(table['reached'])}/{len(table['reached']) + len(table['missing'])}"
            for name, table in record.data["tables"].items()
        )
    if record.name == "mutants":
        data = record.data
        return f"; {data['made']} made, {data['killed']} killed, {len(data['survivors'])} survive"
    return "; " + ", ".join(f"{key} {value}" for key, value in record.data["counts"].items())


def _json(enumeration: Enumeration, records: Mapping[str, Record]) -> bytes:
    value = {
        "spec_sha256": SPEC_SHA256,
        "violations": [violation.to_dict() for violation in enumeration.violations],
        "enumeration": enumeration.to_dict(),
        "records": {
            name: {"state": record.state, "faults": faults_of(record)} for name, record in records.items()
        },
    }
    return (json.dumps(value, ensure_ascii=False, indent=1) + "\n").encode()


if __name__ == "__main__":
    sys.exit(main())
