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
from counton.privacy import Guarantee
from counton.run import Release, export
from counton.statistics import Contingency, Quantiles
from counton.strategies import Binary
from counton.tables import Tree

pytestmark = pytest.mark.slow

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


def a_counter(guarantee: Guarantee | None = None) -> Counter:
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


@pytest.fixture(scope="module", params=RESULTS)
def made(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> tuple[str, Any]:
    """Return the name of a result, and the result."""
    make, _ = RESULTS[request.param]
    return request.param, make(tmp_path_factory.mktemp("result"))


def test_result_has_a_table_that_json_can_hold(made: tuple[str, Any]) -> None:
    _, result = made
    table = result.table()
    assert isinstance(table, pl.DataFrame)
    assert table.height
    json.loads(table.write_json())


def test_result_describes_itself_in_words(made: tuple[str, Any]) -> None:
    name, result = made
    words = result.describe()
    has_other_str = name in ("release", "releases", "window", "exported")
    assert words == str(result) or isinstance(result, Release) or has_other_str
    assert "object at 0x" not in words + repr(result)


def test_repr_of_result_is_short_and_has_no_rows(made: tuple[str, Any]) -> None:
    name, result = made
    shows_numbers = name in ("release", "releases", "window", "plan")
    assert shows_numbers or len(repr(result)) < 1500
    assert shows_numbers or "shape:" not in repr(result)


def test_notebook_shows_a_table_of_the_result(made: tuple[str, Any]) -> None:
    name, result = made
    page = result._repr_html_()
    assert "<table" in page
    assert "e+0" not in page.split("<img")[0]
    if name in ("counts", "averages"):  # others than counts and sums have a table alone
        assert ("image/png" in page) == (name == "counts")


def test_result_has_its_further_methods(made: tuple[str, Any]) -> None:
    name, result = made
    _, more = RESULTS[name]
    for method in more:
        assert hasattr(result, method), method
    if "methods" in more:
        has_full_text = "full" in inspect.signature(result.methods).parameters
        account = result.methods(full=True) if has_full_text else result.methods()
        assert "The privacy unit is one" in account
    if "figures" in more and result.numbers.is_drawable:
        for figure in result.figures().values():
            assert figure.axes


def test_counts_show_times_of_the_stream_and_groups(tmp_path: Path) -> None:
    counts = counted(tmp_path)
    page = counts._repr_html_()
    assert counts.table()["window_end"][0].tzinfo.key == "America/New_York"
    assert "America/New_York" in page
    assert "north" in page
