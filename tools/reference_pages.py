"""Write the lists of options in the reference: ``python -m tools.reference_pages``.

Each page has text that a person wrote, and a part between two comments that this program writes
from the commands and from the models of `counton.job`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from pathlib import Path
from types import NoneType
from typing import Any, Literal, NamedTuple, get_args, get_origin

import click
from pydantic.fields import FieldInfo

from counton.cli.app import app
from counton.cli.command_class import HEADINGS, SectionedOption
from counton.cli.command_list import COMMANDS
from counton.cli.statistic_commands import statistic_command
from counton.job import values as v
from counton.job.job_file import PublishTable
from counton.job.option_fields import (
    FILE_ONLY,
    RUN_ONLY,
    OptionScope,
    Section,
    has_mark,
    scope_of,
    section_of,
)
from counton.job.statistics import STATISTIC_NAMES, model_of
from counton.serve.settings import ServiceTable

FOLDER = Path(__file__).parent.parent / "docs/reference"
BEGIN = "<!-- written by python -m tools.reference_pages: change the program's help instead -->\n"
END = "<!-- end of the written part -->\n"
_DEFAULT = " [default: "

#: One value of each key of a job file, as TOML.
EXAMPLES: Mapping[str, str] = {
    "allow-empty-windows": "true",
    "allowed-lateness": '"14d"',
    "ambiguous": '"earliest"',
    "append": "true",
    "ask": '"0-17,18-64"',
    "at-least": '"1,5,100"',
    "axis": '"visits"',
    "bad-rows": '"quarantine:bad.csv"',
    "bounds": '"0:100,0:20"',
    "cells": "60",
    "chart": '"visits.svg"',
    "columns": '"page,device"',
    "confidence-level": "0.9",
    "contribution-period": '"1d"',
    "count-column": '"passages"',
    "decimal": '","',
    "delta": "1e-6",
    "distinct-users": "true",
    "edges": '"0,15,60,180"',
    "epsilon": "1",
    "equal": "true",
    "event-name": '"loan"',
    "events": '"events/*.csv"',
    "every": '"1d"',
    "expected-rows": "100000",
    "expected-windows": "365",
    "expiration-delay": "1",
    "expiration-growth": "2",
    "expiring": "true",
    "format": '"csv"',
    "grid": "256",
    "group-by": '"page"',
    "groups": '["home", "shop"]',
    "key": '"command:vault read -field=key secret/counton"',
    "half-life": '"7d"',
    "label": '"age"',
    "last": '"7d,28d"',
    "levels": '"region,city"',
    "line": '"haar"',
    "lookback": '"7d"',
    "lower": "0",
    "margin-of-error": '"2%"',
    "max-bad-rows": "50",
    "max-contributions": "10",
    "max-contributions-per-window": "2",
    "max-corrections": "1",
    "max-empty-windows": "14",
    "metric": '"max"',
    "missing-values": '"drop"',
    "once-per-window": "true",
    "other-group": '"other"',
    "output": '"visits.csv"',
    "over": "7",
    "privacy-unit": '"visitor"',
    "query": '"SELECT time, page FROM visits WHERE time >= {since}"',
    "release-delay": '"6h"',
    "replace": "true",
    "resolution": "0.01",
    "retain": '"7d"',
    "rho": "0.5",
    "rollback-guard": '"/mnt/other/counton"',
    "room": "1000000",
    "row-id": '"ticket"',
    "separator": '";"',
    "series": '"per-window"',
    "shares": '"0.5,0.9"',
    "simple": "true",
    "solve-for": '"rho"',
    "source": '"City of Example"',
    "start": '"2024-03-01"',
    "state": '"visits.db"',
    "statistics": '"numbers.toml"',
    "strategy": '"least-squares"',
    "stream": '"visits"',
    "target": '"region=10,city=5"',
    "time": '"time"',
    "time-format": '"%d.%m.%Y %H:%M"',
    "timezone": '"Europe/Berlin"',
    "title": '"Visits by day"',
    "top": "10",
    "unlisted-groups": '"drop"',
    "until": '"latest-event"',
    "upper": "600",
    "upstream-max-contributions": "5",
    "user": '"visitor"',
    "value": '"seconds"',
    "width": "4",
    "windows": "365",
    "workload": '"prefixes"',
}
#: What a value is, in words, and which values are allowed.
_TYPES: tuple[tuple[Any, str, str], ...] = (
    (v.Column, "text", "the name of a column"),
    (v.Columns, "text or list", "names of columns"),
    (v.Text, "text", ""),
    (v.Lengths, "text or list", "whole numbers and units, as in `7d`"),
    (v.Length, "text", "a whole number and a unit: `s`, `m`, `h`, `d`, `w` or `mo`"),
    (v.Delay, "text", "a whole number and a unit: `s`, `m`, `h` or `d`"),
    (v.Moment, "text or date", "ISO 8601"),
    (v.Positive, "whole number", "from 1"),
    (v.NotNegative, "whole number", "from 0"),
    (v.MostEvents, "whole number", "from 1 to 1,000,000"),
    (v.Size, "number", "above 0"),
    (v.Share, "number", "between 0 and 1"),
    (v.RowNumber, "whole number", "from 1 to 2^60"),
    (v.Unit, "text", ""),
    (v.Timezone, "text", "a name of the IANA time zone database"),
    (v.Exact, "number", "any; a text such as `1/3` is exact"),
    (v.Loss, "number", "above 0"),
    (v.Delta, "number", "between 0 and 1"),
    (v.HalfWidth, "number, text or table", "above 0, or a percentage; of each measure in a table"),
    (v.Numbers, "text or list", "numbers"),
    (v.WholeNumbers, "text or list", "whole numbers"),
    (v.NumbersByName, "text or table", "a number above 0 for each name"),
    (v.File, "text", "a path"),
    (v.KeySource, "text", "a path, `env:NAME` or `command:WORDS`"),
    (v.RollbackGuard, "text", "a path, or `none`"),
    (v.BadRows, "text", "`fail` or `quarantine:FILE`"),
    (v.StrategyName, "text", "a name of the list above, or a path"),
    (v.TimeFormat, "text", "a name of the list above, or a strftime format"),
    (v.Domain, "text, list or table", "a path, names, or the names of each column in a table"),
    (v.Events, "text or list", "paths, patterns, or `-`"),
    (bool, "boolean", "`true` or `false`"),
)
#: The type of the statistics of a report, the only one that `_TYPES` does not have.
OTHER_TYPE = ("text or table", "a path, or the options of each statistic by its name")
_SCOPES = {
    OptionScope.STREAM: "defines the stream, and cannot change later",
    OptionScope.REMEMBERED: "is remembered, and may change",
    OptionScope.OUTPUT: "is remembered, and may change together with all other outputs",
    OptionScope.EACH_RUN: "holds for one run",
}


class Variant(NamedTuple):
    """One meaning of a key, and the statistics that use it so."""

    model: type[Section]
    name: str
    statistics: list[str]

    @property
    def field(self) -> FieldInfo:
        """The field of the model."""
        return self.model.model_fields[self.name]


# -------------------------------------------------------------------------------------- job file
def job_file_part() -> str:
    """Return the list of all keys of a job file, by heading."""
    variants: dict[str, list[Variant]] = {}
    for statistic in STATISTIC_NAMES:
        model = model_of(statistic)
        for name, field in model.model_fields.items():
            if name != "statistic":
                same_key = variants.setdefault(str(field.alias or name), [])
                _add_variant(same_key, model, name, statistic)
    parts = []
    for heading in ("Events", *HEADINGS):
        keys = [key for key, of_key in variants.items() if _heading_of(of_key[0]) == heading]
        if keys:
            parts.append(f"## {heading.removesuffix('s')} options\n")
            parts += [_entry(key, variants[key]) for key in keys]
    parts.append("## Table [publish]\n")
    parts += _table_entries(PublishTable)
    parts.append("## Table [serve]\n")
    parts += _table_entries(ServiceTable)
    return "\n".join(parts)


def _add_variant(variants: list[Variant], model: type[Section], name: str, statistic: str) -> None:
    """Add a statistic to the variant with the same meaning, or add a new variant."""
    new = Variant(model, name, [statistic])
    for variant in variants:
        is_same = variant.field.description == new.field.description
        if is_same and choices_text(variant.field) == choices_text(new.field):
            variant.statistics.append(statistic)
            return
    variants.append(new)


def _heading_of(variant: Variant) -> str:
    if variant.name == "events":
        return "Events"
    return section_of(variant.model, variant.name).heading


def _entry(key: str, variants: list[Variant]) -> str:
    """Return the entry of a key: its meaning, type, values, default, example and statistics."""
    first, *others = sorted(variants, key=lambda variant: -len(variant.statistics))
    field = first.field
    meaning, default = split_default(str(field.description))
    lines = [f"### {key}\n", f"{_sentence(meaning)}\n"]
    has_other_choices = False
    for other in others:
        other_meaning, other_default = split_default(str(other.field.description))
        default_text = f" Default: {_code(other_default)}." if other_default else ""
        choices = choices_text(other.field)
        allowed_text = f" Allowed: {choices}." if choices != choices_text(field) else ""
        has_other_choices = has_other_choices or bool(allowed_text)
        for_these = f"For {_listed(other.statistics)}: {_sentence(other_meaning)}"
        lines.append(f"{for_these}{allowed_text}{default_text}\n")
    type_words, allowed = type_in_words(field)
    lines.append(f"- Type: {type_words}")
    if allowed:
        others_text = " for other statistics" if has_other_choices else ""
        lines.append(f"- Allowed{others_text}: {allowed}")
    lines.append(f"- Default: {_default_in_words(field, default)}")
    assert key in EXAMPLES, f"give {key!r} an example in tools/reference_pages.py"
    lines.append(f"- Example: `{key} = {EXAMPLES[key]}`")
    lines.append(f"- Statistics: {_statistics_in_words(variants)}")
    lines.append(f"- Scope: {_SCOPES[scope_of(first.model, first.name)]}")
    where = _where(field)
    if where:
        lines.append(f"- Available: {where}")
    return "\n".join(lines) + "\n"


def _table_entries(model: type[Section]) -> list[str]:
    entries = []
    for name, field in model.model_fields.items():
        meaning, default = split_default(str(field.description))
        shown = default or (str(field.default) if field.default is not None else "none")
        shown = "false" if field.default is False else shown
        entries.append(f"- `{field.alias or name}`: {_sentence(meaning)} Default: {_code(shown)}.")
    return ["\n".join(entries) + "\n"]


def split_default(description: str) -> tuple[str, str]:
    """Split the help of an option into its meaning and its default, which may be empty.

    >>> split_default("Which numbers to publish. [default: cumulative]")
    ('Which numbers to publish.', 'cumulative')
    """
    meaning, _, default = description.partition(_DEFAULT)
    return meaning, default.removesuffix("]")


def type_in_words(field: FieldInfo) -> tuple[str, str]:
    """Return the type of an option in words, and its allowed values.

    >>> type_in_words(model_of("count").model_fields["windows"])
    ('whole number', 'from 1')
    """
    choices = choices_text(field)
    if choices:
        return "text", choices
    for annotation in _annotations(field):
        for listed_type, words, allowed in _TYPES:
            if annotation == listed_type:
                return words, allowed
    return OTHER_TYPE


def choices_text(field: FieldInfo) -> str:
    """Return the words that an option may be; empty if it takes any."""
    for annotation in _annotations(field):
        if get_origin(annotation) is Literal:
            *before, last = (f"`{choice}`" for choice in get_args(annotation))
            return f"{', '.join(before)} or {last}"
    return ""


def _annotations(field: FieldInfo) -> Iterator[Any]:
    """Yield the types that an option takes, each with its checks."""
    if field.metadata:
        yield field.annotation
    parts = get_args(field.annotation)
    if get_origin(field.annotation) is Literal or not parts:
        yield field.annotation
        return
    for part in parts:
        if part is not NoneType:
            yield part


def _default_in_words(field: FieldInfo, default: str) -> str:
    if default:
        return _code(default)
    return "`false`" if field.default is False else "none"


def _code(default: str) -> str:
    """Return a default as code if it is one word, and as text otherwise.

    >>> _code("0.95"), _code("event or user")
    ('`0.95`', 'event or user')
    """
    return default if " " in default or default == "none" else f"`{default}`"


def _sentence(text: str) -> str:
    """Return a text that ends like a sentence."""
    return text if text.endswith((".", "]")) else f"{text}."


def _listed(statistics: Iterable[str]) -> str:
    return ", ".join(f"`{name}`" for name in statistics)


def _statistics_in_words(variants: list[Variant]) -> str:
    names = {name for variant in variants for name in variant.statistics}
    if names == {*STATISTIC_NAMES}:
        return "all"
    without = [name for name in STATISTIC_NAMES if name not in names]
    if len(without) <= len(STATISTIC_NAMES) // 3:
        return f"all but {_listed(without)}"
    return _listed(name for name in STATISTIC_NAMES if name in names)


def _where(field: FieldInfo) -> str:
    """Return where an option can be stated, if not everywhere."""
    parts = []
    if has_mark(field, FILE_ONLY):
        parts.append("in job files and Python only")
    if has_mark(field, RUN_ONLY):
        parts.append("not for `counton serve`")
    return "; ".join(parts)


# -------------------------------------------------------------------------------------- commands
def command_part(name: str) -> str:
    """Return the usage, the arguments and the options of a command, as its help has them."""
    if name == "release":
        return _release_part()
    context = click.Context(app, info_name="counton")
    command = app.get_command(context, name)
    assert command is not None
    context = click.Context(command, info_name=name, parent=context)
    usage = " ".join(command.collect_usage_pieces(context))
    lines = [f"```text\ncounton {name} {usage}\n```\n"]
    arguments = [one for one in command.params if isinstance(one, click.Argument)]
    options = [one for one in command.params if not isinstance(one, click.Argument)]
    if arguments:
        lines += ["## Arguments\n", _list_of(arguments, context)]
    lines += ["## Options\n", _list_of(options, context)]
    return "\n".join(lines)


def _release_part() -> str:
    """Return the options of most statistics by heading, and then those of single statistics."""
    records: dict[str, dict[tuple[str, str], str]] = {}
    for name in STATISTIC_NAMES:
        command = statistic_command(name)
        records[name] = dict(_records(command, click.Context(command, info_name=name)))
    shared: dict[tuple[str, str], str] = {}
    for options in records.values():
        for record, heading in options.items():
            users = [name for name in records if record in records[name]]
            if len(users) > len(records) // 2:
                shared.setdefault(record, heading)
    lines = ["```text\ncounton release STATISTIC [OPTIONS] EVENTS...\n```\n", "## Statistics\n"]
    lines += [f"- [`{name}`](#{name}): {model_of(name).summary}" for name in STATISTIC_NAMES]
    lines.append("")
    for heading in HEADINGS:
        under = [record for record in shared if shared[record] == heading]
        if under:
            lines.append(f"## {heading}\n")
            lines.append(_bullets(_with_exceptions(record, records) for record in under))
    lines.append("## Options of single statistics\n")
    for name in STATISTIC_NAMES:
        own = [record for record in records[name] if record not in shared]
        lines += [f"### {name}\n", _bullets(own) or "No other options.\n"]
    return "\n".join(lines)


def _with_exceptions(
    record: tuple[str, str], records: Mapping[str, Mapping[tuple[str, str], str]]
) -> tuple[str, str]:
    """Return the help of an option, with the statistics that do not have it so."""
    without = [name for name in records if record not in records[name]]
    words, text = record
    return (words, f"{text} (Not for {', '.join(without)}.)") if without else record


def _records(
    command: click.Command, context: click.Context
) -> Iterator[tuple[tuple[str, str], str]]:
    """Yield the help of each option, and its heading."""
    for option in command.params:
        if isinstance(option, SectionedOption):
            record = option.get_help_record(context)
            if record is not None:
                yield record, option.section


def _list_of(parameters: Iterable[click.Parameter], context: click.Context) -> str:
    records = [parameter.get_help_record(context) for parameter in parameters]
    return _bullets(record for record in records if record is not None)


def _bullets(records: Iterable[tuple[str, str]]) -> str:
    return "".join(f"- `{words}`: {_plain(text)}\n" for words, text in records)


def _plain(text: str) -> str:
    """Return help as Markdown shows it: square brackets make no link, and stars no emphasis."""
    return " ".join(text.split()).replace("[", "\\[").replace("*", "\\*").replace("<", "&lt;")


# ----------------------------------------------------------------------------------------- pages
def parts() -> dict[Path, Callable[[], str]]:
    """Return the function that makes the written part of each page."""
    pages: dict[Path, Callable[[], str]] = {FOLDER / "job-file.md": job_file_part}
    for name in COMMANDS:
        pages[FOLDER / "commands" / f"{name}.md"] = partial(command_part, name)
    return pages


def renewed(page: Path, part: str) -> str:
    """Return the text that a page must have: its own, with a new written part."""
    text = page.read_text("utf-8")
    before, begin, rest = text.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not begin or not end:
        raise ValueError(f"{page} has no written part; put these lines into it:\n{BEGIN}{END}")
    return f"{before}{BEGIN}\n{part}\n{END}{after}"


if __name__ == "__main__":
    for page, make_part in parts().items():
        page.write_text(renewed(page, make_part()), "utf-8")
