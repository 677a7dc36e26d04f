"""Plans, streams and publications name a strategy in the same words."""

import pytest

from counton import ZCDP, PureDP, Rolling, plan
from counton.base import strategy_names
from counton.continual.strategy_text import strategy_in_words
from counton.privacy import Guarantee


@pytest.mark.parametrize("workload", [None, Rolling(7)], ids=["totals", "rolling"])
@pytest.mark.parametrize("horizon", [20, 2_000, None])
@pytest.mark.parametrize("guarantee", [PureDP(1), ZCDP(0.5)], ids=["laplace", "gaussian"])
def test_strategy_has_one_name_in_plans_and_publications(
    guarantee: Guarantee, horizon: int | None, workload: Rolling | None
) -> None:
    choices = plan(horizon, guarantee, workload=workload)
    assert len(choices) > 0
    for choice in choices:
        words = strategy_in_words(choice.strategy)
        # Trees with one level are not trees: each step has noise of its own.
        assert words in (choice.strategy_family, strategy_names.EACH_STEP.words)
