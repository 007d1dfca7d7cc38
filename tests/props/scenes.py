"""The table of scenes that need no phone (`offline.py` says what a scene is).

V006 §5.4's deadline, crash and validation counter-examples at P05, P07, P08 and P09 stand here; those at P03
and P04 are paths of `test_phone_paths.py`.
"""

from __future__ import annotations

import errno
from pathlib import Path
from typing import Final

import attrs

from fsm import Tables
from tests.fsm import v006
from tests.props.cells import Cell
from tests.props.offline import (
    DONE,
    DUPLICATE,
    NEW,
    P10,
    REUSED,
    WARNING,
    End,
    Mischief,
    Scene,
    after,
    announced,
    blocked_ledger,
    damaged_manifest,
    differences,
    doubtful,
    expired,
    failed,
    fails,
    foreign_final,
    held_manifest_lock,
    identical_final,
    kept,
    late_in,
    nothing,
    p05,
    play,
    reuse,
    stand,
    torn_manifest,
)
from tests.props.world import SetClock, world

SCENES: Final[tuple[Scene, ...]] = (
    # -- the whole way from P05 --------------------------------------------------------------------
    Scene("new item delivered", p05(), nothing, DONE),
    Scene("uncertain trigger delivered", p05("UNCERTAIN"), nothing, attrs.evolve(DONE, note=WARNING)),
    Scene(
        "same file already at the path",
        p05(),
        identical_final,
        End(P10, DUPLICATE, "C02_NEW_DUPLICATE", "VVVVVVVV", DUPLICATE),
    ),
    Scene(
        "same file, uncertain trigger",
        p05("UNCERTAIN"),
        identical_final,
        End(P10, DUPLICATE, "C02_NEW_DUPLICATE", "VVVVVVVV", DUPLICATE),
    ),
    Scene("publish window without its link", p05(), announced(False), DONE, recovered=True),
    Scene("publish window with its link", p05(), announced(True), DONE, recovered=True),
    *(
        Scene(f"recovered at {node}", after(node, presence), nothing, DONE, recovered=True)
        for node, presence in (
            ("P06", "VVVVNNNN"),
            ("P06", "NVVVNNNN"),
            ("P07", "NVVVVNNN"),
            ("P08", "NVVVVVNN"),
            ("P09", "NVVVVVVN"),
        )
    ),
    *(
        Scene(
            f"staging left at {node}", after(node, presence), nothing, attrs.evolve(DONE, presence="VVVVVVVV")
        )
        for node, presence in (("P07", "VVVVVNNN"), ("P08", "VVVVVVNN"), ("P09", "VVVVVVVN"))
    ),
    # -- P05: what the file turns out to be --------------------------------------------------------
    Scene("not a PDF", p05(), nothing, failed("PDF_MAGIC_INVALID"), variant="html"),
    Scene("truncated", p05(), nothing, failed("PDF_NOT_OPENABLE"), variant="truncated"),
    Scene("needs a password", p05(), nothing, failed("PDF_ENCRYPTED"), variant="encrypted"),
    Scene("page count lies", p05(), nothing, failed("PAGE_COUNT_MISMATCH"), variant="count_mismatch"),
    Scene(
        "final name refused inside the publish window",
        p05(),
        fails("publish.link", "link", errno.ENAMETOOLONG),
        kept("P05", "RECOVERY_UNKNOWN", "VNVNNNNN"),
    ),
    # -- V006 §5.4 at P05: deadline, crash, conflict -----------------------------------------------
    Scene("deadline at P05", p05(), expired, kept("P05", "DEADLINE_EXPIRED", "VNVNNNNN")),
    Scene(
        "publish conflict at P05",
        p05(),
        foreign_final,
        kept("P05", "FINAL_PATH_CONFLICT", "VNVNNNNN"),
        finishes=False,
    ),
    Scene(
        "full disk at the link",
        p05(),
        fails("publish.link", "link", errno.EIO),
        kept("P05", "RECOVERY_UNKNOWN", "VNVNNNNN"),
    ),
    Scene(
        "artifact event in doubt",
        p05(),
        doubtful("artifact.append"),
        kept("P05", "RECOVERY_UNKNOWN", "VUVUNNNN", uncertain=True),
        finishes=False,
    ),
    Scene(
        "verdict event in doubt",
        p05(),
        doubtful("reject.append"),
        kept("P05", "RECOVERY_UNKNOWN", "VNVUNNNN", uncertain=True),
        variant="html",
        finishes=False,
    ),
    Scene("ledger in doubt at P05", p05(), blocked_ledger, kept("P05", "RECOVERY_UNKNOWN", "VNVNNNNN")),
    # -- P06: the manifest -------------------------------------------------------------------------
    Scene(
        "manifest damaged by another program",
        after("P06", "VVVVNNNN"),
        damaged_manifest,
        kept("P06", "UNEXPECTED_EXCEPTION", "NVVVUNNN", uncertain=True),
        finishes=False,
    ),
    *(
        Scene(
            f"manifest row refused, staging {presence[0]}",
            after("P06", presence),
            torn_manifest,
            End(P10, "MANIFEST_INVALID", "C09_POSTPUBLISH_STOP", "NVVVNNNV"),
            finishes=False,
        )
        for presence in ("VVVVNNNN", "NVVVNNNN")
    ),
    Scene(
        "manifest lock held",
        after("P06", "VVVVNNNN"),
        held_manifest_lock,
        kept("P06", "LOCK_TIMEOUT", "NVVVNNNN"),
    ),
    Scene("deadline at P06", after("P06", "VVVVNNNN"), expired, kept("P06", "DEADLINE_EXPIRED", "VVVVNNNN")),
    Scene(
        "full disk at the manifest",
        after("P06", "VVVVNNNN"),
        fails("manifest.append", "write", errno.ENOSPC),
        kept("P06", "UNEXPECTED_EXCEPTION", "NVVVNNNN"),
    ),
    # -- V006 §5.4 at P07, P08, P09: delivery, timing, terminal ------------------------------------
    Scene(
        "deadline before delivery",
        after("P07", "NVVVVNNN"),
        expired,
        kept("P07", "DEADLINE_EXPIRED", "NVVVVNNN"),
    ),
    Scene(
        "delivery durable too late",
        after("P07", "NVVVVNNN"),
        late_in("delivery.write"),
        kept("P08", "PERSIST_LATE", "NVVVVVNN"),
    ),
    Scene(
        "full disk at delivery",
        after("P07", "NVVVVNNN"),
        fails("delivery.write", "write", errno.ENOSPC),
        kept("P07", "UNEXPECTED_EXCEPTION", "NVVVVNNN"),
    ),
    Scene(
        "deadline before timing",
        after("P08", "NVVVVVNN"),
        expired,
        kept("P08", "DEADLINE_EXPIRED", "NVVVVVNN"),
    ),
    Scene(
        "timing durable too late",
        after("P08", "NVVVVVNN"),
        late_in("timing.write"),
        End(P10, "PERSIST_LATE", "C09_POSTPUBLISH_STOP", "NVVVVVVV"),
    ),
    Scene(
        "full disk at timing",
        after("P08", "NVVVVVNN"),
        fails("timing.write", "write", errno.ENOSPC),
        kept("P08", "UNEXPECTED_EXCEPTION", "NVVVVVNN"),
    ),
    Scene(
        "manifest durable too late",
        after("P06", "VVVVNNNN"),
        late_in("manifest.append"),
        kept("P07", "PERSIST_LATE", "NVVVVNNN"),
    ),
    Scene(
        "deadline before the terminal",
        after("P09", "NVVVVVVN"),
        expired,
        kept("P09", "DEADLINE_EXPIRED", "NVVVVVVN"),
    ),
    Scene(
        "full disk at the terminal",
        after("P09", "NVVVVVVN"),
        fails("terminal.write", "write", errno.ENOSPC),
        kept("P09", "UNEXPECTED_EXCEPTION", "NVVVVVVN"),
    ),
    # -- PURE --------------------------------------------------------------------------------------
    *(
        Scene(f"reuse recovered at {node}", reuse(node, presence, source), nothing, REUSED, recovered=True)
        for node, presence, source in (
            ("P06", "NVNNNNNN", "PROJECT_REUSE"),
            ("P06", "VVNNNNNN", "CACHE_REUSE"),
            ("P07", "NVNNVNNN", "CACHE_REUSE"),
            ("P08", "NVNNVVNN", "PROJECT_REUSE"),
            ("P09", "NVNNVVVN", "CACHE_REUSE"),
        )
    ),
    *(
        Scene(
            f"reuse staging left at {node}",
            reuse(node, presence),
            nothing,
            attrs.evolve(REUSED, presence="VVNNVVVV"),
        )
        for node, presence in (("P07", "VVNNVNNN"), ("P08", "VVNNVVNN"), ("P09", "VVNNVVVN"))
    ),
    Scene("library copy taken over", reuse("P00", "NNNNNNNN", "PROJECT_REUSE"), identical_final, REUSED),
    Scene(
        "library copy damaged",
        reuse("P00", "NNNNNNNN", "PROJECT_REUSE"),
        foreign_final,
        End(P10, "CANDIDATE_REJECTED", "C05_PREQUOTA_STOP", "NNNNNNNV"),
    ),
    Scene(
        "reuse duplicate",
        attrs.evolve(reuse("P06", "VVNNNNNN"), duplicate=True),
        nothing,
        End(P10, DUPLICATE, "C04_REUSE_DUPLICATE", "NVNNVVVV", DUPLICATE),
        recovered=True,
    ),
    Scene(
        "reuse duplicate, staging left",
        attrs.evolve(reuse("P09", "VVNNVVVN"), duplicate=True),
        nothing,
        End(P10, DUPLICATE, "C04_REUSE_DUPLICATE", "VVNNVVVV", DUPLICATE),
        recovered=True,
    ),
    Scene("reuse publish window", reuse("P00", "NNNNNNNN"), announced(True), REUSED, recovered=True),
    Scene(
        "reuse publish window without its link",
        reuse("P00", "NNNNNNNN"),
        announced(False),
        REUSED,
        recovered=True,
    ),
    Scene(
        "reuse abandoned",
        reuse("P00", "NNNNNNNN"),
        nothing,
        End(P10, "RECOVERY_UNKNOWN", "C05_PREQUOTA_STOP", "NNNNNNNV"),
        recovered=True,
    ),
    *(
        Scene(
            f"reuse deadline at {node} {presence[0]}",
            reuse(node, presence),
            expired,
            End(P10, "DEADLINE_EXPIRED", "C10_REUSE_POSTPUBLISH_STOP", presence[:7] + "V"),
        )
        for node, presence in (
            ("P06", "VVNNNNNN"),
            ("P06", "NVNNNNNN"),
            ("P07", "NVNNVNNN"),
            ("P07", "VVNNVNNN"),
            ("P08", "NVNNVVNN"),
            ("P08", "VVNNVVNN"),
            ("P09", "NVNNVVVN"),
            ("P09", "VVNNVVVN"),
        )
    ),
    Scene(
        "reuse delivery too late",
        reuse("P07", "NVNNVNNN"),
        late_in("delivery.write"),
        End(P10, "PERSIST_LATE", "C10_REUSE_POSTPUBLISH_STOP", "NVNNVVNV"),
    ),
    Scene(
        "reuse manifest row refused",
        reuse("P06", "NVNNNNNN"),
        torn_manifest,
        End(P10, "MANIFEST_INVALID", "C10_REUSE_POSTPUBLISH_STOP", "NVNNNNNV"),
        finishes=False,
    ),
    Scene(
        "reuse manifest lock held",
        reuse("P06", "NVNNNNNN"),
        held_manifest_lock,
        End(P10, "LOCK_TIMEOUT", "C10_REUSE_POSTPUBLISH_STOP", "NVNNNNNV"),
    ),
    # -- before and after the tap ------------------------------------------------------------------
    Scene(
        "new item abandoned at P00",
        Cell(NEW, "P00", "NNNNNNNN", "NONE", "NEW_TRIGGER"),
        nothing,
        End(P10, "RECOVERY_UNKNOWN", "C05_PREQUOTA_STOP", "NNNNNNNV"),
        recovered=True,
    ),
    Scene(
        "new item abandoned at P01",
        Cell(NEW, "P01", "NNNNNNNN", "RESERVED", "NEW_TRIGGER"),
        nothing,
        End(P10, "RECOVERY_UNKNOWN", "C06_RESERVED_STOP", "NNNNNNNV", quota="RELEASED"),
        recovered=True,
    ),
    Scene(
        "tap in flight, no phone",
        Cell(NEW, "P02-N", "NNNNNNNN", "RESERVED", "NEW_TRIGGER"),
        nothing,
        kept("P02", "PROCESS_LIVENESS_UNKNOWN", "NNNNNNNN"),
        recovered=True,
        finishes=False,
    ),
    Scene(
        "proved not to have occurred",
        Cell(NEW, "P02-V", "NNVNNNNN", "RELEASED", "NEW_TRIGGER"),
        nothing,
        End(P10, "TRIGGER_NOT_OCCURRED", "C07_TRIGGER_CLOSED_NO_ARTIFACT", "NNVNNNNV"),
        recovered=True,
    ),
    *(
        Scene(
            f"verdict durable at {cell.node}",
            cell,
            nothing,
            End(P10, code, "C08_PROCESSING_FAILED", cell.presence[:7] + "V"),
            recovered=True,
        )
        for cell, code in (
            (Cell(NEW, "P03-V", "NNVVNNNN", "CONFIRMED", "NEW_TRIGGER", "FAILURE"), "PULL_FAILED"),
            (Cell(NEW, "P04-V", "INVVNNNN", "CONFIRMED", "NEW_TRIGGER", "FAILURE"), "HASH_MISMATCH"),
            (Cell(NEW, "P05-V", "VNVVNNNN", "UNCERTAIN", "NEW_TRIGGER", "FAILURE"), "PDF_NOT_OPENABLE"),
        )
    ),
    *(
        Scene(
            f"C02 gone on with after {prefix}",
            Cell(
                NEW, "P05-N", f"VVVV{prefix}N", "CONFIRMED", "NEW_TRIGGER", "DUPLICATE", "C02_NEW_DUPLICATE"
            ),
            nothing,
            End(P10, DUPLICATE, "C02_NEW_DUPLICATE", "VVVVVVVV", DUPLICATE),
            recovered=True,
        )
        for prefix in v006.PREFIXES
    ),
)


def ends_as_expected(folder: Path, tables: Tables) -> bool:
    """Whether every scene ends as it says over `tables`; the first other end is enough."""
    for number, scene in enumerate(SCENES):
        disk, clock = Mischief(), SetClock()
        with world(folder / str(number), clock=clock, contract=tables, file_system=disk) as opened:
            if differences(play(stand(opened, disk, clock, scene), scene), scene.end):
                return False
    return True
