"""A small phone for the transport tests: files, properties, a clock; faults as a list the test fills."""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping
from datetime import datetime, timedelta, timezone

import attrs

from hibor.sim.seam import Display, DumpResult, InputResult, LinkFault, PackageFacts, StartResult
from hibor.sim.vfs import Vfs

SHANGHAI = timezone(timedelta(hours=8), "CST")
APP = "com.huibo.research"


@attrs.define
class PlannedFault:
    """Played once, at the first `where` whose detail contains `contains`."""

    where: str
    contains: str
    fault: LinkFault


class FileCore:
    """Implements `PhoneCore` without an app: what goes in is kept and can be read by the test."""

    def __init__(self, serialno: str = "SIMA1000001") -> None:
        self.vfs = Vfs(self.now)
        self.pull_bytes_per_s = 0.0
        self.props: Mapping[str, str] = {
            "ro.product.model": "SIM-A1", "ro.product.name": "sim", "ro.product.device": "a1",
            "ro.serialno": serialno, "ro.build.version.sdk": "34",
        }
        self.faults: list[PlannedFault] = []
        self.records: list[tuple[str, str | None, str]] = []
        self.inputs: list[str] = []
        self.settings: dict[tuple[str, str], str] = {}
        self.dump = DumpResult("UI hierchary dumped to: /anything", b"<hierarchy rotation=\"0\"/>")
        self.input_result = InputResult()
        self.slept_s = 0.0
        self._lock = threading.Lock()

    def now(self) -> datetime:
        return datetime(2026, 11, 30, 9, 0, 5, 250_000, SHANGHAI)

    def sleep(self, wait_s: float) -> None:
        with self._lock:
            self.slept_s += max(0.0, wait_s)
        time.sleep(min(max(0.0, wait_s), 1.0) / 100)

    def monotonic_s(self) -> float:
        return time.monotonic()

    def packages(self) -> Mapping[str, PackageFacts]:
        return {APP: PackageFacts("7.2.1", 721, f"/data/app/~~x==/{APP}-1/base.apk")}

    def focus(self) -> tuple[str, str]:
        return APP, ".MainActivity"

    def wakefulness(self) -> str:
        return "Awake"

    def keyguard(self) -> bool:
        return False

    def battery(self) -> tuple[int, float]:
        return 87, 31.5

    def display(self) -> Display:
        return Display(1080, 2340, None, 440, 0)

    def dump_xml(self, compressed: bool) -> DumpResult:
        return self.dump

    def _input(self, text: str) -> InputResult:
        self.inputs.append(text)
        return self.input_result

    def tap(self, x: int, y: int) -> InputResult:
        return self._input(f"tap {x} {y}")

    def swipe(self, x1: int, y1: int, x2: int, y2: int, duration_ms: int) -> InputResult:
        return self._input(f"swipe {x1} {y1} {x2} {y2} {duration_ms}")

    def keyevent(self, code: str) -> InputResult:
        return self._input(f"keyevent {code}")

    def text(self, text: str) -> InputResult:
        return self._input(f"text {text}")

    def start(self, package: str, activity: str | None) -> StartResult:
        return StartResult(f"Starting: {package} {activity}\n")

    def screencap_png(self) -> bytes:
        return b"\x89PNG\r\n\x1a\n" + bytes(range(256))

    def settings_get(self, ns: str, key: str) -> str:
        return self.settings.get((ns, key), "null")

    def settings_put(self, ns: str, key: str, value: str) -> None:
        self.settings[ns, key] = value

    def link_fault(self, where: str, detail: str) -> LinkFault | None:
        with self._lock:
            for planned in self.faults:
                if planned.where == where and planned.contains in detail:
                    self.faults.remove(planned)
                    return planned.fault
        return None

    def record(self, event: str, report_id: str | None, detail: str) -> None:
        self.records.append((event, report_id, detail))
