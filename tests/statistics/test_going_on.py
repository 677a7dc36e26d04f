"""Statistics of values and users in files: the same after every stop, and chosen only once."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from streams_of_events import release_events

from counton import Key, PureDP, Running, Stream
from counton.run import Job, run
from counton.statistics import Average, Distinct, Quantiles, Statistic, TopK
from counton.strategies import Binary

MOVES = [[("a", True), ("b", True)], [("a", False)], [], [("a", True), ("b", False)]]
VALUES = [[1, 2.5], [9], [], [3, 3]]


@pytest.mark.parametrize(
    ("statistic", "batches"),
    [
        (TopK(list("abc"), 2), [["a", "b"], ["b"], [], ["c", "a"]]),
        (Average(0, 5, "0.5"), VALUES),
        (Quantiles(lower=0, upper=5, cells=20), VALUES),
        (Distinct(), [["a", "b"], ["b"], [], ["c", "a"]]),
        (Distinct(changes=2), MOVES),
    ],
    ids=repr,
)
def test_the_same_after_every_stop(
    statistic: Statistic, batches: list[list[Any]], tmp_path: Path
) -> None:
    key, strategy = Key.generate(), Binary(4)
    stops = np.cumsum([len(batch) for batch in batches])
    events = [event for batch in batches for event in batch]
    named: Any = {"guarantee": PureDP(1), "strategy": strategy, "batched": True}
    running = Running.start(statistic, key=key, name="s", **named)
    whole = running.release_batches(events, stops)
    again = Running.start(statistic, key=key, name="s", **named)
    for batch, there in zip(batches, whole, strict=True):
        again = Running.resume(again.checkpoint(), key=key)
        one = again.release_batch(batch)
        np.testing.assert_array_equal(one.release.value, there.release.value)
        if not statistic.ordered:
            file = tmp_path / "s.db"
            if not file.exists():
                terms = strategy, named["guarantee"]
                Stream.create(file, "s", *terms, statistic=statistic, key=key).close()
            with Stream.open(file, "s", key=key) as stream:
                (kept,) = release_events(stream, batch)
            np.testing.assert_array_equal(kept.release.value, there.release.value)


def test_the_cells_strategy_is_chosen_by_the_first_run(tmp_path: Path) -> None:
    events, statistic = tmp_path / "e.csv", Quantiles(lower=0, upper=5, cells=20)
    for last in (2, 3):
        rows = "".join(f"2024-03-0{1 + value},{value}.5\n" for value in range(last))
        events.write_text("day,delay\n" + rows)
        when: Any = {"time": "day", "every": "1d", "start": "2024-03-01", "steps": 9}
        when["until"] = f"2024-03-0{1 + last}"
        state = tmp_path / "s.db"
        with run(Job(statistic, events, state, value="delay", epsilon=50, **when)) as outcome:
            assert outcome.after == last
            assert outcome.definition.statistic == statistic.settle(PureDP(50))
