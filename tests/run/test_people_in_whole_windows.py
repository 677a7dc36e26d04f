"""People in inputs of whole windows: whole jobs under one key, with and without a person's rows.

A person with ``most`` slots moves at most ``most * (1 + 2 * recounts)``, however its rows come, go
and change, and no more than what the noise is made for. The rule alone: `test_slots`.
"""

import sqlite3
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from revised_jobs import share_used
from run_results import counts_of
from some_cases import long
from whole_nights import Night, Place, day, kept, moved, now, released

from counton.base.errors import InvalidInputError
from counton.base.private import reveal
from counton.continual.checkpoint import read_checkpoint
from counton.run import Job, run
from counton.run.counting import chosen_rows
from counton.run.erasure import erase_user
from counton.state import Stream
from counton.state.dedup import DigestChange

A: Place = (1, "a")
RHO = {"rho": "0.5"}
OTHERS = [(1, "a", "u", "1", 1.0), (1, "b", "v", "2", 1.0), (2, "b", "v", "3", 1.0)]


@pytest.mark.parametrize(
    ("most", "guarantee"),
    [(2, {"epsilon": 1}), *(long(*one) for one in ((1, {"epsilon": 1}), (1, RHO), (2, RHO)))],
    ids=str,
)
def test_corrections_of_user_attain_sensitivity_of_noise(
    most: int, guarantee: dict[str, Any]
) -> None:
    """Where rows stay, as one event of ``most``; with one replacement, three times in counts."""
    nights = [Night(OTHERS, until, 9) for until in (1, 2, 3)]
    nobody: list[list[Place]] = [[], [], []]
    moves: list[list[Place]] = [[A] * most, [(1, "b")] * most, [A] * most]
    for recounts, person in ((None, [moves[0]] * 3), (1, moves)):
        options: dict[str, Any] = {
            "user": "user", "max_contributions": most, "allowed_lateness": "2d",
            "max_corrections": recounts, "epsilon": None,
        }  # fmt: skip
        both = (released(nights, rows, **options | guarantee) for rows in (nobody, person))
        without, with_it = both
        used = share_used(without, with_it)
        assert used > (0.99 if "epsilon" in guarantee or recounts is None else 0.5)
        assert moved(without, with_it, revised=True) == most * (3 if recounts else 1)


def test_slots_that_are_not_written_move_more(monkeypatch: pytest.MonkeyPatch) -> None:
    """Days that are covered one by one, of which no row ever changes."""
    nights = [Night(OTHERS, until, 1) for until in (1, 2, 3)]
    person = [[(1, "a"), (2, "a"), (3, "a")]] * 3
    options: dict[str, Any] = {"user": "user", "max_contributions": 1, "allowed_lateness": "2d"}

    def far() -> int:
        both = (released(nights, rows, **options) for rows in (None, person))
        return moved(*both, revised=True)

    assert far() == 1

    written: Any = vars(chosen_rows)["change_of_memory"]

    def change(*given: Any, **more: Any) -> DigestChange:
        """A mistake: slots are not written with the release."""
        right: DigestChange = written(*given, **more)
        return right._replace(added=())

    monkeypatch.setattr(chosen_rows, "change_of_memory", change)
    assert far() == 3


def people_job(state: Path, rows: list[tuple[int, str, str]], until: int, **more: Any) -> Job:
    """A job over rows of days, groups and users."""
    frame = pl.DataFrame(rows, schema=["at", "group", "user"], orient="row")
    frame = frame.with_columns(at=pl.format("2024-03-0{}T12:00", pl.col("at")))
    given = {
        "time": "at", "every": "1d", "start": "2024-03-01", "group_by": "group", "groups": "a,b",
        "epsilon": 10**6, "allowed_lateness": "3d", "user": "user", "max_contributions": 1,
        "allow_empty_windows": True, **more,
    }  # fmt: skip
    return Job("count", frame, state, until=day(until + 1), **given)


def test_a_slot_keeps_its_row_or_takes_another(tmp_path: Path) -> None:
    for recounts, wanted in ((None, [[1, 1], [0, 0]]), (1, [[0, 1], [1, 0]])):
        state = tmp_path / f"{recounts}.db"
        first = [(1, "a", "u"), (1, "b", "v")]
        assert now(people_job(state, first, 1, max_corrections=recounts)) == [[1, 1]]
        second = [(1, "b", "v"), (2, "a", "u")]
        assert now(people_job(state, second, 2, max_corrections=recounts)) == wanted
        content = kept(state)
        with run(people_job(tmp_path / f"{recounts} again.db", first, 1, max_corrections=recounts)):
            pass
        again = people_job(tmp_path / f"{recounts} again.db", second, 2, max_corrections=recounts)
        with run(again) as outcome:
            told = counts_of(outcome)
            assert (told.missing, told.retracted) == ((0, 1) if recounts else (1, 0))
        last = [(2, "b", "u"), (2, "a", "w")]
        assert now(people_job(state, last, 2, max_corrections=recounts)) == wanted
        assert kept(state) == content  # nothing of an input that releases nothing
        wanted = [[0, 0], [2, 0], [0, 0]] if recounts else [[1, 1], [1, 0], [0, 0]]
        assert now(people_job(state, last, 3, max_corrections=recounts)) == wanted


def test_open_window_outside_lookback_keeps_its_rows(tmp_path: Path) -> None:
    job = partial(people_job, tmp_path / "s.db", max_corrections=1, max_contributions=2)
    assert now(job([(1, "a", "u"), (1, "b", "v")], 1, lookback="1d")) == [[1, 1]]
    with run(job([(2, "a", "u")], 2, lookback="1d")) as outcome:
        assert (counts_of(outcome).missing, counts_of(outcome).retracted) == (0, 0)
    assert now(job([(2, "a", "u"), (3, "b", "w")], 3, lookback="2d")) == [[1, 1], [1, 0], [0, 1]]
    assert now(job([], 4, lookback="9d")) == [[0, 0]] * 4


@pytest.mark.parametrize("per", ["1mo", "1d"])
def test_empty_slot_is_retracted_once(per: str, tmp_path: Path) -> None:
    """A row leaves, and for two nights nobody new comes, at least not in its period."""
    job = partial(
        people_job,
        tmp_path / "s.db",
        max_corrections=1,
        contribution_period=per,
        allowed_lateness="4d",
    )
    lost = [(1, "a", "u")]
    others = list[tuple[int, str, str]]()
    assert now(job(lost, 1)) == [[1, 0]]
    days = [[0, 0]]
    for until in (2, 3):
        others += [(until, "b", "v")] * (per == "1d")
        days.append([0, int(per == "1d")])
        with run(job(others, until)) as outcome:
            assert counts_of(outcome).retracted == (until == 2)
        assert _sums(tmp_path / "s.db", until) == days
    assert now(job([], 3)) == days  # what was released says the same
    # Its slot was replaced once: a row that comes back stays, although it leaves again.
    assert now(job(lost, 4))[0] == now(job([], 5))[0] == [1, 0]


def test_a_value_that_changes_is_another_row(tmp_path: Path) -> None:
    for recounts, wanted in ((None, [3, 3, 3]), (1, [3, 5, 5])):
        for until, value, found in zip((1, 2, 3), (3, 5, 4), wanted, strict=True):
            rows = pl.DataFrame({"at": ["2024-03-01T12:00"], "user": ["u"], "paid": [value]})
            job = Job(
                "sum", rows, tmp_path / f"{recounts}.db", time="at", every="1d",
                allow_empty_windows=True,
                start="2024-03-01", value="paid", lower=0, upper=9, resolution=1, user="user",
                max_contributions=1, allowed_lateness="3d", max_corrections=recounts,
                until=day(until + 1), epsilon=10**6,
            )  # fmt: skip
            with run(job) as outcome:
                assert outcome.read().numbers.series.released.estimates.round().ravel()[0] == found


def test_windows_that_are_released_once_stay(tmp_path: Path) -> None:
    """Of covered windows alone rows count, and none of a released one."""
    state = tmp_path / "s.db"
    more = {"allowed_lateness": None, "windows": 9, "series": "per-window"}
    assert now(people_job(state, [(1, "a", "u"), (2, "a", "v")], 1, lookback="1d", **more)) == [
        [1, 0]
    ]
    rows = [(1, "b", "v"), (1, "b", "w"), (2, "b", "u"), (2, "b", "x")]
    with run(people_job(state, rows, 2, lookback="1d", **more)) as outcome:
        assert counts_of(outcome).outside_snapshot == 2
    assert now(people_job(state, rows, 2, lookback="2d", **more)) == [[1, 0], [0, 1]]
    with pytest.raises(InvalidInputError, match="add the rows from"):
        run(people_job(state, rows, 4, lookback="1d", **more))


def test_erased_user_counts_no_more(tmp_path: Path) -> None:
    """Rows that were taken back before are gone; else they stay counted, and none is new."""
    for recounts in (None, 1):
        state = tmp_path / f"{recounts}.db"
        rows = [(1, "a", "u"), (1, "b", "v")]
        assert now(people_job(state, rows, 1, max_corrections=recounts)) == [[1, 1]]
        erase_user(state, "u")
        with Stream.open(state, "count") as stream:
            assert len([*_users(stream)]) == 1
        assert now(people_job(state, rows, 2, max_corrections=recounts))[0] == [1, 1]
        later = [(2, "a", "u"), (1, "b", "v")]
        assert now(people_job(state, later, 3, max_corrections=recounts))[:2] == [[1, 1], [0, 0]]
        erased = tmp_path / f"{recounts} erased.db"
        now(people_job(erased, rows, 1, max_corrections=recounts))
        gone = now(people_job(erased, rows[1:], 2, max_corrections=recounts))
        assert gone[0] == ([0, 1] if recounts else [1, 1])
        erase_user(erased, "u")
        assert now(people_job(erased, rows, 3, max_corrections=recounts)) == [*gone, [0, 0]]


def test_known_users_count_again_after_erasure_of_another(tmp_path: Path) -> None:
    """Also those all of whose rows were taken back; only new people of the bucket are refused."""
    state = tmp_path / "s.db"
    people = [f"u{number}" for number in range(4000)]
    first = [(1, "a", person) for person in people]
    assert now(people_job(state, first, 1, max_corrections=1)) == [[4000, 0]]
    erase_user(state, "u0")
    later = [(2, "b", person) for person in people[1:]]
    with run(people_job(state, later, 2, max_corrections=1)) as outcome:
        told = counts_of(outcome)
        assert (told.retracted, told.beyond_bound) == (3999, 0)
    assert now(people_job(state, later, 3, max_corrections=1))[:2] == [[1, 0], [0, 3999]]


def test_window_within_lookback_counts_no_late_row_of_users(tmp_path: Path) -> None:
    more = {"allowed_lateness": None, "windows": 9, "series": "per-window", "lookback": "1d"}
    with run(people_job(tmp_path / "s.db", [(1, "a", "u")], 1, **more)) as outcome:
        words = outcome.read().methods(full=True)
        assert "rows that arrive after their day was released are not counted" in words
        assert "is in a later one" not in words


def _users(stream: Stream) -> Any:
    return [one for part in reveal(stream.digest_sets("user")) for one in part.digests]


def test_max_corrections_refuses_further_user_bounds(tmp_path: Path) -> None:
    for more in (
        {"max_contributions_per_window": 1, "max_contributions": 2},
        {"once_per_window": True},
    ):
        job = people_job(tmp_path / "s.db", [(1, "a", "u")], 1, max_corrections=1, **more)
        with pytest.raises(InvalidInputError, match=r"max_corrections=1 cannot be used with"):
            run(job)


def test_every_output_states_corrections_of_users(tmp_path: Path) -> None:
    for recounts, words in (
        (None, "a counted row that later inputs lack stays counted"),
        (2, "later inputs may replace each counted row 2 times"),
    ):
        job = people_job(tmp_path / f"{recounts}.db", [(1, "a", "u")], 1, max_corrections=recounts)
        with run(job) as outcome:
            found = outcome.read()
            for text in (str(found), found.methods(), found.methods(full=True)):
                assert words in " ".join(text.lower().split())


def _sums(state: Path, days: int) -> list[list[int]]:
    """The exact counts of so many days by group, as a state has them: the newest day last."""
    with closing(sqlite3.connect(state)) as connection:
        (saved,) = connection.execute("SELECT checkpoint FROM counton_streams").fetchone()
    sums: list[list[int]] = read_checkpoint(saved).sums.reshape(2, -1).T.tolist()
    return sums[:days][::-1]
