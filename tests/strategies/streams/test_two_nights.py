"""Differences of one window between tables of two nights: weights written out, and draws."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from keys import chosen_key

from counton import ZCDP, PureDP
from counton.base.distributions import DiscreteGaussian
from counton.numbers import Design
from counton.numbers.formulas import CellSum, Formula, Term
from counton.numbers.node_law import calibration_of
from counton.privacy import Contribution
from counton.run.new_stream import with_totals
from counton.strategies import Binary, KAry, WindowsAndTotals, WindowVersions
from counton.strategies.joint_errors import step_covariance
from counton.strategies.streams.square_root import SqrtToeplitz
from counton.strategies.streams.two_nights import TwoNights
from counton.strategies.streams.windows_and_totals import LeastSquaresAsOf, by_night

GAUSS, WIDE = DiscreteGaussian(Fraction(900)), DiscreteGaussian(Fraction(8100))
#: A window, and two nights: of its versions, after it is final, and both.
NIGHTS = [(2, 2, 3), (2, 3, 4), (2, 2, 7), (3, 5, 7), (1, 4, 6), (4, 4, 4)]


def weights_of(
    both: WindowsAndTotals, window: int, night: int, nights: int
) -> np.ndarray[Any, Any]:
    """With which weight the table of a night reads each number that nights have released."""
    lags, large = both.windows.lags, 2.0**30  # estimates are rounded
    released = np.zeros((nights, nights * (lags + 2), lags + 2))
    cells = [(w, lag) for w in range(1, nights + 1) for lag in range(lags + 1) if w + lag <= nights]
    for place, (w, lag) in enumerate(cells):
        released[w + lag - 1, place, lag] = large
    for place in range(nights):
        released[place, len(cells) + place, -1] = large
    read = LeastSquaresAsOf(both, night, GAUSS)
    newest, *parts = by_night(released[:night], lags)
    found = read.estimates(newest, read.innovations(*parts))[window - 1] / large
    return np.asarray(found[: len(cells) + nights])


@pytest.mark.parametrize(("window", "earlier", "later"), NIGHTS)
def test_noise_is_that_of_the_numbers_that_both_tables_read(
    window: int, earlier: int, later: int
) -> None:
    windows, totals, nights = WindowVersions(8, Binary(3)), SqrtToeplitz(8), 7
    both = WindowsAndTotals(windows, totals, "1/4", WIDE)
    cells = [(w, lag) for w in range(1, nights + 1) for lag in range(3) if w + lag <= nights]
    noise = np.zeros((len(cells) + nights,) * 2)
    for i, (w, lag) in enumerate(cells):
        for j, (v, other) in enumerate(cells):
            noise[i, j] = 900 * float(windows.lag_covariance(lag, other)) * (w == v)
    of_steps = step_covariance(totals, WIDE, range(1, nights + 1), range(1, nights + 1))
    noise[len(cells) :, len(cells) :] = np.tri(nights) @ of_steps @ np.tri(nights).T
    reads = np.stack([weights_of(both, window, night, nights) for night in (earlier, later)])
    wanted = reads @ noise @ reads.T / 900
    moved = TwoNights(both, window, earlier, later, GAUSS)
    sums = wanted[0, 0], wanted[1, 1], wanted.sum()
    assert moved.variance([1, 2, 2], [0, 1, 0]) == pytest.approx(sums)
    apart = np.array([-1.0, 1.0]) @ wanted @ np.array([-1.0, 1.0])
    found = moved._summed_variance(np.array([1, 2]), np.array([-2.0, 1.0]))
    assert found == pytest.approx(apart, abs=1e-6)


@pytest.mark.parametrize("guarantee", [ZCDP("0.5"), PureDP(1)], ids=str)
def test_intervals_of_differences_hold(guarantee: ZCDP | PureDP) -> None:
    one, shape = Contribution.add_remove(), (4000,)
    both = with_totals(WindowVersions(30, KAry(3, 4)), Fraction(1, 2), guarantee, one, shape)
    law = calibration_of(both, guarantee, one, shape).law
    terms: dict[str, Any] = {
        "guarantee": guarantee, "contribution": one, "shape": shape, "law": law, "name": "t",
    }  # fmt: skip
    field = Design(strategy=both, **terms).noise_field(chosen_key())
    for window, earlier, later in ((20, 20, 21), (20, 21, 24), (12, 20, 24)):
        moved = TwoNights(both, window, earlier, later, law)
        first, last = moved.noise(field, range(1, 3)) * 2.0**-10
        of = Design(strategy=moved, **terms)
        ends = (Formula.of(CellSum(0.0, of, (Term(1.0, n - 1, n, 0),))) for n in (1, 2))
        earlier_one, later_one = ends
        asked = later_one - earlier_one
        assert float((last - first).std()) == pytest.approx(asked.std, rel=0.05)
        low, high = asked.interval(0.95)
        inside = float(((last - first >= low) & (last - first <= high)).mean())
        assert inside >= 0.943
        assert inside <= 0.98 or earlier >= window + 2  # of final numbers little noise is left
