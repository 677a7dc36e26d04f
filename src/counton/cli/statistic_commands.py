"""The command of each statistic, made from the model of its options, with its two pages of help."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from types import NoneType
from typing import Annotated, Any, get_args, get_origin

import click
from pydantic.fields import FieldInfo

from counton.base.errors import hide_secrets
from counton.options.common_options import Job
from counton.options.messages import choices_of, parse_options
from counton.options.option_fields import FILE_ONLY, OFTEN, has_fact, section_of
from counton.options.statistics import all_models, model_of

#: Headings of the help, in their order.
HEADINGS = (
    "Time",
    "Statistic",
    "Groups",
    "People",
    "Guarantee",
    "Output",
    "State",
    "Rows",
    "Noise",
    "Other options",
)
_SHORT_HELP = "-h"
_LONG_HELP = "--help"
#: Key of click's context under which the wanted page of help stands.
_PAGE = "counton.cli.statistic_commands.page"
#: Options of every example.
_EXAMPLE = {
    "time": "time",
    "every": "1d",
    "start": "2024-03-01",
    "steps": "365",
    "epsilon": "1",
    "until": "newest",
}
#: Most characters in a line of an example.
_EXAMPLE_WIDTH = 74


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


class WholeNumber(click.ParamType[int]):
    """A whole number as people write it, such as 8,760."""

    name = "int"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        """Return the number."""
        try:
            return int(str(value).replace(",", "_"))
        except ValueError:
            self.fail(f"{value!r} is not a whole number; write it as in 8760", param, ctx)


class SectionedOption(click.Option):
    """An option with the heading of the help that lists it.

    Args:
        section: the heading.
        is_in_short_help: whether the short help shows it.
    """

    def __init__(
        self, *words: str, section: str, is_in_short_help: bool = False, **more: Any
    ) -> None:
        super().__init__(list(words), **more)
        self.section = section
        self.is_in_short_help = is_in_short_help


def statistic_command(statistic: str, perform: Perform) -> click.Command:
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
        add_help_option=False,
    )


def _parameters_of(model: type[Job]) -> list[click.Parameter]:
    """Return the argument and the options of a statistic's command, by heading."""
    options = [
        model_option(model, name)
        for name, field in model.model_fields.items()
        if name not in ("statistic", "events") and not has_fact(field, FILE_ONLY)
    ]
    options += _action_options()
    options.sort(key=lambda option: HEADINGS.index(option.section))
    return [click.Argument(["events"], nargs=-1, required=True), *options]


def _action_options() -> list[SectionedOption]:
    return [
        _other_option(
            "--plan",
            is_flag=True,
            is_in_short_help=True,
            help="Show the privacy loss, the tables and their errors; release nothing.",
        ),
        _other_option(
            "--save",
            type=click.Path(path_type=Path),
            help="Write these options into a job file for counton run, as in nightly.toml.",
        ),
        _other_option("--json", is_flag=True, help="Print one JSON object in place of text."),
        _page_option(_SHORT_HELP, "Show the options of most runs."),
        _page_option(_LONG_HELP, "Show all options."),
    ]


def _other_option(*words: str, **more: Any) -> SectionedOption:
    return SectionedOption(*words, section=HEADINGS[-1], **more)


def model_option(model: type[Job], name: str) -> SectionedOption:
    """Return the option of a command that states a field of a model.

    >>> model_option(model_of("count"), "until").opts
    ['--until']
    """
    field = model.model_fields[name]
    return SectionedOption(
        f"--{field.alias}",
        name,
        help=field.description,
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
        return {"type": float, "metavar": "NUMBER"}
    return {"type": str, "metavar": "|".join(choices_of(model, name)) or "TEXT"}


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


def _page_option(word: str, help: str) -> SectionedOption:
    def show(context: click.Context, _: click.Parameter, is_wanted: bool) -> None:
        if is_wanted:
            context.meta[_PAGE] = word
            click.echo(context.get_help())
            context.exit()

    return _other_option(
        word,
        word.strip("-"),
        is_flag=True,
        is_eager=True,
        expose_value=False,
        callback=show,
        help=help,
    )


def command_words() -> dict[str, str]:
    """Return how messages of commands call options: ``--out``, or ``metric =`` of job files alone.

    >>> command_words()["out"], command_words()["metric"]
    ('--out', 'metric =')
    """
    words: dict[str, str] = {}
    for model in all_models().values():
        for name, field in model.model_fields.items():
            is_in_files_only = has_fact(field, FILE_ONLY)
            words[name] = f"{field.alias} =" if is_in_files_only else f"--{field.alias}"
    words["events"] = "EVENTS"
    return words


class StatisticCommand(click.Command):
    """A command with two pages of help: options of most runs, and all options by heading."""

    def format_help(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the short page, or all options."""
        if ctx.meta.get(_PAGE) != _SHORT_HELP:
            super().format_help(ctx, formatter)
            return
        self.format_usage(ctx, formatter)
        formatter.write_paragraph()
        with formatter.indentation():
            formatter.write_text(self.help or "")
        lines = "".join(f"  {line}\n" for line in example_lines(str(self.name)))
        formatter.write(f"\nExample:\n{lines}")
        shown = [option for option in self.params if getattr(option, "is_in_short_help", False)]
        with formatter.section("Options of most runs"):
            formatter.write_dl([option.get_help_record(ctx) or ("", "") for option in shown])
        rest = len(self.params) - len(shown)
        formatter.write(f"\n{ctx.command_path} --help: these, and {rest} more\n")

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the options by heading."""
        for heading in HEADINGS:
            options = [
                option for option in self.params if getattr(option, "section", "") == heading
            ]
            if options:
                with formatter.section(heading):
                    formatter.write_dl(
                        [option.get_help_record(ctx) or ("", "") for option in options]
                    )

    def make_context(self, *words: Any, **more: Any) -> click.Context:
        """Parse the words of a command; errors show no password, and name options of job files."""
        try:
            return super().make_context(*words, **more)
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
        except click.UsageError as error:
            raise click.UsageError(hide_secrets(error.message), error.ctx) from None


def example_lines(statistic: str) -> list[str]:
    """Return an example of a statistic's command, in lines that fit a page."""
    options = {**model_of(statistic).example, **_EXAMPLE}
    return command_lines(f"counton {statistic} visits.csv", options)


def command_lines(command: str, options: dict[str, str]) -> list[str]:
    r"""Return a command with options as text to copy, with as many options on a line as fit.

    >>> command_lines("counton count visits.csv", {"by": "page", "domain": "page=home;a=b"})
    ["counton count visits.csv --by page --domain 'page=home;a=b'"]
    """
    lines = [command]
    for key, value in options.items():
        word = f"--{key} {shlex.quote(value)}"
        if len(lines[-1]) + len(word) > _EXAMPLE_WIDTH:
            lines[-1] += " \\"
            lines.append("   ")
        lines[-1] += f" {word}"
    return lines


def command_line(job: Job, command: str) -> str:
    """Return a job as a command to copy.

    >>> from counton.options.statistics import CountJob
    >>> job = CountJob(events="my visits.csv", by=["page", "day"], epsilon="0.5")
    >>> command_line(job, "counton count")
    "counton count 'my visits.csv' --epsilon 0.5 --by page,day"
    """
    options = job.stated_options()
    events = options.pop("events", ())
    several: Sequence[Any] = events if isinstance(events, list) else [events]
    words = [str(path) for path in several]
    for name, value in options.items():
        key = type(job).model_fields[name].alias
        words += [f"--{key}"] if value is True else [f"--{key}", _as_typed(value)]
    return f"{command} {shlex.join(words)}"


def _as_typed(value: Any) -> str:
    """Return a value as a person types it."""
    if isinstance(value, tuple):
        return ",".join(_as_typed(part) for part in value)
    if isinstance(value, Fraction):
        from counton.base.exact import text

        return text(value)
    return str(value)
