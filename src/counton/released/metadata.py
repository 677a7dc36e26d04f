"""Metadata for catalogues of open data, which describe a CSV file: CSV on the Web, DCAT-AP,
SDMX-CSV.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import datetime
from typing import Any

import polars as pl

from counton.base.errors import InvalidInput, field
from counton.base.exact import decimals, with_capital
from counton.released.release_facts import USUAL, CsvStyle, facts_of
from counton.released.released_numbers import ReleasedNumbers

#: The kinds of metadata, and the name of each metadata file for a CSV file called ``name``.
ENDINGS = {"csvw": "{name}-metadata.json", "dcat": "{name}.dcat.jsonld", "sdmx": "{stem}.sdmx.csv"}
#: Descriptions of the columns that releases of counts and sums may have.
_WORDS = {
    "step": "number of the window, from 1",
    "window_start": "beginning of the window",
    "window_end": "end of the window",
    "estimate": "released number: the exact one with noise",
    "std": "standard deviation of the noise",
    "lower": "lower end of the interval",
    "upper": "upper end of the interval",
    "window_estimate": "released number of the window alone",
    "window_std": "standard deviation of the noise of the window's number",
    "window_lower": "lower end of the interval of the window's number",
    "window_upper": "upper end of the interval of the window's number",
}
#: Prefixes of the numbers of a row, and their names in the code list of measures.
_MEASURES = {"": "TOTAL", "window_": "WINDOW"}


def metadata_of(
    released: ReleasedNumbers,
    name: str,
    kind: str,
    style: CsvStyle = USUAL,
    title: str | None = None,
) -> dict[str, Any] | pl.DataFrame:
    """Return the metadata that a data catalogue needs about a released table in a CSV file.

    Args:
        released: the release.
        name: the name of the CSV file, which is in the same folder as the metadata.
        kind: "csvw" (https://www.w3.org/TR/tabular-metadata/), "dcat" (DCAT-AP 3, JSON-LD), or
            "sdmx", which is the table itself with the columns of SDMX-CSV 2.0.
        style: the format of the CSV file.
        title: title of the data for readers of a catalogue; None: the name of the stream. SDMX has
            none.

    Raises:
        InvalidInput: another kind of metadata; or "sdmx" for a release without counts or sums.

    >>> from counton import PureDP, release
    >>> rows = pl.DataFrame({"time": ["2024-03-01T09:00", "2024-03-02T10:15"]})
    >>> visits = release("count", rows, time="time", every="1d", start="2024-03-01", steps=9,
    ...                  until="2024-03-03", state="visits.db", guarantee=PureDP(1), yes=True)
    >>> metadata_of(visits.numbers, "visits.csv", "csvw")["tableSchema"]["primaryKey"]
    ['step', 'group']
    >>> metadata_of(visits.numbers, "visits.csv", "sdmx")["TIME_PERIOD"].to_list()
    ['2024-03-01', '2024-03-02']
    """
    if kind not in ENDINGS:
        raise InvalidInput(f"{field('metadata')} is {kind!r}; use one of {', '.join(ENDINGS)}")
    if kind == "csvw":
        return _csv_on_the_web(released, name, style, title or released.design.name)
    if kind == "dcat":
        return _dataset(released, name, title or released.design.name)
    return _sdmx_rows(released)


def _text(facts: Mapping[str, Any]) -> str:
    """Return sentences that describe the released numbers, for a catalogue."""
    said = [f"Protected: {facts['protected']}.", f"Guarantee: {facts['guarantee']}."]
    notes = [*facts.get("notes", ()), *facts.get("besides_noise", ())]
    said += [f"{with_capital(note)}." for note in notes]
    return " ".join(said)


def _csv_on_the_web(
    released: ReleasedNumbers, name: str, style: CsvStyle, title: str
) -> dict[str, Any]:
    facts, table = facts_of(released), released.table()
    level = f"; probability {facts['level']:g}"
    columns = [
        {
            "name": column,
            "titles": column,
            "datatype": _datatype(dtype, style.decimal),
            "dc:description": _WORDS.get(column, f"{column} of the row")
            + (level if column.endswith(("lower", "upper")) else ""),
        }
        for column, dtype in table.schema.items()
    ]
    numbers = [column for column in table.columns if column in _WORDS and column != "step"]
    labels = [column for column in table.columns if column not in numbers]
    keys = [column for column in labels if table.schema[column] in (pl.String, pl.Int64)]
    return {
        "@context": ["http://www.w3.org/ns/csvw", {"@language": "en"}],
        "url": name,
        "dc:title": title,
        "dc:description": _text(facts),
        "dialect": {"encoding": "utf-8", "header": True, "delimiter": style.separator},
        "tableSchema": {"columns": columns, "primaryKey": keys},
    }


def _datatype(dtype: pl.DataType, decimal: str) -> str | dict[str, Any]:
    if dtype.is_integer():
        return "integer"
    if dtype.is_float():
        return (
            "double" if decimal == "." else {"base": "double", "format": {"decimalChar": decimal}}
        )
    if isinstance(dtype, pl.Datetime):
        return "dateTimeStamp" if dtype.time_zone is not None else "dateTime"
    if dtype == pl.Boolean:
        return "boolean"
    return "date" if dtype == pl.Date else "string"


def _dataset(released: ReleasedNumbers, name: str, title: str) -> dict[str, Any]:
    facts, table = facts_of(released), released.table()
    found: dict[str, Any] = {
        "@context": {
            "dcat": "http://www.w3.org/ns/dcat#",
            "dct": "http://purl.org/dc/terms/",
            "xsd": "http://www.w3.org/2001/XMLSchema#",
        },
        "@type": "dcat:Dataset",
        "dct:title": {"@value": title, "@language": "en"},
        "dct:description": {"@value": _text(facts), "@language": "en"},
        "dcat:distribution": {
            "@type": "dcat:Distribution",
            "dct:title": {"@value": name, "@language": "en"},
            "dcat:accessURL": {"@id": name},
            "dcat:downloadURL": {"@id": name},
            "dcat:mediaType": {
                "@id": "https://www.iana.org/assignments/media-types/text/csv",
            },
        },
    }
    if "window_start" in table.columns and table.height:
        starts, ends = table["window_start"], table["window_end"]
        found["dct:temporal"] = {
            "@type": "dct:PeriodOfTime",
            **{
                f"dcat:{which}": {"@type": "xsd:dateTime", "@value": at.isoformat()}
                for which, at in (("startDate", starts.min()), ("endDate", ends.max()))
                if isinstance(at, datetime)
            },
        }
        found["dcat:temporalResolution"] = {
            "@type": "xsd:duration",
            "@value": _duration(starts[0], ends[0]),
        }
    return found


def _duration(start: datetime, end: datetime) -> str:
    """Format a length of time by ISO 8601; complete calendar months are given as months."""
    months = 12 * (end.year - start.year) + end.month - start.month
    same = start.replace(year=end.year, month=end.month, day=1) == end.replace(day=1)
    if months and start.day == end.day == 1 and same:
        return f"P{months}M"
    clock = (end.replace(tzinfo=None) - start.replace(tzinfo=None)).total_seconds()
    return f"P{clock / 86400:g}D" if clock % 86400 == 0 else f"PT{clock:g}S"


def _period(start: datetime, end: datetime) -> str:
    """Format a period of time for SDMX: a day, a month, or a start with a length."""
    length = _duration(start, end)
    plain = start.replace(tzinfo=None)
    if plain.time().isoformat() == "00:00:00":
        if length == "P1M":
            return f"{plain:%Y-%m}"
        if length == "P1D":
            return f"{plain:%Y-%m-%d}"
    return f"{plain.isoformat(timespec='seconds')}/{length}"


def _code(name: str) -> str:
    found = re.sub(r"[^A-Z0-9_]", "_", name.upper())
    return found if found[:1].isalpha() else f"C_{found}"


def _sdmx_rows(released: ReleasedNumbers) -> pl.DataFrame:
    table, facts = released.table(), facts_of(released)
    there = {prefix: _MEASURES[prefix] for prefix in _MEASURES if f"{prefix}estimate" in table}
    if not there or "window_start" not in table.columns:
        raise InvalidInput(
            f"{field('metadata', 'sdmx')} is only for counts and sums over time, and "
            f"{released.design.name!r} is another statistic; leave it out, or give csvw or dcat"
        )
    labels = [name for name in table.columns if name not in _WORDS]
    periods = [_period(*row) for row in table.select("window_start", "window_end").rows()]
    parts, comment = [], " ".join(f"{note}." for note in released.notes)
    for prefix, measure in there.items():
        whole = table.schema[f"{prefix}estimate"].is_integer()
        # As the noise justifies. A code list of SDMX, CL_DECIMALS, has the numbers 0 to 15.
        stds = table[f"{prefix}std"]
        digits = [0 if whole else decimals(std) if std > 0 else 12 for std in stds]
        parts.append(
            table.select(
                pl.lit("dataflow").alias("STRUCTURE"),
                pl.lit(f"COUNTON:{_code(released.design.name)}(1.0)").alias("STRUCTURE_ID"),
                pl.lit("I").alias("ACTION"),
                pl.Series("TIME_PERIOD", periods),
                *(pl.col(name).alias(_code(name)) for name in labels),
                pl.lit(measure).alias("MEASURE"),
                pl.col(f"{prefix}estimate").alias("OBS_VALUE"),
                pl.col(f"{prefix}lower").alias("LOWER"),
                pl.col(f"{prefix}upper").alias("UPPER"),
                pl.col(f"{prefix}std").alias("STD"),
                pl.lit(facts["level"]).alias("LEVEL"),
                pl.lit(facts["unit"]).alias("UNIT_MEASURE"),
                pl.lit("E").alias("OBS_STATUS"),  # estimated
                pl.Series("DECIMALS", digits, dtype=pl.Int64),
                *([pl.lit(comment).alias("COMMENT_TS")] if comment else []),
            )
        )
    return pl.concat(parts)
