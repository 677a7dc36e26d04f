"""Section 5's other uses, released by counton's own statistics: cuts, averages, sparse and local.

Each is run as it would be used, and what it releases is held to what the paper promises.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from fractions import Fraction
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from counton import RunningStatistic
from counton.privacy import ApproxDP, ContributionBound
from counton.privacy.gaussian import analytic_gaussian_sigma
from counton.strategies import SqrtToeplitz, matrices
from papers.constants.numbers import DELTA, multiplier, psi
from papers.constants.released import certain, kept, noise
from papers.constants.streams import FIGURE_4, ITEMS, coin_flips, zipf_stream
from papers.evidence import Comparison
from papers.simulation import Measured, known_key

#: Privacy of all of them but Figure 4's, and vertices of the graph whose cuts are asked.
EPSILON = 0.8
VERTICES = 8
_SEED = 2**18


class Sides(NamedTuple):
    """All cuts (S, P) of a small graph, each once.

    Attributes:
        small, large: sizes of the two sets, the smaller first.
        crossing: for each cut and pair of vertices, whether it crosses.
    """

    small: NDArray[np.int64]
    large: NDArray[np.int64]
    crossing: NDArray[np.float64]

    @classmethod
    def of(cls, vertices: int, *, whole: bool = False) -> Sides:
        """Those of so many vertices; all of which are in S or P if ``whole``.

        >>> len(Sides.of(3).small), len(Sides.of(3, whole=True).small)
        (6, 3)
        """
        pairs = np.array(list(itertools.combinations(range(vertices), 2)))
        kinds = (1, 2) if whole else (0, 1, 2)
        sides = np.array(list(itertools.product(kinds, repeat=vertices)), np.int8)
        first = sides == 1
        second = sides == 2
        sizes = np.sort(np.stack([first.sum(axis=1), second.sum(axis=1)]), axis=0)
        # (P, S) is the same cut as (S, P).
        leading = sides[np.arange(len(sides)), (sides > 0).argmax(axis=1)]
        real = (sizes[0] > 0) & (leading == 1)
        one = sides[real][:, pairs[:, 0]]
        other = sides[real][:, pairs[:, 1]]
        crossing = ((one == 1) & (other == 2)) | ((one == 2) & (other == 1))
        return cls(sizes[0, real], sizes[1, real], crossing.astype(float))


def cuts(runs: int) -> Iterator[Comparison]:
    """Corollary 1, Remark 2: all cuts of the synthetic graph, the least and the largest."""
    from counton.statistics import Cuts

    steps = 32
    generator = np.random.default_rng(_SEED)
    pairs = list(itertools.combinations(range(VERTICES), 2))
    edges = [pairs[place] for place in generator.integers(len(pairs), size=steps)]
    every = Sides.of(VERTICES)
    halves = Sides.of(VERTICES, whole=True)
    both = (every.small + every.large).astype(float)
    factor = 3 * multiplier(EPSILON) * psi(steps) * math.sqrt(math.log(6 * steps))
    bound = factor * every.small * np.sqrt(both * np.log(both))
    weights = np.cumsum([[edge == pair for pair in pairs] for edge in edges], axis=0)
    true = weights @ halves.crossing.T
    worst = []
    least = []
    most = []
    for errors in noise(Cuts(VERTICES), edges, EPSILON, runs):
        worst.append(float((np.abs(errors @ every.crossing.T) / bound).max()))
        released = true + errors @ halves.crossing.T
        least.append(float(np.abs(released.min(axis=1) - true.min(axis=1)).max()))
        most.append(float(np.abs(released.max(axis=1) - true.max(axis=1)).max()))
    told = f"released by Cuts, T = {steps}, {runs:,} runs"
    yield Comparison(
        "Corollary 1", f"error over bound, worst of {len(bound):,} cuts, {VERTICES} vertices", "1",
        kept(worst), at_most=True, note=f"{told}; a fixed edge's weight is protected",
    )  # fmt: skip
    half = factor * VERTICES / 2 * math.sqrt(VERTICES * math.log(VERTICES))
    for name, found in (("minimum", least), ("maximum", most)):
        yield Comparison(
            "Remark 2", f"largest error of the {name} cut, {VERTICES} vertices", f"{half:.1f}",
            kept(found), at_most=True,
            note=f"{told}; the bound of Corollary 1 for |S| = n / 2, made for all cuts at once",
        )  # fmt: skip
    yield _at_once(runs)


def _at_once(runs: int) -> Comparison:
    """The static case: all edges in one step."""
    from counton.statistics import Cuts

    few = 7
    many = 14
    found = []
    for vertices in (few, many):
        crossing = Sides.of(vertices, whole=True).crossing
        edges = list(itertools.combinations(range(vertices), 2))
        largest = []
        for run in range(4 * runs):
            counter = RunningStatistic.start(Cuts(vertices),
                guarantee=ApproxDP(EPSILON, DELTA), key=known_key(), name=f"static {run}",
                strategy=SqrtToeplitz(1), batched=True,
            )  # fmt: skip
            counter.release_batch(edges)
            # Every edge weighs 1.
            errors = counter.values(np.arange(len(edges)), 1) - 1
            largest.append(float(np.abs(crossing @ errors).max()))
        found.append(Measured.of(largest))
    growth = (many / few) ** 1.5 * math.sqrt(math.log(many) / math.log(few))
    return Comparison(
        "Remark 2", f"growth of the largest error of all cuts, {few} to {many} vertices, T = 1",
        f"{growth:.3f}", found[1].mean / found[0].mean, at_most=True,
        note=f"the printed order n^1.5 root(ln n); n^1.5 alone is {(many / few) ** 1.5:.2f}; "
        f"released by Cuts in the static case, {found[1].told()} of {found[1].mean:.0f}",
    )  # fmt: skip


def averages(runs: int) -> Iterator[Comparison]:
    """Section 1.2: the running average of bits."""
    from counton.statistics import Average

    steps = 1024
    bits = coin_flips(4)[:steps].tolist()
    t = np.arange(1, steps + 1)
    bound = multiplier(EPSILON) * math.sqrt(math.log(6 * steps)) / t
    bound *= np.array([psi(step) for step in t.tolist()])
    last = []
    outside = []
    for errors in noise(Average(0, 1, resolution=1, number=1), bits, EPSILON, 4 * runs):
        away = np.abs(errors[:, 0]) / t
        last.append(away[-1])
        outside.append(bool((away > bound).any()))
    told = f"released by Average, {4 * runs:,} runs"
    yield Comparison(
        "Section 1.2", f"error of the running average after {steps:,} steps", f"{bound[-1]:.6f}",
        kept(last), at_most=True, note=told,
    )  # fmt: skip
    share = Measured.of(outside)
    yield Comparison(
        "Section 1.2", "probability that an average is outside the bound at some t", "0.333333",
        share.mean, at_most=True,
        note=f"{told}, {share.told()}; the least private noise is small enough for the first "
        "releases too",
    )  # fmt: skip


def top_1(runs: int) -> Comparison:
    """Section 1.2: the largest count of a histogram, read from its releases."""
    from counton.statistics import TopK

    names = [f"item {place}" for place in range(ITEMS)]
    stream = zipf_stream()
    exact = np.cumsum(stream[:, None] == np.arange(ITEMS), axis=0)
    largest = exact.max(axis=1)
    worst = [
        float(np.abs((exact + errors).max(axis=1) - largest).max())
        for errors in noise(TopK(names, 1), [names[place] for place in stream], FIGURE_4, runs // 2)
    ]
    tall = math.log(6 * ITEMS * len(stream))
    bound = multiplier(FIGURE_4) * psi(len(stream)) * math.sqrt(tall)
    return Comparison(
        "Section 1.2", f"largest error of the largest of {ITEMS} counts, {len(stream):,} steps",
        f"{bound:.1f}", kept(worst), at_most=True,
        note=f"released by TopK: the stream of Figure 4, epsilon = {FIGURE_4}; the bound is that "
        f"of the histogram, Corollary 2; {len(worst):,} runs",
    )  # fmt: skip


def sparse(runs: int) -> Iterator[Comparison]:
    """Section 5: at most s ones in T steps."""
    from papers.constants.sparse import SparseCounter, SparseDesign

    horizon = 10**5
    ones = 500
    design = SparseDesign(
        horizon=horizon, ones=ones, guarantee=ApproxDP(EPSILON, DELTA),
        contribution=ContributionBound.add_remove(), closing=Fraction(1, 2), threshold=96,
        segments=7,
        strategy=SqrtToeplitz(7),
    )  # fmt: skip
    stream = np.zeros(horizon, np.int64)
    stream[np.random.default_rng(_SEED).choice(horizon, ones, replace=False)] = 1
    true = np.cumsum(stream)
    worst = []
    for run in range(runs // 2):
        counter = SparseCounter(design, key=known_key(), name=f"sparse {run}")
        worst.append(float(np.abs(counter.release_many(stream).values - true).max()))
    bound = multiplier(EPSILON) * (
        5 * math.log2(horizon) + psi(ones) * math.sqrt(math.log(6 * ones))
    )
    what = f"largest error, {ones} ones in {horizon:,} steps"
    told = f"released by SparseCounter, 7 segments of a square root, {len(worst):,} runs"
    yield Comparison(
        "Section 5, sparse streams", what, f"{bound:.1f}", kept(worst), at_most=True,
        note=f"{told}; with n = s, which the paper does not say, the bound is more than the error "
        f"of answering {ones // 2} always",
    )  # fmt: skip
    yield Comparison(
        "Section 5, sparse streams", f"{what}, and what counton proves",
        f"{design.largest_error:.2f}", kept(worst), at_most=True,
        own=True,
        note=f"not printed: proven by counton for all steps; {told}",
    )  # fmt: skip


def local() -> Comparison:
    """Section 5.6: the message of a client, with noise for two values of which it has one."""
    from papers.constants.local_median import LocalMedian

    clients = 400
    question = LocalMedian.for_clients(clients, ApproxDP(EPSILON, DELTA), name="local")
    measured = np.asarray(matrices(question.strategy)[1], dtype=np.float64)
    apart = max(
        float(((measured[:, one] - measured[:, other]) ** 2).sum())
        for one, other in itertools.combinations(range(question.cells), 2)
    )
    unit = 2.0**-question.strategy.facts.lattice_bits
    drawn = [
        question.randomise(client / clients, known_key().with_salt(f"client {client}")) * unit
        - measured[:, question.cell(client / clients)]
        for client in range(clients)
    ]
    least = analytic_gaussian_sigma(EPSILON, DELTA) * math.sqrt(apart)
    count = clients * question.cells
    return Comparison(
        "Section 5.6", f"standard deviation of the noise of a client, {question.cells} cells",
        f"{least:.4f}", float(np.std(np.array(drawn))), tolerance=least * certain(count),
        own=True,
        note=f"not printed: the least that hides which of {question.cells} values it is, by all "
        f"pairs; measured in {clients} messages of LocalMedian, 99% interval",
    )  # fmt: skip
