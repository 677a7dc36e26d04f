"""The local model: exact sensitivities and losses by enumeration, estimates as stated."""

import math
from fractions import Fraction
from itertools import product
from statistics import NormalDist

import numpy as np
import pytest
from numpy.typing import NDArray

from counton import ZCDP, ApproxDP, Key, PureDP
from counton.base.errors import InvalidInputError
from counton.strategies import SqrtToeplitz
from papers.constants.local_median import (
    ConvexLosses,
    LocalMedian,
    PureLocalMedian,
    PureMessage,
    choice_loss,
)

EIGHT = LocalMedian(cells=8, guarantee=ZCDP(2), name="eight")


def _encoder(cells: int) -> NDArray[np.int64]:
    """C in units of the lattice, from its columns."""
    strategy = SqrtToeplitz(cells)
    matrix = np.zeros((cells, cells), np.int64)
    for step in range(1, cells + 1):
        for _, index, weight in strategy.column(step):
            matrix[index - 1, step - 1] = int(weight * 2**strategy.facts.lattice_bits)
    return matrix


def test_estimates_and_deviations_are_those_of_the_matrices() -> None:
    """B = A C^-1, and half of the slopes at both ends of cells, written out."""
    encoder = _encoder(8) / 2.0**EIGHT.strategy.facts.lattice_bits
    counts = np.array([3, 0, 5, 1, 0, 9, 2, 4])
    server = EIGHT.collect()
    server.sum = _encoder(8) @ counts
    server.clients = int(counts.sum())
    found = server.estimate()
    assert found.cdf == pytest.approx(np.concatenate([[0], np.cumsum(counts)]) / 24, abs=1e-5)

    decoder = np.tri(8) @ np.linalg.inv(encoder)
    one = EIGHT.distribution.std / 2.0**EIGHT.strategy.facts.lattice_bits / math.sqrt(24)
    assert found.std[1:-1] == pytest.approx(one * np.linalg.norm(decoder, axis=1)[:-1], rel=1e-9)
    middles = (np.arange(8) + 0.5) / 8
    distances = [np.average(np.abs(theta - middles), weights=counts) for theta in found.boundaries]
    assert found.risk == pytest.approx(np.array(distances) - distances[0], abs=1e-5)
    slopes = 2 * np.vstack([np.zeros(8), decoder[:-1], np.zeros(8)])  # of all nine boundaries
    adds = np.array([[(s <= t) / 2 + (s < t) / 2 for s in range(9)] for t in range(9)])
    risk_std = one / 8 * np.linalg.norm(adds @ slopes, axis=1)
    assert found.risk_std == pytest.approx(risk_std, rel=1e-9)
    assert found.median == 5 / 8  # 9 of 24 below it, 18 below the next


def test_messages_are_unbiased_with_the_stated_deviation() -> None:
    """Of 400 clients: what the sum of messages exceeds that of their vectors by, by coordinate."""
    server = EIGHT.collect()
    entered = np.zeros(8, np.int64)
    squares = 0.0
    for client in range(400):
        value = (client % 10) / 10
        message = EIGHT.randomise(value)
        noise = message - EIGHT.encoded(EIGHT.cell(value))
        squares += float((noise.astype(float) ** 2).sum())
        entered += message - noise
        server.add(message)
    std = EIGHT.distribution.std
    z = (server.sum - entered) / (std * math.sqrt(400))
    assert np.abs(z).max() < 4
    assert squares / (400 * 8) == pytest.approx(std**2, rel=0.1)
    found = server.estimate()
    shares = np.array([sum(c / 10 < t / 8 for c in range(10)) / 10 for t in range(9)])
    z = (found.cdf - shares)[1:-1] / found.std[1:-1]
    assert np.abs(z).max() < 4
    assert (found.population_std[1:-1] > found.std[1:-1]).all()


def test_bands_and_intervals_hold_as_often_as_stated() -> None:
    """Sums of messages drawn at once; 300 of them."""
    rng = np.random.default_rng(5)
    question = LocalMedian(cells=16, guarantee=ApproxDP(1, 1e-6), upper=160, name="ages")
    counts = rng.multinomial(3000, rng.dirichlet(np.ones(16)))
    entered = _encoder(16) @ counts
    truth = np.concatenate([[0], np.cumsum(counts)]) / 3000
    within = (np.arange(16) + 0.5) * 10
    distance = np.abs(np.arange(0, 170, 10)[:, None] - within) @ counts / 3000
    risk = distance - distance[0]
    held = np.zeros(4)
    for _ in range(300):
        server = question.collect()
        noise = rng.normal(0, question.distribution.std * math.sqrt(3000), 16)
        server.sum = entered + noise.astype(np.int64)
        server.clients = 3000
        found = server.estimate()
        low, high = found.interval(0.8)
        at = round(found.median / 10)
        held += (
            (np.abs(found.cdf - truth) <= found.band(0.8)).all(),
            truth[round(low / 10)] <= 0.5 <= truth[round(high / 10)],
            risk[at] - risk.min() <= found.excess(0.8),
            (np.abs(found.cdf - truth) <= 1.3 * found.std + 1e-12).all(),
        )
    assert (held[:3] >= 0.8 * 300).all()
    assert held[3] < 0.8 * 300  # a band that does not count boundaries does not hold


@pytest.mark.parametrize("at", [0, 3, 7, 8])
def test_noise_of_distances_is_bounded_jointly(at: int) -> None:
    """The deviation of a difference, written out; and what is told with it, in half the width."""
    server = EIGHT.collect()
    server.sum = _encoder(8) @ np.arange(8)
    server.clients = 28
    found = server.estimate()
    adds = np.zeros((9, 8))
    for b in range(9):
        parts = found._adds_at_end if b == 8 else found._adds
        adds[b, :b] = parts[:b][::-1]
    assert found.risk_std == pytest.approx(np.linalg.norm(adds, axis=1), rel=1e-9)
    apart = np.linalg.norm(adds - adds[at], axis=1)
    assert found._apart_from(at) == pytest.approx(apart, rel=1e-3)
    assert (found._apart_from(at) >= apart).all()


def test_intervals_of_medians_are_no_wider_than_one_boundary_needs() -> None:
    """They united all boundaries, and the noise at two of them: twice as wide."""
    question = LocalMedian(cells=100, guarantee=ApproxDP(1, 1e-6), upper=10, name="ten")
    server = question.collect()
    server.sum = _encoder(100) @ np.full(100, 1000)
    server.clients = 100_000
    found = server.estimate()
    band = found.band(0.95)
    level = 2 * math.log(2 * 101 / 0.05)
    below = found.boundaries[np.flatnonzero(found.cdf + band < 0.5).max()]
    above = found.boundaries[np.flatnonzero(found.cdf - band > 0.5).min()]
    low, high = found.interval(0.95)
    assert below < low < 5 < high < above
    assert high - low < 0.72 * (above - below)
    united = 2 * float(found.risk_std.max()) * math.sqrt(level) + 0.2
    assert found.excess(0.95) < 0.51 * united


def test_losses_become_values_with_their_slopes(monkeypatch: pytest.MonkeyPatch) -> None:
    """P(below a boundary) is half of one plus the slope there: over a grid of draws."""
    draws = 4000
    cells = []
    for i in range(draws):
        word = (2 * i + 1) * 2**64 // (2 * draws)
        monkeypatch.setattr(ConvexLosses, "_words", lambda *_, word=word: iter([word]))
        cells.append(EIGHT.cell_of_loss(lambda theta: max(theta - 0.4, 0) ** 2 * 2 - 0.5))
    for t in range(1, 8):
        slope = max(t / 8 - 0.4, 0) ** 2 * 2 - 0.5
        assert np.mean(np.array(cells) < t) == pytest.approx((1 + slope) / 2, abs=1 / draws)
    for wrong in (lambda theta: -theta, lambda theta: 3 * theta, lambda theta: math.nan):
        with pytest.raises(InvalidInputError, match="slopes of a convex loss"):
            EIGHT.cell_of_loss(wrong)


def test_local_median_refuses_invalid_value_or_message() -> None:
    assert [EIGHT.cell(value) for value in (-math.inf, 0, 0.125, 0.999, 1, 7)] == [0, 0, 1, 7, 7, 7]
    with pytest.raises(InvalidInputError, match="NaN"):
        EIGHT.randomise(math.nan)
    server = EIGHT.collect()
    with pytest.raises(InvalidInputError, match="nothing to estimate"):
        server.estimate()
    for wrong in (np.zeros(7, int), np.zeros(8), None):
        with pytest.raises(InvalidInputError, match="8 integers"):
            server.add(wrong)
    with pytest.raises(InvalidInputError, match="ApproxDP or ZCDP"):
        LocalMedian(cells=8, guarantee=PureDP(1), name="x")
    with pytest.raises(InvalidInputError, match="lower"):
        LocalMedian(cells=8, guarantee=ZCDP(1), lower=1, upper=1, name="x")
    assert LocalMedian.for_clients(10**4, ApproxDP(0.5, 1e-9), name="x").cells == 50


def test_the_number_of_a_client_is_part_of_the_address() -> None:
    """Under one key the difference of two clients' messages is noise, for losses too."""
    key = Key.generate()
    first, second = (EIGHT.randomise(0.2, key, client=client) for client in (0, 1))
    assert (first != second).any()
    assert (first == EIGHT.randomise(0.2, key, client=0)).all()
    assert (first != EIGHT.randomise(0.2, key)).any()
    drawn = {EIGHT.cell_of_loss(lambda t: 2 * t - 1, key, client=client) for client in range(40)}
    assert len(drawn) > 4
    with pytest.raises(InvalidInputError, match="client"):
        EIGHT.randomise(0.2, key, client=-1)


# --- pure privacy -------------------------------------------------------------------------------


def _chances_of_choices(coins: tuple[float, ...]) -> NDArray[np.float64]:
    """P(each choice), over all outcomes of the coins."""
    chances = np.zeros(len(coins))
    for kept in product((0, 1), repeat=len(coins)):
        probability = math.prod(p if k else 1 - p for p, k in zip(coins, kept, strict=True))
        of = [t for t, k in enumerate(kept) if k] or list(range(len(coins)))
        chances[of] += probability / len(of)
    return chances


@pytest.mark.parametrize("epsilon", [0.05, 0.25])
def test_the_loss_of_a_choice_is_exact(epsilon: float) -> None:
    """All coins at the ends and in the middle of the paper's interval, all outcomes, all pairs."""
    least = math.exp(-2 * epsilon) / 2
    most = math.exp(2 * epsilon) / 2
    for candidates in (1, 2, 4):
        choices = [
            _chances_of_choices(coins) for coins in product((least, 0.5, most), repeat=candidates)
        ]
        assert all(chances.sum() == pytest.approx(1) for chances in choices)
        logs = np.log(np.array(choices))
        largest = float((logs.max(axis=0) - logs.min(axis=0)).max())
        assert choice_loss(least, most, candidates) == pytest.approx(largest, abs=1e-12)
    # Lemma 6.2 says 10 epsilon; with many candidates the truth tends to 8 epsilon.
    assert choice_loss(least, most, 1000) == pytest.approx(8 * epsilon)
    assert all(choice_loss(least, most, t) <= 10 * epsilon for t in range(1, 60))


def _small(epsilon: float = 2.0, **changed: float) -> PureLocalMedian:
    return PureLocalMedian(
        cells=3, guarantee=PureDP(epsilon), clients=4, distance=0.5, public=Key.generate(),
        name="small", **changed,
    )  # fmt: skip


def test_choice_loses_at_most_guarantee_for_any_candidates(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Exact chances of all choices for all values: as drawn, and for candidates made to betray."""
    question = _small()

    def loss(client: int) -> float:
        logs = [
            np.log(_chances_of_choices(tuple(c / 2**64 for c in question.chances(cell, client))))
            for cell in range(3)
        ]
        return float((np.max(logs, axis=0) - np.min(logs, axis=0)).max())

    assert question.candidates == 5
    assert 0 < max(loss(client) for client in range(4)) <= 2
    apart = 10**9 * (question.encoded(0) - question.encoded(2))
    betraying = np.array([apart, -apart, -apart, -apart, -apart])
    monkeypatch.setattr(PureLocalMedian, "drawn", lambda *_: betraying)
    assert 0.99 * 2 < loss(0) <= 2
    least, most = question._coins
    assert choice_loss(least / 2**64, most / 2**64, 5) <= 2


def test_choices_have_stated_probabilities(monkeypatch: pytest.MonkeyPatch) -> None:
    """Chi-square: where one candidate is much better than the others, and where none is good."""
    question = _small()
    apart = 10**9 * (question.encoded(0) - question.encoded(2))
    for signs in ([1, -1, -1, -1, -1], [-1, -1, -1, -1, -1]):
        betraying = np.outer(signs, apart)
        monkeypatch.setattr(PureLocalMedian, "drawn", lambda *_, drawn=betraying: drawn)
        chances = _chances_of_choices(tuple(c / 2**64 for c in question.chances(0, 2)))
        choices = [question.randomise(0.1, client=2).choice for _ in range(400)]
        counted = np.bincount(choices, minlength=5)
        assert float(((counted - 400 * chances) ** 2 / (400 * chances)).sum()) < 18.5  # 0.1%


def test_probabilities_are_half_of_clipped_density_ratio() -> None:
    question = _small()
    drawn = question.drawn(3).astype(float)
    moved = question.encoded(1).astype(float)
    squares = ((drawn - moved) ** 2).sum(axis=1) - (drawn**2).sum(axis=1)
    ratios = np.exp(-squares / (2 * float(question.distribution.sigma_squared)))
    expected = np.clip(ratios, math.exp(-question.cut), math.exp(question.cut)) / 2
    assert np.array(question.chances(1, 3)) / 2**64 == pytest.approx(expected, rel=1e-9)


def test_choices_stand_for_noisy_vectors() -> None:
    """Of 300 clients with the same value: what they chose is that value's vector plus noise."""
    question = PureLocalMedian(
        cells=4, guarantee=PureDP(2), clients=300, public=Key.generate(), name="sum"
    )
    server = question.collect()
    squares = 0.0
    entered = question.encoded(1)
    for client in range(300):
        message = question.randomise(0.3, client=client)
        noise = (question.measurement(message) - entered).astype(float)
        squares += float((noise**2).sum())
        server.add(message)
    std = question.distribution.std
    z = (server.sum - 300 * entered) / (std * math.sqrt(300))
    assert np.abs(z).max() < 4
    assert squares / 1200 == pytest.approx(std**2, rel=0.17)
    # With the paper's own slack, at its 10 epsilon, noise would be a quarter wider.
    assert 8 * (question.cut / 2) == pytest.approx(2, rel=2e-3)
    assert server.estimate().std[2] < 1.2


def test_the_distance_of_choices_from_noisy_vectors_is_kept() -> None:
    """By integrals over log-ratios, which are normal: what is moved, and nothing kept."""
    question = PureLocalMedian(
        cells=64, guarantee=PureDP(1), clients=10**5, public=Key.generate(), name="far"
    )
    mu = math.sqrt(
        float(question.strategy.squared_sensitivity())
        * 4**question.strategy.facts.lattice_bits
        / float(question.distribution.sigma_squared)
    )
    ratio = np.linspace(-60 * mu, 60 * mu, 400_001)
    step = ratio[1] - ratio[0]
    of_none = np.exp(-((ratio + mu**2 / 2) ** 2) / (2 * mu**2)) / math.sqrt(2 * math.pi) / mu
    kept = np.exp(np.clip(ratio, -question.cut, question.cut)) / 2
    all_kept = float((of_none * kept).sum() * step)
    apart = np.abs(of_none * kept / all_kept - of_none * np.exp(ratio)).sum() * step / 2
    each = float(apart) + (1 - all_kept) ** question.candidates
    assert 1e-4 * question.distance < 10**5 * each < question.distance


@pytest.mark.parametrize("clients", [1, 2, 20, 10**6])
@pytest.mark.parametrize("distance", [1e-6, 0.01, 0.3, 0.5, 0.9])
def test_the_stated_formula_keeps_the_distance(clients: int, distance: float) -> None:
    """With e from the law of the noise itself; few clients and large distances too."""
    question = PureLocalMedian(
        cells=3, guarantee=PureDP(1), clients=clients, distance=distance, public=Key.generate(),
        name="formula",
    )  # fmt: skip
    lattice = 4**question.strategy.facts.lattice_bits
    squared = float(question.strategy.squared_sensitivity() * lattice)
    mu = math.sqrt(squared / float(question.distribution.sigma_squared))
    e = NormalDist().cdf(-(question.cut - mu**2 / 2) / mu)  # twice half of it
    none = (0.5 + e) ** question.candidates
    together = clients * (e / (0.5 - e) + none)
    assert 0.6 * distance < together <= distance * (1 + 1e-9)


def test_bands_of_choices_take_off_the_distance() -> None:
    exact = EIGHT
    question = _small()
    server = question.collect()
    other = exact.collect()
    server.add(question.randomise(0.5, client=3))
    other.add(exact.randomise(0.5))
    found = server.estimate()
    of_vectors = other.estimate()
    assert found.band(0.3)[1] == pytest.approx(found.std[1] * math.sqrt(2 * math.log(2 * 2 / 0.2)))
    assert of_vectors.band(0.3)[1] == pytest.approx(
        of_vectors.std[1] * math.sqrt(2 * math.log(2 * 7 / 0.7))
    )
    for call in (found.band, found.interval, found.excess):
        with pytest.raises(InvalidInputError, match=r"must be below 0\.5"):
            call(0.5)


def test_pure_local_median_refuses_invalid_arguments_and_messages() -> None:
    question = _small()
    server = question.collect()
    server.add(PureMessage(2, 0))
    with pytest.raises(InvalidInputError, match="client 2 has sent"):
        server.add(PureMessage(2, 1))
    server.add(PureMessage(3, 0))
    assert server.clients == 2
    for epsilon in (1e-300, 1e-15, 1e-8):
        with pytest.raises(InvalidInputError, match="epsilon is 1e-"):
            _small(epsilon)
    assert 0 < _small(1e-4).cut < 1e-4
    with pytest.raises(InvalidInputError, match="client"):
        question.randomise(0.5, client=4)
    with pytest.raises(InvalidInputError, match=r"client is missing.*from 0 to 3$"):
        question.randomise_loss(lambda t: 0.0)
    for wrong in (PureMessage(0, 5), PureMessage(4, 0)):
        with pytest.raises(InvalidInputError):
            question.collect().add(wrong)
    with pytest.raises(InvalidInputError, match="PureDP"):
        PureLocalMedian(cells=3, guarantee=ZCDP(1), clients=1, public=Key.generate(), name="x")
    # Coins have no chances beyond 1: more than about 4 ln 2 is not spent.
    assert _small(Fraction(50)).cut <= math.log(2)  # type: ignore[arg-type]
