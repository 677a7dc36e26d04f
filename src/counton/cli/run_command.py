"""The command ``run``: the jobs of a file, one after the other."""

from __future__ import annotations

from typing import Any

from counton.base.errors import AlreadyEnded, InvalidInput
from counton.cli.exits import ExitCode
from counton.cli.failures import failed_report, failure
from counton.cli.print_forms import Console, ReportLines, print_json, warn_of_witness_beside
from counton.cli.run_options import RunOptions
from counton.cli.run_statistic import carried_out
from counton.job.job import Job, options_of
from counton.job.jobfile import (
    last_date,
    load,
    published_to,
    schema,
    select_jobs,
)
from counton.run.shared_paths import JobStates, refuse_publishing_over, refuse_shared
from counton.state.database import parse_address
from counton.state.published import checked_address


def perform(options: RunOptions) -> None:
    """Run the jobs of a file one after the other; if one fails, the others still run.

    With ``--schema`` or ``--dry-run`` nothing is released.
    """
    if options.schema:
        print_json(schema())
        return
    if options.file is None:
        raise InvalidInput("the job file is missing; name it, as in: counton run nightly.toml")
    loaded = load(options.file)
    errors, console = ReportLines() if options.json else Console(stderr=True), Console()
    with JobStates(loaded) as states:
        refuse_shared(states.jobs)
        publish_to, jobs = published_to(options.file), select_jobs(loaded, options.only)
        if publish_to is not None:
            refuse_publishing_over(states.jobs, publish_to)
            for job in jobs.values():
                checked_address(publish_to, parse_address(job.keeping.state))
        if options.dry_run:
            from counton.cli.dry_run_command import print_dry_run

            due = {
                name: _tonight(job, options, known=name in states.begun)
                for name, job in jobs.items()
            }
            print_dry_run(due, as_json=options.json)
            return
        guarded = ((job.keeping.state, job.keeping.witness) for job in jobs.values())
        warn_of_witness_beside(errors, *guarded, opened=states.at)
    reports: dict[str, Any] = {}
    failed = ExitCode.OK
    for number, (name, job) in enumerate(jobs.items()):
        if not options.json:
            console.write_line(f"{chr(10) if number else ''}job {name}", bold=True)
        try:
            tonight = _tonight(job, options, known=name in states.begun)
            reports[name] = carried_out(tonight, silently=options.json, about=f"job {name}: ")
            if options.until is None and (date := last_date(job)) is not None:
                reports[name]["until_in_file"] = date
                if not options.json:
                    console.write_line(
                        f"the job file says until = {date}, so no run releases a later window: "
                        "take that line out to go on"
                    )
            if publish_to is not None:
                _publish(job, publish_to, console, silently=options.json)
            if reports[name]["not_drawn"]:
                failed = failed or ExitCode.FAILED
                if not options.json:
                    errors.write_line(f"counton: job {name}: {reports[name]['not_drawn']}")
        except AlreadyEnded as error:
            message = (
                f"stream {job.keeping.name!r} has ended at step {error.step:,}: nothing to release"
            )
            reports[name] = {
                "state": str(job.keeping.state),
                "name": job.keeping.name,
                "ended": error.step,
            }
            if not options.json:
                console.write_line(message)
        except (KeyboardInterrupt, SystemExit, GeneratorExit):
            raise
        except BaseException as error:  # a panic of a library in another language is no Exception
            code, message = failure(error)
            if code is ExitCode.FAILED and options.only is not None and not options.json:
                raise  # somebody wants to see where it fails
            failed = failed or code
            if not options.json:
                errors.write_line(f"counton: job {name}: {message}")
            reports[name] = failed_report(code, message)
    if isinstance(errors, ReportLines):
        print_json({"jobs": reports, "warnings": errors.lines})
    if failed:
        raise SystemExit(int(failed))


def _publish(job: Job, to: str, console: Console, *, silently: bool) -> None:
    """Publish a job's releases in the database that the file states for all jobs."""
    from counton.run.exports import publish

    done = publish(job.keeping.state, to, name=job.keeping.name, key=job.keeping.key)
    if not silently:
        new = done.after - done.before
        steps = "step" if new == 1 else "steps"
        console.write_line(f"published {new:,} new {steps}, {done.after:,} in all, in {done.place}")


def _tonight(job: Job, options: RunOptions, *, known: bool) -> Job:
    """Replace options of a job by those that the command ``run`` states, for this run alone.

    The option ``until`` is ignored for a job without a column of times whose stream is new
    (``known`` is False).
    """
    nightly = (name for name, stated in options_of(Job).items() if stated.nightly)
    stated = {name: options.option(name) for name in nightly if options.states(name)}
    if job.times.time is None and not known:
        stated.pop("until", None)
    return job.having(**stated)
