"""Texts on a whole release: the methods that a publication prints, and its description."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal, NamedTuple

from counton.base.columns import list_in_words
from counton.base.exact import percent
from counton.base.lazy import software
from counton.base.lengths import LATE_DAYS
from counton.base.wording import counted, plural
from counton.continual import Design
from counton.continual.strategy_text import mechanism_in_words
from counton.results.counted_windows import (
    AllToDate,
    CountedWindows,
    LastWindows,
    PeriodToDate,
)
from counton.results.error_text import margins_in_words
from counton.results.metadata import ReleaseMetadata, counted_anew
from counton.results.privacy_text import (
    _as_sentence,
    _user_notes,
    change_in_words,
    changes_note,
    loss_in_words,
    notes_as_sentences,
    protected_in_words,
    protection_in_words,
    users_note_of,
)
from counton.results.subject_text import (
    groups_in_words,
    size_of_table,
    statistic_in_words,
    to_date,
)
from counton.results.systematic_errors import systematic_errors
from counton.statistics.by_group import inner_of
from counton.windowing.date_text import day_and_time
from counton.windowing.windows import ENDLESS_STEPS

#: A public introduction to differential privacy.
_INTRODUCTION_URL = "https://doi.org/10.6028/NIST.SP.800-226"
#: First word of a note that says why numbers are withdrawn.
WITHDRAWN = "WITHDRAWN"


def methods_of(
    metadata: ReleaseMetadata,
    name: str,
    steps: range,
    level: float,
    margins: Mapping[str, float],
    counted: CountedWindows,
    notes: Sequence[str] = (),
) -> str:
    """Return the text that a publication prints with released numbers, for all readers.

    It states subject and time, whom noise protects, how large errors are (``margins``, by number),
    cautions (``notes``), and where to read more.
    """
    windows = metadata.windows
    newest = (
        "the newest numbers" if windows.is_recurring and not windows.n_revisions else "the numbers"
    )
    # Noise is all that an interval covers: late rows and bounds move numbers further.
    margin = margins_in_words(margins)
    error = f"the noise changes {newest} by at most {margin}"
    if not margin:
        error = "the numbers without noise are in the published intervals"
    guarantee = str(metadata.guarantee).replace("rho = ", "a parameter of ")
    return " ".join(
        [
            _published_in_words(metadata, name, steps, counted),
            *_other_group_in_words(metadata),
            protection_in_words(metadata),
            f"With {percent(level)}% confidence for each number, {error}.",
            *notes_as_sentences(notes),
            *besides_as_sentence(metadata),
            f"The method is {guarantee}, in the central trust model, by {software()}; it is "
            f"explained at {_INTRODUCTION_URL}.",
        ]
    )


def _published_in_words(
    metadata: ReleaseMetadata, name: str, steps: range, counted: CountedWindows
) -> str:
    """Return a sentence on subject, groups and times."""
    cut = metadata.windows
    called = statistic_in_words(metadata)
    if statistics := metadata.inner.statistics:
        parts = []
        for part_name, part in statistics.items():
            period = metadata.counting_period_in_words(inner_of(part))
            users_note = "" if period is None else f", users {counted_anew(period)}"
            parts.append(f"{part_name} ({inner_of(part).keyword}{users_note})")
        called = f"report of {list_in_words(parts)}"
    if metadata.statistic_name == "stream":
        called = f"total {name!r}" if metadata.series == "cumulative" else f"number {name!r}"
    subject = f"{called.removesuffix(',')}{',' * (',' in called and metadata.group_by is not None)}"
    if metadata.domain is not None and metadata.group_by is not None:
        cells_note = metadata.cells.how(len(metadata.domain or ()), "groups, named beforehand")
        groups_text = groups_in_words(metadata) or ""
        subject = f"{subject} by {groups_text} ({cells_note})"
    if not cut.is_recurring:
        return f"The {subject}, {cut.span_text(steps)}, was published once."
    if not cut.timed:
        cumulative = "" if metadata.series == "per-window" else "cumulative "
        row = "" if metadata.statistic_name == "stream" else ", after each row"
        if len(steps) == 1:
            return f"The {cumulative}{subject} was published once{row}."
        return f"The {cumulative}{subject} was published {len(steps):,} times{row}."
    times = _times_of_numbers(metadata, counted)
    cumulative = "cumulative " if times.has_totals else ""
    which = f", {times.words}," if times.words else ""
    every = _window_in_words(metadata)
    return (
        f"The {cumulative}{subject}{which} was published for each {every} of "
        f"{cut.span_text(steps)} (time zone {cut.timezone})."
    )


def _other_group_in_words(metadata: ReleaseMetadata) -> list[str]:
    """Return sentences on the group of unlisted groups, if there is one."""
    if metadata.other_group is None:
        return []
    return [
        f"Group {metadata.other_group!r} has the rows of groups that are not listed, and rows "
        "without a group.",
        "If there are none, its numbers are only noise.",
    ]


class _Times(NamedTuple):
    """The times that published numbers count.

    Attributes:
        has_totals: whether totals since the start are published.
        words: words on the other published numbers; "" if there are none.
    """

    has_totals: bool
    words: str


def _times_of_numbers(metadata: ReleaseMetadata, counted: CountedWindows) -> _Times:
    """Return the times that the numbers of a stream of windows count; see `methods_of`."""
    every = _window_in_words(metadata)
    if isinstance(counted, PeriodToDate):
        period = counted.period
        return _Times(has_totals=False, words=f"in each {period}{to_date(metadata, period)}")
    if metadata.series == "rolling":
        return _Times(has_totals=False, words=f"in the {metadata.last_windows_in_words}")
    if metadata.series == "decayed":
        half_life = metadata.half_life_in_words
        return _Times(has_totals=False, words=f"in which a {every} counts half after {half_life}")
    n_windows = counted.n_windows if isinstance(counted, LastWindows) else None
    if n_windows is not None and n_windows > 1:
        windows = metadata.windows
        noun = plural(windows.period) if windows.period else f"periods of {windows.every}"
        return _Times(has_totals=False, words=f"in the last {n_windows:,} {noun}")
    if n_windows == 1 or metadata.series == "per-window":
        return _Times(has_totals=False, words=f"in each {every}")
    if metadata.series == "both" and metadata.widths:
        last_windows = metadata.last_windows_in_words
        return _Times(has_totals=True, words=f"and those in each {every} and in the {last_windows}")
    if metadata.series == "both":
        return _Times(has_totals=True, words=f"and that in each {every}")
    if metadata.widths:
        return _Times(has_totals=True, words=f"and that in the {metadata.last_windows_in_words}")
    return _Times(has_totals=True, words="")


def _window_in_words(metadata: ReleaseMetadata) -> str:
    """Return the name of one window, such as "day" or "period of 36h"."""
    windows = metadata.windows
    return f"period of {windows.every}" if windows.period is None else windows.period


def besides_as_sentence(metadata: ReleaseMetadata) -> list[str]:
    """Return a sentence on errors other than noise, if any."""
    lines = systematic_errors(metadata)
    return [f"The intervals do not include these errors: {'; '.join(lines)}."] if lines else []


def account_of(
    metadata: ReleaseMetadata,
    design: Design,
    steps: int,
    errors: Sequence[str],
    counted: CountedWindows,
) -> str:
    """Return all paragraphs on methods, for specialists; ``errors`` are sentences."""
    from counton.continual.methods import methods
    from counton.planning import factors_of_design, far_from_possible

    described_cell = "" if metadata.statistic.additive else "a cell of what it reads"
    # The least error of numbers of periods, and of several versions of a window, is not known. That
    # of rolling sums is of the planner's workload, not of the design's totals.
    shows_other_numbers = metadata.series == "period-to-date" or metadata.is_recent
    unknown = shows_other_numbers or metadata.windows.n_revisions > 0
    least: Literal["mean", "max"] = "max" if metadata.metric == "max" else "mean"
    factors = [] if unknown else factors_of_design(design, least)
    far = far_from_possible(design, factors, least, of=described_cell, cited=False)
    return methods(
        design,
        released=_released_in_words(metadata, design, steps) + _shown_in_words(metadata, counted),
        unit=metadata.privacy_unit,
        change=change_in_words(metadata),
        noun=metadata.windows.noun,
        errors=[*errors, *([far] if far else [])],
        besides=besides_as_sentence(metadata),
        before=[
            *_user_notes(metadata),
            *_ids_in_words(metadata),
            *_as_sentence(metadata.cells.in_words(metadata.privacy_unit)),
        ],
        unprotected=metadata.windows.unprotected,
        sources=metadata.statistic.sources,
        constants=[(f"least of {factor.holds_for}", factor.source) for factor in factors],
    )


def _ids_in_words(metadata: ReleaseMetadata) -> list[str]:
    """Return a sentence on the unit of rows with ids."""
    if not metadata.has_row_ids or metadata.contribution_rule.bounds_users:
        return []
    unit = metadata.privacy_unit
    return [
        f"All rows with the same id are one {unit}, until {LATE_DAYS} days after the first of them "
        f"was counted; an id that comes again later counts as another {unit}, with a loss of its "
        "own."
    ]


def _shown_in_words(metadata: ReleaseMetadata, counted: CountedWindows) -> str:
    if isinstance(counted, AllToDate) or metadata.series in ("per-window", "rolling"):
        return ""
    if isinstance(counted, PeriodToDate):
        return f" Each user counts anew in each {counted.period}."
    noun = "window" if metadata.windows.noun == "window" else "step"
    n_windows = counted.n_windows
    counted_windows = f"that {noun} alone" if n_windows == 1 else f"the last {n_windows:,} {noun}s"
    return f" The numbers shown at each {noun} are of {counted_windows}."


def _released_in_words(metadata: ReleaseMetadata, design: Design, steps: int) -> str:
    """Return a sentence on what has been released."""
    cut = metadata.windows
    additive = metadata.statistic.additive
    subject = statistic_in_words(metadata)
    if not cut.is_recurring:
        return f"The {subject} was released once."
    if metadata.widths:
        subject = f"{subject.removesuffix(',')}, {_spans_in_words(metadata)},"
    elif metadata.series == "decayed":
        half_life = metadata.half_life_in_words
        subject = f"{subject.removesuffix(',')}, in which a window counts half after {half_life},"
    elif metadata.series == "both":
        subject = subject.removesuffix(",")
        subject = f"cumulative {subject}, and that in each window,"
    elif metadata.series == "per-window":
        subject = f"{subject} in each window"
    elif additive:
        subject = f"cumulative {subject}"
    elif metadata.series == "period-to-date":
        period = metadata.counting_period_in_words() or "period"
        subject = f"{subject} in each {period}{to_date(metadata, period)}"
    else:
        subject = f"running {subject}"
    if (groups_text := groups_in_words(metadata)) is not None and metadata.domain is not None:
        cells_note = metadata.cells.how(len(metadata.domain or ()), "declared groups")
        subject = f"{subject} by {groups_text} ({cells_note})"
    if not cut.timed:
        return f"The {subject} was released after each row, {steps:,} times."
    last = design.strategy.horizon
    if cut.n_revisions:  # the strategy of the newest numbers has only the windows that have ended
        last = None if cut.steps >= ENDLESS_STEPS else cut.steps
    released_windows = "each window" if last is None else f"each of up to {counted(last, 'window')}"
    again = ""
    if cut.n_revisions:
        windows = "window" if cut.n_revisions == 1 else f"{cut.n_revisions:,} windows"
        again = f", and again after the next {windows}"
    return (
        f"The {subject} was released after {released_windows} of {cut.every} from "
        f"{day_and_time(cut.local(cut.start))} ({cut.timezone}) on{again}; {steps:,} "
        f"window{'s have' if steps != 1 else ' has'} been released."
    )


def _spans_in_words(metadata: ReleaseMetadata) -> str:
    """Return which windows the numbers of a stream with rolling sums count."""
    spans = {"both": ["since the start", "in each window"], "cumulative": ["since the start"]}
    widths = [f"{width:,}" for width in metadata.widths]
    last = f"in the last {list_in_words(widths)} window{'s' if metadata.widths != (1,) else ''}"
    return list_in_words([*spans.get(metadata.series, []), last])


def description_of(metadata: ReleaseMetadata, design: Design, steps: range) -> str:
    """Describe the privacy unit, the guarantee, the mechanism, and the released windows."""
    windows = metadata.windows
    guarantee = metadata.guarantee
    released = f"{windows.count_text(len(steps))} released"
    scope = f", {guarantee.scope}"
    if not windows.is_recurring:
        released = f"{size_of_table(metadata.statistic, metadata.statistic_name)} released once"
        scope = ""
    lines = [
        f"{design.name}: {released}",
        f"privacy unit: {protected_in_words(metadata)}",
        *_indented([users_note_of(metadata), changes_note(metadata)]),
        f"guarantee: {guarantee}{scope}",
        f"privacy loss: {loss_in_words(metadata)}",
    ]
    if windows.is_recurring:
        lines.append(f"mechanism: {mechanism_in_words(design)}")
    besides = systematic_errors(metadata)
    if besides:
        lines += [f"not in the intervals: {besides[0]}", *_indented(besides[1:])]
    return "\n".join(lines)


def _indented(lines: Sequence[str | None]) -> list[str]:
    """Return lines that belong to the line before them."""
    return [f"  {line}" for line in lines if line is not None]
