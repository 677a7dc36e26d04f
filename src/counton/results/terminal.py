"""Display of a release on a terminal or in a notebook."""

from __future__ import annotations

import base64
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from html import escape
from importlib.util import find_spec
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from counton.base.columns import UNBOUNDED, TextTable, list_in_words, readable
from counton.base.exact import percent, quantity, text, with_capital
from counton.base.table_schema import PER_WINDOW, WINDOW
from counton.base.wording import counted
from counton.results.counted_windows import LastWindows, PeriodToDate
from counton.results.released_table import last_rows
from counton.results.series_numbers import SeriesNumbers
from counton.results.subject_text import groups_in_words, incomplete_note, statistic_in_words
from counton.results.systematic_errors import what_intervals_leave_out
from counton.results.window_notes import withdrawn_cells
from counton.statistics.count import ClippedStatistic
from counton.windowing.lazy_polars import polars as pl
from counton.windowing.windows import ENDLESS_STEPS

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from counton.results.metadata import ReleaseMetadata
    from counton.results.release_data import ReleaseData

#: Largest number of groups, or rows, that a terminal shows.
MOST_SHOWN_ROWS = 20
#: Columns whose values the heading states.
_IN_HEADING = (*WINDOW, "n_windows", "series", "confidence_level")
#: Largest number of rows of a report that a terminal shows.
_MOST_SHOWN_ROWS_OF_REPORT = 100


class Screen(NamedTuple):
    """The heading and tables of a terminal, with what the tables leave out, and notes."""

    heading: str = ""
    tables: Sequence[TextTable] = ()
    left_out: str = ""
    notes: Sequence[str] = ()


def text_table(table: pl.DataFrame) -> TextTable:
    """Format all rows as text; times that are all midnights are shown as days."""
    columns: Mapping[str, Sequence[object]] = table.to_dict(as_series=False)
    names = [(name, kind.is_numeric()) for name, kind in table.schema.items()]
    texts = []
    for values, column in zip(columns.values(), readable(columns), strict=True):
        days = all(
            isinstance(value, datetime) and not value.hour | value.minute for value in values
        )
        texts.append([text.removesuffix(" 00:00") if days else text for text in column])
    return TextTable(names, [*zip(*texts, strict=True)])


def shown_rows(table: pl.DataFrame, first_names: Sequence[str] = ()) -> tuple[TextTable, str]:
    """Return the rows that a screen shows, and a note on the others.

    The first rows are shown; of numbers of several names, those ``first_names`` before others. Rows
    are not chosen by their estimates, because intervals of the largest of many noisy numbers hold
    less often than they state.
    """
    report = "statistic" in table.columns
    named = "measure" in table.columns
    most = _MOST_SHOWN_ROWS_OF_REPORT if report else MOST_SHOWN_ROWS
    if table.height <= most:
        return text_table(table), ""
    note = f"the first {most} of {table.height:,} rows"
    if first_names and not report and named and table["measure"].n_unique() > 1:
        table = table.sort(
            pl.col("measure").is_in(first_names), descending=True, maintain_order=True
        )
        note += f", {list_in_words([*first_names])} first"
    return text_table(table.head(most)), note


def screen_of(numbers: ReleaseData, new_steps: range | None = None) -> Screen:
    """Return what a terminal shows of the newest windows.

    Args:
        numbers: the release.
        new_steps: the windows that a run has released; None: the last one is shown.
    """
    numbers.check_released()
    steps = new_steps or numbers.steps[-1:]
    if numbers.has_cells and not numbers.metadata.ranks:
        return _screen_of_cells(numbers, steps)
    shown = numbers.shown
    at_once = ""
    if numbers.metadata.ranks:
        at_once = f" for all that are shown at once, chosen from up to {shown.room or 0:,} groups"
    rows = last_rows(numbers)
    heading = _heading_of_results(numbers, at_once)
    if not rows.height:
        nothing = "No group has reached the threshold yet."
        if shown.over is not None:
            nothing = "Nothing yet: fewer windows are released than the numbers look back over."
        return Screen(heading=heading, notes=[nothing, *_below(numbers)])
    table, rows_note = shown_rows(
        _without_heading(numbers.metadata, rows), numbers.metadata.inner.on_screen
    )
    left_out = ", ".join(filter(None, [rows_note, _shown_windows(steps, 1)]))
    notes = [*unbounded_notes(rows), *_below(numbers)]
    incomplete = incomplete_note(numbers.metadata, numbers.steps[-1])
    if incomplete is not None:
        notes = [f"Incomplete: {incomplete}", *notes]
    return Screen(heading, [table], left_out, notes)


def _without_heading(metadata: ReleaseMetadata, rows: pl.DataFrame) -> pl.DataFrame:
    """Return rows without the columns whose values the heading or a note states.

    Rows of several lengths have a column that names the last windows of each.
    """
    if len(metadata.widths) > 1:
        names = {width: metadata.last_in_words(width) for width in metadata.widths}
        length = pl.col("n_windows").replace_strict(names, return_dtype=pl.String)
        rows = rows.select(length.alias("windows"), pl.all())
    if metadata.widths:
        rows = rows.drop("is_complete")
    return rows.drop(_IN_HEADING, strict=False)


def unbounded_notes(rows: pl.DataFrame) -> list[str]:
    """Return a note on numbers whose noise has no finite standard deviation, if there are any.

    Args:
        rows: the rows that are shown.
    """
    if "noise_std" not in rows.columns or not rows["noise_std"].is_infinite().any():
        return []
    return [
        f"{UNBOUNDED}: the released number of rows is too small to divide by, so the estimate is "
        "arbitrary. The interval holds."
    ]


def _shown_windows(steps: range, n_shown: int) -> str:
    """Return words for the shown ones of some new windows; "" if all are shown."""
    if n_shown >= len(steps):
        return ""
    return f"the last {n_shown:,} of {counted(len(steps), 'new window')}"


def _below(numbers: ReleaseData) -> list[str]:
    """Return the lines below a table: notes, and what the intervals cover."""
    return [*(f"Note: {note}" for note in numbers.notes), accuracy_line(numbers.metadata)]


def accuracy_line(metadata: ReleaseMetadata) -> str:
    """Return one line on what the intervals of a release cover, and what they leave out."""
    left_out = what_intervals_leave_out(metadata)
    line = "Accuracy: each interval covers the noise of its number."
    return f"{line} Not covered: {'; '.join(left_out)}." if left_out else line


def _window_number(numbers: ReleaseData, steps: range) -> str:
    """Return the numbers of some windows, such as "windows 3 to 4 of 366"."""
    windows = numbers.metadata.windows
    horizon = numbers.metadata.strategy.horizon
    all_windows_text = "" if horizon is None else f" of {horizon:,}"
    if windows.n_revisions:
        all_windows_text = "" if windows.steps >= ENDLESS_STEPS else f" of {windows.steps:,}"
    if len(steps) == 1:
        return f"window {steps[0]:,}{all_windows_text}"
    return f"windows {steps[0]:,} to {steps[-1]:,}{all_windows_text}"


def _heading_of_results(numbers: ReleaseData, at_once: str) -> str:
    """Return the heading for results; ``at_once`` names what holds together."""
    after = numbers.steps.stop - 1
    windows = numbers.metadata.windows
    counted = numbers.counted_windows
    confidence = f"{percent(numbers.level)}% confidence intervals{at_once}"
    subject = with_capital(_bounded_subject(numbers.metadata))
    if not windows.is_recurring:
        return f"\n{subject}, {confidence}"
    if not windows.timed:
        when = f"after step {after:,}"
        if isinstance(counted, PeriodToDate):
            when = f"in the {counted.period} up to step {after:,}"
        elif counted == LastWindows(1):
            when = f"in step {after:,}"
        elif isinstance(counted, LastWindows):
            when = f"in the {counted.n_windows:,} steps up to step {after:,}"
        return f"\n{subject}, {when}, {confidence}"
    when = windows.end_in_words(int(windows.ends(range(after, after + 1))[0]))
    if numbers.metadata.widths:
        when = f"in the {numbers.metadata.last_windows_in_words} {when}"
    elif numbers.metadata.half_life is not None:
        half_life = numbers.metadata.half_life_in_words
        window = windows.period or windows.noun
        when = f"in which a {window} counts half after {half_life}, {when}"
    elif isinstance(counted, PeriodToDate):
        when = f"in the {counted.period} {when}"
    elif counted == LastWindows(1):
        when = f"in the {windows.period or windows.noun} {when}"
    elif isinstance(counted, LastWindows):
        when = f"in the {counted.n_windows:,} windows {when}"
    shown_windows = f"({_window_number(numbers, range(after, after + 1))}, {windows.timezone})"
    return f"\n{subject}, {when} {shown_windows}, {confidence}"


def _bounded_subject(metadata: ReleaseMetadata) -> str:
    """Return words for what the numbers measure, with its bounds, which intervals are for.

    >>> from counton.run import Job
    >>> from counton.run.spec.plan_spec import plan_spec
    >>> job = Job("count", "departures.csv", "d.db", time="at", every="1w", start="2024-03-04",
    ...           windows=31, user="tail", privacy_unit="aircraft", event_name="departure",
    ...           max_contributions=5, contribution_period="1w",
    ...           epsilon=1)
    >>> _bounded_subject(plan_spec(job).metadata())
    "number of departures, at most 5 per aircraft's week"
    """
    inner = metadata.inner
    subject = statistic_in_words(metadata).removesuffix(",")
    grouped = groups_in_words(metadata)
    subject += "" if grouped is None else f", by {grouped}"
    subject += metadata.rule_in_words.bound_in_heading(metadata.window, metadata.privacy_unit)
    if inner.additive and isinstance(inner, ClippedStatistic):
        subject += f", values from {text(inner.lower)} to {text(inner.upper)}"
    return subject


def _screen_of_cells(numbers: ReleaseData, new_steps: range) -> Screen:
    """Return the texts for counts: the newest windows, of the first 20 groups in declared order."""
    groups = numbers.groups
    if not groups:
        nothing = "No group has reached the threshold yet."
        heading = _heading_of_cells(numbers, new_steps[-1:])
        return Screen(heading, notes=[nothing, *_below(numbers)])
    shown_groups = numbers.first_groups(MOST_SHOWN_ROWS)
    if numbers.metadata.windows.n_revisions:
        steps = new_steps[-1:]
        n_shown = len(new_steps)
        table = _versions_table(shown_groups)
    else:
        steps = new_steps[-max(1, MOST_SHOWN_ROWS // len(shown_groups.groups)) :]
        n_shown = len(steps)
        table = _windows_table(shown_groups, steps)
    groups_note = ""
    if len(groups) > MOST_SHOWN_ROWS:
        groups_note = f"the first {MOST_SHOWN_ROWS} of {len(groups):,} groups"
    left_out = ", ".join(filter(None, [groups_note, _shown_windows(new_steps, n_shown)]))
    notes = _below(numbers)
    incomplete = incomplete_note(numbers.metadata, steps[0])
    if incomplete is not None:
        notes = [f"Incomplete: {incomplete}", *notes]
    return Screen(_heading_of_cells(numbers, steps), [table], left_out, notes)


def _heading_of_cells(numbers: ReleaseData, steps: range) -> str:
    """Return what the numbers measure, and of which windows; a table names several windows."""
    metadata = numbers.metadata
    windows = metadata.windows
    window = windows.period or windows.noun
    last = steps[-1]
    counted_to = max(last - metadata.strategy.facts.delay, 0)
    subject = with_capital(_bounded_subject(metadata))
    shown_windows = f"({_window_number(numbers, steps)}, {windows.timezone}"
    end = windows.end_in_words(int(windows.ends(range(last, last + 1))[0]))
    if windows.n_revisions:
        return f"\n{subject}, in each {window}, as known {end} {shown_windows})"
    if metadata.series == "per-window":
        when = f"in each {window}"
        if len(steps) == 1:
            when = f"in the {window} {windows.span_text(steps)}"
        return f"\n{subject}, {when} {shown_windows})"
    if counted_to < last:
        shown_windows += f"; released with the window {end}"
        end = windows.end_in_words(int(windows.ends(range(counted_to, counted_to + 1))[0]))
    if metadata.series == "rolling":
        when = f"in the {metadata.last_windows_in_words}"
        when += "" if len(steps) > 1 else f" {end}"
        return f"\n{subject}, {when} {shown_windows})"
    if metadata.series == "decayed":
        when = f"in which a {window} counts half after {metadata.half_life_in_words}"
        when += "" if len(steps) > 1 else f", {end}"
        return f"\n{subject}, {when} {shown_windows})"
    when = "cumulative" if len(steps) > 1 else f"cumulative {end}"
    if metadata.series == "both":
        when += f", and in each {window}"
    if metadata.widths:
        when += f", and in the {metadata.last_windows_in_words}"
    return f"\n{subject}, {when} {shown_windows})"


def _windows_table(numbers: ReleaseData, steps: range) -> TextTable:
    """Return a row for each of some windows and each group."""
    metadata = numbers.metadata
    window = metadata.windows.period or metadata.windows.noun
    interval = f"{percent(numbers.level)}% interval"
    is_grouped = metadata.group_by is not None
    names_windows = len(steps) > 1 or not is_grouped
    headings: list[tuple[str, bool]] = []
    if names_windows:
        headings.append((window, False))
    if is_grouped:
        headings.append((metadata.group_by or "", False))
    for published in metadata.published_series:
        in_window = f"in this {window}" if published.name == PER_WINDOW else "cumulative"
        if published.width is not None:
            in_window = metadata.last_in_words(published.width)
        headings.append((in_window if numbers.n_series > 1 else "estimate", True))
        headings.append((interval, True))
    rows: list[list[str]] = []
    published_series = [series for _, series in numbers.series.published(steps, alone=True)]
    steps_of_series = [series.each_step() for series in published_series]
    for step, *series_of_step in zip(steps, *steps_of_series, strict=True):
        columns: list[Sequence[str]] = []
        for series in series_of_step:
            columns += _numbers_of_step(numbers, step, series)
        for group, *texts in zip(numbers.groups, *columns, strict=True):
            names = [_name_of_window(metadata, step)] if names_windows else []
            rows.append([*names, *([group] if is_grouped else []), *texts])
    return TextTable(headings, rows)


def _name_of_window(metadata: ReleaseMetadata, step: int) -> str:
    """Return the days or times of the newest window that a number counts."""
    counted_to = step - metadata.strategy.facts.delay
    if counted_to < 1:
        return "none yet"
    return metadata.windows.span_text(range(counted_to, counted_to + 1))


def _numbers_of_step(
    numbers: ReleaseData, step: int, series: SeriesNumbers
) -> tuple[list[str], list[str]]:
    """Return estimates and intervals of one step as texts; withdrawn numbers are not shown."""
    withdrawn = withdrawn_cells(numbers.metadata.notes, range(step, step + 1), numbers.groups)
    series = series.with_withdrawn(withdrawn)
    half = float(series.half[0])
    is_whole = series.estimates.dtype.kind == "i"
    estimates = [quantity(float(number), half, is_whole) for number in series.estimates[0]]
    lower = [quantity(float(number), half, is_whole) for number in series.lower[0]]
    upper = [quantity(float(number), half, is_whole) for number in series.upper[0]]
    intervals = [f"{low} to {high}" for low, high in zip(lower, upper, strict=True)]
    for index in np.flatnonzero(withdrawn[0]).tolist():
        estimates[index] = "withdrawn"
        intervals[index] = ""
    return estimates, intervals


def _versions_table(numbers: ReleaseData) -> TextTable:
    """Return the newest counts of the last windows; of many groups two windows only."""
    windows = numbers.metadata.windows
    interval = f"{percent(numbers.level)}% interval"
    last = numbers.steps[-1]
    steps = range(max(numbers.first, last - windows.n_revisions), last + 1)
    is_long = len(steps) * len(numbers.groups) > MOST_SHOWN_ROWS
    shown = sorted({steps[0], last}) if is_long else [*steps]
    grouped = numbers.metadata.group_by is not None
    names = [("window", False)]
    names += [((numbers.metadata.group_by or ""), False)] if grouped else []
    names += [("estimate", True), (interval, True), ("", False)]
    rows = []
    for step in shown:
        series = numbers.series.windows_of(range(step, step + 1))
        assert series is not None
        state = "final" if last - step >= windows.n_revisions else "provisional"
        numbers_of_step = _numbers_of_step(numbers, step, series)
        for group, *texts in zip(numbers.groups, *numbers_of_step, strict=True):
            row = [windows.span_text(range(step, step + 1)), *([group] if grouped else [])]
            rows.append([*row, *texts, state])
    return TextTable(names, rows)


#: Largest number of groups, or of rows of a statistic's table, in a notebook.
_SHOWN_VERSION_ROWS = 24


def page(numbers: ReleaseData, words: str, figures: Callable[[], Mapping[str, Figure]]) -> str:
    """Return HTML that shows a release: words, the first groups, and charts."""
    from counton.continual.html_table import html_table

    table = last_rows(numbers, _SHOWN_VERSION_ROWS)
    more = 0 if numbers.n_rows is None else len(numbers.groups) - table.height // numbers.n_series
    if more > 0:
        words += f"\n{more:,} more groups are not shown"
    if "window_end" in table.columns and table.height:
        end = table["window_end"][-1]
        words += f"\nat {end:%Y-%m-%d %H:%M} ({end.tzinfo})"
    shown = table.drop(WINDOW, strict=False)  # it is above them
    columns = {name: shown[name].to_numpy() for name in shown.columns}
    return html_table(words, columns, _SHOWN_VERSION_ROWS) + _charts(figures)


def _charts(figures: Callable[[], Mapping[str, Figure]]) -> str:
    if find_spec("matplotlib") is None:  # without the extra "plot" the table is shown alone
        return ""
    from counton.charts.style import image_of

    try:
        parts = []
        for figure in figures().values():
            drawn = image_of(figure, "png", facecolor="white", dpi=100)
            data = base64.b64encode(drawn).decode("ascii")
            parts.append(
                f'<img alt="chart" style="max-width: 100%" src="data:image/png;base64,{data}">'
            )
        return "".join(parts)
    except Exception as error:  # on every error the numbers are still shown
        return f"<p>no chart ({escape(f'{type(error).__name__}: {error}')})</p>"
