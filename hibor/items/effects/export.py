"""The export route: a paid file that the app keeps to itself is put where adb can read it (design 5 "App
profile").

Rules of this file:

* Exporting costs nothing: a profile whose export had a paying step is refused when it is loaded. It begins
  only on this report's own page, and only where the download button says that the file is there; nothing of
  the trigger is ever tapped here.
* Each control is tapped once. What went wrong is logged and the file looked for all the same: a tap whose
  answer was lost may have worked. A second export needs a new run, which looks for the file first.
* Recovery exports too. It never taps anything that could spend (design 4); without the export a paid report
  would stay out of reach for good, because it is never opened as a new item again.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from hibor.device.errors import DeviceError
from hibor.device.navigate import same_report
from hibor.device.trigger import run_export

if TYPE_CHECKING:
    from hibor.items.item import ItemRun

LINK_WORDS: Final = frozenset(
    {
        "server_unreachable",
        "link_lost",
        "command_timeout",
        "device_offline",
        "device_replaced",
        "output_limit",
    }
)
"""Failures that say nothing about the app; they stop the item as they are."""
PASSING: Final = frozenset(
    {"anchor_drift", "anchor_ambiguous", "dump_stale", "dump_unreadable", "dialog_open"}
)
"""Failures of a look that the next look may not have."""


def needed(item: ItemRun) -> bool:
    """Whether this app's files have to be exported, and this item's was not yet in this run."""
    return item.services.require_profile().cache.acquire == "export" and not item.draft.exported


def export(item: ItemRun) -> None:
    """Wait until the app has this report's file, then export it once. Raises link failures and `deadline`.

    Whatever else fails is logged: whether a file came is for the search that follows to say.
    """
    services = item.services
    try:
        if _wait_for_file(item):
            item.draft.exported = True
            run_export(services.require_app())
    except DeviceError as error:
        if error.failure in LINK_WORDS:
            raise
        services.log.warning("item %s could not be exported: %s", item.job.item_id, error.detail)
        services.on_outcome(error.failure, error.detail)


def export_downloaded(item: ItemRun) -> None:
    """Export a file the app had before anything was tapped; its page is open. It is then had from the
    folder."""
    if not needed(item):
        return
    item.draft.exported = True
    cache, clock, profile = (
        item.services.require_cache(),
        item.services.clock,
        item.services.require_profile(),
    )
    before = cache.listing()
    run_export(item.services.require_app())
    end_s = clock.monotonic_s() + profile.cache.settle_s + profile.pace.page_change_s
    while not cache.new_since(before) and clock.monotonic_s() < end_s:
        clock.sleep(profile.pace.poll_s)


def _wait_for_file(item: ItemRun) -> bool:
    """Look at the report's page until its button says that the file is there; False when it does not come.

    Looking costs nothing, so a look that shows something else (a question closing, a dump that lags behind)
    is not the last one.
    """
    services, profile = item.services, item.services.require_profile()
    app, clock = services.require_app(), services.clock
    end_s = clock.monotonic_s() + profile.cache.timeout_s
    while True:
        services.deadline.require_phone_time()
        try:
            button = _button_of(item)
        except DeviceError as error:
            if error.failure not in PASSING or clock.monotonic_s() >= end_s:
                raise
            services.log.info("item %s: its page could not be read: %s", item.job.item_id, error.detail)
            button = "unknown"
        if button == "done":
            return True
        if clock.monotonic_s() >= end_s:
            services.log.warning("item %s: its page goes on saying %s", item.job.item_id, button)
            return False
        app.looker.last_tree = None
        clock.sleep(profile.pace.poll_s)


def _button_of(item: ItemRun) -> str:
    """The download button's state on this report's own page. Raises `DeviceError`."""
    from hibor.items.effects.trigger import approach, expected_facts

    page = approach(item.services.require_app(), item.job.entry)
    if not same_report(expected_facts(item.job.entry), page.facts):
        raise DeviceError("detail_mismatch", "the page on the screen is not the report's", command_sent=False)
    return page.button
