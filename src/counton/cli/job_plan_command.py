"""Plans of jobs: what each would release, with which error and at which cost.

``counton plan nightly.toml`` plans the jobs of a file, ``--plan`` of a statistic its command.
"""

from __future__ import annotations

from fractions import Fraction

from rich.box import SIMPLE_HEAD
from rich.table import Table

from counton.base.errors import AlreadyEnded, field
from counton.base.exact import check_integer, figures, percent
from counton.cli.failures import failure
from counton.cli.plan_options import PlanOptions
from counton.cli.print_forms import Console, print_json, warn_of_weak
from counton.job.job import Job, options_of
from counton.job.jobfile import load, published_to
from counton.job.stated_options import refuse_stated
from counton.run.job_plan import PlannedJob, PlannedNumber, planned_job, planned_jobs
from counton.run.shared_paths import refuse_publishing_over
from counton.statistics.by_group import inner_of

#: Options of ``plan`` that may be given with a job file. The file states all others.
_TAKES = ("asked", "size", "json")


def print_job_plan(options: PlanOptions) -> None:
    """Print what every job of a file would release, with its errors and its cost."""
    assert options.asked is not None
    others = [name for name in options_of(PlanOptions) if name not in _TAKES]
    refuse_stated(options, others, options.asked, ", whose jobs say it themselves")
    if options.size is not None:
        check_integer(field("size"), options.size, 1)
    jobs = load(options.asked, without_rows=True)
    publish_to = published_to(options.asked)
    if publish_to is not None:
        refuse_publishing_over(jobs, publish_to)
    found = planned_jobs(jobs, size=options.size)
    console, errors = Console(), Console(stderr=True)
    codes, reports = [], {}
    for name, one in found.items():
        if isinstance(one, PlannedJob):
            reports[name] = one.to_dict()
            if not options.json:
                console.write_line(name, bold=True)
                write_plan(console, one)
            guarantee, unit = one.definition.guarantee, one.definition.unit
            warn_of_weak(errors, guarantee, unit, f"job {name}: ")
        elif isinstance(one, AlreadyEnded):
            reports[name] = {"ended": one.step}
            if not options.json:
                console.write_line(f"{name}: ended at step {one.step:,}, and releases nothing more")
        else:
            code, message = failure(one)
            codes.append(code)
            reports[name] = {"error": message}
            errors.write_line(f"counton: job {name}: {message}")
    if options.json:
        print_json({"jobs": reports})
    else:
        console.write_line("No row was read, and nothing was written.")
    if codes:
        raise SystemExit(int(codes[0]))


def print_plan_of(job: Job, *, as_json: bool) -> None:
    """Print what a single job would spend and publish, and its errors.

    No row is read, and nothing is written.
    """
    planned = planned_job(job)
    warn_of_weak(Console(stderr=True), planned.definition.guarantee, planned.definition.unit)
    if as_json:
        form = planned.definition.release
        print_json({"released": False, "release": form, "plans": {form: planned.to_dict()}})
        return
    console = Console()
    console.write_line("A plan: nothing is released, and no row is read.", bold=True)
    write_plan(console, planned)


_PUBLISHED = {
    "windows": "each window's own number",
    "totals": "the total so far after each window",
    "both": "each window's own number, and the total so far",
}


def write_plan(console: Console, job: PlannedJob) -> None:
    """Print a plan: what is kept where, spent and published, and a table of half-widths."""
    definition, cut = job.definition, job.definition.cut
    console.write_line(f"{_heading(job)}, kept in {job.state}")
    whom = definition.contribution.describe(definition.unit)
    windows = ", once for all windows" if cut.goes_on else ""
    console.write_line(f"spends {promise_of(job)} of each {definition.unit}{windows}: {whom}")
    published = _PUBLISHED.get(definition.release, definition.release)
    if not cut.goes_on:
        published = "the table once"
    elif cut.lags:
        published = f"each window's own number {cut.lags + 1:,} times, the last of them final"
    console.write_line(f"publishes {published}; intervals of {percent(job.level)}%:")
    console.write_table(_table(job))
    if job.sizes is not None:
        least, most = job.sizes
        which = f"of one {cut.period or 'window'}" if cut.lags else "so far"
        console.write_line(
            f"a group is shown from the release on in which its estimate {which} reaches a "
            f"threshold: {least:,} to {most:,}, by {'version' if cut.lags else 'step'}"
        )
    if any(one.in_rank for one in job.numbers):
        console.write_line(
            "rank: the part of all rows that may lie between a quantile and the true one. How far "
            "apart their values are depends on the data: ± is for rows spread evenly"
        )
    percentages = any(number.percent is not None for number in job.numbers)
    if job.size is not None and (percentages or definition.inner.known_beforehand is not None):
        console.write_line(_size_in_words(job))
    if percentages:
        console.write_line("percentages are of the rows that a number counts")
    if job.needs_size:
        console.write_line(
            "the error of means, quantiles and the like depends on the number of rows; state it "
            "with --size"
        )
    if job.bound_note is not None:
        console.write_line(f"note: {job.bound_note}")


def _size_in_words(job: PlannedJob) -> str:
    """Return a sentence on the rows that the plan assumes."""
    rows = Fraction(job.size or 0)
    text = f"the plan assumes {rows.numerator:,} rows"
    over = []
    if job.windows > 1:
        over.append(f"{job.windows:,} windows ({figures(float(rows / job.windows))} in each)")
    if job.definition.domain is not None:
        over.append(f"{len(job.definition.groups):,} groups")
    if over:
        text += f", spread evenly over {' and '.join(over)}"
    return text


def promise_of(job: PlannedJob) -> str:
    """Return the parameters of a job's guarantee, such as "epsilon = 1"."""
    return str(job.definition.guarantee).partition(" with ")[2]


def _heading(job: PlannedJob) -> str:
    definition = job.definition
    many = definition.cells.how(len(definition.groups), "groups")
    groups = "" if definition.domain is None else f" of {many}"
    what = definition.subject if definition.statistic.additive else definition.what
    cut = definition.cut
    if not cut.goes_on:
        return f"{what}{groups}, released once"
    endless = definition.strategy.horizon is None
    length = f"windows of {cut.every}"
    if cut.lags:
        return f"{what}{groups}, {length}, each final after {cut.lags:,} more"
    many = f"{length} without end" if endless else f"{job.steps[-1]:,} {length}"
    return f"{what}{groups}, {many}"


def _table(job: PlannedJob) -> Table:
    table = Table(box=SIMPLE_HEAD, pad_edge=False)
    table.add_column("number", overflow="fold")
    versions = job.definition.cut.lags
    steps = ("first version", "middle", "final") if versions else ("first", "middle", "last")
    for place in {1: (2,), 2: (0, 2)}.get(len(job.steps), (0, 1, 2)):
        table.add_column(steps[place], justify="right")
    if parts := any(number.percent is not None for number in job.numbers):
        table.add_column("of its rows", justify="right")
    if shares := any(number.share for number in job.numbers):
        table.add_column("budget", justify="right")
    for place, number in enumerate(job.numbers):
        row = [_label(number, job), *(f"±{figures(half)}" for half in number.halfwidths)]
        if parts:
            rank = "rank " if number.in_rank else ""
            row.append("" if number.percent is None else f"{rank}{figures(number.percent)}%")
        if shares:
            new = not place or number.part != job.numbers[place - 1].part
            share = f"in {number.source}" if number.source else f"{number.share or 1:.0%}"
            row.append(share if new else "")
        table.add_row(*row)
    return table


def _label(number: PlannedNumber, job: PlannedJob) -> str:
    """Return words for a planned number in a printed plan.

    They are the name of the number. If the job releases only one kind of number, which has no name,
    they are words such as "so far".
    """
    definition = job.definition
    part = definition.inner.statistics.get(number.what)
    if number.what and (part is None or inner_of(part).known_beforehand is None):
        return number.what
    if definition.statistic.additive:
        return "so far"
    inner = definition.inner if part is None else inner_of(part)
    quantity = inner.error_of.what.partition(",")[0].removeprefix("how many ")
    return quantity if part is None else f"{number.what}: {quantity}"
