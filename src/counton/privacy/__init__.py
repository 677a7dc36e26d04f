"""Guarantees, what one unit can change, and the noise law that joins them; budgets added up."""

from counton.privacy.calibration import Calibration, Candidate, calibrate
from counton.privacy.contribution import Contribution
from counton.privacy.guarantees import (
    ZCDP,
    AgesWithData,
    ApproxDP,
    Guarantee,
    PureDP,
    guarantee_from_dict,
)
from counton.privacy.shift import Shift

__all__ = [
    "ZCDP",
    "AgesWithData",
    "ApproxDP",
    "Calibration",
    "Candidate",
    "Contribution",
    "Guarantee",
    "PureDP",
    "Shift",
    "calibrate",
    "guarantee_from_dict",
]
