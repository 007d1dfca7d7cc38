"""The adapter on the real engine, both versions, each in an environment of its own."""

from __future__ import annotations

import json
import os
import random
import subprocess
from pathlib import Path
from typing import Any

import pytest

from hibor.discovery import sanitize_content_id
from hibor.hosts.tasklite import TaskliteHost
from tests.services import tasklite_python

ROOT = Path(__file__).parents[2]
NAMES = [f"r{n * 7919 % 1009}" for n in range(12)]


@pytest.fixture(scope="module", params=["1.4.", "2."])
def python(request: pytest.FixtureRequest) -> str:
    return tasklite_python(request.param)


def drive(python: str, folder: Path | str, what: str, text: str = "") -> str:
    done = subprocess.run(
        [python, "-m", "tests.hosts.tasklite_driver", str(folder), what],
        input=text, capture_output=True, text=True, encoding="utf-8", cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT), "PYTHONUTF8": "1"}, timeout=200,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-3000:]
    return done.stdout


def runs(python: str, folder: Path, scenario: str) -> list[dict[str, Any]]:
    line = next(line for line in drive(python, folder, scenario).splitlines() if line.startswith("RESULT "))
    result: list[dict[str, Any]] = json.loads(line.removeprefix("RESULT "))
    return result


def test_first_scan_then_rediscovery(python: str, tmp_path: Path) -> None:
    first, second, third = runs(python, tmp_path, "rediscovery")
    assert sorted(first["executed"]) == sorted(NAMES)
    assert second["executed"] == ["new/1"]
    assert third["executed"] == []
    assert third["fetched"] == ["1"], "a quiet day costs one page"


def test_scan_debt_reads_on_after_a_cut_scan(python: str, tmp_path: Path) -> None:
    first, second, third = runs(python, tmp_path, "debt")
    assert len(first["executed"]) == 5
    assert sorted(first["executed"] + second["executed"]) == sorted(NAMES)
    assert third["fetched"] == ["1"]


def test_frontier_goes_on_where_the_last_scan_stopped(python: str, tmp_path: Path) -> None:
    result = runs(python, tmp_path, "frontier")
    executed = [name for run in result for name in run["executed"]]
    assert sorted(executed) == sorted(NAMES)


def test_a_failed_scan_hands_out_nothing_and_hides_nothing(python: str, tmp_path: Path) -> None:
    first, second = runs(python, tmp_path, "crash")
    assert first["executed"] == []
    assert sorted(second["executed"]) == sorted(NAMES)


def test_missing_is_confirmed_by_two_full_scans(python: str, tmp_path: Path) -> None:
    first, second, third = runs(python, tmp_path, "missing")
    assert (first["missing"], second["missing"]) == ([], [])
    assert json.loads(third["missing"][0]) == sorted([NAMES[0], "bad-one"])


def awkward_ids(count: int) -> list[str]:
    """Seeded ids around every edge: length limits, escapes, look-alikes, surrogates, combining marks."""
    source = random.Random(20261130)
    alphabets = [
        "aZ9-_.",
        "%:/\\ ",
        "慧博研报",
        "😀🎉",
        "e\u0301\u0308",
        "\n\r\0\x7f",
        "%41%_%25",
        "0123456789",
    ]
    lengths = [0, 1, 5, 29, 30, 33, 34, 35, 39, 40, 41, 60, *range(98, 106), *range(117, 124), 200, 400]
    ids = []
    for index in range(count):
        weights = [source.random() ** 4 for _ in alphabets]
        size = source.choice(lengths)
        text = "".join(source.choice(source.choices(alphabets, weights)[0]) for _ in range(size))
        ids.append(text + "\ud800" if index % 50 == 0 else text)
    return ids


def own_id(text: str) -> str | None:
    try:
        return sanitize_content_id(text)
    except UnicodeEncodeError:
        return None


def test_content_ids_equal_the_engines(python: str) -> None:
    ids = awkward_ids(6_000)
    lines = drive(python, "-", "ids", "".join(json.dumps(text) + "\n" for text in ids)).splitlines()
    assert len(lines) == len(ids)
    unequal = [text for text, line in zip(ids, lines, strict=True) if own_id(text) != json.loads(line)]
    assert unequal == []


def test_what_is_no_engine_is_refused() -> None:
    with pytest.raises(TypeError, match="not a tasklite engine"):
        TaskliteHost(object())
