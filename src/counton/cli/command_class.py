"""The class of all commands: errors are one line with an exit code, and help has one or two pages.

A command is a function with click's decorators, in a module of its own: ``counton plan`` is
`counton.cli.plan_command.plan`. What is heavy is imported inside the function, because the list of
commands loads all these modules.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, TypeVar

import click

from counton.base.errors import hide_secrets
from counton.cli.exits import explain_errors

_Function = TypeVar("_Function", bound=Callable[..., object])

#: Headings of the help, in their order.
HEADINGS = (
    "Windows",
    "Late data",
    "Statistic",
    "Groups",
    "Contributions",
    "Privacy",
    "Output",
    "State",
    "Input",
    "Mechanism",
    "Options",
    "Other options",
)
SHORT_HELP = "-h"
LONG_HELP = "--help"
#: Names of the options that show help.
_HELP_NAMES = (SHORT_HELP, LONG_HELP)
#: Key of click's context under which the wanted page of help stands.
_PAGE = "counton.cli.command_class.page"
#: What messages of commands call functions of Python: commands.
COMMAND_WORDS = {
    "close_stream(state, name)": "counton close STATE --stream NAME",
    "accept_old_copy": "counton verify --accept-old-copy",
}


class WholeNumber(click.ParamType[int]):
    """A whole number as people write it, such as 8,760."""

    name = "int"

    def convert(
        self, value: object, param: click.Parameter | None, ctx: click.Context | None
    ) -> int:
        """Return the number."""
        try:
            return int(str(value).replace(",", "_"))
        except ValueError:
            self.fail(f"{value!r} is not a whole number; write it as in 8760", param, ctx)


class Decimal(click.ParamType[float]):
    """A number with a fraction, such as 0.95."""

    name = "number"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> float:
        """Return the number."""
        try:
            return float(value)
        except ValueError:
            self.fail(f"{value!r} is not a number; write it as in 0.95", param, ctx)


class SectionedOption(click.Option):
    """An option with the heading of the help that lists it.

    Args:
        section: the heading.
        is_in_short_help: whether the short help shows it.
    """

    USUAL_SECTION = "Options"

    def __init__(
        self,
        words: Sequence[str],
        section: str = USUAL_SECTION,
        *,
        is_in_short_help: bool = False,
        **more: Any,
    ) -> None:
        super().__init__(list(words), **more)
        self.section = section
        self.is_in_short_help = is_in_short_help


def option(*words: str, **more: object) -> Callable[[_Function], _Function]:
    """Decorate the function of a command with an option, as `click.option` does.

    A number has the type ``int`` or ``float``, as people write it.
    """
    if more.get("type") is int:
        more["type"] = WholeNumber()
    elif more.get("type") is float:
        more["type"] = Decimal()
    return click.option(*words, cls=SectionedOption, **more)


@contextmanager
def hiding_passwords() -> Iterator[None]:
    """Hide passwords in the parser's messages within a block."""
    try:
        yield
    except click.exceptions.NoArgsIsHelpError:
        raise
    except click.UsageError as error:
        raise click.UsageError(hide_secrets(error.format_message()), error.ctx) from None


class CountonCommand(click.Command):
    """A command whose errors are one line with an exit code.

    Messages name its options as they are typed; below the command line they are named as arguments
    of Python. So a parameter of a command has the name of that argument.
    """

    def words(self) -> Mapping[str, str]:
        """Return what messages call the arguments that errors name."""
        words = dict(COMMAND_WORDS)
        for parameter in self.params:
            name = str(parameter.name)
            is_option = isinstance(parameter, click.Option)
            words[name] = parameter.opts[0] if is_option else name.upper()
        return words

    def make_context(self, *words: Any, **more: Any) -> click.Context:
        """Parse the words of a command; errors show no password."""
        with hiding_passwords():
            return super().make_context(*words, **more)

    def invoke(self, ctx: click.Context) -> object:
        """Call the function of the command; a known error ends in one line and an exit code."""
        with explain_errors(self.words):
            _check_texts(ctx.params)
            return super().invoke(ctx)


def _check_texts(values: Mapping[str, object]) -> None:
    """Refuse texts that no file and no database can hold."""
    from counton.base.arguments import check_text

    for name, value in values.items():
        for text in value if isinstance(value, tuple) else (value,):
            check_text(name, str(text))


class TwoPageCommand(CountonCommand):
    """A command with two pages of help: ``-h`` has the options of most runs, ``--help`` has all.

    Args:
        example: lines of an example.
    """

    def __init__(self, *words: Any, example: Sequence[str] = (), **more: Any) -> None:
        more["add_help_option"] = False
        super().__init__(*words, **more)
        self.example = example
        self.params += [
            _page_option(SHORT_HELP, "Show the options of most runs."),
            _page_option(LONG_HELP, "Show all options."),
        ]

    def format_help(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the short page, or all options."""
        if ctx.meta.get(_PAGE) != SHORT_HELP:
            super().format_help(ctx, formatter)
            return
        self.format_usage(ctx, formatter)
        formatter.write_paragraph()
        with formatter.indentation():
            formatter.write_text((self.help or "").partition("\n\n")[0])
        lines = "".join(f"  {line}\n" for line in self.example)
        formatter.write(f"\nExample:\n{lines}")
        options = self._options()
        shown = [option for option in options if option.is_in_short_help]
        arguments = [
            parameter for parameter in self.params if isinstance(parameter, click.Argument)
        ]
        with formatter.section("Options of most runs"):
            formatter.write_dl([_help_record(parameter, ctx) for parameter in (*arguments, *shown)])
        rest = len(options) - len(shown) - len(_HELP_NAMES)
        formatter.write(f"\n{ctx.command_path} --help: these, and {rest} more\n")

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the options by heading."""
        for heading in HEADINGS:
            options = [option for option in self._options() if option.section == heading]
            if options:
                with formatter.section(heading):
                    formatter.write_dl([_help_record(option, ctx) for option in options])

    def _options(self) -> list[SectionedOption]:
        return [option for option in self.params if isinstance(option, SectionedOption)]


def _help_record(parameter: click.Parameter, ctx: click.Context) -> tuple[str, str]:
    return parameter.get_help_record(ctx) or ("", "")


def _page_option(word: str, help: str) -> SectionedOption:
    def show(context: click.Context, _: click.Parameter, is_wanted: bool) -> None:
        if is_wanted:
            context.meta[_PAGE] = word
            click.echo(context.get_help())
            context.exit()

    return SectionedOption(
        [word, word.strip("-")],
        section="Other options",
        is_flag=True,
        is_eager=True,
        expose_value=False,
        callback=show,
        help=help,
    )
