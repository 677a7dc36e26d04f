"""How rows are read: their columns and windows, and what they are added up to."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from dataclasses import field as attribute
from typing import Any, Literal, Protocol, get_args

import numpy as np
import polars as pl
from numpy.typing import NDArray

from counton.base.groups import GroupNames
from counton.base.windows import Windows
from counton.rows.policies import Policies
from counton.rows.timestamps import ClockChange

Unknown = Literal["refuse", "drop", "discover"]

UNKNOWN: tuple[Unknown, ...] = get_args(Unknown)


class EventPart(Protocol):
    """A part of an event: see `counton.statistics.tally_statistic.Part`."""

    @property
    def name(self) -> str:
        """Of the part."""

    @property
    def kind(self) -> str:
        """Numbers, whole counts, or labels."""

    @property
    def labels(self) -> tuple[str, ...]:
        """Those that are known."""


class Adds(Protocol):
    """What rows are added up to: see `counton.statistics.TallyStatistic`."""

    @property
    def parts(self) -> Sequence[EventPart]:
        """Of what a row consists."""

    @property
    def places(self) -> int:
        """How many places of a group rows are added up in."""

    @property
    def counts_rows(self) -> bool:
        """Whether every row adds 1 to one place."""

    @property
    def spans(self) -> Sequence[range]:
        """Places among which a row chooses, once for each choice that it makes."""

    def encode(self, *parts: Any) -> NDArray[np.int64]:
        """What rows say, one integer each."""

    def entries(self, said: Any) -> Sequence[tuple[Any, Any]]:
        """Places, and what is added to each."""


#: Characters of a label at most where no group is declared; longer ones are counted nowhere.
_LONGEST_LABEL = 200

_HIDDEN = r"[\p{C}\p{Zl}\p{Zp}]"


def label(given: pl.Expr) -> pl.Expr:
    """The group of which a text is the label; null where it is none that could be shown.

    Labels that differ in spaces around them or in Unicode's form (NFC) alone are one. Those with
    control or formatting characters, empty ones and very long ones are none.
    """
    text = given.cast(pl.String).str.normalize("NFC").str.strip_chars()
    good = text.str.len_chars().is_between(1, _LONGEST_LABEL) & ~text.str.contains(_HIDDEN)
    return pl.when(good).then(text)


@dataclass(frozen=True)
class Columns:
    """Which columns hold what; None: there is none.

    Attributes:
        time, group, value: of the event; where the time is empty, rows have none.
        user: whose event it is.
        id: what no two rows have in common, unless they are the same event.
        several: of the parts of an event, where it is more than one number.
    """

    time: str
    group: str | None = None
    value: str | None = None
    user: str | None = None
    id: str | None = None
    several: tuple[str, ...] = ()

    @property
    def parts(self) -> tuple[str, ...]:
        """Of the parts of an event, in the order in which a statistic takes them."""
        return self.several if self.value is None else (self.value,)

    @property
    def names(self) -> tuple[str, ...]:
        """All of them, each once."""
        named = (self.time, self.group, *self.parts, self.user, self.id)
        return tuple(dict.fromkeys(name for name in named if name))

    def rename(self, old: str, new: str) -> Columns:
        """The same with another name for one of them."""
        named = {"time": self.time, "group": self.group, "value": self.value}
        named |= {"user": self.user, "id": self.id}
        changed: dict[str, Any] = {each: new for each, name in named.items() if name == old}
        several = tuple(new if name == old else name for name in self.several)
        return replace(self, **changed, several=several)


@dataclass(frozen=True)
class RowReading:
    """How rows are read.

    Attributes:
        columns: where time, group, value, user and id stand.
        windows: how time is cut.
        unknown: whether rows of undeclared groups are refused, counted nowhere, or by groups of
            their own.
        adds: what rows are added up to; None: they are counted.
        clock_change: which moment a local time means that comes twice.
        time_format: for times that are not ISO 8601.
        declared: the groups that count by themselves where there is ``other``.
        other: the group of all rows of other groups, or of none; None: there is no such group.
        since: groups among those declared that do so from a step on.
        policies: what happens to rows that cannot be counted.
    """

    columns: Columns
    windows: Windows
    unknown: Unknown = "refuse"
    adds: Adds | None = None
    clock_change: ClockChange = "raise"
    time_format: str | None = None
    declared: Sequence[str] = ()
    other: str | None = None
    since: Mapping[str, int] = attribute(default_factory=dict)
    policies: Policies = attribute(default_factory=Policies)

    def group(self, given: pl.Expr) -> pl.Expr:
        """The group by which a row counts."""
        if self.unknown == "discover":
            return label(given)
        if self.other is None:
            return given
        known = given.is_in(GroupNames(self.declared).column.implode())
        for name, step in self.since.items():
            known &= (given != name) | (self.windows.step("us") >= step)
        return pl.when(known.fill_null(False)).then(given).otherwise(pl.lit(self.other))


def cells_across(adds: Adds | None) -> int:
    """Cells into which a group is cut: its places, and one for rows of none that is known."""
    if adds is None or not by_row(adds):
        return 1
    return math.prod(map(len, adds.spans)) + 1


def by_row(adds: Adds) -> bool:
    """Whether what a row says decides in which place it counts; then it may be of none."""
    return any(not isinstance(place, int) for place, _ in adds.entries(pl.col("total")))


def times_counted(adds: Adds | None) -> int:
    """In how many places each row is counted."""
    return 1 if adds is None else len(adds.entries(pl.col("total")))
