"""The command line: a group of commands, each of which is loaded when it is called."""

from __future__ import annotations

from difflib import get_close_matches
from importlib import import_module
from typing import Any

import click

from counton.base.errors import hide_secrets
from counton.cli.command_class import hiding_passwords
from counton.cli.command_list import BEGIN_HERE, COMMANDS
from counton.cli.exits import epilogue

#: Least similarity of a misspelt command and its suggestion.
_SIMILAR = 0.8
_LONG_HELP = "--help"
#: Key of click's context under which stands whether the long help is wanted.
_IS_LONG = "counton.cli.app.is_long"


class CommandGroup(click.Group):
    """The commands under headings; the short help says where to begin, the long one has exit codes.

    An unknown name that resembles a command or a statistic is answered with that command.
    """

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the names of all commands."""
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Load a command; None if there is none of this name."""
        if cmd_name not in COMMANDS:
            return None
        module = import_module(f"counton.cli.{COMMANDS[cmd_name].module}")
        command = vars(module)[cmd_name.replace("-", "_")]
        assert isinstance(command, click.Command)
        return command

    def make_context(self, *words: Any, **more: Any) -> click.Context:
        """Parse the words of a command line; errors show no password."""
        with hiding_passwords():
            return super().make_context(*words, **more)

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Parse the words of a command line, and keep which page of help they ask for."""
        ctx.meta[_IS_LONG] = args[:1] == [_LONG_HELP]
        return super().parse_args(ctx, args)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Return the command that the words name; suggest a similar one for an unknown name."""
        name = args[0]
        if self.get_command(ctx, name) is None and not name.startswith("-"):
            raise click.UsageError(hide_secrets(_explain_unknown_command(name)), ctx)
        return super().resolve_command(ctx, args)

    def format_help_text(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the purpose of the commands, and where to begin."""
        super().format_help_text(ctx, formatter)
        with formatter.section("Begin here"):
            formatter.write_dl(list(BEGIN_HERE.items()))

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the list of commands under headings."""
        lines: dict[str, list[tuple[str, str]]] = {}
        for name, listed in COMMANDS.items():
            lines.setdefault(listed.heading, []).append((name, listed.summary))
        for heading, lines_of_heading in lines.items():
            with formatter.section(heading):
                formatter.write_dl(lines_of_heading)

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the exit codes on the long page."""
        if ctx.meta[_IS_LONG]:
            super().format_epilog(ctx, formatter)
        else:
            formatter.write(f"\n{ctx.command_path} --help: exit codes too\n")


def _explain_unknown_command(name: str) -> str:
    near = get_close_matches(name, COMMANDS, 1, _SIMILAR)
    if near:
        return f"No such command {name!r}. Did you mean 'counton {near[0]}'?"
    from counton.job.statistics import nearest_statistic

    statistic = nearest_statistic(name)
    if statistic is None:
        return f"No such command {name!r}."
    return f"No such command {name!r}. Did you mean 'counton release {statistic}'?"


@click.group(
    "counton",
    cls=CommandGroup,
    epilog=epilogue(),
    no_args_is_help=True,
    context_settings={"help_option_names": ["-h", _LONG_HELP]},
)
@click.version_option(package_name="counton", message="counton %(version)s")
def app() -> None:
    """Private running totals: counts published again and again, which hide every single row."""
