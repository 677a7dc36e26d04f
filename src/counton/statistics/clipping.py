"""What clipping does to a number, in the words of a reader who knows no bounds."""

from __future__ import annotations

from fractions import Fraction

from counton.base.exact import text

#: How much is missing; nobody knows it but who has the rows.
UNKNOWN_AMOUNT = "(by an unknown amount)"


def clipped_in_words(lower: Fraction, upper: Fraction, bent: str, of: str = "values") -> str:
    """What becomes of values beyond bounds, and where that moves a number.

    Args:
        lower, upper: the bounds.
        bent: the number, with its article.
        of: what is clipped.

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
    """The same, where more than one number is moved, or not to one side alone.

    >>> print(ends_in_words(Fraction(0), Fraction(99), "means and variances", "values of age"))
    values of age above 99 count as 99 and those below 0 as 0, which bends means and variances (by
    an unknown amount)
    """
    high, low = text(upper), text(lower)
    return (
        f"{of} above {high} count as {high} and those below {low} as {low}, which bends {bent} "
        f"{UNKNOWN_AMOUNT}"
    )
