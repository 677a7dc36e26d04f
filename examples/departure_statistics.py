"""The demonstration of statistics: the departures of 2013 from New York, released by time."""

from __future__ import annotations

import sys
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from counton import ApproxDP, Key, PureDP, RunningStatistic
from counton.cli.command_text import CommandActions, command_text
from counton.cli.statistic_run import perform
from counton.privacy import Guarantee
from counton.run import Job
from counton.run.outputs.output_files import write_table
from counton.statistics import Degrees, Episodes, Statistic, Triangles
from examples.departures import data_folder

_ZONE = "America/New_York"
#: The aircraft with most departures, and the airports that most of them went to.
_AIRCRAFT = "N725MQ"
_FLOWN = ("RDU", "CMH", "DTW")
#: Airports are linked that one aircraft flew to within so many hours.
_HOURS = 12
#: Files of events that are counted in their order.
_IN_ORDER = ("letters", "links", "visits")


def run_statistics(folder: str) -> None:
    """Write the data into a folder, and release five statistics of it: two as their commands do,
    and three that take events in their order, in memory.

    A graph of aircraft and airports has no triangles, as all of its edges join one of each; so its
    degrees are counted, and triangles in a graph of airports.

    Raises:
        MissingDependencyError: the package with the data is not installed.
    """
    target = Path(folder)
    target.mkdir(parents=True, exist_ok=True)
    _write_data(target)
    days = {"every": "1d", "windows": 365}
    _run(
        target,
        "top-k",
        "destinations.parquet",
        {"every": "1h", "windows": 8760},
        {"group_by": "dest"},
        {"groups": str(target / "destinations.txt"), "top": 6, "privacy_unit": "departure"},
        over=720,
    )
    _run(
        target,
        "quantiles",
        "delays.parquet",
        days,
        {"value": "delay"},
        {"lower": "-20", "upper": "180", "cells": 100, "privacy_unit": "departure"},
        shares="0.5,0.9",
        over=7,
    )
    days_of = {name: pl.read_parquet(target / f"{name}.parquet") for name in _IN_ORDER}
    pairs = [("RDU", "RDU"), ("CMH", "CMH"), ("RDU", "CMH"), ("DTW", "CMH")]
    _count_in_memory(
        Episodes([*_FLOWN, "other"], longest=2),
        ApproxDP(3, 1e-6),
        days_of["letters"],
        7,
        {" ".join(pair): list(pair) for pair in pairs},
        target / "episodes.png",
        f"Pairs of airports that {_AIRCRAFT} flew to",
    )
    sys.stdout.write(
        "\nA graph of aircraft and airports has no triangles, since each edge joins one of each.\n"
        "Triangles are counted among airports, linked once one aircraft flew to both; degrees\n"
        "are counted of aircraft and airports, linked by departures.\n"
    )
    _count_in_memory(
        Triangles(degree=104),
        PureDP(1),
        days_of["links"],
        1,
        {"triangles": "triangles"},
        target / "triangles.png",
        f"Airports that one aircraft flew to within {_HOURS} hours",
    )
    _count_in_memory(
        Degrees(degree=10),
        PureDP(1),
        days_of["visits"],
        1,
        {str(degree): str(degree) for degree in range(1, 6)},
        target / "degrees.png",
        "Aircraft of a day and airports of an hour, linked by departures",
    )


def _count_in_memory(
    statistic: Statistic,
    guarantee: Guarantee,
    table: pl.DataFrame,
    days: int,
    names: dict[str, Any],
    plot: Path,
    title: str,
) -> None:
    """Count events in their order, and draw numbers with their intervals after each window.

    Args:
        statistic: the statistic.
        guarantee: the guarantee for the year.
        table: a column of times, and then those of an event.
        days: length of a window.
        names: numbers to draw, by their labels.
        plot: the picture.
        title: its title.
    """
    from matplotlib import pyplot as plt

    local = table["time_hour"].dt.convert_time_zone(_ZONE).dt.ordinal_day().to_numpy()
    steps = -(-365 // days)
    stops = np.searchsorted((local - 1) // days, np.arange(1, steps + 1))
    rows = table.drop("time_hour").rows()
    events = [row[0] if len(row) == 1 else row for row in rows]
    running = RunningStatistic.start(
        statistic, steps, guarantee, key=Key.generate(), name=plot.stem, batched=True
    )
    readings = running.release_batches(events, stops)
    figure, axes = plt.subplots(figsize=(7.5, 4.2))
    at = days * np.arange(1, steps + 1)
    for label, name in names.items():
        ends = np.array([one.interval(name) for one in readings], np.float64).T
        axes.fill_between(at, *ends, alpha=0.25)
        axes.plot(at, [one[name] for one in readings], label=label)
    axes.set(title=title, xlabel="day of 2013")
    axes.legend()
    figure.savefig(plot)
    plt.close(figure)
    sys.stdout.write(f"\n{running.describe()}\n{plot}\n")


def _run(
    target: Path,
    name: str,
    events: str,
    windows: dict[str, Any],
    columns: dict[str, Any],
    parameters: dict[str, Any],
    **outputs: Any,
) -> None:
    job = Job(
        name,
        [str(target / events)],
        str(target / "statistics.db"),
        stream=name,
        time="time_hour",
        start="2013-01-01",
        until="2014-01-01",
        timezone=_ZONE,
        **({"epsilon": "1"} | windows | columns | parameters | outputs),
    )
    sys.stdout.write(f"\n$ {command_text(job)}\n\n")
    sys.stdout.flush()
    perform(job, CommandActions())


def _write_data(target: Path) -> None:
    """Files of events, as the commands read them."""
    data = data_folder()
    with zipfile.ZipFile(data / "flights.csv.zip") as archive:
        wanted = ["time_hour", "sched_dep_time", "dep_delay", "tailnum", "dest"]
        rows = pl.read_csv(
            archive.read("flights.csv"), columns=wanted, infer_schema=False, null_values="NA"
        )
    hour = pl.col("time_hour").str.to_datetime("%Y-%m-%dT%H:%M:%SZ", time_zone="UTC")
    minute = pl.col("sched_dep_time").cast(pl.Int64)
    flights = rows.with_columns(hour, minute).sort("time_hour", "sched_dep_time", "dest")
    flown = flights.drop_nulls("tailnum")
    local = pl.col("time_hour").dt.convert_time_zone(_ZONE)
    to = pl.col("dest")
    tables = {
        "destinations": flights.select("time_hour", "dest"),
        "delays": flights.select(
            "time_hour", delay=pl.col("dep_delay").cast(pl.Int64)
        ).drop_nulls(),
        "letters": flown.filter(pl.col("tailnum") == _AIRCRAFT).select(
            "time_hour", airport=pl.when(to.is_in(_FLOWN)).then(to).otherwise(pl.lit("other"))
        ),
        "links": _links(flown),
        "visits": flown.select(
            "time_hour",
            aircraft=pl.col("tailnum") + local.dt.strftime(" on %m-%d"),
            airport=to + local.dt.strftime(" on %m-%d at %H"),
        ),
    }
    for name, table in tables.items():
        write_table(table, target / f"{name}.parquet")
    airports = sorted(flights["dest"].unique().to_list())  # of the timetable, which is public
    (target / "destinations.txt").write_text("".join(f"{name}\n" for name in airports))


def _links(flown: pl.DataFrame) -> pl.DataFrame:
    """Pairs of airports, each when one aircraft first flew to both within some hours."""
    before, when = (
        pl.col(name).shift(1).over("tailnum", order_by=["time_hour", "sched_dep_time"])
        for name in ("dest", "time_hour")
    )
    soon = (pl.col("time_hour") - pl.col("when")).dt.total_hours() <= _HOURS
    pairs = flown.with_columns(before=before, when=when).filter(
        soon, pl.col("before") != pl.col("dest")
    )
    ends = {
        "one": pl.min_horizontal("before", "dest"),
        "other": pl.max_horizontal("before", "dest"),
    }
    return pairs.select("time_hour", **ends).unique(
        ["one", "other"], keep="first", maintain_order=True
    )
