"""No noise that is (epsilon, delta)-close to itself has less variance than the bound."""

import math
from pathlib import Path

import numpy as np
import pytest
from scipy.optimize import linprog

from counton.privacy import ApproxDP, PureDP
from papers import close_noise
from papers.close_noise import least_noise_variance


def _least_variance_on_integers(epsilon: float, delta: float, reach: int) -> float:
    """Of all laws on -reach..reach whose shifts by 1 are (epsilon, delta)-close: a linear program.

    Variables: the masses p, and what one shift exceeds the other times e^epsilon by.
    """
    count = 2 * reach + 1
    places = np.arange(-reach, reach + 1)
    bounded = []
    limits = []
    for sign in (1, -1):
        for i in range(-1, count + 1):
            row = np.zeros(count + 2 * (count + 2))
            if 0 <= i < count:
                row[i] = 1
            if 0 <= i + sign < count:
                row[i + sign] -= math.exp(epsilon)
            row[count + (sign > 0) * (count + 2) + i + 1] = -1
            bounded.append(row)
            limits.append(0.0)
        row = np.zeros(count + 2 * (count + 2))
        row[count + (sign > 0) * (count + 2) :][: count + 2] = 1
        bounded.append(row)
        limits.append(delta)
    total = np.zeros(count + 2 * (count + 2))
    total[:count] = 1
    cost = np.concatenate([places.astype(float) ** 2, np.zeros(2 * (count + 2))])
    found = linprog(cost, np.array(bounded), limits, total[None], [1.0])
    return float(found.fun)


@pytest.mark.parametrize(("epsilon", "delta"), [(1.0, 1e-4), (0.5, 1e-3), (2.0, 0.05), (1.0, 0.3)])
def test_no_integer_noise_has_less_variance(epsilon: float, delta: float) -> None:
    least = _least_variance_on_integers(epsilon, delta, 24)
    assert 0.5 * least <= least_noise_variance(ApproxDP(epsilon, delta)) <= least * (1 + 1e-7)


def _closeness(distribution: np.ndarray, epsilon: float) -> float:
    """Delta between a law on the integers and itself moved by 1, the worse of both ways."""
    padded = np.concatenate([[0.0], distribution, [0.0]])
    return max(
        float(np.maximum(padded[1:] - math.exp(epsilon) * padded[:-1], 0).sum()),
        float(np.maximum(padded[:-1] - math.exp(epsilon) * padded[1:], 0).sum()),
    )


@pytest.mark.parametrize(
    "epsilon",
    [0.3, *(pytest.param(epsilon, marks=pytest.mark.long) for epsilon in (0.03, 1.0, 3.0))],
)
def test_no_distribution_has_less_variance_than_bound(epsilon: float) -> None:
    """Laplace, Gaussian, uniform, triangular, and random ones, also between two integers."""
    rng = np.random.default_rng(5)
    wide = round(4 / epsilon) + 2
    for centre in (0.0, 0.3):
        places = np.abs(np.arange(-wide, wide + 1) - centre)
        shapes = [
            np.exp(-epsilon * places),
            np.exp(-((epsilon * places) ** 2) / 8),
            np.ones(len(places)),
            np.maximum(1 - places / wide, 0),
            np.exp(-epsilon * places) * rng.uniform(0.7, 1.3, len(places)),
            *rng.dirichlet(np.ones(len(places)), 2),
        ]
        for shape in shapes:
            distribution = shape / shape.sum()
            mean = float(distribution @ np.arange(len(distribution)))
            variance = float(distribution @ (np.arange(len(distribution)) - mean) ** 2)
            delta = _closeness(distribution, epsilon)
            if 0 < delta < 1:
                assert least_noise_variance(ApproxDP(epsilon, delta)) <= variance


def test_the_bound_on_any_mechanism_is_tight_for_small_deltas() -> None:
    least = least_noise_variance(ApproxDP(1, 1e-6))
    page = Path(__file__).parents[2] / "docs" / "research" / "mechanisms.md"
    assert f"(`papers/close_noise.py`): it is {least:.3f} for (1, 1e-6)." in page.read_text("utf-8")
    for epsilon, delta in ((1, 1e-6), (1e-3, 1e-12), (10, 1e-9), (0.1, 1e-300)):
        pure = least_noise_variance(PureDP(epsilon))
        assert 0.99 * pure < least_noise_variance(ApproxDP(epsilon, delta)) < pure
    assert least_noise_variance(ApproxDP(2000, 0.1)) == 0


@pytest.mark.parametrize("epsilon", [0.1, 1.0, 5.0])
def test_lower_bound_holds_with_wrong_solution_of_linear_program(
    epsilon: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever shares it finds, what they prove stays below the least."""
    from scipy import optimize

    least = close_noise._least_close(epsilon, 1e-3)
    solve = optimize.linprog

    def wrong(*given: object, **more: object) -> object:
        found = solve(*given, **more)
        found.x[:-2] += 0.01 * np.sin(np.arange(len(found.x) - 2))
        return found

    monkeypatch.setattr(optimize, "linprog", wrong)
    assert close_noise._least_close(epsilon, 1e-3) <= least * (1 + 1e-9)
