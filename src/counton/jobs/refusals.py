"""What a table that is released once, and rows that come in order, cannot have."""

from __future__ import annotations

from counton.errors import InvalidInput, field
from counton.jobs import statements
from counton.jobs.job import Job
from counton.options import OwnColumns
from counton.statistics import Statistic


def check_within(request: Job) -> None:
    """Refuse what does not go with a guarantee that is found from a half-width, and without one.

    Raises:
        InvalidInput: naming it.
    """
    if request.within is None:
        named = isinstance(request.what, str)
        reads = statements.kind_of(request.what).reads if named else ()
        for name in ("least", "size"):
            if getattr(request, name) is not None and name not in reads:
                raise InvalidInput(
                    f"{field(name, getattr(request, name))} needs {field('within')}, how far off a "
                    f"number may be; give it, or leave {field(name)} out"
                )
        return
    reasons = {
        "epsilon": "is what it finds",
        "rho": "is what it finds",
        "expire": "says by losses what is promised",
        "continues": "goes on from totals that have noise of their own",
        "target": "says itself how accurate a table is",
    }
    for name, why in reasons.items():
        value = request.option(name) if name == "target" else getattr(request, name)
        if value not in (None, False):
            raise InvalidInput(
                f"{field('within', request.within)} does not go with {field(name, value)}, which "
                f"{why}; leave one of them out"
            )


#: What a table cannot have that is released once, and why.
_ONCE = {
    "per": "has no times that would tell periods apart",
    "most_a_window": "has no windows",
    "release": "has totals alone",
    "continues": "begins with its own rows",
    "expire": "is planned for one step",
    "around": "is planned for one step",
    "growth": "is planned for one step",
    "delay": "is planned for one step",
    "strategy": "arranges no noise over steps ({line} says how cells are measured)",
    "metric": "has one step, whose error is the mean and the largest",
    "simple": "releases integers",
    "watermark": "has no windows",
    "append": "is of all its rows",
    "over": "has no windows",
}


def refuse_of_tables(request: Job, *, known: bool = False) -> None:
    """Refuse what does not go with a table that is released once.

    Args:
        request: what is asked.
        known: of a stream that there is, which no time makes another one.

    Raises:
        InvalidInput: naming it, and why.
    """
    for name, why in _ONCE.items():
        value = getattr(request, name)
        if value is None or value is False or value == _USUAL.get(name) or value == "auto":
            continue
        remedy = "leave it out" if known else f"leave it out, or give {field('time')}"
        raise InvalidInput(
            f"{field(name, value if isinstance(value, str | int) else None)} does not go with a "
            f"{statements.name_of(request.what)} that is released once, which "
            f"{why.format(line=field('line'))}; {remedy}"
        )


#: What a statistic whose rows come in order cannot have, and why.
_IN_ORDER = {
    "user": "protects what it says itself, and reads no column of users",
    "id": "takes rows as they stand, also those that come twice",
    "release": "has totals alone",
    "continues": "knows its events from the first step on, and begins anew",
    "most": "bounds what a unit does by its own parameters",
    "per": "bounds what a unit does by its own parameters",
    "most_a_window": "bounds what a unit does by its own parameters",
    "distinct": "bounds what a unit does by its own parameters",
    "first": "bounds what a unit does by its own parameters",
    "other": "has no groups",
    "spare": "has no groups",
    "expire": "is planned for a number of steps",
}


#: Of these every run may say something else.
_RUNS_IN_ORDER = {
    "append": "is compared with all events since the first step, so that order and late rows show",
    "counted": "knows rows by their order alone",
    "missing": "has as many steps as rows, which would tell how many are left out",
    "bad_rows": "has as many steps as rows, which would tell how many are left out",
}

_USUAL = {"release": "totals", "missing": "refuse", "bad_rows": "refuse", "counted": "refuse"}


def refuse_of_ordered(
    request: Job, statistic: Statistic, parts: OwnColumns | None = None, *, each_row: bool
) -> None:
    """Refuse what does not go with rows that are taken in their order.

    Args:
        request: what is asked.
        statistic: of the stream.
        parts: the columns of a new stream; None: of a later run only what is its own is looked at.
        each_row: whether each row is a step.

    Raises:
        InvalidInput: naming what does not go with it, and why.
    """
    own: tuple[str, ...] = ()
    if statistic.declares is not None and each_row:
        own = ("most", "first")
    if parts is not None and request.user in parts.names and statistic.protects == "user":
        own = (*own, "user")
    for name, why in {**(_IN_ORDER if parts is not None else {}), **_RUNS_IN_ORDER}.items():
        value = getattr(request, name)
        if name in ("missing", "bad_rows") and not each_row:
            continue
        if value is None or value is False or value == _USUAL.get(name) or name in own:
            continue
        what = "where each row is a step," if statistic.tallied else "whose rows count in order,"
        raise InvalidInput(
            f"{field(name, value if isinstance(value, str | int) else None)} does not go with "
            f"{statements.name_of(request.what)}, {what} which {why}; leave it out"
        )
