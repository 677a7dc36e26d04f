"""Pages of a series, and answers that are sent in parts: bounded, and together the whole."""

import csv
import io
import json
from pathlib import Path
from typing import Any

import pytest
from inside import Inside, inside, visit

from counton.run.notes import annotate
from counton.run.outputs.exports import export
from counton.run.outputs.read_journal import read_release
from counton.serve import pages
from counton.serve.pages import PagePosition

GROUPS = ["home", "shop", "news", "about", "help"]
VALUES = "page=home,shop;who=" + ",".join(f"u{number}" for number in range(6))
SPENT: dict[str, Any] = {"value": "spent", "lower": 0, "upper": 10}
JOBS: list[dict[str, Any]] = [
    {"groups": GROUPS},
    {"groups": GROUPS, "series": "per-window"},
    {"groups": GROUPS, "series": "both"},
    {"groups": GROUPS, "allowed_lateness": "2m", "windows": None},
    {"statistic": "sum", **SPENT, "resolution": 1},
    {"statistic": "average", **SPENT, "resolution": 1},
    {"statistic": "average", **SPENT, "resolution": 1, "over": 3},
    {"statistic": "quantiles", **SPENT, "cells": 9},
    {"statistic": "top-k", "top": 2, "groups": GROUPS},
    {
        "statistic": "distinct",
        "user": "who",
        "group_by": None,
        "groups": None,
        "privacy_unit": "user",
    },
    {"statistic": "contingency", "columns": "page,who", "group_by": None, "groups": VALUES},
    {"groups": None, "unlisted_groups": "discover", "delta": 1e-6, "epsilon": 10},
]
SERIES = "/v1/streams/visits/series"


def asked(service: Inside, path: str, **query: Any) -> dict[str, Any]:
    answer = service("GET", path, params=query or None)
    assert answer.status_code == 200, answer.text
    found: dict[str, Any] = answer.json()
    return found


def all_pages(service: Inside, **query: Any) -> list[dict[str, Any]]:
    """The answers of all pages, each reached by ``next`` of the one before."""
    found = [asked(service, SERIES, **query)]
    while found[-1]["next"] is not None:
        found.append(asked(service, f"/v1/streams/visits/{found[-1]['next']}"))
    return found


def fill(service: Inside, minutes: int) -> None:
    """Release windows with some rows of two groups."""
    for minute in range(minutes):
        rows = [
            visit(minute + 0.5, page, spent=minute % 7, who=f"u{number % 6}")
            for number, page in enumerate(GROUPS[:2] * 20)
        ]
        assert service.post(f"b{minute}", rows).status_code == 202
        service.at(minute + 1)


@pytest.mark.parametrize("job", JOBS, ids=str)
def test_pages_of_every_statistic_hold_the_rows_of_the_whole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, job: dict[str, Any]
) -> None:
    with inside(tmp_path, **job) as service:
        fill(service, 9)
        for query in ({}, {"last": 4}, {"from": "2026-03-01T09:02", "to": "2026-03-01T09:07"}):
            (whole,) = all_pages(service, **query)
            assert whole["rows"]
            with monkeypatch.context() as small:
                small.setattr(pages, "PAGE_ROWS", 3)
                asked(service, SERIES, last=1)  # so that the answer before is not kept
                found = all_pages(service, **query)
            assert [row for page in found for row in page["rows"]] == whole["rows"]
            assert all(len(page["rows"]) <= 3 for page in found)
            assert len(found) > 1
            assert all(page["columns"] == whole["columns"] for page in found)


def test_next_page_continues_within_window(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pages, "PAGE_ROWS", 2)
    with inside(tmp_path, groups=GROUPS) as service:
        service.at(2)
        found = all_pages(service)
        assert [
            [(row["window_index"], row["group"]) for row in page["rows"]] for page in found
        ] == [
            [(1, "home"), (1, "shop")],
            [(1, "news"), (1, "about")],
            [(1, "help"), (2, "home")],
            [(2, "shop"), (2, "news")],
            [(2, "about"), (2, "help")],
        ]
        answer = service("GET", SERIES)
        assert answer.headers["Link"] == f'<{answer.json()["next"]}>; rel="next"'


def test_next_page_keeps_query_and_last_window_of_first_page(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pages, "PAGE_ROWS", 3)
    with inside(tmp_path, groups=["home", "a&b=c", "ü/x"], series="both") as service:
        service.at(3)
        query = {
            "group": ["a&b=c", "ü/x"],
            "confidence_level": 0.5,
            "series": "per-window",
            "last": 2,
        }
        first = asked(service, SERIES, **query)
        service.at(5)  # two more steps are released before the next page is asked for
        second = asked(service, f"/v1/streams/visits/{first['next']}")
        assert second["next"] is None
        assert second["confidence_level"] == 0.5
        rows = [(row["window_index"], row["group"]) for row in first["rows"] + second["rows"]]
        assert rows == [(step, group) for step in (2, 3) for group in ("a&b=c", "ü/x")]


def test_page_of_long_names_has_fewer_rows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    groups = [letter * 100 for letter in "abcde"]
    monkeypatch.setattr(pages, "_TEXT_BYTES", 250)
    with inside(tmp_path, groups=groups) as service:
        service.at(2)
        found = all_pages(service)
        assert [len(page["rows"]) for page in found] == [2, 2, 2, 2, 2]
        monkeypatch.setattr(pages, "_TEXT_BYTES", 50)  # a page has at least one row
        service.at(3)
        assert [len(page["rows"]) for page in all_pages(service)] == [1] * 15


@pytest.mark.parametrize(
    ("page", "more", "says"),
    [
        ("next", {}, "is not the position of a page"),
        ("1.0", {}, "is not the position of a page"),
        ("1.0.2\n", {}, "is not the position of a page"),
        ("٣.0.3", {}, "is not the position of a page"),
        ("0.0.2", {}, "is beyond the released steps"),
        ("1.0.4", {}, "is beyond the released steps"),
        ("3.0.2", {}, "is beyond the released steps"),
        ("1.0.2", {"last": 1}, "cannot be used with"),
        ("1.0.2", {"from": "2026-03-01"}, "cannot be used with"),
        ("1.0.2", {"to": "2026-03-02"}, "cannot be used with"),
        ("1.0.2", {"format": "csv"}, "is only for JSON"),
        ("9" * 65, {}, "at most 64 characters"),
    ],
)
def test_page_that_is_none_is_refused(
    tmp_path: Path, page: str, more: dict[str, Any], says: str
) -> None:
    with inside(tmp_path) as service:
        service.at(3)
        answer = service("GET", SERIES, params={"page": page, **more})
        assert answer.status_code == 422
        assert says in answer.json()["detail"]


@pytest.mark.parametrize("release", ["cumulative", "per-window"])
def test_series_omits_numbers_that_reveal_withdrawn_one(tmp_path: Path, release: str) -> None:
    """A number that is not withdrawn, but tells one that is, is left out too."""
    with inside(tmp_path, series=release) as service:
        service.at(5)
        annotate(
            tmp_path / "visits.db", "2026-03-01T09:02", "a wrong file", withdraw=True, group="home"
        )
        service.work()
        released, other = "cumulative", "per-window"
        if release == "per-window":
            released, other = other, released
        steps = {
            (series, group): [
                row["window_index"]
                for row in asked(service, SERIES, series=series, group=group)["rows"]
            ]
            for series in (released, other)
            for group in ("home", "shop")
        }
        every = [1, 2, 3, 4, 5]
        without = [1, 2, 5] if release == "cumulative" else [1, 2]
        assert steps == {
            (released, "home"): [1, 2, 4, 5],
            (released, "shop"): every,
            (other, "home"): without,
            (other, "shop"): every,
        }


def test_series_without_a_row_that_is_left_has_its_columns(tmp_path: Path) -> None:
    with inside(tmp_path, group_by=None, groups=None) as service:
        service.at(1)
        annotate(tmp_path / "visits.db", "2026-03-01T09:00", "a wrong file", withdraw=True)
        service.work()
        empty = asked(service, SERIES)
        assert (empty["rows"], empty["next"]) == ([], None)
        table = service("GET", SERIES, params={"format": "csv"}).text
        assert table.splitlines() == [",".join(empty["columns"])]
        assert asked(service, "/v1/streams/visits/release")["rows"] == []


def test_page_before_the_first_release_is_refused(tmp_path: Path) -> None:
    with inside(tmp_path) as service:
        assert asked(service, SERIES)["next"] is None
        assert service("GET", SERIES, params={"page": "1.0.1"}).status_code == 422


def test_page_position_beyond_window_skips_no_row_of_next(tmp_path: Path) -> None:
    """As after a number was withdrawn between two pages."""
    with inside(tmp_path) as service:
        service.at(2)
        rows = asked(service, SERIES, page=str(PagePosition(1, 5, 2)))["rows"]
        assert [row["window_index"] for row in rows] == [2, 2]


@pytest.mark.parametrize("job", JOBS, ids=str)
def test_answers_in_parts_are_the_files_of_an_export(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, job: dict[str, Any]
) -> None:
    with inside(tmp_path, **job) as service:
        fill(service, 7)
        whole = service("GET", "/v1/streams/visits/release")
        table = service("GET", SERIES, params={"format": "csv"})
        for name, value in (("PAGE_ROWS", 3), ("_PAGE_STEPS", 2)):
            monkeypatch.setattr(pages, name, value)
        monkeypatch.setattr("counton.serve.public_series.FEW_ROWS", 0)
        export(str(tmp_path / "visits.db"), tmp_path / "visits.json")
        parts = service("GET", "/v1/streams/visits/release")
        assert "Content-Length" not in parts.headers
        assert parts.json() == whole.json()
        assert parts.json()["rows"] == json.loads((tmp_path / "visits.json").read_text())
        series = service("GET", SERIES, params={"format": "csv"})
        assert numbers_of(series.text) == numbers_of(table.text)
        assert series.headers["Content-Disposition"] == table.headers["Content-Disposition"]


def numbers_of(text: str) -> list[dict[str, object]]:
    """Rows of CSV; a whole number may be written with or without its fraction."""

    def value(cell: str) -> object:
        try:
            return float(cell)
        except ValueError:
            return cell

    return [
        {name: value(cell) for name, cell in row.items()}
        for row in csv.DictReader(io.StringIO(text))
    ]


def test_answer_with_too_many_rows_in_parts_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("counton.serve.public_series.MOST_ROWS", 5)
    with inside(tmp_path) as service:
        service.at(3)
        for path in ("/v1/streams/visits/release", f"{SERIES}?format=csv"):
            answer = service("GET", path)
            assert answer.status_code == 422
            assert "that would be 6 rows, and at most 5" in answer.json()["detail"]
        assert len(service.rows()) == 6  # in pages
        assert service("GET", f"{SERIES}?format=csv&last=2").status_code == 200


def test_journal_is_read_once_for_all_levels_of_a_step(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A reader may ask for as many levels as there are numbers."""
    reads = []

    def counted(*arguments: Any, **more: Any) -> Any:
        reads.append(arguments)
        return read_release(*arguments, **more)

    monkeypatch.setattr("counton.serve.public_series.read_release", counted)
    with inside(tmp_path) as service:
        service.at(3)
        widths = set()
        for level in (0.5, 0.9, 0.95, 0.99, None):
            query = {} if level is None else {"confidence_level": level}
            row = asked(service, SERIES, last=1, **query)["rows"][0]
            widths.add(row["upper"] - row["lower"])
        assert len(widths) == 4
        assert len(reads) == 1
