"""Numbers as people write them, with separators of thousands, which no option reads."""

from __future__ import annotations

import re
from typing import NamedTuple

#: Matches a number with separators of thousands; blanks may be narrow or not break a line.
_WITH_THOUSANDS = re.compile(
    r"(?P<first>[+-]?[1-9]\d{0,2})"
    r"(?P<groups>(?P<separator>[.,'\u2019 \u00a0\u2009\u202f])\d{3}(?:(?P=separator)\d{3})*)"
    r"(?P<rest>(?P<decimal>[.,])\d+)?"
)


class NumberText(NamedTuple):
    """A number whose digits are grouped by threes.

    Attributes:
        plain: the number without separators of thousands.
        separator: the separator of thousands.
        decimal_sign: the decimal sign; None if the number has none.
        n_separators: how many separators of thousands it has.
    """

    plain: str
    separator: str
    decimal_sign: str | None
    n_separators: int

    @classmethod
    def parse(cls, text: str) -> NumberText | None:
        """Return the number that a text states with separators of thousands; None if it has none.

        Args:
            text: such as "3.424,66".

        >>> NumberText.parse("3.424,66").plain, NumberText.parse("-1,204").plain
        ('3424,66', '-1204')
        >>> NumberText.parse("3424,66"), NumberText.parse("10.0.0.17")
        (None, None)
        """
        match = _WITH_THOUSANDS.fullmatch(text.strip())
        if match is None or match["decimal"] == match["separator"]:
            return None
        separator = match["separator"]
        plain = match["first"] + match["groups"].replace(separator, "") + (match["rest"] or "")
        return cls(plain, separator, match["decimal"], match["groups"].count(separator))

    @classmethod
    def of(cls, text: str) -> NumberText:
        """Return the number of a text that has separators of thousands.

        Args:
            text: such as "3.424,66".
        """
        number = cls.parse(text)
        assert number is not None, text
        return number

    @property
    def is_certain(self) -> bool:
        """Whether the separator cannot be a decimal sign, as in 1.234."""
        is_decimal_sign = self.separator in ".,"
        return not is_decimal_sign or self.decimal_sign is not None or self.n_separators > 1


def has_thousands(text: str, decimal_sign: str) -> bool:
    """Return whether a number has separators of thousands, and nothing else explains its form.

    Args:
        text: a text that cannot be read as a number.
        decimal_sign: the decimal sign of the file.

    >>> has_thousands("3.424", ","), has_thousands("3,424", ".")
    (True, False)
    """
    number = NumberText.parse(text)
    if number is None:
        return False
    # With a decimal point, a comma may be the decimal sign that the options do not name.
    return number.is_certain or (number.separator == "." and decimal_sign == ",")
