"""Why a text is no count: the reason in words, for the operator, and a remedy."""

from __future__ import annotations

import re
from typing import NamedTuple

from counton.base.errors import param
from counton.io.error_policy import Problem
from counton.io.written_numbers import NumberText

#: Matches a number below 0, also with separators of thousands.
_NEGATIVE = re.compile(r"-[0-9][0-9.,' ]*")
#: Matches a number with digits after a comma or a point, and these digits.
_WITH_DECIMALS = re.compile(r"\+?[0-9]*(?P<sign>[.,])(?P<decimals>[0-9]+)")
#: Matches a whole number.
_WHOLE = re.compile(r"[0-9]+(?:\.0{1,2})?")


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
        'if such points group thousands, set decimal = "," in the job file'
        """
        text = text.strip()
        if _NEGATIVE.fullmatch(text):
            return cls("a count that is negative", "a count is at least 0: correct the row")
        number = NumberText.parse(text)
        if number is not None and (is_csv or number.separator != "."):
            return cls._of_thousands(number, decimal_sign)
        decimals = _WITH_DECIMALS.fullmatch(text)
        if decimals is not None and decimals["decimals"].strip("0"):
            return cls._of_fraction()
        if _WHOLE.fullmatch(text):
            words = "a count that is above 2^50 (in tables 2^32)"
            return cls(words, Problem.NO_COUNT.remedy(""))
        return None

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
                "write it without the point; if points group thousands in this file, give "
                f"{param('decimal', ',')}",
                'if such points group thousands, set decimal = "," in the job file',
            )
        remedy = f"write counts without thousands separators, as in {whole}"
        return cls("a count that has thousands separators", remedy, remedy)
