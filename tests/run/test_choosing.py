"""How many events of a user to count: exact facts of the log, and the error of the noise."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import polars as pl
import pytest

from counton import plan
from counton.base.errors import InvalidInput
from counton.privacy import ZCDP, Contribution, PureDP
from counton.run.private_look import Activity, activity, weigh

EVENTS = pl.DataFrame(
    {
        # 31 March 2013 ends at 22:00 in UTC, and has 23 hours
        "time": ["2013-03-30T22:30Z", *["2013-03-31T21:30Z"] * 3, "2013-03-31T22:30Z", "?", None],
        "visitor": ["ann", "ann", "ann", "bob", "ann", "ann", ""],
    }
)


def test_units_are_users_or_their_local_days(tmp_path: Path) -> None:
    whole = activity(EVENTS, "visitor")
    assert (whole.sizes.tolist(), whole.units.tolist(), whole.without) == ([1, 5], [1, 1], 1)
    files = []
    for number, rows in enumerate((EVENTS[:3], EVENTS[3:])):  # one unit's rows in two files
        files.append(str(tmp_path / f"{number}.csv"))
        rows.write_csv(files[-1])
    days = activity(files, "visitor", per="1d", time="time", timezone="Europe/Berlin")
    assert (days.sizes.tolist(), days.units.tolist(), days.without) == ([1, 2], [3, 1], 2)


def test_bounds_drop_what_they_say() -> None:
    sizes = np.array([1, 3, 700])
    found = Activity(sizes, np.array([5, 2, 1]), 0)
    bounds = weigh(found)
    assert [bound.most for bound in bounds] == [1, 2, 3, 5, 10, 20, 30, 50, 100, 200, 300, 500, 700]
    units = np.repeat(sizes, [5, 2, 1])
    for bound in bounds:
        assert bound.dropped == np.maximum(units - bound.most, 0).sum() / units.sum()
        assert bound.above == (units > bound.most).sum()
        assert bound.std is None


def test_the_noise_is_that_of_the_plan_for_the_bound() -> None:
    found = Activity(np.array([1, 5]), np.array([5, 2]), 0)
    for guarantee in (PureDP(1), ZCDP(0.5)):
        for bound in weigh(found, 100, guarantee):
            best = plan(100, guarantee, contribution=Contribution.events(bound.most)).best
            assert bound.std == pytest.approx(best.errors.mean_std, rel=1e-12)


def test_what_cannot_be_looked_at_is_refused() -> None:
    with pytest.raises(InvalidInput, match=r"no row of .* has a user"):
        activity(EVENTS[6:], "visitor")
    with pytest.raises(InvalidInput, match="per=1d needs the column of times"):
        activity(EVENTS, "visitor", per="1d")
    with pytest.raises(InvalidInput, match="depends on steps and a privacy loss"):
        weigh(Activity(np.array([1]), np.array([1]), 0), steps=5)
    with pytest.raises(InvalidInput, match="no column 'user'"):
        activity(EVENTS, "user")
    for per in ("1 d", "0h", "1y"):
        with pytest.raises(InvalidInput, match="is not a whole number above 0 and a unit"):
            activity(EVENTS, "visitor", per=per, time="time")
