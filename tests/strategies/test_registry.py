"""Strategies by name."""

from typing import Any

import pytest

from counton.base.errors import InvalidInputError
from counton.strategies import strategy_from_dict
from counton.tables import line_strategy_from_dict


@pytest.mark.parametrize(
    ("saved", "complaint"),
    [
        ({}, "strategy is None, which is not known; known are Binary"),
        (
            {"strategy": "Ternary", "horizon": 3},
            "strategy is 'Ternary', which is not known; known are Binary",
        ),
        ({"strategy": "Strategy", "horizon": 3}, "known are Binary"),
        ({"strategy": "Binary"}, "parameters of Binary"),
        ({"strategy": "Binary", "horizon": 3, "arity": 2}, "parameters of Binary"),
        ({"strategy": "Binary", "horizon": 0}, "horizon is 0"),
    ],
)
def test_strategy_from_dict_refuses_invalid_description(
    saved: dict[str, object], complaint: str
) -> None:
    with pytest.raises(InvalidInputError, match=complaint):
        strategy_from_dict(saved)


@pytest.mark.parametrize("kind", [[], {}, None, 3, "Trees", ["x"] * 10**4])
def test_unknown_strategy_name_is_refused(kind: Any) -> None:
    for read in (strategy_from_dict, line_strategy_from_dict):
        with pytest.raises(InvalidInputError, match=r"^strategy is .*; known ") as refused:
            read({"strategy": kind})
        assert len(str(refused.value)) < 400
        with pytest.raises(InvalidInputError, match=r"^strategy is "):
            read([kind])  # type: ignore[arg-type]
