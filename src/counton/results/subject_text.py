"""Words for what is measured: the statistic, its groups, units and times, as in titles."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from counton.base.columns import list_in_words
from counton.base.exact import with_capital
from counton.base.lengths import PERIODS
from counton.base.wording import plural
from counton.results.metadata import ReleaseMetadata
from counton.results.systematic_errors import adds_users_up, systematic_errors
from counton.statistics import Statistic
from counton.statistics.by_group import inner_of
from counton.windowing.date_text import day_in_words


def statistic_in_words(metadata: ReleaseMetadata) -> str:
    """Return the released quantity, without an article."""
    inner = metadata.inner
    if inner.additive:
        return metadata.subject
    parameters = dict(inner.parameters)
    edges = parameters.get("edges") or [0, 0]
    columns = parameters.get("columns") or ()
    names = [str(column if isinstance(column, str) else column[0]) for column in columns]
    parameters |= {end: str(parameters[end]) for end in ("lower", "upper") if end in parameters}
    parameters |= {
        "value": "the values" if metadata.value is None else metadata.value,
        "units": plural(parameters.get("unit", "user")),
        "first": _plain(edges[0]),
        "last": _plain(edges[-1]),
        "columns": list_in_words([*names]),
        "statistics": list_in_words([*inner.statistics]),
        **inner.phrase_words,
    }
    phrase = (
        inner.phrase.format(**parameters) if inner.phrase else f"statistic {type(inner).__name__}"
    )
    period = adds_users_up(metadata)
    return phrase if period is None else f"{phrase}, {period}"


def _plain(edge: object) -> str:
    return f"{edge:.12g}" if isinstance(edge, float) else str(edge)


def heading_in_words(metadata: ReleaseMetadata) -> str:
    """Return what the numbers of a release are, for a page: its only series, if there is one."""
    subject = statistic_in_words(metadata).removesuffix(",")
    if metadata.half_life is not None:
        weights = f"each {metadata.window} counts half after {metadata.half_life_in_words}"
        subject = f"{subject}, {weights}"
    elif len(metadata.published_series) == 1 and metadata.widths:
        subject = f"{subject}, {metadata.last_windows_in_words}"
    return title_in_words(subject, groups_in_words(metadata))


def title_in_words(subject: str, grouped: str | None) -> str:
    """Return the title of a chart or a page: what counts, by which columns."""
    return with_capital(subject) if grouped is None else f"{with_capital(subject)}, by {grouped}"


def groups_in_words(metadata: ReleaseMetadata) -> str | None:
    """Return the grouping columns, such as "region and sex"."""
    if metadata.group_by is None:
        return None
    return " and ".join(name.strip() for name in metadata.group_by.split(","))


def series_in_words(metadata: ReleaseMetadata) -> str:
    """Return the name of a chart's only curve."""
    if metadata.statistic_name == "sum":
        return str(metadata.value)
    return metadata.subject.removeprefix("number of ").partition(",")[0].partition(" (")[0]


def measured_in(metadata: ReleaseMetadata) -> dict[str, str]:
    """Return the units of a release's numbers; "" stands for all others.

    >>> from counton.run import Job
    >>> from counton.run.spec.plan_spec import plan_spec
    >>> job = Job("average", "visits.csv", "visits.db", time="at", every="1d", start="2024-03-01",
    ...           windows=31, value="paid", lower=0, upper=60, resolution=1, privacy_unit="visit",
    ...           epsilon=1)
    >>> measured_in(plan_spec(job).metadata())
    {'': 'paid', 'count': 'visits'}
    """
    inner = metadata.inner
    rows = plural("event" if metadata.contribution_rule.bounds_users else metadata.privacy_unit)
    if inner.additive:
        return {"": series_in_words(metadata)}
    if not inner.statistics:
        return inner.units_of(metadata.value, rows)
    from counton.statistics.report import Report  # most streams do not need it

    assert isinstance(inner, Report)
    columns = inner.columns
    return {
        f"{name} {number}".strip(): unit
        for name, part in inner.statistics.items()
        for number, unit in inner_of(part)
        .units_of(next(iter(columns[name][-1:]), None), rows)
        .items()
    }


def times_in_words(
    metadata: ReleaseMetadata, over: int | str | None = None, every: str | None = None
) -> str:
    """Return the times that numbers cover, such as "in each week"; ``every``: drawn windows."""
    cut = metadata.windows
    if not cut.is_recurring:
        return cut.span_text(range(1, 2))
    if not cut.timed:
        if isinstance(over, str):
            return f"in each {over} to date, after each row"
        if over is None:
            return "after each row"
        if over == 1:
            return "in each row"
        return f"in the last {over:,} rows up to each"
    every = cut.every if every is None else every
    if isinstance(over, str):
        return f"in each {over}{to_date(metadata, over)}"
    period = PERIODS.get(every)
    if over is not None and over > 1:
        windows = f"windows of {every}" if period is None else f"{period}s"
        return f"in the {over:,} {windows} up to each point"
    if over == 1:
        return f"in each {period if period else f'window of {every}'}"
    start = cut.local(cut.start)
    date = day_in_words(start, year=True, long=True)
    if start.hour == start.minute == 0:
        return f"since {date}"
    return f"since {date}, {start:%H:%M}"


def to_date(metadata: ReleaseMetadata, period: str) -> str:
    """Return " to date" if periods are longer than a window."""
    return "" if metadata.window == period else " to date"


def incomplete_note(
    metadata: ReleaseMetadata, first: int, widths: Sequence[int] | None = None
) -> str | None:
    """Return a sentence on numbers of last windows that count fewer windows; None if all do.

    Args:
        metadata: the release.
        first: the first of the shown windows.
        widths: the shown numbers of windows, ascending; None: all.
    """
    widths = [width for width in widths or metadata.widths if first < width]
    if not widths:
        return None
    windows = plural(metadata.window)
    counted_before = list_in_words([f"{width - 1:,}" for width in widths])
    before = windows if widths[-1] > 2 else metadata.window
    last = replace(metadata, widths=tuple(widths)).last_windows_in_words
    sums = metadata.recent_noun if len(widths) == 1 else plural(metadata.recent_noun)
    count = "counts" if len(widths) == 1 else "count"
    return (
        f"In the first {counted_before} {before}, the {sums} of the {last} {count} all {windows} "
        "since the start."
    )


def size_of_table(statistic: Statistic, name: str) -> str:
    """Return the number of released counts of a table in words, or its name.

    Args:
        statistic: a statistic that is released once.
        name: its name in jobs.
    """
    from counton.statistics.measurement_choice import TableStatistic  # streams do not need it

    return statistic.size if isinstance(statistic, TableStatistic) else name


def foot_of(metadata: ReleaseMetadata, source: str | None, notes: Sequence[str]) -> str:
    """Return the text below a chart: source, notes, and protected unit."""
    windows = metadata.windows
    whence = "" if source is None else f"Source: {source}. "
    zone = f"; times: {windows.timezone}" if windows.timed else ""
    error_lines = "".join(f"; {line}" for line in systematic_errors(metadata))
    whence += "".join(f"{note}. " for note in notes)
    protects = (
        f"Noise protects each single {metadata.privacy_unit} ({metadata.guarantee}; "
        f"{metadata.contribution.neighbours})"
    )
    return f"{whence}{protects}{zone}{error_lines}"
