"""Neighbours through whole jobs: one unit's rows move exact sums by what is stated, and no more.

Files of every format with odd types, a unit's rows added to some of them. Noise is 0, so that what
is published is exact; and all else that is published, or refused, must not differ at all. Tables
that are released once are seen for several nights too: with the same rows, and with others.

A few examples of each statistic by default; ``COUNTON_FUZZ=10000`` takes so many, other ones each
time (`make fuzz`).
"""

import os
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, Phase, example, given, settings
from hypothesis import strategies as st
from neighbouring_jobs import (
    GROUPS,
    ODD_NAMES,
    ODD_ONES,
    ODD_USERS,
    ODD_VALUES,
    ONCE,
    ONCE_PEOPLE,
    PEOPLE,
    TALLIED,
    USUAL_VALUES,
    Row,
    both,
    both_once,
    claimed,
)
from some_cases import long

LONG = int(os.environ.get("COUNTON_FUZZ", "0"))
ROW = st.tuples(
    st.integers(0, 5), st.sampled_from(ODD_NAMES), st.sampled_from(ODD_USERS), st.integers(0, 6),
    st.sampled_from(ODD_VALUES),
)  # fmt: skip
USUAL = st.tuples(
    st.integers(0, 5), st.sampled_from([1, 2]), st.sampled_from([7, 8]), st.integers(0, 9),
    st.sampled_from(USUAL_VALUES),
)  # fmt: skip


def examples(few: int) -> settings:
    """So many, always the same; or very many, always others."""
    return settings(
        derandomize=not LONG, max_examples=LONG or few, deadline=None, database=None,
        phases=[Phase.explicit, Phase.generate, *([Phase.shrink] if LONG else [])],
        suppress_health_check=[HealthCheck.too_slow],
    )  # fmt: skip


#: To which one number that is not whole is added: types must not be guessed from all rows.
PLAIN: list[list[Row]] = [[(0, 1, 7, 0, 3), (1, 2, 8, 1, 4)], [(3, 1, 7, 2, 3), (4, 2, 8, 3, 4)]]


@pytest.mark.parametrize("statistic", [*[*TALLIED][:6], *map(long, [*TALLIED][6:])])
@examples(2)
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
def test_unit_changes_inputs_within_stated_norms(
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
        groups = {}
        people = people or PEOPLE[1]
    policies = {"missing_values": "drop", "bad_rows": "quarantine", "append": append}
    options = {**groups, **defined, **people, **policies, **({"row_id": "id"} if ids else {})}
    if statistic == "top-k":
        options.setdefault("unlisted_groups", "drop")
    if people:  # rows of one user, who is nobody else, in one period
        more = [(night, (row[0], row[1], "someone", *row[3:])) for night, row in more]
        if "contribution_period" in people:
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


@pytest.mark.parametrize("statistic", ONCE)
@examples(2)
@given(
    st.lists(st.lists(USUAL, min_size=0, max_size=6), min_size=2, max_size=2),
    st.lists(ROW, min_size=1, max_size=3),
    st.sampled_from(ODD_ONES),
    st.sampled_from(["jsonl", "csv", "parquet"]),
    st.sampled_from(ONCE_PEOPLE),
    st.booleans(),
    st.booleans(),
)
def test_unit_changes_single_table_within_stated_norms(
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
    options = {
        **defined,
        "missing_values": "drop",
        "bad_rows": "quarantine",
        "unlisted_groups": "drop",
    }
    nights = [list(rows) for rows in usual]
    if "count_column" in defined:
        rows = [(*rows[0][:4], one)]
        people = {}
        ids = False
    if replaced:
        options = {**options, "replace": True}
        people = {}
        rows = rows[:2]
        if "count_column" in defined:
            rows = [(*row[:4], 1) for row in usual[1][:1]] + rows
        ids = False
    elif people:
        rows = [(*row[:2], "someone", *row[3:]) for row in rows]
    elif ids:
        rows = [(*row[:3], "new", row[4]) for row in rows]
    else:
        rows = rows[:1]
    options |= {**people, **({"row_id": "id"} if ids else {})}
    other = [list(rows) for rows in usual]
    if replaced and len(rows) > 1:
        nights[0].insert(0, rows.pop(0))
    other[0] += rows
    without, with_it = both_once(nights, other, kind, what, options)
    assert with_it.contribution is not None
    change = np.abs(with_it.changes - without.changes).ravel()
    l1, l2_squared = claimed(with_it.contribution, len(change))
    assert change.sum() <= l1 + 1e-6, (without, with_it)
    assert (change**2).sum() <= l2_squared + 1e-6, (without, with_it)
