"""The commands ``statistic NAME``, one for each statistic, and the parsing of their words."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from functools import cache
from typing import Any

import typer
from typer.main import get_command

from counton.base.errors import CountonError, InvalidInput
from counton.cli.command_list import BESIDE
from counton.cli.command_options import (
    Printing,
    command_line,
    of_statistic,
    often_of,
    option_names,
    takes,
    words_of,
)
from counton.cli.help_pages import BARE, Commands, CommandWithHeadings, example_of
from counton.frame.options import MissingOptions
from counton.job.job import Job
from counton.job.stated_options import is_once
from counton.statistics.catalogue import keywords, statistic_named
from counton.statistics.statistic import named_values


@cache
def commands() -> typer.Typer:
    app = typer.Typer(
        name="statistic",
        cls=Commands,
        help="Release a statistic of events, step by step as they arrive.",
        no_args_is_help=True,
        **BARE,
    )

    @app.callback()
    def root() -> None:
        """Release a statistic of events, step by step as they arrive."""

    for name in keywords():
        if not statistic_named(name).additive:  # additive ones stand only beside ``statistic``
            command_of(app, name)
    return app


def perform(name: str, words: list[str]) -> None:
    """Run the command of a statistic at the top level, with the words after its name."""
    _alone(name)(words, prog_name=f"counton {name}")


@cache
def _alone(name: str) -> Any:
    app = typer.Typer(**BARE)
    command_of(app, name)
    return get_command(app)


#: Dataclasses of the options that a statistic's command has.
_KINDS = (Job, Printing)


class _Page(CommandWithHeadings):
    """The pages of help of a statistic's command, which are made when they are read."""

    def first_page(self) -> tuple[Sequence[str], Sequence[str]]:
        name = str(self.name)
        counted = statistic_named(name)
        shown = named_values(counted.example)
        own = [one.name for one in counted.options if one.needed or one.key in shown]
        return [*often_of(*_KINDS), *own], _example(name)

    def format_help_text(self, ctx: Any, formatter: Any) -> None:
        counted = statistic_named(str(self.name))
        own = {option.name: f"--{option.key}" for option in counted.options}
        more = InvalidInput(counted.help).translate(own | option_names(Job))
        self.help = f"{counted.says}\n\n{more}"
        super().format_help_text(ctx, formatter)


def command_of(app: typer.Typer, name: str) -> None:
    """Add the command of a statistic to a group of commands.

    An error about missing options lists them all, and shows a whole command to edit. Standard input
    can be read only once, so its errors stay as they are.
    """
    counted = statistic_named(name)

    def command(job: Job, out: Printing) -> None:
        from counton.cli.run_statistic import perform, save_as_asked

        try:
            if not out.plan:
                perform(job, out)
                return
            from counton.cli.job_plan_command import print_plan_of

            if out.save is not None:  # first: a line of it may make the rows readable
                save_as_asked(job, out.save)
            print_plan_of(job, as_json=out.json)
        except MissingOptions as error:
            if job.events in ("-", ["-"]):
                raise
            message = error.translate(words_of(*_KINDS))
            raise MissingOptions(  # noqa: B904
                _longer(message, name, job, out, error.names), error.names
            )

    command.__name__, command.__doc__ = name, counted.says
    taking = takes(command, *_KINDS, unneeded=_BESIDE_FILE, **of_statistic(name))
    app.command(name=name, cls=_Page)(taking)


#: A command may omit its state (`counton.run.default_state.state_beside`).
_BESIDE_FILE = {"state": None}


def _longer(message: str, name: str, job: Job, out: Printing, missing: Sequence[str]) -> str:
    """Extend the message about missing options of a job of the statistic ``name`` by the columns of
    its events, by an example of each option, and by a whole command to edit.

    Args:
        out: options of the command besides the job.
        missing: names of missing options.
    """
    from counton.run.first_job import look_at, with_examples

    counted, names = statistic_named(name), words_of(*_KINDS)
    if isinstance(job.events, list) and len(job.events) == 1:
        job = job.having(events=job.events[0])
    try:
        look = look_at(job)
    except (CountonError, OSError) as unread:
        why = unread.translate(names) if isinstance(unread, CountonError) else str(unread)
        return f"{why}\n{message}"
    needed, whole = with_examples(job, missing, look)
    where = ", ".join(map(str, job.events)) if isinstance(job.events, list) else job.events
    lines = [message]
    held = _streams_there(job)
    if same := [stream for stream, what in held.items() if what == name]:
        going_on = command_line(_command_words(name), job.having(name=same[0]), out)
        lines.append(f"{job.keeping.state} keeps stream {', '.join(same)}; to go on: {going_on}")
    lines.append(f"the columns of {where}: {', '.join(look.columns)}")
    lines += [InvalidInput(f"  {one}").translate(names) for one in needed]
    if counted.additive and job.people.user is None:
        period = "" if is_once(job) else " --per 1w"
        lines.append(
            f"single rows are protected; to protect people: --user COLUMN --most N{period}"
        )
    lines += ["as in:", command_line(_command_words(name), whole, out)]
    if counted.additive and not counted.options:  # like init's jobs
        lines.append("counton init writes a job file with these options to fill in")
    return "\n".join(lines)


def _streams_there(job: Job) -> dict[str, str | None]:
    """Return the statistic of each existing stream in a job's state (SQLite database), by the
    stream's name, because the user may have meant to continue one.
    """
    from counton.state import Store, state_file

    file = state_file(job.keeping.state)
    if file is None or not file.exists():
        return {}
    with Store(job.keeping.state) as store:
        return {stream: facts.get("what") for stream, facts in sorted(store.details.items())}


#: Options that every example has besides the statistic's own, for 365 windows of a day.
_DAYS = {
    "time": "time",
    "every": "1d",
    "start": "2024-03-01",
    "steps": "365",
    "epsilon": "1",
    "until": "newest",
}


def _command_words(name: str) -> str:
    """Return the words that name a statistic's command, such as "statistic top-k"."""
    return name if name in BESIDE else f"statistic {name}"


def _example(name: str) -> list[str]:
    """Return an example command for a statistic, after commands that make the files it needs."""
    counted = statistic_named(name)
    if not counted.example:
        return []
    options = {**named_values(counted.example), **_DAYS}
    command = example_of(f"counton {_command_words(name)} visits.csv", *options.items())
    if counted.example_file is None:
        return command
    file, text = counted.example_file
    written = text.replace("\n", r"\n")
    return [f"printf {shlex.quote(written)} \\", f"    > {file}", *command]
