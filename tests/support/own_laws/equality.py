"""Equality of strategies by their parameters."""

import copy

from counton.laws.rows import require


def require_equality(strategy: object) -> None:
    """Raise ``LawBroken`` unless a strategy is equal to its copies, and to no object of another
    type.
    """
    same = copy.deepcopy(strategy)
    require(
        same == strategy and hash(same) == hash(strategy),
        "copy.deepcopy() of it must be equal to it and have the same hash; define __eq__ and "
        "__hash__ by its parameters",
    )
    require(
        strategy != object(),
        "it is equal to an object of another type; __eq__ must return False or NotImplemented "
        "there",
    )
