"""Released counts and sums by what only they have: series of their own, curves, first steps."""

from __future__ import annotations

from typing import Any

from counton.released.counts import ReleasedCells


def cells_of(outcome: Any) -> ReleasedCells:
    """What an outcome, or a run, released of counts or sums."""
    found = outcome.read()
    assert isinstance(found, ReleasedCells)
    return found
