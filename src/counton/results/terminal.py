"""Display of a release on a terminal or in a notebook."""

from __future__ import annotations

import base64
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from html import escape
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from counton.base.columns import TextTable, list_in_words, readable
from counton.base.exact import percent, quantity, text
from counton.base.table_schema import WINDOW
from counton.results.series import Series
from counton.results.systematic_errors import systematic_errors
from counton.results.text import statistic_in_words
from counton.results.window_notes import withdrawn_cells
from counton.statistics.count import ClippedValues
from counton.windowing.lazy_polars import polars as pl

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from counton.results.metadata import ReleaseMetadata
    from counton.results.release_data import ReleaseData

#: Largest number of groups, or rows, that a terminal shows.
MOST = 20
#: Columns whose values the heading states.
_IN_HEADING = (*WINDOW, "n_windows", "series", "confidence_level")
#: Largest number of rows of a report that a terminal shows.
_MOST_OF_REPORT = 100


class Screen(NamedTuple):
    """The heading and tables of a terminal, with what the tables leave out, and notes."""

    heading: str = ""
    tables: Sequence[TextTable] = ()
    left_out: str = ""
    notes: Sequence[str] = ()


def text_table(table: pl.DataFrame) -> TextTable:
    """Format all rows as text; times that are all midnights are shown as days."""
    columns: Mapping[str, Sequence[Any]] = table.to_dict(as_series=False)
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
    most = _MOST_OF_REPORT if report else MOST
    if table.height <= most:
        return text_table(table), ""
    note = f"the first {most} of {table.height:,} rows"
    if first_names and not report and named and table["measure"].n_unique() > 1:
        table = table.sort(
            pl.col("measure").is_in(first_names), descending=True, maintain_order=True
        )
        note += f", {list_in_words([*first_names])} first"
    return text_table(table.head(most)), note


def screen_of(released: ReleaseData) -> Screen:
    """Return what a terminal shows of the last step."""
    released._check_released()
    if released.has_cells and not released.definition.ranks:
        return _screen_of_cells(released)
    shown = released.shown
    at_once = ""
    if released.definition.ranks:
        at_once = f" for all that are shown at once, chosen from up to {shown.room or 0:,} groups"
    rows = released.last_rows()
    heading = _heading_of_results(released, at_once)
    if not rows.height:
        none = (
            "no group is large enough to be shown yet"
            if shown.over is None
            else "nothing yet: fewer steps are released than are to be looked back over"
        )
        return Screen(heading=heading, notes=[none, *_below(released)])
    table, left_out = shown_rows(
        rows.drop(_IN_HEADING, strict=False), released.definition.inner.on_screen
    )
    return Screen(heading, [table], left_out, _below(released))


def _below(released: ReleaseData) -> list[str]:
    """Return the lines below a table: notes, and sentences on errors other than noise."""
    errors = systematic_errors(released.definition)
    return [
        *(f"note: {note}" for note in released.notes),
        *(f"not in the intervals: {line}" for line in errors),
    ]


def _heading_of_results(released: ReleaseData, at_once: str) -> str:
    """Return the heading for results; ``at_once`` names what holds together."""
    after = released.steps.stop - 1
    windows = released.definition.windows
    over = released.over
    level = f"intervals of {percent(released.level)}%{at_once}"
    subject = _bounded_subject(released.definition)
    if not windows.is_recurring:
        return f"\n{subject}, {level}"
    if not windows.timed:
        when = f"after step {after:,}"
        if isinstance(over, str):
            when = f"in the {over} up to step {after:,}"
        elif over == 1:
            when = f"in step {after:,}"
        elif over is not None:
            when = f"in the {over:,} steps up to step {after:,}"
        return f"\n{subject}, {when}, {level}"
    when = windows.until(int(windows.ends(range(after, after + 1))[0]))
    if isinstance(over, str):
        when = f"in the {over} {when}"
    elif over == 1:
        when = f"in the {windows.period or windows.noun} {when}"
    elif over is not None:
        when = f"in the {over:,} windows {when}"
    place = f"(window {after:,}, {windows.timezone})"
    return f"\n{subject}, {when} {place}, {level}"


def _bounded_subject(definition: ReleaseMetadata) -> str:
    """Return words for what the numbers measure, with its bounds, which intervals are for.

    >>> from counton.run import Job
    >>> from counton.run.planning import plan_stream
    >>> job = Job("count", "departures.csv", "d.db", time="at", every="1w", start="2024-03-04",
    ...           windows=31, user="tail", privacy_unit="aircraft", event_name="departure",
    ...           max_contributions=5, contribution_period="1w",
    ...           epsilon=1)
    >>> _bounded_subject(plan_stream(job).description())
    "number of departures, at most 5 of one aircraft's week"
    """
    inner = definition.inner
    subject = statistic_in_words(definition).removesuffix(",")
    subject += definition.contribution_rule.bound_in_heading(definition.window, definition.unit)
    if inner.additive and isinstance(inner, ClippedValues):
        subject += f", values from {text(inner.lower)} to {text(inner.upper)}"
    return subject


def _screen_of_cells(released: ReleaseData) -> Screen:
    """Return the texts for counts: the first 20 groups, in declared order."""
    heading = _heading_of_cells(released)
    groups = released.groups
    if not groups:
        none = "no group is large enough to be shown yet"
        return Screen(heading, notes=[none, *_below(released)])
    left_out = f"the first {MOST} of {len(groups):,} groups" if len(groups) > MOST else ""
    shown = released.first_groups(MOST)
    interval = f"{percent(released.level)}% interval"
    table = (_versions_table if released.definition.windows.lags else _last_table)(shown, interval)
    return Screen(heading, [table], left_out, _below(released))


def _heading_of_cells(released: ReleaseData) -> str:
    definition = released.definition
    step = released.steps[-1]
    delay = definition.strategy.facts.delay
    windows = definition.windows
    released_at, counted = (
        windows.until(int(windows.ends(range(at, at + 1))[0]))
        for at in (step, max(step - delay, 0))
    )
    subject = _bounded_subject(definition)
    words = {
        "what": subject if "," not in subject else f"{subject},",
        "window": windows.period or windows.noun,
        "number": f"{step:,}",
        "zone": windows.timezone,
    }
    if windows.lags or definition.series == "per-window":
        template = "{what} in the {window} {until} (window {number}, {zone})"
        if windows.lags:
            template = "{what} by {window}, as known {until} (window {number}, {zone})"
        return "\n" + template.format(until=released_at, **words)
    if delay:
        words["zone"] += f"; released with the window {released_at}"
    template = "{what} so far, {until} (window {number}, {zone})"
    return "\n" + template.format(until=counted, **words)


def _last_table(released: ReleaseData, interval: str) -> TextTable:
    """Return the last step with a row for each group."""
    names = [((released.definition.by or ""), False)]
    columns: list[Sequence[str]] = [[*released.groups]]
    shown = [series for series in released._last_series if series is not None]
    for name, series in zip(("estimate", "in this window"), shown, strict=False):
        names += [(name, True), (interval, True)]
        columns += _numbers_of_step(released, released.steps[-1], series)
    return TextTable(names, [*zip(*columns, strict=True)])


def _numbers_of_step(
    released: ReleaseData, step: int, series: Series
) -> tuple[list[str], list[str]]:
    """Return estimates and intervals of one step as texts; withdrawn numbers are not shown."""
    withdrawn = withdrawn_cells(released.definition.marks, range(step, step + 1), released.groups)
    series = series.with_withdrawn(withdrawn)
    half = float(series.half[0])
    whole = series.estimates.dtype.kind == "i"
    value, lower, upper = (
        [quantity(float(number), half, whole) for number in ends[0]]
        for ends in (series.estimates, series.lower, series.upper)
    )
    ends = [f"{low} to {high}" for low, high in zip(lower, upper, strict=True)]
    for place in np.flatnonzero(withdrawn[0]).tolist():
        value[place] = "withdrawn"
        ends[place] = ""
    return value, ends


def _versions_table(released: ReleaseData, interval: str) -> TextTable:
    """Return the newest counts of the last windows; of many groups two windows only."""
    windows = released.definition.windows
    last = released.steps[-1]
    steps = range(max(released.first, last - windows.lags), last + 1)
    is_long = len(steps) * len(released.groups) > MOST
    shown = sorted({steps[0], last}) if is_long else [*steps]
    grouped = released.definition.by is not None
    names = [("window", False)]
    names += [((released.definition.by or ""), False)] if grouped else []
    names += [("estimate", True), (interval, True), ("", False)]
    rows = []
    for step in shown:
        series = released._windows(range(step, step + 1))
        assert series is not None
        state = "final" if last - step >= windows.lags else "provisional"
        numbers_of_step = _numbers_of_step(released, step, series)
        for group, *numbers in zip(released.groups, *numbers_of_step, strict=True):
            row = [windows.span(range(step, step + 1)), *([group] if grouped else [])]
            rows.append([*row, *numbers, state])
    return TextTable(names, rows)


#: Largest number of groups, or of rows of a statistic's table, in a notebook.
_ROWS = 24


def page(released: ReleaseData, words: str, figures: Callable[[], Mapping[str, Figure]]) -> str:
    """Return HTML that shows a release: words, the first groups, and charts."""
    from counton.continual.html_table import html_table

    table = released.last_rows(_ROWS)
    more = 0 if released.rows is None else len(released.groups) - table.height // released.n_series
    if more > 0:
        words += f"\n{more:,} more groups are not shown"
    if "window_end" in table.columns and table.height:
        end = table["window_end"][-1]
        words += f"\nat {end:%Y-%m-%d %H:%M} ({end.tzinfo})"
    shown = table.drop(*WINDOW, strict=False)  # it is above them
    columns = {name: shown[name].to_numpy() for name in shown.columns}
    return html_table(words, columns, _ROWS) + _charts(figures)


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
