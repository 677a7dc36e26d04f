"""Sentences that tell readers how clipping values to bounds changes a released number."""

from __future__ import annotations

from fractions import Fraction

from counton.base.exact import text
from counton.base.systematic_error import SystematicError


def clipped_in_words(
    lower: Fraction, upper: Fraction, biased: str, of: str = "values"
) -> SystematicError:
    """Return the error that clipping causes in ``biased``, such as "the average".

    Args:
        lower: the lower bound.
        upper: the upper bound.
        biased: the number that clipping changes.
        of: the clipped values.

    >>> print(clipped_in_words(Fraction(0), Fraction(180), "the average").sentence)
    values outside 0 to 180 are counted as the nearer bound, which biases the average by an unknown
    amount
    """
    return SystematicError(
        f"{of} outside {text(lower)} to {text(upper)}",
        f"are counted as the nearer bound, which biases {biased} by an unknown amount",
    )


def beyond_in_words(beyond: str, *, low: bool) -> SystematicError:
    """Return the error by what is ``beyond`` a bound and is not counted.

    Args:
        beyond: what is beyond the bound.
        low: whether this can only make numbers too low.

    >>> beyond_in_words("groups beyond 3 of each user", low=True).sentence
    'groups beyond 3 of each user are not counted, so that numbers are too low by an unknown amount'
    """
    bias = "too low" if low else "biased"
    return SystematicError(
        beyond, f"are not counted, so that numbers are {bias} by an unknown amount"
    )
