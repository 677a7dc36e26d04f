"""Signatures that show the fields of a job, with their types and defaults."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import TypeVar

from counton.job.job import Job, options_of
from counton.job.keywords import JobFields

_Call = TypeVar("_Call", bound=Callable[..., object])


def with_job_fields(call: _Call) -> _Call:
    """Give a function whose ``**more`` are fields of a job a signature that names each field.

    >>> @with_job_fields
    ... def count(events: str, **more: object) -> None: ...
    >>> fields = inspect.signature(count).parameters
    >>> str(fields["steps"]), fields["unknown"].default
    ("steps: 'int | None' = None", 'refuse')
    """
    given = inspect.signature(call)
    known, own = options_of(Job), [*given.parameters.values()][:-1]
    there = {one.name for one in own}
    fields = [
        inspect.Parameter(
            name,
            inspect.Parameter.KEYWORD_ONLY,
            default=known[name].default if name in known else None,
            annotation=kind.__forward_arg__,
        )
        for name, kind in JobFields.__annotations__.items()
        if name not in there
    ]
    # `inspect.signature` reads this attribute first.
    call.__signature__ = given.replace(parameters=[*own, *fields])  # type: ignore[attr-defined]
    return call
