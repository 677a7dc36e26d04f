"""The largest of groups that nobody declared: a ranking of what a counting job releases."""

from __future__ import annotations

from typing import Any

import numpy as np
import polars as pl

from counton.errors import InvalidInput
from counton.exact import check_integer
from counton.mechanisms.intervals import check_level, halfwidths
from counton.results.released import Released
from counton.statistics.ranking import ranked


def rankings(released: Released, k: int, room: int, level: float = 0.95) -> pl.DataFrame:
    """The k largest of the groups shown at each step; a function of what is released.

    Args:
        released: by a stream whose groups nobody declared.
        k: how many are shown.
        room: how many groups there can be, known to the public: showing some has chosen among all,
            so intervals hold for all of them at once.
        level: probability with which all intervals of a step hold.

    Returns:
        Columns step, window_start, window_end, rank, group, estimate, std, lower, upper, sure; a
        group surely belongs to the k largest if no group that is not shown can be larger either.

    Raises:
        InvalidInput: k or room below 1, a level out of range, or groups that were declared.
    """
    level, room = check_level(level), check_integer("room", room, 1)
    terms, groups, discovery = released.terms, released.groups, released.definition.discovery
    if discovery is None:
        raise InvalidInput(
            "the groups were declared, so all of them are released: use TopK of counton.statistics"
        )
    hidden = discovery.thresholds(terms, released.steps)  # what is not shown was always below
    since = np.array([(released.since or {}).get(group, 1) for group in groups], np.int64)
    half = halfwidths(terms.strategy, terms.law, released.steps, level ** (1 / room))
    rows: list[tuple[Any, ...]] = []
    for step in released.steps:
        there = np.flatnonzero(since <= step)
        values = released.own.estimates[step - 1, there]
        names = [groups[place] for place in there]
        best = ranked(names, values, float(half[step - 1]), k, level=level)
        std = float(released.own.std[step - 1])
        sure = best.sure & (best.lower - float(half[step - 1]) >= hidden[step - 1])
        found = zip(
            *(best.names, best.values.tolist(), best.lower.tolist(), best.upper.tolist()),
            sure.tolist(),
            strict=True,
        )
        rows += [(step, rank, one[0], one[1], std, *one[2:]) for rank, one in enumerate(found, 1)]
    names_of = ("step", "rank", "group", "estimate", "std", "lower", "upper", "sure")
    none = dict.fromkeys(names_of, pl.Int64()) | {
        "group": pl.String(),
        "std": pl.Float64(),
        "sure": pl.Boolean(),
    }
    table = pl.DataFrame(rows, schema=list(names_of) if rows else none, orient="row")
    windows = released.table().select("step", "window_start", "window_end").unique("step")
    return table.join(windows, on="step", maintain_order="left").select(
        "step", "window_start", "window_end", *names_of[1:]
    )
