"""Nowcasts of a release: forecasts of the final counts of windows to which rows still come."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import polars as pl
from numpy.typing import NDArray

from counton.base.errors import InvalidInput, field
from counton.base.exact import percent, quote, some_of
from counton.released.nowcast import Nowcast, forecast_final, nights_needed
from counton.released.periods import groups_named, season_of
from counton.released.release import Release
from counton.released.released_numbers import ReleasedNumbers
from counton.released.revisions import Revisions, versions_at_hand
from counton.released.series import CellValues, local_times
from counton.statistics.average import sum_beside_number
from counton.statistics.by_group import inner_of


@dataclass(frozen=True)
class Nowcasts:
    """Forecasts of the final counts of a release's provisional windows, to which rows still come.

    Attributes:
        released: the release.
        found: the forecasts of each group, by name.
        young: undeclared groups that have been shown too short a time to learn their delays.
    """

    released: Release
    found: dict[str, Nowcast]
    young: tuple[str, ...] = ()

    @property
    def changed_groups(self) -> tuple[str, ...]:
        """Groups whose delays changed: in the last windows their rows came sooner or later than
        usual, so the intervals of their forecasts do not hold.
        """
        return tuple(group for group, each in self.found.items() if each.changed)

    def table(self) -> pl.DataFrame:
        """Return a table of the forecasts, with a row for each provisional window and group.

        A window is provisional while its rows still arrive. Columns: step, window_start,
        window_end, group (if there are groups), lag (the number of windows that had ended after the
        row's window), released (the newest count), estimate (of the exact final count), std, lower,
        upper.
        """
        released = self.released.numbers
        cut, parts = released.definition.cut, []
        published = _versions_of(released)
        names = list(published.names(released.definition.groups))
        weights = _weights(released, next(iter(self.found)))  # the same for all groups
        for group, each in self.found.items():
            first = names.index(group) * len(weights)
            cells = slice(first, first + len(weights))
            ends = np.asarray(cut.ends(each.windows), np.int64)
            begins = np.asarray(cut.ends(each.windows - 1), np.int64)
            newest = [
                float(weights @ published.value(int(window), int(lag)).reshape(-1)[cells])
                for window, lag in zip(each.windows, each.lags, strict=True)
            ]
            parts.append(
                pl.DataFrame(
                    {
                        "step": each.windows,
                        "window_start": local_times(cut, begins),
                        "window_end": local_times(cut, ends),
                        "group": [group] * len(newest),
                        "lag": each.lags,
                        "released": newest,
                        "estimate": each.estimates,
                        "std": each.std,
                        "lower": each.lower,
                        "upper": each.upper,
                    }
                )
            )
        table = pl.concat(parts).sort("step", maintain_order=True)
        return table if released.definition.domain is not None else table.drop("group")

    def describe(self) -> str:
        """Describe the forecasts of final counts, and warn about those that cannot be trusted."""
        level = f"{percent(self.released.numbers.level)}%"
        said = (
            f"Each estimate is a forecast of the number when it is final, from the delays of "
            f"earlier final windows; with probability {level} each, the exact final number is "
            f"between lower and upper, as long as delays stay as they were. It costs no privacy. "
            f"The lag is how many windows came after; released is the number published last."
        )
        if self.young:
            said += (
                f" Groups that are not shown for long enough to learn their delays have none: "
                f"{some_of(self.young)}."
            )
        if self.changed_groups:
            said += (
                f" Delays changed within the last windows ({', '.join(self.changed_groups)}): "
                f"nobody can know yet what these windows will be, and the intervals do not hold."
            )
        return said


def nowcast(released: Release, groups: str | Sequence[str] | None = None) -> Nowcasts:
    """Forecast the final counts of provisional windows, to which rows still come. It costs no
    privacy.

    Args:
        released: counts or sums of windows that are released again when late rows come
            (``revise``).
        groups: names of the groups; None: all groups that have been shown long enough.

    Raises:
        InvalidInput: windows are released only once, the statistic has no sums, sums may be
            negative, or there are too few final windows to learn delays from.

    >>> import polars as pl
    >>> from counton import PureDP, release
    >>> told = {"time": "at", "every": "1d", "start": "2024-03-01", "revise": "1d"}
    >>> for day in range(1, 13):
    ...     late = [f"2024-03-{day - 1:02}T23:00"] * 10 if day > 1 else []
    ...     rows = pl.DataFrame({"at": [f"2024-03-{day:02}T09:00"] * 30 + late})
    ...     run = release(
    ...         "count", rows, **told, append=True, until=f"2024-03-{day + 1:02}",
    ...         guarantee=PureDP(50), state="visits.db",
    ...     )
    >>> nowcast(run).table().select("step", "lag", pl.col("estimate").round()).rows()
    [(12, 0, 40.0)]
    """
    numbers = released.numbers
    found = _versions_of(numbers)
    inner, unit = inner_of(numbers.statistic), float(numbers.design.units.exact)
    lower = numbers.definition.contribution.lower or 0
    if (summed := sum_beside_number(inner)) is not None:
        lower, unit = summed.lower, float(summed.resolution)
    elif not isinstance(numbers.published, CellValues):
        raise InvalidInput(
            f"nowcasts are only for counts and sums, but {numbers.design.name!r} releases "
            f"{numbers.definition.kind}; ask for a count or a sum"
        )
    if lower < 0:
        raise InvalidInput(
            "nowcasts are only for numbers that never fall when late rows come in, but "
            f"{numbers.design.name!r} adds up values that may be as low as {lower}; ask for a "
            f"count, or begin a new stream with {field('lower', 0)}"
        )
    known = list(found.names(numbers.definition.groups))
    named = list(numbers.groups) if groups is None else groups_named(groups, known)
    if unknown := [group for group in named if group not in known]:
        raise InvalidInput(
            f"{field('groups')}: {quote(unknown[0])} is not a group of {numbers.design.name!r}; "
            f"choose from {some_of(known)}"
        )
    if not named:
        raise InvalidInput(
            f"no group of {numbers.design.name!r} is large enough to be shown yet, so there is "
            f"nothing to forecast; wait for more rows"
        )
    latest = found.nights + 1 - nights_needed(found.lags)
    young = [name for name in named if found.first_night(name) > latest]
    if groups is not None or len(young) == len(named):
        young = []  # the first of them is refused

    weights = _weights(numbers, named[0])
    covariance = found.covariance * float(weights @ weights)

    def forecast(group: str) -> Nowcast:
        before = found.first_night(group) - 1  # of earlier windows some versions are not published
        first = known.index(group) * len(weights)
        parts = [found.triangle(first + place) for place in range(len(weights))]
        made = forecast_final(
            np.tensordot(weights, parts, 1)[before:],
            covariance,
            season=season_of(numbers.definition.windows.every),
            level=numbers.level,
            row=unit,
        )
        return replace(made, windows=made.windows + before)

    forecasts = {group: forecast(group) for group in named if group not in young}
    return Nowcasts(released, forecasts, tuple(young))


def _weights(numbers: ReleasedNumbers, group: str) -> NDArray[np.float64]:
    """Return the weights with which the released cells of a group are added up to the group's
    number: shape ``(cells,)``.

    Most groups have one cell, with weight 1. If groups were found in the data and a sum is
    released, a group has several cells, since its rows are counted too.
    """
    if isinstance(numbers.published, CellValues):
        return np.ones(1)
    of_sum = numbers._group_formula(group, numbers.steps.stop - 1)
    inner = sum_beside_number(inner_of(numbers.statistic))
    assert inner is not None
    found = np.zeros(inner.places)
    for cells, weight in of_sum.sums:
        for part in cells.parts:
            found[part.cell % len(found)] += weight * part.weight
    return found


def _versions_of(released: ReleasedNumbers) -> Revisions:
    """Return all counts of windows that were published up to the newest release; a window's count
    is released again as rows arrive late.
    """
    found = versions_at_hand(released.revisions, released.design.name)
    return found.up_to(released.design.strategy.horizon or found.nights)
