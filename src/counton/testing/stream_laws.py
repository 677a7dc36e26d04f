"""Laws of a strategy for streams: its matrices, what a unit moves, and the noise it computes."""

from __future__ import annotations

import itertools
import json
import math
from collections.abc import Callable
from fractions import Fraction
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np

from counton.errors import InvalidInput
from counton.laws import DiscreteGaussian, DiscreteLaplace, Law
from counton.strategies import StreamStrategy
from counton.strategies.base import PART, WIDE, Metric, Norm
from counton.testing.node_noise import HashedNoise, ShiftedNoise
from counton.testing.rows import (
    Address,
    LawBroken,
    columns_in_order,
    count_steps,
    is_integral,
    lattice_units,
    require,
    rows_by_step,
    tables_kept,
)

if TYPE_CHECKING:
    from counton.arrays import Integers

_NORMS: tuple[Norm, Norm] = (1, 2)
#: Up to so many steps every set of steps is tried.
_ALL_SETS = 16
#: Claims for units that act several times are at most so far above the truth, squared.
_SLACK = Fraction(5, 4)
#: Calibrated laws, of which no node's may be narrower.
_LAWS: tuple[Law, ...] = tuple(
    make(Fraction(spread, 7))
    for make in (DiscreteLaplace, DiscreteGaussian)
    for spread in (1, 10**6)
)


def check_strategy(strategy: StreamStrategy, steps: int | None = None) -> None:
    """Check every law that applies.

    Raises:
        LawBroken: at the first law that does not hold.

    >>> from counton.strategies import Binary
    >>> check_strategy(Binary(12))
    """
    with tables_kept(strategy):
        _check_all(strategy, steps)


def _check_all(strategy: StreamStrategy, steps: int | None) -> None:
    check_parameters(strategy)
    check_arguments(strategy)
    check_factorisation(strategy, steps)
    check_causal(strategy, steps)
    check_variance(strategy, steps)
    check_window_variance(strategy, steps)
    if strategy.horizon is not None:
        check_sensitivity(strategy)
        check_participation(strategy)
        check_alternating(strategy)
        check_node_law(strategy)
        check_overall_variance(strategy)
    else:
        check_endless_sensitivity(strategy, steps)
    # Scalars and wide nodes take different paths; a few coordinates share that of scalars.
    few = ((3,),) if count_steps(strategy, steps) <= 64 else ()
    for shape in ((), (2, 20), *few):
        check_noise_is_rows(strategy, steps, shape)
        check_windows(strategy, steps, shape)
        check_shift(strategy, steps, shape)
    check_noise_parts(strategy, steps)


def check_parameters(strategy: StreamStrategy) -> None:
    """``parameters`` and ``to_dict`` survive JSON; the latter rebuilds an equal strategy.

    Parameters are part of noise addresses.

    Raises:
        LawBroken: they do not.

    >>> from counton.strategies import Binary
    >>> check_parameters(Binary(12))
    """
    saved = json.loads(json.dumps(strategy.parameters))
    require(saved == strategy.parameters, strategy, "parameters do not survive JSON")
    rebuilt = type(strategy).from_dict(json.loads(json.dumps(strategy.to_dict())))
    steps = range(1, min(strategy.longest or 32, 32) + 1)
    same = rebuilt == strategy and all(rebuilt.row(t) == strategy.row(t) for t in steps)
    require(same, strategy, "to_dict does not rebuild it")


def check_arguments(strategy: StreamStrategy) -> None:
    """Steps outside 1..horizon, and steps that are no integers, are refused everywhere.

    Raises:
        LawBroken: one of them is accepted.

    >>> from counton.strategies import Binary
    >>> check_arguments(Binary(12))
    """
    beyond = [] if strategy.longest is None else [strategy.longest + 1]
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
        LawBroken: an entry of B C differs, or ``unit_columns``, ``largest_entry`` or
            ``lattice_bits`` is wrong.

    >>> from counton.strategies import Binary
    >>> check_factorisation(Binary(12))
    """
    count = count_steps(strategy, steps)
    columns = columns_in_order(strategy, count)
    unit = 2**strategy.lattice_bits
    if strategy.unit_columns:
        units = {abs(weight) for column in columns for weight in column.values()}
        require(units <= {unit}, strategy, "C has entries other than 1 and -1")
    largest = max((abs(weight) for column in columns for weight in column.values()), default=0)
    claimed = strategy.largest_entry
    require(claimed >= largest, strategy, f"largest entry is {largest}, not {claimed}")
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


def check_causal(strategy: StreamStrategy, steps: int | None = None) -> None:
    """Who says that it is causal releases nothing about an item's nodes before the item is there.

    No row before item i has a node of column i, and the noise as computed, rounding included, is
    the same before i whatever the noise of these nodes is.

    Raises:
        LawBroken: it says so, and a release before an item depends on the item's nodes.

    >>> from counton.strategies import Binary
    >>> check_causal(Binary(12))
    """
    if not strategy.causal:
        return
    count = count_steps(strategy, steps)
    columns = columns_in_order(strategy, count)
    for step, row in rows_by_step(strategy, count).items():
        for item in range(step + 1, count + 1):
            seen = row.keys() & columns[item - 1].keys()
            said = f"it is not causal: release {step} reads node {min(seen, default=None)}"
            require(not seen, strategy, f"{said}, which item {item} enters")
    table = HashedNoise(spread=1000 * strategy.largest_entry)
    whole = strategy.noise(table, range(1, count + 1))
    for item in sorted({2, count // 2, count} & set(range(2, count + 1))):
        shifts = {node: 1 + 2 * place for place, node in enumerate(sorted(columns[item - 1]))}
        moved = strategy.noise(ShiftedNoise(table, shifts), range(1, item))
        same = np.array_equal(moved, whole[: item - 1])
        require(same, strategy, f"it is not causal: noise of item {item} moves what came before")


def check_sensitivity(strategy: StreamStrategy, steps: int | None = None) -> None:
    """The claimed sensitivities are those of the worst column, or bounds if they are said to be.

    Raises:
        LawBroken: another column is worse, or none is as bad; of bounds, none is nearly as bad.

    >>> from counton.strategies import Binary
    >>> check_sensitivity(Binary(12))
    """
    columns = columns_in_order(strategy, count_steps(strategy, steps))
    unit = 2**strategy.lattice_bits
    worst_l1 = Fraction(max(sum(abs(w) for w in column.values()) for column in columns), unit)
    worst_squared = Fraction(
        max(sum(w * w for w in column.values()) for column in columns), unit**2
    )
    if not strategy.attained:
        for norm, bound, worst in (
            (1, strategy.l1_sensitivity(), worst_l1),
            (2, strategy.squared_sensitivity(), worst_squared),
        ):
            said = f"D_{norm}^{norm} is {worst}, and the bound {bound}"
            require(worst <= bound <= _SLACK * worst, strategy, said)
        return
    require(strategy.l1_sensitivity() == worst_l1, strategy, f"D_1 is {worst_l1}")
    require(strategy.squared_sensitivity() == worst_squared, strategy, f"D_2^2 is {worst_squared}")
    for norm, exact in ((1, float(worst_l1)), (2, math.sqrt(worst_squared))):
        claimed = strategy.sensitivity(norm)  # type: ignore[arg-type]
        require(claimed == exact, strategy, f"sensitivity({norm}) is {claimed}, not {exact}")


def check_endless_sensitivity(strategy: StreamStrategy, steps: int | None = None) -> None:
    """Without a horizon: no column, as far as it is read, has more than is claimed for all of it.

    Weights count by the noise of their node: for the 1-norm by its scale, for the squared 2-norm by
    its variance, in units of the calibrated law. A norm may be refused, then so is its law.

    Raises:
        LawBroken: a column has more, or a law is given whose norm is refused.

    >>> from counton.strategies import Expiring
    >>> check_endless_sensitivity(Expiring(1), 20)
    """
    columns = columns_in_order(strategy, count_steps(strategy, steps))
    laws: tuple[Law, Law] = DiscreteLaplace(Fraction(1)), DiscreteGaussian(Fraction(1))
    for norm, law in zip(_NORMS, laws, strict=True):
        try:
            bound = (strategy.l1_sensitivity, strategy.squared_sensitivity)[norm - 1]()
        except InvalidInput:
            continue
        widths = {
            level: _spread(strategy.node_law(law, level))
            for level in {level for column in columns for level, _ in column}
        }
        most = max(
            sum(Fraction(abs(weight) ** norm) / widths[level] for (level, _), weight in one.items())
            for one in columns
        )
        worst = most / 2 ** (norm * strategy.lattice_bits)
        said = f"D_{norm}^{norm} is {float(worst)} or more, and the bound {float(bound)}"
        require(worst <= bound, strategy, said)


def _written_out(strategy: StreamStrategy, steps: int) -> Integers:
    """C over some steps, shape (nodes, steps), in lattice units."""
    columns = columns_in_order(strategy, steps)
    nodes = {node: place for place, node in enumerate(sorted(set().union(*columns)))}
    matrix = np.zeros((len(nodes), len(columns)), np.int64)
    for item, column in enumerate(columns):
        for node, weight in column.items():
            matrix[nodes[node], item] = weight
    return matrix


def check_participation(strategy: StreamStrategy, steps: int = 5, separation: int = 5) -> None:
    """What units that act several times move: against all sets of their steps.

    With G = C^T C, claimed squared 2-norms are at least the largest sum of |G_st| over a set, and
    at most 1.25 times it; 1-norms are at least the largest sum of column norms, and at most k D_1.
    On more than 16 steps some sets are tried, and claims may be larger. Schedules are tried from
    every start, to the end and for so many scheduled steps in a row.

    Args:
        strategy: what claims them; with a horizon.
        steps: tried are units that act up to so many times,
        separation: at least 1, 2, .. up to so many steps apart, or just so many.

    Raises:
        LawBroken: a claim is too small or too large, or units that act once count for more or less.

    >>> from counton.strategies import Binary
    >>> check_participation(Binary(12))
    """
    count = count_steps(strategy, None)
    matrix = _written_out(strategy, min(count, 64))
    columns = range(matrix.shape[1])
    lengths, products = np.abs(matrix).sum(axis=0), np.abs(matrix.T @ matrix)

    def moved(chosen: tuple[int, ...]) -> tuple[int, int]:
        return int(lengths[list(chosen)].sum()), int(products[np.ix_(chosen, chosen)].sum())

    whole = count <= _ALL_SETS
    sizes = range(1, steps + 1)
    if whole:
        sets = [s for size in sizes for s in itertools.combinations(range(count), size)]
    else:
        runs = [range(i, len(columns), b) for i in range(8) for b in range(1, 2 * separation)]
        sets = [tuple(run[:size]) for run in runs for size in sizes]
    apart = [min((b - a for a, b in pairwise(s)), default=separation) for s in sets]
    norms = [moved(s) for s in sets]
    one = strategy.shift()
    for k, b in itertools.product(range(1, steps + 1), range(1, separation + 1)):
        fit = [n for s, gap, n in zip(sets, apart, norms, strict=True) if len(s) <= k and gap >= b]
        l1, squared = (max(norm) for norm in zip(*fit, strict=True))
        claimed = strategy.shift(steps=k, separation=b)
        said = f"{k} steps {b} apart move it by {l1} and {squared} squared, not {claimed}"
        require(claimed.l1 >= min(l1, squared) and claimed.l2_squared >= squared, strategy, said)
        tight = claimed.l1 <= k * one.l1 and claimed.l2_squared <= k * k * one.l2_squared
        require(tight, strategy, f"claims {claimed}, more than {k} times {one}")
        require(not whole or claimed.l2_squared <= _SLACK * squared, strategy, said)
        require(k > 1 or claimed == one, strategy, f"one step moves it by {one}, not {claimed}")
        for p, exact in ((1, claimed.l1), (2, claimed.l2_squared)):
            norm = strategy.sensitivity(p, steps=k, separation=b)  # type: ignore[arg-type]
            below = Fraction(norm) ** p < Fraction(exact, 2 ** (p * strategy.lattice_bits))
            require(k == 1 or not below, strategy, f"sensitivity({p}) is {norm}, below {claimed}")
    for b in range(1, separation + 1):
        for row in (None, *sizes):
            every = [tuple(range(i, len(columns), b)[:row]) for i in range(len(columns))]
            l1, squared = (max(norm) for norm in zip(*map(moved, every), strict=True))
            claimed = strategy.shift(every=b, steps=row)
            which = f"every {b}th step" if row is None else f"{row} steps in a row, {b} apart,"
            said = f"{which} moves it by {l1} and {squared} squared, not {claimed}"
            enough = claimed.l1 >= min(l1, squared) and claimed.l2_squared >= squared
            require(enough, strategy, said)
            require(not whole or claimed.l2_squared <= _SLACK * squared, strategy, said)


def check_alternating(strategy: StreamStrategy, changes: int = 4) -> None:
    """What changes by +1 and -1 in turn move: against all sets of up to so many steps.

    Claimed norms are at least the largest there are; on up to 16 steps they are at most 1.25 times
    that, squared. On more steps some sets are tried. Columns are aligned if that is said.

    Args:
        strategy: what claims them; with a horizon.
        changes: tried are up to so many of them.

    Raises:
        LawBroken: a claim is too small or too large.

    >>> from counton.strategies import Binary
    >>> check_alternating(Binary(12))
    """
    count = count_steps(strategy, None)
    matrix = _written_out(strategy, min(count, 64))
    products = matrix.T @ matrix
    aligned = bool((products >= 0).all()) and all(
        (products[:q, q + 1 :] <= products[:q, q, None] + products[None, q, q + 1 :]).all()
        for q in range(1, len(products) - 1)
    )
    require(aligned or not strategy.aligned, strategy, "columns are not aligned")
    worst = [0, 0]  # also of fewer changes
    for most in range(1, min(changes, count) + 1):
        if count <= _ALL_SETS:
            sets = np.array(list(itertools.combinations(range(count), most)))
        else:
            gaps = range(1, matrix.shape[1] // most + 1)
            sets = np.array([range(i, i + most * gap, gap) for gap in gaps for i in (0, gap - 1)])
            sets = sets[sets[:, -1] < matrix.shape[1]]
        signs = (-1) ** np.arange(sets.shape[1])
        sums = np.einsum("nsc,c->sn", matrix[:, sets], signs)
        found = np.abs(sums).sum(axis=1).max(), (sums**2).sum(axis=1).max()
        l1, squared = worst = [max(pair) for pair in zip(worst, map(int, found), strict=True)]
        claimed = [strategy.largest_alternating(norm, most) for norm in _NORMS]
        said = f"{most} changes move it by {l1} and {squared} squared, not {claimed}"
        require(claimed[0] >= l1 and claimed[1] >= squared, strategy, said)
        require(count > _ALL_SETS or claimed[1] <= _SLACK * squared, strategy, said)


def check_node_law(strategy: StreamStrategy) -> None:
    """No node that an item enters has narrower noise than the calibrated law, in its own family.

    That law is what protects the column with the largest norm; for strategies with a horizon,
    whose guarantee is the same for all ages of an item.

    Raises:
        LawBroken: a level's law is narrower, or of another family.

    >>> from counton.strategies import Binary
    >>> check_node_law(Binary(12))
    """
    columns = columns_in_order(strategy, count_steps(strategy, None))
    for level in sorted({level for column in columns for level, _ in column}):
        for base in _LAWS:
            law = strategy.node_law(base, level)
            said = f"noise of level {level} has the law {law}, narrower than {base}"
            require(law.family == base.family, strategy, said)
            require(_spread(law) >= _spread(base), strategy, said)


def _spread(law: Law) -> Fraction:
    return law.scale if isinstance(law, DiscreteLaplace) else law.sigma_squared


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

    With ``unit_rows`` these have no other entries than 1, 0 and -1. Over all pairs of ends up to 64
    steps (32 where weights are fractions), over some beyond.

    Raises:
        LawBroken: it is not.

    >>> from counton.strategies import Binary
    >>> check_window_variance(Binary(12))
    """
    count = count_steps(strategy, steps)
    rows = {0: {}, **rows_by_step(strategy, count)}
    ends = (
        sorted(rows)
        if count <= (64 if is_integral(strategy) else 32)
        else sorted({*sorted(rows)[:: max(1, len(rows) // 24)], count})
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
        require(
            not strategy.unit_rows or {abs(weight) for weight in weights.values()} <= {0, 1},
            strategy,
            f"says unit_rows, and from {start} to {stop} reads a node with another weight",
        )
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
    """Mean and maximum over the horizon are those of the variances of totals and single steps.

    Raises:
        LawBroken: it is not.

    >>> from counton.strategies import Binary
    >>> check_overall_variance(Binary(12))
    """
    ends = np.arange(count_steps(strategy, None) + 1)
    metrics: tuple[Metric, ...] = ("mean", "max")
    for claim, variance in (
        (strategy.overall_variance, strategy.variance(ends[1:])),
        (strategy.overall_window_variance, strategy.window_variance(ends[:-1], ends[1:])),
    ):
        for metric, enumerated in zip(
            metrics, (math.fsum(variance) / len(variance), max(variance)), strict=True
        ):
            claimed = claim(metric)
            require(
                math.isclose(claimed, enumerated, rel_tol=1e-12),
                strategy,
                f"{claim.__name__}({metric}) is {claimed}, enumeration says {enumerated}",
            )


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


def check_noise_parts(strategy: StreamStrategy, steps: int | None = None) -> None:
    """A batch so large that it comes in several parts is ``noise`` on the same window.

    Raises:
        LawBroken: it is not.

    >>> from counton.strategies import Binary
    >>> check_noise_parts(Binary(12))
    """
    count = count_steps(strategy, steps)
    window = range(1, count + 1)
    for shape in ((2 * PART // count + 1,), (WIDE - 1,)):
        table = HashedNoise(shape)
        parts = [part.copy() for part in strategy.noise_parts(table, window)]
        same = np.array_equal(np.concatenate(parts), strategy.noise(table, window))
        require(same, strategy, f"noise in {len(parts)} parts of {shape} differs on {window}")


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


def _refuses(strategy: StreamStrategy, call: Callable[[Any], object], argument: object) -> None:
    try:
        call(argument)
    except InvalidInput:
        return
    raise LawBroken(f"{strategy}: accepts {argument!r} as a step or window")
