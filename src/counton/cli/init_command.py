"""The command ``counton init``: it writes a job file, and says what is still to be filled in."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import click

from counton.base.errors import InvalidInputError, param
from counton.base.exact import with_capital
from counton.base.lengths import PERIODS, Length, example_lookback
from counton.base.wording import counted
from counton.cli.command_class import CountonCommand, SectionedOption, option
from counton.cli.command_text import command_words
from counton.cli.parameters import TABLE_ENDINGS
from counton.cli.statistic_commands import model_option
from counton.job.common_options import Job, is_stated
from counton.job.statistics import STATISTIC_NAMES
from counton.job.statistics.count import CountJob
from counton.job.values import LATEST_ROW

if TYPE_CHECKING:
    from counton.run.new_job.job_template import FirstLook
    from counton.run.plan_job import PlannedJob

#: Options of a job that the command takes.
_JOB_OPTIONS = (
    "time",
    "time_format",
    "timezone",
    "every",
    "start",
    "windows",
    "expected_windows",
    "until",
    "release_delay",
    "allowed_lateness",
    "ambiguous",
    "group_by",
    "groups",
    "other_group",
    "unlisted_groups",
    "count_column",
    "user",
    "max_contributions",
    "contribution_period",
    "distinct_users",
    "privacy_unit",
    "upstream_max_contributions",
    "event_name",
    "epsilon",
    "delta",
    "rho",
    "margin_of_error",
    "series",
    "last",
    "half_life",
    "append",
    "lookback",
    "missing_values",
    "bad_rows",
    "row_id",
    "query",
    "file_format",
    "separator",
    "decimal",
    "state",
    "stream",
    "key",
    "rollback_guard",
    "output",
)
#: Help of options whose default is another one here.
_HELP = {
    "stream": "Name of the stream. [default: the name of the events' file]",
    "output": f"File for the released numbers ({TABLE_ENDINGS}). "
    "[default: next to the rows, as CSV]",
}
#: Empty options that change the margin of error of counts; others, such as ``start``, do not.
_DECIDES_MARGIN = ("user", "max_contributions")
#: Which job has the margins of error, since notes below name lines that change them.
_AS_WRITTEN = " of the job as it is written"
#: Columns of whole numbers that a remark names.
_SHOWN_COLUMNS = 3


def _job_options() -> list[click.Parameter]:
    """Return the options of a job that the command takes, all under one heading."""
    options: list[click.Parameter] = []
    for name in _JOB_OPTIONS:
        job_option = model_option(CountJob, name)
        job_option.section = SectionedOption.USUAL_SECTION
        job_option.help = _HELP.get(name, job_option.help)
        options.append(job_option)
    return options


class InitCommand(CountonCommand):
    """The command ``init``; messages name options of all jobs, too."""

    def words(self) -> Mapping[str, str]:
        """Return what messages call the options of jobs and of this command."""
        return {**command_words(), **super().words()}


@click.command("init", cls=InitCommand, params=_job_options())
@click.argument(
    "events",
    help="CSV, Parquet or JSON lines, one row per event; a folder of them; or, with --query, "
    "sqlite:///FILE or postgresql://USER@HOST/DATABASE.",
)
@option(
    "--save-job",
    "job_file",
    type=click.Path(path_type=Path),
    default="nightly.toml",
    show_default=True,
    help="The job file to write; a file that exists is not overwritten without --force.",
)
@option("--force", is_flag=True, help="Overwrite a job file that exists.")
def init(*, events: str, job_file: Path, force: bool, **job_options: object) -> None:
    """Make a job file for events, with a comment on each option.

    It reads the header and the first rows, spends nothing, and writes the job file alone. What only
    you can say, such as whom to protect, stays an empty line to fill in, or is given here. Then:
    counton run nightly.toml
    """
    from counton.job.saved_job import save as save_job
    from counton.run.new_job import job_template
    from counton.run.new_job.default_paths import default_state

    _refuse_existing_file(job_file, force=force)
    _refuse_standard_input(events)
    options = {name: value for name, value in job_options.items() if is_stated(value)}
    values = {"state": default_state(events), "events": events, **options}
    job = job_template.job_of(values)
    job_template.refuse_state(job)
    look = job_template.look_at(job)
    unanswered = job_template.unsaid(values, look)
    plan = None
    if "time" not in unanswered:
        plan = job_template.check_job(values, look)[1]
    whole_job = job_template.complete_job(values, look)
    _print_facts(look, whole_job, unanswered, states_every=job.every is not None)
    if job.every is None:
        _print_shorter_windows(whole_job)
    if job.start is not None:
        _print_day_of_windows(whole_job)
    if plan is not None:
        _print_held_back(whole_job, plan, look, job_file.name, unanswered)
    asked_job = whole_job.with_options(**dict.fromkeys(unanswered))
    keys = {name: str(item.alias) for name, item in CountJob.model_fields.items()}
    empty = {keys[name]: with_capital(remark) for name, remark in unanswered.items()}
    comments = _comments(look, whole_job)
    if job.every is None:
        comments["every"] += _remark_on_window(str(whole_job.every))
    comments |= empty
    save_job(asked_job, job_file, comments, replaces_file=True, keeps_date=True, empty=list(empty))
    decisive = [keys[name] for name in _DECIDES_MARGIN if name in unanswered]
    _print_report(asked_job, plan, job_file.name, empty, decisive)


def _refuse_existing_file(file: Path, *, force: bool) -> None:
    if file.exists() and not force:
        raise InvalidInputError(
            f"{str(file)!r} exists, and may define a stream: write another file "
            f"({param('save_job', 'other.toml')}), or overwrite it ({param('force', True)})"
        )


def _refuse_standard_input(events: str) -> None:
    if events == "-":
        raise InvalidInputError(
            "standard input can be read only once, but each run of a job reads the events: name a "
            "file"
        )


def _print_facts(
    look: FirstLook, job: CountJob, unanswered: Collection[str], *, states_every: bool
) -> None:
    """Print exact facts about the first rows, by which the operator answers, to standard error.

    Args:
        look: columns of the events, and facts about their first rows.
        job: the job that is written.
        unanswered: names of its empty options.
        states_every: whether the operator stated the length of windows.
    """
    from counton.cli.print_forms import CONFIDENTIAL, Console
    from counton.cli.run_report import count_column_option
    from counton.io.written_numbers import NumberText
    from counton.run.stream_notes import count_column_note

    console = Console(stderr=True)
    facts = look.confidential_counts(job)
    note = count_column_note(look.columns, job, count_column_option)
    if note is None and facts.counts and job.count_column is None:
        shown = ", ".join(facts.counts[:_SHOWN_COLUMNS])
        note = (
            f"each counted row is one event. If a column of integers ({shown}) has the number of "
            f"events of a row, name it: --count-column {facts.counts[0]}"
        )
    if note is not None:
        console.write_line(f"note: {note}")
    for column, name in facts.totals:
        console.write_line(
            f"{CONFIDENTIAL}: column {column!r} has rows named {name!r}. If they are sums of other "
            "rows, remove them from the file; otherwise they are counted as well"
        )
    for column, text in facts.thousands:
        plain = NumberText.of(text).plain
        if column == job.count_column:
            plain = re.split("[.,]", plain)[0]  # a count is a whole number
        console.write_line(
            f"{CONFIDENTIAL}: column {column!r} has thousands separators, as in {text}. Such a "
            "number cannot be read, except whole counts with points, as in 2.592, if decimal is "
            f'",". Write numbers without thousands separators, as in {plain}'
        )
    for column, text in facts.doubtful_numbers:
        plain = NumberText.of(text).plain
        sign, other = (",", ".") if "." in text else (".", ",")
        in_file = ", and write whole counts into the file" if column == job.count_column else ""
        console.write_line(
            f"{CONFIDENTIAL}: column {column!r} has numbers that can be read in two ways, as in "
            f'{text}. Write decimal = "{sign}" if it means {plain}; else write decimal = "{other}"'
            f"{in_file}"
        )
    for column, text, number in facts.like_missing[:_SHOWN_COLUMNS]:
        console.write_line(
            f"{CONFIDENTIAL}: column {column!r} has the text {text!r} in {counted(number, 'row')}. "
            f"In a column of users, it is one user. If {text!r} stands for a missing value, write "
            'an empty field instead (in R: na = "")'
        )
    for file, number in facts.not_utf8:
        console.write_line(
            f"{CONFIDENTIAL}: {counted(number, 'row')} of {file} cannot be read, because "
            f"{'it has' if number == 1 else 'they have'} bytes that are not UTF-8. A run does not "
            "count them. Convert the file, as from Latin-1: "
            f"iconv -f LATIN1 -t UTF-8 {shlex.quote(file)} > utf8.csv"
        )
    if facts.perhaps_every is not None and not states_every:
        period = PERIODS[facts.perhaps_every]
        console.write_line(
            f"{CONFIDENTIAL}: the {'rows' if look.has_all_rows else 'first rows'} are of two days "
            f"alone, which may be those of {period}s. Windows are days. If each row has the number "
            f'of a {period}, set every = "{facts.perhaps_every}" in the job file'
        )
    if facts.first is not None and facts.newest is not None and "start" in unanswered:
        rows = "rows" if look.has_all_rows else "first rows"
        has_offsets = any(column.offset is not None for column in look.times)
        zone = " (UTC)" if has_offsets and job.timezone is None else ""
        console.write_line(
            f"{CONFIDENTIAL}: the {rows} are from {facts.first:%Y-%m-%d} to "
            f"{facts.newest:%Y-%m-%d}{zone}"
        )


def _print_shorter_windows(job: CountJob) -> None:
    """Print that windows are days, if the limit of a user holds for a longer calendar period.

    Args:
        job: the job that is written; nobody stated the length of its windows.
    """
    from counton.cli.print_forms import Console

    per = str(job.contribution_period)
    if job.every != "1d" or per not in ("1w", "1mo"):
        return
    first_day = "a Monday" if per == "1w" else "the first day of a month"
    Console(stderr=True).write_line(
        f'note: windows are days (every = "1d"), and the limit of each user is for a '
        f"{PERIODS[per]}. For a number of each {PERIODS[per]}, give --every {per}, and "
        f"{first_day} as --start"
    )


def _print_day_of_windows(job: CountJob) -> None:
    """Print on which day windows of weeks or months begin, if it is not the usual one.

    Args:
        job: the job that is written, with the start that the operator stated.
    """
    from counton.cli.print_forms import Console
    from counton.run.new_job.job_template import WEEKDAYS
    from counton.windowing.windows import load_zone, parse_time

    timezone = job.timezone or "UTC"
    first = parse_time(str(job.start), timezone).astimezone(load_zone(timezone))
    unit = Length.of(str(job.every)).unit
    if unit == "w" and first.weekday() != 0:
        day = f"a {WEEKDAYS[first.weekday()]}"
        usual = "weeks from Monday to Sunday, give a Monday"
    elif unit == "mo" and first.day != 1:
        day = f"day {first.day} of a month"
        usual = "months of the calendar, give the first day of a month"
    else:
        return
    Console(stderr=True).write_line(
        f"note: each window begins on {day}, as the first one does. For {usual} as --start"
    )


def _print_held_back(
    job: Job, plan: PlannedJob, look: FirstLook, file: str, unanswered: Collection[str]
) -> None:
    """Print which windows a first run would not release, and which line releases them.

    Args:
        job: the job that is written.
        plan: its plan.
        look: facts about the first rows.
        file: name of the job file.
        unanswered: names of the options that stay empty.
    """
    from counton.cli.failures import names_of_job
    from counton.cli.print_forms import CONFIDENTIAL, Console
    from counton.cli.run_report import held_back_notes
    from counton.run.new_job.job_template import find_held_back_windows

    console = Console(stderr=True)
    begins_on_unknown_day = "start" in unanswered and str(job.every).endswith("w")
    if begins_on_unknown_day and str(job.time) not in look.window_by_time:
        return
    if "until" in unanswered:
        past_job = job.with_options(until=LATEST_ROW, release_delay="0s")
        held_back = find_held_back_windows(past_job, plan, look)
        if held_back is not None:
            console.write_line(
                f"{CONFIDENTIAL}: if the file has all rows of {held_back.windows}, and none "
                f'follow, write until = "{held_back.value}" and release-delay = "0s" in {file}. '
                "The comment above the line until has the other cases"
            )
        return
    names = names_of_job(job, until_is_of_file=True)
    for note in held_back_notes(find_held_back_windows(job, plan, look), names, file):
        console.write_line(f"{CONFIDENTIAL}: {note}")


def _remark_on_window(every: str) -> str:
    """Return a sentence on the length of windows, if the first rows suggest it."""
    if every == "1mo":
        return " The first rows have first days of months alone, so that it is a month."
    if every == "1w":
        return " The first rows have one day of the week alone, so that it is a week."
    return ""


def _comments(look: FirstLook, job: CountJob) -> dict[str, str]:
    """Return the comments of the job file, by the key that they stand above.

    They contain no exact numbers.

    Args:
        look: columns of the events, and facts about their first rows.
        job: the job that is written.
    """
    from counton.job.saved_job import HEADING
    from counton.run.new_job.count_columns import columns_named_as_counts
    from counton.run.new_job.job_template import remark_on_groups, remark_on_names

    comments = {str(item.alias): item.description or "" for item in CountJob.model_fields.values()}
    others = ", ".join(name for name in STATISTIC_NAMES if name != "count")
    comments["statistic"] = (
        f'{CountJob.summary} For a sum, write "sum", and add lines for value, lower, upper and '
        f"resolution. Others: {others}."
    )
    comments[HEADING] = (
        "Change anything before the first run. After it, options that define the stream are\n"
        "fixed. Paths are relative to the folder of this file."
    )
    names = filter(str.isprintable, columns_named_as_counts(look.columns, job))
    count_column = next(names, None)  # others cannot stand in a comment
    if count_column is not None and job.count_column is None:
        column = json.dumps(count_column, ensure_ascii=False)
        comments["statistic"] += (
            f"\nEach row is counted once. If column {column} has the number of events of a row, "
            f"remove the # of the next line.\ncount-column = {column}"
        )
    groups_remark = remark_on_groups(job)
    if groups_remark is not None:
        comments["max-contributions"] += f" {with_capital(groups_remark)}."
    if job.max_empty_windows == 0:
        comments["max-empty-windows"] += " With 0, one such window stops a run."
        if job.every == "1d":
            comments["max-empty-windows"] += (
                " If no row is expected on some days, write the largest number of such days in a "
                "row."
            )
    comments["other-group"] += " Without this line, such a row stops the run."
    if job.user is not None:
        comments["privacy-unit"] = f"{with_capital(remark_on_names(job))}."
    return comments


def _print_report(
    job: Job,
    plan: PlannedJob | None,
    file: str,
    empty: Collection[str],
    decisive: Collection[str],
) -> None:
    """Print the plan in words, what is still to be filled in, and how the job is run.

    Args:
        job: the job that is written.
        plan: its plan; None if its column of times is unknown.
        file: name of the job file.
        empty: keys of its empty lines.
        decisive: those of them that change the margin of error.
    """
    from counton.cli.job_plan import write_margins, write_plan
    from counton.cli.print_forms import Console
    from counton.job.saved_job import changes_for_newer_rows, date_of_one_run

    console = Console()
    console.write_line(f"{file} is written.", bold=True)
    if empty:
        console.write_line(f"Fill in these empty lines before the first run: {', '.join(empty)}.")
        if plan is not None and not decisive:
            write_margins(console, plan, _AS_WRITTEN)
        else:
            depends = f", which depends on {' and '.join(decisive)}" if decisive else ""
            planning = shlex.join(["counton", "plan", file])
            console.write_line(
                f"Once they are filled in, {planning} shows the margin of error{depends}."
            )
    elif plan is not None:
        write_plan(console, plan, which_job=_AS_WRITTEN)
    if job.append:
        console.write_line("Each run must read new rows alone, because append is set.")
    elif job.lookback is None:
        console.write_line(
            "Each run must read all rows since start. If your files have the last days alone, set "
            f'lookback = "{example_lookback(str(job.every))}". If they have new rows alone, set '
            "append = true."
        )
    if job.until == LATEST_ROW:
        console.write_line(
            f'until = "{LATEST_ROW}" is for data of the past: remove it from {file} once rows '
            "arrive regularly."
        )
    elif date_of_one_run(job) is not None:
        console.write_line(
            f'until = "{job.until}" is for a complete file: remove it from {file} once newer rows '
            f"come{changes_for_newer_rows(job)}."
        )
    command = shlex.join(["counton", "run", file])
    when = "Then" if empty else "Next"
    console.write_line(f"{when}: {command} --dry-run spends nothing; {command} releases, each time")
