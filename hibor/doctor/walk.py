"""`--walk`: list → detail page → back, with every anchor checked on the way (design 5).

Rules of this file: the only controls tapped are a row of the list and the back key, as in a run; where the
profile does not say that opening a report is free, a person is asked first. A passed walk is recorded, so
that a run may use an app version the profile was not tested with.
"""

from __future__ import annotations

from hibor.collect.walked import note_walk
from hibor.device.errors import DeviceError
from hibor.device.navigate import App
from hibor.device.reading import ListRow
from hibor.doctor.case import Case
from hibor.doctor.screens import check_page
from hibor.durable import DurableError


def walk(case: Case) -> None:
    """Walk once; adds the rows `anchor`, `walk` and what went wrong."""
    profile = case.require_profile()
    free = profile.detail.opening_is_free and profile.quota.charged_on != "open"
    if profile.quota.charged_on == "open" or not (free or case.person.agrees("doctor.ask.open")):
        case.add("walk", "warn", "walk_refused", fix="walk_refused")
        return
    app = App(case.require_device(), profile, case.clock)
    try:
        good = _walk(case, app)
    except DeviceError as error:
        case.failed("walk", error, fix="anchor_drift")
        if app.last_tree is not None:
            case.shoot("walk-stopped", app.last_tree)
        return
    if not good:
        case.add("walk", "fail", "walk_incomplete", fix="anchor_drift")
        return
    case.add("walk", "ok", "walked")
    _record(case)


def _walk(case: Case, app: App) -> bool:
    case.person.say("doctor.walking")
    screen = app.open_app()
    case.looked = True
    row = _row_to_open(screen.entries())
    if row is None:
        case.add("rows", "fail", "rows", fix="anchor_drift", whole=0, rows=len(screen.rows))
        return False
    good = check_page(case, screen.tree, "list")
    page = app.open_detail(row)
    good = check_page(case, page.tree, "detail") and good
    app.back()
    return good and page.button != "unknown"


def _row_to_open(rows: tuple[ListRow, ...]) -> ListRow | None:
    whole = [row for row in rows if not row.clipped]
    return whole[0] if whole else None


def _record(case: Case) -> None:
    package, profile = case.package, case.require_profile()
    if case.library is None or package is None or profile.supports(package.version_name):
        return
    try:
        note_walk(
            case.library.root, case.disk, profile_sha256=profile.sha256, app_version=package.version_name,
            model=case.model, at=case.clock.now().isoformat(timespec="milliseconds"),
        )  # fmt: skip
    except (DurableError, OSError) as error:
        case.person.say("doctor.not_written", path=case.library.root, reason=error)
        return
    case.add("profile", "ok", "profile_walked", profile=profile.name, version=package.version_name)
