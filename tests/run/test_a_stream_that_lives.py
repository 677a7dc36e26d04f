"""Groups unforeseen, spare groups that are named later, columns that are called otherwise."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest

from counton.base.errors import InvalidInput, StateError
from counton.run import Job, run
from counton.state import state_summary

ROWS = ["00:10,a,u", "00:20,x,u", "01:10,b,v", "01:20,y,v", "02:10,x,u", "02:20,,v"]


@pytest.fixture
def request_(tmp_path: Path) -> Job:
    write(tmp_path / "e.csv", ROWS)
    return Job(
        what="count",
        events=tmp_path / "e.csv",
        state=tmp_path / "state.db",
        time="time",
        every="1h",
        by="group",
        domain="a,b",
        start="2013-01-01",
        steps=12,
        epsilon=Fraction(1000),  # noise that is 0 almost surely
    )


def write(path: Path, rows: Sequence[str], header: str = "time,group,user") -> None:
    lines = "".join(f"2013-01-01T{row}\n" for row in rows)
    path.write_text(f"{header}\n{lines}")


def totals(request: Job) -> tuple[tuple[str, ...], list[list[int]]]:
    with run(request) as outcome:
        released = outcome.read()
        assert set(released.table()["group"]) == set(outcome.definition.groups)
        return tuple(outcome.definition.groups), released.numbers.series.estimates.tolist()


def later(request: Job, hour: int, **more: object) -> Job:
    """A later run, which states nothing anew."""
    until = f"2013-01-01T{hour:02}:00"
    return Job("count", request.events, request.keeping.state, until=until, **more)  # type: ignore[arg-type]


def test_groups_unforeseen_are_counted_in_one_group(request_: Job) -> None:
    other = request_.having(other="rest", until="2013-01-01T03:00")
    expected = ("a", "b", "rest"), [[1, 0, 1], [1, 1, 2], [1, 1, 4]]
    assert totals(other) == expected
    assert totals(other.having(domain=["a", "b"])) == expected
    assert totals(later(request_, 3)) == expected
    for wrong, words in (
        ({"other": "others"}, "other is others, but stream 'count' was created with rest"),
        ({"domain": "a"}, r"domain is 1 groups \(a\), but"),
        ({"spare": 1}, "spare is 1, but stream 'count' was created with 0"),
    ):
        with pytest.raises(StateError, match=words):
            run(other.having(**wrong))


def test_users_are_bounded_by_the_groups_they_count_in(request_: Job) -> None:
    """Rows are put into their cells first, so that two unknown groups are one."""
    write(Path(str(request_.events)), ["00:10,x,u", "00:20,y,u", "00:30,z,v", "01:00,a,u"])
    first = request_.having(other="rest", user="user", first=True, most=2, until="newest")
    assert totals(first) == (("a", "b", "rest"), [[0, 0, 2]])


def test_spare_groups_are_not_shown_until_they_are_named(request_: Job) -> None:
    spare = request_.having(spare=2, unknown="drop", until="2013-01-01T02:00")
    groups, found = totals(spare)
    assert (groups, found) == (("a", "b"), [[1, 0], [1, 1]])
    named = later(request_, 3, unknown="drop", also="x")
    groups, found = totals(named)
    assert groups == ("a", "b", "x")
    assert found == [[1, 0, 0], [1, 1, 0], [1, 1, 1]]  # windows of before are closed
    assert totals(named) == (groups, found)  # typed again
    assert totals(spare.having(until=named.times.until, domain=["a", "b", "x"])) == (groups, found)
    with pytest.raises(InvalidInput, match="adds 2 groups, but stream 'count' has room for 1 more"):
        run(later(request_, 4, also=["x", "y", "z"], unknown="drop"))
    details = state_summary(request_.keeping.state)["streams"][0]["details"]
    assert (details["named"], details["record"]["spare"]) == ([["x", 3]], 2)  # as created


def test_a_refused_run_names_no_group(request_: Job) -> None:
    run(request_.having(spare=2, unknown="drop", until="2013-01-01T02:00")).close()
    before = state_summary(request_.keeping.state)["streams"]
    write(Path(str(request_.events)), ["when,a,u"])
    with pytest.raises(InvalidInput, match="cannot be read"):
        run(later(request_, 3, unknown="drop", also="x"))
    assert state_summary(request_.keeping.state)["streams"] == before


def test_a_group_that_leaves_the_others_leaves_them_from_the_next_window_on(
    request_: Job, tmp_path: Path
) -> None:
    spare = request_.having(other="rest", spare=1, until="2013-01-01T02:00")
    assert totals(spare)[1] == [[1, 0, 1], [1, 1, 2]]
    late = tmp_path / "late.csv"
    write(late, ["00:50,x,w"])  # a late row of x belongs to the others
    groups, found = totals(later(request_, 3, also="x", append=True).having(events=late))
    assert groups == ("a", "b", "rest", "x")
    assert found[1:] == [[1, 1, 2, 0], [1, 1, 5, 0]]  # window 3 had begun
    write(late, ["02:50,x,w", "03:00,x,w", "03:10,z,w"])
    last = later(request_, 4, append=True).having(events=late)
    assert totals(last)[1][-1] == [1, 1, 7, 1]
    details = state_summary(request_.keeping.state)["streams"][0]["details"]
    assert details["named"] == [["x", 4]]


@pytest.mark.parametrize("append", [False, True])
@pytest.mark.parametrize("of", ["rows", "ids", "users", "users first", "users and ids"])
@pytest.mark.parametrize("watermark", [None, "90m"])
def test_whatever_the_rows_have_a_named_group_takes_the_same_of_them(
    request_: Job, tmp_path: Path, append: bool, of: str, watermark: str | None
) -> None:
    """Which window it begins with does not hang on what was read, or how."""
    late = 0 if watermark is None else 90
    nights = [  # each with the time of its run
        (150, ["00:10,a,t,1", "02:10,x,u,2", "02:20,z,v,3"]),
        (190, ["02:40,x,w,4", "03:05,x,k,5", "02:50,z,l,6"]),
        (400, ["00:30,x,m,7", "03:30,x,n,8", "04:50,x,o,9", "05:10,z,p,10", "06:20,x,q,11"]),
    ]
    more: dict[str, Any] = {"id": "row"} if "ids" in of else {}
    if "users" in of:
        more |= {"user": "user", "most": 1, "first": "first" in of, "unit": "user"}
    asked = request_.having(other="rest", spare=1, watermark=watermark, append=append, **more)
    rows: list[str] = []
    for number, (minute, new) in enumerate(nights):
        rows = new if append else rows + new
        write(tmp_path / f"{number}.csv", rows, "time,group,user,row")
        hour, minute = divmod(minute + late, 60)
        until, also = f"2013-01-01T{hour:02}:{minute:02}", "x" if number else None
        groups, found = totals(
            asked.having(events=tmp_path / f"{number}.csv", until=until, also=also)
        )
    assert groups == ("a", "b", "rest", "x")
    since, sums = (4, [6, 3]) if watermark is None else (6, [9, 0])
    if of == "rows" and not append:  # one row came when its window was closed
        sums = [sums[0] - 1, sums[1]]
    assert state_summary(request_.keeping.state)["streams"][0]["details"]["named"] == [["x", since]]
    assert found[:2] == [[1, 0, 0, 0]] * 2
    assert found[-1] == [1, 0, *sums]


@pytest.mark.parametrize(
    ("append", "more", "sums"),
    [
        (False, {}, [0, 2]),  # a file of all rows says anew what open windows hold
        (True, {}, [1, 1]),
        (False, {"id": "row"}, [1, 1]),
        (False, {"user": "user", "most": 1, "unit": "user"}, [1, 1]),
    ],
)
def test_rows_ahead_of_their_time_stay_where_they_were_read_and_known(
    request_: Job, append: bool, more: dict[str, Any], sums: list[int]
) -> None:
    nights = ["00:10,a,t,1", "05:10,x,u,2"], ["05:20,x,v,3"]
    rows: list[str] = []
    for hour, new in zip((1, 6), nights, strict=True):
        rows = new if append else rows + new
        write(Path(str(request_.events)), rows, "time,group,user,row")
        named = {"other": "rest", "spare": 1, "also": None if hour == 1 else "x", **more}
        until = f"2013-01-01T{hour:02}:00"
        asked = request_.having(append=append, until=until, **named)
        groups, found = totals(asked)
    assert groups == ("a", "b", "rest", "x")
    assert found[-1] == [1, 0, *sums]


def test_a_group_for_which_no_window_is_left_is_not_named(request_: Job) -> None:
    last = request_.having(other="rest", spare=1, steps=3, until="2013-01-01T02:00")
    run(last).close()
    with pytest.raises(InvalidInput, match="from step 4 on, but stream 'count' ends with step 3"):
        run(later(request_, 3, also="x"))


def test_columns_are_called_otherwise_from_now_on(request_: Job) -> None:
    known = request_.having(unknown="drop", until="2013-01-01T02:00")
    before = totals(known)[1]
    write(Path(str(request_.events)), [*ROWS, "02:30,a,u"], "at,page,who")
    with pytest.raises(InvalidInput, match="has no column 'time'"):
        run(later(request_, 3, unknown="drop"))
    renamed = later(request_, 3, unknown="drop", rename="time=at, group=page")
    assert totals(renamed)[1] == [*before, [2, 1]]
    assert totals(renamed)[1] == [*before, [2, 1]]  # typed again
    assert totals(renamed.having(rename=None))[1] == [*before, [2, 1]]
    nightly = known.having(rename=renamed.rows.rename, until=renamed.times.until)
    assert totals(nightly)[1] == [*before, [2, 1]]  # the command line of ever, and the change
    with pytest.raises(StateError, match="time is when, but stream 'count' was created with at"):
        run(known.having(time="when"))
    for wrong, words in (
        ("time", "cannot be read at 'time'; write OLD=NEW"),
        ("=at", "cannot be read"),
        (
            "hour=when",
            "renames the column 'hour', which the stream does not use; it uses 'at', 'pa",
        ),
    ):
        with pytest.raises(InvalidInput, match=words):
            run(renamed.having(rename=wrong))
    details = state_summary(request_.keeping.state)["streams"][0]["details"]
    assert details["renamed"] == [["time", "at", 3], ["group", "page", 3]]


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        (
            {"other": "rest", "by": None, "domain": None},
            "other=rest needs domain, the list of groups",
        ),
        ({"spare": 2, "by": None, "domain": None}, "spare=2 needs domain"),
        ({"spare": -1}, "spare=-1 must be from 0 to 1,000,000"),
        ({"other": "a"}, "other is .a., which is also a group"),
        ({"also": "x"}, "also=x changes a stream that exists, and stream 'count' does not"),
        ({"rename": "time=at"}, "changes a stream that exists"),
    ],
)
def test_what_makes_no_sense_is_refused(
    request_: Job, wrong: dict[str, object], words: str
) -> None:
    with pytest.raises(InvalidInput, match=words):
        run(request_.having(**wrong))
    assert not Path(request_.keeping.state).exists()


def test_one_total_has_no_spare_groups(request_: Job) -> None:
    one = request_.having(by=None, domain=None, until="newest")
    run(one).close()
    with pytest.raises(InvalidInput, match="stream 'count' has no groups"):
        run(later(request_, 4, also="x"))


def test_a_row_of_a_group_that_leaves_the_others_may_wait_in_an_open_window(
    request_: Job,
) -> None:
    other = request_.having(other="rest", spare=1, append=True, until="2013-01-01T01:00")
    assert totals(other)[1] == [[1, 0, 1]]  # y of 01:20 and x of 02:10 wait
    write(Path(str(request_.events)), [*ROWS, "01:50,y,w", "03:10,a,w"])
    assert totals(later(request_, 2, also="y"))[1][-1] == [1, 1, 3, 0]
    assert totals(later(request_, 4))[1][-1] == [2, 1, 5, 0]


@pytest.mark.parametrize("counted", [0, 1])
def test_whether_a_row_counts_does_not_decide_if_its_file_is_read_again(
    counted: int, request_: Job, tmp_path: Path
) -> None:
    spare = request_.having(spare=1, unknown="drop", until="2013-01-01T01:00")
    totals(spare)
    write(tmp_path / "new.csv", ["02:50,a,w"] * counted + ["02:10,z,v"] * 5)
    new = later(request_, 2, unknown="drop", append=True).having(events=tmp_path / "new.csv")
    totals(new)
    with pytest.raises(InvalidInput, match=r"has been counted already, .* yes=True"):
        totals(new.having(until="2013-01-01T03:00", also="z"))
