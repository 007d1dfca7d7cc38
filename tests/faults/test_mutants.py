"""Each deliberately broken variant is noticed, and the sound program passes the same check."""

from __future__ import annotations

import pytest

from tests.faults.command_mutants import COMMAND_MUTANTS
from tests.faults.mutants import MUTANTS, Mutant
from tests.faults.theatre import Theatre


@pytest.mark.parametrize("mutant", (*MUTANTS, *COMMAND_MUTANTS), ids=lambda mutant: mutant.name)
def test_a_broken_variant_is_noticed(theatre: Theatre, mutant: Mutant) -> None:
    with mutant.broken():
        found = mutant.check(theatre)
    assert found, f"nobody noticed: {mutant.name}"


@pytest.mark.parametrize("mutant", (*MUTANTS, *COMMAND_MUTANTS), ids=lambda mutant: mutant.name)
def test_the_sound_program_passes_the_same_check(theatre: Theatre, mutant: Mutant) -> None:
    assert mutant.check(theatre) == []
