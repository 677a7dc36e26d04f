"""Sensitivity to units that count in several steps of a stream.

A unit counts in a set of steps S = {s_1 < s_2 < ...}. Either S has at most ``steps`` members, any
two at least ``separation`` apart. Or S is a fixed schedule: up to ``steps`` consecutive members of
i, i + every, i + 2 every, ... for one i, of which a unit may miss some. (Steps picked anywhere in a
schedule may have a larger norm; state a ``separation`` for them.) In step s the unit counts by a
vector d_s, with ||d_s||_1 <= c_1 and ||d_s||_2 <= c_2, which changes the nodes by the sum over S of
(C e_s) x d_s. With G = C^T C that is

    in the 1-norm           at most c_1   * max over S of sum_{s in S} ||C e_s||_1
    in the squared 2-norm   at most c_2^2 * max over S of sum_{s, t in S} |G_st|,

because |<d_s, d_t>| <= c_2^2; equal vectors attain both if C has no negative entry. Then the norms
are the largest sums, over all nodes v, of n_v and of n_v^2, with n_v the sum of row v of C over S.
They are computed in integers, in one of these ways:

- *Toeplitz* (``SqrtToeplitz``): let the first column of C be decreasing and not negative. With b
  the separation, S = {1, 1 + b, 1 + 2b, ...} is the worst set: moving steps to earlier places, and
  closer together, makes no product G_st smaller.
- *Trees* state how each range of steps (`Stretch`) is divided into smaller ranges. Let most[m] be
  the largest sum if m members of S lie in a range: n m^2, with n the sum of the squared weights of
  the nodes that hold exactly this range, plus the largest sum over all ways to distribute the m
  members among the smaller ranges. Equal ranges are computed once. If all members in one of several
  equal ranges are known to be the worst case, others are not tried. For distinct steps (b = 1) the
  result is exact. For b > 1 the only condition used is that a range of w steps holds at most ceil(w
  / b) members: an upper bound.
- *Short horizons*: all allowed sets S are tried.
- *Lag bound*: k max G_tt + 2 sum_{j=1}^{k-1} (k-j) max{|G_st| : |s-t| >= j b}, because members of S
  that are j places apart are at least j b steps apart.
- *A fixed schedule*: all first steps i are tried on horizons up to 2^16. On longer ones, the result
  for separation = every is an upper bound.
- *All steps* are a schedule with every = 1. Trees add up the values of their nodes, exactly.

A unit may also enter and leave a count, by +1 and -1 in turn, in at most w steps
(`largest_alternating`). The changes up to any step add up to 0 or 1. So a node that holds
consecutive steps changes by +1 or -1 if an odd number of changes fell into it, else by 0. In
general:

- *Trees*: most[m] as above, with m mod 2 in place of m and of m^2: exact. With D_1 and D_2 the
  largest 1-norm and 2-norm of a column, this is at most w D_1 and w D_2^2, since n_v is 0, 1 or -1.
- *Rows*: let p_t in {0, 1} be the sum of the changes up to step t. Then (C d)_r = sum over t of p_t
  (C_rt - C_r,t+1). It is at most V_r, the sum of all falls of row r from one entry to the next (or
  of all rises), with a 0 after its last entry. For a row that first rises and then falls, V_r is
  its largest entry. So ||C d||_2^2 <= sum over r of V_r |(C d)_r| <= w max over s of sum over r of
  V_r |C_rs|.
- *Products*: for s in S and its successors t_1 < t_2 < ... in S, the sum -G_(s, t_1) + G_(s, t_2) -
  ... is at most the sum of all rises of G_st as t grows from s. (It is 0 if G_st only falls with
  the distance t - s, as for ``SqrtToeplitz``.) So ||C d||_2^2 <= sum over S of (G_ss + 2 rises),
  and likewise with the rises of G_st over t < s. This needs that no product G_st is negative.
- *Short horizons*: all sets are tried.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from fractions import Fraction
from functools import cache, lru_cache, partial
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, Protocol, Self

import numpy as np

from counton.base.distributions import (
    Alternating,
    BoundedChange,
    NoiseKind,
    Pattern,
    Runs,
    Sensitivity,
    scaled_norms,
)
from counton.base.errors import InvalidInputError
from counton.base.exact import check_integer, float_above, is_whole, quote, root_above
from counton.strategies.streams.power_series import exact_dot

if TYPE_CHECKING:
    from counton.base.arrays import Integers

#: The norm of the columns to which noise is calibrated: 1 for Laplace, 2 for Gaussian noise.
Norm = Literal[1, 2]
_NORMS: tuple[Norm, Norm] = (1, 2)
#: The norm to which each kind of noise is calibrated.
NORMS: dict[NoiseKind, Norm] = {"laplace": 1, "gaussian": 2}
#: If a unit counts in more steps than this, their worst distribution over a tree is not computed;
#: `_level_bound` is used.
_MOST_DISTRIBUTED_STEPS = 1024
#: All sets of steps are tried up to this many sets, on horizons up to this many steps.
_MOST_SETS = 2**16
_LONGEST_TRIED_HORIZON = 128
#: Largest number of array entries when sums over all sets of columns are computed.
_MOST_ENTRIES = 2**22
#: Longest horizon for which the matrix C is built as an array, and longest for which all first
#: steps of a schedule are tried.
_LONGEST_WRITTEN_HORIZON = 512
_LONGEST_SCHEDULED_HORIZON = 2**16
#: If a unit counts in more steps than this, the lag bound (see the module) is not computed: for
#: other strategies, and for trees.
_MOST_STEPS_OF_LAG_BOUND = 2**21
_MOST_STEPS_OF_TREE_LAG_BOUND = 2**16
#: If one of two parts of a tree holds at most this many steps of a unit, all ways to distribute
#: steps over the two are tried.
_MOST_STEPS_OF_SMALL_PART = 32
_IMPOSSIBLE_SUM = -(2**62)
#: Sums that may reach this bound are computed with Python integers instead of int64.
_LARGEST_SUM = 2**62


class Stretch(NamedTuple):
    """A range of consecutive steps that a tree keeps together, perhaps with a node for them.

    Attributes:
        level: the level in the tree; stretches of one level do not overlap.
        nodes: 1 if the stretch has a node, else 0.
        steps: the number of steps within the horizon.
        kind: differs between equal stretches that are divided in different ways.
    """

    level: int
    nodes: int
    steps: int
    kind: int = 0


class Schedule(NamedTuple):
    """The steps in which one unit may count: at most ``steps``, any two at least ``apart`` apart.

    If ``fixed``, they are exactly ``apart`` apart: the first one determines all.
    """

    steps: int
    apart: int
    fixed: bool

    @classmethod
    def from_saved(cls, values: Sequence[Any]) -> Self:
        """Rebuild a schedule from its three values, in their order, or from another schedule."""
        return cls(*values)


def schedule_for(
    horizon: int | None, steps: int | None, separation: int, every: int | None
) -> Schedule:
    """Return the checked schedule of a unit's steps, with no more steps than fit into the horizon.

    A unit that may count in every step is on a fixed schedule, whose ``apart`` is ``every``.

    >>> schedule_for(16, steps=9, separation=5, every=None)
    Schedule(steps=4, apart=5, fixed=False)
    """
    if steps is not None:
        steps = check_integer("steps", steps, 1, remedy="the most steps one unit counts in")
    separation = check_integer("separation", separation, 1, remedy="1 means distinct steps")
    if every is None:
        steps = 1 if steps is None else steps
    else:
        every = check_integer("every", every, 1, remedy="a unit counts in each such step")
        if separation != 1:
            raise InvalidInputError(
                f"separation is {separation} and every is {every}, but with every a unit follows a "
                "fixed schedule, which already states the distance of its steps: leave separation "
                "out"
            )
    apart = separation if every is None else every
    if horizon is not None:
        fit = -(-horizon // apart)
        steps = fit if steps is None else min(steps, fit)
    elif steps is None:
        raise InvalidInputError(
            f"every is {every} and the stream never ends, so a unit counts in any number of steps: "
            "give steps too, or use a strategy with a horizon"
        )
    all_steps = apart == 1 and steps == horizon
    return Schedule(steps, apart, fixed=(every is not None or all_steps) and steps > 1)


class Structure(NamedTuple):
    """Facts about the columns of C, for faster or tighter bounds of sensitivity.

    A fact that is not stated is computed from the columns. Integers are in units of
    ``2**-lattice_bits``.

    Attributes:
        divisions: for a tree: a function from a stretch (None: the horizon) to pairs (smaller
            stretch, number of times that it occurs in this one); () for a single step that enters
            no smaller node. Every node holds the steps of one of these stretches.
        nodes_by_level: for a tree: a function that returns by level the index of the node that each
            step enters, or -1: shape (horizon,). None: nodes are not numbered.
        overlaps: a function of a schedule that bounds, for j = 1, 2, .. steps - 1, the inner
            product of two columns whose steps are at least j times ``apart`` apart, in units of
            ``4**-lattice_bits``.
        falling_series: the first column of C, shape (horizon,), if C is Toeplitz and it decreases
            and is not negative.
        change_bound: returns the most that each change of a count, by +1 and -1 in turn, adds to
            the squared 2-norm, in units of ``4**-lattice_bits``.
        largest_sum: a faster function in place of `largest_sum` of this module.
        aligned: returns True only if no two columns have a negative inner product, and G_ik <= G_ij
            + G_jk for the inner products G of all i < j < k.
    """

    divisions: Callable[[Stretch | None], Sequence[tuple[Stretch, int]]] = lambda part: ()
    nodes_by_level: Callable[[], Iterable[Integers] | None] = lambda: None
    overlaps: Callable[[Schedule], list[int]] | None = None
    falling_series: Integers | None = None
    change_bound: Callable[[], int] | None = None
    largest_sum: Callable[[Norm, Schedule], int] | None = None
    aligned: Callable[[], bool] = lambda: False


def tree_structure(
    horizon: int,
    widths: Sequence[int],
    unread: tuple[int, int] = (0, 2**62),
    *,
    whole: bool = False,
) -> Structure:
    """Return the facts about a tree whose nodes sum consecutive steps.

    Args:
        widths: the steps in a node at each level, which follow each other without gaps.
        unread: a pair (place, siblings): of each group of ``siblings`` consecutive nodes, the one
            at ``place``, counted from 1, is left out, since no release uses it; 0: none.
        whole: leave out the last node of a level if its steps go beyond the horizon.

    >>> of_halves = tree_structure(7, (1, 2, 4), whole=True)
    >>> [nodes.tolist() for nodes in of_halves.nodes_by_level()][1:]
    [[0, 0, 1, 1, 2, 2, -1], [0, 0, 0, 0, -1, -1, -1]]
    >>> [(part.nodes, part.steps, times) for part, times in of_halves.divisions(None)]
    [(1, 4, 1), (0, 3, 1)]
    """
    number, siblings = unread

    def divisions(part: Stretch | None) -> tuple[tuple[Stretch, int], ...]:
        level, _, steps, _ = part or Stretch(len(widths), 0, horizon)
        if level == 0:
            return ()
        width = widths[level - 1]
        full, rest = divmod(steps, width)
        missing = 0 < number <= full
        parts = (
            (Stretch(level - 1, 1, width), full - missing),
            (Stretch(level - 1, 0, width), int(missing)),
            (Stretch(level - 1, int(not whole and number != full + 1), rest), int(rest > 0)),
        )
        return tuple(division for division in parts if division[1])

    def nodes_by_level() -> Iterator[Integers]:
        for width in widths:
            nodes = np.arange(horizon) // width
            read = (
                nodes < horizon // width if whole else (nodes + 1) % siblings != number % siblings
            )
            yield np.where(read, nodes, -1)

    return Structure(divisions, nodes_by_level, aligned=lambda: True)


class _StepNodes(Hashable, Protocol):
    """The members of `StreamStrategy` that this module uses."""

    facts: Any

    @property
    def horizon(self) -> int | None: ...
    @property
    def structure(self) -> Structure: ...
    def column(self, step: int) -> Sequence[tuple[int, int, Any]]: ...
    def l1_sensitivity(self) -> Fraction: ...
    def squared_sensitivity(self) -> Fraction: ...


def sensitivities(
    strategy: _StepNodes, *, steps: int | None = None, separation: int = 1, every: int | None = None
) -> Sensitivity:
    """Return the sensitivity of all measurements together: how far one unit moves them.

    The unit adds 1 to one cell in each of its steps. Norms are exact or upper bounds, in units of
    ``2**-lattice_bits`` (1-norm) or their squares.

    Args:
        strategy: strategy of the stream.
        steps: the most steps of the unit; by default 1, or with ``every`` the whole schedule.
        separation: the least distance of any two of these steps.
        every: the distance in a fixed schedule. With steps=3 and every=7, the unit counts in some
            of i, i + 7 and i + 14, for one i. If it may count in any 3 of a longer series, state
            ``separation`` instead.

    Raises:
        InvalidInputError: an argument out of range, or arguments that do not fit together.

    >>> from counton.strategies import Binary
    >>> sensitivities(Binary(1000))
    Sensitivity(l1=10, l2_squared=10, entries=((1, 10),))
    """
    # On a stream without an end a unit with k steps moves the nodes by up to k times as much as a
    # unit with one step, for all positions of its steps.
    schedule = schedule_for(strategy.horizon, steps, separation, every)
    if schedule.steps > 1 and strategy.horizon is not None:
        computed = _computed_sensitivities(strategy)
        if schedule not in computed:
            computed[schedule] = _either_bounds(*_largest_sums(strategy, _NORMS, schedule))
        return computed[schedule]
    unit = 1 << strategy.facts.lattice_bits
    steps = schedule.steps
    squared = strategy.squared_sensitivity() * unit**2
    try:
        columns = strategy.l1_sensitivity() * unit, squared
    except InvalidInputError:  # no finite 1-norm; the squared 2-norm of integer vectors bounds it
        columns = squared * steps, squared
    if any(column.denominator != 1 for column in columns):
        raise InvalidInputError(
            f"{strategy!r} states columns with entries in multiples of "
            f"2^-{strategy.facts.lattice_bits}, but its sensitivities (1-norm {columns[0] / unit}, "
            f"squared 2-norm {columns[1] / unit**2}) are impossible for such columns: correct "
            "facts.lattice_bits, or what its methods l1_sensitivity and squared_sensitivity return"
        )
    single = strategy.facts.unit_columns and steps == 1
    entries = ((unit, int(columns[0]) // unit),) if single else None
    return Sensitivity(*scaled_norms(int(columns[0]), int(columns[1]), by=steps), entries)


def sensitivity(
    strategy: _StepNodes,
    p: Norm,
    *,
    steps: int | None = None,
    separation: int = 1,
    every: int | None = None,
) -> float:
    """Return the most by which one unit moves all measurements together, in the p-norm.

    In one step it is the largest p-norm of a column of C; in several it is never below the exact
    value.

    Args:
        strategy: strategy of the stream.
        p: 1 or 2.
        steps, separation, every: as in `sensitivities`.

    Raises:
        InvalidInputError: ``p`` is neither 1 nor 2, the norm is not finite, or an argument out of
            range.

    >>> from counton.strategies import Binary
    >>> sensitivity(Binary(1000), 1)
    10.0
    """
    p = check_norm(p)
    if p == 1:
        strategy.l1_sensitivity()  # raises an error that says why there is none
    moved = sensitivities(strategy, steps=steps, separation=separation, every=every)
    exact = Fraction(
        moved.l1 if p == 1 else moved.l2_squared, 2 ** (p * strategy.facts.lattice_bits)
    )
    if steps in (None, 1) and every is None:
        return float(exact) if p == 1 else math.sqrt(exact)
    return float_above(exact) if p == 1 else root_above(exact)


def _either_bounds(l1: int, l2_squared: int) -> Sensitivity:
    """Return two upper bounds of an integer vector, each lowered if the other one implies less.

    An integer vector's squared 2-norm is at least its 1-norm, and at most its square.
    """
    return Sensitivity(min(l1, l2_squared), min(l2_squared, l1**2))


def check_norm(norm: object) -> Norm:
    """Return ``norm`` as a Python integer, 1 or 2."""
    if is_whole(norm):
        for known_norm in _NORMS:
            if norm == known_norm:
                return known_norm
    raise InvalidInputError(f"norm is {quote(norm)}; give 1 (Laplace noise) or 2 (Gaussian noise)")


def _horizon_of(strategy: _StepNodes) -> int:
    if strategy.horizon is None:
        raise InvalidInputError(
            f"{strategy!r} has no horizon, so the change by a unit has no bound: use a strategy "
            "with a horizon"
        )
    return strategy.horizon


def largest_sum(strategy: _StepNodes, norm: Norm, schedule: Schedule) -> int:
    """Return the most by which a unit on a schedule moves all measurements, or a bound.

    It is a 1-norm in units of 2^-lattice_bits, or a squared 2-norm in squared units.

    >>> from counton.strategies import Binary
    >>> largest_sum(Binary(16), 2, Schedule(3, 1, False))
    33
    """
    return _largest_sums(strategy, (norm,), schedule)[0]


def _largest_sums(
    strategy: _StepNodes, norms: tuple[Norm, ...], schedule: Schedule
) -> Sequence[int]:
    """Return `largest_sum` for several norms, whose common work is done once."""
    horizon = _horizon_of(strategy)
    structure = strategy.structure
    if structure.largest_sum is not None:
        return [structure.largest_sum(norm, schedule) for norm in norms]
    if structure.falling_series is not None:
        moved = _moved_by_first_steps(structure.falling_series, schedule)
        return [int(moved.sum()) if norm == 1 else exact_dot(moved, moved) for norm in norms]
    divided = bool(structure.divisions(None))
    if schedule.apart == 1 and schedule.steps == horizon and divided:
        return [_sensitivity_of_tree(strategy, norm) for norm in norms]
    if schedule.fixed:
        sums_by_starts = _sums_by_starts(strategy, norms, schedule)
        if sums_by_starts is not None:
            return [int(moved.max()) for moved in sums_by_starts]
    can_distribute = divided and schedule.steps <= _MOST_DISTRIBUTED_STEPS
    if can_distribute and schedule.apart == 1:
        return [_bound_by_distribution(strategy, norm, schedule) for norm in norms]
    if _few_sets(horizon, schedule):
        return [_sensitivity_by_sets(strategy, norm, schedule) for norm in norms]
    return [min(_bounds(strategy, norm, schedule)) for norm in norms]


def _moved_by_first_steps(series: Integers, schedule: Schedule) -> Integers:
    """Return the change by a unit whose steps begin at 1, as close together as allowed.

    No unit on the schedule has a larger norm if C is Toeplitz and its first column, ``series``,
    decreases.
    """
    rows = -(-len(series) // schedule.apart)
    padded = np.zeros(rows * schedule.apart, np.int64)
    padded[: len(series)] = series
    sums = np.cumsum(padded.reshape(rows, schedule.apart), axis=0)
    if schedule.steps < rows:
        sums[schedule.steps :] -= sums[: -schedule.steps].copy()
    return sums.reshape(-1)[: len(series)]


def pattern_sensitivity(strategy: _StepNodes, pattern: Pattern) -> Sensitivity:
    """Return the most by which a unit moves all measurements if counts change in a pattern.

    Both norms, in units of 2^-lattice_bits or their squares, are exact or upper bounds.

    >>> from counton.base.distributions import Run
    >>> from counton.strategies import SqrtToeplitz
    >>> word = Runs((Run(2), Run(1, 0, 1, 2), Run(1, 1, 1, 1)))
    >>> strategy = SqrtToeplitz(9)
    >>> unit = 4.0**strategy.facts.lattice_bits
    >>> pattern_sensitivity(strategy, word).l2_squared / unit < 8 * 1.7592
    True
    """
    # Runs have fixed distances from each other. All first steps are tried, which is exact, for
    # Toeplitz strategies, for trees on horizons up to 2^16, and for horizons up to 512 steps.
    # Otherwise each run is put at the place that is worst for it alone, which gives an upper bound.
    #
    # Alternating changes cancel where two of them enter one node. If nodes hold consecutive steps,
    # each change adds at most D_2^2, the largest squared 2-norm of a column. Changes in several
    # cells add up.
    #
    # A bounded change is at most a multiple of the worst column, by the definition of its norms. If
    # columns are not aligned (see `Structure`), runs and bounded changes are treated as if all
    # changes fell into one step.
    computed = _computed_sensitivities(strategy)
    if pattern in computed:
        return computed[pattern]
    single = sensitivities(strategy)
    if isinstance(pattern, BoundedChange):
        l1 = single.l1 * pattern.l1
        l2_squared = single.l2_squared * pattern.l2_squared
        if not strategy.structure.aligned():
            l2_squared = single.l2_squared * pattern.l1**2
    elif isinstance(pattern, Alternating):
        l1, l2_squared = (largest_alternating(strategy, norm, pattern.changes) for norm in _NORMS)
        norms_of_one_cell = scaled_norms(l1, l2_squared, by=pattern.size)
        l1, l2_squared = (pattern.cells * most for most in norms_of_one_cell)
    else:
        l1, l2_squared = (_sensitivity_of_runs(strategy, norm, pattern) for norm in _NORMS)
        if not strategy.structure.aligned():
            l2_squared = single.l2_squared * pattern.total**2
    computed[pattern] = _either_bounds(l1, l2_squared)
    return computed[pattern]


def _computed_sensitivities(strategy: _StepNodes) -> dict[object, Sensitivity]:
    """Return the sensitivities that were computed before, by schedule or pattern.

    They are kept in the strategy, because equal parameters may not identify one.
    """
    computed: dict[object, Sensitivity] = vars(strategy).setdefault("_computed_sensitivities", {})
    return computed


def columns_are_aligned(strategy: _StepNodes) -> bool:
    """Return whether the columns are aligned (`Structure.aligned`); False if the horizon is long.

    >>> from counton.strategies import Binary, Factorisation
    >>> columns_are_aligned(Binary(31)), columns_are_aligned(Factorisation([[1, 0], [-0.5, 1]]))
    (True, False)
    """
    if strategy.horizon is None or strategy.horizon > _LONGEST_WRITTEN_HORIZON:
        return False
    products = _gram(strategy)
    return not (products < 0).any() and all(
        (products[:q, q + 1 :] <= products[:q, q, None] + products[None, q, q + 1 :]).all()
        for q in range(1, len(products) - 1)
    )


def _sensitivity_of_runs(strategy: _StepNodes, norm: Norm, pattern: Runs) -> int:
    from_starts = cache(partial(sums_of_runs, strategy, norm))
    horizon = strategy.horizon
    if horizon is None or from_starts(1) is None:
        return sum(
            run.times
            * run.size**norm
            * largest_sum(strategy, norm, schedule_for(horizon, run.length, 1, None))
            for run in pattern.runs
        )
    first = np.arange(1, horizon + 1)
    most = 0
    for run in pattern.runs:
        moved = from_starts(min(run.length, horizon))
        assert moved is not None
        most += run.times * run.size**norm * int(moved.max())
    total = np.zeros(horizon, np.int64 if most < _LARGEST_SUM else object)
    for run in pattern.runs:
        begins = np.maximum(first + run.offset, run.since)
        lengths = np.minimum(first + run.offset + run.length, horizon + 1) - begins
        for length in np.unique(lengths[lengths > 0]).tolist():
            some = lengths == length
            moved = from_starts(length)
            assert moved is not None
            total[some] += run.times * run.size**norm * moved[begins[some] - 1].astype(total.dtype)
    if not total.max():
        raise InvalidInputError(
            f"runs are {pattern.runs!r}, and none of them begins within the horizon of {horizon:,} "
            "steps, so nothing changes: use a longer horizon"
        )
    return int(total.max())


def sums_of_runs(strategy: _StepNodes, norm: Norm, length: int) -> Integers | None:
    """Return, for each first step, how far ``length`` consecutive steps move the measurements.

    Shape (horizon,): 1-norms in units of 2^-lattice_bits, or squared 2-norms in squared units. A
    run ends at the horizon. None: the horizon is too long.

    >>> from counton.strategies import Binary
    >>> sums_of_runs(Binary(7), 1, 2).tolist()
    [5, 4, 3, 3, 3, 2, 1]
    """
    horizon = strategy.horizon
    assert horizon is not None
    series = strategy.structure.falling_series
    if series is not None:
        # A run moves later nodes by amounts that do not depend on its first step.
        moved = np.cumsum(series)
        moved[length:] -= moved[:-length].copy()
        largest = int(moved.max()) ** norm * horizon
        powers = moved.astype(np.int64 if largest < _LARGEST_SUM else object) ** norm
        return np.asarray(np.cumsum(powers)[::-1])
    sums = _sums_by_starts(strategy, (norm,), Schedule(length, 1, fixed=True))
    return None if sums is None else sums[0].ravel()


def largest_alternating(strategy: _StepNodes, norm: Norm, changes: int) -> int:
    """Return the most by which ``changes`` by +1 and -1 in turn move all measurements.

    It is exact or an upper bound: a 1-norm in units of 2^-lattice_bits, or a squared 2-norm.

    >>> from counton.strategies import Binary
    >>> largest_alternating(Binary(14), 2, 5), 5 * sensitivities(Binary(14)).l2_squared
    (12, 20)
    """
    horizon = _horizon_of(strategy)
    schedule = schedule_for(horizon, changes, 1, None)
    changes = schedule.steps
    if strategy.structure.divisions(None):
        if changes <= _MOST_DISTRIBUTED_STEPS:
            return _bound_by_distribution(strategy, norm, schedule, alternating=True)
        single = sensitivities(strategy)
        every_node = _sensitivity_of_tree(strategy, norm, alternating=True)
        return min(changes * (single.l1 if norm == 1 else single.l2_squared), every_node)
    if _few_sets(horizon, Schedule(changes, 1, fixed=False)):
        weights = written_out(strategy)
        if math.comb(horizon, changes) * len(weights) <= _MOST_ENTRIES:
            return _sensitivity_by_alternating_sets(weights, norm, changes)
    bounds = [largest_sum(strategy, norm, schedule)]
    if horizon <= _LONGEST_WRITTEN_HORIZON:
        bounds += _alternating_bounds(strategy, norm, changes)
    change_bound = _change_bound(strategy) if norm == 2 else None
    if change_bound is not None:
        bounds.append(changes * change_bound)
    return min(bounds)


def _change_bound(strategy: _StepNodes) -> int | None:
    """Return the stated bound on what each change adds to the squared 2-norm; None if none is."""
    # If C is Toeplitz and its first column decreases, the bound is the largest squared norm of a
    # column, because inner products of columns only fall with their distance.
    structure = strategy.structure
    if structure.falling_series is not None:
        return sensitivities(strategy).l2_squared
    return structure.change_bound() if structure.change_bound is not None else None


def _sensitivity_by_alternating_sets(weights: Integers, norm: Norm, changes: int) -> int:
    """Return the most by which changes by +1 and -1 in turn move, by trying all sets of steps."""
    steps = np.arange(weights.shape[1])
    columns = np.ascontiguousarray(weights.T)
    last = np.full(1, -1)
    sums = np.zeros((1, len(weights)), weights.dtype)
    best = 0
    for round_ in range(changes):
        which, added = np.nonzero(steps > last[:, None])
        sums = sums[which] + (-1) ** round_ * columns[added]
        last = added
        best = max(best, int((np.abs(sums) ** norm).sum(axis=1).max()))
    return best


def _alternating_bounds(strategy: _StepNodes, norm: Norm, changes: int) -> Iterator[int]:
    """Yield upper bounds of `largest_alternating` that hold for any matrix."""
    # The docstring of the module proves these bounds ("Rows" and "Products").
    variations, bounds_of_steps = _added_by_changes(strategy)
    yield int((variations**norm).sum())
    if norm == 2:
        for sums in bounds_of_steps:
            yield int(sums[-changes:].sum())


@lru_cache(maxsize=4)
def _added_by_changes(strategy: _StepNodes) -> tuple[Integers, list[Integers]]:
    """Return the terms of `_alternating_bounds`.

    First, shape (nodes,): the sum of all rises of each row of C, or of all falls if that is larger.
    Second, one or two arrays of shape (horizon,), ascending: bounds on what a change in each step
    adds to the squared 2-norm.
    """
    weights = written_out(strategy)
    products = _gram(strategy)
    differences = np.diff(weights, axis=1, append=0)
    rises = np.maximum(differences, 0).sum(axis=1)
    variations = np.maximum(rises, np.maximum(-differences, 0).sum(axis=1))
    bounds_of_steps = [variations @ np.abs(weights)]
    if not (products < 0).any():
        squares = np.diagonal(products)
        # First the rises of each column's products with later columns, then those with earlier
        # columns.
        rises = np.maximum(np.diff(products, axis=1), 0)
        bounds_of_steps.append(squares + 2 * np.triu(rises, 1).sum(axis=1))
        falls = np.maximum(-np.diff(products, axis=0), 0)
        bounds_of_steps.append(squares + 2 * np.triu(falls, 1).sum(axis=0))
    return variations, [np.sort(sums) for sums in bounds_of_steps]


def _bounds(strategy: _StepNodes, norm: Norm, schedule: Schedule) -> Iterator[int]:
    """Yield upper bounds of `largest_sum`, for where no faster or exact method applies."""
    k = schedule.steps
    horizon = strategy.horizon or 0
    single = sensitivities(strategy)
    yield k * single.l1 if norm == 1 else k * k * single.l2_squared
    divided = bool(strategy.structure.divisions(None))
    if divided and k <= _MOST_DISTRIBUTED_STEPS:
        yield _bound_by_distribution(strategy, norm, schedule)
    elif divided and norm == 2:
        yield _level_bound(strategy, schedule)
    if norm == 1:
        return
    if k > (_MOST_STEPS_OF_TREE_LAG_BOUND if divided else _MOST_STEPS_OF_LAG_BOUND):
        return
    overlaps = None
    if strategy.structure.overlaps is not None:
        overlaps = strategy.structure.overlaps(schedule)
    elif not divided and horizon <= _LONGEST_WRITTEN_HORIZON:
        # ``largest`` has, for each lag, the largest inner product of two columns at this distance;
        # ``largest_beyond``, at this distance or further apart.
        _, products = _products(strategy)
        largest = [np.diagonal(products, lag).max() for lag in range(horizon)]
        largest_beyond = np.maximum.accumulate(np.array(largest, products.dtype)[::-1])[::-1]
        overlaps = [int(largest_beyond[j * schedule.apart]) for j in range(1, k)]
    if overlaps is not None:
        yield k * single.l2_squared + 2 * sum(
            (k - j) * overlap for j, overlap in enumerate(overlaps, start=1)
        )


def _type_of_sums(strategy: _StepNodes, norm: Norm, members: int) -> np.dtype[Any]:
    """Return the dtype of sums over ``members`` steps: int64, or object if they are larger."""
    # The sum of n_v (a unit's weight in node v) is at most members * ||C||_1, and that of n_v^2 at
    # most its square.
    small = (members * sensitivities(strategy).l1) ** norm < _LARGEST_SUM
    return np.dtype(np.int64 if small else object)


# ------------------------------------------------------------------------------- trees


def level_weights(strategy: _StepNodes) -> dict[int, int]:
    """Return, by level of a tree, the magnitude of a count's weight, in units of 2^-lattice_bits.

    It is that of the first step; 2^lattice_bits where this one enters no node.

    >>> from counton.strategies import LookAhead
    >>> dict(level_weights(LookAhead(1000, radices=(12, 10), weights=(4, 4, 5))))
    {0: 4, 1: 4, 2: 5}
    """
    # All nodes of a level have one weight, so the first step shows it.
    unit = 1 << strategy.facts.lattice_bits
    weights_of_first_step = {
        level: abs(int(weight * unit)) for level, _, weight in strategy.column(1)
    }
    return defaultdict(lambda: unit, weights_of_first_step)


class _Most(NamedTuple):
    """How far m steps of a unit in one part of a tree move its nodes at most, by m.

    ``sums[m]`` is the largest sum over its nodes v of n_v, or of n_v^2, with n_v the weights of the
    unit's steps in v. ``together``: sums[a] + sums[b] <= sums[a + b] is known, so the worst case in
    two equal parts has all steps in one of them.
    """

    sums: Integers
    together: bool = False


def _bound_by_distribution(
    strategy: _StepNodes, norm: Norm, schedule: Schedule, *, alternating: bool = False
) -> int:
    """Return the most by which a unit moves a tree, over all ways to distribute its steps.

    Each part holds at most as many steps as the schedule's least distance allows. The result is the
    largest sum over nodes v of n_v or of n_v^2, with n_v the weights of the unit's steps in v. If
    ``alternating``, n_v is the weight of one step if v has an odd number of them, else 0.
    """
    most = schedule.steps
    sum_dtype = _type_of_sums(strategy, norm, most)
    members = np.arange(most + 1).astype(sum_dtype)
    powers = members % 2 if alternating else members**norm
    weights = level_weights(strategy)
    divisions_of = strategy.structure.divisions

    @cache
    def best(part: Stretch) -> _Most:
        room = min(most, -(-part.steps // schedule.apart))
        divisions = divisions_of(part)
        # A part without divisions is a single step, so it holds 0 or 1 of the unit's steps.
        sums, together = share_out(divisions, room) if divisions else _Most(np.zeros(2, sum_dtype))
        weight: int = part.nodes * weights[part.level] ** norm
        sums = sums + weight * powers[: len(sums)]
        together = together and not alternating  # n_v^2 preserves it, n_v modulo 2 may not
        if not together and len(sums) > most:
            together = bool((_best_shares(sums, sums, most) <= sums).all())
        return _Most(sums, together)

    def share_out(divisions: Sequence[tuple[Stretch, int]], room: int) -> _Most:
        total = _Most(np.zeros(1, sum_dtype))
        for division, times in divisions:
            shares = best(division)
            more = (
                shares if shares.together else _Most(_repeat(shares.sums, min(times, room), room))
            )
            total = _worst_of_both(total, more, room)
        return total

    return int(share_out(divisions_of(None), most).sums.max())


def _worst_of_both(left: _Most, right: _Most, room: int) -> _Most:
    """Return the worst case of two parts together, for 0 to ``room`` steps."""
    # If all steps in one part is the worst case, they all go to the part with the larger sums.
    for winner, other in ((left, right), (right, left)):
        if len(other.sums) == 1 and not other.sums[0]:
            return winner
        if winner.together and (winner.sums[: len(other.sums)] >= other.sums).all():
            return winner
    return _Most(_best_shares(left.sums, right.sums, room))


def _sensitivity_of_tree(strategy: _StepNodes, norm: Norm, *, alternating: bool = False) -> int:
    """Return how far a unit that counts in every step moves a tree.

    It is the sum over nodes v of n_v or of n_v^2, with n_v the sum of all weights in v; an upper
    bound, with the weight of one step, if ``alternating``.
    """
    weights = level_weights(strategy)
    divisions_of = strategy.structure.divisions

    @cache
    def total(part: Stretch | None) -> int:
        held = 0
        if part is not None:
            held = (
                part.nodes * weights[part.level] ** norm * (1 if alternating else part.steps**norm)
            )
        return held + sum(times * total(divided) for divided, times in divisions_of(part))

    return total(None)


def _repeat(best: Integers, times: int, room: int) -> Integers:
    """Return the worst case of ``times`` equal parts together, for 0 to ``room`` steps."""
    result = np.zeros(1, best.dtype)
    while times:
        if times & 1:
            result = _best_shares(result, best, room)
        times >>= 1
        if times:
            best = _best_shares(best, best, room)
    return result


def _best_shares(left: Integers, right: Integers, room: int) -> Integers:
    """Return, for m = 0, 1, .. ``room``, the maximum over i of left[i] + right[m - i].

    >>> _best_shares(np.array([0, 1, 4]), np.array([0, 3]), 9).tolist()
    [0, 3, 4, 7]
    """
    if len(left) > len(right):
        left, right = right, left
    count = min(len(left) + len(right) - 1, room + 1)
    if len(left) == 1:
        return np.asarray(right[:count] + left[0])
    impossible = -math.inf if right.dtype == object else _IMPOSSIBLE_SUM
    bent = (_bends(left), _bends(right)) if len(left) > _MOST_STEPS_OF_SMALL_PART else ([], [])
    if 0 < 2 * (len(bent[0]) + len(bent[1])) < len(left):
        total = np.full(count, impossible, right.dtype)
        for longer, other, bends in ((left, right, bent[0]), (right, left, bent[1])):
            for bend in bends:
                sums = total[bend : bend + len(other)]
                np.maximum(sums, other[: len(sums)] + longer[bend], out=sums)
        return total
    padded = np.full(len(left) - 1 + max(count, len(right)), impossible, right.dtype)
    padded[len(left) - 1 : len(left) - 1 + len(right)] = right
    # Row m holds right[m - len(left) + 1 .. m]; built directly, because it is built very often.
    if right.dtype == object:
        windows = np.lib.stride_tricks.sliding_window_view(padded, len(left))[:count]
    else:
        windows = np.ndarray((count, len(left)), np.int64, padded, 0, (8, 8))
    return np.asarray((windows + left[::-1]).max(axis=1))


def _bends(sums: Integers) -> list[int]:
    """Return the ends of a sequence and, between them, the indices at which its slope decreases.

    >>> _bends(np.array([0, 1, 4, 9, 10]))
    [0, 3, 4]
    """
    # The maximum of left[i] + right[m - i] over i is taken where i or m - i is one of these
    # indices, since the sum is convex in between.
    inner = np.flatnonzero(2 * sums[1:-1] > sums[:-2] + sums[2:]) + 1
    return [0, *inner.tolist(), len(sums) - 1]


def _level_bound(strategy: _StepNodes, schedule: Schedule) -> int:
    """Return a bound on the squared 2-norm by which a unit with several steps moves a tree.

    It adds up the largest squared norm on each level, over all ways to distribute the steps there.
    """
    # Let the nodes of a level have weight w, and hold at most m of the unit's k steps each. The
    # level's largest value is w^2 (q m^2 + r^2), with (q, r) = divmod(k, m).
    widest: dict[int, int] = {}
    divisions_of = strategy.structure.divisions
    waiting: list[Stretch | None] = [None]
    seen = {*waiting}
    while waiting:
        for part, _ in divisions_of(waiting.pop()):
            if part.nodes:
                widest[part.level] = max(widest.get(part.level, 0), part.steps)
            if part not in seen:
                seen.add(part)
                waiting.append(part)
    total = 0
    weights = level_weights(strategy)
    for level, steps in widest.items():
        room = min(schedule.steps, -(-steps // schedule.apart))
        full, rest = divmod(schedule.steps, room)
        total += weights[level] ** 2 * (full * room**2 + rest**2)
    return total


# ------------------------------------------------------------------------- written-out columns


@lru_cache(maxsize=4)
def _products(strategy: _StepNodes) -> tuple[Integers, Integers]:
    """Return the 1-norms of the columns of C, and the magnitudes of their inner products."""
    # Arrays are int64 if all sums of their entries fit, else of Python integers.
    lengths = np.abs(written_out(strategy)).sum(axis=0)
    products = np.abs(_gram(strategy))
    lengths.flags.writeable = products.flags.writeable = False
    return lengths, products


@lru_cache(maxsize=4)
def _gram(strategy: _StepNodes) -> Integers:
    """Return C^T C, shape (horizon, horizon), in squared units of 2^-lattice_bits."""
    weights = written_out(strategy)
    longest = int(np.abs(weights).sum(axis=0).max(initial=0))
    if longest**2 < 2**52:
        reals = weights.astype(np.float64)  # exact, and faster to multiply
        products = (reals.T @ reals).astype(np.int64).astype(weights.dtype)
    else:
        products = weights.T @ weights
    products.flags.writeable = False
    return products


@lru_cache(maxsize=4)
def written_out(strategy: _StepNodes) -> Integers:
    """Return C, shape (nodes, horizon), in units of 2^-lattice_bits; int64 if all sums fit."""
    horizon = strategy.horizon
    assert horizon is not None
    unit = 1 << strategy.facts.lattice_bits
    columns = [
        {
            (level, index): weight * unit if type(weight) is int else int(Fraction(weight) * unit)
            for level, index, weight in strategy.column(step)
        }
        for step in range(1, horizon + 1)
    ]
    nodes = {node: index for index, node in enumerate(sorted(set().union(*columns)))}
    weights = np.zeros((len(nodes), horizon), object)
    for step, column in enumerate(columns):
        weights[[nodes[node] for node in column], step] = list(column.values())
    # Every sum of products is at most the square of the sum of all lengths.
    longest = int(np.abs(weights).sum(axis=0).max(initial=0))
    small = (longest * horizon) ** 2 < _LARGEST_SUM
    row = weights.astype(np.int64) if small else weights
    row.flags.writeable = False
    return row


def _few_sets(horizon: int, schedule: Schedule) -> bool:
    """Return whether a unit has so few possible sets of steps that all can be tried."""
    if horizon > _LONGEST_TRIED_HORIZON:
        return False
    total = 0
    for size in range(1, schedule.steps + 1):
        total += math.comb(horizon - (size - 1) * (schedule.apart - 1), size)
        if total > _MOST_SETS:
            return False
    return True


def _sensitivity_by_sets(strategy: _StepNodes, norm: Norm, schedule: Schedule) -> int:
    """Return `largest_sum` by trying all allowed sets of steps."""
    lengths, products = _products(strategy)
    horizon = len(lengths)
    if norm == 1:
        # 1-norms of steps add up. before[t]: the largest sum of the chosen steps if all come at
        # least ``apart`` before t.
        before = np.zeros(horizon + schedule.apart, lengths.dtype)
        for _ in range(schedule.steps):
            before[schedule.apart :] = np.maximum.accumulate(lengths + before[:horizon])
        return int(before[-1])
    steps = np.arange(horizon)
    last = np.full(1, -schedule.apart)
    sums = np.zeros(1, products.dtype)
    set_products = np.zeros(
        (1, horizon), products.dtype
    )  # for every t, the sum over the set of G_st
    best = 0
    # Each pass adds one step to every set.
    for further in reversed(range(schedule.steps)):
        which, added = np.nonzero(steps >= last[:, None] + schedule.apart)
        if not len(which):
            break
        sums = sums[which] + 2 * set_products[which, added] + products[added, added]
        best = max(best, int(sums.max()))
        if further:
            last = added
            set_products = set_products[which] + products[added]
    return best


# ------------------------------------------------------------------------------- fixed schedules


def _sums_by_starts(
    strategy: _StepNodes, norms: tuple[Norm, ...], schedule: Schedule
) -> list[Integers] | None:
    """Return, by norm and first step, how far a unit on a fixed schedule moves the measurements.

    None: the horizon is too long. First come the steps 1, 1 + apart, ..., then 2, 2 + apart, ....
    """
    horizon = strategy.horizon
    assert horizon is not None
    k = schedule.steps
    apart = schedule.apart
    levels = strategy.structure.nodes_by_level() if horizon <= _LONGEST_SCHEDULED_HORIZON else None
    if levels is None:
        if horizon > _LONGEST_WRITTEN_HORIZON:
            return None
        lengths, products = _products(strategy)
        classes = [slice(i, None, apart) for i in range(min(apart, horizon))]
        moved = {
            1: lambda steps: _sums_of_next(lengths[steps], k),
            2: lambda steps: _sums_of_squares(products[steps, steps], k),
        }
        return [np.concatenate([moved[norm](steps) for steps in classes]) for norm in norms]
    # Each row has the steps with one remainder modulo ``apart``; a schedule is k consecutive places
    # of a row.
    width = -(-horizon // apart)
    padding = np.full(width * apart - horizon, -1)
    types = [_type_of_sums(strategy, norm, min(k, width)) for norm in norms]
    total = [np.zeros((apart, width), sum_dtype) for sum_dtype in types]
    weights = level_weights(strategy)
    for level, nodes in enumerate(levels):
        rows = np.concatenate([nodes, padding]).reshape(width, apart).T
        for norm, sums in zip(norms, total, strict=True):
            sums += weights[level] ** norm * _windows(rows, k, norm).astype(sums.dtype)
    return total


def _sums_of_next(numbers: Integers, count: int) -> Integers:
    """Return, for each index, the sum of the next ``count`` numbers, or of all that are left.

    >>> _sums_of_next(np.array([1, 2, 4]), 2).tolist()
    [3, 6, 4]
    """
    total = np.concatenate([np.zeros(1, numbers.dtype), np.cumsum(numbers)])
    indices = np.arange(len(numbers))
    return np.asarray(total[np.minimum(indices + count, len(numbers))] - total[:-1])


def _sums_of_squares(numbers: Integers, count: int) -> Integers:
    """Return the sums of the blocks of ``count`` rows and columns along a matrix's diagonal.

    A block ends at the edge of the matrix.

    >>> _sums_of_squares(np.array([[1, 2, 0], [2, 5, 3], [0, 3, 6]]), 2).tolist()
    [10, 17, 6]
    """
    size = len(numbers)
    total = np.zeros((size + 1, size + 1), numbers.dtype)
    total[1:, 1:] = numbers.cumsum(axis=0).cumsum(axis=1)
    first = np.arange(size)
    last = np.minimum(first + count, size)
    products = total[first, last] + total[last, first]
    return np.asarray(total[last, last] - products + total[first, first])


def _windows(node: Integers, k: int, norm: Norm) -> Integers:
    """Return how far ``k`` consecutive steps of a series move one level of a tree, by first step.

    A row of ``node`` is a series, such as every 7th step: indices of the nodes entered, equal ones
    side by side, or -1. An entry of the result is the sum of n_v^norm over the nodes v of the row,
    where n_v of the k steps enter v. Steps beyond the end of a row are left out.

    >>> _windows(np.array([[0, 0, 0, -1, 1, 1]]), 3, 2).tolist()
    [[9, 4, 2, 4, 4, 1]]
    """
    width = node.shape[1]
    offsets = np.arange(width)
    held = node >= 0
    stop = np.minimum(offsets + k, width)
    total = np.zeros((len(node), width + 1), np.int64)
    if norm == 1:
        np.cumsum(held, axis=1, out=total[:, 1:])
        return np.asarray(total.take(stop, axis=1) - total[:, :-1])
    change = np.ones(total.shape, bool)
    change[:, 1:-1] = node[:, 1:] != node[:, :-1]
    begins = np.maximum.accumulate(np.where(change[:, :-1], offsets, 0), axis=1)
    # The sum over all places of a run up to one place is 1 + 3 + 5 + .., a square.
    np.cumsum((2 * (offsets - begins) + 1) * held, axis=1, out=total[:, 1:])
    ends = np.where(change[:, 1:], offsets + 1, width)
    first_end = np.minimum(np.minimum.accumulate(ends[:, ::-1], axis=1)[:, ::-1], stop)
    first = ((first_end - offsets) * held) ** 2
    return np.asarray(first + total.take(stop, axis=1) - np.take_along_axis(total, first_end, 1))
