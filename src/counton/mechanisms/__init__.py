"""Strategy, law and key bound to a stream."""

from counton.mechanisms.calibration import law_for, shift_of
from counton.mechanisms.counter import Counter
from counton.mechanisms.releases import Release, Releases
from counton.mechanisms.specification import Specification

__all__ = ["Counter", "Release", "Releases", "Specification", "law_for", "shift_of"]
