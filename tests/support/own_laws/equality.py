"""Equality of strategies by their parameters."""

import copy

from counton.testing.rows import require


def require_equality(strategy: object) -> None:
    """A strategy is equal to its copies, and to no object of another type."""
    same = copy.deepcopy(strategy)
    alike = same == strategy and hash(same) == hash(strategy)
    require(alike, "copy.deepcopy() of it must be equal to it and have the same hash")
    require(strategy != object(), "it is equal to an object of another type")
