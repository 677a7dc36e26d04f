"""What bounds leave out, measured beside a number: exact cells, people, intervals, refusals."""

from __future__ import annotations

import itertools
import re
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from keys import chosen_key
from neighbouring_jobs import Row, both, claimed, published

from counton import PureDP, Running, read, release
from counton.base.errors import InvalidInput, RequestMismatch
from counton.run import Job, methods, recall, run
from counton.run.new_stream import define, design_of
from counton.serve.public_series import Journal
from counton.state import Store
from counton.statistics import Report, ShareLeftOut, Sum
from counton.statistics.report_budget import budget_shares

VALUES: dict[str, Any] = {"value": "value", "lower": 0, "upper": 6, "resolution": 1}
PEOPLE: dict[str, Any] = {"user": "user", "most": 2, "per": "3h", "measure_most": 5}
GROUPS: dict[str, Any] = {"by": "group", "domain": "1,2"}


def drawn(seed: int, rows: int = 60) -> list[Row]:
    """Time, group, user, id, value."""
    rng = np.random.default_rng(seed)
    return [
        (hour, int(rng.integers(1, 3)), f"u{rng.integers(3)}", number, int(rng.integers(-3, 10)))
        for number, hour in enumerate(sorted(rng.integers(0, 6, rows).tolist()))
    ]


def expected(rows: list[Row], *, clips: bool, grouped: bool) -> Counter[tuple[int, int, str]]:
    """Rows by hour and group: within the first two of a user's period, left out, and looked at."""
    found, seen = Counter[tuple[int, int, str]](), Counter[tuple[str, int]]()

    def order(row: Row) -> tuple[Any, ...]:
        value = min(max(row[4], 0), 6)
        return row[0], row[1] * grouped, value, row[4] != value

    for hour, group, user, _, value in sorted(rows, key=order):
        seen[user, hour // 3] += 1
        rank = seen[user, hour // 3]
        clipped = clips and not 0 <= value <= 6
        found[hour, group, "counted"] += rank <= 2
        found[hour, group, "out"] += rank <= 5 and (rank > 2 or clipped)
        found[hour, group, "in"] += rank <= 2 and not clipped
        found[hour, group, "sum"] += (rank <= 2) * min(max(value, 0), 6)
    return found


@pytest.mark.parametrize(
    ("what", "groups", "append"),
    [("count", {}, True), ("sum", GROUPS, False), ("average", {}, True)],
)
def test_cells_are_those_of_a_count_by_hand(
    what: str, groups: dict[str, Any], append: bool
) -> None:
    rows = drawn(3)
    nights = [[row for row in rows if row[0] // 3 == night] for night in (0, 1)]
    options = {**PEOPLE, **groups, "append": append, "measure_left_out": 0.5}
    options |= {} if what == "count" else VALUES
    got = published(nights, "csv", what, options)
    hand = expected(rows, clips=what != "count", grouped=bool(groups))
    member = {"count": ["counted"], "sum": ["sum"], "average": ["sum", "below"]}[what]
    for hour, group in itertools.product(range(6), (1, 2)):
        hand[hour, group, "below"] = 6 * hand[hour, group, "counted"] - hand[hour, group, "sum"]
    each = [[1], [2]] if groups else [[1, 2]]
    cells = [
        [sum(hand[hour, group, name] for group in some) for some in each for name in names]
        for names in [[*member, "out", "in"]]
        for hour in range(6)
    ]
    weights = got.changes.reshape(6, -1) / np.where(np.array(cells) == 0, np.nan, cells)
    assert np.nanmax(weights, axis=0) == pytest.approx(np.nanmin(weights, axis=0))
    assert (got.changes.reshape(6, -1)[np.array(cells) == 0] == 0).all()
    assert np.array(cells)[:, -2].sum() > 0


@pytest.mark.parametrize(
    ("what", "more", "append"),
    [
        ("count", {**PEOPLE, **GROUPS}, True),
        ("sum", {**PEOPLE, **VALUES}, False),
        ("count", {**PEOPLE, "epsilon": None, "rho": 10**13}, True),
        ("average", {**PEOPLE, **VALUES, "epsilon": None, "rho": 10**13}, True),
    ],
)
def test_one_user_moves_what_is_stated_and_nothing_else(
    what: str, more: dict[str, Any], append: bool
) -> None:
    """Rows within both bounds, between them and beyond, in one night or two, clipped or not."""
    usual = [[row for row in drawn(5, 12) if row[0] // 3 == night] for night in (0, 1)]
    options = {**more, "append": append, "measure_left_out": "0.3"}
    largest = wide = 0.0
    for rows, late, value in ((1, 9, 6), (9, 0, 99)):
        own = [(0, (place % 3, 1 + place % 2, "x", 90 + place, value)) for place in range(rows)]
        own += [(1, (place % 3, 1, "x", 80 + place, value)) for place in range(late)]
        without, with_it = both(usual, own, "csv", what, options)
        moved = np.abs(with_it.changes - without.changes).reshape(6, -1).sum(axis=0)
        assert with_it.contribution is not None
        l1, l2_squared = claimed(with_it.contribution, len(moved))
        assert moved.sum() <= l1 + 1e-6
        assert (moved**2).sum() <= l2_squared * (1 + 1e-9)
        largest = max(largest, moved.sum() / l1)
        wide = max(wide, (moved**2).sum() / l2_squared)
    assert largest == pytest.approx(1)
    assert wide == pytest.approx(1) or "by" in more


@pytest.mark.parametrize("clipped", [0, 3])
def test_intervals_of_the_share_hold(clipped: int) -> None:
    """Of 150 streams; and intervals of 60% of their width would not hold so often."""
    report = Report(
        {"paid": Sum(0, 60, resolution=1), "left out": ShareLeftOut(0, 60)},
        columns={"paid": "paid", "left out": "paid"}, shares={"paid": 0.5, "left out": 0.5},
    )  # fmt: skip
    rows = [{"paid": 90}] * clipped + [{"paid": 20}] * (60 - clipped)
    held = narrow = 0
    for number in range(150):
        key = chosen_key(number.to_bytes(32))
        counter = Running.start(report, 1, PureDP(1), key=key, name="r", batched=True)
        reading: Any = counter.release_batch(rows)
        share = reading.of("left out").number_of("share")
        (low, high), at = share.interval(0.95), float(share.value)
        held += low <= clipped / 60 <= high
        narrow += at - (at - low) * 0.6 <= clipped / 60 <= at + (high - at) * 0.6
    assert held >= 0.93 * 150
    if clipped:
        assert narrow < 0.93 * 150


def test_readers_see_the_share_and_what_is_in_none(tmp_path: Path) -> None:
    """In the table, the methods, the account, a file that is read, and the page of a service."""
    rows = [{"at": f"2024-03-01T{9 + row:02}:00", "who": who} for who in "abc" for row in range(6)]
    out, state = tmp_path / "t.csv", tmp_path / "s.db"
    options: dict[str, Any] = {
        "time": "at", "every": "1d", "start": "2024-03-01", "steps": 6, "user": "who", "most": 2,
        "measure_most": 5, "measure_left_out": "0.5", "yes": True, "state": state,
        "guarantee": PureDP(10**7),
    }  # fmt: skip
    found = release("count", pl.DataFrame(rows), until="2024-03-02", out=out, **options)
    share = "bounds leave out an estimated 60% of the rows (60% to 60%, with probability 95%; 1 "
    beyond = "left out: rows beyond 5 of each user are in no share"
    own = "count: rows beyond 2 of each user do not count, which makes numbers too low"
    told = [str(found), str(methods(state)), str(read(out)), found.describe()]
    with Store(state) as store:
        page = Journal(store, recall(Job("count", "-", state))).describe()
    told.append(str(page["besides_noise"]))
    for words in told:
        assert re.search(re.escape(share), words, re.IGNORECASE)
        assert beyond in words
        assert own in words
    numbers = found.table().select("statistic", "name", "estimate").rows()
    assert [round(one, 3) for *_, one in numbers] == [6, 0.6, 9]
    assert "(in count only the first 2)" in found.describe()
    later = release("count", pl.DataFrame(rows), until="2024-03-03", append=True, **options)
    assert later.steps == range(1, 3)


@pytest.mark.parametrize(
    ("steps", "form", "family"),
    [(30, "totals", "laplace"), (3000, "windows", "laplace"), (3000, "totals", "gaussian")],
)
def test_the_stated_share_is_spent_in_the_norm_of_the_noise(
    steps: int, form: Any, family: str, tmp_path: Path
) -> None:
    rows = pl.DataFrame({"at": ["2024-03-01T09:00"], "who": ["a"]})
    definition = define(
        Job(
            "count", rows, tmp_path / "s.db", time="at", every="1d", start="2024-03-01",
            steps=steps, user="who", most=2, measure_left_out="0.1", release=form,
            epsilon=1, delta="1e-6",
        )
    )  # fmt: skip
    assert design_of(definition, definition.shape).family == family
    shares = budget_shares(definition.statistic, 1 if family == "laplace" else 2)
    assert float(shares["left out"]) == pytest.approx(0.1, rel=1e-2)


@pytest.mark.parametrize(
    ("what", "more", "why"),
    [
        ("count", {"user": None, "most": None}, "needs a bound that leaves rows out"),
        ("count", {"measure_left_out": 1}, "above 0 and below 1"),
        ("count", {"measure_most": 2}, "measure_most=2 must be above most=2"),
        ("count", {"measure_left_out": None, "measure_most": 4}, "needs measure_left_out"),
        ("count", {"distinct": True}, "which bounds the rows of users in another way"),
        ("count", {"within": 20, "epsilon": None}, "which divides a stated epsilon"),
        ("count", {"by": "page", "unknown": "discover", "domain": None}, "must be declared"),
        ("count", {"expire": True, "steps": None}, "stated by ages"),
        ("average", {**VALUES, "number": 3}, "whether a row is present"),
        ("top-k", {}, "is for count, sum and average"),
        ("report", {"statistics": {"left": {"statistic": "left-out", "most": 2}}}, "is for count"),
        (
            "sum",
            {**VALUES, "resolution": None},
            "'sum' of the report, a statistic (sum), needs res",
        ),
        ("average", {**VALUES, "value": None}, "a statistic (average), needs value"),
    ],
)
def test_what_cannot_be_measured_is_refused_by_name(
    what: str, more: dict[str, Any], why: str, tmp_path: Path
) -> None:
    options: dict[str, Any] = {
        "time": "at", "every": "1d", "start": "2024-03-01", "steps": 6, "user": "who", "most": 2,
        "epsilon": 1, "measure_left_out": 0.1, **more,
    }  # fmt: skip
    with pytest.raises(InvalidInput, match=re.escape(why)):
        run(Job(what, pl.DataFrame({"at": [], "who": []}), str(tmp_path / "s.db"), **options))


@pytest.mark.parametrize(
    ("what", "own"), [("count", {}), ("sum", VALUES), ("average", VALUES)], ids=str
)
def test_a_later_run_need_not_say_that_it_measures(
    what: str, own: dict[str, Any], tmp_path: Path
) -> None:
    times = [f"2024-03-0{day}T09:00" for day in (1, 2) for _ in range(9)]
    rows = pl.DataFrame({"at": times, "who": ["a", "b", "c"] * 6, "value": [1, 9, 4] * 6})
    state = str(tmp_path / "s.db")
    again = Job(what, rows, state, until="2024-03-03")
    begun = again.having(
        until="2024-03-02", time="at", every="1d", start="2024-03-01", steps=6, user="who", most=2,
        epsilon=9, measure_left_out=0.5, **own,
    )  # fmt: skip
    with run(begun) as first:
        assert first.after == 1
    with run(again) as later:
        assert later.after == 2
        assert set(later.read().numbers.table()["statistic"]) == {what, "left out"}
    other = "sum" if what == "count" else "count"
    for wrong in (again.having(what=other), again.having(what="top-k", domain=["a"])):
        with pytest.raises(RequestMismatch, match="is a 'report' and cannot be continued as a"):
            run(wrong)


@pytest.mark.parametrize(
    ("statistics", "why"),
    [
        ({"n": {"most": 2}, "left": {"statistic": "left-out", "most": 3}}, "must be below most=3"),
        ({"n": {"most": 4}}, "must be at most most=3"),
    ],
)
def test_bounds_of_a_reports_statistics_are_below_its_own(
    statistics: dict[str, Any], why: str, tmp_path: Path
) -> None:
    job = Job(
        "report", pl.DataFrame({"at": [], "who": []}), str(tmp_path / "s.db"), time="at",
        every="1d", start="2024-03-01", steps=6, user="who", most=3, epsilon=1,
        statistics=statistics,
    )  # fmt: skip
    with pytest.raises(InvalidInput, match=re.escape(why)):
        run(job)
    with pytest.raises(InvalidInput, match="counts users, or the first rows of each, needs user"):
        run(job.having(user=None, most=None))
