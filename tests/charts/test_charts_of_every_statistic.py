"""Charts that a newspaper could print: every statistic, on a page and on a telephone."""

from __future__ import annotations

import logging
import warnings
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from in_turn import in_turn
from matplotlib.text import Text
from once import line as line_of
from once import released

from counton import statistics
from counton.charts import Caption
from counton.charts.statistic_charts import plot_statistic
from counton.charts.table_charts import plot_contingency, plot_hierarchy, plot_ranges
from counton.released.read_options import View
from counton.run import Job, run
from counton.statistics import Hierarchy

pytestmark = pytest.mark.slow  # it draws

ROWS = pl.DataFrame(
    {
        "at": [f"2024-03-01T0{n % 4}:{10 + n // 4}" for n in range(80)],
        "shop": [f"s{n % 7}" for n in range(80)],
        "sex": ["fm"[n % 2] for n in range(80)],
        "age": [str(n % 40) for n in range(80)],
        "user": [f"u{n % 19}" for n in range(80)],
        "paid": [n % 9 + 1 for n in range(80)],
        "sold": [n % 5 for n in range(80)],
        "letter": ["abc"[n % 3] for n in range(80)],
        "u": [f"u{n % 13}" for n in range(80)],
        "v": [f"v{n % 11}" for n in range(80)],
    }
)
EDGES: dict[str, Any] = {"edge": "u,v"}
VALUES: dict[str, Any] = {"value": "paid", "lower": 0, "upper": 9}
SHOPS = [f"s{n}" for n in range(7)]
BY: dict[str, Any] = {"by": "shop", "domain": SHOPS}
AGES = [str(n) for n in range(40)]
KINDS: dict[str, dict[str, Any]] = {
    "count": BY | {"release": "both"},
    "sum": VALUES | {"resolution": 1} | BY,
    "average": VALUES | {"resolution": 1} | BY,
    "quantiles": {"value": "paid", "edges": "0,4,9", "line": "identity"},
    "top-k": BY | {"top": 3},
    "distinct": {"user": "user"},
    "reach": {"user": "user", "at_least": "1,3", "by": "sex", "domain": ["f", "m"], "most": 2},
    "moments": {"columns": "paid,sold", "bounds": "0:9,0:5", "by": "sex", "domain": ["f", "m"]},
    "substrings": {"letter": "letter", "alphabet": "abc", "longest": 2},
    "episodes": {"letter": "letter", "alphabet": "abc", "longest": 2, "ask": "ab,bc"},
    "edges": EDGES,
    "triangles": EDGES | {"degree": 13},
    "stars": EDGES | {"degree": 13, "leaves": 2},
    "degrees": EDGES | {"degree": 13},
    "cuts": {"edge": "shop,sex", "domain": [*SHOPS, "f", "m"], "cut": "s1"},
    "forest": EDGES | {"weight": "paid", "largest": 9},
    "ranges": {"label": "age", "domain": AGES, "strategy": None},
    "hierarchy": {
        "levels": ["shop", "sex"],
        "domain": {"shop": [s for s in SHOPS for _ in "fm"], "sex": ["f", "m"] * 7},
        "strategy": None,
    },
    "contingency": {
        "columns": ["shop", "sex"],
        "domain": {"shop": SHOPS, "sex": ["f", "m"]},
        "strategy": None,
    },
}


def job(kind: str, folder: Path, **more: Any) -> Job:
    asked: dict[str, Any] = {
        "time": "at", "every": "1h", "start": "2024-03-01", "steps": 4, "epsilon": 9,
        "until": "2024-03-01T04:00", "strategy": "binary", "name": "it",
    }  # fmt: skip
    events = folder / "e.csv"
    ROWS.write_csv(events)
    return Job(kind, events, folder / "s.db", **{**asked, **KINDS[kind], **more})


def said(figure: Any) -> str:
    figure.draw_without_rendering()  # ticks get their names
    texts = (text.get_text() for text in figure.findobj(Text) if text.get_visible())
    return " | ".join(" ".join(text.split()) for text in texts if text.strip())


def unseen(figure: Any) -> list[Text]:
    """Names of ticks beyond the ends of their axis, which are not drawn."""
    found = []
    for axis in (axis for axes in figure.axes for axis in (axes.xaxis, axes.yaxis)):
        low, high = sorted(axis.get_view_interval())
        for one in axis.get_major_ticks():
            if not low <= one.get_loc() <= high:
                found += [one.label1, one.label2]
    return found


def drawn(kind: str, folder: Path, shown: View | None = None, **look: Any) -> dict[str, Any]:
    with run(job(kind, folder)) as outcome:
        return outcome.read(shown=shown).figures(**look)


@pytest.mark.parametrize("kind", KINDS)
def test_no_words_are_cut_and_nothing_is_remarked(
    kind: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """On a telephone, and of each third statistic on a screen too."""
    widths = (3.9, 7.5) if kind in in_turn(KINDS, 3) else (3.9,)
    with (
        warnings.catch_warnings(),
        caplog.at_level(logging.WARNING, "matplotlib"),
        run(job(kind, tmp_path)) as outcome,
    ):
        warnings.simplefilter("error")
        read = outcome.read(shown=None)
        sizes = [read.figures(width=width, source="the city") for width in widths]
        for figure in (one for figures in sizes for one in figures.values()):
            words = said(figure)
            assert "Source: the city" in words
            assert "e+" not in words
            assert "1e-" not in words
            whole = figure.bbox
            beyond = unseen(figure)
            for text in figure.findobj(Text):
                if not text.get_visible() or not text.get_text().strip() or text in beyond:
                    continue
                box = text.get_window_extent()
                inside = whole.x0 - 2 <= box.x0 and box.x1 <= whole.x1 + 2
                assert inside, text.get_text()
                assert whole.y0 - 2 <= box.y0 <= box.y1 <= whole.y1 + 2, text.get_text()
    assert not caplog.records


@pytest.mark.parametrize(
    ("kind", "title", "axis"),
    [
        ("top-k", "Running number of events, by shop: the 3 largest", "number of events"),
        ("hierarchy", "Running number of events, by shop", "number of events"),
        ("contingency", "Running number of events, by shop and by sex", "number of events"),
        ("ranges", "Running number of events, by age", "number of events"),
        ("substrings", "Words so far", "times that each word came"),
        ("moments", "mean of paid", "slope of sold on"),
    ],
)
def test_a_title_says_what_is_counted(kind: str, title: str, axis: str, tmp_path: Path) -> None:
    words = said(drawn(kind, tmp_path)["statistic"])
    assert title in words
    assert axis in words


@pytest.mark.parametrize("kind", ["edges", "degrees", "triangles", "cuts"])
def test_the_foot_of_a_graph_says_one_edge(kind: str, tmp_path: Path) -> None:
    words = said(drawn(kind, tmp_path)["statistic"])
    one = "sighting of an edge" if kind == "cuts" else "edge"
    assert f"Noise protects each single {one} (pure differential privacy" in words


def test_degrees_stand_in_their_order_and_all_of_them(tmp_path: Path) -> None:
    axes = drawn("degrees", tmp_path)["statistic"].axes[0]
    assert [bar.get_x() + 0.4 for bar in axes.patches] == pytest.approx(range(13))
    with run(job("degrees", tmp_path)) as outcome:
        table = outcome.read().table()
    last = table.filter(pl.col("step") == table["step"].max())
    assert [bar.get_height() for bar in axes.patches] == last["estimate"].to_list()


def test_a_long_line_of_cells_is_drawn_along_its_cells(tmp_path: Path) -> None:
    axes = drawn("ranges", tmp_path)["statistic"].axes[0]
    assert axes.get_xlabel() == "age"
    assert [label.get_text() for label in axes.get_xticklabels()][:3] == ["0", "5", "10"]
    assert len(axes.patches) == 40


def test_an_average_of_which_nothing_is_known_is_not_drawn() -> None:
    step, group = np.repeat([1, 2, 3], 2), np.tile(["a", "b"], 3)
    table = {
        "step": step,
        "group": group,
        "name": np.full(6, "mean"),
        "estimate": np.array([5.0, 9.0, 5.0, 0.0, 5.0, 4.0]),
        "lower": np.array([0.0, 4.0, 4.0, 0.0, 4.5, 0.0]),
        "upper": np.array([9.0, 6.0, 6.0, 9.0, 5.5, 9.0]),
    }
    statistic = statistics.Grouped(statistics.Average(0, 9, resolution=1), ["a", "b"])
    figure = plot_statistic(
        statistic, table, np.asarray, level=0.95, words=Caption(""), of="paid", by="shop"
    )
    first, second = (np.asarray(line.get_ydata(), float) for line in figure.axes[0].lines[:2])
    assert np.isnan(first).tolist() == [True, False, False]
    assert np.isnan(second).tolist() == [False, True, True]
    assert "not known yet" in said(figure)


def test_numbers_beside_windows_are_said_to_be_of_the_last(tmp_path: Path) -> None:
    figures = drawn("count", tmp_path)
    assert "in numbers: 03:00– 04:00 1 Mar 2024" in said(figures["windows"])
    assert "in numbers" not in said(figures["totals"])


def test_a_chart_at_midnight_is_of_the_day_before() -> None:
    from counton.charts.totals import moment_in_words

    assert moment_in_words(np.datetime64("2024-03-01T00:00")) == "the end of 29 Feb 2024"


def tables() -> dict[str, Any]:
    from counton import ZCDP, Key
    from counton.strategies.trees import Tree

    tree = Tree.from_leaves({"region": [f"region {n}" for n in range(9)]}, ["region"])
    counted = [((f"region {n}",), 10**n) for n in range(9)]
    found = released(Hierarchy(tree, counts=True), counted, ZCDP(0.5), Key.generate())
    line = line_of([9000, 31, 17, 4000] * 25, ZCDP(0.5), Key.generate())
    long = ["North Rhine-Westphalia and Lippe", "Bavaria"]
    rows = [(a, b) for a in (None, *long) for b in (None, "f", "m")]
    counts = np.array([40_000.0 + n for n in range(len(rows))])
    margins = {
        "region": np.array([a for a, _ in rows], object),
        "sex": np.array([b for _, b in rows], object),
        "estimate": counts,
        "lower": counts - 9,
        "upper": counts + 9,
    }

    def around(width: float) -> Caption:
        return Caption("Count", "protected", width=width)

    return {
        "hierarchy": lambda width: plot_hierarchy(found, around(width)),
        "ranges": lambda width: plot_ranges(line, around(width)),
        "contingency": lambda width: plot_contingency(["region", "sex"], margins, around(width)),
    }


@pytest.mark.parametrize("kind", ["hierarchy", "ranges", "contingency"])
def test_a_table_of_once_fits_a_telephone(kind: str) -> None:
    figure = tables()[kind](3.9)
    said(figure)
    for axes in figure.axes:
        boxes = [text.get_window_extent() for text in axes.get_xticklabels() if text.get_text()]
        low, high = axes.bbox.x0 - 1, axes.bbox.x1 + 1
        shown = sorted((one.x0, one.x1) for one in boxes if low <= (one.x0 + one.x1) / 2 <= high)
        for one, other in pairwise(shown):
            assert one[1] <= other[0] + 1, "names of an axis overlap"
        for text in (axes.xaxis.label, axes._left_title):
            box = text.get_window_extent()
            assert figure.bbox.x0 <= box.x0 <= box.x1 <= figure.bbox.x1 + 1, text.get_text()


def test_cells_of_a_table_keep_all_their_values() -> None:
    figure = tables()["contingency"](3.9)
    names = [label.get_text() for label in figure.axes[-1].get_yticklabels()]
    assert len(set(names)) == len(names) == 4


def test_bars_of_a_table_have_their_numbers() -> None:
    axes = tables()["contingency"](7.5).axes[0]
    assert [text.get_text() for text in axes.texts] == ["40,003 ± 9", "40,006 ± 9"]
    assert [label.get_text() for label in axes.get_yticklabels()] == [
        "North Rhine-Westphalia …", "Bavaria",
    ]  # fmt: skip
