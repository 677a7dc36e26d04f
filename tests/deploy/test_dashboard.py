"""Grafana's dashboard: every query of its file, on a stream that was really published.

The queries run as the role that a dashboard has, with the rights that `deploy/postgresql` gives.
"""

import json
import re
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import psycopg
import pytest
from postgresql_server import Server

from counton.run import Job, export, publish, run

ROOT = Path(__file__).parents[2]
BOARD: dict[str, Any] = json.loads((ROOT / "deploy/grafana/counton.json").read_text("utf-8"))
PANELS: dict[str, dict[str, Any]] = {panel["title"]: panel for panel in BOARD["panels"]}
VARIABLES: dict[str, dict[str, Any]] = {each["name"]: each for each in BOARD["templating"]["list"]}
START = datetime(2024, 3, 1, tzinfo=UTC)
GROUPS = ["home", 'it\'s "here"', "none"]

pytestmark = pytest.mark.xdist_group("dashboard")


def sql_of(text: str, **chosen: list[str]) -> str:
    """A query as Grafana sends it: its macro and its variables written out."""

    def quoted(match: re.Match[str]) -> str:
        return ",".join("'" + value.replace("'", "''") + "'" for value in chosen[match[1]])

    text = re.sub(r"\$\{(\w+):sqlstring\}", quoted, text)
    until = START + timedelta(days=9)
    text = re.sub(
        r"\$__timeFilter\(([\w.]+)\)",
        rf"\1 BETWEEN '{START.isoformat()}' AND '{until.isoformat()}'",
        text,
    )
    assert "$" not in text, f"left for Grafana, which does not know it: {text}"
    return text


def every_query(part: Any) -> Iterator[str]:
    """All texts of the file that are SQL, wherever they stand."""
    if isinstance(part, dict):
        for name, value in part.items():
            if name in {"rawSql", "query", "definition"} and "SELECT" in str(value):
                yield value
            else:
                yield from every_query(value)
    elif isinstance(part, list):
        for value in part:
            yield from every_query(value)


@pytest.fixture(scope="module")
def published(
    postgres_server: Server, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[dict[str, Any], str]]:
    """Tables of three streams, and a reader of the database in which they are published."""
    folder = tmp_path_factory.mktemp("published")
    (folder / "e.csv").write_text(
        "time,page,seconds\n"
        + "".join(
            f"2024-03-0{1 + number % 7}T10:{number % 60:02},"
            + f'"{GROUPS[number % 2]}"'.replace('"here"', '""here""')
            + f",{number % 30}\n"
            for number in range(700)
        ),
        encoding="utf-8",
    )
    admin = postgres_server.url
    scripts = ROOT / "deploy" / "postgresql"

    def url(role: str, database: str) -> str:
        return postgres_server.url.replace("counton@/postgres", f"{role}@/{database}")

    def carry_out(script: str, place: str) -> None:
        text = re.sub(r"^--.*$", "", (scripts / script).read_text("utf-8"), flags=re.MULTILINE)
        with psycopg.connect(place, autocommit=True) as connection:
            for statement in filter(str.strip, text.split(";")):
                connection.execute(statement.encode())

    carry_out("roles.sql", admin)
    state = url("counton_writer", "counton")
    key = folder / "the.key"
    shared: dict[str, Any] = {
        "events": folder / "e.csv", "state": state, "key": key, "time": "time", "every": "1d",
        "start": "2024-03-01", "windows": 366, "until": "2024-03-07", "epsilon": 1,
        "group_by": "page",
        "groups": GROUPS,
    }  # fmt: skip
    run(Job("count", stream="visits", series="both", **shared)).close()
    run(Job("count", stream="windows", series="per-window", **shared)).close()
    run(
        Job("average", stream="seconds", value="seconds", lower=0, upper=30, resolution=1, **shared)
    ).close()
    carry_out("publisher.sql", url("counton_writer", "counton"))
    public = url("counton_publisher", "counton_public")
    for name in ("visits", "windows", "seconds"):
        publish(url("counton_publisher", "counton"), public, stream=name, key=key)
    carry_out("reader.sql", public)
    reader = url("counton_reader", "counton_public")
    tables = {name: export(state, stream=name).table() for name in ("visits", "windows", "seconds")}
    yield tables, reader
    with psycopg.connect(admin, autocommit=True) as connection:
        for database in ("counton", "counton_public"):
            connection.execute(f"DROP DATABASE {database} WITH (FORCE)".encode())
        for role in ("writer", "publisher", "reader"):
            connection.execute(f"DROP ROLE counton_{role}".encode())


def answer(reader: str, query: str, **chosen: list[str]) -> tuple[list[str], list[Any]]:
    with psycopg.connect(reader) as connection:
        found = connection.execute(sql_of(query, **chosen).encode())
        assert found.description is not None
        return [column.name for column in found.description], found.fetchall()


def asked(title: str) -> str:
    (target,) = PANELS[title]["targets"]
    return str(target["rawSql"])


@pytest.mark.slow
def test_variables_offer_streams_and_their_groups(published: Any) -> None:
    _, reader = published
    assert answer(reader, VARIABLES["stream"]["query"])[1] == [
        ("seconds",),
        ("visits",),
        ("windows",),
    ]
    _, groups = answer(reader, VARIABLES["group"]["query"], stream=["visits"])
    assert sorted(name for (name,) in groups) == sorted(GROUPS)
    for name in ("stream", "group"):
        assert VARIABLES[name]["definition"] == VARIABLES[name]["query"]


@pytest.mark.slow
@pytest.mark.parametrize("group", GROUPS)
def test_dashboard_bands_equal_released_intervals(group: str, published: Any) -> None:
    tables, reader = published
    for title, series, stream in (
        ("$group: running number", "cumulative", "visits"),
        ("$group: each window", "per-window", "visits"),
        ("$group: each window", "per-window", "windows"),
    ):
        wanted = ["estimate", "lower", "upper"]
        names, rows = answer(reader, asked(title), stream=[stream], group=[group])
        table = tables[stream].filter(group=group, series=series)
        assert names == ["time", *wanted]
        assert [row[1:] for row in rows] == table.select(wanted).rows()
        assert len(rows) == 6
        assert [row[0] for row in rows] == [START + timedelta(days=day) for day in range(1, 7)]
    # A stream of windows has no running number, and the panel stays empty instead of showing 0.
    empty = answer(reader, asked("$group: running number"), stream=["windows"], group=[group])
    assert empty[1] == []


@pytest.mark.slow
def test_newest_numbers_are_those_of_the_last_step(published: Any) -> None:
    tables, reader = published
    for stream in ("visits", "windows"):
        names, rows = answer(reader, asked("Newest numbers"), stream=[stream], group=GROUPS)
        assert names == ["group", "series", "estimate", "lower", "upper", "noise_std"]
        last = tables[stream].filter(tables[stream]["window_index"] == 6)
        assert sorted(rows) == sorted(last.select(names).rows())
        assert [row[2] for row in rows] == sorted((row[2] for row in rows), reverse=True)
    _, groups = answer(reader, VARIABLES["group"]["query"], stream=["seconds"])
    found = answer(
        reader, asked("Newest numbers"), stream=["seconds"], group=[name for (name,) in groups]
    )[1]
    last = tables["seconds"].filter(tables["seconds"]["window_index"] == 6)
    assert len(groups) == len(found) == last.height
    assert sorted(row[2] for row in found) == sorted(last["estimate"])


@pytest.mark.slow
def test_dashboard_shows_newest_window_and_guarantee(published: Any) -> None:
    _, reader = published

    def fact(title: str) -> Any:
        ((value,),) = answer(reader, asked(title), stream=["visits"])[1]
        return value

    assert fact("Newest window") == START + timedelta(days=6)
    assert fact("Windows released") == 6
    assert fact("Windows that are due") > 700  # the data are of 2024
    assert fact("Probability of each interval") == 0.95
    ((protected, guarantee, strategy),) = answer(
        reader, asked("What is protected"), stream=["visits"]
    )[1]
    assert protected.startswith(
        "one event added or removed, counted in one cell of one step by at most 1"
    )
    assert guarantee == "pure differential privacy with epsilon = 1"
    assert strategy


@pytest.mark.slow
def test_dashboard_queries_run_with_rights_of_reader(published: Any) -> None:
    _, reader = published
    queries = [*every_query(BOARD)]
    assert len(queries) == len(PANELS) + 4  # a variable's stands there twice
    for query in queries:
        assert answer(reader, query, stream=["visits"], group=GROUPS[:1])[1], query
    with pytest.raises(psycopg.errors.InsufficientPrivilege, match="denied"):
        answer(reader, "SELECT 1 FROM counton_published_rows")


@pytest.mark.slow
def test_reader_cannot_open_state_and_publisher_cannot_read_sums(
    published: Any, postgres_server: Server
) -> None:
    _, reader = published
    enter = "SELECT has_database_privilege({}, 'counton', 'CONNECT')"
    for role, may in (("counton_reader", False), ("counton_publisher", True)):
        assert answer(reader, enter.format(f"'{role}'"))[1] == [(may,)]
    publisher = postgres_server.url.replace("counton@/postgres", "counton_publisher@/counton")
    secrets = {
        "SELECT checkpoint FROM counton_streams", "SELECT 1 FROM counton_observed",
        "SELECT 1 FROM counton_marks", "SELECT 1 FROM counton_noise",
        "UPDATE counton_streams SET step = 0",
    }  # fmt: skip
    for query in secrets:
        with (
            psycopg.connect(publisher) as connection,
            pytest.raises(psycopg.errors.InsufficientPrivilege, match="permission denied"),
        ):
            connection.execute(query.encode())


def test_each_band_is_drawn_between_columns_of_its_query() -> None:
    for title in ("$group: running number", "$group: each window"):
        panel = PANELS[title]
        overrides = panel["fieldConfig"]["overrides"]
        low, up = (each["matcher"]["options"] for each in overrides)
        said = {each["id"]: each["value"] for each in overrides[1]["properties"]}
        assert said["custom.fillBelowTo"] == low
        selected = asked(title).splitlines()[0]
        assert re.search(rf"\b{low}\b", selected)
        assert re.search(rf"\b{up}\b", selected)
        assert panel["repeat"] == "group"
        assert panel["targets"][0]["format"] == "time_series"


def test_panels_do_not_overlap_and_query_chosen_database() -> None:
    places: set[tuple[int, int]] = set()
    for panel in PANELS.values():
        grid = panel["gridPos"]
        assert grid["x"] + grid["w"] <= 24
        cells = {
            (x, y)
            for x in range(grid["x"], grid["x"] + grid["w"])
            for y in range(grid["y"], grid["y"] + grid["h"])
        }
        assert not places & cells
        places |= cells
        assert panel["datasource"] == panel["targets"][0]["datasource"]
        assert panel["datasource"]["uid"] == "${source}"
    assert len({panel["id"] for panel in PANELS.values()}) == len(BOARD["panels"])
    assert VARIABLES["source"]["query"] == panel["datasource"]["type"]
