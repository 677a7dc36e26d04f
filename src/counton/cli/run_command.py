"""The command ``counton run``: the jobs of a file, one after the other."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import click

from counton.base.errors import CountonError, InvalidInputError, StreamClosedError
from counton.cli.command_class import CountonCommand, option
from counton.cli.exits import ExitCode
from counton.cli.parameters import JSON_HELP

if TYPE_CHECKING:
    from counton.cli.print_forms import Console, ReportLines
    from counton.cli.statistic_run import RunOutcome
    from counton.job.common_options import Job


@click.command("run", cls=CountonCommand)
@click.argument("file", required=False, help="A job file: TOML with [defaults] and [jobs.NAME].")
@option("--only", help="Run only these jobs, A,B. [default: all, in the order of the file]")
@option(
    "--until",
    help=(
        "Release the windows that ended by this time, minus release-delay, or latest-event: by the "
        "newest row. [default: now]"
    ),
)
@option("--allow-empty-windows", is_flag=True, help="Release windows although they have no rows.")
@option(
    "--dry-run",
    is_flag=True,
    help="Plan the jobs, read the rows and check what can be checked; write nothing.",
)
@option("--schema", is_flag=True, help="Print the JSON schema of job files, and do nothing else.")
@option("--json", "as_json", is_flag=True, help=JSON_HELP)
def run(
    *,
    file: str | None,
    only: str | None,
    until: str | None,
    allow_empty_windows: bool,
    dry_run: bool,
    schema: bool,
    as_json: bool,
) -> None:
    """Run the jobs of a file, one after the other.

    A job that fails is reported, and the other jobs run. The exit code is that of the first
    failure. counton init writes a job file, and counton release ... --save-job too. --schema prints
    all that a job file may hold. An option of this command overrides the file, in all jobs, for
    this run.
    """
    from counton.cli.print_forms import print_json

    if schema:
        from counton.job.json_schema import schema as schema_of_job_files

        print_json(schema_of_job_files())
        return
    if file is None:
        raise InvalidInputError("the job file is missing; name it, as in: counton run nightly.toml")
    overrides = _parse_overrides(until=until, allow_empty_windows=allow_empty_windows)
    selection = _select(file, only, overrides, warns_of_guards=not dry_run, as_json=as_json)
    if dry_run:
        from counton.cli.dry_run_report import print_dry_run

        print_dry_run(
            {**selection.selected, **selection.jobs_of_run},
            until_is_of_file=until is None,
            as_json=as_json,
        )
        return
    runner = _JobRunner(
        selection,
        until_is_of_file=until is None,
        as_json=as_json,
        raises_defects=only is not None,
    )
    runner.run_all()
    if runner.first_failure:
        raise SystemExit(int(runner.first_failure))


# ------------------------------------------------------------------------- the jobs of this run
@dataclass(frozen=True)
class _Selection:
    """The jobs of a file that a command runs.

    Attributes:
        selected: these jobs by name; in place of a job that cannot be read, its error.
        jobs: those of them that can be read.
        jobs_of_run: these, with the options that the command states for this run.
        publish_to: database in which all releases are published; None: nowhere.
        messages: where messages for the operator go.
    """

    selected: Mapping[str, Job | CountonError]
    jobs: Mapping[str, Job]
    jobs_of_run: Mapping[str, Job]
    publish_to: str | None
    messages: Console | ReportLines


def _select(
    file: str,
    only: str | None,
    overrides: Mapping[str, object],
    *,
    warns_of_guards: bool,
    as_json: bool,
) -> _Selection:
    """Read a job file, and refuse jobs that use each other's files.

    Args:
        file: path of the job file.
        only: names of the jobs to run; None: all.
        overrides: options that the command states for all jobs.
        warns_of_guards: whether to warn of rollback guards that lie beside their states.
        as_json: whether messages are collected for one JSON object.
    """
    from counton.cli.print_forms import Console, ReportLines, warn_of_guard_beside_state
    from counton.job.common_options import Job
    from counton.job.job_file import load_usable, published_to, select_jobs
    from counton.run.outputs.path_conflicts import JobStates, refuse_shared

    loaded = load_usable(file)
    publish_to = published_to(file)
    selected = select_jobs(loaded, only)
    all_jobs = {name: job for name, job in loaded.items() if isinstance(job, Job)}
    jobs = {name: job for name, job in all_jobs.items() if name in selected}
    messages = ReportLines() if as_json else Console(stderr=True)
    with JobStates(all_jobs) as states:
        refuse_shared(states.jobs)
        if publish_to is not None:
            _refuse_publishing(states.jobs, jobs, publish_to)
        jobs_of_run = {
            name: _override(job, overrides, is_begun=name in states.begun)
            for name, job in jobs.items()
        }
        if warns_of_guards:
            guards = [(job.state, job.rollback_guard) for job in jobs.values()]
            warn_of_guard_beside_state(
                messages, guards, option="rollback-guard of the job file", opened=states.at
            )
    return _Selection(selected, jobs, jobs_of_run, publish_to, messages)


def _parse_overrides(*, until: str | None, allow_empty_windows: bool) -> dict[str, object]:
    """Return the options of the command that hold for all jobs, as values of jobs."""
    from counton.job.common_options import WindowOptions, is_stated
    from counton.job.messages import parse_options

    options = {"allow_empty_windows": allow_empty_windows, "until": until}
    stated_options = {name: value for name, value in options.items() if is_stated(value)}
    if not stated_options:  # to build a model takes long
        return {}
    parsed: WindowOptions = parse_options(WindowOptions, stated_options)
    return {name: parsed.value_of(name) for name in stated_options}


def _override(job: Job, overrides: Mapping[str, object], *, is_begun: bool) -> Job:
    """Return a job with the options that the command states for this run alone.

    A new stream of rows without times is a single table, which has no ``until``.
    """
    if job.time is None and not is_begun:
        overrides = {name: value for name, value in overrides.items() if name != "until"}
    return job.with_options(**overrides)


def _refuse_publishing(
    all_jobs: Mapping[str, Job], jobs: Mapping[str, Job], publish_to: str
) -> None:
    """Refuse a database for published numbers that a job uses or that cannot hold them.

    Args:
        all_jobs: all jobs of the file.
        jobs: the jobs of this run.
        publish_to: the database.
    """
    from counton.run.outputs.path_conflicts import refuse_publishing_over
    from counton.state.database import parse_address
    from counton.state.sql_view import checked_address

    refuse_publishing_over(all_jobs, publish_to)
    for job in jobs.values():
        checked_address(publish_to, parse_address(_state_of(job)))


def _state_of(job: Job) -> str:
    assert job.state is not None, "a job of a file names its state"
    return os.fspath(job.state)


# ----------------------------------------------------------------------------------- each job
class _JobRunner:
    """Runs jobs one after the other; a job that fails does not stop the others.

    Args:
        selection: the jobs.
        until_is_of_file: whether the job file states up to when windows are released, if anything
            does. A date in it ends the stream, which is said.
        as_json: print one JSON object in place of text.
        raises_defects: raise an unexpected error, so that its place is shown.
    """

    def __init__(
        self,
        selection: _Selection,
        *,
        until_is_of_file: bool,
        as_json: bool,
        raises_defects: bool,
    ) -> None:
        self._selection = selection
        self._until_is_of_file = until_is_of_file
        self._as_json = as_json
        self._raises_defects = raises_defects
        self._reports: dict[str, object] = {}
        #: Exit code of the first job that failed.
        self.first_failure = ExitCode.OK

    def run_all(self) -> None:
        """Run all jobs, and print their reports."""
        from counton.cli.print_forms import Console, ReportLines, print_json

        for number, name in enumerate(self._selection.selected):
            if not self._as_json:
                blank_line = "\n" if number else ""
                Console().write_line(f"{blank_line}job {name}", bold=True)
            self._run(name)
        messages = self._selection.messages
        if isinstance(messages, ReportLines):
            print_json({"jobs": self._reports, "warnings": messages.lines})

    def _run(self, name: str) -> None:
        """Run one job; keep its report, or that of its failure."""
        from counton.cli.failures import names_of_job

        selection = self._selection
        try:
            loaded_job = selection.selected[name]
            if isinstance(loaded_job, CountonError):
                raise loaded_job
            job = selection.jobs_of_run[name]
            names = names_of_job(job, until_is_of_file=self._until_is_of_file)
            outcome = _run_job(
                name, job, selection.publish_to, is_silent=self._as_json, names=names
            )
            report = outcome.report or {}
            self._reports[name] = report
            if self._until_is_of_file:
                is_silent = self._as_json or not outcome.has_later_windows
                _tell_date_in_file(selection.jobs[name], report, is_silent=is_silent)
            self._note_chart_error(name, outcome.chart_error)
        except StreamClosedError as error:
            job = selection.jobs_of_run[name]
            self._reports[name] = _report_closed(job, error.step, is_silent=self._as_json)
        except (KeyboardInterrupt, SystemExit, GeneratorExit):
            raise
        except BaseException as error:  # a panic of a library in another language is no Exception
            self._note_failure(name, error)

    def _note_chart_error(self, name: str, chart_error: str | None) -> None:
        """Report that the chart of a job could not be drawn, if so."""
        if not chart_error:
            return
        self.first_failure = self.first_failure or ExitCode.ERROR
        if not self._as_json:
            self._selection.messages.write_line(f"counton: job {name}: {chart_error}")

    def _note_failure(self, name: str, error: BaseException) -> None:
        """Report that a job failed; raise a defect if it is the aim of the run to find it."""
        from counton.cli.failures import failed_report, failure, line_of_failed_job

        code, message = failure(error)
        if code is ExitCode.ERROR and self._raises_defects and not self._as_json:
            raise error
        self.first_failure = self.first_failure or code
        self._reports[name] = failed_report(code, message)
        if not self._as_json:
            self._selection.messages.write_line(line_of_failed_job(name, message))


def _run_job(
    name: str,
    job: Job,
    publish_to: str | None,
    *,
    is_silent: bool,
    names: Mapping[str, str],
) -> RunOutcome:
    """Run one job, and publish its releases.

    Args:
        name: name of the job.
        job: the job.
        publish_to: database in which its releases are published; None: nowhere.
        is_silent: print nothing.
        names: what the report calls options.
    """
    from counton.cli.statistic_run import run_and_report

    outcome = run_and_report(job, is_silent=is_silent, prefix=f"job {name}: ", names=names)
    if publish_to is not None:
        _publish(job, publish_to, is_silent=is_silent)
    return outcome


def _publish(job: Job, to: str, *, is_silent: bool) -> None:
    from counton.base.wording import counted
    from counton.cli.print_forms import Console
    from counton.job.saved_job import stream_name
    from counton.run.outputs.exports import publish

    publication = publish(_state_of(job), to, stream=stream_name(job), key=job.key)
    if is_silent:
        return
    new = publication.after - publication.before
    Console().write_line(
        f"published {counted(new, 'new step')}, {publication.after:,} in all, "
        f"in {publication.place}"
    )


def _tell_date_in_file(job: Job, report: dict[str, object], *, is_silent: bool) -> None:
    """Say that a date in a job file ends the stream, if it does."""
    from counton.cli.print_forms import Console
    from counton.job.saved_job import changes_for_newer_rows, date_of_one_run

    date = date_of_one_run(job)
    if date is None:
        return
    report["until_in_file"] = date
    if not is_silent:
        Console().write_line(
            f"the job file says until = {date}, so runs without --until release no later window: "
            f"take that line out once newer rows come{changes_for_newer_rows(job)}"
        )


def _report_closed(job: Job, closed_at_step: int, *, is_silent: bool) -> dict[str, object]:
    """Return the report of a job whose stream is closed, so that it releases nothing."""
    from counton.cli.print_forms import Console
    from counton.job.saved_job import stream_name

    name = stream_name(job)
    if not is_silent:
        Console().write_line(
            f"stream {name!r} is closed at window {closed_at_step:,}: nothing to release"
        )
    return {"state": _state_of(job), "stream": name, "ended": closed_at_step}
