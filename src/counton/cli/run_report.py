"""The report of a run: released numbers for everybody, and exact facts for the operator.

Sentences mark options by `counton.base.errors.param`, since a command and a job file name them in
different ways. Who prints the sentences translates the names.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from fractions import Fraction
from typing import NamedTuple

from counton.base.columns import list_in_words
from counton.base.errors import param, translate
from counton.base.look_alikes import shown_beside
from counton.base.wording import counted
from counton.job.common_options import Job
from counton.results.privacy_text import users_note_of
from counton.results.released_table import last_numbers
from counton.results.subject_text import size_of_table
from counton.results.systematic_errors import systematic_errors
from counton.run.counting.operator_counts import ChangedWindow
from counton.run.input_notes import differing_rows_note, number_missing
from counton.run.rows.row_numbers import RowNumbers, WithoutRows
from counton.run.run_job import RowCounts, RunReport, RunResult
from counton.run.spec.changed_options import left_out_options
from counton.run.spec.stream_spec import StreamSpec
from counton.run.spec.terms import (
    CountedEvent,
    ExpiringWindows,
    FileRecognition,
    IdRecognition,
    NewRows,
    RankingOfGroups,
    Snapshot,
    SnapshotRecognition,
    User,
    UserOfCounts,
)
from counton.run.windows.held_back import HeldBackWindows
from counton.statistics.catalogue import statistic_to_dict
from counton.windowing.windows import ENDLESS_STEPS, Windows

#: Largest number of windows, or of groups, that a note names.
_MOST_NAMED_WINDOWS = 7
#: Microseconds of an hour.
_HOUR = 3_600_000_000
_HOURS_OF_DAY = 24


# --------------------------------------------------------------------------- lines for everybody
def progress_line(result: RunResult) -> str:
    """Return a line on how many windows are released, and how many of them are new."""
    new = result.after - result.before
    if result.is_single_table:
        contents = size_of_table(
            result.spec.accumulator_statistic, result.spec.terms.statistic.name
        )
        if new:
            return f"Released {contents}."
        return f"Nothing new. Released before: {contents}."
    all_windows_text = _of_all_windows(result)
    if new == 0 and result.after == 0:
        return "No window is released yet."
    if new == 0:
        released = counted(result.after, "window")
        if all_windows_text:
            released = f"{result.after:,}{all_windows_text} windows"
        return f"No new window is due. Released: {released}."
    if new == 1:
        return f"Released 1 new window ({result.after:,}{all_windows_text})."
    first = result.before + 1
    return f"Released {new:,} new windows ({first:,} to {result.after:,}{all_windows_text})."


def _of_all_windows(result: RunResult) -> str:
    windows = result.spec.terms.windowing.windows
    has_no_stated_end = windows.n_revisions > 0 and windows.steps >= ENDLESS_STEPS
    if result.spec.strategy.horizon is None or has_no_stated_end:
        return ""
    return f" of {windows.steps:,}"


def next_window_line(result: RunResult) -> str | None:
    """Return when the next window can be released; None if there is none."""
    windows = result.spec.terms.windowing.windows
    if result.is_single_table or result.after >= windows.steps:
        return None
    number = result.after + 1
    end = int(windows.ends(range(number, number + 1))[0])
    due_us = end + result.options.release_delay
    due = f"{windows.local(due_us):%Y-%m-%d %H:%M:%S}".removesuffix(":00")
    when = f"from {due} ({windows.timezone})"
    if _newest_row_decides(result, due_us):
        when = f"once there is an event of {due} ({windows.timezone}) or later"
    elif result.options.until == "latest-event" or isinstance(result.options.until, datetime):
        or_later = "" if number == windows.steps else " or later"  # a run refuses later times
        when = f"with until = {due} ({windows.timezone}){or_later}"
    delay = result.job.release_delay
    after_end = f", {delay} after its end" if result.options.release_delay else ""
    return (
        f"window {number:,} can be released {when}{after_end}{_needed_row(result, number, due_us)}"
    )


def _newest_row_decides(result: RunResult, due_us: int) -> bool:
    """Return whether a row can release a window; rows after the last window stop a run instead.

    Args:
        result: the run.
        due_us: when the window is due, in microseconds since 1970.
    """
    by_newest_row = result.options.until == "latest-event"
    return by_newest_row and due_us < result.spec.terms.windowing.windows.end


def _needed_row(result: RunResult, number: int, due_us: int) -> str:
    """Return which row the release of the next window needs, as words after a comma; "" if none.

    `counton.run.windows.due_windows` refuses windows after the newest row, and
    `counton.run.counting.missing_rows.refuse_holes` those before it. The words follow from the
    options alone, since readers may see them.

    Args:
        result: the run.
        number: the number of the next window.
        due_us: when it is due, in microseconds since 1970.
    """
    options = result.options
    if _newest_row_decides(result, due_us):
        return ""
    condition = _needed_input(result, number)
    if condition and options.allow_empty_windows:
        return f"{condition}, or with --allow-empty-windows"
    return condition


def _needed_input(result: RunResult, number: int) -> str:
    """Return what a run needs that does not allow empty windows, as words; "" if nothing.

    Args:
        result: the run.
        number: the number of the next window.
    """
    options = result.options
    needs_any_row = isinstance(options.input, Snapshot)
    any_row = ", once there is a row" if needs_any_row else ""
    n_may_be_empty = options.max_empty_windows
    first_needed = number - n_may_be_empty
    if options.input.has_only_new_rows:
        # An input that was counted before releases nothing more, even if rows of it wait.
        source = "file" if result.job.query is None else "result of the query"
        new_source = f", by a run with a new {source}"
        by_new = new_source if isinstance(options.input, NewRows) else ""
        return by_new if n_may_be_empty else f", once it has a row{by_new}"
    if options.input.lookback is not None:
        if not n_may_be_empty:
            return ", once it has a row"
        if first_needed < 1:
            return any_row
        if n_may_be_empty == 1:
            return ", once it or the window before it has a row"
        return f", once it or one of the {n_may_be_empty:,} windows before it has a row"
    repeats_rows = options.input.repeats_rows
    if first_needed <= 1 if repeats_rows else n_may_be_empty:
        return any_row
    windows = result.spec.terms.windowing.windows
    begin = int(windows.starts(range(first_needed, first_needed + 1))[0])
    return f", once there is a row of {windows.option_text(begin)} or later"


def time_remarks(result: RunResult) -> Iterator[str]:
    """Yield remarks on the times of rows and windows, with a stream's first run alone.

    One comes if late rows would count in the window in which they arrive. Another one comes if the
    time of the newest row decided which windows were released, because this time is not protected.
    """
    metadata = result.spec.metadata()
    windows = result.spec.terms.windowing.windows
    delay = result.job.release_delay
    counts_by_arrival = not result.is_single_table and not windows.n_revisions
    if result.before:
        return
    if counts_by_arrival and delay is None:
        own_window = f"their {metadata.window}"
        revise = ""
        if _may_revise(result):
            revise = (
                f" To add them to {own_window} afterwards, start a new stream with "
                f"{param('allowed_lateness')}, which spends the privacy loss again."
            )
        yield (
            f"Late rows: to wait for them before {own_window} is released, set "
            f"{param('release_delay')}.{revise}"
        )
    if result.options.until != "latest-event" or result.after == result.before:
        return
    last_end = int(windows.ends(range(result.after, result.after + 1))[0]) if result.after else 0
    if result.until < last_end:
        return
    newest = windows.to_the_minute(result.until + result.options.release_delay)
    determines = ", which determines the released windows"
    if result.options.release_delay:
        end = windows.to_the_minute(result.until)
        determines = (
            f". Less the release delay of {delay}, it is {end}. Windows that ended by then are "
            "released"
        )
    yield (
        f"Not protected: the time of the newest event, {newest}{determines}. Without "
        f"{param('until', 'latest-event')} the clock determines the windows."
    )


def _limits_users(result: RunReport) -> bool:
    return result.spec.terms.privacy_unit.user_column is not None


def _may_revise(result: RunReport) -> bool:
    terms = result.spec.terms
    is_ranking = isinstance(terms.statistic, RankingOfGroups)
    can_be_revised = not isinstance(terms.windowing, ExpiringWindows) and terms.workload is None
    return can_be_revised and not is_ranking


# ---------------------------------------------------------------------------- facts for operators
class RowsNote(NamedTuple):
    """A text on rows, with their number.

    Attributes:
        text: which rows they are.
        number: number of these rows; without one, the text is not shown.
        of_all: number of all rows, if their share is shown; else 0.
    """

    text: str
    number: int
    of_all: int = 0

    def line(self) -> str:
        """Return the text and the number.

        >>> RowsNote("rows set aside", 583, 600).line()
        'rows set aside: 583 of 600 (97.2%)'
        """
        share = f" of {self.of_all:,} ({self.number / self.of_all:.1%})" if self.of_all else ""
        return f"{self.text}: {self.number:,}{share}"


def confidential_notes(
    report: RunReport, newly_quarantined: int, names: Mapping[str, str]
) -> list[str]:
    """Return all notes for the operator on the rows of a run, or of its dry run.

    Args:
        report: the run, or the dry run, which has the same notes.
        newly_quarantined: number of unreadable rows that no earlier run had written to their file.
        names: what the notes call options.
    """
    notes = held_back_notes(report.confidential_counts().held_back, names)
    return notes + [translate(note, names) for note in operator_notes(report, newly_quarantined)]


def quarantined_note(number: int) -> str:
    """Return a sentence on the unreadable rows that a refused run has set aside."""
    (note,) = _lines_of(_omitted_rows(0, number, 0))
    return note


def _omitted_rows(
    missing: int,
    quarantined: int,
    beyond_limit: int,
    *,
    rows_read: int = 0,
    quarantined_before: int = 0,
    beyond_text: str = "beyond their user's limit",
) -> list[RowsNote]:
    """Return texts on rows that do not count, with their numbers.

    Args:
        missing: number of rows that lack a value.
        quarantined: number of unreadable rows.
        beyond_limit: number of rows beyond their user's limit.
        rows_read: number of all rows; 0: not known.
        quarantined_before: number of unreadable rows that earlier runs had set aside.
        beyond_text: which rows ``beyond_limit`` counts.
    """
    set_aside = ""
    if quarantined_before > 0:
        set_aside = f" ({quarantined_before:,} more were set aside by earlier runs)"
    return [
        RowsNote("rows with a missing value, not counted", missing),
        RowsNote(f"rows that cannot be read, set aside{set_aside}", quarantined, rows_read),
        RowsNote(f"rows {beyond_text}, not counted", beyond_limit),
    ]


def operator_notes(result: RunReport, newly_quarantined: int) -> list[str]:
    """Return exact facts about the rows of a run, in sentences for the operator only.

    Args:
        newly_quarantined: number of unreadable rows that no earlier run had written to their file.
    """
    counts = result.confidential_counts()
    row_notes = _omitted_rows(
        counts.rows.missing,
        newly_quarantined,
        counts.input.choice.beyond_bound,
        rows_read=counts.rows.read,
        quarantined_before=counts.rows.quarantined - newly_quarantined,
        beyond_text=f"{_which_beyond(result)}{_beyond_which_limits(result.spec)}",
    )
    missing = RowsNote(
        f"rows that were counted before and are missing now, still counted{_not_compared(result)}",
        number_missing(result),
    )
    if result.is_single_table:
        return _lines_of(
            [
                RowsNote("rows of undeclared cells, not counted", counts.rows.unlisted),
                *row_notes,
                RowsNote(
                    "rows that arrived after the table was released, not counted (to count them, "
                    f"start another {param('stream')}, which spends the privacy loss again)",
                    counts.input.after_final,
                ),
                missing,
            ]
        ) + user_notes(counts.rows, result.spec)
    notes = _lines_of([*_notes_of_windows(result, row_notes), missing])
    if counts.input.changed:
        notes += _changed_windows(result)
    if counts.rows.unlisted or counts.rows.in_other_group or counts.rows.without_group:
        notes += unlisted_group_notes(counts.rows, result.spec)
    notes += missing_row_notes(
        counts.without_rows,
        result.spec,
        _other_rows(result),
        has_late_rows=_counts_late_rows(result),
    )
    if not result.before and result.after:
        notes += empty_other_group_notes(result)
    notes += user_notes(counts.rows, result.spec)
    windows = result.spec.terms.windowing.windows
    if counts.input.late_by and not windows.n_revisions:
        notes.insert(1, _remedy_of_late_rows(result))
    if result.is_duplicate_input:
        notes.insert(0, "an earlier run has counted this input; nothing was added")
    differing = differing_rows_note(result)
    if differing is not None:
        notes.insert(0, differing)
    return notes


def held_back_notes(
    held_back: HeldBackWindows | None, names: Mapping[str, str], job_file: str = "the job file"
) -> list[str]:
    """Return a note on windows that a first run does not release; none if there are none.

    Args:
        held_back: these windows.
        names: what the note calls options: ``--until``, or the key of a job file.
        job_file: what the note calls the job file.

    >>> held_back = HeldBackWindows("31 March 2024", "more rows may follow", "until", "2024-04-01")
    >>> held_back_notes(held_back, {"until": "until"})[0].partition(". ")[2]
    'If the file has all rows of this time, set until = "2024-04-01" in the job file'
    """
    if held_back is None:
        return []
    option = names.get(held_back.option, held_back.option)
    setting = f"{option} {held_back.value}"
    if not option.startswith("--"):
        setting = f'{option} = "{held_back.value}" in {job_file}'
    names_with_setting = {**names, f"{held_back.option}={held_back.value}": setting}
    return [translate(held_back.note(), names_with_setting)]


def _notes_of_windows(result: RunReport, row_notes: Sequence[RowsNote]) -> list[RowsNote]:
    counts = result.confidential_counts()
    windows = result.spec.terms.windowing.windows
    # A file of all events repeats the rows before the first window in each run.
    is_news = result.before == 0 or result.job.append
    before_start = counts.rows.before_start if is_news else 0
    start = windows.format_moment(windows.start) if before_start else ""
    end = windows.format_moment(windows.end) if counts.rows.after_last_window else ""
    n_future = 0 if counts.future is None else counts.future.number
    newest = "" if counts.future is None else windows.to_the_minute(counts.future.newest)
    too_old = _too_old(result)
    which_rows = "rows of an erased period"
    if too_old is not None:
        which_rows = f"rows whose {too_old}, or of an erased period"
    after_final = f"{which_rows}, not counted now (earlier runs may have counted them)"
    if windows.n_revisions:
        after_final = (
            f"rows of windows that were final after {counted(windows.n_revisions, 'more window')}, "
            "not counted now (earlier runs may have counted them)"
        )
    other_rows = _other_rows(result)
    n_closed_by_choice = _number_of_closed_windows(result)
    n_closed_by_snapshot = 0 if n_closed_by_choice else counts.input.after_final
    return [
        RowsNote(
            f"rows that arrived late for windows released before, {_when_counted(result)}",
            counts.input.late_uncounted,
        ),
        RowsNote(
            f"newest windows released without a row{other_rows} (check whether a file is missing)",
            counts.empty_windows,
        ),
        RowsNote(f"rows before the first window ({start}), not counted", before_start),
        RowsNote(f"rows after the last window ({end}), not counted", counts.rows.after_last_window),
        RowsNote(
            "rows of windows that begin in the future, not counted before these windows end (the "
            f"newest is of {newest})",
            n_future,
        ),
        *row_notes,
        RowsNote(
            "rows that an earlier run had counted, not counted again", _number_of_duplicates(result)
        ),
        RowsNote(after_final, n_closed_by_choice),
        RowsNote(_late_in_closed_windows(result), counts.input.choice.new_past),
        RowsNote(_late_rows_of_users(result), counts.input.choice.uncounted_late),
        RowsNote(
            "rows of windows that this input does not cover, not used in this run",
            counts.input.outside_snapshot,
        ),
        RowsNote(
            "rows that were counted before and are missing now, removed from open windows",
            counts.input.choice.retracted,
        ),
        RowsNote(
            after_final if windows.n_revisions else _late_in_snapshot(result), n_closed_by_snapshot
        ),
    ]


def _late_in_closed_windows(result: RunReport) -> str:
    """Return words for new rows of an input with all rows that came too late to count."""
    windows = result.spec.terms.windowing.windows
    if windows.n_revisions:
        return "new rows of windows that were final, not counted"
    return f"new rows whose {_too_old(result) or 'period was erased'}, not counted"


def _too_old(result: RunReport) -> str | None:
    """Return which rows come too late to count, in words after "rows whose"; None if none do."""
    metadata = result.spec.metadata()
    return metadata.contribution_rule.too_old(
        metadata.window, metadata.privacy_unit, ids=metadata.has_row_ids
    )


def _not_compared(result: RunReport) -> str:
    """Return of which rows nobody can tell whether they are missing, in words; "" if of none.

    Digests of users are deleted some time after their period, so that older rows are unknown.
    """
    terms = result.spec.terms
    if result.is_single_table or terms.privacy_unit.rule.contribution_period is None:
        return ""
    return " (rows that the state no longer remembers are not compared)"


def _when_counted(result: RunReport) -> str:
    windows = result.spec.terms.windowing.windows
    has_next_release = result.after < windows.steps
    if result.after > result.before:
        number = f"{result.before + 1:,}"
        if windows.n_revisions:
            return f"counted in their own windows, which were revised with window {number}"
        return f"counted in window {number}"
    if not has_next_release:
        return "not counted: the stream has had its last release"
    if windows.n_revisions:
        return "to be counted in their own windows at the next release"
    return "to be counted at the next release"


def _late_in_snapshot(result: RunReport) -> str:
    """Return words for late rows of a snapshot, which does not tell which of them are new."""
    return (
        "rows of this input that arrived after their window was released, not counted "
        f"({_remedies_of_uncounted(result)})"
    )


def _late_rows_of_users(result: RunReport) -> str:
    """Return words for late rows of users, which are told apart from those that counted."""
    windows = result.spec.terms.windowing.windows
    event = "was final" if windows.n_revisions else "was released"
    return (
        "rows of this input, new or changed and within their user's limit, that arrived after "
        f"their window {event}, not counted ({_remedies_of_uncounted(result)})"
    )


def _remedies_of_uncounted(result: RunReport) -> str:
    """Return what an operator can do about late rows that do not count, in words."""
    remedies = f"to wait: {param('release_delay')}"
    if _may_revise(result):
        remedies += (
            f"; to add them later: a new stream with {param('allowed_lateness')}, which "
            "spends the privacy loss again"
        )
    return remedies


def _which_beyond(result: RunReport) -> str:
    """Return which rows are counted that are beyond their user's limit; "" for all of this run."""
    if result.is_single_table or not result.before:
        return ""
    match result.spec.terms.recognition:
        case SnapshotRecognition():
            return "of new windows "
        case IdRecognition():  # the input may repeat rows of earlier ones
            return "of this input "
        case FileRecognition():
            return ""


def _beyond_which_limits(spec: StreamSpec) -> str:
    """Return words for rows that limits of users leave out, repeats in a window among them."""
    unit = spec.terms.privacy_unit
    if not (isinstance(unit, User) and unit.once_per_window):
        return "beyond their user's limit"
    group = "" if spec.terms.groups.column is None else " and group"
    return f"beyond their user's limits, such as one in each window{group}"


def _number_of_duplicates(result: RunReport) -> int:
    """Return how many rows were counted before; of snapshots, which repeat all rows, none."""
    return result.confidential_counts().input.choice.duplicates if result.job.append else 0


def _number_of_closed_windows(result: RunReport) -> int:
    """Return how many new rows came for closed windows.

    Nearly all rows of a snapshot are counted rows, which the state has forgotten: none of those.
    """
    return result.confidential_counts().input.choice.after_final if result.job.append else 0


def _changed_windows(result: RunReport) -> list[str]:
    """Return a sentence for each of the newest windows whose rows differ from the last input's."""
    spec = result.spec
    windows = spec.terms.windowing.windows
    changed = result.confidential_counts().input.changed
    noun = "row"
    net = ""  # sums of counts do not show which row has changed
    if isinstance(spec.terms.privacy_unit, CountedEvent | UserOfCounts):
        noun = spec.terms.privacy_unit.rule.event_name or spec.metadata().privacy_unit
        net = ", net" if spec.terms.groups.column is None else ", net in each group"
    lines = [
        f"{windows.span_text(range(window.number, window.number + 1))}: "
        f"{counted(window.now, noun)}, previously {window.before:,} "
        f"({window.added:,} added, {window.missing:,} missing{net}); "
        f"window {_update_in_words(result, window)}"
        for window in reversed(changed[-_MOST_NAMED_WINDOWS:])
    ]
    rest = len(changed) - len(lines)
    if rest > 0:
        lines.append(f"rows of {counted(rest, 'earlier window')} differ as well")
    return lines


def _update_in_words(result: RunReport, window: ChangedWindow) -> str:
    """Return whether a window of which rows differ was updated, and if not, why."""
    windows = result.spec.terms.windowing.windows
    if window.is_open:
        return "updated"
    may_be_updated = window.number >= windows.first_open(result.after) and windows.n_revisions > 0
    if may_be_updated and result.after < windows.steps:
        return "not updated yet, because no new window was due"
    return "not updated, because it is final"


def missing_row_notes(
    without_rows: WithoutRows, spec: StreamSpec, other_rows: str, *, has_late_rows: bool
) -> list[str]:
    """Return sentences on windows and groups that are only noise, because they have no rows.

    Args:
        without_rows: these windows and groups.
        spec: the specification of the stream.
        other_rows: which rows these windows may have, as words after a comma; "" if none.
        has_late_rows: whether late rows count in one of the released windows.
    """
    notes = _missing_count_notes(without_rows.cells, spec, has_late_rows=has_late_rows)
    groups = without_rows.groups
    if groups:
        shown = [repr(group) for group in groups[:_MOST_NAMED_WINDOWS]]
        notes.append(
            f"listed groups without any readable row: {len(groups):,} "
            f"({', '.join(_with_number_of_rest(shown, len(groups)))}). Their numbers are only noise"
        )
    windows = spec.terms.windowing.windows
    gaps = without_rows.group_gaps
    if gaps:
        chosen = _choose_stretches([(name, gap.windows) for name, gap in gaps])
        shown = [f"{name!r}, {windows.span_text(stretch)}" for name, stretch in chosen]
        number = sum(gap.n_windows for _, gap in gaps)
        closed = ""
        if any(gap.lasts for _, gap in gaps):
            closed = (
                ". If a group has closed for good, tell them as well. The stream keeps it, and it "
                "is named here until half of the windows lack its rows"
            )
        notes.append(
            f"windows of a group without any readable row, unlike other groups: {number:,} "
            f"({'; '.join(_with_number_of_rest(shown, len(gaps)))}). If rows are missing, readers "
            f"must be told{closed}"
        )
    stretches = without_rows.windows
    if stretches:
        shown = [windows.span_text(stretch) for stretch in stretches[:_MOST_NAMED_WINDOWS]]
        number = sum(len(stretch) for stretch in stretches)
        notes.append(
            f"windows without any readable row{other_rows}: {number:,} "
            f"({'; '.join(_with_number_of_rest(shown, len(stretches)))}). If rows are missing, "
            "readers must be told"
        )
    return notes


def _other_rows(result: RunReport) -> str:
    """Return which rows windows without a row may have, as words after a comma; "" if none.

    Of earlier files, a run of new rows does not know the rows beyond their user's limit. Late rows
    have times of other windows.
    """
    has_users = result.spec.terms.privacy_unit.user_column is not None
    others = []
    if has_users and result.options.input.has_only_new_rows and not result.begins_stream:
        others.append("rows of earlier files beyond their user's limit")
    if _counts_late_rows(result):
        others.append("late rows of earlier windows")
    return f", apart from {' and '.join(others)}" if others else ""


def _counts_late_rows(result: RunReport) -> bool:
    """Return whether late rows count in one of the windows that a run releases."""
    windows = result.spec.terms.windowing.windows
    has_late_rows = result.confidential_counts().input.late_uncounted > 0
    return has_late_rows and result.after > result.before and not windows.n_revisions


def _with_number_of_rest(shown: list[str], number: int) -> list[str]:
    """Return the texts that are shown, and how many more there are."""
    rest = number - len(shown)
    return [*shown, f"{rest:,} more"] if rest else shown


def _choose_stretches(
    stretches: Sequence[tuple[str | None, range]],
) -> list[tuple[str | None, range]]:
    """Choose the stretches of windows that a line names: of each group the longest ones.

    A second stretch of one group is named only if a first one of each group is.

    Args:
        stretches: the name of a group and a stretch of windows, in order of groups.

    Returns:
        The chosen ones, in the same order.

    >>> days = [("A", range(day, day + 1)) for day in range(0, 16, 2)]
    >>> chosen = _choose_stretches([*days, ("B", range(4))])
    >>> len(chosen), chosen[-2:]
    (7, [('A', range(10, 11)), ('B', range(0, 4))])
    """
    indices_of_groups: dict[str | None, list[int]] = {}
    for index, (group, _) in enumerate(stretches):
        indices_of_groups.setdefault(group, []).append(index)
    ranked = []
    for indices in indices_of_groups.values():
        longest_first = sorted(indices, key=lambda index: -len(stretches[index][1]))
        ranked += list(enumerate(longest_first))
    chosen = sorted(index for _, index in sorted(ranked)[:_MOST_NAMED_WINDOWS])
    return [stretches[index] for index in chosen]


def _stretches_of_cells(
    cells: Sequence[tuple[int, str | None]],
) -> list[tuple[str | None, range]]:
    """Return the stretches of consecutive windows of each group.

    Args:
        cells: numbers of windows in ascending order, each with the name of a group.

    >>> _stretches_of_cells([(1, "A"), (2, "A"), (2, "B"), (4, "A")])
    [('A', range(1, 3)), ('A', range(4, 5)), ('B', range(2, 3))]
    """
    stretches_of_groups: dict[str | None, list[range]] = {}
    for window, group in cells:
        stretches = stretches_of_groups.setdefault(group, [])
        if stretches and stretches[-1].stop == window:
            stretches[-1] = range(stretches[-1].start, window + 1)
        else:
            stretches.append(range(window, window + 1))
    return [
        (group, stretch)
        for group, stretches in stretches_of_groups.items()
        for stretch in stretches
    ]


def _missing_count_notes(
    cells: Sequence[tuple[int, str | None]], spec: StreamSpec, *, has_late_rows: bool
) -> list[str]:
    """Return a sentence on windows that are released as 0 because rows of counts lack values.

    Args:
        cells: numbers of windows, each with the name of a group that has no count there.
        spec: the specification of the stream.
        has_late_rows: whether late rows count in one of the released windows.
    """
    if not cells:
        return []
    windows = spec.terms.windowing.windows
    stretches = _stretches_of_cells(cells)
    shown = [
        f"{'' if group is None else f'{group!r}, '}{windows.span_text(stretch)}"
        for group, stretch in _choose_stretches(stretches)
    ]
    shown = _with_number_of_rest(shown, len(stretches))
    group_text = "" if cells[0][1] is None else " of a group"
    late = ", apart from late rows of earlier windows" if has_late_rows else ""
    return [
        f"{counted(len(cells), 'window')}{group_text} without a count, released as 0 with noise"
        f"{late} ({'; '.join(shown)}). If counts are missing, readers must be told"
    ]


def unlisted_group_notes(rows: RowNumbers, spec: StreamSpec) -> list[str]:
    """Return sentences on rows of undeclared groups, with the commonest of their names, which may
    be misspelt.

    Rows for the group of all others are those that were read: some may be set aside, beyond their
    user's limit, too late, or counted by an earlier run.
    """
    declared = spec.metadata().domain or ()
    lines = _lines_of(
        [
            RowsNote(f"rows of undeclared groups{spec.cells.unnamed}, not counted", rows.unlisted),
            RowsNote(
                f"rows read of undeclared groups, for group {spec.terms.groups.other!r}, "
                "whether counted or not",
                rows.in_other_group,
            ),
        ]
    )
    without_group = _lines_of(
        [
            RowsNote(
                f"rows read without a group, for group {spec.terms.groups.other!r}, whether "
                "counted or not",
                rows.without_group,
            )
        ]
    )
    names = "; ".join(
        f"{shown_beside(name, declared)}, {number:,}" for name, number in rows.unlisted_names
    )
    # Names are of all rows read, also of those that lack another value.
    has_rows_left_out = rows.unlisted and (rows.missing or rows.quarantined)
    most_often = "most often in all rows read:" if has_rows_left_out else "most often"
    lines = [f"{line} ({most_often} {names})" if names else line for line in lines]
    return lines + without_group


def other_group_line(spec: StreamSpec) -> str | None:
    """Return a sentence on what the group of all unlisted groups has; None without this group.

    Args:
        spec: the specification of the stream.
    """
    other = spec.terms.groups.other
    if other is None:
        return None
    return f"Group {other!r} has the rows of groups that are not listed, and rows without a group."


def empty_other_group_notes(result: RunReport) -> list[str]:
    """Return a sentence if the group of all unlisted groups has no row, so that it is only noise.

    Earlier runs that released nothing may have counted rows that this input lacks.
    """
    other = result.spec.terms.groups.other
    rows = result.confidential_counts().rows
    if other is None or not rows.within or rows.in_other_group or rows.without_group:
        return []
    if not result.begins_stream:
        return [
            f"no row of this input counts in group {other!r}. If no earlier run counted one, its "
            "numbers are only noise"
        ]
    return [f"no row counts in group {other!r}, so its numbers are only noise"]


def user_notes(rows: RowNumbers, spec: StreamSpec) -> list[str]:
    """Return sentences on users whose name is a text that programs write for a missing value."""
    column = spec.terms.privacy_unit.user_column
    return [
        f"{counted(number, 'row')} {'has' if number == 1 else 'have'} the user {text!r} in column "
        f"{column!r}, which is one user. If {text!r} stands for a missing value, write an empty "
        'field instead (in R: na = "")'
        for text, number in rows.users_like_missing
    ]


def _remedy_of_late_rows(result: RunReport) -> str:
    """Return sentences on how many rows were in time, and how many a longer wait would find."""
    windows = result.spec.terms.windowing.windows
    counts = result.confidential_counts()
    rows = counts.input.timeliness
    within_limit = " within their user's limit" if _limits_users(result) else ""
    n_too_old = max(_number_of_closed_windows(result), counts.input.choice.new_past)
    too_old = ""
    if n_too_old:
        verb = "is" if n_too_old == 1 else "are"
        too_old = f" {counted(n_too_old, 'row')} too old to count {verb} not among these."
    sentence = (
        f"of {counted(rows.counted, 'new row')}{within_limit} that may count, {rows.in_time:,} "
        f"({_share(rows.in_time, rows.counted)}) "
        f"{'was' if rows.in_time == 1 else 'were'} in time for their "
        f"{windows.period or 'window'}.{_effect_of_delay(result)}{too_old}"
    )
    if not _may_revise(result):
        return sentence
    revising = param("allowed_lateness", windows.length_text(counts.input.late_by))
    return (
        f"{sentence} To add late rows to their own windows: a new stream with {revising}, which "
        "spends the privacy loss again"
    )


def _effect_of_delay(result: RunReport) -> str:
    """Return a sentence on how many rows a longer release delay would have found in time.

    After the last release there is none: nobody knows how long before the run the rows arrived.
    """
    windows = result.spec.terms.windowing.windows
    if result.before >= windows.steps:
        return ""
    counts = result.confidential_counts()
    rows = counts.input.timeliness
    delay_us = result.options.release_delay
    delay_us += _missing_delay(windows, result.before, counts.input.late_by)
    option = param("release_delay", _text_of_delay(delay_us))
    share_after_wait = "all of these"
    later = ""
    if rows.in_time_after_wait < rows.counted:
        share_after_wait = _share(rows.in_time_after_wait, rows.counted)
        later = f"; {counted(rows.counted - rows.in_time_after_wait, 'row')} came later"
    return f" With {option}, {share_after_wait} would have been in time{later}."


def _missing_delay(windows: Windows, released: int, late_by: int) -> int:
    """Return by how many microseconds more a release must wait for rows that came too late.

    The earlier run came before the next window ended. A release delay is a fixed time, but windows
    of days, weeks and months are not equally long.

    Args:
        windows: the windows of the stream.
        released: number of windows released before.
        late_by: by how many windows the rows came too late.

    >>> from datetime import UTC, datetime
    >>> months = Windows(datetime(2024, 1, 1, tzinfo=UTC), "1mo", 12)
    >>> [_text_of_delay(_missing_delay(months, 2, late_by)) for late_by in (1, 2)]
    ['31d', '60d']
    """
    first = released + 1 - late_by
    begin, end = (int(windows.ends(range(step, step + 1))[0]) for step in (first, released + 1))
    return end - begin


def _text_of_delay(delay_us: int) -> str:
    """Return a time as the text of an option, in the largest unit of which it is a multiple.

    >>> [_text_of_delay(hours * _HOUR) for hours in (48, 25)], _text_of_delay(_HOUR // 4)
    (['2d', '25h'], '15m')
    """
    for unit, length in (("d", _HOURS_OF_DAY * _HOUR), ("h", _HOUR), ("m", _HOUR // 60)):
        if delay_us % length == 0:
            return f"{delay_us // length}{unit}"
    return f"{-(-delay_us // 1_000_000)}s"


def _share(count: int, total: int) -> str:
    """Return a share in per cent with two digits after the point, 100% only if it is all.

    >>> _share(31, 151), _share(2_957, 2_959), _share(2, 2), _share(99_999, 100_000)
    ('20.53%', '99.93%', '100%', '99.99%')
    """
    most = 10_000 if count == total else 9_999
    hundredths = min(round(Fraction(10_000 * count, total)), most)
    return f"{hundredths / 100:g}%"


def _lines_of(notes: Sequence[RowsNote]) -> list[str]:
    return [note.line() for note in notes if note.number]


def count_column_option(column: str) -> str:
    """Return the option that names a column of counts, as commands and job files write it.

    >>> print(count_column_option("visits"))
    --count-column visits (in a job file: count-column = "visits")
    """
    return f"--count-column {column} (in a job file: count-column = {json.dumps(column)})"


def left_out_options_note(spec: StreamSpec, job: Job) -> str | None:
    """Return a sentence on options that a job file leaves out and its stream keeps, else None.

    Args:
        spec: the specification of an existing stream.
        job: the job as its file states it.
    """
    names = left_out_options(spec, job)
    if not names:
        return None
    pronoun = "it" if len(names) == 1 else "them"
    return (
        f"the job file leaves out {list_in_words([param(name) for name in names])}, but the stream "
        f"keeps {pronoun} from its first run. To change {pronoun}, start another "
        f"{param('stream')}, which spends the privacy loss again"
    )


# ------------------------------------------------------------------------------------------- JSON
def json_report(
    result: RunResult, *, warnings: Sequence[str], notes: Sequence[str]
) -> dict[str, object]:
    """Return the report of a run as JSON values.

    Args:
        warnings: remarks without exact numbers.
        notes: exact facts about the rows.
    """
    metadata = result.spec.metadata()
    windows = result.spec.terms.windowing.windows
    counts = result.confidential_counts()
    outputs = result.outputs
    is_drawn = result.after == 0 or result.chart_error is None
    return {
        "state": str(result.job.state),
        "stream": result.name,
        "statistic": {"name": metadata.statistic_name, **statistic_to_dict(metadata.statistic)},
        "windows": result.spec.strategy.horizon if result.is_single_table else windows.steps,
        "once": result.is_single_table,
        "released": result.after,
        "new": result.after - result.before,
        "until": None if result.is_single_table else windows.format_moment(result.until),
        "until_from_data": result.options.until == "latest-event",
        "protected": metadata.contribution.describe(metadata.privacy_unit),
        "people": users_note_of(metadata),
        "systematic_errors": systematic_errors(metadata),
        "privacy_unit": metadata.privacy_unit,
        "contribution": metadata.contribution.to_dict(),
        "guarantee": metadata.guarantee.to_dict(),
        "totals_apart": list(result.spent),
        "series": metadata.series,
        **metadata.recent_sums(),
        "strategy": repr(metadata.strategy),
        "expiration_delay": metadata.strategy.facts.delay,
        "confidence_level": result.release.numbers.level,
        "output": None if outputs.table is None else str(outputs.table),
        "chart": None if outputs.chart is None or not is_drawn else str(outputs.chart),
        "not_drawn": result.chart_error,
        "warnings": [*warnings],
        "last": _last_release(result) if result.after else None,
        "not_private": {
            "rows": counts.rows.read,
            "late_uncounted": counts.input.late_uncounted,
            "dropped": number_of_dropped_rows(result, counts),
            "quarantined": counts.rows.quarantined,
            "notes": [*notes],
        },
    }


def number_of_dropped_rows(result: RunReport, counts: RowCounts) -> int:
    """Return how many rows of the input count in no window."""
    # Rows that are chosen one by one are counted as they are chosen; others by windows.
    n_closed_by_choice = _number_of_closed_windows(result)
    n_closed_by_window = counts.input.after_final
    closed = n_closed_by_choice if n_closed_by_choice > 0 else n_closed_by_window
    return (
        counts.rows.before_start
        + counts.rows.after_last_window
        + counts.rows.unlisted
        + counts.rows.missing
        + counts.input.choice.beyond_bound
        + counts.input.choice.new_past
        + counts.input.choice.uncounted_late
        + closed
    )


def _last_release(result: RunResult) -> dict[str, object]:
    """Return the last window with its released numbers, as JSON values."""
    numbers = result.release.numbers
    if result.is_single_table:
        notes: dict[str, object] = {"notes": [*numbers.notes]} if numbers.notes else {}
        return notes | last_numbers(numbers)
    last_step = numbers.steps[-1]
    windows = result.spec.terms.windowing.windows
    return {"step": last_step, **windows.end_values(last_step)} | last_numbers(numbers)
