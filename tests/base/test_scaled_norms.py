"""Squared norms: they are named so, and one function knows how they grow with a change."""

import re
from itertools import product
from pathlib import Path

import numpy as np

import counton
from counton.base.distributions import BoundedChange, scaled_norms

SOURCE = Path(counton.__file__).parent
#: A squared norm times a square, as in ``most**2 * pattern.l2_squared``.
SCALED = re.compile(r"\*\*\s?2\s\*\s(int\(|[\w.]*squared\b)|\bl2_squared\s\*\s[\w.]+\*\*2")
#: What is no change of counts: columns that are not aligned, of which the 1-norm bounds the other
#: one, and noise that is so many times as wide.
OTHERS = {
    ("strategies/participation.py", "l2_squared * pattern.l1**2"),
    ("strategies/participation.py", "l2_squared * changes**2"),
    ("strategies/participation.py", "l2_squared * pattern.total**2"),
    ("continual/sensitivity.py", "l2_squared * steps**2"),
    ("privacy/gaussian.py", "l2_squared * sigma**2"),
    ("privacy/gaussian.py", "**2 * tau_squared"),
}


def test_scaled_norms_equal_norms_of_multiplied_change() -> None:
    for by, change in product((1, 2, 5), ((1,), (1, -1), (3, 0, -2))):
        found = np.array(change)
        moved = by * np.array(change)
        l1 = int(abs(found).sum())
        l2_squared = int(found @ found)
        true = (int(abs(moved).sum()), int(moved @ moved))
        assert scaled_norms(l1, l2_squared, by) == true
        pattern = BoundedChange(l1, l2_squared, single_step=True).scaled_by(by)
        assert pattern == BoundedChange(*true, single_step=True)


def test_only_scaled_norms_multiplies_squared_norms() -> None:
    found = {
        (path.relative_to(SOURCE).as_posix(), one[0])
        for path in SOURCE.rglob("*.py")
        if "testing" not in path.parts  # they say it once more
        for one in SCALED.finditer(path.read_text(encoding="utf-8"))
    }
    assert found - OTHERS == {("base/distributions.py", "**2 * l2_squared")}
