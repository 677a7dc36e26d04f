"""Table 1 and Figures 1 to 4 of the paper on expiration."""

import math

import numpy as np
import pytest

from counton.base.errors import InvalidInputError
from counton.strategies import Expiring
from papers import Evidence, reproduce
from papers.expiration.figures import growth_curve, habit_curves, plotted_ages
from papers.expiration.numbers import (
    GROWTH_ROWS,
    HABIT_ROWS,
    LONG,
    NEAR_BEST_ROWS,
    SHORT,
    HabitRow,
    habit_for,
    last_loss,
    table_1,
)
from papers.expiration.statements import (
    decomposition,
    loss_targets,
    squared_error,
    tail,
    tail_bound,
    tail_of_scales,
    uncovered,
)

pytestmark = pytest.mark.xdist_group("expiration")


def test_table_1_is_complete() -> None:
    assert len(GROWTH_ROWS) + len(HABIT_ROWS) + len(NEAR_BEST_ROWS) == 20
    assert len(table_1()) == 10 + 2 * 5 + 3 * 5
    printed = [row.printed for row in table_1() if row.place.startswith("Table 1, 4")]
    assert printed == [
        *("0.1947", "0.05645", "0.04652"),
        *("0.7328", "0.05048", "1000", "0.7031", "0.05796", "1000", "0.7170", "0.07252", "1000"),
        *("6.973", "0.04488", "1000", "4.413", "0.04589", "1000"),
    ]


def test_figure_4_compares_budgets_with_least_last_loss() -> None:
    for steps, windows in ((SHORT, [31, 63, 127]), (LONG, [127, 1023])):
        found = [*habit_curves(steps, near_best=True)]
        assert [row.window for row, _, _ in found] == windows
        for row, losses, best in found:
            # At once an item has lost a node of its round.
            assert losses[0] == pytest.approx(float(row.current) / row.window.bit_length())
            assert best is not None
            assert best[-1] <= losses[-1] * (1 + 1e-3)
    (_, losses, best), _ = habit_curves(LONG, near_best=True)
    assert best is not None
    assert losses[0] > 1.39 * best[0]  # 6.973 and 4.991, as different as budgets get
    assert all(best is None for _, _, best in habit_curves(SHORT, near_best=False))


@pytest.mark.parametrize("row", NEAR_BEST_ROWS, ids=lambda row: f"{row.figure}, {row.window}")
def test_figure_4_uses_budgets_near_the_least_last_loss(row: HabitRow) -> None:
    _, window, steps, current, past = row
    least = last_loss(habit_for(window, steps, share=None), steps)
    printed = float(current) + float(past) * (-(-steps // window) - 1)
    assert least < printed < 1.006 * least


def test_the_share_of_least_loss_is_least() -> None:
    best = habit_for(127, 1000, share=None)
    rounds = math.ceil(1000 / 127) - 1
    least = best.current + rounds * best.past
    for share in np.geomspace(0.01, 1, 50):
        other = habit_for(127, 1000, float(share))
        assert other.mean_variance(1000) == pytest.approx(1000)
        assert other.current + rounds * other.past >= least * (1 - 1e-9)


@pytest.mark.parametrize("growth", [1, 2, 3])
@pytest.mark.slow
def test_figure_2_exact_loss_is_below_paper_and_bound(
    growth: int,
) -> None:
    exact = growth_curve(growth, SHORT, "exact")
    some = plotted_ages(SHORT, "exact")
    paper, bound = (growth_curve(growth, SHORT, name) for name in ("paper", "bound"))
    assert (exact <= paper[some] * (1 + 1e-12)).all()
    assert (paper <= bound * (1 + 1e-12)).all()
    assert bound.max() < 3 * exact.max()  # the same growth


def test_figure_3_restarted_counter_loses_less_early_and_more_late() -> None:
    ages = plotted_ages(LONG)
    early = (ages > 1) & (ages < 100)
    late = ages > 300_000
    for window in (127, 1023):
        habit = habit_for(window, LONG).loss(ages.tolist())
        assert (habit[early] < growth_curve(1, LONG, "paper")[early]).all()
        for growth in (1, 2):
            assert (habit[late] > growth_curve(growth, LONG, "paper")[late]).all()
        slope = np.ptp(habit[late]) / np.ptp(ages[late])
        assert slope == pytest.approx(habit_for(window, LONG).past / window, rel=0.01)


def test_expiration_rows_agree_or_are_explained(expiration: Evidence) -> None:
    assert expiration.wrong == ()
    assert len(expiration.comparisons) >= 120
    explained = [row for row in expiration.comparisons if row.verdict == "explained"]
    # The caption of Figure 4 against Table 1 and the least losses; sums above their integrals.
    assert [(row.place, round(row.computed, 4)) for row in explained] == [
        ("Figure 4(a)", 0.0778), ("Figure 4(a)", 0.1011), ("Figure 4(a)", 0.0899),
        ("Figure 4(b)", 0.0090), ("Figure 4(b)", 0.0127), ("Algorithm 3", 4),
        ("Lemma 4.1", 51.5698), ("Lemma 4.1", 42), ("Lemma 4.1", 132), ("Lemma 4.1", 1012),
        ("Appendix C.3.1", 3),
    ]  # fmt: skip


def test_the_tail_of_laplace_sums_is_that_of_sampling() -> None:
    random = np.random.default_rng(4)
    for count, value in ((2, 3.0), (10, 8.0)):
        drawn = np.abs(random.laplace(size=(count, 200_000)).sum(axis=0)) > value
        assert tail(count, value) == pytest.approx(drawn.mean(), abs=4 * drawn.std() / 447)
        assert tail(count, tail_bound(count, 0.05)) < 0.05
    scales = np.array([[1.0], [0.5], [0.25]])
    drawn = np.abs(random.laplace(scale=scales, size=(3, 200_000)).sum(axis=0)) > 2.0
    chance = tail_of_scales(scales[:, 0].tolist(), 2.0)
    assert chance == pytest.approx(drawn.mean(), abs=4 * drawn.std() / 447)


def test_decompositions_cover_their_steps_in_dyadic_pieces() -> None:
    for first in range(1, 40):
        for last in range(first, 80):
            levels = decomposition(first, last)
            at = first
            for level in levels:
                assert at % 2**level == 0
                at += 2**level
            assert at == last + 1


def test_squared_error_of_theorem_1_2_equals_node_variances() -> None:
    for growth, step, delay in (("1/2", 77, 5), ("2", 1, 0), ("3/2", 1000, 999)):
        variance = float(Expiring(growth, delay).variance([step])[0])
        assert squared_error(growth, step, delay) == pytest.approx(2 * variance)
    assert [uncovered(delay) for delay in (0, 1, 7)] == [0, 1, 7]


def test_loss_targets_are_met_by_their_mechanism() -> None:
    targets = loss_targets(Expiring(2), 0.5, 400)
    assert max(targets) == 399
    assert list(targets) == sorted(targets)
    assert list(targets.values()) == sorted(targets.values())
    assert targets[31] == 0.5 * 16


def test_an_unknown_paper_is_refused() -> None:
    with pytest.raises(InvalidInputError, match="known are"):
        reproduce("nothing")
