"""Sentences that tell readers how clipping values to bounds changes a released number."""

from __future__ import annotations

from fractions import Fraction

from counton.base.exact import text

#: Words for the size of the effect, which only the holder of the rows can know.
UNKNOWN_AMOUNT = "(by an unknown amount)"


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
    high, low = text(upper), text(lower)
    return (
        f"{of} above {high} count as {high}, which makes {bent} too low, and {of} below {low} as "
        f"{low}, which makes it too high {UNKNOWN_AMOUNT}"
    )


def ends_in_words(lower: Fraction, upper: Fraction, bent: str, of: str = "values") -> str:
    """Return the sentence on clipping for numbers that it may make too low or too high.

    Arguments are those of `clipped_in_words`.

    >>> print(ends_in_words(Fraction(0), Fraction(99), "means and variances", "values of age"))
    values of age above 99 count as 99 and those below 0 as 0, which bends means and variances (by
    an unknown amount)
    """
    high, low = text(upper), text(lower)
    return (
        f"{of} above {high} count as {high} and those below {low} as {low}, which bends {bent} "
        f"{UNKNOWN_AMOUNT}"
    )
