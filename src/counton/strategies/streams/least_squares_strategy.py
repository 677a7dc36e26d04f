"""Running totals by least squares: a strategy for lines, whose noise is computed at once.

The proof of privacy only needs B C = A, so a release may use the noise of nodes that later steps
still enter. Then C may be any matrix that is good for prefix sums, such as `Hats`, and B its
least-squares inverse. With z the noise of all nodes of the horizon, the noise of the release at
step t is the sum of the first t entries of u = (C^T C)^-1 C^T z.

For long streams a cell of the line is a *block* of steps. The nodes of a small tree inside share
the block's weight. They give an estimate of the block's total, with a known variance, which
replaces the cell's own measurement in the least squares of the line; the result is distributed over
the tree's steps.

**Exactness.** u is real. If item i changes by d, z changes by d C e_i for the same measurements,
and hence u by d e_i, exactly. Sums of u are *correctly rounded* to multiples of a power of two;
adding an integer before or after rounding gives the same result. They are computed in float64, each
with a proof. With G = C^T C, the residual r = C^T z - G u of the normal equations is computed
exactly, in integers. Let D be the diagonal matrix of the squares of the cells' own weights. G - D
has no negative eigenvalue, so the sum of t entries is within sqrt(1_t^T D^-1 1_t) sqrt(r^T D^-1 r)
of the truth, with 1_t the vector of t ones and then zeros. If a boundary between two rounded values
lies within that error, further digits of u are computed. Boundaries are irrational, and sums of u
rational, so finitely many digits decide. So a release is one definite function of the measurements
C x + z on every machine. Inside a block every number estimates a count, and is rounded when it is
computed.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from contextlib import nullcontext
from fractions import Fraction
from functools import cached_property
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from typing_extensions import override

from counton.base.arrays import Floats, Integers, one_thread
from counton.base.distributions import NoiseDistribution
from counton.base.errors import InvalidInputError
from counton.base.exact import check_integer, quote
from counton.strategies.lines import line_of_blocks
from counton.strategies.lines.least_squares import (
    CellwiseLine,
    IntegerEquations,
    NormalEquations,
    modulo_prime,
)
from counton.strategies.participation import Schedule, Structure, check_norm
from counton.strategies.strategy import (
    NUMBERS_PER_PART,
    Metric,
    Node,
    NodeNoise,
    Norm,
    Reader,
    Steps,
    StrategyFacts,
    StrategyReleaseForm,
    StreamStrategy,
    check_ends,
    check_metric,
    check_step,
    check_steps,
    widths_of,
)
from counton.strategies.streams.block_tree import INNER_BITS, BlockTree
from counton.strategies.streams.exact_totals import LARGEST_SUM, WIDEST_STDS

#: Most steps.
LARGEST_HORIZON = 2**40
#: Exact rows of B are written out for lines up to this many cells: cubic time, with long numbers.
LARGEST_EXACT = 256
#: Largest standard deviation of a node's noise, in units of the largest 1-norm of a column.
_LARGEST_STD = 2.0**20
#: With trees inside blocks, the noise of blocks' totals is rounded to multiples of 2^-14.
_OUTER_BITS = 14
#: Variances of longer streams are summarised block by block.
_LONGEST_UNSUMMARISED = 2**18
#: Steps inside blocks processed together; chosen by measurement. Values never depend on it.
_STEPS_PER_PASS = 2**18
#: Unknowns of least squares (cells times coordinates) computed at a time; chosen by measurement.
#: Values never depend on it.
_UNKNOWNS_PER_SOLUTION = 2**16
#: For lines up to this many cells, the largest weight of a node in a release is searched at the
#: ends of all blocks. For longer lines it is searched at some, and increased by this part
#: (measured: less than 2^-10 is missed on lines of 500 to 8000 cells).
_MOST_CELLS_WITH_ALL_ENDS = 512
_RESERVE_BETWEEN_ENDS = 2.0**-6
#: Most distances between steps for which inner products of columns are bounded.
_MOST_LAGS = 256
#: For lines up to this many cells, the inner products of all pairs of columns may be computed.
_MOST_CELLS = 1024


class LeastSquaresStrategy(StreamStrategy):
    """Running totals by least squares, with all noise computed before the first release.

    C is the matrix of a strategy for a line of cells, such as `Hats`. Each of its cells is a step,
    or a block of steps with a small tree inside. B is the least-squares inverse: the noise of
    release t is the sum of the first t entries of u = (C^T C)^-1 C^T z. So a release uses noise of
    nodes that later steps enter.

    Args:
        line: the strategy that measures the steps, or the totals of blocks: `Dense` or `Hats`.
        radices: number of children of levels 1, 2, ... of the tree; their product is the steps in a
            block. Empty: cells are single steps.
        shares: the weight of each level of the tree, relative to the block's: integers, single
            steps first. The last one, for the block itself, may be left out. Empty: 1 each.
        norm: 1 or 2: that of which all columns of the line, and of C, have the same.
        horizon: number of steps; default: all steps of the line's cells.

    Raises:
        InvalidInputError: an argument out of range, or blocks for a line whose cells are not all
            measured.

    >>> from counton.tables import Hats
    >>> strategy = LeastSquaresStrategy(Hats(8, (4,), [[8, 4, 8]], bits=4))
    >>> strategy.horizon, strategy.l1_sensitivity(), round(strategy.overall_variance("mean"), 3)
    (8, Fraction(1, 1), 6.507)
    """

    sources: tuple[str, ...] = ("matrices", "a_floor_estimates")
    saved_name = "Solved"

    horizon: int

    def __init__(
        self,
        line: CellwiseLine,
        radices: Sequence[int] = (),
        shares: Sequence[int] = (),
        norm: Norm = 1,
        horizon: int | None = None,
    ) -> None:
        norm = check_norm(norm)
        if not isinstance(line, CellwiseLine):
            raise InvalidInputError(
                f"line is {quote(line)}; give a line strategy such as Hats or Dense"
            )
        self.line = line
        self.norm = norm
        self._tree = BlockTree(radices, shares, norm)
        self.radices = self._tree.radices
        self.shares = self._tree.given
        self._block = self._tree.widths[-1]
        self.horizon = self._checked_horizon(horizon)
        self._refuse_unusable_line()
        l1, squared = self._norms
        # lattice_bits is chosen so that the columns of C have a norm of about 1 to 2
        size = l1 if norm == 1 else math.isqrt(squared - 1) + 1
        if self.radices:
            trees = ("trees_estimate_from_below", "families_estimate_from_above")
            self.sources = (*type(self).sources, *trees)
        self.facts = StrategyFacts(
            lattice_bits=max(size.bit_length() - 1, 1),
            fraction_bits=10,
            local=False,
            unit_columns=False,
            buffer_size=line.cells + 1,  # the sums up to every block
            # It draws the line's rows, and two levels of every block.
            drawn_ahead=line.cells * (2 + math.prod(self.radices[-2:])),
        )

    def _checked_horizon(self, horizon: int | None) -> int:
        """Return the horizon; refuse one for which the line has too many or too few cells."""
        cells = self.line.cells
        most = cells * self._block
        if most > LARGEST_HORIZON:
            raise InvalidInputError(
                f"{cells} blocks of {self._block} steps are more than 2^40 steps: give a line "
                "of fewer cells, or shorter blocks"
            )
        checked = most if horizon is None else check_integer("horizon", horizon, 1)
        if not most - self._block < checked <= most:
            raise InvalidInputError(
                f"horizon is {horizon}, but {cells} blocks of {self._block} steps serve more "
                f"than {most - self._block} and at most {most} steps: give a line with another "
                "number of cells"
            )
        return checked

    def _refuse_unusable_line(self) -> None:
        """Refuse a line without shares for the trees, or with entries too large for exact sums."""
        line = self.line
        if self.radices and line.own.min() < 1:
            raise InvalidInputError(
                f"cell {int(np.argmin(line.own))} of {line!r} is not measured by itself, so no "
                "share of it is left for the tree inside a block: use Hats, or leave radices out"
            )
        # Both sides of the normal equations become integers.
        largest = max(
            self._tree.variance.denominator * int(np.abs(line.own).max()) ** 2,
            self._tree.variance.numerator * self._tree.unit**2,
        )
        if float(self._norms[0]) ** 2 >= 2.0**61 or largest >= 2**62:
            raise InvalidInputError(
                f"shares {list(self.shares)} times the entries of {line!r} are too large for exact "
                "sums: give the line fewer bits"
            )

    @classmethod
    @override
    def examples(cls, horizon: int) -> Sequence[StreamStrategy]:
        from counton.strategies.lines.dense import Dense
        from counton.strategies.lines.hats import Hats

        examples = []
        if horizon <= 32:
            examples += [cls(Hats.examples(horizon)[1]), cls(Dense.examples(horizon)[1])]
        width = 1 << max(1, horizon.bit_length() - 4)  # about a dozen blocks
        binary = (2,) * (width.bit_length() - 1)
        wide = (3, *binary[1:], 2)
        shares = (5, *(3 for _ in binary), 2)
        norms: tuple[tuple[int, Norm], ...] = ((1, 1), (2, 2))
        for which, norm in norms:
            plain = Hats.examples(-(-horizon // width))[which]
            uneven = Hats.examples(-(-horizon // math.prod(wide)))[which]
            if norm == 1 or horizon <= 8:  # exact rows with long numbers are slow
                examples.append(cls(uneven, wide, shares, norm, horizon))
            if norm == 2 or horizon <= 8:
                examples.append(cls(plain, binary, (), norm, horizon))
        return tuple(examples)

    @property
    def parameters(self) -> dict[str, Any]:
        """JSON values that identify the line, the tree inside blocks, and the horizon."""
        line = {"strategy": self.line.saved_name, **self.line.parameters}
        return {
            "line": line,
            "radices": list(self.radices),
            "shares": list(self.shares),
            "norm": self.norm,
            "horizon": self.horizon,
        }

    @override
    def to_dict(self) -> dict[str, Any]:
        """Return the parameters with the line's own description as JSON values."""
        return {**super().to_dict(), "line": self.line.to_dict()}

    @classmethod
    @override
    def _from_description(cls, line: Mapping[str, Any], **blocks: Any) -> Self:
        return cls(line_of_blocks(line), **blocks)

    def __repr__(self) -> str:
        inside = f", radices={self.radices}, shares={self.shares}" if self.radices else ""
        rest = f"norm={self.norm}, horizon={self.horizon}"
        return f"{self.saved_name}({self.line.short_text}{inside}, {rest})"

    # ---------------------------------------------------------------------- C and its norms

    @cached_property
    def _norms(self) -> tuple[int, int]:
        """Largest norms of a column of C, in units of 2^-lattice_bits and 4^-lattice_bits."""
        own_weights = np.abs(self.line.own)
        shares = self._tree.shares
        unit = self._tree.unit
        norms: tuple[Norm, Norm] = (1, 2)
        l1, squared = (
            unit**norm * self.line.powers(norm)
            + sum(share**norm for share in shares) * own_weights**norm
            for norm in norms
        )
        return int(l1.max()), int(squared.max())

    def l1_sensitivity(self) -> Fraction:
        return Fraction(self._norms[0], 1 << self.facts.lattice_bits)

    def squared_sensitivity(self) -> Fraction:
        return Fraction(self._norms[1], 1 << 2 * self.facts.lattice_bits)

    @override
    def _check_distribution(self, distribution: NoiseDistribution) -> None:
        """Refuse noise so wide that its sums may not be exact in int64."""
        column = self._norms[0]
        if distribution.std > _LARGEST_STD * column:
            raise InvalidInputError(
                f"a measurement of {self.saved_name} has noise with a standard deviation of "
                f"{distribution.std / column:.3g} times the largest column, but sums are exact "
                f"only up to {_LARGEST_STD:.3g}: give a larger epsilon, rho or resolution, or use "
                "KAry"
            )
        inner = 2.0**INNER_BITS if self.radices else 1.0
        factor, weights, bits = self._equation_weights
        sums, singles, inverse = self._block_variances
        reach = WIDEST_STDS * distribution.std
        # The trees' estimates of blocks, and the solution's sums, in the units in which they are
        # stored.
        largest_sums = np.full(self.line.cells, reach)
        if self.radices:
            largest_sums *= inner * math.sqrt(float(self._tree.variance)) / self.line.own
        rows = reach * float(self.line.powers(1).max()) * factor
        largest = rows + float((largest_sums * weights).max())
        unit = reach * inner * 2.0**-self.facts.lattice_bits
        solved = unit * math.sqrt(singles.max())
        total = unit * math.sqrt(sums.max())
        widest = 0.0
        if self.radices:
            # Estimates of nodes inside a block, and sums of them over the children of a node.
            least = min(share for share in self._tree.shares if share)
            alone = unit * math.sqrt(float(inverse.max())) / least
            widest = 4 * max(self.radices) * (alone + solved) + total
        held = self._system.holds(largest, solved, total, bits)
        if not held or widest >= LARGEST_SUM:
            raise InvalidInputError(
                f"a measurement of {self.saved_name} has noise with a standard deviation of "
                f"{distribution.std / column:.3g} times the largest column, and its sums over "
                f"{self.horizon:,} steps are not exact: give a larger epsilon, rho or resolution, "
                "or use KAry"
            )

    @property
    @override
    def structure(self) -> Structure:
        """Facts about the columns, for the sensitivity to units that count in several steps.

        Steps in different blocks share rows of the line; those of one block also nodes of its tree.
        """
        return Structure(
            overlaps=self._overlaps,
            change_bound=lambda: self._change_bound,
            aligned=lambda: self._aligned,
        )

    def _overlaps(self, schedule: Schedule) -> list[int]:
        """Return bounds on inner products of columns j times ``schedule.apart`` apart, j from 1."""
        # If there are many distances, only some are computed. Each is a bound for larger distances
        # too.
        lags = [j * schedule.apart for j in range(1, schedule.steps)]
        some = lags[:: -(-len(lags) // _MOST_LAGS)] if lags else []
        known_overlaps = {lag: self._overlap(lag) for lag in some}
        overlaps = []
        latest = 0
        for lag in lags:
            latest = known_overlaps.get(lag, latest)
            overlaps.append(latest)
        return overlaps

    def _overlap(self, lag: int) -> int:
        """Return a bound on the inner product of columns ``lag`` apart, in ``4**-lattice_bits``."""
        square = self._tree.unit**2
        apart = lag // self._block
        if apart:
            return square * self.line.overlap(apart)
        shared = sum(
            share**2
            for share, width in zip(self._tree.shares, self._tree.widths, strict=True)
            if width > lag
        )
        within = square * self.line.powers(2) + shared * self.line.own**2
        return max(int(within.max()), square * self.line.overlap(1))

    @cached_property
    def _aligned(self) -> bool:
        """Whether no entry is negative, and G_ik <= G_ij + G_jk for columns i < j < k."""
        # If a row of the line first rises and then falls, then of its entries at three places in
        # order the product of the outer two is at most the middle entry times the larger outer one.
        # Otherwise the inner products of all columns are computed.
        line = self.line
        sums = line.under(np.ones((1, line.rows), np.int64))[0]
        if not (line.own >= 0).all() or not np.array_equal(sums, line.powers(1)):
            return False
        rises, tops = self._variations
        if rises == tops:
            return True
        if line.cells > _MOST_CELLS:
            return False
        rows = line.over(np.eye(line.cells))
        products = rows @ rows.T
        outer = products * (1 + 1e-9)  # more than the rounding error
        return all(
            bool((outer[:q, q + 1 :] <= products[:q, q, None] + products[None, q, q + 1 :]).all())
            for q in range(1, line.cells - 1)
        )

    @cached_property
    def _variations(self) -> tuple[dict[int, int], dict[int, int]]:
        """By measurement, the rises of weights from cell to cell, from 0 to 0, and the largest."""
        # A row starts and ends at 0, so its falls add up to as much as its rises. The rises alone,
        # or the falls alone, after any step add up to no more.
        latest: dict[int, tuple[int, int]] = {}
        rises: dict[int, int] = {}
        tops: dict[int, int] = {}
        for block in range(self.line.cells):
            for row, weight in self.line.rows_of(block):
                last_block, before = latest.get(row, (-1, 0))
                if last_block + 1 < block:  # it was 0 in between
                    rises[row] = rises.get(row, 0) + max(-before, 0)
                    before = 0
                rises[row] = rises.get(row, 0) + max(weight - before, 0)
                tops[row] = max(tops.get(row, 0), weight)
                latest[row] = block, weight
        for row, (_, weight) in latest.items():
            rises[row] += max(-weight, 0)
        return rises, tops

    @cached_property
    def _change_bound(self) -> int:
        """Most that each change, by +1 and -1 in turn, adds to the squared 2-norm."""
        # The largest sum over a column of each entry times the variation of its row.
        rises, _ = self._variations
        square = self._tree.unit**2
        shared = sum(share**2 for share in self._tree.shares)
        return max(
            square * sum(rises[row] * abs(weight) for row, weight in self.line.rows_of(block))
            + shared * int(self.line.own[block]) ** 2
            for block in range(self.line.cells)
        )

    def column(self, step: int) -> tuple[Node, ...]:
        """Return the rows of the step's block, and a node of each level of its tree.

        Args:
            step: step of the stream, from 1 to the horizon.
        """
        place = check_step(self, step) - 1
        block = place // self._block
        scale = 1 << self.facts.lattice_bits
        nodes = [
            Node(0, row, Fraction(self._tree.unit * weight, scale))
            for row, weight in self.line.rows_of(block)
        ]
        own_weight = int(self.line.own[block])
        nodes += [
            Node(1 + level, place // width, Fraction(share * own_weight, scale))
            for level, (share, width) in enumerate(
                zip(self._tree.shares, self._tree.widths, strict=True)
            )
            if share * own_weight
        ]
        return tuple(nodes)

    @override
    def _level_widths(self) -> dict[int, int]:
        if self.radices:  # releases use nodes of the last block that no step may enter
            return super()._level_widths()
        # Releases use only rows of the line, and every row has an entry in some column.
        return widths_of(self.column(step) for step in range(1, self.horizon + 1))

    # --------------------------------------------------------------------------- B, exactly

    @cached_property
    def _system(self) -> IntegerEquations:
        """Normal equations in integers; a tree's estimate takes the place of a measurement."""
        variance = self._tree.variance
        unit = self._tree.unit
        factor = variance.numerator * unit**2
        diagonal = variance.denominator * self.line.own**2
        equations = self.line.equations(diagonal / factor)
        return IntegerEquations(self.line, factor, diagonal, equations)

    @property
    def _equation_weights(self) -> tuple[int, Integers, int]:
        """The right side's factors, for several blocks and by block, and fraction bits of sums."""
        own_weights = self.line.own
        variance = self._tree.variance
        if not self.radices:
            return 1, own_weights, self.facts.fraction_bits
        factor = variance.numerator * self._tree.unit << INNER_BITS
        return factor, variance.denominator * own_weights**2, _OUTER_BITS - INNER_BITS

    @cached_property
    def _equations(self) -> NormalEquations:
        """Normal equations in floating point, with exact variances of trees' estimates."""
        # Noise is computed with weights that differ from the best by a relative error below 2^-22.
        # This increases variances by its square only.
        exact = self._tree.exact_variance
        if exact == self._tree.variance:
            return self._system.equations
        own_weights = self.line.own.astype(np.float64)
        return self.line.equations(own_weights**2 / float(exact * self._tree.unit**2))

    @cached_property
    def _inverse_prefixes(self) -> tuple[list[list[int]], int]:
        """Sums of the first 0, 1, ... rows of the inverse matrix, over a common denominator."""
        cells = self.line.cells
        if cells > LARGEST_EXACT:
            raise InvalidInputError(
                f"an exact row over {cells} cells of a line is too long; exact rows are possible "
                f"up to {LARGEST_EXACT} cells: use variance and noise, or "
                "counton.strategies.matrices(strategy, exact=False)"
            )
        variance = self._tree.variance
        unit = self._tree.unit
        columns = [dict(self.line.rows_of(cell)) for cell in range(cells)]
        rows: list[list[int]] = []
        for cell, column in enumerate(columns):
            products = [
                variance.numerator * unit**2 * sum(w * other.get(r, 0) for r, w in column.items())
                for other in columns
            ]
            products[cell] += variance.denominator * int(self.line.own[cell]) ** 2
            rows.append(products)
        inverse, determinant = _adjugate(rows)
        sums = [[0] * cells]
        for line in inverse:
            sums.append([a + b for a, b in zip(sums[-1], line, strict=True)])
        return sums, determinant

    def row(self, step: int) -> tuple[Node, ...]:
        """Return the nodes whose noise is in the release, for up to 256 cells.

        Args:
            step: step of the stream, from 1 to the horizon.
        """
        place = check_step(self, step) - 1
        block, offset = divmod(place, self._block)
        sums, determinant = self._inverse_prefixes
        part = Fraction(offset + 1, self._block)
        variance = self._tree.variance
        unit = self._tree.unit
        # G^-1 times the weights of blocks' totals in the release, times the determinant
        solved = [
            (1 - part) * a + part * b for a, b in zip(sums[block], sums[block + 1], strict=True)
        ]
        weights: dict[tuple[int, int], Fraction] = {}
        for cell, value in enumerate(solved):
            for row, weight in self.line.rows_of(cell):
                weight_before = weights.get((0, row), Fraction(0))
                weights[0, row] = (
                    weight_before + variance.numerator * unit * weight * value / determinant
                )
            own_weight = int(self.line.own[cell])
            share = variance.denominator * own_weight * value / determinant
            self._tree.read(weights, self._tree.top, cell, share)
        if self.radices:
            self._tree.read_inside(weights, place, Fraction(1, int(self.line.own[block])))
        scale = 1 << self.facts.lattice_bits
        return tuple(
            Node(level, index, weight * scale)
            for (level, index), weight in sorted(weights.items())
            if weight
        )

    @override
    def _float_rows(self, steps: int) -> tuple[list[tuple[int, int]], Floats]:
        # This computes what `row` does, but solves for all right sides together.
        from scipy.linalg import cho_factor, cho_solve

        cells = self.line.cells
        places = np.arange(steps)
        block, offset = np.divmod(places, self._block)
        right = np.tri(cells + 1, cells, -1)[block]  # the weights of blocks' totals in a release
        right[places, block] = (offset + 1) / self._block
        measured = np.zeros((cells, self.line.rows))
        for cell in range(cells):
            for line_row, weight in self.line.rows_of(cell):
                measured[cell, line_row] += weight
        own_weights = self.line.own.astype(np.float64)
        variance = self._tree.variance
        factor = float(variance.numerator * self._tree.unit**2)
        gram = factor * measured @ measured.T
        gram[np.diag_indices(cells)] += variance.denominator * own_weights**2
        solved = cho_solve(cho_factor(gram), right.T).T
        scale = float(1 << self.facts.lattice_bits)
        rows = solved @ measured * (float(variance.numerator * self._tree.unit) * scale)
        nodes = [(0, line_row) for line_row in range(self.line.rows)]

        weights_of_cells: list[dict[tuple[int, int], Any]] = [{} for _ in range(cells)]
        for cell, weights in enumerate(weights_of_cells):
            entering = Fraction(variance.denominator * int(self.line.own[cell]))
            self._tree.read(weights, self._tree.top, cell, entering)
        inside: list[dict[tuple[int, int], Any]] = [{} for _ in range(steps)]
        if self.radices:
            for step, weights in enumerate(inside):
                share: Any = 1 / float(own_weights[block[step]])
                self._tree.read_inside(weights, step, share)
        tree_nodes = sorted({node for weights in (*weights_of_cells, *inside) for node in weights})
        trees = solved @ _dense_weights(weights_of_cells, tree_nodes) + _dense_weights(
            inside, tree_nodes
        )
        reads = np.concatenate([rows, trees * scale], axis=1)
        used = np.flatnonzero(reads.any(axis=0))
        nodes += tree_nodes
        return [nodes[i] for i in used.tolist()], reads[:, used]

    # ---------------------------------------------------------------------------- variances

    @cached_property
    def _block_variances(self) -> tuple[Floats, Floats, Floats]:
        """Variances of the totals of 0, 1, ... blocks, and of each; 1 / weight^2 of each."""
        scale = 4.0**self.facts.lattice_bits
        equations = self._equations
        square = self._tree.unit**2
        sums, singles = (variance * (scale / square) for variance in equations.variances)
        with np.errstate(divide="ignore"):
            inverse = scale / self.line.own.astype(np.float64) ** 2
        return sums, singles, inverse

    def _variance_at(self, steps: Integers) -> Floats:
        block, offset = np.divmod(steps - 1, self._block)
        sums, singles, inverse = self._block_variances
        if not self.radices:
            return np.asarray(sums[steps])
        part = (offset + 1) / self._block
        inside = self._tree.contrast(offset) * inverse[block]
        between = (1 - part) * sums[block] + part * sums[block + 1]
        return np.asarray(between - part * (1 - part) * singles[block] + inside)

    @override
    def variance(self, steps: Steps, since: Steps | None = None) -> NDArray[np.float64]:
        # The noise of a release is that of the total of earlier blocks, a part of that of the
        # step's block, and a sum over nodes of the block's tree. If both steps are in one block,
        # nodes that both releases contain cancel.
        if since is None:
            return self._variance_at(check_steps(self, steps))
        first, last = check_ends(self, since, steps)
        scale = 4.0**self.facts.lattice_bits / self._tree.unit**2
        equations = self._equations
        variances = equations.range_variance(first / self._block, last / self._block) * scale
        if self.radices:
            inverse = np.concatenate([[0.0], self._block_variances[2]])
            variances = variances + self._tree.contrasts(first - 1, last - 1, inverse)
        return np.asarray(np.where(first == last, 0.0, variances))

    def _summed_variance(self, stops: Integers, weights: Floats) -> float:
        """Return the variance of a weighted sum of totals, by solving the equations once."""
        cells = self.line.cells
        block = np.minimum(stops // self._block, cells - 1)
        cut = stops / self._block - block
        right: Floats = np.bincount(block, weights * cut, cells).astype(np.float64)
        right += np.cumsum(np.bincount(block, weights, cells)[::-1])[::-1]
        right -= np.bincount(block, weights, cells)
        variance = float(right @ self._equations.solve(right[None])[0]) / self._tree.unit**2
        variance *= 4.0**self.facts.lattice_bits
        if self.radices:
            inverse = np.concatenate([[0.0], self._block_variances[2]])
            order = np.argsort(stops)
            width = self._tree.widths[-1]
            places = stops[order] - 1
            sorted_weights = weights[order]
            alone = self._tree.contrasts(np.full_like(places, -1), places, inverse)
            variance += float((sorted_weights**2) @ alone)
            for apart in range(1, len(places)):  # covariances of stops in one block
                some = np.flatnonzero(places[apart:] // width == places[:-apart] // width)
                if not len(some):
                    break
                nodes_before = some
                two = some + apart
                differ = self._tree.contrasts(places[nodes_before], places[two], inverse)
                both = (
                    alone[nodes_before]
                    + alone[two]
                    - np.where(places[nodes_before] == places[two], 0.0, differ)
                )
                variance += float(np.sum(sorted_weights[nodes_before] * sorted_weights[two] * both))
        return variance

    @override
    def overall_variance(self, metric: Metric, of: StrategyReleaseForm = "totals") -> float:
        check_metric(metric)
        if of == "windows":
            return self._overall_of_steps(metric)
        if self.horizon <= _LONGEST_UNSUMMARISED:
            variance = self._variance_at(np.arange(1, self.horizon + 1))
            return float(variance.max() if metric == "max" else math.fsum(variance) / self.horizon)
        if metric == "max":
            return self._largest()
        sums, singles, inverse = self._block_variances
        part, inside = self._places
        whole = self.horizon // self._block
        after = float(part.mean())
        cut = float((part * (1 - part)).mean())
        tree = float(inside.mean())
        blocks = (1 - after) * sums[:whole] + after * sums[1 : whole + 1]
        blocks = (blocks - cut * singles[:whole] + tree * inverse[:whole]) * self._block
        rest = self._variance_at(np.arange(whole * self._block + 1, self.horizon + 1))
        return math.fsum([*blocks.tolist(), *rest.tolist()]) / self.horizon

    @cached_property
    @override
    def _largest_read(self) -> float:
        """Upper bound of the weight of any node's noise in any release."""
        # Releases at the ends of all or many blocks are enough: inside a block, the weights of
        # blocks' totals in a release change linearly from step to step.
        cells = self.line.cells
        unit = self._tree.unit
        own_weights = self.line.own.astype(np.float64)
        block = np.arange(cells)
        reserve = 1.0
        if cells > _MOST_CELLS_WITH_ALL_ENDS:
            ends = np.geomspace(1, cells, 24).round(), np.linspace(1, cells, 24).round()
            block = np.unique(np.concatenate(ends).astype(np.int64)) - 1
            reserve = 1 + _RESERVE_BETWEEN_ENDS
        read = self._tree.largest_read
        largest_of_block = self._tree.largest_of_block
        indices = np.arange(len(block))
        rows = in_trees = 0.0
        reads_of_own = []
        for stops in (block, block + 1):  # before the blocks, and after them
            prefixes = (np.arange(cells) < stops[:, None]).astype(np.float64)
            solved = self._system.equations.solve(prefixes) / unit**2
            rows = max(rows, float(np.abs(self.line.over(solved)).max(initial=0.0)) * unit)
            reads_of_totals = solved * own_weights / float(self._tree.variance)
            in_trees = max(
                in_trees, float(np.abs(reads_of_totals).max()) * max(read, largest_of_block)
            )
            reads_of_own.append(reads_of_totals[indices, block] * own_weights[block])
        inside = 0.0
        if self.radices:
            # Weights of children in the release's own block, before the step and after it.
            over = np.stack([1 + reads_of_own[0], reads_of_own[1]])
            yet = np.stack([reads_of_own[0], reads_of_own[1] - 1])
            most = max(float(np.abs(over).max()), float(np.abs(yet).max()), 1.0)
            # how far these leave 0 .. 1 and -1 .. 0, towards which lower levels continue
            beyond = max(float(yet.max()), -float(over.min()), 0.0)
            inside = (most + beyond) * read / float(own_weights.min())
        return max(rows, in_trees, inside) * reserve * 2.0**self.facts.lattice_bits

    @override
    def _read_until(self, step: int) -> float:
        if self.radices:
            return super()._read_until(step)
        starts = np.arange(self.line.cells) < np.arange(1, step + 1)[:, None]
        solved = self._system.equations.solve(starts.astype(np.float64))
        rows = float(np.abs(self.line.over(solved)).max(initial=0.0))
        return max(rows, float(np.abs(solved * self.line.own).max())) * 2.0**self.facts.lattice_bits

    @cached_property
    def _places(self) -> tuple[Floats, Floats]:
        """By step of a block: the complete fraction after it, and v w^2.

        v is the variance that the block's tree adds to the release, and w the block's weight.
        """
        places = np.arange(self._block)
        return (places + 1) / self._block, self._tree.contrast(places)

    def _largest(self) -> float:
        # Blocks are searched in decreasing order of a bound on their variances, until no other
        # block can exceed the largest variance found.
        sums, singles, inverse = self._block_variances
        part, inside = self._places
        edges = np.unique(np.linspace(0, self._block, 257).astype(np.int64))
        tops = np.maximum.reduceat(inside, edges[:-1])
        # Without the tree the variance is a convex function of the part: largest at an end.
        part_at_edges = np.concatenate([[0.0], part])[edges]
        lines = (
            (1 - part_at_edges) * sums[:-1, None]
            + part_at_edges * sums[1:, None]
            - part_at_edges * (1 - part_at_edges) * singles[:, None]
        )
        bounds = np.maximum(lines[:, 1:], lines[:, :-1]) + tops * inverse[:, None]
        bound = bounds.max(axis=1)
        largest = 0.0
        for block in np.argsort(-bound).tolist():
            if bound[block] <= largest:
                break
            first = block * self._block + 1
            steps = np.arange(first, min(first + self._block, self.horizon + 1))
            largest = max(largest, float(self._variance_at(steps).max()))
        return largest

    def _overall_of_steps(self, metric: Metric) -> float:
        # Blocks differ only in their weights.
        if self.horizon <= _LONGEST_UNSUMMARISED:
            return super().overall_variance(metric, "windows")
        _, singles, inverse = self._block_variances
        if not self.radices:
            return float(singles.max() if metric == "max" else singles.mean())
        offsets = np.arange(self._block)
        whole, rest = divmod(self.horizon, self._block)
        inside = self._tree.contrasts(offsets - 1, offsets, np.array([0.0, 1.0]))
        shared = singles / self._block**2
        if metric == "max":
            blocks = shared[:whole] + inverse[:whole] * inside.max()
            last = shared[whole:] + inverse[whole:] * inside[:rest].max(initial=0.0)
            return float(max(blocks.max(initial=0.0), last.max(initial=0.0)))
        sums = self._block * shared[:whole] + inverse[:whole] * math.fsum(inside)
        last = rest * shared[whole:] + inverse[whole:] * math.fsum(inside[:rest])
        return math.fsum([*sums.tolist(), *last.tolist()]) / self.horizon

    @cached_property
    @override
    def _release_rounding(self) -> float:
        """Bound on the rounding error of a release: half a unit, and the most inside a block."""
        if not self.radices:
            return 0.5
        root, per_start = self._tree.rounding
        # The squares of the weights of blocks' estimates in a release are part of its variance.
        sums, _, inverse = self._block_variances
        squares = float(sums.max()) / (float(inverse.min()) * float(self._tree.variance))
        in_totals = math.sqrt(self.line.cells * squares) * root + 0.5 * 2.0 ** (
            INNER_BITS - _OUTER_BITS
        )
        return (
            0.5
            + (3 * in_totals + per_start) * 2.0 ** (self.facts.fraction_bits - INNER_BITS) * 1.001
        )

    # -------------------------------------------------------------------------------- noise

    @override
    def _reader(self, field: NodeNoise) -> Reader:
        """Return a reader, which solves the whole horizon's least squares at the first release.

        Raises:
            SumOverflowError: sums of noise too large for int64, which no calibrated distribution
                produces.
        """
        return _BlockSums(self, field)


class _BlockSums(Reader):
    """The noise of the releases of one stream; that of totals of blocks is kept."""

    _strategy: LeastSquaresStrategy

    def __init__(self, strategy: LeastSquaresStrategy, field: NodeNoise) -> None:
        super().__init__(strategy, field, self._some_steps)

    @cached_property
    def _sums(self) -> Integers:
        """Noise of the totals of 0, 1, ... blocks, in 2^-10, or 2^-14 with trees inside."""
        line = self._strategy.line
        cells = line.cells
        size = math.prod(self._field.shape)
        rows = self._field.run(0, range(line.rows)).reshape(line.rows, size)
        # The estimates of single blocks: z of a cell's own row, or the estimate of its tree.
        if self._strategy.radices:
            roots = self._strategy._tree.roots(self._field, line.own, range(cells))
        else:
            roots = self._field.run(1, range(cells)).reshape(cells, size)
        sums = np.zeros((cells + 1, size), np.int64)
        with one_thread() if size > 1 else nullcontext():  # else no matrices are multiplied
            for start in range(0, size, width := max(1, _UNKNOWNS_PER_SOLUTION // cells)):
                part = slice(start, start + width)
                sums[1:, part] = self._solve_rows(rows[:, part].T, roots[:, part].T).T
        return sums

    def _solve_rows(self, rows: Integers, measured: Integers) -> Integers:
        strategy = self._strategy
        line = self._strategy.line
        system = strategy._system
        factor, weights, bits = strategy._equation_weights
        rows = np.ascontiguousarray(rows)
        measured = np.ascontiguousarray(measured)
        most = float(np.abs(rows).max(initial=0)) * float(line.powers(1).max()) * factor
        most += float((np.abs(measured).max(axis=0).astype(np.float64) * weights).max())
        real = line.under(rows.astype(np.float64)) * float(factor)
        real += weights.astype(np.float64) * measured.astype(np.float64)
        if most < 2.0**52:  # all of these sums are exact
            right = real.astype(np.int64)
        else:
            right = line.under(rows) * np.array(factor % 2**64, np.uint64).astype(np.int64)
            right += weights * measured

        def further() -> Integers:
            return modulo_prime(line, factor, rows, weights, measured)

        return system.rounded_prefixes(right, real, most, bits, further)

    def _some_steps(self, field: NodeNoise, steps: range) -> Iterator[Integers]:
        """Yield the noise of consecutive releases: of earlier blocks, plus inside the block."""
        strategy = self._strategy
        sums = self._sums
        size = max(1, (_STEPS_PER_PASS if strategy.radices else NUMBERS_PER_PART) // sums.shape[1])
        drop = INNER_BITS - strategy.facts.fraction_bits
        for start in range(0, len(steps), size):
            some = steps[start : start + size]
            noise = sums[some.start : some.stop]
            if strategy.radices:
                places = range(some.start - 1, some.stop - 1)
                blocks = slice(places[0] // strategy._block, places[-1] // strategy._block + 2)
                before = sums[blocks] << (INNER_BITS - _OUTER_BITS)
                inside = strategy._tree.inside(field, strategy.line.own, places, before)
                noise = (inside + (1 << (drop - 1))) >> drop
            yield noise.reshape(len(some), *field.shape)


def _adjugate(rows: list[list[int]]) -> tuple[list[list[int]], int]:
    """Return integers A and d, where A / d is the inverse of a positive definite matrix.

    Bareiss's elimination needs only exact divisions.

    >>> _adjugate([[2, 1], [1, 3]])
    ([[3, -1], [-1, 2]], 5)
    """
    count = len(rows)
    work = [[*row, *(int(i == j) for j in range(count))] for i, row in enumerate(rows)]
    before = 1
    for pivot in range(count):
        head = work[pivot][pivot]
        for i in range(count):
            if i != pivot:
                factor = work[i][pivot]
                work[i] = [
                    (head * a - factor * b) // before
                    for a, b in zip(work[i], work[pivot], strict=True)
                ]
        before = head
    return [row[count:] for row in work], before


def _dense_weights(
    rows: Sequence[Mapping[tuple[int, int], Any]], nodes: Sequence[tuple[int, int]]
) -> Floats:
    """Return weights of nodes by row as floats, shape (rows, nodes).

    >>> _dense_weights([{}, {(1, 0): 2}], [(0, 4), (1, 0)]).tolist()
    [[0.0, 0.0], [0.0, 2.0]]
    """
    index_of = {node: index for index, node in enumerate(nodes)}
    dense = np.zeros((len(rows), len(nodes)))
    for row, weights in enumerate(rows):
        for node, weight in weights.items():
            dense[row, index_of[node]] = float(weight)
    return dense
