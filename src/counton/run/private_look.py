"""Private questions on contribution bounds and value ranges, and their exact answers.

A private question becomes a job like any other. From each user's rows one new row, or a few, are
made (`counton.run.rows_of_user`). The new rows are counted in public cells, and the counts are
released once. So the answer is journaled, entered in the ledger and verified like every release.

`activity` shows exact facts about the events, for the operator's eyes only. A choice made from them
is not protected: choose by an older log or a public one, and keep the choice.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple, Unpack, cast

import numpy as np
import polars as pl
from numpy.typing import NDArray

from counton.base.errors import CountonError, InvalidInput, RequestMismatch, field
from counton.base.exact import name_alone
from counton.base.options import numbers_of
from counton.base.windows import NO_MOMENT
from counton.job.job import Events, RowFormat, check_most
from counton.job.keywords import RowFields
from counton.numbers.intervals import SMALLEST_TAIL, check_level
from counton.privacy import Contribution, Guarantee
from counton.privacy.contribution import with_clock
from counton.released.counting import Bounded
from counton.released.look_report import (
    Inspection,
    check_share,
    numbers_of_events,
    powers_of_two,
)
from counton.released.periods import period_of
from counton.rows.bad_rows import set_bad_rows_aside
from counton.rows.sources import Source
from counton.rows.timestamps import ClockChange, moments
from counton.rows.window_marks import collect
from counton.run.calls import release
from counton.run.changes import for_operator
from counton.run.definition import Definition
from counton.run.progress import Progress, silent
from counton.run.rows_of_user import EachUser, UserRows
from counton.run.settlement import check_quarantine
from counton.state import Store
from counton.state.database import state_file
from counton.state.key_and_witness import state_files
from counton.state.shared import known_units
from counton.state.unit_names import SpentUnit, unit_word
from counton.statistics import Quantiles

if TYPE_CHECKING:
    from counton.base.exact import Number
    from counton.planning.planner import StreamOptions
    from counton.privacy import Guarantee
    from counton.state.key_and_witness import Kept


@name_alone
@dataclass(frozen=True)
class Activity:
    """The numbers of events of users, or of users' periods. Exact: only for the operator.

    Attributes:
        sizes: distinct numbers of events per user (or per period of a user), ascending.
        units: for each of ``sizes``, the number of users (or periods of users) with this number of
            events.
        without: number of rows without a user, or, if there are periods, without a readable time.

    >>> activity = Activity(np.array([1, 4]), np.array([6, 1]), 0)
    >>> activity.events, activity.dropped_events(2), activity.above(2)
    (10, 2, 1)
    """

    sizes: NDArray[np.int64]
    units: NDArray[np.int64]
    without: int

    @property
    def events(self) -> int:
        """Total number of events of all users. Exact: only for the operator."""
        return int(self.sizes @ self.units)

    @property
    def largest(self) -> int:
        """Largest number of events of one user (or period of a user)."""
        return int(self.sizes.max(initial=0))

    def dropped_events(self, most: int) -> int:
        """Return how many events are left out if at most ``most`` events of each user (or period of
        a user) count.
        """
        return int(np.maximum(self.sizes - most, 0) @ self.units)

    def above(self, most: int) -> int:
        """Return how many users, or periods of users, have more than ``most`` events."""
        return int(self.units[self.sizes > most].sum())

    def bounds(self) -> list[int]:
        """Return candidates for a bound on a user's events: 1, 2, 3, 5, 10, ... up to the largest
        number of events of a user.
        """
        steps = (factor * 10**power for power in range(12) for factor in (1, 2, 3, 5))
        return [*(step for step in steps if step < self.largest), max(1, self.largest)]


class BoundCost(NamedTuple):
    """The cost of a bound on the number of events of a user.

    Attributes:
        most: the bound.
        dropped: fraction of all events that the bound leaves out.
        above: number of users, or periods of users, with more events than the bound.
        std: typical standard deviation of the noise in a total; None without a guarantee.
        error: typical error of the last total from noise and left-out events, if events come evenly
            over time: the square root of the noise's variance plus the mean square of the missing
            events.
    """

    most: int
    dropped: float
    above: int
    std: float | None
    error: float | None


def activity(
    events: Events,
    user: str,
    *,
    per: str | None = None,
    time: str | None = None,
    timezone: str = "UTC",
    **how: Unpack[RowFields],
) -> Activity:
    """Return, for each number of events, how many users (or periods of users) have that many
    events. Exact: only for the operator.

    Args:
        events: see `Job`.
        user, time: names of columns.
        per: length of a period, as ``1d``; None for the whole log.
        timezone: zone of local times and of periods.
        how: options for reading rows: see `Job`.

    Raises:
        InvalidInput: the events cannot be read, lack a column or have no user.

    >>> visits = pl.DataFrame({"visitor": ["ann", "ann", "bob", None]})
    >>> found = activity(visits, "visitor")
    >>> found.sizes.tolist(), found.units.tolist(), found.without
    ([1, 2], [1, 1], 1)
    """
    reading = RowFormat(**how)
    policies = reading.policies()
    check_quarantine(policies, events, reading.file_format, [])
    asked = UserRows(
        *(user, "", None),
        per=per,
        time=None if per is None else time,
        timezone=timezone,
        how=reading,
    )
    source, parts = reading.open_rows(events), []
    if policies.quarantine is not None:
        source = source.sift(asked.reading.columns.names, policies.unread)
        set_bad_rows_aside(source, asked.reading)
    for part in source.parts:
        frame = part.scan([user] if per is None or time is None else [user, time], [user])
        name = pl.col(user).cast(pl.String)
        period = pl.lit(0, pl.Int64)
        known = name.is_not_null() & (name != "")
        if per is not None and time is not None:
            change = cast(ClockChange, reading.clock_change or "raise")
            us = moments(time, frame.collect_schema()[time], timezone, change, reading.time_format)
            frame = frame.with_columns(us.alias("counton us"))
            known &= pl.col("counton us") > NO_MOMENT
            period = period_of(pl.col("counton us"), per, timezone)
        parts.append(frame.select(known=known, user=name, period=pl.when(known).then(period)))
    units = pl.concat(parts).group_by("known", "user", "period").agg(size=pl.len())
    sizes = collect(
        source,
        units.group_by("known", "size").agg(units=pl.len()).sort("size"),
    )
    good = sizes.filter("known")
    if not good.height:
        raise InvalidInput(
            f"no row of {source.name} has a user in column {user!r}; correct the name of the column"
        )
    others = sizes.filter(~pl.col("known"))
    return Activity(
        good["size"].cast(pl.Int64).to_numpy(),
        good["units"].cast(pl.Int64).to_numpy(),
        int((others["size"].cast(pl.Int64) * others["units"].cast(pl.Int64)).sum()),
    )


def weigh(
    found: Activity,
    steps: int | None = None,
    guarantee: Guarantee | None = None,
    *,
    most_a_window: int | None = None,
    **options: Unpack[StreamOptions],
) -> list[BoundCost]:
    """Return, for each candidate bound on a user's events, the fraction of events that it leaves
    out, and the error of the noise.

    The error is computed only if steps and guarantee are given.

    Args:
        found: numbers of events of users, from `activity`.
        steps: number of windows of the stream.
        guarantee: guarantee for a user.
        most_a_window: largest number of events of a user that count in each window.
        options: further options of a stream's plan, such as ``groups``: see `counton.plan`.

    Raises:
        InvalidInput: only one of ``steps`` and ``guarantee`` is given.

    >>> from counton.privacy import PureDP
    >>> bounds = weigh(Activity(np.array([1, 4]), np.array([6, 1]), 0), 365, PureDP(1))
    >>> [(bound.most, bound.dropped) for bound in bounds]
    [(1, 0.3), (2, 0.2), (3, 0.1), (4, 0.0)]
    >>> round(bounds[1].std / bounds[0].std, 6)
    2.0
    """
    if (steps is None and options.get("around") is None) != (guarantee is None):
        raise InvalidInput(
            f"the error of the noise depends on {field('steps')} and a privacy loss, such as "
            f"{field('epsilon', 1)}; give both, or neither"
        )
    bounds = found.bounds()
    stds: Sequence[float | None] = [None] * len(bounds)
    if guarantee is not None:
        from counton.planning.planner import plan_stream

        def unit(most: int) -> Contribution:
            a_window = None if most_a_window is None else min(most_a_window, most)
            return Contribution.events(most, most_a_step=a_window)

        # The norms of more events are multiples, so one strategy is best for all bounds.
        best = plan_stream(steps, guarantee, contribution=unit(2), **options).best.strategy
        told: StreamOptions = {**options, "strategies": [best]}
        stds = [
            plan_stream(steps, guarantee, contribution=unit(most), **told).best.errors.mean_std
            for most in bounds
        ]
    made = []
    for most, std in zip(bounds, stds, strict=True):
        missing = found.dropped_events(most)
        error = None if std is None else float(np.hypot(std, missing))
        made.append(BoundCost(most, missing / found.events, found.above(most), std, error))
    return made


#: Default names of the streams of questions on events, and on values.
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
    party: str | None = None,
    level: float = 0.95,
    progress: Progress = silent,
    tell_set_aside: Callable[[int], object] | None = None,
    **how: Unpack[RowFields],
) -> Inspection:
    """Ask privately how many events users have, or between which bounds the values of a column lie.

    The answer is one release of one step, and protects each user with all events. The state's
    ledger, the record of spent privacy loss, counts it. The same call again reads the journal (the
    table of releases) and spends nothing more.

    *Events.* Each user counts once, in the cell for that user's number of events. Each number up to
    16 has a cell. Further cells are ranges that end at 20, 25, 30, 40, 50, 60, 80, 100 and so on up
    to ``at_most``. The last cell takes all larger numbers.

    *Values.* At most ``most`` values of each user count, spread evenly among all values of that
    user. By default the cells are powers of two from 2^-10 to 2^40, 0, and the negative powers of
    two (-2^40 to -2^-10).

    Args:
        events: see `release`.
        user: column of users.
        state: see `release`.
        guarantee: privacy guarantee of the answer, for a user.
        epsilon, delta, rho: numbers of the guarantee instead.
        share: fraction of the users (or values) that the bound in the answer should cover. If
            several are given, the answer suggests the bound for the largest of these fractions that
            lies within the cells.
        at_most: largest number of events in the cells that tell numbers of events apart; users with
            more events share one further cell.
        bounds: column of values; their range is asked for instead of numbers of events.
        most: number of values of each user that count.
        lower, upper, cells, edges: cells of the values: see `Quantiles`.
        per, time: look at each period of a user, as ``1d``, by a column of times.
        timezone: zone of local times and of periods.
        unit: word for a user; None: "user", or the word of the state.
        name: name of the stream.
        key, ledger, party: see `release`.
        level: probability with which each interval holds.
        progress: called with the name of the current task, and the fraction (0 to 1) of the run
            that is done.
        tell_set_aside: called with the exact number of unreadable rows that ``bad_rows`` set aside;
            only for the operator.
        how: options for reading rows: see `release`: ``file_format``, ``time_format``, ``missing``,
            ...

    Raises:
        CountonError: see `release`; nothing was released or changed.

    >>> import polars as pl
    >>> from counton import PureDP, inspect
    >>> many = [f"visitor {number % 900}" for number in range(3000)]  # 3 or 4 events each
    >>> visits = pl.DataFrame({"visitor": many})
    >>> found = inspect(
    ...     visits, user="visitor", state="visits.db", guarantee=PureDP(1)
    ... )
    >>> found.suggestion, found.answers[0].lower, found.answers[0].upper
    ({'most': 4}, 4, 4)
    >>> [one.most for one in found.sweep(steps=365, guarantee=PureDP(1))]
    [1, 2, 4, 5]
    """
    shares = (share,) if isinstance(share, int | float) else tuple(share)
    if not shares:
        raise InvalidInput(f"{field('share')} is empty; give at least one share, such as 0.95")
    for part in shares:
        check_share(part)
    if bounds is None and check_level(level) > 1 - 2 * SMALLEST_TAIL:  # a share of two sums
        raise InvalidInput(f"{field('level', level)} is too near to 1: give at most 1 - 2e-9")
    cut = {"lower": lower, "upper": upper, "cells": cells, "edges": edges}
    grid: dict[str, Any] = {one: value for one, value in cut.items() if value is not None}
    if bounds is None:
        for argument, value in {"most": most, **grid}.items():
            if value is not None:
                raise InvalidInput(
                    f"{field(argument, value)} is for values of a column, and no column is named; "
                    f"give {field('bounds')}, or leave {field(argument)} out"
                )
        grid, named = {"edges": numbers_of_events(at_most)}, f"events by {user}"
        if per is not None:
            named += f" and {Bounded(1, per).of('').removeprefix(chr(39) + 's ')}"
    else:
        check_most(most)
        if most is None:
            raise InvalidInput(
                f"{field('bounds', bounds)} needs {field('most')}, how many values of one user "
                "count, because noise must hide all of them; give it"
            )
        grid, named = grid or {"edges": powers_of_two()}, bounds
    reading = RowFormat(**how)
    check_quarantine(reading.policies(), events, reading.file_format, state_files(state, key))
    name = name or (NAME if bounds is None else OF_VALUES)
    before, again = _asked_before(state, name)
    if before is not None and before != named:
        raise RequestMismatch(
            f"the question is about {named}, but stream {name!r} was created with {before}; give "
            f"another {field('name')} to ask a new one: the privacy losses of both add up"
        )
    if "edges" in grid:
        grid |= {"edges": numbers_of(grid["edges"], "edges")}
    quantiles = Quantiles(**grid)
    asked = UserRows(
        *(user, named, quantiles, bounds, most or 1),
        per=per,
        time=time,
        timezone=timezone,
        how=reading,
    )
    stated: Any = {
        "epsilon": epsilon,
        "delta": delta,
        "rho": rho,
        "user": user,
        "most": asked.most,
        "value": named,
        "unit": _unit(state, ledger, unit, per, (timezone, str(time))),
        "name": name,
        "key": key,
        "ledger": ledger,
        "party": party,
        "level": level,
    }
    rows = EachUser(reading.open_rows(events), asked)
    source = cast(Any, Source((rows,), rows.name))
    found = release(
        quantiles, source, state=state, guarantee=guarantee, progress=progress, **stated
    )
    if tell_set_aside is not None and rows.found is not None:
        tell_set_aside(for_operator(rows.found).quarantined)
    return Inspection(found, tuple(map(float, shares)), bounds is not None, again)


def _asked_before(state: Any, name: str) -> tuple[str | None, bool]:
    """Return what the question of this name in the state (database) is about, and whether it is
    answered; None and False if there is no such question.
    """
    with suppress(CountonError):  # the run itself reports the error
        file = state_file(state)
        if file is None or file.exists():
            with Store(state) as store:
                found = store.find(name)
                if found is not None and "once" in found.details:
                    return Definition.reopen(found.design, found.details).value, found.step > 0
    return None, False


def _unit(
    state: Any, ledger: Any, unit: str | None, per: str | None, clock: tuple[str, str]
) -> str | None:
    """Return the name of the protected unit: ``unit`` itself, or with ``per`` the name of a user's
    period.

    The name of a period begins with the word for a user: ``unit`` if it is given, else the word
    that the state, or its shared ledger of spent privacy loss, already uses. The name ends with
    ``clock``: the time zone, and the column of times.
    """
    if per is None:
        return unit
    known: list[SpentUnit] = []
    with suppress(CountonError):  # the run itself reports the error
        file = state_file(state)
        if file is not None and not file.exists():
            known = known_units(None, ledger)
        else:
            with Store(state) as store:
                known = [*store.units, *known_units(store.database, ledger)]
    return with_clock(Bounded(1, per).of(unit_word(known, "user", unit, "user")), *clock)
