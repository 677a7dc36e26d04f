"""When the next window can be released: a reader who does as the screen says is not refused."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import pytest

from .conftest import Workplace

JOB = {
    "state": "v.db", "events": "e.csv", "time": "time", "every": "1d", "start": "2024-03-01",
    "windows": 365, "series": "per-window", "epsilon": 1,
}  # fmt: skip


@dataclass(frozen=True)
class Situation:
    """A stream of days of March 2024, and which rows the release of its next day needs.

    Attributes:
        options: options of the job.
        days: days that have a row in the first run.
        released: number of days that the first run releases.
        condition: what the screen says of rows, after the moment of the release.
        too_few: days of rows with which the next run is refused; None: any rows are enough.
        enough: days of rows with which it releases.
    """

    options: Mapping[str, object]
    days: Sequence[int]
    released: int
    condition: str
    too_few: Sequence[int] | None
    enough: Sequence[int]


ALL_DAYS = (1, 2, 3, 4, 5)
SITUATIONS = {
    "one row of the next window": Situation(
        {"max-empty-windows": 0}, ALL_DAYS, 5, ", once there is a row of 2024-03-06 or later",
        ALL_DAYS, (*ALL_DAYS, 6),
    ),
    "a row of a later window": Situation(
        {"max-empty-windows": 0, "release-delay": "36h"}, ALL_DAYS, 5,
        ", 36h after its end, once there is a row of 2024-03-06 or later",
        ALL_DAYS, (*ALL_DAYS, 7),
    ),
    "usual number of empty windows": Situation(
        {}, ALL_DAYS, 5, ", once there is a row of 2024-03-04 or later", (1, 2, 3), (1, 2, 3, 4),
    ),
    "fewer windows than may be empty": Situation(
        {"max-empty-windows": 7}, ALL_DAYS, 5, ", once there is a row", (), (1,),
    ),
    "rows with ids, and fewer windows than may be empty": Situation(
        {"max-empty-windows": 7, "row-id": "id"}, ALL_DAYS, 5, "", None, (),
    ),
    "empty windows are allowed": Situation(
        {"max-empty-windows": 0, "allow-empty-windows": True}, ALL_DAYS, 5,
        ", once there is a row of 2024-03-06 or later, or with --allow-empty-windows",
        None, ALL_DAYS,
    ),
    "new rows alone": Situation(
        {"max-empty-windows": 0, "append": True}, ALL_DAYS, 5,
        ", once it has a row, by a run with a new file", (7,), (6,),
    ),
    "new rows alone, after a file with rows of the next window": Situation(
        {"max-empty-windows": 0, "append": True}, (*ALL_DAYS, 6), 5,
        ", once it has a row, by a run with a new file", (*ALL_DAYS, 6), (),
    ),
    "new rows alone, of which one window may be empty": Situation(
        {"max-empty-windows": 1, "append": True}, ALL_DAYS, 5, ", by a run with a new file",
        ALL_DAYS, (),
    ),
    "rows of the last days": Situation(
        {"lookback": "5d"}, ALL_DAYS, 5, ", once it has a row", (2, 3, 4, 5, 7), (2, 3, 4, 5, 6),
    ),
    "rows of the last days with an empty one": Situation(
        {"lookback": "5d", "max-empty-windows": 1}, ALL_DAYS, 5,
        ", once it or the window before it has a row", (2, 3, 4), (2, 3, 4, 5),
    ),
    "rows of the last days with empty ones": Situation(
        {"lookback": "5d", "max-empty-windows": 2}, ALL_DAYS, 5,
        ", once it or one of the 2 windows before it has a row", (2, 3), (2, 3, 4),
    ),
    "first window of the last days": Situation(
        {"lookback": "5d", "max-empty-windows": 2}, (1,), 1, ", once there is a row", (), (1,),
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", SITUATIONS)
def test_next_window_needs_the_rows_that_the_screen_names(place: Workplace, name: str) -> None:
    situation = SITUATIONS[name]
    job_file = place.folder / "nightly.toml"
    lines = [f"{key} = {json.dumps(value)}" for key, value in {**JOB, **situation.options}.items()]
    job_file.write_text("\n".join(["[jobs.visits]", *lines]) + "\n")
    delay = "T12:00" if "release-delay" in situation.options else ""
    n_days_of_delay = 1 if delay else 0
    first_until = f"2024-03-{situation.released + 1 + n_days_of_delay:02}{delay}"
    next_until = f"2024-03-{situation.released + 2 + n_days_of_delay:02}{delay}"
    write_days(place, situation.days)
    done = place.plain("run", str(job_file), "--until", first_until).fine()
    moment = f"{next_until.replace('T', ' ')}{'' if delay else ' 00:00'}"
    due = f"window {situation.released + 1} can be released with until = {moment} (UTC) or later"
    line = " ".join(done.out.split()).partition("Next: ")[2].partition(";")[0]
    assert line == f"{due}{situation.condition}"
    if situation.too_few is not None:
        write_days(place, situation.too_few)
        place.plain("run", str(job_file), "--until", next_until).refused()
    write_days(place, situation.enough)
    released = place.plain("run", str(job_file), "--until", next_until).fine()
    assert f"Released 1 new window ({situation.released + 1:,} of 365)" in released.out


def write_days(place: Workplace, days: Sequence[int]) -> None:
    """Write a file with one row on each of some days of March 2024."""
    rows = "".join(f"2024-03-{day:02}T09:00,{day}\n" for day in days)
    (place.folder / "e.csv").write_text(f"time,id\n{rows}")


@pytest.mark.parametrize(
    ("every", "max_empty_windows", "changes"),
    [
        (
            "1mo", 0,
            ', set release-delay to the time in which all rows arrive, such as "3d", and set '
            "max-empty-windows to the number of months in a row that may have no row",
        ),
        ("1d", 2, ', and set release-delay to the time in which all rows arrive, such as "2h"'),
    ],
)  # fmt: skip
def test_changes_for_newer_rows_match_the_windows_of_the_job(
    place: Workplace, every: str, max_empty_windows: int, changes: str
) -> None:
    options = {
        "every": every, "release-delay": "0s", "max-empty-windows": max_empty_windows,
        "until": "2024-04-01", "windows": 99,
    }  # fmt: skip
    lines = [f"{key} = {json.dumps(value)}" for key, value in {**JOB, **options}.items()]
    job_file = place.folder / "nightly.toml"
    job_file.write_text("\n".join(["[jobs.visits]", *lines]) + "\n")
    write_days(place, range(1, 32))
    said = " ".join(place.plain("run", str(job_file)).fine().out.split())
    assert said.endswith(f"take that line out once newer rows come{changes}")


@pytest.mark.parametrize(("days_of_first_file", "is_missing"), [((1, 2), True), ((1, 2, 3), False)])
def test_window_of_a_missed_file_of_new_rows_stops_a_run(
    place: Workplace, days_of_first_file: Sequence[int], is_missing: bool
) -> None:
    """Rows of 3 March wait if the first file has them; else no file had any."""
    job_file = place.folder / "nightly.toml"
    options = {**JOB, "append": True, "max-empty-windows": 0}
    lines = [f"{key} = {json.dumps(value)}" for key, value in options.items()]
    job_file.write_text("\n".join(["[jobs.visits]", *lines]) + "\n")
    write_days(place, days_of_first_file)
    place.plain("run", str(job_file), "--until", "2024-03-03").fine()
    write_days(place, (4,))
    done = place.plain("run", str(job_file), "--until", "2024-03-05")
    if is_missing:
        done.refused()
        assert "No input has a row of 3 March 2024. This run would release 1 window" in done.err
        write_days(place, (3,))
        place.plain("run", str(job_file), "--until", "2024-03-04").fine()
        write_days(place, (4,))
        done = place.plain("run", str(job_file), "--until", "2024-03-05").fine()
    assert "(4 of 365)" in done.out or "(3 to 4 of 365)" in done.out
    assert "without any readable row" not in done.err
