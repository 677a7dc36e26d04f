"""Plans of jobs, as text and as JSON: what each would release, with which error and at which cost.

``counton plan nightly.toml`` plans the jobs of a file, ``--plan`` of a statistic its command.
"""

from __future__ import annotations

from rich.box import SIMPLE_HEAD
from rich.table import Table

from counton.base.errors import CountonError, StreamClosedError, param
from counton.base.exact import check_integer, figures, percent, with_capital
from counton.base.wording import counted
from counton.cli.failures import failure, line_of_failed_job
from counton.cli.print_forms import Console, print_json, warn_of_weak
from counton.job.common_options import Job
from counton.job.job_file import load_usable, published_to
from counton.results.privacy_text import protected_in_words
from counton.results.systematic_errors import left_out_groups_note, uneven_windows_note
from counton.run.outputs.path_conflicts import refuse_publishing_over
from counton.run.plan_job import PlannedJob, PlannedNumber, planned_job, planned_jobs
from counton.run.stream_notes import other_units_note
from counton.statistics.by_group import inner_of

#: What is published, by the option ``series``.
_PUBLISHED_IN_WORDS = {
    "per-window": "each window's own number",
    "cumulative": "the cumulative total after each window",
    "both": "each window's own number, and the cumulative total",
}
#: How to state a number of rows to ``counton plan FILE``, and to ``--plan``, which has no option.
_OPTION_REMEDY = "State it with --expected-rows."
_JOB_FILE_REMEDY = "Use --save-job FILE, then counton plan FILE --expected-rows N."
#: Headings of planned steps, and of the versions of revised windows.
_STEPS = ("first", "middle", "last")
_VERSIONS = ("first version", "middle", "final")


# ------------------------------------------------------------------------------ jobs of a file
def print_job_plans(file: str, *, size: int | None, as_json: bool) -> None:
    """Print what every job of a file would release, with its errors and its cost.

    Args:
        file: the job file.
        size: public number of rows by the last step, if it is stated for all jobs.
        as_json: print one JSON object.

    Raises:
        SystemExit: a job would fail; the exit code is that of the first one.
    """
    if size is not None:
        check_integer(param("expected_rows"), size, 1)
    jobs = load_usable(file, without_rows=True)
    publish_to = published_to(file)
    if publish_to is not None:
        usable = {name: job for name, job in jobs.items() if isinstance(job, Job)}
        refuse_publishing_over(usable, publish_to)
    console = Console()
    errors = Console(stderr=True)
    reports: dict[str, dict[str, object]] = {}
    first_failure = None
    for name, plan in planned_jobs(jobs, size=size).items():
        match plan:
            case PlannedJob():
                reports[name] = plan.to_dict()
                if not as_json:
                    console.write_line(name, bold=True)
                    write_plan(console, plan)
                metadata = plan.metadata
                warn_of_weak(errors, metadata.guarantee, metadata.privacy_unit, f"job {name}: ")
            case StreamClosedError():
                reports[name] = {"ended": plan.step}
                if not as_json:
                    console.write_line(
                        f"{name}: closed at window {plan.step:,}; nothing more is released"
                    )
            case CountonError() | OSError():
                code, message = failure(plan)
                first_failure = first_failure or code
                reports[name] = {"error": message}
                errors.write_line(line_of_failed_job(name, message))
    if as_json:
        print_json({"jobs": reports})
    else:
        console.write_line("No row was read, and nothing was written.")
    if first_failure is not None:
        raise SystemExit(int(first_failure))


def print_job_plan(job: Job, *, as_json: bool) -> None:
    """Print what a single job would spend and publish, and its errors.

    No row is read, and nothing is written.
    """
    plan = planned_job(job)
    metadata = plan.metadata
    warn_of_weak(Console(stderr=True), metadata.guarantee, metadata.privacy_unit)
    if as_json:
        series = metadata.series
        print_json({"released": False, "series": series, "plans": {series: plan.to_dict()}})
        return
    console = Console()
    console.write_line("A plan: nothing is released, and no row is read.", bold=True)
    write_plan(console, plan, how_to_state_rows=_JOB_FILE_REMEDY)


# ------------------------------------------------------------------------------- a plan as text
def write_plan(
    console: Console,
    plan: PlannedJob,
    how_to_state_rows: str = _OPTION_REMEDY,
    which_job: str = "",
) -> None:
    """Print a plan: what is kept where, spent and published, and a table of half-widths.

    Args:
        console: where it is printed.
        plan: the plan.
        how_to_state_rows: sentence on how to state the number of rows.
        which_job: words after "Margins of error", on which job has them.
    """
    metadata = plan.metadata
    windows = metadata.windows
    console.write_line(f"{with_capital(_title(plan))}. State: {plan.state}")
    together = ", for all windows together" if windows.is_recurring else ""
    console.write_line(f"Privacy: {loss_of(plan)} for each {metadata.privacy_unit}{together}")
    console.write_line(f"Privacy unit: {protected_in_words(metadata)}")
    write_margins(console, plan, which_job)
    for remark in _remarks(plan, how_to_state_rows):
        console.write_line(remark)


def write_margins(console: Console, plan: PlannedJob, which_job: str = "") -> None:
    """Print what is published, and a table of half-widths.

    Args:
        console: where it is printed.
        plan: the plan.
        which_job: words after "Margins of error", on which job has them.
    """
    margins = f"Margins of error ({percent(plan.level)}%){which_job}"
    console.write_line(f"Published: {_published(plan)}. {margins}:")
    console.write_table(_table(plan))


def loss_of(plan: PlannedJob) -> str:
    """Return the parameters of a job's guarantee, such as "epsilon = 1"."""
    return str(plan.metadata.guarantee).partition(" with ")[2]


def _published(plan: PlannedJob) -> str:
    metadata = plan.metadata
    windows = metadata.windows
    if not windows.is_recurring:
        return "the table once"
    if windows.n_revisions:
        return f"each window's own number, {windows.n_revisions + 1:,} times until it is final"
    published = _PUBLISHED_IN_WORDS.get(metadata.series, metadata.series)
    if metadata.half_life is not None:
        half_life = metadata.half_life_in_words
        noun = metadata.recent_noun
        return f"the {noun} in which a window counts half after {half_life}, after each window"
    if not metadata.widths:
        return published
    last = f"the {metadata.recent_noun} of the {metadata.last_windows_in_words}, after each window"
    return last if metadata.series == "rolling" else f"{published}; and {last}"


def _title(plan: PlannedJob) -> str:
    metadata = plan.metadata
    groups = ""
    if metadata.domain is not None:
        groups = f" of {metadata.cells.how(len(metadata.groups), 'groups')}"
    contents = metadata.subject if metadata.statistic.additive else metadata.statistic_name
    windows = metadata.windows
    if not windows.is_recurring:
        return f"{contents}{groups}, released once"
    length = f"windows of {windows.every}"
    if windows.n_revisions:
        later = counted(windows.n_revisions, "more window")
        return f"{contents}{groups}, {length}, each final after {later}"
    if metadata.strategy.horizon is None:
        return f"{contents}{groups}, {length} without end"
    return f"{contents}{groups}, {plan.steps[-1]:,} {length}"


def _remarks(plan: PlannedJob, how_to_state_rows: str) -> list[str]:
    metadata = plan.metadata
    windows = metadata.windows
    remarks = []
    if plan.sizes is not None:
        least, most = plan.sizes
        number = f"for one {windows.period or 'window'}" if windows.n_revisions else "in total"
        version_or_window = "version" if windows.n_revisions else "window"
        remarks.append(
            f"A group is shown as soon as its estimate {number} reaches a threshold: {least:,} to "
            f"{most:,}, depending on the {version_or_window}."
        )
    if any(number.in_rank for number in plan.numbers):
        remarks.append(
            "Rank: the share of rows that may lie between the estimated and the true quantile. The "
            "margins of error assume evenly spread rows."
        )
    has_percent = any(number.percent is not None for number in plan.numbers)
    depends_on_rows = plan.spec.terms.group_statistic.known_beforehand is not None
    if plan.size is not None and (has_percent or depends_on_rows):
        remarks.append(_size_in_words(plan, plan.size))
    if has_percent:
        remarks.append("Percentages refer to the rows that a number counts.")
    if plan.needs_size:
        remarks.append(
            f"The error of means and quantiles depends on the number of rows. {how_to_state_rows}"
        )
    notes = (
        uneven_windows_note(metadata),
        left_out_groups_note(metadata),
        other_units_note(plan.spend.unit, plan.other_units),
    )
    remarks += [f"Note: {note}" for note in notes if note is not None]
    return remarks


def _size_in_words(plan: PlannedJob, size: int) -> str:
    """Return a sentence on the rows that the plan assumes."""
    parts = []
    if plan.windows > 1:
        in_each = figures(size / plan.windows)
        parts.append(f"{counted(plan.windows, 'window')} ({in_each} in each)")
    if plan.metadata.domain is not None:
        parts.append(f"{len(plan.metadata.groups):,} groups")
    spread = f", spread evenly over {' and '.join(parts)}" if parts else ""
    return f"The plan assumes {counted(size, 'row')}{spread}."


# ------------------------------------------------------------------------------ table of errors
def _table(plan: PlannedJob) -> Table:
    """Return the half-widths of each number at the planned steps.

    A column has the errors in per cent, and another one the shares of a report's budget, if there
    are any.
    """
    table = Table(box=SIMPLE_HEAD, pad_edge=False)
    table.add_column("number", overflow="fold")
    for heading in _headings(plan):
        table.add_column(heading, justify="right")
    has_percent = any(number.percent is not None for number in plan.numbers)
    has_shares = any(number.share for number in plan.numbers)
    if has_percent:
        table.add_column("of its rows", justify="right")
    if has_shares:
        table.add_column("budget", justify="right")
    part = None
    for number in plan.numbers:
        cells = [_label(number, plan)]
        cells += [f"±{figures(half_width)}" for half_width in number.halfwidths]
        if has_percent:
            cells.append(_percent_cell(number))
        if has_shares:
            cells.append("" if number.part == part else _share_cell(number))
        part = number.part
        table.add_row(*cells)
    return table


def _headings(plan: PlannedJob) -> list[str]:
    headings = _VERSIONS if plan.metadata.windows.n_revisions else _STEPS
    first, middle, last = headings
    match len(plan.steps):
        case 1:
            return [last]
        case 2:
            return [first, last]
        case _:
            return [first, middle, last]


def _percent_cell(number: PlannedNumber) -> str:
    if number.percent is None:
        return ""
    if not number.in_rank:
        return f"{figures(number.percent)}%"
    if number.percent > 100:
        return "rank over 100%"
    return f"rank {figures(number.percent)}%"


def _share_cell(number: PlannedNumber) -> str:
    return f"in {number.source}" if number.source else f"{number.share or 1:.0%}"


def _label(number: PlannedNumber, plan: PlannedJob) -> str:
    """Return words for a planned number.

    They are the name of the number. If the job releases only one kind of number, which has no name,
    they are words such as "cumulative".
    """
    statistic = plan.spec.terms.group_statistic
    part = statistic.statistics.get(number.name)
    if number.name and (part is None or inner_of(part).known_beforehand is None):
        return number.name
    if plan.metadata.statistic.additive:
        if plan.metadata.series == "decayed":
            return f"half-life {plan.metadata.half_life_in_words}"
        if plan.metadata.series == "rolling":
            return f"in the {plan.metadata.last_windows_in_words}"
        return "in each window" if plan.metadata.series == "per-window" else "cumulative"
    inner = statistic if part is None else inner_of(part)
    quantity = inner.error_of.meaning.partition(",")[0].removeprefix("how many ")
    return quantity if part is None else f"{number.name}: {quantity}"
