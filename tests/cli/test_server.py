"""The command line on a state that is a PostgreSQL server."""

import json
import re
from pathlib import Path
from typing import Any

import pytest

from counton.serve.service import Service
from counton.state import Store

pytestmark = pytest.mark.slow

ROWS = ["00:10,a", "00:20,b", "01:10,a", "03:30,a"]


@pytest.fixture
def on_server(place: Any, postgres: str, monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.setenv("XDG_STATE_HOME", "/dev/null")  # machines have no home in common
    place.state = postgres
    return place


def test_a_stream_on_a_server_goes_on_every_night(on_server: Any) -> None:
    place, key, out = on_server, str(on_server.folder / "the.key"), "out.parquet"
    table = ("--key", key, "--out", str(place.folder / out))
    first = place.count(place.write("e.csv", ROWS[:3]), *table)
    assert first.code == 0, first.err
    assert Path(key).stat().st_mode & 0o777 == 0o600
    events = place.write("e.csv", [*ROWS, "00:50,b"])  # a late row too
    second = place("count", events, *place.again, *table)
    assert second.code == 0, second.err
    assert "released before, not counted from a file of all events" in second.err
    assert place.estimates() == [[1, 1], [2, 1], [2, 1]]
    third = place("count", events, *place.again, *table)
    assert "Nothing new to release" in third.out
    shown = place("show", str(place.state), "--full")
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


def test_verify_says_where_no_witness_can_be(on_server: Any) -> None:
    key = str(on_server.folder / "the.key")
    assert on_server.count(on_server.write("e.csv", ROWS), "--key", key).code == 0
    printed = on_server("verify", on_server.state, "--key", f"command:cat {key}")
    assert printed.code == 7, printed.err
    assert (
        "there is no witness, which would record the last releases: the state is on a server"
        in printed.err
    )
    assert "no witness here has seen who wrote the state last" in " ".join(printed.out.split())
    assert "no witness" not in on_server("verify", on_server.state, "--key", key).err


def test_each_run_says_once_where_no_witness_can_be(on_server: Any) -> None:
    key = str(on_server.folder / "the.key")
    rows = on_server.write("e.csv", ROWS)
    assert "no witness" not in on_server.count(rows, "--key", key).err
    command = ("--key", f"command:cat {key}")
    printed = on_server.count(rows, *command)
    assert printed.code == 7
    assert (
        printed.err.count(
            "there is no witness, which would record the last releases: the state is on a server"
        )
        == 1
    )
    file = on_server.folder / "jobs.toml"
    assert on_server.count(rows, *command, "--witness", "none", "--save", str(file)).code == 0
    printed = on_server.count(rows, *command, "--witness", "none")
    assert (printed.code, printed.err.count("no witness")) == (0, 0)
    jobs = re.sub("witness = .*\n", "", file.read_text())
    with Store(on_server.state) as store, store.database.transaction(write=True) as connection:
        connection.run("UPDATE counton_database SET witnesses = '{}'")
    file.write_text(f"{jobs}\n{jobs.replace('count]', 'more]')}")
    said = on_server("run", str(file)).err.splitlines()
    assert [line.partition(":")[0] for line in said] == [
        "there is no witness, which would record the last releases",
        "counton",
        "counton",
    ]
    lines = [line for line in jobs.splitlines() if line.split(" =")[0] not in ("events", "until")]
    file.write_text("\n".join(lines))
    service = Service(file)
    service.close()
    assert service.remarks[0].startswith(
        "there is no witness, which would record the last releases: the state is on a server"
    )


def test_a_machine_that_was_away_is_told_what_to_say(on_server: Any) -> None:
    key, copy = on_server.folder / "the.key", on_server.folder / "copy.key"
    rows = on_server.write("e.csv", ROWS)
    assert on_server.count(rows, "--key", str(key)).code == 0
    copy.write_bytes(key.read_bytes())
    copy.chmod(0o600)
    refused = on_server("verify", on_server.state, "--key", str(copy))
    assert refused.code == 7
    away = on_server.count(rows, "--key", str(copy))
    assert away.code == 7, away.err
    assert "confirm it (counton verify --accept-old-copy)" in away.err
    taken = on_server("verify", on_server.state, "--key", str(copy), "--accept-old-copy")
    assert taken.code == 0, taken.out + taken.err
    assert "holds this copy of 'count' for the newest" in " ".join(taken.err.split())
    assert on_server.count(rows, "--key", str(copy)).code == 0


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
[limit]
epsilon = 3
[jobs.visits]
[jobs.more]
"""
    file = place.folder / "nightly.toml"
    file.write_text(job)
    place.write("e.csv", ROWS)
    before = json.loads(place.plain("plan", str(file), "--json").out)
    assert place.plain("show", str(place.state)).code != 0  # there is no table yet
    assert place.plain("run", str(file)).code == 0
    after = json.loads(place.plain("plan", str(file), "--json").out)
    assert after == before
    (ledger,) = after["ledgers"].values()
    assert ledger["units"]["event"]["left"]["epsilon"] == "1"
    file.write_text(f"{job}[jobs.last]\nepsilon = 2\n")
    planned, done = place.plain("plan", str(file)), place.plain("run", str(file))
    assert (planned.code, done.err.endswith(planned.err)) == (done.code, True)
    assert "epsilon = 1 is left" in planned.err
