"""Write what catalogues of open data read beside a released CSV file: CSV on the Web and DCAT-AP.

    python recipes/metadata.py visits.csv --title "Visits by page"

It writes ``visits.csv-metadata.json`` (https://www.w3.org/TR/tabular-metadata/) and
``visits.csv.dcat.jsonld`` (DCAT-AP 3), with what is protected and how.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

import polars as pl

import counton
from counton.base.table_schema import COLUMNS

_MEANINGS = {column.name: column.meaning for column in COLUMNS}


def datatype(dtype: pl.DataType) -> str:
    """Return the name of a column's type in CSV on the Web."""
    if dtype.is_integer():
        return "integer"
    if dtype.is_float():
        return "double"
    if dtype == pl.Boolean:
        return "boolean"
    return "dateTimeStamp" if isinstance(dtype, pl.Datetime) else "string"


def csvw(release: counton.Release, name: str, title: str) -> dict[str, Any]:
    """Return the description of a CSV file and its columns."""
    columns = [
        {
            "name": column,
            "titles": column,
            "datatype": datatype(dtype),
            "dc:description": _MEANINGS.get(column, f"{column} of the row"),
        }
        for column, dtype in release.table().schema.items()
    ]
    return {
        "@context": ["http://www.w3.org/ns/csvw", {"@language": "en"}],
        "url": name,
        "dc:title": title,
        "dc:description": release.methods(),
        "tableSchema": {"columns": columns},
    }


def dcat(release: counton.Release, name: str, title: str) -> dict[str, Any]:
    """Return the entry of a catalogue for a CSV file."""
    return {
        "@context": {"dcat": "http://www.w3.org/ns/dcat#", "dct": "http://purl.org/dc/terms/"},
        "@type": "dcat:Dataset",
        "dct:title": title,
        "dct:description": release.methods(),
        "dcat:distribution": {
            "@type": "dcat:Distribution",
            "dcat:downloadURL": name,
            "dcat:mediaType": "text/csv",
        },
    }


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("file", type=Path, help="released CSV file")
    parser.add_argument("--title", default="Released numbers")
    given = parser.parse_args()
    released = counton.read(given.file)
    file = given.file
    for ending, write in (("-metadata.json", csvw), (".dcat.jsonld", dcat)):
        text = json.dumps(write(released, file.name, given.title), indent=2, ensure_ascii=False)
        Path(f"{file}{ending}").write_text(text + "\n", "utf-8")
