"""The command ``answer``: questions to what was released, in files, tables, states, services."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import polars as pl
from rich.console import Console

from counton.cli.export import table_of
from counton.cli.options import AnswerOptions
from counton.cli.printing import print_json, print_line, print_table
from counton.errors import InvalidInput, field
from counton.jobs.exports import released_in
from counton.jobs.reading import read
from counton.mechanisms.contrasts import Answer
from counton.results.choosing import groups_named, steps_between, steps_within
from counton.results.files import ADDRESSES, TABLES, is_database, promise_of
from counton.results.release import Release

#: Rows that the screen shows.
_ROWS = 40


def perform(options: AnswerOptions) -> None:
    """Read, answer and print.

    Raises:
        CountonError: see `counton.read` and `Released`.
    """
    released = _released(options)
    steps = _steps(options.steps, released)
    if options.start is not None or options.until is not None:
        steps = steps_within(released.definition, steps, options.start, options.until)
    asked = [
        name
        for name in ("difference", "ratio", "share", "sums")
        if getattr(options, name) is not None
    ]
    if len(asked) > 1:
        raise InvalidInput(
            f"{field(asked[0], getattr(options, asked[0]))} and "
            f"{field(asked[1], getattr(options, asked[1]))} are two questions: ask one at a time"
        )
    if not asked or options.sums is not None:
        chosen = options.steps or options.start or options.until
        found = released.only(steps) if chosen and not asked else released
        table = found.table() if options.sums is None else found.sums(options.sums)
        _print_table(table, released, options)
        return
    one = _answer(released, options, asked[0], steps)
    if options.json:
        numbers = {name: values[0].item() for name, values in one.table_columns().items()}
        print_json({**numbers, "about": promise_of(released)})
        return
    print_line(Console(), released.describe().split("\n")[0], bold=True)
    print_line(Console(), one.describe())


def _steps(given: str | None, released: Release) -> range:
    definition = released.definition
    windows = None if definition.cut is None else definition.windows
    return steps_between(given, released.steps.stop - 1, windows)


def _released(options: AnswerOptions) -> Release:
    if options.source.startswith(ADDRESSES):
        return read(options.source, name=options.name, level=options.level, token=options.token)
    if options.token is not None:
        raise InvalidInput(
            f"{field('token')} is for a service, and {options.source!r} is no address of one: "
            f"leave it out"
        )
    if (public := public_places(options.source)) is not None:
        return read(public, name=options.name, level=options.level)
    return released_in(options.source, options.name, level=options.level)


def public_places(source: str) -> list[str] | None:
    """What `counton.read` reads: tables, a published database, a service; None: it is a state.

    Raises:
        StateError: a database that cannot be read.
    """
    if source.startswith(ADDRESSES):
        return [source]
    if is_database(source):
        from counton.store.published import is_published

        return [source] if is_published(source) else None
    names = [source]
    if not Path(source).exists():
        names = [name.strip() for name in source.split(",")]
    return names if all(Path(name).suffix.lower() in TABLES for name in names) else None


def _answer(released: Release, options: AnswerOptions, asked: str, steps: range) -> Answer:
    """The one number that is asked for."""
    words = getattr(options, asked)
    named = groups_named(words, released.definition.groups)
    if asked == "share":
        return released.share(named if len(named) > 1 else named[0], steps=steps)
    if len(named) == 1 and options.other_steps is not None:
        named = [named[0], named[0]]
    if len(named) != 2:
        raise InvalidInput(
            f"{field(asked, words)} compares two groups: write A,B, or one group and "
            f"{field('other_steps')}, which compares two periods"
        )
    later = None
    if options.other_steps is not None:
        later = _steps(options.other_steps, released)
    if asked == "difference":
        return released.difference(named[0], named[1], steps=steps, other_steps=later)
    return released.ratio(named[0], named[1], steps=steps, other_steps=later)


def _print_table(table: pl.DataFrame, released: Release, options: AnswerOptions) -> None:
    if options.json:
        told = {"name": released.terms.name, "level": released.level}
        head = json.dumps({**told, "about": promise_of(released)})
        sys.stdout.write(f'{head[:-1]}, "rows": {table.write_json()}}}\n')
        return
    console = Console()
    print_line(console, released.describe())
    print_line(console, "")
    print_table(console, table_of(table.tail(_ROWS)))
    if table.height > _ROWS:
        print_line(console, f"the last {_ROWS} of {table.height:,} rows; all of them: --json")
