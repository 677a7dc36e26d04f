"""The command of each statistic, made from the model of its options."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from types import NoneType
from typing import Annotated, Any, get_args, get_origin

import click
from pydantic.fields import FieldInfo

from counton.cli.command_class import (
    Decimal,
    SectionedOption,
    TwoPageCommand,
    WholeNumber,
)
from counton.cli.command_text import CommandActions, command_words, example_lines
from counton.job.common_options import Job
from counton.job.messages import choices_of, parse_options
from counton.job.option_fields import FILE_ONLY, OFTEN, has_mark, section_of
from counton.job.statistics import model_of

_OTHER = "Other options"
#: Most characters of the words that an option may be, before its description.
_LONGEST_CHOICES = 15
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
    >>> command.main(["visits.csv", "--time", "at", "--windows", "8,760"], standalone_mode=False)
    CountJob(time='at', windows=8760, state='visits.counton.db')
    """
    model = model_of(statistic)

    def run(
        *, events: tuple[str, ...], plan: bool, save_job: Path | None, json: bool, **values: Any
    ) -> None:
        options = {name: value for name, value in values.items() if value is not None}
        options["events"] = events[0] if len(events) == 1 else list(events)
        if "state" not in options:
            from counton.run.new_job.default_paths import state_beside

            options["state"] = state_beside(options["events"], append=options["append"])
        perform(parse_options(model, options), CommandActions(plan, save_job, json))

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
                f"--{key} is an option of job files alone: let --plan --save-job nightly.toml "
                f"write this command into a file, add a line {key} = ... to its job, and run "
                "counton run nightly.toml",
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
        if name not in ("statistic", "events") and not has_mark(field, FILE_ONLY)
    ]
    plan = SectionedOption(
        ["--plan"],
        section=_OTHER,
        is_flag=True,
        is_in_short_help=True,
        help="Show the privacy loss, the tables and their errors; release nothing.",
    )
    save = SectionedOption(
        ["--save-job"],
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
    return has_mark(field, OFTEN) or name in model.needs or is_in_example


def _form_of(model: type[Job], name: str, field: FieldInfo) -> dict[str, object]:
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


def _plain_types(field: FieldInfo) -> set[object]:
    """Return the plain types that an option takes, without their checks."""
    types: set[object] = set()
    waiting: list[object] = [field.annotation]
    while waiting:
        annotation = waiting.pop()
        if get_origin(annotation) is Annotated:
            waiting.append(get_args(annotation)[0])
        elif get_args(annotation):
            waiting.extend(get_args(annotation))
        else:
            types.add(annotation)
    return types - {NoneType}
