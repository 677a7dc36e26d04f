"""Windows that are revised, through whole jobs: neighbours, lags, rows that come twice and beyond.

The same key makes the same noise, so that what differs between two runs is what a unit's rows add:
how far that moves the measurements, over what the noise is calibrated to, is 1.0 at most.
"""

from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from revised_jobs import Night, Row, frame, released, share_used
from revised_jobs import Nights as Released
from some_cases import long

from counton import PureDP, release
from counton.base.errors import InvalidInputError
from counton.run import Job, run
from counton.run.counting.step_inputs import PlannedSteps

#: Of windows with three versions: rows of other people, some of them late.
OTHERS: list[list[Row]] = [
    [(1, "a", "u1", "1", 3)],
    [(2, "a", "u2", "2", 1), (1, "b", "u3", "3", 2)],
    [(3, "b", "u2", "4", 5), (1, "a", "u4", "5", 0)],
    [(4, "a", "u1", "6", 2), (3, "a", "u3", "7", 4)],
    [(5, "b", "u5", "8", 1)],
    [(6, "a", "u1", "9", 1)],
]
GROUPS: dict[str, Any] = {"group_by": "group", "groups": "a,b"}
GUARANTEES: list[dict[str, Any]] = [{"epsilon": 1}, {"rho": 0.5}, {"epsilon": 1, "delta": "1e-6"}]


def with_rows(more: Sequence[tuple[int, Row]], nights: Sequence[Night] = OTHERS) -> list[Any]:
    """The nights of others, and a unit's rows in some of them."""
    found: list[Any] = [list(rows) if not callable(rows) else rows for rows in nights]
    for night, row in more:
        found[night - 1] = [*found[night - 1], row]
    return found


@cache
def of_others(**options: Any) -> Released:
    """What the nights of others release."""
    return released(OTHERS, **GROUPS, **options)


@pytest.mark.parametrize("guarantee", [GUARANTEES[0], *map(long, GUARANTEES[1:])], ids=str)
def test_row_changes_versions_by_claim_at_every_lag(guarantee: dict[str, Any]) -> None:
    without = of_others(**guarantee)
    used = []
    for lag in range(4):
        row = (2, "a", "someone", "new", 1.0)
        with_it = released(with_rows([(2 + lag, row)]), **GROUPS, **guarantee)
        change = with_it.values - without.values
        known = np.zeros_like(change)
        for night in range(2 + lag, 5):  # from the night of its arrival on, until it is final
            known[night - 1, 0, night - 2] = 1
        if lag > 2:
            known[:] = 0
        assert np.allclose(change, known), lag
        assert with_it.told[1 + lag].after_final - without.told[1 + lag].after_final == (lag > 2)
        used.append(share_used(without, with_it))
    assert max(used) == pytest.approx(1.0)
    assert used[3] == 0.0


def test_row_counts_once_in_window_of_its_day() -> None:
    exact = released(OTHERS, **GROUPS, epsilon=10**7)
    day1 = [exact.values[night, :, night].round().astype(int).tolist() for night in range(3)]
    assert day1 == [[1, 0], [1, 1], [2, 1]]
    assert exact.values[4, :, 2].round().tolist() == [1, 1]  # the third day, final


def test_a_row_that_comes_twice_counts_once() -> None:
    row = (2, "a", "someone", "new", 1.0)
    options = {**GROUPS, "epsilon": 1, "row_id": "id"}
    without = of_others(epsilon=1, row_id="id")
    once, often = (
        released(with_rows([(night, row) for night in nights]), **options)
        for nights in ((2,), (2, 3, 4, 6))
    )
    assert (once.values == often.values).all()
    assert share_used(without, once) == 1.0


@pytest.mark.parametrize("append", [True, False])
def test_row_ids_identify_late_rows_in_complete_files(append: bool) -> None:
    nights = list[list[Row]]()
    so_far = list[Row]()
    for rows in OTHERS:
        so_far = [*so_far, *rows]
        nights.append(so_far)
    found = released(nights, **GROUPS, epsilon=1, row_id="id", append=append)
    assert (found.values == of_others(epsilon=1, row_id="id").values).all()


def test_adaptive_attacker_changes_no_earlier_release() -> None:
    """Nights bring rows by what was released until then: both runs see the same until the row."""

    def chosen(values: np.ndarray[Any, Any]) -> list[Row]:
        odd = int(values.sum()) % 2
        return [(len(values) + 1 - odd, "ab"[odd], "someone", "new", 1.0)]

    one = of_others(epsilon=1)
    for night in (3, 5):
        with_it: list[Any] = with_rows([])
        with_it[night - 1] = lambda values, rows=OTHERS[night - 1]: [*rows, *chosen(values)]
        other = released(with_it, **GROUPS, epsilon=1)
        assert (one.values[: night - 1] == other.values[: night - 1]).all()
        assert share_used(one, other) == 1.0


@pytest.mark.parametrize(
    "people",
    [
        {"max_contributions": 3, "contribution_period": "1w"},
        long({"max_contributions": 2}),
        long({"max_contributions": 3, "contribution_period": "1w", "once_per_window": True}),
        long(
            {"max_contributions": 4, "contribution_period": "1w", "max_contributions_per_window": 2}
        ),
    ],
    ids=str,
)
@pytest.mark.parametrize("guarantee", [GUARANTEES[0], long(GUARANTEES[1])], ids=str)
def test_user_changes_versions_within_claim(
    people: dict[str, Any], guarantee: dict[str, Any]
) -> None:
    options = {**GROUPS, **guarantee, **people, "user": "user"}
    without = released(OTHERS, **options)
    used = []
    of_user: list[list[tuple[int, Row]]] = [
        [(night, (day, group, "someone", f"{night}{day}", 1.0)) for night, day, group in rows]
        for rows in (
            [(4, 4, "a")] * 5,
            [(4, 4, "a"), (4, 4, "a"), (5, 5, "a"), (5, 5, "a"), (5, 4, "a")],
            [(4, 4, "a"), (5, 4, "a"), (6, 4, "a"), (6, 4, "b"), (6, 5, "b")],
            [(4, 4, "a"), (4, 4, "b"), (5, 5, "a"), (5, 5, "b"), (6, 6, "a"), (6, 6, "b")],
        )
    ]
    for rows in of_user:
        used.append(share_used(without, released(with_rows(rows), **options)))
    assert max(used) > 0.4


SUMS: dict[str, Any] = {"value": "value", "lower": 0, "upper": 5, "resolution": 1}


@pytest.mark.parametrize(
    ("what", "options"),
    [
        ("average", SUMS),
        long("sum", SUMS),
        long("reach", {"user": "user", "at_least": "1", "contribution_period": "1d"}),
        long("quantiles", {"value": "value", "edges": "0,1,2,4,8"}),
        long(
            "contingency", {"columns": "group,id", "groups": "group=a,b;id=1,2,3,4,5,6,7,8,9,new"}
        ),
        long("moments", {"columns": "value", "bounds": "0:5", "grid": 4}),
        long(
            "report",
            {"statistics": {"n": {"statistic": "count"}, "paid": {"statistic": "average", **SUMS}}},
        ),
    ],
    ids=lambda one: one if isinstance(one, str) else "",
)
def test_statistics_change_versions_within_claim(what: str, options: dict[str, Any]) -> None:
    groups = GROUPS if what in ("sum", "average", "quantiles", "report") else {}
    without = released(OTHERS, what, **groups, **options, rho=2)
    used = []
    for lag in (0, 2, 3):
        row = (2, "a", "someone", "new", 5.0)
        with_it = released(with_rows([(2 + lag, row)]), what, **groups, **options, rho=2)
        used.append(share_used(without, with_it))
    assert used[0] > 0.5
    assert used[-1] == 0.0


# ------------------------------------------------------------------- what must not be, is seen


def counts_in_two_windows(self: PlannedSteps, steps: range) -> Any:
    """A mistake: a late row counts in the window of its arrival too."""
    found = RIGHT(self, steps)
    found[..., 0] += found[..., 1:].sum(axis=-1)
    return found


def lag_by_others(self: PlannedSteps, steps: range) -> Any:
    """A mistake: how late a file is hangs on its newest row."""
    found = RIGHT(self, steps)
    newest = self.last_window_with_rows
    return np.roll(found, steps[-1] - newest, axis=-1) if newest < steps[-1] else found


RIGHT = PlannedSteps.values


@pytest.mark.parametrize("wrong", [counts_in_two_windows, lag_by_others])
def test_check_detects_wrong_window_inputs(wrong: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(PlannedSteps, "values", wrong)
    nights: list[list[Row]] = [[(1, "a", "u", "1", 1)] * 3, [(1, "a", "u", "2", 1)] * 3, [], []]
    row = (2, "a", "someone", "new", 1.0)
    without = released(nights, **GROUPS, epsilon=1)
    with_it = (
        released(with_rows([(night, row)], nights), **GROUPS, epsilon=1) for night in (2, 3, 4)
    )
    with pytest.raises(AssertionError, match=r"a unit moves|a window before the first counts"):
        [share_used(without, one) for one in with_it]


def test_rows_beyond_count_nowhere_later_either() -> None:
    late = (1, "a", "someone", "new", 1.0)
    for options in ({"row_id": "id"}, {"user": "user", "max_contributions": 1}):
        told: dict[str, Any] = {**GROUPS, "epsilon": 1, **options}
        without = of_others(epsilon=1, **options)
        again = [(5, late), (6, (6, "a", "someone", "new", 1.0))]
        with_it = released(with_rows(again), **told)
        assert (without.values[:5] == with_it.values[:5]).all()
        assert with_it.told[4].after_final == 1
        # It used up no room, and is not known.
        assert share_used(without, with_it) > 0
        assert (without.values != with_it.values).sum() == 1


# ----------------------------------------------------------------------------- what is refused


@pytest.mark.parametrize(
    ("more", "why"),
    [
        ({"series": "both"}, "allowed_lateness=2d cannot be used with series=both"),
        ({"expiring": True}, "cannot be used with"),
        ({"expected_windows": 99}, "expected_windows=99 cannot be used with allowed_lateness"),
        ({"allowed_lateness": "36h"}, "not a multiple of the window length 1d"),
        (
            {"allowed_lateness": "4096d"},
            "allowed_lateness=4096d publishes .* 4,096 further .* give at most 4095d",
        ),
        ({"allowed_lateness": "2"}, "not a length of time"),
        ({"unlisted_groups": "discover", "group_by": "group", "delta": "1e-9"}, "needs windows"),
    ],
    ids=str,
)
def test_allowed_lateness_refuses_incompatible_options(
    more: dict[str, Any], why: str, tmp_path: Path
) -> None:
    told: dict[str, Any] = {
        "time": "at", "every": "1d", "start": "2024-03-01", "allowed_lateness": "2d", "epsilon": 1,
    }  # fmt: skip
    with pytest.raises(InvalidInputError, match=why):
        run(Job("count", frame(OTHERS[0], 1), tmp_path / "s.db", append=True, **{**told, **more}))


@pytest.mark.parametrize(
    ("what", "users"),
    [
        ("distinct", {}),
        ("count", {"distinct_users": True}),
        ("reach", {"at_least": "1", "contribution_period": "1w"}),
        ("report", {"max_contributions": 2, "statistics": {"who": {"statistic": "distinct"}}}),
    ],
)
def test_users_count_in_each_window_or_not_at_all(
    what: str, users: dict[str, Any], tmp_path: Path
) -> None:
    told: dict[str, Any] = {"time": "at", "every": "1d", "start": "2024-03-01", "epsilon": 1}
    told = {**told, "allowed_lateness": "2d", "append": True, "user": "user", **users}
    with pytest.raises(
        InvalidInputError,
        match=r"allowed_lateness=2d (revises|cannot be used with "
        r"(statistic=distinct|distinct_users=True))",
    ):
        run(Job(what, frame(OTHERS[0], 1), tmp_path / "s.db", **told))


# ------------------------------------------------------------------------------- what is read


def test_a_window_may_be_final_after_most_of_a_year(tmp_path: Path) -> None:
    found = release(
        "count", frame(OTHERS[0], 1), time="at", every="1d", start="2024-03-01",
        allowed_lateness="260d",
        append=True, until="2024-03-02", guarantee=PureDP(1), state=tmp_path / "s.db",
    )  # fmt: skip
    table = found.table()
    assert table["lag_windows"].to_list() == [0]
    assert table["upper"][0] - table["lower"][0] < 20


def test_versions_show_numbers_known_at_each_run(tmp_path: Path) -> None:
    found = None
    for night, rows in enumerate(OTHERS, 1):
        found = release(
            "count", frame(rows, night), time="at", every="1d", start="2024-03-01",
            allowed_lateness="2d",
            append=True, until=f"2024-03-{night + 1:02}", guarantee=PureDP(1),
            state=tmp_path / "s.db",
            **GROUPS,
        )  # fmt: skip
    assert found is not None
    table = found.table()
    versions = found.versions()
    assert table["lag_windows"].to_list()[::2] == [2, 2, 2, 2, 1, 0]
    assert table["is_final"].to_list()[::2] == [True, True, True, True, False, False]
    assert versions.height == 2 * (3 * 4 + 2 + 1)
    newest = versions.group_by("window_index", "group", maintain_order=True).last()
    assert newest.select(table.columns).equals(table)
