"""`python -m tools.atlas`: crash every play, command and whole run at every step, go on from every disk
image, and print what came of it.

The plays, phones and checks are those of `tests/faults`; this program draws them. Exit codes: 0 every square
is settled, 1 an invariant is broken, a square is empty, a registered step is nowhere or a mutant survived, 64
usage.
"""

from __future__ import annotations

import json
import logging
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from generated.stamp import SPEC_SHA256
from generated.steps import STEPS
from tools.atlas.page import page
from tools.atlas.squares import Atlas, atlas_of

if TYPE_CHECKING:
    from tests.faults.sweep import Swept
    from tests.faults.theatre import Theatre

FOUND, USAGE = 1, 64


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.option("--play", "plays", multiple=True, help="Only this play, command or run.")
@click.option(
    "--every", type=click.IntRange(1), default=1, show_default=True, help="Every N-th torn image only."
)
@click.option(
    "--out", type=click.Path(path_type=Path, file_okay=False), default=Path(), help="Folder of the files."
)
@click.option("--mutants/--no-mutants", default=True, show_default=True, help="Run the broken variants too.")
def command(plays: tuple[str, ...], every: int, out: Path, mutants: bool) -> None:
    """Write atlas.html and atlas.json and print the atlas."""
    raise SystemExit(draw(plays, every, out, mutants))


def draw(plays: tuple[str, ...], every: int, out: Path, mutants: bool) -> int:
    """Make the atlas; returns the exit code."""
    from tests.faults.command_mutants import COMMAND_MUTANTS
    from tests.faults.commands import SCENES
    from tests.faults.mutants import MUTANTS
    from tests.faults.plays import PLAYS
    from tests.faults.runs import RUNS
    from tests.faults.theatre import memory_folder, open_theatre

    logging.basicConfig(level=logging.CRITICAL)
    known = [*(play.name for play in PLAYS), *(run.name for run in RUNS), *(scene.name for scene in SCENES)]
    if unknown := [name for name in plays if name not in known]:
        click.echo(f"no play {', '.join(unknown)}; there are {', '.join(known)}", err=True)
        return USAGE
    begun_s = time.monotonic()
    killed: dict[str, bool] = {}
    with tempfile.TemporaryDirectory(prefix="hibor-atlas-", dir=memory_folder()) as folder, open_theatre(
        Path(folder)
    ) as theatre:
        swept = []
        for name in plays or tuple(known):
            click.echo(f"{name} …", err=True)
            swept += _swept(theatre, name, every)
        for mutant in (*MUTANTS, *COMMAND_MUTANTS) if mutants else ():
            with mutant.broken():
                killed[mutant.name] = bool(mutant.check(theatre))
    atlas = atlas_of(swept, () if plays else tuple(STEPS))
    document: dict[str, Any] = {
        "schema_version": 1,
        "spec_sha256": SPEC_SHA256,
        "every": every,
        "seconds": round(time.monotonic() - begun_s, 1),
        **atlas.to_dict(),
        "mutants": killed,
    }
    out.mkdir(parents=True, exist_ok=True)
    (out / "atlas.json").write_text(
        json.dumps(document, ensure_ascii=False, indent=1) + "\n", encoding="utf-8"
    )
    (out / "atlas.html").write_text(page(atlas, document), encoding="utf-8")
    _print(atlas, document, out)
    return FOUND if atlas.counts["violations"] or atlas.empty or not all(killed.values()) else 0


def _swept(theatre: Theatre, name: str, every: int) -> list[Swept]:
    """What came of a play, a run or a command."""
    from tests.faults.commands import SCENES
    from tests.faults.cuts import cuts
    from tests.faults.plays import ALWAYS, NO_PHONE, PLAYS
    from tests.faults.runs import RUNS, sweep_run
    from tests.faults.scenes import sweep_scene
    from tests.faults.sweep import sweep

    if name in [play.name for play in PLAYS]:
        cut = cuts(theatre, name, every=4 * every, images=6, phones=(NO_PHONE, ALWAYS))
        return [sweep(theatre, name, every=every, each_square=True), cut]
    if name in [run.name for run in RUNS]:
        return [sweep_run(theatre, name, every=every)]
    scene = next(scene for scene in SCENES if scene.name == name)
    return [sweep_scene(theatre, scene, every=every, whole_every=every)]


def _print(atlas: Atlas, document: dict[str, Any], out: Path) -> None:
    for row in atlas.rows:
        for column, square in row.squares.items():
            if square.visits:
                click.echo(f"{row.play:20} {row.step:20} {column:16} {square.told()}")
    click.echo("")
    for name, count in atlas.counts.items():
        click.echo(f"{count:>8}  {name.replace('_', ' ')}")
    for name, dead in document["mutants"].items():
        click.echo(f"  mutant {'killed' if dead else 'SURVIVED'}: {name}")
    for text in atlas.empty[:20]:
        click.echo(f"  empty: {text}")
    for text in atlas.violations[:20]:
        click.echo(f"  broken: {text}")
    click.echo(f"{out / 'atlas.html'} and {out / 'atlas.json'} written in {document['seconds']} s")


if __name__ == "__main__":
    try:
        command.main(standalone_mode=False)
    except click.ClickException as error:
        error.show()
        sys.exit(USAGE)
