"""Whatever is chosen is described whole, in a text that every file can carry."""

import json
from typing import Any

import pytest

from counton import ZCDP, ApproxDP, PureDP, plan
from counton.base.errors import InvalidInputError
from counton.privacy import Guarantee
from counton.strategies import strategy_from_dict

#: Bytes of a description.
MOST = 80_000


@pytest.mark.parametrize("metric", ["mean", "max"])
@pytest.mark.parametrize(
    "guarantee", [PureDP(1), ZCDP("1/2"), ApproxDP(1, "1e-6")], ids=["pure", "rho", "delta"]
)
@pytest.mark.long
def test_planned_strategy_is_restored_from_short_text(guarantee: Guarantee, metric: Any) -> None:
    for horizon in (5, 1024, 1025, 10**9):
        strategy = plan(horizon, guarantee, metric=metric).best.strategy
        text = json.dumps(strategy.to_dict())
        assert len(text) <= MOST, horizon
        assert strategy_from_dict(json.loads(text)) == strategy


def test_a_formula_that_gives_another_matrix_is_refused() -> None:
    described = plan(64, ZCDP("1/2")).best.strategy.to_dict()
    line = described["line"]
    assert line["formula"] == "mean"
    for formula, words in (
        ("max", "does not have the digest"),
        ("median", "is not known to this version"),
    ):
        with pytest.raises(InvalidInputError, match=words):
            strategy_from_dict({**described, "line": {**line, "formula": formula}})
    whole = {**line, "matrix": "1:", "formula": None}
    with pytest.raises(InvalidInputError, match="integers of shape"):
        strategy_from_dict({**described, "line": whole})
