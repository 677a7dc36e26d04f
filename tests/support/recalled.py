"""A job with the options that its stream keeps, as a run completes it."""

from counton.run import Job
from counton.run.opened_state import OpenedState
from counton.run.spec.stream_spec import StreamSpec


def recall(job: Job) -> Job:
    with OpenedState(job) as state:
        if state.saved is None:
            return job
        return StreamSpec.of_stream(state.saved).complete_job(job)
