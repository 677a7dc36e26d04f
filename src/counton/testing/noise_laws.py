"""Laws of the noise a strategy computes: B z, whatever the window, and the privacy shift."""

from __future__ import annotations

from fractions import Fraction
from itertools import pairwise

import numpy as np

from counton.strategies import StreamStrategy
from counton.testing.node_noise import HashedNoise, ShiftedNoise
from counton.testing.tables import count_steps, lattice_units, require, rows_by_step


def check_noise_is_rows(
    strategy: StreamStrategy, steps: int | None = None, shape: tuple[int, ...] = ()
) -> None:
    """``noise`` is B z: equal to the rows, or within ``window_rounding`` where B is not integral.

    Raises:
        LawBroken: it is not, or has another shape or type.

    >>> from counton.strategies import Binary
    >>> check_noise_is_rows(Binary(12), shape=(2,))
    """
    count = count_steps(strategy, steps)
    # Rows divide by what columns multiply with: small noise would leave nothing but rounding.
    table = HashedNoise(shape, spread=1000 * strategy.largest_entry)
    noise = strategy.noise(table, range(1, count + 1))
    require(noise.shape == (count, *shape), strategy, f"noise has shape {noise.shape}")
    require(noise.dtype == np.int64, strategy, f"noise has type {noise.dtype}")
    unit = Fraction(2) ** (strategy.fraction_bits - strategy.lattice_bits)
    rows = rows_by_step(strategy, count)
    z = {node: table.at(*node).astype(object) for node in set().union(*rows.values())}
    for step, row in rows.items():
        exact = sum((z[node] * weight for node, weight in row.items()), np.zeros(shape, object))
        off = np.max(np.abs(noise[step - 1] - exact * unit))
        # A tie may be rounded to the far side: a trifle more than half a unit.
        first = 0 if strategy.workload == "totals" else step - 1
        allowed = Fraction(float(strategy.window_rounding(first, step))) * Fraction("1.00001")
        require(off <= allowed, strategy, f"noise at {step} is {float(off)} off its row")


def check_windows(
    strategy: StreamStrategy, steps: int | None = None, shape: tuple[int, ...] = ()
) -> None:
    """Any window, any split into windows, and a batch in parts give the same noise.

    Raises:
        LawBroken: it does not.

    >>> from counton.strategies import Binary
    >>> check_windows(Binary(12), shape=(2,))
    """
    count = count_steps(strategy, steps)
    table = HashedNoise(shape)
    whole = strategy.noise(table, range(1, count + 1))
    rng = np.random.default_rng(count)
    cuts = sorted({1, count + 1, *rng.integers(1, count + 2, 6).tolist()})
    windows = [range(a, b) for a, b in pairwise(cuts)]
    windows += [range(s, s + 1) for s in {1, count, *rng.integers(1, count + 1, 12).tolist()}]
    windows += [range(1, 1), range(1, 1 + (count + 1) // 2)]
    for window in windows:
        require(
            np.array_equal(strategy.noise(table, window), whole[window.start - 1 :][: len(window)]),
            strategy,
            f"noise differs on {window}",
        )
    for window in (range(1, count + 1), windows[0]):
        parts = [part.copy() for part in strategy.noise_parts(table, window)]
        require(
            np.array_equal(np.concatenate(parts), whole[window.start - 1 :][: len(window)]),
            strategy,
            f"noise in parts differs on {window}",
        )


def check_shift(
    strategy: StreamStrategy, steps: int | None = None, shape: tuple[int, ...] = ()
) -> None:
    """The shift z + d C e_i turns one stream's releases into its neighbour's, exactly.

    With d more in item i, the prefix sums from i on are larger by d (of windows: the release of i
    alone); noise shifted by -d C e_i must make up for it to the last bit, and leave the other
    releases alone. That, B C = A for the noise as computed, is what their privacy rests on.

    Raises:
        LawBroken: the releases of the two streams differ.

    >>> from counton.strategies import Binary
    >>> check_shift(Binary(12), shape=(2,))
    """
    count = count_steps(strategy, steps)
    window = range(1, count + 1)
    rng = np.random.default_rng(count)
    some = {1, count, *rng.integers(1, count + 1, 2).tolist()}
    for item in range(1, count + 1) if count <= 32 else some:
        for difference, spread in ((1, 1000), (-3, 2**30)):
            table = HashedNoise(shape, spread, seed=item)
            column = lattice_units(strategy, strategy.column_until(item, count))
            shifts = {node: difference * weight for node, weight in column.items()}
            moved = strategy.noise(ShiftedNoise(table, shifts), window)
            moved -= strategy.noise(table, window)
            expected = np.zeros((count, *shape), np.int64)
            first_coordinate = expected.reshape(count, -1)[:, 0]
            counted = item - 1 + strategy.delay
            last = None if strategy.workload == "totals" else counted + 1
            first_coordinate[counted:last] = difference << strategy.fraction_bits
            require(
                np.array_equal(moved, expected),
                strategy,
                f"a change of {difference} in item {item} is not made up for by its nodes",
            )
