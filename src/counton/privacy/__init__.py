"""Guarantees, contribution bounds, calibration of the noise, and the ledger of budgets."""

from __future__ import annotations

from typing import TYPE_CHECKING

from counton.base.lazy import attach

if TYPE_CHECKING:
    from counton.base.distributions import Sensitivity as Sensitivity
    from counton.privacy.calibration import Calibration as Calibration
    from counton.privacy.calibration import calibrate as calibrate
    from counton.privacy.contribution import ContributionBound as ContributionBound
    from counton.privacy.expiration import ExpiringDP as ExpiringDP
    from counton.privacy.expiration import ExpiringZCDP as ExpiringZCDP
    from counton.privacy.filter import AddableGuarantee as AddableGuarantee
    from counton.privacy.guarantees import ZCDP as ZCDP
    from counton.privacy.guarantees import ApproxDP as ApproxDP
    from counton.privacy.guarantees import Guarantee as Guarantee
    from counton.privacy.guarantees import PureDP as PureDP
    from counton.privacy.guarantees import guarantee_from_dict as guarantee_from_dict
    from counton.privacy.ledger import Ledger as Ledger
    from counton.privacy.ledger import LedgerEntry as LedgerEntry
    from counton.privacy.loss_by_age import expiration_loss as expiration_loss

# Streams without an end import the losses by age; others need not.
__getattr__, __dir__, __all__ = attach(__name__, __file__)
