"""The catalogue of statistics: a class for each command name, loaded when first used.

Other packages add statistics by entry points, in the group ``counton.statistics``:

    [project.entry-points."counton.statistics"]
    above = "our_statistics:Above"
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from importlib import import_module
from typing import TYPE_CHECKING, Any, TypeGuard, cast

from counton.base.errors import InvalidInputError
from counton.base.exact import quote

if TYPE_CHECKING:
    from counton.statistics.statistic import Statistic

#: Module and class of each of counton's own statistics.
OWN_STATISTICS = {
    "count": "counton.statistics.count:Count",
    "sum": "counton.statistics.count:Sum",
    "average": "counton.statistics.average:Average",
    "quantiles": "counton.statistics.quantiles:Quantiles",
    "top-k": "counton.statistics.top_k:TopK",
    "hierarchy": "counton.statistics.hierarchy:Hierarchy",
    "ranges": "counton.statistics.line_ranges:Ranges",
    "contingency": "counton.statistics.contingency:Contingency",
    "moments": "counton.statistics.moments:Moments",
    "distinct": "counton.statistics.count:DistinctUsers",
    "reach": "counton.statistics.reach:Reach",
    "report": "counton.statistics.report:Report",
}
#: Module of each class. Classes without a command name are of groups, of users in a report, and of
#: events in their order, which are counted in memory (`counton.RunningStatistic`).
MODULES: dict[str, str] = {
    **{
        location.partition(":")[2]: location.partition(":")[0]
        for location in OWN_STATISTICS.values()
    },
    "Distinct": "counton.statistics.distinct",
    "Substrings": "counton.statistics.sequences.substrings",
    "Episodes": "counton.statistics.sequences.episodes",
    "Edges": "counton.statistics.graphs.edges",
    "Triangles": "counton.statistics.graphs.triangles",
    "Stars": "counton.statistics.graphs.stars",
    "Degrees": "counton.statistics.graphs.degrees",
    "Cuts": "counton.statistics.graphs.cuts",
    "Forest": "counton.statistics.graphs.forest",
    "Grouped": "counton.statistics.by_group",
    "SumBesideNumber": "counton.statistics.average",
    "GroupedRows": "counton.statistics.report_members",
    "FirstRows": "counton.statistics.report_members",
}
#: Base class of all statistics. Its module imports this one, so it is imported when needed.
_BASE = ("counton.statistics.statistic", "Statistic")
#: Group of entry points by which other packages add statistics.
ENTRY_POINTS = "counton.statistics"


@cache
def _others() -> dict[str, str]:
    from importlib.metadata import entry_points

    return {point.name: point.value for point in entry_points(group=ENTRY_POINTS)}


def keywords() -> tuple[str, ...]:
    """Return the command names of all statistics, counton's own first.

    >>> keywords()[:3]
    ('count', 'sum', 'average')
    """
    return (*OWN_STATISTICS, *(name for name in _others() if name not in OWN_STATISTICS))


def is_keyword(name: object) -> TypeGuard[str]:
    """Return whether a statistic has this command name.

    >>> is_keyword("average"), is_keyword("Average")
    (True, False)
    """
    return isinstance(name, str) and (name in OWN_STATISTICS or name in _others())


def nearest(name: object) -> str | None:
    """Return the name of the statistic that is closest to an unknown word; None if none is close.

    >>> nearest("mean"), nearest("averge"), nearest("x")
    ('average', 'average', None)
    """
    from difflib import get_close_matches

    word = str(name).strip().lower().replace("_", "-")
    names = keywords()
    if word in names:
        return word
    others = {other: keyword for keyword in names for other in statistic_named(keyword).also_called}
    match = others.get(word) or others.get(word.removesuffix("s"))
    near = get_close_matches(word, names, 1) or get_close_matches(word, others, 1, 0.8)
    return match or (others.get(near[0], near[0]) if near else None)


def no_statistic(name: object) -> str:
    """Return a message on an unknown statistic, which suggests the closest name."""
    suggestion = nearest(name)
    near = "" if suggestion is None else f" (did you mean {suggestion!r}?)"
    return f"there is no statistic {quote(name)}{near}; give one of {', '.join(keywords())}"


@cache
def statistic_named(keyword: str) -> type[Statistic]:
    """Return the class of the statistic with this command name.

    >>> statistic_named("average").__name__
    'Average'
    """
    location = OWN_STATISTICS.get(keyword) or _others().get(keyword)
    if location is None:
        raise InvalidInputError(no_statistic(keyword))
    module, _, name = location.partition(":")
    try:
        statistic: Any = getattr(import_module(module), name)
    except (ImportError, AttributeError) as error:
        raise InvalidInputError(
            f"statistic {keyword!r} is {location}, which cannot be loaded ({error}); repair or "
            "remove the package that provides it"
        ) from error
    bases = statistic.__mro__ if isinstance(statistic, type) else ()
    fits = any((base.__module__, base.__name__) == _BASE for base in bases)
    is_taken = fits and keyword not in OWN_STATISTICS and statistic.__name__ in MODULES
    if not fits or statistic.keyword != keyword or is_taken:
        raise InvalidInputError(
            f"statistic {keyword!r} is {location}; it must be a subclass of "
            f"counton.statistics.Statistic with the keyword {keyword!r}, and no statistic of "
            f"counton may have the name of its class: correct the class"
        )
    return cast("type[Statistic]", statistic)


def statistic_to_dict(statistic: Statistic) -> dict[str, Any]:
    """Return a statistic as JSON values: the name of its class, and its parameters.

    >>> statistic_to_dict(statistic_named("average")(0, 9, resolution=1))
    {'statistic': 'Average', 'lower': '0', 'upper': '9', 'resolution': '1'}
    """
    return {"statistic": type(statistic).__name__, **statistic.parameters}


def statistic_of_kind(kind: type[Statistic], saved: Mapping[str, Any]) -> Statistic:
    """Rebuild a statistic of a known class from the dict of `statistic_to_dict`.

    Raises:
        InvalidInputError: parameters are missing, unknown or out of range.
    """
    parameters = {name: value for name, value in saved.items() if name != "statistic"}
    try:
        return kind(**parameters)
    except TypeError as error:
        raise InvalidInputError(
            f"the parameters of {kind.__name__}, {str(parameters)[:200]}, cannot be read "
            f"({error}): give what statistic_to_dict wrote"
        ) from error


def statistic_from_dict(saved: Mapping[str, object]) -> Statistic:
    """Rebuild a statistic from the dict of `statistic_to_dict`, which names its class."""
    name = saved.get("statistic")
    if isinstance(name, str) and name in MODULES:
        statistic_type: type[Statistic] = getattr(import_module(MODULES[name]), name)
        return statistic_of_kind(statistic_type, saved)
    for keyword, location in _others().items():
        if keyword not in OWN_STATISTICS and location.partition(":")[2] == name:
            return statistic_of_kind(statistic_named(keyword), saved)
    others = [location.partition(":")[2] for location in _others().values()]
    raise InvalidInputError(
        f"statistic is {quote(name)}, which is not known; known are "
        f"{', '.join([*MODULES, *others])}: install the package that provides another one"
    )
