"""What the reading commands share: language, common options, help with exit codes, errors a person
understands.

Rules of this file:

* A command is built for a language (`build(words)`), so that its help is in the reader's language too.
* Answers go to stdout; what is said about the work goes to stderr and is silent with `--quiet`. `--json`
  gives one JSON document.
* Exit codes come from `generated.governance`; their meanings are in the catalogue. Nothing else states
  them.
* Reading commands take no lock and change nothing in the library.
* What `tell` gets is one line; text of several lines is marked (`Lines`).
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, TypeVar

import click

from generated.governance import COMMAND_EXITS, RUN_STATUSES
from hibor.messages import LANGS, Lang, catalogue, chosen_lang, text, told_line
from hibor.messages.lines import Lines, is_plain, one_line
from hibor.people.console import READER_GONE, answer_lost, opened, why_lost
from hibor.people.formatting import CellContext

DONE: Final = COMMAND_EXITS["done"]
FOUND: Final = COMMAND_EXITS["found"]
WARNINGS: Final = COMMAND_EXITS["warnings"]
USAGE: Final = COMMAND_EXITS["usage"]
INTERRUPTED: Final = next(code for _status, code, when, _meaning in RUN_STATUSES if when == "interrupted")
DEFAULT_LIBRARY: Final = "hibor-library"

Function = TypeVar("Function", bound=Callable[..., Any])
Built = Callable[["Words"], click.Command]


class Words:
    """The texts of one language, called with a dotted key."""

    def __init__(self, lang: Lang) -> None:
        self.lang = lang

    def __call__(self, key: str, /, **facts: Any) -> str:
        return text(self.lang, key, **facts)


class Refusal(Exception):
    """A command cannot do what was asked: a text of the catalogue, and the exit code (default: usage)."""

    def __init__(self, key: str, *, exit_code: int = USAGE, **facts: Any) -> None:
        super().__init__(key)
        self.key, self.exit_code, self.facts = key, exit_code, facts


class Answers:
    """Where a command's answers go. `json_wanted` says that stdout is for one JSON document."""

    def __init__(self, words: Words, *, quiet: bool, json_wanted: bool) -> None:
        self.words, self.quiet, self.json_wanted = words, quiet, json_wanted

    def say(self, key: str, /, **facts: Any) -> None:
        """A line about the work, on stderr, unless quiet."""
        if not self.quiet:
            print(self.words(key, **facts), file=sys.stderr, flush=True)

    def warn(self, key: str, /, **facts: Any) -> None:
        """A line that a quiet command says too."""
        print(self.words(key, **facts), file=sys.stderr, flush=True)

    def tell(self, line: str = "") -> None:
        """A line of the answer, on stdout, and one line alone; nothing when JSON is wanted."""
        if not self.json_wanted:
            print(one_line(line))

    def document(self, value: Mapping[str, Any]) -> None:
        """The JSON document, when one is wanted."""
        if self.json_wanted:
            print(json.dumps({"schema_version": 1, **value}, ensure_ascii=False, indent=2, allow_nan=False))


class Mistake(click.UsageError):
    """A command line that is refused in a sentence of the catalogue; `message` is the English one."""

    def __init__(self, key: str, context: click.Context, **facts: str) -> None:
        super().__init__(Words("en")(key, **facts), context)
        self.key, self.facts = key, facts


class SpokenCommand(click.Command):
    """A command whose help is in one language, with examples and exit codes at its end."""

    context_class = CellContext
    hands_on: bool = False
    """Whether the arguments are for another command, which looks at them itself."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Refuse what no file name, ledger or document could hold, before anything is done."""
        given = list(args)
        rest = super().parse_args(ctx, args)
        if not ctx.resilient_parsing and not self.hands_on:
            if not _can_name_files():
                raise Mistake("common.narrow_names", ctx, encoding=sys.getfilesystemencoding())
            if (empty := _empty_value(given)) is not None:
                raise Mistake("common.empty_value", ctx, name=empty)
            strange = next((one for one in given if not is_plain(one)), None)
            if strange is not None:
                raise Mistake("common.strange_argument", ctx, argument=strange)
            for parameter in self.get_params(ctx):
                self._check_name(ctx, parameter)
        return rest

    def __init__(
        self, name: str | None = None, *, words: Words, section: str, exits: str = "command", **settings: Any
    ) -> None:
        """`section` names the texts; the command is called by its last part, whatever the function's name
        is.
        """
        told = {"help": words(f"{section}.help"), "short_help": words(f"{section}.short")}
        super().__init__(section.rsplit(".", 1)[-1], **{**settings, **told})
        self.words, self.section, self.exits = words, section, exits
        self.context_settings = {"help_option_names": ["-h", "--help"], "max_content_width": 110}

    @staticmethod
    def _check_name(ctx: click.Context, parameter: click.Parameter) -> None:
        """Refuse the name of a file that no disk takes."""
        value = ctx.params.get(parameter.name or "")
        if not isinstance(value, (str, Path)) or not _names_a_file(parameter):
            return
        longest = max(map(_length, Path(value).parts), default=0)
        if longest > LONGEST_NAME or _length(str(value)) > LONGEST_PATH:
            raise Mistake("common.long_name", ctx, name=_name_of(parameter), most=str(LONGEST_NAME))

    def get_help_option(self, ctx: click.Context) -> click.Option | None:
        """The help option, told in the language."""
        option = super().get_help_option(ctx)
        if option is not None:
            option.help = self.words("common.help_option")
        return option

    def format_usage(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """The usage line."""
        pieces = " ".join(self.collect_usage_pieces(ctx))
        formatter.write_usage(ctx.command_path, pieces, prefix=self.words("common.usage") + " ")

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """The options, under a heading of the language."""
        options = [one for one in self.get_params(ctx) if isinstance(one, click.Option)]
        found = [row for option in options if (row := option.get_help_record(ctx))]
        rows = [(names, _marked(told, self.words)) for names, told in found]
        if rows:
            with formatter.section(self.words("common.options")):
                formatter.write_dl(rows)

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Examples and exit codes."""
        with formatter.section(self.words("common.examples")):
            for line in self.words(f"{self.section}.examples").strip().splitlines():
                formatter.write(f"{'':{formatter.current_indent}}{line}\n")
        with formatter.section(self.words("common.exit_codes")):
            formatter.write_dl(exit_rows(self.words, self.exits))


class SpokenGroup(SpokenCommand, click.Group):
    """A group of commands with help in one language; `--lang` may stand before the command's name too."""

    def __init__(self, name: str | None = None, *, words: Words, section: str, **settings: Any) -> None:
        super().__init__(name, words=words, section=section, **settings)
        lang = click.Option(
            ["--lang"], type=click.Choice(LANGS), expose_value=False, help=words("common.lang")
        )
        self.params.append(lang)

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Options, then the commands."""
        SpokenCommand.format_options(self, ctx, formatter)
        rows = [
            (name, command.get_short_help_str(90))
            for name in self.list_commands(ctx)
            if (command := self.get_command(ctx, name)) is not None
        ]
        with formatter.section(self.words("common.commands")):
            formatter.write_dl(rows)


def _empty_value(given: Sequence[str]) -> str | None:
    """The option, or the last word before it, whose value is empty: of a variable that is not set, mostly. It
    is never taken for an option that was not given, or for the folder one is in.
    """
    for before, word in zip(("", *given), given, strict=False):
        if not word:
            return before or "''"
        name, equals, value = word.partition("=")
        if name.startswith("--") and equals and not value:
            return name
    return None


LONGEST_NAME: Final = 255
"""Of one file or folder, in bytes; in UTF-16 units on Windows."""
LONGEST_PATH: Final = 4000
_MAYBE_FILES: Final = ("profile", "scenario", "scenario_name")
"""Parameters that take the name of something shipped, or a file."""


def _names_a_file(parameter: click.Parameter) -> bool:
    """Whether its value is a path, or may be one."""
    return isinstance(parameter.type, click.Path) or parameter.name in _MAYBE_FILES


def _length(name: str) -> int:
    return len(name.encode("utf-16-le")) // 2 if os.name == "nt" else len(os.fsencode(name))


_NAME_PROBE: Final = "慧\u3400\U00020bb7é"


def _can_name_files() -> bool:
    """Whether this Python can write every name a report may get."""
    try:
        return bool(os.fsencode(_NAME_PROBE))
    except UnicodeEncodeError:
        return False


def _marked(told: str, words: Words) -> str:
    """What click adds to an option's text, in the language."""
    told = told.replace("[required]", words("common.mark_required"))
    return told.replace("[default: ", words("common.mark_default"))


def exit_rows(words: Words, kind: str) -> list[tuple[str, str]]:
    """Exit code and meaning: of a run (`run`), of a command that has its own (`SECTION.exits`), or of any
    other command (`command`). The codes are the contract's in every case.
    """
    if kind.endswith(".exits"):
        codes = {**COMMAND_EXITS, **{status: code for status, code, _w, _m in RUN_STATUSES}}
        names = catalogue(words.lang)[kind.partition(".")[0]]["exits"]
        return [
            (str(code), words(f"{kind}.{name}"))
            for code, name in sorted((codes[name], name) for name in names)
        ]
    if kind == "run":
        rows = [
            (code, f"{status}: {words(f'statuses.{status}.what')}") for status, code, _w, _m in RUN_STATUSES
        ]
        return [(str(code), meaning) for code, meaning in sorted(rows)]
    return [
        (str(code), words(f"exits.{name}"))
        for name, code in sorted(COMMAND_EXITS.items(), key=lambda row: row[1])
    ]


def shared(words: Words, *, library: bool = True, json_output: bool = True) -> Callable[[Function], Function]:
    """The options every reading command has, in the same words."""

    def decorate(function: Function) -> Function:
        options = [
            click.option("--lang", type=click.Choice(LANGS), help=words("common.lang")),
            click.option("--quiet", is_flag=True, help=words("common.quiet")),
        ]
        if json_output:
            options.append(click.option("--json", "json_wanted", is_flag=True, help=words("common.json")))
        if library:
            options.append(click.option("--task", type=click.Path(path_type=Path), help=words("common.task")))
            options.append(
                click.option("--library", type=click.Path(path_type=Path), help=words("common.library"))
            )
        for option in options:
            function = option(function)
        return function

    return decorate


def run_command(
    build: Built,
    name: str,
    arguments: Sequence[str] | None = None,
    *,
    on_mistake: Callable[[str], None] | None = None,
) -> int:
    """Run a command in the reader's language; returns its exit code, raises nothing a person causes.

    `on_mistake` is told too what is wrong on the command line.
    """
    given = list(sys.argv[1:] if arguments is None else arguments)
    with opened():
        words = Words(chosen_lang(given))
        return answered(_ended(build, name, given, words, on_mistake), words)


def answered(code: int, words: Words) -> int:
    """The exit code of a command that has said all. An answer that could not be written is told once."""
    if not answer_lost():
        return code
    why = why_lost()
    if why == READER_GONE:
        return code  # it had enough
    print(words("common.answer_lost", why=words(f"common.stdout_{why}")), file=sys.stderr)
    return code or FOUND


def _ended(
    build: Built, name: str, given: list[str], words: Words, on_mistake: Callable[[str], None] | None
) -> int:
    """Run the command; its exit code."""
    try:
        result = build(words).main(given, prog_name=f"hibor {name}".strip(), standalone_mode=False)
    except click.exceptions.Exit as leave:
        return leave.exit_code
    except click.ClickException as error:
        shown = f"hibor {name}".strip()
        told = words("common.mistake", what=_mistake(error, words), name=shown)
        print(told, file=sys.stderr)
        if on_mistake is not None:
            on_mistake(told)
        return USAGE
    except Refusal as refusal:
        print(words(refusal.key, **refusal.facts), file=sys.stderr)
        return refusal.exit_code
    except (KeyboardInterrupt, click.Abort):
        print(words("common.interrupted"), file=sys.stderr)
        return INTERRUPTED
    except Exception as error:
        trouble = _file_trouble(error, words)
        if trouble is None:
            raise  # a defect, and to be seen as one
        print(trouble, file=sys.stderr)
        return FOUND
    return int(result or DONE)


def _file_trouble(error: Exception, words: Words) -> str | None:
    """What to say of a file or folder that cannot be used; None for everything else."""
    from hibor.durable import DurableError

    if isinstance(error, DurableError):
        return words("common.file_trouble", path=error.path)
    if isinstance(error, OSError) and error.filename:
        return words("common.file_trouble", path=error.filename)
    return None


def _mistake(error: click.ClickException, words: Words) -> str:
    """What is wrong on the command line; click's own sentences are English."""
    context = getattr(error, "ctx", None)
    group = None if context is None else context.command
    if isinstance(error, click.exceptions.NoArgsIsHelpError):
        return Lines(error.format_message())  # the command's help, which is in the reader's language
    if isinstance(error, Mistake):
        return words(error.key, **error.facts)
    if context is not None and isinstance(group, click.Group) and error.message == "Missing command.":
        return words("common.no_subcommand", names=", ".join(group.list_commands(context)))
    if words.lang == "en":
        return error.format_message()
    told = told_line(words.lang, error.format_message())
    if told is not None:
        return f"{told}。"
    if isinstance(error, click.NoSuchOption):
        return words("common.no_option", name=error.option_name)
    parameter = getattr(error, "param", None)
    named = getattr(error, "param_hint", None) or (None if parameter is None else _name_of(parameter))
    if isinstance(error, click.MissingParameter):
        return words("common.missing", name=named or "?")
    if isinstance(error, click.BadParameter):
        return words("common.bad_value", name=named or "?")
    return words("common.not_understood")


def _name_of(parameter: click.Parameter) -> str:
    return parameter.opts[0] if isinstance(parameter, click.Option) else parameter.human_readable_name
