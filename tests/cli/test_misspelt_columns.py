"""Every column option, misspelt, by every verb and every door, with something else missing or not:
one sentence that proposes the nearest column, no number, no traceback.
"""

import itertools
import json
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any, cast

import pytest

from counton import release
from counton.base.arguments import split_names
from counton.base.errors import InvalidInputError
from counton.job.statistics import model_of
from counton.statistics.catalogue import keywords

from .conftest import Workplace

COLUMNS = ("time", "visitor", "page", "device", "seconds", "order", "here")
ROW = ("2024-03-01T10:00", "ann", "home", "phone", "30", "1", "true")
DAYS = {"time": "time", "every": "1d", "start": "2024-03-01", "windows": "9", "epsilon": "1",
        "until": "2024-03-03", "user": "visitor", "max_contributions": "1"}  # fmt: skip
#: Options that are left out beside the misspelt one.
MISSING: tuple[tuple[str, ...], ...] = (
    *((), ("most",), ("epsilon",), ("every", "start", "windows")),
    *(
        ("groups",),
        ("lower",),
        ("start", "epsilon", "groups", "max_contributions", "edges", "bounds", "cells"),
    ),
)
#: Statistics that may be a single table, and options of statistics that name columns.
TABLES = ("hierarchy", "ranges", "contingency")
OF_COLUMNS = ("value", "count_column", "columns", "label", "levels")
#: Those of a statistic with a column that its example does not have.
MORE = {**{key: {"count_column": "seconds"} for key in ("hierarchy", "ranges", "contingency")}}


def asked(statistic: str) -> dict[str, str]:
    """A whole job of a statistic, but for its rows."""
    model = model_of(statistic)
    own = {**model.example, **MORE.get(statistic, {})}
    days = {} if statistic in TABLES else DAYS
    return {"epsilon": "1", **days, **own, "row_id": "order"} | (
        {"privacy_unit": "row"} if not days else {}
    )


def misspelt(statistic: str) -> Iterator[tuple[str, dict[str, str], str]]:
    """Each job of a statistic with one wrong column: the option, the job, the column."""
    whole = asked(statistic)
    for option in ("time", "by", "user", "id", *OF_COLUMNS):
        if option not in whole:
            continue
        names = split_names(whole[option])
        wrong = ",".join([*names[:-1], f"{names[-1]}x"])
        for missing in MISSING:
            if option in missing:
                continue
            kept = {name: value for name, value in whole.items() if name not in missing}
            yield option, {**kept, option: wrong}, f"{names[-1]}x"


@pytest.fixture
def rows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "pages.csv").write_text("page\nhome\nshop\n")
    (tmp_path / "v.csv").write_text(f"{','.join(COLUMNS)}\n{','.join(ROW)}\n")
    return tmp_path / "v.csv"


STATISTICS = [name for name in keywords() if name != "report"]


#: Options that are whole numbers in Python and in job files.
WHOLE = ("windows", "max_contributions", "longest", "degree", "leaves", "top", "cells")


def typed(job: dict[str, str]) -> dict[str, Any]:
    return {name: int(value) if name in WHOLE else value for name, value in job.items()}


def check(said: str, wrong: str) -> None:
    """A refusal names the column first, and proposes the right one."""
    proposed = f"has no column {wrong!r}. Did you mean {wrong[:-1]!r}? Its columns are"
    assert proposed in said, said
    assert "needs" not in said.split("has no column")[0]


@pytest.mark.parametrize("statistic", STATISTICS)
def test_misspelt_column_is_refused_in_python_and_commands(
    statistic: str, rows: Path, place: Workplace
) -> None:
    """From Python, a job file and the command line."""
    for number, (_, job, wrong) in enumerate(misspelt(statistic)):
        named = {name.replace("-", "_"): value for name, value in typed(job).items()}
        with pytest.raises(InvalidInputError) as told:
            release(cast("Any", statistic), "v.csv", state="py.db", **named)
        check(str(told.value), wrong)
        done = place.plain(*words_of("typed", statistic, job, rows.parent))
        assert done.code not in (0, 1), done.out
        assert not done.out
        check(" ".join(done.err.split()), wrong)
        if number % 4 == 0:
            done = place.plain(*words_of("file", statistic, job, rows.parent))
            assert done.code not in (0, 1), done.out
            check(" ".join((done.out + done.err).split()), wrong)
    assert not [*rows.parent.glob("*.db")]


#: Statistics that stand for the others here.
SOME = ("count", "sum", "average", "quantiles", "hierarchy", "contingency")


def words_of(way: str, statistic: str, job: dict[str, str], folder: Path) -> list[str]:
    """A command that reads the columns of a job, in one way."""
    verb = ["release", statistic]
    if way.startswith("init"):  # a file for every night says no last one
        job = {name: value for name, value in job.items() if name != "until"}
    options = [
        word for name, value in job.items() for word in (f"--{name.replace('_', '-')}", value)
    ]
    if way in ("typed", "plan"):
        last = "--plan" if way == "plan" else "--allow-empty-windows"
        return [*verb, "v.csv", *options, "--state", "s.db", last]
    query = ["--query", "select * from v"]
    if way == "init-query":
        return ["init", "sqlite:///v.sqlite", *query, *options]
    if way == "query":
        return [
            *verb,
            "sqlite:///v.sqlite",
            *query,
            *options,
            "--state",
            "s.db",
            "--allow-empty-windows",
        ]
    if way == "init":
        return ["init", "v.csv", *options]
    events = {"events": "v.csv"}
    if way == "query-file":
        events = {"events": "sqlite:///v.sqlite", "query": "select * from v"}
    stated = {"statistic": statistic, **events, "state": "s.db", **typed(job)}
    lines = [f"{name.replace('_', '-')} = {json.dumps(value)}" for name, value in stated.items()]
    (folder / "j.toml").write_text("\n".join(["[jobs.one]", *lines]))
    return ["run", "j.toml", "--dry-run" if way == "dry-run" else "--allow-empty-windows"]


@pytest.mark.parametrize(
    ("way", "statistic"),
    [
        ("init", "count"),
        ("init-query", "count"),
        *itertools.product(("plan", "dry-run", "query", "query-file"), SOME),
    ],
)
def test_misspelt_column_is_refused_for_every_source(
    way: str, statistic: str, rows: Path, place: Workplace
) -> None:
    with closing(sqlite3.connect(rows.parent / "v.sqlite")) as database, database:
        database.execute(f"""create table v ("{'", "'.join(COLUMNS)}")""")
        database.execute("insert into v values (?, ?, ?, ?, ?, ?, ?)", ROW)
    for number, (_, job, wrong) in enumerate(misspelt(statistic)):
        if number % 2 == 0:
            before = {*rows.parent.iterdir()} - {rows.parent / "j.toml"}
            done = place.plain(*words_of(way, statistic, job, rows.parent))
            assert done.code not in (0, 1), (job, done.out)
            check(" ".join((done.out + done.err).split()), wrong)
            assert "estimate" not in done.out
            assert {*rows.parent.iterdir()} - {rows.parent / "j.toml"} == before


REPORT = {
    "": {"events": "v.csv", "state": "s.db", **DAYS, "group_by": "page", "groups": "home,shop"},
    "visits": {"statistic": "count", "group_by": "device", "groups": "phone,desk"},
    "paid": {
        "statistic": "sum",
        "value": "seconds",
        "lower": "0",
        "upper": "60",
        "resolution": "1",
    },
    "places": {"statistic": "contingency", "columns": "device,page"},
}


@pytest.mark.parametrize("more", [["--dry-run"], ["--allow-empty-windows"]])
@pytest.mark.parametrize(
    ("part", "option"),
    [*(("", name) for name in ("time", "group_by", "user")), ("visits", "group_by"),
     ("paid", "value"), ("places", "columns")],
)  # fmt: skip
def test_misspelt_column_of_report_is_refused(
    part: str, option: str, more: list[str], rows: Path, place: Workplace
) -> None:
    report = {**REPORT, part: {**REPORT[part], option: f"{REPORT[part][option]}x"}}
    wrong = split_names(report[part][option])[-1]
    for left_out in ((), ("epsilon",), ("max_contributions", "lower", "groups")):
        lines = list[str]()
        for name, job in report.items():
            lines.append(f"[report.shop{name and f'.{name}'}]")
            kept = {key: value for key, value in typed(job).items() if key not in left_out}
            lines += [
                f"{key.replace('_', '-')} = {json.dumps(value)}" for key, value in kept.items()
            ]
        (rows.parent / "r.toml").write_text("\n".join(lines))
        done = place.plain("run", "r.toml", *more)
        assert done.code not in (0, 1), done.out
        check(" ".join((done.out + done.err).split()), wrong)
        assert not [*rows.parent.glob("*.db")]
