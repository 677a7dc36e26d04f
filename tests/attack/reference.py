"""Released values once more, by the reference: ten thousand of a random stream to the last bit."""

import random
from pathlib import Path
from typing import Any

import numpy as np
from by_reference import recomputed
from keys import chosen_key

from counton import ZCDP, ApproxDP, ContributionBound, Counter, ExpiringDP, ExpiringZCDP, PureDP
from counton.base.errors import InvalidInputError
from counton.privacy import Guarantee
from counton.strategies import public_strategies

Case = dict[str, Any]
#: So many values at least, and few more.
VALUES = 10_000
_HORIZONS = (7, 12, 30, 100)
_BUDGETS = ("1e-9", "1e-4", "0.03", "1", "20")


def draw(chance: random.Random) -> Case:
    """A key, a strategy by its place among the examples, a guarantee, and what is counted."""
    kinds = [kind.__name__ for kind in public_strategies()]
    return {
        "key": chance.randbytes(32).hex(), "kind": chance.choice(kinds),
        "example": chance.randrange(100), "horizon": chance.choice(_HORIZONS),
        "budget": chance.choice(_BUDGETS), "guarantee": chance.randrange(3),
        "values": chance.random() < 0.3, "counts": chance.randrange(2**32),
    }  # fmt: skip


def run(case: Case, _folder: Path) -> str:
    """A stream of many cells, and each of its values again.

    Raises:
        AssertionError: the reference finds another value.
    """
    secret = bytes.fromhex(case["key"])
    horizon = case["horizon"]
    of = case["kind"]
    kind = next(one for one in public_strategies() if one.__name__ == of)
    steps = min(horizon, 12) if of == "GrowingSquareRoot" else horizon  # it weighs each step slowly
    some = [*kind.examples(horizon)]
    cells = -(-VALUES // steps)
    budget = case["budget"]
    guarantees: tuple[Guarantee, ...] = (PureDP(budget), ZCDP(budget), ApproxDP(budget, "1e-9"))
    if of == "Expiring":
        guarantees = (ExpiringDP(budget), ExpiringZCDP(budget), ExpiringDP(budget))
    guarantee = guarantees[case["guarantee"]]
    strategy = some[case["example"] % len(some)]
    counted = ContributionBound.add_remove(cells=2)
    if case["values"]:
        counted = ContributionBound.values(-3, 12, resolution="0.5")
    try:
        counter = Counter(
            strategy, guarantee, key=chosen_key(secret), name="attack", shape=(cells,),
            contribution=counted,
        )  # fmt: skip
    except InvalidInputError:  # noise that is wider than there is
        return "refused"
    xs = np.random.default_rng(case["counts"]).integers(0, 9, (steps, *counter.design.step_shape))
    found = recomputed(counter.release_exact(xs), xs, secret)
    assert found >= VALUES
    return f"{VALUES:,} values or more"
