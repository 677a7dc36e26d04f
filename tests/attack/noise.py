"""Noise by itself: a thousand groups without rows show it, and it has the law that is claimed."""

import random
from pathlib import Path
from typing import Any

import numpy as np
from neighbouring_jobs import KEYS, published

from counton.strategies import matrices
from counton.strategies.strategy import column_until, node_distribution
from tests.attack.neighbours import _known, terms, wide_enough

Case = dict[str, Any]
CELLS = 1000
#: Seven standard deviations of a correlation of so many cells: none is further in a lifetime.
FAR = 7 / np.sqrt(CELLS)


def draw(chance: random.Random) -> Case:
    """A count by group, in which one group has all rows; noise is wider than its grid."""
    own = terms(chance)
    if own.get("epsilon") == 10:
        own["epsilon"] = 1
    rows = [[chance.randrange(6), "g0", 7, 0, 1] for _ in range(5)]
    return {"key": chance.randrange(2**63), "own": own, "nights": [rows, []]}


def run_alone(case: Case, folder: Path) -> str:
    """What is released of empty groups.

    Raises:
        AssertionError: it is too narrow, too wide, or goes together where it should not.
    """
    groups = [f"g{number}" for number in range(CELLS + 1)]
    options = {"group_by": "group", "groups": groups, **case["own"]}
    with _known(case["key"]):
        found = published(case["nights"], "csv", "count", options, KEYS)
    design = found.design
    if design is None:
        return "refused"
    wide_enough(design)
    noise = found.changes.cumsum(axis=0).reshape(len(found.changes), -1)[:, 1:]
    steps = len(noise)
    scaled = noise / np.asarray(design.errors.std(range(1, steps + 1)), float)[:, None]
    wide = np.abs(scaled).mean(axis=1)  # 0.71 of Laplace noise, 0.80 of a normal one
    assert ((wide > 0.5) & (wide < 1)).all(), f"noise is {wide} of its standard deviation wide"
    reads, _ = matrices(design.strategy, steps)
    nodes = sorted(
        {node[:2] for step in range(1, steps + 1) for node in (
            *design.strategy.row(step), *column_until(design.strategy, step, steps))}
    )  # fmt: skip
    width = [
        node_distribution(design.strategy, design.distribution, level).variance
        for level, _ in nodes
    ]
    claimed = np.asarray(reads, float) * np.sqrt(width)
    claimed /= np.linalg.norm(claimed, axis=1, keepdims=True)
    apart = np.abs(np.corrcoef(scaled) - claimed @ claimed.T).max()
    assert apart < FAR, f"noise of two steps has a correlation that is {apart:.2f} from its claim"
    return type(design.strategy).__name__
