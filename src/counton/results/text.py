"""Sentences that describe a stream of events and its releases."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Literal

from counton.base.columns import list_in_words
from counton.base.exact import percent, with_capital
from counton.base.lazy import software
from counton.base.lengths import LATE_DAYS, PERIODS
from counton.base.wording import counted, plural
from counton.continual import Design
from counton.continual.strategy_text import mechanism_in_words
from counton.privacy.guarantees import (
    AgesWithData,
    difference,
    parts_in_words,
    users_note,
)
from counton.results.error_text import far_in_words
from counton.results.metadata import ReleaseMetadata, counted_anew
from counton.results.systematic_errors import adds_users_up, systematic_errors
from counton.statistics import Statistic
from counton.statistics.by_group import inner_of
from counton.windowing.date_text import day_and_time, day_in_words
from counton.windowing.windows import ENDLESS

#: A public introduction to differential privacy.
_MORE = "https://doi.org/10.6028/NIST.SP.800-226"
#: What a change of a row is.
_CHANGE = "in later inputs (it disappears, returns, or moves to another window or group)"
#: First word of a note that says why numbers are withdrawn.
WITHDRAWN = "WITHDRAWN"


def methods_of(
    metadata: ReleaseMetadata,
    name: str,
    steps: range,
    level: float,
    reach: Mapping[str, float],
    over: int | str | None = None,
    notes: Sequence[str] = (),
) -> str:
    """Return the text that a publication prints with released numbers, for all readers.

    It states subject and time, whom noise protects, how large errors are (``reach``, by number),
    cautions (``notes``), and where to read more.
    """
    windows = metadata.windows
    newest = (
        "the newest numbers" if windows.is_recurring and not windows.n_revisions else "the numbers"
    )
    # Noise is all that an interval covers: late rows and bounds move numbers further.
    margin = far_in_words(reach)
    error = f"the noise changes {newest} by at most {margin}"
    if not margin:
        error = "the numbers without noise are in the published intervals"
    guarantee = str(metadata.guarantee).replace("rho = ", "a parameter of ")
    return " ".join(
        [
            _published_in_words(metadata, name, steps, over),
            protection_in_words(metadata),
            f"With {percent(level)}% confidence for each number, {error}.",
            *notes_as_sentences(notes),
            *besides_as_sentence(metadata),
            f"The method is {guarantee}, in the central trust model, by {software()}; it is "
            f"explained at {_MORE}.",
        ]
    )


def notes_as_sentences(notes: Sequence[str]) -> list[str]:
    """Translate notes as sentences."""
    return [f"{with_capital(note)}." for note in notes]


def protection_in_words(metadata: ReleaseMetadata) -> str:
    """Return sentences on whom noise protects, and whom less."""
    unit = metadata.privacy_unit
    hidden = difference(unit, metadata.contribution.relation)
    fades = isinstance(metadata.guarantee, AgesWithData)
    protects_rows = (
        not metadata.contribution_rule.bounds_users
        and metadata.contribution_rule.upstream_max_contributions is None
    )
    scope = "event-level privacy" if protects_rows else "user-level privacy"
    sentence = (
        "Random noise was added before publication: it limits how well anyone can tell, from all "
        f"published numbers together, {hidden}{', and less so as it gets older' * fades} ({scope})."
    )
    if protects_rows:
        less = f"A user with several {plural(unit)} is protected less."
        may_change = metadata.windows.n_revisions or metadata.max_corrections
        changes = _as_sentence(changes_note(metadata)) if may_change else []
        return " ".join([sentence, less, *changes])
    return " ".join([sentence, *_user_notes(metadata)])


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


def _published_in_words(
    metadata: ReleaseMetadata, name: str, steps: range, over: int | str | None
) -> str:
    """Return a sentence on subject, groups and times."""
    cut = metadata.windows
    called = statistic_in_words(metadata)
    if statistics := metadata.inner.statistics:
        parts = []
        for part_name, part in statistics.items():
            period = metadata.anew(inner_of(part))
            users_note = "" if period is None else f", users {counted_anew(period)}"
            parts.append(f"{part_name} ({inner_of(part).keyword}{users_note})")
        called = f"report of {list_in_words(parts)}"
    if metadata.what == "stream":
        called = f"total {name!r}" if metadata.series == "cumulative" else f"number {name!r}"
    subject = f"{called.removesuffix(',')}{',' * (',' in called and metadata.group_by is not None)}"
    if metadata.domain is not None and metadata.group_by is not None:
        cells_note = metadata.cells.how(len(metadata.domain or ()), "groups, named beforehand")
        by = groups_in_words(metadata) or ""
        subject = f"{subject} by {by} ({cells_note})"
    if not cut.is_recurring:
        return f"The {subject}, {cut.span_text(steps)}, was published once."
    if not cut.timed:
        cumulative = "" if metadata.series == "per-window" else "cumulative "
        row = "" if metadata.what == "stream" else ", after each row"
        if len(steps) == 1:
            return f"The {cumulative}{subject} was published once{row}."
        return f"The {cumulative}{subject} was published {len(steps):,} times{row}."
    every = f"period of {cut.every}" if cut.period is None else cut.period
    if isinstance(over, str):
        when = f"in each {over}{_so_far(metadata, over)}"
    elif metadata.series == "rolling":
        when = f"in the {metadata.last_windows_in_words}"
    elif metadata.series == "decayed":
        when = f"in which a {every} counts half after {metadata.half_life_in_words}"
    elif over is not None and over > 1:
        several = cut.period and plural(cut.period)
        windows = several or f"periods of {cut.every}"
        when = f"in the last {over:,} {windows}"
    elif over == 1 or metadata.series == "per-window":
        when = f"in each {every}"
    elif metadata.series == "both" and metadata.widths:
        when = f"and those in each {every} and in the {metadata.last_windows_in_words}"
    elif metadata.series == "both":
        when = f"and that in each {every}"
    elif metadata.widths:
        when = f"and that in the {metadata.last_windows_in_words}"
    else:
        when = ""
    is_cumulative = not when or when.startswith("and ")
    return (
        f"The {'cumulative ' * is_cumulative}{subject}{', ' * bool(when)}{when}{',' * bool(when)} "
        f"was published after each {every} of {cut.span_text(steps)} (time zone {cut.timezone})."
    )


def _so_far(metadata: ReleaseMetadata, period: str) -> str:
    """Return " to date" if periods are longer than a window."""
    return "" if metadata.window == period else " to date"


def besides_as_sentence(metadata: ReleaseMetadata) -> list[str]:
    """Return a sentence on errors other than noise, if any."""
    lines = systematic_errors(metadata)
    return [f"The intervals do not include these errors: {'; '.join(lines)}."] if lines else []


def _user_notes(metadata: ReleaseMetadata) -> list[str]:
    """Return sentences on users whose rows are not all protected together."""
    return [*_as_sentence(users_note_of(metadata)), *_as_sentence(changes_note(metadata))]


def changes_note(metadata: ReleaseMetadata) -> str | None:
    """Return a note on the loss of events that change in later inputs; None if rows count once."""
    if (covered := metadata.max_corrections) is None:
        return None
    if metadata.contribution_rule.bounds_users:
        rule = "a counted row that later inputs lack stays counted"
        if covered:
            times = "once" if covered == 1 else f"{covered:,} times"
            rule = f"later inputs may replace each counted row {times}, then it stays counted"
        return f"{rule}: the guarantee covers all inputs of each {metadata.privacy_unit} together"
    row = metadata.contribution_rule.event_name or metadata.privacy_unit
    if covered:
        return f"the guarantee covers {counted(covered, 'change')} of each {row} {_CHANGE}"
    times = _loss_of_changes(metadata)
    return f"for each {row} that changes K times {_CHANGE}, the loss is up to {times}"


def _loss_of_changes(metadata: ReleaseMetadata) -> str:
    """Return the loss of a row that changes K times, as a multiple of the loss of one that stays.

    In revised windows it moves the measurements of each window by +1 and -1 in turn. Else it counts
    again in each window to which it moves, as 1 + K rows do (`loss_of_many`).
    """
    if metadata.windows.n_revisions:
        return "(1 + 2K) times as large"
    losses = metadata.guarantee.losses
    if "rho" in losses:
        return "(1 + K)^2 times as large"
    return f"(1 + K) times as large{', with far more delta' if 'delta' in losses else ''}"


def users_note_of(metadata: ReleaseMetadata) -> str | None:
    """Return a note on the privacy loss of a user, or on who has bounded a user's rows."""
    contribution_rule = metadata.contribution_rule
    if (
        contribution_rule.upstream_max_contributions is not None
        and contribution_rule.event_name is not None
    ):
        noun = contribution_rule.event_name
        if contribution_rule.upstream_max_contributions != 1:
            noun = plural(noun)
        rows = f"{contribution_rule.upstream_max_contributions:,} {noun}"
        by = "as bounded before, by whoever made the table"
        return f"the table counts at most {rows} of one {metadata.privacy_unit}, {by}"
    if not contribution_rule.bounds_users:
        return users_note(metadata.guarantee, metadata.privacy_unit)
    parted = contribution_rule.contribution_period is not None
    return parts_in_words(metadata.guarantee, metadata.privacy_unit) if parted else None


def counting_rule(metadata: ReleaseMetadata) -> str | None:
    """Return words for the window in which a late row counts, if it does."""
    if not (metadata.windows.timed and metadata.windows.is_recurring):
        return None
    if not metadata.windows.n_revisions:
        return "by arrival" if metadata.max_corrections is None else "by the time of each row"
    return (
        f"by the time of each row, for {metadata.windows.length_text(metadata.windows.n_revisions)}"
    )


def _as_sentence(note: str | None) -> list[str]:
    return [] if note is None else [f"{with_capital(note)}."]


def account_of(
    metadata: ReleaseMetadata,
    design: Design,
    steps: int,
    errors: Sequence[str],
    over: int | str | None = None,
) -> str:
    """Return all paragraphs on methods, for specialists; ``errors`` are sentences."""
    from counton.continual.methods import methods
    from counton.planning import factors_of_design, far_from_possible

    of = "" if metadata.statistic.additive else "a cell of what it reads"
    # The least error of numbers of periods, and of several versions of a window, is not known. That
    # of rolling sums is of the planner's workload, not of the design's totals.
    is_recent = bool(metadata.widths) or metadata.half_life is not None
    of_other_numbers = metadata.series == "period-to-date" or is_recent
    unknown = of_other_numbers or metadata.windows.n_revisions > 0
    least: Literal["mean", "max"] = "max" if metadata.metric == "max" else "mean"
    factors = [] if unknown else factors_of_design(design, least)
    far = far_from_possible(design, factors, least, of=of, cited=False)
    return methods(
        design,
        released=_released_in_words(metadata, design, steps) + _shown_in_words(metadata, over),
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


def _shown_in_words(metadata: ReleaseMetadata, over: int | str | None) -> str:
    if over is None or metadata.series in ("per-window", "rolling"):
        return ""
    if isinstance(over, str):
        return f" Each user counts anew in each {over}."
    noun = "window" if metadata.windows.noun == "window" else "step"
    of = f"that {noun} alone" if over == 1 else f"the last {over:,} {noun}s"
    return f" The numbers shown at each {noun} are of {of}."


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
        period = metadata.anew() or "period"
        subject = f"{subject} in each {period}{_so_far(metadata, period)}"
    else:
        subject = f"running {subject}"
    if (by := groups_in_words(metadata)) is not None and metadata.domain is not None:
        cells_note = metadata.cells.how(len(metadata.domain or ()), "declared groups")
        subject = f"{subject} by {by} ({cells_note})"
    if not cut.timed:
        return f"The {subject} was released after each row, {steps:,} times."
    last = design.strategy.horizon
    if cut.n_revisions:  # the strategy of the newest numbers has only the windows that have ended
        last = None if cut.steps >= ENDLESS else cut.steps
    of = "each window" if last is None else f"each of up to {counted(last, 'window')}"
    again = ""
    if cut.n_revisions:
        windows = "window" if cut.n_revisions == 1 else f"{cut.n_revisions:,} windows"
        again = f", and again after the next {windows}"
    return (
        f"The {subject} was released after {of} of {cut.every} from "
        f"{day_and_time(cut.local(cut.start))} ({cut.timezone}) on{again}; {steps:,} "
        f"window{'s have' if steps != 1 else ' has'} been released."
    )


def incomplete_note(
    metadata: ReleaseMetadata, first: int, widths: Sequence[int] | None = None
) -> str | None:
    """Return a sentence on sums of last windows that count fewer windows; None if all do.

    Args:
        metadata: the release.
        first: the first of the shown windows.
        widths: the shown sums, ascending, each a number of windows; None: all.
    """
    widths = [width for width in widths or metadata.widths if first < width]
    if not widths:
        return None
    windows = plural(metadata.window)
    counted_before = list_in_words([f"{width - 1:,}" for width in widths])
    before = windows if widths[-1] > 2 else metadata.window
    last = replace(metadata, widths=tuple(widths)).last_windows_in_words
    sums = "sum" if len(widths) == 1 else "sums"
    count = "counts" if len(widths) == 1 else "count"
    return (
        f"In the first {counted_before} {before}, the {sums} of the {last} {count} all {windows} "
        "since the start."
    )


def heading_in_words(metadata: ReleaseMetadata) -> str:
    """Return what the numbers of a release are, for a page: its only series, if there is one."""
    subject = statistic_in_words(metadata).removesuffix(",")
    if metadata.half_life is not None:
        weights = f"each {metadata.window} counts half after {metadata.half_life_in_words}"
        subject = f"{subject}, {weights}"
    elif len(metadata.published_series) == 1 and metadata.widths:
        subject = f"{subject}, {metadata.last_windows_in_words}"
    return title_in_words(subject, groups_in_words(metadata))


def _spans_in_words(metadata: ReleaseMetadata) -> str:
    """Return which windows the numbers of a stream with rolling sums count."""
    spans = {"both": ["since the start", "in each window"], "cumulative": ["since the start"]}
    widths = [f"{width:,}" for width in metadata.widths]
    last = f"in the last {list_in_words(widths)} window{'s' if metadata.widths != (1,) else ''}"
    return list_in_words([*spans.get(metadata.series, []), last])


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


def series_in_words(metadata: ReleaseMetadata) -> str:
    """Return the name of a chart's only curve."""
    if metadata.what == "sum":
        return str(metadata.value)
    return metadata.subject.removeprefix("number of ").partition(",")[0].partition(" (")[0]


def groups_in_words(metadata: ReleaseMetadata) -> str | None:
    """Return the grouping columns, such as "region and sex"."""
    if metadata.group_by is None:
        return None
    return " and ".join(name.strip() for name in metadata.group_by.split(","))


def title_in_words(subject: str, grouped: str | None) -> str:
    """Return the title of a chart or a page: what counts, by which columns."""
    return with_capital(subject) if grouped is None else f"{with_capital(subject)}, by {grouped}"


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
        return f"in each {over}{_so_far(metadata, over)}"
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


def foot_of(metadata: ReleaseMetadata, source: str | None, notes: Sequence[str]) -> str:
    """Return the text below a chart: source, notes, and protected unit."""
    windows = metadata.windows
    whence = "" if source is None else f"Source: {source}. "
    zone = f"; times: {windows.timezone}" if windows.timed else ""
    beyond = "".join(f"; {line}" for line in systematic_errors(metadata))
    whence += "".join(f"{note}. " for note in notes)
    protects = (
        f"Noise protects each single {metadata.privacy_unit} ({metadata.guarantee}; "
        f"{metadata.contribution.neighbours})"
    )
    return f"{whence}{protects}{zone}{beyond}"


def size_of_table(statistic: Statistic, name: str) -> str:
    """Return the number of released counts of a table in words, or its name.

    Args:
        statistic: a statistic that is released once.
        name: its name in jobs.
    """
    from counton.statistics.measurement_choice import TableStatistic  # streams do not need it

    return statistic.size if isinstance(statistic, TableStatistic) else name


def in_words(metadata: ReleaseMetadata, design: Design, steps: range) -> str:
    """Describe the privacy unit, the guarantee, the mechanism, and the released windows."""
    windows = metadata.windows
    guarantee = metadata.guarantee
    released = f"{windows.count_text(len(steps))} released"
    scope = f", {guarantee.scope}"
    if not windows.is_recurring:
        released = f"{size_of_table(metadata.statistic, metadata.what)} released once"
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


def guarantee_in_words(metadata: ReleaseMetadata, loss: str | None = None) -> str:
    """Return sentences on the privacy loss of each unit, and on whom it does not protect.

    Args:
        metadata: the release.
        loss: the loss in words; None: the parameters of the guarantee.
    """
    is_recurring = metadata.windows.is_recurring
    together = (
        f", for all {metadata.windows.noun}s together" if loss is None and is_recurring else ""
    )
    loss = metadata.guarantee.loss_in_words if loss is None else loss
    is_replaced = metadata.contribution.relation == "replace"
    replaced = " that is replaced by another" if is_replaced else ""
    notes = [users_note_of(metadata)]
    if metadata.windows.n_revisions or metadata.max_corrections:
        notes.append(changes_note(metadata))
    sentences = notes_as_sentences([note for note in notes if note is not None])
    return " ".join([f"{loss} for each {metadata.privacy_unit}{replaced}{together}.", *sentences])


def protected_in_words(metadata: ReleaseMetadata) -> str:
    """Return words for the protected unit and how much it counts, in groups and windows if cells
    are.

    >>> from counton.run import Job
    >>> from counton.run.spec.plan_spec import plan_spec
    >>> job = Job("count", "visits.csv", "visits.db", time="at", every="1d", start="2024-03-01",
    ...           windows=31, group_by="page", groups="home,shop", privacy_unit="visit", epsilon=1)
    >>> protected_in_words(plan_spec(job).metadata())
    'one visit more or less, counted in one group of one window by at most 1'
    """
    unit = metadata.privacy_unit
    change = change_in_words(metadata)
    if metadata.contribution.relation == "replace":
        return f"one {unit}, {change}, {metadata.contribution.neighbours}"
    return f"one {unit} more or less, {change}"


def change_in_words(metadata: ReleaseMetadata) -> str:
    """Return the most that one unit of privacy changes, in groups and windows if cells are."""
    words = metadata.contribution.change_in_words(steps=metadata.windows.is_recurring)
    # Values are clipped "in steps of" their resolution, which are no windows.
    words = re.sub(r"(?<!in )\bstep(s?)\b(?! of)", rf"{metadata.windows.noun}\1", words)
    if metadata.windows.n_revisions and metadata.series == "both":
        words += ", and in the totals from the window on in which it arrives"
    if metadata.statistic.additive and metadata.groups_apart is None:
        words = words.replace("one cell of ", "").replace("any cells and ", "any ")
    if metadata.statistic.additive:
        return re.sub(r"\bcell(s?)\b", r"group\1", words)
    if re.search(r"\bcells?\b", words) is not None:
        words += "; a cell is one of the counts behind the numbers"
    return words


def loss_in_words(metadata: ReleaseMetadata) -> str:
    """Return the privacy loss of each unit."""
    guarantee = metadata.guarantee
    unit = metadata.privacy_unit
    if isinstance(guarantee, AgesWithData):
        return f"grows with the age of each {unit}"
    loss = f"{guarantee.loss_in_words} for each {unit}, once"
    if not metadata.windows.is_recurring:
        return loss
    return (
        f"{loss} for the whole stream, which is this series of releases: later releases "
        f"add nothing; the losses of other streams about the same {unit} add up"
    )
