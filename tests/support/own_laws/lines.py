"""Tests of a strategy for lines: its measurements, its estimates, and the errors that it states.

A line is a sequence of cells, such as ages, whose intervals are counted. The tests compare
everything with dense matrices, so they are for lines of a few dozen cells.
"""

from functools import lru_cache, partial

import numpy as np
from numpy.typing import NDArray

from counton.base.arrays import Floats, Integers
from counton.strategies import NodeNoise
from counton.strategies.strategy import built_from
from counton.tables import (
    AllRanges,
    LineStrategy,
    Prefixes,
    Queries,
    Workload,
)
from counton.tables.workloads import NAMED_WORKLOADS
from counton.testing.node_noise import HashedNoise, ShiftedNoise
from counton.testing.rows import build_again, names_subject, require, require_description
from own_laws.equality import require_equality
from own_laws.tables import check_columns
from papers.ranges.largest_error import largest_error_of
from papers.ranges.running_sums import running_sums
from papers.ranges.workloads import OWN, RandomSubsets, TreeNodes

#: Allowed relative error of stated variances, because `SquareRoot` computes its series to 5e-6.
_TOLERANCE = 6e-6
#: Fraction bits of running sums, and the size of test noise: large even after division by weights
#: of 2^20.
_BITS = 10
_SPREAD = 2**36
#: Largest number of cells for which all subsets of cells are tried.
_FEW_CELLS = 11


@names_subject
def check_line_strategy(strategy: LineStrategy) -> None:
    """A strategy for a line of cells keeps all laws of its kind."""
    check_line_description(strategy)
    check_line_sensitivity(strategy)
    check_line_estimates(strategy)
    check_line_variance(strategy)
    check_line_workloads(strategy)
    check_running_sums(strategy)
    check_largest_errors(strategy)


@names_subject
def check_line_description(strategy: LineStrategy) -> None:
    """A strategy has a name, and parameters that identify its measurement matrix."""
    require(type(strategy.name) is str and bool(strategy.name), "has no name")
    require_description(strategy.sources, strategy.parameters)
    right = strategy.parameters.get("cells") == strategy.cells
    require(right, "parameters['cells'] must be its number of cells")
    shown = repr(strategy)
    complete = shown.startswith(type(strategy).__name__) and all(
        f"{name}={value!r}" in shown for name, value in strategy.parameters.items()
    )
    require(complete, "repr() must show all parameters as name=value")
    require_equality(strategy)
    other = build_again(strategy, partial(built_from, type(strategy)))
    alike = other == strategy and np.array_equal(other.matrix(), strategy.matrix())
    complete = alike and other.name == strategy.name
    require(complete, "building it again from the output of to_dict() gives another strategy")
    low, high = np.triu_indices(strategy.cells + 1)
    for other in type(strategy).examples(strategy.cells):
        if other == strategy:
            alike = np.array_equal(other.matrix(), strategy.matrix())
            require(alike, f"it is equal to {other}, whose measurements differ")
            alike = np.array_equal(other.variance(low, high), strategy.variance(low, high))
            require(alike, f"it is equal to {other}, whose variances differ")


@names_subject
def check_line_sensitivity(strategy: LineStrategy) -> None:
    """Stated sensitivities are those of the columns of the measurement matrix C, of which no two
    have an inner product below ``least_inner``.
    """
    matrix = strategy.matrix()
    shape = (strategy.measurements, strategy.cells)
    right = matrix.dtype == np.int64 and matrix.shape == shape
    require(right, f"measurement matrix C must be int64 of shape {shape}")
    counts = np.arange(2 * strategy.cells).reshape(strategy.cells, 2) ** 2 % 97
    for lines in (counts, counts[:, 0]):
        right = np.array_equal(strategy.measure(lines), matrix @ lines)
        require(right, "measure(x) must return C x, with the measurement matrix C")
    check_columns(strategy, matrix)
    for column in range(strategy.cells):
        others = np.arange(strategy.cells) != column
        products = matrix[:, others].T @ matrix[:, column]
        least = int(products.min(initial=strategy.least_inner))
        require(strategy.least_inner <= least, f"two columns have the inner product {least}")


@names_subject
def check_line_estimates(strategy: LineStrategy) -> None:
    """Estimates of cells and of queries are unbiased, and least squares if the strategy is
    ``consistent``; with ``works_on_grids`` an answer is the sum of the estimates of its cells.
    """
    # The least covariance of the cells is the inverse of C^T C, with C the measurement matrix.
    counts = np.arange(2 * strategy.cells).reshape(strategy.cells, 2) ** 2 % 97
    for lines in (counts, counts[:, 0]):
        cells = strategy.estimate(strategy.measure(lines))
        back = cells.shape == lines.shape and np.allclose(cells, lines, rtol=0, atol=1e-6)
        require(back, "without noise, the estimates of cells are not the exact counts")
    reads = strategy.estimate(np.eye(strategy.measurements))
    same = np.allclose(strategy.reads(np.eye(strategy.cells)), reads, rtol=1e-9, atol=1e-12)
    require(same, "reads() returns other weights than estimate() uses")
    for _, workload in _explicit(strategy.cells):
        back = np.allclose(strategy.reads(workload.matrix) @ strategy.matrix(), workload.matrix)
        require(back, f"without noise, the answers to {workload} are not the true ones")
        added = np.allclose(strategy.reads(workload.matrix), workload.matrix @ reads, atol=1e-9)
        message = f"works_on_grids is True, but answers to {workload} are no sums of cells"
        require(added or not strategy.works_on_grids, message)
    if not getattr(strategy, "consistent", True):
        return
    expected = _covariance(strategy)
    least = np.allclose(reads @ reads.T, expected, rtol=1e-5, atol=1e-8 * expected.max())
    require(least, "the covariance of the cells is not the inverse of C^T C (least squares)")


@names_subject
def check_line_variance(strategy: LineStrategy) -> None:
    """``variance`` of an interval is that of its weights of measurements; of a consistent strategy
    it is the least that any estimate can have.
    """
    low, high = np.triu_indices(strategy.cells + 1)
    if getattr(strategy, "consistent", True):
        joint = _prefix_covariance(strategy)
        expected = joint[low, low] + joint[high, high] - 2 * joint[low, high]
    else:
        expected = (strategy.reads(_intervals(low, high, strategy.cells)) ** 2).sum(axis=1)
    for shape in (low.shape, (1, *low.shape)):
        found = strategy.variance(low.reshape(shape), high.reshape(shape))
        require(found.shape == shape, "variance(low, high) must return a number for each interval")
        away = np.abs(found.ravel() - expected) > _TOLERANCE * expected + 1e-7 * expected.max()
        worst = int(np.argmax(away))
        where = f"variance({low[worst]}, {high[worst]})"
        require(not away.any(), f"{where} is not {expected[worst]:.6g}")


@names_subject
def check_line_workloads(strategy: LineStrategy) -> None:
    """The total variance of a workload (set of queries) is the sum of those of its queries."""
    cells = strategy.cells
    known = _explicit(strategy.cells)
    if getattr(strategy, "consistent", True):
        covariance = _covariance(strategy)
        every = (*(kind(cells) for kind in {**NAMED_WORKLOADS, **OWN}.values()), known[-1][0])
        expectations = [
            (workload, float((workload.gram() * covariance).sum())) for workload in every
        ]
    else:
        expectations = [
            (workload, float((strategy.reads(queries.matrix) ** 2).sum()))
            for workload, queries in known
        ]
        if cells <= _FEW_CELLS:
            # The size of the set is uniform from a quarter of the cells to all of them; the set is
            # then uniform among all sets of this size.
            sets = (np.arange(2**cells)[:, None] >> np.arange(cells) & 1).astype(np.float64)
            variance = (strategy.reads(sets) ** 2).sum(axis=1)
            size = sets.sum(axis=1)
            means = [variance[size == each].mean() for each in range(-(-cells // 4), cells + 1)]
            expectations.append((RandomSubsets(cells), float(np.mean(means))))
    for workload, expected in expectations:
        found = workload.total(strategy)
        right = abs(found - expected) <= _TOLERANCE * expected
        require(right, f"variances over {workload} add up to {expected:.9g}, not {found:.9g}")


@names_subject
def check_running_sums(strategy: LineStrategy) -> None:
    """Private running sums depend on the noisy measurements y = C x + z alone, and have the stated
    covariance.

    If a count grows by 1 and the noise z is shifted so that y does not change, all sums are bit for
    bit equal: privacy depends on this.
    """
    cells = strategy.cells
    counts = np.arange(strategy.cells) ** 2 % 97
    matrix = strategy.matrix()
    table = HashedNoise(spread=_SPREAD)
    nodes = _nodes_read(strategy, counts)
    base, bits = running_sums(strategy, counts, table, _BITS)
    right = base.dtype == np.int64 and base.shape == (cells + 1,) and base[0] == 0
    require(right, "private running sums must be int64 and begin with 0")
    exact = np.concatenate([[0], np.cumsum(counts)]) * 2.0**bits
    silent, _ = running_sums(strategy, counts, HashedNoise(spread=0), _BITS)
    require(np.abs(silent - exact).max() < 1, "without noise, sums are not the exact sums")
    for cell in range(cells):
        shifts = dict(zip(((0, node) for node in nodes), (-matrix[:, cell]).tolist(), strict=True))
        neighbour = counts + (np.arange(cells) == cell)
        moved, _ = running_sums(strategy, neighbour, ShiftedNoise(table, shifts), _BITS)
        same = np.array_equal(moved, base)
        require(same, f"the sums change with cell {cell}, although C x + z stays the same")
    zeros = np.zeros(cells, np.int64)
    reads = np.empty((cells + 1, strategy.measurements))
    for row, node in enumerate(nodes):
        one = ShiftedNoise(HashedNoise(spread=0), {(0, node): _SPREAD})
        reads[:, row] = running_sums(strategy, zeros, one, _BITS)[0] * 2.0**-bits / _SPREAD
    if getattr(strategy, "consistent", True):
        expected = _prefix_covariance(strategy)
    else:
        own = strategy.reads(np.tri(cells + 1, cells, k=-1))
        expected = own @ own.T
    right = np.allclose(reads @ reads.T, expected, rtol=1e-4, atol=1e-5 * expected.max())
    require(right, "the noise of the running sums has another covariance than is stated")


@names_subject
def check_largest_errors(strategy: LineStrategy) -> None:
    """``largest_error_of`` is the largest error of all answers, for one draw of the noise."""
    table = HashedNoise(spread=_SPREAD)
    nodes = _nodes_read(strategy, np.zeros(strategy.cells, np.int64))
    drawn = table.run(0, nodes).astype(np.float64)
    for workload, queries in _explicit(strategy.cells):
        expected = float(np.abs(strategy.reads(queries.matrix) @ drawn).max())
        found = largest_error_of(strategy, workload, table, _BITS)
        right = abs(found - expected) <= _TOLERANCE * expected
        require(right, f"the largest error over {workload} is {expected:.9g}, not {found:.9g}")


def _intervals(low: Integers, high: Integers, cells: int) -> Floats:
    """Intervals [low, high) as rows of zeros and ones."""
    place = np.arange(cells)
    return ((low[:, None] <= place) & (place < high[:, None])).astype(np.float64)


@lru_cache(maxsize=8)
def _explicit(cells: int) -> list[tuple[Workload, Queries]]:
    """Four workloads, each also as a matrix of shape (queries, cells)."""
    ends = np.arange(1, cells + 1)
    tree = TreeNodes(cells)
    other = Queries(np.cos(np.arange(3.0 * cells)).reshape(3, cells))
    return [
        (AllRanges(cells), Queries(_intervals(*np.triu_indices(cells + 1, 1), cells))),
        (Prefixes(cells), Queries(_intervals(np.zeros_like(ends), ends, cells))),
        (tree, Queries(_intervals(*tree.intervals(), cells))),
        (other, other),
    ]


def _nodes_read(strategy: LineStrategy, counts: NDArray[np.int64]) -> range:
    """The nodes whose noise enters the running sums: one in a row for each measurement."""
    requests: list[tuple[int, range]] = []

    class Listening(HashedNoise):
        def run(self, level: int, nodes: range) -> NDArray[np.int64]:
            requests.append((level, nodes))
            return super().run(level, nodes)

    listening: NodeNoise = Listening()
    running_sums(strategy, counts, listening, _BITS)
    read = sorted({(level, node) for level, nodes in requests for node in nodes})
    first = read[0][1] if read else 0
    wanted = range(first, first + strategy.measurements)
    once = read == [(0, node) for node in wanted]
    require(once, "running_sums must read exactly one draw of noise for each measurement")
    return wanted


def _covariance(strategy: LineStrategy) -> Floats:
    """The covariance of the best linear estimates of the cells, in units of one draw's variance."""
    matrix = strategy.matrix().astype(np.float64)
    return np.asarray(np.linalg.inv(matrix.T @ matrix))


def _prefix_covariance(strategy: LineStrategy) -> Floats:
    """The same of the sums of the first 0, 1, ..., n cells: shape (n + 1, n + 1)."""
    summed = np.tri(strategy.cells + 1, strategy.cells, k=-1)
    return np.asarray(summed @ _covariance(strategy) @ summed.T)
