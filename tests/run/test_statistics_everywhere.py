"""Statistics where counts are: published, ended and continued, exported by group."""

from pathlib import Path
from typing import Any

import polars as pl
import pytest
from databases import rows_in

from counton import ZCDP
from counton.base.errors import InvalidInput
from counton.run import Job, export, publish, run
from counton.state import Store, verify

ROWS = "time,page,paid\n2024-03-01T09:00,home,3\n2024-03-02T10:15,shop,5\n2024-03-03T10:15,shop,5\n"


def job(folder: Path) -> Job:
    (folder / "e.csv").write_text(ROWS)
    return Job(
        "average", folder / "e.csv", folder / "s.db", value="paid", lower=0, upper=9, resolution=1,
        time="time", every="1d", start="2024-03-01", steps=9, until="2024-03-04", epsilon=1,
        by="page", domain="home,shop",
    )  # fmt: skip


def test_readings_are_published_and_stand_in_the_view(tmp_path: Path) -> None:
    with run(job(tmp_path)) as outcome:
        table = outcome.read().table()
    place = tmp_path / "shown.db"
    assert publish(tmp_path / "s.db", place).after == 3
    assert publish(tmp_path / "s.db", place).before == 3  # again: nothing new
    found = rows_in(place, "SELECT * FROM counton_releases WHERE step = 3")
    assert {row["group"] for row in found} >= {"home mean", "shop count"}
    last = table.filter(pl.col("step") == 3)
    assert sorted(row["estimate"] for row in found) == sorted(last["estimate"].to_list())


def test_groups_and_steps_of_a_statistic_are_exported(tmp_path: Path) -> None:
    with run(job(tmp_path)) as outcome:
        table = outcome.read().table()
    found = export(tmp_path / "s.db", groups="shop", steps="2:3").table()
    wanted = table.filter(pl.col("group") == "shop", pl.col("step") > 1)
    assert found.equals(wanted)


def test_a_stream_without_an_end_is_charged_once_and_goes_on(tmp_path: Path) -> None:
    endless = job(tmp_path).having(steps=None, around=365, rho=1, epsilon=None)
    with run(endless) as outcome:
        assert outcome.after == 3
        assert outcome.definition.strategy.horizon is None
        first = outcome.read().table()
    with run(endless.having(until="2024-03-06")) as outcome:
        assert outcome.after == 5
        assert outcome.read().table().head(first.height).equals(first)
    with Store(tmp_path / "s.db") as store:
        assert [spend.guarantee for spend in store.spends] == [ZCDP(1)]
    assert all(found.right for found in verify(tmp_path / "s.db"))
    wrongs: tuple[dict[str, Any], ...] = (
        *({"steps": 9}, {"expire": True}, {"release": "windows"}, {"metric": "max"}),
    )
    for wrong in wrongs:
        with pytest.raises(InvalidInput, match=r"go with around|around=365 does not"):
            run(endless.having(name="other", **wrong))
