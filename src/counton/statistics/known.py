"""The statistics there are, by name: each is loaded when it is first used."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from typing import TYPE_CHECKING, Any

from counton.errors import InvalidInput
from counton.exact import quoted

if TYPE_CHECKING:
    from counton.statistics.base import Statistic

#: Where each statistic lives.
KNOWN: dict[str, str] = {
    "Average": "counton.statistics.average",
    "Count": "counton.statistics.count",
    "Contingency": "counton.statistics.contingency",
    "Cuts": "counton.statistics.cuts",
    "Degrees": "counton.statistics.degrees",
    "Distinct": "counton.statistics.distinct",
    "Edges": "counton.statistics.edges",
    "Episodes": "counton.statistics.episodes",
    "Forest": "counton.statistics.forest",
    "Hierarchy": "counton.statistics.hierarchy",
    "Moments": "counton.statistics.moments",
    "Grouped": "counton.statistics.grouped",
    "Quantiles": "counton.statistics.quantiles",
    "Ranges": "counton.statistics.ranges",
    "Stars": "counton.statistics.stars",
    "Substrings": "counton.statistics.substrings",
    "Sum": "counton.statistics.count",
    "TopK": "counton.statistics.top_k",
    "Triangles": "counton.statistics.triangles",
}


def statistic_from_dict(saved: Mapping[str, Any]) -> Statistic:
    """The statistic that `Statistic.to_dict` describes.

    Raises:
        InvalidInput: an unknown statistic, or parameters that are not its own.
    """
    name = saved.get("statistic")
    if not isinstance(name, str) or name not in KNOWN:
        raise InvalidInput(f"statistic is {quoted(name)}; known are {', '.join(KNOWN)}")
    known: type[Statistic] = getattr(import_module(KNOWN[name]), name)
    return known.from_dict(saved)
