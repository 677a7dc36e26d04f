"""Statistics of streams: a map from events to cells with a stated contribution, and a reading."""

from __future__ import annotations

from typing import TYPE_CHECKING

from counton.lazy import loader
from counton.statistics.base import Exact, Statistic
from counton.statistics.known import KNOWN
from counton.statistics.readings import Reading

if TYPE_CHECKING:
    from counton.statistics.average import Average as Average
    from counton.statistics.distinct import Distinct as Distinct
    from counton.statistics.running import Running as Running
    from counton.statistics.top_k import Ranking as Ranking
    from counton.statistics.top_k import TopK as TopK
    from counton.statistics.top_k import ranked as ranked

#: Where each public name lives. The imports above say the same to type checkers.
_HOME = {
    **KNOWN,
    "Ranking": "counton.statistics.top_k",
    "Running": "counton.statistics.running",
    "ranked": "counton.statistics.top_k",
}

__all__ = [
    "Average",
    "Distinct",
    "Exact",
    "Ranking",
    "Reading",
    "Running",
    "Statistic",
    "TopK",
    "ranked",
]

__getattr__ = loader(__name__, _HOME)
