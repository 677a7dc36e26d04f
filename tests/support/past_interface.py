"""Today's Python interface of runs, on top of the new path: for tests of the old path only.

With ``COUNTON_NEW_PATH=1`` the tests that call `counton.run.run` judge the new path unchanged. This
file goes with the old path.
"""

from __future__ import annotations

from datetime import UTC, datetime
from functools import cached_property
from importlib import import_module
from types import SimpleNamespace
from typing import Any

import counton.run.dry_run
import counton.run.job_plan
from counton.options.common_options import Job as NewJob
from counton.options.messages import parse_options
from counton.options.statistic_objects import job_of_statistic
from counton.options.statistics import model_of
from counton.runs import (
    api,
    close_stream,
    erasure,
    exports,
    notes,
    plan_job,
    remembered_rows,
    run_job,
)
from counton.runs import dry_run as dry_run_new
from counton.runs.row_buffer import PURPOSES
from counton.runs.run_job import run as run_new
from counton.state import Stream


class PastJob:
    """A job with the interface of `counton.run.Job`."""

    def __init__(self, what: Any, events: Any = None, state: Any = None, **options: Any) -> None:
        if events is not None:
            options["events"] = events
        if state is not None:
            options["state"] = state
        self.what = what
        options.pop("what", None)
        options = {name: value for name, value in options.items() if value is not None}
        self._options = options

    @cached_property
    def model(self) -> NewJob:
        """The job, which is checked when it is first used, as `counton.run.Job` was."""
        if not isinstance(self.what, str):
            return job_of_statistic(self.what, self._options)
        job: NewJob = parse_options(model_of(self.what), self._options)
        return job

    @classmethod
    def of_model(cls, model: NewJob) -> PastJob:
        job = cls.__new__(cls)
        job.what = model.statistic
        job.model = model
        job._options = model.stated_options()
        return job

    def having(self, **options: Any) -> PastJob:
        what = options.pop("what", self.what)
        return PastJob(what, **{**self._options, **options})

    def option(self, name: str) -> Any:
        return self.model.value_of(name)

    def states(self, name: str) -> bool:
        return self.model.states(name)

    @property
    def events(self) -> Any:
        return self.model.events

    def __getattr__(self, part: str) -> Any:
        parts = ("keeping", "times", "groups", "people", "promise", "format", "output", "rows")
        if part not in (*parts, "noise", "lateness", "view"):
            raise AttributeError(part)
        values = {name: getattr(self.model, name) for name in type(self.model).model_fields}
        if values.get("name") is None:
            from counton.options.stream_name import usual_name

            values["name"] = usual_name(self.model)
        return SimpleNamespace(**values)

    def __repr__(self) -> str:
        return repr(self.model)


class PastOutcome:
    """A result with the interface of `counton.run.Outcome`."""

    def __init__(self, result: Any, job: PastJob) -> None:
        self.result = result
        self.before, self.after = result.before, result.after
        self.until = None if result.is_single_table else result.until
        self.again = result.is_duplicate_input
        self.counts = result.counts
        self.job = job
        self._stream: Stream | None = None
        self.definition = described(result.spec)
        self.outputs = SimpleNamespace(write=lambda *given, **more: None)

    @property
    def stream(self) -> Stream:
        if self._stream is None:
            self._stream = Stream.open(
                self.job.model.state, self.result.name, key=self.job.model.key
            )
        return self._stream

    @property
    def differing_rows(self) -> str | None:
        from counton.cli.run_report import differing_rows_note

        return differing_rows_note(self.result)

    def for_operator(self) -> Any:
        counts = self.result.for_operator()
        rows, of_input = counts.rows, counts.input
        return SimpleNamespace(
            rows=rows.read,
            before=rows.before_start,
            beyond=rows.after_last_window,
            unknown=rows.unlisted,
            skipped=rows.missing,
            quarantined=rows.quarantined,
            late=of_input.waiting,
            beyond_most=of_input.choice.beyond_bound,
            known=of_input.choice.duplicates if self.job.model.append else 0,
            closed=of_input.choice.after_final
            or (of_input.after_final if self.result.job.append else 0),
            gone=of_input.missing or of_input.choice.missing,
            taken_back=of_input.choice.retracted,
            shut=0 if self.result.job.append else of_input.after_final,
            outside=of_input.outside_snapshot,
            late_by=of_input.late_by,
            empty=counts.empty_windows,
            others=rows.in_other_group,
            unlisted=list(rows.unlisted_names),
            differing=[
                SimpleNamespace(
                    step=one.step,
                    before=one.before,
                    now=one.now,
                    more=one.added,
                    fewer=one.missing,
                    counts=one.is_open,
                )
                for one in of_input.changed
            ],
        )

    def read(self, level: float | None = None, shown: Any = None) -> Any:
        from counton.runs.read_journal import read_release

        return read_release(self.stream, self.result.spec, level=level, display=shown)

    def close(self) -> None:
        if self._stream is not None:
            self._stream.close()

    def __enter__(self) -> PastOutcome:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()


def run(request: PastJob, progress: Any = None, *, now: Any = None) -> PastOutcome:
    """Run a job on the new path."""
    told = run_job.no_progress if progress is None else progress
    return PastOutcome(run_new(request.model, told, now=now), request)


class PastOpened:
    """A job filled from its stream, as `counton.run.settlement.open_job` returned it."""

    def __init__(self, job: PastJob) -> None:
        self.job = job
        with run_job.OpenedState(job.model) as state:
            if state.saved is not None:
                spec = run_job.StreamSpec.of_stream(state.saved)
                self.job = PastJob.of_model(spec.fill_job(job.model))

    def __enter__(self) -> PastOpened:
        return self

    def __exit__(self, *error: object) -> None: ...


class PastSettled:
    """A job that is prepared, with its open state, as `counton.run.resolve` returned it."""

    def __init__(self, job: PastJob) -> None:
        self.job = job
        self.state = run_job.OpenedState(job.model)
        try:
            now = datetime.now(UTC)
            self.prepared = run_job.prepare(job.model, self.state, None, now)
        except BaseException:
            self.state.close()
            raise

    def close(self) -> None:
        self.state.close()

    def __enter__(self) -> PastSettled:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()


def read_rows(settled: PastSettled) -> Any:
    return run_job.read_rows(settled.prepared)


def commit(settled: PastSettled, rows: Any) -> PastOutcome:
    ended = run_job.decide(settled.prepared, rows)
    committed = run_job.commit(settled.prepared, rows, ended)
    release, _ = run_job.publish(settled.prepared, committed.stream)
    result = SimpleNamespace(
        name=settled.state.name,
        job=settled.prepared.job,
        spec=committed.spec,
        before=settled.state.released,
        after=committed.stream.step,
        until=ended.until,
        is_single_table=False,
        is_duplicate_input=False,
        counts=committed.counts,
        release=release,
    )
    settled.close()
    return PastOutcome(result, settled.job)


#: Names of the old path, by module, and what they are on the new one.
MOVED: dict[str, dict[str, Any]] = {
    "counton.run": {
        "Job": PastJob,
        "run": run,
        "release": api.release,
        "resolve": PastSettled,
        "read_rows": read_rows,
        "commit": commit,
        "export": exports.export,
        "methods": exports.methods,
        "publish": exports.publish,
        "mark": notes.mark,
        "contribution_bounds": remembered_rows,
    },
    "counton.run.settlement": {"open_job": PastOpened},
    "counton": {"Job": PastJob, "release": api.release},
    "counton.run.exports": {
        "export": exports.export,
        "methods": exports.methods,
        "publish": exports.publish,
        "only_name": exports.only_name,
    },
    "counton.run.window_notes": {"mark": notes.mark},
    "counton.run.erasure": {"forget": erasure.forget, "forget_older": erasure.forget_older},
    "counton.run.stream_end": {
        "end_stream": close_stream.end_stream,
        "late_rows_for_operator": close_stream.late_rows_for_operator,
    },
}


class PastPlan:
    """A plan with the interface of `counton.run.job_plan.PlannedJob`."""

    def __init__(self, plan: plan_job.PlannedJob) -> None:
        self.plan = plan
        self.definition = described(plan.spec)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.plan, name)


def described(spec: Any) -> Any:
    """Return the description of a spec, with the facts that tests ask a definition for."""
    description = spec.description()
    object.__setattr__(description, "record", spec.facts()["record"])
    object.__setattr__(description, "columns", None)
    object.__setattr__(description, "ended", spec.last_step)
    return description


def planned_job(job: PastJob, *, size: int | None = None) -> PastPlan:
    """Plan a job on the new path."""
    return PastPlan(plan_job.planned_job(job.model, size=size))


def planned_jobs(jobs: Any, *, size: int | None = None) -> dict[str, Any]:
    """Plan jobs on the new path."""
    models = {name: job.model for name, job in jobs.items()}
    return {
        name: PastPlan(plan) if isinstance(plan, plan_job.PlannedJob) else plan
        for name, plan in plan_job.planned_jobs(models, size=size).items()
    }


def dry_run(job: PastJob) -> Any:
    """Rehearse a job on the new path."""
    rehearsal = dry_run_new.dry_run(job.model)
    numbers = rehearsal.for_operator()
    counts = SimpleNamespace(
        rows=numbers.read,
        before=numbers.before_start,
        beyond=numbers.after_last_window,
        unknown=numbers.unlisted,
        skipped=numbers.missing,
        quarantined=numbers.quarantined,
    )
    return SimpleNamespace(
        definition=described(rehearsal.spec),
        before=rehearsal.before,
        after=rehearsal.after,
        until=rehearsal.until,
        for_operator=lambda: counts,
    )


def install() -> None:
    """Let tests that import `counton.run` use the new path."""
    vars(remembered_rows)["USER"] = PURPOSES["user"]
    modules = {name: import_module(name) for name in MOVED}  # an import sets names of its package
    for name, names in MOVED.items():
        vars(modules[name]).update(names)
    vars(counton.run)["planned_jobs"] = planned_jobs
    vars(counton.run.job_plan)["planned_job"] = planned_job
    vars(counton.run.job_plan)["planned_jobs"] = planned_jobs
    vars(counton.run.job_plan)["PlannedJob"] = PastPlan
    vars(counton.run.dry_run)["dry_run"] = dry_run
