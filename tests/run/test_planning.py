"""Plans of new streams that are refused before a row is read."""

from typing import Any

import pytest

from counton.base.errors import InvalidInputError
from counton.job.statistics.count import CountJob
from counton.job.statistics.reach import ReachJob
from counton.run.spec.plan_spec import plan_spec

WINDOWS: dict[str, Any] = {"time": "at", "every": "1d", "start": "2024-03-01", "epsilon": 1}


@pytest.mark.parametrize(
    ("every", "start", "timezone"),
    [("1d", "2024-03-01T05:00", "UTC"), ("1d", "2024-03-01T00:00Z", "Europe/Berlin")],
)
def test_plan_stream_windows_shifted_against_periods_is_refused(
    every: str, start: str, timezone: str
) -> None:
    """One user would count twice in a window."""
    options = {**WINDOWS, "every": every, "start": start, "timezone": timezone, "windows": 30}
    with pytest.raises(
        InvalidInputError, match=r"contribution_period=1d: a period begins at .* would count twice"
    ):
        plan_spec(CountJob(user="who", max_contributions=1, contribution_period="1d", **options))
    with pytest.raises(InvalidInputError, match=r"contribution_period=1d: a period begins at"):
        plan_spec(ReachJob(user="who", contribution_period="1d", **options))
    plan_spec(CountJob(user="who", max_contributions=1, contribution_period="2d", **options))


def test_plan_spec_user_with_any_number_of_rows_is_refused_under_expiration() -> None:
    with pytest.raises(InvalidInputError, match="max_contributions"):
        plan_spec(CountJob(expiring=True, user="who", **WINDOWS))
