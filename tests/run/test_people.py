"""Users bounded through the whole job: by brute force, what one user changes is what is claimed."""

import os
import random
from collections import Counter
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import numpy as np
import polars as pl
import pytest
from databases import looked_into
from numpy.typing import NDArray
from run_results import counts_of, design_of, releases_of
from some_cases import long

from counton import Key
from counton.base.errors import InvalidInputError, NoiseKeyError, StateError, StreamMismatchError
from counton.base.private import reveal
from counton.continual.sensitivity import sensitivity_of
from counton.privacy.contribution_rules import UserLevel
from counton.run import Job, run
from counton.run.rows.row_buffer import PURPOSES, _digests
from counton.state import Store, Stream
from counton.state.dedup import Secret
from counton.strategies import StreamStrategy
from counton.windowing.periods import period_of

START = datetime(2013, 3, 30, tzinfo=UTC)
STEPS = 36
#: Logs of the longer search: ways to bound people that the first eight have not. Other ones, and
#: more, on request: COUNTON_FUZZ=60 pytest tests/run/test_people.py.
MORE = int(os.environ.get("COUNTON_FUZZ", "0"))
LOGS = range(100, 100 + MORE) if MORE else (101, 103, 107, 112)
#: Logs of the shorter searches.
FEW_LOGS = (0, *map(long, (1, 2, 3)))
GROUPS = ("a", "b")
SECRET_FREE = 10**6  # epsilon with which the noise is 0 almost surely

#: Time, group, user, value, id.
Row = tuple[datetime, str, str, int, str]


@dataclass(frozen=True)
class Log:
    """Deliveries, each released until a time, in one of two ways of working."""

    files: list[list[Row]]
    untils: list[datetime]
    append: bool
    options: dict[str, Any]


def request(log: Log, state: Path, **more: Any) -> Job:
    given: dict[str, Any] = {
        "what": "count",
        "events": "?",
        "state": state,
        "time": "time",
        "every": "1h",
        "group_by": "page",
        "groups": list(GROUPS),
        "start": START,
        "windows": STEPS,
        "timezone": "Europe/Berlin",  # 31 March 2013 has 23 hours
        "strategy": "binary",
        "epsilon": SECRET_FREE,
        "user": "visitor",
        "append": log.append,
        "allow_empty_windows": True,
        **log.options,
        **more,
    }
    return Job(**given)


def write(path: Path, rows: list[Row]) -> Path:
    # the file's name in each row, or equal rows would be one file that was given twice
    lines = "".join(f"{t.isoformat()},{g},{u},{v},{i},{path.stem}\n" for t, g, u, v, i in rows)
    path.write_text(f"time,page,visitor,value,id,file\n{lines}")
    return path


def inputs(log: Log, folder: Path) -> tuple[NDArray[np.int64], Any]:
    """What each step counted, and the stream's terms."""
    folder.mkdir()
    for number, (rows, until) in enumerate(zip(log.files, log.untils, strict=True)):
        events = write(folder / f"{number}.csv", rows)
        asked = request(log, folder / "s.db", events=events, until=until)
        with run(asked) as outcome:
            if number == len(log.files) - 1:
                released = releases_of(outcome)
                terms = design_of(outcome)
    totals = np.asarray(terms.contribution.grid_total(released), np.int64)
    return np.diff(totals.reshape(-1, len(GROUPS)), axis=0, prepend=0), terms


def moved(strategy: StreamStrategy, change: NDArray[np.int64]) -> tuple[int, int]:
    """1-norm and squared 2-norm of C (x - x'), over all nodes and groups."""
    nodes: Counter[Any] = Counter()
    for step, cells in enumerate(change, 1):
        for group, amount in enumerate(cells.tolist()):
            for level, index, weight in strategy.column(step) if amount else ():
                nodes[level, index, group] += int(weight) * amount
    return sum(map(abs, nodes.values())), sum(value**2 for value in nodes.values())


def adversarial(seed: int) -> Log:
    """Floods, late and re-delivered rows, times of the future, one id in many files and groups."""
    chance = random.Random(seed)
    append = chance.random() < 0.5
    people: dict[str, Any] = chance.choice(
        [
            {"user": None, "row_id": "id"},
            {"max_contributions": 1},
            {"max_contributions": 3},
            {"max_contributions": 2, "contribution_period": "1d"},
            {"max_contributions": 3, "contribution_period": "6h"},
            {"max_contributions": 3, "contribution_period": "1d", "once_per_window": True},
            {"distinct_users": True, "max_contributions": 1},
            {"distinct_users": True, "max_contributions": 2},
        ]
    )
    if chance.random() < 0.3:
        people |= {"what": "sum", "value": "value", "lower": -2, "upper": 5, "resolution": 1}
    if chance.random() < 0.4:
        people |= {"row_id": "id"}
    ended = sorted(chance.sample(range(1, STEPS + 1), 3))
    untils = [START + timedelta(hours=hour) for hour in ended]
    delivered: list[list[Row]] = []
    so_far: list[Row] = []
    for until in untils:
        rows: list[Row] = []
        for user in ("ann", "bob", "cid"):
            for _ in range(chance.choice((0, 1, 2, 9))):
                latest = int((until - START).total_seconds())
                if chance.random() < 0.15:
                    latest = STEPS * 3600  # clocks that are ahead
                moment = START + timedelta(seconds=chance.randrange(latest) // 1800 * 1800)
                group = chance.choice(GROUPS)
                value = chance.randint(-4, 9)
                rows.append((moment, group, user, value, str(chance.randrange(12))))
        for row in so_far:  # again, in this delivery too
            if append and chance.random() < 0.3:
                rows.append(row)
        chance.shuffle(rows)
        so_far = so_far + rows
        delivered.append(rows if append else [*so_far])
    return Log(delivered, untils, append, people)


def without(log: Log, wanted: Any) -> Log:
    return replace(log, files=[[row for row in rows if wanted(row)] for rows in log.files])


def units(log: Log) -> list[Any]:
    """What may be taken away, each as what it leaves."""
    if log.options.get("user", "visitor") is None:  # one event, known by its id
        ids = sorted({row[4] for rows in log.files for row in rows})
        return [lambda row, one=one: row[4] != one for one in ids]
    names = sorted({row[2] for rows in log.files for row in rows})
    per = log.options.get("contribution_period")
    if per is None:
        return [lambda row, name=name: row[2] != name for name in names]
    moments = sorted({row[0] for rows in log.files for row in rows})
    us = pl.DataFrame({"us": [int(moment.timestamp()) * 1_000_000 for moment in moments]})
    numbers = us.select(period_of(pl.col("us"), per, "Europe/Berlin"))["us"].to_list()
    periods = dict(zip(moments, numbers, strict=True))
    return [
        lambda row, name=name, period=period: (row[2], periods[row[0]]) != (name, period)
        for name in names
        for period in sorted(set(numbers))
    ]


def check(log: Log, folder: Path) -> int:
    """The largest part of the claim that any unit uses up, in percent of the 1-norm."""
    folder.mkdir()
    whole, terms = inputs(log, folder / "all")
    claimed = sensitivity_of(terms.strategy, terms.contribution, terms.shape)
    used = 0
    for number, keeps in enumerate(units(log)):
        rest = without(log, keeps)
        if rest == log:
            continue  # this user has no row in this period
        part, _ = inputs(rest, folder / str(number))
        l1, l2_squared = moved(terms.strategy, whole - part)
        assert l1 <= claimed.l1, (log, number)
        assert l2_squared <= claimed.l2_squared, (log, number)
        used = max(used, 100 * l1 // claimed.l1)
    return used


@pytest.mark.parametrize("seed", FEW_LOGS)
def test_user_changes_inputs_within_claim(seed: int, tmp_path: Path) -> None:
    assert check(adversarial(seed), tmp_path / "logs") > 0


SPREAD: tuple[dict[str, Any], ...] = (
    {"max_contributions": 4, "max_contributions_per_window": 1},
    {"max_contributions": 5, "max_contributions_per_window": 2, "contribution_period": "1d"},
    {
        "max_contributions": 2,
        "max_contributions_per_window": 1,
        "contribution_period": "1d",
        "row_id": "id",
        "once_per_window": True,
    },
    {"max_contributions": 4, "max_contributions_per_window": 2, "series": "both"},
)


@pytest.mark.parametrize("seed", FEW_LOGS)
def test_user_changes_one_window_within_claim(seed: int, tmp_path: Path) -> None:
    """Two deliveries of three release no window: what they bring late counts in the same one."""
    log = adversarial(seed)
    first, middle, last = log.untils
    untils = [first, first, last] if seed % 2 else [middle, middle, middle]
    log = replace(log, untils=untils, options=SPREAD[seed])
    assert check(log, tmp_path / "logs") > 0


@pytest.mark.long
def test_user_changes_stay_within_claim_in_many_logs(tmp_path: Path) -> None:
    """Of the first dozen two use up all that is claimed, and five more than four fifths of it."""
    used = [check(adversarial(seed), tmp_path / str(seed)) for seed in LOGS]
    assert max(used) == 100  # no bound is looser than it has to be


def test_user_day_changes_at_most_twice_the_bound(tmp_path: Path) -> None:
    """Why what protects users counts twice in a ledger about their days: see `is_part`."""
    rows = [at(f"{day}T02:0{n}", "ab"[day == 31], "ann") for day in (30, 31) for n in range(4)]
    log = Log([rows], [START + timedelta(hours=34)], False, {"max_contributions": 4})
    whole, terms = inputs(log, tmp_path / "all")
    rest, _ = inputs(without(log, lambda row: row[0].day != 30), tmp_path / "rest")
    claimed = sensitivity_of(terms.strategy, terms.contribution, terms.shape)
    found = whole - rest
    assert claimed.l1 < moved(terms.strategy, found)[0] <= 2 * claimed.l1
    assert moved(terms.strategy, found)[1] <= 4 * claimed.l2_squared


# ----------------------------------------------------------------------------- which rows count


def at(text: str, group: str, user: str, value: int = 1, row: str = "") -> Row:
    return datetime.fromisoformat(f"2013-03-{text}+00:00"), group, user, value, row


def totals(folder: Path, options: dict[str, Any], *runs: tuple[str, list[Row]], **more: Any) -> Any:
    """Totals by group of a stream of days after each run, and the last outcome's notes."""
    released = []
    for number, (until, rows) in enumerate(runs):
        events = write(folder / f"{number}.csv", rows)
        log = Log([], [], more.pop("append", False) or bool(options.get("append")), {})
        asked = request(
            log, folder / "s.db", **{**options, "events": events, "until": f"2013-{until}", **more}
        )
        with run(asked) as outcome:
            values = releases_of(outcome)
            released.append(values[-1].tolist() if len(values) else [0, 0])
            notes = (
                counts_of(outcome).beyond_bound,
                counts_of(outcome).duplicates,
                counts_of(outcome).after_final,
            )
    return released, notes


DAYS = {"every": "1d", "windows": 60, "start": "2013-03-01", "timezone": "UTC"}
FLOOD = [at(f"01T0{hour}:00", "ab"[hour % 2], "ann") for hour in range(6)]
BOB = [at("01T09:00", "a", "bob")]


def test_whole_file_reports_rows_beyond_limit_of_new_windows(tmp_path: Path) -> None:
    later = [at(f"02T0{hour}:00", "a", "cid") for hour in range(5)]
    runs = ("03-02", FLOOD), ("03-03", [*FLOOD, *later])
    options = {**DAYS, "max_contributions": 3}
    (tmp_path / "first").mkdir()
    assert totals(tmp_path / "first", options, *runs[:1])[1] == (len(FLOOD) - 3, 0, 0)
    assert totals(tmp_path, options, *runs)[1] == (2, 0, 0)


def test_first_rows_in_time_count_and_late_ones_are_dropped(tmp_path: Path) -> None:
    options = {**DAYS, "max_contributions": 3}
    late = [at("01T00:30", "b", "ann")]
    released, (over, _, _) = totals(
        tmp_path,
        options,
        ("03-02", [*reversed(FLOOD), *BOB]),
        ("03-03", [*FLOOD, *BOB]),
        ("03-04", [*late, *FLOOD, *BOB, at("02T10:00", "b", "cid")]),
    )
    assert released == [[3, 1], [3, 1], [3, 2]]
    assert over == 0  # no row of the new window


@pytest.mark.parametrize("append", [False, long(True)], ids=["all events", "new events"])
def test_late_windows_of_period_keep_rows_of_busy_user(append: bool, tmp_path: Path) -> None:
    rows = [at(f"{day:02}T0{hour}:00", "a", "ann") for day in range(1, 5) for hour in range(4)]
    options = {**DAYS, "max_contributions": 8, "contribution_period": "1mo", "append": append}
    nights = [(f"03-{day:02}", rows[: 4 * day - 4]) for day in range(2, 6)]
    if append:
        nights = [(until, given[-4:]) for until, given in nights]
    folders = tmp_path / "plain", tmp_path / "spread"
    for folder in folders:
        folder.mkdir()
    plain, _ = totals(folders[0], options, *nights)
    spread, _ = totals(folders[1], {**options, "max_contributions_per_window": 2}, *nights)
    assert [a for a, _ in plain] == [4, 8, 8, 8]
    assert [a for a, _ in spread] == [2, 4, 6, 8]


def test_row_beyond_limit_of_its_window_never_counts_as_late_row(tmp_path: Path) -> None:
    options = {**DAYS, "max_contributions": 7, "contribution_period": "1w"}
    first_day = [*FLOOD, *BOB]
    second_day = [at("02T10:00", "a", "cid")]
    third_day = [at("03T10:00", "a", "cid")]
    late = [at("02T11:00", "a", "bob")]
    released, _ = totals(
        tmp_path,
        {**options, "max_contributions_per_window": 1},
        ("03-02", first_day),
        ("03-03", [*first_day, *second_day]),
        ("03-04", [*first_day, *second_day, *late, *third_day]),
    )
    # The late row is the first one of its user's day, so it counts.
    assert released == [[2, 0], [3, 0], [5, 0]]


@pytest.mark.parametrize("append", [False, True], ids=["all events", "new events"])
def test_late_rows_share_slots_of_next_window(append: bool, tmp_path: Path) -> None:
    """In several runs that release nothing they find the room that the ones before left."""
    options = {
        **DAYS,
        "max_contributions": 9,
        "max_contributions_per_window": 2,
        "append": append,
        "row_id": "id",
    }
    rows = [at("01T01:00", "a", "bob", row="-")]
    rows += [at(f"0{1 + n % 2}T0{n}:00", "a", "ann", row=str(n)) for n in range(6)]
    parts = [[rows[0]], rows[1:3], rows[3:5], rows[5:]]
    nights = (
        parts if append else [[row for part in parts[: n + 1] for row in part] for n in range(4)]
    )
    untils = "03-03", "03-03", "03-03", "03-04"
    released, (over, *_) = totals(tmp_path, options, *zip(untils, nights, strict=True))
    assert [a for a, _ in released] == [1, 1, 1, 3]
    assert over == (2 if append else 4)


@pytest.mark.parametrize("append", [False, True], ids=["all events", "new events"])
@pytest.mark.parametrize(
    "once",
    [
        {"distinct_users": True, "max_contributions": 2},
        {"once_per_window": True, "max_contributions": 3},
    ],
    ids=str,
)
def test_a_cell_in_which_a_user_counts_stays_taken(
    once: dict[str, Any], append: bool, tmp_path: Path
) -> None:
    """Also for a row that comes with a later file, where the user has room for more."""
    first = [at("01T09:00", "a", "ann")]
    again = [at("01T10:00", "a", "ann", 2)]
    options = {**DAYS, **once, "append": append}
    runs = ("03-02", first), ("03-03", again if append else [*first, *again])
    beyond_limit = 1 if append else 0  # a file of all events repeats such rows of released windows
    assert totals(tmp_path, options, *runs) == ([[1, 0], [1, 0]], (beyond_limit, 0, 0))


@pytest.mark.parametrize("append", [False, True], ids=["all events", "new events"])
def test_with_ids_a_row_like_one_that_counts_is_another(append: bool, tmp_path: Path) -> None:
    rows = [at("01T09:00", "a", "ann", row=str(nth)) for nth in range(2)]
    options = {**DAYS, "max_contributions": 3, "row_id": "id", "append": append}
    runs = ("03-02", rows[:1]), ("03-03", rows)
    assert totals(tmp_path, options, *runs)[0] == [[1, 0], [2, 0]]


def test_an_input_of_the_other_kind_is_refused(tmp_path: Path) -> None:
    totals(tmp_path, {**DAYS, "max_contributions": 2, "append": True}, ("03-02", FLOOD[:1]))
    asked = request(Log([], [], False, {}), tmp_path / "s.db", **{**DAYS, "max_contributions": 2})
    with pytest.raises(StreamMismatchError, match=r"append .here without it, there with it."):
        run(asked.derive(events=write(tmp_path / "all.csv", FLOOD), until="2013-03-03"))


def test_disappeared_rows_of_user_keep_their_slots(tmp_path: Path) -> None:
    gone = [row for row in FLOOD if row != FLOOD[0]]
    more = [*gone, at("03T01:00", "a", FLOOD[0][2])]
    runs = ("03-02", [*FLOOD, *BOB]), ("03-03", gone), ("03-04", more)
    without, _ = totals(tmp_path, {**DAYS, "max_contributions": 3}, *runs[:1])
    for part in ("", ".key"):
        (tmp_path / f"s.db{part}").unlink()
    released, _ = totals(tmp_path, {**DAYS, "max_contributions": 3}, *runs)
    assert [sum(night) for night in released] == [sum(without[0])] * 3
    with run(Job("count", tmp_path / "2.csv", tmp_path / "s.db", until="2013-03-04")) as outcome:
        assert counts_of(outcome).missing == 1  # of the first user another row says the same


# ----------------------------------------------------------------------------- ids


def test_row_id_counts_once_in_several_files(tmp_path: Path) -> None:
    rows = [at(f"01T0{n}:00", "a", "", row=f"row {n}") for n in range(6)]
    moved = at("02T08:00", "b", "", row="row 0")  # the same row, whatever its time says now
    released, notes = totals(
        tmp_path,
        {**DAYS, "user": None, "row_id": "id", "append": True},
        ("03-02", rows[:4]),
        ("03-03", [*rows[2:], moved, rows[5], at("02T05:00", "b", "", row="new")]),
        ("03-04", [*rows, moved]),
    )
    assert released == [[4, 0], [6, 1], [6, 1]]
    assert notes == (0, 7, 0)
    with run(Job("count", tmp_path / "2.csv", tmp_path / "s.db", until="2013-03-04")) as again:
        assert releases_of(again)[-1].tolist() == [6, 1]


def test_row_id_used_after_retention_is_new_event(tmp_path: Path) -> None:
    """As the output and the page on people say."""
    options = {**DAYS, "user": None, "row_id": "id", "append": True}
    used = at("01T01:00", "a", "", row="7")
    april = [(datetime(2013, 4, day, tzinfo=UTC), *used[1:]) for day in (4, 9)]
    nothing: list[Row] = []
    runs = ("03-02", [used]), ("04-06", nothing), ("04-07", april[:1]), ("04-10", april[1:])
    assert totals(tmp_path, options, *runs)[0] == [[1, 0], [1, 0], [1, 0], [2, 0]]


@pytest.mark.parametrize("bound", [{"user": None}, {"max_contributions": 3}])
def test_row_id_counted_late_is_kept_as_long_as_others(
    bound: dict[str, Any], tmp_path: Path
) -> None:
    """It is remembered from the window that counted it, not from its own: a late id whose mark is
    forgotten with its own window would count twice, a loss of two units."""
    late = at("01T01:00", "a", "ann", row="7")
    again = (datetime(2013, 4, 9, tzinfo=UTC), *late[1:])
    nothing: list[Row] = []
    runs = ("03-20", nothing), ("03-21", [late]), ("04-09", nothing), ("04-10", [again])
    options = {**DAYS, "row_id": "id", "append": True, **bound}
    assert totals(tmp_path, options, *runs)[0] == [[0, 0], [1, 0], [1, 0], [1, 0]]


@pytest.mark.parametrize("ending", ["csv", "jsonl"])
@pytest.mark.parametrize("options", [{"user": "visitor"}, {"user": None, "row_id": "visitor"}])
def test_a_whole_number_is_one_name_with_and_without_zeros(
    options: dict[str, Any], ending: str, tmp_path: Path
) -> None:
    """pandas writes 7 as 7.0 where a value of the column is missing. Leading zeros stay."""
    nights = (["7", "07"], ["7.0", "7.00", "07.0"], ["7.5", "v7.0"])
    most = (
        {"max_contributions": 1}
        if "visitor" in options.values() and options["user"]
        else {"max_contributions": None}
    )
    for night, names in enumerate(nights, 1):
        rows = [{"time": f"2013-03-0{night}T09:00", "visitor": name} for name in names]
        path = tmp_path / f"{night}.{ending}"
        if ending == "csv":
            path.write_text("time,visitor\n" + "".join(",".join(r.values()) + "\n" for r in rows))
        else:
            pl.DataFrame(rows).write_ndjson(path)
    job = Job(
        "count", tmp_path / f"*.{ending}", tmp_path / "s.db", time="time", every="1d",
        start="2013-03-01", windows=9, until="2013-03-04", epsilon=10**6, append=True,
        **{**most, **options},
    )  # fmt: skip
    with run(job) as outcome:
        assert np.rint(outcome.read().table()["estimate"].to_numpy()).tolist() == [2, 2, 4]


def test_row_ids_are_separate_for_each_user(tmp_path: Path) -> None:
    rows = [at("01T01:00", "a", "ann", row="7"), at("01T02:00", "a", "bob", row="7")]
    assert totals(tmp_path, {**DAYS, "row_id": "id", "max_contributions": 3}, ("03-02", rows))[
        0
    ] == [[2, 0]]


@pytest.mark.parametrize("append", [False, True])
def test_row_ids_are_separate_in_each_period_of_user(append: bool, tmp_path: Path) -> None:
    """The unit is one user's day: what it does on one day moves nothing of the next."""
    days = [at(f"0{day}T01:00", "a", "ann", row="7") for day in (1, 2)]
    options = {
        **DAYS,
        "row_id": "id",
        "max_contributions": 1,
        "contribution_period": "1d",
        "append": append,
    }
    found = []
    for mine in (days, days[1:]):
        nights = [mine[:-1], days[1:] if append else mine]
        released, _ = totals(tmp_path, options, ("03-02", nights[0]), ("03-03", nights[1]))
        found.append(np.diff([night[0] for night in released], prepend=0).tolist())
        for part in ("", ".key"):
            (tmp_path / f"s.db{part}").unlink()
    assert found == [[1, 1], [0, 1]]


@pytest.mark.parametrize(
    "bound",
    [
        {"distinct_users": True, "max_contributions": 2},
        {"once_per_window": True, "max_contributions": 3},
    ],
)
def test_choice_among_tied_rows_is_independent_of_others(
    bound: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Rows of one time and group, of other ids; one of these comes again in another group."""
    monkeypatch.setattr(Secret, "fresh", lambda: Secret(bytes(range(32))))
    users = [f"u{n}" for n in range(40)]
    tied = [at("01T01:00", "a", user, row=f"{n}") for n in range(3) for user in users]
    again = [at("02T01:00", "b", user, row="0") for user in users]
    options = {**DAYS, **bound, "row_id": "id", "append": True}
    found = []
    for number, gone in enumerate([None, *users[:2]]):
        runs = [[row for row in rows if row[2] != gone] for rows in (tied, again)]
        (tmp_path / str(number)).mkdir()
        found.append(
            totals(tmp_path / str(number), options, ("03-02", runs[0]), ("03-03", runs[1]))[0]
        )
    for less in found[1:]:
        moved = np.array(found[0]) - np.array(less)
        assert moved[0].tolist() == [1, 0]
        assert moved[1].tolist() in ([1, 0], [1, 1])


# ----------------------------------------------------------------------------- what is forgotten


@pytest.mark.parametrize("per", ["1d", "1w", "1mo"])
def test_retention_gives_no_slot_back(per: str, tmp_path: Path) -> None:
    options = {
        **DAYS,
        "max_contributions": 2,
        "contribution_period": per,
        "append": True,
        "row_id": "id",
    }
    rows = [at(f"01T0{n}:00", "a", "ann", row=str(n)) for n in range(4)]
    runs = ("03-02", rows[:2]), ("04-25", rows[2:3]), ("04-26", rows[3:])
    assert totals(tmp_path, options, *runs) == ([[2, 0]] * 3, (0, 0, 1))
    with Stream.open(tmp_path / "s.db", "count") as stream:
        assert [*reveal(stream.digest_sets("id"))] == []
        assert len([*reveal(stream.digest_sets("user"))]) == (
            per == "1mo"
        )  # March ended 25 days before


@pytest.mark.parametrize("append", [False, True], ids=["all events", "new events"])
@pytest.mark.parametrize(
    ("per", "zone"), [("1d", "UTC"), ("1w", "UTC"), ("1mo", "Europe/Berlin"), (None, "UTC")]
)
def test_rows_count_once_on_both_sides_of_retention_limit(
    per: str | None, zone: str, append: bool, tmp_path: Path
) -> None:
    """Every night rows of every day come; what counts is computed here from the rows alone.

    Without periods rows have ids, which are forgotten day by day.
    """
    known: dict[str, Any] = (
        {"max_contributions": 2, "contribution_period": per}
        if per
        else {"user": None, "row_id": "id"}
    )
    options = {**DAYS, "windows": 90, "timezone": zone, "append": append, **known}
    groups = [0, 0]
    counted = set[Row]()
    room = Counter[Any]()
    too_late = 0
    month = "05" if per == "1mo" else "04"
    nights = ["03-02", *(f"{month}-{day:02}" for day in (3, 4, 6, 9, 12))]  # the line moves on
    rows: list[Row] = []
    line = None
    for night, until in enumerate(nights):
        end = datetime.fromisoformat(f"2013-{until}").replace(tzinfo=ZoneInfo(zone))
        new = [
            at(f"{day:02}T{22 - night:02}:00", "ab"[day % 2], user, row=f"{user} {day} {nth}")
            for day in range(1, 1 if night == 0 else 25)
            for nth, user in enumerate(("ann", "ann", f"user {night}"))
        ]
        new += [at("01T01:00", "a", "ann", row="first")] if night == 0 else []
        rows = new if append else [*rows, *new]
        too_late = 0
        for row in sorted(rows):
            unit = (row[2], _period(row[0], per, zone)) if per else row[4]
            if line is not None and _period(row[0], per, zone) < _period(line, per, zone):
                too_late += 1
            elif row not in counted and room[unit] < (2 if per else 1):
                counted.add(row)
                room[unit] += 1
                groups["ab".index(row[1])] += 1
        released, (_, _, closed) = totals(tmp_path, options, (until, rows))
        assert (released, closed) == ([groups], too_late if append else 0), until
        line = (end - timedelta(days=35)).astimezone(UTC)
    assert too_late


def _period(moment: datetime, per: str | None, zone: str) -> Any:
    """What comes in the same order as periods do: the first day of each."""
    local = moment.astimezone(ZoneInfo(zone)).date()
    if per == "1w":
        return local - timedelta(days=local.weekday())
    return local.replace(day=1) if per == "1mo" else local


def test_user_without_periods_is_remembered_for_ever(tmp_path: Path) -> None:
    rows = [at(f"01T0{n}:00", "a", "ann") for n in range(4)]
    runs = ("03-02", rows[:2]), ("04-25", rows[2:3]), ("04-26", rows[3:])
    assert totals(tmp_path, {**DAYS, "max_contributions": 3, "append": True}, *runs)[0] == [
        [2, 0],
        [3, 0],
        [3, 0],
    ]


def test_merged_digest_sets_contain_all_parts(tmp_path: Path) -> None:
    rows = [at(f"01T{n:02}:00", "a", f"user {n}", row=str(n)) for n in range(12)]
    options = {**DAYS, "max_contributions": 1, "append": True, "row_id": "id"}
    runs = [("03-02", [row]) for row in rows]
    totals(tmp_path, options, *runs)
    with Stream.open(tmp_path / "s.db", "count") as stream:
        for kind in ("user", "id"):
            parts = list(reveal(stream.digest_sets(kind)))
            assert len(parts) <= 8
            assert sum(len(part.digests) for part in parts) == 12
    released, notes = totals(tmp_path, options, ("03-03", rows))
    assert (released, notes) == ([[12, 0]], (0, 12, 0))


# ----------------------------------------------------------------------------- words


def test_the_state_holds_no_names(tmp_path: Path) -> None:
    rows = [at("01T01:00", "a", "annabel-of-the-lake", row="a-row-of-hers")]
    totals(tmp_path, {**DAYS, "max_contributions": 3, "row_id": "id"}, ("03-02", rows))
    for path in tmp_path.glob("s.db*"):
        for name in (b"annabel", b"a-row-of"):
            assert name not in path.read_bytes()


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"max_contributions": None}, "user=visitor needs max_contributions"),
        ({"user": None, "max_contributions": 3}, "max_contributions=3 needs user"),
        (
            {"max_contributions": 3, "contribution_period": "1 day"},
            "contribution_period='1 day' is not a length of time",
        ),
        (
            {"distinct_users": True, "contribution_period": "1d"},
            "distinct_users=True cannot be used with",
        ),
        (
            {"distinct_users": True, "once_per_window": True},
            "distinct_users=True cannot be used with",
        ),
        (
            {"distinct_users": True, "max_contributions": None},
            "group_by=page with distinct_users=True needs max_contributions",
        ),
        (
            {"distinct_users": True, "max_contributions": 2, "group_by": None, "groups": None},
            "there are none",
        ),
    ],
)
def test_incompatible_user_options_are_refused(
    options: dict[str, Any], words: str, tmp_path: Path
) -> None:
    with pytest.raises(InvalidInputError, match=words):
        totals(tmp_path, {**DAYS, "max_contributions": 3, **options}, ("03-02", FLOOD))
    assert not (tmp_path / "s.db").exists()


def test_later_run_refuses_other_user_options(tmp_path: Path) -> None:
    totals(
        tmp_path, {**DAYS, "max_contributions": 3, "contribution_period": "1d"}, ("03-02", FLOOD)
    )
    changes = (
        {"max_contributions": 4},
        {"contribution_period": "1w"},
        {"user": "page"},
        {"once_per_window": True},
        {"max_contributions_per_window": 1},
    )
    for change in changes:
        with pytest.raises(StateError, match=rf"'count' .*: {next(iter(change))} \(here"):
            totals(
                tmp_path,
                {**DAYS, "max_contributions": 3, "contribution_period": "1d", **change},
                ("03-02", FLOOD),
            )
    with run(Job("count", tmp_path / "0.csv", tmp_path / "s.db", until="latest-event")) as outcome:
        assert outcome.spec.metadata().contribution_rule == UserLevel(3, "1d")


def test_users_and_events_have_words_of_their_own(tmp_path: Path) -> None:
    options = {
        **DAYS,
        "max_contributions": 3,
        "contribution_period": "1d",
        "privacy_unit": "visitor",
    }
    totals(tmp_path, options, ("03-02", FLOOD))
    events = {**DAYS, "user": None, "stream": "other"}
    with pytest.raises(InvalidInputError, match="means one user in the release 'count'"):
        totals(tmp_path, {**events, "privacy_unit": "visitor's day"}, ("03-02", FLOOD))
    totals(tmp_path, events, ("03-02", FLOOD))
    with Store(tmp_path / "s.db") as store:
        assert [spend.unit for spend in store.entries] == ["visitor's day (UTC, time)", "event"]


def test_secret_of_digests_needs_key_of_stream(tmp_path: Path) -> None:
    totals(tmp_path, {**DAYS, "max_contributions": 3}, ("03-02", FLOOD))
    with Store(tmp_path / "s.db") as store, pytest.raises(NoiseKeyError, match="was created with"):
        store.reader("count", Key.generate()).secret()
    with looked_into(tmp_path / "s.db") as connection:
        connection.execute("UPDATE counton_marks SET marks = zeroblob(48) WHERE kind = 'secret'")
    with pytest.raises(StateError, match=r"counted users or ids .* is not what was written"):
        totals(tmp_path, {**DAYS, "max_contributions": 3}, ("03-03", FLOOD))


def test_row_of_open_window_is_recognised_after_window_end(tmp_path: Path) -> None:
    options = {**DAYS, "every": "1mo", "windows": 9, "user": None, "row_id": "id", "append": True}
    used = at("01T01:00", "a", "", row="7")
    other = [at("02T01:00", "b", "", row=str(n)) for n in range(3)]
    again = [(datetime(2013, 5, 2, tzinfo=UTC), *used[1:])]
    runs = ("03-10", [used]), ("04-05", other[:1]), ("05-03", other[1:2]), ("06-02", again)
    assert totals(tmp_path, options, *runs)[0][-1] == [1, 2]


def test_digests_of_columns_equal_digests_of_each_text() -> None:
    """However long they are, and however polars holds them: states keep them."""
    secret = Secret.fresh()
    purpose = PURPOSES["user"]
    names = [letter * size for size in range(90) for letter in ("a", "ä", "\0", "€")]
    texts = pl.concat(
        [pl.Series(names), pl.Series(names[::-1])[7:], pl.Series(["u7"] * 20_000 + names)],
        rechunk=False,
    )
    want: dict[str, int] = {}
    for name in [*names, "u7"]:
        length = np.array([len(name.encode())])
        want[name] = int(secret.digests(name.encode(), length, purpose)[0])
    found = _digests(secret, purpose, texts)
    assert found.to_list() == [want[name] for name in texts.to_list()]
    assert len(set(want.values())) == len(set(names)) + 1
    assert not set(_digests(secret, purpose + 1, texts)) & set(found)
    assert _digests(secret, purpose, texts[:0]).to_list() == []


def test_whole_numbers_with_zeros_after_the_point_are_one_user() -> None:
    names = pl.Series(["7", "7.0", "7.00", "7.5", "70", "v7.0"])
    found = _digests(Secret.fresh(), PURPOSES["user"], names).to_list()
    assert found[0] == found[1] == found[2]
    assert len(set(found)) == 4
