"""The recipe ``recipes/whole_numbers.py``: whole numbers near the released ones that add up."""

import itertools
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from forked_commands import forked_python

import counton
from recipes.whole_numbers import divided, whole_table

RECIPE = Path(__file__).parents[2] / "recipes" / "whole_numbers.py"
LEAVES = {"state": ["CA", "CA", "NY", "DC"], "county": ["Kings", "Napa", "Kings", None]}


def made_whole(file: Path, *more: str) -> pl.DataFrame:
    out = file.with_suffix(".csv")
    words = [forked_python(), str(RECIPE), str(file), str(out), *more]
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
    asked: dict[str, Any] = {"levels": "state,county", "count_column": "people", "groups": LEAVES}
    released = counton.release(
        "hierarchy",
        rows,
        rho=0.05,
        state=tmp_path / "s.db",
        privacy_unit="person",
        output=file,
        **asked,
    ).table()
    table = made_whole(file, *more)
    total, states = (table.filter(tree_level=name) for name in ("total", "state"))
    assert table["estimate"].dtype == pl.Int64
    assert states["estimate"].sum() == total["estimate"].item()
    for state in ("CA", "NY"):
        inside = table.filter(tree_level="county", state=state)
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
    asked: dict[str, Any] = {"groups": {"sex": ["f", "m"], "smokes": ["no", "yes"]}}
    counton.release(
        "contingency", rows, columns="sex,smokes", rho=0.5, state=tmp_path / "s.db", output=file,
        privacy_unit="event", **asked,
    )  # fmt: skip
    table = made_whole(file, "--nonnegative")
    numbers = table["estimate"].to_list()
    assert numbers[0] == numbers[1] + numbers[2] == numbers[3] + numbers[4] == sum(numbers[5:])
    assert numbers[1] == sum_below(table.filter(pl.col("smokes").is_not_null()), sex="f")
    assert min(numbers) >= 0


def of_numbers(labels: dict[str, list[Any]], estimates: list[float], off: float) -> pl.DataFrame:
    near = np.array(estimates)
    bounds = {"noise_std": [off] * len(near), "lower": near - off, "upper": near + off}
    return pl.DataFrame({**labels, "estimate": estimates, **bounds})


@pytest.mark.parametrize("name", ["start", "step", "level", "window_start"])
def test_labels_may_have_any_name(name: str) -> None:
    labels = {
        name: [None, "a", "b", None, None, *"aabb"],
        "sex": 3 * [None] + [*"fm"] + 2 * [*"fm"],
    }
    table = whole_table(of_numbers(labels, [10.2, 3.1, 7.1, 5.1, 5.1, 1, 2.1, 4.1, 3], 2), True)
    assert table["estimate"].to_list() == [10, 3, 7, 5, 5, 1, 2, 4, 3]


@pytest.mark.parametrize("nonnegative", [True, False])
def test_the_interval_holds_the_whole_number(nonnegative: bool) -> None:
    rng = np.random.default_rng(5)
    for _ in range(40):
        near = (0.5 + rng.uniform(-0.7, 0.7, 5)).tolist()
        labels = {"state": [None, *"abcde"]}
        found = whole_table(of_numbers(labels, [sum(near), *near], 0.3), nonnegative)
        assert (found["lower"] <= found["estimate"]).all()
        assert (found["estimate"] <= found["upper"]).all()


def test_twice_the_leaves_take_about_twice_the_time() -> None:
    leaves = 20_000  # where each was held against all others, this took a quarter of an hour
    labels = {"state": [None, *map(str, range(leaves))]}
    found = whole_table(of_numbers(labels, [leaves * 1.0] + leaves * [1.0], 2), True)
    assert found["estimate"].to_list() == [leaves] + leaves * [1]


def test_a_total_below_0_is_refused(tmp_path: Path) -> None:
    words = ["no.parquet", str(tmp_path / "out.csv"), "--nonnegative", "--total", "-3"]
    done = subprocess.run([forked_python(), str(RECIPE), *words], capture_output=True, text=True)
    assert done.returncode == 2
    assert "--total is -3: with --nonnegative, give a total of at least 0" in done.stderr


@pytest.mark.parametrize("nonnegative", [True, False])
def test_no_other_whole_numbers_of_this_sum_are_nearer(nonnegative: bool) -> None:
    rng = np.random.default_rng(3)
    for _ in range(60):
        wanted = (rng.normal(1, 3, 3)).tolist()
        total = int(rng.integers(0, 8))
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
