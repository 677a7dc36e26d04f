"""The command ``answer``: answers from releases in files, tables, states and services."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import polars as pl

from counton.base.columns import TextTable
from counton.base.errors import InvalidInput, field
from counton.base.exact import percent, quantity
from counton.cli.print_forms import Console, print_json, print_json_rows
from counton.cli.show_options import AnswerOptions
from counton.numbers.contrasts import Answer
from counton.numbers.joint import jointly
from counton.released.besides_noise import besides_noise
from counton.released.periods import WEEK, WEEKDAYS, groups_named, patterns_of
from counton.released.release import Release
from counton.released.release_facts import TABLES, promise_of
from counton.released.release_files import ADDRESSES
from counton.released.stream_words import promise_in_words
from counton.run.exports import released_in
from counton.run.read_back import read_public
from counton.run.written_files import (
    check_output,
    write_table,
)

#: Questions answered by one number.
_QUESTIONS = ("difference", "ratio", "change", "share", "total")
#: Questions answered by rows, and ``hidden``, which asks about groups that are not shown.
_TABLES = ("sums", "by", "changes", "band", "hidden")
#: Words for averages by time, by the name of the pattern.
_AVERAGES = {
    "hour": "of each hour of the day, over the days that have it whole",
    "weekday": "of each day of the week, over those that are there whole",
    "weekday,hour": "of each hour of the week, over those that are there whole",
}
#: Largest number of rows on the screen.
_ROWS = 40


def perform(options: AnswerOptions) -> None:
    """Read a release, compute the answers that the options request, such as sums and ratios, and
    print them.
    """
    released = _read_release(options, options.source, options.name)
    if options.part is not None:
        released = released.part(options.part)
    steps = released.numbers.steps_covered(options.steps, options.start, options.until)
    questions = [(name, words) for name in _QUESTIONS for words in getattr(options, name) or ()]
    tables = [name for name in _TABLES if getattr(options, name)]
    if len(tables) + bool(questions) > 1:
        one, other = [*dict(questions), *tables][0], tables[-1]
        raise InvalidInput(
            f"{field(one, getattr(options, one))} and {field(other, getattr(options, other))} are "
            "two questions, and one command answers one: leave one of them out"
        )
    if options.out is not None:
        inputs = [Path(one) for one in options.source.split(",") if Path(one).is_file()]
        check_output(options.out, TABLES, inputs=inputs)
    if not questions and tables != ["hidden"]:
        table = _table(released, options, steps)
        if options.out is not None:
            write_table(table, options.out, _about(released))
        _print_table(table, released, options)
        return
    answers = [_answer(released, options, name, words, steps) for name, words in questions]
    if len(answers) > 1:
        answers = jointly(answers)
    if not questions:
        answers = [released.most_of_hidden()]
    if options.out is not None:
        columns = [pl.DataFrame(_numbers(one)) for one in answers]
        write_table(pl.concat(columns, how="diagonal_relaxed"), options.out, _about(released))
    if options.json:
        about = {"about": promise_of(released.numbers)}
        numbers = [_numbers(one) for one in answers]
        print_json({**numbers[0], **about} if len(answers) == 1 else {"answers": numbers, **about})
        return
    Console().write_line(released.describe().split("\n")[0], bold=True)
    for each in answers:
        Console().write_line(each.describe())
    if len(answers) > 1:
        level = f"{percent(released.numbers.level)}%"
        text = f"All {len(answers)} intervals hold together with probability {level}."
        Console().write_line(text)
    Console().write_files(options.out, None)


def _about(released: Release) -> dict[str, Any]:
    """Return the stream's name and the guarantee behind the answers, as JSON values to store with
    them in a file.
    """
    return {"answers_from": released.numbers.design.name, **promise_of(released.numbers)}


def _table(released: Release, options: AnswerOptions, steps: range) -> pl.DataFrame:
    if options.sums is not None:
        return released.sums(options.sums)
    if options.changes:
        if options.other_steps is None:
            raise InvalidInput(
                f"{field('changes', True)} compares steps with earlier ones: give the earlier "
                f"steps too ({field('other_steps')})"
            )
        return released.changes(steps, options.other_steps, of=options.of)
    found = _steps_of(released, options)
    if options.by is not None:
        return found.pattern(options.by)
    return found.band() if options.band else found.table()


def _steps_of(released: Release, options: AnswerOptions) -> Release:
    """Return the release cut down to the steps that the options name; unchanged if they name
    none.
    """
    named = options.steps, options.start, options.until
    given = named != (None, None, None)
    return released.only(released.numbers.steps_named(*named)) if given else released


def _numbers(one: Answer) -> dict[str, Any]:
    """Return an answer as JSON values, with null for infinite numbers and NaN."""
    numbers = {name: values[0].item() for name, values in one.table_columns().items()}
    return {
        name: None if isinstance(value, float) and not math.isfinite(value) else value
        for name, value in numbers.items()
    }


def _read_release(options: AnswerOptions, source: str, name: str | None) -> Release:
    token, like = options.token, options.like if source == options.source else None
    if token is not None and source == options.source and not source.startswith(ADDRESSES):
        raise InvalidInput(
            f"{field('token')} is for a service, but {source!r} is not the address of a service: "
            f"leave the token out"
        )
    level = options.level
    released = read_public(source, name=name, level=level, token=token, like=like)
    if released is None:
        released = released_in(source, name, level=level)
    for note in released.numbers.notes:
        Console(stderr=True).write_line(f"note: {note}")
    return released


def _answer(
    released: Release, options: AnswerOptions, question_name: str, words: str, steps: range
) -> Answer:
    groups = released.numbers.definition.groups
    named = (
        list(groups) if question_name == "total" and words == "all" else groups_named(words, groups)
    )
    if question_name in ("share", "total"):
        group = named if len(named) > 1 else named[0]
        one = released.share if question_name == "share" else released.total
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
            f"{field(question_name, words)} must name two groups, A,B; or name one group and give "
            f"{field('other_steps')}, to compare its numbers in two periods"
        )
    later = None
    if options.other_steps is not None:
        later = (beside or released).numbers.steps_named(options.other_steps)
    elif beside is not None:  # the same words may name different steps in another stream
        later = beside.numbers.steps_named(options.steps)
    question = {
        "difference": released.difference,
        "ratio": released.ratio,
        "change": released.change,
    }[question_name]
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
        head = {"name": released.numbers.design.name, "level": released.numbers.level}
        print_json_rows({**head, "about": promise_of(released.numbers)}, table)
        return
    console = Console()
    numbers = released.numbers
    console.write_folded(f"{numbers.design.name}: {promise_in_words(numbers.definition)}")
    for line in besides_noise(numbers.definition):
        console.write_folded(f"besides noise: {line}")
    console.write_line("")
    if options.by is not None and "weekday" in table.columns and "hour" in table.columns:
        _print_week(console, table, released)
        console.write_files(options.out, None)
        return
    shown = table.head(_ROWS) if options.changes else table.tail(_ROWS)
    console.write_released(shown)
    if table.height > _ROWS:
        which = "first" if options.changes else "last"
        console.write_line(
            f"the {which} {_ROWS} of {table.height:,} rows; all of them: --json, --out"
        )
    if options.by is not None:
        message = (
            f"The average {_AVERAGES[','.join(patterns_of(options.by))]}; each interval by itself."
        )
        console.write_folded(message)
    if options.changes or options.band:
        level = f"{percent(released.numbers.level)}%"
        console.write_line(f"All intervals hold together with probability {level}.")
    console.write_files(options.out, None)


#: Largest number of groups whose weeks the screen shows.
_WEEKS = 6


def _print_week(console: Console, table: pl.DataFrame, released: Release) -> None:
    """Print averages by hour and weekday for each group, in a table with a row for each hour and a
    column for each weekday.
    """
    groups = table["group"].unique(maintain_order=True).to_list()
    half = (table["upper"] - table["lower"]) / 2
    far = max(half.to_list(), default=0.0)
    days = [day for day in WEEKDAYS if day in {*table["weekday"]}]
    for group in groups[:_WEEKS]:
        own = table.filter(pl.col("group") == group)["weekday", "hour", "estimate"]
        cells = {(day, hour): quantity(value, far) for day, hour, value in own.rows()}
        rows = [
            [f"{hour}:00", *(cells.get((day, hour), "") for day in days)]
            for hour in sorted({hour for _, hour in cells})
        ]
        if len(groups) > 1:
            console.write_line(group, bold=True)
        names = [("hour", False), *((day[:3], True) for day in days)]
        console.write_table(TextTable(names, rows))
    if len(groups) > _WEEKS:
        console.write_line(
            f"the first {_WEEKS} of {len(groups):,} groups; all of them: --json, --out"
        )
    level = f"{percent(released.numbers.level)}%"
    console.write_folded(
        f"The average {_AVERAGES[','.join(WEEK)]}. With a probability of {level} each, a number "
        f"is within {quantity(far, far)} of the true one; --json and --out have the interval of "
        f"each."
    )
