"""Why a text is no count: the reason in words, for the operator, and a remedy."""

from __future__ import annotations

import re
from typing import NamedTuple

from counton.base.errors import param
from counton.io.error_policy import Problem
from counton.io.written_numbers import NumberText

#: Matches a number below 0, also with separators of thousands.
_NEGATIVE = re.compile(r"-[0-9][0-9.,' ]*")
#: Matches digits, also with decimals.
_DIGITS = re.compile(r"(?P<whole>[0-9]+)(?:(?P<sign>[.,])(?P<decimals>[0-9]+))?")
#: Most decimals of a count, which are zeros; three may be thousands.
_MOST_DECIMALS = 2


class UnreadableCount(NamedTuple):
    """Why a text is no count.

    Attributes:
        words: the reason.
        remedy: what the operator can do; it may name options.
        file_remedy: the same for the file of bad rows, if it is not obvious from the reason.
    """

    words: str
    remedy: str
    file_remedy: str = ""

    @classmethod
    def of(cls, text: str, *, decimal_sign: str, is_csv: bool) -> UnreadableCount | None:
        """Return why a text is no count; None if its form does not say it.

        Args:
            text: a text that cannot be read as a count.
            decimal_sign: the decimal sign of the file.
            is_csv: whether the file is CSV, in which points may group thousands.

        >>> UnreadableCount.of("12,5", decimal_sign=",", is_csv=True).words
        'a count that is not a whole number'
        >>> UnreadableCount.of("1.204", decimal_sign=".", is_csv=True).file_remedy
        'if such points group thousands, set decimal = "," in the job file; else write counts
        without decimals'
        """
        if text != text.strip():
            return cls("a count with blanks before or behind it", "remove the blanks")
        if _NEGATIVE.fullmatch(text):
            return cls("a count that is negative", "a count is at least 0: correct the row")
        number = NumberText.parse(text)
        if number is not None and (is_csv or number.separator != "."):
            return cls._of_thousands(number, decimal_sign)
        match = _DIGITS.fullmatch(text)
        if match is None:
            return None
        decimals = match["decimals"] or ""
        if decimals.strip("0"):
            return cls._of_fraction()
        if match["sign"] in (None, decimal_sign) and len(decimals) <= _MOST_DECIMALS:
            words = "a count that is above 2^50 (in tables 2^32)"
            return cls(words, Problem.NO_COUNT.remedy(""))
        remedy = f"write counts without decimals, as in {match['whole']}"
        return cls("a count that has decimals", remedy)

    @classmethod
    def _of_fraction(cls) -> UnreadableCount:
        words = "a count that is not a whole number"
        return cls(words, "counts are whole numbers: correct the row, or choose another column")

    @classmethod
    def _of_thousands(cls, number: NumberText, decimal_sign: str) -> UnreadableCount:
        """Return why a number with separators of thousands is no count."""
        whole, _, decimals = number.plain.partition(number.decimal_sign or ".")
        if decimals.strip("0"):
            return cls._of_fraction()
        if number.separator == "." and decimal_sign == ".":
            return cls(
                "a count that has a point before three digits",
                f"if points group thousands in this file, give {param('decimal', ',')}; else write "
                "counts without decimals, such as 4.000 as 4",
                'if such points group thousands, set decimal = "," in the job file; else write '
                "counts without decimals",
            )
        words = "a count that has thousands separators"
        return cls(words, f"write counts without thousands separators, as in {whole}")
