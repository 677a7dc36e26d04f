"""Text beside curves: names and numbers that fit, and places where they do not overlap."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

NAME_INCHES, VALUE_INCHES = 0.095, 0.078  # widths of a letter of a name and of a value
LINE_INCHES = 0.19  # from the axis to a name
_LONGEST_NAME = 24


def shorten(name: str, longest: int = _LONGEST_NAME) -> str:
    """A name that fits beside the chart.

    >>> shorten("a" * 30, longest=5)
    'aaaa…'
    """
    return name if len(name) <= longest else name[: longest - 1] + "…"


@dataclass(frozen=True)
class Labels:
    """What stands beside the ends of the curves, and the width that it takes."""

    names: list[str]
    values: list[str]
    inches: float

    @classmethod
    def of(
        cls,
        groups: Sequence[str],
        last: NDArray[np.float64],
        halves: NDArray[np.float64],
    ) -> Labels:
        """From names, last estimates and half widths of the last bands."""
        names = [shorten(name) for name in groups]
        whole = all(bool(np.all(numbers == np.rint(numbers))) for numbers in (last, halves))
        values = [
            f"{quantity(value, half, whole)} ± {quantity(half, half, whole)}"
            for value, half in zip(last.tolist(), halves.tolist(), strict=True)
        ]
        letters = max(map(len, names)), max(map(len, values))
        inches = LINE_INCHES + NAME_INCHES * letters[0] + 0.15 + VALUE_INCHES * letters[1]
        return cls(names, values, inches)


def quantity(value: float, error: float, whole: bool = False) -> str:
    """A number with thousands separators and as many decimals as its error makes sense of.

    Args:
        value: the number.
        error: how far off it may be, in the same unit.
        whole: it is an integer by nature.

    >>> quantity(58_650.4, 53.2), quantity(0.12345, 0.021)
    ('58,650', '0.123')
    """
    if whole or error >= 10:
        text = f"{value:,.0f}"
    elif error <= 0:  # known exactly
        text = f"{value:,.12g}"
    else:
        text = f"{value:,.{max(0, min(2 - math.ceil(math.log10(error)), 12))}f}"
    return text.replace("-", "−") if float(text.replace(",", "")) else text.lstrip("-")


def tick(value: float) -> str:
    """A round number in full, with thousands separators.

    >>> tick(180_000_000.0), tick(0.25)
    ('180,000,000', '0.25')
    """
    return f"{value:,.0f}" if value == round(value) else f"{value:,.6g}"


def spread(wanted: NDArray[np.float64], gap: float, height: float) -> NDArray[np.float64]:
    """Places as near as possible to the wanted ones, at least ``gap`` apart, within the height.

    Least squares under the ordering (pool adjacent violators). Where they cannot all fit, the gap
    shrinks.

    >>> spread(np.array([5.0, 5.0, 90.0]), 10.0, 100.0)
    array([ 0., 10., 90.])
    """
    count = len(wanted)
    gap = min(gap, height / max(count - 1, 1))
    order = np.argsort(wanted, kind="stable")
    slots = np.arange(count) * gap
    blocks: list[list[float]] = []  # [mean, size]
    for target in wanted[order] - slots:
        blocks.append([float(target), 1.0])
        while len(blocks) > 1 and blocks[-2][0] > blocks[-1][0]:
            mean, size = blocks.pop()
            before, earlier = blocks.pop()
            total = size + earlier
            blocks.append([(mean * size + before * earlier) / total, total])
    fitted = np.concatenate([np.full(int(size), mean) for mean, size in blocks])
    places = np.empty(count)
    places[order] = np.clip(fitted, 0, height - slots[-1]) + slots
    return places
