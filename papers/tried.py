"""What was tried to make errors smaller: before, after, and what bounds it.

`python -m papers.tried` prints the tables, in a minute; `python -m papers.tried blocks` one table.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Iterator, Sequence

import numpy as np

from counton import ZCDP, PureDP, plan
from counton.base.arrays import Floats
from counton.strategies import Epochs, GrowingBlocks, GrowingSquareRoot, SqrtToeplitz
from counton.strategies.descent import descend
from counton.training.strategies import (
    BandedInverseSquareRoot,
    BandedOptimum,
    BufferedToeplitz,
)
from papers.constants.numbers import psi_star
from papers.dense_optimum import dense_optimum

RHO = ZCDP("1/2")
PURE = PureDP(1)


def training() -> Iterator[str]:
    """Noise for training where only a separation is promised: root mean squared errors."""
    yield "steps, epochs | BLT | a scale for each place | a share for each epoch | optimal bands"
    for steps, epochs in ((512, 8), (2046, 6), (2048, 16)):
        place = (steps, epochs, "separated")
        plain, equal, shares = (
            BufferedToeplitz.fit(*place, scaling=scaling).rmse
            for scaling in ("none", "equal", "epochs")
        )
        bands = f"{BandedOptimum.fit(steps, epochs).rmse:.3f}" if steps <= 512 else "-"
        yield f"{steps}, {epochs} | {plain:.3f} | {equal:.3f} | {shares:.3f} | {bands}"
    place = (512, 8, "separated")
    equal, shares = (
        BandedInverseSquareRoot.fit(*place, scaling=scaling).rmse for scaling in ("equal", "epochs")
    )
    yield f"banded inverse square root at 512, 8 | - | {equal:.3f} | {shares:.3f} | -"
    yield f"no matrix is below, at 512, 8: {dense_optimum(512, 8).rmse:.3f}"


def means(steps: int = 256) -> Iterator[str]:
    """Running means with as many values in each step, publicly: errors of V(t) / t^2."""
    at = np.arange(1, steps + 1)
    yield "made for | root mean square over all steps | largest | at the last step"
    root = plan(steps, RHO, strategies=[SqrtToeplitz(steps)])
    for name, stds in (
        ("the sum (the planner's best)", plan(steps, RHO).best.errors.std()),
        ("the sum, square root", root.best.errors.std()),
        ("the mean, by search", np.sqrt(_for_means(steps))),
    ):
        errors = stds / at
        mean = math.sqrt((errors**2).mean())
        yield f"{name} | {mean:.4f} | {errors.max():.3f} | {errors[-1]:.5f}"


def _for_means(steps: int) -> Floats:
    """Return the variances of running sums under the matrix C that is best for running means.

    C has columns of norm 1. It is searched for by L-BFGS; running means are the sums divided by
    the number of steps. The result has shape (steps,).
    """
    from scipy.linalg import solve_triangular

    inside = np.tril_indices(steps)
    weights = 1 / np.arange(1, steps + 1) ** 2
    odd = np.arange(1, steps)
    root = np.cumprod(np.concatenate([np.ones(1), (2 * odd - 1) / (2 * odd)]))

    def sums_of(x: Floats) -> tuple[Floats, Floats, Floats, Floats]:
        matrix = np.zeros((steps, steps))
        matrix[inside] = x
        norms = np.linalg.norm(matrix, axis=0)
        inverse = solve_triangular(matrix / norms, np.eye(steps), lower=True)
        return matrix / norms, norms, inverse, np.cumsum(inverse, axis=0)

    def value(x: Floats) -> tuple[float, Floats]:
        matrix, norms, inverse, sums = sums_of(x)
        read = weights[:, None] * sums
        slope = np.tril(-2 * (inverse @ (sums.T @ read)).T)
        slope = (slope - matrix * (slope * matrix).sum(axis=0)) / norms
        return float((sums * read).sum()), slope[inside]

    start = root[inside[0] - inside[1]]
    found = descend(value, start, maxiter=400)[1]
    return np.asarray((sums_of(found)[3] ** 2).sum(axis=1))


def endless() -> Iterator[str]:
    """Totals without a last step: roots of mean variances over so many first steps."""
    yield "steps | before | even nodes | after | that many steps known | least of these"
    for steps in (64, 365, 1024, 4096, 8760):
        before = plan(
            None, RHO, expected_windows=steps, strategies=[GrowingSquareRoot()]
        ).best.errors.mean_std
        best = plan(None, RHO, expected_windows=steps).best
        known = plan(steps, RHO)
        least = known.least_std("mean")["gaussian"]
        yield (
            f"{steps:,} | {before:.3f} | {best.strategy.parameters.get('even', '-')} "
            f"| {best.errors.mean_std:.3f} | {known.best.errors.mean_std:.3f} | {least:.3f}"
        )


def blocks() -> Iterator[str]:
    """Totals without a last step, over that of the square root with as many: largest variances."""
    yield "steps | growing square root | growing square root over blocks"
    alone = GrowingSquareRoot()
    in_blocks = GrowingBlocks()
    unit = float(in_blocks.squared_sensitivity())
    for octaves in (10, 14, 18, 20, 22, 24, 26, 28, 30):
        steps = min(2**octaves, 2**30 - 1)
        known_end = psi_star(steps) ** 2
        growing = f"{alone.largest_variance(steps) / known_end:.3f}" if octaves < 20 else "-"
        ratio = unit * in_blocks.largest_variance(steps) / known_end
        yield f"{steps:,} | {growing} | {ratio:.3f}"


def epochs() -> Iterator[str]:
    """Pure totals without a last step, at epsilon 1: roots of mean variances over first steps."""
    steps = (64, 365, 1024, 2048, 4096, 8760)
    found = [
        [
            plan(None, PURE, expected_windows=end, strategies=[Epochs()]).best.errors.mean_std
            for end in steps
        ]
    ]
    for first, ratio in ((16, 16), (64, 16), (256, 8)):
        variances = [np.zeros(0)]
        over = 0.0
        length = first
        while sum(map(len, variances)) < steps[-1]:
            variances.append(plan(length, PURE).best.errors.std() ** 2 + over)
            over = float(variances[-1][-1])
            length = sum(map(len, variances)) * (ratio - 1)
        all_of_it = np.concatenate(variances)
        found.append([math.sqrt(all_of_it[:end].mean()) for end in steps])
    found.append([plan(end, PURE).best.errors.mean_std for end in steps])
    yield "steps | as used | best inside, 16, 16 | 64, 16 | 256, 8 | planned to end there"
    for end, row in zip(steps, zip(*found, strict=True), strict=True):
        yield " | ".join([f"{end:,}", *(f"{std:.2f}" for std in row)])


def run(asked: Sequence[str] = ()) -> None:
    """Write all tables, or those that are asked for by name."""
    for table in (training, means, endless, blocks, epochs):
        if asked and table.__name__ not in asked:
            continue
        lines = [str(table.__doc__).splitlines()[0], *(f"  {line}" for line in table())]
        sys.stdout.write("\n".join(lines) + "\n")


if __name__ == "__main__":
    run(sys.argv[1:])
