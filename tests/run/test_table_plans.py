"""A dry run of a table says what the release would say of itself, and leaves nothing behind."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from numpy.typing import NDArray
from typer.testing import CliRunner

from counton.base.errors import InvalidInput
from counton.cli.app import app
from counton.run import Job, run
from counton.run.job_plan import planned_job


@pytest.fixture
def rows(tmp_path: Path) -> Path:
    (tmp_path / "places.csv").write_text("region,city\nN,a\nN,b\nS,\n")
    (tmp_path / "e.csv").write_text("at,region,city,n\n2024-01-03,N,a,2\n2024-01-09,S,,4\n")
    return tmp_path / "e.csv"


def jobs(rows: Path) -> dict[str, Job]:
    places = rows.parent / "places.csv"
    more: dict[str, Any] = {"events": rows, "state": rows.parent / "s.db", "counts": "n"}
    return {
        "hierarchy": Job("hierarchy", **more, levels="region,city", domain=places, rho="0.5"),
        "ranges": Job("ranges", **more, label="region", domain="N,S,T", rho="0.5"),
        "contingency": Job(
            "contingency", **more, columns="region,city", domain="region=N,S;city=a,b", epsilon=1
        ),
    }


def halves(table: pl.DataFrame) -> NDArray[np.float64]:
    """Half-widths of the intervals that are shown."""
    return ((table["upper"] - table["lower"]) / 2).to_numpy()


def test_once_a_plan_says_what_the_release_does(rows: Path) -> None:
    asked = jobs(rows)
    (rows.parent / "t.csv").write_text("region,city,n\nN,a,2\n")
    asked["contingency"] = asked["contingency"].having(events=rows.parent / "t.csv")
    target = asked["hierarchy"].having(rho=None, target="city=7", name="target")
    for job in (*asked.values(), target):
        plan = {one.what: one.halfwidths for one in planned_job(job).numbers}
        with run(job) as outcome:
            table = outcome.read().table()
        if job.what == "hierarchy":
            levels = table.partition_by("level", as_dict=True, maintain_order=True)
            expected = {str(level): halves(part).max() for (level,), part in levels.items()}
        elif job.what == "ranges":
            expected = {"a cell": halves(table).max()}
        else:
            names = ("total", "region", "city", "region, city")
            expected = dict(zip(names, halves(table)[[0, 1, 3, 8]], strict=True))
        assert {name: half for name, (half,) in plan.items()} == pytest.approx(expected, rel=1e-6)
        if job is target:
            assert table["std"][-1] == pytest.approx(7, rel=1e-4)


@pytest.mark.parametrize("what", ["hierarchy", "contingency", "ranges"])
def test_over_time_a_plan_says_what_the_release_does(what: str, rows: Path) -> None:
    job = jobs(rows)[what].having(
        value=None, time="at", every="1mo", start="2024-01-01", steps=3, until="2024-04-01",
        yes=True, unknown="drop",
    )  # fmt: skip
    planned = planned_job(job).numbers
    assert not (rows.parent / "s.db").exists()
    with run(job) as outcome:
        table = outcome.read().table()
    widest = halves(table).reshape(3, -1).max(axis=1)
    assert np.max([one.halfwidths for one in planned], axis=0) == pytest.approx(widest, rel=1e-6)


def test_a_plan_is_shown_and_leaves_nothing(rows: Path) -> None:
    words = ["hierarchy", str(rows), "--levels", "region,city", "--counts", "n", "--plan"]
    words += ["--domain", str(rows.parent / "places.csv"), "--state", str(rows.parent / "s.db")]
    done = CliRunner().invoke(app, [*words, "--target", "city=7", "--json"])
    found = json.loads(done.stdout)
    (plan,) = found["plans"].values()
    assert (found["released"], len(plan["numbers"])) == (False, 3)
    done = CliRunner().invoke(app, [*words, "--rho", "0.5"])
    assert "A plan: nothing is released, and no row is read." in done.stdout
    assert sorted(path.name for path in rows.parent.iterdir()) == ["e.csv", "places.csv"]
    refused = CliRunner().invoke(app, words)
    assert (refused.exit_code, "the privacy loss is missing" in refused.stderr) == (2, True)


def test_what_cannot_be_planned_is_refused(rows: Path) -> None:
    asked = jobs(rows)
    for job, words in (
        (asked["hierarchy"].having(time="at"), "every, start and steps"),
        (asked["ranges"].having(label=None), "needs label"),
        (asked["ranges"].having(what="count", value=None, label=None), "needs time"),
    ):
        with pytest.raises(InvalidInput, match=words):
            planned_job(job)
