"""The command of each statistic, made from the model of its options."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cache
from pathlib import Path
from types import NoneType
from typing import Annotated, Any, get_args, get_origin

import click
from pydantic.fields import FieldInfo

from counton.base.errors import hide_secrets
from counton.cli.command_class import (
    COMMAND_WORDS,
    Decimal,
    SectionedOption,
    TwoPageCommand,
    WholeNumber,
)
from counton.cli.command_list import STATISTICS_AT_TOP
from counton.options.common_options import Job
from counton.options.messages import choices_of, parse_options
from counton.options.option_fields import FILE_ONLY, OFTEN, has_fact, section_of
from counton.options.statistics import all_models, model_of

_OTHER = "Other options"
#: Options of every example: 365 windows of a day.
_EXAMPLE = {
    "time": "time",
    "every": "1d",
    "start": "2024-03-01",
    "steps": "365",
    "epsilon": "1",
    "until": "newest",
}
#: Most characters of the words that an option may be, before its description.
_LONGEST_CHOICES = 15
#: Most characters in a line of an example.
_EXAMPLE_WIDTH = 74
#: Most characters in a line of a command to copy.
_COMMAND_WIDTH = 94


@dataclass(frozen=True)
class CommandActions:
    """What a command does besides the job, or in its place.

    Attributes:
        plan: show a plan, and release nothing.
        save: job file into which the options are written.
        json: print one JSON object.
    """

    plan: bool = False
    save: Path | None = None
    json: bool = False


#: Function that carries out a job.
Perform = Callable[[Job, CommandActions], None]


def _perform(job: Job, actions: CommandActions) -> None:
    from counton.cli.statistic_run import perform

    perform(job, actions)


def statistic_command(statistic: str, perform: Perform = _perform) -> click.Command:
    """Return the command of a statistic, which parses its words into a job.

    Args:
        statistic: name of the statistic.
        perform: function that carries out the job.

    >>> command = statistic_command("count", lambda job, actions: print(job))
    >>> command.main(["visits.csv", "--time", "at", "--steps", "8,760"], standalone_mode=False)
    CountJob(time='at', steps=8760, state='visits.counton.db')
    """
    model = model_of(statistic)

    def run(
        events: tuple[str, ...], plan: bool, save: Path | None, json: bool, **values: Any
    ) -> None:
        options = {name: value for name, value in values.items() if value is not None}
        options["events"] = events[0] if len(events) == 1 else list(events)
        if "state" not in options:
            from counton.runs.default_paths import state_beside

            options["state"] = state_beside(options["events"], append=options["append"])
        perform(parse_options(model, options), CommandActions(plan, save, json))

    return StatisticCommand(
        statistic,
        params=_parameters_of(model),
        callback=run,
        help=model.summary,
        example=example_lines(statistic),
    )


class StatisticCommand(TwoPageCommand):
    """The command of a statistic; messages name options of job files, too."""

    def words(self) -> Mapping[str, str]:
        """Return what messages call the options of all jobs."""
        return command_words()

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Parse the words of a command; say where an option stands that only job files have."""
        try:
            return super().parse_args(ctx, args)
        except click.NoSuchOption as error:
            key = error.option_name.removeprefix("--")
            keys = {field.alias for field in model_of(self.name).model_fields.values()}
            if key not in keys:
                raise
            raise click.UsageError(
                f"--{key} is an option of job files alone: let --plan --save nightly.toml write "
                f"this command into a file, add a line {key} = ... to its job, and run counton "
                "run nightly.toml",
                error.ctx,
            ) from None


# ---------------------------------------------------------------------------- options of a command
def _parameters_of(model: type[Job]) -> list[click.Parameter]:
    """Return the argument and the options of a statistic's command."""
    events = click.Argument(
        ["events"], nargs=-1, required=True, help=model.model_fields["events"].description
    )
    options = [
        model_option(model, name)
        for name, field in model.model_fields.items()
        if name not in ("statistic", "events") and not has_fact(field, FILE_ONLY)
    ]
    plan = SectionedOption(
        ["--plan"],
        section=_OTHER,
        is_flag=True,
        is_in_short_help=True,
        help="Show the privacy loss, the tables and their errors; release nothing.",
    )
    save = SectionedOption(
        ["--save"],
        section=_OTHER,
        type=click.Path(path_type=Path),
        help="Write these options into a job file for counton run, as in nightly.toml.",
    )
    json = SectionedOption(
        ["--json"], section=_OTHER, is_flag=True, help="Print one JSON object in place of text."
    )
    return [events, *options, plan, save, json]


def model_option(model: type[Job], name: str) -> SectionedOption:
    """Return the option of a command that states a field of a model.

    >>> model_option(model_of("count"), "until").opts
    ['--until']
    """
    field = model.model_fields[name]
    choices = "|".join(choices_of(model, name))
    description = str(field.description)
    if len(choices) > _LONGEST_CHOICES:
        description = f"{choices}: {description[0].lower()}{description[1:]}"
    return SectionedOption(
        [f"--{field.alias}", name],
        help=description,
        section=section_of(model, name).heading,
        is_in_short_help=_is_in_short_help(model, name, field),
        **_form_of(model, name, field),
    )


def _is_in_short_help(model: type[Job], name: str, field: FieldInfo) -> bool:
    is_in_example = field.alias in model.example
    return has_fact(field, OFTEN) or name in model.needs or is_in_example


def _form_of(model: type[Job], name: str, field: FieldInfo) -> dict[str, Any]:
    """Return the arguments of click that say which words an option takes."""
    types = _plain_types(field)
    if bool in types:
        return {"is_flag": True}
    if types == {int}:
        return {"type": WholeNumber(), "metavar": "N"}
    if types == {float}:
        return {"type": Decimal(), "metavar": "NUMBER"}
    choices = "|".join(choices_of(model, name))
    is_short = 0 < len(choices) <= _LONGEST_CHOICES
    return {"type": str, "metavar": choices if is_short else "TEXT"}


def _plain_types(field: FieldInfo) -> set[Any]:
    """Return the plain types that an option takes, without their checks."""
    types: set[Any] = set()
    waiting: list[Any] = [field.annotation]
    while waiting:
        annotation = waiting.pop()
        if get_origin(annotation) is Annotated:
            waiting.append(get_args(annotation)[0])
        elif get_args(annotation):
            waiting.extend(get_args(annotation))
        else:
            types.add(annotation)
    return types - {NoneType}


@cache
def command_words() -> Mapping[str, str]:
    """Return how messages of commands call options: ``--out``, or ``metric =`` of job files alone.

    >>> command_words()["out"], command_words()["metric"]
    ('--out', 'metric =')
    """
    words = dict(COMMAND_WORDS)
    for model in all_models().values():
        for name, field in model.model_fields.items():
            is_in_files_only = has_fact(field, FILE_ONLY)
            words[name] = f"{field.alias} =" if is_in_files_only else f"--{field.alias}"
    words["events"] = "EVENTS"
    words["save"] = "--save"
    return words


# ---------------------------------------------------------------------------- commands as text
def command_of(statistic: str) -> str:
    """Return the words of a statistic's command.

    >>> command_of("count"), command_of("top-k")
    ('counton count', 'counton statistic top-k')
    """
    group = "" if statistic in STATISTICS_AT_TOP else "statistic "
    return f"counton {group}{statistic}"


def example_lines(statistic: str) -> list[str]:
    """Return an example of a statistic's command, after a command that makes the file it needs."""
    model = model_of(statistic)
    lines = []
    if model.example_file is not None:
        path, text = model.example_file
        written = text.replace("\n", r"\n")
        lines = [f"printf {shlex.quote(written)} \\", f"    > {path}"]
    words = [
        f"--{key} {shlex.quote(value)}" for key, value in {**model.example, **_EXAMPLE}.items()
    ]
    return lines + _wrapped(f"{command_of(statistic)} visits.csv", words, _EXAMPLE_WIDTH)


def command_text(job: Job, actions: CommandActions | None = None) -> str:
    r"""Return a job as a command to copy, in lines that fit a page.

    >>> from counton.options.statistics import CountJob
    >>> job = CountJob(events="my visits.csv", by=["page", "day"], epsilon="0.5")
    >>> print(command_text(job, CommandActions(json=True)))
    counton count 'my visits.csv' --epsilon 0.5 --by page,day --json
    """
    actions = CommandActions() if actions is None else actions
    fields = type(job).model_fields
    options = job.stated_options()
    events = options.pop("events", ())
    paths: Sequence[Any] = events if isinstance(events, list) else [events]
    command = " ".join([command_of(job.statistic), *(shlex.quote(str(path)) for path in paths)])
    words = []
    for name, value in options.items():
        if has_fact(fields[name], FILE_ONLY):
            continue
        key = f"--{fields[name].alias}"
        words.append(key if value is True else f"{key} {shlex.quote(_as_typed(value))}")
    if actions.plan:
        words.append("--plan")
    if actions.save is not None:
        words.append(f"--save {shlex.quote(str(actions.save))}")
    if actions.json:
        words.append("--json")
    return hide_secrets("\n".join(_wrapped(command, words, _COMMAND_WIDTH)))


def _wrapped(command: str, words: Sequence[str], width: int) -> list[str]:
    """Return a command in lines that a shell takes as one, with as many words on a line as fit."""
    lines = [command]
    for word in words:
        if len(lines[-1]) + len(word) > width:
            lines[-1] += " \\"
            lines.append("   ")
        lines[-1] += f" {word}"
    return lines


def _as_typed(value: Any) -> str:
    """Return a value as a person types it."""
    if isinstance(value, tuple):
        return ",".join(_as_typed(part) for part in value)
    if isinstance(value, Mapping):
        has_lists = any(isinstance(part, tuple) for part in value.values())
        parts = [f"{name}={_as_typed(part)}" for name, part in value.items()]
        return (";" if has_lists else ",").join(parts)
    if isinstance(value, Fraction):
        from counton.base.exact import text

        return text(value)
    return str(value)
