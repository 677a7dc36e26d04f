"""Search of texts for a number that only secret rows have."""

import re

#: Ends of lines and tabs as ``repr`` writes them.
_ESCAPED = re.compile(r"\\[nrt]")
#: Python's place of an object without a ``repr`` of its own: other digits in each process.
_ADDRESS = re.compile(r"\b0x[0-9a-f]+")


def tells(text: str, number: int) -> bool:
    """Whether a text holds a whole number: as it is, with commas, or as a float.

    Digits inside a longer number, a digest or an address do not count, or a test would fail by
    chance.
    """
    plain = _ADDRESS.sub("", _ESCAPED.sub(" ", re.sub(r"(?<=\d),(?=\d{3}(?!\d))", "", text)))
    return re.search(rf"(?<![\w.]){number}(?!\w|\.\d*[1-9])", plain) is not None
