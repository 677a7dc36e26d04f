"""A private look at events: how many of a user to count, and between which bounds values lie.

What is asked becomes a job like any other: rows are made of each user's rows
(`counton.run.rows_of_user`), counted in cells that are public, and released once. So the answer is
journaled, entered in the ledger and verified as every release is.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Unpack, cast

from counton.base.errors import CountonError, InvalidInput, field
from counton.released.description import People
from counton.released.look_report import (
    Inspection,
    check_share,
    numbers_of_events,
    powers_of_two,
)
from counton.rows.sources import Source
from counton.run.calls import release
from counton.run.changes import for_operator
from counton.run.progress import Progress, silent
from counton.run.rows_of_user import EachUser, UserRows
from counton.run.settlement import check_quarantine
from counton.spec.guards import check_most
from counton.spec.job import Events
from counton.spec.keywords import RowFields
from counton.spec.parts import RowFormat
from counton.state import Store
from counton.state.database import state_file
from counton.state.keyfile import state_files
from counton.state.shared import known_units
from counton.state.units import SpentUnit, unit_word
from counton.statistics import Quantiles

if TYPE_CHECKING:
    from counton.base.exact import Number
    from counton.privacy import Guarantee
    from counton.state.keyfile import Kept

#: What the streams of looks at events, and of looks at values, are called unless stated.
NAME, OF_VALUES = "inspect", "inspect-bounds"


def inspect(
    events: Events,
    *,
    user: str,
    state: str | os.PathLike[str],
    guarantee: Guarantee | None = None,
    epsilon: Number | None = None,
    delta: Number | None = None,
    rho: Number | None = None,
    share: float | Sequence[float] = 0.95,
    at_most: int = 1024,
    bounds: str | None = None,
    most: int | None = None,
    lower: Number | None = None,
    upper: Number | None = None,
    cells: int | None = None,
    edges: str | Sequence[float] | None = None,
    per: str | None = None,
    time: str | None = None,
    timezone: str = "UTC",
    unit: str | None = None,
    name: str | None = None,
    key: Kept = None,
    ledger: str | os.PathLike[str] | None = None,
    level: float = 0.95,
    progress: Progress = silent,
    tell_set_aside: Callable[[int], object] | None = None,
    **how: Unpack[RowFields],
) -> Inspection:
    """Ask privately how many events users have, or between which bounds the values of a column lie.

    The answer is one release of one step, and protects each user with all events. The state's
    ledger counts it. The same call again reads the journal and costs nothing more.

    *Events.* Each user counts once, in the cell of that user's number of events: each number up to
    16, then 17 to 20, to 25, 30, 40, 50, 60, 80, 100 and so on up to ``at_most``, and all larger
    ones.

    *Values.* At most ``most`` values of each user count, spread evenly among all values of that
    user. The cells are powers of two from 2^-10 to 2^40, 0 and the same below it, unless they are
    stated.

    Args:
        events: as of `release`.
        user: column that says whose an event is.
        state: as of `release`.
        guarantee: what the answer promises.
        epsilon, delta, rho: the numbers of the guarantee instead.
        share: part of the users (or values): the answer is how many events so large a part has at
            most. Or several, of which the largest that the cells can tell of is suggested.
        at_most: the largest number of events that has a cell below "all larger ones".
        bounds: column of values whose bounds are asked for instead.
        most: how many values of each user count.
        lower, upper, cells, edges: cells of the values, as of `Quantiles`.
        per, time: look at each period of a user, as ``1d``, by a column of times.
        timezone: zone of local times and of periods.
        unit: what a user is called; None: "user", or as the state says.
        name: name of the stream.
        key, ledger: as of `release`.
        level: probability with which each interval holds.
        progress: is told where the run is.
        tell_set_aside: is told how many rows ``bad_rows`` set aside: exact, only for the operator.
        how: how rows are read, as of `release`: ``file_format``, ``time_format``, ``missing``, ...

    Raises:
        CountonError: as of `release`; nothing was released or changed.

    >>> import tempfile
    >>> import polars as pl
    >>> from counton import PureDP, inspect
    >>> folder = tempfile.TemporaryDirectory()
    >>> many = [f"visitor {number % 900}" for number in range(3000)]  # 3 or 4 events each
    >>> visits = pl.DataFrame({"visitor": many})
    >>> found = inspect(
    ...     visits, user="visitor", state=folder.name + "/visits.db", guarantee=PureDP(1)
    ... )
    >>> found.suggestion, found.answers[0].lower, found.answers[0].upper
    ({'most': 4}, 4, 4)
    >>> [one.most for one in found.sweep(steps=365, guarantee=PureDP(1))]
    [1, 2, 4, 5]
    >>> folder.cleanup()
    """
    shares = (share,) if isinstance(share, int | float) else tuple(share)
    if not shares:
        raise InvalidInput(f"{field('share')} names no share; give one, such as 0.95")
    for part in shares:
        check_share(part)
    cut = {"lower": lower, "upper": upper, "cells": cells, "edges": edges}
    grid: dict[str, Any] = {one: value for one, value in cut.items() if value is not None}
    if bounds is None:
        for argument, value in {"most": most, **grid}.items():
            if value is not None:
                raise InvalidInput(
                    f"{field(argument, value)} is of the values of a column; name it "
                    f"({field('bounds')}), or leave {field(argument)} out"
                )
        grid, named = {"edges": numbers_of_events(at_most)}, f"events by {user}"
        if per is not None:
            named += f" and {People(1, per).of('').removeprefix(chr(39) + 's ')}"
    else:
        check_most(most)
        if most is None:
            raise InvalidInput(
                f"{field('bounds', bounds)} needs {field('most')}, how many values of one user "
                f"count: noise must hide them all"
            )
        grid, named = grid or {"edges": powers_of_two()}, bounds
    reading = RowFormat(**how)
    policies = reading.policies()
    check_quarantine(policies, events, reading.file_format, state_files(state, key))
    quantiles = _quantiles(grid)
    asked = UserRows(
        *(user, named, quantiles, bounds, most or 1),
        per=per,
        time=time,
        timezone=timezone,
        time_format=reading.time_format,
        clock_change=reading.clock_change,
        policies=policies,
    )
    stated: Any = {
        "epsilon": epsilon,
        "delta": delta,
        "rho": rho,
        "user": user,
        "most": asked.most,
        "value": named,
        "unit": _unit(state, ledger, unit, per),
        "name": name or (NAME if bounds is None else OF_VALUES),
        "key": key,
        "ledger": ledger,
        "level": level,
    }
    rows = EachUser(reading.open_rows(events), asked)
    source = cast(Any, Source((rows,), rows.name))
    found = release(
        quantiles, source, state=state, guarantee=guarantee, progress=progress, **stated
    )
    if tell_set_aside is not None and rows.found is not None:
        tell_set_aside(for_operator(rows.found).quarantined)
    return Inspection(found, tuple(map(float, shares)), bounds is not None)


def _quantiles(grid: dict[str, Any]) -> Quantiles:
    """The cells, as a job of quantiles would state them."""
    from counton.base.options import numbers_of

    if "edges" in grid:
        grid = {**grid, "edges": numbers_of(grid["edges"], "edges")}
    return Quantiles(**grid)


def _unit(state: Any, ledger: Any, unit: str | None, per: str | None) -> str | None:
    """What is protected, in the word by which the state counts it."""
    if per is None:
        return unit
    known: list[SpentUnit] = []
    with suppress(CountonError):  # which the run says by itself
        file = state_file(state)
        if file is not None and not file.exists():
            known = known_units(None, ledger)
        else:
            with Store(state) as store:
                known = [*store.units, *known_units(store.database, ledger)]
    return People(1, per).of(unit_word(known, "user", unit, "user"))
