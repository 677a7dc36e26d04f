"""Tables that are released once, from counts: streams of one step under a key."""

from os import PathLike
from typing import Any

import numpy as np
import polars as pl

import counton
from counton import Key, RunningStatistic
from counton.continual.node_distribution import distribution_for
from counton.privacy import Guarantee
from counton.run import Job, run
from counton.state.keys import KeySource
from counton.statistics import Contingency, Hierarchy, Ranges, Statistic
from counton.strategies import Binary
from counton.tables import Grid, Tree


def released(
    statistic: Statistic, events: Any, guarantee: Guarantee, key: Key, name: str = "table"
) -> Any:
    """The reading of a stream of one step."""
    counter = RunningStatistic.start(statistic, 1, guarantee, key=key, name=name, batched=True)
    return counter.release_batch(events)


def line(
    counts: Any,
    guarantee: Guarantee,
    key: Key,
    *,
    strategy: Any = "auto",
    workload: str = "ranges",
    name: str = "table",
    **more: Any,
) -> Any:
    """A line of counts; its strategy by name, or itself."""
    given: dict[str, Any] = {"workload": workload, "counts": True, **more}
    if isinstance(strategy, str):
        given["line"] = None if strategy == "auto" else strategy
    else:
        given["grid"] = Grid((strategy,))
    values = np.asarray(counts).tolist()
    return released(Ranges(len(values), **given), [*enumerate(values)], guarantee, key, name)


def grid(counts: Any, guarantee: Guarantee, key: Key, *, strategy: Any, name: str = "table") -> Any:
    """A grid of counts, with a strategy, or its name, for every axis."""
    values = np.asarray(counts)
    named = strategy if isinstance(strategy, tuple) else (strategy,) * values.ndim
    best = counton.plan_cells(values.shape, guarantee=guarantee, line=named).best
    columns = {f"c{axis}": [*map(str, range(size))] for axis, size in enumerate(values.shape)}
    statistic = Contingency(columns, counts=True, grid=best.strategy)
    events = [(tuple(map(str, place)), int(values[place])) for place in np.ndindex(*values.shape)]
    return released(statistic, events, guarantee, key, name)


def in_texts(tree: Tree) -> Tree:
    """The same tree, its nodes named by texts."""
    labels = [np.array([str(label) for label in part], dtype=object) for part in tree.labels]
    return Tree(tree.levels[1:], tree.parents, labels)


def hierarchy(
    counts: Any,
    tree: Tree,
    guarantee: Guarantee,
    key: Key,
    *,
    targets: Any = None,
    name: str = "table",
    **more: Any,
) -> Any:
    """A hierarchy of counts, in the order of ``Tree.leaves``."""
    statistic = Hierarchy(in_texts(tree), targets=targets, counts=True, **more)
    named = statistic.tree
    paths = [
        named.path(level, node)
        for level, nodes in enumerate(named.leaves)
        for node in nodes.tolist()
    ]
    events = [*zip(paths, np.asarray(counts).tolist(), strict=True)]
    return released(statistic, events, guarantee, key, name)


class Planned:
    """A hierarchy as it would be released: what is measured, and the law of its noise."""

    def __init__(
        self, tree: Tree, guarantee: Guarantee | None = None, targets: Any = None, **more: Any
    ) -> None:
        statistic = Hierarchy(in_texts(tree), targets=targets, **more)
        promised: Any = guarantee
        if guarantee is None:
            found = statistic.as_wanted()
            assert found is not None
            statistic, promised = found
        self.guarantee = promised
        self.statistic = statistic.resolve_parameters(promised, 1)
        self.measurement = self.statistic.measuring.strategy
        unit = self.statistic.contribution()
        self.distribution = distribution_for(
            Binary(1), promised, unit, self.statistic.cells
        ).distribution
        self.joint_distribution = self.measurement.joint_distribution(self.distribution.variance)

    def std(self, level: str) -> float:
        """Largest standard deviation of a level."""
        depth = self.statistic.tree.level(level)
        return float(np.sqrt(self.joint_distribution.variances[depth].max()))


def kept(
    job: str,
    events: dict[str, Any],
    state: str | PathLike[str] | None,
    name: str,
    key: KeySource = None,
    **more: Any,
) -> list[float]:
    """A table that a job releases once into a state: its estimates."""
    asked: dict[str, Any] = more if {"rho", "epsilon"} & {*more} else {"epsilon": 1, **more}
    with run(Job(job, pl.DataFrame(events), state, stream=name, key=key, **asked)) as outcome:
        found: list[float] = outcome.read().table()["estimate"].to_list()
        return found


def kept_line(
    counts: Any,
    state: str | PathLike[str] | None,
    name: str = "line",
    key: KeySource = None,
    **more: Any,
) -> Any:
    """A line of counts, whose rows are its cells."""
    cells = [str(number) for number in range(len(counts))]
    asked: dict[str, Any] = {
        "count_column": "n",
        "label": "cell",
        "groups": ",".join(cells),
        **more,
    }
    return kept("ranges", {"n": list(counts), "cell": cells}, state, name, key, **asked)


def kept_tree(
    state: str | PathLike[str] | None, name: str = "tree", key: KeySource = None, **more: Any
) -> list[float]:
    """A tree of three leaves, in two levels."""
    places = {"state": ["CA", "CA", "DC"], "county": ["Kings", "Napa", None]}
    events = {**places, "count": [7, 2, 5]}
    given: dict[str, Any] = {"levels": "state,county", "groups": places, "count_column": "count"}
    return kept("hierarchy", events, state, name, key, **given, **more)


def kept_margins(
    state: str | PathLike[str] | None, name: str = "margins", key: KeySource = None, **more: Any
) -> list[float]:
    """A contingency table of two columns."""
    events = {"sex": ["f", "m", "f"], "smokes": ["no", "no", "yes"]}
    given: dict[str, Any] = {"columns": "sex,smokes", "groups": "sex=f,m;smokes=no,yes"}
    return kept("contingency", events, state, name, key, **given, **more)
