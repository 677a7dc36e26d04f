"""Forecasts of provisional windows by a service: those of Python, and refusals with the reason."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from inside import Inside, inside, visit
from services import Running, job_file, rows, running

from counton import nowcast, read
from counton.base.errors import InvalidInput
from counton.run.exports import released_in
from counton.serve import public_series

#: Windows may be two late: forecasts need twelve of them.
REVISED: dict[str, Any] = {"revise": "2m", "steps": None, "level": 0.9}
MINUTES = 13


def night(minute: int) -> list[tuple[int, list[str]]]:
    """The visits that come in a minute: most are of it, some of the two before."""
    sizes = ((0, 30 + minute % 3), (1, 12), (2, 5))
    pages = [(minute - lag, ["home"] * 2 * size + ["shop"] * size) for lag, size in sizes]
    return [(window, page) for window, page in pages if window >= 0]


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    """A process of its own after thirteen minutes."""
    with running(job_file(tmp_path_factory.mktemp("revised"), **REVISED)) as found:
        for minute in range(MINUTES):
            found.at(minute + 0.5)
            for window, pages in night(minute):
                name = f"{minute}-{window}"
                assert found.post(name, rows(window, pages)).status_code == 202
            found.at(minute + 1)
            found.wait_for(minute + 1)
        yield found


@pytest.mark.slow
@pytest.mark.xdist_group("nowcasts")
@pytest.mark.parametrize("asked", [{}, {"group": "shop"}, {"group": ["shop", "home"]}])
@pytest.mark.parametrize("level", [None, 0.5])
def test_a_service_answers_what_python_does(
    service: Running, asked: dict[str, Any], level: float | None
) -> None:
    query = asked if level is None else asked | {"level": level}
    answer = service.get("/v1/streams/visits/nowcast", **query).json()
    here = nowcast(released_in(str(service.folder / "visits.db"), level=level), asked.get("group"))
    table = here.table()
    times = ("window_start", "window_end")
    expected = [row | {name: row[name].isoformat() for name in times} for row in table.to_dicts()]
    assert answer["rows"] == expected  # JSON keeps every bit of a number
    assert answer["columns"] == table.columns
    assert {(row["step"], row["lag"]) for row in answer["rows"]} == {(12, 1), (13, 0)}
    assert answer["level"] == (level or 0.9)
    assert (answer["says"], answer["changed_groups"]) == (here.describe(), [])
    assert answer["guarantee"] == service.get("/v1/streams/visits").json()["guarantee"]
    for row in answer["rows"]:  # 47 to 49 a group and page, of which 30 to 32 have come
        assert row["released"] < row["estimate"]


@pytest.mark.slow
@pytest.mark.xdist_group("nowcasts")
def test_an_address_is_forecast_as_its_service_forecasts(service: Running) -> None:
    rows = service.get("/v1/streams/visits/nowcast").json()["rows"]
    there = nowcast(read(f"{service.url}/v1/streams/visits")).table()
    assert there["estimate"].to_list() == [row["estimate"] for row in rows]
    assert there["upper"].to_list() == [row["upper"] for row in rows]


@pytest.mark.slow
@pytest.mark.xdist_group("nowcasts")
def test_a_forecast_spends_nothing(service: Running) -> None:
    path = "/v1/streams/visits"
    before = service.get(path).json()
    for level in (0.6, 0.7):
        assert service.get(f"{path}/nowcast", level=level).status_code == 200
    after = service.get(path).json()
    assert (before["budget"], before["steps"]) == (after["budget"], after["steps"])


@pytest.mark.slow
@pytest.mark.xdist_group("nowcasts")
@pytest.mark.parametrize(
    ("asked", "says"),
    [
        ({"group": "cellar"}, "'cellar' is not a group of 'visits'; choose from home, shop"),
        ({"level": 1}, "level is '1'; it must be less than 1.0"),
        ({"level": "high"}, "write a number"),
    ],
)
def test_what_is_asked_wrongly_is_named(service: Running, asked: dict[str, Any], says: str) -> None:
    answer = service.get("/v1/streams/visits/nowcast", **asked)
    assert answer.status_code == 422
    assert says in answer.json()["detail"]


@pytest.mark.slow
@pytest.mark.xdist_group("nowcasts")
def test_the_description_of_the_paths_has_it(service: Running) -> None:
    found = service.get("/openapi.json").json()
    path = found["paths"]["/v1/streams/{name}/nowcast"]["get"]
    assert [one["name"] for one in path["parameters"]] == ["name", "group", "level"]
    content = path["responses"]["200"]["content"]["application/json"]["schema"]
    named = found["components"]["schemas"][content["$ref"].rpartition("/")[2]]
    answer = service.get("/v1/streams/visits/nowcast").json()
    assert set(named["properties"]) == set(named["required"]) == set(answer)


def refused(service: Inside, **query: Any) -> str:
    answer = service("GET", "/v1/streams/visits/nowcast", params=query)
    assert answer.status_code == 422, answer.text
    return str(answer.json()["detail"])


def test_windows_that_are_released_once_have_no_forecast(tmp_path: Path) -> None:
    with inside(tmp_path) as service:
        service.at(1)
        assert "'visits' releases each window only once (its job has no revise)" in refused(service)


def test_too_few_windows_are_named(tmp_path: Path) -> None:
    with inside(tmp_path, **REVISED) as service:
        assert "has released nothing yet" in refused(service)
        for minute in range(1, 12):
            service.at(minute)
        says = refused(service)
        assert "11 windows are released; it needs 12, because rows may be 2 windows late" in says
        service.at(12)
        assert service("GET", "/v1/streams/visits/nowcast").status_code == 200


def test_a_statistic_without_sums_is_named(tmp_path: Path) -> None:
    shape = {"statistic": "quantiles", "value": "spent", "lower": 0, "upper": 10, "cells": 16}
    job = REVISED | shape | {"shares": "0.5"}
    with inside(tmp_path, **job) as service:
        service.post("a", [visit(0.5, spent=2.5)])
        service.at(1)
        assert "nowcasts are only for counts and sums" in refused(service)


def test_an_answer_is_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(public_series, "MOST_FORECASTS", 3)
    with inside(tmp_path, **REVISED) as service:
        for minute in range(1, 13):
            service.at(minute)
        assert "4 forecasts, 2 windows for each group, and at most 3 are possible" in refused(
            service
        )
        one = service("GET", "/v1/streams/visits/nowcast", params={"group": "home"})
        assert one.status_code == 200


def test_a_forecast_is_computed_once_for_all_levels(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else each level that a reader thinks of would cost seconds."""
    computed = list[tuple[str, ...]]()

    def counted(released: Any, groups: Any) -> Any:
        computed.append(tuple(groups))
        return nowcast(released, groups)

    monkeypatch.setattr(public_series, "nowcast", counted)
    with inside(tmp_path, **REVISED) as service:
        for minute in range(1, 13):
            service.at(minute)
        widths = list[float]()
        for query in (
            {"level": 0.5, "group": "shop"}, {"level": 0.6}, {"level": 0.7, "group": "home"},
            {"level": 0.8, "group": ["shop", "home", "shop"]},
        ):  # fmt: skip
            answer = service("GET", "/v1/streams/visits/nowcast", params=query).json()
            newest = answer["rows"][-1]
            widths.append(newest["upper"] - newest["estimate"])
    assert computed == [("shop",), ("home",)]
    assert min(widths) > 0
    assert sorted(widths[1:3]) == widths[1:3]


def test_a_token_for_reading_is_needed(tmp_path: Path) -> None:
    with inside(tmp_path, serve={"public": False}, **REVISED) as service:
        for minute in range(1, 13):
            service.at(minute)
        codes = [
            service("GET", "/v1/streams/visits/nowcast", scope).status_code
            for scope in (None, "ingest", "read")
        ]
        assert codes == [401, 403, 200]
        assert service("GET", "/v1/streams/orders/nowcast", "read").status_code == 404


def test_readers_at_once_get_the_forecast_of_the_newest_window(tmp_path: Path) -> None:
    with inside(tmp_path, **REVISED) as service:
        for minute in range(1, 13):
            service.at(minute)
        journal, found = service.service.journals["visits"], list[dict[str, Any]]()
        readers = [
            threading.Thread(target=lambda: found.append(journal.nowcast())) for _ in range(4)
        ]
        for reader in readers:
            reader.start()
        for reader in readers:
            reader.join()
        assert len(found) == 4
        assert all(one == found[0] for one in found)
        service.at(13)  # what was kept is not shown any more
        assert {row["step"] for row in journal.nowcast()["rows"]} == {12, 13}
        with pytest.raises(InvalidInput, match="is not a group"):
            journal.nowcast(["cellar"])


def test_who_reads_on_gets_all_windows_that_moved(tmp_path: Path) -> None:
    """Beside totals every window is read anew: what a reader keeps is of one night."""
    with inside(tmp_path, **(REVISED | {"also-totals": 0.5, "steps": 20})) as service:
        kept: dict[tuple[Any, ...], Any] = {}
        for minute in (4, 5, 6):
            service.at(minute)
            journal = service.service.journals["visits"]
            news = journal.series(since=minute - 1 if kept else 0).rows.to_dicts()
            kept |= {(row["step"], row["group"]): row for row in news}
        whole = journal.series().rows.to_dicts()
    assert len(kept) == 12
    assert [*kept.values()] == whole
