"""The command ``answer``: questions to what was released, in files, tables, states, services."""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import polars as pl

from counton.base.errors import InvalidInput, field
from counton.cli.command_options import AnswerOptions
from counton.cli.print_forms import Console, print_json
from counton.numbers.contrasts import Answer
from counton.numbers.joint import jointly
from counton.released.figures import AVERAGES, figure_of_answers, figure_of_pattern
from counton.released.periods import groups_named
from counton.released.release import Release
from counton.released.release_facts import promise_of
from counton.released.release_files import ADDRESSES
from counton.run.exports import released_in
from counton.run.read_back import read_public
from counton.run.written_files import PICTURES, draw_release, write_figure

#: Questions with one number for an answer.
_QUESTIONS = ("difference", "ratio", "change", "share", "total")
#: Questions with rows for an answer, and one of groups that nobody declared.
_TABLES = ("sums", "by", "changes", "band", "hidden")
#: Tables that have a chart.
_DRAWABLE = (["changes"], ["by"], ["band"])
#: Changes that a chart shows.
_DRAWN = 20
#: Rows that the screen shows.
_ROWS = 40


def perform(options: AnswerOptions) -> None:
    """Read, answer and print."""
    released = _read_release(options, options.source, options.name)
    if options.part is not None:
        released = released.part(options.part)
    steps = released.steps_named(options.steps, options.start, options.until)
    asked = [(name, words) for name in _QUESTIONS for words in getattr(options, name) or ()]
    tables = [name for name in _TABLES if getattr(options, name)]
    if len(tables) + bool(asked) > 1:
        one, other = [*dict(asked), *tables][0], tables[-1]
        raise InvalidInput(
            f"{field(one, getattr(options, one))} and {field(other, getattr(options, other))} are "
            f"two questions: ask one at a time"
        )
    if options.plot is not None and not asked and tables not in _DRAWABLE:
        raise InvalidInput(
            f"{field('plot', str(options.plot))} draws answers: ask for a difference, a ratio, a "
            f"share, a total, the largest change, {field('by')} or {field('band')}; counton export "
            f"{options.source} draws what was released"
        )
    if options.plot is not None and options.plot.suffix.lower() not in PICTURES:
        raise InvalidInput(
            f"{field('plot', str(options.plot))} is no chart; name a {', '.join(PICTURES)}"
        )
    if not asked and tables != ["hidden"]:
        table = _table(released, options, steps)
        if options.plot is not None:
            _draw(table, released, options, steps)
        _print_table(table, released, options)
        return
    answers = [_answer(released, options, name, words, steps) for name, words in asked]
    if len(answers) > 1:
        answers = jointly(answers)
    if not asked:
        answers = [released.most_of_hidden()]
    if options.plot is not None:
        _draw(answers, released, options, steps)
    if options.json:
        about = {"about": promise_of(released)}
        numbers = [_numbers(one) for one in answers]
        print_json({**numbers[0], **about} if len(answers) == 1 else {"answers": numbers, **about})
        return
    Console().write_line(released.describe().split("\n")[0], bold=True)
    for each in answers:
        Console().write_line(each.describe())
    if len(answers) > 1:
        level = f"{100 * released.level:g}%"
        text = f"All {len(answers)} intervals hold together with probability {level}."
        Console().write_line(text)


def _draw(
    found: Sequence[Answer] | pl.DataFrame, released: Release, options: AnswerOptions, steps: range
) -> None:
    """Write a chart of answers, or of the rows that were asked for."""
    assert options.plot is not None
    if options.band:
        draw_release(released.only(steps).with_band(), options.plot)
        return
    other = None
    if options.other_steps is not None and options.beside is None:
        other = released.steps_named(options.other_steps)
    asked = [name for name in (*_QUESTIONS, "changes", "hidden") if getattr(options, name)]
    if options.changes and isinstance(found, pl.DataFrame):
        rows = found.head(_DRAWN).drop("sure").rows()
        found = [
            Answer(value, std, low, high, released.level, name)
            for name, value, std, low, high in rows
        ]
    figure = (
        figure_of_pattern(released, found, str(options.by), steps)
        if isinstance(found, pl.DataFrame)
        else figure_of_answers(released, found, asked, steps, other)
    )
    write_figure(figure, options.plot)


def _table(released: Release, options: AnswerOptions, steps: range) -> pl.DataFrame:
    if options.sums is not None:
        return released.sums(options.sums)
    if options.changes:
        if options.other_steps is None:
            raise InvalidInput(
                f"{field('changes', True)} is from some steps to others: give "
                f"{field('other_steps')}, the earlier ones, too"
            )
        return released.changes(steps, options.other_steps, of=options.of)
    chosen = options.steps or options.start or options.until
    found = released.only(steps) if chosen else released
    if options.by is not None:
        return found.pattern(options.by)
    return found.band() if options.band else found.table()


def _numbers(one: Answer) -> dict[str, Any]:
    """An answer as JSON values; null for numbers that JSON does not have."""
    numbers = {name: values[0].item() for name, values in one.table_columns().items()}
    return {
        name: None if isinstance(value, float) and not math.isfinite(value) else value
        for name, value in numbers.items()
    }


def _read_release(options: AnswerOptions, source: str, name: str | None) -> Release:
    token, like = options.token, options.like if source == options.source else None
    if token is not None and source == options.source and not source.startswith(ADDRESSES):
        raise InvalidInput(
            f"{field('token')} is for a service, and {source!r} is no address of one: leave it out"
        )
    level = options.level
    if (public := read_public(source, name=name, level=level, token=token, like=like)) is not None:
        return public
    return released_in(source, name, level=level)


def _answer(
    released: Release, options: AnswerOptions, asked: str, words: str, steps: range
) -> Answer:
    groups = released.definition.groups
    named = list(groups) if asked == "total" and words == "all" else groups_named(words, groups)
    if asked in ("share", "total"):
        group = named if len(named) > 1 else named[0]
        one = released.share if asked == "share" else released.total
        found = one(group, steps=steps, of=options.of)
        return (
            replace(found, what=found.what.replace(" and ".join(named), "all groups", 1))
            if words == "all" and len(named) > 1
            else found
        )
    beside = None if options.beside is None else _read_release(options, options.beside, None)
    if len(named) == 1 and (options.other_steps is not None or beside is not None):
        named = [named[0], named[0]]
    if len(named) != 2:
        raise InvalidInput(
            f"{field(asked, words)} compares two groups: write A,B, or one group and "
            f"{field('other_steps')}, which compares two periods"
        )
    later = None
    if options.other_steps is not None:
        later = (beside or released).steps_named(options.other_steps)
    elif beside is not None:  # the same words may mean other steps of another stream
        later = beside.steps_named(options.steps)
    question = {
        "difference": released.difference,
        "ratio": released.ratio,
        "change": released.change,
    }[asked]
    return question(
        named[0],
        named[1],
        steps=steps,
        other_steps=later,
        of=options.of,
        beside=beside,
    )


def _print_table(table: pl.DataFrame, released: Release, options: AnswerOptions) -> None:
    if options.json:
        told = {"name": released.design.name, "level": released.level}
        head = json.dumps({**told, "about": promise_of(released)})
        sys.stdout.write(f'{head[:-1]}, "rows": {table.write_json()}}}\n')
        return
    console = Console()
    console.write_line(released.describe())
    console.write_line("")
    shown = table.head(_ROWS) if options.changes else table.tail(_ROWS)
    console.write_released(shown)
    if table.height > _ROWS:
        which = "first" if options.changes else "last"
        console.write_line(f"the {which} {_ROWS} of {table.height:,} rows; all of them: --json")
    if options.by is not None:
        console.write_line(f"The average {AVERAGES[options.by]}; each interval by itself.")
    if options.changes or options.band:
        level = f"{100 * released.level:g}%"
        console.write_line(f"All intervals hold together with probability {level}.")
