"""The recorder listens while this folder's tests run; every item they drive is checked when it ends."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.props.invariants import check_item
from tests.props.recorder import Recorder, recording

RECORDER = Recorder(check=check_item)


@pytest.fixture(scope="session")
def recorder() -> Recorder:
    """What the session reached."""
    return RECORDER


@pytest.fixture(autouse=True)
def listening() -> Iterator[None]:
    """Count what the item machine does during the test."""
    RECORDER.faults.clear()
    with recording(RECORDER):
        yield
    RECORDER.raise_faults()


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """The gate is the last word of the folder."""
    gates = [item for item in items if item.name.startswith("test_the_gate_")]
    items[:] = [item for item in items if item not in gates] + gates
    config.stash[COLLECTED] = {item.path.name for item in items if item.path.parent.name == "props"}


COLLECTED: pytest.StashKey[set[str]] = pytest.StashKey()
