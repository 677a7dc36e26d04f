"""The common part of all statistics' commands: run the job, write its outputs, print the release.

Exact facts about the rows are for the operator: they go to standard error, or in JSON under
``not_private``.
"""

from __future__ import annotations

import shlex
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from counton.base.columns import list_in_words
from counton.base.errors import CountonError, MissingOptionError, hide_secrets, param, translate
from counton.base.wording import counted, plural
from counton.cli.command_text import CommandActions, words_of_options
from counton.cli.exits import ExitCode
from counton.cli.print_forms import (
    CONFIDENTIAL,
    Console,
    ReportLines,
    print_json,
    warn_of_guard_beside_state,
    warn_of_weak,
    working,
)
from counton.cli.privacy_words import privacy_line
from counton.cli.run_report import (
    confidential_notes,
    count_column_option,
    json_report,
    left_out_options_note,
    next_window_line,
    other_group_line,
    progress_line,
    quarantined_note,
    time_remarks,
)
from counton.io.input_paths import left_in_folders
from counton.job.common_options import Job
from counton.results.subject_text import groups_in_words, statistic_in_words
from counton.results.terminal import screen_of
from counton.run.new_job.default_paths import has_default_state
from counton.run.prepared_run import PreparedRun
from counton.run.quarantine_file import QuarantineFile
from counton.run.run_job import RunResult, run
from counton.run.spec.parsing import parse_policies
from counton.run.stream_notes import first_run_notes
from counton.run.windows.due_windows import EndedWindows

#: Name of the events that are read from standard input.
STANDARD_INPUT = "-"
#: What a series publishes, for the question before a stream begins.
_SERIES_TEXT = {
    "cumulative": "totals",
    "per-window": "windows",
    "both": "totals and windows",
    "period-to-date": "of each period in which users are counted anew, its number to date",
}


def perform(job: Job, actions: CommandActions) -> None:
    """Carry out the command of a statistic: release the windows that are due, or show a plan.

    Args:
        job: the job of a command.
        actions: what the command does besides, or in place of a run.

    Raises:
        MissingOptionError: the job begins a stream, and lacks options; the message has a whole
            command.
    """
    try:
        if actions.plan:
            _show_plan(job, actions)
        else:
            _release(job, actions)
    except MissingOptionError as error:
        if job.events == STANDARD_INPUT:  # which can be read only once
            raise
        from counton.cli.missing_options import explain_missing_options

        message = explain_missing_options(error, job, actions)
        raise MissingOptionError(message, error.names) from None


def _show_plan(job: Job, actions: CommandActions) -> None:
    from counton.cli.job_plan import print_job_plan

    if actions.save is not None:  # first: a line of the file may make the rows readable
        save_job(job, actions.save)
    print_job_plan(job, as_json=actions.json)


def _release(job: Job, actions: CommandActions) -> None:
    outcome = run_and_report(job, is_silent=actions.json, confirms_new_stream=True)
    if actions.save is not None:
        save_job(job, actions.save)
    if outcome.report is not None:
        print_json(outcome.report)
    if outcome.chart_error:
        raise OSError(outcome.chart_error)


def save_job(job: Job, file: Path) -> None:
    """Write a job into a job file, and say so."""
    from counton.job.saved_job import date_of_one_run, save, stream_name

    save(job, file)
    date = date_of_one_run(job)
    less = f", without --until {date}, which holds for this run alone" if date else ""
    Console(stderr=True).write_line(f"saved as job {stream_name(job)} in {file}{less}")


@dataclass(frozen=True)
class RunOutcome:
    """What a command needs of a run after its windows were released.

    Attributes:
        report: the report as JSON values; None if it was printed for people.
        chart_error: why the chart could not be drawn; None if it was drawn, or there is none.
        has_later_windows: whether the stream has windows that are not released yet.
    """

    report: dict[str, object] | None
    chart_error: str | None
    has_later_windows: bool


def run_and_report(
    job: Job,
    *,
    is_silent: bool,
    prefix: str = "",
    confirms_new_stream: bool = False,
    names: Mapping[str, str] | None = None,
) -> RunOutcome:
    """Release the windows that are due, write outputs, and print or return the report.

    Args:
        job: the job.
        is_silent: print nothing, and return the report.
        prefix: beginning of messages for the operator, such as the job's name if several jobs run.
        confirms_new_stream: ask a person at the terminal before a new stream begins.
        names: what the report calls options; None: as they are typed in this command.
    """
    names = words_of_options([type(job)]) if names is None else names
    messages = ReportLines() if is_silent else Console(stderr=True)
    quarantine = QuarantineFile.before_run(parse_policies(job).quarantine)
    if not prefix:
        guard_paths = (job.state, job.rollback_guard)
        warn_of_guard_beside_state(messages, [guard_paths], option="--rollback-guard")
    try:
        result = _run(job, confirms_new_stream=confirms_new_stream)
    except CountonError:
        n_new = quarantine.number_of_new_rows()
        if n_new and not is_silent:
            messages.write_line(f"{CONFIDENTIAL}: {prefix}{quarantined_note(n_new)}")
        raise
    newly_quarantined = result.confidential_counts().rows.quarantined
    if result.before:  # before the first release, no earlier run has named these rows
        newly_quarantined = min(newly_quarantined, quarantine.number_of_new_rows())
    _write_remarks(result, messages, prefix)
    if prefix and result.before:
        left_out = left_out_options_note(result.spec, job)
        if left_out is not None:
            messages.write_line(f"{prefix}note: {translate(left_out, names)}")
    notes = confidential_notes(result, newly_quarantined, names)
    has_later_windows = next_window_line(result) is not None
    if isinstance(messages, ReportLines):
        report = json_report(result, warnings=messages.lines, notes=notes)
        return RunOutcome(report, result.chart_error, has_later_windows)
    for note in notes:
        messages.write_line(f"{CONFIDENTIAL}: {prefix}{note}")
    print_result(Console(), result, names)
    return RunOutcome(None, result.chart_error, has_later_windows)


def _run(job: Job, *, confirms_new_stream: bool) -> RunResult:
    """Run a job, with its progress on the terminal."""
    console = Console(stderr=True)

    def before_commit(prepared: PreparedRun, ended: EndedWindows) -> None:
        if confirms_new_stream and console.is_terminal and sys.stdin.isatty():
            ask_before_first_release(prepared, ended, console)

    with working(console) as progress:
        return run(job, progress=progress, before_commit=before_commit)


def _write_remarks(result: RunResult, messages: Console | ReportLines, prefix: str) -> None:
    """Write what may be wrong with a job: files that are not read, a weak guarantee, a column."""
    unread = left_in_folders(result.job.events, result.job.file_format)
    if unread is not None:
        messages.write_line(f"{prefix}{unread}")
    if result.before:
        return
    metadata = result.spec.metadata()
    warn_of_weak(messages, metadata.guarantee, metadata.privacy_unit, prefix)
    for note in first_run_notes(result, count_column_option):
        messages.write_line(f"{prefix}note: {note}")


def print_result(console: Console, result: RunResult, names: Mapping[str, str]) -> None:
    """Print new windows, the last step, the guarantee, and the paths of written files, which do not
    exist before the first release.

    Args:
        console: where it is printed.
        result: the run.
        names: what the text calls options.
    """
    console.write_line(progress_line(result), bold=True)
    state = shlex.quote(hide_secrets(str(result.job.state)))
    if result.after:
        _print_screen(console, result, state)
        other_group = other_group_line(result.spec)
        if other_group is not None:
            console.write_line(other_group)
    console.write_line(f"Privacy: {privacy_line(result.spec.metadata())}")
    for line in result.spent:
        console.write_line(f"Privacy loss: {line}")
    for remark in time_remarks(result):
        console.write_line(translate(remark, names))
    if result.before == 0 and has_default_state(
        result.job.state, result.job.events, append=result.job.append
    ):
        secret_files = list_in_words(_secret_files(result.job, state))
        console.write_line(f"Keep secret: {secret_files}. {_what_names_state(names)}")
    if result.after:
        _print_written_files(console, result)
    _print_next_steps(console, result, state)


def _secret_files(job: Job, state: str) -> list[str]:
    """Return the files of a job that nobody else may see; ``state`` is as a shell takes it."""
    files = [state]
    if job.key is None:
        files.append(f"{state}.key")
    quarantine = parse_policies(job).quarantine
    if quarantine is not None:
        is_written = quarantine.exists()
        which = "the file of rows that cannot be read" if is_written else "if rows cannot be read"
        files.append(f"{shlex.quote(str(quarantine))} ({which})")
    return files


def _print_screen(console: Console, result: RunResult, state: str) -> None:
    """Print the new windows; ``state`` is the state as a shell takes it."""
    new_steps = range(result.before + 1, result.after + 1)
    screen = screen_of(result.release.numbers, new_steps or None)
    console.write_line(screen.heading)
    for table in screen.tables:
        console.write_table(table)
    if screen.left_out:
        stream = shlex.quote(result.name)
        console.write_line(
            f"Shown: {screen.left_out}. All: counton export {state} --stream {stream} --output FILE"
        )
    for note in screen.notes:
        console.write_line(note)


def _print_written_files(console: Console, result: RunResult) -> None:
    """Print the paths of the table and the chart."""
    if result.outputs.table is not None:
        console.write_line(f"table written to {result.outputs.table}")
    if result.outputs.chart is not None and result.chart_error is None:
        from counton.run.outputs.output_files import charts_in_words

        console.write_line(charts_in_words(result.release.numbers, Path(result.outputs.chart)))


def _print_next_steps(console: Console, result: RunResult, state: str) -> None:
    """Print when the next window is due, and after a first run where the guarantee is stated."""
    next_window = next_window_line(result)
    steps = [] if next_window is None else [next_window]
    if result.before == 0:
        steps.append(f"full privacy statement: counton methods {state} --full")
    if steps:
        console.write_line(f"Next: {'; '.join(steps)}")


def _what_names_state(names: Mapping[str, str]) -> str:
    """Return a remark on how later runs find the state of a stream.

    Args:
        names: what the report calls options: ``--state``, or the key of a job file.
    """
    option = translate(param("state"), names)
    remedy = f"If you move or rename the events, name the state with {option}."
    if not option.startswith("--"):
        remedy = f"If you move the state, change {option} in the job file."
    return (
        f"{remedy} Otherwise a new stream begins and spends the privacy loss again, unless the "
        "table of the old one, with its JSON file, stops the run."
    )


def ask_before_first_release(prepared: PreparedRun, ended: EndedWindows, console: Console) -> None:
    """Ask whether a new stream may begin, because its privacy loss and its publication cannot be
    undone.

    Nobody is asked if the stream exists, or the job allows empty windows.

    Raises:
        SystemExit: the answer is not yes; nothing is released or kept.
    """
    if not prepared.begins_stream or prepared.options.allow_empty_windows:
        return
    metadata = prepared.spec.metadata()
    windows = prepared.windows
    subject = statistic_in_words(metadata).removesuffix(",")
    if metadata.domain:
        subject += f" by {groups_in_words(metadata)} ({len(metadata.domain):,} groups)"
    if windows.is_recurring:
        horizon = prepared.spec.strategy.horizon
        length = "without an end" if horizon is None else f"of {horizon:,} {windows.noun}s"
        now = counted(ended.last, windows.noun)
        series = _SERIES_TEXT.get(metadata.series, metadata.series)
        if metadata.widths:
            nouns = plural(metadata.recent_noun)
            last = f"{nouns} of the {metadata.last_windows_in_words}"
            series = last if metadata.series == "rolling" else f"{series}, and {last},"
        if metadata.half_life is not None:
            nouns = plural(metadata.recent_noun)
            series = f"decayed {nouns} with a half-life of {metadata.half_life_in_words}"
        subject += f": {series} {length}, {now} now"
    guarantee = str(metadata.guarantee)
    loss = guarantee.partition(" with ")[2] or guarantee
    console.write_line(
        f"New stream {prepared.state.name!r} publishes the {subject}, and spends {loss} of the "
        f"privacy of each {metadata.privacy_unit}. Neither can be taken back."
    )
    try:
        answer = console.ask_line("Release? [y/N] ")
    except (EOFError, KeyboardInterrupt):
        answer = ""
    if answer.lower() not in ("y", "yes"):
        console.write_line("nothing is released or spent")
        raise SystemExit(int(ExitCode.ERROR))
