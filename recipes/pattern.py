"""Average the numbers of each hour of the day, or of each day of the week, of a released file.

    python recipes/pattern.py orders.parquet weekday --group north

Only hours or days that the released windows cover completely count. Each interval holds alone; it
uses the joint noise of all windows in the average. The calendar is that of the stream's time zone.
"""

from __future__ import annotations

import argparse

import polars as pl

import counton
from counton.base.errors import CountonError, InvalidInputError

LENGTHS = {"hour": "1h", "weekday": "1d"}


def pattern(release: counton.Release, by: str, group: str = "all") -> pl.DataFrame:
    """Return a row for each ``hour`` (0 to 23) or ``weekday``: how many there are, the average,
    the std of its noise and its interval.

    Raises:
        InvalidInputError: there is no such group, or the windows are longer than ``by``.
    """
    length = LENGTHS[by]
    start = pl.col("window_start")
    windows = release.only(groups=[group]).table().sort("window_index")
    occurrences = (
        windows.group_by(begin=start.dt.truncate(length), maintain_order=True)
        .agg(first=pl.col("window_index").min(), last=pl.col("window_index").max(),
             since=start.min(), until=pl.col("window_end").max())
        .filter(since=pl.col("begin"), until=pl.col("begin").dt.offset_by(length))
    )  # fmt: skip
    begin = pl.col("begin")
    named = begin.dt.hour() if by == "hour" else begin.dt.strftime("%A")
    found = []
    for (name,), some in occurrences.group_by(named, maintain_order=True):
        steps = some.select("first", "last").iter_rows()
        answers = [release.total(group, steps=range(first, last + 1)) for first, last in steps]
        numbers = [one.asked for one in answers]
        mean = sum(numbers[1:], numbers[0]) / len(numbers)
        half = mean.half(answers[0].confidence_level)
        found.append(
            (name, len(numbers), mean.value, mean.std, mean.value - half, mean.value + half)
        )
    if not found:
        raise InvalidInputError(
            f"the windows cover no {LENGTHS[by]} completely: give a file of shorter windows"
        )
    columns = [by, "times", "estimate", "noise_std", "lower", "upper"]
    return pl.DataFrame(found, columns, orient="row")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("file", help="released table")
    parser.add_argument("by", choices=[*LENGTHS])
    parser.add_argument("--group", default="all", help="the group; default: all, without groups")
    given = parser.parse_args()
    try:
        print(pattern(counton.read(given.file), given.by, given.group))
    except CountonError as error:
        parser.error(str(error))
