"""Guards that hold for counts and for statistics alike."""

import re
import shutil
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from counton.base.errors import HorizonExceededError, InvalidInputError
from counton.run import Job, run
from counton.statistics import Average, Grouped

ROWS = "time,page,node,other\n2024-03-01T09:00,a,x,y\n2024-03-02T10:00,b,y,x\n"
STEPS = 400


def _job(what: str, **columns: Any) -> Callable[..., int]:
    def released(folder: Path, **more: Any) -> int:
        asked = {"time": "time", **columns, **more}
        with run(Job(what, folder / "visits.csv", folder / "s.db", **asked)) as outcome:
            return outcome.after

    return released


JOBS = {
    "count": _job("count", group_by="page", groups="a,b"),
    "top-k": _job("top-k", group_by="page", groups="a,b"),
    "distinct": _job("distinct", user="page"),
    "ranges": _job("ranges", label="page", groups="a,b"),
}
#: Jobs that read a list of names: all but that of users, which nobody declares.
LISTED = {
    **{name: job for name, job in JOBS.items() if name != "distinct"},
    "hierarchy": _job("hierarchy", levels="page,node", groups="-"),
    "contingency": _job("contingency", columns="page,node", groups="page=a,b;node=x,y"),
}
#: The same without times: all rows are released once.
ONCE = ("ranges", "hierarchy", "contingency")
NEW: dict[str, Any] = {"every": "1d", "start": "2024-03-01", "windows": STEPS, "epsilon": 1}
each_job = pytest.mark.parametrize("job", JOBS.values(), ids=JOBS)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "visits.csv").write_text(ROWS)
    return tmp_path


@each_job
def test_an_event_in_the_future(folder: Path, job: Callable[..., int]) -> None:
    """It would release thousands of windows before they end."""
    (folder / "visits.csv").write_text(f"{ROWS}2124-07-01T00:00,a,x,y\n")
    asked = {**NEW, "windows": 40_000, "strategy": "binary"}
    with pytest.raises(InvalidInputError, match=r"newest row \(2124.* lies in the future"):
        job(folder, **asked, until="latest-event")
    assert not (folder / "s.db").exists()
    assert job(folder, **asked, until="2024-03-03") == 2


@each_job
def test_hundreds_of_windows_after_the_newest_event(folder: Path, job: Callable[..., int]) -> None:
    late = "2025-02-01"
    with pytest.raises(InvalidInputError, match=r"would release 337 windows, but the newest"):
        job(folder, **NEW, until=late)
    assert not (folder / "s.db").exists()
    assert job(folder, **NEW, until="2024-03-03") == 2
    with pytest.raises(InvalidInputError, match=r"would release 335 windows, but the newest"):
        job(folder, until=late)
    assert job(folder, until=late, allow_empty_windows=True) == 337


def test_refusal_without_until_says_so(folder: Path) -> None:
    with pytest.raises(InvalidInputError, match=r"^without until, this run would release [\d,]+ w"):
        JOBS["count"](folder, **NEW | {"windows": 10**5, "strategy": "binary"})


def test_window_of_latest_event_counts_as_empty_window(folder: Path) -> None:
    """Comments of job files and the refusal say so."""
    count = JOBS["count"]
    with pytest.raises(
        InvalidInputError, match=r"3 windows, but the newest readable row is of 2024-03-02"
    ):
        count(folder, **NEW, until="2024-03-04", max_empty_windows=0)
    with pytest.raises(InvalidInputError) as refused:
        count(folder, **NEW, until="2024-03-06", max_empty_windows=2)
    assert re.split(r"\. (?=[A-Z0-9])", str(refused.value)) == [
        "until=2024-03-06T00:00:00+00:00 would release 5 windows, but the newest readable row is "
        "of 2024-03-02 10:00+00:00",
        "3 March to 5 March 2024 would have no row",
        "Add missing files, or give until=2024-03-03 (complete file) or until=latest-event "
        "(older data)",
        "If nothing happened, give allow_empty_windows=True for this run, or a larger "
        "max_empty_windows",
    ]
    assert len(str(refused.value).split()) <= 48
    assert count(folder, **NEW, until="2024-03-05", max_empty_windows=2) == 4
    assert count(folder, until="2024-03-02", max_empty_windows=0) == 4


@each_job
@pytest.mark.parametrize(
    ("until", "error", "words"),
    [
        ("2999-01-01", InvalidInputError, "lies in the future"),
        ("2025-06-01", HorizonExceededError, "after the last window of the stream, 400"),
        ("2024-02-28", InvalidInputError, "is not after 2024-03-01"),
        ("2024-02-29", InvalidInputError, "is not after 2024-03-01"),
    ],
)
def test_times_that_no_window_ends_by(
    folder: Path, job: Callable[..., int], until: str, error: type[Exception], words: str
) -> None:
    with pytest.raises(error, match=words):
        job(folder, **NEW, until=until)
    assert not (folder / "s.db").exists()


@each_job
def test_weekly_job_before_first_window_releases_nothing(
    folder: Path, job: Callable[..., int]
) -> None:
    weekly = {**NEW, "every": "1w", "start": "2024-03-04"}
    for night in ("2024-02-28", "2024-03-01", "2024-03-04", "2024-03-10"):
        assert job(folder, **weekly, until=night, allow_empty_windows=True) == 0
    assert job(folder, until="2024-03-11", allow_empty_windows=True) == 1
    monday = datetime.now(UTC).date() + timedelta(days=7)
    assert job(folder, **weekly | {"start": f"{monday}"}, stream="later") == 0


@pytest.mark.parametrize("name", ["visits.csv", "copy.csv", "rows.txt"])
@pytest.mark.parametrize("job", LISTED.values(), ids=LISTED)
def test_events_file_is_refused_as_groups(folder: Path, job: Callable[..., int], name: str) -> None:
    _copied(folder, name)
    with pytest.raises(InvalidInputError, match="the groups must be public knowledge"):
        job(folder, **NEW, until="2024-03-03", groups=folder / name)
    assert not (folder / "s.db").exists()


def _copied(folder: Path, name: str) -> None:
    """The private file, the same bytes under another name, or its rows without their header."""
    if name == "copy.csv":
        shutil.copy(folder / "visits.csv", folder / name)
    elif name == "rows.txt":
        (folder / name).write_text("\n".join(ROWS.splitlines()[1:]))


@pytest.mark.parametrize("kind", ONCE)
def test_events_file_is_refused_as_groups_of_single_table(folder: Path, kind: str) -> None:
    """Nor are its rows in another order, or some of them: they have all its columns."""
    header, *rows = ROWS.splitlines()
    (folder / "other.csv").write_text("\n".join([header, *rows[::-1], ""]))
    (folder / "some.csv").write_text("\n".join([header, rows[0], ""]))
    for name in ("visits.csv", "copy.csv", "other.csv", "some.csv"):
        _copied(folder, name)
        with pytest.raises(InvalidInputError, match="the groups must be public knowledge"):
            LISTED[kind](folder, time=None, epsilon=1, groups=folder / name)
        assert not (folder / "s.db").exists()
    (folder / "public.csv").write_text("page,node\na,x\nb,y\n")
    assert LISTED[kind](folder, time=None, epsilon=1, groups=folder / "public.csv") == 1


def test_users_may_be_subset_of_declared_groups(folder: Path) -> None:
    declared = {"group_by": "page,node", "groups": {"page": ["a", "b"], "node": ["x", "y"]}}
    asked = {**NEW, **declared, "until": "2024-03-03", "user": "node", "max_contributions": 1}
    assert JOBS["count"](folder, **asked) == 2
    (folder / "some.csv").write_text("page,node\na,x\nb,y\n")
    asked |= {"group_by": "page", "groups": folder / "some.csv", "stream": "other"}
    with pytest.raises(
        InvalidInputError, match=r"'node', a column of the events, so it seems to hold events"
    ):
        JOBS["count"](folder, **asked)


@each_job
def test_without_a_time_the_clock_decides(folder: Path, job: Callable[..., int]) -> None:
    """So how many steps there are is no matter of the data; those of the past are told to say."""
    for steps, words in ((2, "so the clock does not tell"), (9999, "until=latest-event")):
        with pytest.raises(InvalidInputError, match=words):
            job(folder, **{**NEW, "windows": steps})
    assert not (folder / "s.db").exists()
    yesterday = datetime.now(UTC) - timedelta(days=1)
    for rows in ([yesterday], [yesterday, yesterday - timedelta(days=2)]):
        lines = "".join(f"{row:%Y-%m-%dT00:00},a,x,y\n" for row in rows)
        (folder / "visits.csv").write_text(f"time,page,node,other\n{lines}")
        start = yesterday.date() - timedelta(days=2)
        for name, until in ((f"{len(rows)}", None), (f"{len(rows)} now", "now")):
            before = datetime.now(UTC).date()
            found = job(folder, **{**NEW, "start": f"{start}"}, until=until, stream=name)
            # 3, and at midnight one more
            assert before - start <= timedelta(found) <= datetime.now(UTC).date() - start


@each_job
def test_release_delay_holds_for_every_value_of_until(
    folder: Path, job: Callable[..., int]
) -> None:
    """What is released too early cannot be taken back."""
    late = {"release_delay": "6h"}
    assert job(folder, **NEW, **late, until="2024-03-01T06:00") == 0
    assert job(folder, **late, until="2024-03-02T05:59") == 0
    assert job(folder, **late, until="2024-03-02T06:00") == 1
    assert job(folder, until="2024-03-03T05:59") == 1  # the stream remembers it
    assert job(folder, until="latest-event") == 1
    assert job(folder, until="2024-03-01") == 1
    with pytest.raises(InvalidInputError, match="is not after 2024-03-01"):
        job(folder, until="2024-02-29")
    assert job(folder, release_delay="0s", until="2024-03-03") == 2


@each_job
def test_last_window_waits_for_release_delay(folder: Path, job: Callable[..., int]) -> None:
    asked = {**NEW, "windows": 2, "release_delay": "2d"}
    assert job(folder, **asked, until="2024-03-03") == 0
    with pytest.raises(HorizonExceededError, match=r"is released at 2024-03-05T00:00"):
        job(folder, until="2024-03-06")
    with pytest.raises(InvalidInputError, match=r"until=2024-03-05T00:00:00\+00:00"):
        job(folder)
    assert job(folder, until="2024-03-05") == 2


def test_groups_of_its_own_are_refused_before_a_state(folder: Path) -> None:
    """It stopped in the middle, with the stream made and its privacy spent."""
    events = folder / "visits.csv"
    state = folder / "s.db"
    asked = {**NEW, "time": "time", "until": "2024-03-03"}
    grouped = Grouped(Average(0, 10, 1), ["a", "b"])
    with pytest.raises(
        InvalidInputError,
        match="keeps groups inside it, and a job reads groups from a column instead",
    ):
        run(Job(grouped, events, state, value="page", **asked))
    assert not state.exists()


def test_user_option_of_stream_holds_for_later_runs(tmp_path: Path) -> None:
    """The ledger took them for events: more of the same users was refused, and events were not."""
    (tmp_path / "visits.csv").write_text("time,who,paid\n2024-03-01T09:00,x,3\n")
    asked: dict[str, Any] = {**NEW, "time": "time", "until": "2024-03-02"}
    paid: dict[str, Any] = {
        "value": "paid", "lower": 0, "upper": 9, "resolution": 1, "user": "who",
        "max_contributions": 2,
    }  # fmt: skip
    events = tmp_path / "visits.csv"
    state = tmp_path / "s.db"
    run(Job("average", events, state, **asked, **paid)).close()
    with run(Job("count", events, state, user="who", distinct_users=True, **asked)) as outcome:
        assert outcome.spec.metadata().privacy_unit == "user"
    with pytest.raises(
        InvalidInputError, match="'user' means one user in the release 'average_of_paid'"
    ):
        run(Job("count", events, state, stream="rows", privacy_unit="user", **asked))
