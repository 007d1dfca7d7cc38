"""The simulated phone behind the daemon: device facts, input, dumps and faults, in one object.

Rules: every public method may be called from several threads; state changes under one lock, waiting happens
outside it. Nothing moves by itself: whoever looks (a dump, a file listing) first brings the phone up to the
clock. Times inside are phone seconds since the state folder's first start, taken from the true clock; only
`now()` shows the clock the phone believes in, which a scenario may set wrong.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Callable, Mapping
from datetime import datetime, timedelta
from pathlib import Path

import attrs

from hibor.clock import Clock
from hibor.sim.app import POPUP_KINDS, ResearchApp
from hibor.sim.downloads import Downloads
from hibor.sim.faultbook import FaultBook
from hibor.sim.feed import ServerFeed
from hibor.sim.pages import list_bounds, system_window
from hibor.sim.scenario import Fault, FeedSettings, Scenario
from hibor.sim.screens import APP_PACKAGE, Window, black_png, window_png, window_xml
from hibor.sim.seam import (
    Display,
    DumpResult,
    InputResult,
    LinkFault,
    LinkFaultKind,
    PackageFacts,
    StartResult,
)
from hibor.sim.state import PHONE_ZONE, StateStore
from hibor.sim.truth import TruthEvent, TruthLog
from hibor.sim.versions import VERSION_NAMES, shown
from hibor.sim.vfs import Vfs

WIDTH, HEIGHT, DENSITY = 1080, 2340, 420
SERIAL_NUMBER, OTHER_SERIAL_NUMBER = "SIMA1000001", "SIMA1000002"
IDLE_LIMIT_S = 10.0
FLING_PX_PER_MS = 1.5

_DUMP_ERRORS = {
    "dump_null_root": "ERROR: null root node returned by UiTestAutomationBridge.",
    "dump_never_idle": "ERROR: could not get idle state.",
    "dump_slot_taken": (
        "java.lang.IllegalStateException: UiAutomationService "
        "android.accessibilityservice.IAccessibilityServiceClient$Stub$Proxy@8b4f1c2already registered!"
    ),
}
_LINK_KINDS: Mapping[str, LinkFaultKind] = {
    "link_drop": "drop", "link_hang": "hang", "link_offline": "offline", "pull_truncate": "truncate",
    "pull_flip": "flip", "pull_grow": "grow", "stat32": "stat32", "crlf": "crlf", "shell_flood": "flood",
    "deny": "deny",
}
_INJECT_DENIED = (
    "java.lang.SecurityException: Injecting input events requires the caller (or the source of the "
    "instrumentation, if any) to have the INJECT_EVENTS permission.\n"
)
_KEYS = {
    "3": "KEYCODE_HOME", "4": "KEYCODE_BACK", "26": "KEYCODE_POWER", "223": "KEYCODE_SLEEP",
    "224": "KEYCODE_WAKEUP",
}
_DEFAULT_SETTINGS = {
    "global.stay_on_while_plugged_in": "0", "system.screen_off_timeout": "600000", "global.adb_enabled": "1",
    "global.auto_time": "1", "system.screen_brightness": "102",
}


def _properties(serial_number: str, build: int) -> dict[str, str]:
    return {
        "ro.build.fingerprint": f"sim/a1/a1:14/SIM1.260101/{build}:user/release-keys",
        "ro.build.type": "user",
        "ro.build.version.release": "14",
        "ro.build.version.sdk": "34",
        "ro.product.brand": "sim",
        "ro.product.cpu.abi": "arm64-v8a",
        "ro.product.device": "a1",
        "ro.product.manufacturer": "SIM",
        "ro.product.model": "SIM-A1",
        "ro.product.name": "a1",
        "ro.serialno": serial_number,
        "persist.sys.locale": "zh-CN",
        "persist.sys.timezone": "Asia/Shanghai",
        "sys.boot_completed": "1",
    }


class SimPhone:
    """The core of one phone; implements `hibor.sim.seam.PhoneCore`."""

    def __init__(
        self, folder: Path, scenario: Scenario, clock: Clock, serial_number: str = SERIAL_NUMBER
    ) -> None:
        """Open the state folder (or begin a new phone in it) under `scenario`, living on `clock`."""
        folder.mkdir(parents=True, exist_ok=True)
        self._clock = clock
        self._scenario = scenario
        self._lock = threading.RLock()
        self._settling = False
        self._store = StateStore(folder, clock.now())
        self._state = self._store.state
        self._serial_number = serial_number
        self._awake = not scenario.phone.asleep
        self._last_xml: bytes | None = None
        self.on_record: Callable[[], None] | None = None
        self.truth = TruthLog(folder / "truth.jsonl")
        self.pull_bytes_per_s = scenario.pace.pull_bytes_per_s
        self.feed = ServerFeed(self._feed_settings(), self._state)
        self._faults = FaultBook(scenario.faults, self._state.fault_counts, self.feed.rank)
        self.vfs = Vfs(self.now)
        self._fill_storage()
        self.downloads = Downloads(
            self._store, self.feed, self.vfs, scenario.pace, scenario.feed.seed, scenario.app
        )
        if self._store.is_new:
            self._state.quota_used = scenario.quota.used
            self._state.quota_day = clock.now().astimezone(PHONE_ZONE).date().isoformat()
            self.downloads.prefill(scenario.cache.prefilled)
            self.downloads.leave_outdated(scenario.cache.outdated)
        else:
            self.downloads.restore()
        self.app = ResearchApp(
            scenario, self._state, self.feed, self.downloads, self._faults, self.record
        )
        if scenario.phone.locked:
            self.app.popup = "lock"
        self._limit_access()
        self.vfs.refresh = self.settle
        self._store.save()

    def _feed_settings(self) -> FeedSettings:
        """The scenario's feed; which reports there are was decided at the phone's first start, for good."""
        feed, state = self._scenario.feed, self._state
        if self._store.is_new:
            state.feed_seed, state.feed_reports, state.feed_hostile = feed.seed, feed.reports, feed.hostile
        return attrs.evolve(
            feed, seed=state.feed_seed, reports=state.feed_reports, hostile=state.feed_hostile
        )

    def _fill_storage(self) -> None:
        """What every phone has on its storage beside the app's files."""
        for name in ("DCIM/Camera", "Download", "Pictures", "Android/obb", "Android/media"):
            self.vfs.make_folders(f"/storage/emulated/0/{name}")
        self.vfs.write_file("/storage/emulated/0/Download/readme.txt", "家庭相册备份说明\n".encode())

    def _limit_access(self) -> None:
        self.vfs.make_folders("/data/user/0")
        self.vfs.set_access("/data/user/0", "denied")
        access = self._scenario.cache.access
        if access != "open":
            folder = f"/storage/emulated/0/Android/data/{APP_PACKAGE}"
            self.vfs.make_folders(folder)
            self.vfs.set_access(folder, "denied" if access == "deny" else "hidden")

    # -- time ------------------------------------------------------------------------------------------

    def now_s(self) -> float:
        """Phone seconds since the first start."""
        return (self._clock.now() - self._state.first_start).total_seconds()

    def now(self) -> datetime:
        """The clock the phone shows, in its own zone."""
        return self._clock.now().astimezone(PHONE_ZONE) + timedelta(seconds=self._scenario.phone.clock_skew_s)

    def sleep(self, wait_s: float) -> None:
        """Wait phone seconds."""
        self._clock.sleep(wait_s)

    def monotonic_s(self) -> float:
        """Phone seconds that only go forward."""
        return self._clock.monotonic_s()

    def settle(self) -> None:
        """Bring app and files up to the clock."""
        with self._lock:
            if self._settling:
                return
            self._settling = True
            try:
                self.app.advance(self.now_s())
            finally:
                self._settling = False

    def housekeeping(self) -> None:
        """What the living phone does now and then: settle, notice removed files, save."""
        with self._lock:
            self.settle()
            self.downloads.notice_removed()
            self._store.save()

    def meet(self, fault: Fault) -> None:
        """From now on this fault strikes too, as if it stood last in the scenario's file."""
        with self._lock:
            self._faults.add(fault)

    def make_pdfs_ahead(self, count: int) -> None:
        """Make the PDFs of the newest `count` reports before anybody waits for them."""
        for report in self.feed.original[:count]:
            self._store.pdf(report, "good")

    def close(self) -> None:
        """Save everything and close the truth."""
        self.housekeeping()
        self.truth.close()

    # -- truth -----------------------------------------------------------------------------------------

    def record(self, event: str, report_id: str | None, detail: str) -> None:
        """Write one line of truth."""
        self.truth.append(TruthEvent(round(self.now_s(), 3), event, report_id, detail))
        if self.on_record is not None:
            self.on_record()

    # -- device facts ----------------------------------------------------------------------------------

    @property
    def props(self) -> Mapping[str, str]:
        """What `getprop` shows; another phone's after `phone_replaced`."""
        if self._state.replaced:
            return _properties(OTHER_SERIAL_NUMBER, 2)
        return _properties(self._serial_number, 1)

    def packages(self) -> Mapping[str, PackageFacts]:
        """The installed apps."""
        found = {
            "com.android.settings": PackageFacts("14", 34, "/system/priv-app/Settings/Settings.apk"),
            "com.tencent.mm": PackageFacts("8.0.50", 2700, "/data/app/~~q8Lw2Q==/com.tencent.mm-1/base.apk"),
        }
        phone = self._scenario.phone
        if phone.app_installed:
            version = phone.app_version or VERSION_NAMES[self._scenario.app]
            digits = [int(part) for part in re.findall(r"\d+", version)][:3]
            code = 0
            for digit in digits:
                code = code * 100 + digit
            path = f"/data/app/~~7yQkZ3vB==/{APP_PACKAGE}-dG9k1A==/base.apk"
            found[APP_PACKAGE] = PackageFacts(version, code, path, phone.app_users)
        return found

    def focus(self) -> tuple[str, str]:
        """Package and activity of the focused window."""
        with self._lock:
            self.settle()
            window = self._window()
            return window.package, window.activity

    def wakefulness(self) -> str:
        """`Awake` or `Asleep`."""
        return "Awake" if self._awake else "Asleep"

    def keyguard(self) -> bool:
        """Whether the lock screen shows."""
        return self.app.popup == "lock"

    def battery(self) -> tuple[int, float]:
        """Percent and °C."""
        return self._scenario.phone.battery_level, self._scenario.phone.battery_temperature_c

    def display(self) -> Display:
        """The screen's facts."""
        phone = self._scenario.phone
        override = (phone.override_width, phone.override_height) if phone.override_width else None
        return Display(WIDTH, HEIGHT, override, DENSITY, phone.rotation)

    def _size(self) -> tuple[int, int]:
        """Width and height as an app sees them: override and rotation applied."""
        display = self.display()
        width, height = display.override or (display.width, display.height)
        return (height, width) if display.rotation % 2 else (width, height)

    def settings_get(self, ns: str, key: str) -> str:
        """A stored or default setting, `null` otherwise."""
        name = f"{ns}.{key}"
        return self._state.settings.get(name, _DEFAULT_SETTINGS.get(name, "null"))

    def settings_put(self, ns: str, key: str, value: str) -> None:
        """Store a setting."""
        with self._lock:
            self._state.settings[f"{ns}.{key}"] = value
            self._store.save()

    # -- screen ----------------------------------------------------------------------------------------

    def _window(self) -> Window:
        if not self._awake:
            return system_window(self._size(), "lock")
        return self.app.window(self._size(), self.now_s(), self.now(), self._clock.now())

    def dump_xml(self, compressed: bool) -> DumpResult:
        """One `uiautomator dump`: waits its latency, then for a screen at rest, and shows that."""
        with self._lock:
            self.settle()
            struck = {fault.kind: fault for fault in self._faults.take("dump")}
            self.app.disturb(list(struck.values()), self._clock.now())
            self._store.save()
        failed = self._failed_dump(struck, compressed)
        if failed is not None:
            self.sleep(IDLE_LIMIT_S if "dump_never_idle" in struck else self._scenario.pace.dump_s)
            return DumpResult(failed, None)
        self.sleep(self._scenario.pace.dump_s)
        self._wait_for_rest()
        with self._lock:
            self.settle()
            if ("dump_stale" in struck or self.app.take_stale()) and self._last_xml is not None:
                return DumpResult("", self._last_xml)
            self.app.opaque_list = "webview" in struck
            renamed = dict(struck["anchor_drift"].rename) if "anchor_drift" in struck else {}
            junk = "dump_junk" in struck
            reworded = dict(struck["text_drift"].rename) if "text_drift" in struck else {}
            window = shown(self._window(), self._scenario.app, self.feed.report)
            xml = window_xml(window, self._scenario.phone.rotation, compressed, renamed, junk, reworded)
            self.app.opaque_list = False
            self._last_xml = xml
            self._store.save()
        return DumpResult("", xml)

    def _failed_dump(self, struck: Mapping[str, Fault], compressed: bool) -> str | None:
        for kind, text in _DUMP_ERRORS.items():
            if kind in struck and not (compressed and struck[kind].compressed_works):
                return text
        return None

    def _wait_for_rest(self) -> None:
        """A dumper waits until the running change of screen is over."""
        with self._lock:
            now_s = self.now_s()
            wait_s = self.app.idle_at_s(now_s) - now_s
        self.sleep(wait_s)

    def screencap_png(self) -> bytes:
        """The screen as it is now; black where the app forbids pictures."""
        with self._lock:
            self.settle()
            size, window = self._size(), self._window()
            behind = self.app.page_behind(size, self.now_s(), self.now(), self._clock.now())
        if not self._awake or (self._scenario.phone.secure_screen and window.package == APP_PACKAGE):
            return black_png(size)
        return window_png(window, size, behind)

    # -- input -----------------------------------------------------------------------------------------

    def _blocked(self) -> InputResult | None:
        """The refusal of a phone whose maker wants a switch turned on first, or None."""
        with self._lock:
            struck = self._faults.take("input")
            self._store.save()
        return InputResult(_INJECT_DENIED, 255) if struck else None

    def tap(self, x: int, y: int) -> InputResult:
        """One touch. What it hit is recorded before anything happens because of it."""
        self.sleep(self._scenario.pace.inject_s)
        refused = self._blocked()
        if refused is not None:
            return refused
        late_s = 0.0
        with self._lock:
            self.settle()
            widget = self.app.target(self._window(), x, y) if self._awake else None
            control = widget.id_name if widget is not None else ""
            report_id = widget.report_id if widget is not None else None
            self.record("tap", report_id, f"{x},{y} {control or 'nothing'}")
            struck = self._faults.take("tap", report_id, control, excluded=("tap_ack_lost",))
            self.app.disturb(struck, self._clock.now())
            kinds = {fault.kind for fault in struck}
            if widget is not None and "tap_ignored" not in kinds and not kinds & set(POPUP_KINDS):
                self.app.perform(widget.action, self.now_s(), self._clock.now())
            late_s = sum(fault.wait_s for fault in struck if fault.kind == "tap_ack_late")
            self._store.save()
        self.sleep(late_s)
        return InputResult()

    def swipe(self, x1: int, y1: int, x2: int, y2: int, duration_ms: int) -> InputResult:
        """One finger movement; a fast one flings the list further."""
        self.sleep(self._scenario.pace.inject_s + duration_ms / 1000)
        refused = self._blocked()
        if refused is not None:
            return refused
        with self._lock:
            self.settle()
            area = list_bounds(self._size())
            if self._awake and area[1] <= y1 < area[3] and abs(y1 - y2) > abs(x1 - x2):
                distance = y1 - y2
                speed = abs(distance) / max(1, duration_ms)
                if speed > FLING_PX_PER_MS:
                    distance += int(distance * 0.5 * min(2.0, speed - FLING_PX_PER_MS))
                self.app.scroll(distance, area[3] - area[1], self.now_s(), self._clock.now())
            self._store.save()
        return InputResult()

    def keyevent(self, code: str) -> InputResult:
        """One key. Keys the phone does not know do nothing."""
        self.sleep(self._scenario.pace.inject_s)
        refused = self._blocked()
        if refused is not None:
            return refused
        key = _KEYS.get(code, code if code.startswith("KEYCODE_") else f"KEYCODE_{code}")
        with self._lock:
            self.settle()
            if key == "KEYCODE_POWER":
                self._awake = not self._awake
            elif key in ("KEYCODE_WAKEUP", "KEYCODE_SLEEP"):
                self._awake = key == "KEYCODE_WAKEUP"
            elif self._awake and key == "KEYCODE_BACK":
                self.app.back(self.now_s())
            elif self._awake and key == "KEYCODE_HOME" and self.app.popup != "lock":
                self.app.home(self.now_s())
            self._store.save()
        return InputResult()

    def text(self, text: str) -> InputResult:
        """Typed text goes to the focused field; no field of this app keeps it."""
        self.sleep(self._scenario.pace.inject_s)
        return self._blocked() or InputResult()

    def start(self, package: str, activity: str | None) -> StartResult:
        """Start an app by its launcher intent."""
        self.sleep(self._scenario.pace.inject_s)
        name = activity or ".MainActivity"
        if package not in self.packages():
            if activity is None:
                return StartResult("** No activities found to run, monkey aborted.\n", 252)
            return StartResult(
                f"Starting: Intent {{ cmp={package}/{name} }}\nError type 3\nError: Activity class "
                f"{{{package}/{package}{name}}} does not exist.\n", 1,
            )
        with self._lock:
            self.settle()
            running = bool(self.app.pages)
            if package == APP_PACKAGE:
                self.app.start(self.now_s())
            self._store.save()
        if activity is None:
            return StartResult(
                "Events injected: 1\n## Network stats: elapsed time=18ms (0ms mobile, 0ms wifi, "
                "18ms not connected)\n"
            )
        text = (
            "Starting: Intent { act=android.intent.action.MAIN cat=[android.intent.category.LAUNCHER] "
            f"cmp={package}/{name} }}\n"
        )
        if running:
            text += "Warning: Activity not started, its current task has been brought to the front\n"
        return StartResult(text)

    # -- link ------------------------------------------------------------------------------------------

    def link_fault(self, where: str, detail: str) -> LinkFault | None:
        """The link's fault to play now. Transfers are counted at their first byte only."""
        with self._lock:
            if where == "data":
                path, _, sent = detail.rpartition(" ")
                if sent != "0":
                    return None
                detail = path
            struck = self._faults.take(where, detail=detail)
            fault = next((one for one in struck if one.kind in _LINK_KINDS), None)
            for one in struck:
                if one.kind == "phone_replaced":
                    self._state.replaced = True
                elif one.kind == "file_grows_in_pull":
                    self.downloads.grow_file(detail, one.amount, self.now())
            lost = self._lost_tap(detail) if where == "shell" else None
            if struck or lost:
                self._store.save()
        if fault is not None:
            return LinkFault(_LINK_KINDS[fault.kind], fault.wait_s, fault.at_bytes)
        return lost

    def _lost_tap(self, command: str) -> LinkFault | None:
        """A tap that will be taken, but whose answer the link loses (`at_bytes` −1: after the command)."""
        found = re.search(r"\binput tap (\d+) (\d+)", command)
        if found is None:
            return None
        self.settle()
        widget = self.app.target(self._window(), int(found[1]), int(found[2]))
        if widget is None:
            return None
        struck = self._faults.take("tap", widget.report_id, widget.id_name, kinds=("tap_ack_lost",))
        if not struck:
            return None
        # With a time it is the whole link that goes, and it stays away so long.
        return LinkFault("offline" if struck[0].wait_s else "drop", struck[0].wait_s, -1)
