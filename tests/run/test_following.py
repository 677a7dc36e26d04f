"""A stream that follows another: who counts in one of the two alone, and what the ledger counts."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from fractions import Fraction
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from otherwise import OTHERWISE

from counton import Contribution, PureDP
from counton.base.errors import BudgetExceeded, CountonError, InvalidInput
from counton.job.job import options_of
from counton.run import Job, run
from counton.run.definition import Definition
from counton.state import Store, Stream
from counton.strategies import Binary

DAY = "2013-01-01T"
#: Enough that noise is 0 almost surely: releases are exact sums.
LOUD = Fraction(1000)


class Row(NamedTuple):
    """A row of a unit: its times in two columns, its id, and the files that bring it."""

    at: str
    paid: str
    id: str
    files: tuple[int, ...] = (0, 1)  # the first is read by the first stream, the other by the next


def row(at: str, *, paid: str = "", id: str = "i", files: tuple[int, ...] = (0, 1)) -> Row:
    day = at if "T" in at or "/" in at else DAY + at
    return Row(day, paid or day, id, files)


OTHERS = [
    *(row(at, id=f"o{at}") for at in ("00:10", "01:20", "02:30", "03:40", "04:50", "05:15")),
    *(row(f"2013-01-0{day}T12:00", id=f"d{day}") for day in range(2, 7)),
]
#: What one event may do: anywhere, on both sides of the cut, late, written with another offset.
EVENTS = [
    *([row(at)] for at in ("02:59:59.999999", "03:00")),
    [row("01:00", files=(1,))],
    [row(f"{DAY}03:30:00+01:00")],
    [row(f"{DAY}02:30:00-01:00")],
]
HOURS: dict[str, Any] = {"every": "1h", "start": "2013-01-01", "steps": 3, "until": f"{DAY}03:00"}
DAYS: dict[str, Any] = {"every": "1d", "start": "2013-01-01", "steps": 3, "until": "2013-01-04"}
NEXT_HOURS: dict[str, Any] = {"until": f"{DAY}06:00"}
A_USER = {"user": "user", "most": 2}
TWICE = [[row("02:00"), row("04:00", id="j")], [row("02:59"), row("03:01", id="j")]]
A_DAY = {**A_USER, "per": "1d"}
#: Days of one person: in one day, several rows, one of them late.
OF_DAYS = [
    [row(f"2013-01-0{day}T0{hour}:00", id=f"{day}{hour}") for hour in (0, 7)] for day in (3, 4)
] + [[row("2013-01-03T23:59"), row("2013-01-03T01:00", files=(1,), id="late")]]


def streams(
    folder: Path, unit: Sequence[Row], first: dict[str, Any], then: dict[str, Any]
) -> tuple[list[Any], bool]:
    """What two streams release, one after the other, and whether no unit is said to be in both."""
    released = []
    for number, more in enumerate((first, {"continues": "events", "name": "next", **then})):
        # Of new events the first has one row: a first run without a row in a window is refused.
        early = (
            (DAY + "00:30" if number == 0 else "", DAY + "03") if more.get("append") else ("", "")
        )
        rows = [("o", *one) for one in OTHERS if not early[0] <= one.at < early[1]]
        rows += [("u", *one) for one in unit if number in one.files]
        lines = [f"{user},{at},{paid},{id}\n" for user, at, paid, id, _ in rows]
        events = folder / "events.csv"
        events.write_text("user,time,paid,id\n" + "".join(lines))
        stated = {"epsilon": LOUD, "time": "time"} if number == 0 else {}
        with run(Job("count", events, folder / "state.db", **{**stated, **more})) as outcome:
            released.append(outcome.read().numbers.own.estimates.tolist())
            definition = outcome.definition
    assert definition.course.continues is not None
    return released, definition.course.continues.apart


CASES: dict[str, tuple[dict[str, Any], dict[str, Any], list[list[Row]], bool]] = {
    "events": (HOURS, NEXT_HOURS, EVENTS, True),
    "only new events": (
        {**HOURS, "append": True},
        {**NEXT_HOURS, "append": True, "yes": True},
        [[row("02:30")], [row("03:30")], [row("02:59", files=(1,))]],
        True,
    ),
    "days of people": (
        {**DAYS, **A_DAY},
        {"until": "2013-01-06"},
        OF_DAYS,
        True,
    ),
    "people": ({**HOURS, **A_USER}, NEXT_HOURS, TWICE, False),
    "days that the cut parts": ({**HOURS, **A_DAY}, NEXT_HOURS, TWICE, False),
    "days, then people": (
        {**DAYS, **A_DAY},
        {"until": "2013-01-06", "user": "user", "most": 2},
        [[row("2013-01-03T01:00"), row("2013-01-04T01:00", id="j")]],
        False,
    ),
    "ids": (
        {**HOURS, "id": "id"},
        NEXT_HOURS,
        [[row("01:00", files=(0,)), row("04:00", files=(1,))]],
        False,
    ),
    "another column of times": (
        HOURS,
        {**NEXT_HOURS, "time": "paid"},
        [[row("01:00", paid=f"{DAY}04:00")]],
        False,
    ),
    "another time zone": (
        HOURS,
        {"timezone": "America/New_York", "until": f"{DAY}06:00+00:00"},
        [[row("00:30")]],
        False,
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_a_unit_counts_in_one_of_them_alone_wherever_that_is_said(
    case: str, tmp_path: Path
) -> None:
    """And where it is not said, some unit is in both, so that saying it would be wrong."""
    first, then, units, expected = CASES[case]
    folders = iter([tmp_path / f"{number}" for number in range(len(units) + 1)])

    def both(unit: Sequence[Row]) -> tuple[list[Any], bool]:
        folder = next(folders)
        folder.mkdir()
        return streams(folder, unit, first, then)

    without, said = both([])
    assert said is expected
    moved = []
    for unit in units:
        released, again = both(unit)
        assert again is said  # whether it is said hangs on no row
        moved.append(sum(a != b for a, b in zip(released, without, strict=True)))
    assert max(moved) == (1 if expected else 2)


def test_of_two_that_go_on_from_one_end_one_alone_is_free(tmp_path: Path) -> None:
    """Both count the same rows."""
    assert streams(tmp_path, [], HOURS, NEXT_HOURS)[1]
    events, state = tmp_path / "events.csv", tmp_path / "state.db"
    other = Job("count", events, state, continues="events", name="other", **NEXT_HOURS)
    with run(other) as outcome:
        assert outcome.definition.course.continues is not None
        assert not outcome.definition.course.continues.apart
    third = Job("count", events, state, continues="next", name="third", until=f"{DAY}07:00")
    with run(third.having(epsilon=2000)) as outcome:
        assert outcome.definition.course.continues is not None
        assert outcome.definition.course.continues.apart
    with Store(state) as store:
        assert [spend.follows for spend in store.spends] == [None, "events", None, "next"]
        store.set_limit(PureDP(3000))  # 2,000 of three in a row, 1,000 of the other
        assert store.ledger is not None
        assert store.ledger.remaining() is None
        with pytest.raises(BudgetExceeded):
            store.set_limit(PureDP(2999))


@pytest.mark.parametrize(
    "then",
    [
        {"epsilon": None, "rho": Fraction(1, 2)},
        {"unit": "visit"},
        {"ledger": "team.db"},
        {"time_format": "%Y-%m-%dT%H:%M"},
        {"clock_change": "latest"},
    ],
)
def test_what_cannot_be_compared_adds_up(then: dict[str, Any], tmp_path: Path) -> None:
    if "ledger" in then:
        then = {"ledger": tmp_path / "team.db"}
        with Store(then["ledger"], create=True) as store:
            store.set_limit(PureDP(2000))
    first = {**HOURS, **({"unit": "row"} if "unit" in then else {})}
    assert not streams(tmp_path, [], first, {**NEXT_HOURS, **then})[1]
    with Store(tmp_path / "state.db") as store:
        assert [spend.follows for spend in store.spends] == [None, None]
    if "ledger" in then:
        with Store(then["ledger"]) as store:
            assert store.ledger is not None
            assert store.ledger.remaining() is None


def test_a_stream_that_ended_early_adds_up(tmp_path: Path) -> None:
    """An older copy of its state may have gone on with it, over the same rows."""
    early = {**HOURS, "steps": 4}
    assert not streams(tmp_path, [], early, {"until": f"{DAY}04:00"})[1]


def test_times_are_read_as_they_were_when_it_began(tmp_path: Path) -> None:
    assert streams(tmp_path, [], HOURS, {"until": f"{DAY}05:00"})[1]
    again = Job("count", tmp_path / "events.csv", tmp_path / "state.db", name="next")
    again = again.having(until=f"{DAY}06:00")
    with pytest.raises(InvalidInput, match="changes how times are read"):
        run(again.having(clock_change="latest"))
    run(again).close()


def test_units_of_several_steps_follow_nothing(tmp_path: Path) -> None:
    """They could be in both streams, whichever of the two says that they are in several."""
    one, several = Contribution.add_remove(), Contribution.add_remove(steps=2)
    for number, (first, second) in enumerate(((one, several), (several, one), (several, several))):
        state = tmp_path / f"{number}.db"
        with Stream.create(state, "a", Binary(1), PureDP(1), contribution=first) as stream:
            stream.release(1)
        with pytest.raises(InvalidInput, match="may change several steps"):
            Stream.create(state, "b", Binary(1), PureDP(1), contribution=second, follows="a")
        with Store(state) as store:
            assert [spend.name for spend in store.spends] == ["a"]
        Stream.create(state, "b", Binary(1), PureDP(1), contribution=second).close()
        with Store(state) as store:
            assert [spend.follows for spend in store.spends] == [None, None]


def test_a_program_follows_what_is_over_alone(tmp_path: Path) -> None:
    state, loss = tmp_path / "s.db", PureDP("0.6")
    with Store(state, create=True) as store:
        store.set_limit(PureDP(1))
    with Stream.create(state, "a", Binary(2), loss) as stream:
        stream.release(1)
        with pytest.raises(InvalidInput, match="'a' has not released the last of its steps"):
            Stream.create(state, "b", Binary(2), loss, follows="a")
        with pytest.raises(BudgetExceeded):
            Stream.create(state, "b", Binary(2), loss)
        stream.release(1)
    with pytest.raises(
        BudgetExceeded, match="give at most the guarantee of 'a', which costs nothing more"
    ):
        Stream.create(state, "b", Binary(2), PureDP("1.1"), follows="a")
    Stream.create(state, "b", Binary(2), PureDP("0.7"), follows="a").close()
    with pytest.raises(InvalidInput, match="'b' follows 'a' already, and both count the same"):
        Stream.create(state, "c", Binary(2), PureDP("0.1"), follows="a")
    with Store(state) as store:
        assert store.ledger is not None
        assert store.ledger.remaining() == PureDP("0.3")
        assert store.summary()["ledger"][1]["follows"] == "a"


BERLIN: dict[str, Any] = {
    "epsilon": LOUD,
    "time": "time",
    "every": "1h",
    "start": "2013-10-27",
    "steps": 3,
    "timezone": "Europe/Berlin",
    "clock_change": "earliest",
    "append": True,
    "yes": True,
}
#: Before the clocks' second time around, at 01:00Z, as these runs begin to read it; and after it as
#: they may go on: a time that comes twice, one with hour and minute for each other, and another.
TWICE_READ = [
    row("2013-10-27T02:20"),
    row("2013-10-27T01:04"),
    row("2013-10-27T01:11", paid="2013-10-27T03:20"),
]
PATIENT = [row(f"2013-10-27T0{hour}:0{hour}", id=f"p{hour}") for hour in (0, 1, 3, 4)]


#: By when rows are read otherwise: how many of the four runs come before.
READ_ALIKE = {"both": 1, "first": 1, "next": 3}


def berlin(folder: Path, units: Sequence[Row], when: str) -> list[int]:
    """As `streams`, the runs before rows are read otherwise; `go_on_in_berlin` has the others.

    Args:
        folder: that is not there.
        units: of one row each; the first comes five times, the next 25 times, and so on, each time
            as somebody else: digits of a total say how many rows of which it counts.
        when: from the first stream's last run on, in that alone, or from the next one's last on.

    Returns:
        What each run released.
    """
    folder.mkdir()
    rows = [("o", *one) for one in PATIENT]
    for number, one in enumerate(units):
        names = [f"u{number}-{copy}" for copy in range(5 ** (number + 1))]
        rows += [(name, *one._replace(id=name)) for name in names]
    (folder / "events.csv").write_text(
        "user,time,paid,id\n"
        + "".join(f"{user},{at},{paid},{id}\n" for user, at, paid, id, _ in rows)
    )
    (folder / "nothing.csv").write_text("user,time,paid,id\n")
    return released_by(runs_of_berlin(folder, {}, when)[: READ_ALIKE[when]])[0]


def go_on_in_berlin(
    folder: Path, more: dict[str, Any], when: str, released: Sequence[int]
) -> tuple[list[int], bool]:
    """The last of the four runs, which read rows as ``more`` says.

    Returns:
        The total of each stream, and whether no unit is said to be in both.
    """
    later, definition = released_by(runs_of_berlin(folder, more, when)[READ_ALIKE[when] :])
    released = [*released, *later]
    assert definition.course.continues is not None
    return [released[1], released[3]], definition.course.continues.apart


def runs_of_berlin(folder: Path, more: dict[str, Any], when: str) -> list[Job]:
    """Two of the first stream, and two of the next."""
    events, nothing, state = (folder / name for name in ("events.csv", "nothing.csv", "state.db"))
    again: dict[str, Any] = {name: BERLIN[name] for name in ("append", "yes")}
    other = {**again, **({} if when == "next" else more)}
    next_one = {**again, "clock_change": "earliest", **(more if when == "both" else {})}
    next_one.pop("rename", None)  # a stream that begins takes the name that there is
    return [
        Job("count", events, state, **BERLIN, until="2013-10-27T00:00+00:00"),
        Job("count", nothing, state, **{**other, "until": "2013-10-27T01:00+00:00"}),
        Job(
            "count", nothing, state, name="next", continues="events",
            **{**next_one, "until": "2013-10-27T02:00+00:00"},
        ),
        Job(
            "count", events, state, name="next",
            **{**again, **({} if when == "first" else more), "until": "2013-10-27T04:00+00:00"},
        ),
    ]  # fmt: skip


def released_by(jobs: Sequence[Job]) -> tuple[list[int], Definition]:
    """The newest total after each run, and what the last one's stream is."""
    released = []
    for job in jobs:
        with run(job) as outcome:
            released.append(round(outcome.read().numbers.own.estimates[-1, 0]))
            definition = outcome.definition
    return released, definition


def rows_of_units(totals: Sequence[int]) -> list[int]:
    """How many rows of each unit of `TWICE_READ` the totals of `berlin` count, of all streams."""
    found = [0] * len(TWICE_READ)
    for total in totals:
        more, others = divmod(total, 5)
        assert others <= len(PATIENT) < 5
        for number in range(len(found)):
            more, digit = divmod(more, 5)
            found[number] += digit
        assert more == 0, totals
    return found


@pytest.mark.parametrize(
    "more",
    [
        {"time_format": "%Y-%m-%dT%M:%H"},
        {"clock_change": "latest"},
        {"rename": "time=paid"},
    ],
)
def test_where_times_were_ever_read_otherwise_both_count(
    more: dict[str, Any], tmp_path: Path
) -> None:
    alike, otherwise = tmp_path / "alike", tmp_path / "otherwise"
    assert go_on_in_berlin(alike, {}, "both", berlin(alike, [], "both"))[1]
    before = berlin(otherwise, TWICE_READ, "both")
    totals, said = go_on_in_berlin(otherwise, more, "both", before)
    assert not said
    assert max(rows_of_units(totals)) == 2  # so that to count one of them would be wrong


@pytest.mark.slow
@pytest.mark.parametrize("when", ["both", "first", "next"])
def test_whatever_a_later_run_says_the_ledger_counts_each_stream_that_a_unit_is_in(
    when: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every option of a job is tried; it is refused, or both are counted, or one alone moves."""
    assert set(OTHERWISE) == set(options_of(Job))
    begun = tmp_path / "begun"
    monkeypatch.setenv("XDG_STATE_HOME", "/dev/null")  # a copy has its own second witness
    before = berlin(begun, TWICE_READ, when)
    tried = dict[str, str]()
    for name, value in {**OTHERWISE, "nothing": None}.items():
        if value is None and name != "nothing":
            continue
        given = {} if name == "nothing" else {name: value}
        if isinstance(value, str) and value.endswith((".db", ".key", ".csv", ".png")):
            start, colon, file = value.rpartition(":")
            given = {name: f"{start}{colon}{tmp_path / file}"}
        folder = tmp_path / f"{name} "
        shutil.copytree(begun, folder)
        monkeypatch.setenv("XDG_STATE_HOME", str(folder / "home"))
        try:
            totals, said = go_on_in_berlin(folder, given, when, before)
        except CountonError:
            tried[name] = "refused"
            continue
        tried[name] = "one counts" if said else "both count"
        assert not said or rows_of_units(totals) == [1, 1, 1], name
    assert tried["nothing"] == "one counts"
    reading = {tried[name] for name in ("time_format", "clock_change", "rename")}
    assert reading == {"refused" if when == "next" else "both count"}
    assert len([name for name, end in tried.items() if end != "refused"]) > 9
