"""Batches that no run could count, in the hands of the operator: seen, put back, dropped."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from inside import EXACT, Inside, inside, metric, visit
from typer.testing import CliRunner

from counton.base.private import open_private
from counton.cli.app import app
from counton.run import runs
from counton.run.continuation import end_stream
from counton.run.settlement import SettledJob
from counton.serve import release_times as releasing


@contextmanager
def cannot_count(page: str) -> Iterator[None]:
    """Runs fail over rows of a page."""

    real = runs.read_rows

    def panics(settled: SettledJob, *given: Any, **more: Any) -> Any:
        assert settled.source is not None
        parts = open_private(settled.source).parts
        if any(page in part.frame().collect()["page"] for part in parts):
            raise pl.exceptions.PanicException("no such thing")
        return real(settled, *given, **more)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(releasing, "read_rows", panics)
        patch.setattr(runs, "read_rows", panics)
        yield


def command(folder: Path, *words: str, code: int = 0) -> str:
    """What ``counton serve-left-out`` prints, on either stream."""
    done = CliRunner().invoke(app, ["serve-left-out", str(folder / "jobs.toml"), *words])
    assert done.exit_code == code, done.output
    return done.output


def listed(folder: Path) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads(command(folder, "--json"))["left_out"]
    return found


def left_out(service: Inside, folder: Path, batches: dict[str, list[dict[str, Any]]]) -> list[str]:
    """Ids of batches that runs could not count."""
    for batch, rows in batches.items():
        assert service.post(batch, rows).status_code == 202
    with cannot_count("shop"):
        service.at(0.5)
    return [one["id"] for one in listed(folder)]


def test_a_batch_is_seen_put_back_and_counted(tmp_path: Path) -> None:
    """While the service runs; its sender is told what it was told before."""
    with inside(tmp_path, **EXACT) as service:
        assert listed(tmp_path) == []
        shop = [visit(0.1, "shop"), visit(0.2, "shop")]
        (id,) = left_out(service, tmp_path, {"a": [visit(0.1)], "b": shop})
        (one,) = listed(tmp_path)
        assert one == {
            "id": id,
            "stream": "visits",
            "batch": "b",
            "came": "2026-03-01T09:00:00+00:00",
            "rows": 2,
            "why": "PanicException",
        }
        assert "PanicException" in command(tmp_path)
        assert command(tmp_path, "--rows", id).splitlines()[0].startswith("time,page")
        assert command(tmp_path, "--rows", id).count("shop") == 2
        said = f"rows of batch {id}, which wait to be counted now: 2\n"
        assert command(tmp_path, "--put-back", id) == said
        assert listed(tmp_path) == []
        service.work()
        service.time = service.time.replace(year=2027)  # the command has another clock
        service.work()
        assert metric(service, "left_out_rows") == 0
        assert [row["estimate"] for row in service.rows(last=1)] == [1, 2]
        assert service.post("b", shop).status_code in (200, 410)


def test_a_batch_that_is_wrong_still_is_left_out_again(tmp_path: Path) -> None:
    with inside(tmp_path, **EXACT) as service:
        (id,) = left_out(service, tmp_path, {"b": [visit(0.1, "shop")]})
        inbox = service.service.state_of("visits").inbox
        assert inbox.put_back("visits", id, int(service.time.timestamp() * 1e6)) == 1
        with cannot_count("shop"):
            service.at(0.8)
        (one,) = listed(tmp_path)
        assert (one["batch"], one["rows"]) == ("b", 1)
        assert service.post("b", [visit(0.1, "shop")]).status_code == 200
        assert inbox.load("visits").batches == 0


def test_a_batch_that_is_dropped_counts_nowhere(tmp_path: Path) -> None:
    """Its rows that are to be set aside are not dropped with it."""
    job = {"bad-rows": f"quarantine:{tmp_path}/away/bad.csv"}
    (tmp_path / "away").mkdir()
    with inside(tmp_path, **EXACT, **job) as service:
        (tmp_path / "away").rename(tmp_path / "gone")
        bad = {"time": "soon", "page": "shop"}
        one, other = left_out(
            service, tmp_path, {"b": [visit(0.1, "shop"), bad], "c": [visit(0.2, "shop")]}
        )
        assert (
            command(tmp_path, "--drop", one) == f"rows of batch {one}, which count nowhere now: 2\n"
        )
        assert [found["id"] for found in listed(tmp_path)] == [other]
        assert metric(service, "unwritten_rows") == 1
        (tmp_path / "gone").rename(tmp_path / "away")
        service.at(1)
        assert [row["estimate"] for row in service.rows()] == [0, 0]
        assert metric(service, "unwritten_rows") == 0
        assert "batch b" in (tmp_path / "away" / "bad.csv").read_text()


def test_what_cannot_be_asked_for_is_refused(tmp_path: Path) -> None:
    with inside(tmp_path, **EXACT) as service:
        (id,) = left_out(service, tmp_path, {"b": [visit(0.1, "shop")]})
        for option in ("--rows", "--put-back", "--drop"):
            said = " ".join(command(tmp_path, option, "nobody", code=2).split())
            assert f"{option} is 'nobody', but no batch with this id was left out: {id}" in said
        assert "give only one of them" in command(tmp_path, "--drop", id, "--put-back", id, code=2)
        service.at(1)
        end_stream(tmp_path / "visits.db", "visits")
        said = " ".join(command(tmp_path, "--put-back", id, code=2).split())
        assert "has ended and counts no rows any more" in said
        assert [one["id"] for one in listed(tmp_path)] == [id]
