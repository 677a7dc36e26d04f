"""Versions of windows that are released again for late rows: what was known when, and how versions
differ.

A release is made after each window. Night t is the release after window t. It published the counts
then known of the last windows. The newest versions form a stream of windows whose errors depend on
their age (`counton.strategies.AsOf`), which answers all questions of a stream. Two versions of one
window share noise; versions of different windows share none.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from counton.base.arrays import read_only
from counton.base.errors import InvalidInput
from counton.base.windows import Windows
from counton.numbers import Design
from counton.released.series import Series, local_times
from counton.strategies import AsOf, WindowVersions


@dataclass(frozen=True)
class Revisions:
    """All released counts of all windows, in a stream that releases a window again as its rows
    arrive.

    Each released count is called a version; all are public. Release t, called night t, is made
    after window t.

    Attributes:
        design: the design of the stream (strategy, guarantee and noise).
        nights: number of releases.
        read_values: function that returns `values`; it is called when they are first used.
        since: for undeclared groups, the first night that shows each group, in the order of cells.
            Earlier nights published nothing of the group, and its values there are 0. None: groups
            are declared, or there is one total.
    """

    design: Design[WindowVersions]
    nights: int
    read_values: Callable[[], NDArray[Any]]
    since: Mapping[str, int] | None = None

    @classmethod
    def of(
        cls, design: Design[Any], values: NDArray[Any], since: Mapping[str, int] | None = None
    ) -> Revisions:
        """Return the counts of all windows, given the array `values`; see the class."""
        return cls(design, len(values), partial(read_only, values), since)

    @cached_property
    def values(self) -> NDArray[Any]:
        """Released counts in data units, shape ``(nights, *cells, versions)``.

        The last axis has the counts released in one night: first the window that ended then, last
        the window that became final.
        """
        found: NDArray[Any] = read_only(self.read_values())
        return found

    @property
    def lags(self) -> int:
        """Number of windows that must end after a window until its count is final."""
        return self.design.strategy.lags

    def lags_of(self, windows: NDArray[np.int64] | range, night: int) -> NDArray[np.int64]:
        """Return, for each window, its lag after release ``night``: the number of windows that had
        ended after it when its newest count was released.

        Lags are at most `lags`, because the count of a final window is not released again.
        """
        return np.minimum(night - np.asarray(windows, np.int64), self.lags)

    def names(self, declared: Sequence[str]) -> Sequence[str]:
        """Return the names of the cells: ``declared``, or the names of groups that were found in
        the data.
        """
        return declared if self.since is None else tuple(self.since)

    def found_by(self, night: int) -> Mapping[str, int] | None:
        """Return, for each undeclared group that release ``night`` shows, the number of the first
        release that shows it.

        None: groups are declared.
        """
        if self.since is None:
            return None
        return {name: first for name, first in self.since.items() if first <= night}

    def newest(self, night: int) -> NDArray[Any]:
        """Return the newest count of each window after release ``night``, shape ``(night,
        *cells)``; a window's count is released again as rows arrive late.
        """
        windows = np.arange(1, night + 1)
        lags = self.lags_of(windows, night)
        found: NDArray[Any] = np.moveaxis(self.values, -1, 1)[windows + lags - 1, lags]
        return found

    def _read_by(self, strategy: Any) -> Design[Any]:
        """Return the design with another strategy, which reads the same noise."""
        return replace(self.design, strategy=strategy)

    def design_at(self, night: int) -> Design[AsOf]:
        """Return the design (strategy, guarantee and noise) of the counts that were the newest
        after release number ``night``.

        Its steps are the windows; each has one count.
        """
        return self._read_by(AsOf(self.design.strategy, night))


def versions_at_hand(revisions: Revisions | None, name: str) -> Revisions:
    """Return the numbers of windows in all releases, or raise an error if each window was released
    once.

    Args:
        revisions: these numbers; None: each window was released once.
        name: name of the stream, for the message.

    Raises:
        InvalidInput: each window was released once.
    """
    if revisions is None:
        raise InvalidInput(
            f"{name!r} has no versions to choose from: its windows are released only once, or the "
            "file has only the newest ones; read the state"
        )
    return revisions


def versions_of_cells(
    revisions: Revisions, cut: Windows, cells: Mapping[str, int], level: float, last: int
) -> pl.DataFrame:
    """Return a table of all released counts or sums of windows, up to release ``last``.

    Rows are in the order of windows, and then of lags: a lag is the number of windows that had
    ended after the row's window. An undeclared group has rows only from the first release that
    shows it.

    Args:
        revisions: the counts or sums of windows in all releases.
        cut: how rows are assigned to steps.
        cells: index of each shown group, by name.
        level: probability with which each interval holds.
        last: number of the newest release.
    """
    places, parts = list(cells.values()), []
    terms = revisions.design_at(last)
    for lag in range(min(revisions.lags + 1, last)):
        known = range(last - lag, last - lag + 1)
        values = revisions.values[lag:last, ..., lag].reshape(last - lag, -1)[:, places]
        std = np.repeat(np.asarray(terms.errors.std(known), np.float64), last - lag)
        half = np.repeat(terms.errors.halfwidths(known, level), last - lag)
        windows = np.arange(1, last - lag + 1)
        names = pl.Series(list(cells), dtype=pl.String)
        each = {
            "step": windows,
            "window_start": local_times(cut, np.asarray(cut.ends(windows - 1), np.int64)),
            "window_end": local_times(cut, np.asarray(cut.ends(windows), np.int64)),
        }
        rows = np.repeat(np.arange(len(windows)), len(places))
        parts.append(
            pl.DataFrame(each)[rows]
            .with_columns(
                group=names.gather(np.tile(np.arange(len(places)), len(windows))),
                as_of=local_times(cut, np.asarray(cut.ends(windows + lag), np.int64)).gather(rows),
                lag=pl.lit(lag, pl.Int64),
                **Series(values, std, half).columns(""),
            )
            .with_columns(final=pl.lit(lag == revisions.lags))
        )
    table = pl.concat(parts).sort("step", "lag", maintain_order=True)
    if not revisions.since:
        return table
    first = pl.col("group").replace_strict(revisions.since, return_dtype=pl.Int64)
    return table.filter(pl.col("step") + pl.col("lag") >= first)


def final_windows(terms: Design, until: int) -> int:
    """Return how many of the first ``until`` windows are final.

    All are final, unless windows are released again for late rows.
    """
    strategy = terms.strategy
    if not isinstance(strategy, AsOf):
        return until
    return max(0, min(until, strategy.night - strategy.windows.lags))


def version_columns(strategy: AsOf, steps: NDArray[np.int64], cut: Windows) -> dict[str, Any]:
    """Return the table columns ``as_of``, ``lag`` and ``final`` of windows' newest counts.

    ``as_of`` is the time when the count was released, ``lag`` the number of windows that had ended
    after the counted window, and ``final`` True if the count is not released again.
    """
    lags = strategy.lags(steps)
    ends = local_times(cut, cut.ends(steps + lags))
    return {"as_of": ends, "lag": lags, "final": lags == strategy.windows.lags}
