"""The paths that need a phone, over the simulated one behind a real adb server (design 7 gate 4; V006 §5.4
P03, P04).

One phone plays them all: each path has a report of its own, and the phone's faults strike that report alone.
What the phone really served is compared with the ledger for every path: at most one tap a family, nothing
served unconfirmed.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import attrs
import pytest

from fsm import FinalFile
from hibor.clock import SystemClock
from hibor.device.errors import DeviceError
from hibor.device.protocol import RemoteFile
from hibor.items.catalogue import CatalogueEntry
from hibor.items.item import ItemRun
from hibor.items.leftovers import resume, understand, write_off
from hibor.sim.server import PrivateAdbServer
from tests.faults.world import (
    FIRST_RUN,
    NEXT_RUN,
    PROFILE,
    QUICK,
    Phone,
    World,
    feed_of,
    moment,
    open_world,
    warm_phone,
)
from tests.props.invariants import check_ledger
from tests.props.offline import DONE, DUPLICATE, P10, REUSED, WARNING, End, differences, kept

Act = Callable[["Scene"], ItemRun]


@attrs.frozen
class Path_:
    """A path: how it goes, the faults of its report, its end."""

    name: str
    act: Act
    end: End
    faults: str = ""
    cached: bool = False


@attrs.define
class Scene:
    """What a path may use."""

    world: World
    phone: Phone
    entry: CatalogueEntry
    root: Path

    def new(self, source: str = "NEW_TRIGGER", **more: Any) -> ItemRun:
        """The path's item."""
        return self.world.item(self.entry, source, 1, **more)

    def drive(self, item: ItemRun, until: str = "") -> ItemRun:
        """Advance until the item ends or stands at a state."""
        while item.result is None and not (until and item.machine.state.startswith(until)):
            item.advance()
        if item.result is not None:
            item.settle()
        return item

    def on_phone(self) -> RemoteFile:
        """The report's file in the app's cache."""
        cache = self.world.services.require_cache()
        file = cache.file_of(self.entry, cache.listing())
        assert file is not None
        return file


def plain(scene: Scene) -> ItemRun:
    """A new item, from the first step to the last."""
    return scene.drive(scene.new())


def blind(scene: Scene) -> ItemRun:
    """After the paying tap the screen cannot be read any more."""
    item = scene.drive(scene.new(), "P02")
    with blindfold(scene.phone):
        item.advance()
    return scene.drive(item)


@contextmanager
def blindfold(phone: Phone) -> Iterator[None]:
    """Every dump after the last tap of the trigger is lost with the link."""
    device = phone.device
    tap, dump, taps = device.tap, device.dump, []

    def counted_tap(*args: Any, **more: Any) -> Any:
        taps.append(args)
        return tap(*args, **more)

    def lost_dump(*args: Any, **more: Any) -> Any:
        if len(taps) >= len(PROFILE.trigger.steps):
            raise DeviceError("link_lost", "the link dropped")
        return dump(*args, **more)

    device.tap, device.dump = counted_tap, lost_dump  # type: ignore[method-assign]
    try:
        yield
    finally:
        del device.tap, device.dump


def window_closes_at(state: str) -> Act:
    """The window closes when the item has come to a state."""

    def act(scene: Scene) -> ItemRun:
        item = scene.drive(scene.new(), state)
        scene.world.services.deadline.interrupt()
        return scene.drive(item)

    return act


def ended_before_the_tap(scene: Scene) -> ItemRun:
    """The run ends right after TRIGGER_INTENT; recovery looks at the phone and never taps."""
    scene.drive(scene.new(), "P02")
    return _next_run(scene)


def ended_after_the_tap(scene: Scene) -> ItemRun:
    """The run ends after the tap and before its quota terminal."""
    item = scene.drive(scene.new(), "P02")

    def lost(event: str) -> None:
        raise KeyboardInterrupt(event)

    item.perform = lost  # type: ignore[method-assign]
    with pytest.raises(KeyboardInterrupt):
        item.advance()
    return _next_run(scene)


def ended_at(state: str) -> Act:
    """The run ends when the item has come to a state; the next one goes on."""

    def act(scene: Scene) -> ItemRun:
        item = scene.drive(scene.new(), state)
        if item.draft.sink is not None:
            item.draft.sink.abandon()
        return _next_run(scene)

    return act


def _next_run(scene: Scene) -> ItemRun:
    """Another run over the same library takes the item up."""
    folder = scene.new().folder
    scene.world.close()
    taps = scene.phone.trigger_taps
    scene.world = open_world(scene.root, scene.phone, moment(), run_id=NEXT_RUN)
    leftover = understand(folder, scene.world.services)
    assert leftover is not None
    result = resume(leftover, scene.world.services)
    assert scene.phone.trigger_taps == taps, "no recovery ever taps (design 4)"
    item = ItemRun(leftover.draft.job, scene.world.services, draft=leftover.draft)
    item.result = result
    return item


def written_off(state: str) -> Act:
    """Kept for want of a file, then closed on request (ruling R10)."""

    def act(scene: Scene) -> ItemRun:
        item = plain(scene)
        assert item.ended.item["state"].startswith(state) and not item.ended.closed
        leftover = understand(item.folder, scene.world.services)
        assert leftover is not None
        result = write_off(leftover, scene.world.services, "closed on request")
        assert result is not None
        again = ItemRun(leftover.draft.job, scene.world.services, draft=leftover.draft)
        again.result = result
        return again

    return act


def cached(scene: Scene) -> ItemRun:
    """A file that is in the phone's cache already."""
    return scene.drive(scene.new("CACHE_REUSE", cached=scene.on_phone()))


def cached_and_there(same: bool) -> Act:
    """The final path holds a file already: the same one, or another."""

    def act(scene: Scene) -> ItemRun:
        file = scene.on_phone()
        item = scene.new("CACHE_REUSE", cached=file)
        final = scene.world.services.library.root / item.job.final_path
        final.parent.mkdir(parents=True)
        final.write_bytes(_pulled(scene, file) if same else b"%PDF-1.4 another")
        return scene.drive(item)

    return act


def _pulled(scene: Scene, file: RemoteFile) -> bytes:
    class Sink:
        data = b""

        def write(self, data: memoryview) -> None:
            self.data += bytes(data)

    sink = Sink()
    scene.phone.device.pull(file.path, sink, limit_bytes=1 << 30, expected_bytes=file.size_bytes)
    return sink.data


def held(scene: Scene) -> ItemRun:
    """The same report once more, from the library."""
    shown = plain(scene).ended.item
    copy = FinalFile(shown["final_path"], shown["bytes"], shown["sha256"], shown["page_count"])
    return scene.drive(scene.new("PROJECT_REUSE", copy=copy))


def fault(kind: str, **values: Any) -> str:
    """One fault of a scenario file; `{rank}` and `{file}` are filled in for the path's report."""
    lines = [f'kind = "{kind}"', *(f"{key} = {_toml(value)}" for key, value in values.items())]
    return "[[fault]]\n" + "\n".join(lines) + "\n"


def _toml(value: Any) -> str:
    return value if value in ("RANK",) else f'"{value}"' if isinstance(value, str) else str(value)


def of_report(kind: str, **values: Any) -> str:
    """A fault that strikes the path's report."""
    return fault(kind, report="RANK", **values)


def of_file(kind: str, **values: Any) -> str:
    """A fault that strikes the path's file on its way."""
    return fault(kind, match="FILE", **values)


def failed(code: str, presence: str) -> End:
    """A verdict on the file (ruling R11)."""
    return End(P10, code, "C08_PROCESSING_FAILED", presence)


PATHS = (
    Path_("delivered", plain, DONE),
    Path_(
        "no download was started",
        plain,
        End(P10, "TRIGGER_NOT_OCCURRED", "C07_TRIGGER_CLOSED_NO_ARTIFACT", "NNVNNNNV"),
        of_report("tap_ignored", control="dialog_ok"),
    ),
    Path_(
        "nobody can tell, nothing came",
        blind,
        End(P10, "TRIGGER_UNCERTAIN", "C07_TRIGGER_CLOSED_NO_ARTIFACT", "NNVNNNNV"),
        of_report("file_never"),
    ),
    Path_(
        "nobody can tell, the file came",
        blind,
        attrs.evolve(DONE, note=WARNING),
        of_report("prepare_slow", wait_s=20.0),
    ),
    Path_("changed once while pulled", plain, DONE, of_file("file_grows_in_pull", call=2, amount=64)),
    Path_(
        "changed twice while pulled",
        plain,
        kept("P03", "REMOTE_FILE_CHANGED", "NNVNNNNN"),
        of_file("file_grows_in_pull", call=2, amount=64) + of_file("file_grows_in_pull", call=4, amount=64),
    ),
    Path_(
        "partial pull",
        plain,
        failed("BYTE_COUNT_MISMATCH", "INVVNNNV"),
        of_file("pull_truncate", call=2, times=3, at_bytes=2000),
    ),
    Path_(
        "hash mismatch",
        plain,
        failed("HASH_MISMATCH", "INVVNNNV"),
        of_file("pull_flip", call=2, times=3, at_bytes=2000),
    ),
    Path_(
        "refused while pulled",
        plain,
        failed("PULL_FAILED", "INVVNNNV"),
        of_file("deny", site="data", call=2, times=9),
    ),
    Path_(
        "refused while matched",
        plain,
        failed("PULL_FAILED", "NNVVNNNV"),
        of_file("deny", site="data", times=9),
    ),
    Path_(
        "link lost while pulled",
        plain,
        kept("P04", "PROCESS_LIVENESS_UNKNOWN", "INVNNNNN"),
        of_file("link_drop", site="data", call=2, times=3, at_bytes=1000),
    ),
    Path_("no file came", plain, kept("P03", "CACHE_TIMEOUT", "NNVNNNNN"), of_report("file_never")),
    Path_("the same file came twice", plain, DONE, of_report("two_files")),
    Path_("encrypted", plain, failed("PDF_ENCRYPTED", "VNVVNNNV"), of_report("pdf", variant="encrypted")),
    Path_(
        "another report's page",
        plain,
        End(P10, "DETAIL_RESULT_MISMATCH", "C06_RESERVED_STOP", "NNNNNNNV"),
        of_report("wrong_detail"),
    ),
    Path_(
        "closed on request",
        written_off("P03"),
        End(P10, "CACHE_TIMEOUT", "C07_TRIGGER_CLOSED_NO_ARTIFACT", "NNVNNNNV"),
        of_report("file_never"),
    ),
    Path_("cache deadline", window_closes_at("P03"), kept("P03", "DEADLINE_EXPIRED", "NNVNNNNN")),
    Path_("pull deadline", window_closes_at("P04"), kept("P04", "DEADLINE_EXPIRED", "INVNNNNN")),
    Path_(
        "run ended before the tap",
        ended_before_the_tap,
        End(P10, "TRIGGER_UNCERTAIN", "C07_TRIGGER_CLOSED_NO_ARTIFACT", "NNVNNNNV"),
    ),
    Path_("run ended after the tap", ended_after_the_tap, DONE),
    Path_("run ended at P03", ended_at("P03"), DONE),
    Path_("run ended at P04", ended_at("P04"), DONE),
    Path_("cached file", cached, REUSED, cached=True),
    Path_(
        "cached file, same final",
        cached_and_there(True),
        End(P10, DUPLICATE, "C04_REUSE_DUPLICATE", "NVNNVVVV", DUPLICATE),
        cached=True,
    ),
    Path_(
        "cached file, other final",
        cached_and_there(False),
        End(P10, "CANDIDATE_REJECTED", "C05_PREQUOTA_STOP", "NNNNNNNV"),
        cached=True,
    ),
    Path_(
        "cached file is no PDF",
        cached,
        End(P10, "CACHE_UNREADABLE", "C05_PREQUOTA_STOP", "NNNNNNNV"),
        of_file("deny", site="data", times=9),
        cached=True,
    ),
    Path_("library copy", held, REUSED),
)


@pytest.fixture(scope="module")
def server() -> Iterator[PrivateAdbServer]:
    with PrivateAdbServer() as running:
        yield running


@pytest.fixture(scope="module")
def stage(
    server: PrivateAdbServer, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[Phone, list[CatalogueEntry]]]:
    """A phone whose reports each have the faults of their path."""
    folder = tmp_path_factory.mktemp("phone")
    with warm_phone(server, folder / "plain", QUICK) as plain_phone:
        entries = feed_of(plain_phone, len(PATHS))
    with warm_phone(server, folder / "played", _scenario(entries)) as phone:
        yield phone, entries


def _scenario(entries: list[CatalogueEntry]) -> str:
    prefilled = [rank for rank, path in enumerate(PATHS, 1) if path.cached]
    faults = [
        path.faults.replace("RANK", str(rank)).replace("FILE", entry.title)
        for rank, (path, entry) in enumerate(zip(PATHS, entries, strict=False), 1)
    ]
    return QUICK + f"[cache]\nprefilled = {prefilled}\n" + "".join(faults)


def begin(phone: Phone) -> None:
    """The app on its list; after a path that cut the link, the server needs a moment to come back."""
    for _ in range(100):
        try:
            phone.app.open_app()
            return
        except DeviceError:
            SystemClock().sleep(0.05)
    phone.app.open_app()


@pytest.mark.parametrize("number", range(len(PATHS)), ids=[path.name for path in PATHS])
def test_a_path_ends_as_it_says(
    stage: tuple[Phone, list[CatalogueEntry]], tmp_path: Path, number: int
) -> None:
    path, (phone, entries) = PATHS[number], stage
    begin(phone)
    root = tmp_path / "library"
    scene = Scene(open_world(root, phone, moment(), run_id=FIRST_RUN), phone, entries[number], root)
    try:
        item = path.act(scene)
        found = differences(item, path.end)
        assert not found, (found, item.ended.detail)
        ledger = scene.world.services.ledger
        assert ledger is not None
        events = check_ledger(ledger.path)
    finally:
        scene.world.close()
    counts = Counter(event["type"] for event in events)
    served = phone.served.get(scene.entry.report_id, 0)
    assert counts["CONFIRMED"] <= served <= counts["CONFIRMED"] + counts["UNCERTAIN"], "design 7"
    assert served <= 1, "at most one tap a family"
