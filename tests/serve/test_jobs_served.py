"""Whole jobs through the application, in this process: statistics, policies, people."""

import json
import random
import shutil
import sqlite3
from contextlib import closing
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from calls import calls_of
from inside import EXACT, Inside, inside, metric, visit
from services import START, copied, counted, job_file
from some_cases import long

from counton import PureDP
from counton.base.errors import StateError
from counton.base.private import Private, reveal
from counton.run.close_stream import close_stream
from counton.serve import release_times as releasing
from counton.serve.served_jobs import pack_rows, unpack_rows
from counton.serve.service import Service
from counton.state import Store, Stream, verify
from counton.state.inbox import Batch, Inbox
from counton.strategies.streams import growing_root
from counton.strategies.streams.least_squares_strategy import _BlockSums


def test_late_rows_count_in_next_window_of_service(tmp_path: Path) -> None:
    with inside(tmp_path, **EXACT, release_delay="60s") as service:
        service.post("a", [visit(0.5), visit(0.6, "shop"), visit(1.5)])
        service.at(1.5)
        assert service.rows() == []  # the watermark
        service.post("b", [visit(0.7)])
        service.at(2)
        assert [row["estimate"] for row in service.rows()] == [2, 1]
        service.post("c", [visit(0.8), visit(1.6)])
        service.at(3)
        assert [row["estimate"] for row in service.rows(series="per-window", last=1)] == [3, 0]
        text = service("GET", "/metrics", "write").text
        assert 'counton_run_late_total{stream="visits"} 1.0\n' in text
        assert 'counton_rows_total{outcome="accepted",stream="visits"} 6.0\n' in text


@pytest.mark.long
def test_a_strategy_is_solved_once_and_not_for_every_window(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    solves = calls_of(monkeypatch, _BlockSums, "_solve_rows")
    with inside(tmp_path, windows=700, strategy="least-squares") as service:
        for minute in range(1, 13):
            service.post(f"b{minute}", [visit(minute - 0.5)])
            service.at(minute)
        assert metric(service, "steps") == 12
        assert len(solves) == 1
        shown = service.rows()
    with inside(tmp_path, windows=700, strategy="least-squares") as service:
        assert service.rows() == shown
        service.at(13)
    assert len(solves) == 1
    verified = verify(str(tmp_path / "visits.db"), key=tmp_path / "visits.key")
    assert all(one.right for one in verified)


def test_an_ended_stream_takes_nothing(tmp_path: Path) -> None:
    with inside(tmp_path, **EXACT, windows=3) as service:
        assert service.post("a", [visit(2.5)]).status_code == 202
        service.at(3)
        answer = service.post("b", [visit(2.6)])
        assert answer.status_code == 410
        assert "the last of the 3 windows" in answer.json()["detail"]
        assert service.post("c", [visit(1)]).status_code == 410
        assert service.post("a", [visit(2.5)]).status_code == 200
        assert len(service.rows(group="home")) == 3
        about = service("GET", "/v1/streams/visits").json()
        assert about["next_release"] is None


def test_rows_that_lack_something_are_skipped_and_bad_ones_refused(tmp_path: Path) -> None:
    with inside(tmp_path, **EXACT, missing_values="drop") as service:
        first = service.post("a", [visit(0.1), visit(0.2, None), visit(0.3)])
        assert first.json() == {
            "batch": "a",
            "rows": 3,
            "counted": 2,
            "counted_nowhere": {"lacking_something": 1},
        }
        bad = service.post("b", [visit(0.3), {"time": "soon", "page": "home"}])
        assert bad.status_code == 422
        assert "row 2" in bad.json()["detail"]
        service.at(1)
        assert service.rows(group="home")[0]["estimate"] == 2


#: Counts of 2^32, of which a few dozen together can be read with this noise.
LARGE = {
    "statistic": "ranges", "label": "page", "count_column": "number", "group_by": None,
    "privacy_unit": "visit",
    "windows": None, "expected_windows": 100, "epsilon": 1,
}  # fmt: skip


def test_sums_that_could_never_be_released_are_refused(tmp_path: Path) -> None:
    with inside(tmp_path, **LARGE) as service:
        service.post("a", [visit(0.1, number=3)])
        answer = service.post("b", [visit(0.1, number=2**32)] * 90)
        assert answer.status_code == 422
        assert "are exact only up to 274," in answer.json()["detail"]
        service.at(1)
        assert metric(service, "steps") == 1


def test_rows_that_would_exhaust_a_stream_are_refused(tmp_path: Path) -> None:
    """They would be all that the stream could ever count."""
    with inside(tmp_path, **LARGE) as service:
        rows = [visit(0.1, number=2**32)] * 63 + [visit(0.1, number=4294959701)]
        answer = service.post("all", rows)
        said = "more than 0.5 of what the sums of the stream can hold"
        assert (answer.status_code, said in answer.json()["detail"]) == (422, True)
        for number in range(12):
            assert service.post(f"{number}", [visit(0.1, number=1)]).status_code == 202
        service.at(1)
        key = tmp_path / "visits.key"
        with Stream.open(str(tmp_path / "visits.db"), "visits", key=key) as stream:
            assert reveal(stream.amounts).whole == 12


#: Jobs of which a few rows come to much of what sums can hold; what one says, and how many rows.
FEW: dict[str, tuple[dict[str, Any], int, int]] = {
    "ranges": ({}, 2**32, 2),
    "contingency": ({"columns": "page", "label": None, "groups": "page=home,shop"}, 2**32, 2),
    "sum": (
        {
            "label": None, "count_column": None, "value": "number", "lower": 0, "upper": 2**40,
            "resolution": 1, "groups": None, "series": "per-window", "windows": 60,
            "expected_windows": None,
        },
        *(2**40, 2**12),
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", ["ranges", long("contingency"), long("sum")])
def test_every_accepted_row_is_counted(tmp_path: Path, name: str) -> None:
    """A stream that is sent as much as it takes, again and again, counts all of it."""
    job, largest, size = FEW[name]
    with inside(tmp_path, **{**LARGE, "statistic": name, **job}) as service:
        taken = 0
        answers = set[int]()
        inbox = service.service.state_of("visits").inbox
        for number in range(30):
            minute = 0.1 + 0.1 * number  # some are late when they come
            row = visit(minute % 1.3, number=largest)
            answer = service.send(f"{number}", (json.dumps(row) + "\n").encode() * size)
            answers.add(answer.status_code)
            taken += size if answer.status_code == 202 else 0
            size = min(2**16, 2 * size) if answer.status_code == 202 else max(1, size // 2)
            if number % 4 == 3:
                service.at(minute)
        service.at(4)
        assert metric(service, "steps") == 4
        assert inbox.load().rows == 0
        assert service.service.releasers["visits"].counts["rows"] == taken
        assert answers == {202, 410, 422}


@pytest.mark.parametrize("database", ["sqlite", "postgres"])
def test_two_servers_take_no_more_than_one(
    tmp_path: Path, database: str, request: pytest.FixtureRequest
) -> None:
    sqlite = database == "sqlite"
    state = str(tmp_path / "visits.db") if sqlite else request.getfixturevalue("postgres")
    with inside(tmp_path, **LARGE, state=state) as service:
        first = service.service.state_of("visits").inbox
        with closing(Inbox(state)) as other:
            verdicts = [
                inbox.put([_batch(f"{number}-{turn}", 1 / 8)])[0].outcome
                for number in range(3)
                for turn, inbox in enumerate((first, other))
            ]
        assert verdicts == ["accepted"] * 4 + ["full"] * 2
        assert first.put([_batch("0-0", 1 / 8)])[0].outcome == "known"
        assert metric(service, "filled_ratio") == 1


def _batch(name: str, part: float) -> Batch:
    rows = Private(b""), Private({0: part})
    return Batch("visits", name, name.encode(), 0, {}, 1, *rows)


def test_batch_that_fails_to_count_waits_and_stops_its_stream(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing that was acknowledged is lost: it is counted once the cause is mended."""
    with inside(tmp_path, **EXACT) as service:
        service.post("a", [visit(0.1)])
        inbox = service.service.state_of("visits").inbox

        def panics(*_given: Any, **_more: Any) -> Any:
            raise pl.exceptions.PanicException("no such thing")

        with monkeypatch.context() as patch:
            patch.setattr(releasing, "read_rows", panics)
            for _ in range(3):
                service.service._wait.clear()
                service.service._work(service.service.releasers["visits"])
                service.time = START + timedelta(minutes=1)
            with pytest.raises(pl.exceptions.PanicException):
                service.at(1)
        assert metric(service, "run_failures_total") == 2
        assert inbox.load().batches == 1
        service.service.releasers["visits"].forget()
        service.at(1)
        assert [row["estimate"] for row in service.rows()] == [1, 0]


def test_waiting_rows_are_dropped_when_stream_is_closed(tmp_path: Path) -> None:
    with inside(tmp_path, **EXACT) as service:
        service.at(1)
        service.post("a", [visit(1.5)])
        close_stream(tmp_path / "visits.db", "visits")
        service.at(2)
        assert service.service.state_of("visits").inbox.load().batches == 0
        assert len(service.rows(group="home")) == 1


def put_back(copy: Path, state: Path) -> None:
    """Restore a copy into a state that is open."""
    with closing(sqlite3.connect(copy)) as source, closing(sqlite3.connect(state)) as target:
        source.backup(target)


def test_an_old_copy_takes_nothing_and_shows_nothing(tmp_path: Path) -> None:
    """While the service runs: as soon as it is there, also to a batch that is sent at once."""
    state, copy, newest = (tmp_path / name for name in ("visits.db", "copy", "newest"))
    with inside(tmp_path, **EXACT) as service:
        service.post("a", [visit(0.5)])
        service.at(1)
        put_back(state, copy)
        service.post("b", [visit(1.5)])
        service.at(2)
        put_back(state, newest)
        told = service.rows()
        put_back(copy, state)
        answer = service.post("c", [visit(2.5)])
        assert (answer.status_code, answer.headers["Retry-After"]) == (503, "60")
        assert (
            "is older than its released numbers, or its rollback guard cannot say"
            in answer.json()["detail"]
        )
        for path in ("", "/series", "/release"):
            found = service("GET", f"/v1/streams/visits{path}")
            assert (found.status_code, found.json()) == (503, answer.json()), path
        assert service("GET", "/v1/streams").json() == {"streams": []}
        assert service("GET", "/ready").status_code == 503
        assert metric(service, "refused_copy") == 1
        with pytest.raises(StateError):
            service.at(3)
        put_back(newest, state)
        service.service.journals["visits"].refresh()
        assert service.rows() == told
        assert service.post("c", [visit(2.5)]).status_code == 202
        service.at(4)
        assert service.rows(last=1, group="home")[0]["estimate"] == 3


def test_steps_of_an_old_copy_are_not_read(tmp_path: Path) -> None:
    """Nor when a reader is the first to come."""
    state = tmp_path / "visits.db"
    copy = tmp_path / "copy"
    with inside(tmp_path, **EXACT) as service:
        service.at(1)
        put_back(state, copy)
        service.at(2)
        put_back(copy, state)
        assert service("GET", "/v1/streams/visits/series").status_code == 503


def test_a_service_does_not_begin_with_an_old_copy(tmp_path: Path) -> None:
    state = tmp_path / "visits.db"
    copy = tmp_path / "copy"
    with inside(tmp_path, **EXACT) as service:
        service.at(1)
        put_back(state, copy)
        service.at(2)
    shutil.copy2(copy, state)
    state.chmod(0o600)
    with pytest.raises(StateError, match="is an old copy"):
        Service(tmp_path / "jobs.toml", clock=lambda: START)


def test_long_series_is_compressed_when_reader_accepts_gzip(tmp_path: Path) -> None:
    with inside(tmp_path, **EXACT) as service:
        service.at(40)
        path = "/v1/streams/visits/series"
        plain = {"Accept-Encoding": "identity"}
        for form in ("json", "csv"):
            whole = service("GET", path, params={"format": form}, headers=plain)
            small = service("GET", path, params={"format": form})
            assert "Content-Encoding" not in whole.headers
            assert small.headers["Content-Encoding"] == "gzip"
            assert small.content == whole.content
            assert "Accept-Encoding" in small.headers["Vary"]
        short = service("GET", path, params={"last": 1})
        assert "Content-Encoding" not in short.headers


@pytest.mark.parametrize(
    ("accepts", "compressed"),
    [
        ("gzip;q=0", False),
        ("br, GZIP ; q=0.000, identity", False),
        ("gzip;q=0.5", True),
        ("gzip;q=0.01, br", True),
        ("gzip, br;q=0", True),
    ],
)
def test_a_client_that_refuses_gzip_gets_none(
    accepts: str, compressed: bool, tmp_path: Path
) -> None:
    with inside(tmp_path, **EXACT) as service:
        service.at(40)
        path = "/v1/streams/visits/series"
        headers = {"Accept-Encoding": accepts}
        answer = service("GET", path, headers=headers)
        assert ("Content-Encoding" in answer.headers) == compressed
        assert len(answer.json()["rows"]) == 80


@pytest.mark.parametrize(
    ("query", "says"),
    [
        ({"confidence_level": "2"}, "confidence_level: Input should be less than 1"),
        ({"confidence_level": "x"}, "confidence_level: Input should be a valid number"),
        ({"last": "0"}, "last: Input should be greater than or equal to 1"),
        ({"format": "xml"}, "format: Input should be 'json' or 'csv'"),
        ({"from": "9" * 65}, "from: String should have at most 64 characters"),
        ({"group": "cellar"}, "cellar"),
        ({"from": "soon"}, "soon"),
        ({"series": "sums"}, "series: "),
        ({"confidence_level": "nan"}, "confidence_level: "),
    ],
)
def test_query_value_out_of_range_is_refused_with_bound(
    tmp_path: Path, query: dict[str, str], says: str
) -> None:
    with inside(tmp_path, **EXACT) as service:
        service.at(1)
        answer = service("GET", "/v1/streams/visits/series", params=query)
        assert (answer.status_code, says in answer.json()["detail"]) == (422, True), answer.text


def test_unlisted_groups_are_dropped_by_option(tmp_path: Path) -> None:
    with inside(tmp_path, **EXACT, unlisted_groups="drop") as service:
        answer = service.post("a", [visit(0.1), visit(0.2, "cellar")])
        assert answer.json()["counted_nowhere"] == {"of_undeclared_groups": 1}
        service.at(1)
        assert [row["estimate"] for row in service.rows()] == [1, 0]


def test_service_discovers_groups(tmp_path: Path) -> None:
    job = {"groups": None, "unlisted_groups": "discover", "epsilon": 100, "delta": 1e-9}
    with inside(tmp_path, **job) as service:
        service.at(1)
        assert service.rows() == []
        service.post("a", [visit(1.5, "hall")] * 500 + [visit(1.5, "attic")])
        service.at(2)
        assert [row["group"] for row in service.rows()] == ["hall"]
        assert "attic" not in service("GET", "/v1/streams/visits").text


def test_a_group_is_no_formula_in_a_download(tmp_path: Path) -> None:
    job = {"groups": None, "unlisted_groups": "discover", "epsilon": 100, "delta": 1e-9}
    with inside(tmp_path, **job) as service:
        service.post("a", [visit(0.5, "=1+1")] * 500)
        service.at(1)
        assert [row["group"] for row in service.rows()] == ["=1+1"]
        assert ",'=1+1," in service("GET", "/v1/streams/visits/series?format=csv").text


def test_users_are_bounded_over_all_batches(tmp_path: Path) -> None:
    job = {"user": "who", "max_contributions": 2, "privacy_unit": "visitor"}
    with inside(tmp_path, **EXACT, **job) as service:
        for number in range(4):
            service.post(f"a{number}", [visit(0.1 * number, who="ann"), visit(0.2, who="bob")])
            service.at(0.2 + number / 10)
        service.at(1)
        assert service.rows(group="home")[0]["estimate"] == 4
        text = service("GET", "/metrics", "write").text
        assert 'counton_run_over_total{stream="visits"} 4.0\n' in text
    with Stream.open(tmp_path / "visits.db", "visits", key=tmp_path / "visits.key") as stream:
        marks = list(reveal(stream.digest_sets("user")))
        assert sum(len(part.digests) for part in marks) == 4


def test_late_rows_are_in_the_versions_of_a_run(tmp_path: Path) -> None:
    """Rows late by each lag and beyond, and one that comes again: a run's numbers, to the bit."""
    file = job_file(tmp_path, allowed_lateness="2m", windows=None, row_id="row")
    copy = copied(file)
    bodies = []
    served = Inside(file)
    with closing(served.service):
        for minute in range(5):
            late = [visit(minute - lag + 0.5, row=f"{minute}-{lag}") for lag in range(minute + 1)]
            again = [visit(minute - 0.5, "shop", row=f"{minute - 1}-0")] if minute else []
            bodies.append("".join(json.dumps(row) + "\n" for row in [*late, *again]).encode())
            assert served.send(str(minute), bodies[-1]).status_code == 202
            served.at(minute + 1)
        told = [row["estimate"] for row in served.rows()]
    assert told == counted(file, copy, [[body] for body in bodies])


VALUES = "page=home,shop;who=" + ",".join(f"u{number}" for number in range(20))
TWO: dict[str, Any] = {"group_by": None, "groups": None, "rho": 1}


@pytest.mark.parametrize(
    ("job", "more"),
    [
        ({"statistic": "sum", "value": "paid", "lower": 0, "upper": 9, "resolution": 1}, 3.2),
        ({"statistic": "average", "value": "paid", "lower": 0, "upper": 9, "resolution": 1}, 3),
        ({"statistic": "quantiles", "value": "paid", "lower": 0, "upper": 9, "cells": 9}, 3),
        ({"statistic": "top-k", "top": 1}, 3),
        (
            {
                "statistic": "distinct",
                "user": "who",
                "group_by": None,
                "groups": None,
                "privacy_unit": "user",
            },
            1,
        ),
        ({"statistic": "hierarchy", "levels": "page", "group_by": None, "groups": None}, 1),
        (
            {"statistic": "contingency", "columns": "page,who", "group_by": None, "groups": VALUES},
            1,
        ),
        ({"statistic": "moments", "columns": "paid", "bounds": "0:9", **TWO, "epsilon": None}, 3),
    ],
)
def test_every_kind_of_tallied_statistic_is_served(
    tmp_path: Path, job: dict[str, Any], more: float
) -> None:
    if job["statistic"] == "hierarchy":
        (tmp_path / "pages.csv").write_text("page\nhome\nshop\n")
        job = job | {"groups": str(tmp_path / "pages.csv")}
    with inside(tmp_path, **{**EXACT, "epsilon": 1, "strategy": None, **job}) as service:
        rows = [visit(0.1, paid=more, who=f"u{number}") for number in range(20)]
        answer = service.post("a", rows)
        assert answer.status_code == 202, answer.text
        service.at(2)
        told = service.rows()
        assert {row["window_index"] for row in told} == {1, 2}
        about = service("GET", "/v1/streams/visits").json()
        assert about["columns"] == list(told[0])
        assert about["what"]
        assert service.rows(last=1)[0]["window_index"] == 2
        assert service("GET", "/v1/streams/visits/release").json()["rows"]


def test_answers_depend_only_on_released_values(tmp_path: Path) -> None:
    """Neighbouring inputs: with the same released values, every answer is the same to the bit.

    Noise of another key makes released values differ, so the journal of one is copied: what is
    left is what readers are told beside it.
    """
    told = []
    for number, extra in enumerate(([], [visit(0.4)], [visit(0.4, "shop")] * 50)):
        folder = tmp_path / str(number)
        folder.mkdir()
        with inside(folder, epsilon=1) as service:
            service.post("a", [visit(0.1), *extra])
            service.at(0.5)
            service.at(1)
            service.post("b", [visit(0.2), *extra])  # late, and waiting: not released
            service.at(1.5)
            paths = ["", "/visits"]
            answers = [service("GET", f"/v1/streams{path}").json() for path in paths]
            answers[1].pop("key_fingerprint")
            row = service.rows()[0]
            row.pop("estimate"), row.pop("lower"), row.pop("upper")
            told.append([*answers, row, service("GET", "/ready").text])
    assert told[0] == told[1] == told[2]


def test_counted_rows_are_independent_of_other_users(tmp_path: Path) -> None:
    """With users bounded: one user's rows change no cell by more than that user's own rows."""
    chance = random.Random(7)
    batches = [
        [
            visit(chance.uniform(0, 3), chance.choice(["home", "shop"]), who=f"u{who}")
            for who in (chance.randrange(6) for _ in range(8))
        ]
        for _ in range(6)
    ]
    found = []
    for left_out in (None, "u3"):
        folder = tmp_path / str(left_out)
        folder.mkdir()
        with inside(
            folder, **EXACT, user="who", max_contributions=3, privacy_unit="visitor"
        ) as service:
            for number, batch in enumerate(batches):
                kept = [row for row in batch if row["who"] != left_out]
                if kept:
                    service.post(f"b{number}", kept)
                service.at(number / 2)
            service.at(4)
            found.append([row["estimate"] for row in service.rows(series="per-window")])
    changed = [abs(one - other) for one, other in zip(*found, strict=True)]
    assert 0 < sum(changed) <= 3


@pytest.mark.parametrize("rows_of_one", [3000, 1])
@pytest.mark.long
def test_how_long_a_run_takes_decides_nothing_of_other_users(
    tmp_path: Path, rows_of_one: int
) -> None:
    """Runs take as long as they have rows: one user's many move no other user's into a fold.

    Each other user sends a row for one page, and a moment later one of earlier for the other page:
    which of them counts says whether both were counted together.
    """
    job = {
        "user": "who",
        "max_contributions": 1,
        "contribution_period": "1d",
        "privacy_unit": "visitor",
    }
    with inside(tmp_path, **EXACT, **job) as service:
        came = START + timedelta(seconds=0.1)
        send = [(came, "many", [visit(0.01 + n / 10**6, who="one") for n in range(rows_of_one)])]
        for number in range(20):
            who = f"u{number}"
            later = came + timedelta(seconds=0.7 + number / 10)
            send.append((later, f"{who}-a", [visit(0.02, "home", who=who)]))
            send.append((later + timedelta(seconds=1), f"{who}-b", [visit(0.01, "shop", who=who)]))
        send.sort(key=lambda one: one[0])
        real = releasing.run

        def until(moment: datetime) -> None:
            while send and send[0][0] <= moment:
                service.time, batch, rows = send.pop(0)
                assert service.post(batch, rows).status_code == 202
            service.time = max(service.time, moment)

        def slow(*given: Any, **more: Any) -> Any:
            found = real(*given, **more)
            until(service.time + timedelta(milliseconds=2 * found.confidential_counts().rows.read))
            return found

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(releasing, "run", slow)
            # All is counted when the first half minute is over; the windows end later.
            for tick in (*range(150), 300, 600):
                until(max(service.time, START + timedelta(seconds=tick / 5)))
                service.work()
        assert not send
        # Ten users' rows lie in one second, and those of others in two.
        others = [row["estimate"] for row in service.rows(last=1)]
        assert others == [1 + 20, 0]


def test_drain_waits_for_batches_that_arrived_before_it(tmp_path: Path) -> None:
    """A batch that takes long to be checked is counted with those that came when it did."""
    with inside(tmp_path, **EXACT) as service:
        inner = service.service
        under_way = service.service.under_way
        assert service.post("a", [visit(0.1)]).status_code == 202
        came = under_way.enter("visits")
        service.at(1)
        assert inner.state_of("visits").inbox.load().batches == 1
        assert service.rows() == []
        under_way.leave("visits", came)
        service.at(1)
        assert [row["estimate"] for row in service.rows()] == [1, 0]


def test_batch_during_last_release_is_counted_or_refused(tmp_path: Path) -> None:
    """Every batch of the last half second is counted, or told that it is not."""
    with inside(tmp_path, **EXACT, windows=2) as service:
        inbox = service.service.state_of("visits").inbox
        sent = dict[str, int]()
        real = releasing.run

        def post(place: str) -> None:
            batch = f"{place}-{len(sent)}"
            sent[batch] = service.post(batch, [visit(1.9)]).status_code

        def busy(*given: Any, **more: Any) -> Any:
            post("before")
            found = real(*given, **more)
            post("after")
            return found

        def folded(*given: Any) -> Any:
            found = Inbox.drain(inbox, *given)
            post("folded")
            return found

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(releasing, "run", busy)
            patch.setattr(inbox, "drain", folded)
            for half in (119.5, 119.9, 120, 120.1):
                post("now")
                service.at(half / 60)
        assert set(sent.values()) == {202, 410}
        accepted = [*sent.values()].count(202)
        assert service.rows(last=1, group="home")[0]["estimate"] == accepted
        assert inbox.load().batches == 0


def test_batch_of_another_server_is_counted_before_stream_closes(tmp_path: Path) -> None:
    """Or refused where it is committed: its clock is another one."""
    with inside(tmp_path, **EXACT, windows=2) as service:
        inbox = service.service.state_of("visits").inbox
        real = inbox.close_stream
        other = Inbox(tmp_path / "visits.db")
        frame = pl.DataFrame({"time": [(START + timedelta(minutes=1)).isoformat()], "page": "home"})

        def put(id: str) -> str:
            came = int((START + timedelta(minutes=1.9)).timestamp() * 1e6)
            batch = Batch("visits", id, id.encode(), came, {}, 1, pack_rows(frame))
            return other.put([batch])[0].outcome

        def closing_late(name: str) -> bool:
            if not told:
                told.append(put("before"))
            found = real(name)
            told.append(put(f"after {len(told)}"))
            return found

        told: list[str] = []
        with closing(other), pytest.MonkeyPatch.context() as patch:
            patch.setattr(inbox, "close_stream", closing_late)
            service.at(2)
            service.at(2.1)
        assert told == ["accepted", "accepted", "closed"]
        assert service.rows(last=1, group="home")[0]["estimate"] == 2


def test_endless_stream_accepts_rows_until_last_step_of_strategy(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And runs do not fail again and again after it."""
    monkeypatch.setattr(growing_root, "STEPS", 3)
    endless: dict[str, Any] = {
        "windows": None,
        "epsilon": None,
        "rho": 10**6,
        "expected_windows": 3,
    }
    endless |= {"strategy": "growing-sqrt"}
    with inside(tmp_path, **endless, release_delay="10s") as service:
        service.post("a", [visit(1.5)])
        service.at(3)
        assert service.post("late", [visit(2.9)]).status_code == 202
        service.at(5)
        answer = service.post("b", [visit(4.5)])
        assert answer.status_code == 410
        assert "the last of the 3 windows of the stream was due at" in answer.text
        assert service.rows(last=1, group="home")[0]["window_index"] == 3
        assert round(service.rows(last=1, group="home")[0]["estimate"]) == 2
        assert service.service.why_not_ready is None
        assert service("GET", "/v1/streams/visits").json()["next_release"] is None
        assert metric(service, "lag_seconds") == 0
        service.at(9)


def test_full_inbox_asks_clients_to_wait(tmp_path: Path) -> None:
    with inside(tmp_path, **EXACT) as service:
        state = service.service.state_of("visits")
        state.waiting_bytes = 2**40
        answer = service.post("a", [visit(0.1)])
        assert (answer.status_code, answer.headers["Retry-After"]) == (503, "5")
        state.waiting_bytes = 0
        assert service.post("a", [visit(0.1)] * 500).status_code == 202


def test_a_service_that_stops_takes_nothing_more(tmp_path: Path) -> None:
    with inside(tmp_path, **EXACT) as service:
        assert service("GET", "/ready").status_code == 200
        service.service.stop()
        assert service.post("a", [visit(0.1)]).status_code == 503
        assert service("GET", "/ready").status_code == 503
        assert service("GET", "/health").status_code == 200


@pytest.mark.parametrize(("days", "known"), [(34, 1), (36, 0)])
def test_a_service_knows_ids_of_batches_for_35_days(
    days: int, known: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with inside(tmp_path, **EXACT) as service:
        service.post("a", [visit(0.1)])
        state = service.service.state_of("visits")
        stopping = service.service.stopping
        state.leads = frozenset(["visits"])
        service.time = START + timedelta(days)
        monkeypatch.setattr("counton.serve.service.monotonic", lambda: 7200.0)
        monkeypatch.setattr(service.service, "_work", lambda _: None)
        monkeypatch.setattr(stopping, "wait", lambda _: stopping.set())
        service.service._release(state)
        assert state.inbox.forget(2**62) == known


def test_a_public_page_is_a_setting(tmp_path: Path) -> None:
    with inside(tmp_path, **EXACT, serve={"public": False}) as service:
        assert service("GET", "/v1/streams").status_code == 401
        assert service("GET", "/v1/streams", "write").status_code == 403
        assert service("GET", "/v1/streams", "read").status_code == 200


def test_each_stream_states_total_privacy_loss_of_state(tmp_path: Path) -> None:
    """The page, the API and the ledger say one total: of the state, and not of one stream."""
    per_day = {
        "user": "who",
        "max_contributions": 1,
        "contribution_period": "1d",
        "privacy_unit": "visitor",
    }
    jobs = {"visits": {}, "again": {}, "people": per_day}
    service = Inside(job_file(tmp_path, jobs=jobs))
    with closing(service.service):
        told = {
            name: service("GET", f"/v1/streams/{name}").json()["budget"]
            for name in ("visits", "again", "people")
        }
    two = "pure differential privacy with epsilon = 2"
    assert [told[name]["spent"] for name in ("visits", "again")] == [two, two]
    assert told["people"]["spent"] == two.replace("2", "1")
    assert told["people"]["unit"].startswith("visitor")
    with Store(tmp_path / "visits.db") as store:
        said = {unit.partition(" (")[0]: str(total) for unit, (_, total) in store.totals.items()}
    assert said == {told[name]["unit"]: told[name]["spent"] for name in ("visits", "people")}


def test_service_states_remaining_budget(tmp_path: Path) -> None:
    file = job_file(tmp_path, epsilon=1)
    with Store(tmp_path / "visits.db", create=True) as store:
        store.set_budget(PureDP(4))
    service = Inside(file)
    with closing(service.service):
        budget = service("GET", "/v1/streams/visits").json()["budget"]
        assert budget["left"] == "pure differential privacy with epsilon = 3"
        text = service("GET", "/metrics", "write").text
        assert 'counton_budget_left_ratio{stream="visits",unit="visit"} 0.75\n' in text


def test_waiting_rows_store_times_in_stream_timezone(tmp_path: Path) -> None:
    """Texts without an offset are of the stream's zone, also when they are counted later."""
    texts = ("2026-03-01T09:00:30", "2026-03-01 09:01:30", "2026-03-01T00:01:40Z")
    with inside(tmp_path, **EXACT, timezone="Asia/Tokyo") as service:
        service.at(-540)  # nine o'clock in Tokyo
        service.post("a", [{"time": text, "page": "home"} for text in texts])
        fold = service.service.state_of("visits").inbox.drain("visits", lambda us: us + 1, 2**62)
        assert fold is not None
        (waiting,) = unpack_rows(fold.bodies)
        assert waiting.frame().collect_schema()["time"] == pl.Datetime("us", "UTC")
        service.at(-538)
        assert [row["estimate"] for row in service.rows(group="home", series="per-window")] == [
            1,
            2,
        ]


def test_a_time_that_is_a_name_too_keeps_its_text(tmp_path: Path) -> None:
    job: dict[str, Any] = {
        "group_by": "time",
        "groups": "2026-03-01T09:00:30Z,2026-03-01T09:00:31Z",
    }
    with inside(tmp_path, **EXACT, **job) as service:
        service.post("a", [{"time": "2026-03-01T09:00:30Z"}] * 2)
        service.at(1)
        assert [row["estimate"] for row in service.rows()] == [2, 0]


@pytest.mark.parametrize("body", [b"", b"x", b"\xff" * 100], ids=repr)
def test_unpack_rows_of_altered_bytes_is_refused(body: bytes) -> None:
    with pytest.raises(StateError, match=r"counton_inbox_waiting\) cannot be read"):
        unpack_rows([Private(body)])
