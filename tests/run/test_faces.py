"""One face for every public result: table, words, HTML, a short repr without a row, JSON, chart."""

import inspect
import json
from collections.abc import Callable
from datetime import date, datetime, timedelta
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from once import hierarchy, line, released

import counton
from counton import ZCDP, Average, Counter, Key, PureDP, RunningStatistic, plan, release
from counton.continual import StepRelease
from counton.run import Release, export
from counton.statistics import Contingency, Quantiles
from counton.strategies import Binary
from counton.tables import Tree

ROWS = pl.DataFrame(
    {
        "time": [datetime(2024, 3, 1 + n % 3, n) for n in range(24)],
        "region": [("north", "south")[n % 2] for n in range(24)],
        "paid": [n % 7 for n in range(24)],
    }
)
NEW: dict[str, Any] = {
    "time": "time", "every": timedelta(days=1), "start": date(2024, 3, 1), "windows": 30,
    "until": date(2024, 3, 4), "guarantee": PureDP(1), "timezone": "America/New_York",
}  # fmt: skip
GROUPS: dict[str, Any] = {"group_by": "region", "groups": ["north", "south"]}


def counted(folder: Path, **more: Any) -> Release:
    return release("count", ROWS, state=folder / "s.db", **{**GROUPS, **NEW, **more})


def averaged(folder: Path, **more: Any) -> Release:
    what = Average(0, 6, resolution=1)
    return release(what, ROWS, value="paid", state=folder / "s.db", **{**GROUPS, **NEW, **more})


def a_counter(guarantee: Any = None) -> Counter:
    terms = {"key": Key.generate(), "name": "visits", "shape": (2,)}
    return Counter(Binary(7), guarantee or PureDP(1), **terms)  # type: ignore[arg-type]


def two_steps() -> StepRelease:
    releases = a_counter().release_many([[3, 4]] * 3)
    return releases[2].since(releases[0])


def exported(folder: Path) -> Release:
    counted(folder)
    return export(folder / "s.db")


TREE = Tree.from_leaves({"state": ["a", "b"]}, ["state"])

#: Results by what they are, and what they have besides table, describe, HTML and repr.
RESULTS: dict[str, tuple[Callable[[Path], Any], frozenset[str]]] = {
    "counts": (counted, frozenset({"methods", "figures"})),
    "averages": (averaged, frozenset({"methods", "figures"})),
    "difference": (lambda at: counted(at).difference("north", "south"), frozenset()),
    "share": (lambda at: counted(at).share("north"), frozenset()),
    "exported": (exported, frozenset({"methods", "figures"})),
    "release": (lambda _: a_counter().release([3, 4]), frozenset({"methods", "interval", "std"})),
    "releases": (
        lambda _: a_counter().release_many([[3, 4]] * 3),
        frozenset({"methods", "interval", "std"}),
    ),
    "window": (lambda _: two_steps(), frozenset({"methods", "interval", "std"})),
    "line": (lambda _: line([31, 7, 4], ZCDP(2), Key.generate()), frozenset({"methods", "std"})),
    "hierarchy": (
        lambda _: hierarchy([31, 4], TREE, ZCDP(2), Key.generate()),
        frozenset({"methods", "std"}),
    ),
    "contingency": (
        lambda _: released(
            Contingency({"sex": ["f", "m"]}), [("f",), ("m",)], ZCDP(2), Key.generate()
        ),
        frozenset({"methods"}),
    ),
    "plan": (lambda _: plan(64, PureDP(1)), frozenset()),
    "plan of a line": (lambda _: counton.plan_cells(8, guarantee=ZCDP(1)), frozenset()),
    "readings": (
        lambda _: RunningStatistic.start(
            Quantiles([0, 2, 4, 6]), 8, PureDP(1), key=Key.generate(), name="q", batched=True
        ).release_batches([1, 2, 3, 3, 2, 1], [3, 6]),
        frozenset(),
    ),
}


@pytest.mark.parametrize("what", RESULTS)
@pytest.mark.slow
def test_every_result_shows_itself(what: str, tmp_path: Path) -> None:
    made, more = RESULTS[what]
    found = made(tmp_path)
    table = found.table()
    assert isinstance(table, pl.DataFrame)
    assert table.height
    json.loads(table.write_json())
    words = found.describe()
    own = ("release", "releases", "window", "exported")
    assert words == str(found) or isinstance(found, Release) or what in own
    assert "object at 0x" not in words + repr(found)
    page = found._repr_html_()
    assert "<table" in page
    assert "e+0" not in page.split("<img")[0]
    if what not in ("release", "releases", "window", "plan"):
        assert len(repr(found)) < 1500
        assert "shape:" not in repr(found)
    for name in more:
        assert hasattr(found, name), name
    if "methods" in more:
        full = "full" in inspect.signature(found.methods).parameters  # else there is no other
        account = found.methods(full=True) if full else found.methods()
        assert "The privacy unit is one" in account
    if "figures" in more and found.numbers.drawable:
        for figure in found.figures().values():
            assert figure.axes
    if what in ("counts", "averages"):  # others than counts and sums have a table alone
        assert ("image/png" in page) == (what == "counts")
    if what == "counts":
        assert table["window_end"][0].tzinfo.key == "America/New_York"
        assert "America/New_York" in page
        assert "north" in page
