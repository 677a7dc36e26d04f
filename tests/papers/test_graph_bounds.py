"""Graphs whose edges only come: what no mechanism is below, link by link of the proof."""

import itertools
import math
from collections.abc import Iterator

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.sparse import coo_matrix
from scipy.sparse.csgraph import maximum_bipartite_matching

from counton import ZCDP, ApproxDP, Degrees, Key, PureDP, RunningStatistic
from counton.base.arrays import Integers
from counton.statistics.statistic_plan import plan_statistic
from papers.constants.graph_bounds import (
    least_error_of_degrees,
    least_error_of_matchings,
    least_square_of_a_bit,
)

Edge = tuple[str, str]


def sets_of_bits(bits: int) -> Integers:
    """Sets of bits whose sums determine every bit, 2^k - 1 of as many: a row of 0 and 1 for each.

    >>> sets_of_bits(3).tolist()
    [[1, 0, 1], [0, 1, 1], [1, 1, 0]]
    """
    numbers = np.arange(1, bits + 1)
    ones: Integers = np.bitwise_count(numbers[:, None] & numbers).astype(np.int64)
    return ones % 2


def degree_steps(bits: tuple[int, ...]) -> Iterator[tuple[Edge | None, int | None]]:
    """Edges of the construction; and the degree whose number of nodes is read after an edge."""
    new = (f"leaf{number}" for number in itertools.count())
    for node, bit in enumerate(bits):
        yield ((f"node{node}", f"other{node}") if bit else None), None
    for number, row in enumerate(sets_of_bits(len(bits)), start=1):
        inside = np.flatnonzero(row).tolist()
        outside = np.flatnonzero(1 - row).tolist()
        for node in inside:
            yield (f"node{node}", next(new)), number + 1 if node == inside[-1] else None
        for node in outside:
            yield (f"node{node}", next(new)), None


def exact_histograms(edges: list[Edge | None]) -> list[dict[int, int]]:
    degrees: dict[str, int] = {}
    found = []
    for edge in edges:
        for node in edge or ():
            degrees[node] = degrees.get(node, 0) + 1
        counted = list(degrees.values())
        found.append({degree: counted.count(degree) for degree in set(counted)})
    return found


@pytest.mark.parametrize("bits", [3, 7])
def test_degree_histograms_reveal_sum_of_secret_bits(bits: int) -> None:
    rng = np.random.default_rng(0)
    secrets = list(itertools.product((0, 1), repeat=bits))
    for secret in secrets if bits == 3 else rng.permutation(secrets)[:12]:
        steps = list(degree_steps(tuple(int(bit) for bit in secret)))
        assert len(steps) <= bits * (bits + 1)
        histograms = exact_histograms([edge for edge, _ in steps])
        told = [
            histogram.get(degree, 0)
            for histogram, (_, degree) in zip(histograms, steps, strict=True)
            if degree is not None
        ]
        assert told == (sets_of_bits(bits) @ secret).tolist()
        assert max(histograms[-1]) <= bits + 1
        assert sum(histograms[-1].values()) <= bits * (bits + 2)
    edges = [edge for edge, _ in steps]  # counton's own histogram of the last stream
    histogram = RunningStatistic.start(
        Degrees(bits + 1), len(edges), ZCDP(10**7), key=Key.generate(), name="d", batched=True
    )
    last = [histogram.release_batch([edge] if edge else []) for edge in edges][-1]
    values = last.table_columns()
    exact = dict(zip(values["degree"].tolist(), np.rint(values["estimate"]).tolist(), strict=True))
    assert {degree: count for degree, count in exact.items() if count} == histograms[-1]


@pytest.mark.parametrize("secret", list(itertools.product((0, 1), repeat=3)))
def test_matchings_reveal_sum_of_secret_bits(secret: tuple[int, ...]) -> None:
    bits = len(secret)
    sets = sets_of_bits(len(secret))
    edges = [((path, -1), (path, 0)) for path, bit in enumerate(secret) if bit]
    lengths = [0] * bits
    steps = bits
    without: list[int] = [0] * bits
    for row in sets:
        for path in range(bits):
            if lengths[path] % 2 == row[path]:  # odd where it is to enter, even where to leave
                edges.append(((path, lengths[path]), (path, lengths[path] + 1)))
                lengths[path] += 1
                steps += 1
        without = [math.ceil(length / 2) for length in lengths]
        assert _largest_matching(edges) - sum(without) == int(row @ secret)
    assert steps <= bits * (bits + 1)


def _largest_matching(edges: list[tuple[tuple[int, int], tuple[int, int]]]) -> int:
    """Nodes of paths are even or odd: the graph is bipartite."""
    nodes = {node: number for number, node in enumerate({n for edge in edges for n in edge})}
    if not edges:
        return 0
    even = [nodes[next(n for n in edge if n[1] % 2 == 0)] for edge in edges]
    odd = [nodes[next(n for n in edge if n[1] % 2)] for edge in edges]
    graph = coo_matrix((np.ones(len(edges)), (even, odd)), shape=(len(nodes), len(nodes)))
    return int((maximum_bipartite_matching(graph.tocsr()) >= 0).sum())


@pytest.mark.parametrize("bits", [3, 7, 63])
def test_error_of_bits_follows_from_least_singular_value(bits: int) -> None:
    """The least singular value is what the proof says, so no smaller and no larger one passes."""
    least = np.linalg.svd(sets_of_bits(bits), compute_uv=False).min()
    assert least == pytest.approx(math.sqrt(bits + 1) / 2, rel=1e-9)


def _mean_square(first: list[float], second: list[float]) -> float:
    """Of the best estimate of a fair bit from an output with one of two laws."""
    return sum(p * q / (p + q) for p, q in zip(first, second, strict=True) if p + q) / 2


@pytest.mark.parametrize("epsilon", [0.1, 1.0, 3.0])
@pytest.mark.parametrize("delta", [0.0, 0.2])
def test_randomised_response_attains_least_square_of_bit(epsilon: float, delta: float) -> None:
    guarantee = ApproxDP(epsilon, delta) if delta else PureDP(epsilon)
    low = (1 - delta) / (1 + math.exp(epsilon))
    high = (1 - delta) / (1 + math.exp(-epsilon))
    found = _mean_square([delta, high, low, 0.0], [0.0, low, high, delta])
    assert least_square_of_a_bit(guarantee) == pytest.approx(found, rel=1e-8)
    assert least_square_of_a_bit(guarantee) < found


@pytest.mark.parametrize("rho", [0.01, 0.5, 2.0])
def test_gaussian_noise_attains_least_square_of_bit(rho: float) -> None:
    move = math.sqrt(2 * rho)

    def integrand(x: float) -> float:
        p, q = (math.exp(-((x - at) ** 2) / 2) for at in (0.0, move))
        return p * q / (p + q) / 2 / math.sqrt(2 * math.pi)

    found = quad(integrand, -12, 12 + move)[0]
    assert least_square_of_a_bit(ZCDP(rho)) < found


@pytest.mark.parametrize("rho", [0.01, 0.5, 1.1, 1.5, 3.0, 20.0])
def test_zcdp_pair_attains_least_square_of_bit(rho: float) -> None:
    """Two outputs with D_2 = 2 rho keep alpha rho at all whole orders: no bound is above theirs."""
    product = 1 / (3 + math.exp(2 * rho))
    rare = 2 * product / (1 + math.sqrt(1 - 4 * product))
    odds = math.log1p(-rare) - math.log(rare)
    for order in range(2, 200):
        logs = math.log1p(-rare) + (order - 1) * odds, math.log(rare) - (order - 1) * odds
        assert np.logaddexp(*logs) / (order - 1) <= order * rho * (1 + 1e-9)
    found = _mean_square([rare, 1 - rare], [1 - rare, rare])
    assert least_square_of_a_bit(ZCDP(rho)) == pytest.approx(found, rel=1e-6)
    assert least_square_of_a_bit(ZCDP(rho)) < found


def test_bounds_are_zero_without_protection_or_queries() -> None:
    assert least_square_of_a_bit(PureDP(1000)) == least_square_of_a_bit(ZCDP(1000)) == 0
    assert least_error_of_degrees(1, 10**6, PureDP(1)) == 0
    assert least_error_of_matchings(5, PureDP(1)) == 0
    for nodes in (9, 14):  # half of them is never further off than half
        assert least_error_of_degrees(20, 10**6, PureDP(1), batched=True, nodes=nodes) == 0
        assert least_error_of_matchings(10**6, PureDP(1), batched=True, nodes=nodes) == 0
    assert 0 < least_error_of_degrees(20, 10**6, PureDP(1), batched=True, nodes=15) < 1


def test_bounds_grow_as_roots_below_planned_errors() -> None:
    for degree in (4, 16, 64, 256):
        plan = plan_statistic(Degrees(degree), 4**9, ZCDP(0.5), batched=True)
        least = least_error_of_degrees(degree, 4**9, ZCDP(0.5), batched=True)
        of_matchings = least_error_of_matchings(4**9, ZCDP(0.5), batched=True)
        assert 0 < of_matchings <= least < plan.best.errors.max_std
    found = [least_error_of_degrees(2**power, 4**9, PureDP(1)) for power in range(2, 11)]
    ratios = [later / sooner for sooner, later in itertools.pairwise(found) if sooner]
    assert ratios == pytest.approx([math.sqrt(2)] * 7 + [1.0], rel=1e-9)  # 511 bits ask for T
