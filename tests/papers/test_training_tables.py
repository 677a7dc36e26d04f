"""`python -m papers.training`: its errors are those of the strategies, where both have them."""

import re
from pathlib import Path

import numpy as np
import pytest

from counton import training
from counton.strategies.participation import Schedule
from counton.training.strategies import BandedInverseSquareRoot, BandedOptimum, BufferedToeplitz
from papers.dense_optimum import dense_optimum
from papers.training import best_root_error, optimizers, root_error

PAGE = (Path(__file__).parents[2] / "docs" / "guides" / "training.md").read_text("utf-8")


@pytest.mark.parametrize(("normals", "steps", "epochs"), [(1, 16, 2), (3, 24, 3), (24, 24, 1)])
def test_half_a_power_is_the_banded_inverse_square_root(
    normals: int, steps: int, epochs: int
) -> None:
    schedule = Schedule(epochs, steps // epochs, fixed=True)
    strategy = BandedInverseSquareRoot(steps, normals, schedule)
    assert root_error(0.5, normals, steps, epochs) == pytest.approx(strategy.rmse)


def test_two_normals_are_one_step_back() -> None:
    """C^-1 = 1 - power x written out: C has its powers below the diagonal."""
    steps = 12
    epochs = 3
    power = 0.8
    lag = np.subtract.outer(np.arange(steps), np.arange(steps))
    matrix = np.where(lag >= 0, power ** np.maximum(lag, 0), 0.0)
    moved = matrix.reshape(steps, epochs, 4).sum(axis=1)
    sums = np.cumsum(np.linalg.inv(matrix), axis=0)
    error = np.sqrt((moved**2).sum(axis=0).max() * (sums**2).sum() / steps)
    assert root_error(power, 2, steps, epochs) == pytest.approx(error)
    assert best_root_error(2, steps, epochs) <= error


@pytest.mark.evidence
def test_banded_optimum_of_64_draws_is_below_jax_privacy_error() -> None:
    """9.345 is the least error of 64 bands with equal coefficients (jax_privacy 2.0)."""
    strategy = BandedOptimum.fit(512, 8, draws=64)
    assert (strategy.draws, strategy.buffers) == (63.30078125, 0)
    assert strategy.rmse < 9.12
    fixed = BandedOptimum(strategy.encoder(), Schedule(8, 64, True), strategy.lags)
    assert fixed.squared_sensitivity() < 0.999 * strategy.squared_sensitivity()


@pytest.mark.evidence
@pytest.mark.parametrize(
    ("name", "normals"),
    [("BIFR (arXiv 2605.18379)", 64), ("BIFR", 4), ("DP-λCGD (arXiv 2601.22334)", 2)],
)
def test_page_states_errors_of_noise_that_keeps_nothing(name: str, normals: int) -> None:
    error = best_root_error(normals, 2048, 8)
    assert f"| {name} | {error:.2f} | 0 | {normals} |" in PAGE


@pytest.mark.evidence
def test_page_states_error_of_two_buffers() -> None:
    error = BufferedToeplitz.fit(2048, 8, buffers=2).rmse
    assert f"| BLT-2 | {error:.2f} | 2 | 1 |" in PAGE


@pytest.mark.evidence
def test_page_states_errors_of_a_long_search() -> None:
    choices = training.plan(steps=2048, epochs=8, search="long").choices
    for choice, normals in zip(choices[:2], ("4.5", "1"), strict=True):
        buffers = choice.strategy.buffers
        assert f"| {choice.strategy.name} | {choice.error:.2f} | {buffers} | {normals} |" in PAGE


@pytest.mark.evidence
def test_page_states_least_errors_of_any_matrix() -> None:
    one, eight = (dense_optimum(512, epochs).rmse for epochs in (1, 8))
    stated = (
        f"The least error of any matrix is {one:.3f} at 512 steps in 1 epoch, and {eight:.3f} at "
        "512 steps in 8 epochs"
    )
    assert stated in PAGE


@pytest.mark.evidence
def test_page_states_errors_for_optimizers_over_few_steps() -> None:
    """The columns of 96 steps; those of 512 steps take minutes."""
    names = ("momentum .9", "falling rates", "both", "both, weight decay .0005")
    rows = list(optimizers(runs=((96, 1), (96, 4))))[3:]
    for name, row in zip(names, rows, strict=True):
        cells = [re.sub(r" \(.*?\)", "", cell).strip() for cell in row.strip("| ").split(" | ")]
        assert f"| {name} | {cells[1]} | {cells[2]} |" in PAGE
