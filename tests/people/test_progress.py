"""Progress lines on a console: what an app's titles hold must not act on the terminal."""

from __future__ import annotations

import io
import json
import os
import subprocess
from pathlib import Path

import pytest

from hibor.people.progress import TITLE_LETTERS, Progress
from tests.main_job import SMALL_FEED, MainJob, command, environment


@pytest.mark.parametrize("lang", ["zh", "en"])
def test_a_title_stays_on_its_line_and_moves_no_cursor(lang: str) -> None:
    stream = io.StringIO()
    progress = Progress(lang, stream=stream)
    title = "a\nb\r\x1b[2J\u202e倒\u202c\u200bc{x} %s"
    progress.say("item_begins", index=1, source="NEW_TRIGGER", title=title)
    progress.say("item_begins", index=2, source="NEW_TRIGGER", title="长" * 300)
    lines = stream.getvalue().splitlines()
    assert lines[0].endswith("a b [2J倒c{x} %s")
    assert lines[1].endswith("长" * TITLE_LETTERS + "…") and len(lines) == 2


@pytest.mark.parametrize("lang", ["zh", "en"])
def test_a_drop_of_the_label_nobody_here_caused_is_told(lang: str) -> None:
    stream = io.StringIO()
    Progress(lang, quiet=True, stream=stream).warn("unexplained", count=3)
    assert "3" in stream.getvalue()


@pytest.mark.skipif(os.name == "nt", reason="a pipe whose reader is gone tells it there at another time")
def test_a_run_whose_stderr_nobody_reads_goes_on_and_ends_with_its_document(
    main_job: MainJob, tmp_path: Path
) -> None:
    library, scenario = tmp_path / "library", main_job.scenario(SMALL_FEED)
    process = subprocess.Popen(
        command(["--library", library, "--scenario", scenario, "--count", "1", "--time-scale", "20"]),
        env=environment(), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    )  # fmt: skip
    assert process.stderr is not None and process.stdout is not None
    process.stderr.readline()
    process.stderr.close()
    document = json.loads(process.stdout.read())
    process.stdout.close()
    assert (document["status"], process.wait()) == ("COMPLETE", 0), document["stop_reason"]
