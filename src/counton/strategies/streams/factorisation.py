"""A strategy for running totals with any real measurement matrix C.

C is rounded to multiples of 2^-bits, so that C x is exact in integers. Sensitivities and errors are
those of the rounded matrix. B is its least-squares inverse, so that B C = A exactly.
``counton.strategies.streams.least_squares_strategy`` explains why a rounded release is a function
of C x + z alone.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike
from typing_extensions import override

from counton.base.arrays import Floats, integers_from_text, integers_to_text
from counton.base.errors import InvalidInputError
from counton.base.exact import check_integer, without_mask
from counton.strategies.lines.dense import Dense
from counton.strategies.strategy import LARGEST_DENSE, Node, check_step
from counton.strategies.streams.least_squares_strategy import LeastSquaresStrategy

#: By default, the 1-norm of the largest column has this many bits, in units of 2^-bits.
_COLUMN_BITS = 24
#: Columns have 1-norms below 2^30, so that squares and products stay within int64.
_LARGEST_BITS = 40
_LARGEST_COLUMN = 2.0**30
#: Bound for tr(C^T C) tr((C^T C)^-1), and so for the squared condition of C: variances are off by
#: about 2^-53 of it.
_LARGEST_CONDITION = 2.0**40


class Factorisation(LeastSquaresStrategy):
    """Running totals by A = B C, for any real matrix C of full column rank.

    A square, lower triangular C is *causal*: no release uses a measurement that a later item
    enters. With any other, releases use measurements of the whole horizon.

    Args:
        matrix: C, real, shape (measurements, steps), with up to 4096 steps.
        bits: entries are rounded to multiples of ``2**-bits``, 1 to 40. Default: so that the 1-norm
            of the largest column has about 24 bits.

    Raises:
        InvalidInputError: not a finite real matrix, masked entries, columns that are (nearly)
            linearly dependent after rounding, or entries too large for exact sums.

    >>> root = Factorisation([[1, 0, 0], [0.5, 1, 0], [0.375, 0.5, 1]])
    >>> root.facts.causal, round(float(root.squared_sensitivity()), 4)
    (True, 1.3906)
    >>> root.variance([1, 2, 3]).round(4).tolist()
    [1.0, 1.25, 1.3906]
    """

    def __init__(self, matrix: ArrayLike, bits: int | None = None) -> None:
        real = _check_matrix(matrix)
        with np.errstate(over="ignore"):
            largest = float(np.abs(real).sum(axis=0).max())
        if bits is None:
            bits_asked = _COLUMN_BITS - math.frexp(largest)[1]
            bits = min(max(bits_asked, 1), _LARGEST_BITS)
        bits = check_integer("bits", bits, 1, _LARGEST_BITS, remedy="18 suit entries of about 1")
        # rounding may raise each entry by half a unit
        if largest * 2.0**bits + len(real) >= _LARGEST_COLUMN:
            raise InvalidInputError(
                f"the magnitudes in a column of the matrix add up to {largest:.4g}, but they must "
                f"be below 2^30 times 2^-{bits}: give fewer bits, or divide the matrix by a number"
            )
        rounded = np.rint(np.ldexp(real, bits)).astype(np.int64)
        empty = ~rounded.any(axis=0)
        if empty.any():
            raise InvalidInputError(
                f"column {int(np.argmax(empty)) + 1} of the matrix is 0 when it is rounded to "
                f"multiples of 2^-{bits}, so its step would never be measured: give more bits, or "
                "multiply the matrix by a number"
            )
        super().__init__(Dense(rounded, "given"))
        triangle = rounded.shape[0] == rounded.shape[1] and not np.triu(rounded, 1).any()
        self.facts = self.facts._replace(lattice_bits=bits, causal=triangle)
        # refuse an unsolvable matrix now, before any data
        condition = float((real**2).sum() * self._equations.variances[1].sum()) * 4.0**bits
        if not condition <= _LARGEST_CONDITION:
            raise InvalidInputError(
                "the columns of the matrix are almost linearly dependent: its squared condition "
                f"number may be {condition:.2g}, and errors are proven only up to "
                f"{_LARGEST_CONDITION:.2g}: add measurements"
            )

    @classmethod
    @override
    def examples(cls, horizon: int) -> Sequence[Self]:
        positions = np.arange(horizon)
        lag = positions[:, None] - positions[None, :]
        root = np.where(lag < 0, 0.0, 1 / np.sqrt(1.0 + 3 * np.abs(lag)))
        waves = np.tril(np.sin(1.0 + positions[:, None] * 3 + positions[None, :] ** 2), -1) / 2
        pairs = np.eye(horizon) - 0.375 * ((lag == 1) & (positions[:, None] % 2 == 1))
        examples = [cls(pairs)]
        if horizon <= 32:  # exact rows with long numbers are slow
            examples += [cls(root, 10), cls(waves + np.diag(0.8 + positions % 3 / 3), 8)]
        if horizon <= 8:
            examples.append(cls(np.vstack([np.eye(horizon), np.full((1, horizon), 0.3)]), 6))
        return tuple(examples)

    @property
    def measurements(self) -> int:
        """Number of rows of C."""
        return len(self._dense.matrix())

    @property
    def _dense(self) -> Dense:
        assert isinstance(self.line, Dense)
        return self.line

    @property
    def matrix(self) -> Floats:
        """C after rounding, exactly: float64, shape (measurements, steps)."""
        return np.asarray(
            np.ldexp(self._dense.matrix().astype(np.float64), -self.facts.lattice_bits)
        )

    def row(self, step: int) -> tuple[Node, ...]:
        """Return the nodes in the release, by substitution for a triangular C, or least squares.

        Args:
            step: step of the stream, from 1 to the horizon.
        """
        if not self.facts.causal:
            return super().row(step)
        last = check_step(self, step)
        matrix = self._dense.matrix()
        weights = [Fraction(0)] * last
        for cell in reversed(range(last)):
            entries = matrix[cell:last, cell]
            read = Fraction(0)
            for k in np.flatnonzero(entries).tolist():
                read += weights[cell + k] * int(entries[k])
            weights[cell] = (1 - read) / int(entries[0])
        alone = self.line.own > 0  # a row over one cell is that cell's own: its node has level 1
        index_of = np.where(alone, np.arange(self.horizon), np.cumsum(~alone) - 1).tolist()
        scale = 1 << self.facts.lattice_bits
        return tuple(
            sorted(
                Node(int(alone[cell]), index_of[cell], weight * scale)
                for cell, weight in enumerate(weights)
                if weight
            )
        )

    @property
    def parameters(self) -> dict[str, Any]:
        digest = self.line.parameters["matrix_sha256"]
        size = {"horizon": self.horizon, "measurements": self.measurements}
        return {**size, "bits": self.facts.lattice_bits, "matrix_sha256": digest}

    @override
    def to_dict(self) -> dict[str, Any]:
        """Return the parameters and the exact rounded matrix as JSON values."""
        matrix = integers_to_text(self._dense.matrix())
        return {"strategy": self.saved_name, **self.parameters, "matrix": matrix}

    @classmethod
    @override
    def _from_description(  # type: ignore[override]  # of its own parameters
        cls, horizon: int, measurements: int, bits: int, matrix: str, **_: Any
    ) -> Self:
        horizon = check_integer("horizon", horizon, 1, LARGEST_DENSE)
        shape = check_integer("measurements", measurements, 1, 2**32), horizon
        bits = check_integer("bits", bits, 1, _LARGEST_BITS)
        return cls(np.ldexp(integers_from_text(matrix, shape).astype(np.float64), -bits), bits)

    def __repr__(self) -> str:
        return (
            f"Factorisation(horizon={self.horizon}, measurements={self.measurements}, "
            f"bits={self.facts.lattice_bits}, matrix={self.parameters['matrix_sha256'][:8]})"
        )


def _check_matrix(matrix: ArrayLike) -> Floats:
    """Return the measurement matrix as finite float64; raise `InvalidInputError` for any other."""
    try:
        array = np.asarray(without_mask(matrix, "the matrix"))
    except InvalidInputError:
        raise
    except ValueError:
        raise InvalidInputError(
            "the matrix has rows of different lengths: give one number for each step in every row"
        ) from None
    if array.ndim != 2 or array.dtype.kind not in "iuf":
        raise InvalidInputError(
            f"the matrix has shape {array.shape} and type {array.dtype}; give a matrix of real "
            "numbers, with one column for each step"
        )
    rows, steps = array.shape
    if not 1 <= steps <= LARGEST_DENSE:
        raise InvalidInputError(
            f"the matrix has {steps} columns, but 1 to {LARGEST_DENSE} steps are possible: use "
            "SqrtToeplitz or KAry for longer streams"
        )
    if rows < steps:
        raise InvalidInputError(
            f"the matrix has {rows} rows for {steps} steps, too few to estimate all steps: add "
            "measurements"
        )
    real = array.astype(np.float64)
    if not np.isfinite(real).all():
        row, step = np.argwhere(~np.isfinite(real))[0].tolist()
        raise InvalidInputError(
            f"entry {row}, {step} of the matrix is {real[row, step]}; all entries must be finite"
        )
    return np.asarray(real)
