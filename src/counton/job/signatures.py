"""Signatures that show the fields of a job, with their types and defaults."""

from __future__ import annotations

from counton.frame.options import with_keywords
from counton.job.job import Job, options_of
from counton.job.keywords import JobFields

#: Decorator for a function whose ``**more`` are fields of a job: its signature names each field.
with_job_fields = with_keywords(
    JobFields, {name: option.default for name, option in options_of(Job).items()}
)
