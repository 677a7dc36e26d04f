"""The command line on a state that is a PostgreSQL server."""

import json
from pathlib import Path

import pytest

from .conftest import Workplace

pytestmark = pytest.mark.slow

ROWS = ["00:10,a", "00:20,b", "01:10,a", "03:30,a"]


@pytest.fixture
def on_server(place: Workplace, postgres: str) -> Workplace:
    place.state = postgres  # type: ignore[assignment]  # an address in place of a path
    return place


def test_stream_on_server_continues_in_later_runs(on_server: Workplace) -> None:
    place = on_server
    key = str(on_server.folder / "the.key")
    out = "out.parquet"
    table = ("--key", key, "--output", str(place.folder / out))
    place.count(place.write("e.csv", ROWS[:3]), *table).fine()
    assert Path(key).stat().st_mode & 0o777 == 0o600
    events = place.write("e.csv", [*ROWS, "00:50,b"])  # a late row too
    second = place("release", "count", events, *place.again, *table).fine()
    assert "arrived after their window was released, not counted" in second.err
    assert place.estimates() == [[1, 1], [2, 1], [2, 1]]
    third = place("release", "count", events, *place.again, *table)
    assert "No new window is due" in third.out
    shown = place("inspect", str(place.state))
    assert "Stream count" in shown.out
    spent = json.loads(place("ledger", str(place.state), "--budget-epsilon", "150", "--json").out)
    assert spent["remaining"] == {"guarantee": "pure", "epsilon": "50"}
    refused = place(
        "release", "count", events, *place.new(), "--stream", "another", "--key", f"{key}2"
    )
    assert refused.code == 4
    assert not Path(f"{key}2").exists()


def test_plan_on_server_creates_nothing_and_shows_remaining_budget(on_server: Workplace) -> None:
    place = on_server
    job = f"""
[defaults]
state = "{place.state}"
key = "the.key"
events = "e.csv"
time = "time"
every = "1h"
start = "2013-01-01T00:00"
windows = 6
until = "2013-01-01T01:00"
epsilon = 1
[jobs.visits]
[jobs.more]
"""
    file = place.folder / "nightly.toml"
    file.write_text(job)
    place.write("e.csv", ROWS)
    before = json.loads(place.plain("plan", str(file), "--json").out)
    assert place.plain("inspect", str(place.state)).code != 0  # there is no table yet
    assert place.plain("ledger", str(place.state), "--budget-epsilon", "3").code == 0
    assert place.plain("run", str(file)).code == 0
    after = json.loads(place.plain("plan", str(file), "--json").out)
    assert after == before
    file.write_text(f"{job}[jobs.last]\nepsilon = 2\n")
    planned = place.plain("plan", str(file))
    done = place.plain("run", str(file))
    assert (planned.code, done.err.endswith(planned.err)) == (done.code, True)
    assert "epsilon = 1 is left" in planned.err
