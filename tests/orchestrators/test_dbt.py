"""Published numbers as a source of dbt: tests that pass, and that see what was altered."""

from __future__ import annotations

import os
import shutil
import sqlite3
import subprocess
from pathlib import Path

import polars as pl
import pytest

from counton.run import Job, publish, run

pytestmark = pytest.mark.slow
ROOT = Path(__file__).parents[2]


@pytest.fixture
def published(tmp_path: Path) -> Path:
    """The folder with the database of published numbers, of two groups in three windows."""
    if not (ROOT / ".venv-dbt" / ".ready").exists():
        pytest.skip("dbt is not installed: make test-orchestrators")
    rows = pl.DataFrame({"time": ["2024-03-01T09:00", "2024-03-03T10:00"], "shop": ["a", "b"]})
    job = Job(
        "count", rows, tmp_path / "nightly.db", time="time", every="1d", start="2024-03-01",
        steps=30, until="2024-03-04", by="shop", domain="a,b", epsilon=1,
    )  # fmt: skip
    with run(job) as outcome:
        outcome.read().table().write_parquet(tmp_path / "table.parquet")
    publish(tmp_path / "nightly.db", to=tmp_path / "published.db")
    shutil.copytree(ROOT / "deploy" / "dbt", tmp_path / "dbt")
    return tmp_path


def build(folder: Path) -> subprocess.CompletedProcess[str]:
    dbt = str(ROOT / ".venv-dbt" / "bin" / "dbt")
    return subprocess.run(
        [dbt, "--no-use-colors", "--no-send-anonymous-usage-stats", "build", "--profiles-dir", "."],
        cwd=folder / "dbt",
        env={**os.environ, "COUNTON_PUBLISHED_FOLDER": str(folder)},
        capture_output=True,
        text=True,
        check=False,
    )


def test_the_newest_numbers_are_those_that_were_released(published: Path) -> None:
    done = build(published)
    assert done.returncode == 0, done.stdout
    assert "exposure dashboard" in done.stdout
    with sqlite3.connect(published / "published.db") as database:
        names = '"group", estimate, lower, upper'
        found = database.execute(f"SELECT {names} FROM newest_numbers").fetchall()  # noqa: S608
    database.close()
    table = pl.read_parquet(published / "table.parquet").filter(pl.col("step") == 3)
    assert sorted(found) == table.select("group", "estimate", "lower", "upper").rows()


@pytest.mark.parametrize(
    ("change", "broken"),
    [
        ("DELETE FROM counton_published_windows WHERE step = 2", "windows_are_complete"),
        (
            "UPDATE counton_published_windows SET half = -1 WHERE step = 1",
            "estimates_lie_in_their_intervals",
        ),
    ],
)
def test_what_was_altered_fails(change: str, broken: str, published: Path) -> None:
    with sqlite3.connect(published / "published.db") as database:
        database.execute(change)
    database.close()
    done = build(published)
    assert done.returncode == 1
    assert f"FAIL 1 {broken}" in done.stdout or f"Failure in test {broken}" in done.stdout
