"""The gate: what the contract says there is to reach was reached through side effects (design 7 gate 4, issue
6).

It runs last and only when the whole folder ran in this process; then it writes `coverage.json` for
`tools.audit`. Removing a rule of the suite leaves its keys unreached and turns this red.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from fsm import Tables
from tests.props.conftest import COLLECTED
from tests.props.recorder import Recorder, as_text, report
from tools.audit.records import FOLDER, faults_of, read_record, write_record

NEEDED = {
    "test_cells.py",
    "test_machines.py",
    "test_offline.py",
    "test_phone_paths.py",
    "test_phone_walk.py",
    "test_stops.py",
}


def test_the_gate_of_coverage(
    recorder: Recorder, request: pytest.FixtureRequest, capsys: pytest.CaptureFixture[str]
) -> None:
    collected = request.config.stash[COLLECTED]
    missing = {name for name in NEEDED if not (Path(__file__).parent / name).is_file()}
    assert not missing, f"a part of the suite is gone: {missing}"
    if not collected >= NEEDED or request.config.option.keyword or os.environ.get("PYTEST_XDIST_WORKER"):
        pytest.skip(
            "the gate needs the whole of tests/props in one process: python -m pytest -n 0 tests/props"
        )
    record = report(recorder, Tables.default())
    with capsys.disabled():
        print("\n" + as_text(record))
    folder = Path(os.environ.get("HIBOR_AUDIT_RECORDS", FOLDER))
    write_record("coverage", {**record, "made_by": "python -m pytest tests/props"}, folder)
    assert not faults_of(read_record("coverage", folder))


def test_the_gate_closes_when_something_is_not_reached(recorder: Recorder, tmp_path: Path) -> None:
    """The gate is no ornament: one key less and the record has a fault."""
    whole = report(recorder, Tables.default())["tables"]
    less = Recorder(
        reached={
            name: {key: set(by) for key, by in table.items()} for name, table in recorder.reached.items()
        }
    )
    for name, table in whole.items():
        for key in list(table["reached"])[:1]:
            del less.reached[name][key]
            write_record("coverage", report(less, Tables.default()), tmp_path)
            assert f"{name}: {key} was not reached" in faults_of(read_record("coverage", tmp_path))
            less.reached[name][key] = {"again"}
