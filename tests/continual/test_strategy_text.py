"""Plans, streams and publications name a strategy in the same words."""

import pytest

from counton import ZCDP, ExpiringZCDP, PureDP, Rolling, plan
from counton.base import strategy_names
from counton.continual.design import design_for
from counton.continual.methods import methods
from counton.continual.strategy_text import strategy_in_words
from counton.privacy import ContributionBound, Guarantee
from counton.strategies import (
    EndlessHats,
    Expiring,
    GrowingBlocks,
    GrowingSquareRoot,
    StreamStrategy,
)


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


@pytest.mark.parametrize(
    ("strategy", "guarantee", "words"),
    [
        (GrowingSquareRoot(), ZCDP(0.5), "and larger at higher ones,"),
        (GrowingBlocks(), ZCDP(0.5), "and different at higher ones,"),
        (GrowingBlocks(block=2), ZCDP(0.5), "and different at higher ones,"),
        (EndlessHats(3, 28), ZCDP(0.5), None),
        (EndlessHats(3, 28, 6, 2, 20), ZCDP(0.5), None),
        (Expiring("1/2"), ExpiringZCDP(0.5), "and larger at higher ones,"),
        (Expiring(1), ExpiringZCDP(0.5), None),
        (Expiring(2), ExpiringZCDP(0.5), "and smaller at higher ones,"),
    ],
    ids=repr,
)
def test_methods_compare_noise_of_all_levels_with_that_of_the_first(
    strategy: StreamStrategy, guarantee: Guarantee, words: str | None
) -> None:
    """The noise between blocks is smaller than within blocks at first, and larger later."""
    written = " ".join(
        methods(design_for(strategy, guarantee, ContributionBound.add_remove())).split()
    )
    assert ("at higher ones," in written) == (words is not None)
    assert words is None or words in written
