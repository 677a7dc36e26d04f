"""A shift that no integer vector has is a mistake upstream."""

from typing import Any

import pytest

from counton.base.errors import InvalidInputError
from counton.privacy import Sensitivity


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((0, 0), "impossible"),
        ((2, 1), "impossible"),
        ((2, 5), "impossible"),
        ((3, 3, ((1, 2),)), "have l1 = 2"),
        ((3, 5, ((1, 3),)), "l2_squared = 3"),
        ((3, 3, ((1, 3), (0, 1))), "at least 1"),
        ((3, 3, ((1, 3), (1, 0))), "at least 1"),
    ],
)
def test_impossible_shifts_are_refused(arguments: Any, message: str) -> None:
    with pytest.raises(InvalidInputError, match=message):
        Sensitivity(*arguments)


def test_affected_nodes_are_counted_or_bounded() -> None:
    assert Sensitivity(5, 9, ((2, 2), (1, 1))).most_affected == 3
    assert Sensitivity(5, 9).most_affected == 5
