"""One item: machine → work → event → work order → durable steps → probe → next node.

1. The machine's node is the highest one whose evidence is durable; nothing here sets a node by hand.
2. Work ends in an event or raises `EffectFailure`; the tables turn either into an edge, a code, a closure.
3. After the steps of an order the evidence on disk and in the ledger is probed again; `ItemMachine.commit`
   refuses anything but the target's row.
4. What was seen as U stays U for the rest of the run (ruling R2) and nothing is written after it (V006 §1).
5. A definite verdict on the file is journalled and appended before the item closes (ruling R11).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cached_property
from typing import Any

import attrs

from fsm import (
    Closure,
    ContractError,
    Facts,
    FsmError,
    ItemMachine,
    ItemOutcome,
    StateUncertain,
    TerminalItem,
    WorkOrder,
    build_terminal_item,
    code_class,
    failure_code,
    validate_snapshot,
)
from generated.ledger import EVENT_ARTIFACT
from hibor.collect.services import Services
from hibor.device.errors import DeviceError
from hibor.durable import DurableError, FileAlreadyThere
from hibor.items.draft import HOST_STATES_FROM, Draft, ItemJob
from hibor.items.effects import STEPS, WORK
from hibor.items.effects.persist import finishing_variant
from hibor.items.evidence import Evidence, probe
from hibor.items.failures import EffectFailure
from hibor.items.kept_screen import keep_item_screen
from hibor.locks import LockTimeout, LockUnusable
from hibor.package.journal import Journal
from hibor.package.layout import ItemFolder
from hibor.package.manifest import ManifestInvalid
from hibor.quota.errors import LedgerInvalid, QuotaError

_MOST_ORDERS = 40  # an item needs fourteen at the most; more is a defect, not patience
_SAYS_ITS_WORD = (EffectFailure, DeviceError, QuotaError, LockTimeout, LockUnusable, ManifestInvalid)


@attrs.frozen
class ItemResult:
    """How an item's run ended: its public item, and what the run has to know about it."""

    item: TerminalItem
    code: str
    detail: str | None
    closed: bool
    uncertain: bool = False
    contract_error: bool = False
    already_downloaded: bool = False


class ItemRun:
    """Drives one item until it closes or stops."""

    def __init__(
        self, job: ItemJob, services: Services, *, draft: Draft | None = None, node: str | None = None
    ) -> None:
        """A new item at its lane's first node; `draft` and `node` when an earlier run's item is gone on
        with."""
        self.services = services
        self.recovering = draft is not None
        self.draft = draft or Draft(job=job)
        self.machine = ItemMachine(job.lane, node, services.tables)
        self.folder: ItemFolder = services.item_folder(job.run_id, job.index, job.item_id)
        self.result: ItemResult | None = None
        self.failure: str | None = None
        self.while_waiting: Iterator[None] | None = None
        self.ahead: Callable[[bool], Callable[[], None] | None] | None = None
        self._orders = 0
        self.draft.run_started_s = services.deadline.started_s

    @property
    def job(self) -> ItemJob:
        """What the item was asked to do, with what was learned of the report since."""
        return self.draft.job

    @cached_property
    def journal(self) -> Journal:
        """The item's journal, read on first use: a disk that does not answer then stops this item, and no
        other."""
        services = self.services
        return Journal(self.folder.journal, services.durable, services.clock, services.calendar.tzinfo)

    # -- driving ---------------------------------------------------------------------------------------------

    def run_phone(self) -> bool:
        """Work until the item ended or needs the phone no longer; True when host work is left."""
        while self.result is None and not self.needs_host:
            self.advance()
        return self.result is None

    def run_host(self) -> ItemResult:
        """Work until the item ended."""
        while self.result is None:
            self.advance()
        return self.result

    def use_the_wait(self) -> bool:
        """Do one step of what the phone can do meanwhile; False when nothing is left to do. Called where
        the item waits for the app's server, between two looks at the cache."""
        if self.while_waiting is not None:
            for _ in self.while_waiting:
                return True
            self.while_waiting = None
        return False

    def look_ahead(self, *, settling: bool) -> Callable[[], None] | None:
        """The look at the page opened ahead that is worth taking now, None when none is: while a file that
        has come is `settling`, or while it has not come yet."""
        return None if self.ahead is None else self.ahead(settling)

    def refuse(self, failure: str, detail: str) -> None:
        """End the item at its first node for a reason the run knows (a NEW item that may not be opened)."""
        self._stop(failure, detail, None)
        self.services.on_stage(self)

    def resume(self, action: str) -> None:
        """Take up an earlier run's item where the recovery table says; `run_host` then goes on from there."""
        try:
            self.note_recovery()
            if action == "finish":
                self.perform(self._announced_event())
            elif action == "roll_forward" and self.draft.mark == "CODE":
                self.perform("refused")
            elif action == "roll_forward" and self._publish_window():
                self.draft.pending_final = self.draft.publish_intent
                self.perform("published")
        except FsmError as error:
            self._broken(error)
        except Exception as error:
            self._stop(*self._as_failure(error))

    def write_off(self, codes: Iterable[str], detail: str) -> bool:
        """Close a kept item with the first of `codes` that a closure accepts; False when none does (ruling
        R10)."""
        try:
            evidence = self.probe()
            for code in codes if self.services.may_write(evidence) else ():
                order = self.machine.closing_order(evidence.presence, evidence.artifact, code)
                if order is not None:
                    self.draft.stopped_with(code, detail)
                    self.draft.variant = order.variant
                    self.perform(order.event)
                    return True
        except FsmError as error:
            self._broken(error)
        except Exception as error:
            self._give_up(*self._as_failure(error))
        return False

    def _publish_window(self) -> bool:
        """True for a PURE item between PUBLISH_INTENT and its STATE (ruling R29)."""
        return self.draft.mark == "PUBLISH_INTENT" and self.machine.may("published", self.facts())

    def _announced_event(self) -> str:
        assert self.draft.closing is not None
        return self.services.tables.close_events[self.job.lane, self.machine.node][
            self.draft.closing["variant"]
        ]

    def note_recovery(self) -> None:
        """One RECOVERED record an item, whatever becomes of it."""
        if self.journal.last("RECOVERED") is None:
            data = {"run_id": self.services.run_id, "node": self.machine.node}
            self.note("RECOVERED", data, step="recovered.journal")

    def settle(self) -> None:
        """Settle the reservation of an item that closed without a quota terminal (ruling R19).

        What cannot be appended now stays open and is settled by the next preflight; a closed item is not
        reopened.
        """
        draft, result = self.draft, self.result
        if (
            result is None
            or not result.closed
            or draft.reservation is None
            or draft.quota_terminal is not None
        ):
            return
        attempted = draft.intent is not None
        step = "settle.doubt" if attempted else "settle.release"
        try:
            self.services.require_ledger().settle(draft.reservation, attempted=attempted, step=step)
        except LedgerInvalid as error:
            self.services.block_ledger(str(error))
        except (DurableError, *_SAYS_ITS_WORD) as error:
            self.services.log.warning("the reservation of item %s stays open: %s", self.job.item_id, error)

    @property
    def ended(self) -> ItemResult:
        """The result of an item that ended."""
        if self.result is None:
            raise ContractError(f"{self.machine.node}: the item has not ended")
        return self.result

    @property
    def needs_host(self) -> bool:
        """True when what comes next is done beside the phone."""
        states = self.services.tables.states
        return states.index(self.machine.state) >= HOST_STATES_FROM

    def advance(self) -> None:
        """One work and its order; sets `result` when the item ended."""
        self._orders += 1
        self.services.on_stage(self)
        node = self.machine.node
        entered_s = self.services.clock.monotonic_s()
        try:
            if self._orders > _MOST_ORDERS:
                raise ContractError(f"{node}: an item that does not end")
            event = WORK[self.machine.work(self.recovering)](self)
            self.perform(event)
        except FsmError as error:
            self._broken(error)
        except Exception as error:
            keep_item_screen(self, error)
            self._stop(*self._as_failure(error))
        finally:
            self.draft.note_stage(node, entered_s, self.services.clock.monotonic_s())
            if self.result is not None:
                self.services.on_stage(self)

    def perform(self, event: str) -> None:
        """Fire `event`: do its order's steps, probe, commit. Raises what a step raises, and FsmError."""
        facts = self.facts()
        order = self.machine.order(event, facts)
        before = self.draft.presence
        self._do_steps(order)
        after = self._left_by(order)
        self.machine.commit(order, facts, before, after.presence)
        if not order.closes:
            self.draft.validated = self.draft.snapshot(self.machine.state, after)
            validate_snapshot(self.draft.validated, self.services.tables)
        if order.closes:
            self._closed(order, after)
        elif self._late(order):
            over = self.services.deadline.over
            raise EffectFailure("persist_late", f"this step became durable after {over}")

    def _do_steps(self, order: WorkOrder) -> None:
        """Do the steps in order; one whose every move stands already (C02 gone on with) is not done again."""
        objects, before = self.services.tables.objects, self.draft.presence
        for step in order.steps:
            if step.moves and all(before[objects.index(name)] == letter for name, letter in step.moves):
                continue
            try:
                STEPS[step.name](self)
            except (DurableError, LedgerInvalid) as error:
                cause = error if isinstance(error, DurableError) else error.__cause__
                if isinstance(cause, DurableError) and cause.known == "U":
                    self.draft.doubt(step.moves)
                raise

    def _late(self, order: WorkOrder) -> bool:
        states = self.services.tables.states
        target = states.index(self.services.tables.state_of(order.target))
        return target > HOST_STATES_FROM and self.services.deadline.hard_passed

    def facts(self) -> Facts:
        """What guards may know."""
        return Facts(self.draft.quota_state, cache_identity_known=self.draft.identity is not None)

    # -- what effects write through --------------------------------------------------------------------------

    def ensure_opened(self) -> None:
        """The item's folder and its first record; done once."""
        if not self.draft.opened:
            self.services.durable.make_folders(self.folder.path, step="open.folder")
            data = self.job.opened()
            self.journal.append("ITEM_OPENED", data, step="open.journal")
            self.draft.apply("ITEM_OPENED", data)

    def note(self, event: str, data: dict[str, Any], *, step: str) -> None:
        """Append a journal record and take its facts; the same facts come back when it is read again."""
        self.ensure_opened()
        self.journal.append(event, data, step=step)
        self.draft.apply(event, data)

    def append_event(self, event_type: str, data: Mapping[str, Any], *, step: str) -> None:
        """Append a quota or artifact event to this item's family, and know it from then on."""
        draft = self.draft
        if draft.reservation is None:
            raise EffectFailure("unexpected", f"{event_type} without a reservation")
        event = self.services.require_ledger().append(event_type, draft.reservation, data, step=step)
        if event_type in EVENT_ARTIFACT:
            draft.took_artifact(event)
        else:
            draft.quota_terminal, draft.quota_state = event, event_type

    def closure_now(self) -> Closure:
        """The closure under way, else the one this item's success will be closed by."""
        draft, tables = self.draft, self.services.tables
        if draft.closing is not None:
            return Closure(draft.closing["variant"], draft.closing["source_state"])
        if draft.variant is not None:
            return Closure(draft.variant, self.machine.state)
        return Closure(finishing_variant(self), tables.states[9])

    def closing_code(self, closure: Closure) -> str:
        """The code an item closes with: the class's own word for success and duplicate, else why it
        stopped."""
        tables = self.services.tables
        for kind, status in tables.status_of_class.items():
            if tables.closures[closure.variant]["statuses"] == (status,) and kind in ("NONE", "DUPLICATE"):
                return next(code for code, its_kind in tables.code_class.items() if its_kind == kind)
        if self.draft.code is None:
            raise ContractError(f"{closure.variant} without a code")
        return self.draft.code

    def _left_by(self, order: WorkOrder) -> Evidence:
        """What the steps of an order left; what cannot be looked at now is not known (V006 §1)."""
        try:
            return self.probe()
        except FsmError:
            raise
        except Exception as error:
            _failure, detail, _code = self._as_failure(error)
            raise StateUncertain(f"{order.event}: what it left could not be looked at: {detail}") from error

    def probe(self) -> Evidence:
        """Look at disk and ledger again and remember the presence; a disk that did not answer once is asked
        again."""
        try:
            evidence = probe(self.draft, self.services)
        except (DurableError, LedgerInvalid):
            evidence = probe(self.draft, self.services)
        self.draft.presence = evidence.presence
        return evidence

    # -- stopping --------------------------------------------------------------------------------------------

    def _as_failure(self, error: Exception) -> tuple[str, str, str | None]:
        """(failure word, detail, code) of whatever an effect raised; an unknown exception is a defect,
        said so."""
        if isinstance(error, LedgerInvalid):
            self.services.block_ledger(str(error))
        if isinstance(error, FileAlreadyThere):
            return "final_conflict", error.detail, None
        if isinstance(error, DurableError):
            return ("disk_uncertain" if error.known == "U" else "disk_failed"), str(error), None
        if isinstance(error, _SAYS_ITS_WORD):
            return error.failure, getattr(error, "detail", str(error)), getattr(error, "code", None)
        self.services.log.error("item %s at %s", self.job.item_id, self.machine.node, exc_info=error)
        return "unexpected", f"{type(error).__name__}: {error}", None

    def _stop(self, failure: str, detail: str, code: str | None) -> None:
        """End this item's run for `failure`: close it, or keep it where it is (ruling R10)."""
        self.failure = failure
        try:
            evidence = self.probe()
            node = self.services.tables.node_of(self.machine.state, evidence.presence)
            code = self._code(failure, node, code)
            if self._is_verdict(node, code) and not evidence.uncertain:
                self.draft.rejected_with(code, detail)
                self.perform("refused")
                return
            self._end(evidence, node, code, detail)
        except FsmError as error:
            self._broken(error)
        except Exception as error:
            self._give_up(*self._as_failure(error))

    def _code(self, failure: str, node: str, code: str | None) -> str:
        """The code a failure has at a node; inside C02's window only the writing can fail (rulings R5,
        R24)."""
        tables = self.services.tables
        if self.draft.closing is not None and self.draft.artifact_kind == "DUPLICATE":
            return tables.failure_codes["unexpected"][node]
        return code or failure_code(failure, node, tables)

    def _is_verdict(self, node: str, code: str) -> bool:
        """True when `code` is a definite verdict on the file that has to be appended first (ruling R11)."""
        tables = self.services.tables
        return (
            self.machine.may("refused", self.facts())
            and code_class(code, tables) == "FAIL"
            and code != tables.failure_codes["unexpected"].get(node)
        )

    def _end(self, evidence: Evidence, node: str, code: str, detail: str) -> None:
        tables = self.services.tables
        self.draft.stopped_with(code, detail)
        action = tables.keep_or_close[self.job.lane][node][self.draft.quota_state][code]
        if self._publish_window():
            action = "keep"  # the name may be given already: recovery rolls forward (ruling R29)
        if action == "close" and self.services.may_write(evidence):
            order = self.machine.closing_order(evidence.presence, evidence.artifact, code)
            if order is None:
                raise ContractError(f"{node}: {code} is to close and no closure accepts it")
            self.draft.variant = order.variant
            self.perform(order.event)
            return
        if self.services.may_write(evidence):
            STEPS["kept.journal"](self)
        self._finish(evidence, ItemOutcome(code), detail, closed=False)

    def _give_up(self, failure: str, detail: str, code: str | None) -> None:
        """Writing the end of the item failed: its state stays, and it says so (rulings R4, R24)."""
        try:
            evidence = self.probe()
            node = self.services.tables.node_of(self.machine.state, evidence.presence)
            code = self._code(failure, node, code)
            self._finish(evidence, ItemOutcome(code), detail, closed=False)
        except FsmError as error:
            self._broken(error)
        except Exception as error:
            # What cannot even be looked at is not known: the last validated snapshot speaks, and the run says
            # 27.
            self.services.log.error("item %s cannot be looked at", self.job.item_id, exc_info=error)
            self._broken(StateUncertain(f"{detail}; then its evidence could not be read: {error}"))

    def _broken(self, error: FsmError) -> None:
        """The evidence is not what the contract allows: no successor, the last validated snapshot speaks
        (R4)."""
        self.services.log.error("item %s at %s: %s", self.job.item_id, self.machine.node, error)
        tables = self.services.tables
        validated = self.draft.validated
        node = tables.node_of(validated.state, validated.presence)
        code = tables.doubt_codes[validated.state]
        if code not in tables.node_codes[node]:  # a verdict on the file is durable there: no STOP code (R12)
            code = tables.failure_codes["unexpected"][node]
        item = build_terminal_item(validated, ItemOutcome(code), tables)
        uncertain = isinstance(error, StateUncertain)
        self.result = ItemResult(
            item, code, str(error), closed=False, uncertain=uncertain, contract_error=not uncertain
        )
        self._let_go()

    def _closed(self, order: WorkOrder, evidence: Evidence) -> None:
        assert order.variant is not None
        closure = Closure(order.variant, self.services.tables.state_of(order.source))
        self._finish(
            evidence, ItemOutcome(self.closing_code(closure), closure), self.draft.detail, closed=True
        )

    def _finish(self, evidence: Evidence, outcome: ItemOutcome, detail: str | None, *, closed: bool) -> None:
        snapshot = self.draft.snapshot(self.machine.state, evidence)
        item = build_terminal_item(snapshot, outcome, self.services.tables)
        self.result = ItemResult(
            item,
            outcome.code,
            detail,
            closed=closed,
            uncertain=evidence.uncertain,
            already_downloaded=self.failure == "already_downloaded",
        )
        self._let_go()

    def _let_go(self) -> None:
        """The item's run is over: no file stays open (Windows could not remove it), the machine forgets
        it."""
        if self.draft.sink is not None:
            self.draft.sink.abandon()
            self.draft.sink = None
        self.machine.release()


def public(result: ItemResult) -> dict[str, Any]:
    """The 26-key item of a result."""
    return result.item.to_dict()
