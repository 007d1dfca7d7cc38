"""What some tests need beside this project: a PostgreSQL server, and engines in environments of their own.

Rules of this file: a service that is missing skips its tests with a reason that pytest lists at the end
(`-ra`); with `HIBOR_REQUIRE=all` in the environment it fails them. Everything runs on loopback or a local
socket, on a private port and in a private folder, and is stopped by the process that started it.

Environments for engines are looked for in this order: the variable named below (a Python executable), the
running interpreter, and, only with `HIBOR_REQUIRE=all` or `HIBOR_TEST_ENVS=FOLDER`, a virtual environment
made once with pip in that folder (default: beside the system's temporary files).
"""

from __future__ import annotations

import contextlib
import importlib.metadata
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import NoReturn

import filelock
import pytest


def required() -> bool:
    """Whether a missing service is a failure."""
    return os.environ.get("HIBOR_REQUIRE") == "all"


def missing(reason: str) -> NoReturn:
    """Skips the test with `reason`, or fails it where everything is required."""
    if required():
        pytest.fail(f"required, but missing: {reason}")
    pytest.skip(reason)


def free_port() -> int:
    """A TCP port of the loopback interface that was free a moment ago."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _postgres_folder() -> Path | None:
    """The folder with initdb and postgres: on PATH, or where Debian puts it, the newest version first."""
    found = [Path(path).resolve().parent for path in [shutil.which("initdb")] if path]
    found += [path.parent for path in sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"), reverse=True)]
    return next((folder for folder in found if (folder / "postgres").exists()), None)


def _as_server_user() -> tuple[list[str], str | None]:
    """PostgreSQL refuses to run as root: (command prefix, user name) for an ordinary user where needed."""
    if not hasattr(os, "geteuid") or os.geteuid() != 0:
        return [], None
    import pwd

    for name in ("postgres", "nobody"):
        with contextlib.suppress(KeyError):
            pwd.getpwnam(name)
            runner = shutil.which("setpriv")
            if runner:
                return [runner, f"--reuid={name}", "--clear-groups", "--"], name
    missing("PostgreSQL does not run as root, and there is no setpriv with a user 'postgres' or 'nobody'")


@contextlib.contextmanager
def postgres_server() -> Iterator[str]:
    """A private PostgreSQL server on a loopback port; yields its URL (database `hibor`)."""
    binaries = _postgres_folder()
    if binaries is None:
        missing("PostgreSQL is not installed (Debian: postgresql)")
    prefix, user = _as_server_user()
    with tempfile.TemporaryDirectory(prefix="hibor-pg-", ignore_cleanup_errors=True) as folder:
        if user is not None:
            shutil.chown(folder, user)
        data = Path(folder) / "data"
        port = free_port()
        quiet = {
            "stdin": subprocess.DEVNULL,
            "stdout": subprocess.PIPE,
            "stderr": subprocess.STDOUT,
            "cwd": folder,
        }
        command = [
            *prefix,
            str(binaries / "initdb"),
            "-D",
            str(data),
            "-U",
            "hibor",
            "-A",
            "trust",
            "--no-sync",
        ]
        subprocess.run([*command, "-E", "UTF8", "--locale=C"], check=True, **quiet)  # type: ignore[call-overload]
        options = ["-D", str(data), "-p", str(port), "-h", "127.0.0.1", "-k", folder, "-c", "fsync=off"]
        with (Path(folder) / "server.log").open("wb") as log:
            server = subprocess.Popen(
                [*prefix, str(binaries / "postgres"), *options],
                stdin=subprocess.DEVNULL, stdout=log, stderr=subprocess.STDOUT, cwd=folder,
            )  # fmt: skip
        try:
            _wait_until_ready(binaries, port, server, Path(folder) / "server.log")
            create = [str(binaries / "createdb"), "-h", "127.0.0.1", "-p", str(port), "-U", "hibor", "hibor"]
            subprocess.run(create, check=True, **quiet)  # type: ignore[call-overload]
            yield f"postgresql://hibor@127.0.0.1:{port}/hibor"
        finally:
            # SIGINT is PostgreSQL's fast shutdown; setpriv replaces itself, so the pid is the server's.
            server.send_signal(2) if os.name == "posix" else server.terminate()
            try:
                server.wait(timeout=20)
            except subprocess.TimeoutExpired:
                server.kill()
                server.wait()


def _wait_until_ready(binaries: Path, port: int, server: subprocess.Popen[bytes], log: Path) -> None:
    """Waits (at most 30 s, one probe a time) until the server takes connections."""
    probe = [str(binaries / "pg_isready"), "-h", "127.0.0.1", "-p", str(port), "-t", "1"]
    for _ in range(150):
        if subprocess.run(probe, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL).returncode == 0:
            return
        try:
            server.wait(timeout=0.2)
        except subprocess.TimeoutExpired:
            continue
        break
    raise RuntimeError(f"PostgreSQL did not start:\n{log.read_text('utf-8', 'replace')}")


def python_with(
    distribution: str, requirement: str, series: str, variable: str, *extra: str, name: str | None = None
) -> str:
    """A Python executable whose environment holds `distribution` of `series` (a version prefix).

    `requirement` and `extra` are what pip installs when an environment has to be made; `name` is the
    environment's, where the distribution's own is taken.
    """
    named = os.environ.get(variable)
    if named:
        return named
    with contextlib.suppress(importlib.metadata.PackageNotFoundError):
        if importlib.metadata.version(distribution).startswith(series):
            return sys.executable
    folder = os.environ.get("HIBOR_TEST_ENVS")
    if not folder and not required():
        missing(f"{requirement} is not installed here, and neither {variable} nor HIBOR_TEST_ENVS is set")
    root = Path(folder) if folder else Path(tempfile.gettempdir()) / "hibor-test-envs"
    root.mkdir(parents=True, exist_ok=True)
    home = root / f"{name or distribution}-{series.rstrip('.')}-py{sys.version_info[0]}.{sys.version_info[1]}"
    python = home / ("Scripts/python.exe" if os.name == "nt" else "bin/python")
    with filelock.FileLock(f"{home}.lock"):
        if not (home / "ready").exists():
            try:
                subprocess.run(
                    [sys.executable, "-m", "venv", "--clear", str(home)], check=True, capture_output=True
                )
                install = [str(python), "-m", "pip", "install", "-q", requirement, *extra]
                subprocess.run(install, check=True, capture_output=True)
            except subprocess.CalledProcessError as error:
                detail = (error.stderr or b"").decode("utf-8", "replace").strip()[-300:]
                missing(f"{requirement} could not be installed: {detail}")
            (home / "ready").touch()
    return str(python)


def tasklite_python(series: str) -> str:
    """A Python with the real `tasklite-engine` of `series` (`1.4.` or `2.`)."""
    name = series.rstrip(".").replace(".", "")
    return python_with(
        "tasklite-engine",
        f"tasklite-engine=={series}*",
        series,
        f"HIBOR_TASKLITE_{name}_PYTHON",
        "attrs>=25.1",
    )


def dbos_python() -> str:
    """A Python with the real `dbos` and what the host needs beside it."""
    return python_with("dbos", "dbos>=3.4", "3.", "HIBOR_DBOS_PYTHON", "attrs>=25.1", "filelock>=3.20")


def farm_python() -> str:
    """A Python with the real `dbos` and everything this project runs on."""
    data = tomllib.loads((Path(__file__).parents[1] / "pyproject.toml").read_text(encoding="utf-8"))
    needs = data["project"]["dependencies"]
    return python_with("dbos", "dbos>=3.4", "3.", "HIBOR_FARM_PYTHON", *needs, name="hibor-farm")
