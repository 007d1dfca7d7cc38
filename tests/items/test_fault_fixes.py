"""What whole runs with a fault once got wrong, each as small as it can be played (issue 5)."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

from tests.main_job import SMALL_FEED, MainJob, events, item_folder, served


def test_a_report_is_opened_once_from_each_source(main_job: MainJob, tmp_path: Path) -> None:
    """The cached file is damaged for good and the app will not fetch it anew: nothing is tried twice."""
    scenario = main_job.scenario(
        f'{SMALL_FEED}\n[cache]\nprefilled = [1]\n\n'
        '[[fault]]\nkind = "file_grows_in_pull"\nmatch = ".pdf"\namount = 4096\n'
    )
    library = tmp_path / "library"
    run = main_job("--library", library, "--scenario", scenario, "--count", "2")
    opened = Counter((item["report_id"], item["source"]) for item in run.items)
    assert max(opened.values()) == 1
    assert len({item["item_id"] for item in run.items}) == len(run.items)
    reused = [item["stop_code"] for item in run.items if item["source"] == "CACHE_REUSE"]
    assert reused == ["CANDIDATE_REJECTED"]
    assert run.document["counts"]["by_status"]["SUCCESS"] == 2 and run.exit_code == 0


def test_quota_used_elsewhere_is_believed_before_the_next_report_is_tapped(
    main_job: MainJob, tmp_path: Path
) -> None:
    """The label drops to 0 while the second report is paid for: the third is not even reserved."""
    scenario = main_job.scenario(
        f'{SMALL_FEED}\n[[fault]]\nkind = "quota_elsewhere"\nsite = "confirm"\ncall = 2\namount = 18\n'
    )
    library = tmp_path / "library"
    run = main_job("--library", library, "--scenario", scenario, "--count", "4")
    assert run.summary() == (11, "PARTIAL_QUOTA_STOP", "QUOTA_EXHAUSTED")
    assert len(served(library)) == 2
    assert Counter(event["type"] for event in events(library))["RESERVED"] == 2
    quota = run.document["quota"]
    assert (quota["label_after"], quota["safe_after"], quota["unexplained"]) == (0, 0, 18)


def test_a_wall_met_before_any_item_holds_the_account_and_is_shown(main_job: MainJob, tmp_path: Path) -> None:
    scenario = main_job.scenario(f'{SMALL_FEED}\n[[fault]]\nkind = "login_wall"\nsite = "start"\ntimes = 0\n')
    library = tmp_path / "library"
    run = main_job("--library", library, "--scenario", scenario)
    assert run.summary() == (20, "STOPPED", "ACCESS_CONTROL_PRESENT")
    assert len(list(library.rglob("hold.json"))) == 1
    (folder,) = library.glob("runs/*/evidence")
    assert {path.name for path in folder.iterdir()} == {"screen.xml", "screen.png", "diagnosis.txt"}
    assert b"login_root" in (folder / "screen.xml").read_bytes()
    assert "access_control" in (folder / "diagnosis.txt").read_text("utf-8")


def test_a_hold_stops_new_downloads_until_it_is_taken_away(main_job: MainJob, tmp_path: Path) -> None:
    wall = main_job.scenario(f'{SMALL_FEED}\n[[fault]]\nkind = "captcha_wall"\nsite = "download"\n')
    calm = main_job.scenario(SMALL_FEED, "calm.toml")
    library = tmp_path / "library"
    main_job("--library", library, "--scenario", wall, "--count", "1")
    held = main_job("--library", library, "--scenario", calm, "--count", "1")
    assert held.summary() == (20, "STOPPED", "ACCESS_CONTROL_PRESENT")
    assert "hibor.doctor" in held.document["stop_reason"]["detail"] and served(library) == []
    (hold,) = library.rglob("hold.json")
    hold.unlink()  # what `doctor` does once a person has looked
    assert main_job("--library", library, "--scenario", calm, "--count", "1").exit_code == 0
    assert len(served(library)) == 1


def test_a_download_without_an_acknowledged_tap_keeps_both_screens(main_job: MainJob, tmp_path: Path) -> None:
    scenario = main_job.scenario(
        f'{SMALL_FEED}\n[[fault]]\nkind = "tap_ack_lost"\ncontrol = "dialog_ok"\nreport = 1\n'
    )
    library = tmp_path / "library"
    run = main_job("--library", library, "--scenario", scenario, "--count", "1")
    (item,) = run.items
    assert (item["status"], item["quota_state"]) == ("SUCCESS", "UNCERTAIN")
    assert item["error_or_note"] == "WARNING:TRIGGER_UNCERTAIN_CACHE_IDENTITY_CONFIRMED"
    assert (item["trigger_attempted"], item["triggered"]) == (True, None)
    assert len(served(library)) == 1
    names = {path.name for path in (item_folder(library, item) / "evidence").iterdir()}
    assert {"screen.xml", "screen-2.xml", "diagnosis.txt", "diagnosis-2.txt"} <= names
