"""Random walks over the real item machine, real files and a real ledger (design 7 gate 4).

Rules: an item stands at any cell of the contract, works on, stops with any admissible code, meets an error
of the disk in any durable step, loses its run, is taken up by the next one, is written off; the window
closes, the ledger comes into doubt, a foreign file appears, another process reserves in the same ledger.
After every rule: books and files agree, a final or a terminal is never changed, a report is paid for once,
looking twice changes nothing. The ways with a phone are the table of `test_phone_paths.py` and the walk of
`test_phone_walk.py`. `--hypothesis-profile=deep` walks longer and by chance.
"""

from __future__ import annotations

import shutil
import tempfile
from contextlib import ExitStack
from pathlib import Path

import hypothesis.strategies as st
from hypothesis import HealthCheck, settings
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from hibor.items.evidence import probe
from hibor.items.item import ItemRun
from hibor.items.leftovers import find, resume, settle_lost, write_off
from hibor.quota.conservation import audit
from hibor.quota.errors import LedgerInvalid, QuotaError
from tests.fsm import v006
from tests.props.cells import Cell, cells, full, make, observed
from tests.props.conftest import RECORDER
from tests.props.invariants import check_ledger, tree
from tests.props.offline import Mischief
from tests.props.walking import CALLS, ERRORS, STEPS, admissible, deep, made_to_fail, sealed
from tests.props.world import SetClock, World, world

CELLS = [cell for cell in cells() if "U" not in cell.presence]
MOST_ITEMS = 5


class LibraryWalk(RuleBasedStateMachine):
    """One library, up to five items, any number of runs."""

    def __init__(self) -> None:
        super().__init__()
        self.root = Path(tempfile.mkdtemp(prefix="hibor-walk-")) / "library"
        self.clock = SetClock()
        self.runs = 0
        self.items: list[ItemRun] = []
        self.sealed: dict[str, bytes] = {}
        self.damaged = False
        self.stack = ExitStack()
        self.disk, self.place = self._open()

    def _open(self) -> tuple[Mischief, World]:
        """Another run over the same library."""
        self.runs += 1
        disk = Mischief()
        self.clock.sleep(60.0)
        run_id = f"20261130T01{self.runs:04}Z-{self.runs:06x}"
        opened = world(self.root, run_id=run_id, clock=self.clock, file_system=disk, limit=MOST_ITEMS * 2)
        place = self.stack.enter_context(opened)
        place._serial = self.runs * 100
        return disk, place

    def teardown(self) -> None:
        self.stack.close()
        shutil.rmtree(self.root.parent, ignore_errors=True)

    # -- rules -------------------------------------------------------------------------------------

    @precondition(lambda self: len(self.items) < MOST_ITEMS)
    @rule(cell=st.sampled_from(CELLS), damaged=st.booleans())
    def an_item_stands_at_a_cell(self, cell: Cell, damaged: bool) -> None:
        """As a run left it that ended there; a file that is no PDF waits at P05 now and then."""
        if self.place.services.ledger_blocked is not None:
            return
        data = b"%PDF-1.4 nothing" * 9 if damaged and cell.node == "P05-N" else None
        rules, self.disk.rules = self.disk.rules, []  # the run that left it met no error
        try:
            made = make(self.place, cell, data=data)
        except QuotaError:
            return  # no quota left for it
        finally:
            self.disk.rules = rules
        draft = observed(self.place, made)
        draft.presence = cell.presence
        node = full(cell.node)
        draft.validated = draft.snapshot(node.split("-")[0], probe(draft, self.place.services))
        item = ItemRun(draft.job, self.place.services, draft=draft, node=node)
        item.recovering = False
        self.items.append(item)

    def _running(self) -> list[ItemRun]:
        return [item for item in self.items if item.result is None and item.services is self.place.services]

    @precondition(lambda self: self._running())
    @rule(data=st.data())
    def an_item_works_on(self, data: st.DataObject) -> None:
        """One work and its order."""
        item = data.draw(st.sampled_from(self._running()))
        item.advance()
        item.settle()

    @precondition(lambda self: self._running())
    @rule(data=st.data())
    def an_item_fails(self, data: st.DataObject) -> None:
        """Its work ends with any code that is admissible where it stands."""
        item = data.draw(st.sampled_from(self._running()))
        codes = admissible(item)
        if not codes:
            return
        with made_to_fail(data.draw(st.sampled_from(codes))):
            item.advance()
        item.settle()

    @rule(
        step=st.sampled_from(STEPS),
        call=st.sampled_from(CALLS),
        number=st.sampled_from(ERRORS),
    )
    def the_disk_fails(self, step: str, call: str, number: int) -> None:
        """From now on, in this run, a step meets an error."""
        self.disk.fails(step, call, number)  # type: ignore[arg-type]

    @rule()
    def the_window_closes(self) -> None:
        """The hard deadline passes."""
        self.place.services.deadline.interrupt()

    @rule()
    def the_ledger_comes_into_doubt(self) -> None:
        """Nothing is appended any more in this run (ruling R28)."""
        self.place.services.block_ledger("made to be in doubt")

    @precondition(lambda self: self._running())
    @rule(data=st.data(), letter=st.sampled_from("VI"))
    def a_foreign_file_appears(self, data: st.DataObject, letter: str) -> None:
        """Somebody puts a file where an item's final is to go: the same bytes or others."""
        item = data.draw(st.sampled_from(self._running()))
        final = self.place.services.library.root / item.job.final_path
        if final.exists() or item.draft.identity is None or item.draft.publish_intent is not None:
            return
        staged = item.folder.staging.read_bytes() if item.folder.staging.exists() else b"%PDF-1.4"
        final.parent.mkdir(parents=True, exist_ok=True)
        final.write_bytes(staged if letter == "V" else b"%PDF-1.4 foreign")
        self.foreign = getattr(self, "foreign", set()) | {final}

    @rule(number=st.integers(0, 9))
    def another_process_reserves(self, number: int) -> None:
        """A second run over the same ledger reserves for a report of its own, or is refused."""
        with world(self.root, run_id=f"20261130T020{number:03}Z-ffff{number:02x}", clock=self.clock) as other:
            job = other.job("NEW_TRIGGER", report_id=f"HB2026112900{self.runs:02}{number}")
            try:
                reservation = other.services.require_ledger().reserve(
                    job.entry.report_id,
                    job.item_id,
                    job.run_id,
                    other.services.day,
                    1000,
                    "task",
                    None,
                    step="reserve.append",
                )
                other.services.require_ledger().append("RELEASED", reservation, {}, step="release.append")
            except QuotaError:
                return

    @rule()
    def the_run_ends_and_the_next_one_recovers(self) -> None:
        """A crash: nothing of the run's memory is left. The next run does what the recovery table says."""
        self.disk, self.place = self._open()
        services = self.place.services
        found, broken = find(services)
        settle_lost(services)
        assert not broken, [one.why for one in broken]
        before = tree(self.root)
        assert [one.node for one in find(services)[0]] == [one.node for one in found]
        assert tree(self.root) == before, "looking changes nothing"
        for leftover in found:
            result = resume(leftover, services)
            assert not result.contract_error, result.detail
            assert result.code in v006.ALL_CODES
        once = tree(self.root)
        for leftover in find(services)[0]:
            resume(leftover, services)
        assert set(once) <= set(tree(self.root)), "recovering twice loses nothing"
        settle_lost(services)

    @rule()
    def kept_items_are_written_off(self) -> None:
        """`recover --close`: what has a closure is closed."""
        self.disk, self.place = self._open()
        for leftover in find(self.place.services)[0]:
            result = write_off(leftover, self.place.services, "closed on request")
            if result is not None and not result.uncertain and not result.contract_error:
                assert result.closed or not leftover.folder.terminal.exists()

    # -- invariants --------------------------------------------------------------------------------

    @invariant()
    def every_item_that_ended_was_sound(self) -> None:
        """Public item, package and books of each agree (`invariants.check_item`)."""
        RECORDER.raise_faults()

    @invariant()
    def what_is_published_or_closed_never_changes(self) -> None:
        """Finals and terminals, once there, keep their bytes."""
        now = sealed(self.root)
        for name, data in self.sealed.items():
            assert now.get(name) == data, name
        self.sealed |= now

    @invariant()
    def the_ledger_tells_one_story(self) -> None:
        """The chain holds, and a report is paid for once."""
        events = check_ledger(self.place.ledger_path)
        paid = [event["report_id"] for event in events if event["type"] in ("CONFIRMED", "UNCERTAIN")]
        assert len(paid) == len(set(paid))

    @invariant()
    def everything_is_conserved(self) -> None:
        """Every item, unit and file is accounted for; a foreign file is the only stranger."""
        try:
            account = audit(self.place.services.library, self.place.ledger_path, self.place.services.durable)
        except LedgerInvalid:
            return
        foreign = {path.relative_to(self.root).as_posix() for path in getattr(self, "foreign", set())}
        strange = [one for one in account.findings if not (one.kind == "file" and one.name in foreign)]
        assert not strange, strange


TestLibraryWalk = LibraryWalk.TestCase
TestLibraryWalk.settings = settings(
    max_examples=400 if deep() else 10,
    stateful_step_count=40 if deep() else 12,
    deadline=None,
    derandomize=not deep(),
    suppress_health_check=list(HealthCheck),
)
