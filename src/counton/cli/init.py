"""The command ``init``: it writes a job file, and says what only the operator can fill in."""

from __future__ import annotations

import shlex
from collections.abc import Collection
from dataclasses import fields

from counton.base.errors import InvalidInput, field
from counton.cli.init_options import FirstOptions
from counton.cli.job_plan_command import write_plan
from counton.cli.print_forms import Console
from counton.cli.run_words import EXACT, counted_column
from counton.job.job import NEWEST, Job
from counton.job.jobfile import last_date, save
from counton.job.stated_options import options_of_job
from counton.run.default_state import default_state
from counton.run.first_job import (
    FirstLook,
    JobValues,
    check_job,
    complete_job,
    job_of,
    look_at,
    refuse_state,
    unsaid,
)
from counton.run.job_plan import PlannedJob

#: Options of the job file, not of the job.
_OF_FILE = ("save", "force")


def perform(options: FirstOptions) -> None:
    """Write the job file, and print what the job does or what it still lacks."""
    console = Console()
    if options.save.exists() and not options.force:
        raise InvalidInput(
            f"{str(options.save)!r} exists, and may define a stream: write another file "
            f"({field('save', 'other.toml')}), or overwrite it ({field('force', True)})"
        )
    if options.events == "-":
        raise InvalidInput(
            "standard input can be read only once, but a job runs every night: name a file"
        )
    values: JobValues = {"state": default_state(options.events)} | {
        one.name: stated
        for one in fields(options)
        if one.name not in _OF_FILE
        and (stated := options.option(one.name)) is not None
        and stated is not False  # 0 is stated
    }
    if (date := last_date(job_of(values))) is not None:
        raise InvalidInput(
            f"{field('until', date)} would stop every later night's run at this date, too: leave "
            f"it out, and give it to counton run; or give {field('until', NEWEST)}"
        )
    refuse_state(job_of(values))
    look = look_at(job_of(values))
    unanswered = unsaid(values, look)
    plan = None if "time" in unanswered else check_job(values, look)[1]
    whole = complete_job(values, look)
    _print_facts(look, whole, unanswered)
    job = whole.having(**dict.fromkeys(unanswered))
    known = options_of_job(job)
    empty = {known[name].key: remark for name, remark in unanswered.items()}
    save(job, options.save, _comments(job) | empty, anew=True, empty=empty)
    _print(console, job, plan, options.save.name, empty)


def _print_facts(look: FirstLook, job: Job, unanswered: Collection[str]) -> None:
    """Print exact facts about the first rows, by which the operator answers, to standard error."""
    console, facts = Console(stderr=True), look.for_operator(job)
    counted = counted_column(look.columns, job)
    if counted is None and facts.counts and job.option("counts") is None:
        shown = ", ".join(facts.counts[:3])
        counted = (
            f"each row is counted as one; if a column of whole numbers ({shown}) says how many it "
            f"stands for, name it: --counts {facts.counts[0]}"
        )
    if counted is not None:
        console.write_line(f"note: {counted}")
    for column, name in facts.totals:
        console.write_line(
            f"{EXACT}: column {column!r} has rows called {name!r}. If they are sums of other rows, "
            "leave them out of the file: else they count too"
        )
    if facts.first is not None and facts.newest is not None and "start" in unanswered:
        rows = "rows" if look.has_all_rows else "first rows"
        console.write_line(
            f"{EXACT}: the {rows} are of {facts.first:%Y-%m-%d} to {facts.newest:%Y-%m-%d}"
        )


def _comments(job: Job) -> dict[str, str]:
    """Return the comments of the job file: each key's comment stands above it in the file; "" is
    the file's heading.

    The comments contain no exact numbers.
    """
    found = {item.key: item.help for item in options_of_job(job).values()}
    return found | {
        "": "Change anything before the first run. After it, options that define the stream are\n"
        "fixed. Paths are relative to the folder of this file.",
        "statistic": "how many there are",
    }


def _print(
    console: Console, job: Job, plan: PlannedJob | None, file: str, empty: Collection[str]
) -> None:
    """Print the plan in words, what is still to be filled in, and how the job is run."""
    console.write_line(f"{file} is written.", bold=True)
    if empty:
        said = ", ".join(empty)
        console.write_line(f"Fill in before the first run, which refuses an empty line: {said}.")
    elif plan is not None:
        write_plan(console, plan)
    if job.rows.covers is None:
        held = "only new rows" if job.rows.append else "all rows since the start"
        console.write_line(f"Each file is taken to hold {held}: append and covers say else.")
    run = shlex.join(["counton", "run", file])
    console.write_line(f"the first time, and every night: {run} (with --dry-run nothing is spent)")
    if job.times.until == NEWEST:
        console.write_line(f"Once rows come every night, take until = {NEWEST!r} out of {file}.")
