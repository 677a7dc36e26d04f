"""Numbers with their noise, one for each step and group, and the times of steps."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from counton.base.arrays import read_only
from counton.base.errors import InvalidInput
from counton.base.windows import Windows

Numbers = NDArray[np.int64] | NDArray[np.float64]


@dataclass(frozen=True)
class Series:
    """Numbers with their noise: one for each step and group.

    Attributes:
        values: what is published, in data units, shape ``(steps, groups)``; where a row was left
            out, 0. Ask for `estimates`, which refuses that.
        std: standard deviation of the noise by step.
        half: half-width of the intervals by step.
        there: which of them are known, where rows were left out of a file; None: all.
        start: the step of the first.

    >>> Series(np.array([[12], [17]]), np.array([4.0, 4.0]), np.array([9.0, 9.0])).lower.tolist()
    [[3], [8]]
    """

    values: Numbers
    std: NDArray[np.float64]
    half: NDArray[np.float64]
    there: NDArray[np.bool_] | None = None
    start: int = 1

    def __post_init__(self) -> None:
        for name in ("values", "std", "half", "there"):
            object.__setattr__(self, name, read_only(getattr(self, name)))

    @property
    def estimates(self) -> Numbers:
        """What is published, in data units, shape ``(steps, groups)``.

        Raises:
            InvalidInput: rows were left out of the file that was read; it names their steps.
        """
        if self.there is not None and not self.there.all():
            gone = np.flatnonzero(~self.there.all(axis=1)) + self.start
            raise InvalidInput(
                f"{steps_in_words(gone)} not among the rows that were read, at least not for all "
                f"groups: take the table, which has the rows that are there, or name steps and "
                f"groups that are complete, or give a file that has them"
            )
        return self.values

    def with_zeros(self) -> Series:
        """The same, with 0 where rows were left out, for those who leave these out themselves."""
        return replace(self, there=None)

    @property
    def lower(self) -> Numbers:
        """Lower ends of the intervals; integers where estimates are."""
        return self._shift(-self.half)

    @property
    def upper(self) -> Numbers:
        """Upper ends of the intervals; integers where estimates are."""
        return self._shift(self.half)

    def _shift(self, by: NDArray[np.float64]) -> Numbers:
        if self.estimates.dtype == np.int64 and np.all(by == np.rint(by)):
            return np.asarray(self.estimates + by.astype(np.int64)[:, None], dtype=np.int64)
        return np.asarray(self.estimates + by[:, None], dtype=np.float64)

    def part(self, steps: range) -> Series:
        """Those of consecutive steps, where these are of step 1 and the following ones."""
        of = slice(steps.start - 1, steps.stop - 1)
        there = None if self.there is None else self.there[of]
        return Series(self.values[of], self.std[of], self.half[of], there, steps.start)

    def of_groups(self, places: Sequence[int] | NDArray[np.int64]) -> Series:
        """Those of some groups."""
        there = None if self.there is None else self.there[:, places]
        return replace(self, values=self.values[:, places], there=there)

    def columns(self, prefix: str = "") -> dict[str, NDArray[Any]]:
        """Columns ``estimate, std, lower, upper`` of a table with a row for each step and group."""
        return {
            f"{prefix}estimate": self.estimates.ravel(),
            f"{prefix}std": np.repeat(self.std, self.estimates.shape[1]),
            f"{prefix}lower": self.lower.ravel(),
            f"{prefix}upper": self.upper.ravel(),
        }


@dataclass(frozen=True)
class LateValues:
    """Values by step as an array of all steps, where those before some step are not at hand.

    Attributes:
        values: of the first step at hand and the following ones, shape ``(steps, groups)``.
        start: that step.

    >>> late = LateValues(np.array([[12], [17]]), 365)
    >>> late.shape, late[365].tolist(), late[:365].shape
    ((366, 1), [17], (365, 1))
    """

    values: Numbers
    start: int

    @property
    def shape(self) -> tuple[int, int]:
        """Steps and groups."""
        return self.start - 1 + len(self.values), self.values.shape[1]

    def __getitem__(self, key: Any) -> Any:
        before = self.start - 1
        if isinstance(key, tuple) and key[0] == slice(None):
            return LateValues(self.values[key], self.start)
        if isinstance(key, slice) and not key.start:
            return LateValues(self.values[: max(key.stop - before, 0)], self.start)
        if isinstance(key, slice):
            first, key = key.start, slice(key.start - before, key.stop - before)
        else:
            first = np.min(key)
            key = key - before
        if first < before:
            raise IndexError(f"step {first + 1:,} is not at hand, which begins at {self.start:,}")
        return self.values[key]


def steps_in_words(steps: NDArray[np.int64]) -> str:
    """Steps in ascending order, as ranges: the first few, and how many more there are."""
    parts = np.split(steps, np.flatnonzero(np.diff(steps) > 1) + 1)
    told = [f"{a[0]:,}" if len(a) == 1 else f"{a[0]:,} to {a[-1]:,}" for a in parts]
    if len(steps) == 1:
        return f"step {told[0]} is"
    return f"steps {some_of(told)} are"


def some_of(names: Sequence[str]) -> str:
    """The first of them, and how many more there are."""
    more = f" and {len(names) - 8:,} more" if len(names) > 8 else ""
    return ", ".join(names[:8]) + more


def local_times(windows: Windows, us: NDArray[np.int64]) -> pl.Series:
    """Microseconds as moments in the zone of the windows."""
    series = pl.Series(np.asarray(us, dtype=np.int64)).cast(pl.Datetime("us", "UTC"))
    return series.dt.convert_time_zone(windows.timezone)


def finite(table: pl.DataFrame) -> pl.DataFrame:
    """Null for numbers that JSON does not have: the deviation of a mean of next to no values."""
    names = [name for name, kind in table.schema.items() if kind.is_float()]
    return table.with_columns(
        pl.when(pl.col(name).is_finite()).then(pl.col(name)).alias(name) for name in names
    )
