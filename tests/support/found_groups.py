"""Groups that nobody declared among revised windows: their jobs, and how likely noise shows one."""

from collections.abc import Sequence
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
from keys import chosen_key
from revised_jobs import Row, day_in_march, frame
from run_results import design_of, labels_of, releases_of

from counton.base.distributions import DiscreteLaplace
from counton.results.release import Release
from counton.run import Job, RunResult, run
from counton.statistics.discovery import Discovery
from counton.strategies import WindowVersions

#: What all these jobs say, unless they say otherwise.
FOUND: dict[str, Any] = {
    "group_by": "group", "unlisted_groups": "discover", "delta": "1e-6", "epsilon": 2,
    "windows": 30,
}  # fmt: skip


def rows_of(day: int, group: str, number: int, user: str = "") -> list[Row]:
    """As many rows of a day and a group, each of a user of its own unless one is named."""
    return [(day, group, user or f"{group}{day}{place}", "", 1.0) for place in range(number)]


def job_of(folder: Path, rows: Sequence[Row], night: int, what: Any = "count", **more: Any) -> Job:
    """The job of a night, which ends the day of its number."""
    told: dict[str, Any] = {
        "time": "at", "every": "1d", "start": "2024-03-01", "allowed_lateness": "2d",
        "append": True,
        "until": day_in_march(1 + night), "allow_empty_windows": True, "key": chosen_key(), **FOUND,
    }  # fmt: skip
    return Job(what, frame(rows, night), folder / "s.db", **{**told, **more})


def night_of(
    folder: Path, rows: Sequence[Row], night: int, what: Any = "count", **more: Any
) -> Release:
    """Run one night."""
    with run(job_of(folder, rows, night, what, **more)) as outcome:
        return outcome.read()


def some_nights(last: int = 6) -> list[list[Row]]:
    """Home is large from the first night on, shop from the third and mostly by late rows; a file of
    the fourth has rows of a final day, of a group of their own; each night has a group of one row.
    """
    nights: list[list[Row]] = []
    for day in range(1, last + 1):
        rows = rows_of(day, "home", 60) + rows_of(day, f"hush{day}", 1)
        rows += rows_of(day - 1, "home", 5) if day > 1 else []
        rows += rows_of(day - 1, "shop", 50) if day > 2 else []
        rows += rows_of(1, "gone", 500) if day == 4 else []
        nights.append(rows)
    return nights


def shown_by_numbers_alone(outcome: RunResult, last: int) -> dict[str, int]:
    """Since when each group of one row is shown, from the released numbers until night ``last``.

    A name is that of the row's night, a hyphen, and a number; about as many groups of the first
    night are there as the exact probability says.
    """
    values = np.asarray(releases_of(outcome))
    terms = design_of(outcome)
    names = labels_of(outcome)
    cells = outcome.spec.metadata().cells
    windows = terms.strategy
    distribution = terms.distribution
    assert isinstance(cells, Discovery)
    assert isinstance(windows, WindowVersions)
    assert isinstance(distribution, DiscreteLaplace)
    places, row_adds = cells.compared
    found: dict[str, int] = {}
    for group, name in enumerate(names):
        own = slice(places * group, places * group + places)
        for night in range(int(name[0]), last + 1):
            for lag in range(min(windows.lags + 1, night)):
                std = (
                    places * len(windows.inner.row(lag + 1)) * float(distribution.variance)
                ) ** 0.5
                least = row_adds + int(np.ceil(float(Fraction(cells.margin)) * std))
                if values[night - 1, own, lag].sum() >= least:
                    found.setdefault(name, night)
    shown = [name in found for name in names if name.startswith("1-")]
    assert len(shown) == 400
    exact = chance_of_being_shown(cells, windows, distribution, last, 1)
    assert 0.02 < exact <= 0.2
    assert abs(np.mean(shown) - exact) < 4 * (exact * (1 - exact) / len(shown)) ** 0.5
    return found


def chance_of_being_shown(
    found: Discovery,
    windows: WindowVersions,
    distribution: DiscreteLaplace,
    last: int,
    arrived: int,
) -> float:
    """The probability that noise alone shows a group of one row, from every value of every node.

    The row is the first of its group. It belongs to the window ``arrived``, and comes by its end;
    releases go on until ``last``. If a group has several cells, a node here is the sum of theirs.
    """
    q = np.exp(-1 / float(distribution.scale))
    reach = 24
    places, row_adds = found.compared
    one = (1 - q) / (1 + q) * q ** np.abs(np.arange(-reach, reach + 1))
    weights = one
    for _ in range(places - 1):
        weights = np.convolve(weights, one)
    values = np.arange(len(weights)) - len(weights) // 2
    margin = Fraction(found.margin)
    hidden = 1.0
    for window in range(1, last + 1):
        rows = {
            lag: windows.lag_row(window, lag)
            for lag in range(windows.lags + 1)
            if arrived <= window + lag <= last
        }
        nodes = sorted({node[:2] for row in rows.values() for node in row})
        axes = np.meshgrid(*[values] * len(nodes), indexing="ij")
        chance = np.ones((1,) * len(nodes))
        for place in range(len(nodes)):
            shape = [1] * len(nodes)
            shape[place] = -1
            chance = chance * weights.reshape(shape)
        below = np.ones(chance.shape, np.bool_)
        for row in rows.values():
            noise = sum(axes[nodes.index(node[:2])] for node in row)
            std = (places * len(row) * float(distribution.variance)) ** 0.5
            least = found.change * row_adds + int(np.ceil(float(margin) * std))
            below &= row_adds * int(window == arrived) + noise < least
        hidden *= float(chance[below].sum()) + max(1 - float(chance.sum()), 0.0)
    return 1 - hidden
