"""Requests to adjust a released table to public facts, and cautions for its readers."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

#: Largest mean error from clipping Gaussian noise at 0, in standard deviations: 1 / sqrt(2 pi).
CUT_OFF = 1 / math.sqrt(2 * math.pi)


@dataclass(frozen=True)
class Fit:
    """Public constraints to which the numbers of a table are adjusted, without reading data.

    Attributes:
        integers: True for whole numbers that add up.
        nonnegative: True for no number below 0, which biases small counts.
        known: pairs of a node's path and its public total.

    >>> bool(Fit()), Fit(known=((("CA",), 40),)).to_dict()
    (False, {'known': [[['CA'], 40]]})
    """

    integers: bool = False
    nonnegative: bool = False
    known: tuple[tuple[Any, int], ...] = ()

    def __bool__(self) -> bool:
        return self.integers or self.nonnegative or bool(self.known)

    def to_dict(self) -> dict[str, Any]:
        known = [[list(path), total] for path, total in self.known]
        asked = {"integers": self.integers, "nonnegative": self.nonnegative, "known": known}
        return {name: value for name, value in asked.items() if value}

    @classmethod
    def from_dict(cls, saved: Mapping[str, Any]) -> Fit:
        known = tuple((tuple(path), total) for path, total in saved.get("known", ()))
        flags = {name: bool(saved.get(name)) for name in ("integers", "nonnegative")}
        return cls(**flags, known=known)

    def notes(self) -> list[str]:
        """Return sentences that caution readers of the adjusted numbers, such as on bias."""
        said = []
        if self.nonnegative:
            said.append(
                f"non-negative: where little is counted numbers are too large on average, by up to "
                f"{CUT_OFF:.1f} of the standard deviation where nothing is, and the numbers beside "
                f"them too small; intervals are not affected"
            )
        if self.integers:
            said.append("whole numbers: each is within 1 of the number it was rounded from")
        return said


class TableRequest(NamedTuple):
    """The rows of a table that somebody asks for, by names, groups and constraints.

    None stands for all rows, all groups, and numbers as they were released.
    """

    ask: Sequence[Any] | None = None
    fit: Fit | None = None
    groups: Sequence[str] | None = None


#: All rows as they were released.
EVERY_ROW = TableRequest()
