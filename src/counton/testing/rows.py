"""The matrices B and C of a strategy for streams as tables, checked while they are built.

A node is one measurement with its draw of noise. Row ``step`` of B has the weights of nodes' noise
in the release at ``step``; column ``step`` of C the weights of the count of ``step`` in the
measurements.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from fractions import Fraction
from functools import wraps
from typing import Any, Concatenate, NamedTuple, ParamSpec, TypeVar

import numpy as np
from numpy.typing import NDArray

from counton.base.arrays import Floats, Integers
from counton.base.distributions import DiscreteLaplace, NoiseDistribution
from counton.base.errors import InvalidInputError
from counton.base.literature import REFERENCES
from counton.strategies import Node, StreamStrategy
from counton.strategies.strategy import Strategy, column_until, node_factor

Address = tuple[int, int]
#: Number of rows of fractions that are checked, in exact arithmetic, if the horizon is long.
EXACT_ROWS = 4

_Table = TypeVar("_Table")
_Built = TypeVar("_Built")
_Arguments = ParamSpec("_Arguments")
#: A strategy whose matrices are cached, and the matrices that have been computed so far.
_TABLES: ContextVar[tuple[StreamStrategy, dict[Any, Any]] | None] = ContextVar(
    "_TABLES", default=None
)


class PropertyViolationError(AssertionError):
    """A property is violated; the message says which, and where."""

    subject: object = None

    def __str__(self) -> str:
        complaint = super().__str__()
        return complaint if self.subject is None else f"{self.subject}: {complaint}"


def names_subject(check: Callable[_Arguments, None]) -> Callable[_Arguments, None]:
    """Begin the message of a violated property with the check's first argument."""

    @wraps(check)
    def run(*arguments: _Arguments.args, **more: _Arguments.kwargs) -> None:
        try:
            check(*arguments, **more)
        except PropertyViolationError as error:
            if error.subject is None:
                error.subject = next(iter((*arguments, *more.values())))
            raise

    return run


def require(holds: bool | np.bool_, complaint: str) -> None:
    """Raise ``PropertyViolationError`` unless ``holds``.

    Args:
        holds: whether the property holds.
        complaint: the message of the error: what is wrong, and where.

    Raises:
        PropertyViolationError: ``holds`` is false.
    """
    if not holds:
        raise PropertyViolationError(complaint)


def require_description(sources: Iterable[str], parameters: Mapping[str, Any] | None) -> None:
    """Refuse sources that `counton.base.literature` lacks, and parameters that JSON changes."""
    unknown = [source for source in sources if source not in REFERENCES]
    require(
        not unknown,
        f"its sources {unknown} are not listed in counton.base.literature: add them there, or "
        "correct the names",
    )
    require(
        parameters is None or json.loads(json.dumps(parameters)) == parameters,
        "its parameters change when they are written as JSON and read again; use only texts, "
        "numbers, lists, dicts, True, False and None",
    )


def build_again(strategy: Strategy, build: Callable[[dict[str, Any]], _Built]) -> _Built:
    """Rebuild a strategy from its ``to_dict`` through JSON; refuse if ``build`` does."""
    try:
        return build(json.loads(json.dumps(strategy.to_dict())))
    except InvalidInputError as error:
        raise PropertyViolationError(
            f"it cannot be built again from the output of to_dict(): {error}"
        ) from error


def count_steps(strategy: StreamStrategy, steps: int | None) -> int:
    """Return the number of steps to check."""
    count = strategy.horizon if steps is None else steps
    if count is None:
        raise InvalidInputError(
            f"{strategy} has no last step: give steps, the number of steps to check"
        )
    return count


def is_integral(strategy: StreamStrategy) -> bool:
    """Return True if all entries of B and C are integers."""
    return strategy.facts.fraction_bits == strategy.facts.lattice_bits == 0


@contextmanager
def tables_kept(strategy: StreamStrategy) -> Iterator[None]:
    """Cache the matrices of a strategy within the block."""
    # Computing matrices takes longer than comparing them. No check changes them.
    token = _TABLES.set((strategy, {}))
    try:
        yield
    finally:
        _TABLES.reset(token)


def _once(
    write: Callable[Concatenate[StreamStrategy, _Arguments], _Table],
) -> Callable[Concatenate[StreamStrategy, _Arguments], _Table]:
    """Call a function once for the same arguments within `tables_kept`."""

    @wraps(write)
    def run(
        strategy: StreamStrategy, /, *arguments: _Arguments.args, **more: _Arguments.kwargs
    ) -> _Table:
        subject, tables = _TABLES.get() or (None, {})
        if subject is not strategy:
            return write(strategy, *arguments, **more)
        which = (write.__name__, arguments, *more.items())
        if which not in tables:
            tables[which] = write(strategy, *arguments, **more)
        table: _Table = tables[which]
        return table

    return run


@_once
def rows_by_step(strategy: StreamStrategy, count: int) -> dict[int, dict[Address, int | Fraction]]:
    """Return rows of B: for each step the weight of each node (level, index) in its release.

    If some weights are fractions and ``count`` is above 64, only four of the steps are computed.
    """
    chosen: Iterable[int] = range(1, count + 1)
    if count > 64 and not is_integral(strategy):
        chosen = sorted({1 + (count - 1) * i // (EXACT_ROWS - 1) for i in range(EXACT_ROWS)})
    return {step: _weights(row_of(strategy, step)) for step in chosen}


@_once
def row_of(strategy: StreamStrategy, step: int) -> tuple[Node, ...]:
    return strategy.row(step)


@_once
def column_of(strategy: StreamStrategy, step: int, last: int) -> tuple[Node, ...]:
    """Return the nodes that the count of ``step`` enters, with weights.

    Without a horizon, nodes in no release up to ``last`` are left out.
    """
    return column_until(strategy, step, last)


class Reads(NamedTuple):
    """Weights of nodes' noise in the totals of the first 0, 1, 2, ... steps.

    ``steps`` are 0 and those whose rows were computed, ``nodes`` (level, index) in ascending order;
    ``weights`` has shape (totals, nodes).
    """

    steps: NDArray[np.int64]
    nodes: list[Address]
    weights: Floats

    @property
    def levels(self) -> Integers:
        return np.array([level for level, _ in self.nodes], np.int64)

    def between(self, first: Integers, last: Integers) -> Floats:
        """Return the weights in windows: differences of totals at ``last`` and ``first``."""
        return np.asarray(self.weights[last] - self.weights[first])

    def ends(self, most: int = 24) -> tuple[Integers, Integers]:
        """Return pairs of totals, as indices in ``steps``, the first not above the second: all, or
        those among about ``most``.
        """
        count = len(self.steps)
        some = np.arange(count)
        if count > most:
            some = np.unique(np.concatenate([some[:4], some[:: max(1, count // most)], some[-2:]]))
        first, last = (axis.ravel() for axis in np.meshgrid(some, some, indexing="ij"))
        return first[first <= last], last[first <= last]


@_once
def reads_of(strategy: StreamStrategy, count: int) -> Reads:
    """Return the weights in the totals of the first 0, 1, ..., ``count`` steps.

    Counts of single steps are added up. Totals for which `rows_by_step` lacks rows are left out.
    """
    rows = rows_by_step(strategy, count)
    nodes = sorted(set().union(*rows.values()))
    index_of = {node: i for i, node in enumerate(nodes)}
    weights = np.zeros((1 + len(rows), len(nodes)))
    for i, row in enumerate(rows.values(), 1):
        weights[i, [index_of[node] for node in row]] = [float(weight) for weight in row.values()]
    steps = np.array([0, *rows])
    if strategy.facts.release == "windows":
        together = [0, *(i for i, step in enumerate(steps.tolist()) if i == step > 0)]
        steps = steps[together]
        weights = np.cumsum(weights, axis=0)[together]
    return Reads(steps, nodes, weights)


@_once
def columns_in_order(strategy: StreamStrategy, count: int) -> list[dict[Address, int]]:
    """Return the first columns of C: the weights by (level, index), in units of 2^-lattice_bits.

    Without a horizon, nodes in no release up to ``count`` are left out.
    """
    items = range(1, count + 1)
    return [lattice_units(strategy, column_of(strategy, item, count)) for item in items]


def largest_entry(strategy: StreamStrategy, count: int) -> int:
    """Return the largest magnitude in the first columns of C, in units of 2^-lattice_bits."""
    columns = columns_in_order(strategy, count)
    return max((abs(weight) for column in columns for weight in column.values()), default=1)


def _weights(nodes: Iterable[Node]) -> dict[Address, int | Fraction]:
    """Return weights by (level, index); refuse a node that is listed twice or with weight 0."""
    nodes = tuple(nodes)
    weights = {(level, index): weight for level, index, weight in nodes}
    require(
        len(weights) == len(nodes),
        "row() or column() lists a node twice; list each node once, with the sum of its weights",
    )
    require(0 not in weights.values(), "row() or column() lists a node with weight 0; leave it out")
    return weights


def lattice_units(strategy: StreamStrategy, nodes: Iterable[Node]) -> dict[Address, int]:
    """Return the weights of one column of C, in units of 2^-lattice_bits."""
    units = {}
    for address, weight in _weights(nodes).items():
        unit, rest = divmod(2**strategy.facts.lattice_bits, weight.denominator)
        require(
            rest == 0,
            f"column() has the weight {weight}, which is not a multiple of 2^-facts.lattice_bits",
        )
        units[address] = weight.numerator * unit
    return units


def accepts(strategy: StreamStrategy, distribution: NoiseDistribution) -> bool:
    """Return False if a strategy refuses this noise as too wide."""
    try:
        strategy._check_distribution(distribution)
    except InvalidInputError:
        return False
    return True


def node_variance(strategy: StreamStrategy, level: int) -> float:
    """Return the noise variance of a node of this level over that of level 0, for Laplace noise, or
    Gaussian noise if the strategy accepts no Laplace noise.
    """
    factor = float(node_factor(strategy, level))
    return factor**2 if accepts(strategy, DiscreteLaplace(Fraction(1))) else factor


def spread(distribution: NoiseDistribution) -> Fraction:
    """Return the scale of Laplace noise, or the variance of Gaussian noise."""
    return (
        distribution.scale
        if isinstance(distribution, DiscreteLaplace)
        else distribution.sigma_squared
    )
