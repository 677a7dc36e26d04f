"""`python -m papers.training`: noise for training, beside what others publish.

Prints tables in Markdown, which docs/guides/training.md has in part: least errors where
places are secret, by the guarantee; errors, memory and draws at 512 steps and 8 epochs; noise that
keeps nothing beside the newest papers; BLT as noise of counts; errors of weights under momentum,
weight decay and falling learning rates. Some minutes.
"""

from __future__ import annotations

import argparse
import math
import sys
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from counton import ZCDP, ApproxDP
from counton import plan as plan_counts
from counton.base.arrays import Floats
from counton.noise import Key
from counton.strategies.descent import descend
from counton.training import SGD, FixedEpochs, PoissonBatches, Sampler, SecretPlaces, plan
from counton.training.strategies import (
    BandedInverseSquareRoot,
    BandedOptimum,
    BufferedToeplitz,
    Echo,
    OctaveTraining,
)
from counton.training.strategies.buffered import blt_coefficients
from counton.training.strategies.sensitivity import fixed_squared, gram_of_schedules
from papers.dense_optimum import dense_optimum, no_error_below

STEPS = 512
EPOCHS = 8
BATCH = 100
PLACES = STEPS // EPOCHS
DELTA = 1e-5


def samplers() -> tuple[Sampler, ...]:
    """One for each way of taking batches, over the same run."""
    key = Key.generate()
    examples = BATCH * PLACES
    return (
        FixedEpochs(examples, BATCH, EPOCHS),
        PoissonBatches(examples, 1 / PLACES, STEPS, key=key, name="papers"),
        SecretPlaces(examples, PLACES, EPOCHS, key=key, name="papers", anew=True),
        SecretPlaces(examples, PLACES, EPOCHS, key=key, name="papers"),
    )


def amplified() -> Iterator[str]:
    """Least errors of running sums by the way batches are taken, δ = 10⁻⁵."""
    yield "| ε | an enforced order | Poisson batches, DP-SGD | anew, DP-SGD | kept | by |"
    yield "|---|---|---|---|---|---|"
    for epsilon in (0.5, 1, 2, 4, 8, 16):
        guarantee = ApproxDP(epsilon, DELTA)
        best = [
            plan(sampler=sampler, guarantee=guarantee, search="long").best for sampler in samplers()
        ]
        errors = " | ".join(f"{choice.error:.2f}" for choice in best)
        yield f"| {epsilon:g} | {errors} | {best[-1].strategy.name} |"


def frontier() -> Iterator[str]:
    """Errors at 512 steps and 8 epochs with what a step keeps and draws, only a distance promised.

    C is a band of as many diagonals as an epoch has steps, or what the strategy says. Noise of a
    banded C is drawn anew for all steps so far, or takes the noise of the last 63, kept.
    """
    place = (STEPS, EPOCHS, "separated")
    blt = BufferedToeplitz.fit(*place, scaling="epochs")
    shared = BandedInverseSquareRoot.fit(*place, scaling="epochs")
    yield "| noise | error | kept, and normals a step | parameters |"
    yield "|---|---|---|---|"
    buffers = blt.buffers
    parameters = 2 * buffers + EPOCHS
    yield f"| BLT-{buffers}, shares | {blt.rmse:.3f} | {buffers}, and 1 | {parameters} |"
    yield f"| {shared.name} | {shared.rmse:.3f} | 0, and {shared.draws:.1f} | 9 |"
    few = BandedOptimum.fit(STEPS, EPOCHS, draws=PLACES)
    entries = int((few.increments()[0] != 0).sum())
    yield f"| {few.name} | {few.rmse:.3f} | 0, and {few.draws:.1f} | {entries:,} |"
    bands = f"{PLACES - 1}, and 1; or 0, and {(STEPS + 1) / 2:.1f}"
    start = blt_coefficients(PLACES, blt.theta, blt.thetahat)
    cut = best_bands(start, shares=True)
    yield f"| BLT-{buffers} cut off at an epoch, shares | {cut:.3f} | {bands} | {parameters} |"
    yield f"| equal bands, shares | {best_bands(start):.3f} | {bands} | {PLACES + EPOCHS} |"
    optimum = BandedOptimum.fit(STEPS, EPOCHS)
    entries = int((optimum.encoder() != 0).sum())
    yield f"| optimal bands | {optimum.rmse:.3f} | {bands} | {entries:,} |"
    yield f"| no matrix is below | {dense_optimum(STEPS, EPOCHS).rmse:.3f} | | |"


def best_bands(start: Floats, shares: bool = False) -> float:
    """The least error of a C whose diagonals are constant but for a scale of each column.

    Columns of an epoch have the same norm; which, and with ``shares`` only that, is searched for.
    """
    from scipy.linalg import solve_triangular

    lag = np.subtract.outer(np.arange(STEPS), np.arange(STEPS))
    inside = (lag >= 0) & (lag < PLACES)
    epoch = np.arange(STEPS) // PLACES

    def value(x: Floats) -> tuple[float, Floats]:
        share = np.exp(x[:EPOCHS] - x[:EPOCHS].max())
        share /= share.sum()
        matrix = np.where(inside, x[EPOCHS:][np.where(inside, lag, 0)], 0.0)
        norms = np.linalg.norm(matrix, axis=0)
        wanted = np.sqrt(share[epoch])
        matrix *= wanted / norms
        inverse = solve_triangular(matrix, np.eye(STEPS), lower=True)
        sums = np.cumsum(inverse, axis=0)
        slope = np.where(inside, (inverse @ (sums.T @ sums)).T, 0.0) * (-2 / STEPS)
        along = (slope * matrix).sum(axis=0)
        by_entry = (slope - matrix * (along / wanted**2)) * (wanted / norms)
        by_share = np.asarray(np.bincount(epoch, along / 2), np.float64)
        by_share -= share * by_share.sum()
        by_lag = np.asarray(np.bincount(lag[inside], by_entry[inside]), np.float64)
        if shares:
            by_lag[:] = 0
        return float((sums**2).sum() / STEPS), np.concatenate([by_share, by_lag])

    return math.sqrt(descend(value, np.concatenate([np.zeros(EPOCHS), start]), maxiter=60)[0])


def stateless() -> Iterator[str]:
    """Errors of noise that keeps nothing, in an enforced order, by the normals of a step.

    C^-1 is (1 - x)^γ, cut off after as many coefficients as a step takes normals. With two it is 1
    - γ x: DP-λCGD (arXiv 2601.22334). γ = 1/2 is the banded inverse square root; the best γ is what
    we read γ-BIFR (arXiv 2605.18379) to be.
    """
    runs = ((512, 8), (2046, 6), (2048, 8), (1024, 1))
    yield f"| noise | normals | {' | '.join(f'{steps}, {epochs}' for steps, epochs in runs)} |"
    yield f"|---|---|{'---|' * len(runs)}"
    for normals in (1, 2, 4, 8, 16, 64):
        half = [f"{root_error(0.5, normals, *run):.3f}" for run in runs]
        yield f"| γ = 1/2 | {normals} | {' | '.join(half)} |"
        if normals > 1:
            best = [f"{best_root_error(normals, *run):.3f}" for run in runs]
            yield f"| best γ | {normals} | {' | '.join(best)} |"
    echo = [f"{Echo.fit(*run, 1).rmse:.3f}" if run[1] > 1 else "-" for run in runs]
    yield f"| Echo-1, 1 kept | (epochs + 1) / 2 | {' | '.join(echo)} |"
    for buffers in (1, 2):
        blt = [f"{BufferedToeplitz.fit(*run, buffers=buffers).rmse:.3f}" for run in runs]
        yield f"| BLT-{buffers}, {buffers} kept | 1 | {' | '.join(blt)} |"
    octave = [f"{OctaveTraining.fit(*run).rmse:.3f}" if run[0] <= 1024 else "-" for run in runs]
    yield f"| Octave, nothing kept | about 30 | {' | '.join(octave)} |"


def root_error(power: float, normals: int, steps: int, epochs: int) -> float:
    """Root mean squared error of C^-1 = (1 - x)^power, cut off, sensitivity included."""
    from scipy.signal import lfilter

    order = np.arange(1, normals)
    cut = np.concatenate([np.ones(1), np.cumprod((order - 1 - power) / order)])
    inverse = np.zeros(steps)
    impulse = np.zeros(steps)
    inverse[:normals] = cut
    impulse[0] = 1
    square = fixed_squared(gram_of_schedules(lfilter([1.0], cut, impulse), steps // epochs))
    left = np.arange(steps, 0, -1) / steps
    return math.sqrt(square * float(left @ np.cumsum(inverse) ** 2))


def best_root_error(normals: int, steps: int, epochs: int) -> float:
    """The least over the powers up to 1."""
    from scipy.optimize import minimize_scalar

    found = minimize_scalar(
        root_error,
        args=(normals, steps, epochs),
        bounds=(0.01, 1 - 1e-6),
        method="bounded",
        options={"xatol": 1e-6},
    )
    return float(found.fun)


def counts() -> Iterator[str]:
    """BLT as noise of counts, beside what plans of counts choose from, ρ = 1/2.

    Root mean squared and largest error over all steps; sensitivity and error are exact: the norm of
    C's first column and the sums of C^-1.
    """
    horizons = (52, 365, 1024, 8760)
    yield f"| strategy | {' | '.join(f'{steps:,} steps' for steps in horizons)} |"
    yield f"|---|{'---|' * len(horizons)}"
    rows: dict[str, list[str]] = {}
    for steps in horizons:
        found = plan_counts(steps, ZCDP("1/2"))
        errors: dict[str, Floats] = {}
        for one in found:  # the best of a kind comes first
            errors.setdefault(one.strategy.saved_name, one.errors.std(np.arange(1, steps + 1)))
        for name in ("Solved", "NormalisedSqrt", "SqrtToeplitz", "KAry"):
            own = np.asarray(errors.get(name, [math.nan]))
            rows.setdefault(name, []).append(f"{np.sqrt((own**2).mean()):.4f}, {own.max():.4f}")
        for buffers in (2, 5):
            blt = BufferedToeplitz.fit(steps, buffers=buffers)
            variances = np.cumsum(np.cumsum(blt.inverse()) ** 2) * blt.squared_sensitivity()
            text = f"{blt.rmse:.4f}, {math.sqrt(variances[-1]):.4f}"
            rows.setdefault(f"BLT of up to {buffers} numbers, floating point", []).append(text)
    for name, cells in rows.items():
        yield f"| {name} | {' | '.join(cells)} |".replace("nan, nan", "-")


def optimizers(
    runs: Sequence[tuple[int, int]] = ((96, 1), (96, 4), (512, 1), (512, 8)),
) -> Iterator[str]:
    """Errors of weights in an enforced order, divided by one that no matrix goes below.

    Of the best plan for running sums, then of the best plan for the optimiser. Rates fall from 1 as
    half a cosine; with weight decay from 1/2.

    Args:
        runs: steps and epochs of each column.
    """
    yield f"| optimiser | {' | '.join(f'{steps}, {epochs}' for steps, epochs in runs)} |"
    yield f"|---|{'---|' * len(runs)}"
    for name, momentum, decay, falls in (
        ("SGD", 0, 0, False),
        ("momentum .9", 0.9, 0, False),
        ("falling rates", 0, 0, True),
        ("momentum .9, falling rates", 0.9, 0, True),
        ("the same, weight decay .0005", 0.9, 0.0005, True),
    ):
        cells = []
        for steps, epochs in runs:
            falling = (1 + np.cos(np.pi * np.arange(steps) / steps)) / (4 if decay else 2)
            under = SGD(momentum, decay, falling if falls else 1.0)
            least = no_error_below(steps, epochs, under)
            place: dict[str, Any] = {"steps": steps, "epochs": epochs, "search": "long"}
            sums = plan(**place).best.strategy.under(under)
            own = plan(**place, optimizer=under).best
            short = own.strategy.name.removesuffix(", steps scaled")
            cells.append(f"{sums.rmse / least:.3f}, {own.rmse / least:.3f} ({short})")
        yield f"| {name} | {' | '.join(cells)} |"


TABLES: dict[str, Callable[[], Iterator[str]]] = {
    "amplified": amplified,
    "frontier": frontier,
    "stateless": stateless,
    "counts": counts,
    "optimizers": optimizers,
}


def main(words: Sequence[str] | None = None) -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(prog="python -m papers.training", description=__doc__)
    parser.add_argument("table", nargs="*", help=f"which: {', '.join(TABLES)}; all unless given")
    for name in parser.parse_args(words).table or TABLES:
        table = TABLES[name]
        sys.stdout.write(f"{str(table.__doc__).splitlines()[0]}\n\n")
        for line in table():
            sys.stdout.write(f"{line}\n")
            sys.stdout.flush()
        sys.stdout.write("\n")


if __name__ == "__main__":
    main()
