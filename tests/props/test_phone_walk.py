"""Random walks over the real item machine, real files and a simulated phone at scaled time (design 7 gate 4).

Rules: items of all three sources begin and work on; they fail with any code that is admissible where they
stand; the phone meets a fault of the simulator's book, loses its link, its server or itself, comes back; the
window closes, the day changes, the computer's clock is set wrong, the quota is gone; another process holds
the locks; the disk fails; the run ends anywhere and the next one recovers, with the phone or without it, or
writes off what is kept. After every rule the invariants of design 7 hold. Threads and real processes take
part, so a failing walk is printed as it went and not shrunk. `--hypothesis-profile=deep` walks by chance and
for long.
"""

from __future__ import annotations

import hashlib
import shutil
import sys
import tempfile
from collections import Counter
from collections.abc import Collection, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import hypothesis.strategies as st
import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from fsm import FinalFile
from hibor.device.errors import DeviceError
from hibor.items.item import ItemResult, ItemRun
from hibor.items.leftovers import find
from hibor.items.recovery import Recovered, recover_all
from hibor.package.journal import read_journal
from hibor.quota.conservation import audit
from hibor.sim.scenario import Fault
from tests.faults.world import World, open_world
from tests.fsm import v006
from tests.props.conftest import RECORDER
from tests.props.invariants import check_ledger, tree
from tests.props.offline import Mischief
from tests.props.phone_room import Booth, Driver, HostClock, House, LeapingClock, open_house
from tests.props.walking import CALLS, ERRORS, STEPS, admissible, deep, made_to_fail, sealed, short_node

REPORTS = 3
SOURCES = ("NEW_TRIGGER", "NEW_TRIGGER", "CACHE_REUSE", "PROJECT_REUSE")
SURROUNDINGS = (
    "the clock is set",
    "the window closes",
    "the quota changes",
    "another process holds a lock",
    "the other process lets go",
    "a foreign file appears",
)
NUMBERS = st.integers(0, REPORTS - 1)
ANY = st.integers(0, 59)
"""Chooses among what there is at that moment. Draws never depend on it: what there is depends on time."""
FAULTS = (
    Fault("link_drop", "shell"),
    Fault("link_drop", "shell", at_bytes=-1),
    Fault("link_drop", "open"),
    Fault("link_drop", "data", at_bytes=1000, times=3),
    Fault("link_offline", "shell", wait_s=30.0),
    Fault("link_offline", "data", wait_s=90.0, at_bytes=500),
    Fault("pull_truncate", "data", at_bytes=2000, times=4),
    Fault("pull_flip", "data", at_bytes=2000, times=4),
    Fault("pull_grow", "data", times=4),
    Fault("deny", "data", times=9),
    Fault("deny", "shell"),
    Fault("crlf", "shell"),
    Fault("dump_null_root", "dump", times=2),
    Fault("dump_slot_taken", "dump", times=2),
    Fault("dump_junk", "dump"),
    Fault("dump_stale", "dump"),
    Fault("webview", "dump"),
    Fault("anchor_drift", "dump", times=2, rename=(("btn_download", "btn_get"),)),
    Fault("login_wall", "open_detail"),
    Fault("captcha_wall", "download"),
    Fault("member_wall", "confirm"),
    Fault("kicked_out", "confirm"),
    Fault("risk_wall", "download"),
    Fault("anr_dialog", "dump"),
    Fault("permission_dialog", "tap"),
    Fault("foreign_focus", "open_detail"),
    Fault("screen_locks", "tap"),
    Fault("input_blocked", "input", times=2),
    Fault("tap_ignored", "tap", control="dialog_ok"),
    Fault("tap_ignored", "tap", control="btn_download"),
    Fault("tap_ack_lost", "tap", control="dialog_ok"),
    Fault("tap_ack_lost", "tap", control="dialog_ok", wait_s=60.0),
    Fault("tap_ack_late", "tap", control="dialog_ok", wait_s=20.0),
    Fault("wrong_detail", "open_detail"),
    Fault("file_never", "confirm"),
    Fault("two_files", "confirm"),
    Fault("wrong_file", "confirm"),
    Fault("file_renamed_early", "confirm", wait_s=3.0),
    Fault("download_stalls", "confirm", wait_s=20.0),
    Fault("prepare_slow", "confirm", wait_s=60.0),
    Fault("storage_full", "confirm"),
    Fault("server_refuses", "confirm"),
    Fault("pdf", "confirm", variant="encrypted"),
    Fault("pdf", "confirm", variant="html"),
    Fault("pdf", "confirm", variant="truncated"),
    Fault("pdf", "confirm", variant="count_mismatch"),
    Fault("file_grows_in_pull", "data", amount=64, times=2),
    Fault("quota_elsewhere", "confirm", amount=2000),
    Fault("feed_insert", "dump", amount=2),
    Fault("load_fails", "load"),
)
AWAY = ("server killed", "link lost", "switched off", "replaced")
LEAPS_S = (60.0, 600.0, 86_400.0)
BEFORE_MIDNIGHT_S = 12 * 3600 - 30.0


class PhoneWalk(RuleBasedStateMachine):
    """One library, one phone, any number of runs."""

    def __init__(self, house: House) -> None:
        super().__init__()
        self.house = house
        self.folder = Path(tempfile.mkdtemp(prefix="hibor-phone-walk-"))
        self.root = self.folder / "library"
        self.line = LeapingClock()
        self.host = HostClock(self.line)
        self.booth = Booth(house, self.folder / "phone", self.line)
        self.away: str | None = None
        self.runs = 0
        self.limit = 500
        self.items: list[ItemRun] = []
        self.excused: set[int] = set()
        self.sealed: dict[str, bytes] = {}
        self.foreign: set[Path] = set()
        self.disk = Mischief()
        self.world: World | None = None
        self.driver: Driver | None = None

    @initialize(limit=st.sampled_from((500, 500, 3, 1)), number=NUMBERS)
    def a_first_run(self, limit: int, number: int) -> None:
        """The account's limit is what it is; one report is wanted."""
        self.limit = limit
        self._open()
        self._begin(number, "NEW_TRIGGER")

    def _open(self, *, with_phone: bool = True) -> None:
        """Another run over the same library; nothing is left of the last one's memory."""
        for item in self.items:
            if item.draft.sink is not None:
                item.draft.sink.abandon()
                item.draft.sink = None
        if self.world is not None:
            self.world.close()
        self.house.holder.let_go()
        self.runs += 1
        self.items, self.disk = [], Mischief()
        self.host.skew_s = 0.0
        self.line.leap(1.0)
        self.driver = self._reach() if with_phone and self.away is None else None
        self.world = open_world(
            self.root, self.driver, self.host.now(), fs=self.disk, clock=self.host,  # type: ignore[arg-type]
            run_id=f"20261130T01{self.runs:04}Z-{self.runs:06x}", limit=self.limit,
            lock_clock=self.host, spacing_s=8.0,
        )  # fmt: skip

    def _reach(self) -> Driver | None:
        """What a run's preflight does: the app is opened; where that fails the run has no phone."""
        try:
            driver = self.booth.driver()
            driver.app.open_app()
        except DeviceError:
            return None
        return driver

    @property
    def services(self) -> Any:
        """The run's means."""
        assert self.world is not None
        return self.world.services

    def teardown(self) -> None:
        error = sys.exc_info()[1]
        if isinstance(error, Exception) and not type(error).__module__.startswith("hypothesis"):
            self.house.failures.append(error)  # a replay may go otherwise: time and threads are real
        self.house.holder.let_go()
        if self.world is not None:
            self.world.close()
        self.booth.close()
        shutil.rmtree(self.folder, ignore_errors=True)

    # -- items -------------------------------------------------------------------------------------

    @rule(number=NUMBERS, source=st.sampled_from(SOURCES))
    def an_item_begins(self, number: int, source: str) -> None:
        """A report is to be had: downloaded, from the phone's cache, or from the library's own copy."""
        if source == "PROJECT_REUSE":
            self._begin_held(number)
        elif source == "CACHE_REUSE":
            self._begin_cached(number)
        else:
            self._begin(number, source)

    @rule(number=NUMBERS, state=st.sampled_from(("P01", "P02", "P03", "P04", "P05", "P06")))
    def a_new_item_comes_to(self, number: int, state: str) -> None:
        """A download goes on until its item stands at a state, or as far as it comes."""
        item = self._begin(number, "NEW_TRIGGER") if self._front() is None else None
        while item is not None and item.result is None and item.machine.state[:3] < state:
            item.advance()
        if item is not None:
            self._ended(item)

    def _begin_cached(self, number: int) -> None:
        if self.services.cache is None:
            return
        cache, entry = self.services.require_cache(), self.house.entries[number]
        with suppress(DeviceError):
            file = cache.file_of(entry, cache.listing())
            if file is not None:
                self._begin(number, "CACHE_REUSE", cached=file)

    def _begin_held(self, number: int) -> None:
        report_id = self.house.entries[number].report_id
        for row in self.services.manifest.rows():
            if row.report_id == report_id and row.final_path and row.bytes and row.sha256:
                copy = FinalFile(row.final_path, row.bytes, row.sha256, row.page_count)
                self._begin(number, "PROJECT_REUSE", copy=copy)
                return

    def _begin(self, number: int, source: str, **more: Any) -> ItemRun | None:
        entry = self.house.entries[number]
        jobs = {(item.job.entry.report_id, item.job.source) for item in self.items}
        if (entry.report_id, source) in jobs:
            return None
        assert self.world is not None
        self.items.append(self.world.item(entry, source, len(self.items) + 1, **more))
        return self.items[-1]

    def _front(self) -> ItemRun | None:
        """The item the phone's screen belongs to: from its page to its tap."""
        running = (item for item in self.items if item.result is None)
        return next((item for item in running if short_node(item) in ("P01", "P02-N")), None)

    def _running(self) -> list[ItemRun]:
        """Items that may work now: none opens a page while another one has the screen."""
        front = self._front()
        return [
            item
            for item in self.items
            if item.result is None
            and (item is front or front is None or item.job.lane == v006.PURE or short_node(item) != "P00")
        ]

    def _chosen(self, which: int) -> ItemRun | None:
        """One of the items that may work; a new one where none is left."""
        if not self._running():
            self._begin(which % REPORTS, "NEW_TRIGGER")
        running = self._running()
        return running[which % len(running)] if running else None

    @rule(which=ANY)
    def an_item_takes_a_step(self, which: int) -> None:
        """One work and its order."""
        self._work(self._chosen(which), 1)

    @rule(which=ANY, turns=st.integers(2, 5))
    def an_item_works_on(self, which: int, turns: int) -> None:
        """Some works and their orders."""
        self._work(self._chosen(which), turns)

    @rule(which=ANY)
    def an_item_works_to_its_end(self, which: int) -> None:
        """All its works and their orders."""
        self._work(self._chosen(which), 40)

    def _work(self, item: ItemRun | None, turns: int) -> None:
        """A reuse leaves the ledger as it is, byte for byte."""
        if item is None:
            return
        before = self._ledger_bytes()
        for _ in range(turns):
            if item.result is None:
                item.advance()
        self._ended(item)
        if item.job.lane == v006.PURE:
            assert self._ledger_bytes() == before, "a reuse spends nothing"

    def _ledger_bytes(self) -> bytes:
        path = self.services.ledger.path
        return path.read_bytes() if path.exists() else b""

    @rule(which=ANY, turns=st.integers(0, 9), code=ANY)
    def an_item_fails(self, which: int, turns: int, code: int) -> None:
        """After some works one ends with any code that is admissible where the item then stands."""
        item = self._chosen(which)
        self._work(item, turns)
        if item is not None and item.result is not None:
            return
        codes = admissible(item) if item is not None else []
        if item is None or not codes:
            return
        self.excused.add(id(item))
        with made_to_fail(codes[code % len(codes)]):
            item.advance()
        self._ended(item)

    def _ended(self, item: ItemRun) -> None:
        if item.result is None:
            return
        item.settle()
        self._judge(item.result)
        made = id(item) in self.excused
        assert item.failure != "unexpected" or made, f"a defect: {item.result.detail}"

    def _judge(self, result: ItemResult) -> None:
        assert not result.contract_error, (dict(result.item), result.detail)
        doubt = self.disk.rules or self.services.ledger_blocked is not None
        assert not result.uncertain or doubt, (dict(result.item), result.detail)

    # -- the phone ---------------------------------------------------------------------------------

    @precondition(lambda self: self.away is None and len(self.booth.faults) < 12)
    @rule(fault=st.sampled_from(FAULTS))
    def the_phone_meets(self, fault: Fault) -> None:
        """A fault is due."""
        self.booth.strike(fault)

    @rule(how=st.sampled_from(("put right", "put right and calm", "put right and calm", *AWAY)))
    def the_phone_goes_away_or_comes_back(self, how: str) -> None:
        """The server is killed, the cable pulled, the phone switched off, another one plugged in; or somebody
        has seen to it, and the run that was under way goes on with the phone it has.
        """
        if how.startswith("put right") or self.away is not None:
            self.booth.put_right(calm=how.endswith("calm"))
            self.away = None
        else:
            self.booth.lose(how)
            self.away = how

    # -- time, quota, other processes, disk --------------------------------------------------------

    @rule(seconds=st.sampled_from((*LEAPS_S, BEFORE_MIDNIGHT_S)))
    def time_passes(self, seconds: float) -> None:
        """A minute, ten, a day, or until just before midnight of the first day."""
        self.line.leap(seconds)

    @rule(what=st.sampled_from(SURROUNDINGS), amount=ANY, number=ANY)
    def something_happens(self, what: str, amount: int, number: int) -> None:
        """To the computer's clock, the window, the quota, the locks or the library."""
        services = self.services
        if what == "the clock is set":
            self.host.skew_s = (0.0, -3600.0, 600.0)[amount % 3]
        elif what == "the window closes":  # the deadline, or Ctrl-C (ruling R26)
            services.deadline.interrupt()
        elif what == "the quota changes":
            services.quota_limit = (0, 1, 500)[amount % 3]
        elif what == "another process holds a lock":
            path = (services.ledger.path, services.library.manifest)[amount % 2]
            self.house.holder.hold(path.with_suffix(".lock"))
        elif what == "the other process lets go":
            self.house.holder.let_go()
        else:
            self._foreign_file(number)

    @rule(step=st.sampled_from(STEPS), call=st.sampled_from(CALLS), number=st.sampled_from(ERRORS))
    def the_disk_fails(self, step: str, call: str, number: int) -> None:
        """From now on, in this run, a step meets an error."""
        self.disk.fails(step, call, number)  # type: ignore[arg-type]

    def _foreign_file(self, number: int) -> None:
        """Somebody puts another file where an item's final is to go."""
        free = [
            path
            for item in self.items
            if item.draft.publish_intent is None and item.draft.final is None
            and not (path := self.root / item.job.final_path).exists()
        ]  # fmt: skip
        if free:
            path = free[number % len(free)]
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(b"%PDF-1.4 somebody else's")
            self.foreign.add(path)

    # -- the end of a run --------------------------------------------------------------------------

    @rule(how=st.sampled_from(("with the phone", "without the phone", "written off")))
    def the_run_ends_and_the_next_one_recovers(self, how: str) -> None:
        """A crash anywhere; recovery never taps, and what it left it finds again unchanged. `recover --close`
        closes what has a closure.
        """
        taps = self._paying_taps()
        with_phone = how != "without the phone"
        self._open(with_phone=with_phone)
        asked = [one.draft.job.item_id for one in find(self.services)[0]] if how == "written off" else []
        self._recover(asked)
        found = self._left()
        before = tree(self.root)
        self._open(with_phone=with_phone)
        self._recover()
        if self._left() == found:
            assert tree(self.root) == before, "recovering twice is recovering once"
        assert self._paying_taps() == taps, "recovery never taps (design 4)"

    def _recover(self, close: Collection[str] = ()) -> Recovered:
        done = recover_all(self.services, close=close)
        assert not done.broken, [one.why for one in done.broken]
        for result in done.results:
            self._judge(result)
        return done

    def _left(self) -> list[Any]:
        """What stands open, where, and with which last words."""
        found, broken = find(self.services, writes=False)
        assert not broken
        durable = self.services.durable
        journals = [read_journal(one.folder.journal, durable).records for one in found]
        return [
            (one.folder.item_id, one.node, records[-1].data)
            for one, records in zip(found, journals, strict=True)
        ]

    def _paying_taps(self) -> Counter[str | None]:
        return Counter(event.report_id for event in self.booth.taps() if event.detail.endswith(" dialog_ok"))

    # -- invariants --------------------------------------------------------------------------------

    @invariant()
    def everything_holds(self) -> None:
        """The invariants of design 7."""
        self._items_are_sound()
        self._what_is_sealed_stays()
        if self.world is not None:
            self._books_and_phone_agree()
            self._everything_is_conserved()

    def _items_are_sound(self) -> None:
        """26 keys in order, equal to what disk alone gives, one closure or a reason (`check_item`)."""
        RECORDER.raise_faults()

    def _what_is_sealed_stays(self) -> None:
        """Finals and terminals keep their bytes, and every final is a report the phone really had."""
        now = sealed(self.root)
        for name, data in self.sealed.items():
            assert now.get(name) == data, name
        fresh = {name for name in now if name not in self.sealed and name.startswith("reports/")}
        known = self.booth.digests() if fresh else set()
        for name in fresh:
            assert self.root / name in self.foreign or hashlib.sha256(now[name]).digest() in known, name
        self.sealed |= now

    def _books_and_phone_agree(self) -> None:
        """CONFIRMED ≤ served ≤ CONFIRMED + UNCERTAIN + RESERVED with intent; one paying tap a family."""
        events = check_ledger(self.services.ledger.path)
        families: dict[str, dict[str, str]] = {}
        for event in events:
            if event["family"] is not None and not event["type"].startswith("ARTIFACT"):
                families.setdefault(event["report_id"], {})[event["family"]] = event["type"]
        served = Counter(one.report_id for one in self.booth.truth() if one.event == "served")
        taps = self._paying_taps()
        for report in {*families, *served, *taps}:
            states = Counter(families.get(report or "", {}).values())
            most = states["CONFIRMED"] + states["UNCERTAIN"] + states["RESERVED"]
            assert states["CONFIRMED"] <= served[report] <= most, (report, dict(states), served[report])
            assert taps[report] <= states.total(), (report, "more taps than families")
            assert states["CONFIRMED"] + states["UNCERTAIN"] <= 1, (report, "paid for twice")

    def _everything_is_conserved(self) -> None:
        """Every item, unit and file is accounted for; a foreign file is the only stranger."""
        path = self.services.ledger.path
        account = audit(self.services.library, path, self.services.durable)
        foreign = {one.relative_to(self.root).as_posix() for one in self.foreign}
        strange = [one for one in account.findings if not (one.kind == "file" and one.name in foreign)]
        assert not strange, strange


@pytest.fixture(scope="module")
def house(tmp_path_factory: pytest.TempPathFactory) -> Iterator[House]:
    with open_house(tmp_path_factory.mktemp("house"), REPORTS) as opened:
        yield opened


@pytest.mark.timeout(7200)
def test_a_walk_with_a_phone_keeps_every_invariant(house: House) -> None:
    wanted = settings(
        max_examples=600 if deep() else 5,
        stateful_step_count=40 if deep() else 14,
        deadline=None,
        derandomize=not deep(),
        phases=(Phase.generate,),
        suppress_health_check=list(HealthCheck),
    )
    try:
        run_state_machine_as_test(lambda: PhoneWalk(house), settings=wanted)
    except Exception as last:
        raise (house.failures or [last])[0] from last
