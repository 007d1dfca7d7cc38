"""What can be reused: verified library copies and files the phone already holds (design 1 "Selection")."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable

from fsm import FinalFile
from hibor.collect.selection import Holdings, likeness
from hibor.collect.services import Services
from hibor.items.catalogue import CatalogueEntry


def holdings_of(services: Services, entries: Iterable[CatalogueEntry]) -> Holdings:
    """Look the entries up in manifest and cache. Raises DeviceError when the cache cannot be listed.

    A copy counts when its newest row's file is there with the size on record; it is hashed and opened again
    before
    it is used, and a copy that is gone is simply not one.
    """
    rows = services.manifest.rows()
    copies: dict[str, FinalFile] = {}
    alike: dict[tuple[str, str, str], list[tuple[str, str]]] = defaultdict(list)
    for row in rows:
        if row.final_path is None or row.bytes is None or row.sha256 is None or row.page_count is None:
            continue
        facts = services.durable.stat(services.library.absolute(row.final_path))
        if facts is None or facts.st_size != row.bytes:
            copies.pop(row.report_id, None)
            continue
        copies[row.report_id] = FinalFile(row.final_path, row.bytes, row.sha256, row.page_count)
        key = likeness(row.institution, row.stock_code, row.title)
        alike[key].append((row.date or "", row.final_path))
    cached = {}
    cache = services.require_cache()
    listing = cache.listing()
    for entry in entries:
        file = cache.file_of(entry, listing)
        if file is not None:
            cached[entry.report_id] = file
    return Holdings(copies=copies, cached=cached, likeness=alike)
