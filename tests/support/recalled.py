"""A job with the options that its stream keeps, as a run completes it."""

from counton.run.settlement import open_job
from counton.runs import Job


def recall(job: Job) -> Job:
    with open_job(job) as opened:
        return opened.job
