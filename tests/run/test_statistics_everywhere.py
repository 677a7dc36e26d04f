"""A statistic without a last step: charged once, and gone on with."""

from pathlib import Path
from typing import Any

import pytest

from counton import ZCDP
from counton.base.errors import InvalidInput
from counton.run import Job, run
from counton.state import Store, verify

ROWS = "time,page,paid\n2024-03-01T09:00,home,3\n2024-03-02T10:15,shop,5\n2024-03-03T10:15,shop,5\n"


def job(folder: Path) -> Job:
    (folder / "e.csv").write_text(ROWS)
    return Job(
        "average", folder / "e.csv", folder / "s.db", value="paid", lower=0, upper=9, resolution=1,
        time="time", every="1d", start="2024-03-01", steps=9, until="2024-03-04", epsilon=1,
        by="page", domain="home,shop",
    )  # fmt: skip


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
