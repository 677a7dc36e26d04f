"""Guarantees, what one unit can change, and the noise law that joins them; budgets added up."""

from __future__ import annotations

from typing import TYPE_CHECKING

from counton.laws import Shift
from counton.lazy import loader
from counton.privacy.calibration import Calibration, calibrate
from counton.privacy.contribution import Contribution
from counton.privacy.expiration import ExpiringDP, ExpiringZCDP
from counton.privacy.filter import Limit
from counton.privacy.guarantees import ZCDP, ApproxDP, Guarantee, PureDP, guarantee_from_dict
from counton.privacy.ledger import Ledger, Spend

if TYPE_CHECKING:
    from counton.privacy.loss_by_age import expiration_loss as expiration_loss

__all__ = [
    "ZCDP",
    "ApproxDP",
    "Calibration",
    "Contribution",
    "ExpiringDP",
    "ExpiringZCDP",
    "Guarantee",
    "Ledger",
    "Limit",
    "PureDP",
    "Shift",
    "Spend",
    "calibrate",
    "expiration_loss",
    "guarantee_from_dict",
]

# Which losses an age brings is asked of streams without an end only.
__getattr__ = loader(__name__, {"expiration_loss": "counton.privacy.loss_by_age"})
