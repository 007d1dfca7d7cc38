"""`delivery.md`: what was delivered, for a person, for one item and for one run (design 4, design 9).

Rules of this file:

* Pure text building from the public item (26 keys) or the run terminal; the caller writes it durably. The
  same input gives the same bytes: no clock, no folder, no locale.
* Every number, path and id stands there exactly as in the item, so that a reader and a program find the same.
* The first line is a comment with `"schema_version": 1` and what the note belongs to, for the probe.
* Titles come from a phone. They are shown as text: whatever Markdown or HTML would read into them is escaped,
  and a line break in them cannot open a new line.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any, Final

from fsm import Tables
from hibor.messages import advice, reason_text
from hibor.package.delivery_texts import TEXTS
from hibor.package.names import writable

SCHEMA_VERSION: Final = 1
_DELIVERED: Final = ("SUCCESS", "DUPLICATE")
_CLOSED: Final = Tables.default().closed_state
_MARKED: Final = re.compile(r"([\\`*_{}\[\]<>()#+!|~&$])")

Words = Mapping[str, str]
Head = Mapping[str, Any] | None


def item_delivery(item: Mapping[str, Any], *, ledger_head: Head, lang: str = "zh") -> str:
    """The note of one item.

    `item` is the public item, `ledger_head` `{count, hash}` as stored in `terminal.json` (None: no ledger
    yet), `lang` `zh` or `en`. Raises `KeyError` for an item that lacks a key or a language there is none of.
    """
    words = TEXTS[lang]
    lines = [
        _comment(item_id=item["item_id"], lang=lang, run_id=item["run_id"]),
        f"# {words['item_heading']} · {_shown(item['title'], words)}",
        "",
        f"**{words['outcome']}**: {words['status.' + item['status']]}",
        "",
        *_fields(
            (words["run"], _code(item["run_id"], words)),
            (words["item"], f"{item['item_index']} · {_code(item['item_id'], words)}"),
            (words["state"], _code(item["state"], words)),
            (words["code"], _code(item["stop_code"], words)),
            (words["note"], _code(item["error_or_note"], words)),
        ),
        *_section(words["report"]),
        *_fields(
            (words["title"], _shown(item["title"], words)),
            (words["institution"], _shown(item["institution"], words)),
            (words["date"], _shown(item["date"], words)),
            (words["analysts"], _shown(_joined(item["analysts"], words), words)),
            (words["report_id"], _code(item["report_id"], words)),
            (words["source"], words["source." + item["source"]]),
        ),
        *_section(words["file"]),
        *_file(item, words),
        *_section(words["quota"]),
        *_fields(
            (words["quota.effect"], words["quota." + item["quota_state"]]),
            (words["quota.reservation"], _code(item["quota_reservation_event_id"], words)),
            (words["quota.terminal"], _code(item["quota_terminal_event_id"], words)),
            (words["quota.artifact"], _code(item["artifact_terminal_event_id"], words)),
        ),
        "",
        *_head(ledger_head, words),
        *_section(words["next"]),
        _next_of(item, words, lang),
    ]
    return "\n".join(lines) + "\n"


def delivery_belongs_to(data: bytes, run_id: str, item_id: str) -> bool:
    """Whether bytes read back are the whole note of this item: its first line says so and its last one ends.
    """
    try:
        first, _, rest = data.decode().partition("\n")
        facts = json.loads(first.removeprefix("<!-- ").removesuffix(" -->"))
    except ValueError:
        return False
    about = {"schema_version": SCHEMA_VERSION, "run_id": run_id, "item_id": item_id}
    return rest.endswith("\n") and isinstance(facts, dict) and about.items() <= facts.items()


def run_delivery(run: Mapping[str, Any], *, ledger_head: Head, lang: str = "zh") -> str:
    """The note of one run, from the run terminal (the document on stdout, `run.json`).

    Items of this run and items of earlier runs that it finished are listed apart; `ledger_head` as above.
    """
    words = TEXTS[lang]
    items: Sequence[Mapping[str, Any]] = run["items"]
    recovered: Sequence[Mapping[str, Any]] = run["recovered"]
    delivered = sum(item["status"] in _DELIVERED for item in items)
    counts = run.get("counts") or {}
    selected = max(counts.get("selected", len(items)), delivered)
    replaced = len(items) - max(selected, delivered)
    provenance = run["provenance"] or {}
    lines = [
        _comment(lang=lang, run_id=run["run_id"]),
        f"# {words['run_heading']} · {run['run_id']}",
        "",
        f"**{words['outcome']}**: {words['delivered'].format(delivered=delivered, selected=selected)}",
        "",
        *([words["replaced"].format(count=replaced), ""] if replaced > 0 else []),
        *_fields(
            (words["status"], _code(run["status"], words)),
            (words["exit_code"], _code(run["exit_code"], words)),
            (words["stop_reason"], _reason(run["stop_reason"], words, lang)),
        ),
        *_section(words["items"]),
        *(_table(items, words) if items else [words["no_items"]]),
        *([*_section(words["recovered"]), *_table(recovered, words)] if recovered else []),
        *_section(words["quota"]),
        *_run_quota(run["quota"] or {}, words),
        "",
        *_head(ledger_head, words),
        *_section(words["provenance"]),
        *_fields(
            *(
                (words[key], _code(provenance.get(key), words))
                for key in ("tool_version", "app_version", "phone_model", "spec_sha256", "profile_sha256")
            )
        ),
        *_section(words["next"]),
        *_next(items, words, lang),
    ]
    return "\n".join(lines) + "\n"


def _comment(**facts: Any) -> str:
    """The first line: the version and what the note belongs to; `-->` cannot occur inside."""
    text = json.dumps({"schema_version": SCHEMA_VERSION, **facts}, ensure_ascii=True)
    return f"<!-- {text.replace('>', chr(92) + 'u003e')} -->"


def _section(heading: str) -> list[str]:
    return ["", f"## {heading}", ""]


def _fields(*pairs: tuple[str, str]) -> list[str]:
    return [f"- {name}: {value}" for name, value in pairs]


def _file(item: Mapping[str, Any], words: Words) -> list[str]:
    if item["final_path"] is None:
        return [words["no_file"]]
    return _fields(
        (words["path"], _code(item["final_path"], words)),
        (words["size"], words["size.value"].format(bytes=item["bytes"])),
        (words["sha256"], _code(item["sha256"], words)),
        (words["pages"], _code(item["page_count"], words)),
    )


def _head(head: Head, words: Words) -> list[str]:
    """The ledger's head, in the form `ledger verify --head` takes (a chain does not notice a lost end)."""
    if head is None or not head["count"]:
        return [words["ledger_none"]]
    count, digest = head["count"], head["hash"]
    return [
        *_fields((words["ledger_head"], words["ledger_head.value"].format(count=count, hash=digest))),
        "",
        words["verify"].format(count=count, hash=digest),
    ]


def _table(items: Sequence[Mapping[str, Any]], words: Words) -> list[str]:
    """One row an item; the first column is the item's own number."""
    names = ("outcome", "title", "institution", "date", "source", "path", "size", "pages", "sha256")
    heads = ["#", *(words[name] for name in names), words["quota.effect"], words["code"]]
    rows = [f"| {' | '.join(heads)} |", f"|{'---|' * len(heads)}"]
    for item in items:
        cells = (
            str(item["item_index"]),
            words["status." + item["status"]],
            _shown(item["title"], words),
            _shown(item["institution"], words),
            _shown(item["date"], words),
            words["source." + item["source"]],
            _code(item["final_path"], words),
            _code(item["bytes"], words),
            _code(item["page_count"], words),
            _code(item["sha256"], words),
            words["quota." + item["quota_state"]],
            _code(item["stop_code"], words),
        )
        rows.append(f"| {' | '.join(cells)} |")
    return rows


def _run_quota(quota: Mapping[str, Any], words: Words) -> list[str]:
    names = ("account", "day", "limit", "safe_before", "safe_after", "confirmed", "uncertain", "reserved")
    lines = _fields(*((words[name], _code(quota.get(name), words)) for name in names))
    if unexplained := quota.get("unexplained"):
        key = "unexplained" if unexplained > 0 else "unexplained_less"
        lines += ["", words[key].format(count=abs(unexplained))]
    return lines


def _next(items: Sequence[Mapping[str, Any]], words: Words, lang: str) -> list[str]:
    """What to do, once for each kind of outcome that asks for something."""
    missing = [item for item in items if item["status"] not in _DELIVERED]
    asked = dict.fromkeys(_next_of(item, words, lang) for item in missing)
    return [f"- {line}" for line in asked] if asked else [words["next.SUCCESS"]]


def _next_of(item: Mapping[str, Any], words: Words, lang: str) -> str:
    """What to do about one item: an open one goes on by itself, a closed one is told by its code."""
    if item["status"] in _DELIVERED:
        return words["next." + item["status"]]
    if item["state"] != _CLOSED or item["stop_code"] is None:
        return words["next.open"]
    return f"{_code(item['stop_code'], words)}: {advice(lang, item['stop_code']).next}"


def _reason(reason: Mapping[str, Any] | None, words: Words, lang: str) -> str:
    if reason is None:
        return words["none"]
    told = reason_text(lang, reason["code"], reason.get("detail")) if reason.get("detail") else ""
    detail = f" — {_shown(told, words)}" if told else ""
    return _code(reason["code"], words) + detail


def _joined(names: Sequence[str] | None, words: Words) -> str | None:
    return words["list_separator"].join(names) if names else None


def _shown(value: Any, words: Words) -> str:
    """A text from outside as visible text: one line, nothing invisible, nothing read as markup."""
    if value is None or value == "":
        return words["none"]
    visible = "".join(map(writable, " ".join(str(value).split())))
    return _MARKED.sub(r"\\\1", visible)


def _code(value: Any, words: Words) -> str:
    """An id, number or path in code marks, exactly as it is.

    Ids come from the app: one that code marks cannot hold (a mark, a table's bar, a line break, something
    invisible) is shown as text.
    """
    if value is None:
        return words["none"]
    text = str(value)
    if any(character in text for character in "`|\r\n") or "".join(map(writable, text)) != text:
        return _shown(text, words)
    return f"`{text}`"
