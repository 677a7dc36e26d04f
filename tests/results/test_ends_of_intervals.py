"""Ends of intervals are written as exactly as the estimates."""

from pathlib import Path

import polars as pl

from counton import read, release


def test_ends_are_multiples_of_resolution_in_each_format(tmp_path: Path) -> None:
    rows = pl.DataFrame(
        {
            "day": [f"2024-03-{day:02}" for day in range(1, 29)],
            "paid": [day * 3173.37 for day in range(1, 29)],
        }
    )
    result = release(
        "sum", rows, time="day", every="1d", start="2024-03-01", windows=28, until="2024-03-29",
        value="paid", lower=0, upper=100_000, resolution="0.01", series="per-window", epsilon=1,
        privacy_unit="row", state=tmp_path / "s.db", output=tmp_path / "paid.csv",
    )  # fmt: skip
    table = result.table()
    for name in ("estimate", "lower", "upper"):
        numbers = table[name].to_list()
        assert [number for number in numbers if number != float(f"{number:.2f}")] == []
    of_file = read(tmp_path / "paid.csv").table()
    for name in ("estimate", "lower", "upper"):
        assert of_file[name].to_list() == table[name].to_list()
