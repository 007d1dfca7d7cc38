"""What the page of a run says, as plain values; the template only places them.

Rules of this file: every sentence comes from the catalogue; every number, id and path stands there as in
the run's own files. What the run does not know is left out, never guessed.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote

from hibor.messages import Lang, advice, item_advice, reason_text
from hibor.people.commandline import Words
from hibor.people.run_view import ItemView, RunView, read_time
from hibor.report.render import Rows
from hibor.report.thumbnails import thumbnail
from hibor.report.timeline import timeline_svg

Values = dict[str, Any]
MOST_PICTURES: Final = 100
"""First pages shown on one page: with a thousand it would be too large to open."""


def link_to(library_root: Path, relative: str, beside: Path) -> str:
    """Address of a library file for a page in `beside`: relative where it can be, percent-encoded."""
    target = library_root.joinpath(*relative.split("/"))
    try:
        return quote(Path(os.path.relpath(target, beside)).as_posix())
    except ValueError:  # another drive on Windows
        return target.absolute().as_uri()


def run_context(view: RunView, lang: Lang, *, beside: Path) -> Values:
    """Everything `page.html` shows."""
    words, status = Words(lang), view.status

    def row(place: int, one: ItemView) -> Values:
        return _item(one, view, words, beside, pictured=place < MOST_PICTURES)

    return {
        "lang": "zh-CN" if lang == "zh" else "en",
        "w": words,
        "run_id": view.run_id,
        "status": status or words("page.not_ended"),
        "tone": _tone(view),
        "headline": words(
            "page.headline", delivered=len(view.delivered), selected=max(view.selected, len(view.delivered))
        ),
        "simulated": bool(view.part("device").get("simulated")),
        "advice": advice(lang, status) if status else None,
        "reason": _reason(view, lang),
        "screens": _screens(view, beside),
        "when": _when(view, words),
        "cards": _cards(view, words),
        "quota": _quota(view),
        "items": Rows(view.items, row),
        "recovered": Rows(view.recovered, row),
        "not_begun": view.not_begun,
        "duplicates": _duplicates(view, beside),
        "timeline": timeline_svg(view.items, words),
        "provenance": _provenance(view, words),
        "head": view.part("provenance").get("ledger_head"),
        "account": view.part("quota").get("account"),
    }


def _tone(view: RunView) -> str:
    if view.status == "COMPLETE":
        return "good"
    return "partly" if view.delivered else "bad"


def _reason(view: RunView, lang: Lang) -> Values | None:
    """The run's stop reason with its three sentences."""
    reason = view.document.get("stop_reason")
    if not isinstance(reason, dict):
        return None
    code = str(reason.get("code"))
    try:
        told = advice(lang, code)
    except KeyError:
        return {
            "code": code,
            "what": reason_text(lang, code, reason.get("detail")),
            "effect": None,
            "next": None,
            "detail": None,
        }
    detail = reason_text(lang, code, reason.get("detail"))
    return {**told._asdict(), "code": code, "detail": None if detail == told.what else detail}


def _screens(view: RunView, beside: Path) -> list[Values]:
    """What the run itself kept of the screen it stopped at; an item's own are told beside the item."""
    folder = view.folder.evidence
    kept = sorted(path for path in folder.iterdir() if path.is_file()) if folder.is_dir() else []
    names = [(path.name, view.library.relative(path)) for path in kept]
    return [{"name": name, "href": link_to(view.library.root, path, beside)} for name, path in names]


def _when(view: RunView, words: Words) -> str:
    began = read_time(view.part("timing").get("started_at"))
    ended = read_time(view.part("timing").get("ended_at"))
    if began is None:
        return words("page.unknown")
    shown = f"{began:%Y-%m-%d %H:%M:%S}"
    return shown if ended is None else f"{shown} – {ended:%H:%M:%S} (UTC{began:%z})"


def _cards(view: RunView, words: Words) -> list[tuple[str, str, str]]:
    """(name, number, small print) of what a reader wants first."""
    delivered, timing, quota = view.delivered, view.part("timing"), view.part("quota")
    new = sum(one.item.get("source") == "NEW_TRIGGER" for one in delivered)
    cards = [
        (
            words("page.card.delivered"),
            str(len(delivered)),
            words("page.card.of", count=max(view.selected, len(delivered))),
        ),
        (words("page.card.new"), str(new), words("page.card.new_note")),
        (words("page.card.reused"), str(len(delivered) - new), words("page.card.reused_note")),
    ]
    if quota.get("safe_after") is not None:
        before = quota.get("safe_before")
        note = words("page.card.quota_note", before=words("page.unknown") if before is None else before)
        cards.append((words("page.card.quota"), str(quota["safe_after"]), note))
    if timing.get("phone_time_s") is not None:
        note = words("page.card.time_note", deadline_s=f"{timing.get('deadline_s') or 0:.0f}")
        spent = words("page.seconds", seconds=f"{timing['phone_time_s']:.0f}")
        cards.append((words("page.card.time"), spent, note))
    return cards


def _quota(view: RunView) -> Values | None:
    """The day's quota with the widths of its bar, in per cent of the limit."""
    quota = dict(view.part("quota"))
    if not quota.get("day"):
        return None
    limit = quota.get("limit") or 0
    spent = {name: int(quota.get(name) or 0) for name in ("confirmed", "uncertain", "reserved")}
    whole = max(limit, sum(spent.values()), 1)
    bars, at = [], 0.0
    for name, count in (*spent.items(), ("left", max(0, limit - sum(spent.values())))):
        width = 100 * count / whole
        if count:
            bars.append({"name": name, "count": count, "x": f"{at:.2f}", "width": f"{width:.2f}"})
        at += width
    return {**quota, "bars": bars}


def _item(one: ItemView, view: RunView, words: Words, beside: Path, *, pictured: bool) -> Values:
    """One row of the outcome table, with its evidence."""
    item, lang = one.item, words.lang
    told = item_advice(lang, one.code, one.detail) if one.code and not one.delivered else None
    path = item.get("final_path")
    shown = isinstance(path, str) and one.final_there
    files = [
        {"href": link_to(view.library.root, name, beside), "name": name.rsplit("/", 1)[-1]}
        for name in one.files
    ]
    if one.quarantined:
        files.append(
            {"href": link_to(view.library.root, one.quarantined, beside), "name": words("page.quarantined")}
        )
    return {
        "index": item.get("item_index"),
        "run_id": item.get("run_id"),
        "title": item.get("title") or item.get("report_id"),
        "institution": item.get("institution"),
        "date": item.get("date"),
        "analysts": words("page.list_separator").join(item.get("analysts") or ()),
        "report_id": item.get("report_id"),
        "source": words(f"page.source.{item.get('source')}"),
        "outcome": words(f"page.outcome.{item.get('status')}"),
        "tone": "good" if one.delivered else "bad",
        "quota": words(f"page.quota_effect.{item.get('quota_state')}"),
        "pages": item.get("page_count"),
        "size": size_text(item.get("bytes")),
        "sha256": item.get("sha256"),
        "path": path,
        "href": link_to(view.library.root, str(path), beside) if path else None,
        "file_gone": bool(path) and not one.final_there,
        "thumbnail": thumbnail(view.library.absolute(str(path))) if shown and pictured else None,
        "code": one.code,
        "note": item.get("error_or_note"),
        "advice": told,
        "detail": one.detail if lang == "en" else None,
        "state": item.get("state"),
        "closure": one.closure,
        "presence": one.presence,
        "events": [
            (
                words(f"page.event.{name}"),
                item.get(f"quota_{name}_event_id" if name != "artifact" else "artifact_terminal_event_id"),
            )
            for name in ("reservation", "terminal", "artifact")
        ],
        "files": files,
        "recovered": one.recovered,
    }


def size_text(size_bytes: Any) -> str | None:
    """A size for people, in KB or MB (1000-based), None for none."""
    if not isinstance(size_bytes, int):
        return None
    return f"{size_bytes / 1e6:.1f} MB" if size_bytes >= 1e6 else f"{max(1, round(size_bytes / 1e3))} KB"


def _duplicates(view: RunView, beside: Path) -> list[Values]:
    found = view.part("counts").get("likely_duplicates") or ()
    return [
        {
            "title": one.get("title"),
            "path": one.get("path"),
            "href": link_to(view.library.root, str(one.get("path")), beside),
        }
        for one in found
        if isinstance(one, Mapping)
    ]


def _provenance(view: RunView, words: Words) -> list[tuple[str, str]]:
    known: Mapping[str, Any] = {**view.part("provenance"), "profile": view.part("device").get("profile")}
    names = (
        "tool_version",
        "app_version",
        "phone_model",
        "profile",
        "spec_sha256",
        "profile_sha256",
        "serial_hash",
    )
    return [
        (words(f"page.provenance.{name}"), str(known[name])) for name in names if known.get(name) is not None
    ]
