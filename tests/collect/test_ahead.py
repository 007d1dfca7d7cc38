"""What the phone does while an app's server prepares a file: the next report's page is opened and kept fresh.

A real item at a real simulated phone; the page and the dumps are the phone's own. Nothing here is timed: a
look is due or it is not.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import attrs
import pytest

from hibor.collect.breaker import Canary, CircuitBreaker
from hibor.collect.schedule import Schedule
from hibor.collect.selection import Choice
from hibor.items.catalogue import CatalogueEntry
from hibor.items.item import ItemRun
from hibor.people.progress import Progress
from hibor.sim.server import PrivateAdbServer
from tests.faults.world import QUICK, Phone, World, feed_of, moment, open_world, warm_phone


@pytest.fixture(scope="module")
def phone(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Phone]:
    with PrivateAdbServer() as server, warm_phone(server, tmp_path_factory.mktemp("phone"), QUICK) as phone:
        yield phone


@pytest.fixture
def world(phone: Phone, tmp_path: Path) -> Iterator[World]:
    world = open_world(tmp_path / "library", phone, moment())
    yield world
    world.close()


def at_the_next_page(world: World, phone: Phone) -> tuple[ItemRun, Schedule, Sequence[Choice]]:
    """An item whose download is under way, with the next report's page opened ahead."""
    first, second = feed_of(phone, 2)[:2]
    schedule = Schedule(world.services, Progress("en", quiet=True), CircuitBreaker(), Canary(proven=True))
    queue = [Choice(second)]
    item = world.item(first, "NEW_TRIGGER")
    for _step in schedule._open_page_ahead(queue):
        pass
    return item, schedule, queue


def aged(phone: Phone, age_s: float) -> None:
    """The dump of the opened page is taken to be so old; negative: fresh, however slow this machine is."""
    tree = phone.app.last_tree
    assert tree is not None
    phone.app.looker.last_tree = attrs.evolve(tree, taken_s=phone.app.clock.monotonic_s() - age_s)


def test_the_next_page_is_opened_while_a_file_is_prepared(world: World, phone: Phone) -> None:
    _item, _schedule, queue = at_the_next_page(world, phone)
    entry: CatalogueEntry = queue[0].entry
    assert phone.app.opened == entry.report_id
    assert phone.trigger_taps == 0


def test_a_quick_dump_is_renewed_only_when_the_file_has_come(world: World, phone: Phone) -> None:
    item, schedule, queue = at_the_next_page(world, phone)
    phone.app.looker.dump_s = 1.2
    aged(phone, -3600.0)
    assert schedule._look_ahead(item, queue, True) is None, "the dump is still fresh"
    aged(phone, 60.0)
    assert schedule._look_ahead(item, queue, False) is None
    assert schedule._look_ahead(item, queue, True) is not None


def test_a_slow_dump_is_kept_fresh_before_the_file_comes(world: World, phone: Phone) -> None:
    item, schedule, queue = at_the_next_page(world, phone)
    aged(phone, 60.0)
    phone.app.looker.dump_s = 3.0
    look, before = schedule._look_ahead(item, queue, False), phone.app.last_tree
    assert look is not None
    look()
    after = phone.app.last_tree
    assert before is not None and after is not None and after.taken_s > before.taken_s
    assert phone.app.opened == queue[0].entry.report_id


def test_nothing_is_looked_at_when_the_opened_page_is_another(world: World, phone: Phone) -> None:
    item, schedule, queue = at_the_next_page(world, phone)
    aged(phone, 60.0)
    phone.app.back()
    phone.app.looker.dump_s = 3.0
    assert schedule._look_ahead(item, queue, True) is None
