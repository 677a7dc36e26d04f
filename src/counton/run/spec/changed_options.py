"""What a later run may change: a job is compared with the options that define its stream.

What a job leaves out is as its stream has it. A job that states an option otherwise is refused,
unless both values mean the same, or the option has had no effect. Options that do not define the
stream may change with each run.
"""

from __future__ import annotations

from collections.abc import Collection
from fractions import Fraction
from typing import NamedTuple

from counton.base.errors import InvalidInputError, StreamMismatchError, param
from counton.base.exact import text
from counton.job.common_options import Job
from counton.job.option_fields import STREAM, names_in_scope
from counton.privacy.contribution import canonical_unit
from counton.run.spec.parsing import normal_form
from counton.run.spec.statistic_parsing import parse_statistic
from counton.run.spec.stream_spec import FORMS_OF_CELLS, StreamSpec, option_to_json
from counton.statistics import Statistic
from counton.strategies import StreamStrategy
from counton.windowing.groups import GroupNames

#: Most characters of a value in a message.
_LONGEST_VALUE = 60


def refuse_differences(spec: StreamSpec, job: Job, name: str) -> None:
    """Refuse a job that differs from its stream.

    Args:
        name: name of the stream.

    Raises:
        StreamMismatchError: it does; the message names all differences.
    """
    differing = differences(spec, job)
    if differing:
        raise StreamMismatchError(
            f"stream {name!r} exists with other options: {', '.join(map(str, differing))}. Leave "
            f"them out to continue it. For a second stream give another {param('stream')}; its "
            "privacy loss adds up"
        )


def differences(spec: StreamSpec, job: Job) -> list[Difference]:
    """Return the options by which a job, filled or not, differs from a stream.

    What the job leaves out is as the stream has it, and so no difference. But a job without
    ``append`` says that its files hold all rows so far.

    >>> from counton.job.statistics.count import CountJob
    >>> from counton.run.spec.plan_spec import plan_spec
    >>> options = {"time": "at", "every": "1d", "start": "2024-03-01", "epsilon": 1}
    >>> spec = plan_spec(CountJob(windows=30, **options))
    >>> differences(spec, CountJob(windows=30, until="now", start="2024-03-01T00:00"))
    []
    >>> [difference.option for difference in differences(spec, CountJob(windows=31))]
    ['windows']
    """
    statistic = spec.job.statistic
    if job.statistic != statistic:
        return [Difference("statistic", job.statistic, statistic)]
    here = normal_form(spec.complete_job(job))
    unit = canonical_unit(
        str(here.privacy_unit), [str(spec.job.privacy_unit)]
    )  # case does not matter
    here = here.with_options(privacy_unit=unit)
    names = names_in_scope(type(job), STREAM)
    if "discover" in (here.value_of("unlisted_groups"), spec.job.value_of("unlisted_groups")):
        names.append("unlisted_groups")
    pairs = [Difference(name, here.value_of(name), spec.job.value_of(name)) for name in names]
    differing = [pair for pair in pairs if not pair.is_allowed]
    same = _same_in_other_form(here, spec.job, [pair.option for pair in differing])
    return [pair for pair in differing if pair.option not in same]


def left_out_options(spec: StreamSpec, job: Job) -> list[str]:
    """Return the options that a job leaves out, although its stream would be another one without.

    A job without time, start or length of windows only names its stream, and leaves out all others.

    >>> from counton.job.statistics.count import CountJob
    >>> from counton.run.spec.plan_spec import plan_spec
    >>> options = {"time": "at", "every": "1d", "start": "2024-03-01", "epsilon": 1, "windows": 30}
    >>> spec = plan_spec(CountJob(**options, group_by="street", groups="A,B", other_group="other"))
    >>> left_out_options(spec, CountJob(**options, group_by="street", groups="A,B"))
    ['other_group']
    >>> left_out_options(spec, CountJob(windows=30)), left_out_options(spec, spec.job)
    ([], [])
    """
    if not all(job.has_stated(name) for name in ("time", "every", "start")):
        return []
    names = [name for name in names_in_scope(type(job), STREAM) if not job.has_stated(name)]
    try:
        implied = normal_form(job)
    except InvalidInputError:  # the options that are left out are needed
        implied = job
    return [
        name
        for name in names
        if spec.job.has_stated(name) and spec.job.value_of(name) != implied.value_of(name)
    ]


class Difference(NamedTuple):
    """An option that a job (here) states otherwise than its stream (there) has it."""

    option: str
    here: object
    there: object

    @property
    def is_allowed(self) -> bool:
        """Whether the stream may go on: both mean the same, or the option has had no effect."""
        here = None if self.here is False else self.here
        there = None if self.there is False else self.there
        if self.option == "expected_windows" and here is not None and there is not None:
            return True  # the number matters only when a stream is planned
        if self.option == "ambiguous" and there == "raise":
            return True  # a run with an ambiguous time was refused, so none has counted
        return _mean_the_same(here, there)

    def __str__(self) -> str:
        return (
            f"{param(self.option)} (here {_short_text(self.here)}, there {_short_text(self.there)})"
        )


def _mean_the_same(here: object, there: object) -> bool:
    """Return whether two values of an option mean the same, also if one was read from JSON."""
    if isinstance(here, StreamStrategy) or isinstance(there, StreamStrategy):
        return bool(here == there)
    if isinstance(here, Statistic) and isinstance(there, Statistic):
        return here.allows(there)
    return bool(here == there or option_to_json(here) == option_to_json(there))


def _same_in_other_form(here: Job, there: Job, names: Collection[str]) -> Collection[str]:
    """Return those differing options that mean the same, although they are written otherwise.

    A ranking ignores the order of groups. Cells are stated by their edges, or by their number.

    Args:
        here: a job in its normal form.
        there: the job that defines the stream.
        names: the differing options.
    """
    same: set[str] = set()
    if "groups" in names and here.statistic == "top-k":
        groups_here = here.value_of("groups")
        groups_there = there.value_of("groups")
        if groups_here and groups_there and set(groups_here) == set(groups_there):
            same.add("groups")
    of_cells = {name for form in FORMS_OF_CELLS for name in form}
    if "edges" in names and of_cells & {*names}:
        statistic = parse_statistic(here).of_group
        if statistic.allows(parse_statistic(there).of_group):
            same |= of_cells
    return same


def _short_text(value: object) -> str:
    if value is None or value is False:
        return "without it"
    if value is True:
        return "with it"
    if isinstance(value, GroupNames):
        return f"{len(value):,} groups from {value[0]!r} to {value[-1]!r}"
    if isinstance(value, Fraction):
        return text(value)
    words = ",".join(map(str, value)) if isinstance(value, tuple) else str(value)
    return words if len(words) <= _LONGEST_VALUE else f"{words[:_LONGEST_VALUE]}..."
