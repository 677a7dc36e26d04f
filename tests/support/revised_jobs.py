"""Jobs of nights whose windows are revised: what they release, and how far one unit moves it."""

import math
from collections.abc import Callable, Sequence
from datetime import date, timedelta
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import polars as pl
from every_version import EveryVersion
from folders import job_folder
from keys import chosen_key
from run_results import counts_of, design_of, releases_of

from counton.base.distributions import DiscreteLaplace
from counton.continual.checkpoint import arrivals_of
from counton.continual.sensitivity import sensitivity_of
from counton.run import Job, run
from counton.strategies import WindowVersions, matrices

#: A row: the day of its time, its group, its user, its id, its value.
Row = tuple[int, str, str, str, float]
#: What a night brings, perhaps by what was released until then.
Night = Sequence[Row] | Callable[[np.ndarray[Any, Any]], Sequence[Row]]
COLUMNS = ("at", "group", "user", "id", "value")


class Nights(NamedTuple):
    """What nights released, shape (nights, cells, versions), and what the operator was told."""

    values: np.ndarray[Any, Any]
    told: list[Any]
    design: Any
    metadata: Any


def day_in_march(day: int) -> str:
    """A day by its number, from the first of March on; April follows."""
    return (date(2024, 3, 1) + timedelta(days=day - 1)).isoformat()


def frame(rows: Sequence[Row], night: int) -> pl.DataFrame:
    """A table of new events; each night's bytes are others."""
    at = [f"{day_in_march(day)}T{12 + night % 12:02}:00" for day, *_ in rows]
    columns = {name: [row[place] for row in rows] for place, name in enumerate(COLUMNS)}
    kinds = {"group": pl.String, "user": pl.String, "id": pl.String, "value": pl.Float64}
    return pl.DataFrame({**columns, "at": at}, schema={"at": pl.String, **kinds})


def released(
    nights: Sequence[Night], what: Any = "count", days: Sequence[int] | None = None, **options: Any
) -> Nights:
    """One run a night, under one key: the same rows release the same, and others by what they add.

    Args:
        nights: night k ends day k of March, and brings rows of any day.
        what: the statistic.
        days: how many days have ended at each run, which may come in the middle of a day, or after
            several; None: night k ends day k.
        options: of the job.
    """
    told = list[Any]()
    values = np.zeros((0, 1, 1))
    with job_folder() as folder:
        for night, given in enumerate(nights, 1):
            rows = given(values) if callable(given) else given
            new = {
                "time": "at", "every": "1d", "start": "2024-03-01", "allowed_lateness": "2d",
                "key": chosen_key(), "append": True, **options,
            }  # fmt: skip
            job = Job(
                what, frame(rows, night), Path(folder, "s.db"), allow_empty_windows=True, **new,
                until=day_in_march(1 + (days[night - 1] if days else night)),
            )  # fmt: skip
            with run(job) as outcome:
                told.append(counts_of(outcome))
                design = design_of(outcome)
                metadata = outcome.spec.metadata()
                found = np.asarray(releases_of(outcome))
            values = found.reshape(len(found), -1, design.strategy.facts.versions)
    return Nights(values, told, design, metadata)


def share_used(without: Nights, with_it: Nights) -> float:
    """As `share_of`, of a unit that may not move them further.

    Raises:
        AssertionError: it does.
    """
    share = share_of(without, with_it)
    assert share <= 1 + 1e-9, f"a unit moves {share:g} times what it may"
    return share


def share_of(without: Nights, with_it: Nights) -> float:
    """How far a unit's rows move the measurements, over what the noise is calibrated to."""
    design = with_it.design
    step = float(design.units.released)
    known = np.rint((with_it.values - without.values) / step * step / float(design.units.exact))
    change = known.astype(np.int64)
    strategy = design.strategy
    arrived = arrivals_of(change, np.zeros_like(change[0]))  # (nights, cells, versions)
    moved = _moved_windows(arrived, strategy)
    most = sensitivity_of(strategy, design.contribution, design.shape)
    if isinstance(design.distribution, DiscreteLaplace):
        return float(np.abs(moved).sum()) / most.l1
    return math.sqrt((moved**2).sum() / most.l2_squared)


def _moved_windows(arrived: np.ndarray[Any, Any], strategy: Any) -> np.ndarray[Any, Any]:
    """How far arrivals move the nodes of windows, in lattice units: shape (nodes, cells)."""
    last = len(arrived)
    versions = arrived.shape[-1]
    windows = WindowVersions(last, strategy.inner)
    every = EveryVersion(windows)
    enters = np.asarray(matrices(every)[1], np.float64)
    flat = np.zeros((every.horizon, arrived.shape[1]))
    for night in range(1, last + 1):
        for lag in range(versions):
            if night - lag >= 1:
                flat[every.step_of(night - lag, lag) - 1] += arrived[night - 1, :, lag]
            else:
                assert not arrived[night - 1, :, lag].any(), "a window before the first counts"
    moved: np.ndarray[Any, Any] = enters @ flat * 2.0**windows.facts.lattice_bits
    return moved
