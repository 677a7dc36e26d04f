"""Arrays of released numbers by step and group with their noise, and tables made of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from counton.base.arrays import read_only
from counton.base.errors import InvalidInputError
from counton.base.exact import some_of
from counton.base.table_schema import LABELS, RESERVED, in_order
from counton.windowing.lazy_polars import polars as pl
from counton.windowing.windows import Windows

Numbers = NDArray[np.int64] | NDArray[np.float64]


@dataclass(frozen=True)
class Series:
    """Released numbers by step and group, with the standard deviation of their noise by step.

    Attributes:
        values: in data units, shape ``(steps, groups)``; 0 for a missing row: use `estimates`.
        std, half: standard deviation and half-width by step.
        is_present: for each number whether it is known; None: all.
        start: number of the first step.

    >>> Series(np.array([[12], [17]]), np.array([4.0, 4.0]), np.array([9.0, 9.0])).lower.tolist()
    [[3], [8]]
    """

    values: Numbers
    std: NDArray[np.float64]
    half: NDArray[np.float64]
    is_present: NDArray[np.bool_] | None = None
    start: int = 1

    def __post_init__(self) -> None:
        for name in ("values", "std", "half", "is_present"):
            object.__setattr__(self, name, read_only(getattr(self, name)))

    @property
    def estimates(self) -> Numbers:
        """The numbers in data units; `InvalidInputError` names the steps of missing rows."""
        if self.is_present is not None and not self.is_present.all():
            missing = np.flatnonzero(~self.is_present.all(axis=1)) + self.start
            raise InvalidInputError(
                f"{steps_in_words(missing)} not in the file, at least not for all groups: give a "
                "complete file, or ask for steps and groups that are complete, or use the table"
            )
        return self.values

    def with_withdrawn(self, withdrawn: NDArray[np.bool_]) -> Series:
        """Return a copy in which withdrawn numbers may be missing, for callers who hide them.

        Args:
            withdrawn: which numbers are withdrawn, of the shape of ``values``.
        """
        return (
            self
            if self.is_present is None
            else replace(self, is_present=self.is_present | withdrawn)
        )

    def with_zeros(self) -> Series:
        """Return a copy in which missing numbers are 0, for callers who do not show them."""
        return replace(self, is_present=None)

    @property
    def lower(self) -> Numbers:
        """Lower ends of the intervals, integers if estimates are."""
        return self._shift(-self.half)

    @property
    def upper(self) -> Numbers:
        """Upper ends of the intervals, integers if estimates are."""
        return self._shift(self.half)

    def _shift(self, by: NDArray[np.float64]) -> Numbers:
        if self.estimates.dtype == np.int64 and np.all(by == np.rint(by)):
            return np.asarray(self.estimates + by.astype(np.int64)[:, None], dtype=np.int64)
        return np.asarray(self.estimates + by[:, None], dtype=np.float64)

    def part(self, steps: range) -> Series:
        """Return consecutive steps of a series that begins at step 1."""
        of = slice(steps.start - 1, steps.stop - 1)
        is_present = None if self.is_present is None else self.is_present[of]
        return Series(self.values[of], self.std[of], self.half[of], is_present, steps.start)

    def columns(self, confidence_level: float) -> dict[str, NDArray[Any]]:
        """Return the columns of estimates and intervals.

        Args:
            confidence_level: that of the intervals.
        """
        estimates = self.estimates
        return {
            "estimate": estimates.ravel(),
            "noise_std": np.repeat(self.std, estimates.shape[1]),
            "lower": self.lower.ravel(),
            "upper": self.upper.ravel(),
            "confidence_level": np.full(estimates.size, confidence_level),
        }


@dataclass(frozen=True)
class LateValues:
    """An array of all steps that holds only those from ``start`` on, indexed by step - 1.

    A request for a missing step raises `IndexError`.

    >>> late = LateValues(np.array([[12], [17]]), 365)
    >>> late.shape, late[365].tolist(), late[:365].shape
    ((366, 1), [17], (365, 1))
    """

    values: Numbers
    start: int

    @property
    def shape(self) -> tuple[int, int]:
        """Number of steps, with missing ones, and of groups."""
        return self.start - 1 + len(self.values), self.values.shape[1]

    def __getitem__(self, key: Any) -> Any:
        before = self.start - 1
        if isinstance(key, tuple) and key[0] == slice(None):
            return LateValues(self.values[key], self.start)
        if isinstance(key, slice) and not key.start:
            return LateValues(self.values[: max(key.stop - before, 0)], self.start)
        if isinstance(key, slice):
            first = key.start
            key = slice(key.start - before, key.stop - before)
        else:
            first = np.min(key)
            key = key - before
        if first < before:
            raise IndexError(
                f"step {first + 1:,} has no values; they begin at step {self.start:,}: ask for "
                "later steps"
            )
        return self.values[key]


def steps_in_words(steps: NDArray[np.int64]) -> str:
    """Format ascending steps as ranges, the first few."""
    parts = np.split(steps, np.flatnonzero(np.diff(steps) > 1) + 1)
    texts = [f"{a[0]:,}" if len(a) == 1 else f"{a[0]:,} to {a[-1]:,}" for a in parts]
    if len(steps) == 1:
        return f"step {texts[0]} is"
    return f"steps {some_of(texts)} are"


def finite(table: pl.DataFrame) -> pl.DataFrame:
    """Replace NaN and infinite numbers by null, as JSON needs."""
    names = [name for name, kind in table.schema.items() if kind.is_float()]
    return table.with_columns(
        pl.when(pl.col(name).is_finite()).then(pl.col(name)).alias(name) for name in names
    )


def labels_of(table: pl.DataFrame) -> list[str]:
    """Return the columns that identify rows: those without released numbers.

    Floats, such as quantiles, are among them only if the other columns do not distinguish all rows.

    Args:
        table: a released table.

    >>> labels_of(
    ...     pl.DataFrame({"window_index": [1, 1], "quantile": [0.1, 0.5], "estimate": [3.0, 4.0]})
    ... )
    ['window_index', 'quantile']
    """
    names = [name for name in table.columns if name in LABELS or name not in RESERVED]
    exact = [name for name in names if not table.schema[name].is_float()]
    several = table.height and table.select(exact).is_duplicated().any()
    return names if several else exact


def rows_among(table: pl.DataFrame, stored_rows: pl.DataFrame) -> pl.DataFrame:
    """Return the rows of a table that another has too, by their common columns.

    >>> rows = pl.DataFrame({"window_index": [1, 2], "estimate": [3, 4]})
    >>> rows_among(rows, pl.DataFrame({"window_index": [2]}))["estimate"].to_list()
    [4]
    """
    on = [name for name in stored_rows.columns if name in table.columns]
    same = [
        pl.col(name).fill_null("") if kind == pl.String else pl.col(name)
        for name, kind in table.select(on).schema.items()
    ]
    kept = (
        table.select(same)
        .with_row_index("_row")
        .join(stored_rows.select(on).select(same), on=on, how="semi", nulls_equal=True)
    )
    return table[kept["_row"]]


def when_columns(
    steps: NDArray[np.int64],
    windows: Windows,
    over: int | None,
    begins: NDArray[np.int64] | None = None,
) -> pl.DataFrame:
    """Return the step of each row, and the beginning and end of the windows that it covers.

    ``over`` is their number, or ``begins`` the step before each; else the step's own window.
    """
    columns: dict[str, Any] = {"window_index": steps}
    if windows.timed:
        ends = windows.ends(range(int(steps.max(initial=0)) + 1))  # from the stream's beginning
        starts = steps - (over or 1) if begins is None else begins
        columns["window_start"] = windows.local_times(ends[starts])
        columns["window_end"] = windows.local_times(ends[steps])
    if over is not None:
        columns["n_windows"] = np.full(len(steps), over)
    return pl.DataFrame(columns)


def columns_below(parts: Sequence[Mapping[str, Any]]) -> pl.DataFrame:
    """Join tables with equal columns; NaN in columns that may be empty becomes null."""
    columns: dict[str, Any] = {}
    for name in parts[0] if parts else ():
        values = np.concatenate([part[name] for part in parts])
        texts = values.dtype == object
        columns[name] = pl.Series(values.tolist(), dtype=pl.String) if texts else values
    table = pl.DataFrame(columns)
    empty = [name for name in ("noise_std", "quantile") if name in table.columns]
    return table.with_columns(pl.col(empty).cast(pl.Float64).fill_nan(None))


def arranged(table: pl.DataFrame) -> pl.DataFrame:
    """Return a table with its columns in the order of released tables.

    >>> arranged(pl.DataFrame({"estimate": [3], "group": ["home"], "window_index": [1]})).columns
    ['window_index', 'group', 'estimate']
    """
    return table.select(in_order(table.columns))
