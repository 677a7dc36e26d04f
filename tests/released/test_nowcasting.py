"""Nowcasts of a release: rows for provisional windows, in Python and from the command line."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from typer.testing import CliRunner

from counton import PureDP, nowcast, release
from counton.base.errors import InvalidInput
from counton.cli.app import app
from counton.run.exports import released_in

DAYS = 14
TOLD: dict[str, Any] = {"time": "at", "every": "1d", "start": "2024-03-01", "revise": "2d"}


@pytest.fixture(scope="module")
def state(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Nights whose rows come on their day (60), a day late (30) and two days late (10), by page."""
    place = tmp_path_factory.mktemp("revised") / "visits.db"
    for day in range(1, DAYS + 1):
        rows = [
            (f"2024-03-{day - lag:02}T09:00", page)
            for lag, count in ((0, 60), (1, 30), (2, 10))
            for page, times in (("home", 2), ("shop", 1))
            for _ in range(count * times)
            if day > lag
        ]
        release(
            "count", pl.DataFrame(rows, schema=["at", "page"], orient="row"), append=True,
            until=f"2024-03-{day + 1:02}", state=place, by="page", domain=["home", "shop"],
            guarantee=PureDP(100), **TOLD,
        )  # fmt: skip
    return place


def test_provisional_windows_are_foretold(state: Path) -> None:
    found = nowcast(released_in(str(state), None))
    table = found.table()
    assert table.select("step", "group", "lag").rows() == [
        (13, "home", 1), (13, "shop", 1), (14, "home", 0), (14, "shop", 0),
    ]  # fmt: skip
    for row in table.iter_rows(named=True):
        final = 200 if row["group"] == "home" else 100
        assert row["lower"] <= final <= row["upper"]
        assert row["released"] < 0.95 * final < row["estimate"] < 1.05 * final
    assert found.changed_groups == ()
    assert "It costs no privacy." in found.describe()


def test_the_command_prints_and_writes_them(state: Path) -> None:
    done = CliRunner().invoke(app, ["answer", str(state), "--nowcast", "--json"])
    assert done.exit_code == 0, done.stderr
    assert [row["step"] for row in json.loads(done.stdout)["rows"]] == [13, 13, 14, 14]


def test_what_was_known_then_is_foretold_as_it_was(state: Path) -> None:
    then = released_in(str(state), None).as_of(12)
    assert nowcast(then, "shop").table()["step"].to_list() == [11, 12]


def test_what_cannot_be_foretold_is_refused(state: Path, tmp_path: Path) -> None:
    released = released_in(str(state), None)
    with pytest.raises(InvalidInput, match=r"cellar.* is not a group"):
        nowcast(released, "cellar")
    with pytest.raises(InvalidInput, match="it needs 12, because rows may be 2 windows late"):
        nowcast(released.as_of(11))
    plain = release(
        "count", pl.DataFrame({"at": ["2024-03-01T09:00"]}), time="at", every="1d", steps=30,
        start="2024-03-01", until="2024-03-02", guarantee=PureDP(1), state=tmp_path / "plain.db",
    )  # fmt: skip
    with pytest.raises(InvalidInput, match="no versions to choose from"):
        nowcast(plain)


@pytest.mark.parametrize("lower", [-5, 0])
def test_sums_that_may_fall_have_no_forecast(tmp_path: Path, lower: int) -> None:
    """Rows still to come may lower such a sum, whereas a forecast takes them for growth."""
    for day in range(1, DAYS + 1):
        rows = [(f"2024-03-{day - lag:02}T09:00", 4) for lag in (0, 1, 2) if day > lag]
        found = release(
            "sum", pl.DataFrame(rows * 20, schema=["at", "paid"], orient="row"), append=True,
            until=f"2024-03-{day + 1:02}", state=tmp_path / "paid.db", value="paid", lower=lower,
            upper=5, resolution=1, guarantee=PureDP(100), **TOLD,
        )  # fmt: skip
    if lower < 0:
        with pytest.raises(InvalidInput, match=r"adds up values that may be as low as -5.*lower=0"):
            nowcast(found)
    else:
        (row, _) = nowcast(found).table().to_dicts()
        assert row["lower"] <= 3 * 20 * 4 <= row["upper"]
