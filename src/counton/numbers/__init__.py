"""Private running totals of a stream: counters, their designs, and intervals."""

from __future__ import annotations

from typing import TYPE_CHECKING

from counton.base.lazy import attach

if TYPE_CHECKING:
    from counton.numbers.contrasts import Answer as Answer
    from counton.numbers.counter import Counter as Counter
    from counton.numbers.design import Design as Design
    from counton.numbers.intervals import Errors as Errors
    from counton.numbers.intervals import halfwidths as halfwidths
    from counton.numbers.intervals import interval_halfwidth as interval_halfwidth
    from counton.numbers.intervals import window_halfwidths as window_halfwidths
    from counton.numbers.joint import jointly as jointly
    from counton.numbers.releases import Releases as Releases
    from counton.numbers.releases import StepRelease as StepRelease

__getattr__, __dir__, __all__ = attach(__name__, __file__)
