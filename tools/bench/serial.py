"""The counterpart: the package as a plain script does it, one step after the other, on adbutils.

Written fairly, in the way such scripts are written: a fixed second after an input event for the screen to
settle, a poll every second, one dump a decision, a fling back to the top, each file pulled once. It checks,
hashes and fsyncs as strictly as the collector, keeps the same 8 s between two paying taps and waits for the
same settle time of a file. What it has not: two lanes, work during the server's preparation, a ledger, a
journal, recovery. How long its fixed waits lasted in all is told too, so that the leanest such script can be
compared as well.

`python -m tools.bench.serial --server HOST:PORT --serial S --state DIR --out DIR [--count N]`; prints one
JSON line with the seconds of the phone's clock and the files.
"""

from __future__ import annotations

import argparse
import hashlib
import io
import json
import os
import re
import sys
from pathlib import Path
from typing import Any

import adbutils
import attrs
import pymupdf
from defusedxml import ElementTree

from hibor.clock import Clock
from hibor.sim.state import phone_clock

PACKAGE = "com.huibo.research"
FOLDER = f"/sdcard/Android/data/{PACKAGE}/files/Download"
XML = "/sdcard/window.xml"
AFTER_INPUT_S, POLL_S, SETTLE_S, SPACING_S, PATIENCE_S = 1.0, 1.0, 1.0, 8.0, 90.0


@attrs.frozen
class Row:
    """A report as the list shows it; `x`, `y` is where to tap it."""

    code: str
    title: str
    x: int
    y: int


class Script:
    """The script's phone, and what it did so far."""

    def __init__(self, device: Any, clock: Clock, out: Path) -> None:
        self.device = device
        self.clock = clock
        self.out = out
        self.paid_s = float("-inf")
        self.waited_s = 0.0

    def shell(self, command: str) -> str:
        """One shell command's output."""
        return str(self.device.shell(command))

    def input(self, event: str) -> None:
        """One input event, and a second for the screen to settle."""
        self.shell(f"input {event}")
        self.clock.sleep(AFTER_INPUT_S)
        self.waited_s += AFTER_INPUT_S

    def dump(self) -> Any:
        """The screen's tree."""
        text = self.shell(f"uiautomator dump {XML} >/dev/null; cat {XML}")
        return ElementTree.fromstring(text[text.index("<") :])

    def wait_for(self, wanted: str) -> Any:
        """The first tree that has a node of this id."""
        end_s = self.clock.monotonic_s() + PATIENCE_S
        while self.clock.monotonic_s() < end_s:
            tree = self.dump()
            if find(tree, wanted) is not None:
                return tree
            self.clock.sleep(POLL_S)
        raise TimeoutError(f"{wanted} did not come")

    def tap(self, node: Any) -> None:
        """Tap the middle of a node."""
        x, y = middle(node)
        self.input(f"tap {x} {y}")

    # -- the work ------------------------------------------------------------------------------------------

    def start(self) -> Any:
        """The app on its list."""
        self.shell(f"monkey -p {PACKAGE} -c android.intent.category.LAUNCHER 1")
        self.clock.sleep(AFTER_INPUT_S)
        self.waited_s += AFTER_INPUT_S
        return self.wait_for("report_list")

    def read_list(self, tree: Any) -> list[Row]:
        """Every report down to the end of the list, newest first."""
        found: dict[str, Row] = {}
        while True:
            for row in rows(tree):
                found.setdefault(row.code, row)
            footer = find(tree, "list_footer")
            if footer is not None and "没有更多" in footer.get("text", ""):
                return list(found.values())
            self.input("swipe 540 1850 540 450 970")
            tree = self.dump()

    def to_top(self) -> Any:
        """Back to the newest report."""
        before = None
        while True:
            for _ in range(4):
                self.shell("input swipe 540 400 540 2000 150")
            tree = self.dump()
            shown = [row.code for row in rows(tree)]
            if shown == before:
                return tree
            before = shown

    def files(self) -> dict[str, int]:
        """Names and sizes in the app's cache, finished ones."""
        listed = self.device.sync.list(FOLDER)
        return {one.path: one.size for one in listed if one.path.endswith(".pdf")}

    def take(self, name: str, code: str) -> dict[str, Any]:
        """Pull, hash, compare with the phone, open every page, write it durably."""
        data = b"".join(self.device.sync.iter_content(f"{FOLDER}/{name}"))
        digest = hashlib.sha256(data).hexdigest()
        said = self.shell(f"sha256sum '{FOLDER}/{name}'").split()[0]
        if said != digest or not data.startswith(b"%PDF-"):
            raise RuntimeError(f"{name} is not what the phone has")
        with pymupdf.open(stream=io.BytesIO(data), filetype="pdf") as document:  # type: ignore[no-untyped-call]
            pages = sum(document.load_page(number).rect is not None for number in range(document.page_count))
        path = self.out / f"{code}.pdf"
        with path.open("wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        return {"code": code, "size_bytes": len(data), "sha256": digest, "pages": pages}

    def find_row(self, tree: Any, code: str) -> tuple[Any, Row]:
        """The report on the screen, swiping down to it."""
        for _ in range(30):
            for row in rows(tree):
                if row.code == code:
                    return tree, row
            self.input("swipe 540 1850 540 1000 590")
            tree = self.dump()
        raise RuntimeError(f"{code} is not in the list any more")

    def download(self, tree: Any, wanted: Row) -> tuple[Any, dict[str, Any]]:
        """Trigger one report, wait for its file, take it; back to the list."""
        before = set(self.files())
        _tree, row = self.find_row(tree, wanted.code)
        self.input(f"tap {row.x} {row.y}")
        page = self.wait_for("btn_download")
        code = find(page, "detail_code")
        if code is None or wanted.code not in code.get("text", ""):
            raise RuntimeError("another report was opened")
        self.tap(find(page, "btn_download"))
        dialog = self.wait_for("dialog_ok")
        self.clock.sleep(self.paid_s + SPACING_S - self.clock.monotonic_s())
        self.paid_s = self.clock.monotonic_s()
        self.tap(find(dialog, "dialog_ok"))
        page = self.wait_for("btn_download")
        if find(page, "btn_download").get("text") == "下载":
            raise RuntimeError("the download did not begin")
        name = self.wait_for_file(before)
        taken = self.take(name, wanted.code)
        self.input("keyevent 4")
        return self.wait_for("report_list"), taken

    def wait_for_file(self, before: set[str]) -> str:
        """The new file, once it has kept its size for the settle time."""
        end_s = self.clock.monotonic_s() + PATIENCE_S
        while self.clock.monotonic_s() < end_s:
            new = {name: size for name, size in self.files().items() if name not in before}
            if new:
                self.clock.sleep(SETTLE_S)
                again = self.files()
                for name, size in new.items():
                    if size and again.get(name) == size:
                        return name
                continue
            self.clock.sleep(POLL_S)
        raise TimeoutError("no file came")

    def run(self, count: int) -> list[dict[str, Any]]:
        """The newest `count` reports, from the cache where it has them."""
        listed = self.read_list(self.start())[:count]
        cached, done, new = self.files(), [], []
        for row in listed:
            stem = re.sub(r"\s", "", row.title)
            names = [name for name in cached if stem in re.sub(r"\s", "", name)]
            if len(names) == 1:
                done.append(self.take(names[0], row.code))
            else:
                new.append(row)
        tree = self.to_top()
        for row in new:
            tree, taken = self.download(tree, row)
            done.append(taken)
        with (self.out / "manifest.json").open("w", encoding="utf-8") as file:
            json.dump(done, file)
            file.flush()
            os.fsync(file.fileno())
        return done


def find(tree: Any, name: str) -> Any:
    """The first node of a resource id, or None."""
    return next(
        (node for node in tree.iter("node") if node.get("resource-id", "").endswith(f":id/{name}")), None
    )


def middle(node: Any) -> tuple[int, int]:
    """The middle of a node's bounds."""
    left, top, right, bottom = map(int, re.findall(r"-?\d+", node.get("bounds")))
    return (left + right) // 2, (top + bottom) // 2


def rows(tree: Any) -> list[Row]:
    """The whole, unpinned reports on a list screen."""
    found = []
    for node in tree.iter("node"):
        if not node.get("resource-id", "").endswith(":id/report_row") or find(node, "row_pin") is not None:
            continue
        code, title = find(node, "row_code"), find(node, "row_title")
        match = re.search(r"HB\d+", code.get("text", "")) if code is not None else None
        if match and title is not None:
            found.append(Row(match[0], title.get("text", ""), *middle(node)))
    return found


def main() -> None:
    """Run the script against a phone that is already there."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--server", required=True)
    parser.add_argument("--serial", required=True)
    parser.add_argument("--state", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--count", type=int, default=10)
    options = parser.parse_args()
    host, _, port = options.server.rpartition(":")
    clock = phone_clock(options.state)
    options.out.mkdir(parents=True, exist_ok=True)
    begun_s = clock.monotonic_s()
    device = adbutils.AdbClient(host=host, port=int(port)).device(serial=options.serial)
    script = Script(device, clock, options.out)
    done = script.run(options.count)
    figures = {"phone_s": clock.monotonic_s() - begun_s, "waited_s": script.waited_s, "files": done}
    json.dump(figures, sys.stdout)


if __name__ == "__main__":
    main()
