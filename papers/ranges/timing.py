"""How long things take, as ratios within one run: Figures 2(a) and 5.

Seconds are those of the processor, so that a busy machine changes little.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from time import process_time

import numpy as np

from counton.base.arrays import one_thread
from counton.noise import NoiseField
from counton.tables import Haar, LineStrategy, workload
from counton.tables.line_catalogue import build
from counton.tables.optimal import _fixed_point
from papers.evidence import Comparison
from papers.ranges.dyadic import Dyadic
from papers.ranges.mechanisms import MECHANISMS, choice, key, line, rank
from papers.ranges.numbers import defined_covariance, sampled_ranges
from papers.ranges.running_sums import running_sums

#: Below this the interpreter's own time is most of it.
_FIT_FROM = 2**14
_MACHINE = "a time of this machine, which another need not share"
#: Ranges that are answered after each draw, as in Figure 2.
QUERIES = 5000


@dataclass(frozen=True, slots=True)
class Times:
    """Seconds: of one draw from N(0, C_k) by cells, and of a whole release by mechanism.

    Attributes:
        cascade: Algorithm 1 with counton's exact noise.
        dense: SciPy's sampler for any covariance, which takes its eigenvalues first.
        whole: strategy, noise and the answers to 5,000 ranges.
    """

    cascade: dict[int, float]
    dense: dict[int, float]
    whole: dict[tuple[str, int], float]

    @property
    def slope(self) -> float:
        """Of log time against log n, by least squares over the longer lines."""
        cells = [each for each in self.cascade if each >= min(_FIT_FROM, max(self.cascade) // 4)]
        times = [self.cascade[each] for each in cells]
        return float(np.polyfit(np.log(cells), np.log(times), 1)[0])

    def rows(self) -> tuple[Comparison, ...]:
        """What the paper says of its times, which were another machine's."""
        longest = max(self.cascade)
        steps = math.log2(longest / _FIT_FROM)
        two = sorted(self.dense)[-2:]
        return (
            *self._releases(),
            Comparison(
                "Figure 2(a)",
                "slope of log time against log n, cascade",
                "1.05",
                self.slope,
                tolerance=0.15,
                note=f"from n = 2^14 to 2^{math.log2(longest):.0f}, exact noise; {_MACHINE}",
            ),
            Comparison(
                "Figure 2(a)",
                f"time for 2^{math.log2(longest):.0f} over that for 2^14, at most at slope 1.15",
                f"{2 ** (1.15 * steps):.0f}",
                self.cascade[longest] / self.cascade[_FIT_FROM],
                at_most=True,
                note=f"linear would be {longest // _FIT_FROM}; {_MACHINE}",
            ),
            Comparison(
                "Figure 2(a)",
                f"SciPy: time at n = {two[1]} over time at n = {two[0]}",
                "6.4",
                self.dense[two[1]] / self.dense[two[0]],
                tolerance=3.0,
                note="28 minutes at 2^14 and 3 hours at 2^15 are a factor of 6.4, cubic time is 8; "
                + _MACHINE,
            ),
        )

    def _releases(self) -> Iterator[Comparison]:
        """Appendix E.4, which prints an order and no numbers; where that much is measured."""
        if ("optimal", 2**10) in self.whole:
            at = {name: time for (name, n), time in self.whole.items() if n == 2**10}
            yield Comparison(
                "Figure 5", "HDMM: rank by time, n = 1,024", str(len(at)), rank("optimal", at),
                note=f"'typically takes the longest'; {_MACHINE}",
            )  # fmt: skip
        longest = max((n for _, n in self.whole), default=0)
        for other, label, most, said in (
            ("identity", "Gaussian", "2", "'competitive', read as a factor of 2"),
            ("binary", "hierarchical", "1", "'faster'"),
        ):
            if ("cascade", longest) in self.whole and (other, longest) in self.whole:
                yield Comparison(
                    "Figure 5", f"time of ours over {label}, n = {longest:,}", most,
                    self.whole["cascade", longest] / self.whole[other, longest], at_most=True,
                    note=f"{said}; {_MACHINE}",
                )  # fmt: skip


def measure(*, quick: bool) -> Times:
    """Least of a few runs each, in one thread; quick stops at shorter lines."""
    with one_thread():
        return _measured(quick)


def _measured(quick: bool) -> Times:
    cascade = {2**k: _best(_drawing(2**k), 3) for k in range(3, 15 if quick else 23)}
    dense = {2**k: _best(_dense(k), 1) for k in range(3, 8 if quick else 12)}
    whole = {
        (each.name, 2**k): _best(_release(each.name, 2**k), 1 if quick else 3)
        for each in MECHANISMS
        for k in ((4, 6) if quick else range(4, 16))
        if 2**k <= each.largest
    }
    return Times(cascade, dense, whole)


def _best(run: Callable[[], object], times: int) -> float:
    run()  # tables of the samplers, and whatever is loaded
    found = []
    for _ in range(times):
        start = process_time()
        run()
        found.append(process_time() - start)
    return min(found)


def _drawing(cells: int) -> Callable[[], object]:
    strategy = Haar.cascade(cells)
    field = _noise()
    return lambda: strategy.estimate(field.run(0, range(strategy.measurements)))


def _noise() -> NoiseField:
    """One law for all, whose width does not matter here: tables of a sampler are made once."""
    return NoiseField(key().derive(b"times"), choice("cascade", 1024).distribution)


def _dense(height: int) -> Callable[[], object]:
    from scipy.stats import multivariate_normal

    covariance = defined_covariance(height)
    mean = np.zeros(len(covariance))
    return lambda: multivariate_normal.rvs(mean, covariance, random_state=1)


def _release(name: str, cells: int) -> Callable[[], object]:
    """From nothing to answers: the strategy is built each time, noise is calibrated before."""
    field = _noise()
    low, high = sampled_ranges(np.random.default_rng(1), cells, QUERIES)
    counts = np.random.default_rng(2).integers(1, 1001, cells)
    asked = workload("ranges", cells)

    def run() -> object:
        build.cache_clear()
        _fixed_point.cache_clear()
        strategy: LineStrategy = line(name, asked)
        if isinstance(strategy, Dyadic):
            measured = strategy.measure(counts)
            measured += field.run(0, range(strategy.measurements))
            return strategy.answer(measured, low, high)
        sums, _ = running_sums(strategy, counts, field, 8)
        return sums[high] - sums[low]

    return run
