"""Strategies: the matrix C of the measurements, and the sensitivity of C to one protected unit.

Every strategy measures y = C x + z: x are exact counts, z has one independent draw of noise for
each row of C, which is called a *node*. A release is a function of y alone. `Strategy` has the
parameters and norms of C. `StreamStrategy` adds B, with A = B C, where A are the sums over time
that are released. Strategies for lines and trees are in ``counton.tables``. A strategy is pure
mathematics: no randomness, no data, no privacy.

A strategy for a stream defines exactly:

- its identity: `saved_name`, `parameters`, `to_dict`, `sources`, `examples`;
- A, the grids of its numbers and further facts: `horizon`, `facts`;
- C: `column`, `structure`, and its norms `l1_sensitivity`, `squared_sensitivity`;
- B: `row`;
- errors: `variance`, `overall_variance`;
- noise: `noise`.

Further members have defaults: `_reader` and `step_reader` (the noise of a running stream),
`largest_reads` (how large the weights of noise are) and `_check_distribution` (which noise is too
wide). `EndlessStrategy` adds the members of strategies without a last step. Everything else is a
function of a strategy, such as `window_rounding` (how far rounding moves releases).
``joint_errors`` has variances of drawn noise and of several releases together, ``participation``
the sensitivity to units that count in several steps, or come and go.
"""

from __future__ import annotations

import inspect
import math
from abc import ABC, abstractmethod
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from fractions import Fraction
from functools import cache
from types import ModuleType
from typing import Any, ClassVar, Literal, NamedTuple, Protocol, Self, TypeVar

import numpy as np
from numpy.typing import NDArray

from counton.base.arrays import Floats, Integers
from counton.base.distributions import (
    NoiseDistribution,
    Sensitivity,
)
from counton.base.errors import HorizonExceededError, InvalidInputError
from counton.base.exact import check_integer, check_sequence, quote
from counton.strategies import participation
from counton.strategies.participation import Norm as Norm

#: Numbers processed at a time (chosen by measurement; results never depend on it).
NUMBERS_PER_PART = 2**17
#: From this many coordinates on, the noise of nodes is added row by row.
FEWEST_WIDE_COORDINATES = 512


def nodes_per_chunk(shape: tuple[int, ...], numbers: int = NUMBERS_PER_PART) -> int:
    """Return how many nodes' noise of this shape has at most ``numbers`` numbers; at least 1."""
    return max(1, numbers // max(1, math.prod(shape)))


def add_up(rows: Integers, before: Integers | None = None, out: Integers | None = None) -> Integers:
    """Write the running sums of rows, which begin at ``before``, to ``out``; return the last.

    Without ``out`` they take the place of the rows.
    """
    # Wide rows, or a single one, are added one by one, because numpy's cumsum adds up each
    # coordinate separately, which is slower for them.
    out = rows if out is None else out
    if len(rows) == 1 or math.prod(rows.shape[1:]) >= FEWEST_WIDE_COORDINATES:
        for i in range(len(rows)):
            before = np.add(rows[i : i + 1], 0 if before is None else before, out=out[i : i + 1])
    else:
        np.cumsum(rows, axis=0, out=out)
        if before is not None:
            out += before
    last: Integers = out[-1]
    return last


_Base = TypeVar("_Base")
_Strategy = TypeVar("_Strategy", bound="Strategy")

Metric = Literal["mean", "max"]
#: How neighbouring datasets differ: a unit is present or absent, or it moves to another cell.
Relation = Literal["add_remove", "move"]
#: What a strategy releases: totals so far, or each step's own count.
StrategyReleaseForm = Literal["totals", "windows"]
#: What a plan makes accurate: totals, each step's own count (a difference of totals), or both.
ReleaseForm = Literal["totals", "windows", "both"]

#: One step or many.
Steps = int | Iterable[int] | NDArray[np.int64]

#: Node numbers and steps stay below this, so that int64 arithmetic on them cannot overflow.
LARGEST_HORIZON = 2**62
#: Most steps of a stream, or cells of a line, for which matrices are written out.
LARGEST_DENSE = 4096
#: Most steps whose variances are computed one by one for a mean over all of them.
_MOST_ENUMERATED_STEPS = 2**22
#: Steps of an endless stream whose variances are computed together.
_STEPS_PER_VARIANCES = 2**20
#: Most steps in one query.
_MOST_QUERIED_STEPS = 2**28


class Node(NamedTuple):
    """One noisy measurement, named by level and index, with a weight.

    In a column of C, ``weight`` is that of a count in the measurement; in a row of B, that of its
    noise in a release.

    >>> from counton.strategies import Binary
    >>> Binary(31).row(5)
    (Node(level=2, index=0, weight=1), Node(level=0, index=2, weight=1))
    """

    level: int
    index: int  # type: ignore[assignment]  # a tuple has a method of this name
    weight: int | Fraction


class NodeNoise(Protocol):
    """A source of noise: it gives every node an array of independent integers.

    They are in units of ``2**-lattice_bits``, which the strategy's ``facts`` state.
    """

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of the noise of one node; () for a scalar stream."""
        ...

    def run(self, level: int, nodes: range) -> NDArray[np.int64]:
        """Return the noise of nodes of a level: int64, shape ``(len(nodes), *self.shape)``.

        Args:
            level: level of the nodes, from 0.
            nodes: consecutive indices of nodes, from 0.
        """
        ...


class NoiseView(NamedTuple):
    """A `NodeNoise` that takes its numbers from another source, under other levels and indices."""

    shape: tuple[int, ...]
    run: Callable[[int, range], Integers]


@cache  # not when a class is made: a decorator such as dataclass may add its constructor later
def _arguments(strategy_class: type) -> tuple[str, ...]:
    return tuple(inspect.signature(strategy_class).parameters)


class Strategy(ABC):
    """A measurement matrix C for the steps of a stream or a training run, or the cells of a table.

    Attributes:
        sources: keys of papers in `counton.base.literature` that describe the strategy.
        saved_name: its name in saved states and in noise addresses, so it never changes. Default:
            the name of the class.
    """

    sources: tuple[str, ...] = ()
    saved_name: ClassVar[str]

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        if "saved_name" not in vars(cls):
            cls.saved_name = cls.__name__

    @property
    def parameters(self) -> dict[str, Any]:
        """JSON values that identify C; they are part of the noise address.

        The default are the attributes named like the constructor's arguments.
        """
        values = {name: getattr(self, name) for name in _arguments(type(self))}
        return {n: list(v) if isinstance(v, tuple) else v for n, v in values.items()}

    def to_dict(self) -> dict[str, Any]:
        """Return name and parameters as JSON values, from which the strategy can be rebuilt.

        >>> from counton.strategies import Binary
        >>> Binary(1000).to_dict()
        {'strategy': 'Binary', 'horizon': 1000}
        """
        return {"strategy": self.saved_name, **self.parameters}

    @classmethod
    def _from_description(cls, *_: Any, **parameters: Any) -> Self:
        """Rebuild the strategy from what `to_dict` wrote, without the name.

        A strategy overrides it if `to_dict` holds more than the constructor's arguments.
        """
        return cls(**parameters)

    def __repr__(self) -> str:
        arguments = ", ".join(f"{name}={value!r}" for name, value in self.parameters.items())
        return f"{self.saved_name}({arguments})"

    def __eq__(self, other: object) -> bool:
        return type(other) is type(self) and other.parameters == self.parameters

    def __hash__(self) -> int:
        return hash(repr(self))


class StrategyFacts(NamedTuple):
    """Facts about a strategy for streams, besides its matrices B and C.

    Attributes:
        release: what a release is. "totals": the sum of all items so far. "windows": the step's
            own item.
        lattice_bits: C x and z are multiples of ``2**-lattice_bits``, so C x is exact in integers.
        fraction_bits: B z is a multiple of ``2**-fraction_bits``. If B has fractions, it is rounded
            in such a way that a release is still a function of y = C x + z alone.
        unit_columns: whether all non-zero entries of C are +1 or -1.
        unit_rows: whether each node's noise has the weight +1 or -1 in the counts of steps, so that
            a variance is a number of nodes.
        attained: whether some column attains the stated sensitivities, which else are proven
            bounds.
        causal: whether, for every i, no release before step i contains noise of a node that item i
            enters. Then an attacker who chooses item i after seeing earlier releases has seen
            nothing of the noise that hides it: a privacy bound for an item at a fixed step also
            holds at a chosen step. If not, noise is calibrated to an attacker who has seen part of
            it.
        delay: the release at ``step`` counts items up to ``step - delay``.
        last_step: without a horizon, the last step that has nodes; None: no limit.
        local: whether noise takes time proportional to the length of a window, not to its last
            step.
        buffer_size: noise values that a running stream keeps for each coordinate.
        drawn_ahead: noise values drawn for each coordinate before the first release; 0 if few.
        rounding_variance: the most variance, in squared data units, that rounding adds to a
            release; 0 if it is too fine to matter.
        reads_another: whether the strategy only describes other sums of another strategy's
            releases, so that no stream starts with it.
        corrections: how many times a unit may replace its rows; sensitivities include them.
        versions: numbers that a running stream releases for each cell at a step: 1, or the counts
            of several recent windows, which late rows still change.

    >>> from counton.strategies import Binary, Expiring
    >>> Binary(31).facts.causal, Expiring(delay=3).facts.delay
    (True, 3)
    """

    release: StrategyReleaseForm = "totals"
    lattice_bits: int = 0
    fraction_bits: int = 0
    unit_columns: bool = True
    unit_rows: bool = False
    attained: bool = True
    causal: bool = False
    delay: int = 0
    last_step: int | None = None
    local: bool = True
    buffer_size: int = 0
    drawn_ahead: int = 0
    rounding_variance: float = 0.0
    versions: int = 1
    corrections: int = 0
    reads_another: bool = False


class StreamStrategy(Strategy):
    """A way to release running totals or counts of steps with noise, by a factorisation A = B C.

    A are the sums to release. The count of ``step`` enters the nodes of ``column(step)``, a column
    of C. The release at ``step`` is its exact number plus the noise of the nodes of ``row(step)``,
    a row of B. Steps count from 1.

    A strategy implements its horizon, `column` and `row`. It may override others by faster forms,
    and the checks that keep rounding and wide noise exact (`_check_distribution`,
    `_window_rounding`); ``counton.testing`` compares them with the defaults.

    Attributes:
        horizon: number of steps of the stream; None if unbounded.
        facts: which sums are released, the grids of numbers, and further facts.
    """

    horizon: int | None
    facts: StrategyFacts = StrategyFacts()

    @classmethod
    def examples(cls, horizon: int) -> Sequence[StreamStrategy]:
        """Return instances that serve ``horizon`` steps, for the tests in ``counton.testing``.

        Args:
            horizon: number of steps that each instance must serve, from 1.
        """
        return (cls(horizon),)  # type: ignore[call-arg]

    # ------------------------------------------------------------------- C, and how long it is

    @abstractmethod
    def column(self, step: int) -> tuple[Node, ...]:
        """Return the nodes that the count of ``step`` enters: column ``step`` of C.

        Args:
            step: step of the stream, from 1 to the horizon.
        """

    def _summed_variance(self, stops: Integers, weights: Floats) -> float | None:
        """Return the variance of a weighted sum of totals, in units of one node's.

        None: there is no faster way than by the rows of B.
        """
        return None

    def _decayed_variance(self, factor: float, steps: Integers) -> Floats | None:
        """Return the variances of sums with the weight factor^age, in units of one node's.

        None: there is no faster way than by the variances of all windows.
        """
        return None

    def _powers_of_columns(self, power: Literal[1, 2]) -> Iterator[Fraction]:
        if self.horizon is None or self.horizon > LARGEST_DENSE:
            raise InvalidInputError(
                f"the sensitivity of {self!r} would be found by comparing its columns one by one, "
                f"which is possible only up to {LARGEST_DENSE} steps: define the methods "
                "l1_sensitivity and squared_sensitivity in its class"
            )
        for step in range(1, self.horizon + 1):
            weights = (abs(Fraction(node.weight)) for node in self.column(step))
            yield sum((weight**power for weight in weights), Fraction())

    def l1_sensitivity(self) -> Fraction:
        """Return the largest 1-norm of a column of C, exactly.

        A strategy without a finite one raises InvalidInputError; it works with Gaussian noise only.
        """
        return max(self._powers_of_columns(1))

    def squared_sensitivity(self) -> Fraction:
        """Return the largest squared 2-norm of a column of C, exactly."""
        return self.l1_sensitivity() if self.facts.unit_columns else max(self._powers_of_columns(2))

    @property
    def structure(self) -> participation.Structure:
        """Facts about all columns of C, for the sensitivity to units in several steps."""
        return participation.Structure(aligned=lambda: participation.columns_are_aligned(self))

    # ------------------------------------------------------------------------ B, and how wide

    @abstractmethod
    def row(self, step: int) -> tuple[Node, ...]:
        """Return the nodes whose noise is in the release at ``step``: row ``step`` of B.

        Args:
            step: step of the stream, from 1 to the horizon.
        """

    def _float_rows(self, steps: int) -> tuple[list[tuple[int, int]], Floats]:
        """Return the nodes of the first ``steps`` rows of B, and these rows in float64.

        The rows have the shape (steps, nodes).
        """
        rows = [self.row(step) for step in range(1, steps + 1)]
        nodes = sorted({node[:2] for row in rows for node in row})
        index_of = {node: i for i, node in enumerate(nodes)}
        weights = np.zeros((steps, len(nodes)))
        for i, row in enumerate(rows):
            for node in row:
                weights[i, index_of[node[:2]]] += float(node.weight)
        return nodes, weights

    def variance(self, steps: Steps, since: Steps | None = None) -> NDArray[np.float64]:
        """Return the variance of the releases at ``steps``, in units of one node's noise variance.

        Args:
            steps: steps from 1 on, in any shape.
            since: earlier steps, from 0 on, of a shape that broadcasts with ``steps``, which may be
                0 too: the variance is then that of the released numbers of the steps since + 1 ..
                step.

        Raises:
            InvalidInputError: steps that are not integers, below 1, or in the wrong order.
            HorizonExceededError: a step beyond the horizon.

        >>> from counton.strategies import Binary
        >>> tree = Binary(31)
        >>> tree.variance([15]).tolist(), tree.variance(15, since=[0, 14, 15]).tolist()
        ([4.0], [4.0, 1.0, 0.0])
        """
        starts, stops = window_ends(self, steps, since)
        pairs = zip(starts.ravel().tolist(), stops.ravel().tolist(), strict=True)
        variances = [read_variance(self, window_rows(self, start, stop)) for start, stop in pairs]
        return np.array(variances, dtype=np.float64).reshape(starts.shape)

    def for_estimates(self) -> StreamStrategy:
        """Return an equal strategy whose variances take less time and may differ by 1e-8."""
        return self

    def overall_variance(self, metric: Metric, of: StrategyReleaseForm = "totals") -> float:
        """Return the exact mean or maximum of variances, in units of one node's noise variance.

        Args:
            metric: "mean" over all steps, or "max" for the largest.
            of: "totals" for the releases, "windows" for the counts of single steps; equal if these
                are the releases.

        Raises:
            InvalidInputError: an unknown metric, no horizon, or one above 2^22 whose steps need
                computing one by one.
        """
        check_metric(metric)
        if self.horizon is None:
            raise InvalidInputError(
                f"{self!r} serves a stream without an end, so there is no mean over all steps; use "
                "mean_variance(steps) or variance([step])"
            )
        if self.horizon > _MOST_ENUMERATED_STEPS:
            raise InvalidInputError(
                f"the mean variance of {self!r} cannot be computed over more than "
                f"{_MOST_ENUMERATED_STEPS:,} steps: use a tree such as KAry"
            )
        steps = np.arange(1, self.horizon + 1)
        variances = self.variance(steps, steps - 1 if of == "windows" else None)
        return float(variances.max() if metric == "max" else variances.mean())

    # ------------------------------------------------------------------------------- the noise

    def noise(self, field: NodeNoise, steps: range) -> NDArray[np.int64]:
        """Return the noise of the releases at consecutive steps, from the noise of nodes.

        int64, shape ``(len(steps), *field.shape)``, in units of ``2**-fraction_bits``. It does not
        depend on the window in which it is computed.

        Args:
            field: source of the noise of nodes; its shape is that of the exact numbers of one step.
            steps: consecutive steps, from 1 on.

        Raises:
            InvalidInputError: steps that are not a range of consecutive steps.
            HorizonExceededError: a step beyond the horizon.
        """
        if type(self)._reader is not StreamStrategy._reader:
            return self._reader(field).noise(steps)
        # This needs rows of B with integers; a strategy with fractions rounds.
        return read_noise(self, field, check_window(self, steps))

    # ------------------------------------ called by the functions below, and by no other code

    @property
    def _largest_read(self) -> float:
        """Largest weight of one node's noise in any release; by default of the first release."""
        return max((abs(float(node.weight)) for node in self.row(1)), default=1.0)

    def _level_widths(self) -> dict[int, int]:
        """Return how many nodes each level needs: one more than the largest index of a node.

        All rows of B and columns of C are computed; a strategy with long rows overrides this.
        """
        steps = range(1, (self.horizon or 0) + 1)
        return widths_of(nodes for step in steps for nodes in (self.column(step), self.row(step)))

    def largest_reads(self, stops: Integers) -> Floats:
        """Return, for each of ``stops``, a bound on a node's weight in the releases up to it.

        The weight of wider noise is multiplied by its width, relative to the calibrated noise.
        """
        return np.full(stops.shape, self._largest_read)

    def _read_until(self, step: int) -> float:
        """Return a bound on a node's weight in the releases up to ``step``."""
        return float(self.largest_reads(np.array([step]))[0])

    def _reader(self, field: NodeNoise) -> Reader:
        """Return the object that computes the noise of one running stream, window after window.

        It belongs to one stream, because it may keep secret noise between calls.

        >>> from counton.strategies import Binary
        >>> from counton.testing import HashedNoise
        >>> Binary(7)._reader(HashedNoise(spread=9)).noise(range(1, 4)).shape
        (3,)
        """
        return Reader(self, field)

    def step_reader(self, field: NodeNoise) -> Reader:
        """Return the object that computes all values that a running stream releases at a step.

        A last axis is for the windows whose counts a step releases, if there are several.
        """
        return self._reader(field)

    def _window_rounding(self, first: Integers, last: Integers) -> Floats:
        """Return the most by which rounding moves the counts of the steps first + 1 .. last.

        In units of ``2**-fraction_bits``; by default `_release_rounding` for each release used.
        """
        windows = self.facts.release == "windows"
        releases = last - first if windows else (first > 0) * 1 + (last > first)
        return np.asarray(releases * self._release_rounding, dtype=np.float64)

    @property
    def _release_rounding(self) -> float:
        """Largest change of a release by rounding, in units of ``2**-fraction_bits``: 0.5 or 0."""
        return 0.5 if self.facts.fraction_bits else 0.0

    def _check_distribution(self, distribution: NoiseDistribution) -> None:
        """Refuse noise so wide that the sum of noise in some release could overflow int64.

        Called before a stream begins, so every stream that begins can make all its releases.
        """


class EndlessStrategy(StreamStrategy):
    """A strategy for a stream without a known last step.

    Nodes of later levels may have wider noise than those of level 0, whose variance is the unit of
    variances; with the calibrated distribution ``distribution`` they are in squared data units.
    Means and maxima are over a given number of first steps.
    """

    horizon = None

    @abstractmethod
    def column(self, step: int, last: int | None = None) -> tuple[Node, ...]:
        """Return the nodes that the count enters, with noise in some release up to ``last``.

        Args:
            step: step of the stream, from 1.
            last: the last release that is considered. Default: all releases of the stream.

        Raises:
            InvalidInputError: the count enters infinitely many nodes, and ``last`` is not given.
        """

    def _check_end(self, last: int | None) -> int:
        """Return ``last`` as a checked step of the stream."""
        # Called by strategies in which a count enters infinitely many nodes.
        if last is None:
            raise InvalidInputError(
                f"an item of {self!r} counts in ever more partial sums as the stream goes on: give "
                "the last release to look at, column(step, last)"
            )
        return check_step(self, last)

    @abstractmethod
    def _node_factor(self, level: int) -> Fraction:
        """Return how much wider ``level``'s noise is: a ratio of scales, or of variances."""

    @abstractmethod
    def variance(
        self,
        steps: Steps,
        since: Steps | None = None,
        distribution: NoiseDistribution | None = None,
    ) -> NDArray[np.float64]:
        """Return the variances of totals, or of the counts of the steps since + 1 .. step.

        Args:
            steps: one step or an array of steps, from 1 on.
            since: steps from 0 on, broadcast with ``steps``, after which each sum begins. Default:
                the variance of the releases themselves.
            distribution: noise distribution of level 0, for variances in squared data units.
                Default: variances relative to that of level 0.
        """

    def mean_variance(self, steps: int, distribution: NoiseDistribution | None = None) -> float:
        """Return the mean of the variances of the first ``steps`` releases.

        Args:
            steps: number of releases, from 1.
            distribution: noise distribution of level 0, for variances in squared data units.
                Default: variances relative to that of level 0.

        Raises:
            InvalidInputError: more than 2^22 steps, whose variances would be computed one by one.
        """
        return float(self._first_variances(steps, distribution).mean())

    def largest_variance(self, steps: int, distribution: NoiseDistribution | None = None) -> float:
        """Return the largest of the variances of the first ``steps`` releases.

        Args:
            steps: number of releases, from 1.
            distribution: noise distribution of level 0, for variances in squared data units.
                Default: variances relative to that of level 0.

        Raises:
            InvalidInputError: more than 2^22 steps, whose variances would be computed one by one.
        """
        return float(self._first_variances(steps, distribution).max())

    def _first_variances(self, steps: int, distribution: NoiseDistribution | None) -> Floats:
        if check_step(self, steps) > _MOST_ENUMERATED_STEPS:
            raise InvalidInputError(
                f"the variances of {self!r} cannot be computed over {steps:,} steps: give at most "
                f"{_MOST_ENUMERATED_STEPS:,}"
            )
        starts = range(1, steps + 1, _STEPS_PER_VARIANCES)
        parts = [range(start, min(start + _STEPS_PER_VARIANCES, steps + 1)) for start in starts]
        return np.concatenate([self.variance(part, distribution=distribution) for part in parts])


def column_until(strategy: StreamStrategy, step: int, last: int) -> tuple[Node, ...]:
    """Return the nodes that a count enters, with noise in some release up to ``last``."""
    if isinstance(strategy, EndlessStrategy):
        return strategy.column(step, last)
    return strategy.column(step)


def node_factor(strategy: StreamStrategy, level: int) -> Fraction:
    """Return how much wider ``level``'s noise is: a ratio of scales, or of variances."""
    return strategy._node_factor(level) if isinstance(strategy, EndlessStrategy) else Fraction(1)


def node_distribution(
    strategy: StreamStrategy, base: NoiseDistribution, level: int
) -> NoiseDistribution:
    """Return the noise distribution of a level's nodes; level 0 has the calibrated ``base``.

    >>> from counton.base.distributions import DiscreteLaplace
    >>> from counton.strategies import Binary, Epochs
    >>> base = DiscreteLaplace(6)
    >>> node_distribution(Binary(31), base, 2), node_distribution(Epochs(), base, 2)
    (DiscreteLaplace(scale=Fraction(6, 1)), DiscreteLaplace(scale=Fraction(9, 1)))
    """
    if not isinstance(strategy, EndlessStrategy):
        return base
    return base.wider_by(strategy._node_factor(level))


def checks_distributions(strategy: StreamStrategy) -> bool:
    """Return whether the strategy refuses noise whose sums could overflow."""
    return type(strategy)._check_distribution is not StreamStrategy._check_distribution


def window_rounding(strategy: StreamStrategy, starts: Steps, stops: Steps) -> Floats:
    """Return the most by which rounding moves counts, in units of ``2**-fraction_bits``."""
    return strategy._window_rounding(*check_ends(strategy, starts, stops))


def check_width(strategy: StreamStrategy, distribution: NoiseDistribution, most: float) -> None:
    """Refuse noise of a std above ``most``, in units of one exact sum."""
    if distribution.std > most:
        raise InvalidInputError(
            f"noise of {strategy.saved_name} would have a standard deviation of "
            f"{distribution.std:,.4g} units of its exact sums, which hold at most {most:,.4g}: "
            "give a larger epsilon, rho or resolution, or use Binary or KAry"
        )


def last_served_step(strategy: StreamStrategy) -> int | None:
    """Return the last step that the strategy can serve; None if there is none."""
    return strategy.facts.last_step if strategy.horizon is None else strategy.horizon


def more_steps(strategy: StreamStrategy) -> str:
    """Return the remedy where a step is after the last one that the strategy can serve."""
    if strategy.horizon is not None:
        return "plan a longer horizon, or start a new stream with more steps"
    return "it was begun without a last one; start a stream with a stated number of steps"


def check_step(strategy: StreamStrategy, step: int) -> int:
    """Return ``step`` as an integer, if it is a step of the strategy's stream.

    Args:
        strategy: strategy of the stream.
        step: the number to check.

    Raises:
        InvalidInputError: not an integer, or below 1.
        HorizonExceededError: beyond the horizon.

    >>> from counton.strategies import Binary
    >>> check_step(Binary(31), 5)
    5
    """
    step = check_integer("step", step, 1)
    last = last_served_step(strategy)
    if last is not None and step > last:
        raise HorizonExceededError(
            f"step {step} is after the last of the {last} steps: {more_steps(strategy)}"
        )
    return step


def check_window(strategy: StreamStrategy, steps: object) -> range:
    """Return ``steps``, if it is a range of consecutive steps of the strategy's stream."""
    # A slice, an array or a list may come here too.
    if not isinstance(steps, range) or steps.step != 1:
        raise InvalidInputError(f"a window is {steps!r}; give a range of consecutive steps")
    if len(steps) > 0:
        check_step(strategy, steps.start)
        check_step(strategy, steps.stop - 1)
    return steps


def check_steps(strategy: StreamStrategy, steps: Steps) -> NDArray[np.int64]:
    """Return any collection of steps as an int64 array, checked against the horizon."""
    if isinstance(steps, range):
        check_sequence("step", steps, _MOST_QUERIED_STEPS)
        if len(steps) > 0:
            check_step(strategy, min(steps[0], steps[-1]))
            check_step(strategy, max(steps[0], steps[-1]))
        return np.arange(steps.start, steps.stop, steps.step, dtype=np.int64)
    try:
        array = steps if isinstance(steps, np.ndarray) else np.array(list(steps))  # type: ignore[arg-type]
    except (TypeError, ValueError, OverflowError):  # no collection, or a ragged one
        raise InvalidInputError(
            f"steps are {quote(steps)}; give a list of integers of at least 1"
        ) from None
    if array.size == 0:
        return np.zeros(array.shape, np.int64)
    if array.dtype.kind not in "iu":
        raise InvalidInputError(f"steps have type {array.dtype}; give integers from 1 on")
    check_step(strategy, int(array.min()))
    check_step(strategy, int(array.max()))
    return array.astype(np.int64)


def check_ends(
    strategy: StreamStrategy, starts: Steps, stops: Steps
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return starts and stops as int64 of one shape, with 0 <= start <= stop <= horizon."""
    try:
        first, last = np.broadcast_arrays(np.asarray(starts), np.asarray(stops))
    except ValueError as error:
        raise InvalidInputError(
            f"starts and stops of windows have different shapes ({error}): give one stop for each "
            "start"
        ) from None
    if first.size == 0:
        return np.zeros(first.shape, np.int64), np.zeros(first.shape, np.int64)
    if first.dtype.kind not in "iu" or last.dtype.kind not in "iu":
        raise InvalidInputError(
            f"windows start and stop at types {first.dtype} and {last.dtype}; give integers of at "
            "least 0"
        )
    if first.min() < 0 or (first > last).any():
        wrong = int(np.argmax((first < 0) | (first > last)))
        raise InvalidInputError(
            f"a window goes from {first.flat[wrong]} to {last.flat[wrong]}, but 0 <= start <= stop "
            "is needed; it holds the steps start + 1 to stop: correct it"
        )
    check_step(strategy, max(int(last.max()), 1))
    return first.astype(np.int64), last.astype(np.int64)


def matrices(
    strategy: StreamStrategy, steps: int | None = None, *, exact: bool = True
) -> tuple[NDArray[Any], NDArray[Any]]:
    """Return B and C of the first ``steps`` steps (default: the horizon) as dense arrays.

    B has shape (steps, nodes), C (nodes, steps), with nodes in order of level, then index.

    Args:
        strategy: the strategy.
        steps: number of steps, at most 4096.
        exact: True for entries without rounding: int64 if every weight is an integer, else objects
            (int and Fraction). False for float64, which is much faster where weights are fractions.

    Returns:
        B and C.

    Raises:
        InvalidInputError: more than 4096 steps, an unbounded strategy without ``steps``, or exact
            entries of a solved strategy (as of most plans) for more than 256 cells.

    >>> from counton.strategies import Binary
    >>> reads, enters = matrices(Binary(3))
    >>> (reads @ enters).tolist()
    [[1, 0, 0], [1, 1, 0], [1, 1, 1]]
    >>> from counton import PureDP, plan
    >>> reads, enters = matrices(plan(365, PureDP(1)).best.strategy, exact=False)
    >>> bool(np.allclose(reads @ enters, np.tri(365)))
    True
    """
    steps = strategy.horizon if steps is None else steps
    if steps is None or not 1 <= steps <= LARGEST_DENSE:
        raise InvalidInputError(
            f"dense matrices over {steps} steps are too large; 1 to {LARGEST_DENSE} steps are "
            "possible: use row(step) and column(step) instead"
        )
    columns = [column_until(strategy, step, steps) for step in range(1, steps + 1)]
    if not exact:
        return _float_matrices(strategy, columns)
    rows = [strategy.row(step) for step in range(1, steps + 1)]
    nodes = sorted({node[:2] for entries in (*rows, *columns) for node in entries})
    index_of = {node: i for i, node in enumerate(nodes)}
    integral = all(
        isinstance(node.weight, int) for entries in (*rows, *columns) for node in entries
    )
    dtype = np.dtype(np.int64 if integral else object)
    reads = np.zeros((steps, len(nodes)), dtype)
    enters = np.zeros((len(nodes), steps), dtype)
    for i, (row, column) in enumerate(zip(rows, columns, strict=True)):
        for node in row:
            reads[i, index_of[node[:2]]] += node.weight
        for node in column:
            enters[index_of[node[:2]], i] += node.weight
    return reads, enters


def _float_matrices(
    strategy: StreamStrategy, columns: Sequence[tuple[Node, ...]]
) -> tuple[Floats, Floats]:
    """Return B and C in float64, given the columns of C."""
    row_nodes, row_weights = strategy._float_rows(len(columns))
    column_nodes = {node[:2] for entries in columns for node in entries}
    nodes = sorted({*row_nodes, *column_nodes})
    index_of = {node: i for i, node in enumerate(nodes)}
    reads = np.zeros((len(columns), len(nodes)))
    reads[:, [index_of[node] for node in row_nodes]] = row_weights
    enters = np.zeros((len(nodes), len(columns)))
    for i, column in enumerate(columns):
        for node in column:
            enters[index_of[node[:2]], i] += float(node.weight)
    return reads, enters


def window_ends(
    strategy: StreamStrategy, steps: Steps, since: Steps | None = None
) -> tuple[Integers, Integers]:
    """Return the starts and stops of the windows start + 1 .. stop that releases count.

    Without ``since``, start is 0 for totals, and stop - 1 for counts of single steps.
    """
    if since is not None:
        return check_ends(strategy, since, steps)
    numbers = check_steps(strategy, steps)
    windows = strategy.facts.release == "windows"
    return (numbers - 1 if windows else np.zeros_like(numbers)), numbers


def window_rows(strategy: StreamStrategy, start: int, stop: int) -> list[tuple[int, int]]:
    """Return pairs (weight, step) of the releases that make up the steps start + 1 .. stop."""
    if strategy.facts.release == "windows":
        return [(1, step) for step in range(start + 1, stop + 1)]
    return [(sign, step) for sign, step in ((1, stop), (-1, start)) if step > 0]


def widths_of(entries: Iterable[Iterable[Node]]) -> dict[int, int]:
    """Return how many nodes each level needs: one more than the largest index in ``entries``.

    >>> widths_of([(Node(0, 4, 1), Node(1, 2, 1)), (Node(0, 5, -1),)])
    {0: 6, 1: 3}
    """
    widths: dict[int, int] = {}
    for nodes in entries:
        for level, index, _ in nodes:
            widths[level] = max(widths.get(level, 0), index + 1)
    return widths


def read_variance(strategy: StreamStrategy, releases: Iterable[tuple[float, int]]) -> float:
    """Return the variance of a sum of releases (weight, step), in units of one node's variance."""
    read: dict[tuple[int, int], float | Fraction] = {}
    for weight, step in releases:
        for level, index, node_weight in strategy.row(step):
            read[level, index] = read.get((level, index), 0) + weight * node_weight
    return math.fsum(float(weight**2) for weight in read.values())


def read_noise(strategy: StreamStrategy, field: NodeNoise, steps: range) -> Integers:
    """Return the noise of consecutive releases by the strategy's rows, which must be integers.

    >>> from counton.strategies import Binary
    >>> from counton.testing import HashedNoise
    >>> tree, field = Binary(31), HashedNoise()
    >>> bool((read_noise(tree, field, range(3, 30)) == tree.noise(field, range(3, 30))).all())
    True
    """
    reads: dict[int, list[tuple[int, int, int]]] = defaultdict(list)
    for row_number, step in enumerate(steps):
        for level, index, weight in strategy.row(step):
            if not isinstance(weight, int):
                raise InvalidInputError(
                    f"release {step} of {strategy!r} weighs a node by {weight}, not by a whole "
                    "number; its class must then define the method noise(), which says how noise "
                    "is rounded"
                )
            reads[level].append((index, row_number, weight))
    out = np.zeros((len(steps), *field.shape), np.int64)
    for level, entries in reads.items():
        index, row_number, weight = np.array(entries).T
        nodes, places = np.unique(index, return_inverse=True)
        runs = [run.tolist() for run in np.split(nodes, np.flatnonzero(np.diff(nodes) > 1) + 1)]
        drawn = np.concatenate([field.run(level, range(run[0], run[-1] + 1)) for run in runs])
        np.add.at(out, row_number, weight.reshape(-1, *[1] * len(field.shape)) * drawn[places])
    return out


class TableStrategy(Strategy):
    """A strategy that measures the cells of a table: an integer matrix C with a column for each.

    Attributes:
        unit_columns: whether all non-zero entries of C are known to be +1 or -1.

    >>> from counton.tables import Nodes
    >>> strategy = Nodes(4, (2, 2), (1, 1, 1))
    >>> strategy.sensitivities()
    Sensitivity(l1=3, l2_squared=3, entries=((1, 3),))
    """

    unit_columns: bool = False

    @property
    @abstractmethod
    def largest_entry(self) -> int:
        """Upper bound of the magnitude of any entry of the measurement matrix C."""

    @abstractmethod
    def largest_column(self, norm: Norm) -> int:
        """Return the largest norm of a column, exactly.

        Args:
            norm: 1 for the 1-norm, 2 for the squared 2-norm.
        """

    @abstractmethod
    def largest_move(self, norm: Norm) -> int:
        """Return a bound on the norm of a move of one unit to another cell.

        Args:
            norm: 1 for the 1-norm, 2 for the squared 2-norm.
        """

    def l1_sensitivity(self) -> int:
        """Return the largest 1-norm of a column, exactly."""
        return self.largest_column(1)

    def squared_sensitivity(self) -> int:
        """Return the largest squared 2-norm of a column, exactly."""
        return self.largest_column(2)

    def sensitivities(self, relation: Relation = "add_remove") -> Sensitivity:
        """Return the sensitivity of all measurements to one unit, exact or an upper bound.

        Args:
            relation: "add_remove"; or "move", from one cell to another.

        Raises:
            InvalidInputError: another relation than "add_remove" and "move".
        """
        if relation == "add_remove":
            l1 = self.largest_column(1)
            entries = ((1, l1),) if self.unit_columns else None
            return Sensitivity(l1, self.largest_column(2), entries)
        if relation != "move":
            raise InvalidInputError(
                f"relation is {relation!r}; a unit of a table is added or removed, or moved to "
                "another cell: give 'add_remove' or 'move'"
            )
        l1 = self.largest_move(1)
        # Both may be bounds; integer vectors have l1 <= l2_squared.
        return Sensitivity(l1, max(self.largest_move(2), l1))


class Reader:
    """The noise of one running stream, window after window, by ``parts`` or at once."""

    def __init__(
        self,
        strategy: StreamStrategy,
        field: NodeNoise,
        parts: Callable[[NodeNoise, range], Iterator[Integers]] | None = None,
    ) -> None:
        self._strategy = strategy
        self._field = field
        self._parts = parts

    @property
    def local(self) -> bool:
        """Whether a window's noise takes time proportional to its length, after earlier windows."""
        return self._strategy.facts.local or self._strategy.facts.buffer_size > 0

    def noise(self, steps: range) -> NDArray[np.int64]:
        """Return noise of consecutive releases, ``(len(steps), ...)``, in ``2**-fraction_bits``."""
        if self._parts is None:
            return self._strategy.noise(self._field, steps)
        out = np.empty((len(steps), *self._field.shape), np.int64)
        done = 0
        for part in self.parts(steps):
            out[done : done + len(part)] = part
            done += len(part)
        return out

    def parts(self, steps: range) -> Iterator[NDArray[np.int64]]:
        """Yield the noise of a window in order, in parts of shape ``(steps of the part, ...)``.

        A part may be overwritten once the next is requested.
        """
        if self._parts is not None:
            yield from self._parts(self._field, check_window(self._strategy, steps))
            return
        size = nodes_per_chunk(self._field.shape) if self.local else max(len(steps), 1)
        for start in range(0, len(steps), size):
            yield self.noise(steps[start : start + size])


def check_metric(metric: str, release: str = "totals") -> None:
    """Refuse a metric other than "mean" and "max", and an unknown form of the release."""
    if metric not in ("mean", "max"):
        raise InvalidInputError(f"metric is {metric!r}; give 'mean' or 'max'")
    if release not in ("totals", "windows", "both"):
        raise InvalidInputError(f"release is {release!r}; give 'totals', 'windows' or 'both'")


def built_from(kind: type[_Strategy], description: Mapping[str, object]) -> _Strategy:
    """Rebuild a strategy of this class from its ``to_dict``.

    Args:
        kind: the class that is built.
        description: JSON values that ``to_dict`` returned.

    Raises:
        InvalidInputError: missing, unknown or wrong parameters, or a digest that differs.
    """
    parameters = {name: value for name, value in description.items() if name != "strategy"}
    try:
        strategy = kind._from_description(**parameters)
        wrong = [
            parameters[name]
            for name, value in strategy.parameters.items()
            if name.endswith("_sha256") and parameters[name] != value
        ]
    except InvalidInputError:
        raise
    except (KeyError, TypeError, ValueError, OverflowError) as error:
        raise InvalidInputError(
            f"parameters of {kind.saved_name} are {str(parameters)[:200]}, which cannot be read "
            f"({error!r}): give what its to_dict wrote"
        ) from error
    if wrong:
        raise InvalidInputError(
            f"strategy {kind.saved_name} does not have the digest {wrong[0]!r} that was saved with "
            "it: restore it from a copy"
        )
    return strategy


def saved_strategy_name(description: object, known_names: Sequence[str], where: str = "") -> str:
    """Return the name of a strategy in its ``to_dict``, if ``known_names`` has it.

    Args:
        description: JSON values that ``to_dict`` returned, or the name alone.
        known_names: names of classes that may be built.
        where: words for the error message after "known", such as " for lines".

    Raises:
        InvalidInputError: no name, or an unknown one.
    """
    kind = description.get("strategy") if isinstance(description, Mapping) else description
    if isinstance(kind, str) and kind in known_names:
        return kind
    raise InvalidInputError(
        f"strategy is {quote(kind)}, which is not known; known{where} are {', '.join(known_names)}"
    )


def exported_classes(package: ModuleType, base: type[_Base]) -> tuple[type[_Base], ...]:
    """Return classes that a package exports and that derive from ``base``, sorted by name.

    Args:
        package: a package with ``__all__``. Names whose module is not installed are left out.
        base: the class from which they derive; abstract classes are left out.

    >>> import counton.strategies
    >>> [cls.__name__ for cls in exported_classes(counton.strategies, StreamStrategy)][:2]
    ['AsOf', 'BandedRoot']
    """
    classes = []
    for name in sorted(package.__all__):
        try:
            member = getattr(package, name)
        except ModuleNotFoundError as gone:
            if (gone.name or "").startswith("counton."):
                continue  # optional upper packages may be missing
            raise
        is_subclass = inspect.isclass(member) and issubclass(member, base)
        if is_subclass and not inspect.isabstract(member):
            classes.append(member)
    return tuple(classes)
