"""One unit's rows in some nights' files and not in others, beside rows of others that do the same.

By each door whole nights run twice, without the unit and with it. Noise rounds to nothing, so that
what all nights release together shows how far one unit moves what is measured.
"""

import random
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
from click.testing import CliRunner

from counton.cli.app import app
from counton.continual.sensitivity import sensitivity_of
from counton.job.saved_job import save
from counton.run import Job, run
from counton.state import Store
from counton.strategies import Binary
from tools.brute_force import Tried, _at, strategies

Case = dict[str, Any]
NIGHTS = 3
COLUMNS = ("user", "at", "group", "id", "value", "night")
VALUE: dict[str, Any] = {"value": "value", "lower": 0, "upper": 4, "resolution": 1}
BY: dict[str, Any] = {"group_by": "group", "groups": "n,s"}
STATISTICS: dict[str, dict[str, Any]] = {
    "count": BY,
    "sum": {**VALUE, **BY},
    "average": VALUE,
    "quantiles": {"value": "value", "edges": "0,2,5", "line": "identity"},
    "report": {
        "statistics": {
            "n": {"statistic": "count", "group_by": "group", "groups": ["n", "s"]},
            "paid": {"statistic": "average", **VALUE},
        }
    },
}
PEOPLE: tuple[dict[str, Any], ...] = (
    {"user": "user", "max_contributions": 2},
    {"user": "user", "max_contributions": 1, "contribution_period": "2h"},
    {"user": "user", "max_contributions": 2, "contribution_period": "2h"},
    {"user": "user", "max_contributions": 1, "distinct_users": True},
    {"user": "user", "max_contributions": 2, "once_per_window": True},
    {"user": "user", "max_contributions": 2, "max_contributions_per_window": 1},
)
DOORS = ("files", "frames", "job file")
ZONES = ("Z", "+05:30", "-08:00", "+00:00")
ENDINGS = ("csv", "csv.gz", "jsonl", "parquet")


def draw(chance: random.Random) -> Case:
    """Nights of others, and of one unit: an event, an id, a user, or one period of a user."""
    kind = chance.choice(["event", "event", "id", "user", "user and id"])
    people = dict(chance.choice(PEOPLE)) if "user" in kind else {}
    people = dict(chance.choice((PEOPLE[1], *PEOPLE[1:]))) if kind == "user and id" else people
    ids = "id" in kind
    append = chance.random() < 0.4
    hours = chance.sample(range(6), 3)  # few, so that rows of one window come and go
    name = chance.choice([*STATISTICS])
    if people.keys() & {"distinct_users", "once_per_window"}:
        name = "count"
    if "max_contributions_per_window" in people:
        name = chance.choice(["count", "sum"])
    others = [
        _row(chance, hours, append, user=chance.choice("bcd"), id=str(chance.randrange(30)))
        for _ in range(chance.randint(4, 24))
    ]
    if not people and ids:  # without users an id is one unit
        others = [[*row[:4], f"{number}", row[5]] for number, row in enumerate(others)]
    unit = [
        _row(chance, hours, append and not (people or ids), user="ann", id="x")
        for _ in range(chance.randint(1, 4) if people or ids else 1)
    ]
    if people and ids:
        others += [
            _row(chance, hours, append, user="bob", id="x")
        ]  # whose id says nothing of ann's
        unit = [[*row[:4], chance.choice("xxy"), row[5]] for row in unit]
    if "contribution_period" in people:
        unit = [[row[0], row[1] % 2 + 2, *row[2:]] for row in unit]
        before = _row(chance, hours, append, user="ann", id="x")  # another unit: her other hours
        others += [[before[0], hour, *before[2:4], id, 1] for hour, id in ((0, "w"), (5, "x"))]
    if ids and not append:  # a file with none of the ids of earlier files is refused
        others.append([[*range(NIGHTS)], hours[0], "n", "keeper", "kept", 1])
    return {
        "statistic": name,
        "own": {**people, **({"row_id": "id"} if ids else {}), "append": append},
        "others": others,
        "unit": unit,
        "door": chance.choice(DOORS + ("folder",) * append),
        "files": [
            [chance.choice(ENDINGS), chance.choice(ZONES), chance.random() < 0.5]
            for _ in range(NIGHTS)
        ],
    }


def _row(chance: random.Random, hours: list[int], once: bool, *, user: str, id: str) -> list[Any]:
    """In which nights it stands, its hour, group, user, id and value."""
    nights = [night for night in range(NIGHTS) if chance.random() < 0.6] or [0]
    if once:
        nights = [chance.choice(nights)]
    return [nights, chance.choice(hours), chance.choice("ns"), user, id, chance.randrange(5)]


def run_both(case: Case, folder: Path) -> str:
    """Without the unit, and with it.

    Raises:
        AssertionError: all that is released moves further than is claimed.
    """
    found = []
    for name, rows in (("without", []), ("with", case["unit"])):
        (folder / name).mkdir()
        found.append(_released(case, [*case["others"], *rows], folder / name))
    (without, design), (with_it, _) = found
    nodes = next(one for one in strategies(6) if type(one.strategy) is Binary)
    tried = Tried(case["statistic"])
    claim = sensitivity_of(nodes.strategy, design.contribution, design.shape)
    tried.hold(with_it - without, nodes, claim, case["unit"])
    return f"{case['statistic']} by {case['door']}"


def _released(case: Case, rows: list[Any], folder: Path) -> tuple[Any, Any]:
    state = folder / "s.db"
    for night in range(NIGHTS):
        events = _events(case, rows, night, folder)
        asked: dict[str, Any] = {
            "time": "at", "every": "1h", "start": "2026-01-01", "windows": 6, "strategy": "binary",
            "epsilon": 10**7, "until": f"2026-01-01T0{2 * night + 2}:00",
            "allow_empty_windows": True, "stream": "it", "missing_values": "drop",
            **STATISTICS[case["statistic"]], **case["own"],
        }  # fmt: skip
        job = Job(case["statistic"], events, state, **asked)
        if case["door"] == "job file":
            file = folder / f"night{night}.toml"
            save(job, file)
            done = CliRunner().invoke(app, ["run", str(file)])
            assert done.exit_code == 0, done.output
        else:
            run(job).close()
    with Store(state) as store:
        reader = store.reader("it")
        values = np.asarray(reader.releases().values, float) / float(reader.design.units.exact)
    values = np.rint(values).reshape(len(values), -1)
    return np.diff(values, axis=0, prepend=0), reader.design


def _events(case: Case, rows: list[Any], night: int, folder: Path) -> Any:
    """The rows of a night as a file, a frame, or a folder to which each night adds one."""
    ending, zone, backwards = case["files"][night]
    told = [
        (user, _at(hour, number, zone), group, id, str(value), str(night))
        for number, (nights, hour, group, user, id, value) in enumerate(rows)
        if night in nights
    ]
    frame = pl.DataFrame(
        told[::-1] if backwards else told, schema=dict.fromkeys(COLUMNS, pl.String), orient="row"
    )
    if case["own"]["append"]:  # no two nights' files, or frames, are equal
        frame = frame.with_columns(pl.col("at").str.replace(":00", f":0{night}", literal=True))
    if case["door"] == "frames":
        return frame
    inside = folder / "nights" if case["door"] == "folder" else folder  # which keeps earlier files
    inside.mkdir(exist_ok=True)
    path = inside / f"{night}.{ending}"
    if ending == "parquet":
        frame.write_parquet(path)
    elif ending == "jsonl":
        first = dict.fromkeys(COLUMNS)
        frame.vstack(pl.DataFrame([first], schema=frame.schema)).write_ndjson(path)
    else:
        frame.write_csv(path, compression="gzip" if ending == "csv.gz" else "uncompressed")
    return inside if case["door"] == "folder" else path
