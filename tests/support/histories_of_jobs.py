"""Random histories of jobs: a job and a few runs of it, with late rows, skipped runs, files that
come twice, and snapshots that lack rows.
"""

import random
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, NamedTuple

import polars as pl

START = datetime(2024, 3, 1, tzinfo=UTC)
DAYS = 8


#: Options that differ from those of most histories, and are refused if they do.
OTHER_OPTIONS: list[dict[str, Any]] = [
    {"steps": 31},
    {"every": "2d"},
    {"start": "2024-03-02"},
    {"epsilon": 2},
    {"time": "when"},
    {"by": "paid"},
    {"domain": "home,shop,help,more"},
    {"unit": "click"},
    {"strategy": "smooth"},
    {"append": True},
    {"timezone": "Europe/Berlin"},
    {"release": "both"},
]


class History(NamedTuple):
    """A job, and for each night its options, its files and the clock.

    Attributes:
        in_folder: whether a night reads the folder of all files so far.
    """

    statistic: str
    options: dict[str, Any]
    nights: list[tuple[dict[str, Any], list[pl.DataFrame], datetime]]
    in_folder: bool
    other_options: Sequence[dict[str, Any]] = ()


#: Statistics that may be counted in groups, and tables of declared cells.
GROUPED = ["count", "count", "sum", "average", "quantiles", "moments", "top-k"]
TABLES = ["hierarchy", "contingency", "ranges"]
#: Options that the statistics of a report do not have.
NOT_OF_MEMBERS = ("replace", "counts", "ask")
#: Options of windows, which a single table does not have.
OF_TIME = (
    "time",
    "every",
    "start",
    "steps",
    "around",
    "revise",
    "timezone",
    "watermark",
    "expire",
    "growth",
    "delay",
)


def options_of_statistic(draw: random.Random, statistic: str) -> dict[str, Any]:
    """Draw the options of a statistic other than a count."""
    options: dict[str, Any] = {}
    if statistic in ("sum", "average"):
        options = {"value": "paid", "lower": -2, "upper": 5, "resolution": draw.choice([1, 0.5])}
    elif statistic == "quantiles":
        even = {"lower": -2, "upper": 5, "cells": draw.choice([1, 4, 33])}
        options = {"value": "paid", **draw.choice([even, even, {"edges": "-2,0.5,3,4"}])}
        if draw.random() < 0.5:
            options |= {"line": draw.choice(["auto", "identity", "haar", "hierarchy", "optimal"])}
        if draw.random() < 0.5:
            options |= {"shares": draw.choice(["0.5", "0.25,0.5", "0.9"])}
    elif statistic == "moments":
        several = {"columns": "paid,many", "bounds": "-2:5,0:3.5"}
        options = draw.choice([{"columns": "paid", "bounds": "-2:5"}, several])
        options |= draw.choice([{}, {"grid": 16}])
    elif statistic == "top-k":
        options = draw.choice([{}, {"top": 1}, {"top": 2}, {"top": 30}])
    elif statistic == "hierarchy":
        options = {"levels": "page,device", "domain": "FOLDER/tree.csv"}
        if draw.random() < 0.3:
            leaves = {"page": ["home", "home", "shop"], "device": ["big", "small", None]}
            options |= {"domain": leaves}
        options |= draw.choice([{}, {"target": "page=10,device=20"}])
    elif statistic == "contingency":
        options = {"columns": "page,device", "domain": "page=home,shop;device=big,small"}
        options |= draw.choice([{}, {"equal": True}])
    elif statistic == "ranges":
        options = {"label": "page", "domain": draw.choice(["home,shop,help", "?,help,home,shop"])}
        options |= draw.choice([{}, {"workload": "prefixes"}, {"line": "haar"}, {"ask": "0:2,1:3"}])
    elif statistic == "report":
        members = ["sum", "average", "quantiles", "moments", "top-k", "ranges", "contingency"]
        statistics: dict[str, dict[str, Any]] = {"rows": {"statistic": "count"}}
        for member in draw.sample(members, draw.randint(1, 3)):
            own = options_of_statistic(draw, member)
            own = {key: value for key, value in own.items() if key not in NOT_OF_MEMBERS}
            if member == "top-k" or (member in GROUPED and draw.random() < 0.4):
                own |= {"by": "page", "domain": "home,shop,help"}
            share = draw.choice([{}, {"share": 3}])
            statistics[f"the {member}"] = {"statistic": member, **own, **share}
        options = {"statistics": statistics, **draw.choice([{}, {"size": 100}])}
    if statistic in TABLES and draw.random() < 0.3:
        options |= {"counts": "many"}
    if statistic in [*TABLES, "top-k", "quantiles"] and draw.random() < 0.15:
        options |= {"replace": True}
    return options


def random_history(seed: int) -> History:
    """Draw a job and its nights."""
    draw = random.Random(seed)
    statistic = draw.choice([*GROUPED, *TABLES, "report", "report"])
    options: dict[str, Any] = {"time": "at", "every": "1d", "start": "2024-03-01", "quiet": 9}
    windowing = draw.choice(["steps", "steps", "revise", "revise", "around"])
    if windowing == "steps":
        options |= {"steps": draw.choice([DAYS, 30])}
    elif windowing == "around":
        options |= {"around": 30}
    else:
        options |= {"revise": draw.choice(["1d", "2d", "4d"])}
    if windowing in ("steps", "around"):
        forms = ["totals", "both"] + ["windows"] * (windowing == "steps")
        options |= {"release": draw.choice(forms)}
        if draw.random() < 0.2:
            options |= {"timezone": "America/New_York"}
    if statistic in [*TABLES, "report"]:
        options |= draw.choice([{}, {"unknown": "drop"}, {"unknown": "drop"}])
    elif draw.random() < (1 if statistic == "top-k" else 0.6):
        options |= {"by": "page", "domain": draw.choice(["home,shop,help", "home,shop"])}
        if draw.random() < 0.2:
            domain = {"page": ["home", "shop"], "device": ["big", "small"]}
            options |= {"by": "page,device", "domain": domain}
        options |= draw.choice([{"other": "others"}, {"unknown": "drop"}])
    options |= draw.choice([{"epsilon": 1}, {"rho": 0.5}, {"epsilon": "1/2", "delta": 1e-6}])
    options |= options_of_statistic(draw, statistic)
    if statistic == "count" and draw.random() < 0.3:
        options |= {"counts": "many"}
    if draw.random() < 0.2:
        options |= {"strategy": draw.choice(["binary", "kary", "sqrt"])}
    if draw.random() < 0.3:
        options |= {"unit": "visit"}
    append = draw.random() < 0.5
    finds = statistic in ("count", "sum", "average")
    finds = finds or (statistic == "top-k" and windowing == "steps")
    if draw.random() < 0.25 and finds and windowing != "around":
        groups = ("domain", "other", "unknown", "rho", "strategy", "counts", "replace")
        options = {name: value for name, value in options.items() if name not in groups}
        options |= {"by": "page", "unknown": "discover", "epsilon": 20, "delta": 0.001, "steps": 9}
        if options.get("release") == "both" or statistic == "top-k":
            options["release"] = "totals"
        append = append or windowing == "revise"
    if draw.random() < 0.25:
        options |= {"watermark": draw.choice(["6h", "30h"])}
    bad = draw.random() < 0.25
    if bad:
        options |= {"missing": draw.choice(["skip", "skip", "refuse"])}
        # Not "refuse": the old path keeps it as the path of a file, and refuses the next job.
        if draw.random() < 0.7:
            options |= {"bad_rows": "quarantine:FOLDER/bad.csv"}
    # With rho, the old path measures a table of an expiring stream by two matrices in turn, and
    # adds the noise of the first.
    is_mixed = "rho" in options and statistic in [*TABLES, "quantiles", "report"]
    may_expire = windowing in ("steps", "around") and not {"delta", "discover"} & set(options)
    if may_expire and not is_mixed and draw.random() < 0.3:
        options.pop("around", None)
        options.pop("strategy", None)
        options |= {"expire": True, **draw.choice([{}, {"growth": "3/2"}, {"growth": 2}])}
        if options["release"] == "totals" and draw.random() < 0.3:
            options |= {"delay": 2}
    if not {"expire", "discover", "strategy"} & set(options) and draw.random() < 0.08:
        finds_rho = "rho" in options
        options = {key: own for key, own in options.items() if key not in ("epsilon", "rho")}
        options |= {"within": draw.choice([40, "75.5"]), "size": 1000}
        if statistic == "hierarchy":
            options.pop("target", None)
            options |= draw.choice([{}, {"within": "total=60,page=50"}])
        if finds_rho:
            options |= {"least": "rho"}
    may_be_single = statistic in [*TABLES, "quantiles"]
    is_single = may_be_single and draw.random() < 0.4
    if is_single:
        append = False
        of_windows = (*OF_TIME, "quiet", "release", "strategy")
        options = {name: value for name, value in options.items() if name not in of_windows}
    if is_single and "target" in options and "within" not in options and draw.random() < 0.5:
        loss = ("epsilon", "delta", "rho")
        options = {name: value for name, value in options.items() if name not in loss}
    nights = list(_nights(draw, append=append, bad=bad))
    for of_night, _, _ in nights if is_single else ():
        for name in ("until", "covers", "append"):
            of_night.pop(name, None)
    for of_night, _, _ in nights:
        if options.get("unknown") == "discover":
            of_night.pop("covers", None)
    return History(statistic, options, nights, in_folder=append and draw.random() < 0.3)


def _nights(
    draw: random.Random, *, append: bool, bad: bool
) -> Iterator[tuple[dict[str, Any], list[pl.DataFrame], datetime]]:
    day = 1
    files: list[pl.DataFrame] = []
    for _ in range(draw.randint(2, 5)):
        day += draw.choice([0, 1, 1, 1, 2, 3])
        now = START + timedelta(days=day, hours=draw.randint(1, 20))
        options: dict[str, Any] = {"append": append, "yes": draw.random() < 0.3}
        if draw.random() < 0.3:
            options["until"] = (START + timedelta(days=day - draw.randint(0, 1))).isoformat()
        elif draw.random() < 0.2:
            options["until"] = "newest"
        if not append and draw.random() < 0.4:
            options["covers"] = f"{draw.randint(2, 6)}d"
        new = _rows(draw, day, bad=bad)
        given = [new]
        if files and append and draw.random() < 0.3:
            given = draw.choice(
                [[files[-1]], [files[-1], new], [new, _rows(draw, day, bad=bad)], [new, new]]
            )
        if files and not append and draw.random() < 0.7:
            given = [*files, new] if draw.random() < 0.6 else [files[-1], new]
        files.append(new)
        yield options, given, now


def _rows(draw: random.Random, day: int, *, bad: bool) -> pl.DataFrame:
    """Draw the rows of a file: most of its own day, some of earlier ones."""
    number = draw.choice([0, 3, 8, 20])
    most = draw.choice([4, 4, 4, 2**32])  # sums of the largest counts are not exact in a table
    at = [
        START
        + timedelta(days=day - 1 - draw.choice([0, 0, 0, 1, 2, 5]), minutes=draw.randrange(1440))
        for _ in range(number)
    ]
    columns: dict[str, list[Any]] = {
        "at": [time.strftime("%Y-%m-%dT%H:%M:%S.%f") for time in at],
        "page": draw.choices(["home", "shop", "help", "?"], k=number),
        "device": draw.choices(["big", "small"], k=number),
        "paid": [str(draw.uniform(-3, 7)) for _ in at],
        "many": [str(draw.choice([0, 1, 2, 3, 4, most])) for _ in at],
    }
    for values in columns.values() if bad else ():
        if number and draw.random() < 0.3:
            values[draw.randrange(number)] = draw.choice([None, None, "x"])
    return pl.DataFrame(columns, schema=dict.fromkeys(columns, pl.String))


#: Options that differ from those of most histories.
OTHER_USER_OPTIONS: list[dict[str, Any]] = [
    {"most": 7},
    {"user": "page"},
    {"per": "2d"},
    {"id": "device"},
    {"first": True},
    {"distinct": True},
    {"most_a_window": 1},
    {"recounts": 3},
]
_NOT_BESIDE_SLOTS = ("distinct", "most_a_window")


def history_of_users(seed: int) -> History:
    """Draw a history, with users or ids."""
    draw = random.Random(f"users {seed}")
    statistic, options, nights, in_folder, _ = random_history(seed)
    append = nights[0][0].get("append", False)
    options = {name: value for name, value in options.items() if name != "counts"}
    if "time" not in options:
        return _single_table_of_users(draw, statistic, options, nights)
    options |= {"quiet": 999}
    is_long = draw.random() < 0.4
    if is_long and "steps" in options:
        options["steps"] = 400
    kinds = ["user"] * 3 + ["first", "id", "user and id", "recounts", "slots", "slots"]
    kind = draw.choice([*kinds, "reach", "distinct", "moves"])
    if kind in ("reach", "distinct"):
        return _history_of_reach(draw, kind, options, nights, in_folder=in_folder)
    if kind == "moves" and statistic == "count" and options.get("unknown") != "discover":
        options |= {"counts": "many", "moves": draw.choice([1, 3]), "row": "visit"}
        return History(statistic, options, nights, in_folder, OTHER_USER_OPTIONS)
    if kind == "slots" and statistic != "average" and options.get("unknown") != "discover":
        others = ("around", "release", "strategy")
        options = {name: value for name, value in options.items() if name not in others}
        options |= _bound(draw, statistic)
        options |= {"revise": draw.choice(["2d", "4d"]), "recounts": draw.randint(1, 2)}
        options = {name: value for name, value in options.items() if name not in _NOT_BESIDE_SLOTS}
        append = in_folder = False
        for of_night, _, _ in nights:
            of_night["append"] = False
    revised = "revise" in options
    if kind in ("user", "user and id"):
        options |= _bound(draw, statistic)
    if kind == "first":
        options |= {"user": "who", "first": True}
        if draw.random() < 0.7 or "by" in options:
            options |= {"most": draw.randint(1, 3) if "by" in options else 1}
        if revised and draw.random() < 0.9:
            options.pop("revise")
            options.setdefault("steps", 30)
    if kind in ("id", "user and id"):
        options |= {"id": "number"}
        for of_night, _, _ in nights:
            if draw.random() < 0.95:
                of_night.pop("covers", None)
    if not append and (kind == "recounts" or (kind == "user" and revised and draw.random() < 0.6)):
        options |= {"recounts": draw.randint(1, 2)}
        if draw.random() < 0.9:
            options.pop("most_a_window", None)
            options.pop("distinct", None)
    shifts = _shifts(draw, len(nights), is_long=is_long)
    bad = "missing" in options
    users = draw.choice([["a", "b"], ["a", "b", "c", "d", "ä" * 40]])
    coarse = draw.random() < 0.5  # then many rows of a user have one time
    frames: dict[int, pl.DataFrame] = {}
    new_nights = []
    for (of_night, files, now), shift in zip(nights, shifts, strict=True):
        for file in files:
            if id(file) not in frames:
                whole = _with_users(draw, file, shift, users, bad=bad)
                frames[id(file)] = whole.with_columns(at=_at_noon(whole["at"])) if coarse else whole
        shown = [frames[id(file)] for file in files]
        if not append and draw.random() < (0.8 if kind == "slots" else 0.4):
            shown = [_changed(draw, file) for file in shown]
        if "until" in of_night and of_night["until"] != "newest":
            of_night["until"] = (START + timedelta(days=(now - START).days + shift)).isoformat()
        new_nights.append((of_night, shown, now + timedelta(days=shift)))
    return History(statistic, options, new_nights, in_folder, OTHER_USER_OPTIONS)


def _history_of_reach(
    draw: random.Random,
    statistic: str,
    options: dict[str, Any],
    nights: list[Any],
    *,
    in_folder: bool,
) -> History:
    """Draw a history of numbers of users by their numbers of rows, or of distinct users."""
    own = {"value", "lower", "upper", "resolution", "cells", "edges", "line", "shares", "columns"}
    own |= {"bounds", "grid", "top", "levels", "target", "equal", "label", "workload", "ask"}
    own |= {"statistics", "size", "within", "least", "replace", "unknown", "delta", "strategy"}
    own |= set() if "by" in options else {"domain"}
    options = {name: value for name, value in options.items() if name not in own}
    if not {"epsilon", "rho"} & set(options):
        options |= {"epsilon": 1}
    if "by" in options and isinstance(options.get("domain"), str):
        options |= {"other": "others"}
    options |= {"user": "who"}
    if "by" in options:
        options |= {"most": draw.randint(1, 2)}
    if statistic == "reach":
        options |= draw.choice([{}, {"at_least": "1,2"}, {"at_least": "2"}])
        per = options["every"] if "revise" in options else draw.choice(["1d", "3d", "1w"])
        options |= draw.choice([{"per": per}, {"per": per}, {}])
        if options.get("release") in ("windows", "both"):
            options |= draw.choice([{"release": "periods"}, {}])
    else:
        options.pop("revise", None)
        options.setdefault("steps", 30)
        if "around" in options or options.get("expire"):
            options.pop("steps")
    frames = {
        id(file): _with_users(draw, file, 0, ["a", "b", "c"], bad="missing" in options)
        for _, files, _ in nights
        for file in files
    }
    shown = [
        (of_night, [frames[id(file)] for file in files], now) for of_night, files, now in nights
    ]
    return History(statistic, options, shown, in_folder, OTHER_USER_OPTIONS)


def _single_table_of_users(
    draw: random.Random, statistic: str, options: dict[str, Any], nights: list[Any]
) -> History:
    """Draw users for a table that is released once."""
    options |= {"user": "who", "most": draw.choice([1, 2, 5])}
    if draw.random() < 0.2:
        options |= {"distinct": True}
    frames = {
        id(file): _with_users(draw, file, 0, ["a", "b", "c"], bad="missing" in options)
        for _, files, _ in nights
        for file in files
    }
    shown = [
        (of_night, [frames[id(file)] for file in files], now) for of_night, files, now in nights
    ]
    return History(statistic, options, shown, in_folder=False)


def history_of_slots(seed: int) -> History:
    """Draw eight snapshots of few users, whose rows come and go: slots are replaced often."""
    draw = random.Random(f"slots {seed}")
    options: dict[str, Any] = {"time": "at", "every": "1d", "start": "2024-03-01", "epsilon": 1}
    options |= {"revise": "6d", "by": "page", "domain": "home,shop", "quiet": 99, "user": "who"}
    options |= {"most": draw.randint(2, 4), "recounts": draw.randint(1, 3)}
    if draw.random() < 0.5:
        options |= {"per": draw.choice(["2d", "1w"])}
    nights = []
    for day in range(1, 9):
        rows = [
            (START + timedelta(days=draw.randrange(day), hours=draw.randrange(9)), user, page)
            for user in ("a", "b")
            for page in draw.choices(["home", "shop"], k=draw.randint(0, 6))
        ]
        columns = ["at", "who", "page"]
        frame = pl.DataFrame(rows, dict.fromkeys(columns), orient="row")
        frame = frame.with_columns(pl.col("at").cast(pl.String)).cast(pl.String)
        nights.append(({"yes": True}, [frame], START + timedelta(days=day, hours=1)))
    return History("count", options, nights, in_folder=False)


def _bound(draw: random.Random, statistic: str) -> dict[str, Any]:
    options: dict[str, Any] = {"user": "who", "most": draw.choice([1, 2, 2, 3, 5])}
    per = draw.choice([None, None, "1d", "3d", "1w", "1mo", "12h", "36h"])
    if per is not None:
        options |= {"per": per}
    if draw.random() < 0.5 and statistic != "average":
        options |= {"most_a_window": draw.randint(1, options["most"])}
    if draw.random() < 0.2:
        options |= {"distinct": True}
    return options


def _shifts(draw: random.Random, nights: int, *, is_long: bool) -> list[int]:
    """Return by how many days each night is later: with long gaps, digests are deleted."""
    shifts = [0]
    for _ in range(nights - 1):
        gap = draw.choice([0, 20, 33, 36, 45]) if is_long else 0
        shifts.append(shifts[-1] + gap)
    return shifts


def _with_users(
    draw: random.Random, file: pl.DataFrame, shift: int, users: list[str], *, bad: bool
) -> pl.DataFrame:
    """Add users and ids, and move the rows to their night; some are as late as users are known."""
    who = draw.choices(users, k=file.height)
    number = [str(draw.randint(1, 12)) for _ in range(file.height)]
    if bad and file.height and draw.random() < 0.3:
        who[0] = None  # type: ignore[call-overload]
    if bad and file.height and draw.random() < 0.3:
        number[-1] = None  # type: ignore[call-overload]
    times = []
    for time in file["at"]:
        late = draw.choice([0, 0, 0, 0, 33, 36, 40]) if shift else 0
        is_time = time not in (None, "x")
        moved = timedelta(days=shift - min(late, shift))
        times.append((datetime.fromisoformat(time) + moved).isoformat() if is_time else time)
    columns = {"who": who, "number": number, "at": times}
    return file.with_columns(pl.Series(name, values, pl.String) for name, values in columns.items())


def _at_noon(times: pl.Series) -> pl.Series:
    return times.str.replace("T.*", "T12:00:00")


def _changed(draw: random.Random, file: pl.DataFrame) -> pl.DataFrame:
    """Return a snapshot some of whose rows vanish, or are of another user, value or group."""
    stays = [draw.random() < 0.8 for _ in range(file.height)]
    kept = file.filter(pl.Series(stays, dtype=pl.Boolean))
    if not kept.height:
        return kept
    column = draw.choice(["who", "paid", "page"])
    changes = pl.int_range(pl.len()) % 3 == 0
    earlier = pl.col(column).shift(1, fill_value=kept[column][-1])
    return kept.with_columns(pl.when(changes).then(earlier).otherwise(column).alias(column))
