"""Rows that cannot be counted: left out, written to a file for the operator, or refused by name."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from datetime import date
from typing import NamedTuple

from counton.base.errors import InvalidInputError, param
from counton.base.exact import short_repr, with_capital
from counton.base.look_alikes import look_alike, shown_beside
from counton.base.private import reveal
from counton.io.error_policy import Problem, set_aside
from counton.io.files import EventFile
from counton.io.problem_codes import code_as_window, has_one_of, has_problem, problem_of
from counton.io.remote_rows import RemoteRows
from counton.io.row_assignment import (
    Columns,
    RowMapping,
    assign_part,
    collect,
    parts_of_columns,
    row_number_name,
)
from counton.io.sources import EventFrame, InputPart, Source, UnreadableRowError
from counton.io.timestamps import EPOCH_FORMATS, as_text, format_like
from counton.io.unreadable_counts import UnreadableCount
from counton.io.written_numbers import NumberText, has_thousands
from counton.windowing.groups import GroupNames
from counton.windowing.lazy_polars import polars as pl

#: Problems of rows with a missing value.
_PROBLEMS_OF_MISSING_VALUES = (
    *(Problem.NO_TIME, Problem.NO_GROUP, Problem.NO_VALUE),
    *(Problem.NO_USER, Problem.NO_ID),
)
#: Problems of a row's values.
_PROBLEMS_OF_VALUES = (Problem.NO_VALUE, Problem.NOT_FINITE, Problem.NO_COUNT)

#: Number of undeclared groups that a message names.
_SHOWN_GROUPS = 5
#: Number of the commonest names of undeclared groups that the operator is told.
_NAMED_GROUPS = 3
#: Number of rows of undeclared groups to look at.
_INSPECTED_ROWS = 1000
#: Distance between the row numbers of one file and of the next.
_NUMBERS_PER_FILE = 2**40
#: Up to so many rows are set aside, even if they are more than half of all rows. So a row or two of
#: a small input do not decide whether there is a release.
_MOST_FREE_BAD_ROWS = 10

#: Matches a number with a decimal comma.
_DECIMAL_COMMA = re.compile(r"\s*[+-]?\d+,\d+\s*")

#: Matches a number with a decimal point.
_DECIMAL_POINT = re.compile(r"\s*[+-]?\d*\.\d+\s*")

#: Matches a month or a quarter of a year, in which every moment is meant.
_PERIOD = re.compile(r"\s*(\d{4})(?:[-/. ]?(0[1-9]|1[0-2])|[-/. ][1-9]|[- ]?[qQ][1-4])\s*")
#: Matches the end of a day, as a time of the day before.
_END_OF_DAY = re.compile(r".*\b24[:.]00\b.*")
#: Matches a week of ISO 8601, or a day of it.
_ISO_WEEK = re.compile(r"\s*(\d{4})-?W(\d{2})(?:-?([1-7]))?\s*")


def _remedy_of_time(text: str) -> str | None:
    """Return what to do about a text that is no time, if its form says it.

    >>> _remedy_of_time("2026-W02")
    'an ISO week is no moment: write its Monday, as in 2026-01-05'
    """
    week = _ISO_WEEK.fullmatch(text)
    if week is not None:
        with suppress(ValueError):  # a year has 52 or 53 weeks
            day = date.fromisocalendar(int(week[1]), int(week[2]), int(week[3] or 1))
            if week[3]:
                return f"write the day of an ISO week as a date, as in {day}"
            return f"an ISO week is no moment: write its Monday, as in {day}"
    period = _PERIOD.fullmatch(text)
    if period is not None:
        first_day = f"{period[1]}-{period[2] or '01'}-01"
        return f"a month, quarter or year is no moment: write its first day, as in {first_day}"
    if _END_OF_DAY.fullmatch(text):
        return "write 00:00 of the next day for 24:00"
    return None


def _remedy_of_number(text: str, decimal_sign: str) -> str | None:
    """Return what to do about a text that is no number, if its form says it.

    >>> _remedy_of_number("3.424,66", ",")
    'write numbers without thousands separators, as in 3424,66'
    """
    if _has_point_for_comma(text, decimal_sign):
        return (
            f"write a comma, as in {text.strip().replace('.', ',')} ({param('decimal', ',')}); if "
            f"all numbers of the file have points, give {param('decimal', '.')}"
        )
    number = NumberText.parse(text)
    remedy = None
    if number is not None:
        remedy = f"write numbers without thousands separators, as in {number.plain}"
        if number.decimal_sign not in (None, decimal_sign):
            remedy += f", and give {param('decimal', number.decimal_sign)}"
    if decimal_sign == "." and _DECIMAL_COMMA.fullmatch(text):
        other = remedy or "write a finite number"
        return f"if the comma is the decimal sign, give {param('decimal', ',')}; else {other}"
    return remedy


def _has_point_for_comma(text: str, decimal_sign: str) -> bool:
    """Return whether a number has a decimal point, although the decimal sign is a comma.

    >>> _has_point_for_comma("12.0", ","), _has_point_for_comma("3.424", ",")
    (True, False)
    """
    is_point = _DECIMAL_POINT.fullmatch(text) is not None
    return decimal_sign == "," and is_point and not has_thousands(text, decimal_sign)


def _bad(input_part: InputPart, mapping: RowMapping) -> pl.LazyFrame:
    """Return the rows that cannot be counted: ``row`` from 1, ``window`` minus the `Problem`."""
    windows = assign_part(input_part, mapping).select("window").with_row_index("row", offset=1)
    return windows.filter(has_problem())


def set_bad_rows_aside(
    source: Source,
    mapping: RowMapping,
    rows_read: int,
    rows_of_all: Mapping[Problem, int] | None = None,
) -> tuple[int, int]:
    """Leave out or write to a file rows that cannot be counted, by policy, or refuse them.

    Args:
        source: the rows.
        mapping: the options by which they are read.
        rows_read: number of all rows.
        rows_of_all: numbers of a remote source's bad rows, of which ``source`` has some.

    Returns:
        Number of rows left out, and of rows written.

    Raises:
        InvalidInputError: bad rows are refused, or there are too many.
    """
    policies = mapping.policies
    columns = mapping.columns.names
    lacking = has_one_of(_PROBLEMS_OF_MISSING_VALUES)
    skipped = 0
    rows_set_aside = list[tuple[object, ...]]()
    for input_part in source.parts:
        bad = _bad(input_part, mapping)
        if policies.missing == "drop":
            skipped += int(collect(source, bad.filter(lacking).select(pl.len())).item())
            bad = bad.filter(~lacking)
        rows = collect(source, bad.head(policies.most + 1 - len(rows_set_aside)).sort("row"))
        if policies.quarantine is None and rows.height:
            raise InvalidInputError(_reason(source, mapping, rows_of_all))
        if len(rows_set_aside) + rows.height > policies.most:
            reason = _reason(source, mapping, rows_of_all, of_commonest=True)
            raise InvalidInputError(
                f"{with_capital(reason)}. More than {policies.most:,} rows of {source.name} cannot "
                f"be read, and at most {policies.most:,} may be set aside. Correct them, or raise "
                f"{param('max_bad_rows')}"
            )
        if rows.height:
            rows_set_aside += _texts_of_rows(source, input_part, mapping, rows)
    if policies.quarantine is not None:
        set_aside(policies.quarantine, columns, rows_set_aside)
    number = len(rows_set_aside)
    if not policies.is_most_stated and number > _MOST_FREE_BAD_ROWS and 2 * number > rows_read:
        reason = _reason(source, mapping, rows_of_all, of_commonest=True)
        raise InvalidInputError(
            f"{with_capital(reason)}. {number:,} of {rows_read:,} rows of {source.name} "
            f"({number / rows_read:.1%}) cannot be read, so nothing is released. Correct them, or "
            f"give {param('max_bad_rows', number)} if these rows may be left out"
        )
    return skipped, number


def _words_of(problem: Problem, texts: Iterable[object], input_part: InputPart) -> str:
    """Return a row's problem in words, from the texts of its values."""
    if problem == Problem.NOT_FINITE:
        sign = input_part.decimal_sign
        numbers = [str(text) for text in texts if text is not None]
        if any(has_thousands(number, sign) for number in numbers):
            return "a number with thousands separators"
        if any(_has_point_for_comma(number, sign) for number in numbers):
            return "a number with a decimal point"
        if sign == "." and any(map(_DECIMAL_COMMA.fullmatch, numbers)):
            return "a number with a comma as decimal sign or thousands separator"
    return problem.words


def _why_no_count(
    problem: Problem, texts: Mapping[str, object], input_part: InputPart, mapping: RowMapping
) -> UnreadableCount | None:
    """Return why a row has no count; None if it has another problem, or none that a form shows.

    Args:
        problem: the problem of the row.
        texts: its values by column.
        input_part: the part of the source that has the row.
        mapping: the options by which it is read.
    """
    if problem not in (Problem.NOT_FINITE, Problem.NO_COUNT):
        return None
    columns = zip(mapping.columns.parts, parts_of_columns(mapping), strict=True)
    text = next((texts.get(name) for name, part in columns if part.kind == "count"), None)
    if text is None:
        return None
    is_csv = isinstance(input_part, EventFile) and input_part.kind == "csv"
    return UnreadableCount.of(str(text), decimal_sign=input_part.decimal_sign, is_csv=is_csv)


def _words_for_file(
    problem: Problem, texts: Mapping[str, object], input_part: InputPart, mapping: RowMapping
) -> str:
    """Return a row's problem in words, for the file of bad rows; arguments as `_why_no_count`."""
    count = _why_no_count(problem, texts, input_part, mapping)
    if count is not None:
        return "; ".join(filter(None, (count.words, count.file_remedy)))
    numbers = [texts[name] for name in mapping.columns.parts]
    return _words_of(problem, numbers, input_part)


def _texts_of_rows(
    source: Source, input_part: InputPart, mapping: RowMapping, rows: pl.DataFrame
) -> Iterator[tuple[object, ...]]:
    """Yield what the file of bad rows has of some rows: name, place, problem and texts.

    Args:
        source: the source.
        input_part: the part of it that has the rows.
        mapping: the options by which rows are read; the texts of its columns are written.
        rows: numbers and problems of the rows, as `_bad` returns them, sorted.
    """
    columns = mapping.columns.names
    number = row_number_name(columns)
    texts = texts_of(input_part, columns).with_row_index(number, offset=1)
    cells = collect(source, texts.filter(pl.col(number).is_in(rows["row"].to_list())))
    for window, (row, *values) in zip(rows["window"], cells.sort(number).rows(), strict=True):
        place = row if input_part.numbered else ""
        line = input_part.unread.get(row - 1)
        if line is not None:  # the whole line stands in the first column
            values = [line, *[None] * (len(values) - 1)]
        problem = problem_of(window)
        texts_of_row = dict(zip(columns, values, strict=True))
        words = _words_for_file(problem, texts_of_row, input_part, mapping)
        yield (input_part.name, place, words, *values)


def texts_of(input_part: InputPart, columns: Sequence[str]) -> pl.LazyFrame:
    """Return columns as texts."""
    frame = input_part.scan(columns)
    types = frame.collect_schema()
    return frame.select(as_text(pl.col(name), types[name]) for name in columns)


def set_bad_rows_aside_elsewhere(
    source: RemoteRows, mapping: RowMapping, rows_read: int, problems: pl.DataFrame
) -> tuple[int, int]:
    """Do the same for a remote source; ``problems`` has the ``rows`` of each ``problem``."""
    policies = mapping.policies
    lacking = pl.col("problem").is_in([int(problem) for problem in _PROBLEMS_OF_MISSING_VALUES])
    skipped = 0
    condition = has_problem()
    if policies.missing == "drop":
        skipped = int(problems.filter(lacking)["rows"].sum())
        problems = problems.filter(~lacking)
        condition &= ~has_one_of(_PROBLEMS_OF_MISSING_VALUES)
    number = int(problems["rows"].sum())
    if not number:
        if policies.quarantine is not None:
            set_aside(policies.quarantine, mapping.columns.names, ())
        return skipped, 0
    rows_by_problem = dict(problems.select("problem", "rows").iter_rows())
    if policies.quarantine is None:
        first_row = _fetch(source, _some(source, mapping, condition, 1))
        raise InvalidInputError(_reason(first_row, mapping, rows_by_problem))
    rows = _some(source, mapping, condition, policies.most + 1)
    aside = set_bad_rows_aside(_fetch(source, rows), mapping, rows_read, rows_by_problem)[1]
    if aside != number:
        raise change_error(source.parts[0])
    return skipped, aside


def _some(source: RemoteRows, mapping: RowMapping, condition: pl.Expr, most: int) -> pl.DataFrame:
    """Fetch at most ``most`` rows by an expression over the columns of `assign_rows`."""
    return reveal(source.some(mapping, condition, most))


def _fetch(source: RemoteRows, rows: pl.DataFrame) -> Source:
    if not rows.height:
        raise change_error(source.parts[0])
    frame = EventFrame(rows, source.name)
    frame.numbered = False
    frame.together = source.parts[0].together
    return Source((frame,), source.name)


def change_error(input_part: InputPart) -> InvalidInputError:
    """Build the error for rows that changed while they were read."""
    return InvalidInputError(
        f"{input_part.name} changed while it was read, so nobody can tell which rows were counted; "
        f"{input_part.remedy_if_changed}"
    )


def _reason(
    source: Source,
    mapping: RowMapping,
    rows_of_all: Mapping[Problem, int] | None = None,
    *,
    of_commonest: bool = False,
) -> str:
    """Return why a row cannot be counted, how many rows have its problem, and a remedy.

    Args:
        source: rows of which one cannot be counted.
        mapping: the options by which they are read.
        rows_of_all: numbers of a remote source's bad rows, of which ``source`` has some.
        of_commonest: whether the row is the first one with the commonest problem; else it is the
            first one that cannot be counted.
    """
    bad_rows = _bad_rows_by_problem(source, mapping)
    problem = next(iter(bad_rows))
    if of_commonest:
        problem = max(bad_rows, key=lambda problem: bad_rows[problem].number)
    input_part = bad_rows[problem].input_part
    row = bad_rows[problem].first
    if problem == Problem.UNREADABLE_ROW:
        reason = _reason_of_line(input_part, mapping)
        if reason is not None:
            return reason
    rows_by_problem = {other: rows.number for other, rows in bad_rows.items()}
    if rows_of_all is not None:
        rows_by_problem = dict(rows_of_all)
    number = rows_by_problem[problem]
    others = sum(rows_by_problem.values()) - number
    columns = mapping.columns
    name = {
        Problem.NO_GROUP: columns.group,
        Problem.NO_USER: columns.user,
        Problem.NO_ID: columns.id,
    }.get(problem, columns.time)
    if problem in _PROBLEMS_OF_VALUES:
        name = _wrong_column(input_part, mapping, row, problem)
    assert name is not None
    text = texts_of(input_part, (name,)).slice(row - 1, 1).collect()[name].to_list()[0]
    shown_text = "" if text is None else f" ({short_repr(text)})"
    count = _why_no_count(problem, {name: text}, input_part, mapping)
    if count is None:
        words = _words_of(problem, (text,), input_part)
        remedy = _remedy_for(problem, str(text), mapping, input_part.decimal_sign)
    else:
        words = count.words
        remedy = count.remedy
    such_rows = "such rows" if count is None else "rows whose count cannot be read"
    counts = [f"one of {number:,} {such_rows}"] if number > 1 else []
    counts += [f"{others:,} more {'has' if others == 1 else 'have'} another problem"] * bool(others)
    other_counts = f" ({'; '.join(counts)})" if counts else ""
    place = input_part.place_of(row)
    return f"{place} has {words} in column {name!r}{shown_text}{other_counts}; {remedy}"


def _reason_of_line(input_part: InputPart, mapping: RowMapping) -> str | None:
    """Return why the first unreadable line cannot be read; None if all can be read."""
    try:
        input_part.sift(mapping.columns.names, 0)
    except UnreadableRowError as error:
        return str(error)
    return None


def why_none_counts(source: Source, mapping: RowMapping) -> str | None:
    """Return why the first row of a source cannot be counted; None if nobody knows.

    Args:
        source: rows of which none can be counted.
        mapping: the options by which they are read.
    """
    if isinstance(source, RemoteRows):
        return None
    for input_part in source.parts:
        reason = _reason_of_line(input_part, mapping) if input_part.unread else None
        if reason is not None:
            return reason
    policies = mapping.policies._replace(missing="fail")
    return _reason(source, mapping._replace(policies=policies))


class _BadRows(NamedTuple):
    """The rows with one problem.

    Attributes:
        input_part: the first part of the source that has such a row.
        first: the number of the first one there.
        number: number of all of them.
    """

    input_part: InputPart
    first: int
    number: int


def _bad_rows_by_problem(source: Source, mapping: RowMapping) -> dict[Problem, _BadRows]:
    """Return the rows that cannot be counted by problem, in the order of the first ones."""
    rows_by_problem = dict[Problem, _BadRows]()
    for input_part in source.parts:
        bad = _bad(input_part, mapping)
        if mapping.policies.missing == "drop":
            bad = bad.filter(~has_one_of(_PROBLEMS_OF_MISSING_VALUES))
        kinds = bad.group_by("window").agg(pl.len(), pl.col("row").min())
        first_rows = kinds.sort("row").collect(engine="streaming")
        for window, number, row in first_rows.rows():
            problem = problem_of(window)
            before = rows_by_problem.get(problem, _BadRows(input_part, int(row), 0))
            rows_by_problem[problem] = before._replace(number=before.number + number)
    return rows_by_problem


def _remedy_for(problem: Problem, text: str, mapping: RowMapping, decimal_sign: str) -> str:
    """Return what the user can do about a text that cannot be counted."""
    remedy = problem.remedy(mapping.windows.timezone)
    if problem == Problem.UNREADABLE_TIME:
        if mapping.time_format in EPOCH_FORMATS:
            return (
                "write numbers since 1970 in the stated unit; numbers from 20,000 to 80,000 are "
                "days since 1899-12-30, as Excel counts them: write these as dates, as in "
                "2024-03-01"
            )
        form = format_like(text)
        if form is not None:
            remedy = remedy.replace(param("time_format"), param("time_format", f"'{form}'"))
        return _remedy_of_time(text) or remedy
    if problem == Problem.NOT_FINITE:
        return _remedy_of_number(text, decimal_sign) or remedy
    return remedy


def _wrong_column(input_part: InputPart, mapping: RowMapping, row: int, problem: Problem) -> str:
    """Return the column of values that causes a row's problem.

    Labels are not examined; if no other column has it, the first is returned.
    """
    names = mapping.columns.parts
    parts = parts_of_columns(mapping)
    for name, value_column in zip(names, parts, strict=True):
        if value_column.kind == "label":
            continue
        columns = Columns(mapping.columns.time, several=(name,))
        with_one_column = mapping._replace(
            columns=columns, row_rule=None, value_columns_without_rule=[value_column]
        )
        window = (
            assign_part(input_part, with_one_column).select("window").slice(row - 1, 1).collect()
        )
        if window.item() == code_as_window(problem):
            return name
    return names[0]


class _UnlistedNames(NamedTuple):
    """Names of groups or labels that are not listed, for a message.

    Attributes:
        subject: what has the names, in words.
        names: the names in words, each with a listed name that looks like it.
        first_row: number of the first row that has one, as in `_number_rows`.
    """

    subject: str
    names: str
    first_row: int


def unknown_groups(source: Source, mapping: RowMapping, domain: Sequence[str]) -> InvalidInputError:
    """Build the error for rows with an undeclared group or label."""
    in_unlisted_group = pl.lit(False)
    if mapping.columns.group is not None:
        names = GroupNames(domain).column.implode()
        in_unlisted_group = ~has_problem() & ~pl.col("group").is_in(names).fill_null(False)
    has_unlisted_label = (pl.col("total") < 0) & ~has_problem()
    if isinstance(source, RemoteRows):  # enough of them for a message
        first_of_group = in_unlisted_group
        if mapping.columns.group is not None:
            first_of_group &= pl.col("group").is_first_distinct()
        rows = _some(source, mapping, first_of_group, _INSPECTED_ROWS)
        if not rows.height:
            rows = _some(source, mapping, has_unlisted_label, 1)
        source = _fetch(source, rows)
    rows_of_groups = _number_rows(source, mapping).filter(in_unlisted_group)
    if collect(source, rows_of_groups.head(1)).height:
        unlisted = _unlisted_groups(source, rows_of_groups, mapping, domain)
    else:
        rows_of_labels = _number_rows(source, mapping).filter(has_unlisted_label)
        unlisted = _unlisted_labels(source, rows_of_labels, mapping)
    part_index, row = divmod(unlisted.first_row, _NUMBERS_PER_FILE)
    input_part = source.parts[part_index]
    part_note = f" of {input_part.name}" if len(source.parts) > 1 else ""
    first_in = f" (the first such row is row {row:,}{part_note})" if input_part.numbered else ""
    return InvalidInputError(
        f"{source.name} has {unlisted.subject} that are not listed: {unlisted.names}{first_in}; "
        f"correct the data or {param('groups')}, or leave such rows out "
        f"({param('unlisted_groups', 'drop')}). {param('other_group', 'other')} counts them if the "
        "first run of a stream has it; a new stream spends the privacy loss again"
    )


def _unlisted_groups(
    source: Source, rows: pl.LazyFrame, mapping: RowMapping, domain: Sequence[str]
) -> _UnlistedNames:
    """Return the groups that are not listed.

    Args:
        source: all rows.
        rows: the rows of these groups, from `_number_rows`.
        mapping: the options by which they are read.
        domain: the listed groups.
    """
    first_rows = collect(source, rows.group_by("group").agg(pl.col("row").min())).sort("group")
    unlisted_names = first_rows["group"].to_list()
    more = (
        f" and {len(unlisted_names) - _SHOWN_GROUPS:,} more"
        if len(unlisted_names) > _SHOWN_GROUPS
        else ""
    )
    return _UnlistedNames(
        subject=f"groups in column {mapping.columns.group!r}",
        names=", ".join(shown_beside(name, domain) for name in unlisted_names[:_SHOWN_GROUPS])
        + more,
        first_row=int(first_rows["row"].min()),  # type: ignore[arg-type]
    )


def _unlisted_labels(source: Source, rows: pl.LazyFrame, mapping: RowMapping) -> _UnlistedNames:
    """Return the labels of the first row that has one that is not listed.

    Args:
        source: all rows.
        rows: the rows with such labels, from `_number_rows`.
        mapping: the options by which they are read.
    """
    value_columns = zip(mapping.columns.parts, parts_of_columns(mapping), strict=True)
    columns = [name for name, value_column in value_columns if value_column.kind == "label"]
    first_row = int(collect(source, rows.select(pl.col("row").min())).item())
    part_index, row = divmod(first_row, _NUMBERS_PER_FILE)
    labels = source.parts[part_index].scan(columns, columns).slice(row - 1, 1).collect()
    return _UnlistedNames(
        subject=f"rows of {', '.join(map(repr, columns))}",
        names=_labels_in_words(labels.row(0), mapping),
        first_row=first_row,
    )


def _labels_in_words(row: Sequence[object], mapping: RowMapping) -> str:
    """Return the labels of a row, and for a name that is not listed what it looks like."""
    value_columns = parts_of_columns(mapping)
    listed = [column.labels for column in value_columns if column.kind == "label"]
    pairs = list(zip(row, listed, strict=True))
    for label, labels in pairs:
        if isinstance(label, str) and label not in labels and look_alike(label, labels):
            return shown_beside(label, labels)
    return short_repr(tuple(row) if len(row) > 1 else row[0])


class UnlistedRows(NamedTuple):
    """Exact numbers of rows in no declared group, for the operator alone.

    Attributes:
        named: number of rows with another group.
        without_group: number of rows without a group.
        names: the three commonest of the other groups among the first 2^20 rows, with the numbers
            of their rows.
    """

    named: int
    without_group: int
    names: list[tuple[str, int]]


def count_unlisted_rows(source: Source, mapping: RowMapping) -> UnlistedRows:
    """Count the rows of undeclared groups, and those without a group.

    It is exact: for the operator alone. Of a remote source only `_INSPECTED_ROWS` rows of each kind
    are fetched.
    """
    column = mapping.columns.group
    assert column is not None
    name = pl.col("group")
    declared = GroupNames(mapping.declared).column
    unlisted = ~name.is_in(declared.implode()) & (name != "")  # null stays null
    nameless = name.is_null() | (name == "")
    if isinstance(source, RemoteRows):
        plain_mapping = mapping._replace(other=None, unlisted_groups="drop")
        examples = [
            _some(source, plain_mapping, condition & ~has_problem(), _INSPECTED_ROWS)
            for condition in (unlisted, nameless)
        ]
        together = pl.concat(examples)
        if not together.height:
            return UnlistedRows(0, 0, [])
        source = _fetch(source, together)
    frames = [input_part.scan((column,), (column,)) for input_part in source.parts]
    texts = [
        frame.select(group=as_text(pl.col(column), frame.collect_schema()[column]))
        for frame in frames
    ]
    counts = name.head(2**20).value_counts(name="rows").implode()
    all_texts = pl.concat(texts)
    rows, names = collect(source, all_texts.filter(unlisted).select(pl.len(), counts)).row(0)
    common = sorted(names, key=lambda entry: (-entry["rows"], entry["group"]))
    return UnlistedRows(
        named=rows,
        without_group=collect(source, all_texts.filter(nameless).select(pl.len())).item(),
        names=[(entry["group"], entry["rows"]) for entry in common[:_NAMED_GROUPS]],
    )


def _number_rows(source: Source, mapping: RowMapping) -> pl.LazyFrame:
    """Number the rows of all parts: row n from 1 of part k from 0 gets n + k * `_NUMBERS_PER_FILE`.

    Other columns are those of `assign_rows`, without time, user and id.
    """
    return pl.concat(
        [
            assign_part(input_part, mapping)
            .drop("us", "user", "id", strict=False)
            .with_row_index("row", offset=1)
            .with_columns(pl.col("row").cast(pl.Int64) + place * _NUMBERS_PER_FILE)
            for place, input_part in enumerate(source.parts)
        ]
    )
