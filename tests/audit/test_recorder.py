"""dp-recorder (Re:cord-play) against counton: jobs of every statistic, over nights.

It sees each release by itself: what goes in, what is declared, and whether anything but noise
hangs on a row. It does not see that the noise has the law that is claimed (`test_auditorium` does),
that a key is used once, or the sum of what several releases of one state spend; and where groups
are found its two runs measure different cells, which it cannot compare.
"""

from collections.abc import Callable
from importlib.util import find_spec
from typing import Any

import numpy as np
import pytest
import slips_on_purpose as mistakes
from keys import chosen_key
from recorded_jobs import Neighbours, audit
from slips_on_purpose import ONE, PERIOD, PERSON, USUAL, VALUE

from counton import ZCDP
from counton.training import FixedEpochs, TrainingNoise, plan

NOT_HERE = "others' auditors are not here: make audit"
pytestmark = pytest.mark.skipif(
    find_spec("dp_recorder") is None, reason="others' auditors are not here: make audit"
)


BY: dict[str, Any] = {"group_by": "group", "groups": "1,2", "unlisted_groups": "drop"}
REPORT: dict[str, Any] = {
    "statistics": {
        "n": {"statistic": "count"},
        "paid": {"statistic": "average", **VALUE},
        "cells": {"statistic": "quantiles", "value": "value", "edges": "0,2,4,8"},
    }
}
EVENTS: dict[str, tuple[str, dict[str, Any]]] = {
    "count": ("count", {}),
    "count by group": ("count", BY),
    "sum": ("sum", VALUE),
    "average": ("average", VALUE),
    "average by group": ("average", {**VALUE, **BY}),
    "quantiles": ("quantiles", {"value": "value", "edges": "0,2,4,8"}),
    "hierarchy of quantiles": (
        "quantiles", {"value": "value", "edges": "0,2,4,6,8", "line": "hierarchy"},
    ),
    "ranges": ("ranges", {"label": "group", "groups": "1,2,3", "unlisted_groups": "drop"}),
    "top-k": ("top-k", {"group_by": "group", "groups": "1,2", "unlisted_groups": "drop"}),
    "report": ("report", REPORT),
    "moments": ("moments", {"columns": "value", "bounds": "0:9", "grid": 8}),
    "hierarchy": (
        "hierarchy",
        {
            "levels": "group,letter",
            "groups": {"group": ["1", "1", "2", "2"], "letter": ["a", "b", "a", "b"]},
            "unlisted_groups": "drop",
        },
    ),
    "contingency": (
        "contingency",
        {
            "columns": "group,letter",
            "groups": {"group": ["1", "2"], "letter": ["a", "b"]},
            "unlisted_groups": "drop",
        },
    ),
    "edges": ("edges", {"edge": "one,two", "late": "drop"}),
    "stars": (
        "stars",
        {"edge": "one,two", "degree": 3, "leaves": 2, "beyond": "drop", "late": "drop"},
    ),
    "forest": ("forest", {"edge": "one,two", "weight": "weight", "largest": 60, "late": "drop"}),
    "triangles": ("triangles", {"edge": "one,two", "degree": 3, "beyond": "drop", "late": "drop"}),
    "degrees": (
        "degrees",
        {"edge": "one,two", "degree": 3, "nodes": 40, "beyond": "drop", "late": "drop"},
    ),
}  # fmt: skip
USERS: dict[str, tuple[str, dict[str, Any]]] = {
    "count of two rows each": ("count", {"user": "user", "max_contributions": 2}),
    "two rows each and two hours": (
        "count",
        {"user": "user", "max_contributions": 2, "contribution_period": "2h"},
    ),
    "two groups each": (
        "count",
        {"user": "user", "max_contributions": 2, "once_per_window": True, **BY},
    ),
    "average of people": ("average", {"user": "user", "max_contributions": 2, **VALUE}),
    "users": ("distinct", {"user": "user"}),
    "reach": ("reach", {"user": "user", "at_least": "1,3"}),
    "report of people": ("report", {**REPORT, "user": "user", "max_contributions": 2}),
}
GUARANTEES: dict[str, dict[str, Any]] = {
    "pure": {"epsilon": 1},
    "zero-concentrated": {"epsilon": None, "rho": "0.5", "strategy": None},
}


@pytest.mark.parametrize("guarantee", GUARANTEES)
@pytest.mark.parametrize("unit", ONE)
@pytest.mark.parametrize("statistic", EVENTS)
def test_recorder_confirms_declared_change_by_event(
    statistic: str, unit: str, guarantee: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    what, options = EVENTS[statistic]
    pair = Neighbours(what, {**options, **GUARANTEES[guarantee]}, USUAL, ONE[unit])
    audit(pair, monkeypatch)


@pytest.mark.parametrize("statistic", USERS)
def test_recorder_confirms_declared_change_by_user(
    statistic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    what, options = USERS[statistic]
    audit(
        Neighbours(what, options, USUAL, PERIOD if "contribution_period" in options else PERSON),
        monkeypatch,
    )


def recorder() -> tuple[Any, Any, Any, Any]:
    """What is used of it: its auditor, two of its functions, and its distance."""
    from dp_recorder.auditing import Auditor, audit_spec, dist_l2, ensure_equality

    return Auditor(), audit_spec, ensure_equality, dist_l2


def with_noise(noise: TrainingNoise) -> Callable[..., Any]:
    """A step's noise, in the form that the recorder wraps."""

    def add(sums: Any, sensitivity: float, step: int) -> Any:
        return noise.add(step, sums)

    return add


def test_an_example_moves_sums_of_gradients_by_the_clip_alone() -> None:
    """Which examples a step has hangs on the sampler, and the noise on step and key."""
    sampler = FixedEpochs(examples=12, batch_size=4, epochs=2)
    found = plan(sampler=sampler, dimension=3, guarantee=ZCDP(0.5), clip=1.0)
    auditor, audit_spec, ensure_equality, dist_l2 = recorder()
    examples = np.arange(36.0).reshape(12, 3)
    for number in range(2):
        if number:
            auditor.set_replay()
            examples = np.concatenate([examples[:5], [[-9.0, 0, 0]], examples[6:]])
        noise = found.best.noise(key=chosen_key(), name="model")
        with auditor:
            for step in range(1, sampler.steps + 1):
                batch = examples[ensure_equality(batch=sampler.batch(step))]
                clipped = batch / np.maximum(1, np.linalg.norm(batch, axis=1, keepdims=True))

                add = audit_spec("gradient", "sums", "sensitivity", dist_l2)(with_noise(noise))
                add(sums=clipped.sum(axis=0), sensitivity=2.0, step=step)  # one leaves, one enters
    auditor.validate_records()


# ------------------------------------------------------------- five mistakes, put in on purpose


#: What the recorder finds of five mistakes.
MISTAKES = {
    mistakes.no_clip: True, mistakes.one_row_more: True, mistakes.refusal_by_a_row: True,
    mistakes.half_the_noise: False, mistakes.one_draw_for_all_steps: False,
}  # fmt: skip


@pytest.mark.parametrize("mistake", MISTAKES, ids=lambda one: one.__name__)
def test_recorder_rejects_the_mistakes_it_can_detect(
    mistake: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    pair = mistake(monkeypatch)
    try:
        audit(pair, monkeypatch)
    except AssertionError:
        assert MISTAKES[mistake]
    else:
        assert not MISTAKES[mistake]


def test_audit_detects_late_rows_refused_in_ordered_input(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Without late=drop a refusal depends on a row (docs/guarantees/details.md)."""
    options = {"edge": "one,two", "degree": 3, "beyond": "drop"}
    with pytest.raises(AssertionError, match="Divergence"):
        audit(Neighbours("triangles", options, USUAL, ONE["late"]), monkeypatch)
