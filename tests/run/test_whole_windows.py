"""Inputs that hold all rows of the windows that they cover: the last one is right.

Whole jobs under one key: what differs with and without one event is what the event moves. It is 1
if the event stays; each change costs two more if windows are revised, else one.
"""

import sqlite3
from collections.abc import Sequence
from contextlib import closing
from datetime import UTC, date, datetime
from itertools import combinations
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import numpy as np
import polars as pl
import pytest
from revised_jobs import share_used
from run_results import counts_of
from whole_nights import CLOSED, Night, Place, changes_of, day, kept, now, released, share_of_closed

from counton import ContributionBound, read
from counton.base.errors import InvalidInputError
from counton.privacy.contribution_rules import BoundedUpstream
from counton.results.privacy_text import changes_note
from counton.run import Job, export, run
from counton.run.counting.measurement import Measurement, Span
from counton.run.counting.seen_rows import SnapshotOfRun
from counton.run.input_notes import differing_rows_note
from counton.run.spec.parsing import parse_run
from counton.run.spec.plan_spec import plan_spec
from counton.run.windows.covered_windows import covered_windows
from counton.run.windows.due_windows import EndedWindows
from counton.state import Store
from counton.strategies.participation import written_out
from counton.windowing.windows import Windows, microseconds, parse_time

OTHERS = [(1, "a", "u", "1", 1.0)] * 3 + [(1, "b", "u", "2", 1.0), (2, "b", "u", "3", 1.0)]
REVISED: dict[str, Any] = {"allowed_lateness": "2d"}


HERE: Place = (1, "a")


# ------------------------------------------------------------------------------ what is covered


#: Options of a stream of days.
DAYS: dict[str, Any] = {"time": "at", "every": "1d", "start": "2024-03-01", "epsilon": 1}


def whole_job(state: Path, rows: list[tuple[int, str]], until: int, **more: Any) -> Job:
    """A job over rows of days and groups."""
    frame = pl.DataFrame(rows, schema={"at": pl.Int64, "group": pl.String}, orient="row")
    frame = frame.with_columns(at=pl.format("2024-03-{}T12:00", pl.col("at")))
    frame = frame.with_columns(at=pl.col("at").str.replace("03-(.)T", "03-0${1}T"))
    given = {
        "time": "at", "every": "1d", "start": "2024-03-01", "group_by": "group", "groups": "a,b",
        "epsilon": 10**6, "allowed_lateness": "3d", **more,
    }  # fmt: skip
    return Job("count", frame, state, until=day(until + 1), **given)


def test_last_input_replaces_rows_of_covered_windows(tmp_path: Path) -> None:
    """Late rows, duplicates, vanished and changed ones: one case."""
    state = tmp_path / "s.db"
    first = [(1, "a"), (1, "a"), (1, "b"), (2, "a")]
    assert now(whole_job(state, first, 2, lookback="2d")) == [[2, 1], [1, 0]]
    other = [(1, "a"), (2, "b"), (2, "b"), (3, "a"), (4, "a")]
    assert now(whole_job(state, other, 3)) == [[2, 1], [0, 2], [1, 0]]  # covered: 2 and 3
    assert now(whole_job(state, other, 3)) == [[2, 1], [0, 2], [1, 0]]  # again, or other rows
    assert now(whole_job(state, first, 3)) == [[2, 1], [0, 2], [1, 0]]
    last = [(1, "b"), (2, "a"), (4, "b")]
    last_job = whole_job(
        state, last, 4, lookback="9d", allow_empty_windows=True
    )  # many rows are gone
    assert now(last_job) == [[0, 1], [1, 0], [0, 0], [0, 1]]
    assert now(whole_job(state, first, 5, allow_empty_windows=True)) == [
        [0, 1],
        [1, 0],
        [0, 0],
        [0, 0],
        [0, 0],
    ]


def test_older_input_is_reported_without_effect(tmp_path: Path) -> None:
    state = tmp_path / "s.db"
    now(whole_job(state, [(1, "a"), (1, "b")], 1, lookback="2d"))
    with run(whole_job(state, [(1, "a")], 1, lookback="2d")) as outcome:
        said = differing_rows_note(outcome) or ""
        told = counts_of(outcome)
        # The window is open: no row stays counted for good.
        assert (told.missing, told.late_ignored) == (0, 0)
        assert outcome.read().numbers.series.released.estimates.round().tolist() == [[1, 1]]
    assert said.endswith("The next release uses this input for windows that are still open")


def test_older_input_after_the_last_release_names_no_next_one(tmp_path: Path) -> None:
    state = tmp_path / "s.db"
    now(whole_job(state, [(1, "a"), (1, "b")], 1, lookback="2d", windows=1))
    with run(whole_job(state, [(1, "a")], 1, lookback="2d", windows=1)) as outcome:
        said = differing_rows_note(outcome) or ""
    assert said.endswith("The numbers shown are those of the last release")


def test_a_run_without_a_new_step_keeps_nothing(tmp_path: Path) -> None:
    state = tmp_path / "s.db"
    assert now(whole_job(state, [(1, "a")], 1, lookback="2d")) == [[1, 0]]
    with Store(state) as store:
        before = store.summary()
    content = kept(state)
    assert now(whole_job(state, [(1, "b")] * 9 + [(2, "a")], 1, lookback="2d")) == [[1, 0]]
    assert kept(state) == content
    with Store(state) as store:
        assert store.summary() == before


def test_run_until_earlier_day_covers_windows_of_newest_release(tmp_path: Path) -> None:
    days = Windows(datetime(2024, 3, 1, tzinfo=UTC), "1d", 24)
    asked = Job("count", "e.csv", "s.db", **DAYS, windows=24, lookback="3d", series="per-window")
    spec = plan_spec(asked, ())
    ended = EndedWindows(5, int(days.ends(range(5, 6))[0]))
    assert covered_windows(days, parse_run(asked, spec.terms), 9, ended) == range(7, 10)
    state = tmp_path / "s.db"
    run(whole_job(state, [(day, "a") for day in (1, 2, 3, 4, 5)], 5, lookback="9d")).close()
    with run(whole_job(state, [(2, "a"), (3, "a"), (4, "a")], 3, lookback="2d")) as outcome:
        assert counts_of(outcome).outside_snapshot == 2
        assert differing_rows_note(outcome) is not None


def test_lookback_shorter_than_missed_days_is_refused(tmp_path: Path) -> None:
    state = tmp_path / "s.db"
    now(whole_job(state, [(1, "a")], 1, lookback="1d"))
    with pytest.raises(
        InvalidInputError,
        match=r"lookback reaches back to 2024-03-03.* first window that is not released "
        r"yet begins at 2024-03-02.* For this run alone, set lookback=3d\. If the input "
        r"lacks rows, add the rows from 2024-03-02.* to 2024-03-03.*$",
    ):
        run(whole_job(state, [(4, "a")], 4, lookback="2d"))
    assert now(whole_job(state, [(2, "a"), (4, "b")], 4, lookback="3d", allow_empty_windows=True))[
        1:
    ] == [
        [1, 0],
        [0, 0],
        [0, 1],
    ]
    with pytest.raises(InvalidInputError, match="reaches back to 2024-03-06"):
        run(whole_job(state, [(5, "a")], 5, lookback="5h"))


@pytest.mark.parametrize(
    ("more", "words"),
    [
        ({"until": "latest-event"}, "lookback=1d cannot be used with until=latest-event"),
        ({"append": True}, r"append=True cannot be used with lookback=1d"),
        ({"row_id": "id"}, "row_id=id cannot be used with lookback=1d"),
        (
            {"groups": None, "unlisted_groups": "discover", "delta": "1e-6", "epsilon": 1},
            r"unlisted_groups=discover cannot be used with lookback=1d",
        ),
        ({"lookback": "sometimes"}, "lookback=sometimes is not a length of time"),
    ],
    ids=str,
)
@pytest.mark.parametrize("revise", [None, "2d"])
def test_lookback_refuses_unproven_combinations(
    more: dict[str, Any], words: str, revise: str | None, tmp_path: Path
) -> None:
    frame = pl.DataFrame({"at": ["2024-03-01T12:00"], "group": ["a"], "user": ["u"], "id": ["1"]})
    given: dict[str, Any] = {
        "time": "at", "every": "1d", "start": "2024-03-01", "windows": 9, "group_by": "group",
        "groups": "a,b", "lookback": "1d", "allowed_lateness": revise, "until": "2024-03-02",
        "epsilon": 1,
    }  # fmt: skip
    with pytest.raises(InvalidInputError, match=words):
        run(Job("count", frame, tmp_path / "s.db", **given | more))
    assert not (tmp_path / "s.db").exists()


@pytest.mark.parametrize(
    ("every", "covers", "end", "first"),
    [
        ("1h", "1d", "2024-04-01", "2024-03-31"),  # 23 hours
        ("1h", "24h", "2024-04-01", "2024-03-30T23:00"),
        ("1h", "1d", "2024-10-28", "2024-10-27T01:00"),  # 25 hours, of which 24 may be meant
        ("1d", "1d", "2024-10-28", "2024-10-27"),
        ("1d", "24h", "2024-10-28", None),
        ("1d", "47h", "2024-04-01", "2024-03-30"),
        ("1d", "60h", "2024-03-20", "2024-03-18"),
        ("1w", "13d", "2024-03-29", "2024-03-22"),
        ("1mo", "2mo", "2024-06-01", "2024-04-01"),
        ("1mo", "59d", "2024-06-01", "2024-05-01"),
    ],
)
def test_whole_windows_of_the_zone_are_covered(
    every: str, covers: str, end: str, first: str | None
) -> None:
    zone = ZoneInfo("Europe/Berlin")
    windows = Windows(datetime(2024, 3, 1, tzinfo=zone), every, 9000, zone.key)
    ended = windows.ended_by(microseconds(parse_time(end, zone.key)))
    covered = windows.windows_in_last(covers, ended)
    assert covered.stop == ended + 1
    if first is None:
        assert not covered
    else:
        begin = int(windows.ends(range(covered.start - 1, covered.start))[0])
        assert begin == microseconds(parse_time(first, zone.key))


@pytest.mark.parametrize(
    ("more", "edges", "later"),
    [
        ({}, ("2024-03-03", "2024-03-05"), False),  # what is not released yet
        ({"lookback": "3d"}, ("2024-03-02", "2024-03-05"), False),
        ({"lookback": "3d"}, ("2024-03-02", "2024-03-05"), True),  # the first run was without
        ({"allowed_lateness": "1d"}, ("2024-03-02", "2024-03-05"), False),  # what is open
        ({"allowed_lateness": "1d", "lookback": "36h"}, None, False),
    ],
    ids=str,
)
def test_query_edges_equal_covered_windows(
    more: dict[str, Any], edges: tuple[str, str] | None, later: bool, tmp_path: Path
) -> None:
    database = tmp_path / "e.db"
    with closing(sqlite3.connect(database)) as connection, connection:
        connection.execute("CREATE TABLE e (at TEXT)")
        rows = [(f"2024-03-0{n}T12:00:00",) for n in range(1, 7)]
        connection.executemany("INSERT INTO e VALUES (?)", rows)
    given: dict[str, Any] = {
        "query": "SELECT at, at AS who FROM e WHERE at >= {since} AND at < {until}",
        "allow_empty_windows": True,
        "time": "at", "every": "1d", "start": "2024-03-01", "epsilon": 10**6, **more,
    }  # fmt: skip
    if "allowed_lateness" not in more:
        given |= {"windows": 30}
        given |= {"user": "who", "max_contributions": 1} if later else {"series": "per-window"}
    job = Job("count", f"sqlite:///{database}", tmp_path / "s.db", **given)
    whole = None if later or "lookback" not in more else "9d"
    run(job.derive(until="2024-03-03", lookback=whole)).close()
    then = job.derive(until="2024-03-05")
    if edges is None:
        with pytest.raises(InvalidInputError, match="add the rows from"):
            run(then)
        return
    with run(then) as outcome:
        told = counts_of(outcome).rows
    assert told == (date.fromisoformat(edges[1]) - date.fromisoformat(edges[0])).days


# --------------------------------------------------------------------------------- the promise


@pytest.mark.parametrize("guarantee", [{"epsilon": 1}, {"rho": "0.5"}], ids=str)
@pytest.mark.parametrize("recounts", [None, 1, 2])
def test_covered_changes_stay_within_sensitivity_of_noise(
    recounts: int | None, guarantee: dict[str, Any]
) -> None:
    """And one more moves further, but under rho only for other events than these."""
    options = {**REVISED, "epsilon": None, "max_corrections": recounts, **guarantee}
    nights = [Night(OTHERS, until, 9) for until in (1, 2, 3, 4)]
    without = released(nights, **options)
    moves = [HERE, (1, "b"), HERE]
    covered = recounts or 0
    for many in range(covered + 1):
        event = [*moves[: many + 1], *[moves[many]] * (3 - many)]
        assert changes_of(event, nights) == many
        used = share_used(without, released(nights, event, **options))
    attained = "epsilon" in guarantee or not covered
    assert used > (0.99 if attained else 0.5)
    if covered < 2 and attained:
        event = [*moves[: covered + 2], *[moves[covered + 1]] * (2 - covered)]
        with pytest.raises(AssertionError, match="times what it may"):
            share_used(without, released(nights, event, **options))


SUM: dict[str, Any] = {"what": "sum", "value": "value", "lower": 0, "upper": 1, "resolution": 1}
AVERAGE = {**SUM, "what": "average", "series": "cumulative", "strategy": "binary"}
TOTALS: dict[str, Any] = {"series": "cumulative", "strategy": "binary"}
EACH_NIGHT = [Night(OTHERS, until, 9) for until in (1, 2, 3, 4)]


def edited(times: int) -> list[Place]:
    """An event whose row is edited ``times`` times into the newest day."""
    return [(min(night, times + 1), "a") for night in (1, 2, 3, 4)]


@pytest.mark.long
@pytest.mark.parametrize("guarantee", [{"epsilon": 1}, {"rho": "0.5"}], ids=str)
@pytest.mark.parametrize("recounts", [1, 2])
@pytest.mark.parametrize("what", [CLOSED, {**CLOSED, **SUM}, TOTALS, AVERAGE], ids=str)
def test_corrections_into_later_windows_stay_within_sensitivity(
    what: dict[str, Any], recounts: int, guarantee: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without revise: a row of a released day that is edited into a later one counts in both."""
    options = {**what, "epsilon": None, "windows": 4, "max_corrections": recounts, **guarantee}

    without = released(EACH_NIGHT, **options)

    def share(times: int) -> float:
        return share_of_closed(without, released(EACH_NIGHT, edited(times), **options))

    assert changes_of(edited(recounts), EACH_NIGHT) == recounts
    found = share(recounts)
    assert found <= 1 + 1e-9
    if what["series"] == "per-window":
        assert found > 1 - 1e-9
        assert share(recounts + 1) > 1.1
    else:  # the worst steps are others, or only the norm of all together is known
        assert found > 0.3
    monkeypatch.setattr(ContributionBound, "in_steps", lambda row, times: row)  # K is ignored
    without = released(EACH_NIGHT, **options)
    assert share(recounts) > 1.1 or what is AVERAGE


PEOPLE: dict[str, Any] = {
    "count_column": "value",
    "upstream_max_contributions": 2,
    "privacy_unit": "person",
}


def together(events: Sequence[Sequence[Place]]) -> list[list[Place]]:
    """The events of one person, by night."""
    return [[one for one in places if one is not None] for places in zip(*events, strict=True)]


@pytest.mark.parametrize("guarantee", [{"epsilon": 1}, {"rho": "0.5"}], ids=str)
@pytest.mark.parametrize("recounts", [None, 1])
@pytest.mark.parametrize("revised", [False, True])
def test_user_changes_as_many_events_as_bound_allows(
    revised: bool, recounts: int | None, guarantee: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """``moves`` times what an event moves: 1 + 2K where windows are revised, else 1 + K."""
    options = {
        **(REVISED if revised else {**CLOSED, "windows": 4}),
        **PEOPLE,
        "max_corrections": recounts,
    }
    options |= {"epsilon": None, **guarantee}
    event = edited(recounts or 0)
    if revised and recounts:
        event = [HERE, (1, "b"), (1, "b"), (1, "b")]

    without = released(EACH_NIGHT, **options)

    def share(*events: list[Place]) -> float:
        with_it = released(EACH_NIGHT, together(events), **options)
        return (share_used if revised else share_of_closed)(without, with_it)

    assert share(event, event) > (0.99 if "epsilon" in guarantee or not revised else 0.5)
    assert share(event) <= 0.5 + 1e-9
    monkeypatch.setattr(
        BoundedUpstream, "contribution_bound", lambda _, row, norms=None: row
    )  # one is charged
    without = released(EACH_NIGHT, **options)
    if revised:
        with pytest.raises(AssertionError, match="times what it may"):
            share(event, event)
    else:
        assert share(event, event) > 1.4


@pytest.mark.parametrize(
    ("more", "words"),
    [
        ({"append": True}, r"append=True cannot be used with max_corrections=1"),
        ({"max_corrections": 0}, "max_corrections"),
        (
            {
                "user": "group",
                "group_by": None,
                "groups": None,
                "max_contributions": 1,
                "allowed_lateness": None,
                "windows": 9,
            },
            "max_corrections=1 with user=group needs allowed_lateness",
        ),
        (
            {"allowed_lateness": None, "expected_windows": 9},
            "expected_windows=9 cannot be used with max_corrections=1",
        ),
        (
            {
                "groups": None,
                "unlisted_groups": "discover",
                "delta": "1e-6",
                "epsilon": 1,
                "windows": 9,
            },
            "unlisted_groups=discover cannot be used with max_corrections=1",
        ),
    ],
    ids=str,
)
def test_changes_are_covered_where_that_is_proven(
    more: dict[str, Any], words: str, tmp_path: Path
) -> None:
    with pytest.raises(InvalidInputError, match=words):
        run(whole_job(tmp_path / "s.db", [(1, "a")], 1, **{"max_corrections": 1, **more}))


def test_every_output_states_cost_of_corrections(tmp_path: Path) -> None:
    """By the same words, also where the file alone is left."""
    state = tmp_path / "s.db"
    file = tmp_path / "t.csv"
    job = whole_job(state, [(1, "a")], 1, lookback="2d", epsilon=1)
    one = "the loss is up to (1 + 2K) times as large"
    with run(job) as outcome:
        found = outcome.read()
        export(state, file)
        for text in (str(found), found.methods(), found.methods(full=True), str(read(file))):
            assert one in text
    job = whole_job(tmp_path / "r.db", [(1, "a")], 1, max_corrections=2)
    with run(job) as outcome:
        assert "he guarantee covers 2 changes of each" in outcome.read().methods()
    job = whole_job(tmp_path / "c.db", [(1, "a")], 1, allowed_lateness=None, windows=9)
    with run(job) as outcome:
        assert "up to (1 + K) times" in outcome.read().methods(full=True)
    job = whole_job(
        tmp_path / "n.db", [(1, "a")], 1, allowed_lateness=None, windows=9, max_corrections=1
    )
    with run(job) as outcome:
        assert "he guarantee covers 1 change of each" in outcome.read().methods(full=True)
        export(tmp_path / "n.db", tmp_path / "n.csv")
        assert "he guarantee covers 1 change of each" in read(tmp_path / "n.csv").describe()


@pytest.mark.parametrize("series", [{"series": "rolling", "last": "3d"}, {}], ids=str)
@pytest.mark.parametrize("loss", [{"rho": "0.5"}, {"epsilon": 1}], ids=str)
def test_stated_loss_of_a_moved_row_covers_what_it_moves(
    loss: dict[str, Any], series: dict[str, Any]
) -> None:
    """A released row that moves to a later window counts in both."""
    given = {**DAYS, "epsilon": None, **loss, **series, "windows": 9}
    spec = plan_spec(Job("count", "v.csv", "s.db", **given))
    columns = written_out(spec.strategy).T.astype(float)
    twice = [one + other for one, other in combinations(columns, 2)]
    order = 2 if "rho" in loss else 1
    moved, alone = (
        max(np.linalg.norm(change, order) for change in changes) for changes in (twice, columns)
    )
    stated = changes_note(spec.metadata())
    assert stated is not None
    assert "up to (1 + K)^2 times" in stated if order == 2 else "up to (1 + K) times" in stated
    power = 2 if "^2" in stated else 1
    assert (moved / alone) ** order <= 2**power + 1e-9


def test_loss_of_a_moved_row_under_delta_states_more_delta() -> None:
    job = Job("count", "v.csv", "s.db", **DAYS, delta="1e-6", windows=9)
    stated = changes_note(plan_spec(job).metadata())
    assert stated is not None
    assert stated.endswith("up to (1 + K) times as large, with far more delta")


def test_differing_windows_report_earlier_counts(tmp_path: Path) -> None:
    """Of a table of counts the things that rows stand for."""
    given: dict[str, Any] = {
        "time": "at", "every": "1d", "start": "2024-03-01", "epsilon": 1, "count_column": "n",
        "allowed_lateness": "3d", "lookback": "2d",
    }  # fmt: skip
    for until, n in ((2, 4996), (3, 2546)):
        rows = pl.DataFrame({"at": ["2024-03-01", f"2024-03-0{until - 1}"], "n": [n, 0]})
        job = Job("count", rows, tmp_path / "s.db", **given, until=day(until))
        with run(job) as outcome:
            told = counts_of(outcome).differing
    assert [tuple(one) for one in told] == [(1, 4996, 2546, 0, 2450, True)]


def test_differing_windows_are_those_that_differ() -> None:
    """As one by one: their rows before and now, and how many are new and gone at least."""
    chance = np.random.default_rng(3)
    step = np.repeat(np.arange(1, 41), 3)
    cell = np.tile(np.arange(3), 40)
    now, before = chance.integers(0, 3, (2, 120))
    total = now + chance.integers(0, 2, 120)
    seen = before + chance.integers(0, 2, 120)
    places = {"window": step, "cell": cell}
    sums = pl.DataFrame({**places, "rows": now, "total": total})
    kept = pl.DataFrame({**places, "seen_rows": before, "seen_total": seen})
    wanted = []
    for one in range(1, 31):
        of = [
            tuple(int(x[at]) for x in (before, now, seen, total))
            for at in np.flatnonzero(step == one)
        ]
        alike = sum(a == b and c != d for a, b, c, d in of)
        new = sum(max(b - a, 0) for a, b, _, _ in of)
        gone = sum(max(a - b, 0) for a, b, _, _ in of)
        if new + gone + alike:
            both = sum(a for a, *_ in of), sum(b for _, b, *_ in of)
            wanted.append((one, *both, new + alike, gone + alike, one > 20))
    spec = plan_spec(Job("count", "e.csv", "s.db", **DAYS, allowed_lateness="10d"), ())
    terms = spec.terms
    measurement = Measurement.for_statistic(
        spec.accumulator_statistic, terms.group_statistic, None, is_of_each_group=False
    )
    for last, found in ((30, wanted), (0, [])):
        span = Span(terms.windowing.windows, last, last + 1)
        snapshot = SnapshotOfRun(sums, range(1, 41))
        differing = snapshot._changed_windows(kept, span, measurement, "rows")
        assert [tuple(one) for one in differing] == found


def test_lookback_of_seven_days_covers_release_delay(tmp_path: Path) -> None:
    """At three in the morning yesterday waits, and the file lacks the day before the last seven."""
    given: dict[str, Any] = {
        "time": "at", "every": "1d", "start": "2024-03-01", "epsilon": 10**6, "lookback": "7d",
        "allowed_lateness": "6d", "release_delay": "6h", "allow_empty_windows": True,
    }  # fmt: skip
    for night in range(7, 13):
        rows = pl.DataFrame(
            {"at": [day(one) + "T12:00" for one in range(night - 6, night + 1)] * 5}
        )
        until = f"{day(night + 1)}T03:15"
        with run(Job("count", rows, tmp_path / "s.db", until=until, **given)) as outcome:
            found = outcome.read().numbers.series.released.estimates.round().ravel()
            assert counts_of(outcome).outside_snapshot == 0
            assert found.astype(int).tolist() == [5] * (night - 1)
