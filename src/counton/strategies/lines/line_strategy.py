"""Strategies for lines: an integer matrix C of noisy measurements from which cells are estimated.

A line is a sequence of cells with counts x. It is measured as y = C x + z, with an independent draw
of noise for each row of C. C has integer entries (real weights in units of ``2**-bits``), so y is
computed exactly in integers. All published values are functions of y alone, so rounding in floating
point cannot harm privacy. Strategies are pure mathematics: no randomness, no data, no privacy.
`counton.laws` tests the properties that every strategy must have.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from typing_extensions import override

from counton.base.arrays import Floats, Integers
from counton.base.errors import InvalidInput, SumOverflow, is_text
from counton.base.exact import check_integer, quote
from counton.strategies.strategy import NodeNoise, Norm, TableStrategy

#: By default, weights are multiples of 2^-20 of the largest weight.
LATTICE_BITS = 20
LARGEST_CELLS = 2**32


class LineStrategy(TableStrategy):
    """A way to measure a line of cells (counts in a fixed order) with noise, and to estimate cells
    and their sums.

    Attributes:
        name: the name by which users choose the strategy.
        cells: the number of cells n.
        measurements: the number of rows of the measurement matrix C.
        works_on_grids: True if the strategy can also measure one axis of a table with several axes.
        consistent: True if answers to all queries are sums of one set of least-squares
            estimates of the cells, so that answers for two adjacent intervals add up to the
            answer for both. If False, the answer to each query is computed from
            measurements chosen for it (`reads`).
    """

    name: str
    cells: int
    measurements: int
    works_on_grids: ClassVar[bool] = True
    consistent: ClassVar[bool] = True

    @classmethod
    def examples(cls, cells: int) -> Sequence[LineStrategy]:
        """Return instances of the strategy over ``cells`` cells, for the tests in ``counton.laws``.

        Override it if the constructor needs more than the number of cells.
        """
        return (cls(cells),)  # type: ignore[call-arg]

    @abstractmethod
    def measure(self, counts: Integers) -> Integers:
        """Return the exact measurements C x of counts x, where C is the measurement matrix: shape
        (cells, ...) to (measurements, ...), int64.
        """

    @abstractmethod
    def estimate(self, measured: NDArray[Any]) -> Floats:
        """Return unbiased estimates of the cells from noisy measurements.

        The shape changes from (measurements, ...) to (cells, ...). This is post-processing, so it
        costs no privacy.
        """

    def running_sums(self, counts: Integers, noise: NodeNoise, bits: int) -> tuple[Integers, int]:
        """Return noisy running sums of a line of cells (counts in a fixed order).

        They are a function of the noisy measurements y = C x + z alone, where C is the measurement
        matrix.

        Args:
            counts: the counts x, shape (cells,); so small that C x plus noise fits int64.
            noise: the source of the noise z: measurement i has the noise of node i of level 0.
            bits: sums are rounded to multiples of 2^-bits, so that adjacent intervals add up
                exactly.

        Returns:
            The sums of the first 0, 1, ..., n cells in units of 2^-b, int64 of shape (cells + 1,);
            and b, which is ``bits`` unless the strategy rounds to other multiples.

        Raises:
            SumOverflow: a sum is 2^53 units or more, which float64 does not hold exactly.
        """
        measured = self.measure(counts)
        measured += noise.run(0, range(self.measurements))
        return rounded_sums(self.estimate(measured), bits), bits

    def reads(self, weights: Floats) -> Floats:
        """Return the weight of each measurement in the answer to each query, as a dense array: use
        it for few cells only.

        ``weights`` has the weight of each cell in each query: shape (queries, cells).

        Returns:
            Shape (queries, measurements); this array times the measurement matrix C is ``weights``.
        """
        return np.asarray(weights @ self.estimate(np.eye(self.measurements)))

    def largest_error(self, workload: Any, noise: NodeNoise, bits: int) -> float:
        """Return the largest error among all answers to a workload, for one draw of the noise.

        Args:
            workload: the queries, a `counton.tables.Workload`.
            noise: the source of the noise: measurement i has the noise of node i of level 0.
            bits: errors are computed from running sums in multiples of 2^-bits.

        Raises:
            InvalidInput: a workload of one random query, which has no largest error.
        """
        sums, bits = self.running_sums(np.zeros(self.cells, np.int64), noise, bits)
        return float(workload.largest_error(sums * 2.0**-bits))

    @property
    def least_inner(self) -> int:
        """Lower bound of the inner product of any two columns of the measurement matrix C; 0 if C
        has no negative entry.

        A unit that moves to another cell changes the measurements by the difference of two columns.
        `largest_move` bounds this difference with the inner product.
        """
        return 0

    @override
    def largest_move(self, norm: Norm) -> int:
        """Return a bound on the change of the measurements if one unit moves to another cell.

        The change is measured by its 1-norm (``norm`` 1) or squared 2-norm (``norm`` 2).
        """
        # By the triangle inequality and `least_inner`.
        return 2 * (self.largest_column(norm) - (self.least_inner if norm == 2 else 0))

    @abstractmethod
    def variance(self, low: Integers, high: Integers) -> Floats:
        """Return the variances of estimated sums over cells low .. high - 1, in units of one
        measurement's noise variance.

        The result has the shape of ``low`` and ``high``.
        """

    @abstractmethod
    def ranges_variance(self) -> float:
        """Return the summed variance of the sums over all n (n + 1) / 2 intervals of cells, in
        units of one measurement's noise variance.
        """

    @abstractmethod
    def functional_variance(self, weights: Floats) -> float:
        """Return the summed variance of the answers to queries, in units of one measurement's noise
        variance.

        ``weights`` has the weight of each cell in each query: shape (queries, cells).
        """

    def matrix(self) -> Integers:
        """Return the measurement matrix C as a dense array, shape (measurements, cells): use it for
        few cells only.
        """
        return self.measure(np.eye(self.cells, dtype=np.int64))


def check_cells(cells: int) -> int:
    """Return ``cells``, the number of cells that a strategy measures, after a check.

    Raises:
        InvalidInput: below 1 or above 2^32.
    """
    return check_integer("cells", cells, 1, LARGEST_CELLS)


def rounded_sums(cells: Floats, bits: int) -> Integers:
    """Return running sums of ``cells`` along every axis, with zeros in front, in units of 2^-bits.

    The sums are rounded to integers. An axis of n cells has n + 1 sums. ``cells`` is overwritten.

    Raises:
        SumOverflow: a sum is 2^53 units or more.

    >>> rounded_sums(np.array([0.3, 0.3]), bits=2).tolist()
    [0, 1, 2]
    """
    for axis in range(cells.ndim):
        np.cumsum(cells, axis=axis, out=cells)
    np.rint(np.multiply(cells, 2.0**bits, out=cells), out=cells)
    largest = float(np.abs(cells).max())
    if largest >= 2.0**53:
        raise SumOverflow(
            f"private sums reach {largest * 2.0 ** (-bits):.3g}, but with this noise they are "
            f"exact only up to {2.0 ** (53 - bits):.3g}: count in larger units"
        )
    sums = np.zeros(tuple(count + 1 for count in cells.shape), np.int64)
    sums[(slice(1, None),) * cells.ndim] = cells
    return sums


def on_lattice(weights: NDArray[Any], bits: int) -> tuple[int, ...]:
    """Return real weights as integers: scaled so that the largest becomes 2^bits, and rounded;
    positive weights become at least 1.
    """
    scaled = np.rint(weights / weights.max() * 2.0**bits).astype(np.int64)
    return tuple(int(v) for v in np.where(weights > 0, np.maximum(scaled, 1), 0))


def check_name(given: object) -> str:
    """Return the name of a strategy, if it is a text.

    Raises:
        InvalidInput: it is not a text.
    """
    if isinstance(given, str) and is_text(given):
        return given
    raise InvalidInput(f"the name of a strategy is {quote(given)}; give a text")
