"""Averages by hour of the day and by day of the week, from what was released."""

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

from counton import PureDP, Release, read, release
from counton.base.errors import InvalidInput
from counton.frame.windows import Windows
from counton.numbers import Answer
from counton.released.periods import WEEKDAYS, occurrences_of


def released(tmp_path: Path, every: str = "1h", hours: int = 29 * 24, **more: Any) -> Any:
    """Rows in every hour from 30 March 2024 on, over the night in which Berlin skips an hour."""
    begin = datetime(2024, 3, 30, 3, tzinfo=UTC)
    visits = pl.DataFrame({
        "time": [begin + timedelta(minutes=10 + 20 * n) for n in range(3 * hours)],
        "page": ["home", "shop", "home"] * hours,
    })  # fmt: skip
    out = tmp_path / "t.parquet"
    asked: dict[str, Any] = {"by": "page", "domain": ["home", "shop"], **more}
    release(
        "count", visits, time="time", every=every, start="2024-03-30T04:00",
        steps=720 if every == "1h" else 1440, until="newest", guarantee=PureDP(1),
        timezone="Europe/Berlin",
        state=tmp_path / "s.db", out=out, **asked,
    )  # fmt: skip
    return read(out)


def test_days_of_the_week_are_averages_of_sums_of_days(tmp_path: Path) -> None:
    found = released(tmp_path).only(range(30, 600))
    days = found.sums("1d").filter("whole", pl.col("first_step") >= 30)
    table = found.pattern("weekday")
    assert table.columns == ["weekday", "times", "group", "estimate", "std", "lower", "upper"]
    for name, times, group, estimate, std, lower, upper in table.iter_rows():
        own = days.filter(
            pl.col("window_start").dt.strftime("%A") == name, pl.col("group") == group
        )
        assert times == own.height
        assert estimate == pytest.approx(own["sum"].mean())
        parts = [
            found.total(group, steps=range(first, last + 1)).asked
            for first, last in own.select("first_step", "last_step").iter_rows()
        ]
        together = sum(parts[1:], parts[0]) / times
        assert std == pytest.approx(together.std)
        half = together.half(found.numbers.level)
        assert (lower, upper) == pytest.approx((estimate - half, estimate + half))


def test_hours_are_those_of_the_local_clock(tmp_path: Path) -> None:
    table = released(tmp_path, "30m").pattern("hour").filter(group="home")
    assert table["hour"].to_list() == [*range(24)]
    times = dict(table.select("hour", "times").iter_rows())
    assert times[2] == times[1] - 1  # on 31 March there is none
    # 2 of 3 rows are of home: 2 an hour.
    off = (table["estimate"] - 2) / table["std"]
    assert off.abs().max() < 6


def test_an_hour_that_comes_twice_is_two_hours() -> None:
    windows = Windows(datetime(2024, 10, 27, tzinfo=UTC), "30m", 9999, "Europe/Berlin")
    found = occurrences_of(windows, "hour", range(1, 9))  # from 2:00, twice, to 5:00
    assert found.of.tolist() == [2, 2, 3, 4]
    assert np.diff(found.stops).tolist() == [2, 2, 2]
    days = Windows(datetime(2024, 10, 26, 22, tzinfo=UTC), "1h", 9999, "Europe/Berlin")
    found = occurrences_of(days, "weekday", range(1, 60))
    assert (found.of.tolist(), found.stops.tolist()) == ([6, 0], [25, 49])


def test_hours_of_the_week_are_averages_of_the_same_hours(tmp_path: Path) -> None:
    """A table of 24 x 7, whatever the order in which both are named."""
    found = released(tmp_path).only(range(5, 690))
    table = found.pattern(["hour", "weekday"])
    assert table.columns[:3] == ["weekday", "hour", "times"]
    assert table.equals(found.pattern("weekday,hour"))
    assert table.height == 2 * 7 * 24
    windows = found.numbers.definition.cut
    begun: dict[tuple[str, int], list[int]] = {}
    for step in range(5, 690):
        at = windows.local(int(windows.starts(range(step, step + 1))[0]))
        begun.setdefault((WEEKDAYS[at.weekday()], at.hour), []).append(step)
    for name, hour, times, group, estimate, std, lower, upper in table.iter_rows():
        assert times == len(begun[name, hour])
        if (name, hour) not in (("Sunday", 9), ("Monday", 0), ("Saturday", 23)):
            continue
        totals = [found.total(group, steps=range(at, at + 1)) for at in begun[name, hour]]
        assert estimate == pytest.approx(np.mean([one.value for one in totals]))
        parts = [one.asked for one in totals]
        together = sum(parts[1:], parts[0]) / times
        assert std == pytest.approx(together.std)
        half = together.half(found.numbers.level)
        assert (lower, upper) == pytest.approx((estimate - half, estimate + half))


def test_what_has_no_pattern_says_so(tmp_path: Path) -> None:
    found = released(tmp_path, "2h", hours=60)
    for by, said in (
        ("hour", "lie within an hour, but the window of 2h from"),
        ("day", "give hour or"),
    ):
        with pytest.raises(InvalidInput, match=said):
            found.pattern(by)
    with pytest.raises(InvalidInput, match="a whole day among the steps"):
        found.only(range(2, 7)).pattern("weekday")


def test_totals_of_groups_are_their_sums(tmp_path: Path) -> None:
    found = released(tmp_path, hours=60)
    both = found.total(["home", "shop"], steps="2:9")
    assert isinstance(both, Answer)
    assert both.value == pytest.approx(found.combine({"home": 1, "shop": 1}, steps="2:9").value)
    assert both.std == pytest.approx(2**0.5 * found.total("home", steps="2:9").std)


@pytest.mark.parametrize("form", ["totals", "windows", "both"])
def test_a_chart_of_a_band_has_the_numbers_of_the_band(tmp_path: Path, form: str) -> None:
    found = released(
        tmp_path, hours=40, release=form, strategy="binary" if form != "windows" else None
    ).only(range(5, 40))
    table = found.numbers.with_band().plain_table()
    assert table.equals(found.band())
    figure: Any
    (figure,) = Release(found.numbers.with_band()).figures().values()
    assert "with 95% intervals, which hold together" in [one.get_text() for one in figure.texts][1]
    ends = [path.vertices[:, 1] for each in figure.axes for one in each.collections
            for path in one.get_paths()]  # fmt: skip
    drawn = np.concatenate(ends)
    assert np.isclose(drawn, float(table["upper"].to_numpy().max())).any()
