"""Windows in which a group has no row although others have one, if this is unusual for it."""

from datetime import datetime, timedelta

import numpy as np
import pytest

from counton.run.rows.group_gaps import find_group_gaps

from .conftest import Workplace

FIRST = datetime(2025, 3, 3)  # a Monday
OPEN_DAYS = [FIRST + timedelta(days=day) for day in range(28) if day % 7 < 5]
SECOND_WEEK = OPEN_DAYS[5:10]
LINE = "windows of a group without any readable row, unlike other groups: "
REMEDY = "If rows are missing, readers must be told"
ONE_WEEK = f"{LINE}5 ('Canteen A', 10 March to 14 March 2025). {REMEDY}"
JOB = """
[jobs.meals]
state = "m.db"
events = "meals.csv"
time = "day"
every = "1d"
start = "2025-03-03"
windows = 300
until = "2025-03-31"
group-by = "canteen"
groups = ["Canteen A", "Canteen B", "Canteen C"]
other-group = "other"
series = "per-window"
max-empty-windows = 2
epsilon = 1
output = "meals.released.csv"
"""
#: Lines of the job by what a row of the file is.
ROWS_OF = {
    "user": 'user = "guest"\nmax-contributions = 1\ncontribution-period = "1d"\n'
    'privacy-unit = "guest"\n',
    "event": 'privacy-unit = "meal"\n',
    "count": 'count-column = "n"\nprivacy-unit = "meal"\n',
}


def rows_of(missing: dict[str, list[datetime]], days: list[datetime] = OPEN_DAYS) -> str:
    return "day,canteen,guest,n\n" + "".join(
        f"{day:%Y-%m-%d},{canteen},{canteen} {guest},1\n"
        for day in days
        for canteen in ("Canteen A", "Canteen B", "Canteen C")
        for guest in range(2)
        if day not in missing.get(canteen, [])
    )


def lines_of(
    place: Workplace, rows: str, more: str = ROWS_OF["event"], options: tuple[str, ...] = ()
) -> list[str]:
    """Return the lines on groups of a run; they are nowhere else."""
    (place.folder / "meals.csv").write_text(rows)
    (place.folder / "nightly.toml").write_text(JOB + more)
    done = place.plain("run", str(place.folder / "nightly.toml"), *options).fine()
    assert LINE not in done.out
    for published in place.folder.glob("meals.released.csv*"):
        assert LINE not in published.read_text()
    prefix = "confidential: job meals: "
    lines = [line for line in done.err.splitlines() if LINE in line]
    assert all(line.startswith(prefix) for line in lines)
    return [line.removeprefix(prefix) for line in lines]


@pytest.mark.parametrize("options", [(), ("--dry-run",)])
@pytest.mark.parametrize("kind", ROWS_OF)
def test_missing_week_of_a_canteen_is_named(
    place: Workplace, kind: str, options: tuple[str, ...]
) -> None:
    missing = {"Canteen A": SECOND_WEEK}
    assert lines_of(place, rows_of(missing), ROWS_OF[kind], options) == [ONE_WEEK]


@pytest.mark.parametrize("kind", ROWS_OF)
def test_days_on_which_all_canteens_are_closed_are_no_gaps(place: Workplace, kind: str) -> None:
    assert lines_of(place, rows_of({}), ROWS_OF[kind]) == []


def test_one_missing_day_is_named(place: Workplace) -> None:
    missing = {"Canteen B": OPEN_DAYS[7:8]}
    assert lines_of(place, rows_of(missing)) == [f"{LINE}1 ('Canteen B', 12 March 2025). {REMEDY}"]


#: Each of the three is closed on a day of the week.
CLOSED = {"Canteen A": OPEN_DAYS[::5], "Canteen B": OPEN_DAYS[4::5], "Canteen C": OPEN_DAYS[2::5]}


def test_closing_days_are_no_gaps(place: Workplace) -> None:
    assert lines_of(place, rows_of(CLOSED)) == []


def test_missing_week_is_named_beside_closing_days(place: Workplace) -> None:
    """The canteen is closed on the Monday after this week, too."""
    missing = {**CLOSED, "Canteen A": [*CLOSED["Canteen A"], *SECOND_WEEK]}
    found = lines_of(place, rows_of(missing))
    assert found == [f"{LINE}6 ('Canteen A', 10 March to 17 March 2025). {REMEDY}"]


@pytest.mark.parametrize("kind", ["user", "event"])
def test_later_runs_name_their_own_windows_alone(place: Workplace, kind: str) -> None:
    missing = {"Canteen A": SECOND_WEEK}
    assert lines_of(place, rows_of(missing), ROWS_OF[kind]) == [ONE_WEEK]
    assert lines_of(place, rows_of(missing), ROWS_OF[kind]) == []
    monday = OPEN_DAYS[-1] + timedelta(days=3)
    days = [*OPEN_DAYS, monday]
    missing["Canteen C"] = [monday]
    options = ("--until", f"{monday + timedelta(days=1):%Y-%m-%d}")
    assert lines_of(place, rows_of(missing, days), ROWS_OF[kind], options) == [
        f"{LINE}1 ('Canteen C', 31 March 2025). {REMEDY}"
    ]


def test_group_that_stays_away_is_named_with_its_remedy(place: Workplace) -> None:
    missing = {"Canteen A": OPEN_DAYS[-3:]}
    first = lines_of(place, rows_of(missing))
    assert first == [f"{LINE}3 ('Canteen A', 26 March to 28 March 2025). {REMEDY}"]
    monday = OPEN_DAYS[-1] + timedelta(days=3)
    missing["Canteen A"] = [*OPEN_DAYS[-3:], monday]
    options = ("--until", f"{monday + timedelta(days=1):%Y-%m-%d}")
    later = lines_of(place, rows_of(missing, [*OPEN_DAYS, monday]), options=options)
    assert later == [
        f"{LINE}1 ('Canteen A', 31 March 2025). {REMEDY}. If a group has closed for good, tell "
        "them as well. The stream keeps it, and it is named here until half of the windows lack "
        "its rows"
    ]


def test_file_of_new_rows_names_no_group_after_the_first_run(place: Workplace) -> None:
    """Its groups of one day show nothing about other days."""
    more = ROWS_OF["event"] + "append = true\n"
    assert lines_of(place, rows_of({"Canteen A": SECOND_WEEK}), more) == [ONE_WEEK]
    monday = OPEN_DAYS[-1] + timedelta(days=3)
    rows = rows_of({"Canteen C": [monday]}, [monday])
    assert lines_of(place, rows, more, ("--until", f"{monday + timedelta(days=1):%Y-%m-%d}")) == []


def test_line_has_the_first_seven_gaps(place: Workplace) -> None:
    """Four windows a gap, in ten groups: one line."""
    days = [FIRST + timedelta(days=day) for day in range(28)]
    canteens = [f"Canteen {letter}" for letter in "ABCDEFGHIJ"]
    rows = "day,canteen\n" + "".join(
        f"{day:%Y-%m-%d},{canteen}\n"
        for number, canteen in enumerate(canteens)
        for place_of_day, day in enumerate(days)
        if not 2 * number <= place_of_day < 2 * number + 4
    )
    job = JOB.replace('["Canteen A", "Canteen B", "Canteen C"]', str(canteens).replace("'", '"'))
    (place.folder / "meals.csv").write_text(rows)
    (place.folder / "nightly.toml").write_text(job + ROWS_OF["event"])
    done = place.plain("run", str(place.folder / "nightly.toml")).fine()
    [line] = [line for line in done.err.splitlines() if LINE in line]
    assert f"{LINE}40 (" in line
    assert line.endswith(f"'Canteen G', 15 March to 18 March 2025; 3 more). {REMEDY}")


@pytest.mark.parametrize("mean", [0.5, 1, 2, 4, 8])
def test_small_streets_at_night_are_no_gaps(mean: float) -> None:
    """Hours of four weeks and 100 streets, at a first run and in later nights."""
    random = np.random.default_rng(5)
    n_hours = 24 * 28
    hour = np.arange(n_hours) % 24
    by_day = np.where((hour >= 6) & (hour < 22), mean, mean / 20)
    counts = random.poisson(by_day[:, np.newaxis], (n_hours, 100))
    named = 0
    for n_days in (28, *range(8, 28)):
        hours, streets = np.nonzero(counts[: 24 * n_days])
        first = 1 if n_days == 28 else 24 * (n_days - 1) + 1
        named += bool(find_group_gaps(hours + 1, streets, 100, range(first, 24 * n_days + 1)))
    assert named <= 1
    # Two days of one street are missing.
    counts[240:288, 7] = 0
    hours, streets = np.nonzero(counts)
    gaps = find_group_gaps(hours + 1, streets, 100, range(1, n_hours + 1))
    assert {gap.group for gap in gaps} == ({7} if mean >= 2 else set())
