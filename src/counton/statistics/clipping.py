"""Sentences that tell readers how clipping values to bounds changes a released number."""

from __future__ import annotations

from fractions import Fraction

from counton.base.exact import text


def clipped_in_words(lower: Fraction, upper: Fraction, bent: str, of: str = "values") -> str:
    """Return a sentence on how clipping biases ``bent``, such as "the average"; ``of``: the values.

    >>> print(clipped_in_words(Fraction(0), Fraction(180), "the average"))
    values above 180 count as 180, which makes the average too low, and values below 0 as 0, which
    makes it too high (by an unknown amount)
    """
    return (
        f"{of} above {text(upper)} count as {text(upper)}, which makes {bent} too "
        f"low, and {of} below {text(lower)} as {text(lower)}, which makes it too "
        "high (by an unknown amount)"
    )


def ends_in_words(lower: Fraction, upper: Fraction, column: str) -> str:
    """Return a sentence on how clipping a column biases its moments, in either direction.

    >>> print(ends_in_words(Fraction(0), Fraction(99), "age"))
    values of age above 99 count as 99 and those below 0 as 0, which bends means and
    variances (by an unknown amount)
    """
    return (
        f"values of {column} above {text(upper)} count as {text(upper)} and those "
        f"below {text(lower)} as {text(lower)}, which bends means and variances (by an "
        "unknown amount)"
    )


def beyond_in_words(beyond: str, *, low: bool) -> str:
    """Return a sentence which says that what is ``beyond`` a bound does not count.

    ``low``: True if this can only make numbers too low.

    >>> beyond_in_words("groups beyond 3 of each user", low=True)
    'groups beyond 3 of each user do not count, which makes numbers too low (by an unknown amount)'
    """
    return (
        f"{beyond} do not count, which makes numbers too low (by an unknown amount)"
        if low
        else f"{beyond} do not count, which bends numbers (by an unknown amount)"
    )
