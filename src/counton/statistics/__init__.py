"""Statistics of streams: a map from events to cells with a stated contribution, and a reading."""

from __future__ import annotations

from typing import TYPE_CHECKING

from counton.lazy import loader
from counton.statistics.base import Exact, Statistic
from counton.statistics.known import KNOWN
from counton.statistics.readings import Reading

if TYPE_CHECKING:
    from counton.statistics.running import Running as Running

#: Where each public name lives. The imports above say the same to type checkers.
_HOME = {**KNOWN, "Running": "counton.statistics.running"}

__all__ = ["Exact", "Reading", "Statistic"]

__getattr__ = loader(__name__, _HOME)
