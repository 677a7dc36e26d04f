"""Strategy, law and key bound to data: running totals.

Names are loaded when they are first used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from counton.lazy import loader

if TYPE_CHECKING:
    from counton.mechanisms.contrasts import Answer as Answer
    from counton.mechanisms.counter import Counter as Counter
    from counton.mechanisms.intervals import halfwidths as halfwidths
    from counton.mechanisms.intervals import interval_halfwidth as interval_halfwidth
    from counton.mechanisms.intervals import window_halfwidths as window_halfwidths
    from counton.mechanisms.joint import jointly as jointly
    from counton.mechanisms.releases import Releases as Releases
    from counton.mechanisms.releases import StepRelease as StepRelease
    from counton.mechanisms.releases import Window as Window
    from counton.mechanisms.terms import StreamTerms as StreamTerms

#: Where each public name lives. The imports above say the same to type checkers.
_HOME = {
    "Answer": "counton.mechanisms.contrasts",
    "Counter": "counton.mechanisms.counter",
    "StepRelease": "counton.mechanisms.releases",
    "Releases": "counton.mechanisms.releases",
    "StreamTerms": "counton.mechanisms.terms",
    "Window": "counton.mechanisms.releases",
    "halfwidths": "counton.mechanisms.intervals",
    "interval_halfwidth": "counton.mechanisms.intervals",
    "jointly": "counton.mechanisms.joint",
    "window_halfwidths": "counton.mechanisms.intervals",
}

__all__ = [
    "Answer",
    "Counter",
    "Releases",
    "StepRelease",
    "StreamTerms",
    "Window",
    "halfwidths",
    "interval_halfwidth",
    "jointly",
    "window_halfwidths",
]

__getattr__ = loader(__name__, _HOME)


def __dir__() -> list[str]:
    return [*globals(), *__all__]
