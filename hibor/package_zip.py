"""`hibor package [RUN] --zip FILE`: what a run delivered, for the people who receive it.

Rules of this file:

* Every PDF is hashed again while it is packed; one that is gone or differs from what the run delivered is
  not packed and is named among what is missing.
* Names are short, numbered and work on Windows; `SHA256SUMS` covers every other file of the package.
* What was wanted and did not come is said with its reason and what comes next.
* An item that was finished after its own run is in the package of the next run that ended; while there is
  none, in the newest one.
* The same run gives the same bytes: times in the zip are the run's.
"""

from __future__ import annotations

import csv
import hashlib
import io
import zipfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any, BinaryIO, Final
from urllib.parse import quote

import attrs
import click

from hibor.clock import SystemClock
from hibor.durable import Durable, DurableError, FileAlreadyThere
from hibor.durable_fs import OsFileSystem
from hibor.messages import item_advice
from hibor.package.layout import Library
from hibor.package.manifest import ManifestRow
from hibor.package.names import safe_component
from hibor.people.commandline import (
    DONE,
    FOUND,
    WARNINGS,
    Answers,
    Refusal,
    SpokenCommand,
    Words,
    run_command,
    shared,
)
from hibor.people.libraries import library_at
from hibor.people.run_view import (
    DELIVERED,
    LATEST,
    ItemView,
    RunView,
    find_run,
    is_dry_run,
    load_run,
    manifest_rows,
    read_time,
)
from hibor.reading import open_kept, read_object
from hibor.want import read_wants

STEP: Final = "export.write"
CSV_NAME: Final = "目录.csv"
PAGE_NAME: Final = "目录.html"
SUMS_NAME: Final = "SHA256SUMS"
NAME_LIMIT_BYTES: Final = 90
COLUMNS: Final = (
    "number", "file", "title", "institution", "date", "analysts", "stock_code", "stock_name", "industry",
    "rating", "pages", "bytes", "source", "report_id", "sha256", "outcome", "reason", "next",
)  # fmt: skip
_BLOCK_BYTES: Final = 1 << 20
_ZIP_EPOCH: Final = (1980, 1, 1, 0, 0, 0)
_FORMULA: Final = ("=", "+", "-", "@", "\t", "\r")


@attrs.frozen(kw_only=True)
class Packed:
    """One report of the package."""

    number: int
    name: str
    path: Path
    item: Mapping[str, Any] = attrs.field(hash=False)
    row: ManifestRow | None
    late: bool


@attrs.frozen(kw_only=True)
class Missing:
    """One report that was wanted and is not in the package."""

    title: str
    institution: str | None
    date: str | None
    report_id: str | None
    code: str | None
    reason: str
    effect: str | None
    next: str


@attrs.frozen
class Package:
    """Everything that goes into the zip of one run."""

    view: RunView
    reports: tuple[Packed, ...]
    missing: tuple[Missing, ...]

    @property
    def day(self) -> str:
        """The run's day."""
        return str(self.view.part("timing").get("started_at") or self.view.run_id)[:10]


def plan_package(view: RunView, words: Words) -> Package:
    """Choose names, check every file against what was delivered, and say what is missing.

    A report is packed once, also where an earlier run's item and this run's reuse of it both tell of it.
    """
    reports: list[Packed] = []
    broken: list[Missing] = []
    for one in _once((*view.delivered, *_late(view))):
        path = view.library.absolute(str(one.item["final_path"]))
        if _digest(path) != one.item.get("sha256"):
            broken.append(_missing(one.item, None, words("index.broken"), None, words("index.broken_next")))
            continue
        number = len(reports) + 1
        reports.append(
            Packed(
                number=number,
                name=_name(number, one.item),
                path=path,
                item=one.item,
                row=one.row,
                late=one.recovered,
            )
        )
    missing = [*broken, *_not_delivered(view, reports, words), *_wanted(view.library, words)]
    return Package(view, tuple(reports), tuple(missing))


def _once(items: Iterable[ItemView]) -> Iterator[ItemView]:
    """The first item of every report."""
    seen: set[object] = set()
    for one in items:
        report = one.item.get("report_id")
        if report not in seen:
            seen.add(report)
            yield one


def _digest(path: Path) -> str | None:
    """sha256 of a regular file, None for anything else."""
    if path.is_symlink() or not path.is_file():
        return None
    digest = hashlib.sha256()
    with open_kept(path) as stream:
        while block := stream.read(_BLOCK_BYTES):
            digest.update(block)
    return digest.hexdigest()


def _name(number: int, item: Mapping[str, Any]) -> str:
    parts = [
        f"{number:02}",
        str(item.get("institution") or ""),
        str(item.get("title") or item.get("report_id")),
    ]
    return safe_component("_".join(filter(None, parts)), limit_bytes=NAME_LIMIT_BYTES) + ".pdf"


def _late(view: RunView) -> Iterator[ItemView]:
    """Items of earlier runs that were finished after the run before this one ended, and by no run.

    A dry run packs nothing, so nothing is left to it.
    """
    ends = {
        run.run_id: read_time((read_object(run.run_json).get("timing") or {}).get("ended_at"))
        for run in view.library.run_folders()
        if not is_dry_run(run)
    }
    before = [end for run_id, end in ends.items() if end is not None and run_id < view.run_id]
    newest = view.run_id == max(
        (run_id for run_id, end in ends.items() if end is not None), default=view.run_id
    )
    told = {one.item.get("item_id") for one in (*view.items, *view.recovered)}
    for row in manifest_rows(view.library):
        moment = read_time(row.at)
        if row.run_id >= view.run_id or row.item_id in told or row.final_path is None or moment is None:
            continue
        own_end = ends.get(row.run_id)
        after_own_run = own_end is None or moment > own_end
        in_reach = (not before or moment > max(before)) and (
            newest or moment <= (ends.get(view.run_id) or moment)
        )
        if after_own_run and in_reach:
            item = {**attrs.asdict(row), "status": DELIVERED[0]}
            yield ItemView(item=item, final_there=True, recovered=True, row=row)


def _not_delivered(view: RunView, reports: Sequence[Packed], words: Words) -> Iterator[Missing]:
    had = {one.item.get("report_id") for one in reports}
    for one in view.missing:
        if one.item.get("report_id") in had:
            continue
        code = one.code or str(view.document.get("status") or "")
        told = item_advice(words.lang, code, one.detail)
        yield _missing(one.item, one.code, told.what, told.effect, told.next)


def _missing(
    item: Mapping[str, Any], code: str | None, reason: str, effect: str | None, following: str
) -> Missing:
    return Missing(
        title=str(item.get("title") or item.get("report_id")),
        institution=item.get("institution"),
        date=item.get("date"),
        report_id=item.get("report_id"),
        code=code,
        reason=reason,
        effect=effect,
        next=following,
    )


def _wanted(library: Library, words: Words) -> Iterator[Missing]:
    for want in read_wants(library).wants:
        title = " · ".join(filter(None, (want.code, want.keyword))) or str(want.institution)
        item = {"title": title, "institution": want.institution if title != want.institution else None}
        yield _missing(item, None, words("index.wanted"), None, words("index.wanted_next"))


# ---- the files of the package ------------------------------------------------------------


def fill_zip(stream: BinaryIO, package: Package, words: Words) -> None:
    """Write the zip. Raises `Refusal` when a file changes while it is packed."""
    when = _zip_time(package.view)
    sums: list[str] = []
    with zipfile.ZipFile(stream, "w", allowZip64=True) as target:
        for one in package.reports:
            if _pack(target, one, when) != one.item.get("sha256"):
                raise Refusal("package.changed", exit_code=FOUND, path=one.path)
            sums.append(f"{one.item['sha256']}  {one.name}")
        for name, data in (
            (CSV_NAME, contents_csv(package, words)),
            (PAGE_NAME, contents_page(package, words)),
        ):
            target.writestr(_entry(name, when, zipfile.ZIP_DEFLATED), data)
            sums.append(f"{hashlib.sha256(data).hexdigest()}  {name}")
        target.writestr(_entry(SUMS_NAME, when, zipfile.ZIP_DEFLATED), ("\n".join(sums) + "\n").encode())


def _pack(target: zipfile.ZipFile, one: Packed, when: tuple[int, int, int, int, int, int]) -> str:
    """Copy one PDF in and return the sha256 of what was packed. PDFs are stored: they hardly shrink."""
    digest = hashlib.sha256()
    with (
        open_kept(one.path) as source,
        target.open(_entry(one.name, when, zipfile.ZIP_STORED), "w", force_zip64=True) as sink,
    ):
        while block := source.read(_BLOCK_BYTES):
            digest.update(block)
            sink.write(block)
    return digest.hexdigest()


def _entry(name: str, when: tuple[int, int, int, int, int, int], method: int) -> zipfile.ZipInfo:
    entry = zipfile.ZipInfo(name, when)
    entry.compress_type = method
    entry.external_attr = 0o644 << 16
    return entry


def _zip_time(view: RunView) -> tuple[int, int, int, int, int, int]:
    """The run's end as a zip has it; a run without one gets the earliest time a zip can hold."""
    moment: datetime | None = read_time(view.part("timing").get("ended_at"))
    if moment is None or moment.year < _ZIP_EPOCH[0]:
        return _ZIP_EPOCH
    return (moment.year, moment.month, moment.day, moment.hour, moment.minute, moment.second)


def contents_csv(package: Package, words: Words) -> bytes:
    """`目录.csv`: UTF-8 with BOM and CRLF, which Excel opens as it is; no cell can be taken for a formula."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\r\n")
    writer.writerow([words(f"index.column.{name}") for name in COLUMNS])
    for one in package.reports:
        facts = _facts(one, words)
        writer.writerow([spreadsheet_cell(facts.get(name)) for name in COLUMNS])
    for gone in package.missing:
        facts = {**attrs.asdict(gone), "outcome": words("page.outcome.STOPPED")}
        facts["reason"] = f"{gone.reason} ({gone.code})" if gone.code else gone.reason
        writer.writerow([spreadsheet_cell(facts.get(name)) for name in COLUMNS])
    return b"\xef\xbb\xbf" + text.getvalue().encode()


def _facts(one: Packed, words: Words) -> dict[str, Any]:
    item, row = one.item, one.row
    return {
        "number": one.number,
        "file": one.name,
        "title": item.get("title"),
        "institution": item.get("institution"),
        "date": item.get("date"),
        "analysts": words("page.list_separator").join(
            item.get("analysts") or (row.analysts if row else None) or ()
        ),
        **{name: getattr(row, name, None) for name in ("stock_code", "stock_name", "industry", "rating")},
        "pages": item.get("page_count"),
        "bytes": item.get("bytes"),
        "source": words(f"page.source.{item.get('source')}"),
        "report_id": item.get("report_id"),
        "sha256": item.get("sha256"),
        "outcome": words(f"page.outcome.{item.get('status')}"),
    }


def spreadsheet_cell(value: Any) -> str:
    """A cell no spreadsheet takes for a formula, and a code whose leading zeros it keeps."""
    text = "" if value is None else str(value)
    if len(text) > 1 and text.startswith("0") and text.isdecimal():
        return f'="{text}"'  # 000333 would be opened as the number 333
    return f"'{text}" if text.startswith(_FORMULA) else text


def contents_page(package: Package, words: Words) -> bytes:
    """`目录.html`."""
    from hibor.report.context import size_text
    from hibor.report.render import Rows, render
    from hibor.report.thumbnails import thumbnail

    def row(_place: int, one: Packed) -> dict[str, Any]:
        facts = _facts(one, words)
        facts["stock"] = " ".join(filter(None, (facts["stock_code"], facts["stock_name"])))
        facts |= {"href": quote(one.name), "size": size_text(one.item.get("bytes")), "late": one.late}
        return {**facts, "thumbnail": thumbnail(one.path)}

    pieces = render(
        "index.html",
        {
            "lang": "zh-CN" if words.lang == "zh" else "en",
            "w": words,
            "day": package.day,
            "run_id": package.view.run_id,
            "simulated": bool(package.view.part("device").get("simulated")),
            "reports": Rows(package.reports, row),
            "missing": [attrs.asdict(one) for one in package.missing],
            "not_begun": package.view.not_begun,
        },
    )
    return b"".join(pieces)


# ---- the command ------------------------------------------------------------


def build(words: Words) -> click.Command:
    """The command in a language."""

    @click.command(cls=SpokenCommand, words=words, section="package")
    @click.argument("run", required=False)
    @click.option("--latest", is_flag=True, help=words("report.latest"))
    @click.option("--zip", "target", type=click.Path(path_type=Path), help=words("package.zip"))
    @click.option("--replace", is_flag=True, help=words("common.replace"))
    @shared(words)
    def package(
        run: str | None,
        latest: bool,
        target: Path | None,
        replace: bool,
        library: Path | None,
        task: Path | None,
        json_wanted: bool,
        quiet: bool,
        lang: str | None,
    ) -> int:
        del lang
        if run and latest:
            raise Refusal("report.both")
        answers = Answers(words, quiet=quiet, json_wanted=json_wanted)
        place = library_at(library, task)
        view = load_run(place, find_run(place, LATEST if latest else run))
        path = (target or Path(f"{view.run_id}.zip")).absolute()
        made = _write(view, path, words, replace)
        answers.tell(str(path))
        lacking = len(made.missing) + view.not_begun
        answers.say("package.done" if lacking else "package.whole", count=len(made.reports), missing=lacking)
        if any(one.late for one in made.reports):
            answers.say("package.late", count=sum(one.late for one in made.reports))
        answers.document(
            {
                "run_id": view.run_id,
                "path": str(path),
                "reports": [
                    {"file": one.name, "report_id": one.item.get("report_id")} for one in made.reports
                ],
                "missing": [attrs.asdict(one) for one in made.missing],
            }
        )
        return WARNINGS if made.missing or view.not_begun else DONE

    return package


def _write(view: RunView, path: Path, words: Words, replace: bool) -> Package:
    durable = Durable(OsFileSystem(), SystemClock(), frozenset({STEP}))
    made = plan_package(view, words)
    try:
        durable.export(path, lambda stream: fill_zip(stream, made, words), step=STEP, replace=replace)
    except FileAlreadyThere as error:
        raise Refusal("common.exists", path=path) from error
    except DurableError as error:
        raise Refusal("common.not_written", exit_code=FOUND, path=path) from error
    return made


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line and return the exit code."""
    return run_command(build, "package", arguments)
