"""Conversion of numbers in data units to integer multiples of a resolution, with exact sums."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from decimal import Decimal
from fractions import Fraction
from itertools import chain
from numbers import Rational, Real
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from counton.base.arrays import extremes
from counton.base.errors import CountonError, InvalidInputError, SumOverflowError
from counton.base.exact import quote, text, without_mask

#: Types of numbers that are accepted: arrays of numpy, and exact Python numbers, alone or in
#: sequences.
Numbers = ArrayLike | Fraction | Decimal | Sequence[object]

_ONE = Fraction(1)
_TOLERANCE = 0.01  # of the resolution
_MOST_FLOAT_CELLS = 2**46  # beyond it, float64 cannot tell a hundredth of the resolution
_LARGEST_CODE = 2**62
_MOST_DIGITS = 1000


def clip(
    values: Numbers, lower: Fraction, upper: Fraction, resolution: Fraction
) -> NDArray[np.int64]:
    """Clip values to [lower, upper], and return them as rounded multiples of ``resolution``."""
    bounded = np.clip(finite(values), float(lower), float(upper))
    cells: NDArray[np.int64] = np.rint(bounded / float(resolution)).astype(np.int64)
    return cells


def finite(values: Numbers) -> NDArray[np.float64]:
    """Convert values to float64 of the same shape; refuse NaN, infinity and what is no number."""
    numbers = number_array(values, "values")
    if numbers.dtype == object:
        numbers = _convert_each(numbers, _float, np.dtype(np.float64), "value")
    numbers = numbers.astype(np.float64)
    _refuse(
        ~np.isfinite(numbers), numbers, "value", "it must be finite: remove or correct it first"
    )
    return numbers


def _float(value: object) -> float:
    if isinstance(value, (bool, np.timedelta64)) or not isinstance(value, (Real, Decimal)):
        raise TypeError(f"it has type {type(value).__name__}; give a number")
    return float(value)


def counts(values: Numbers, per_cell: int) -> NDArray[np.int64]:
    """Convert counts to int64 of the same shape; refuse magnitudes above ``per_cell``."""
    numbers, *_ = totals_and_extremes(values, None)
    beyond = (numbers > per_cell) | (numbers < -per_cell)
    _refuse(
        beyond, numbers, "value", f"one unit may add at most {per_cell} to a cell: raise per_cell"
    )
    return numbers


def totals_and_extremes(
    values: Numbers, resolution: Fraction | None
) -> tuple[NDArray[np.int64], int, int]:
    """Convert totals in data units to exact multiples of the resolution: int64, same shape.

    The smallest and the largest follow, 0 and 0 if there are none. Without a resolution totals are
    counts.
    """
    numbers = number_array(values, "totals")
    if numbers.dtype.kind in "iu" and (resolution is None or resolution == 1):
        smallest, largest = extremes(numbers)
        if largest > _LARGEST_CODE or smallest < -_LARGEST_CODE:
            _refuse(
                (numbers > _LARGEST_CODE) | (numbers < -_LARGEST_CODE),
                numbers,
                "total",
                "sums are exact only up to 2^62: give a coarser resolution, or split the stream",
                SumOverflowError,
            )
        return numbers.astype(np.int64, copy=False), smallest, largest
    if numbers.dtype.kind == "f":
        cells = _float_cells(numbers.astype(np.float64), resolution)
    else:
        cells = _convert_each(
            numbers, lambda x: _exact_cells(x, resolution), np.dtype(np.int64), "total"
        )
    return cells, *extremes(cells)


def number_array(
    values: Numbers, noun: str, remedy: str = "give rows of equal length"
) -> NDArray[Any]:
    """Convert values to an array of numbers (or objects); refuse masked values and other types.

    Lists of several numbers with a boolean among them become arrays of objects, of which the
    conversion refuses booleans.

    ``noun`` is the values' plural name in messages; ``remedy`` advises if they form no array.
    """
    held = without_mask(values, f"the {noun}")
    try:
        numbers = np.asarray(held)
    except (ValueError, TypeError) as error:
        raise InvalidInputError(
            f"{noun} of type {type(values).__name__} cannot be made an array ({error}): {remedy}"
        ) from error
    if numbers.size > 1 and isinstance(held, list | tuple):  # numpy counts a True among them as 1
        rows = [held] if numbers.ndim == 1 else held  # of an array the first number is enough
        some = [
            x.flat[:1] if isinstance(x, np.ndarray) else np.asarray(x, object).flat for x in rows
        ]
        if not {bool, np.bool_}.isdisjoint(map(type, chain.from_iterable(some))):
            numbers = np.asarray(held, object)
    if numbers.dtype.kind not in "iufO":
        raise InvalidInputError(
            f"{noun} have type {numbers.dtype}; they must be numbers: convert them first"
        )
    return numbers


def _exact_cells(value: object, resolution: Fraction | None) -> int:
    if isinstance(value, (float, np.floating)):
        return int(_float_cells(np.array([value], dtype=np.float64), resolution)[0])
    if isinstance(value, bool) or not isinstance(value, (Rational, Decimal)):
        raise InvalidInputError(
            f"it has type {type(value).__name__}, which is not an exact number: convert it first"
        )
    if isinstance(value, Decimal):
        if not value.is_finite():
            raise InvalidInputError(f"{value} is not finite: remove or correct it first")
        if value and abs(value.adjusted()) > _MOST_DIGITS:  # the digits would fill the memory
            raise InvalidInputError(
                f"it has more than {_MOST_DIGITS} digits before or after the point: round it, or "
                "use a larger unit"
            )
        number = Fraction(value)
    else:
        number = Fraction(int(value.numerator), int(value.denominator))
    step = _ONE if resolution is None else resolution
    cells = number / step
    if cells.denominator != 1:
        raise InvalidInputError(
            f"{text(number)} is not a multiple of the resolution {text(step)}: round it first"
        )
    if abs(cells) > _LARGEST_CODE:
        raise SumOverflowError(
            f"{text(number)} is more than 2^62 times the resolution {text(step)}: give a larger "
            "resolution"
        )
    return int(cells)


def _float_cells(numbers: NDArray[np.float64], resolution: Fraction | None) -> NDArray[np.int64]:
    _refuse(
        ~np.isfinite(numbers), numbers, "total", "it must be finite: remove or correct it first"
    )
    if resolution is None:
        _refuse(
            np.ones(numbers.shape, dtype=bool),
            numbers,
            "total",
            "a float, but counts are integers: pass integers, or give bounds and a resolution "
            "with ContributionBound.values",
        )
        return numbers.astype(np.int64)  # only empty arrays reach this line
    cells = numbers / float(resolution)
    _refuse(
        ~(np.abs(cells) <= _MOST_FLOAT_CELLS),
        numbers,
        "total",
        f"a float of more than 2^46 times the resolution {text(resolution)} is not exact enough: "
        "pass a Decimal or Fraction, or give a coarser resolution",
    )
    nearest = np.rint(cells)
    _refuse(
        np.abs(cells - nearest) > _TOLERANCE,
        numbers,
        "total",
        f"it must be a multiple of the resolution {text(resolution)}, up to {_TOLERANCE} of it: "
        "round each unit's value with to_grid first",
    )
    return nearest.astype(np.int64)


def _convert_each(
    numbers: NDArray[Any], convert: Callable[[Any], Any], dtype: np.dtype[Any], noun: str
) -> NDArray[Any]:
    """Convert numbers one by one; an error message states the number's position."""
    converted = np.empty(numbers.shape, dtype=dtype)
    for position, value in np.ndenumerate(numbers):
        try:
            converted[position] = convert(value)
        except (InvalidInputError, TypeError, ValueError, OverflowError) as error:
            kind = SumOverflowError if isinstance(error, SumOverflowError) else InvalidInputError
            raise kind(f"{noun} {quote(value)}{_at(position)}: {error}") from error
    return converted


def _at(position: tuple[int, ...]) -> str:
    if not position:
        return ""
    return f" at position {position[0] if len(position) == 1 else position}"


def _refuse(
    wrong: NDArray[np.bool_],
    numbers: NDArray[Any],
    noun: str,
    remedy: str,
    kind: type[CountonError] = InvalidInputError,
) -> None:
    if wrong.any():
        position = tuple(int(i) for i in np.argwhere(wrong)[0])
        raise kind(f"{noun} {numbers[position]}{_at(position)}: {remedy}")
