"""No object that touches private data shows any of it: logs and saved notebooks keep what is shown.

What is for the operator is said where it is asked for, by attributes and on standard error.
"""

from pathlib import Path
from typing import Any

import polars as pl
import pytest
from run_results import counts_of
from telling import tells

from counton import PureDP, TopK
from counton.base.errors import InvalidInputError
from counton.run import Job, release, run

#: 7,919 rows of which none is counted, and 31 that are.
FRAME = pl.DataFrame(
    {
        "time": ["2024-03-01T09:00"] * 31 + ["2024-04-01T09:00"] * 7919,
        "page": ["a"] * 31 + ["annabel"] * 7919,
        "visitor": [f"visitor-{n}" for n in range(7950)],
    }
)
SECRETS = ("annabel", "visitor-", "shape:", "2024-04")


def shows_a_row(said: str) -> bool:
    return any(tells(said, rows) for rows in (7919, 7950)) or any(one in said for one in SECRETS)


def windows(state: Path) -> dict[str, Any]:
    return {"state": state, "time": "time", "every": "1d", "start": "2024-02-29", "windows": 3}


def test_repr_of_run_result_shows_no_row(tmp_path: Path) -> None:
    asked: dict[str, Any] = {
        **windows(tmp_path / "a.db"), "group_by": "page", "groups": ["a", "b"],
        "unlisted_groups": "drop",
        "until": "2024-03-03",
    }  # fmt: skip
    done = release("count", FRAME, guarantee=PureDP(1), **asked)
    job = Job("count", FRAME, **asked)
    with run(job) as outcome:
        assert (counts_of(outcome).unlisted, counts_of(outcome).rows) == (7919, 7950)
        shown: list[object] = [
            done, [done], job, outcome, outcome.confidential_counts(), outcome.spec.metadata(),
        ]  # fmt: skip
        for found in shown:
            said = repr(found)
            assert not shows_a_row(said), said


def test_repr_of_job_with_statistic_shows_no_row(tmp_path: Path) -> None:
    asked = windows(tmp_path / "a.db") | {"until": "2024-03-03"}
    request = Job(
        TopK(["a", "b"], k=1), FRAME, group_by="page", unlisted_groups="drop", epsilon=1, **asked
    )
    with run(request) as outcome:
        assert counts_of(outcome).unlisted == 7919
        for found in (request, outcome):
            said = repr(found)
            assert not shows_a_row(said), said


def test_tables_once_show_no_row(tmp_path: Path) -> None:
    frame = pl.DataFrame({"state": ["CA", "NY"], "people": [700123, 55]})
    given: dict[str, Any] = {"count_column": "people", "rho": 10**9}
    tree = Job(
        "hierarchy",
        frame,
        tmp_path / "a.db",
        levels="state",
        groups={"state": ["CA", "NY"]},
        **given,
    )
    table = Job(
        "contingency", frame, tmp_path / "b.db", columns="state", groups="state=CA,NY", **given
    )
    for job in (tree, table):
        with run(job) as outcome:
            assert round(float(outcome.read().table()["estimate"][0])) == 700178
            for found in (job, outcome):
                assert not tells(repr(found), 700123)
    other = tree.derive(levels="county", groups={"county": ["x", "y"]}, state=tmp_path / "c.db")
    with pytest.raises(InvalidInputError, match="county") as refused:
        run(other)
    assert not tells(str(refused.value), 700123)
