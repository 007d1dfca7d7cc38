"""What the package tests share: a durable disk with faults and a manifest row."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from hibor.durable import Durable
from hibor.locks import NOTE_STEPS, Locks
from hibor.package.manifest import STEPS, Manifest, ManifestRow, row_id
from tests.durable_support import FaultyFileSystem
from tests.quota.support import SetClock

STEP = "test.step"


class Desk:
    """A folder with what package files need."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.fs = FaultyFileSystem()
        self.clock = SetClock()
        self.durable = Durable(self.fs, self.clock, NOTE_STEPS | STEPS | {STEP})
        self.locks = Locks(self.durable, self.clock)

    def manifest(self) -> Manifest:
        return Manifest(self.folder / "manifest.jsonl", self.durable, self.locks)


def row(item: str = "0" * 16, **changes: Any) -> ManifestRow:
    """A plain row of a delivered report."""
    run = "20261130T000000Z-abcdef"
    values: dict[str, Any] = {
        "manifest_row_id": row_id(run, item),
        "run_id": run,
        "item_id": item,
        "report_id": "HB1",
        "source": "NEW_TRIGGER",
        "title": "深度报告：存储",
        "institution": "国信证券",
        "date": "2026-11-30",
        "analysts": ("张三", "李四"),
        "stock_code": "600519",
        "stock_name": None,
        "industry": None,
        "report_type": None,
        "rating": None,
        "final_path": "reports/2026/11/a.pdf",
        "bytes": 1234,
        "sha256": "a" * 64,
        "page_count": 12,
        "restricted": False,
        "match_basis": "title",
        "quota_state": "CONFIRMED",
        "reservation_event_id": "b" * 32,
        "quota_terminal_event_id": "c" * 32,
        "artifact_event_id": "d" * 32,
        "at": "2026-11-30T08:31:05.120+08:00",
    }
    return ManifestRow(**(values | changes))
