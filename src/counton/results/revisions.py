"""Versions of windows that are released again for late rows.

Step t is the release after window t; it published the counts then known of the last windows. The
newest versions form a stream whose errors depend on age (`counton.strategies.AsOf`) and which
answers all questions. Two versions of one window share noise; different windows share none.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from counton.base.arrays import IntegersOrFloats, read_only
from counton.base.errors import InvalidInputError
from counton.base.table_schema import PER_WINDOW
from counton.continual import Design
from counton.results.series_numbers import SeriesNumbers
from counton.results.table_rows import arranged
from counton.strategies import AsOf, WindowVersions
from counton.windowing.lazy_polars import polars as pl
from counton.windowing.windows import Windows


@dataclass(frozen=True)
class Revisions:
    """All released counts ("versions") of all windows, in a stream that releases windows again.

    Attributes:
        values: released counts in data units, shape ``(steps, *cells, versions)``. The last axis
            begins with the window that ended at that step, and ends with the one that became final.
        since: the first step that shows each undeclared group, in the order of cells; its earlier
            values are 0 and were not published.
    """

    design: Design[WindowVersions]
    values: IntegersOrFloats
    since: Mapping[str, int] | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "values", read_only(self.values))

    @property
    def lags(self) -> int:
        """Number of windows that end before a window's count is final."""
        return self.design.strategy.lags

    def names(self, declared: Sequence[str]) -> Sequence[str]:
        """Return ``declared``, or the names of found groups."""
        return declared if self.since is None else tuple(self.since)

    def found_by(self, step: int) -> Mapping[str, int] | None:
        """Return the first step of each undeclared group that this step shows."""
        if self.since is None:
            return None
        return {name: first for name, first in self.since.items() if first <= step}

    def newest(self, step: int) -> IntegersOrFloats:
        """Return the newest count of each window after a step, shape ``(step, *cells)``."""
        windows = np.arange(1, step + 1)
        # how many windows, at most `lags`, had ended after each at its newest count
        lags = np.minimum(step - windows, self.lags)
        newest: IntegersOrFloats = np.moveaxis(self.values, -1, 1)[windows + lags - 1, lags]
        return newest

    def design_at(self, step: int) -> Design[AsOf]:
        """Return the design of the newest counts after a step: a step for each window."""
        design: Any = replace(self.design, strategy=cast("Any", AsOf(self.design.strategy, step)))
        return cast("Design[AsOf]", design)


def versions_at_hand(revisions: Revisions | None, name: str) -> Revisions:
    """Return the revisions; `InvalidInputError` if each window was released once."""
    if revisions is None:
        raise InvalidInputError(
            f"{name!r} has no versions to choose from: its windows are released only once, or the "
            "file has only the newest ones; read the state"
        )
    return revisions


def versions_of_cells(
    revisions: Revisions, cut: Windows, cells: Mapping[str, int], level: float, last: int
) -> pl.DataFrame:
    """Return a table of all counts of windows up to step ``last``, by window and then by lag.

    An undeclared group has rows only from the first release that shows it. ``cells`` has the index
    of each shown group.
    """
    places = list(cells.values())
    parts = []
    design = revisions.design_at(last)
    for lag in range(min(revisions.lags + 1, last)):
        versions = range(last - lag, last - lag + 1)
        values = revisions.values[lag:last, ..., lag].reshape(last - lag, -1)[:, places]
        std = np.repeat(np.asarray(design.errors.std(versions), np.float64), last - lag)
        half = np.repeat(design.errors.halfwidths(versions, level), last - lag)
        windows = np.arange(1, last - lag + 1)
        names = pl.Series(list(cells), dtype=pl.String)
        columns = {
            "window_index": windows,
            "window_start": cut.local_times(np.asarray(cut.ends(windows - 1), np.int64)),
            "window_end": cut.local_times(np.asarray(cut.ends(windows), np.int64)),
        }
        rows = np.repeat(np.arange(len(windows)), len(places))
        parts.append(
            pl.DataFrame(columns)[rows].with_columns(
                group=names.gather(np.tile(np.arange(len(places)), len(windows))),
                as_of=cut.local_times(np.asarray(cut.ends(windows + lag), np.int64)).gather(rows),
                lag_windows=pl.lit(lag, pl.Int64),
                series=pl.lit(PER_WINDOW),
                **SeriesNumbers(values, std, half, unit=design.units.released).columns(level),
                is_final=pl.lit(lag == revisions.lags),
            )
        )
    table = arranged(pl.concat(parts).sort("window_index", "lag_windows", maintain_order=True))
    if not revisions.since:
        return table
    first = pl.col("group").replace_strict(revisions.since, return_dtype=pl.Int64)
    return table.filter(pl.col("window_index") + pl.col("lag_windows") >= first)


def final_windows(design: Design, until: int) -> int:
    """Return how many of the first ``until`` windows are final."""
    strategy = design.strategy
    if not isinstance(strategy, AsOf):
        return until
    return max(0, min(until, strategy.step - strategy.windows.lags))


def version_columns(strategy: AsOf, steps: NDArray[np.int64], windows: Windows) -> dict[str, Any]:
    """Return ``as_of`` (time of release), ``lag_windows`` (that had ended) and ``is_final``."""
    lags = strategy.lags(steps)
    ends = windows.local_times(windows.ends(steps + lags))
    return {"as_of": ends, "lag_windows": lags, "is_final": lags == strategy.windows.lags}
