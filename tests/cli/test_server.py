"""The command line on a state that is a PostgreSQL server."""

import json
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.slow

ROWS = ["00:10,a", "00:20,b", "01:10,a", "03:30,a"]


@pytest.fixture
def on_server(place: Any, postgres: str) -> Any:
    place.state = postgres
    return place


def test_a_stream_on_a_server_goes_on_every_night(on_server: Any) -> None:
    place, key, out = on_server, str(on_server.folder / "the.key"), "out.parquet"
    table = ("--key", key, "--out", str(place.folder / out))
    place.count(place.write("e.csv", ROWS[:3]), *table).fine()
    assert Path(key).stat().st_mode & 0o777 == 0o600
    events = place.write("e.csv", [*ROWS, "00:50,b"])  # a late row too
    second = place("count", events, *place.again, *table).fine()
    assert "released before, not counted from a file of all events" in second.err
    assert place.estimates() == [[1, 1], [2, 1], [2, 1]]
    third = place("count", events, *place.again, *table)
    assert "Nothing new to release" in third.out
    shown = place("show", str(place.state))
    assert "stream count" in shown.out
    spent = json.loads(place("ledger", str(place.state), "--limit-epsilon", "150", "--json").out)
    assert spent["remaining"] == {"guarantee": "pure", "epsilon": "50"}
    refused = place("count", events, *place.new(), "--name", "another", "--key", f"{key}2")
    assert refused.code == 4
    assert not Path(f"{key}2").exists()


def test_a_server_has_no_place_for_a_key(on_server: Any) -> None:
    done = on_server.count(on_server.write("e.csv", ROWS))
    assert done.code == 6
    assert "give --key, the place of the key" in done.err
    assert "stream" not in on_server("show", str(on_server.state)).out


def test_a_key_that_is_in_no_file_has_a_witness_too(on_server: Any) -> None:
    key = str(on_server.folder / "the.key")
    rows = on_server.write("e.csv", ROWS)
    assert on_server.count(rows, "--key", key).code == 0
    printed = on_server("verify", on_server.state, "--key", f"command:cat {key}")
    assert printed.code == 0, printed.err
    assert on_server.count(rows, "--key", f"command:cat {key}").code == 0


def test_where_no_witness_can_be_nothing_is_released(
    on_server: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Unless a folder is named, or none."""
    key = str(on_server.folder / "the.key")
    rows = on_server.write("e.csv", ROWS)
    monkeypatch.setenv("XDG_STATE_HOME", "/dev/null")
    refused = on_server.count(rows, "--key", key)
    assert refused.code == 9
    said = "or name a folder that is (--witness), or 'none' for no witness"
    assert said in " ".join(refused.err.split())
    assert on_server.count(rows, "--key", key, "--witness", "none").code == 0
    assert on_server.count(rows, "--key", key).code == 0


def test_another_machine_is_told_what_to_say(
    on_server: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    key, homes = str(on_server.folder / "the.key"), on_server.folder / "homes"
    rows = on_server.write("e.csv", ROWS)
    monkeypatch.setenv("XDG_STATE_HOME", str(homes / "one"))
    assert on_server.count(rows, "--key", key).code == 0
    homes.rename(on_server.folder / "away")
    monkeypatch.setenv("XDG_STATE_HOME", str(homes / "two"))
    refused = on_server("verify", on_server.state, "--key", key)
    assert refused.code == 7
    away = on_server.count(rows, "--key", key)
    assert away.code == 9, away.err
    said = " ".join(away.err.split())
    assert "name its folder (--witness), which all machines that use the state share" in said
    assert "confirm it (counton verify --accept-old-copy)" in said
    taken = on_server("verify", on_server.state, "--key", key, "--accept-old-copy")
    assert taken.code == 0, taken.out + taken.err
    assert "holds this copy of 'count' for the newest" in " ".join(taken.err.split())
    assert on_server.count(rows, "--key", key).code == 0


def test_a_plan_makes_nothing_on_a_server_and_counts_what_is_there(on_server: Any) -> None:
    place = on_server
    job = f"""
[defaults]
state = "{place.state}"
key = "the.key"
events = "e.csv"
time = "time"
every = "1h"
start = "2013-01-01T00:00"
steps = 6
until = "2013-01-01T01:00"
epsilon = 1
[jobs.visits]
[jobs.more]
"""
    file = place.folder / "nightly.toml"
    file.write_text(job)
    place.write("e.csv", ROWS)
    before = json.loads(place.plain("plan", str(file), "--json").out)
    assert place.plain("show", str(place.state)).code != 0  # there is no table yet
    assert place.plain("ledger", str(place.state), "--limit-epsilon", "3").code == 0
    assert place.plain("run", str(file)).code == 0
    after = json.loads(place.plain("plan", str(file), "--json").out)
    assert after == before
    file.write_text(f"{job}[jobs.last]\nepsilon = 2\n")
    planned, done = place.plain("plan", str(file)), place.plain("run", str(file))
    assert (planned.code, done.err.endswith(planned.err)) == (done.code, True)
    assert "epsilon = 1 is left" in planned.err
