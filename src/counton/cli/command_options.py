"""Options of the command line: fields of dataclasses, with defaults. Each is stated once.

The docstring of a command's dataclass is its help. Code below the command line knows fields, not
options; here errors that name fields are translated to options.
"""

from __future__ import annotations

import inspect
import shlex
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import typer

from counton.cli.command_list import BESIDE
from counton.cli.exits import explain_errors
from counton.frame.options import Option, check_text
from counton.job.job import Job, OptionRecord, fields_of, option, options_of

_WIDTH = 94
JSON = "print one JSON object instead of text"
ENDINGS = ".parquet, .csv or .json"


def whole_number(text: str) -> int:
    """Parse an integer as people write it, such as "8,760"; refuse other text with its value in the
    message.
    """
    try:
        return int(str(text).replace(",", "_"))  # a default is a number already
    except ValueError as error:
        raise typer.BadParameter(f"{text!r} is not a whole number; write it as in 8760") from error


def fraction(text: str) -> float:
    try:
        return float(text)
    except ValueError as error:
        raise typer.BadParameter(f"{text!r} is not a number; write it as in 0.95") from error


def argument(help: str, default: Any = ..., **more: Any) -> Any:
    """Define a field of a dataclass that a command takes by position, without a name."""
    return option(help, default=default, argument=True, **more)


def of_job(name: str) -> Any:
    """Define a field of a dataclass of options, with the default and the help that the option
    ``name`` has in `Job`.
    """
    item = options_of(Job)[name]
    return option(item.help, item.word, default=item.default, often=item.often)


class JobWords(OptionRecord):
    """Base class for the options of a command that takes only some of a job's options.

    Messages of errors in such a command may still name every option of a job.
    """


@dataclass(frozen=True)
class Printing:
    """Options for the printed report of a run, for saving the job in a file, and for printing a
    plan instead of a run.
    """

    plan: bool = option(
        "show what would be spent and published, and how large errors would be; release nothing",
        default=False,
        often=True,
    )
    save: Path | None = option(
        "write these options into a job file, for counton run, as in nightly.toml"
    )
    json: bool = option(JSON, default=False)


#: Names in messages that stand for commands, not for options.
_COMMANDS = {
    "end_stream(state, name)": "counton end STATE --name NAME",
    "accept_old_copy": "counton verify --accept-old-copy",
}
#: The same for the statistic of a job: some statistics are commands of their own.
_STATISTICS = {
    "what": "counton statistic",
    **{f"what={name}": f"counton {name}" for name in BESIDE},
}
_PARSERS: dict[str, Callable[[str], Any]] = {"whole": whole_number, "number": fraction}


def takes(
    perform: Callable[..., None],
    *kinds: type,
    own: Sequence[Option] = (),
    unneeded: Mapping[str, Any] | None = None,
    **fixed: Any,
) -> Callable[..., None]:
    """Return a typer command that calls a function of dataclasses of options.

    Typer sees the fields of the dataclasses as parameters.

    Args:
        kinds: one dataclass for each argument of the function.
        own: options that only one statistic has; they are added to those of `Job`.
        unneeded: fields that are required elsewhere but not by this command, with their default
            values.
        fixed: values of fields that are no options of this command.

    >>> @dataclass(frozen=True)
    ... class Options:
    ...     events: str = argument("a file")
    ...     append: bool = option("the file holds new events only", default=False)
    >>> command = takes(print, Options)
    >>> command(events="visits.csv", append=True)
    Options(events='visits.csv', append=True)
    """
    stated: dict[str, Option] = {}
    for kind in kinds:
        for name, entry in options_of(kind).items():
            if entry.in_file:
                continue
            if unneeded is not None and name in unneeded:
                entry = entry._replace(needed=False, default=unneeded[name])
            stated[name] = entry
            if kind is Job and name == "state":
                # A later run may leave out options that define its statistic.
                stated |= {one.name: one._replace(needed=False, default=None) for one in own}
    parameters = [
        inspect.Parameter(
            name,
            inspect.Parameter.KEYWORD_ONLY,
            default=inspect.Parameter.empty if entry.needed else entry.default,
            annotation=_parameter_of(entry),
        )
        for name, entry in stated.items()
        if name not in fixed
    ]
    own_names = {option.name for option in own}

    def command(**given: Any) -> None:
        given |= fixed
        with explain_errors(partial(words_of, *kinds)):
            for name, value in given.items():
                for one in value if isinstance(value, list) else [value]:
                    check_text(name, str(one))
            values = []
            for kind in kinds:
                wanted = {item.name for _, item in fields_of(kind)}
                wanted |= own_names if kind is Job else set()
                if kind is Job and given["state"] is None:
                    from counton.run.default_state import state_beside

                    given["state"] = state_beside(given["events"], append=given["append"])
                values.append(kind(**{name: given[name] for name in given if name in wanted}))
            perform(*values)

    command.__name__, command.__doc__ = perform.__name__, perform.__doc__
    command.__annotations__ = {field.name: field.annotation for field in parameters}
    command.__signature__ = inspect.Signature(  # type: ignore[attr-defined]
        parameters, return_annotation=None
    )
    return command


def words_of(*kinds: type) -> Mapping[str, str]:
    """Map the names of fields in error messages to options on the command line, such as ``out`` to
    ``--out``.

    Args:
        kinds: dataclasses of the command's options.
    """
    found = option_names(*kinds)
    if any(kind is Job or issubclass(kind, JobWords) for kind in kinds):
        from counton.job.stated_options import all_options

        known = {**all_options(), **options_of(Job)}
        found = {name: _word(item) for name, item in known.items()} | found
    return found


def _word(item: Option) -> str:
    """Return what messages of commands call an option: ``--out``, or, for one that only job files
    state, ``comment =``.
    """
    return f"{item.key} =" if item.in_file else f"--{item.key}"


def of_statistic(name: str) -> dict[str, Any]:
    """Return keyword arguments of `takes` for the command of a statistic.

    ``own`` has the options that only this statistic has. ``what`` is the statistic's name. The
    other arguments fix general options that this statistic does not have at their default values.

    >>> [option.key for option in of_statistic("count")["own"]], of_statistic("count")["what"]
    (['counts'], 'count')
    """
    from counton.statistics.catalogue import statistic_named

    of = statistic_named(name)
    defaults = {one: option.default for one, option in options_of(Job).items()}
    gone = {one: defaults[one] for one in _OF_READINGS if one not in of.shows}
    return {"own": of.options, "what": name, **gone}


#: Options for views of released numbers, which only some statistics have.
_OF_READINGS = ("shares", "ask", "over")


def often_of(*kinds: type) -> list[str]:
    """Return the fields of dataclasses whose options the short help (``-h``) shows, because they
    are often used.

    >>> often_of(Job)[:3]
    ['events', 'state', 'time']
    """
    return [one.name for kind in kinds for one in options_of(kind).values() if one.often]


def option_names(*kinds: type) -> dict[str, str]:
    """Map each field of some dataclasses to its option on the command line, such as ``--out``.

    >>> option_names(Job)["start"]
    '--start'
    """
    commands = _COMMANDS | (_STATISTICS if Job in kinds else {})
    return commands | {
        name: name.upper() if item.argument else _word(item)
        for kind in kinds
        for name, item in options_of(kind).items()
    }


def command_line(command: str, *values: Any) -> str:
    r"""Return a command with options as text to copy, in lines that fit a page.

    Args:
        values: dataclasses whose stated fields become the options.

    >>> from counton.cli.keep_options import LedgerOptions
    >>> ledger = LedgerOptions("my visits.db", epsilon="2", age=24)
    >>> print(command_line("ledger", ledger))
    counton ledger 'my visits.db' --limit-epsilon 2 --limit-age 24
    """
    words = []
    for given in values:
        kind: type = type(given)
        names = option_names(kind)
        read = given.option if isinstance(given, Job) else partial(getattr, given)
        known = {name: item for name, item in options_of(kind).items() if not item.in_file}
        stated = [(name, read(name), item.default) for name, item in known.items()]
        if isinstance(given, Job):
            names |= {name: f"--{name.replace('_', '-')}" for name in given.options}
            stated += [(name, value, None) for name, value in given.options.items()]
            usual = given.having(name="").keeping.name
            stated = [one for one in stated if one[:2] != ("name", usual)]
        for name, value, default in stated:
            if value is True:
                words.append(names[name])
            elif names[name].startswith("--") and value != default:
                words.append(f"{names[name]} {shlex.quote(str(value))}")
            elif not names[name].startswith("--"):
                given_values = value if isinstance(value, list) else [value]
                words[:0] = [shlex.quote(str(one)) for one in given_values]
    lines = [f"counton {command}"]
    for place, word in enumerate(words):
        if place and len(lines[-1]) + len(word) > _WIDTH:
            lines.append("     ")
        lines[-1] += f" {word}"
    return " \\\n".join(lines)


#: Types of values for the command line, by kind.
_TYPES: dict[str, Any] = {
    "text": str | None,
    "texts": list[str] | None,
    "whole": int | None,
    "number": float | None,
    "flag": bool,
    "path": Path | None,
}


def _parameter_of(item: Option) -> Any:
    """Return the typer annotation of an option. A flag gets no second name, such as ``--no-json``,
    for false.
    """
    given: Any = _TYPES[item.kind]
    if item.kind == "text" and (item.needed or isinstance(item.default, str)):
        given = str
    if item.kind == "texts" or (item.argument and item.several):
        given = list[str]
    parser = _PARSERS.get(item.kind)
    if item.argument:
        return Annotated[given, typer.Argument(help=item.help)]
    heading = item.heading or None
    parameter = typer.Option(
        f"--{item.key}", help=item.help, rich_help_panel=heading, parser=parser
    )
    return Annotated[given, parameter]
