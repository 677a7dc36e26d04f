"""The best of what several kinds of noise give, and the reason if none gives anything."""

from typing import Any

import pytest

from counton.base.errors import SumOverflowError
from counton.privacy import ZCDP, ContributionBound, PureDP, calibrate
from counton.tables import Haar
from counton.tables.table_calibration import noise_kinds, rank_attempts, sensitivity_of_cells


def refuse(reason: str) -> Any:
    raise SumOverflowError(reason)


def test_rank_attempts_omits_refused_and_keeps_order_of_equals() -> None:
    attempts: list[Any] = [lambda: "bb", lambda: refuse("no"), lambda: "a", lambda: "cc"]
    assert rank_attempts(attempts, cost=len) == ["a", "bb", "cc"]


def test_if_all_are_refused_the_last_reason_is_given() -> None:
    with pytest.raises(SumOverflowError, match="second"):
        rank_attempts([lambda: refuse("first"), lambda: refuse("second")], cost=float)


def test_other_errors_are_no_refusals() -> None:
    with pytest.raises(ZeroDivisionError):
        rank_attempts([lambda: 1, lambda: 1 // 0], cost=float)


@pytest.mark.parametrize("rho", [0.1, 1, 2])
def test_laplace_noise_is_rightly_left_out_for_small_rho(rho: float) -> None:
    assert noise_kinds(ZCDP(rho)) == ("gaussian",)
    assert noise_kinds(ZCDP(rho + 2)) == ("laplace", "gaussian")
    assert noise_kinds(PureDP(rho)) == ("laplace",)
    for cells in (1, 2, 100):
        shift = sensitivity_of_cells(Haar.cascade(cells), ContributionBound.add_remove())
        laplace, gaussian = (
            calibrate(ZCDP(rho), shift, f).distribution for f in ("laplace", "gaussian")
        )
        assert gaussian.variance < laplace.variance
