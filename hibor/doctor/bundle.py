"""`--bundle`: one redacted zip for whoever maintains the profile (design 5).

Rules of this file: serial numbers, account names, telephone numbers and home folders are taken out of every
text; in the pictures the places that showed an account are painted over, and a picture in which they cannot
be is left out. The reports' own texts stay: without them nobody can mend a profile.
"""

from __future__ import annotations

import io
import json
import platform
import zipfile
from pathlib import Path
from typing import Final

import attrs

from hibor import __version__
from hibor.device.errors import redact
from hibor.device.profile import shipped_profiles
from hibor.device.uitree import UiTree
from hibor.doctor.case import Case, Shot
from hibor.pdf.annotate import Mark, annotate_png
from hibor.reading import read_named

MOST_SHOTS: Final = 20


def write_bundle(case: Case, out: Path) -> None:
    """Write the zip and say where it is."""
    if case.write_to(out.absolute(), bundle_bytes(case)) is not None:
        case.person.say("doctor.bundled", path=out)


def bundle_bytes(case: Case) -> bytes:
    """The zip."""
    secrets = _secrets(case)
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("doctor.json", redact(_facts(case), secrets))
        profile = _profile_text(case)
        if profile:
            archive.writestr("profile.toml", redact(profile, secrets))
        for number, shot in enumerate(case.shots[:MOST_SHOTS], 1):
            name = f"{number:02}-{shot.page}"
            archive.writestr(f"{name}.xml", redact(shot.tree.xml.decode("utf-8", "replace"), secrets))
            picture = _picture(case, shot)
            if picture is not None:
                archive.writestr(f"{name}.png", picture)
    return packed.getvalue()


def _secrets(case: Case) -> list[str]:
    """What is known to identify this phone or account."""
    found = [case.station.serial or ""]
    if case.device is not None:
        found += [case.device.serial, case.device.identity.serialno]
    if case.account not in ("", "default", "simulated"):
        found.append(case.account)
    return found


def _facts(case: Case) -> str:
    values = {
        "schema_version": 1, "tool_version": __version__, "python": platform.python_version(),
        "system": platform.system(), "model": case.model,
        "app": None if case.package is None else attrs.asdict(case.package),
        "profile": None if case.profile is None else case.profile.name,
        "dump_times_s": [round(one, 3) for one in case.dump_times_s],
        "checks": [row.to_dict() for row in case.rows],
    }  # fmt: skip
    return json.dumps(values, ensure_ascii=False, indent=2)


def _profile_text(case: Case) -> str:
    profile = case.profile
    if profile is None:
        return ""
    named = case.profile_named
    if named is not None and named not in shipped_profiles() and Path(named).is_file():
        return read_named(Path(named)).decode("utf-8-sig")
    return f"# {profile.name} {profile.sha256}\n"


def _picture(case: Case, shot: Shot) -> bytes | None:
    """The annotated picture with the account painted over; None where it cannot be."""
    if shot.png is None:
        return None
    hidden = [Mark(box, "", hide=True) for box in account_boxes(shot.tree)]
    return annotate_png(shot.png, [*shot.marks, *hidden])


def account_boxes(tree: UiTree) -> list[tuple[int, int, int, int]]:
    """Where the screen shows an account or a telephone number."""
    boxes = []
    for node in tree.nodes:
        if node.label and redact(node.label) != node.label:
            box = tree.visible(node)
            boxes.append((box.left, box.top, box.right, box.bottom))
    return boxes
