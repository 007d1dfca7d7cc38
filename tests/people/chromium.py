"""A headless Chromium driven over its debugging pipe: no driver, no port, nothing on the network.

Rules of this file: every wait has a limit; the browser is ended by the process this file started; where
there is no Chromium the test is skipped with a printed reason, and fails under HIBOR_REQUIRE=all.
"""

from __future__ import annotations

import base64
import itertools
import json
import os
import select
import shutil
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

LIMIT_S = 30.0
NAMES = ("chromium", "chromium-browser", "google-chrome", "chrome")
OPTIONS = (
    "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
    "--hide-scrollbars", "--disable-background-networking", "--disable-component-update", "--disable-sync",
    "--disable-dev-shm-usage", "--remote-debugging-pipe",
)  # fmt: skip


def find_chromium() -> str:
    """The browser's path; skips the test, or fails it where everything is required."""
    found = next(filter(None, map(shutil.which, NAMES)), None)
    if found is not None and os.name == "posix":
        return found
    reason = "no Chromium here: the pages are not looked at in a browser"
    if os.environ.get("HIBOR_REQUIRE") == "all":
        pytest.fail(reason)
    pytest.skip(reason)


LAUNCH = """\
import os, sys
pair = [os.dup(int(number)) for number in sys.argv[1:3]]
for number, descriptor in zip((3, 4), [os.dup2(one, 200 + at) for at, one in enumerate(pair)]):
    os.dup2(descriptor, number, inheritable=True)
os.execv(sys.argv[3], sys.argv[3:])
"""
"""The browser reads commands from descriptor 3 and answers on 4."""


class Browser:
    """One browser with one page."""

    def __init__(self, folder: Path) -> None:
        self._read, theirs_out = os.pipe()
        theirs_in, self._write = os.pipe()
        program = [find_chromium(), *OPTIONS, f"--user-data-dir={folder}", "about:blank"]
        self._process = subprocess.Popen(
            [sys.executable, "-c", LAUNCH, str(theirs_in), str(theirs_out), *program],
            pass_fds=(theirs_in, theirs_out),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        os.close(theirs_in)
        os.close(theirs_out)
        self._ids = itertools.count(1)
        self._buffer = b""
        self._session: str | None = None
        self.complaints: list[str] = []
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        self._session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log", "DOM"):
            self.call(f"{domain}.enable")

    def close(self) -> None:
        """End the browser and everything it started."""
        with suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait(LIMIT_S)
        os.close(self._read)
        os.close(self._write)

    def call(self, method: str, **parameters: Any) -> dict[str, Any]:
        """One command and its answer."""
        number = next(self._ids)
        message: dict[str, Any] = {"id": number, "method": method, "params": parameters}
        if self._session is not None:
            message["sessionId"] = self._session
        os.write(self._write, json.dumps(message).encode() + b"\0")
        deadline = time.monotonic() + LIMIT_S
        while True:
            answer = self._next(deadline)
            if answer.get("id") == number:
                assert "error" not in answer, answer
                result: dict[str, Any] = answer["result"]
                return result

    def _next(self, deadline: float) -> dict[str, Any]:
        while b"\0" not in self._buffer:
            left = deadline - time.monotonic()
            ready, _, _ = select.select([self._read], [], [], max(0.0, left))
            if not ready:
                raise TimeoutError("the browser does not answer")
            data = os.read(self._read, 1 << 20)
            if not data:
                raise EOFError("the browser ended")
            self._buffer += data
        raw, _, self._buffer = self._buffer.partition(b"\0")
        message: dict[str, Any] = json.loads(raw)
        self._listen(message)
        return message

    def _listen(self, message: dict[str, Any]) -> None:
        """Keep everything a developer would see in red."""
        name, about = message.get("method"), message.get("params", {})
        if name == "Runtime.exceptionThrown":
            self.complaints.append(str(about["exceptionDetails"].get("text")))
        elif name == "Log.entryAdded" and about["entry"]["level"] in ("error", "warning"):
            self.complaints.append(about["entry"]["text"])
        elif name == "Runtime.consoleAPICalled" and about["type"] in ("error", "warning", "assert"):
            self.complaints.append(str(about["args"]))

    def open(self, page: Path, *, width: int = 1280, height: int = 900, dark: bool = False) -> None:
        """Show a file and wait until it is loaded."""
        scheme = [{"name": "prefers-color-scheme", "value": "dark" if dark else "light"}]
        self.call("Emulation.setEmulatedMedia", features=scheme)
        self.call(
            "Emulation.setDeviceMetricsOverride",
            width=width,
            height=height,
            deviceScaleFactor=1,
            mobile=width < 600,
        )
        self.call("Page.navigate", url=page.as_uri())
        deadline = time.monotonic() + LIMIT_S
        while self.value("document.readyState + location.protocol") != "completefile:":
            assert time.monotonic() < deadline, "the page does not load"

    def value(self, expression: str) -> Any:
        """The value of a JavaScript expression."""
        answer = self.call("Runtime.evaluate", expression=expression, returnByValue=True)
        assert "exceptionDetails" not in answer, answer
        return answer["result"].get("value")

    def press(self, key: str) -> None:
        """Press and release a key, as a person does."""
        codes = {"Tab": 9, "Enter": 13, " ": 32}
        text = {"Enter": "\r", " ": " "}.get(key, "")
        about = {"key": key, "code": "Space" if key == " " else key, "windowsVirtualKeyCode": codes[key]}
        self.call("Input.dispatchKeyEvent", type="keyDown" if text else "rawKeyDown", text=text, **about)
        self.call("Input.dispatchKeyEvent", type="keyUp", **about)

    def picture(self, path: Path, *, whole: bool = True) -> bytes:
        """A screenshot as PNG, also written to `path`."""
        data = base64.b64decode(self.call("Page.captureScreenshot", captureBeyondViewport=whole)["data"])
        path.write_bytes(data)
        return data

    def printed(self) -> bytes:
        """The page as it prints, as PDF."""
        return base64.b64decode(
            self.call("Page.printToPDF", printBackground=False, preferCSSPageSize=True)["data"]
        )
