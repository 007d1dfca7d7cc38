"""What earlier runs of a library prove about this phone, app and profile (design 1 "Canary", design 5 "PDF
check").

Read from the runs' own files, newest first; nothing is stored for it.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import attrs

from hibor.durable import Durable, DurableError
from hibor.package.journal import JournalInvalid, read_journal
from hibor.package.layout import ItemFolder, Library
from hibor.reading import read_object

PAGES_EXACT_AFTER: Final = 20
"""Page counts that agreed in a row before the app's page count is exact and no hint any more."""
_RUNS_LOOKED_AT: Final = 200


@attrs.frozen
class Experience:
    """`proven`: a new download of this phone model, app version and profile was delivered before.
    `pages_exact`: the
    app's page count agreed with the file often enough to be exact for this profile."""

    proven: bool
    pages_exact: bool


def experience(
    library: Library, durable: Durable, *, model: str, app_version: str, profile_sha256: str
) -> Experience:
    """Look through the newest runs. A file that cannot be read proves nothing and harms nothing."""
    proven = False
    agreed = 0
    counting = True
    for run in reversed(library.run_folders()[-_RUNS_LOOKED_AT:]):
        document = read_object(run.run_json)
        provenance = document.get("provenance") or {}
        if provenance.get("profile_sha256") != profile_sha256:
            continue
        same = (provenance.get("phone_model"), provenance.get("app_version")) == (model, app_version)
        delivered = [item for item in document.get("items", ()) if item.get("status") == "SUCCESS"]
        proven = proven or (same and any(item.get("source") == "NEW_TRIGGER" for item in delivered))
        for shown, counted in _page_counts(run.item_folders(), durable) if counting else ():
            counting = counting and shown == counted
            agreed += counting
        if proven and (not counting or agreed >= PAGES_EXACT_AFTER):
            break
    return Experience(proven, agreed >= PAGES_EXACT_AFTER)


def _page_counts(folders: list[ItemFolder], durable: Durable) -> Iterator[tuple[int, int]]:
    """(what the app showed, what the file has) of delivered items, newest first."""
    for folder in reversed(folders):
        item = read_object(folder.terminal).get("item") or {}
        if item.get("page_count") is None or item.get("source") == "PROJECT_REUSE":
            continue
        try:
            records = read_journal(folder.journal, durable).records
        except (JournalInvalid, DurableError):
            continue
        shown = records[0].data.get("entry", {}).get("page_count_hint") if records else None
        if shown is not None:
            yield shown, item["page_count"]
