"""Sentences that tell readers how clipping values to bounds changes a released number."""

from __future__ import annotations

from fractions import Fraction

from counton.base.exact import text


def clipped_in_words(lower: Fraction, upper: Fraction, bent: str, of: str = "values") -> str:
    """Return a sentence on how clipping biases one number.

    It says that values above the upper bound count as the upper bound, which makes the number too
    low; and that values below the lower bound count as the lower bound, which makes it too high.

    Args:
        lower, upper: the bounds.
        bent: words for the biased number, with an article, such as "the average".
        of: the plural word for the clipped values.

    >>> print(clipped_in_words(Fraction(0), Fraction(180), "the average"))
    values above 180 count as 180, which makes the average too low, and values below 0 as 0, which
    makes it too high (by an unknown amount)
    """
    return (
        f"{of} above {text(upper)} count as {text(upper)}, which makes {bent} too "
        f"low, and {of} below {text(lower)} as {text(lower)}, which makes it too "
        "high (by an unknown amount)"
    )


def ends_in_words(lower: Fraction, upper: Fraction, bent: str, column: str) -> str:
    """Return a sentence on how clipping the values of a column biases several numbers.

    It says that values above the upper bound count as the upper bound, and values below the lower
    bound as the lower bound. It does not say whether the numbers become too low or too high,
    because either may happen.

    Args:
        lower, upper: the bounds.
        bent: words for the biased numbers, such as "means and variances".
        column: the column of the values.

    >>> ends = Fraction(0), Fraction(99)
    >>> print(ends_in_words(*ends, "means, variances and slopes", "age"))
    values of age above 99 count as 99 and those below 0 as 0, which bends means, variances and
    slopes (by an unknown amount)
    """
    return (
        f"values of {column} above {text(upper)} count as {text(upper)} and those "
        f"below {text(lower)} as {text(lower)}, which bends {bent} (by an unknown "
        "amount)"
    )


def beyond_in_words(beyond: str, *, low: bool) -> str:
    """Return a sentence which says that some events or groups are left out by a bound, and that
    this biases numbers.

    Args:
        beyond: words for the events or groups that the bound leaves out, in the language of the
            output.
        low: True if leaving them out can only make numbers too low; False if numbers may also
            become too high.

    >>> beyond_in_words("groups beyond 3 of each user", low=True)
    'groups beyond 3 of each user do not count, which makes numbers too low (by an unknown amount)'
    """
    return (
        f"{beyond} do not count, which makes numbers too low (by an unknown amount)"
        if low
        else f"{beyond} do not count, which bends numbers (by an unknown amount)"
    )
