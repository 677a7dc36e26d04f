"""The recipe ``recipes/graph_cuts.py`` finds cuts of released graphs."""

import itertools
import math
import runpy
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from programs import run_program

from counton import ZCDP, Key, RunningStatistic
from counton.base.errors import InvalidInputError
from counton.statistics import Cuts

pytest.importorskip("networkx", reason="networkx is not installed: make setup")

RECIPE = Path(__file__).parents[2] / "recipes" / "graph_cuts.py"
NAMES = runpy.run_path(str(RECIPE), run_name="recipe")
NODES = ("ann", "bob", "cy", "dee", "eve", "fay", "gus")
#: Two groups that call each other rarely, and a node that hardly calls at all.
GROUPS = ({"ann", "bob", "cy"}, {"dee", "eve", "fay"}, {"gus"})


def weight_of(node: str, other: str) -> int:
    if any({node, other} <= group for group in GROUPS):
        return 90
    return 2 if "gus" in (node, other) else 10


def exact() -> pl.DataFrame:
    rows = [(*pair, float(weight_of(*pair)), 0.0) for pair in itertools.combinations(NODES, 2)]
    return pl.DataFrame(rows, ["node", "other", "estimate", "noise_std"], orient="row")


def every_cut() -> list[frozenset[str]]:
    """One side of each cut: the side without the first node."""
    rest = NODES[1:]
    sizes = range(1, len(NODES))
    return [frozenset(side) for size in sizes for side in itertools.combinations(rest, size)]


def weight(side: frozenset[str]) -> int:
    return sum(weight_of(a, b) for a, b in itertools.product(side, set(NODES) - side))


def density(side: frozenset[str]) -> float:
    return weight(side) / (len(side) * (len(NODES) - len(side)))


BEST: dict[str, Callable[[], frozenset[str]]] = {
    "minimum": lambda: min(every_cut(), key=weight),
    "maximum": lambda: max(every_cut(), key=weight),
    "sparsest": lambda: min(every_cut(), key=density),
}


def shorter(side: frozenset[str]) -> str:
    both: list[list[str]] = [sorted(side), sorted(set(NODES) - side)]
    smaller = min(both, key=lambda nodes: (len(nodes), nodes))
    return ",".join(smaller)


@pytest.mark.parametrize("kind", [*BEST])
def test_cut_without_noise_is_best_cut(kind: str) -> None:
    graph = NAMES["graph_of"](exact())
    best = BEST[kind]()
    found = NAMES["cut_numbers"](graph, NAMES["CUTS"][kind](graph))
    assert found["weight"] == weight(best)
    assert found["density"] == pytest.approx(density(best))
    if kind != "maximum":  # which several cuts attain
        assert found["nodes"] == shorter(best)


def test_negative_weights_do_not_stop_any_cut() -> None:
    noisy = exact().with_columns(pl.col("estimate") - 20)
    graph = NAMES["graph_of"](noisy)
    for find in NAMES["CUTS"].values():
        found = NAMES["cut_numbers"](graph, find(graph))
        side = frozenset(found["nodes"].split(","))
        pairs = len(side) * (len(NODES) - len(side))
        assert found["weight"] == weight(side) - 20 * pairs


def released_table() -> tuple[Any, pl.DataFrame]:
    """A result of `Cuts`, and the table that a publisher writes from it."""
    calls = [pair for pair in itertools.combinations(NODES, 2) for _ in range(weight_of(*pair))]
    counter = RunningStatistic.start(
        Cuts([*NODES]), 1, ZCDP(10), key=Key.generate(), name="calls", batched=True
    )
    result = counter.release_batch(calls)
    rows = [
        (node, other, result[node, other], result.std())
        for node, other in itertools.combinations(NODES, 2)
    ]
    return result, pl.DataFrame(rows, ["node", "other", "estimate", "noise_std"], orient="row")


def test_numbers_of_a_cut_are_those_of_the_result() -> None:
    result, table = released_table()
    graph = NAMES["graph_of"](table)
    found = NAMES["cut_numbers"](graph, {"ann", "gus"})
    cut = result.cut(["ann", "gus"])
    assert found["weight"] == pytest.approx(cut.value)
    assert found["noise_std"] == pytest.approx(cut.std) == math.sqrt(10) * result.std()
    assert found["nodes"] == "ann,gus"


def test_program_prints_the_cut_of_a_file(tmp_path: Path) -> None:
    exact().write_csv(tmp_path / "weights.csv")
    done = run_program([sys.executable, str(RECIPE), "weights.csv", "sparsest"], cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert done.stdout == "nodes     gus\nweight    12.0\nnoise_std 0.0\ndensity   2.0\n"


@pytest.mark.parametrize(
    ("table", "words"),
    [
        (exact().drop("noise_std"), "no column 'noise_std'"),
        (exact().head(-1), "20 rows for 7 nodes: give each of their 21 pairs once"),
        (pl.concat([exact(), exact().head(1)]), "22 rows for 7 nodes"),
        (exact().head(0), "0 rows for 0 nodes"),
    ],
)
def test_incomplete_table_is_refused(table: pl.DataFrame, words: str) -> None:
    with pytest.raises(InvalidInputError, match=words):
        NAMES["graph_of"](table)
