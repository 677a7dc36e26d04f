"""Mistakes, put in on purpose, and the rows in which five of them show: what is found?"""

from dataclasses import replace
from typing import Any

import numpy as np
import polars as pl
import pytest
from recorded_jobs import Neighbours

from counton.base.errors import InvalidInputError
from counton.continual import node_distribution
from counton.noise import NoiseField
from counton.privacy import value_grid
from counton.run.counting import chosen_rows
from counton.run.counting.seen_rows import SnapshotOfRun
from counton.run.spec.terms import User
from counton.state.dedup import Secret

Row = tuple[Any, ...]


def row(hour: int, group: Any = 1, user: Any = 7, number: int = 0, value: Any = 3) -> Row:
    letter = "ab"[number % 2]
    edge = f"n{number}", f"n{number + 1}"
    return (hour, group, user, number, value, letter, *edge, 1 + number)


USUAL = [
    [row(0), row(1, 2, 8, 1, 4), row(2, 1, 8, 2, 0)],
    [row(3, 1, 7, 3, 2.5), row(4, 2, 8, 4, 7), row(5, 1, 8, 5, 1)],
]
#: One more row on the first night, on the second, late on the second, and values that are clipped.
ONE = {
    "first night": [(0, row(1, 1, 9, 9, 3))],
    "second night": [(1, row(4, 1, 9, 9, 3))],
    "late": [(1, row(1, 2, 9, 9, 10**6))],
}
#: A person with more rows than count, on both nights, late ones too.
PERSON = [
    (night, row(hour, 1 + hour % 2, "ann", 10 + 2 * hour + night, 9))
    for night, hours in ((0, (0, 1, 1, 2)), (1, (0, 3, 4, 5)))
    for hour in hours
]
#: Of one period of two hours: protected is a user within it.
PERIOD = [pair for pair in PERSON if pair[1][0] < 2]
VALUE: dict[str, Any] = {"value": "value", "lower": -5, "upper": 10, "resolution": "0.5"}


def no_clip(patch: pytest.MonkeyPatch) -> Neighbours:
    """Values count as they are, whatever bounds are stated."""

    def grid_units(values: Any, lower: Any, upper: Any, resolution: Any) -> Any:
        return np.rint(np.asarray(values, float) / float(resolution)).astype(np.int64)

    patch.setattr(value_grid, "clip", grid_units)
    return Neighbours("sum", VALUE, USUAL, [(0, row(1, 1, 9, 9, 10**6))])


def one_row_more(patch: pytest.MonkeyPatch) -> Neighbours:
    """One row more of each user counts than is stated."""
    right = vars(chosen_rows)["within_bound"]

    def one_more(rows: Any, counted: Any, unit: Any, groups: Any) -> Any:
        if isinstance(unit, User):
            unit = replace(unit, max_contributions=unit.max_contributions + 1)
        return right(rows, counted, unit, groups)

    patch.setattr(chosen_rows, "within_bound", one_more)
    return Neighbours("count", {"user": "user", "max_contributions": 2}, USUAL, PERSON)


def refusal_by_a_row(patch: pytest.MonkeyPatch) -> Neighbours:
    """A run is refused for what a row says."""
    right = vars(chosen_rows)["within_bound"]

    def refuse(rows: Any, *more: Any) -> Any:
        if len(rows) > 10:
            raise InvalidInputError("ann has too many rows")
        return right(rows, *more)

    patch.setattr(chosen_rows, "within_bound", refuse)
    return Neighbours("count", {"user": "user", "max_contributions": 2}, USUAL, PERSON)


def half_the_noise(patch: pytest.MonkeyPatch) -> Neighbours:
    """Noise has half the scale that it should have."""
    right = node_distribution.__dict__["calibrate"]

    def half(*given: Any, **named: Any) -> Any:
        found: Any = right(*given, **named)
        return found._replace(
            distribution=replace(found.distribution, scale=found.distribution.scale / 2)
        )

    patch.setattr("counton.continual.node_distribution.calibrate", half)
    return Neighbours("count", {}, USUAL, ONE["first night"])


def one_draw_for_all_steps(patch: pytest.MonkeyPatch) -> Neighbours:
    """Every node has the noise of the first: its address, and so the key, is used again."""
    run_of = NoiseField.run

    def again(self: Any, level: int, nodes: range) -> Any:
        found = run_of(self, level, nodes)
        return np.broadcast_to(run_of(self, 0, range(1))[:1], np.shape(found)).copy()

    patch.setattr(NoiseField, "run", again)
    return Neighbours("count", {}, USUAL, ONE["first night"])


def late_rows_for_vanished_ones(patch: pytest.MonkeyPatch) -> None:
    """Rows that come for a closed window fill the places of those that vanished, and else count."""

    right = SnapshotOfRun.seen

    def seen(self: Any, kept: Any, span: Any) -> Any:
        found = right(self, kept, span)
        step = pl.col("window")
        is_closed = self._is_covered() & (step <= span.last_final)
        sums = self.sums.filter(is_closed).select(
            "window", "cell", more_rows="rows", more_total="total"
        )
        found = found.join(sums, on=["window", "cell"], how="full", coalesce=True).fill_null(0)
        filled = {
            f"seen_{name}": pl.max_horizontal(f"seen_{name}", f"more_{name}")
            for name in ("rows", "total")
        }
        return found.with_columns(**filled)

    patch.setattr(SnapshotOfRun, "seen", seen)


def ids_of_users(patch: pytest.MonkeyPatch) -> None:
    """Ids belong to a user, whatever the period: one unit's ids decide about another's rows."""
    real = Secret.pair_digests

    def of_users(self: Any, low: Any, high: Any) -> Any:
        high = np.asarray(high)
        return real(self, low, high * 0 if np.issubdtype(high.dtype, np.signedinteger) else high)

    patch.setattr(Secret, "pair_digests", of_users)
