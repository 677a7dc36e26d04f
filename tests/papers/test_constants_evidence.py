"""What "Constant matters" prints, and what its figures show."""

import math
from collections import Counter
from dataclasses import replace

import numpy as np
import pytest

from counton.strategies import Binary
from counton.strategies.streams.square_root import square_root_sensitivity
from papers import Evidence
from papers.constants import streams
from papers.constants.numbers import binary_factor, psi_star
from papers.simulation import Measured

pytestmark = pytest.mark.xdist_group("constants")


def test_every_number_agrees_or_is_known_to_differ(constants: Evidence) -> None:
    assert constants.wrong == ()
    explained = Counter(row.place for row in constants.comparisons if row.verdict == "explained")
    assert explained == {
        "Lemma 3": 4, "Proof of Lemma 6": 3, "Figure 2": 4, "Equation (3)": 3, "Remark 1": 3,
        "Section 7 (1)": 3, "Theorem 2": 2, "Table 2": 15, "Section 7 (3)": 3, "Figure 4": 2,
        "Section 7 (4)": 1, "Section 7": 2, "Table 1": 1, "Equation (2)": 1, "Corollary 1": 2,
        "Remark 2": 1, "Corollary 4": 2, "Corollary 2": 3,
    }  # fmt: skip
    assert len(constants.comparisons) > 2 * explained.total()


@pytest.mark.parametrize("levels", [0, 1, 4, 6])
def test_factors_of_remark_1_are_those_of_binary_tree(levels: int) -> None:
    left, right = binary_factor(levels)
    assert right.shape == (2 ** (levels + 1) - 1, 2**levels)
    np.testing.assert_array_equal(left @ right, np.tri(2**levels))
    steps = range(1, 2**levels + 1)
    np.testing.assert_array_equal((left**2).sum(axis=1), Binary(2**levels).variance(steps))


def test_the_series_of_the_norm_is_its_sum() -> None:
    beyond = square_root_sensitivity(2**21)
    assert psi_star(2**21) == pytest.approx(beyond, abs=2e-7)
    assert psi_star(2**21) != beyond


def test_runs_have_the_errors_that_are_stated() -> None:
    """Means within five standard errors, spread within five, and power to see a twentieth."""
    ours = streams.mechanisms(2**10).ours
    runs = 512
    found = streams.simulated(ours, streams.FIGURE_1, runs)
    std = streams.stds(ours, streams.FIGURE_1)
    assert np.abs(found.mean / std).max() < 5 / math.sqrt(runs)
    assert np.abs(found.mean / std).max() > 0.5 / math.sqrt(runs)
    # The first release alone: its largest error so far is |N|, with mean sqrt(2/pi).
    first = found.largest_until[0] / std[0] / math.sqrt(2 / math.pi)
    assert first == pytest.approx(1, abs=0.15)
    assert (np.diff(found.largest_until) >= 0).all()
    assert found.largest.mean() == pytest.approx(found.largest_until[-1])


def test_noise_of_figure_4_equals_its_caption() -> None:
    count = np.cumsum(streams.zipf_stream() == 0)
    binary, ours = (
        np.flatnonzero(count < streams.stds(strategy, streams.FIGURE_4)) + 1
        for strategy in streams.mechanisms(streams.ZIPF_HORIZON)
    )
    assert (binary.tolist(), ours.max() + 1) == (list(range(1, 2048)), 1173)


def test_comparison_detects_too_little_noise(constants: Evidence) -> None:
    rows = [row for row in constants.comparisons if row.quantity.startswith("standard deviation")]
    assert len(rows) == 9
    for row in rows:
        assert row.verdict == "agrees"
        assert {replace(row, computed=row.computed * by).verdict for by in (0.9, 1.1)} == {
            "DIFFERS"
        }


def test_measured_interval_has_stated_width() -> None:
    half = Measured.of(np.tile([0.0, 2.0], 200)).half
    assert half == pytest.approx(2.5758 / math.sqrt(399))
