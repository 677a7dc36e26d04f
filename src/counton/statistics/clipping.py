"""Sentences that tell readers how clipping values to bounds changes a released number."""

from __future__ import annotations

from fractions import Fraction

from counton.base.exact import text
from counton.base.locales import local_number, local_text


def clipped_in_words(lower: Fraction, upper: Fraction, bent: str, of: str = "values") -> str:
    """Return the sentence that values beyond the bounds count as the bounds, which biases a number.

    Args:
        lower, upper: the bounds.
        bent: the biased number, with its article.
        of: the plural word for the clipped values.

    >>> print(clipped_in_words(Fraction(0), Fraction(180), "the average"))
    values above 180 count as 180, which makes the average too low, and values below 0 as 0, which
    makes it too high (by an unknown amount)
    """
    return local_text(
        "{values} above {high} count as {high}, which makes {number} too low, and {values} below "
        "{low} as {low}, which makes it too high (by an unknown amount)",
        values=local_text(of),
        high=local_number(text(upper)),
        low=local_number(text(lower)),
        number=local_text(bent),
    )


def ends_in_words(
    lower: Fraction, upper: Fraction, bent: str, of: str = "values", column: str = ""
) -> str:
    """Return the sentence on clipping for numbers that it may make too low or too high.

    Args:
        lower, upper, bent, of: as of `clipped_in_words`.
        column: the column of the values; "": it is not named.

    >>> ends = Fraction(0), Fraction(99)
    >>> print(ends_in_words(*ends, "means, variances and slopes", column="age"))
    values of age above 99 count as 99 and those below 0 as 0, which bends means, variances and
    slopes (by an unknown amount)
    """
    values = local_text("{values} of {column}", values=local_text(of), column=column)
    return local_text(
        "{values} above {high} count as {high} and those below {low} as {low}, which bends "
        "{numbers} (by an unknown amount)",
        values=values if column else local_text(of),
        high=local_number(text(upper)),
        low=local_number(text(lower)),
        numbers=local_text(bent),
    )


def beyond_in_words(beyond: str, *, low: bool) -> str:
    """Return the sentence that what is beyond a bound does not count, which biases numbers.

    Args:
        beyond: words for what is beyond the bound, in the present language.
        low: True if that can only make numbers too low.

    >>> beyond_in_words("groups beyond 3 of each user", low=True)
    'groups beyond 3 of each user do not count, which makes numbers too low (by an unknown amount)'
    """
    return local_text(
        "{beyond} do not count, which makes numbers too low (by an unknown amount)"
        if low
        else "{beyond} do not count, which bends numbers (by an unknown amount)",
        beyond=beyond,
    )
