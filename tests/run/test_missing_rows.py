"""Inputs from which rows are missing: refused, with the days named, before anything is released."""

from collections.abc import Sequence
from datetime import date, datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from whole_nights import kept

from counton.base.errors import InvalidInputError
from counton.run import Job, run
from counton.run.windows.covered_windows import empty_stretches

START = date(2024, 3, 1)
#: An hour of a day, counted from the start: 36 is the noon of the second day.
Hour = int


def text_of(hour: Hour) -> str:
    return (datetime.combine(START, datetime.min.time()) + timedelta(hours=hour)).isoformat()


def day(number: int) -> str:
    """The beginning of a day; 1 is the first."""
    return str(START + timedelta(days=number - 1))


def hours_of(days: Sequence[int]) -> list[Hour]:
    """24 events of each day."""
    return [24 * (number - 1) + hour for number in days for hour in range(24)]


def rows_of(hours: Sequence[Hour], group: str = "a") -> pl.DataFrame:
    """A row for each hour."""
    return pl.DataFrame(
        {"time": [text_of(hour) for hour in hours], "group": [group] * len(hours)},
        schema={"time": pl.String, "group": pl.String},
    )


def nightly(folder: Path, rows: pl.DataFrame, until: str, **options: Any) -> Job:
    given: dict[str, Any] = {
        "time": "time", "every": "1d", "start": str(START), "lookback": "7d",
        "allowed_lateness": "3d",
        "until": until, "epsilon": 10**6, "privacy_unit": "visit", **options,
    }  # fmt: skip
    return Job("count", rows, folder / "state.db", **given)


def numbers(job: Job) -> list[int]:
    """The newest number of each window, after a run."""
    with run(job) as outcome:
        estimates = outcome.read().numbers.series.released.estimates
    return [int(number) for number in estimates.round().ravel()]


def refused(job: Job) -> str:
    """What a run is refused with; the state stays as it was."""
    state = Path(str(job.state))
    before = kept(state) if state.exists() else None
    with pytest.raises(InvalidInputError) as error:
        run(job)
    assert (kept(state) if state.exists() else None) == before
    return str(error.value)


@pytest.fixture
def seven_days(tmp_path: Path) -> Path:
    """The folder of a stream that released 24 rows of each of seven days."""
    for night in range(1, 8):
        numbers(nightly(tmp_path, rows_of(hours_of(range(1, night + 1))), day(night + 1)))
    return tmp_path


# ---------------------------------------------------------------------- windows without rows


@pytest.mark.parametrize("seed", range(30))
def test_stretches_of_empty_windows_are_those_between_windows_with_rows(seed: int) -> None:
    random = np.random.default_rng(seed)
    first, size, n_with_rows = random.integers((-3, 0, 0), (6, 9, 9))
    covered = range(first, first + size)
    with_rows = random.integers(-5, 15, n_with_rows)
    expected: list[range] = []
    for window in sorted({*covered} - {*with_rows.tolist()}):
        if expected and expected[-1].stop == window:
            expected[-1] = range(expected[-1].start, window + 1)
        else:
            expected.append(range(window, window + 1))
    assert empty_stretches(covered, with_rows) == expected


def test_export_of_last_days_alone_is_refused_with_days(seven_days: Path) -> None:
    words = refused(nightly(seven_days, rows_of(hours_of([7, 8])), day(9)))
    assert "the last input had of 5 March 2024 (0, before 24), 6 March 2024 (0, before 24)" in words
    assert "give allow_empty_windows=True for this run" in words
    whole = nightly(seven_days, rows_of(hours_of(range(2, 9))), day(9))
    assert numbers(whole) == [24] * 8


def test_export_of_last_days_alone_passes_if_confirmed(seven_days: Path) -> None:
    job = nightly(seven_days, rows_of(hours_of([7, 8])), day(9), allow_empty_windows=True)
    assert numbers(job) == [24, 24, 24, 24, 0, 0, 24, 24]  # 4 March is final


def test_file_of_one_day_after_missed_runs_is_refused(tmp_path: Path) -> None:
    given: dict[str, Any] = {"allowed_lateness": None, "windows": 60}
    numbers(nightly(tmp_path, rows_of(hours_of([1, 2, 3, 4])), day(5), **given))
    words = refused(nightly(tmp_path, rows_of(hours_of([9])), day(10), **given))
    assert "has no row of 5 March to 8 March 2024" in words
    assert "would release 4 windows without rows" in words
    whole = nightly(tmp_path, rows_of(hours_of(range(4, 10))), day(10), **given)
    assert numbers(whole)[-1] == 9 * 24


@pytest.mark.parametrize("who", [{}, {"user": "group", "max_contributions": 99}], ids=str)
@pytest.mark.parametrize("hole", [6, 7, 8])
def test_due_day_without_row_is_refused(hole: int, who: dict[str, Any], tmp_path: Path) -> None:
    """Whether it is the first, one between, or the last."""
    numbers(nightly(tmp_path, rows_of(hours_of(range(1, 6))), day(6), **who))
    rest = [number for number in range(3, 9) if number != hole]
    words = refused(nightly(tmp_path, rows_of(hours_of(rest)), day(9)))
    if hole < 8:
        assert f"has no row of {hole} March 2024, and this run would release 1 window" in words
    else:
        assert "is of 2024-03-07 23:00" in words  # the newest row
        assert "8 March 2024 would have no row" in words
        assert "until=latest-event" not in words  # it cannot be used with covers


def test_holes_of_first_run_are_refused(tmp_path: Path) -> None:
    rows = rows_of(hours_of([1, 2, 5, 6, 8]))
    words = refused(nightly(tmp_path, rows, day(9), lookback="30d"))
    assert "has no row of 3 March to 4 March 2024, 7 March 2024" in words
    confirmed = nightly(tmp_path, rows, day(9), lookback="30d", allow_empty_windows=True)
    assert numbers(confirmed) == [24, 24, 0, 0, 24, 24, 0, 24]


def test_many_holes_are_named_in_part(tmp_path: Path) -> None:
    rows = rows_of(hours_of(range(1, 30, 2)))
    words = refused(nightly(tmp_path, rows, day(30), lookback="30d"))
    assert "10 March 2024 and 9 more, and this run would release 14 windows" in words


def test_file_of_everything_may_have_empty_days(tmp_path: Path) -> None:
    """Without ``covers`` only the days since the newest event may be holes."""
    given: dict[str, Any] = {
        "lookback": None,
        "allowed_lateness": None,
        "windows": 60,
        "series": "per-window",
    }
    rows = rows_of(hours_of([1, 2, 6]))
    assert numbers(nightly(tmp_path, rows, day(7), **given)) == [24, 24, 0, 0, 0, 24]


def test_file_of_one_day_in_place_of_everything_is_refused(tmp_path: Path) -> None:
    given: dict[str, Any] = {
        "lookback": None,
        "allowed_lateness": None,
        "windows": 60,
        "series": "per-window",
    }
    numbers(nightly(tmp_path, rows_of(hours_of([1, 2])), day(3), **given))
    words = refused(nightly(tmp_path, rows_of(hours_of([9])), day(10), **given))
    assert "has none of the rows that were counted before" in words
    assert "say of how many (lookback=7d)" in words
    confirmed = nightly(
        tmp_path, rows_of(hours_of([9])), day(10), allow_empty_windows=True, **given
    )
    assert numbers(confirmed) == [24, 24, 0, 0, 0, 0, 0, 0, 24]


def test_rows_of_one_group_are_enough(tmp_path: Path) -> None:
    """And a row of an undeclared group is a row."""
    groups: dict[str, Any] = {"group_by": "group", "groups": "a,b", "unlisted_groups": "drop"}
    first = pl.concat([rows_of(hours_of([1, 2])), rows_of(hours_of([1, 2]), "b")])
    assert numbers(nightly(tmp_path, first, day(3), **groups)) == [24] * 4
    later = pl.concat([first, rows_of(hours_of([3])), rows_of(hours_of([4]), "c")])
    with run(nightly(tmp_path, later, day(5), **groups)) as outcome:
        estimates = outcome.read().numbers.series.released.estimates.round()
    assert estimates.reshape(-1, 2).tolist() == [[24, 24], [24, 24], [24, 0], [0, 0]]
    holed = pl.concat([first, rows_of(hours_of([3, 6])), rows_of(hours_of([4]), "c")])
    assert "has no row of 5 March 2024" in refused(nightly(tmp_path, holed, day(7), **groups))


def test_row_with_count_zero_marks_window_as_present(tmp_path: Path) -> None:
    counts = [5, 7, 0, 3]
    for night in range(1, 5):
        table = pl.DataFrame({"time": [day(n + 1) for n in range(night)], "n": counts[:night]})
        released = numbers(nightly(tmp_path, table, day(night + 1), count_column="n"))
    assert released == counts
    holed = pl.concat([table, pl.DataFrame({"time": [day(6)], "n": [2]})])
    words = refused(nightly(tmp_path, holed, day(7), count_column="n"))
    assert "has no row of 5 March 2024" in words


def test_new_rows_cover_nothing(tmp_path: Path) -> None:
    files = [rows_of(hours_of([1, 2])), rows_of(hours_of([5, 6]))]
    given: dict[str, Any] = {"lookback": None, "append": True}
    numbers(nightly(tmp_path, files[0], day(3), **given))
    assert numbers(nightly(tmp_path, files[1], day(7), **given)) == [24, 24, 0, 0, 24, 24]


# ------------------------------------------------------------------- windows usually without rows


def test_weekends_without_rows_pass_with_max_empty_windows(tmp_path: Path) -> None:
    """And a holiday after a weekend does not."""
    open_days = [n for n in range(1, 40) if (START + timedelta(days=n - 1)).weekday() < 5]
    for night in range(1, 36):
        known = [n for n in open_days if night - 7 < n <= night]
        job = nightly(tmp_path, rows_of(hours_of(known)), day(night + 1), max_empty_windows=2)
        released = numbers(job)
    assert released == [24 if n in open_days else 0 for n in range(1, 36)]
    monday = 39  # 8 April; 7 April is the second day of a weekend
    holed = [n for n in open_days if n not in (36, monday)]
    job = nightly(tmp_path, rows_of(hours_of(holed)), day(monday + 1), max_empty_windows=2)
    assert "is of 2024-04-04 23:00" in refused(job)  # the newest row
    holed = [*open_days[:-1], monday + 1]
    job = nightly(tmp_path, rows_of(hours_of(holed)), day(monday + 2), max_empty_windows=2)
    assert "has no row of 6 April to 8 April 2024, and" in refused(job)


@pytest.mark.long
def test_hours_without_rows_pass_with_max_empty_windows(tmp_path: Path) -> None:
    """Windows of an hour, at a place where nobody passes from 22 to 5."""
    busy = [hour for hour in range(24 * 5) if 5 <= hour % 24 < 22]
    given: dict[str, Any] = {
        "every": "1h",
        "lookback": "24h",
        "allowed_lateness": "6h",
        "max_empty_windows": 7,
    }
    for end in range(6, 24 * 5 + 1, 6):
        rows = rows_of([hour for hour in busy if end - 24 <= hour < end])
        released = numbers(nightly(tmp_path, rows, text_of(end), **given))
    assert released == [int(hour in busy) for hour in range(24 * 5)]
    rows = rows_of([hour for hour in busy if hour >= 24 * 4 + 9] + [24 * 5 + 8])
    words = refused(nightly(tmp_path, rows, text_of(24 * 5 + 9), **given))
    assert "has no row of 6 March 2024, 00:00 to 08:00" in words


def test_confirmed_empty_day_needs_no_second_confirmation(tmp_path: Path) -> None:
    numbers(nightly(tmp_path, rows_of(hours_of([1, 2])), day(3)))
    numbers(nightly(tmp_path, rows_of(hours_of([1, 2])), day(4), allow_empty_windows=True))
    for night in range(4, 9):
        known = [n for n in range(1, night + 1) if n != 3]
        released = numbers(nightly(tmp_path, rows_of(hours_of(known)), day(night + 1)))
    assert released == [24, 24, 0, 24, 24, 24, 24, 24]


# ---------------------------------------------------------------------- open windows that shrink


@pytest.mark.parametrize(("kept", "passes"), [(24, True), (12, True), (11, False), (0, False)])
def test_open_day_that_keeps_less_than_half_is_refused(
    kept: int, passes: bool, tmp_path: Path
) -> None:
    numbers(nightly(tmp_path, rows_of(hours_of([1, 2, 3])), day(4)))
    hours = [*hours_of([1, 2]), *hours_of([3])[:kept], *hours_of([4])]
    job = nightly(tmp_path, rows_of(hours), day(5))
    if passes:
        assert numbers(job) == [24, 24, kept, 24]
    else:
        assert f"of 3 March 2024 ({kept}, before 24), and this run would replace" in refused(job)
        assert numbers(job.derive(allow_empty_windows=True)) == [24, 24, kept, 24]
        later = rows_of([*hours, *hours_of([5])])  # what was confirmed is not asked again
        assert numbers(nightly(tmp_path, later, day(6))) == [24, 24, kept, 24, 24]


def test_open_day_of_counts_is_compared_by_events(tmp_path: Path) -> None:
    table = pl.DataFrame({"time": [day(1)], "n": [100]})
    numbers(nightly(tmp_path, table, day(2), count_column="n"))
    table = pl.DataFrame({"time": [day(1), day(2)], "n": [49, 100]})
    assert "(49, before 100)" in refused(nightly(tmp_path, table, day(3), count_column="n"))
    table = pl.DataFrame({"time": [day(1), day(2)], "n": [50, 100]})
    assert numbers(nightly(tmp_path, table, day(3), count_column="n")) == [50, 100]


def test_windows_that_do_not_change_are_not_compared(tmp_path: Path) -> None:
    """Final windows, windows that are not covered, and nights that release nothing."""
    numbers(nightly(tmp_path, rows_of(hours_of([1, 2, 3])), day(4), allowed_lateness="1d"))
    without_first = rows_of(hours_of([3, 4]))
    assert numbers(nightly(tmp_path, without_first, day(5), allowed_lateness="1d")) == [24] * 4
    nothing = nightly(tmp_path, rows_of(hours_of([4])[:1]), day(5), allowed_lateness="1d")
    assert numbers(nothing) == [24] * 4
    only_last = nightly(
        tmp_path, rows_of(hours_of([5])), day(6), lookback="1d", allowed_lateness="1d"
    )
    assert numbers(only_last) == [24] * 5


def test_late_export_that_lacks_hours_counts_and_is_mended(tmp_path: Path) -> None:
    numbers(nightly(tmp_path, rows_of(hours_of([1, 2])), day(3)))
    early = rows_of(hours_of([1, 2, 3])[:-10])
    assert numbers(nightly(tmp_path, early, day(4))) == [24, 24, 14]
    assert numbers(nightly(tmp_path, rows_of(hours_of([1, 2, 3, 4])), day(5))) == [24] * 4


USERS: dict[str, Any] = {"user": "user", "max_contributions": 9, "privacy_unit": "person"}


def users_of(days: Sequence[int], prefix: str = "u", of: int = 4) -> pl.DataFrame:
    """Rows of some users, one of each on each day."""
    times = [24 * (number - 1) + 9 for number in days for _ in range(of)]
    names = [f"{prefix}{user}" for _ in days for user in range(of)]
    return rows_of(times).with_columns(user=pl.Series(names, dtype=pl.String))


def test_users_whose_rows_are_taken_back_are_compared(tmp_path: Path) -> None:
    """Without ``recounts`` rows of people stay counted, so that nothing is lost."""
    given: dict[str, Any] = {**USERS, "max_corrections": 1, "windows": 30}
    numbers(nightly(tmp_path, users_of([1, 2]), day(3), **given))
    holed = pl.concat([users_of([1]), users_of([2], of=1), users_of([3])])
    assert "of 2 March 2024 (1, before 4)" in refused(nightly(tmp_path, holed, day(4), **given))
    assert numbers(nightly(tmp_path, holed, day(4), allow_empty_windows=True, **given)) == [4, 1, 4]
    with_next = pl.concat([holed, users_of([4])])
    assert numbers(nightly(tmp_path, with_next, day(5), **given)) == [4, 1, 4, 4]


def test_users_that_stay_counted_are_not_compared(tmp_path: Path) -> None:
    numbers(nightly(tmp_path, users_of([1, 2]), day(3), **USERS))
    holed = pl.concat([users_of([1]), users_of([2], of=1), users_of([3])])
    assert numbers(nightly(tmp_path, holed, day(4), **USERS)) == [4, 4, 4]


# ---------------------------------------------------------------------- all rows that were counted


def ids_of(days: Sequence[int], prefix: str) -> pl.DataFrame:
    rows = rows_of([24 * (number - 1) + 9 for number in days for _ in range(2)])
    return rows.with_columns(id=pl.format(prefix + "{}", pl.int_range(rows.height)))


IDS: dict[str, Any] = {"row_id": "id", "lookback": None, "allowed_lateness": None, "windows": 60}


@pytest.mark.parametrize("revise", [None, "3d"])
@pytest.mark.parametrize("yes", [False, True])
def test_snapshot_with_all_new_row_ids_is_refused(
    yes: bool, revise: str | None, tmp_path: Path
) -> None:
    """The same rows would count twice, whatever the operator confirms."""
    given: dict[str, Any] = {**IDS, "allowed_lateness": revise, "allow_empty_windows": yes}
    numbers(nightly(tmp_path, ids_of([1], "x"), day(2), **given))
    again = nightly(tmp_path, ids_of([1, 2], "y"), day(3), allow_empty_windows=yes)
    again = again.derive(lookback=None, allowed_lateness=None)
    words = refused(again)
    assert "has none of the ids that were counted before" in words
    assert "give append=True" in words
    with_old = pl.concat([ids_of([1], "x"), ids_of([1, 2], "y").tail(2)])
    last = numbers(again.derive(events=with_old))
    assert last[-1] == (4 if revise is None else 2)


def test_append_counts_rows_with_new_ids(tmp_path: Path) -> None:
    numbers(nightly(tmp_path, ids_of([1], "x"), day(2), **IDS))
    later = nightly(tmp_path, ids_of([2], "y"), day(3), append=True)
    assert numbers(later.derive(lookback=None, allowed_lateness=None)) == [2, 4]


def test_one_known_row_id_allows_complete_file(tmp_path: Path) -> None:
    numbers(nightly(tmp_path, ids_of([1], "x"), day(2), **IDS))
    rows = pl.concat([ids_of([1], "x").head(1), ids_of([2], "y")])
    later = nightly(tmp_path, rows, day(3)).derive(lookback=None, allowed_lateness=None)
    assert numbers(later) == [2, 4]


@pytest.mark.parametrize(
    "more", [{"lookback": "7d", "allowed_lateness": "3d"}, {"windows": 30}], ids=str
)
def test_users_that_are_renamed_are_refused(more: dict[str, Any], tmp_path: Path) -> None:
    given: dict[str, Any] = {**USERS, "lookback": None, "allowed_lateness": None, **more}
    numbers(nightly(tmp_path, users_of([1]), day(2), **given))
    again = nightly(tmp_path, users_of([1, 2], "v"), day(3), **given)
    assert "has none of the rows that were counted before" in refused(again)
    assert numbers(again.derive(allow_empty_windows=True))[-1] in (4, 12)


# ---------------------------------------------------------------------- a year of counters

STATIONS = 19
NIGHTS = 366


def passages_of_a_year() -> pl.DataFrame:
    """Passages of 19 stations by hour; one is silent all of February, and all are at night."""
    chance = np.random.default_rng(20240229)
    hours = np.arange(24 * NIGHTS)
    busy = np.clip(np.sin((hours % 24 - 6) / 24 * 2 * np.pi), 0, None)
    frames = []
    for station in range(STATIONS):
        counts = chance.poisson(busy * (5 + 20 * station))
        if station == 7:
            counts[24 * 31 : 24 * 60] = 0
        frames.append(
            pl.DataFrame({"hour": hours, "station": f"s{station:02}", "passages": counts})
        )
    table = pl.concat(frames).filter(pl.col("passages") > 0)
    begin = datetime(2024, 1, 1)
    time = pl.lit(begin).dt.offset_by(pl.format("{}h", pl.col("hour")))
    return table.with_columns(day=pl.col("hour") // 24 + 1, time=time)


@pytest.mark.long
def test_year_of_counters_with_holes_ends_with_right_numbers(tmp_path: Path) -> None:
    """Nights are missed, and files have holes: every final number is right.

    A refused night is repeated the next night with the usual file.
    """
    table = passages_of_a_year()
    missed = {40, 41, 90, 150, 151, 152, 153, 154, 155, 156, 157, 158, 280}
    holed = {60: 2, 200: 1, 300: 2, 301: 3}  # files that hold so many days
    refusals = []
    released: Any = None
    for night in range(1, NIGHTS + 1):
        if night in missed:
            continue
        days = holed.get(night, 7)
        covers = "7d"
        if night == 159:
            words = refused(_job_of_year(tmp_path, table, night, days, covers))
            assert "add the rows from 2024-05-29" in words
            days = 12
            covers = "12d"
        job = _job_of_year(tmp_path, table, night, days, covers)
        if night in holed:
            refusals.append(refused(job))
            continue
        with run(job) as outcome:
            released = outcome.read().numbers.series.released.estimates
    assert all("2024" in words for words in refusals)
    truth = table.group_by("day", "station").agg(pl.col("passages").sum())
    wanted = np.zeros((NIGHTS, STATIONS), np.int64)
    for number, station, passages in truth.rows():
        wanted[number - 1, int(station[1:])] = passages
    assert (released.round().reshape(NIGHTS, STATIONS) == wanted).all()
    assert len(refusals) == len(holed)


def _job_of_year(folder: Path, table: pl.DataFrame, night: int, days: int, covers: str) -> Job:
    rows = table.filter(pl.col("day").is_between(night - days + 1, night))
    until = datetime(2024, 1, 1) + timedelta(days=night)
    return nightly(
        folder,
        rows.select("time", "station", "passages"),
        str(until.date()),
        start="2024-01-01",
        group_by="station",
        groups=",".join(f"s{station:02}" for station in range(STATIONS)),
        count_column="passages",
        privacy_unit="passage",
        lookback=covers,
    )
