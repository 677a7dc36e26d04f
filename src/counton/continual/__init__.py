"""Private running totals of a stream: counters, their designs, and intervals."""

from __future__ import annotations

from typing import TYPE_CHECKING

from counton.base.lazy import attach

if TYPE_CHECKING:
    from counton.continual.comparisons import Answer as Answer
    from counton.continual.counter import Counter as Counter
    from counton.continual.design import Design as Design
    from counton.continual.intervals import halfwidths as halfwidths
    from counton.continual.intervals import interval_halfwidth as interval_halfwidth
    from counton.continual.intervals import window_halfwidths as window_halfwidths
    from counton.continual.releases import Releases as Releases
    from counton.continual.releases import StepRelease as StepRelease
    from counton.continual.simultaneous_intervals import jointly as jointly
    from counton.continual.stream_errors import Errors as Errors

__getattr__, __dir__, __all__ = attach(__name__, __file__)
