"""C01-C10: literals, prefixes, sources, every closing against a naive twin (V006 §2.4, §5.3; R4-R9)."""

from __future__ import annotations

import random
from collections import Counter
from itertools import product

import attrs
import pytest

from fsm import ContractError, Tables, match_closure
from tests.fsm import v006

ACCEPTED = v006.accepted_closings()
KINDS = (None, "SUCCESS", "DUPLICATE", "FAILURE")
STATUSES = ("SUCCESS", "DUPLICATE", "FAILED", "STOPPED")


def expected(lane: str, short: str, presence: str, artifact: str | None, status: str) -> str | None:
    """What the hand-made list says."""
    return ACCEPTED.get((lane, short, presence, artifact, status))


# lane, source, presence as closed, artifact kind, status, variant
LITERALS = [
    ("NEW_TRIGGER", "P09_TIMING", "NVVVVVVV", "SUCCESS", "SUCCESS", "C01_NEW_SUCCESS"),
    ("NEW_TRIGGER", "P06_PUBLISHED", "VVVVVVVV", "SUCCESS", "SUCCESS", "C01_NEW_SUCCESS"),
    ("NEW_TRIGGER", "P05_STAGING_VALID", "VVVVVVVV", "DUPLICATE", "DUPLICATE", "C02_NEW_DUPLICATE"),
    ("NEW_TRIGGER", "P09_TIMING", "NVVVVVVV", "DUPLICATE", "DUPLICATE", "C02_NEW_DUPLICATE"),
    ("PURE_REUSE", "P09_TIMING", "NVNNVVVV", None, "SUCCESS", "C03_REUSE_SUCCESS"),
    ("PURE_REUSE", "P09_TIMING", "VVNNVVVV", None, "SUCCESS", "C03_REUSE_SUCCESS"),
    ("PURE_REUSE", "P09_TIMING", "VVNNVVVV", None, "DUPLICATE", "C04_REUSE_DUPLICATE"),
    ("NEW_TRIGGER", "P00_INIT", "NNNNNNNV", None, "STOPPED", "C05_PREQUOTA_STOP"),
    ("PURE_REUSE", "P00_INIT", "NNNNNNNV", None, "STOPPED", "C05_PREQUOTA_STOP"),
    ("NEW_TRIGGER", "P01_RESERVED", "NNNNNNNV", None, "STOPPED", "C06_RESERVED_STOP"),
    ("NEW_TRIGGER", "P02_TRIGGER_UNKNOWN", "NNNNNNNV", None, "STOPPED", "C06_RESERVED_STOP"),
    ("NEW_TRIGGER", "P02_TRIGGER_UNKNOWN", "NNUNNNNV", None, "STOPPED", "C06_RESERVED_STOP"),
    ("NEW_TRIGGER", "P02_TRIGGER_UNKNOWN", "NNVNNNNV", None, "STOPPED", "C07_TRIGGER_CLOSED_NO_ARTIFACT"),
    ("NEW_TRIGGER", "P03_CACHE_MATCHED", "NNVNNNNV", None, "STOPPED", "C07_TRIGGER_CLOSED_NO_ARTIFACT"),
    ("NEW_TRIGGER", "P03_CACHE_MATCHED", "NNVUNNNV", None, "STOPPED", "C07_TRIGGER_CLOSED_NO_ARTIFACT"),
    ("NEW_TRIGGER", "P03_CACHE_MATCHED", "NNVVNNNV", "FAILURE", "FAILED", "C08_PROCESSING_FAILED"),
    ("NEW_TRIGGER", "P04_STAGING_PARTIAL", "INVVNNNV", "FAILURE", "FAILED", "C08_PROCESSING_FAILED"),
    ("NEW_TRIGGER", "P05_STAGING_VALID", "VNVVNNNV", "FAILURE", "FAILED", "C08_PROCESSING_FAILED"),
    ("NEW_TRIGGER", "P06_PUBLISHED", "NVVVNNNV", "SUCCESS", "FAILED", "C09_POSTPUBLISH_STOP"),
    ("NEW_TRIGGER", "P07_MANIFESTED", "NVVVVNNV", "SUCCESS", "STOPPED", "C09_POSTPUBLISH_STOP"),
    ("NEW_TRIGGER", "P09_TIMING", "VVVVVVVV", "SUCCESS", "STOPPED", "C09_POSTPUBLISH_STOP"),
    ("PURE_REUSE", "P06_PUBLISHED", "NVNNNNNV", None, "FAILED", "C10_REUSE_POSTPUBLISH_STOP"),
    ("PURE_REUSE", "P08_DELIVERY", "VVNNVVNV", None, "STOPPED", "C10_REUSE_POSTPUBLISH_STOP"),
    # R4: any other U closes nothing
    ("NEW_TRIGGER", "P01_RESERVED", "NNUNNNNV", None, "STOPPED", None),
    ("NEW_TRIGGER", "P02_TRIGGER_UNKNOWN", "NNVUNNNV", None, "STOPPED", None),
    ("NEW_TRIGGER", "P04_STAGING_PARTIAL", "INVUNNNV", None, "STOPPED", None),
    ("NEW_TRIGGER", "P05_STAGING_VALID", "VNVUNNNV", None, "STOPPED", None),
    ("NEW_TRIGGER", "P06_PUBLISHED", "NVVVUNNV", "SUCCESS", "STOPPED", None),
    # R5: never shorter than the source's own prefix
    ("NEW_TRIGGER", "P07_MANIFESTED", "NVVVNNNV", "SUCCESS", "STOPPED", None),
    ("NEW_TRIGGER", "P09_TIMING", "NVVVVVNV", "SUCCESS", "STOPPED", None),
    ("PURE_REUSE", "P08_DELIVERY", "NVNNVNNV", None, "STOPPED", None),
    # R6: cells against the source
    ("NEW_TRIGGER", "P03_CACHE_MATCHED", "INVVNNNV", "FAILURE", "FAILED", None),
    ("NEW_TRIGGER", "P03_CACHE_MATCHED", "VNVVNNNV", "FAILURE", "FAILED", None),
    ("NEW_TRIGGER", "P04_STAGING_PARTIAL", "NNVVNNNV", "FAILURE", "FAILED", None),
    ("NEW_TRIGGER", "P05_STAGING_VALID", "INVVNNNV", "FAILURE", "FAILED", None),
    ("NEW_TRIGGER", "P05_STAGING_VALID", "NVVVVVVV", "DUPLICATE", "DUPLICATE", None),
    # success and duplicate need the whole package; the kind of A and the status must fit
    ("NEW_TRIGGER", "P09_TIMING", "NVVVVVNV", "SUCCESS", "SUCCESS", None),
    ("NEW_TRIGGER", "P05_STAGING_VALID", "VVVVVVNV", "DUPLICATE", "DUPLICATE", None),
    ("NEW_TRIGGER", "P05_STAGING_VALID", "VVVVVVVV", "SUCCESS", "SUCCESS", None),
    ("NEW_TRIGGER", "P09_TIMING", "NVVVVVVV", "DUPLICATE", "SUCCESS", None),
    ("NEW_TRIGGER", "P09_TIMING", "NVVVVVVV", "SUCCESS", "DUPLICATE", None),
    ("NEW_TRIGGER", "P09_TIMING", "NVVVVVVV", "FAILURE", "FAILED", None),
    ("NEW_TRIGGER", "P09_TIMING", "NVVVVVVV", None, "SUCCESS", None),
    ("NEW_TRIGGER", "P00_INIT", "NNNNNNNV", None, "FAILED", None),
    ("NEW_TRIGGER", "P03_CACHE_MATCHED", "NNVNNNNV", None, "FAILED", None),
    ("NEW_TRIGGER", "P04_STAGING_PARTIAL", "INVNNNNV", None, "STOPPED", None),
    ("NEW_TRIGGER", "P05_STAGING_VALID", "VNVNNNNV", None, "STOPPED", None),
    ("NEW_TRIGGER", "P04_STAGING_PARTIAL", "INVVNNNV", "FAILURE", "STOPPED", None),
    ("PURE_REUSE", "P09_TIMING", "NVVVVVVV", "SUCCESS", "SUCCESS", None),
    ("NEW_TRIGGER", "P09_TIMING", "NVNNVVVV", None, "SUCCESS", None),
    ("PURE_REUSE", "P03_CACHE_MATCHED", "NNNNNNNV", None, "STOPPED", None),
    ("PURE_REUSE", "P01_RESERVED", "NNNNNNNV", None, "STOPPED", None),
    # Z must be verified
    ("NEW_TRIGGER", "P09_TIMING", "NVVVVVVN", "SUCCESS", "SUCCESS", None),
    ("NEW_TRIGGER", "P09_TIMING", "NVVVVVVU", "SUCCESS", "SUCCESS", None),
    ("NEW_TRIGGER", "P00_INIT", "NNNNNNNN", None, "STOPPED", None),
    ("NEW_TRIGGER", "P00_INIT", "NNNNNNNI", None, "STOPPED", None),
]


@pytest.mark.parametrize(("lane", "source", "presence", "artifact", "status", "variant"), LITERALS)
def test_literals(
    lane: str, source: str, presence: str, artifact: str | None, status: str, variant: str | None
) -> None:
    assert match_closure(lane, source, presence, artifact, status) == variant
    assert expected(lane, v006.SHORT_OF[source], presence, artifact, status) == variant


def test_ten_variants_and_157_closings() -> None:
    assert tuple(Tables.default().closures) == v006.VARIANTS
    assert Counter(ACCEPTED.values()) == {
        "C01_NEW_SUCCESS": 8,
        "C02_NEW_DUPLICATE": 9,
        "C03_REUSE_SUCCESS": 8,
        "C04_REUSE_DUPLICATE": 8,
        "C05_PREQUOTA_STOP": 8,
        "C06_RESERVED_STOP": 12,
        "C07_TRIGGER_CLOSED_NO_ARTIFACT": 12,
        "C08_PROCESSING_FAILED": 12,
        "C09_POSTPUBLISH_STOP": 40,
        "C10_REUSE_POSTPUBLISH_STOP": 40,
    }
    for (lane, short, presence, artifact, status), variant in ACCEPTED.items():
        assert match_closure(lane, v006.FULL[short], presence, artifact, status) == variant


# V006 §2.4 as printed (S F Q A), with the kind of A and the id pattern; a source is a state, P02-N is P02.
STAGE = "stage"
PRINTED = [
    ("C01_NEW_SUCCESS", "NEW", "P06 P07 P08 P09", "N|V V V V", "SUCCESS", "RRR", {"SUCCESS": {"NONE"}}),
    ("C02_NEW_DUPLICATE", "NEW", "P05 P06 P07 P08 P09", "N|V V V V", "DUPLICATE", "RRR",
     {"DUPLICATE": {"DUPLICATE_EXISTING_ARTIFACT"}}),
    ("C03_REUSE_SUCCESS", "PURE", "P06 P07 P08 P09", "N|V V N N", None, "NNN", {"SUCCESS": {"NONE"}}),
    ("C04_REUSE_DUPLICATE", "PURE", "P06 P07 P08 P09", "N|V V N N", None, "NNN",
     {"DUPLICATE": {"DUPLICATE_EXISTING_ARTIFACT"}}),
    ("C05_PREQUOTA_STOP", "NEW PURE", "P00", "N N N N", None, "NNN", {"STOPPED": STAGE}),
    ("C06_RESERVED_STOP", "NEW", "P01 P02", "N N N|U N", None, "RNN", {"STOPPED": STAGE}),
    ("C07_TRIGGER_CLOSED_NO_ARTIFACT", "NEW", "P02 P03", "N N V N|U", None, "RRN", {"STOPPED": STAGE}),
    ("C08_PROCESSING_FAILED", "NEW", "P03 P04 P05", "N|I|V N V V", "FAILURE", "RRR", {"FAILED": STAGE}),
    ("C09_POSTPUBLISH_STOP", "NEW", "P06 P07 P08 P09", "N|V V V V", "SUCCESS", "RRR",
     {"STOPPED": {"DEADLINE_EXPIRED", "PERSIST_LATE"}, "FAILED": {"MANIFEST_INVALID"}}),
    ("C10_REUSE_POSTPUBLISH_STOP", "PURE", "P06 P07 P08 P09", "N|V V N N", None, "NNN",
     {"STOPPED": STAGE, "FAILED": STAGE}),
]  # fmt: skip


@pytest.mark.parametrize(("variant", "lanes", "sources", "cells", "artifact", "ids", "codes"), PRINTED)
def test_the_table_is_the_printed_one(
    variant: str,
    lanes: str,
    sources: str,
    cells: str,
    artifact: str | None,
    ids: str,
    codes: dict[str, object],
) -> None:
    row = Tables.default().closures[variant]
    names = {"NEW": v006.NEW, "PURE": v006.PURE}
    assert set(row["lanes"]) == {names[lane] for lane in lanes.split()}
    assert set(row["sources"]) == {v006.FULL[short] for short in sources.split()}
    assert [set(cell) for cell in row["cells"]] == [set(cell.split("|")) for cell in cells.split()]
    assert (row["artifact"], row["quota_ids"]) == (artifact, ids)
    assert set(row["prefix3"]) == ({"VVV"} if variant < "C05" else set(v006.PREFIXES))
    assert set(row["statuses"]) == set(codes)
    found = {status: held if held == STAGE else set(held) for status, held in row["codes"].items()}
    assert found == codes
    assert set(row["exempt"]) == ({"F"} if variant == "C02_NEW_DUPLICATE" else set())  # R6
    kept_to = {"PURE": {"PROJECT_REUSE", "CACHE_REUSE"}, "NEW": {"NEW_TRIGGER"}}
    expected_sources = {source for lane in lanes.split() for source in kept_to[lane]}
    if variant == "C04_REUSE_DUPLICATE":
        expected_sources = {"CACHE_REUSE"}  # R7
    assert set(row["only_sources"]) == expected_sources


@pytest.mark.parametrize("prefix", v006.PREFIXES)
def test_the_four_prefixes_close_where_the_source_has_none(prefix: str) -> None:
    sources = [
        ("P00_INIT", "NNNN", None, "STOPPED", "C05_PREQUOTA_STOP"),
        ("P01_RESERVED", "NNNN", None, "STOPPED", "C06_RESERVED_STOP"),
        ("P02_TRIGGER_UNKNOWN", "NNVN", None, "STOPPED", "C07_TRIGGER_CLOSED_NO_ARTIFACT"),
        ("P04_STAGING_PARTIAL", "INVV", "FAILURE", "FAILED", "C08_PROCESSING_FAILED"),
        ("P06_PUBLISHED", "NVVV", "SUCCESS", "STOPPED", "C09_POSTPUBLISH_STOP"),
    ]
    for source, first_four, artifact, status, variant in sources:
        assert match_closure("NEW_TRIGGER", source, f"{first_four}{prefix}V", artifact, status) == variant
    assert (
        match_closure("PURE_REUSE", "P06_PUBLISHED", f"NVNN{prefix}V", None, "FAILED")
        == "C10_REUSE_POSTPUBLISH_STOP"
    )


@pytest.mark.parametrize("prefix", ["NVN", "NNV", "VNV", "NVV"])
def test_a_gap_in_the_prefix_closes_nothing(prefix: str) -> None:
    for lane, short in product(v006.LANES, v006.SHORT):
        for first_four in {p[:4] for p in (key[2] for key in ACCEPTED)}:
            for artifact, status in product(KINDS, STATUSES):
                found = match_closure(lane, v006.FULL[short], f"{first_four}{prefix}V", artifact, status)
                assert found is None, (lane, short, first_four, prefix, artifact, status)


def _by_cell_class() -> list[str]:
    """Every S F Q A with every legal prefix, and every prefix there is behind every S F Q A a closing has.

    Letters no cell of any closing lists (I and X beyond S,
     X in S) fall into one class with each other; they are all
    in here all the same. Together with the sample below this stands for all 5^7 presences with Z=V.
    """
    every = ["".join(letters) for letters in product(v006.LETTERS, repeat=4)]
    shown = [first_four + prefix + "V" for first_four in every for prefix in v006.PREFIXES]
    triples = ["".join(letters) for letters in product(v006.LETTERS, repeat=3)]
    used = sorted({key[2][:4] for key in ACCEPTED})
    shown += [
        first_four + triple + "V" for first_four in used for triple in triples if triple not in v006.PREFIXES
    ]
    return shown


def test_every_closing_against_the_twin_and_no_overlap() -> None:
    default = Tables.default()
    backwards = attrs.evolve(default, closures=dict(reversed(list(default.closures.items()))))
    accepted = 0
    presences = _by_cell_class()
    assert len(presences) == 625 * 4 + 11 * 121
    for lane, short, artifact, status in product(v006.LANES, v006.SHORT, KINDS, STATUSES):
        source = v006.FULL[short]
        for presence in presences:
            first = match_closure(lane, source, presence, artifact, status, default)
            assert first == expected(lane, short, presence, artifact, status), (
                lane,
                short,
                presence,
                artifact,
                status,
            )
            if first is not None:
                accepted += 1
                # The first and the last variant that accepts are the same one: there is no overlap.
                assert match_closure(lane, source, presence, artifact, status, backwards) == first
    assert accepted == len(ACCEPTED) == 157


def test_a_wide_sample_of_all_presences_against_the_twin() -> None:
    dice = random.Random(6)
    for _ in range(60_000):
        lane, short = dice.choice(v006.LANES), dice.choice(v006.SHORT)
        presence = "".join(dice.choices(v006.LETTERS, k=7)) + dice.choice("VVVVNIUX")
        artifact, status = dice.choice(KINDS), dice.choice(STATUSES)
        found = match_closure(lane, v006.FULL[short], presence, artifact, status)
        assert found == expected(lane, short, presence, artifact, status)


def test_neighbours_of_every_closing_one_letter_away() -> None:
    for (lane, short, presence, artifact, status), place, letter in product(ACCEPTED, range(8), v006.LETTERS):
        shown = presence[:place] + letter + presence[place + 1 :]
        found = match_closure(lane, v006.FULL[short], shown, artifact, status)
        assert found == expected(lane, short, shown, artifact, status), (lane, short, shown, artifact, status)


@pytest.mark.parametrize(
    ("lane", "source", "presence", "artifact", "status"),
    [
        ("NEW", "P00_INIT", "NNNNNNNV", None, "STOPPED"),
        (None, "P00_INIT", "NNNNNNNV", None, "STOPPED"),
        ("NEW_TRIGGER", "P10_CLOSED", "NVVVVVVV", "SUCCESS", "SUCCESS"),
        ("NEW_TRIGGER", "P00", "NNNNNNNV", None, "STOPPED"),
        ("NEW_TRIGGER", "P00_INIT", "NNNNNNV", None, "STOPPED"),
        ("NEW_TRIGGER", "P00_INIT", "NNNNNNNv", None, "STOPPED"),
        ("NEW_TRIGGER", "P00_INIT", None, None, "STOPPED"),
        ("NEW_TRIGGER", "P00_INIT", "NNNNNNNV", "FAILED", "STOPPED"),
        ("NEW_TRIGGER", "P00_INIT", "NNNNNNNV", "", "STOPPED"),
        ("NEW_TRIGGER", "P00_INIT", "NNNNNNNV", None, "CLOSED"),
        ("NEW_TRIGGER", "P00_INIT", "NNNNNNNV", None, "FAIL"),
        ("NEW_TRIGGER", "P00_INIT", "NNNNNNNV", None, None),
    ],
)
def test_malformed_input_is_a_contract_error(
    lane: object, source: object, presence: object, artifact: object, status: object
) -> None:
    with pytest.raises(ContractError):
        match_closure(lane, source, presence, artifact, status)  # type: ignore[arg-type]


@pytest.mark.parametrize("presence", [[*"NNNNNNNV"], tuple("NNNNNNNV"), b"NNNNNNNV"])
def test_eight_letters_that_are_no_text_are_refused(presence: object) -> None:
    with pytest.raises(ContractError):
        match_closure("NEW_TRIGGER", "P00_INIT", presence, None, "STOPPED")  # type: ignore[arg-type]
