"""How far a stream is from possible, of terms that stand: two factors, and a sentence of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from counton.base.errors import InvalidInput
from counton.planning.lower_bounds import Factor, factors_of

if TYPE_CHECKING:
    from counton.numbers.design import Design
    from counton.strategies.strategy import Metric

#: Steps that are in mind where nothing is said of them.
_AROUND = 2**16


def factors_of_design(
    terms: Design, metric: Metric = "mean", *, around: int | None = None
) -> tuple[Factor, ...]:
    """`StreamPlan.factors` of a stream that has its strategy.

    None where no theorem says something, as for guarantees that expire.

    Args:
        around: of a stream without a last step, up to which; default: 65,536.

    >>> from counton import Counter, Key, ZCDP
    >>> from counton.strategies import NormalisedSqrt
    >>> counter = Counter(NormalisedSqrt(1024), ZCDP(0.5), key=Key.generate(), name="visits")
    >>> [round(factor.factor, 2) for factor in factors_of_design(counter.design)]
    [1.03, 1.35]
    """
    steps = _AROUND if around is None else around
    if terms.strategy.horizon is None:
        terms = replace(terms, errors_of=terms.errors_of._replace(steps=steps))
    try:
        return factors_of(terms, metric)
    except InvalidInput:  # no bound is known of a guarantee or strategy of its kind
        return ()


def far_from_possible(
    terms: Design,
    metric: Metric = "mean",
    *,
    around: int | None = None,
    of: str = "",
    factors: Sequence[Factor] | None = None,
    cited: bool = True,
) -> str:
    """`factors_of_design` as a sentence for a publication, with sources; "" if none is known.

    Args:
        terms, metric, around: see `factors_of_design`.
        of: whose error it is, as in "a cell"; default: nothing is said.
        factors: those of these terms, where they are known.
        cited: whether sources stand in it.

    >>> from counton import Counter, Key, ZCDP
    >>> from counton.strategies import NormalisedSqrt
    >>> counter = Counter(NormalisedSqrt(1024), ZCDP(0.5), key=Key.generate(), name="visits")
    >>> print(far_from_possible(counter.design))
    The root of the mean variance is 1.03 times the least of matrix mechanisms with Gaussian noise
    (Constant Matters, section 1 (nuclear norm)), and 1.35 times the least of any mechanism (after
    Constant Matters, Theorem 3; with its constant (counton)).
    """
    found = factors_of_design(terms, metric, around=around) if factors is None else factors
    strategy = terms.strategy
    steps = strategy.horizon if strategy.horizon is not None else around or _AROUND
    over = f" of {of}" if of else ""
    over += "" if strategy.horizon is not None else f" of the first {steps:,} steps"
    return sentence_of(found, metric, over, cited=cited)


def sentence_of(
    factors: Sequence[Factor], metric: Metric, over: str = "", *, cited: bool = True
) -> str:
    """Factors in one sentence; "" without any."""
    if not factors:
        return ""
    what = "root of the mean variance" if metric == "mean" else "largest standard deviation"
    parts = [
        f"{one.times} times the least of {one.beside}" + f" ({one.source})" * cited
        for one in factors
    ]
    return f"The {what}{over} is {', and '.join(parts)}."
