"""The command line: it parses, calls and prints. Everything heavy is imported when needed."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from importlib import import_module
from typing import Annotated, Any

import typer

from counton.cli.command_list import BESIDE, KEEP, PLAN, READ, RELEASE
from counton.cli.command_options import often_of, takes
from counton.cli.exits import epilogue
from counton.cli.help_pages import BARE, Commands, CommandWithHeadings, example_of


def application(words: Sequence[str]) -> typer.Typer:
    """Return a typer application that can run the words of a command line.

    It has only the command that the first word names, if that command can be built by itself;
    otherwise it has all commands. To build all commands takes a twelfth of the time of a run that
    releases nothing. Once all are built, they are used for every call.

    Args:
        words: the words of the command line, after the program's name.

    >>> _whole.cache_clear()
    >>> [one.name for one in application(["plan", "--steps", "9"]).registered_commands]
    ['plan']
    """
    name = words[0] if words else ""
    return _with(name) if name in _NAMES and not _whole.cache_info().currsize else _whole()


def __getattr__(name: str) -> Any:
    if name == "app":
        return _whole()
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


@cache
def _whole() -> typer.Typer:
    return _with(*_NAMES)


def _with(*names: str) -> typer.Typer:
    """Return the typer application with the named commands."""
    found = typer.Typer(
        name="counton",
        cls=Commands,
        help="Private running totals: counts published again and again, which hide every single "
        "row.",
        epilog=epilogue(),
        no_args_is_help=True,
        **BARE,
    )
    found.callback()(root)
    for name in names:
        if name in BESIDE:
            _beside(name, BESIDE[name], found)
        elif name == "statistic":
            found.command(rich_help_panel=RELEASE, **_PASSED_ON)(statistic)
        else:
            _command(name, *_COMMANDS[name], found)
    return found


def _version(wanted: bool) -> None:
    if wanted:
        from importlib.metadata import version

        typer.echo(f"counton {version('counton')}")
        raise typer.Exit


def root(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="print the version")
    ] = False,
) -> None:
    """Private running totals: counts published again and again, which hide every single row."""


#: Arguments for typer of commands that pass their words on to a statistic's command. The options of
#: the statistic are loaded when the command is called.
_PASSED_ON: dict[str, Any] = {
    "add_help_option": False,
    "context_settings": {"allow_extra_args": True, "ignore_unknown_options": True},
}


def _beside(name: str, says: str, app: typer.Typer) -> None:
    """Add a statistic's command at the top level, beside the command ``statistic``.

    Args:
        says: first sentence of the command's help.
    """

    def command(context: typer.Context) -> None:
        from counton.cli.statistic_command import perform

        perform(name, context.args)

    command.__doc__ = says
    app.command(name=name, rich_help_panel=RELEASE, **_PASSED_ON)(command)


def statistic(context: typer.Context) -> None:
    """Release another statistic: average, quantiles, top-k, distinct users, words, graphs.

    counton statistic lists them all. Each has its own options: counton statistic top-k --help.
    """
    from counton.cli.statistic_command import commands

    commands()(context.args, prog_name="counton statistic")


#: All other commands by name: heading, function, and record of options, which is loaded for this
#: command alone. The docstring of the record is the help of the command.
_COMMANDS: dict[str, tuple[str, str, str]] = {
    "init": (RELEASE, "init.perform", "init_options.InitOptions"),
    "run": (RELEASE, "run_command.perform", "run_options.RunOptions"),
    "serve": (RELEASE, "serve_commands.perform", "serve_options.ServeOptions"),
    "plan": (PLAN, "plan_command.perform", "plan_options.PlanOptions"),
    "ledger": (KEEP, "look_commands.print_ledger", "keep_options.LedgerOptions"),
    "show": (READ, "look_commands.print_held", "show_options.ShowOptions"),
    "forget": (KEEP, "keep_commands.print_forgotten", "keep_options.ForgetOptions"),
    "end": (KEEP, "keep_commands.print_end", "keep_options.EndOptions"),
    "mark": (KEEP, "keep_commands.print_mark", "keep_options.MarkOptions"),
    "backup": (KEEP, "keep_commands.print_backup", "keep_options.BackupOptions"),
    "export": (READ, "export_commands.perform", "show_options.ExportOptions"),
    "methods": (READ, "export_commands.print_methods", "show_options.MethodsOptions"),
    "publish": (READ, "export_commands.print_published", "show_options.PublishOptions"),
    "verify": (KEEP, "look_commands.print_verification", "keep_options.VerifyOptions"),
}


#: Examples of commands whose help has a first page.
_EXAMPLES = {
    "plan": example_of("counton plan", ("steps", "365"), ("within", "20")),
    "ledger": example_of("counton ledger visits.db", ("limit-epsilon", "3")),
}


def _load(place: str) -> Any:
    """Import an object from a module of ``counton.cli``, named as in ``"init.perform"``."""
    module, _, name = place.partition(".")
    return getattr(import_module(f"counton.cli.{module}"), name)


def _command(name: str, heading: str, place: str, record: str, app: typer.Typer) -> None:
    """Add a command whose module is imported only when it is called.

    Args:
        heading: heading of the list of commands.
        place: module and function of the command in ``counton.cli``, such as ``"init.perform"``.
        record: module and name of the dataclass of its options, as ``"init_options.InitOptions"``.
        app: the application to which the command is added.
    """
    kind: type = _load(record)

    def command(*given: Any) -> None:
        _load(place)(*given)

    command.__doc__ = kind.__doc__

    class Page(CommandWithHeadings):
        def first_page(self) -> tuple[Sequence[str], Sequence[str]]:
            return often_of(kind), _EXAMPLES.get(name, ())

    app.command(name=name, cls=Page, rich_help_panel=heading)(takes(command, kind))


#: Names of all commands, in the order of their list.
_NAMES = (*BESIDE, "statistic", *_COMMANDS)
