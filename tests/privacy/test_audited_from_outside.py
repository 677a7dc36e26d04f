"""Another library's auditor finds no more than is claimed, and finds noise that is too narrow.

From scores of runs with a canary and without, jax_privacy says which epsilon is exceeded
(Clopper-Pearson, by Bonferroni over all thresholds; sure but for a probability of 10^-9). A canary
is one event at the first step, every cell of a counter is a run of its own, and the score is the
logarithm of the likelihood ratio. It runs where jax_privacy is installed.
"""

from importlib.util import find_spec

import numpy as np
import pytest
from keys import chosen_key

from counton import ZCDP, ApproxDP, ContributionBound, Counter, PureDP
from counton.base.arrays import Floats
from counton.base.distributions import DiscreteGaussian, DiscreteLaplace
from counton.continual.node_distribution import distribution_for
from counton.privacy import Guarantee
from counton.strategies import Binary, KAry, SqrtToeplitz, StreamStrategy, sensitivities

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(find_spec("jax_privacy") is None, reason="jax_privacy is not installed"),
]
RUNS = 100_000
PURE = PureDP(1)
APPROXIMATE = ApproxDP(1, "0.01")
MECHANISMS: list[tuple[StreamStrategy, PureDP | ApproxDP]] = [
    (Binary(1), PURE), (Binary(7), PURE), (SqrtToeplitz(8), APPROXIMATE), (KAry(9, 3), APPROXIMATE),
]  # fmt: skip


def half_of(strategy: StreamStrategy, guarantee: Guarantee) -> Guarantee:
    """What half of the noise keeps that keeps ``guarantee``."""
    distribution = distribution_for(
        strategy, guarantee, ContributionBound.add_remove()
    ).distribution
    shift = sensitivities(strategy)
    if isinstance(distribution, DiscreteLaplace):
        return PureDP(2 * shift.l1 / distribution.scale)
    assert isinstance(distribution, DiscreteGaussian)
    return ZCDP(2 * shift.l2_squared / distribution.sigma_squared)


def matrix_of(strategy: StreamStrategy) -> tuple[Floats, list[tuple[int, int]]]:
    """B, and the nodes of its columns."""
    assert strategy.horizon is not None
    rows = [strategy.row(step) for step in range(1, strategy.horizon + 1)]
    nodes = sorted({node[:2] for row in rows for node in row})
    written = np.zeros((len(rows), len(nodes)))
    for number, row in enumerate(rows):
        for node in row:
            written[number, nodes.index(node[:2])] = float(node.weight)
    return written, nodes


def scores(strategy: StreamStrategy, guarantee: Guarantee) -> tuple[Floats, Floats]:
    """Log-likelihood ratios, up to a factor: runs with an event at the first step, and without."""
    counter = Counter(strategy, guarantee, key=chosen_key(), name="audit", shape=(2 * RUNS,))
    assert strategy.horizon is not None
    counts = np.zeros((strategy.horizon, 2 * RUNS), np.int64)
    counts[0, :RUNS] = 1
    released = counter.release_many(counts).values.astype(np.float64)
    written, nodes = matrix_of(strategy)
    if isinstance(counter.design.distribution, DiscreteLaplace):
        entered = {node[:2] for node in strategy.column(1)}
        moved = np.array([float(node in entered) for node in nodes])[:, None]
        noise = np.linalg.solve(written, released)
        score = (abs(noise) - abs(noise - moved)).sum(axis=0)
    else:
        score = np.linalg.solve(written @ written.T, np.ones(strategy.horizon)) @ released
    return score[:RUNS], score[RUNS:]


def epsilon_found(strategy: StreamStrategy, guarantee: Guarantee, delta: float) -> float:
    """What the auditor says that epsilon exceeds."""
    from jax_privacy.auditing import CanaryScoreAuditor

    present, without = scores(strategy, guarantee)
    found = [
        CanaryScoreAuditor(*pair).epsilon_clopper_pearson(1e-9, delta)
        for pair in ((present, without), (-without, -present))
    ]
    return float(max(found))


@pytest.mark.parametrize(("strategy", "claimed"), MECHANISMS, ids=str)
def test_audited_epsilon_reaches_but_does_not_exceed_claim(
    strategy: StreamStrategy, claimed: PureDP | ApproxDP
) -> None:
    epsilon = float(claimed.epsilon)
    delta = float(getattr(claimed, "delta", 0))
    right = epsilon_found(strategy, claimed, delta)
    wrong = epsilon_found(strategy, half_of(strategy, claimed), delta)
    assert 0.5 * epsilon < right <= epsilon
    assert wrong > 1.3 * epsilon  # half the noise, claimed to keep the same
