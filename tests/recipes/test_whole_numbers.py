"""The recipe ``recipes/whole_numbers.py``: whole numbers near the released ones that add up."""

import itertools
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

import counton
from recipes.whole_numbers import divided

RECIPE = Path(__file__).parents[2] / "recipes" / "whole_numbers.py"
LEAVES = {"state": ["CA", "CA", "NY", "DC"], "county": ["Kings", "Napa", "Kings", None]}


def made_whole(file: Path, *more: str) -> pl.DataFrame:
    out = file.with_suffix(".csv")
    words = [sys.executable, str(RECIPE), str(file), str(out), *more]
    done = subprocess.run(words, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return pl.read_csv(out)


def sum_below(table: pl.DataFrame, **labels: str | None) -> int:
    for name, label in labels.items():
        column = pl.col(name)
        table = table.filter(column.is_null() if label is None else column == label)
    return int(table["estimate"].sum())


@pytest.mark.parametrize("more", [(), ("--nonnegative",), ("--nonnegative", "--total", "900")])
def test_a_hierarchy_adds_up(more: tuple[str, ...], tmp_path: Path) -> None:
    rows = pl.DataFrame({"state": ["NY", "DC"], "county": ["Kings", None], "people": [700, 90]})
    file = tmp_path / "people.parquet"
    asked: dict[str, Any] = {"levels": "state,county", "counts": "people", "domain": LEAVES}
    released = counton.release(
        "hierarchy", rows, rho=0.05, state=tmp_path / "s.db", unit="person", out=file, **asked
    ).table()
    table = made_whole(file, *more)
    total, states = (table.filter(level=name) for name in ("total", "state"))
    assert table["estimate"].dtype == pl.Int64
    assert states["estimate"].sum() == total["estimate"].item()
    for state in ("CA", "NY"):
        inside = table.filter(level="county", state=state)
        assert inside["estimate"].sum() == sum_below(states, state=state)
    if more:
        assert (table["estimate"] >= 0).all()
        assert (table["upper"] >= 0).all()
    if "--total" in more:
        assert total["estimate"].item() == 900
    else:
        assert ((table["estimate"] - released["estimate"]).abs() < 60).all()


def test_all_margins_of_a_contingency_table_add_up(tmp_path: Path) -> None:
    rows = pl.DataFrame(
        {"sex": ["f", "m", "f", "m", "f"], "smokes": ["no", "no", "yes"] + 2 * ["no"]}
    )
    file = tmp_path / "smokers.parquet"
    asked: dict[str, Any] = {"domain": {"sex": ["f", "m"], "smokes": ["no", "yes"]}}
    counton.release(
        "contingency",
        rows,
        columns="sex,smokes",
        rho=0.5,
        state=tmp_path / "s.db",
        out=file,
        unit="event",
        **asked,
    )
    table = made_whole(file, "--nonnegative")
    numbers = table["estimate"].to_list()
    assert numbers[0] == numbers[1] + numbers[2] == numbers[3] + numbers[4] == sum(numbers[5:])
    assert numbers[1] == sum_below(table.filter(pl.col("smokes").is_not_null()), sex="f")
    assert min(numbers) >= 0


@pytest.mark.parametrize("nonnegative", [True, False])
def test_no_other_whole_numbers_of_this_sum_are_nearer(nonnegative: bool) -> None:
    rng = np.random.default_rng(3)
    for _ in range(60):
        wanted, total = (rng.normal(1, 3, 3)).tolist(), int(rng.integers(0, 8))
        found = divided(total, wanted, nonnegative)
        assert sum(found) == total
        least = 0 if nonnegative else -14
        assert min(found) >= least
        others = [
            (a, b, total - a - b)
            for a, b in itertools.product(range(least, 15), repeat=2)
            if total - a - b >= least
        ]
        far = [sum((x - y) ** 2 for x, y in zip(one, wanted, strict=True)) for one in others]
        mine = sum((x - y) ** 2 for x, y in zip(found, wanted, strict=True))
        assert mine <= min(far) * (1 + 1e-9) + 1e-6
