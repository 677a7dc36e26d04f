"""The commands ``statistic ...``, one for each statistic, and statistics in words."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from functools import cache
from typing import TYPE_CHECKING, Any

import typer
from typer.main import get_command

from counton.base.errors import InvalidInput, field
from counton.cli.command_options import (
    BARE,
    REFUSED,
    Commands,
    CommandWithHeadings,
    OnceOptions,
    Printing,
    of_statistic,
    option_names,
    takes,
)
from counton.spec.job import Job, options_of
from counton.spec.stated_options import hint, statistic_class
from counton.statistics.catalogue import is_keyword, keywords

if TYPE_CHECKING:
    from counton.privacy import Guarantee
    from counton.statistics import Statistic


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
        if not statistic_class(name).additive:  # those stand beside it alone
            command_of(app, name, statistic_class(name).says)
    return app


def perform(name: str, words: list[str]) -> None:
    """Carry out the command of a statistic that stands beside ``statistic``."""
    _beside(name)(words, prog_name=f"counton {name}")


@cache
def _beside(name: str) -> Any:
    app = typer.Typer(**BARE)
    of = statistic_class(name)
    own = {option.name: f"--{option.key}" for option in of.options}
    more = InvalidInput(of.help).translate(own | option_names(Job))
    command_of(app, name, f"{of.says}\n\n{more}")
    return get_command(app)


def command_of(app: typer.Typer, name: str, says: str) -> None:
    """Add the command of a statistic to a group of commands."""
    command: Any
    if statistic_class(name).is_table:

        def command(job: Job, once: OnceOptions, out: Printing) -> None:
            from counton.cli.run_statistic import perform_table

            perform_table(job, out, once)

        kinds: tuple[type, ...] = (Job, OnceOptions, Printing)
    else:

        def command(job: Job, out: Printing) -> None:
            from counton.cli.run_statistic import perform

            perform(job, out)

        kinds = (Job, Printing)
    command.__name__, command.__doc__ = name, says
    app.command(name=name, cls=CommandWithHeadings)(takes(*kinds, **of_statistic(name))(command))


def parse_statistic(words: str) -> Statistic:
    """The statistic that words define, as they stand in its command.

    >>> parse_statistic("top-k --domain JFK,LGA --top 1").parameters
    {'groups': ['JFK', 'LGA'], 'k': 1}
    """
    return _parse_words("of", words, ())[0]


def planned_job(words: str) -> tuple[Statistic, int, Guarantee]:
    """The statistic, the number of steps and the guarantee that the words of a command state.

    Args:
        words: of a command, without the columns and the state: what they cost is asked.

    >>> statistic, steps, guarantee = planned_job("count --steps 366 --epsilon 1")
    >>> steps, str(guarantee)
    (366, 'pure differential privacy with epsilon = 1')
    """
    from counton.spec.job import guarantee_from

    words = words.removeprefix("statistic ")
    statistic, job = _parse_words("plan", words, ("steps", "epsilon", "delta", "rho"))
    guarantee = guarantee_from(job.epsilon, job.delta, job.rho)
    if job.steps is None or guarantee is None:
        raise InvalidInput(
            f"{field('plan', words)} lacks the number of windows or the guarantee; write it as in "
            f"'count --steps 366 --epsilon 1'"
        )
    return statistic, job.steps, guarantee


def _parse_words(option: str, words: str, more: Sequence[str]) -> tuple[Statistic, Job]:
    """The statistic that words define, and what they state besides."""
    try:
        name, *rest = shlex.split(words) or [""]
    except ValueError as error:
        raise InvalidInput(f"{field(option, words)} is not understood ({error})") from error
    if not is_keyword(name):
        raise InvalidInput(
            f"{field(option)} is {name!r}{hint(name)}; known are {', '.join(keywords())}, "
            f"each followed by the options that define it, as in 'distinct --changes 4'"
        )
    of = statistic_class(name)
    found: list[tuple[Statistic, Job]] = []
    keep = {*of.reads, "unit", "most", "first", *more}
    fixed: dict[str, Any] = {
        one: taken.default for one, taken in options_of(Job).items() if one not in keep
    }

    def command(job: Job) -> None:
        job = job.having(by="group") if "by" in of.reads else job
        found.append((of.from_job(job), job))

    app = typer.Typer(add_completion=False, rich_markup_mode=None)
    fixed |= {"what": name, "events": (), "state": ""}
    app.command(name=name, add_help_option=False)(takes(Job, own=of.options, **fixed)(command))
    try:
        app(rest, prog_name=name, standalone_mode=False)
    except REFUSED as error:
        said = error.format_message()
        raise InvalidInput(f"{field(option, words)} is not understood: {said}") from error
    return found[0]
