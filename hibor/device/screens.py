"""One look at the app, and one tap: the two moves that `navigate` and `trigger` are made of.

Rules of this file: a look checks whose window it is and whether a wall is up before anything else reads it;
a tap needs a target in a dump no older than the profile allows, a pixel of it that is visible and
uncovered, a dump in the phone's present space (fault F45), and a screen that has changed since the same
control was last tapped (fault F34). The adapter checks identity and focus itself, in one call directly
before the event. No tap is repeated.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from datetime import datetime, timedelta
from statistics import median
from typing import Final

from hibor.clock import Clock
from hibor.device.errors import DeviceError, NeverIdle
from hibor.device.evidence import ScreenEvidence, capture, evidence_of
from hibor.device.profile_types import MAX_DISMISSALS, Profile
from hibor.device.protocol import Device, Screen, TapResult
from hibor.device.reading import read_dialog
from hibor.device.uitree import UiNode, UiTree
from hibor.device.windows import require_app, require_no_wall

MACHINE_AGE_S: Final = 0.3
MIN_LOOKS: Final = 3

BANNER_SWIPES: Final = 3
BANNER_SHARE: Final = 0.1
"""What of the screen's height one swipe moves a banner by that keeps the list from resting."""
BANNER_MS: Final = 600


class Looker:
    """Dumps, checks and taps on behalf of one profile; remembers the last tree for whoever keeps evidence."""

    def __init__(self, device: Device, profile: Profile, clock: Clock) -> None:
        self.device = device
        self.profile = profile
        self.clock = clock
        self.last_tree: UiTree | None = None
        self.dismissed = 0
        self._screen: Screen | None = None
        self._offset: timedelta | None = None
        self._zone_now: datetime | None = None
        self._tapped: set[tuple[str, int]] = set()
        self._picturing = False
        self._pictured: ScreenEvidence | None = None
        self.dump_s = 0.0
        self._dumps_s: list[float] = []

    def phone_now(self) -> datetime:
        """The phone's clock, aware; read once and then carried on by our own clock (`sync_clock` reads it
        anew).
        """
        if self._offset is None or self._zone_now is None:
            self.sync_clock()
        assert self._offset is not None and self._zone_now is not None
        return (self.clock.now() + self._offset).astimezone(self._zone_now.tzinfo)

    def sync_clock(self) -> None:
        """Read the phone's clock and zone."""
        self._zone_now = self.device.now()
        self._offset = self._zone_now - self.clock.now()

    def raw_look(self, screen_key: str = "") -> UiTree:
        """A dump, whatever it shows."""
        begun_s = self.clock.monotonic_s()
        tree = self._dump(screen_key)
        self.dump_s = self.clock.monotonic_s() - begun_s
        self._dumps_s.append(self.dump_s)
        self.last_tree = tree
        return tree

    def _dump(self, screen_key: str) -> UiTree:
        """A dump; on the app's list a banner that keeps the screen from resting is swiped away, a little at a
        time, so that as few rows as can be go with it (design 5 "Adapter").
        """
        take = self._pictured_dump if self._picturing else self.device.dump
        for _ in range(BANNER_SWIPES):
            try:
                return take(screen_key)
            except NeverIdle:
                if screen_key != "list" or not self._on_list():
                    raise
            size = self.device.screen()
            x, start = size.width // 2, size.height * 2 // 3
            reach = int(size.height * BANNER_SHARE)
            require_accepted(self.device.swipe(x, start, x, start - reach, BANNER_MS))
            self.clock.sleep(self.profile.pace.swipe_settle_s)
        return take(screen_key)

    def _on_list(self) -> bool:
        """Whether the phone says that the app's list page has the focus."""
        focus, app = self.device.focus(), self.profile.app
        ours = focus.package == app.package and focus.user == 0 and not focus.locked
        return ours and bool(app.list_activity) and (focus.activity or "").endswith(app.list_activity)

    def median_dump_s(self) -> float:
        """What a dump took so far, in seconds of the clock; 0 before the first one."""
        return median(self._dumps_s) if self._dumps_s else 0.0

    @contextmanager
    def picturing(self) -> Iterator[None]:
        """Within: a picture of the screen is taken beside each dump. Both only look, so neither disturbs the
        other, and the picture costs no time of its own."""
        self._picturing = True
        try:
            yield
        finally:
            self._picturing = False

    def _pictured_dump(self, screen_key: str) -> UiTree:
        with ThreadPoolExecutor(max_workers=1, thread_name_prefix="picture") as beside:
            picture = beside.submit(self.device.screenshot)
            tree = self.device.dump(screen_key)
            self._pictured = evidence_of(tree, picture.result)
        return tree

    def evidence(self, tree: UiTree) -> ScreenEvidence:
        """The screen of a dump, for the journal: the picture taken beside it, else one taken now."""
        if self._pictured is not None and self._pictured.dump is tree.xml:
            return self._pictured
        return capture(self.device, tree)

    def look(self, screen_key: str = "", *, seen: UiTree | None = None) -> UiTree:
        """A dump of the app, without walls; dialogs the profile may close are closed (at most 3 a run).
        `seen`: a dump just taken, to begin with."""
        while True:
            tree = seen or self.raw_look(screen_key)
            seen = None
            require_app(tree, self.profile)
            dialog = read_dialog(tree, self.profile)
            if dialog is None or dialog.name == "confirm" or dialog.dismiss is None:
                require_no_wall(tree, self.profile)
                return tree
            if self.dismissed >= MAX_DISMISSALS:
                raise DeviceError("dialog_open", f"the app keeps asking: {dialog.text[:80]}")
            self.dismissed += 1
            self.tap(tree, dialog.dismiss, f"dialogs.{dialog.name}")
            self.clock.sleep(self.profile.pace.page_settle_s)

    def age_s(self, tree: UiTree) -> float:
        """Seconds since the dump was in our hands."""
        return self.clock.monotonic_s() - tree.taken_s

    def fresh(self, tree: UiTree) -> bool:
        """Whether a target in this dump may be tapped. On a scaled clock `MACHINE_AGE_S` real seconds are
        always allowed: our own work between dump and tap does not get faster with the clock."""
        scale = float(getattr(self.clock, "scale", 1.0))
        return self.age_s(tree) <= max(self.profile.pace.max_dump_age_s, MACHINE_AGE_S * scale)

    def changed(self) -> None:
        """The page was proven to have changed: controls that look the same may be tapped again."""
        self._tapped.clear()

    def target(self, tree: UiTree, node: UiNode, name: str) -> tuple[int, int]:
        """The pixel to tap. Raises `dump_stale` or `anchor_drift` where a tap would be blind."""
        if not self.fresh(tree):
            raise DeviceError(
                "dump_stale", f"{name}: the dump is {self.age_s(tree):.1f} s old", command_sent=False
            )
        self._require_space(tree, name)
        if (tree.digest, node.order) in self._tapped:
            raise DeviceError(
                "dump_stale", f"{name}: the screen has not changed since it was tapped", command_sent=False
            )
        point = tree.tap_point(node)
        if point is None or not node.enabled:
            raise DeviceError("anchor_drift", f"{name} is hidden, covered or disabled", command_sent=False)
        return point

    def _require_space(self, tree: UiTree, name: str) -> None:
        """The dump must lie in the screen's present space."""
        if self._screen is None:
            self._screen = self.device.screen()
        width, height = self._screen.size_at(tree.rotation)
        extent = tree.extent()
        if extent.right > width or extent.bottom > height:
            self._screen = self.device.screen()
            width, height = self._screen.size_at(tree.rotation)
            if extent.right > width or extent.bottom > height:
                raise DeviceError(
                    "dump_stale",
                    f"{name}: the dump covers {extent.right}x{extent.bottom}, the screen {width}x{height}; "
                    "rotation or resolution do not agree",
                    command_sent=False,
                )

    def send_tap(self, tree: UiTree, node: UiNode, name: str) -> TapResult:
        """One tap on a node, and what the phone said."""
        x, y = self.target(tree, node, name)
        self._tapped.add((tree.digest, node.order))
        return self.device.tap(x, y, package=self.profile.app.package)

    def tap(self, tree: UiTree, node: UiNode, name: str) -> None:
        """One tap that must be accepted. Raises `input_blocked`."""
        require_accepted(self.send_tap(tree, node, name))

    def wait_for(self, wanted: Callable[[UiTree], bool], screen_key: str, what: str) -> UiTree:
        """Look until `wanted` holds, at most `page_change_s`. Raises `cursor_lost` with what was waited
        for.
        """
        pace = self.profile.pace
        begun_s = self.clock.monotonic_s()
        looks = 0
        while True:
            tree = self.look(screen_key)
            looks += 1
            if wanted(tree):
                return tree
            if looks >= MIN_LOOKS and self.clock.monotonic_s() - begun_s >= pace.page_change_s:
                raise DeviceError("cursor_lost", f"{what} did not come within {pace.page_change_s:g} s")
            self.clock.sleep(pace.poll_s)


def require_accepted(result: TapResult) -> None:
    """Raise `input_blocked` where the phone refused an input event."""
    if not result.accepted:
        raise DeviceError(
            "input_blocked",
            f"the phone refuses input from adb ({(result.refusal or '')[:120]}); "
            "allow it in the developer options",
            command_sent=False,
        )
