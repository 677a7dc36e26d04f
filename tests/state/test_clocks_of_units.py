"""A period of a user has one clock: what a ledger adds up bounds what one unit can move."""

import itertools
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import polars as pl
import pytest
from numpy.typing import NDArray

from counton import PureDP
from counton.base.errors import BudgetExceededError, InvalidInputError
from counton.privacy import Ledger
from counton.privacy.contribution import canonical_unit, with_clock, without_clock
from counton.privacy.contribution_rules import UserLevel
from counton.run import Job, run
from counton.state import Store, verify
from counton.state.ledger_rows import unit_name_in_ledger
from counton.windowing.periods import period_of
from counton.windowing.windows import microseconds

ZONES = ("UTC", "Asia/Kolkata", "America/New_York")
#: A UTC day meets two of Kolkata in these; so does a month, and one of New York.
MOMENTS = [datetime(2024, 2, 29, 1, tzinfo=UTC) + timedelta(hours=11 * k) for k in range(5)]
#: Rows of one reader: when each was by either column. Some were on two days.
ROWS = [(k, k) for k in range(5)] + [(0, 1), (1, 3), (2, 4), (4, 1)]
LOGS = [log for size in (1, 2, 3) for log in itertools.combinations(range(len(ROWS)), size)]
_US = pl.DataFrame({"us": list(map(microseconds, MOMENTS))})


class Clock(NamedTuple):
    """Whose rows are together: a reader's of one period, by a zone and a column; or all."""

    zone: str
    column: int
    per: str | None

    @property
    def unit(self) -> str:
        asked = {"timezone": self.zone, "time": "ab"[self.column], "contribution_period": self.per}
        return unit_name_in_ledger(UserLevel(1, self.per).protected_unit("reader"), asked)


@cache
def numbers(clock: Clock) -> list[int]:
    """The period of each row."""
    found = _US.select(period_of(pl.col("us"), clock.per, clock.zone))["us"].to_list()
    return [found[row[clock.column]] for row in ROWS]


@cache
def counted(clock: Clock, most: int, log: tuple[int, ...]) -> set[int]:
    """Rows that count in a stream: the first of each period of the reader."""
    number = numbers(clock)
    room = dict.fromkeys(number, most)
    kept = set()
    for row in sorted(log, key=lambda one: (ROWS[one][clock.column], one)):
        if room[number[row]] > 0:
            room[number[row]] -= 1
            kept.add(row)
    return kept


def moves(subject: Clock, stream: Clock, most: int) -> NDArray[np.float64]:
    """How far a stream moves for each log and unit of a subject, as parts of what it promises."""
    number = numbers(subject)
    found = []
    for log in LOGS:
        whole = counted(stream, most, log)
        for period in sorted(set(number)):
            rest = counted(stream, most, tuple(row for row in log if number[row] != period))
            found.append(len(whole ^ rest) / most)
    return np.array(found)


CLOCKS = [Clock(zone, column, per) for zone in ZONES for column in (0, 1) for per in ("1d", "1mo")]
SUBJECTS = [*CLOCKS, Clock("UTC", 0, None)]
STREAMS = [(clock, most) for clock in [*SUBJECTS, Clock("UTC", 1, None)] for most in (1, 2)]


def losses(words: Callable[[str], str]) -> dict[Clock, tuple[float, float]]:
    """By the subject of a budget: what its ledger adds up to, and what one unit loses at most.

    All streams that the ledger takes are released together, each with epsilon = 1.
    """
    found = {}
    for subject in SUBJECTS:
        ledger = Ledger(PureDP(100), unit=words(subject.unit))
        lost = np.zeros(1)
        # The first one says by which clock the subject is.
        for number, (clock, most) in enumerate([(subject, 1), *STREAMS]):
            try:
                ledger.spend(f"stream {number}", PureDP(1), unit=words(clock.unit))
            except InvalidInputError:
                continue
            lost = lost + moves(subject, clock, most)
        cost = ledger.cost()
        assert isinstance(cost, PureDP)
        found[subject] = float(cost.epsilon), float(lost.max())
    return found


def test_ledger_total_bounds_loss_of_each_unit() -> None:
    """Over zones, months and columns of times."""
    found = losses(str)
    assert all(lost <= spent for spent, lost in found.values()), found
    # What a stream of the unit itself costs is what one unit loses there.
    assert all(moves(subject, subject, 1).max() == 1 for subject in SUBJECTS)


def test_ledger_without_timezones_underestimates_loss() -> None:
    found = losses(without_clock)
    timed = [subject for subject in SUBJECTS if subject.per == "1d"]
    assert all(found[subject][1] > found[subject][0] for subject in timed), found


def test_time_columns_are_distinguished_by_exact_name() -> None:
    """Columns may differ in capitals alone, or in signs that look alike, or hold any sign."""
    columns = ["time", "Time", "TIME", "ti me", "ti  me", "time)", "a, b", "\ufb01", "fi", "x\ny"]
    columns += ['"a, b"', "é", "e\u0301", "(UTC, time)", "'s day"]
    units = [with_clock("reader's day", "UTC", column) for column in columns]
    for one, other in itertools.product(units, units):
        assert (canonical_unit(one, [other]) == other) == (one == other)
        assert without_clock(one) == "reader's day"
    assert len(set(units)) == len(columns)
    assert canonical_unit("READER's Day (UTC, time)", units) == units[0]


EVENTS = ["time,paid,who", "2024-03-01T09:00,2024-03-02T08:00,ann"]
EVENTS += ["2024-03-02T10:00,2024-03-02T11:00,bob"]
OTHER_CLOCKS: list[dict[str, Any]] = [
    {"timezone": "Asia/Kolkata", "start": "2024-03-01"},
    {"time": "paid"},
]


@pytest.fixture
def events(tmp_path: Path) -> Path:
    file = tmp_path / "visits.csv"
    file.write_text("\n".join(EVENTS))
    return file


def count(events: Path, name: str, epsilon: str = "0.5", **more: Any) -> str:
    asked: dict[str, Any] = {"time": "time", "every": "1d", "start": "2024-03-01", "windows": 30}
    asked |= {
        "until": "2024-03-02T20:00Z",
        "user": "who",
        "max_contributions": 1,
        "contribution_period": "1d",
        "privacy_unit": "reader",
    }
    asked |= {"epsilon": epsilon, "stream": name, **more}
    with run(Job("count", events, events.with_name("state.db"), **asked)) as outcome:
        return outcome.spec.metadata().privacy_unit


@pytest.mark.parametrize("other", OTHER_CLOCKS, ids=["zone", "column"])
@pytest.mark.parametrize("per", ["1d", "1mo"])
def test_budget_for_period_holds_for_one_timezone(
    per: str, other: dict[str, Any], events: Path
) -> None:
    state = events.with_name("state.db")
    word = UserLevel(1, per).protected_unit("reader")
    with Store(state, create=True) as store:
        store.set_budget(PureDP(1), unit=word)
    more: dict[str, Any] = {"contribution_period": per}
    assert count(events, "first", **more) == word
    refused = f"'second' protects one {word} .*about one {word} .UTC, time.: that is a period by an"
    with pytest.raises(InvalidInputError, match=refused):
        count(events, "second", **more, **other)
    with Store(state) as store:
        assert store.ledger is not None
        assert store.ledger.unit == f"{word} (UTC, time)"
        assert store.ledger.cost() == PureDP("0.5")
    count(events, "third", **more)
    with pytest.raises(BudgetExceededError, match="nothing is left"):
        count(events, "fourth", **more)
    (found,) = verify(state, "first")
    assert not found.problems


def test_without_a_subject_periods_by_two_clocks_have_two_totals(events: Path) -> None:
    count(events, "first")
    count(events, "second", **OTHER_CLOCKS[0])
    with Store(events.with_name("state.db")) as store:
        assert list(store.totals) == [
            "reader's day (UTC, time)",
            "reader's day (Asia/Kolkata, time)",
        ]
        with pytest.raises(InvalidInputError, match="that is a period by another clock"):
            store.set_budget(PureDP(5), unit="reader's day")
