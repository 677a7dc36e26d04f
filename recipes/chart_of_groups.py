"""Draw the numbers of a released file with matplotlib, whatever the statistic: a bar with its
interval for each row of the last step.

    python recipes/chart_of_groups.py delays.csv delays.png

Copy the program to draw numbers over time, a map, or another form.
"""

from __future__ import annotations

import argparse

import matplotlib as mpl
import numpy as np
import polars as pl

import counton

mpl.use("Agg")
from matplotlib.figure import Figure

#: Columns that are no name of a row.
_NO_NAMES = ("window_start", "window_end", "counted_until", "as_of", "series", "is_final", "note")
MOST = 40


def chart(release: counton.Release) -> Figure:
    """Draw the rows of the last step, at most the 40 largest."""
    table = release.table()
    if "window_index" in table.columns:
        table = table.filter(pl.col("window_index") == table["window_index"].max())
        table = table.filter(series=table["series"][0])
    words = [
        name
        for name, kind in table.schema.items()
        if name not in _NO_NAMES and not kind.is_numeric()
    ]
    rows = table.sort("estimate", descending=True, nulls_last=True).head(MOST)
    names = [
        " ".join(str(one) for one in row if one is not None) for row in rows.select(words).rows()
    ]
    places = np.arange(rows.height)
    figure = Figure(figsize=(7.5, 1 + 0.25 * rows.height), layout="constrained")
    axes = figure.subplots()
    axes.barh(places, rows["estimate"].to_numpy(), color="#0072B2", alpha=0.6)
    axes.hlines(places, rows["lower"].to_numpy(), rows["upper"].to_numpy(), color="#222222")
    axes.set_yticks(places, names or None)
    axes.invert_yaxis()
    axes.set_title(release.describe().splitlines()[0], loc="left", size=9)
    figure.supxlabel(
        f"{release.numbers.level:.0%} intervals; {release.numbers.design.guarantee}", size=8
    )
    return figure


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("file", help="released table")
    parser.add_argument("picture", help="file to write: .png, .svg or .pdf")
    given = parser.parse_args()
    chart(counton.read(given.file)).savefig(given.picture)
