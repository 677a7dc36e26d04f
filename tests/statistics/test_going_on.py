"""A strategy of cells is chosen by the first run alone."""

from pathlib import Path
from typing import Any

from counton import PureDP
from counton.run import Job, run
from counton.statistics import Quantiles


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
