"""Private ranges: a line or grid of counts measured once, any interval or box answered."""

from counton.mechanisms.ranges.answers import RangesRelease
from counton.mechanisms.ranges.contingency import ContingencyRelease, release_contingency
from counton.mechanisms.ranges.plan import RangesChoice, RangesPlan, plan_ranges
from counton.mechanisms.ranges.release import release_ranges

__all__ = [
    "ContingencyRelease",
    "RangesChoice",
    "RangesPlan",
    "RangesRelease",
    "plan_ranges",
    "release_contingency",
    "release_ranges",
]
