"""What a recovery tells: a table for people on stdout, or one JSON document; warnings on stderr."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Sequence
from datetime import datetime, timedelta
from typing import Any

from fsm import Tables
from generated.governance import GUARD_RAILS
from hibor.items.leftovers import Broken, Leftover, closable
from hibor.items.recovery import Recovered
from hibor.messages import advice, item_advice, text, told, was_interrupted
from hibor.messages.lines import one_line

SCHEMA_VERSION = 1


class Telling:
    """Collects the answer in a language and prints it."""

    def __init__(self, lang: str, *, as_json: bool, quiet: bool) -> None:
        self.lang = lang
        self.no_phone = False
        self._as_json = as_json
        self._quiet = quiet

    def say(self, key: str, **facts: Any) -> None:
        """One line for people, on stdout; nothing where the answer is JSON."""
        if not self._as_json and not self._quiet:
            sys.stdout.write(self._text(key, facts) + "\n")

    def warn(self, key: str, **facts: Any) -> None:
        """One line for people, on stderr."""
        sys.stderr.write(self._text(key, facts) + "\n")

    def _text(self, key: str, facts: dict[str, Any]) -> str:
        """The text with its facts; what was worded for the log is told in the reader's language."""
        code = facts.pop("code", None)
        otherwise = text(self.lang, "recover.see_json") if code is None else advice(self.lang, code).what
        for name in ("detail", "why", "owner", "holder"):
            if isinstance(facts.get(name), str):
                facts[name] = told(self.lang, facts[name], otherwise).rstrip("。")
        return text(self.lang, f"recover.{key}", **facts)

    def without_phone(self, code: str, detail: str) -> None:
        """The phone that was asked for is not reached."""
        self.no_phone = True
        self.warn("no_phone", code=code, detail=detail)

    def refuse(self, key: str, exit_code: int, **facts: Any) -> int:
        """Nothing was done, and why; returns the exit code."""
        self.warn(key, **dict(facts))
        if self._as_json:
            self._print({"exit_code": exit_code, "error": self._text(key, facts)})
        return exit_code

    def leftovers(
        self, found: Sequence[Leftover], broken: Sequence[Broken], waiting: int, now: datetime, library: str
    ) -> None:
        """What is open, with its age and what a recovery would do."""
        if self._as_json:
            self._print(
                {
                    "leftovers": [_leftover(leftover, now) for leftover in found],
                    "not_understood": [_broken(item) for item in broken],
                    "open_reservations": waiting,
                }
            )
            return
        rows = [self._row(leftover, now) for leftover in found]
        if rows:
            self._table("columns", rows)
        elif not broken and not waiting:
            self.say("nothing", library=library)
        for leftover in found:
            if leftover.kept_code is not None or not closable(leftover, Tables.default()):
                self._say_next(self.say, leftover)
        self._tell_broken(broken)
        if waiting:
            self.say("open_reservations", count=waiting)

    def recovered(self, done: Recovered, library: str, cannot_close: Sequence[str]) -> None:
        """What was done."""
        if self._as_json:
            self._print(
                {
                    "recovered": [result.item.to_dict() for result in done.results],
                    "closed": sum(result.closed for result in done.results),
                    "kept": [leftover.draft.job.item_id for leftover in done.kept],
                    "not_understood": [_broken(item) for item in done.broken],
                    "settled": len(done.settled),
                    "expired": done.expired,
                }
            )
            return
        items = [result.item for result in done.results]
        if items:
            rows = [
                [i["item_id"], i["state"], i["status"], str(i["error_or_note"]), str(i["title"])]
                for i in items
            ]
            self._table("done_columns", rows)
            stopped = (one for one in done.results if one.item["stop_code"])
            ended = ((one.code, item_advice(self.lang, one.code, one.detail)) for one in stopped)
            for code, meaning in dict.fromkeys(ended):
                self.say("means", name=code, **meaning._asdict())
        elif not done.broken and not done.settled:
            self.say("nothing", library=library)
        self._tell_broken(done.broken)
        if done.settled:
            self.say("settled", count=len(done.settled))
        if done.expired:
            self.say("expired", count=len(done.expired), days=GUARD_RAILS["quarantine_days"])
        for leftover in done.kept:
            if leftover.draft.job.item_id in cannot_close:
                self._say_next(self.warn, leftover)
        if done.kept:
            self.say("kept", count=len(done.kept))

    def _say_next(self, say: Callable[..., None], leftover: Leftover) -> None:
        """What a person can do with a kept item, and why it cannot be closed where it cannot (ruling R10)."""
        item, folder = leftover.draft.job.item_id, leftover.folder
        if closable(leftover, Tables.default()):
            say("next_close", item=item)
        elif leftover.action == "ask_phone":
            say("next_phone", item=item)
        elif leftover.action == "halt":
            say("next_doubt", item=item, folder=folder.path)
        else:
            say("next_host", item=item, file=folder.staging, final=leftover.draft.job.final_path)

    def _tell_broken(self, broken: Sequence[Broken]) -> None:
        for item in broken:
            self.warn("not_understood", folder=item.folder.path.name, why=item.why)

    def _row(self, leftover: Leftover, now: datetime) -> list[str]:
        age = max(leftover.age(now), timedelta())  # a practice phone's clock may be ahead of ours
        action = text(self.lang, f"recover.actions.{leftover.action}")
        if leftover.kept_code is not None:
            key = "kept_interrupted" if was_interrupted(leftover.kept_detail) else "kept_with"
            action = text(self.lang, f"recover.{key}", action=action, code=leftover.kept_code)
        return [
            leftover.draft.job.item_id,
            leftover.node,
            leftover.draft.quota_state,
            text(self.lang, "recover.age", days=age.days, hours=age.seconds // 3600),
            action,
            leftover.draft.job.entry.title,
        ]

    def _table(self, heading: str, rows: Sequence[Sequence[str]]) -> None:
        from rich.console import Console
        from rich.table import Table
        from rich.text import Text

        table = Table(show_edge=False, pad_edge=False)
        for column in text(self.lang, f"recover.{heading}").split("|"):
            table.add_column(column, overflow="fold")
        for row in rows:
            table.add_row(*(Text(one_line(cell)) for cell in row))
        Console(file=sys.stdout, width=None if sys.stdout.isatty() else 160).print(table)

    @staticmethod
    def _print(values: dict[str, Any]) -> None:
        document = {"schema_version": SCHEMA_VERSION, **values}
        sys.stdout.write(json.dumps(document, ensure_ascii=False, indent=2, allow_nan=False) + "\n")


def _leftover(leftover: Leftover, now: datetime) -> dict[str, Any]:
    job = leftover.draft.job
    return {
        "item_id": job.item_id,
        "run_id": job.run_id,
        "report_id": job.entry.report_id,
        "title": job.entry.title,
        "lane": job.lane,
        "node": leftover.node,
        "quota_state": leftover.draft.quota_state,
        "mark": leftover.mark,
        "action": leftover.action,
        "kept_code": leftover.kept_code,
        "kept_detail": leftover.kept_detail,
        "closable": closable(leftover, Tables.default()),
        "opened_at": leftover.opened_at,
        "age_s": max(0, round(leftover.age(now).total_seconds())),  # a practice phone's clock may be ahead
    }


def _broken(item: Broken) -> dict[str, Any]:
    return {
        "folder": item.folder.path.name,
        "report_id": item.report_id,
        "why": item.why,
        "uncertain": item.uncertain,
    }
