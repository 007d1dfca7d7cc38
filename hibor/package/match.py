"""Which file in the phone's cache is this report (design 5 P03, ruling R14).

Rules of this file:

* Pure functions: listings and page texts come in, a verdict goes out. Nobody here asks the phone.
* A candidate is new or changed against the listing taken *before* the tap. The same file seen through
  `/sdcard` and `/storage/emulated/0` is one file. Names that say "unfinished" are not candidates, whatever
  their bytes; of the rest the first five bytes decide, not the extension.
* A candidate may be pulled when size, mtime and inode stood still over the settle window.
* A file is this report when page 1 covers at least 60 % of what is particular to its title, or shows its
  stock code and its date. Brokers' titles repeat (every company has a "三季报点评"), so below 90 % the most
  particular other fact known must be there too: the stock, else the institution, else the date. Several
  brokers write about one company on one day, so stock code and date stand for a report only where its
  institution is on page 1 or in the file's name and its page count, where known, is the file's; and they
  give way to a file that carries the title. Delivering the wrong report is worse than delivering none.
* No text layer: the single new file with the expected page count, by exclusion. Several that fit are
  ambiguous, never a guess; several with the same content are one.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Final, Literal, Protocol, TypeVar

import attrs

from hibor.package.names import normalise_text, title_coverage

COVERAGE_MIN: Final = 0.6
COVERAGE_SURE: Final = 0.9
CUT_TITLE_MIN: Final = 40
"""Letters of a title's beginning that stand for the whole title in a file name."""
MAGIC: Final = b"%PDF-"

TEXT_LAYER_MIN: Final = 16
"""Letters and digits below which page 1 has no text layer; a scanner's stamp has a few."""

Basis = Literal["title", "code_date", "exclusion", "name"]

_UNFINISHED: Final = re.compile(
    r"\.(?:tmp|temp|part|partial|crdownload|download|downloading)(?:\.\d+)?$", re.IGNORECASE
)
_SHARED_STORAGE: Final = re.compile(
    r"^(?:/sdcard|/mnt/sdcard|/storage/self/primary|/storage/emulated/0)(?=/|$)"
)


class CacheFile(Protocol):
    """One file of a listing; `size_bytes`, `mtime_s` (seconds) and `inode` as the phone's `stat` says."""

    @property
    def path(self) -> str: ...

    @property
    def size_bytes(self) -> int: ...

    @property
    def mtime_s(self) -> int: ...

    @property
    def inode(self) -> int: ...


F = TypeVar("F", bound=CacheFile)


@attrs.frozen
class Wanted:
    """What is known of the report a file is looked for: from its row, checked against its detail page."""

    title: str
    institution: str | None = None
    date: str | None = None
    stock_code: str | None = None
    stock_name: str | None = None
    page_count: int | None = None


@attrs.frozen
class Candidate:
    """A pulled candidate: where it came from, its sha256, page count and page 1's text (None: not read)."""

    path: str
    sha256: str
    page_count: int | None
    text_page1: str | None


@attrs.frozen
class Match:
    """The one file that fits, and why (goes into the journal as `match_basis`)."""

    path: str
    basis: Basis
    coverage: float


@attrs.frozen
class NoMatch:
    """Nothing fits (yet). `reasons` says for each candidate why not, for the journal and for people."""

    reasons: Mapping[str, str]


@attrs.frozen
class Ambiguous:
    """Several different files fit; nobody guesses."""

    paths: tuple[str, ...]


def canonical_path(path: str) -> str:
    """The path with the shared storage's other names (`/sdcard`, …) replaced by `/storage/emulated/0`."""
    return _SHARED_STORAGE.sub("/storage/emulated/0", re.sub(r"/{2,}", "/", path))


def is_unfinished(path: str) -> bool:
    """Whether the app's name for a file says that it is still being written."""
    return _UNFINISHED.search(path) is not None


def same_state(left: CacheFile, right: CacheFile) -> bool:
    """Whether two looks at a path saw the same size, mtime and inode."""
    return (left.size_bytes, left.mtime_s, left.inode) == (right.size_bytes, right.mtime_s, right.inode)


def new_files(baseline: Iterable[F], listing: Iterable[F]) -> tuple[F, ...]:
    """Files of `listing` that are new or changed against `baseline`, finished by name, each once, by path."""
    before = {canonical_path(entry.path): entry for entry in baseline}
    found: dict[str, F] = {}
    for entry in listing:
        place = canonical_path(entry.path)
        known = before.get(place)
        if is_unfinished(place) or (known is not None and same_state(known, entry)):
            continue
        found.setdefault(place, entry)
    return tuple(found[place] for place in sorted(found))


def by_first_bytes(entries: Iterable[F], heads: Mapping[str, bytes]) -> tuple[F, ...]:
    """Those that begin like a PDF; `heads` has the first bytes by path. A file without a head is left out."""
    return tuple(entry for entry in entries if heads.get(entry.path, b"")[: len(MAGIC)] == MAGIC)


def settled(looks: Sequence[tuple[float, CacheFile | None]], settle_s: float) -> bool:
    """Whether a file stood still over the last `settle_s` seconds of the looks taken at it.

    `looks` are (monotonic seconds, what was seen or None for gone), oldest first. An empty file never does.
    """
    if not looks or (last := looks[-1][1]) is None or last.size_bytes <= 0:
        return False
    since_s = looks[-1][0]
    for at_s, seen in reversed(looks):
        if seen is None or not same_state(seen, last):
            return False
        since_s = at_s
        if looks[-1][0] - since_s >= settle_s:
            return True
    return False


def judge(wanted: Wanted, candidates: Sequence[Candidate]) -> Match | NoMatch | Ambiguous:
    """Which of the settled, pulled candidates is the report; see the rules of the file."""
    fitting: list[tuple[Candidate, Match]] = []
    reasons: dict[str, str] = {}
    for candidate in candidates:
        outcome = _by_text(wanted, candidate)
        if isinstance(outcome, Match):
            fitting.append((candidate, outcome))
        else:
            reasons[candidate.path] = outcome
    if not fitting and len({candidate.sha256 for candidate in candidates}) == 1:
        excluded = _by_exclusion(wanted, candidates[0])
        if isinstance(excluded, Match):
            return excluded
        reasons[candidates[0].path] = excluded or reasons[candidates[0].path]
    if not fitting:
        return NoMatch(reasons)
    by_title = [(candidate, match) for candidate, match in fitting if match.basis == "title"]
    fitting = by_title or fitting
    if len({candidate.sha256 for candidate, _ in fitting}) > 1:
        return Ambiguous(tuple(sorted(candidate.path for candidate, _ in fitting)))
    return min((match for _, match in fitting), key=lambda match: match.path)


def judge_by_name(wanted: Wanted, candidates: Sequence[Candidate]) -> Match | NoMatch | Ambiguous:
    """The settled files that are no readable PDF, recognised by their own names.

    Such a file can only fail its checks, but it is the answer the app gave, and the checks shall say what is
    wrong
    with it. A readable file is never recognised this way: its content decides.
    """
    unreadable = [
        candidate for candidate in candidates if not candidate.page_count or candidate.text_page1 is None
    ]
    fitting = [candidate for candidate in unreadable if named_like(candidate.path, wanted)]
    if len({candidate.sha256 for candidate in fitting}) > 1:
        return Ambiguous(tuple(sorted(candidate.path for candidate in fitting)))
    if not fitting:
        return NoMatch({candidate.path: "neither content nor name fits" for candidate in candidates})
    return Match(min(candidate.path for candidate in fitting), "name", 0.0)


class Named(Protocol):
    """What a file name is compared with."""

    @property
    def title(self) -> str: ...

    @property
    def institution(self) -> str | None: ...

    @property
    def date(self) -> str | None: ...

    @property
    def stock_code(self) -> str | None: ...


def named_like(path: str, wanted: Named) -> bool:
    """Whether a cache file's name is this report's: it covers the title, and what else it shows does not
    differ.
    """
    name = normalise_text(path.rsplit("/", 1)[-1].rsplit(".", 1)[0])
    covered = title_coverage(wanted.title, name, institution=wanted.institution, stock_code=wanted.stock_code)
    if covered < COVERAGE_SURE and not _begins_cut_title(wanted.title, name):
        return False
    code_fits = wanted.stock_code is None or _shows_code(name, wanted.stock_code)
    date_fits = wanted.date is None or shows_date(name, wanted.date)
    institution = normalise_text(wanted.institution or "")
    return code_fits and date_fits and institution in name


def _begins_cut_title(title: str, name: str) -> bool:
    """Whether a name carries the beginning of a title too long for it: apps cut long titles in file names."""
    letters = re.sub(r"\W", "", normalise_text(title))
    return len(letters) > CUT_TITLE_MIN and letters[:CUT_TITLE_MIN] in re.sub(r"\W", "", name)


def has_text_layer(text_page1: str | None) -> bool:
    """Whether page 1 carries text that a title can be looked for in."""
    return len(re.findall(r"\w", text_page1 or "")) >= TEXT_LAYER_MIN


def _by_text(wanted: Wanted, candidate: Candidate) -> Match | str:
    """A match by page 1's text, or the reason why there is none."""
    if not has_text_layer(candidate.text_page1):
        return "no text layer"
    text = normalise_text(candidate.text_page1 or "")
    coverage = title_coverage(
        wanted.title, text, institution=wanted.institution, stock_code=wanted.stock_code
    )
    if coverage >= COVERAGE_SURE or (coverage >= COVERAGE_MIN and _corroborated(wanted, text)):
        return Match(candidate.path, "title", coverage)
    if wanted.stock_code and wanted.date and _shows_code(text, wanted.stock_code):
        if not shows_date(text, wanted.date):
            return f"title covered {coverage:.0%}, stock code without the date"
        other = _of_another(wanted, candidate, text)
        return other or Match(candidate.path, "code_date", coverage)
    if coverage >= COVERAGE_MIN:
        return f"title covered {coverage:.0%}, but neither stock nor institution is the report's"
    return f"title covered {coverage:.0%}"


def _by_exclusion(wanted: Wanted, candidate: Candidate) -> Match | str | None:
    """The single new file, when it has no text layer; None when text decided already."""
    if has_text_layer(candidate.text_page1):
        return None
    if wanted.page_count is None or candidate.page_count != wanted.page_count:
        return f"no text layer, {candidate.page_count} pages where {wanted.page_count} are expected"
    return Match(candidate.path, "exclusion", 0.0)


def _of_another(wanted: Wanted, candidate: Candidate, text: str) -> str | None:
    """Why a file of the same stock and day is another report, None when nothing says so."""
    institution = normalise_text(wanted.institution or "")
    pages, expected = candidate.page_count, wanted.page_count
    if institution not in text and institution not in normalise_text(candidate.path.rsplit("/", 1)[-1]):
        return f"stock code and date of the report, but not its institution {wanted.institution}"
    if pages and expected and pages != expected:
        return f"stock code and date of the report, but {pages} pages instead of {expected}"
    return None


def _corroborated(wanted: Wanted, text: str) -> bool:
    """Whether the most particular fact known besides the title is on the page."""
    if wanted.stock_code or wanted.stock_name:
        name = normalise_text(wanted.stock_name or "")
        return bool(name and name in text) or bool(wanted.stock_code and _shows_code(text, wanted.stock_code))
    if wanted.institution:
        return normalise_text(wanted.institution) in text
    return wanted.date is None or shows_date(text, wanted.date)


def _shows_code(text: str, stock_code: str) -> bool:
    code = re.escape(normalise_text(stock_code).split(".")[0])
    return bool(code) and re.search(rf"(?<![0-9a-z]){code}(?![0-9])", text) is not None


def shows_date(text: str, date: str) -> bool:
    """Whether a normalised text shows the day `YYYY-MM-DD` in one of the forms reports print it."""
    found = re.fullmatch(r"(\d{4})-(\d{2})-(\d{2})", date)
    if found is None:
        return False
    year, month, day = found.groups()
    months, days = (f"0?{int(part)}" for part in (month, day))
    forms = (
        rf"{year} ?年 ?{months} ?月 ?{days} ?日",
        rf"{year} ?[-/.] ?{months} ?[-/.] ?{days}",
        rf"{year}{month}{day}",
        rf"{year[2:]}{month}{day}",
    )
    return re.search(rf"(?<!\d)(?:{'|'.join(forms)})(?!\d)", text) is not None
