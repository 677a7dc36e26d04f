"""Many numbers at once: bands over all steps, groups not shown, simulations."""

import math
from typing import Any

import numpy as np
import polars as pl
import pytest
from keys import chosen_key
from some_cases import long

from counton import ZCDP, Counter, Job, PureDP, Release
from counton.continual import halfwidths
from counton.continual.simultaneous_intervals import narrowing_factor
from counton.privacy import Guarantee
from counton.results.release_data import ReleaseData
from counton.results.released_table import table_of_series
from counton.run.spec.plan_spec import plan_spec
from counton.strategies import KAry, SqrtToeplitz, StreamStrategy

STEPS = 60
GROUPS = 400
LEVEL = 0.9
BAND = 3 * math.sqrt(LEVEL * (1 - LEVEL) / GROUPS)


def zeros(release: Any, loss: dict[str, Any]) -> Release:
    """Many groups of which nothing ever happens."""
    request = Job(
        what="count", events="e.csv", state="s.db", time="time", every="1d", group_by="page",
        groups=[f"g{cell}" for cell in range(GROUPS)], start="2024-03-01", windows=STEPS,
        series=release, simple=True, **loss,
    )  # fmt: skip
    spec = plan_spec(request)
    definition = spec.metadata()
    counter = Counter(
        definition.strategy, definition.guarantee, key=chosen_key(), name="t",
        shape=spec.shape,
    )  # fmt: skip
    values = counter.release_many(np.zeros((STEPS, GROUPS), np.int64)).values
    return Release(ReleaseData.of(definition, counter.design, values, LEVEL))


def held(table: pl.DataFrame) -> float:
    """Of how many groups all rows hold 0."""
    inside = table.with_columns(inside=(pl.col("lower") <= 0) & (pl.col("upper") >= 0))
    return float(inside.group_by("group").agg(pl.col("inside").all())["inside"].mean())  # type: ignore[arg-type]


@pytest.mark.slow
@pytest.mark.parametrize("release", ["cumulative", "per-window"])
@pytest.mark.parametrize("loss", [{"epsilon": 0.05}, {"rho": 0.0005}], ids=["laplace", "gaussian"])
def test_a_band_holds_all_steps_of_a_group(release: str, loss: dict[str, Any]) -> None:
    found = zeros(release, loss)
    bands = [found.only(groups=[group]).band() for group in found.numbers.groups[:1]]
    half = (bands[0]["upper"] - bands[0]["lower"]).to_numpy() / 2
    table = table_of_series(found.numbers)
    each = half[table["window_index"].to_numpy() - 1]
    joint = table.with_columns(lower=table["estimate"] - each, upper=table["estimate"] + each)
    share = held(joint)
    assert LEVEL - BAND < share < LEVEL + 0.025 + BAND  # what a sample leaves open makes it wider
    assert held(table) < LEVEL - BAND  # wrong: one step at a time
    bonferroni = table_of_series(found.at(1 - (1 - LEVEL) / STEPS).numbers)
    assert held(bonferroni) >= share
    assert (bonferroni["upper"] - bonferroni["lower"]).max() >= 2 * half.max()


@pytest.mark.parametrize(
    ("strategy", "guarantee", "percent"),
    [long(SqrtToeplitz(365), ZCDP(0.1), 2), (KAry.best(365), PureDP(1), 11)],
)
def test_page_states_computed_narrowing_of_band(
    strategy: StreamStrategy, guarantee: Guarantee, percent: int
) -> None:
    terms = Counter(strategy, guarantee, key=chosen_key(), name="t").design
    widths = halfwidths(strategy, terms.distribution, range(1, 366), 1 - 0.05 / 365)
    found = narrowing_factor(terms, widths, 1, 0.95, windows=False)
    assert round(100 * (1 - found)) == percent
