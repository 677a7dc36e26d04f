"""Laws of the matrices B and C: factorisation, sensitivity, variance."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np

from counton.errors import InvalidInput
from counton.strategies import StreamStrategy
from counton.testing.node_noise import HashedNoise
from counton.testing.tables import (
    Address,
    LawBroken,
    columns_in_order,
    count_steps,
    is_integral,
    require,
    rows_by_step,
)


def check_parameters(strategy: StreamStrategy) -> None:
    """``parameters`` survive JSON and rebuild an equal strategy; they are part of noise addresses.

    Raises:
        LawBroken: they do not.

    >>> from counton.strategies import Binary
    >>> check_parameters(Binary(12))
    """
    saved = json.loads(json.dumps(strategy.parameters))
    require(saved == strategy.parameters, strategy, "parameters do not survive JSON")
    rebuilt = type(strategy)(**saved)
    steps = range(1, min(strategy.horizon or 32, 32) + 1)
    same = rebuilt == strategy and all(rebuilt.row(t) == strategy.row(t) for t in steps)
    require(same, strategy, "parameters do not rebuild it")


def check_arguments(strategy: StreamStrategy) -> None:
    """Steps outside 1..horizon, and steps that are no integers, are refused everywhere.

    Raises:
        LawBroken: one of them is accepted.

    >>> from counton.strategies import Binary
    >>> check_arguments(Binary(12))
    """
    beyond = [] if strategy.horizon is None else [strategy.horizon + 1]
    calls: list[Callable[[int], object]] = [
        strategy.row,
        lambda step: strategy.variance([step]),
        lambda step: strategy.noise(HashedNoise(), range(step, step + 1)),
        strategy.column,
    ]
    for call in calls if strategy.horizon is not None else calls[:-1]:
        for step in [0, -1, *beyond]:
            _refuses(strategy, call, step)
    _refuses(strategy, strategy.row, 1.0)
    _refuses(strategy, lambda steps: strategy.noise(HashedNoise(), steps), range(1, 9, 2))


def check_factorisation(strategy: StreamStrategy, steps: int | None = None) -> None:
    """B C is A, exactly: prefix sums, or the identity. Columns have the weights promised.

    Raises:
        LawBroken: an entry of B C differs, or ``unit_columns`` or ``lattice_bits`` is wrong.

    >>> from counton.strategies import Binary
    >>> check_factorisation(Binary(12))
    """
    count = count_steps(strategy, steps)
    columns = columns_in_order(strategy, count)
    unit = 2**strategy.lattice_bits
    if strategy.unit_columns:
        units = {abs(weight) for column in columns for weight in column.values()}
        require(units <= {unit}, strategy, "C has entries other than 1 and -1")
    if is_integral(strategy):
        reads, enters = strategy.matrices(count)
        # Small integers: float64 holds every sum exactly, and multiplies matrices faster.
        product = reads.astype(float) @ enters.astype(float)
        totals = np.tri(count, k=-strategy.delay)
        one_by_one = np.eye(count, k=-strategy.delay)
        expected = totals if strategy.workload == "totals" else one_by_one
        require(np.array_equal(product, expected), strategy, f"B C is not A over {count} steps")
        return
    for step, row in rows_by_step(strategy, count).items():
        # Over a common denominator: sums of integers instead of sums of fractions.
        scale = math.lcm(*(Fraction(weight).denominator for weight in row.values()))
        scaled = {node: int(weight * scale) for node, weight in row.items()}
        for item, column in enumerate(columns, start=1):
            entry = sum(scaled.get(node, 0) * weight for node, weight in column.items())
            last = step - strategy.delay
            counted = item <= last if strategy.workload == "totals" else item == last
            expected_entry = scale * unit if counted else 0
            require(entry == expected_entry, strategy, f"(B C)[{step}, {item}] is wrong")


def check_sensitivity(strategy: StreamStrategy, steps: int | None = None) -> None:
    """The claimed sensitivities are those of the worst column.

    Raises:
        LawBroken: another column is worse, or none is as bad.

    >>> from counton.strategies import Binary
    >>> check_sensitivity(Binary(12))
    """
    columns = columns_in_order(strategy, count_steps(strategy, steps))
    unit = 2**strategy.lattice_bits
    worst_l1 = Fraction(max(sum(abs(w) for w in column.values()) for column in columns), unit)
    worst_squared = Fraction(
        max(sum(w * w for w in column.values()) for column in columns), unit**2
    )
    require(strategy.l1_sensitivity() == worst_l1, strategy, f"D_1 is {worst_l1}")
    require(strategy.squared_sensitivity() == worst_squared, strategy, f"D_2^2 is {worst_squared}")
    for norm, exact in ((1, float(worst_l1)), (2, math.sqrt(worst_squared))):
        claimed = strategy.sensitivity(norm)  # type: ignore[arg-type]
        require(claimed == exact, strategy, f"sensitivity({norm}) is {claimed}, not {exact}")


def check_variance(strategy: StreamStrategy, steps: int | None = None) -> None:
    """``variance`` is the squared norm of the row, weighted where levels differ in noise.

    Raises:
        LawBroken: it is not.

    >>> from counton.strategies import Binary
    >>> check_variance(Binary(12))
    """
    count = count_steps(strategy, steps)
    claimed = strategy.variance(range(1, count + 1))
    for step, row in rows_by_step(strategy, count).items():
        exact = math.fsum(
            float(weight**2) * strategy.node_variance(level) for (level, _), weight in row.items()
        )
        require(
            math.isclose(claimed[step - 1], exact, rel_tol=1e-12, abs_tol=1e-300),
            strategy,
            f"variance at {step} is {claimed[step - 1]}, its row says {exact}",
        )
    some = np.arange(count, 0, -3)
    require(
        np.array_equal(strategy.variance(some), claimed[some - 1]),
        strategy,
        "variance depends on how steps are given",
    )


def check_window_variance(strategy: StreamStrategy, steps: int | None = None) -> None:
    """``window_variance`` is that of the rows' difference (totals) or sum (windows), exactly.

    Over all pairs of ends up to 64 steps, over some beyond.

    Raises:
        LawBroken: it is not.

    >>> from counton.strategies import Binary
    >>> check_window_variance(Binary(12))
    """
    count = count_steps(strategy, steps)
    rows = {0: {}, **rows_by_step(strategy, count)}
    ends = (
        sorted(rows) if count <= 64 else sorted({*sorted(rows)[:: max(1, len(rows) // 24)], count})
    )
    if strategy.workload == "windows":
        ends = [end for end in ends if end <= 64]
    pairs = [(start, stop) for stop in ends for start in ends if start <= stop]
    starts, stops = np.array(pairs).T
    claimed = strategy.window_variance(starts, stops)
    for (start, stop), found in zip(pairs, claimed, strict=True):
        weights: dict[Address, int | Fraction] = {}
        for sign, step in strategy.window_rows(start, stop):
            for address, weight in rows[step].items():
                weights[address] = weights.get(address, 0) + sign * weight
        exact = math.fsum(
            float(weight**2) * strategy.node_variance(level)
            for (level, _), weight in weights.items()
        )
        require(
            math.isclose(found, exact, rel_tol=1e-11, abs_tol=1e-13),
            strategy,
            f"window variance from {start} to {stop} is {found}, its rows say {exact}",
        )
    require(
        np.allclose(strategy.window_variance(starts[::-3], stops[::-3]), claimed[::-3], 1e-12),
        strategy,
        "window variance depends on which others are asked for",
    )


def check_overall_variance(strategy: StreamStrategy) -> None:
    """``error`` is the mean and the maximum of ``variance`` over the horizon.

    Raises:
        LawBroken: it is not.

    >>> from counton.strategies import Binary
    >>> check_overall_variance(Binary(12))
    """
    variance = strategy.variance(range(1, count_steps(strategy, None) + 1))
    for metric, enumerated in (
        ("mean", math.fsum(variance) / len(variance)),
        ("max", max(variance)),
    ):
        claimed = strategy.overall_variance(metric)  # type: ignore[arg-type]
        require(
            math.isclose(claimed, enumerated, rel_tol=1e-12),
            strategy,
            f"error({metric}) is {claimed}, enumeration says {enumerated}",
        )


def _refuses(strategy: StreamStrategy, call: Callable[[Any], object], argument: object) -> None:
    try:
        call(argument)
    except InvalidInput:
        return
    raise LawBroken(f"{strategy}: accepts {argument!r} as a step or window")
