"""What a later run may change: a job is compared with the options that define its stream.

What a job leaves out is as its stream has it. A job that states an option otherwise is refused,
unless both values mean the same, or the option has had no effect. Options that do not define the
stream may change with each run.
"""

from __future__ import annotations

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
#: Options that state cells, by their edges or by their number.
_OF_CELLS = frozenset(name for form in FORMS_OF_CELLS for name in form)


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
    there = spec.job
    return [
        Difference(name, here.value_of(name), there.value_of(name))
        for name in (*names_in_scope(type(job), STREAM), "unlisted_groups")
        if not _is_allowed(name, here, there)
    ]


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

    def __str__(self) -> str:
        return (
            f"{param(self.option)} (here {_short_text(self.here)}, there {_short_text(self.there)})"
        )


def _is_allowed(option: str, here: Job, there: Job) -> bool:
    """Return whether a later run may have an option so: as the stream, or by an exception.

    Args:
        option: its name.
        here: a job in its normal form.
        there: the job that defines the stream.
    """
    value_here = here.value_of(option)
    value_there = there.value_of(option)
    if _mean_the_same(value_here, value_there):
        return True
    if option == "expected_windows":
        # The number matters only when a stream is planned.
        return value_here is not None and value_there is not None
    if option == "ambiguous":
        # A run with an ambiguous time was refused, so none has counted.
        return bool(value_there == "raise")
    if option == "unlisted_groups":
        # Only the discovery of groups defines a stream.
        return "discover" not in (value_here, value_there)
    if option == "privacy_unit":
        # The case of its letters does not matter.
        return canonical_unit(str(value_here), [str(value_there)]) == str(value_there)
    if option == "groups" and here.statistic == "top-k":
        # A ranking ignores the order of groups.
        return bool(value_here and value_there) and set(value_here) == set(value_there)
    return option in _OF_CELLS and _have_same_cells(here, there)


def _have_same_cells(here: Job, there: Job) -> bool:
    """Return whether a job states the cells of its stream by edges, and the other by a number."""
    if _mean_the_same(here.value_of("edges"), there.value_of("edges")):
        return False
    # The unit is an option of its own.
    here = here.with_options(privacy_unit=there.privacy_unit)
    return parse_statistic(here).of_group.allows(parse_statistic(there).of_group)


def _mean_the_same(here: object, there: object) -> bool:
    """Return whether two values of an option mean the same, also if one was read from JSON."""
    here = None if here is False else here
    there = None if there is False else there
    if isinstance(here, StreamStrategy) or isinstance(there, StreamStrategy):
        return bool(here == there)
    if isinstance(here, Statistic) and isinstance(there, Statistic):
        return here.allows(there)
    return bool(here == there or option_to_json(here) == option_to_json(there))


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
