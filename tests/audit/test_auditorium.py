"""DP-Auditorium's histogram tester against counton: whole jobs as black boxes.

A sample is what a job by group releases of one group, over two nights: each group is a run of its
own, with one unit's rows in it or without. The tester gives a lower bound on the delta that holds
at the stated epsilon, sure but for a probability of 10^-3, and rejects where it is above the stated
one. It sees the law of the noise and what correlates between releases. It does not see what is
refused, rare events, or more than one number made of a sample.
"""

import math
import sys
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from importlib.util import find_spec
from tempfile import TemporaryDirectory
from typing import Any
from unittest.mock import MagicMock

import numpy as np
import polars as pl
import pytest
import slips_on_purpose as mistakes
from run_results import releases_of

from counton.base.arrays import Floats
from counton.base.errors import InvalidInputError
from counton.run import Job, run

NOT_HERE = "others' auditors are not here: make audit"
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(
        find_spec("dp_auditorium") is None, reason="others' auditors are not here: make audit"
    ),
]
GROUPS = 60_000
BINS = 24
NEVER = 1e-3
START = datetime(2024, 3, 1, tzinfo=UTC)
VALUE: dict[str, Any] = {"value": "value", "lower": 0, "upper": 4, "resolution": "1"}
#: Rows of each group: hour, user, value. Those of one unit, and those that all groups have.
EVENT = [(0, "ann", 4)]
USER = [(hour, "ann", 4) for hour in (0, 0, 1, 1)]
LATE = [(0, "ann", 4)]
#: Of groups that nobody declared: what a group shows, and 0 where it does not.
FOUND = {"unlisted_groups": "discover", "delta": "1e-3", "windows": 1}
JOBS: dict[str, tuple[str, dict[str, Any], list[Any], int]] = {
    "one count": ("count", {"windows": 1}, EVENT, 0),
    "one average": ("average", {**VALUE, "windows": 1}, EVENT, 0),
    "count": ("count", {}, EVENT, 0),
    "count, a late row": ("count", {}, LATE, 1),
    "sum": ("sum", VALUE, [(0, "ann", 99)], 0),
    "average": ("average", VALUE, EVENT, 0),
    "users": ("distinct", {"user": "user", "max_contributions": 1}, USER, 0),
    "two rows of each user": ("count", {"user": "user", "max_contributions": 2}, USER, 0),
    "groups that are found": ("count", FOUND, EVENT, 0),
    "average of two rows of each user": (
        "average",
        {**VALUE, "user": "user", "max_contributions": 2},
        USER,
        0,
    ),
}


@pytest.fixture(autouse=True)
def without_what_is_not_used(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its packages import vizier and TensorFlow, for generators and testers that are not used."""
    for name in ("vizier", "vizier.service", "tensorflow"):
        monkeypatch.setitem(sys.modules, name, MagicMock())


def released(name: str, *, with_unit: bool) -> Floats:
    """What is released of each group at each step, as shape ``(groups, steps)``."""
    what, options, unit, late = JOBS[name]
    steps = options.get("windows", 4)
    labels = [f"g{number}" for number in range(GROUPS)]
    others = [(hour, f"u{hour}", 1 + hour % 3) for hour in range(4)]
    found: list[Floats] = []
    with TemporaryDirectory() as folder:
        for night in range(1 if steps == 1 else 2):
            ends = min(steps, 2 * night + 2)
            rows = [row for row in others if row[0] < ends]
            rows += unit if with_unit and night >= late else []
            hours, users, values = zip(*rows, strict=True)
            times = [START + timedelta(hours=hour) for hour in hours]
            one = pl.DataFrame({"at": times, "user": users, "value": values})
            frame = pl.DataFrame({"group": labels}).join(one, how="cross")
            frame = frame.with_columns(user=pl.col("user") + pl.col("group"))
            declared = {} if "unlisted_groups" in options else {"groups": labels}
            job = Job(
                what, frame, f"{folder}/s.db", time="at", every="1h", start="2024-03-01",
                group_by="group", epsilon=1, strategy="binary", allow_empty_windows=True,
                until=f"2024-03-01T0{ends}:00", **{"windows": steps, **declared, **options},
            )  # fmt: skip
            with run(job) as outcome:
                if "unlisted_groups" in options:
                    table = outcome.read().table()
                    shown = dict(table.select("group", "estimate").iter_rows())
                    return np.array([[shown.get(label, 0.0)] for label in labels])
                values_of = np.asarray(releases_of(outcome), float)
                found = list(values_of.reshape(len(values_of), GROUPS, -1))
    return np.stack([step.sum(axis=1) for step in found], axis=1)


def log_ratio_score(one: Floats, other: Floats) -> Callable[[Floats], Floats]:
    """A number of each sample that tells the two apart, found on the first half of the groups."""
    half = GROUPS // 2
    moved = other[:half].mean(axis=0) - one[:half].mean(axis=0)
    spread = np.cov(one[:half].T) + 1e-9 * np.eye(one.shape[1])
    weights = np.linalg.solve(spread, moved)
    return lambda samples: np.asarray(samples[half:] @ weights)


def rejected(name: str) -> bool:
    """Whether the tester says that epsilon = 1 is not kept."""
    from dp_auditorium.configs.privacy_property import ApproximateDp
    from dp_auditorium.configs.property_tester_config import HistogramPropertyTesterConfig
    from dp_auditorium.testers.histogram_tester import HistogramTester

    pair = [released(name, with_unit=with_unit) for with_unit in (False, True)]
    score = log_ratio_score(*pair)
    one, other = (score(samples) for samples in pair)
    centre = np.median(np.concatenate([one, other]))
    wide = max(one.std(), other.std(), 1e-12)
    delta = float(JOBS[name][1].get("delta", 1e-9))
    tester = HistogramTester(
        HistogramPropertyTesterConfig(
            test_discrete_mechanism=False, histogram_size=BINS,
            min_value=float(centre - 3 * wide), max_value=float(centre + 3 * wide),
            approximate_dp=ApproximateDp(epsilon=1.0, delta=delta),
        )
    )  # fmt: skip
    bound = max(
        tester.estimate_lower_bound(one, other, NEVER),
        tester.estimate_lower_bound(other, one, NEVER),
    )
    assert math.isfinite(bound)
    return bool(tester.reject_property(bound))


@pytest.mark.parametrize("name", JOBS)
def test_auditor_rejects_no_correct_job(name: str) -> None:
    assert not rejected(name)


#: What the tester finds of the same five mistakes, in which job.
MISTAKES = {
    mistakes.no_clip: ("sum", True),
    mistakes.one_row_more: ("two rows of each user", False),
    mistakes.refusal_by_a_row: ("two rows of each user", False),
    mistakes.half_the_noise: ("one count", True),
    mistakes.one_draw_for_all_steps: ("count", True),
}


@pytest.mark.parametrize("mistake", MISTAKES, ids=lambda one: one.__name__)
def test_auditor_rejects_the_mistakes_it_can_detect(
    mistake: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    name, found = MISTAKES[mistake]
    mistake(monkeypatch)
    if mistake is mistakes.refusal_by_a_row:
        with pytest.raises(InvalidInputError):  # both runs are refused: it has no samples
            rejected(name)
        return
    assert rejected(name) is found
