"""Figure 5(a): how long an output of many numbers takes, as ratios within one run.

All three mechanisms get the same kind of noise, normal numbers of numpy rounded to integers, so
that what differs is how much of it they draw and how they add it up.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from time import process_time

import numpy as np
from numpy.typing import NDArray

from counton.strategies import Binary, SmoothBinary
from counton.strategies.streams.square_root import square_root_coefficients
from papers.evidence import Comparison

BINARY = "binary"
SMOOTH = "smooth"
ROOT = "Henzinger et al."
#: Numbers of an output and runs of each, as in the paper, whose largest T is not legible. For these
#: the length of scipy's transforms, 2 T - 1, has no prime factors but 3 and 5: at powers of two it
#: is often prime, and times go up and down by a factor of three.
WIDTH = 10_000
RUNS = 5
HORIZONS = (8, 14, 23, 38, 68, 122, 203, 365, 608, 1013, 1823)
#: Short streams are released again until there are as many outputs: a short time is a noisy one.
_OUTPUTS = 256


class _Normals:
    """Fresh normal numbers for every node; each node is asked for once."""

    shape = (WIDTH,)

    def __init__(self) -> None:
        self._random = np.random.default_rng(1)

    def run(self, level: int, nodes: range) -> NDArray[np.int64]:
        return np.rint(self.floats(len(nodes)) * 1000).astype(np.int64)

    def floats(self, count: int) -> NDArray[np.float64]:
        return self._random.standard_normal((count, WIDTH))


@dataclass(frozen=True, slots=True)
class Times:
    """Seconds for an output of ``WIDTH`` numbers, by mechanism and T: one for each run."""

    seconds: dict[tuple[str, int], list[float]]

    def ratio(self, mechanism: str, other: str, horizon: int) -> float:
        """Least time of one over that of another."""
        return min(self.seconds[mechanism, horizon]) / min(self.seconds[other, horizon])

    def rows(self) -> tuple[Comparison, ...]:
        """The paper's sentences on time, which hold on its machine and not to a digit."""
        first = HORIZONS[0]
        last = HORIZONS[-1]
        machine = f"processor time of this machine, least of {RUNS} runs"
        growth = self.ratio(ROOT, SMOOTH, first) / self.ratio(ROOT, SMOOTH, last)
        return (
            Comparison(
                "Figure 5(a)",
                f"time of smooth over binary, T = {last}",
                "2",
                self.ratio(SMOOTH, BINARY, last),
                tolerance=0.5,
                note=f"{machine}; 'twice as much fresh noise', which it also adds up",
            ),
            Comparison(
                "Figure 5(a)",
                f"time of Toeplitz over smooth at T = {first}, over the same at T = {last}",
                "1",
                growth,
                at_most=True,
                note=f"{machine}; 'scales worse': below 1. The limit is counton's wording",
            ),
        )


def measure() -> Times:
    """Produce all T outputs with each mechanism, T from 8 to 1,823, five times each."""
    from scipy.linalg import matmul_toeplitz

    normals = _Normals()

    def toeplitz(horizon: int) -> object:
        column = square_root_coefficients(horizon)
        return matmul_toeplitz((column, 0 * column), normals.floats(horizon))

    works: dict[str, Callable[[int], object]] = {
        BINARY: lambda horizon: Binary(horizon).noise(normals, range(1, horizon + 1)),
        SMOOTH: lambda horizon: SmoothBinary.even(horizon).noise(normals, range(1, horizon + 1)),
        ROOT: toeplitz,
    }
    seconds: dict[tuple[str, int], list[float]] = {}
    for work in works.values():
        work(HORIZONS[-1])  # tables, pages of memory: what a first run pays for once
    for _ in range(RUNS):
        for horizon in HORIZONS:
            for name, work in works.items():
                times = max(1, _OUTPUTS // horizon)
                begin = process_time()
                for _ in range(times):
                    work(horizon)
                taken = (process_time() - begin) / (times * horizon)
                seconds.setdefault((name, horizon), []).append(taken)
    return Times(seconds)
