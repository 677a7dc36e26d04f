"""Strategy, law and key bound to a stream."""

from counton.mechanisms.calibration import law_for, shift_of
from counton.mechanisms.counter import Counter
from counton.mechanisms.releases import Release, Releases
from counton.mechanisms.terms import StreamTerms, TableTerms, Terms

__all__ = [
    "Counter",
    "Release",
    "Releases",
    "StreamTerms",
    "TableTerms",
    "Terms",
    "law_for",
    "shift_of",
]
