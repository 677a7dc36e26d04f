"""CSV of counts and sums, made without polars to compare a table with its file."""

from __future__ import annotations

import os
import random
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from counton.job.statistics.count import CountJob
from counton.job.statistics.sum import SumJob
from counton.results.plain_csv import plain_csv
from counton.results.release_data import ReleaseData
from counton.results.released_table import lazy_table
from counton.run import Job, run
from counton.run.notes import annotate
from counton.run.outputs import output_files
from counton.run.outputs.output_files import write_release

START = datetime(2024, 3, 28, tzinfo=UTC)


def write_visits(path: Path, *, days: float = 5) -> None:
    """Write some rows of days around a change of clocks."""
    chance = random.Random(1)
    lines = ["time,page,device,user,value"]
    for _ in range(200):
        time = START + timedelta(seconds=int(chance.random() * days * 86_400))
        page = chance.choice(["home", "shop", "help"])
        device = chance.choice(["phone", "desk"])
        user = chance.randrange(40)
        lines.append(f"{time:%Y-%m-%dT%H:%M:%SZ},{page},{device},{user},{chance.random()}")
    path.write_text("\n".join([*lines, ""]))


def counting(folder: Path, **more: Any) -> Job:
    given = {"events": folder / "visits.csv", "state": folder / "s.db", "time": "time"}
    windows = {"every": "1d", "start": "2024-03-28", "windows": 30, "until": "latest-event"}
    return CountJob(**{**given, **windows, "epsilon": 1, **more})


def summing(folder: Path, **more: Any) -> Job:
    given = {"events": folder / "visits.csv", "state": folder / "s.db", "time": "time"}
    windows = {"every": "1d", "start": "2024-03-28", "windows": 30, "until": "latest-event"}
    bounds = {"value": "value", "lower": 0, "upper": 1, "resolution": 0.01}
    return SumJob(**{**given, **windows, **bounds, "epsilon": 1, **more})


def numbers_of(job: Job) -> ReleaseData:
    with run(job) as result:
        return result.release.numbers


PAGES = {"group_by": "page", "groups": ["shop", "home"], "other_group": "other pages"}
PLAIN: dict[str, dict[str, Any]] = {
    "totals": {},
    "groups": PAGES,
    "windows": {"series": "per-window", **PAGES},
    "hours": {"every": "5h", "timezone": "Europe/Berlin"},
    "days": {"timezone": "Europe/Berlin", **PAGES},
    "seconds": {"start": "2024-03-28T00:00:07.250", "every": "1w"},
    "users": {"user": "user", "max_contributions": 2, "contribution_period": "1d"},
    "much noise": {"epsilon": 1e-9},
    "little noise": {"epsilon": 4},
    "decayed": {"series": "decayed", "half_life": "2d"},
}


@pytest.mark.parametrize("make_job", [counting, summing])
@pytest.mark.parametrize("kind", PLAIN)
def test_plain_csv_is_the_file_of_the_table(kind: str, make_job: Any, tmp_path: Path) -> None:
    write_visits(tmp_path / "visits.csv")
    numbers = numbers_of(make_job(tmp_path, **PLAIN[kind]))
    path = tmp_path / "released.csv"
    write_release(numbers, path)
    assert plain_csv(numbers) == path.read_text("utf-8")


@pytest.mark.parametrize(
    "more",
    [
        {"series": "both"},
        {"series": "rolling", "last": "2d"},
        {"allowed_lateness": "2d"},
        {"group_by": "page,device", "groups": ["home / phone", "shop / desk"]},
        {"group_by": "page", "groups": ["=1+1", "home"], "unlisted_groups": "drop"},
        {"group_by": "page", "groups": ["home, shop", "home"], "unlisted_groups": "drop"},
        {"group_by": "page", "groups": ['"home"', "home"], "unlisted_groups": "drop"},
    ],
    ids=["both", "rolling", "revised", "parts", "formula", "comma", "quotes"],
)
def test_other_tables_have_no_plain_csv(more: dict[str, Any], tmp_path: Path) -> None:
    write_visits(tmp_path / "visits.csv")
    if "group_by" in more:
        more = {"unlisted_groups": "drop", **more}
    assert plain_csv(numbers_of(counting(tmp_path, **more))) is None


def test_annotated_table_has_no_plain_csv(tmp_path: Path) -> None:
    write_visits(tmp_path / "visits.csv")
    job = counting(tmp_path)
    assert plain_csv(numbers_of(job)) is not None
    annotate(tmp_path / "s.db", "2024-03-28", "a sensor failed")
    assert plain_csv(numbers_of(job)) is None


@pytest.mark.parametrize("fate", ["altered", "lost", "longer", "of an earlier run", "large"])
def test_other_file_is_replaced_by_the_table(
    fate: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_visits(tmp_path / "visits.csv", days=3)
    path = tmp_path / "released.csv"
    job = counting(tmp_path, output=path, **PAGES)
    numbers_of(job)
    content = path.read_bytes()
    match fate:
        case "altered":
            path.write_bytes(content.replace(b"home", b"Home"))
        case "lost":
            path.unlink()
        case "longer":
            path.write_bytes(content + b"\n")
        case "large":
            monkeypatch.setattr(output_files, "_MOST_COMPARED_BYTES", 9)
        case _:
            write_visits(tmp_path / "visits.csv", days=5)
    numbers_of(job)
    expected = tmp_path / "expected.csv"
    output_files.write_table(lazy_table(numbers_of(job)), expected)
    assert path.read_bytes() == expected.read_bytes()
    assert (path.read_bytes() == content) == (fate != "of an earlier run")


def test_tiny_fractions_are_written_by_polars_alone(tmp_path: Path) -> None:
    write_visits(tmp_path / "visits.csv")
    path = tmp_path / "released.csv"
    job = counting(tmp_path, output=path, epsilon=30)
    numbers = numbers_of(job)
    content = path.read_text()
    assert "e-7," in content
    assert plain_csv(numbers) != content
    numbers_of(job)
    assert path.read_text() == content


def test_unchanged_table_is_a_new_file(tmp_path: Path) -> None:
    """A program that waits for new tables sees that of each run."""
    write_visits(tmp_path / "visits.csv")
    path = tmp_path / "released.csv"
    job = counting(tmp_path, output=path)
    numbers_of(job)
    os.utime(path, (0, 0))
    description = tmp_path / "released.csv.json"
    description.write_text(description.read_text().replace("0.95", "0.9"))
    numbers_of(job)
    assert path.stat().st_mtime
    assert "0.95" in description.read_text()
