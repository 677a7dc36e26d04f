"""The command ``counton plan nightly.toml``: what the jobs of a file would release, and at which
cost.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace

from rich.box import SIMPLE_HEAD
from rich.table import Table

from counton.base.errors import InvalidInput, field
from counton.base.exact import figures, percent
from counton.cli.failures import failure
from counton.cli.plan_options import PlanOptions
from counton.cli.print_forms import Console, print_json, warn_of_weak
from counton.job.job import Job, options_of
from counton.job.jobfile import for_all, load
from counton.job.kinds import refuse_stated
from counton.numbers.intervals import check_level
from counton.privacy.ledger import NEIGHBOURS
from counton.run.job_plan import (
    Account,
    PlannedFile,
    PlannedJob,
    PlannedNumber,
    planned_job,
    planned_jobs,
)
from counton.statistics.by_group import inner_of, members_of

#: Options of ``plan`` that may be given with a job file. The file states all others.
_TAKES = ("asked", "level", "size", "json")


def print_job_plan(options: PlanOptions) -> None:
    """Print what every job of a file would release, with its errors and its cost."""
    assert options.asked is not None
    others = [name for name in options_of(PlanOptions) if name not in _TAKES]
    refuse_stated(options, others, options.asked, ", whose jobs say it themselves")
    if options.level is not None:
        check_level(options.level)
    if options.size is not None and options.size < 1:
        raise InvalidInput(
            f"{field('size', options.size)} must be at least 1: it is the number of rows"
        )
    jobs = load(options.asked, without_rows=True)
    limit, about, _ = for_all(options.asked)
    found = planned_jobs(jobs, limit, about=about, level=options.level, size=options.size)
    failed = {name: failure(error) for name, error in found.failed.items()}
    if options.json:
        print_json(_as_json(found, {name: message for name, (_, message) in failed.items()}))
    else:
        _print(found, options.size)
    errors = Console(stderr=True)
    for name, job in found.jobs.items():
        guarantee, unit = job.definition.guarantee, job.definition.unit
        warn_of_weak(errors, guarantee, unit, guarantee, f"job {name}: ")
    for name, (_, message) in failed.items():
        errors.write_line(f"counton: job {name}: {message}")
    for code, _ in failed.values():
        raise SystemExit(int(code))


def print_plan_of(job: Job, *, as_json: bool) -> None:
    """Print what a single job would spend and publish, and its errors.

    No row is read, and nothing is written.
    """
    planned = planned_job(job)
    form, cut = planned.definition.release, planned.definition.cut
    planned = replace(planned, name=form)
    if as_json:
        print_json({"released": False, "release": form, "plans": {form: planned.to_dict()}})
        return
    console = Console()
    console.write_line("A plan: nothing is released, and no row is read.", bold=True)
    console.write_line(f"{_heading(planned)}, kept in {planned.state}")
    whom = planned.definition.contribution.describe(planned.definition.unit)
    console.write_line(
        f"spends {promise_of(planned)} of each {planned.definition.unit}, once for all windows: "
        f"{whom}"
    )
    published = _PUBLISHED.get(form, form)
    if cut.lags:
        published = f"each window's own number {cut.lags + 1:,} times, the last of them final"
    console.write_line(f"publishes {published}; intervals of {planned.level:.0%}:")
    console.write_table(_table([planned], {}, None, "release"))
    _write_sizes(console, planned)
    if planned.bound_note is not None:
        console.write_line(f"note: {planned.bound_note}")


_PUBLISHED = {
    "windows": "each window's own number",
    "totals": "the total so far after each window",
    "both": "each window's own number, and the total so far",
}


def _print(found: PlannedFile, size: int | None) -> None:
    console = Console()
    shares = _shares(found)
    for name, job in found.jobs.items():
        console.write_line(f"{name}: {_heading(job)}; {promise_of(job)}")
    if found.jobs:
        console.write_table(_table([*found.jobs.values()], shares, size))
        levels = {f"{percent(job.level)}%" for job in found.jobs.values()}
        console.write_line(f"±: half-width of the {' or '.join(sorted(levels))} interval")
        if any(job.definition.cut.lags for job in found.jobs.values()):
            console.write_line(
                "revised windows: errors of the first version, of one in the middle, and of the "
                "final one"
            )
    for job in found.jobs.values():
        _write_sizes(console, job)
    several = [
        name
        for name, job in found.jobs.items()
        if job.definition.domain and any(one.percent is not None for one in job.numbers)
    ]
    if size is not None:
        console.write_line(f"of {size:,}: the last one, in per cent of that many rows")
    if any(one.in_rank for job in found.jobs.values() for one in job.numbers):
        console.write_line(
            "rank: the part of all rows that may lie between a quantile and the true one. How far "
            "apart their values are depends on the data: ± is for rows spread evenly"
        )
    if several:
        console.write_line(
            f"{', '.join(several)}: in per cent of an even share of the rows for each group"
        )
    more = [name for name, job in found.jobs.items() if job.needs_size]
    if more:
        console.write_line(
            f"{', '.join(more)}: the error of means, quantiles and the like depends on the number "
            f"of rows; state it with --size"
        )
    for name, job in found.jobs.items():
        if job.bound_note is not None:
            console.write_line(f"note on {name}: {job.bound_note}")
    for state, accounts in found.accounts.items():
        for account in accounts:
            console.write_line(f"ledger of {state}: {account_in_words(account)}")
    for name, last in found.ended.items():
        console.write_line(f"{name}: ended at step {last:,}, so that nothing more is released")
    console.write_line("No row was read, and nothing was written.")


def promise_of(job: PlannedJob) -> str:
    """Return the parameters of a job's guarantee in one line, such as "epsilon = 1"."""
    parameters = job.definition.guarantee.to_dict()
    return ", ".join(
        f"{name} = {value}" for name, value in parameters.items() if name != "guarantee"
    )


def _heading(job: PlannedJob) -> str:
    definition = job.definition
    many = definition.cells.how(len(definition.groups), "groups")
    groups = "" if definition.domain is None else f" of {many}"
    what = definition.subject if definition.statistic.card.additive else definition.what
    cut = definition.cut
    if not cut.goes_on:
        return f"{what}{groups}, released once"
    endless = definition.strategy.horizon is None
    length = f"windows of {cut.every}"
    if cut.lags:
        return f"{what}{groups}, {length}, each final after {cut.lags:,} more"
    many = f"{length} without end" if endless else f"{job.steps[-1]:,} {length}"
    return f"{what}{groups}, {many}"


def _table(
    jobs: Sequence[PlannedJob], shares: Mapping[str, float], size: int | None, of: str = "job"
) -> Table:
    table = Table(box=SIMPLE_HEAD, pad_edge=False)
    table.add_column(of, overflow="fold")
    table.add_column("number", overflow="fold")
    for name in ("first", "middle", "last"):
        table.add_column(name, justify="right")
    if parts := any(number.percent is not None for job in jobs for number in job.numbers):
        table.add_column("of size" if size is None else f"of {size:,}", justify="right")
    if shares or any(number.share for job in jobs for number in job.numbers):
        table.add_column("budget", justify="right")
    for job in jobs:
        for place, number in enumerate(job.numbers):
            halves = [f"±{figures(half)}" for half in number.halfwidths]
            first, middle, last = halves[0], halves[1:-1], halves[1:][-1:]
            first_of_part = not place or number.part != job.numbers[place - 1].part
            share = shares.get(job.name, math.nan) if first_of_part else math.nan
            budget = "" if math.isnan(share) else f"{share * (number.share or 1):.0%}"
            if number.source:
                budget = f"in {number.source}" if first_of_part else ""
            row = [job.name if not place else "", _label(number, job)]
            row += [first if last else "", *(middle or [""]), *(last or [first])]
            if parts:
                rank = "rank " if number.in_rank else ""
                row.append("" if number.percent is None else f"{rank}{figures(number.percent)}%")
            table.add_row(*row, *([budget] if len(row) < len(table.columns) else []))
    return table


def _write_sizes(console: Console, job: PlannedJob) -> None:
    """Print how large a group must be to be shown, if groups are found in the rows."""
    if job.sizes is None:
        return
    cut, (least, most) = job.definition.cut, job.sizes
    which = f"of one {cut.period or 'window'}" if cut.lags else "so far"
    console.write_line(
        f"a group is shown from the release on in which its estimate {which} reaches a threshold: "
        f"{least:,} to {most:,}, by {'version' if cut.lags else 'step'}"
    )


def _label(number: PlannedNumber, job: PlannedJob) -> str:
    """Return words for a planned number in a printed plan.

    They are the name of the number. If the job releases only one kind of number, which has no name,
    they are words such as "so far".
    """
    definition = job.definition
    part = members_of(definition.inner).get(number.what)
    if number.what and (part is None or inner_of(part).card.known_beforehand is None):
        return number.what
    if definition.statistic.card.additive:
        return "so far"
    inner = definition.inner if part is None else inner_of(part)
    quantity = inner.error_of.what.partition(",")[0].removeprefix("how many ")
    return quantity if part is None else f"{number.what}: {quantity}"


def account_in_words(account: Account) -> str:
    """Describe in one line the privacy loss spent for one kind of unit, the limit, and what is left
    of it.
    """
    whom = f"for one {account.unit} {NEIGHBOURS[account.relation]}"
    if account.limit is None:
        spent = "no one sum" if account.spent is None else str(account.spent)
        return f"{spent}, {whom}; no limit"
    return (
        f"{account.spent or 'nothing'}, {whom}; limit {account.limit}; left "
        f"{account.left or 'nothing'}"
    )


def _shares(found: PlannedFile) -> dict[str, float]:
    return {
        name: share
        for accounts in found.accounts.values()
        for account in accounts
        for name, share in account.shares.items()
    }


def _as_json(found: PlannedFile, failed: Mapping[str, str]) -> dict[str, object]:
    shares = {name: share for name, share in _shares(found).items() if not math.isnan(share)}
    jobs: dict[str, object] = {
        name: {**job.to_dict(), "share": shares.get(name)} for name, job in found.jobs.items()
    }
    jobs |= {name: {"error": message} for name, message in failed.items()}
    jobs |= {name: {"ended": last} for name, last in found.ended.items()}
    return {
        "jobs": jobs,
        "ledgers": _ledgers_as_json(found.accounts),
    }


def _ledgers_as_json(books: Mapping[str, Sequence[Account]]) -> dict[str, object]:
    return {
        state: {
            "units": {
                account.unit: {
                    "relation": account.relation,
                    "spent": None if account.spent is None else account.spent.to_dict(),
                    "limit": None if account.limit is None else account.limit.to_dict(),
                    "left": None if account.left is None else account.left.to_dict(),
                }
                for account in accounts
            }
        }
        for state, accounts in books.items()
    }
