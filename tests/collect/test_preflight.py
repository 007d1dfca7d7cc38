"""Each thing that must hold before anything is reserved, missing: its code, its exit status, one document.

The phone is the simulated one behind a real adb server; where a phone is named, the server is a private
one. Nothing is reserved in any of these runs, and no file of a report exists afterwards.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from hibor.clock import SystemClock
from hibor.durable import Durable
from hibor.durable_fs import OsFileSystem
from hibor.locks import NOTE_STEPS, Locks
from hibor.sim.process import start_phone
from hibor.sim.server import PrivateAdbServer
from tests.conftest import WarmLibrary
from tests.main_job import MainJob, Run, ledgers, nothing_reserved, run_each, served


def check_nothing_spent(run: Run) -> None:
    assert run.document["items"] == []
    assert run.library is None or nothing_reserved(run.library)
    assert run.library is None or served(run.library) == []
    assert run.library is None or not list(run.library.glob("reports/**/*.pdf"))


# -- the phone is not as it must be ----------------------------------------------------------------------

SCENARIOS = {
    "app_missing": "PACKAGE_MISSING",
    "phone_locked": "ACCESS_CONTROL_PRESENT",
    "input_blocked": "ACCESS_CONTROL_PRESENT",
    "login_at_start": "ACCESS_CONTROL_PRESENT",
    "clock_off": "CLOCK_INVALID",
    "cache_denied": "CACHE_UNREADABLE",
    "second_device": "DEVICE_NOT_UNIQUE",
    "unauthorized": "DEVICE_NOT_ONLINE",
}


@pytest.fixture(scope="module")
def unusable_phones(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Run]:
    folder = tmp_path_factory.mktemp("phones")
    wanted = {name: ("--library", folder / name, "--scenario", name) for name in SCENARIOS}
    return run_each(folder, wanted)


@pytest.mark.parametrize("scenario", SCENARIOS)
def test_phone_that_cannot_be_used(unusable_phones: dict[str, Run], scenario: str) -> None:
    run = unusable_phones[scenario]
    assert run.summary() == (20, "STOPPED", SCENARIOS[scenario])
    check_nothing_spent(run)


def test_a_stopped_preflight_says_why_to_people_in_their_language(main_job: MainJob, tmp_path: Path) -> None:
    run = main_job("--library", tmp_path / "library", "--scenario", "app_missing", "--lang", "zh")
    assert run.document["stop_reason"]["code"] == "PACKAGE_MISSING"
    assert "PACKAGE_MISSING" in run.stderr and "模拟" in run.stderr


# -- phones that are named, or not, on an adb server -----------------------------------------------------


@pytest.fixture(scope="module")
def adb_server() -> Iterator[PrivateAdbServer]:
    with PrivateAdbServer() as server:
        yield server


@pytest.fixture(scope="module")
def two_phones(
    adb_server: PrivateAdbServer, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[list[Path]]:
    """Two simulated phones on one private adb server; yields their state folders."""
    folders = [tmp_path_factory.mktemp(name) for name in ("phone-a", "phone-b")]
    with ExitStack() as stack:
        for folder in folders:
            phone = stack.enter_context(start_phone(folder, "default", 1.0))
            adb_server.connect(phone.serial)
        yield folders


def untouched(folder: Path) -> bool:
    """No tap, no opened page and nothing served on a phone."""
    path = folder / "truth.jsonl"
    lines = [json.loads(line) for line in path.read_bytes().splitlines()] if path.exists() else []
    return not any(line["event"] in ("tap", "opened", "served") for line in lines)


def test_no_such_device(main_job: MainJob, adb_server: PrivateAdbServer, tmp_path: Path) -> None:
    library = tmp_path / "library"
    options = ("--adb-server", adb_server.address, "--device", "R58M000000A", "--library", library)
    run = main_job(*options, scale=None)
    assert run.summary() == (20, "STOPPED", "DEVICE_NOT_ONLINE")
    check_nothing_spent(run)


def test_two_devices_and_no_choice(
    main_job: MainJob, adb_server: PrivateAdbServer, two_phones: list[Path], tmp_path: Path
) -> None:
    run = main_job("--adb-server", adb_server.address, "--library", tmp_path / "library", scale=None)
    assert run.summary() == (20, "STOPPED", "DEVICE_NOT_UNIQUE")
    check_nothing_spent(run)
    assert all(untouched(folder) for folder in two_phones)


def test_two_devices_and_a_task_that_names_none(
    main_job: MainJob, adb_server: PrivateAdbServer, two_phones: list[Path], tmp_path: Path
) -> None:
    task = tmp_path / "task.toml"
    task.write_text('library = "library"\naccount = "team-a"\n', encoding="utf-8")
    run = main_job("--adb-server", adb_server.address, "--task", task, "--yes", scale=None)
    assert run.summary() == (20, "STOPPED", "DEVICE_NOT_UNIQUE")
    assert nothing_reserved(tmp_path / "library")
    assert all(untouched(folder) for folder in two_phones)


def test_first_use_of_a_real_phone_needs_a_person(
    main_job: MainJob, adb_server: PrivateAdbServer, two_phones: list[Path], tmp_path: Path
) -> None:
    """stdin is no terminal here and `--yes` is not given: nobody confirms."""
    serial = sorted(adb_server.devices())[0]
    options = ("--adb-server", adb_server.address, "--device", serial, "--library", tmp_path / "library")
    run = main_job(*options, scale=None)
    assert run.summary() == (64, "TASK_INVALID", "TASK_SPEC_INVALID")
    assert "--yes" in run.document["stop_reason"]["detail"]
    check_nothing_spent(run)
    assert all(untouched(folder) for folder in two_phones)


def test_no_adb_server_at_all(main_job: MainJob, tmp_path: Path) -> None:
    with PrivateAdbServer() as server:
        address = server.address
    options = ("--adb-server", address, "--device", "R58M000000A", "--library", tmp_path / "library")
    run = main_job(*options, scale=None)
    assert run.summary() == (20, "STOPPED", "PROCESS_START_FAILED")
    check_nothing_spent(run)


# -- the library is not as it must be --------------------------------------------------------------------


def library_is_a_file(folder: Path) -> Path:
    path = folder / "library"
    path.write_bytes(b"in the way")
    return path


def library_below_a_file(folder: Path) -> Path:
    return library_is_a_file(folder) / "below"


def runs_is_a_file(folder: Path) -> Path:
    library = folder / "library"
    library.mkdir()
    (library / "runs").write_bytes(b"in the way")
    return library


def reports_is_a_file(folder: Path) -> Path:
    library = folder / "library"
    library.mkdir()
    (library / "reports").write_bytes(b"in the way")
    return library


def quota_is_a_file(folder: Path) -> Path:
    library = folder / "library"
    library.mkdir()
    (library / "quota").write_bytes(b"in the way")
    return library


def manifest_is_a_folder(folder: Path) -> Path:
    library = folder / "library"
    (library / "manifest.jsonl").mkdir(parents=True)
    return library


def library_has_no_parent_that_takes_folders(_folder: Path) -> Path:
    """An administrator may write anywhere but where there is no disk; elsewhere the name itself is
    impossible.
    """
    return Path("/proc/hibor-library") if Path("/proc/self").is_dir() else Path("\\\\?\\nowhere:\\library")


UNUSABLE = (
    library_is_a_file,
    library_below_a_file,
    runs_is_a_file,
    reports_is_a_file,
    quota_is_a_file,
    manifest_is_a_folder,
    library_has_no_parent_that_takes_folders,
)


@pytest.fixture(scope="module")
def unusable_libraries(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Run]:
    wanted = {
        prepare.__name__: ("--library", prepare(tmp_path_factory.mktemp("library"))) for prepare in UNUSABLE
    }
    return run_each(tmp_path_factory.mktemp("runs"), wanted)


@pytest.mark.parametrize("why", [prepare.__name__ for prepare in UNUSABLE])
def test_unwritable_library(unusable_libraries: dict[str, Run], why: str) -> None:
    run = unusable_libraries[why]
    assert run.summary() == (64, "TASK_INVALID", "TASK_SPEC_INVALID")
    check_nothing_spent(run)
    assert "library" in run.stderr or "ledger" in run.stderr or "manifest" in run.stderr


def test_unwritable_library_with_a_named_phone(
    main_job: MainJob, adb_server: PrivateAdbServer, two_phones: list[Path], tmp_path: Path
) -> None:
    """The same on the way to a real phone, where no simulated phone stumbles over the folder first."""
    library = library_is_a_file(tmp_path)
    serial = sorted(adb_server.devices())[0]
    options = ("--adb-server", adb_server.address, "--device", serial, "--library", library, "--yes")
    run = main_job(*options, scale=None)
    assert run.summary() == (64, "TASK_INVALID", "TASK_SPEC_INVALID")
    assert library.read_bytes() == b"in the way"


def test_library_in_use_by_another_run(main_job: MainJob, tmp_path: Path) -> None:
    library = tmp_path / "library"
    library.mkdir()
    durable = Durable(OsFileSystem(), SystemClock(), NOTE_STEPS)
    lock = Locks(durable, SystemClock()).library(library)
    lock.acquire()
    try:
        run = main_job("--library", library)
    finally:
        lock.release()
    assert run.summary() == (75, "BUSY", "BUSY")
    check_nothing_spent(run)
    assert not (library / "runs").exists()


def snapshot_of(library: Path) -> dict[str, bytes]:
    """Every file of a library except the simulated phone's and the locks'."""
    files = [path for path in library.rglob("*") if path.is_file() and "sim-phone" not in path.parts]
    return {str(path.relative_to(library)): path.read_bytes() for path in files if path.suffix != ".lock"}


def flip_a_byte(raw: bytes) -> bytes:
    middle = len(raw) // 2
    return raw[:middle] + bytes([raw[middle] ^ 1]) + raw[middle + 1 :]


def drop_the_last_line(raw: bytes) -> bytes:
    return raw[: raw.rstrip(b"\n").rfind(b"\n") + 1]


def test_a_library_serves_one_account(main_job: MainJob, warm: WarmLibrary, tmp_path: Path) -> None:
    """Another account's task is refused before anything is written, and no ledger is called damaged."""
    library = tmp_path / "library"
    shutil.copytree(warm.path, library)
    task = tmp_path / "task.toml"
    task.write_text('library = "library"\naccount = "team-b"\n[quota]\nlimit = 5\n', encoding="utf-8")
    before = snapshot_of(library)
    run = main_job("--task", task, "--scenario", "default")
    assert run.summary() == (64, "TASK_INVALID", "TASK_SPEC_INVALID")
    assert "simulated" in run.stderr and "team-b" in run.stderr
    assert snapshot_of(library) == before


@pytest.mark.parametrize("damage", [flip_a_byte, drop_the_last_line], ids=lambda damage: damage.__name__)
def test_ledger_in_doubt_writes_nothing_at_all(
    main_job: MainJob, warm: WarmLibrary, tmp_path: Path, damage: object
) -> None:
    """Ruling R28: no item opened, nothing written, STATE_UNCERTAIN."""
    assert callable(damage)
    library = tmp_path / "library"
    shutil.copytree(warm.path, library)
    (ledger,) = ledgers(library)
    ledger.write_bytes(damage(ledger.read_bytes()))
    before = snapshot_of(library)
    run = main_job("--library", library)
    main_job.fault_free.clear()  # the books were falsified on purpose: there is nothing to audit
    assert run.summary() == (27, "STATE_UNCERTAIN", "QUOTA_LEDGER_INVALID")
    assert run.items == []
    assert snapshot_of(library) == before
    assert served(library) == warm.served_after_first
