"""Strategy, law and key bound to data: running totals.

Names are loaded when they are first used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from counton.lazy import attach

if TYPE_CHECKING:
    from counton.mechanisms.contrasts import Answer as Answer
    from counton.mechanisms.counter import Counter as Counter
    from counton.mechanisms.design import Design as Design
    from counton.mechanisms.intervals import halfwidths as halfwidths
    from counton.mechanisms.intervals import interval_halfwidth as interval_halfwidth
    from counton.mechanisms.intervals import window_halfwidths as window_halfwidths
    from counton.mechanisms.joint import jointly as jointly
    from counton.mechanisms.releases import Releases as Releases
    from counton.mechanisms.releases import StepRelease as StepRelease
    from counton.mechanisms.releases import Window as Window

__getattr__, __dir__, __all__ = attach(__name__, __file__)
