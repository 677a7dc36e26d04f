"""One experiment of each paper on real data, and values that are missing as a job treats them."""

from fractions import Fraction
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from counton.base.errors import InvalidInputError
from counton.run import Job, run
from papers import Evidence
from papers.flights import numbers

pytestmark = pytest.mark.xdist_group("flights")


def test_measured_errors_agree_with_proven_ones(flights: Evidence) -> None:
    assert flights.wrong == ()
    papers = {row.place.split(",")[0].lower() for row in flights.comparisons}
    assert papers == set(numbers.EXPERIMENTS)


def test_the_data_are_all_flights() -> None:
    assert numbers.departures(numbers.HOURS).sum() == 336_776
    assert numbers.departures(numbers.DAYS).sum() == 336_776
    assert len(numbers.arrived()) == 336_776 - 9_430


def test_sum_of_delays_omits_missing_values_as_job_does(tmp_path: Path) -> None:
    rows = numbers.flights().filter(pl.col("day") < 3)
    assert rows["delay"].null_count() > 0
    start = pl.datetime(2013, 1, 1, time_zone="UTC")
    rows.select(time=start + pl.duration(hours="hour"), delay="delay").write_csv(
        tmp_path / "flights.csv", datetime_format="%Y-%m-%dT%H:%M:%SZ"
    )
    job = Job(
        what="sum",
        events=tmp_path / "flights.csv",
        state=tmp_path / "state.db",
        time="time",
        every="1d",
        value="delay",
        lower=numbers.LEAST,
        upper=numbers.MOST,
        resolution=1,
        start="2013-01-01",
        windows=3,
        until="2013-01-04",
        epsilon=Fraction(10**6),  # noise that is 0 almost surely
    )
    with pytest.raises(InvalidInputError, match="no value"):
        run(job).close()
    with run(job.derive(missing_values="drop")) as outcome:
        totals = outcome.read().numbers.series.totals
    assert totals is not None
    delays = rows.drop_nulls("delay").group_by("day").agg(pl.col("delay").clip(0, 180).sum())
    expected = np.cumsum(delays.sort("day")["delay"].to_numpy())
    assert totals.estimates.reshape(-1).tolist() == expected.tolist()
