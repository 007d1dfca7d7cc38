"""Commands and whole runs, crashed at every step: the next command goes on, and nothing that was promised is
lost.

The default run takes a spread of the crash points and one kill of most steps; HIBOR_DEEP=1 takes all of them.
"""

from __future__ import annotations

import os

import pytest

from tests.faults.checks import half_written
from tests.faults.command_kills import kill_run, kill_scene
from tests.faults.commands import SCENES, Scene, scene_named
from tests.faults.disk import Image
from tests.faults.kills import MOMENTS
from tests.faults.plays import NO_PHONE
from tests.faults.runs import RUNS, Run, of_the_run, recording_of, recover_by_command, run_named, sweep_run
from tests.faults.scenes import crashed, played, sweep_scene
from tests.faults.theatre import Theatre

DEEP = os.environ.get("HIBOR_DEEP") == "1"
AT_PHONE = ("doctor --walk",)
ITS_OWN = ("ledger.", "recover", "settle.", "tail.", "quarantine.", "want.", "export.")
"""Steps that the commands do and a run's items do not; the default run kills a command at these."""
KILLS = (
    ("run", "library.probe", "torn"),
    ("run", "library.consent", "torn"),
    ("run", "awake.write", "before"),
    ("run", "awake.write", "after"),
    ("run --dry-run", "run.terminal", "torn"),
    ("run at a wall", "hold.write", "torn"),
)
"""Which runs the default run kills, and where."""
posix = pytest.mark.skipif(not hasattr(os, "fork"), reason="SIGKILL and fork are POSIX")


@pytest.mark.parametrize("scene", SCENES, ids=lambda scene: scene.name)
def test_a_command_that_crashes_is_given_again(theatre: Theatre, scene: Scene) -> None:
    if scene.name in AT_PHONE:
        every = 1 if DEEP else 40
        swept = sweep_scene(theatre, scene, every=every, whole_every=1 if DEEP else 8, each_square=DEEP)
    else:
        swept = sweep_scene(theatre, scene, every=1 if DEEP else 20)
    assert swept.recoveries > 0
    assert swept.violations == []


@pytest.mark.parametrize("run", RUNS, ids=lambda run: run.name)
def test_a_run_that_crashes_is_recovered_by_the_next_command(theatre: Theatre, run: Run) -> None:
    """The default run looks at what is not an item's, without a phone: the plays look at the items."""
    if DEEP:
        swept = sweep_run(theatre, run.name)
    else:
        swept = sweep_run(theatre, run.name, every=60, phones=(NO_PHONE,), only=of_the_run, again=False)
    assert swept.recoveries > 9
    assert swept.violations == []


def test_what_a_killed_doctor_half_wrote_goes_with_the_next_recovery(theatre: Theatre) -> None:
    """A picture is named by its time: the next doctor takes another name and leaves the first one lying."""
    recording, seen = played(theatre, scene_named("doctor --walk")), set[str]()
    for _point, image, _lost in crashed(recording.start, recording.log):
        if image.digest in seen or not half_written(image):
            continue
        seen.add(image.digest)
        room, wrong = theatre.room(), list[str]()
        image.write_to(room)
        recover_by_command(room, None, recording.at, wrong)
        assert wrong + half_written(Image.of(room)) == []
    assert len(seen) > 2


@posix
@pytest.mark.parametrize("scene", SCENES, ids=lambda scene: scene.name)
def test_a_killed_command_is_given_again(theatre: Theatre, scene: Scene) -> None:
    steps = sorted(played(theatre, scene).steps)
    own = [step for step in steps if DEEP or (step.startswith(ITS_OWN) and scene.name not in AT_PHONE)]
    for place, step in enumerate(own):
        for moment in MOMENTS if DEEP else (MOMENTS[place % 3],):
            killed, wrong = kill_scene(theatre, scene, step, moment)
            assert killed or moment == "torn", (step, moment)
            assert wrong == [], (step, moment)


@posix
@pytest.mark.parametrize(("name", "step", "moment"), KILLS)
def test_a_killed_run_is_taken_over(theatre: Theatre, name: str, step: str, moment: str) -> None:
    killed, wrong = kill_run(theatre, run_named(name), step, moment)
    assert killed
    assert wrong == []


@posix
@pytest.mark.skipif(not DEEP, reason="every step of every run: HIBOR_DEEP=1")
@pytest.mark.parametrize("run", RUNS, ids=lambda run: run.name)
def test_a_run_killed_at_any_step_is_taken_over(theatre: Theatre, run: Run) -> None:
    steps = dict.fromkeys(op.step for op in recording_of(theatre, run).log if of_the_run(op.step))
    for step in steps:
        for moment in MOMENTS:
            killed, wrong = kill_run(theatre, run, step, moment)
            assert killed or moment == "torn", (step, moment)
            assert wrong == [], (step, moment)
