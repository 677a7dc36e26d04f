"""The option ``counton run --dry-run``: everything that a run does, except its releases."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from counton.base.errors import AlreadyEnded, CountonError
from counton.cli.exits import ExitCode
from counton.cli.failures import failed_report, failure
from counton.cli.job_plan_command import promise_of
from counton.cli.print_forms import Console, print_json
from counton.cli.run_words import EXACT, notes_on_names
from counton.job.job import Job
from counton.run.dry_run import DryRun, dry_run
from counton.run.job_plan import PlannedJob, planned_jobs


def print_dry_run(jobs: Mapping[str, Job], *, as_json: bool) -> None:
    """Plan jobs, check them and read their rows; print the windows that a run would release.

    Raises:
        SystemExit: a job would fail; the exit code is the one that the run would have.
    """
    planned: dict[str, PlannedJob] = {}
    done: dict[str, DryRun] = {}
    ended: dict[str, int] = {}
    failed: dict[str, tuple[ExitCode, str]] = {}
    for name, one in planned_jobs(jobs).items():
        try:
            if not isinstance(one, PlannedJob):
                raise one
            planned[name], done[name] = one, dry_run(jobs[name])
        except AlreadyEnded as error:
            ended[name] = error.step
        except (CountonError, OSError) as error:
            failed[name] = failure(error)
    if as_json:
        print_json({"dry_run": True, "jobs": _as_json(planned, done, ended, failed)})
    else:
        console, errors = Console(), Console(stderr=True)
        for name, found in done.items():
            new, cut = found.after - (found.before or 0), found.definition.cut
            what = f"{new:,} {cut.noun}{'s' * (new != 1)}" if cut.goes_on else "the table"
            kept = "begin a stream" if found.before is None else f"go on after {found.before:,}"
            promised = promise_of(planned[name])
            console.write_line(f"{name}: would {kept} and release {what}; {promised}")
            read = f"rows read: {found.for_operator().rows:,}"
            for note in (read, *notes_on_names(found, found.definition)):
                errors.write_line(f"{EXACT}: job {name}: {note}")
        for name, last in ended.items():
            console.write_line(f"{name}: ended at step {last:,}, so that nothing more is released")
        for name, (_, message) in failed.items():
            errors.write_line(f"counton: job {name}: {message}")
        console.write_line("A dry run: rows were read, and nothing was written or released.")
    for code, _ in failed.values():
        raise SystemExit(int(code))


def _as_json(
    planned: Mapping[str, PlannedJob],
    done: Mapping[str, DryRun],
    ended: Mapping[str, int],
    failed: Mapping[str, tuple[ExitCode, str]],
) -> dict[str, Any]:
    reports: dict[str, Any] = {}
    for name, found in done.items():
        cut, counts = found.definition.cut, found.for_operator()
        reports[name] = {
            "new_stream": found.before is None,
            "released": found.before or 0,
            "would_release": found.after - (found.before or 0),
            "until": None if found.until is None else cut.at(found.until),
            "guarantee": found.definition.guarantee.to_dict(),
            "unit": found.definition.unit,
            "plan": planned[name].to_dict(),
            "not_private": {
                "rows": counts.rows,
                "dropped": counts.before + counts.beyond + counts.unknown + counts.skipped,
                "quarantined": counts.quarantined,
            },
        }
    reports |= {name: {"ended": last} for name, last in ended.items()}
    reports |= {name: failed_report(code, message) for name, (code, message) in failed.items()}
    return reports
