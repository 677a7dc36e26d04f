"""Tests of a strategy for streams: B and C, its sensitivity, and its computed noise.

Measurements are C x + z, with exact counts x and independent draws z of noise. A release is an
exact total, or the count of a step, plus its entry of B z. A node is one measurement with its draw.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from fractions import Fraction
from functools import cache, partial
from itertools import pairwise
from typing import Any

import numpy as np

from counton.base.arrays import Integers
from counton.base.distributions import (
    DiscreteGaussian,
    DiscreteLaplace,
    NoiseDistribution,
    Sensitivity,
)
from counton.base.errors import InvalidInputError
from counton.strategies import (
    StreamStrategy,
    matrices,
    strategy_from_dict,
    stream_strategy_named,
)
from counton.strategies.participation import sensitivities, sensitivity
from counton.strategies.strategy import (
    EndlessStrategy,
    Norm,
    built_from,
    column_until,
    last_served_step,
    node_distribution,
    window_rounding,
)
from counton.testing.node_noise import HashedNoise, ShiftedNoise, noise_of
from counton.testing.pattern_checks import check_pattern_sensitivity, matrix_of
from counton.testing.rows import (
    Address,
    build_again,
    column_of,
    columns_in_order,
    count_steps,
    is_integral,
    largest_entry,
    lattice_units,
    names_subject,
    node_variance,
    reads_of,
    require,
    require_description,
    row_of,
    rows_by_step,
    spread,
    tables_kept,
)

_NORMS: tuple[Norm, Norm] = (1, 2)
#: Attributes in which a rebuilt strategy must be equal to the original.
_COMPARED_ATTRIBUTES = ("horizon", "facts", "_largest_read", "sources")
#: Largest number of steps for which `counton.strategies.matrices` is compared.
_MOST_STEPS_OF_MATRICES = 64
#: Largest number of steps for which all sets of steps are tried.
_MOST_STEPS_OF_SETS = 16
#: Largest allowed ratio of a stated squared norm to the true one, for units that count in several
#: steps.
_LARGEST_BOUND_RATIO = Fraction(5, 4)
#: Noise distributions of many widths, to which nodes are calibrated.
_SCALES = (Fraction(1, 7), *(Fraction(2**bits) for bits in (1, 8, 17, 24, 30, 35, 38, 40)))
DISTRIBUTIONS: tuple[NoiseDistribution, ...] = (
    *(DiscreteLaplace(scale) for scale in _SCALES),
    *(DiscreteGaussian(scale**2) for scale in _SCALES),
)


@names_subject
def check_strategy(strategy: StreamStrategy, steps: int | None = None) -> None:
    """Check that a strategy for streams has all properties.

    Args:
        strategy: the strategy to check.
        steps: number of first steps to check. Default: the horizon. A strategy without one needs
            it.

    Raises:
        PropertyViolationError: a property does not hold; the message says which, and where.
        InvalidInputError: the strategy has no horizon, and ``steps`` is not given.

    >>> from counton.strategies import Binary
    >>> check_strategy(Binary(12))
    """
    with tables_kept(strategy):
        check_parameters(strategy)
        check_factorisation(strategy, steps)
        check_causal(strategy, steps)
        check_variance(strategy, steps)
        if not isinstance(strategy, EndlessStrategy):
            message = "horizon is None, so its class must derive from EndlessStrategy"
            require(strategy.horizon is not None, message)
            check_sensitivity(strategy)
            check_participation(strategy)
            check_pattern_sensitivity(strategy)
        else:
            message = "its class derives from EndlessStrategy, so horizon must be None"
            require(strategy.horizon is None, message)
            check_endless_sensitivity(strategy, steps)
        few = ((3,),) if count_steps(strategy, steps) <= 64 else ()
        for shape in ((), (2, 20), *few):
            check_noise_is_rows(strategy, steps, shape)
            check_windows(strategy, steps, shape)
            check_shift(strategy, steps, shape)


@names_subject
def check_parameters(strategy: StreamStrategy) -> None:
    """Check that a strategy is rebuilt, equal, from its ``to_dict`` after a conversion to JSON.

    ``parameters`` must not change in JSON either, because noise is derived from them. Attributes,
    matrices and noise must be equal, and ``sources`` listed in `counton.base.literature`.

    Args:
        strategy: the strategy to check.

    Raises:
        PropertyViolationError: the rebuilt strategy differs, or a source is not listed.

    >>> from counton.strategies import Binary
    >>> check_parameters(Binary(12))
    """
    require_description(strategy.sources, strategy.parameters)
    named = stream_strategy_named(strategy.saved_name)
    build: Callable[[Any], StreamStrategy] = strategy_from_dict
    if named is not type(strategy):
        build = partial(built_from, type(strategy))
    same = build_again(strategy, lambda saved: _alike(build(saved), strategy))
    require(same, "building it again from the output of to_dict() gives another strategy")
    require(
        named in (None, type(strategy)),
        f"its saved_name is already the name of {named}; choose another",
    )


def _alike(strategy: StreamStrategy, other: StreamStrategy) -> bool:
    """Return True for equal attributes, and equal matrices and noise on some steps."""
    last = other.horizon or min(32, last_served_step(other) or 32)
    steps = [*range(1, min(last, 32) + 1), *({last // 2, last - 1, last} if last > 32 else ())]
    columns = [[column_of(member, step, last) for step in steps] for member in (strategy, other)]
    levels = sorted({node.level for column in columns[1] for node in column})
    distributions = [
        [
            distribution_or_none(member, distribution, level)
            for distribution in DISTRIBUTIONS
            for level in levels
        ]
        for member in (strategy, other)
    ]
    return (
        strategy == other
        and hash(strategy) == hash(other)
        and columns[0] == columns[1]
        and distributions[0] == distributions[1]
        and all(strategy.row(step) == row_of(other, step) for step in steps)
        and all(getattr(strategy, name) == getattr(other, name) for name in _COMPARED_ATTRIBUTES)
    )


def distribution_or_none(
    strategy: StreamStrategy, distribution: NoiseDistribution, level: int
) -> NoiseDistribution | None:
    try:
        return node_distribution(strategy, distribution, level)
    except InvalidInputError:
        return None


@names_subject
def check_factorisation(strategy: StreamStrategy, steps: int | None = None) -> None:
    """Check that B C = A exactly, where A is the matrix of the released sums.

    For totals A has ones up to the diagonal; for counts of single steps it is the identity. A delay
    shifts the ones down. The entries of C must be multiples of 2^-lattice_bits, and +1 or -1 if
    ``facts.unit_columns``.

    Args:
        strategy: the strategy to check.
        steps: number of first steps to check. Default: the horizon. A strategy without one needs
            it.

    Raises:
        PropertyViolationError: an entry of B C differs, or ``unit_columns`` or ``lattice_bits`` is
            wrong.

    >>> from counton.strategies import Binary
    >>> check_factorisation(Binary(12))
    """
    count = count_steps(strategy, steps)
    columns = columns_in_order(strategy, count)
    unit = 2**strategy.facts.lattice_bits
    if strategy.facts.unit_columns:
        units = {abs(weight) for column in columns for weight in column.values()}
        require(
            units <= {unit},
            "facts say that all weights of columns are 1 or -1, but column() has others",
        )
    if is_integral(strategy):
        _check_integral_factorisation(strategy, columns)
    else:
        _check_fractional_factorisation(strategy, columns)


def _check_integral_factorisation(
    strategy: StreamStrategy, columns: Sequence[Mapping[Address, int]]
) -> None:
    """Check B C = A if all numbers are small integers.

    float64 holds every sum exactly, and multiplies matrices faster.
    """
    count = len(columns)
    rows = rows_by_step(strategy, count)
    index_of = {node: i for i, node in enumerate(sorted(set().union(*rows.values(), *columns)))}
    reads = np.zeros((count, len(index_of)))
    enters = np.zeros((len(index_of), count))
    for (step, row), column in zip(rows.items(), columns, strict=True):
        reads[step - 1, [index_of[node] for node in row]] = [int(w) for w in row.values()]
        enters[[index_of[node] for node in column], step - 1] = list(column.values())
    if count <= _MOST_STEPS_OF_MATRICES:
        built = matrices(strategy, count)
        for matrix, other in zip(built, (reads, enters), strict=True):
            order = np.array_equal(matrix, other[: len(matrix), : matrix.shape[1]])
            require(
                matrix.shape == other.shape and order,
                "matrices() returns other numbers than row() and column()",
            )
    totals = np.tri(count, k=-strategy.facts.delay)
    one_by_one = np.eye(count, k=-strategy.facts.delay)
    expected = totals if strategy.facts.release == "totals" else one_by_one
    require(
        np.array_equal(reads @ enters, expected),
        f"rows and columns do not fit together: B C must be A over {count} steps "
        "(row(step) gives B, column(step) gives C, and A has the sums to release)",
    )


def _check_fractional_factorisation(
    strategy: StreamStrategy, columns: Sequence[Mapping[Address, int]]
) -> None:
    """Check B C = A if some numbers are fractions."""
    count = len(columns)
    unit = 2**strategy.facts.lattice_bits
    entering: dict[Address, list[tuple[int, int]]] = {}
    for item, column in enumerate(columns, start=1):
        for node, weight in column.items():
            entering.setdefault(node, []).append((item, weight))
    for step, row in rows_by_step(strategy, count).items():
        # A common denominator turns sums of fractions into sums of integers.
        scale = math.lcm(*(weight.denominator for weight in row.values()))
        entries = [0] * (count + 1)
        for node, read in row.items():
            scaled = read.numerator * (scale // read.denominator)
            for item, weight in entering.get(node, ()):
                entries[item] += scaled * weight
        last = step - strategy.facts.delay
        for item, entry in enumerate(entries[1:], start=1):
            counted = item <= last if strategy.facts.release == "totals" else item == last
            expected_entry = scale * unit if counted else 0
            require(
                entry == expected_entry,
                f"rows and columns do not fit together: release {step} contains item {item} "
                "with a wrong weight",
            )


@names_subject
def check_causal(strategy: StreamStrategy, steps: int | None = None) -> None:
    """Check that no release depends on noise that hides a later step, if ``facts.causal``.

    A node's noise hides all steps whose counts enter it, so it must not be in a release before the
    last of these. Matrices and computed noise, with rounding, are checked.

    Args:
        strategy: the strategy to check.
        steps: number of first steps to check. Default: the horizon. A strategy without one needs
            it.

    Raises:
        PropertyViolationError: a release has noise of a node that a later step enters.

    >>> from counton.strategies import Binary
    >>> check_causal(Binary(12))
    """
    if not strategy.facts.causal:
        return
    count = count_steps(strategy, steps)
    columns = columns_in_order(strategy, count)
    for step, row in rows_by_step(strategy, count).items():
        for item in range(step + 1, count + 1):
            seen = row.keys() & columns[item - 1].keys()
            message = (
                f"row({step}) reads node {min(seen, default=None)}, but the release may use only "
                "nodes that no later item enters"
            )
            require(not seen, f"{message}; item {item} comes later and enters it")
    table = HashedNoise(spread=1000 * largest_entry(strategy, count))
    whole = strategy.noise(table, range(1, count + 1))
    for item in sorted({2, count // 2, count} & set(range(2, count + 1))):
        shifts = {node: 1 + 2 * index for index, node in enumerate(sorted(columns[item - 1]))}
        moved = strategy.noise(ShiftedNoise(table, shifts), range(1, item))
        same = np.array_equal(moved, whole[: item - 1])
        require(
            same,
            f"noise() changes earlier releases when only nodes that item {item} enters have other "
            "noise; a release may use only nodes that no later item enters",
        )


@names_subject
def check_sensitivity(strategy: StreamStrategy, steps: int | None = None) -> None:
    """Check that stated sensitivities are the largest norms of a column of C.

    Unless ``facts.attained``, a 1-norm or a squared 2-norm may be up to 1.25 times as large.

    Args:
        strategy: the strategy to check.
        steps: number of first steps to check. Default: the horizon. A strategy without one needs
            it.

    Raises:
        PropertyViolationError: a stated sensitivity is too small or too large.

    >>> from counton.strategies import Binary
    >>> check_sensitivity(Binary(12))
    """
    columns = columns_in_order(strategy, count_steps(strategy, steps))
    slack = 1 if strategy.facts.attained else _LARGEST_BOUND_RATIO
    norms = []
    for norm, stated_bound in (
        (1, strategy.l1_sensitivity()),
        (2, strategy.squared_sensitivity()),
    ):
        largest = max(sum(abs(w) ** norm for w in column.values()) for column in columns)
        worst = Fraction(largest, 2 ** (norm * strategy.facts.lattice_bits))
        require(
            worst <= stated_bound <= slack * worst,
            f"the largest {'1-norm' if norm == 1 else 'squared 2-norm'} of a column is {worst}, "
            f"but {stated_bound} is stated; return {'1 to 1.25 times it' if slack > 1 else 'it'}",
        )
        norms.append(float(worst) if norm == 1 else math.sqrt(worst))
    claimed = [sensitivity(strategy, 1), sensitivity(strategy, 2)]  # which refuse impossible norms
    require(
        slack > 1 or claimed == norms,
        f"sensitivity() returns {claimed} for both norms, but must return {norms}",
    )


@names_subject
def check_endless_sensitivity(strategy: StreamStrategy, steps: int | None = None) -> None:
    """Check, without a horizon, that no column of C exceeds the stated sensitivity.

    Each weight is divided by the scale of its node's noise for the 1-norm, its square by the
    variance for the squared 2-norm, relative to the calibrated noise, of several widths. Units that
    count in several steps are tried in some sets of steps, unless they are refused.

    Args:
        strategy: a strategy without a horizon.
        steps: number of first steps to check. It must be given.

    Raises:
        PropertyViolationError: a column exceeds the stated sensitivity.

    >>> from counton.strategies import Expiring
    >>> check_endless_sensitivity(Expiring(1), 20)
    """
    # A weight is divided by the scale of its node's noise for the 1-norm, by the variance for the
    # squared 2-norm, both relative to the calibrated noise.
    count = count_steps(strategy, steps)
    columns = columns_in_order(strategy, count)
    levels = {level for column in columns for level, _ in column}
    # The sets have each step alone (counted from 0), and two or three together.
    ends = sorted({0, 1, count // 2, count - 1} & set(range(count)))
    sets: list[tuple[int, ...]] = [(item,) for item in range(count)]
    sets += [*itertools.combinations(ends, 2), *[(0, 1, 2)] * (count > 2)]
    for norm in _NORMS:
        try:
            bound = (strategy.l1_sensitivity, strategy.squared_sensitivity)[norm - 1]()
        except InvalidInputError:
            continue
        unit = 2 ** (norm * strategy.facts.lattice_bits)
        tried: list[dict[int, Fraction]] = []
        for base in DISTRIBUTIONS:
            if base.family != ("laplace", "gaussian")[norm - 1]:
                continue
            distributions = {level: distribution_or_none(strategy, base, level) for level in levels}
            if None in distributions.values():
                continue
            widths = {
                level: spread(distribution) / spread(base)
                for level, distribution in distributions.items()
                if distribution
            }
            if widths in tried:
                continue
            tried.append(widths)
            for chosen in sets:
                moved = _weights_moved([columns[item] for item in chosen])
                worst = sum(
                    Fraction(weight**norm) / widths[node[0]] for node, weight in moved.items()
                )
                claimed = (
                    bound if len(chosen) == 1 else _claimed_sensitivity(strategy, norm, len(chosen))
                )
                message = (
                    f"the columns of {len(chosen)} steps add up to {float(worst / unit)} or more "
                    f"(D_{norm}^{norm})"
                )
                enough = claimed is None or worst / unit <= claimed
                require(
                    enough,
                    f"{message}, but the stated bound is {claimed and float(claimed)}; return "
                    "an upper bound",
                )


def _weights_moved(columns: Iterable[Mapping[Address, int]]) -> dict[Address, int]:
    """Return by how much some columns together change each node at most."""
    moved: dict[Address, int] = {}
    for column in columns:
        for node, weight in column.items():
            moved[node] = moved.get(node, 0) + abs(weight)
    return moved


def _claimed_sensitivity(strategy: StreamStrategy, norm: Norm, steps: int) -> Fraction | None:
    """Return the stated sensitivity for ``steps`` steps of a unit; None if it is refused."""
    try:
        moved = sensitivities(strategy, steps=steps)
        claimed = sensitivity(strategy, norm, steps=steps)
    except InvalidInputError:
        return None
    unit = 2 ** (norm * strategy.facts.lattice_bits)
    return min(Fraction((moved.l1, moved.l2_squared)[norm - 1], unit), Fraction(claimed) ** norm)


@names_subject
def check_participation(strategy: StreamStrategy, steps: int = 5, separation: int = 5) -> None:
    """Check the sensitivity to units that count in several steps, by trying all sets of steps.

    A stated squared 2-norm must be between the largest of all sets and 1.25 times it, a stated
    1-norm at least the largest, and at most the norm for one step times their number. On horizons
    above 16 only some sets are tried, and stated values may be larger. Up to ``separation``, steps
    at least and exactly so far apart are tried.

    Args:
        strategy: a strategy with a horizon.
        steps: the most steps of one unit that are tried.
        separation: the largest distance of steps that is tried.

    Raises:
        PropertyViolationError: a stated sensitivity is too small or far too large.
        InvalidInputError: the strategy has no horizon.

    >>> from counton.strategies import Binary
    >>> check_participation(Binary(12))
    """
    count = count_steps(strategy, None)
    moved = _MovedNorms(matrix_of(strategy))
    whole = count <= _MOST_STEPS_OF_SETS
    sizes = range(1, steps + 1)
    if whole:
        sets = [s for size in sizes for s in itertools.combinations(range(count), size)]
    else:
        starts = itertools.product(range(8), range(1, 2 * separation))
        runs = [range(first, moved.columns, b) for first, b in starts]
        sets = [tuple(run[:size]) for run in runs for size in sizes]
    apart = np.array([min((b - a for a, b in pairwise(s)), default=separation) for s in sets])
    members = np.array([len(s) for s in sets])
    norms = moved.by_set(sets)
    single = sensitivities(strategy)
    for k, b in itertools.product(sizes, range(1, separation + 1)):
        l1, squared = norms[(members <= k) & (apart >= b)].max(axis=0).tolist()
        claimed = sensitivities(strategy, steps=k, separation=b)
        _require_near(claimed, l1, squared, f"{k} steps, {b} apart", is_largest=whole)
        _require_consistent(strategy, claimed, single, steps=k, separation=b)
    # Fixed schedules, every b-th step, are tried from every start: to the end, and for up to
    # ``steps`` scheduled steps in a row.
    for b, row in itertools.product(range(1, separation + 1), (None, *sizes)):
        every = [tuple(range(i, moved.columns, b)[:row]) for i in range(moved.columns)]
        l1, squared = moved.by_set(every).max(axis=0).tolist()
        claimed = sensitivities(strategy, every=b, steps=row)
        scheduled = f"every {b}th step" if row is None else f"{row} steps in a row, {b} apart"
        _require_near(claimed, l1, squared, scheduled, is_largest=whole)


class _MovedNorms:
    """Norms of the change of the measurements by a unit that counts in a set of steps.

    Args:
        matrix: the matrix C.
    """

    # With G = C^T C, the squared 2-norm of a set is the sum of |G_st| over its steps; the 1-norm is
    # the sum of the 1-norms of columns.

    def __init__(self, matrix: Integers) -> None:
        self.columns = matrix.shape[1]
        self._lengths = np.abs(matrix).sum(axis=0)
        self._products = np.abs(matrix.T @ matrix)

    def by_set(self, sets: Sequence[tuple[int, ...]]) -> Integers:
        """Return the 1-norm and the squared 2-norm for each set of steps: shape (sets, 2)."""
        members = np.array([len(positions) for positions in sets])
        norms = np.zeros((len(sets), 2), self._products.dtype)
        for size in set(members.tolist()):
            rows = np.array([positions for positions in sets if len(positions) == size])
            products = self._products[rows[:, :, None], rows[:, None, :]]
            norms[members == size, 0] = self._lengths[rows].sum(axis=1)
            norms[members == size, 1] = products.sum(axis=(1, 2))
        return norms


def _require_near(
    claimed: Sensitivity, l1: int, squared: int, steps_in_words: str, *, is_largest: bool
) -> None:
    """Require that stated norms are at least those that were found, and not far more.

    Args:
        claimed: the stated norms.
        l1: the largest 1-norm found.
        squared: the largest squared 2-norm found.
        steps_in_words: the steps of the unit.
        is_largest: whether no set of steps has a larger norm.
    """
    message = (
        f"a unit in {steps_in_words} changes the measurements by {l1} (1-norm) and {squared} "
        f"(squared 2-norm), but sensitivities() returns {claimed}; return at least as much, and "
        "not far more"
    )
    require(claimed.l1 >= min(l1, squared) and claimed.l2_squared >= squared, message)
    require(not is_largest or claimed.l2_squared <= _LARGEST_BOUND_RATIO * squared, message)


def _require_consistent(
    strategy: StreamStrategy,
    claimed: Sensitivity,
    single: Sensitivity,
    *,
    steps: int,
    separation: int,
) -> None:
    """Require that norms for several steps fit those for a single one, and those as fractions."""
    tight = claimed.l1 <= steps * single.l1
    tight = tight and claimed.l2_squared <= steps * steps * single.l2_squared
    require(
        tight and (steps > 1 or claimed == single),
        f"sensitivities(steps={steps}) returns {claimed}, which is more than {steps} times "
        f"{single}, the result for one step",
    )
    if steps == 1:
        return
    powers: tuple[tuple[Norm, int], ...] = ((1, claimed.l1), (2, claimed.l2_squared))
    for p, exact in powers:
        norm = sensitivity(strategy, p, steps=steps, separation=separation)
        below = Fraction(norm) ** p < Fraction(exact, 2 ** (p * strategy.facts.lattice_bits))
        require(
            not below,
            f"sensitivity({p}) returns {norm}, which is below {claimed}, the result of "
            "sensitivities()",
        )


@names_subject
def check_variance(strategy: StreamStrategy, steps: int | None = None) -> None:
    """Check that each release's ``variance`` agrees with ``row``.

    It must be the sum, over all nodes, of the squared weight times the noise variance.

    Args:
        strategy: the strategy to check.
        steps: number of first steps to check. Default: the horizon. A strategy without one needs
            it.

    Raises:
        PropertyViolationError: a variance differs, or depends on the order of steps.

    >>> from counton.strategies import Binary
    >>> check_variance(Binary(12))
    """
    count = count_steps(strategy, steps)
    claimed = strategy.variance(range(1, count + 1))
    width = cache(partial(node_variance, strategy))
    for step, row in rows_by_step(strategy, count).items():
        exact = math.fsum(float(weight) ** 2 * width(level) for (level, _), weight in row.items())
        require(
            math.isclose(claimed[step - 1], exact, rel_tol=1e-11, abs_tol=1e-300),
            f"variance([{step}]) returns {claimed[step - 1]}, but row({step}) gives {exact}",
        )
    some = np.arange(count, 0, -3)
    require(
        np.array_equal(strategy.variance(some), claimed[some - 1]),
        "variance() depends on the order in which steps are given; it must be a function of each "
        "step",
    )


@names_subject
def check_noise_is_rows(
    strategy: StreamStrategy, steps: int | None = None, shape: tuple[int, ...] = ()
) -> None:
    """Check that ``noise`` is the sum of nodes' noise weighted by ``row``.

    With fractions it may differ by up to `window_rounding`.

    Args:
        strategy: the strategy to check.
        steps: number of first steps to check. Default: the horizon. A strategy without one needs
            it.
        shape: shape of the noise of one node. Default: a single integer.

    Raises:
        PropertyViolationError: the noise has another value, shape or type.

    >>> from counton.strategies import Binary
    >>> check_noise_is_rows(Binary(12), shape=(2,))
    """
    count = count_steps(strategy, steps)
    # Rows divide by what columns multiply with: small noise would leave nothing but rounding.
    table = HashedNoise(shape, spread=1000 * largest_entry(strategy, count))
    noise = strategy.noise(table, range(1, count + 1))
    require(
        noise.shape == (count, *shape),
        f"noise() must return the shape {(count, *shape)}, but returns {noise.shape}",
    )
    require(noise.dtype == np.int64, f"noise() must return int64, but returns {noise.dtype}")
    unit = 2.0 ** (strategy.facts.fraction_bits - strategy.facts.lattice_bits)
    reads = reads_of(strategy, count)
    z = noise_of(table, reads.nodes).astype(np.float64)
    last = np.arange(1, len(reads.steps))
    first = last - 1 if strategy.facts.release == "windows" else np.zeros_like(last)
    checked_steps = reads.steps[last]
    # Integers here are below 2^53, so that sums of integral rows are exact.
    exact = reads.between(first, last) @ z * unit
    deviations = np.abs(noise[checked_steps - 1].reshape(len(checked_steps), -1) - exact).max(
        axis=1
    )
    # A tie may be rounded to the far side: a trifle more than half a unit.
    wrong = deviations > window_rounding(strategy, reads.steps[first], checked_steps) * 1.00001
    worst = int(np.argmax(wrong))
    message = (
        f"noise() of step {checked_steps[worst] if len(checked_steps) else 0} differs from row() "
        f"by {deviations[worst] if len(checked_steps) else 0}"
    )
    require(not wrong.any(), message)


@names_subject
def check_windows(
    strategy: StreamStrategy, steps: int | None = None, shape: tuple[int, ...] = ()
) -> None:
    """Check that a step's noise is the same in every computed range of steps.

    Args:
        strategy: the strategy to check.
        steps: number of first steps to check. Default: the horizon. A strategy without one needs
            it.
        shape: shape of the noise of one node. Default: a single integer.

    Raises:
        PropertyViolationError: the noise of a step depends on the range.

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
            f"noise() of the steps {window} differs from noise() of a longer range of steps",
        )


@names_subject
def check_shift(
    strategy: StreamStrategy, steps: int | None = None, shape: tuple[int, ...] = ()
) -> None:
    """Check that a change of the noise can exactly cancel a change of a count: privacy needs it.

    If the count of step i grows by d, the exact totals from i on grow by d. Shifting nodes' noise
    by -d times column i of C must cancel this to the last bit, and change no other release.

    Args:
        strategy: the strategy to check.
        steps: number of first steps to check. Default: the horizon. A strategy without one needs
            it.
        shape: shape of the noise of one node. Default: a single integer.

    Raises:
        PropertyViolationError: a release changes by a wrong amount.

    >>> from counton.strategies import Binary
    >>> check_shift(Binary(12), shape=(2,))
    """
    # If a strategy releases counts of single steps, only the release of step i changes.
    count = count_steps(strategy, steps)
    window = range(1, count + 1)
    rng = np.random.default_rng(count)
    some = sorted({1, count, *rng.integers(1, count + 1, 2).tolist()})
    # One coordinate for each item where there are many: then all are tried at once.
    size = math.prod(shape)
    most_items = size if size > 1 else 32
    items = list(range(1, count + 1)) if count <= most_items else some
    at_once = [items] if size >= len(items) else [[item] for item in items]
    for difference, width in ((1, 1000), (-3, 2**30)):
        table = HashedNoise(shape, width, seed=count % 7)
        before = strategy.noise(table, window)
        for chosen in at_once:
            shifts, expected = _shifts_and_changes(strategy, chosen, difference, count, size)
            moved = strategy.noise(ShiftedNoise(table, shifts), window) - before
            wrong = (moved.reshape(count, -1) != expected).any(axis=0)
            item = chosen[min(int(np.argmax(wrong)), len(chosen) - 1)]
            message = (
                "noise() changes by a wrong amount when the noise of nodes changes by "
                f"{difference} times the column of step {item}; it must hide exactly this change"
            )
            require(not wrong.any(), message)


def _shifts_and_changes(
    strategy: StreamStrategy, items: Sequence[int], difference: int, count: int, size: int
) -> tuple[dict[Address, dict[int, int]], Integers]:
    """Return shifts of nodes that cancel a change of some items, and the change of the releases.

    Args:
        strategy: the strategy.
        items: the items, each in a coordinate of its own.
        difference: the change of each.
        count: number of steps.
        size: number of coordinates.
    """
    shifts: dict[Address, dict[int, int]] = {}
    changes = np.zeros((count, max(size, 1)), np.int64)
    for coordinate, item in enumerate(items):
        column = lattice_units(strategy, column_until(strategy, item, count))
        for node, weight in column.items():
            shifts.setdefault(node, {})[coordinate] = difference * weight
        counted = item - 1 + strategy.facts.delay
        last = None if strategy.facts.release == "totals" else counted + 1
        changes[counted:last, coordinate] = difference << strategy.facts.fraction_bits
    return shifts, changes
