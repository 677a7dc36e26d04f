"""Neighbours through whole jobs: one unit's rows move exact sums by what is stated, and no more.

Files of every format with odd types, a unit's rows added to some of them. Noise is 0, so that what
is published is exact; and all else that is published, or refused, must not differ at all. Tables
that are released once are seen for several nights too: with the same rows, and with others.

A few examples of each statistic by default; ``COUNTON_FUZZ=10000`` takes so many, other ones each
time (`make fuzz`).
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

import numpy as np
import polars as pl
import pytest
from hypothesis import HealthCheck, Phase, example, given, settings
from hypothesis import strategies as st

from counton.base.distributions import BoundedChange, Sensitivity
from counton.base.errors import CountonError
from counton.numbers.node_law import sensitivity_of
from counton.privacy import Contribution
from counton.released.release_facts import facts_of
from counton.run import Job, View, export, methods, run
from counton.state import Store, verify
from counton.state.seen import Secret
from counton.statistics import Moments
from counton.strategies import matrices

#: Time, group, user, id, value.
Row = tuple[Any, ...]

LONG = int(os.environ.get("COUNTON_FUZZ", "0"))
EPOCH = 1_709_251_200  # 2024-03-01
#: What a program may write for a name or a value, or by mistake.
NAMES = st.sampled_from([1, 2, "1", "2", 2.0, 1.5, True, None, "", "z", 10**18])
VALUES = st.sampled_from(
    [0, 3, 7, 12, 2.5, "4", None, "x", "nan", True, "true", "1e1", "2024-01-01", 1e300, "", " 6"]
)
USERS = st.sampled_from(["7", 7, 8, "nine"])
ROW = st.tuples(st.integers(0, 5), NAMES, USERS, st.integers(0, 6), VALUES)
USUAL = st.tuples(
    st.integers(0, 5), st.sampled_from([1, 2]), st.sampled_from([7, 8]), st.integers(0, 9),
    st.sampled_from([0, 3, 7, 2.5, "4"]),
)  # fmt: skip
KEYS = ("at", "group", "user", "id", "value")

OF_VALUES: dict[str, Any] = {"value": "value", "lower": -5, "upper": 10, "resolution": "0.5"}
#: Statistics whose rows are added up, and what defines them.
TALLIED: dict[str, tuple[Any, dict[str, Any]]] = {
    "count": ("count", {}),
    "sum": ("sum", OF_VALUES),
    "average": ("average", OF_VALUES),
    "haar": ("quantiles", {"value": "value", "edges": "0,2,4,8", "line": "haar"}),
    "hierarchy": ("quantiles", {"value": "value", "edges": "0,2,4,6,8", "line": "hierarchy"}),
    "top-k": ("top-k", {"by": "group", "domain": "1,2"}),
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
                "by group": {"statistic": "distinct", "by": "group", "domain": ["1", "2"]},
                "paid": {"statistic": "average", **OF_VALUES, "by": "group", "domain": ["1", "2"]},
                "top": {"statistic": "top-k", "by": "id", "domain": ["0", "1", "2", "3", "4"]},
            },
            "unknown": "drop",
        },
    ),
    "moments": (
        Moments({"value": (0, 10), "group": (0, 4)}, grid=4), {"columns": ["value", "group"]},
    ),
}  # fmt: skip
GROUPS: tuple[dict[str, Any], ...] = (
    {},
    {"by": "group", "domain": "1,2", "unknown": "drop"},
    {"by": "group", "domain": "1,2", "other": "rest"},
)
PEOPLE: tuple[dict[str, Any], ...] = (
    {},
    {"user": "user", "most": 2},
    {"user": "user", "most": 2, "per": "2h"},
    {"user": "user", "most": 2, "distinct": True},
    {"user": "user", "most": 1, "first": True},
)
#: Statistics that take rows in order, and what is to be shown of words.
ORDERED: dict[str, tuple[str, dict[str, Any], Any]] = {
    "users": ("distinct", {"user": "user", "window": 2, "windows": 2}, None),
    "staying": ("distinct", {"user": "user", "changes": 4, "stay": 1}, None),
    "edges": ("edges", {"edge": "one,two"}, None),
    "triangles": ("triangles", {"edge": "one,two", "degree": 3, "beyond": "drop"}, None),
    "forest": ("forest", {"edge": "one,two", "weight": "id", "largest": 6}, None),
    "substrings": (
        "substrings", {"letter": "letter", "alphabet": "ab", "longest": 2}, ["a", "b", "ab", "bb"],
    ),
}  # fmt: skip


class Published(NamedTuple):
    """What nights say for all to see, and the exact change of each step."""

    said: list[str]
    changes: np.ndarray[Any, Any]
    contribution: Contribution | None
    strategy: Any = None


def write(path: Path, rows: Sequence[Row], keys: Sequence[str], night: int) -> Path:
    """Files of other nights hold other bytes, as the names of their columns say."""
    named = [
        dict(zip(keys, (EPOCH + 3600 * row[0] + night, *row[1:]), strict=True)) for row in rows
    ]
    if path.suffix == ".jsonl":
        first = dict.fromkeys(keys)  # a file always has its columns
        path.write_text("".join(json.dumps(row) + "\n" for row in [*named, first]))
        return path
    text = {key: [None if row[key] is None else str(row[key]) for row in named] for key in keys}
    frame = pl.DataFrame(text, schema=dict.fromkeys(keys, pl.String))
    if path.suffix == ".csv":
        frame.write_csv(path)
    else:
        frame.with_columns(pl.col("at").cast(pl.Int64)).write_parquet(path)
    return path


def published(
    nights: Sequence[Sequence[Row]],
    kind: str,
    what: Any,
    options: dict[str, Any],
    keys: Sequence[str] = KEYS,
    ask: Any = None,
) -> Published:
    """One run a night, each of all rows so far or, with ``append``, of its own."""
    said, values, so_far = list[str](), np.zeros((0, 0)), list[Row]()
    contribution = strategy = None
    with TemporaryDirectory() as folder:
        if options.get("bad_rows"):
            options = {**options, "bad_rows": f"quarantine:{folder}/bad.csv"}
        for night, rows in enumerate(nights):
            so_far = [*so_far, *rows]
            rows = rows if options.get("append") else so_far
            path = write(Path(folder, f"{night}.{kind}"), rows, keys, night)
            job = Job(
                what, path, Path(folder, "s.db"), time="at", time_format="epoch", every="1h",
                start="2024-03-01", steps=6, epsilon=10**7, strategy="binary",
                until=f"2024-03-01T0{3 * night + 3}:00", confirmed=True, counted="new", **options,
            )  # fmt: skip
            try:
                with run(job) as outcome:
                    table = outcome.read(shown=View(ask)).table()
                    fixed = [name for name in PUBLIC if name in table.columns]
                    if what == "top-k":
                        fixed.remove("group")  # the ranking is read from what is released
                    if "top" in options.get("statistics", ()):
                        fixed.remove("name")
                    if ask is None:
                        values = np.asarray(outcome.stream.releases().values, float)
                        values = values / float(outcome.stream.design.resolution)
                    else:
                        values = table["estimate"].to_numpy().reshape(-1, len(ask))
                    contribution = outcome.definition.contribution
                    strategy = outcome.definition.strategy
                    said.append(f"{table.columns} {table.select(fixed).rows()}")
            except CountonError as error:
                said.append(f"{type(error).__name__}: {str(error).replace(folder, '')[:40]}")
    return Published(said, np.diff(values, axis=0, prepend=0 * values[:1]), contribution, strategy)


#: Columns of tables in which no row of data shows.
PUBLIC = ("step", "window_start", "window_end", "group", "name", "edge", "share", "rank")


def both(
    usual: Sequence[Sequence[Row]], more: Sequence[tuple[int, Row]], *rest: Any, **named: Any
) -> tuple[Published, Published]:
    """Without a unit's rows, and with them, under one secret; nothing but numbers may differ."""
    nights = [list(rows) for rows in usual]
    for night, row in more:
        nights[night].append(row)
    original = Secret.fresh
    Secret.fresh = classmethod(lambda _: Secret(bytes(range(32))))  # type: ignore[method-assign,assignment]
    try:
        without, with_it = (published(rows, *rest, **named) for rows in (usual, nights))
    finally:
        Secret.fresh = original  # type: ignore[method-assign]
    assert with_it.said == without.said
    return without, with_it


def claimed(contribution: Contribution, cells: int) -> tuple[int, int]:
    """What a unit moves at most where it moves one node a cell: 1-norm, and squared 2-norm."""
    if isinstance(contribution.pattern, BoundedChange):
        return contribution.pattern.l1, contribution.pattern.l2_squared
    shift = contribution.sensitivities(Sensitivity(1, 1), cells)
    return shift.l1, shift.l2_squared


def examples(few: int) -> settings:
    """So many, always the same; or very many, always others."""
    return settings(
        derandomize=not LONG, max_examples=LONG or few, deadline=None, database=None,
        phases=[Phase.explicit, Phase.generate, *([Phase.shrink] if LONG else [])],
        suppress_health_check=[HealthCheck.too_slow],
    )  # fmt: skip


#: To which one number that is not whole is added: types must not be guessed from all rows.
PLAIN: list[list[Row]] = [[(0, 1, 7, 0, 3), (1, 2, 8, 1, 4)], [(3, 1, 7, 2, 3), (4, 2, 8, 3, 4)]]


@pytest.mark.parametrize("statistic", TALLIED)
@examples(3)
@given(
    st.lists(st.lists(USUAL, min_size=2, max_size=6), min_size=2, max_size=2),
    st.lists(st.tuples(st.integers(0, 1), ROW), min_size=1, max_size=3),
    st.sampled_from(["jsonl", "csv", "parquet"]),
    st.booleans(),
    st.sampled_from(GROUPS),
    st.sampled_from(PEOPLE),
    st.booleans(),
)
@example(PLAIN, [(0, (1, 2.0, 7, 0, 2.5))], "jsonl", False, GROUPS[1], PEOPLE[0], False)
def test_one_unit_moves_what_is_stated_and_nothing_else(
    statistic: str,
    usual: list[list[Row]],
    more: list[tuple[int, Row]],
    kind: str,
    append: bool,
    groups: dict[str, Any],
    people: dict[str, Any],
    ids: bool,
) -> None:
    what, defined = TALLIED[statistic]
    if statistic == "users":  # whose rows they are is known, and groups are those of each
        groups, people = {}, people or PEOPLE[1]
    policies = {"missing": "skip", "bad_rows": "quarantine", "append": append}
    options = {**groups, **defined, **people, **policies, **({"id": "id"} if ids else {})}
    if statistic == "top-k":
        options.setdefault("unknown", "drop")
    if people:  # rows of one user, who is nobody else, in one period
        more = [(night, (row[0], row[1], "someone", *row[3:])) for night, row in more]
        if "per" in people:
            more = [(night, (row[0] % 2 + 2, *row[1:])) for night, row in more]
    elif ids:
        more = [(night, (*row[:3], "new", row[4])) for night, row in more]  # one event
    else:
        more = more[:1]
    without, with_it = both(usual, more, kind, what, options)
    change = np.abs(with_it.changes - without.changes).reshape(len(with_it.changes), -1).sum(axis=0)
    if with_it.contribution is not None:
        l1, l2_squared = claimed(with_it.contribution, len(change))
        assert change.sum() <= l1 + 1e-6, (without, with_it)
        assert (change**2).sum() <= l2_squared + 1e-6, (without, with_it)


CLEAN = st.tuples(
    st.integers(0, 5), st.sampled_from([7, 8, 9]), st.integers(1, 6), st.integers(0, 2),
    st.integers(0, 1), st.sampled_from("ab"),
)  # fmt: skip
NODES = "uvwx"
ORDERED_KEYS = ("at", "user", "id", "one", "two", "letter")


@pytest.mark.parametrize("statistic", ORDERED)
@examples(3)
@given(
    st.lists(st.lists(CLEAN, min_size=1, max_size=3), min_size=2, max_size=2),
    st.lists(CLEAN, min_size=1, max_size=3),
    st.sampled_from(["csv", "parquet"]),
)
def test_one_unit_moves_what_is_stated_where_rows_are_in_order(
    statistic: str, usual: list[list[Row]], more: list[Row], kind: str
) -> None:
    what, options, ask = ORDERED[statistic]
    edges = [(a, b) for a in NODES for b in NODES if a < b]  # six, each of which comes once

    def row(given: Row, night: int, place: int) -> Row:
        return (given[0] % 3 + 3 * night, *given[1:3], *edges[place % len(edges)], given[5])

    places = iter(range(1, 7))
    nights = [[row(one, night, next(places)) for one in usual[night][:2]] for night in range(2)]
    new = [row(one, one[4], 0) for one in more]
    new = [(one[0], "someone", *one[2:]) for one in new] if what == "distinct" else new[:1]
    added = [(one[0] // 3, one) for one in new]
    without, with_it = both(nights, added, kind, what, options, ORDERED_KEYS, ask=ask)
    if with_it.contribution is None:
        return
    change = (with_it.changes - without.changes).reshape(len(with_it.changes), -1)
    taken = np.asarray(matrices(with_it.strategy, 6)[1], float)[:, : len(change)]
    nodes = taken @ change
    shift = sensitivity_of(with_it.strategy, with_it.contribution, (change.shape[1],))
    assert np.abs(nodes).sum() <= shift.l1 + 1e-6, (without, with_it)
    assert (nodes**2).sum() <= shift.l2_squared + 1e-6, (without, with_it)


#: Tables of rows without times: what defines them, and the column of counts if there is one.
ONCE: dict[str, tuple[str, dict[str, Any]]] = {
    "tree": (
        "hierarchy",
        {
            "levels": "group,value",
            "domain": {"group": ["1", "1", "2", "2", "z"], "value": ["3", "7", "3", None, None]},
        },
    ),
    "counted tree": (
        "hierarchy", {"levels": "group", "domain": {"group": ["1", "2"]}, "value": "value"},
    ),
    "line": ("ranges", {"label": "group", "domain": "1,2,z", "line": "haar"}),
    "counted line": ("ranges", {"label": "group", "domain": "1,2", "value": "value"}),
    "margins": (
        "contingency", {"columns": "group,user", "domain": {"group": ["1", "2"], "user": ["7"]}},
    ),
    "counted margins": (
        "contingency",
        {"columns": "group,id", "domain": "group=1,2;id=0,1,2,3", "value": "value"},
    ),
}  # fmt: skip
#: Of counts one of the times is protected; so are these, some of which are none.
ONES = st.sampled_from([1, "1", 1.0, None, "x", -1, 0, 2.5, True, "1e0", 1e300, "", 2**63])
ONCE_PEOPLE = tuple(people for people in PEOPLE if "per" not in people)
#: Columns of tables that hold what is released; all others must not differ.
NUMBERS = {"estimate", "lower", "upper", "running_total"}


def published_once(
    nights: Sequence[Sequence[Row]], kind: str, what: str, options: dict[str, Any]
) -> Published:
    """Nights of all rows of the first one, in another order and file; at last of others."""
    said, changes, contribution = list[str](), np.zeros((0, 0)), None
    with TemporaryDirectory() as folder:
        if options.get("bad_rows"):
            options = {**options, "bad_rows": f"quarantine:{folder}/bad.csv"}
        state = Path(folder, "s.db")
        for night, rows in enumerate([nights[0], nights[0][::-1], [*nights[0], *nights[1]]]):
            path = write(Path(folder, f"{night}.{kind}"), rows, KEYS, night)
            out = Path(folder, f"out{night}.parquet")
            job = Job(what, path, state, epsilon=10**12, out=out, **options)
            try:
                with run(job) as outcome:
                    table = outcome.read().table()
                    fixed = [name for name in table.columns if name not in NUMBERS]
                    changes = np.asarray(outcome.stream.releases().values, float)
                    contribution = outcome.definition.contribution
                    spent = (outcome.before, outcome.after, str(table.schema))
                    said.append(f"{spent} {table.select(fixed).rows()}")
            except CountonError as error:
                refusal = re.sub(r"\d+", "#", str(error).replace(folder, ""))  # for the operator
                said.append(f"{type(error).__name__}: {refusal[:40]}")
        if state.exists():
            with Store(state) as store:
                said.append(str(store.spends))
            about = facts_of(export(state))
            cells = about["description"].pop("cells")
            told = [cells["steps"], [one.right for one in verify(state)], methods(state), about]
            text = json.dumps(told, default=str).replace(folder, "")
            # Each state has a key of its own, and says whose noise it has by a digest.
            said.append(re.sub(r"\b[0-9a-f]{32}\b", "digest", text))
    return Published(said, changes, contribution)


@pytest.mark.parametrize("statistic", ONCE)
@examples(3)
@given(
    st.lists(st.lists(USUAL, min_size=0, max_size=6), min_size=2, max_size=2),
    st.lists(ROW, min_size=1, max_size=3),
    ONES,
    st.sampled_from(["jsonl", "csv", "parquet"]),
    st.sampled_from(ONCE_PEOPLE),
    st.booleans(),
    st.booleans(),
)
def test_one_unit_moves_what_is_stated_of_a_table_once(
    statistic: str,
    usual: list[list[Row]],
    rows: list[Row],
    one: Any,
    kind: str,
    people: dict[str, Any],
    ids: bool,
    replaced: bool,
) -> None:
    what, defined = ONCE[statistic]
    options = {**defined, "missing": "skip", "bad_rows": "quarantine", "unknown": "drop"}
    nights = [list(rows) for rows in usual]
    if "value" in defined:
        rows, people, ids = [(*rows[0][:4], one)], {}, False
    if replaced:
        options, people, rows = {**options, "replace": True}, {}, rows[:2]
        if "value" in defined:
            rows = [(*row[:4], 1) for row in usual[1][:1]] + rows
        ids = False
    elif people:
        rows = [(*row[:2], "someone", *row[3:]) for row in rows]
    elif ids:
        rows = [(*row[:3], "new", row[4]) for row in rows]
    else:
        rows = rows[:1]
    options |= {**people, **({"id": "id"} if ids else {})}
    other = [list(rows) for rows in usual]
    if replaced and len(rows) > 1:
        nights[0].insert(0, rows.pop(0))
    other[0] += rows
    original = Secret.fresh
    Secret.fresh = classmethod(lambda _: Secret(bytes(range(32))))  # type: ignore[method-assign,assignment]
    try:
        without, with_it = (published_once(each, kind, what, options) for each in (nights, other))
    finally:
        Secret.fresh = original  # type: ignore[method-assign]
    assert with_it.said == without.said
    assert with_it.contribution is not None
    change = np.abs(with_it.changes - without.changes).ravel()
    l1, l2_squared = claimed(with_it.contribution, len(change))
    assert change.sum() <= l1 + 1e-6, (without, with_it)
    assert (change**2).sum() <= l2_squared + 1e-6, (without, with_it)
