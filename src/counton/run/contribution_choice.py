"""How many events of a user to count: what noise hides, against what is dropped.

Exact facts about the events, for the operator's eyes only. What is chosen by them is not protected:
choose by an older log or a public one, and keep the choice.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple, Unpack, cast

import numpy as np
import polars as pl
from numpy.typing import NDArray

from counton.base.errors import InvalidInput, field
from counton.base.windows import NO_MOMENT
from counton.privacy import Contribution, Guarantee
from counton.rows.bad_rows import set_bad_rows_aside
from counton.rows.timestamps import ClockChange, moments
from counton.rows.window_marks import collect
from counton.run.contribution_bounds import period_of
from counton.run.rows_of_user import UserRows
from counton.run.settlement import check_quarantine
from counton.spec.job import Events
from counton.spec.keywords import RowFields
from counton.spec.parts import RowFormat


@dataclass(frozen=True)
class Activity:
    """How many events users have, or users' periods. Exact: only for the operator.

    Attributes:
        sizes: numbers of events that occur, ascending.
        units: how many users (or periods of users) have this many.
        without: rows without a user, or without a time that can be read where periods are asked.

    >>> activity = Activity(np.array([1, 4]), np.array([6, 1]), 0)
    >>> activity.events, activity.dropped_events(2), activity.above(2)
    (10, 2, 1)
    """

    sizes: NDArray[np.int64]
    units: NDArray[np.int64]
    without: int

    def __repr__(self) -> str:
        return "Activity(secret)"

    @property
    def events(self) -> int:
        """All events of all users."""
        return int(self.sizes @ self.units)

    @property
    def largest(self) -> int:
        """Most events that one of them has."""
        return int(self.sizes.max(initial=0))

    def dropped_events(self, most: int) -> int:
        """Events that do not count where at most ``most`` of each do."""
        return int(np.maximum(self.sizes - most, 0) @ self.units)

    def above(self, most: int) -> int:
        """Users, or periods of users, with more than ``most`` events."""
        return int(self.units[self.sizes > most].sum())

    def bounds(self) -> list[int]:
        """Bounds to look at: 1, 2, 3, 5, 10, ... up to the largest number of events."""
        steps = (factor * 10**power for power in range(12) for factor in (1, 2, 3, 5))
        return [*(step for step in steps if step < self.largest), max(1, self.largest)]


class BoundCost(NamedTuple):
    """What a bound on the events of a user costs.

    Attributes:
        most: the bound.
        dropped: share of all events that do not count.
        above: how many users, or periods of users, have more events.
        std: typical standard deviation of the noise in a total; None where it is not asked for.
        error: typical error of the last total by both, if events come evenly: the root of
            the noise's variance and the mean square of what is missing.
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
    """Count how many events users have, or users' periods.

    Args:
        events: as in `Job`.
        user, time: columns.
        per: length of a period, as ``1d``; None for the whole log.
        timezone: of local times and of periods.
        how: how rows are read, as in `Job`.

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
        time_format=reading.time_format,
        clock_change=reading.clock_change,
        policies=policies,
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
            change = cast(ClockChange, reading.clock_change)
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
        raise InvalidInput(f"{source.name} has no row with a user in column {user!r}; correct it")
    others = sizes.filter(~pl.col("known"))
    return Activity(
        good["size"].cast(pl.Int64).to_numpy(),
        good["units"].cast(pl.Int64).to_numpy(),
        int((others["size"].cast(pl.Int64) * others["units"].cast(pl.Int64)).sum()),
    )


def weigh(
    found: Activity, steps: int | None = None, guarantee: Guarantee | None = None
) -> list[BoundCost]:
    """What each bound drops, and with a guarantee the error of its noise.

    Args:
        found: see `activity`.
        steps: how many windows the stream will have.
        guarantee: under which users are protected.

    Raises:
        InvalidInput: one of steps and guarantee without the other.

    >>> from counton.privacy import PureDP
    >>> bounds = weigh(Activity(np.array([1, 4]), np.array([6, 1]), 0), 365, PureDP(1))
    >>> [(bound.most, bound.dropped) for bound in bounds]
    [(1, 0.3), (2, 0.2), (3, 0.1), (4, 0.0)]
    >>> round(bounds[1].std / bounds[0].std, 6)
    2.0
    """
    if (steps is None) != (guarantee is None):
        raise InvalidInput(
            f"the error of the noise needs {field('steps')} and a guarantee, such as "
            f"{field('epsilon', 1)}; give both, or neither"
        )
    bounds = found.bounds()
    stds: Sequence[float | None] = [None] * len(bounds)
    if steps is not None and guarantee is not None:
        from counton.planning import plan

        # The norms of more events are multiples, so that one strategy is best for all bounds.
        best = [plan(steps, guarantee, contribution=Contribution.events(2)).best.strategy]
        stds = [
            plan(steps, guarantee, contribution=Contribution.events(most), strategies=best)
            .best.mean_std
            for most in bounds
        ]  # fmt: skip
    made = []
    for most, std in zip(bounds, stds, strict=True):
        missing = found.dropped_events(most)
        error = None if std is None else float(np.hypot(std, missing))
        made.append(BoundCost(most, missing / found.events, found.above(most), std, error))
    return made
