"""Groups that nobody foresaw are counted in one group."""

from collections.abc import Sequence
from fractions import Fraction
from pathlib import Path

import pytest

from counton.base.errors import InvalidInputError, StateError
from counton.run import Job, run

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
        group_by="group",
        groups="a,b",
        start="2013-01-01",
        windows=12,
        epsilon=Fraction(1000),  # noise that is 0 almost surely
    )


def write(path: Path, rows: Sequence[str], header: str = "time,group,user") -> None:
    lines = "".join(f"2013-01-01T{row}\n" for row in rows)
    path.write_text(f"{header}\n{lines}")


def totals(request: Job) -> tuple[tuple[str, ...], list[list[int]]]:
    with run(request) as outcome:
        released = outcome.read()
        assert set(released.table()["group"]) == set(outcome.spec.metadata().groups)
        estimates = released.numbers.series.released.estimates
        return tuple(outcome.spec.metadata().groups), estimates.tolist()


def later(request: Job, hour: int, **more: object) -> Job:
    """A later run, which states nothing anew."""
    until = f"2013-01-01T{hour:02}:00"
    return Job("count", request.events, request.state, until=until, **more)  # type: ignore[arg-type]


def test_groups_unforeseen_are_counted_in_one_group(request_: Job) -> None:
    other = request_.derive(other_group="rest", until="2013-01-01T03:00")
    expected = ("a", "b", "rest"), [[1, 0, 1], [1, 1, 2], [1, 1, 4]]
    assert totals(other) == expected
    assert totals(other.derive(groups=["a", "b"])) == expected
    assert totals(later(request_, 3)) == expected
    with pytest.raises(StateError, match=r"groups \(here 1 groups"):
        run(other.derive(groups="a"))


def test_users_in_other_group_are_bounded_once(request_: Job) -> None:
    """Rows are put into their cells first, so that two unknown groups are one."""
    write(Path(str(request_.events)), ["00:10,x,u", "00:20,y,u", "00:30,z,v", "01:00,a,u"])
    first = request_.derive(
        other_group="rest",
        user="user",
        distinct_users=True,
        max_contributions=2,
        until="latest-event",
    )
    assert totals(first) == (("a", "b", "rest"), [[0, 0, 2]])


def test_other_group_among_declared_groups_is_refused(request_: Job) -> None:
    with pytest.raises(InvalidInputError, match=r"other_group is .a., which is .* one of groups"):
        run(request_.derive(other_group="a"))
    assert not Path(str(request_.state)).exists()


@pytest.mark.parametrize("counted", [0, 1])
def test_duplicate_input_is_refused_whether_or_not_rows_counted(
    counted: int, request_: Job, tmp_path: Path
) -> None:
    totals(request_.derive(unlisted_groups="drop", append=True, until="2013-01-01T01:00"))
    write(tmp_path / "new.csv", ["02:50,a,w"] * counted + ["02:10,z,v"] * 5)
    new = later(request_, 2, unlisted_groups="drop", append=True).derive(
        events=tmp_path / "new.csv"
    )
    totals(new)
    with pytest.raises(
        InvalidInputError, match=r"has been counted already, .* allow_empty_windows=True"
    ):
        totals(new.derive(until="2013-01-01T03:00"))
