"""One private adb server for the tests that need a phone."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from hibor.sim.server import PrivateAdbServer


@pytest.fixture(scope="module")
def adb_server() -> Iterator[PrivateAdbServer]:
    with PrivateAdbServer() as server:
        yield server
