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
from counton.cli.print_forms import Console, print_json, print_line, print_released
from counton.numbers.contrasts import Answer
from counton.numbers.joint import jointly
from counton.released.release import Release
from counton.released.release_facts import promise_of
from counton.released.release_files import ADDRESSES
from counton.released.selection import groups_named, steps_between, steps_within
from counton.run.exports import released_in
from counton.run.read_back import public_places, read

#: Questions with one number for an answer.
_QUESTIONS = ("difference", "ratio", "change", "share", "total")
#: Questions with rows for an answer, and one of groups that nobody declared.
_TABLES = ("sums", "by", "changes", "band", "hidden")
#: Tables that have a chart.
_DRAWABLE = (["changes"], ["by"], ["band"])
#: Files of charts, and changes that one shows.
_CHARTS, _DRAWN = (".png", ".svg", ".pdf"), 20
#: By question the titles of a chart of its answers, and of its axis.
_DRAWN_AS = {
    "difference": ("differences", "difference in {subject}"),
    "ratio": ("ratios", "ratio: 1 is as many"),
    "change": ("changes in per cent", "change in per cent"),
    "share": ("shares", "share in per cent"),
    "total": ("totals", "{subject}"),
    "changes": ("largest changes", "change of {subject}"),
    "hidden": ("groups that are not shown", "{subject}"),
}
#: What an average is of.
_AVERAGES = {
    "hour": "of each hour of the day, over the days that have it whole",
    "weekday": "of each day of the week, over those that are there whole",
}
#: Rows that the screen shows.
_ROWS = 40


def perform(options: AnswerOptions) -> None:
    """Read, answer and print."""
    released = _read_release(options, options.source, options.name)
    if options.part is not None:
        released = released.part(options.part)
    steps = _steps(options.steps, released)
    if options.start is not None or options.until is not None:
        steps = steps_within(released.definition, steps, options.start, options.until)
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
    if options.plot is not None and options.plot.suffix.lower() not in _CHARTS:
        raise InvalidInput(
            f"{field('plot', str(options.plot))} is no chart; name a {', '.join(_CHARTS)}"
        )
    if not asked and tables != ["hidden"]:
        table = _table(released, options, steps)
        if options.plot is not None:
            _draw_table(table, released, options, steps)
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
    print_line(Console(), released.describe().split("\n")[0], bold=True)
    for each in answers:
        print_line(Console(), each.describe())
    if len(answers) > 1:
        level = f"{100 * released.level:g}%"
        text = f"All {len(answers)} intervals hold together with probability {level}."
        print_line(Console(), text)


def _draw(
    answers: Sequence[Answer], released: Release, options: AnswerOptions, steps: range
) -> None:
    """Write a chart of answers, with their subject and time above it."""
    from counton.charts.answer_charts import plot_answers
    from counton.charts.style import save_figure
    from counton.released.stream_words import foot_of, groups_in_words, span_in_words

    definition, asked = released.definition, [name for name in _DRAWN_AS if getattr(options, name)]
    subject = definition.subject if definition.statistic.additive else released.design.name
    kind, axis = _DRAWN_AS[asked[0]] if len(asked) == 1 else ("answers", "")
    if asked == ["changes"]:
        several = len(released.groups)
        some = f"the {len(answers)} {kind} of {several:,} groups"
        kind = f"{some if several > len(answers) else 'changes'}, by {groups_in_words(definition)}"
    elif len(answers) == 1:
        kind = kind.replace("changes", "change").removesuffix("s")
    when = "of all rows" if definition.once else span_in_words(definition.cut, steps)
    if options.other_steps is not None and options.beside is None:
        when += f", against {span_in_words(definition.cut, _steps(options.other_steps, released))}"
    drawn = [_as_drawn(one, f" ({when})") for one in answers]
    level = f"{100 * released.level:g}%"
    subtitle = f"{when}; with {level} intervals"
    subtitle += ", which hold together" if len(answers) > 1 else ""
    figure = plot_answers(
        drawn,
        f"{subject[:1].upper()}{subject[1:]}: {kind}",
        subtitle,
        axis=axis.format(subject=subject),
        foot=foot_of(definition, None),
    )
    assert options.plot is not None
    save_figure(figure, options.plot)


def _as_drawn(one: Answer, said: str) -> Answer:
    """An answer beside a chart that says the time already; a share in per cent."""
    times = 100 if one.per_cent else 1
    ends = {name: times * getattr(one, name) for name in ("value", "std", "lower", "upper")}
    return replace(one, what=one.what.removesuffix(said), **ends)


def _draw_table(
    table: pl.DataFrame, released: Release, options: AnswerOptions, steps: range
) -> None:
    """Write a chart of the rows that were asked for."""
    from counton.charts.answer_charts import plot_pattern
    from counton.charts.style import save_figure
    from counton.released.stream_words import foot_of, groups_in_words, span_in_words
    from counton.run.exports import write_release

    assert options.plot is not None
    if options.band:
        write_release(released.only(steps).with_band(), options.plot)
        return
    if options.changes:
        rows = table.head(_DRAWN).drop("sure").rows()
        drawn = [
            Answer(value, std, low, high, released.level, name)
            for name, value, std, low, high in rows
        ]
        _draw(drawn, released, options, steps)
        return
    subject, grouped = released.definition.subject, groups_in_words(released.definition)
    figure = plot_pattern(
        table,
        f"{subject[0].upper()}{subject[1:]}{f', by {grouped}' if grouped else ''}",
        f"the average {_AVERAGES[str(options.by)]}, "
        f"{span_in_words(released.definition.cut, steps)}; with "
        f"{100 * released.level:g}% intervals",
        foot=foot_of(released.definition, None),
    )
    save_figure(figure, options.plot)


def _table(released: Release, options: AnswerOptions, steps: range) -> pl.DataFrame:
    if options.sums is not None:
        return released.sums(options.sums)
    if options.changes:
        if options.other_steps is None:
            raise InvalidInput(
                f"{field('changes', True)} is from some steps to others: give "
                f"{field('other_steps')}, the earlier ones, too"
            )
        earlier = _steps(options.other_steps, released)
        return released.changes(steps, earlier, of=options.of)
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


def _steps(given: str | None, released: Release) -> range:
    definition = released.definition
    windows = None if definition.cut is None else definition.windows
    return steps_between(given, released.steps.stop - 1, windows)


def _read_release(options: AnswerOptions, source: str, name: str | None) -> Release:
    if source.startswith(ADDRESSES):
        return read(source, name=name, level=options.level, token=options.token)
    if options.token is not None and source == options.source:
        raise InvalidInput(
            f"{field('token')} is for a service, and {source!r} is no address of one: leave it out"
        )
    like = options.like if source == options.source else None
    if (public := public_places(source, like)) is not None:
        return read(public, name=name, level=options.level, like=like)
    return released_in(source, name, level=options.level)


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
        later = _steps(options.other_steps, beside or released)
    elif beside is not None:  # the same words may mean other steps of another stream
        later = _steps(options.steps, beside)
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
    print_line(console, released.describe())
    print_line(console, "")
    shown = table.head(_ROWS) if options.changes else table.tail(_ROWS)
    print_released(console, shown)
    if table.height > _ROWS:
        which = "first" if options.changes else "last"
        print_line(console, f"the {which} {_ROWS} of {table.height:,} rows; all of them: --json")
    if options.by is not None:
        print_line(console, f"The average {_AVERAGES[options.by]}; each interval by itself.")
    if options.changes or options.band:
        level = f"{100 * released.level:g}%"
        print_line(console, f"All intervals hold together with probability {level}.")
