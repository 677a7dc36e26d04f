"""Jobs of neighbouring datasets: what nights publish without a unit's rows, and with them.

`tests/run/test_neighbours.py` and `tests.attack` draw rows and options; this file runs the jobs,
and says how far one unit may move what they release.
"""

import gzip
import json
import math
import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import polars as pl
import pytest
from folders import job_folder
from run_results import design_of, releases_of

from counton import ContributionBound, CountonError
from counton.base.distributions import BoundedChange, DiscreteLaplace, Sensitivity
from counton.continual import Design
from counton.continual.sensitivity import sensitivity_of
from counton.results.metadata_codec import facts_of
from counton.run import Job, export, methods, run
from counton.state import Store, verify
from counton.state.dedup import Secret
from counton.strategies.strategy import column_until, node_distribution

#: Time, group, user, id, value.
Row = tuple[Any, ...]
EPOCH = 1_709_251_200  # 2024-03-01
KEYS = ("at", "group", "user", "id", "value")
#: What a program may write for a name or a value, or by mistake.
ODD_NAMES = (1, 2, "1", "2", 2.0, 1.5, True, None, "", "z", 10**18)
ODD_VALUES = (
    *(0, 3, 7, 12, 2.5, "4", None, "x", "nan", True, "true", "1e1", "2024-01-01", 1e300, "", " 6"),
)
ODD_USERS = ("7", 7, 8, "nine")
USUAL_VALUES = (0, 3, 7, 2.5, "4")
#: Of counts one of the times is protected; so are these, some of which are none. A count above the
#: largest is many times.
ODD_ONES = (1, "1", 1.0, None, "x", -1, 0, 2.5, True, "1e0", "")

OF_VALUES: dict[str, Any] = {"value": "value", "lower": -5, "upper": 10, "resolution": "0.5"}
#: Statistics whose rows are added up, and what defines them.
TALLIED: dict[str, tuple[Any, dict[str, Any]]] = {
    "count": ("count", {}),
    "sum": ("sum", OF_VALUES),
    "average": ("average", OF_VALUES),
    "haar": ("quantiles", {"value": "value", "edges": "0,2,4,8", "line": "haar"}),
    "hierarchy": ("quantiles", {"value": "value", "edges": "0,2,4,6,8", "line": "hierarchy"}),
    "top-k": ("top-k", {"group_by": "group", "groups": "1,2"}),
    "report": (
        "report",
        {
            "statistics": {
                "n": {"statistic": "count"},
                "paid": {"statistic": "average", **OF_VALUES},
                "cells": {"statistic": "quantiles", "value": "value", "edges": "0,2,4,8"},
            }
        },
    ),
    "users": (
        "report",
        {
            "statistics": {
                "n": {"statistic": "count"},
                "users": {"statistic": "distinct"},
                "by group": {"statistic": "distinct", "group_by": "group", "groups": ["1", "2"]},
                "paid": {"statistic": "average", **OF_VALUES, "group_by": "group", "groups": ["1",
                "2"]},
                "top": {"statistic": "top-k", "group_by": "id", "groups": ["0", "1", "2", "3",
                "4"]},
            },
            "unlisted_groups": "drop",
        },
    ),
    "moments": ("moments", {"columns": "value,group", "bounds": "0:10,0:4", "grid": 4}),
}  # fmt: skip
GROUPS: tuple[dict[str, Any], ...] = (
    {},
    {"group_by": "group", "groups": "1,2", "unlisted_groups": "drop"},
    {"group_by": "group", "groups": "1,2", "other_group": "rest"},
)
PEOPLE: tuple[dict[str, Any], ...] = (
    {},
    {"user": "user", "max_contributions": 2},
    {"user": "user", "max_contributions": 2, "contribution_period": "2h"},
    {"user": "user", "max_contributions": 2, "once_per_window": True},
    {"user": "user", "max_contributions": 1, "distinct_users": True},
)


class Published(NamedTuple):
    """What nights say for all to see, and the exact change of each step."""

    said: list[str]
    changes: np.ndarray[Any, Any]
    contribution: ContributionBound | None
    design: Any = None
    table: Any = None


def write(path: Path, rows: Sequence[Row | str], keys: Sequence[str], night: int) -> Path:
    """Files of other nights hold other bytes, as the names of their columns say."""
    named = [
        row
        if isinstance(row, str)
        else dict(zip(keys, (EPOCH + 3600 * row[0] + night, *row[1:]), strict=True))
        for row in rows
    ]
    if path.suffix == ".jsonl":
        first = dict.fromkeys(keys)  # a file always has its columns
        path.write_text("".join(json.dumps(row) + "\n" for row in [*named, first]))
    elif path.suffix == ".parquet":
        frame_of_texts(named, keys).with_columns(pl.col("at").cast(pl.Int64)).write_parquet(path)
    else:
        written = [row for row in named if not isinstance(row, str)]
        lines = frame_of_texts(written, keys).write_csv().encode().splitlines(keepends=True)
        for place, row in enumerate(named, 1):
            if isinstance(row, str):  # a line as it stands, whatever it says
                lines.insert(place, row.encode("utf-8", "surrogateescape") + b"\n")
        _compress(path, lines)
    return path


def frame_of_texts(rows: Sequence[Any], keys: Sequence[str]) -> pl.DataFrame:
    """All cells as text."""
    text = {key: [None if row[key] is None else str(row[key]) for row in rows] for key in keys}
    return pl.DataFrame(text, schema=dict.fromkeys(keys, pl.String))


def _compress(path: Path, lines: Sequence[bytes]) -> None:
    """Lines as their file's name says, each a member of its own in an archive."""
    if path.suffix == ".gz":
        path.write_bytes(b"".join(map(gzip.compress, lines)))
    elif path.suffix == ".zst":
        import zstandard

        path.write_bytes(b"".join(map(zstandard.compress, lines)))
    else:
        path.write_bytes(b"".join(lines))


def published(
    nights: Sequence[Sequence[Row | str]],
    kind: str,
    what: Any,
    options: dict[str, Any],
    keys: Sequence[str] = KEYS,
    thorough: bool = False,
) -> Published:
    """One run a night, each of all rows so far or, with ``append``, of its own.

    Args:
        nights: rows of each night; a text is a line of CSV.
        kind: how a file's name ends.
        what: the statistic.
        options: of the job; without others noise rounds to nothing.
        keys: names of the columns.
        thorough: whether words, facts and verification are said too.
    """
    said = list[str]()
    values = np.zeros((0, 0))
    so_far = list[Row | str]()
    contribution = design = table = None
    with job_folder() as folder:
        if options.get("bad_rows"):
            options = {**options, "bad_rows": f"quarantine:{folder}/bad.csv"}
        for night, rows in enumerate(nights):
            so_far = [*so_far, *rows]
            rows = rows if options.get("append") else so_far
            path = write(Path(folder, f"{night}.{kind}"), rows, keys, night)
            usual: dict[str, Any] = {"strategy": "binary"}
            usual |= {} if "rho" in options else {"epsilon": 10**7}
            job = Job(
                what, path, Path(folder, "s.db"), time="at", time_format="epoch", every="1h",
                start="2024-03-01", windows=6, until=f"2024-03-01T0{3 * night + 3}:00",
                allow_empty_windows=True, **{**usual, **options},
            )  # fmt: skip
            try:
                with run(job) as outcome:
                    result = outcome.read()
                    table = result.table()
                    fixed = [name for name in PUBLIC if name in table.columns]
                    if what == "top-k":
                        fixed.remove("group")  # the ranking is read from what is released
                    if options.get("unlisted_groups") == "discover":
                        fixed = []
                    values = np.asarray(releases_of(outcome), float)
                    values = values / float(design_of(outcome).units.exact)
                    contribution = outcome.spec.metadata().contribution
                    design = design_of(outcome)
                    shown = table
                    if "top" in options.get("statistics", ()):  # the same of a part of a report
                        is_ranked = pl.col("statistic") == "top"
                        group = pl.when(is_ranked).then(None).otherwise(pl.col("group"))
                        shown = table.with_columns(group=group)
                    said.append(f"{table.schema} {shown.select(fixed).rows()}")
                if thorough:
                    said.append(_all_words(Path(folder, "s.db"), folder))
            except CountonError as error:
                said.append(f"{type(error).__name__}: {str(error).replace(folder, '')[:40]}")
    return Published(said, np.diff(values, axis=0, prepend=0 * values[:1]), contribution, design,
                     table)  # fmt: skip


def _all_words(state: Path, folder: str) -> str:
    """What a state says for all to see, but for the numbers themselves."""
    about = facts_of(export(state).numbers)
    cells = about["description"].pop("cells", {})
    # Which groups are found, and since when, is released under (epsilon, delta).
    about["description"].pop("since", None)
    told = [cells.get("steps"), [one.right for one in verify(state)], methods(state), about]
    text = json.dumps(told, default=str).replace(folder, "")
    # What was released says how far quantiles, averages and shares are off.
    text = re.sub(r"numbers by at most .+?(?= [A-Z])", "numbers by at most", text)
    # Each state has a key of its own, and says whose noise it has by a digest.
    return re.sub(r"\b[0-9a-f]{32}\b", "digest", text)


#: Columns of tables in which no row of data shows.
PUBLIC = (
    "window_index",
    "window_start",
    "window_end",
    "series",
    "statistic",
    "group",
    "measure",
    "edge",
    "quantile",
    "rank",
)


def both(
    usual: Sequence[Sequence[Row]], more: Sequence[tuple[int, Row]], *rest: Any, **named: Any
) -> tuple[Published, Published]:
    """Without a unit's rows, and with them, under one secret; nothing but numbers may differ."""
    nights = [list(rows) for rows in usual]
    for night, row in more:
        nights[night].append(row)
    with _one_secret():
        without, with_it = (published(rows, *rest, **named) for rows in (usual, nights))
    assert with_it.said == without.said
    return without, with_it


@contextmanager
def _one_secret() -> Iterator[None]:
    """Digests are the same in each state."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(Secret, "fresh", lambda: Secret(bytes(range(32))))
        yield


def claimed(contribution: ContributionBound, cells: int) -> tuple[int, int]:
    """What a unit moves at most where it moves one node a cell: 1-norm, and squared 2-norm."""
    if isinstance(contribution.pattern, BoundedChange):
        return contribution.pattern.l1, contribution.pattern.l2_squared
    shift = contribution.sensitivities(Sensitivity(1, 1), cells)
    return shift.l1, shift.l2_squared


def measured(design: Design, totals: Sequence[np.ndarray[Any, Any]]) -> np.ndarray[Any, Any]:
    """C x of all steps so far, in units of the calibrated noise, as one long vector."""
    strategy = design.strategy
    steps = len(totals)
    columns = [column_until(strategy, step, steps) for step in range(1, steps + 1)]
    places = sorted({node[:2] for column in columns for node in column})
    matrix = np.zeros((len(places), steps))
    for step, column in enumerate(columns):
        for level, node, *_, weight in column:
            wide = math.sqrt(
                node_distribution(strategy, design.distribution, level).variance
                / design.distribution.variance
            )
            place = places.index((level, node))
            matrix[place, step] = float(weight) * 2**strategy.facts.lattice_bits / wide
    whole: np.ndarray[Any, Any] = matrix @ np.reshape(np.array(totals, float), (steps, -1))
    return whole.ravel()


def distance_of(design: Design) -> Callable[[Any, Any], float]:
    """The norm in which noise hides a change: the 1-norm under Laplace noise, else the 2-norm."""
    order = 1 if isinstance(design.distribution, DiscreteLaplace) else 2
    return lambda a, b: float(np.linalg.norm(np.asarray(a) - np.asarray(b), ord=order))


def declared(design: Design) -> float:
    """The sensitivity for which a stream's noise was calibrated, in that norm."""
    moved = sensitivity_of(design.strategy, design.contribution, design.shape)
    return float(
        moved.l1
        if isinstance(design.distribution, DiscreteLaplace)
        else math.sqrt(moved.l2_squared)
    )


#: Tables of rows without times: what defines them, and the column of counts if there is one.
ONCE: dict[str, tuple[str, dict[str, Any]]] = {
    "tree": (
        "hierarchy",
        {
            "levels": "group,value",
            "groups": {"group": ["1", "1", "2", "2", "z"], "value": ["3", "7", "3", None, None]},
        },
    ),
    "counted tree": (
        "hierarchy", {"levels": "group", "groups": {"group": ["1", "2"]}, "count_column": "value"},
    ),
    "line": ("ranges", {"label": "group", "groups": "1,2,z", "line": "haar"}),
    "counted line": ("ranges", {"label": "group", "groups": "1,2", "count_column": "value"}),
    "margins": (
        "contingency", {"columns": "group,user", "groups": {"group": ["1", "2"], "user": ["7"]}},
    ),
    "counted margins": (
        "contingency",
        {"columns": "group,id", "groups": "group=1,2;id=0,1,2,3", "count_column": "value"},
    ),
}  # fmt: skip
ONCE_PEOPLE = tuple(people for people in PEOPLE if "contribution_period" not in people)
#: Columns of tables that hold what is released; all others must not differ.
NUMBERS = {"estimate", "lower", "upper"}


def published_once(
    nights: Sequence[Sequence[Row]], kind: str, what: str, options: dict[str, Any]
) -> Published:
    """Nights of all rows of the first one, in another order and file; at last of others."""
    said = list[str]()
    changes = np.zeros((0, 0))
    contribution = None
    with job_folder() as folder:
        if options.get("bad_rows"):
            options = {**options, "bad_rows": f"quarantine:{folder}/bad.csv"}
        state = Path(folder, "s.db")
        for night, rows in enumerate([nights[0], nights[0][::-1], [*nights[0], *nights[1]]]):
            path = write(Path(folder, f"{night}.{kind}"), rows, KEYS, night)
            out = Path(folder, f"out{night}.parquet")
            job = Job(what, path, state, epsilon=10**12, output=out, **options)
            try:
                with run(job) as outcome:
                    table = outcome.read().table()
                    fixed = [name for name in table.columns if name not in NUMBERS]
                    changes = np.asarray(releases_of(outcome), float)
                    contribution = outcome.spec.metadata().contribution
                    spent = (outcome.before, outcome.after, str(table.schema))
                    said.append(f"{spent} {table.select(fixed).rows()}")
            except CountonError as error:
                refusal = re.sub(r"\d+", "#", str(error).replace(folder, ""))  # for the operator
                said.append(f"{type(error).__name__}: {refusal[:40]}")
        if state.exists():
            with Store(state) as store:
                said.append(str(store.entries))
            said.append(_all_words(state, folder))
    return Published(said, changes, contribution)


def both_once(
    nights: Sequence[Sequence[Row]], other: Sequence[Sequence[Row]], *rest: Any
) -> tuple[Published, Published]:
    """A table of one data set, and of its neighbour: nothing but numbers may differ."""
    with _one_secret():
        without, with_it = (published_once(rows, *rest) for rows in (nights, other))
    assert with_it.said == without.said
    return without, with_it
