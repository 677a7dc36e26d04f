"""What a statistic knows exactly says nothing to whoever has the state without the key."""

from __future__ import annotations

import sqlite3
import zlib
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from counton import PureDP, Stream
from counton.statistics import Distinct, Statistic, TopK
from counton.statistics.users import digests_of
from counton.strategies import KAry


@pytest.mark.parametrize("statistic", [Distinct(), TopK(["a", "b"], most=2)], ids=repr)
def test_the_state_alone_does_not_tell_whether_a_name_is_in_it(
    statistic: Statistic, file: Path
) -> None:
    """Without the key nobody can try names."""
    events: list[Any] = (
        ["ann", "bob"] if isinstance(statistic, Distinct) else [("ann", "a"), ("bob", "b")]
    )
    with Stream.create(
        file, "s", KAry.best(30), PureDP(1), statistic=statistic, batched=True
    ) as stream:
        stream.release_events(events, [len(events)])
    with closing(sqlite3.connect(file)) as database, database:
        (blob,) = database.execute(
            "SELECT marks FROM counton_marks WHERE kind = 'exact'"
        ).fetchone()
    database.close()
    assert not blob.startswith(zlib.compress(b"", 1)[:2])
    assert not any(user in blob for user in digests_of(["ann", "bob"]))
    with Stream.open(file, "s") as stream:
        assert stream.release_events(events, [len(events)])[0].step == 2
