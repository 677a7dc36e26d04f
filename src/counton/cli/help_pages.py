"""Pages of help: ``-h`` is one screen with an example, ``--help`` says everything."""

from __future__ import annotations

import os
import shlex
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import typer
from typer.core import TyperCommand, TyperGroup

from counton.base.errors import hide_secrets
from counton.cli.command_list import BESIDE, HEADINGS, INTENTS, OTHER
from counton.job.job import Job, options_of

#: Length at which the first sentence of a help is cut: longer than each of them.
_SENTENCE = 200
#: Arguments of typer for all commands. Without rich, --help takes a fraction of the time.
BARE: dict[str, Any] = {
    "add_completion": False,
    "rich_markup_mode": None,
    "pretty_exceptions_enable": False,
    "context_settings": {"help_option_names": ["-h", "--help"]},
}
#: Headings of options, the most important first.
_ORDER = (
    *("Arguments", "Time", "Statistic", "Groups", "People", "Guarantee", "Output", "State"),
    *("Rows", "Noise", "Options", "Other options"),
)
_SHORT, _LONG = "-h", "--help"
_PAGES = {_SHORT: "one screen: the options of most runs", _LONG: "all options"}
#: Key in typer's context under which the wanted page of help is stored.
_ASKED = "counton.cli.help_pages"
#: Number of columns of an example, which is not wrapped.
_EXAMPLE = 76

#: The exception for wrong options, of click or of typer's own copy of click.
REFUSED: Any = typer.BadParameter.__base__


@contextmanager
def without_passwords() -> Iterator[None]:
    """Within the ``with`` block, remove passwords from the parser's error messages, and tell where
    an option stands that only job files have.
    """
    try:
        yield
    except REFUSED as error:
        error.message = hide_secrets(error.message)
        key = getattr(error, "option_name", "").removeprefix("--")
        if any(item.in_file and item.key == key for item in options_of(Job).values()):
            error.possibilities = None
            error.message = (
                f"--{key} is an option of job files alone: let --plan --save nightly.toml write "
                f"this command into a file, add a line {key} = ... to its job, and run counton run "
                "nightly.toml"
            )
        raise


class _PlainWords:
    """A type of parameters that converts the words after an option on the command line to a text, a
    path, or the result of a parser.

    Typer itself would use pydantic, whose import takes longer than many commands, and which builds
    a checker for every option. Words that cannot be converted are left to typer, which explains the
    error.
    """

    def __init__(self, parameter: Any, by_typer: Callable[[], Any]) -> None:
        self._kind = parameter.type_descriptor.annotation
        self._parser = parameter.type_descriptor.parameter_info.parser
        self._by_typer = by_typer

    def coerce(self, value: Any, param: Any, ctx: Any) -> Any:
        """Convert the words of a parameter to the type that its command takes."""
        if param.multiple or param.nargs == -1:
            if value is None:
                return ()
            if self._kind == list[str] and not isinstance(value, str):
                return [*map(str, value)]
        elif value is None:
            return None
        elif self._parser is not None:
            return self._parser(value)
        elif self._kind is str and isinstance(value, str):
            return value
        elif (
            self._kind is Path
            and isinstance(value, str)
            and (os.access(value, os.R_OK) or not os.path.exists(value))
        ):
            return Path(value)
        return self._by_typer().coerce(value, param=param, ctx=ctx)


def _taken_plainly(parameters: list[Any]) -> list[Any]:
    """Let parameters of a command use `_PlainWords`, instead of pydantic, to convert the words
    given for them; return the parameters.
    """
    for parameter in parameters:
        own = getattr(parameter, "get_runtime_param", None)
        if own is not None and not isinstance(own, partial):
            parameter.get_runtime_param = partial(_PlainWords, parameter, own)
    return parameters


class CommandWithHeadings(TyperCommand):
    """A command with two pages of help: a short page with the most used options, and a page with
    all options under headings.
    """

    def first_page(self) -> tuple[Sequence[str], Sequence[str]]:
        """Return the names of parameters on the short page, and the lines of its example."""
        return (), ()

    def get_params(self, ctx: Any) -> list[Any]:
        """Return the parameters of the command, including its help option."""
        return _taken_plainly(super().get_params(ctx))

    def make_context(self, *words: Any, **more: Any) -> Any:
        """Parse the words after this command's name on a command line; errors show no password."""
        with without_passwords():
            return super().make_context(*words, **more)

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Parse the words after the command, and note whether they ask for ``-h`` or ``--help``."""
        ctx.meta[_ASKED] = _SHORT if _SHORT in args else _LONG
        return super().parse_args(ctx, args)

    def format_help(self, ctx: Any, formatter: Any) -> None:
        """Write the short page of help, or the page with all options."""
        shown, example = self.first_page()
        if not shown or ctx.meta.get(_ASKED) != _SHORT:
            super().format_help(ctx, formatter)
            return
        self.format_usage(ctx, formatter)
        formatter.write_paragraph()
        with formatter.indentation():
            formatter.write_text(self.get_short_help_str(_SENTENCE))
        if example:
            formatter.write("\nExample:\n" + "".join(f"  {line}\n" for line in example))
        often = [one for one in self.params if one.name in shown]
        records = [
            (word, text.partition(";")[0].replace("  [required]", ""))
            for parameter in sorted(often, key=lambda one: _place(_heading(one)))
            for word, text in [parameter.get_help_record(ctx) or ("", "")]
        ]
        with formatter.section("Options of most runs"):
            formatter.write_dl(records)
        more = len(self.params) - len(records)
        formatter.write(f"\n{ctx.command_path} --help: these in full, and {more} more\n")

    def format_options(self, ctx: Any, formatter: Any) -> None:
        """Write a command's arguments, and then its options by heading."""
        sections: dict[str, list[Any]] = {}
        for parameter in self.get_params(ctx):
            record = parameter.get_help_record(ctx)
            if self.first_page()[0] and parameter.name == "help":
                sections.setdefault("Other options", []).extend(_PAGES.items())
            elif record is not None:
                sections.setdefault(_heading(parameter), []).append(record)
        if list(sections) == ["Other options"] or list(sections) == ["Arguments", "Other options"]:
            sections["Options"] = sections.pop("Other options")
        for heading in sorted(sections, key=_place):
            with formatter.section(heading):
                formatter.write_dl(sections[heading])


def _heading(parameter: Any) -> str:
    """Return the heading under which help lists a parameter."""
    if parameter.param_type_name == "argument":
        return "Arguments"
    return getattr(parameter, "rich_help_panel", None) or "Other options"


def _place(heading: str) -> int:
    """Return the position of a heading in the help; unknown headings come last."""
    return _ORDER.index(heading) if heading in _ORDER else len(_ORDER)


class Commands(TyperGroup):
    """A group of commands with a short and a long page of help.

    An unknown name that resembles a statistic's is answered with the statistic's command.
    """

    def get_params(self, ctx: Any) -> list[Any]:
        """Return the parameters that stand before a command's name, including the help option."""
        return _taken_plainly(super().get_params(ctx))

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Parse the words of a command line, and note which page of help they ask for: the long
        page if the first word is ``--help``, otherwise the short page.
        """
        ctx.meta[_ASKED] = _LONG if args[:1] == [_LONG] else _SHORT
        return super().parse_args(ctx, args)

    def format_help_text(self, ctx: Any, formatter: Any) -> None:
        """Write the purpose of the commands, and the command to begin with."""
        super().format_help_text(ctx, formatter)
        if self.epilog is not None:
            with formatter.section("Begin here"):
                formatter.write_dl([*INTENTS.items()])

    def format_epilog(self, ctx: Any, formatter: Any) -> None:
        """Write the exit codes; only the long page of help has them."""
        if ctx.meta.get(_ASKED) == _LONG:
            super().format_epilog(ctx, formatter)
        elif self.epilog is not None:
            formatter.write(f"\n{ctx.command_path} --help: exit codes too\n")

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        """Write the list of commands under headings, each with the whole first sentence of its
        help.
        """
        sections: dict[str, list[tuple[str, str]]] = {}
        for name in self.list_commands(ctx):
            command = self.commands[name]
            heading = getattr(command, "rich_help_panel", None) or OTHER
            sections.setdefault(heading, []).append((name, command.get_short_help_str(_SENTENCE)))
        for heading in sorted(sections, key=HEADINGS.index):
            with formatter.section(heading):
                formatter.write_dl(sections[heading])

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """Return the command that the words name; fail for an unknown name, with a suggestion if it
        resembles the name of a statistic.
        """
        name = args[0] if args else ""
        if name and not name.startswith("-") and self.get_command(ctx, name) is None:
            from difflib import get_close_matches

            from counton.statistics.catalogue import nearest

            near, statistic = get_close_matches(name, self.commands, 1, 0.8), nearest(name)
            if statistic is not None and not near:
                beside = statistic in BESIDE
                command = f"counton {statistic}" if beside else f"counton statistic {statistic}"
                ctx.fail(f"No such command {name!r}. Did you mean {command!r}?")
        return super().resolve_command(ctx, args)

    def invoke(self, ctx: Any) -> Any:
        """Run the command that was parsed; errors show no password."""
        with without_passwords():
            return super().invoke(ctx)


def example_of(command: str, *options: tuple[str, str]) -> list[str]:
    r"""Return a command with options as text to copy, with as many options on each line as fit.

    Args:
        command: the command with its arguments.
        options: names and values of options.

    >>> example_of("counton count visits.csv", ("by", "page"), ("domain", "page=home,shop;a=b"))
    ["counton count visits.csv --by page --domain 'page=home,shop;a=b'"]
    """
    lines = [command]
    for name, value in options:
        word = f"--{name} {shlex.quote(value)}"
        if len(lines[-1]) + len(word) > _EXAMPLE - 2:
            lines[-1] += " \\"
            lines.append("   ")
        lines[-1] += f" {word}"
    return lines
