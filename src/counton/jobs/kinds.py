"""The statistics that a job can name: what defines each, and which columns it reads.

A job that names a statistic states its parameters by the fields of `Job`; one in Python may hand
over a `Statistic` instead, and name its columns.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any, NamedTuple

from counton.errors import InvalidInput, field
from counton.jobs.job import Job

if TYPE_CHECKING:
    from counton.statistics import Statistic


class Parts(NamedTuple):
    """The columns of the parts of an event, in the order in which the statistic takes them.

    Attributes:
        names: none of a text, whose letters are the events.
        numbers, flags: those that hold numbers, or true and false.
    """

    names: tuple[str, ...] = ()
    numbers: tuple[str, ...] = ()
    flags: tuple[str, ...] = ()


@dataclass(frozen=True)
class Kind:
    """A statistic that has a name.

    Attributes:
        says: what it is, in one line.
        takes: fields of `Job` that define it, besides those of every job.
        made: the statistic, from a job that states enough.
        parts: its columns.
        reads: fields of every job which define it too.
        shows: fields of what is shown of its readings.
    """

    says: str
    takes: tuple[str, ...]
    made: Callable[[Job], Statistic]
    parts: Callable[[Job], Parts]
    reads: tuple[str, ...] = ()
    shows: tuple[str, ...] = ("over",)


#: What else statistics are called.
_OTHER_WORDS = {
    **dict.fromkeys(("mean", "avg"), "average"),
    **dict.fromkeys(("median", "quantile", "percentile", "percentiles"), "quantiles"),
    **dict.fromkeys(("total", "totals"), "sum"),
    **dict.fromkeys(("number", "events", "rows", "histogram"), "count"),
    **dict.fromkeys(("unique", "uniques", "users", "visitors"), "distinct"),
    **dict.fromkeys(("top", "topk", "top_k", "largest"), "top-k"),
    **dict.fromkeys(("variance", "var", "std", "correlation"), "moments"),
    **dict.fromkeys(("crosstab", "table"), "contingency"),
}


def nearest(name: object) -> str | None:
    """The statistic that is meant by a word which is none; None: nobody knows.

    >>> nearest("mean"), nearest("averge"), nearest("x")
    ('average', 'average', None)
    """
    from difflib import get_close_matches

    word = str(name).strip().lower().replace("_", "-")
    if word in KINDS:
        return word
    found = _OTHER_WORDS.get(word) or _OTHER_WORDS.get(word.removesuffix("s"))
    near = get_close_matches(word, KINDS, 1) or get_close_matches(word, _OTHER_WORDS, 1, 0.8)
    return found or (_OTHER_WORDS.get(near[0], near[0]) if near else None)


def hint(name: object) -> str:
    """The same as the end of a message; nothing where nobody knows."""
    found = nearest(name)
    return "" if found is None else f"; did you mean {found!r}?"


def kind_named(name: str) -> Kind:
    """The statistic of a name.

    Raises:
        InvalidInput: there is none, naming those there are.

    >>> kind_named("average").takes
    ('value', 'lower', 'upper', 'resolution', 'number')
    """
    if name not in KINDS:
        raise InvalidInput(
            f"{field('what')} is {name!r}{hint(name)}; use one of {', '.join(KINDS)}"
        )
    return KINDS[name]


def stated(job: Job) -> dict[str, Any]:
    """What a job says of its statistic, as JSON values: kept, so that later runs may leave it out.

    >>> stated(Job("average", "visits.csv", "visits.db", value="paid", lower=0, upper="9"))
    {'value': 'paid', 'lower': '0', 'upper': '9'}
    """
    found: dict[str, Any] = {}
    for name in kind_named(str(job.what)).takes:
        value = getattr(job, name)
        if value is None or value is False:  # 0 is a bound as any other
            continue
        if isinstance(value, Mapping):
            found[name] = ",".join(f"{key}={one}" for key, one in value.items())
        elif isinstance(value, list | tuple):
            found[name] = [str(one) for one in value]
        else:
            found[name] = value if isinstance(value, bool | int) and name in _WHOLE else str(value)
    return found


def name_of(what: str | Statistic) -> str:
    """The name of what a job asks for.

    >>> from counton.statistics import TopK
    >>> name_of(TopK(["home", "shop"]))
    'top-k'
    """
    if isinstance(what, str):
        kind_named(what)
        return what
    own = type(what).__name__
    return next((name for name in KINDS if _plain(name) == _plain(own)), own)


def _plain(name: str) -> str:
    return name.replace("-", "").lower()


def settled(job: Job) -> tuple[Statistic, Parts]:
    """The statistic that a job asks for, and its columns besides time, group and user.

    Raises:
        InvalidInput: a parameter is missing, out of range, or of another statistic.
    """
    if not isinstance(job.what, str):
        return job.what, _parts_of(job.what, job)
    kind = kind_named(job.what)
    refuse_others(job)
    return kind.made(job), kind.parts(job)


def _parts_of(statistic: Statistic, job: Job) -> Parts:
    """The columns of a statistic that is given as such."""
    from counton.statistics import Grouped, Tallied

    if isinstance(statistic, Grouped):
        raise InvalidInput(
            f"{statistic!r} holds groups, which a job reads from a column: give "
            f"{statistic.inner!r}, with {field('by')} and {field('domain')}"
        )
    named = () if job.columns is None else _names(job.columns, "columns")
    if isinstance(statistic, Tallied) and job.time is not None:
        parts = [part for part in statistic.parts if part.name != "by"]
        named = named or (() if job.value is None else (job.value,))
        if len(named) != len(parts):
            wanted = ", ".join(part.name for part in parts) or "none"
            raise InvalidInput(
                f"{field('columns')} are {', '.join(named) or 'none'}, and {statistic!r} reads "
                f"{len(parts)} besides time, group and user: {wanted}; name one for each"
            )
        numbers = [name for name, part in zip(named, parts, strict=True) if part.kind != "label"]
        return Parts(named, tuple(numbers))
    if job.value is not None and not named:
        return Parts((job.value,), (job.value,))
    return Parts(named)


def others(name: str) -> tuple[str, ...]:
    """Fields of `Job` that belong to other statistics than that of a name.

    >>> "alphabet" in others("average"), "lower" in others("average")
    (True, False)
    """
    return tuple(each for each in _ANY if each not in kind_named(name).takes)


def refuse_others(job: Job) -> None:
    """Refuse parameters that belong to other statistics.

    Raises:
        InvalidInput: naming one, and the statistics that have it.
    """
    assert isinstance(job.what, str)
    own = kind_named(job.what).takes
    for name in _ANY:
        value = getattr(job, name)
        if name in own or value is None or value is False:
            continue
        having = ", ".join(each for each, kind in KINDS.items() if name in kind.takes)
        raise InvalidInput(
            f"{field(name, value if isinstance(value, str | int) else None)} belongs to {having}, "
            f"and this is {job.what}; leave it out"
        )


class Missing(InvalidInput):
    """Something must be stated, and is not.

    Args:
        said: the message.
        names: the fields.
    """

    def __init__(self, said: str, names: Sequence[str]) -> None:
        super().__init__(said)
        self.names = tuple(names)


def _needed(job: Job, *names: str) -> list[Any]:
    """Parameters that must be stated.

    Raises:
        Missing: naming those that are not.
    """
    absent = [name for name in names if getattr(job, name) is None]
    if absent:
        raise Missing(
            f"{job.what} needs {', '.join(map(field, absent))}: choose what is missing without "
            f"looking at the data; or, to go on with a stream that exists, correct "
            f"{field('state')} or {field('name')}",
            absent,
        )
    return [getattr(job, name) for name in names]


def _made(statistic: str, **parameters: Any) -> Statistic:
    from counton.statistics.known import statistic_from_dict

    given = {name: value for name, value in parameters.items() if value is not None}
    return statistic_from_dict({"statistic": statistic, **given})


def _given(job: Job, *names: str) -> dict[str, Any]:
    return {name: getattr(job, name) for name in names}


# ----------------------------------------------------------------------------- values of rows


def _count(job: Job) -> Statistic:
    return _made("Count")


def _nothing(job: Job) -> Parts:
    return Parts()


def _sum(job: Job) -> Statistic:
    names = ("lower", "upper", "resolution")
    absent = [name for name in ("value", *names) if getattr(job, name) is None]
    if absent == ["value"]:
        raise Missing(f"a sum needs {field('value')}, a column; give it", absent)
    if absent:
        raise Missing(
            f"a sum needs {', '.join(map(field, absent))}: values are clipped to bounds and put on "
            f"a grid, so that one row can change the sum by a known amount; choose them without "
            f"looking at the data",
            absent,
        )
    return _made("Sum", **_given(job, *names))


def _value(job: Job) -> Parts:
    (value,) = _needed(job, "value")
    return Parts((value,), (value,))


def _average(job: Job) -> Statistic:
    _needed(job, "lower", "upper", "resolution")
    return _made("Average", **_given(job, "lower", "upper", "resolution", "number"))


def _quantiles(job: Job) -> Statistic:
    edges: Any = job.edges
    if isinstance(edges, str):
        edges = numbers_of(edges, "edges")
    elif edges is not None:
        edges = [float(edge) for edge in edges]
    return _made(
        "Quantiles",
        **_given(job, "lower", "upper", "cells"),
        edges=edges,
        line=None if job.line == "auto" else job.line,
        neighbours="replace" if job.replace else None,
    )


def numbers_of(given: str, name: str) -> list[float]:
    """Numbers with commas between them.

    Raises:
        InvalidInput: something that is none.

    >>> numbers_of("0.5,0.9", "shares")
    [0.5, 0.9]
    """
    try:
        return [float(number) for number in given.split(",")]
    except ValueError as error:
        raise InvalidInput(
            f"{field(name, given)} is not a list of numbers; write it as in 0.5,0.9"
        ) from error


# -------------------------------------------------------------------------------------- groups


def _top_k(job: Job) -> Statistic:
    from counton.events.files import read_domain

    if job.first and job.most is None:
        raise InvalidInput(
            f"{field('first', True)} needs {field('most')}; give it, or leave it out"
        )
    if job.top is not None and job.top < 1:
        raise InvalidInput(f"{field('top', job.top)} shows nothing; give at least 1")
    if job.room is not None and job.unknown != "discover":
        raise InvalidInput(
            f"{field('room', job.room)} is of groups that nobody declared; give "
            f"{field('unknown', 'discover')} too, or leave it out"
        )
    if job.unknown == "discover":
        return _count(job)  # of which the largest are shown
    if job.domain is None:
        raise InvalidInput(
            f"{field('domain')} is missing: which groups are there? to show those that nobody "
            f"declared, once they are large, give {field('unknown', 'discover')}"
        )
    return _made(
        "TopK",
        groups=list(read_domain(job.domain, job.by or "group")),
        k=TOP if job.top is None else job.top,
        neighbours="replace" if job.replace else None,
        **({} if job.time is not None else _own_users(job)),
    )


def _own_users(job: Job) -> dict[str, Any]:
    """Users whom the statistic tells apart, where each row is a step."""
    return {"most": job.most, "once": "group" if job.first else None}


#: Groups that are shown unless stated.
TOP = 10


def _ranked(job: Job) -> Parts:
    if (job.user is None) != (job.most is None):
        raise InvalidInput(
            f"{field('user')} and {field('most')} belong together: whose events they are, and how "
            f"many of each count; give both, or none"
        )
    (by,) = _needed(job, "by")
    if job.time is not None:
        return Parts()
    return Parts((*([job.user] if job.user is not None else ()), by))


# --------------------------------------------------------------------------------------- users


def counts_users(job: Job) -> bool:
    """Whether a job counts each user once for ever, by windows: then it is a count."""
    told = (job.window, job.windows, job.changes, job.stay)
    return job.what == "distinct" and job.time is not None and told == (None,) * 4


def _distinct(job: Job) -> Statistic:
    if counts_users(job):
        return _count(job)
    return _made("Distinct", **_given(job, "window", "windows", "changes", "stay"))


def _users(job: Job) -> Parts:
    told = job.changes is not None and job.stay is None
    if (job.comes is not None) != told:
        raise InvalidInput(
            f"{field('comes')} and {field('changes')} belong together: whether a user comes or "
            f"goes, and how often at most; give both, or none, or {field('stay')} with "
            f"{field('changes')} alone"
        )
    (user,) = _needed(job, "user")
    if counts_users(job):
        return Parts()
    flags = (job.comes,) if job.comes is not None else ()
    return Parts((user, *flags), (), flags)


# ------------------------------------------------------------------------------- words, graphs


def _words(name: str) -> Callable[[Job], Statistic]:
    def made(job: Job) -> Statistic:
        alphabet, longest = _needed(job, "alphabet", "longest")
        letters = alphabet
        if isinstance(alphabet, str) and "," in alphabet:
            letters = [one.strip() for one in alphabet.split(",")]
        return _made(name, alphabet=letters, longest=longest)

    return made


def _letters(job: Job) -> Parts:
    return Parts() if job.letter is None else Parts((job.letter,))


def _graph(name: str, *needed: str, **more: str) -> Callable[[Job], Statistic]:
    def made(job: Job) -> Statistic:
        _needed(job, *needed)
        others = {given: getattr(job, asked) for given, asked in more.items()}
        changes = 1 if job.changes is None else job.changes
        return _made(name, **_given(job, *needed, "beyond"), changes=changes, **others)

    return made


def _ends(job: Job) -> Parts:
    if (job.comes is None) != (job.changes in (None, 1)):
        raise InvalidInput(
            f"{field('comes')} and {field('changes')} belong together: whether an edge comes or "
            f"goes, and how often at most; give both, or none"
        )
    flags = () if job.comes is None else (job.comes,)
    return Parts((*_two(job), *flags), (), flags)


def _two(job: Job) -> tuple[str, ...]:
    (edge,) = _needed(job, "edge")
    names = _names(edge, "edge")
    if len(names) != 2 or "" in names:
        raise InvalidInput(
            f"{field('edge', edge)} must name two columns, of the ends of an edge, as in from,to"
        )
    return names


def _names(given: str | Sequence[str], name: str) -> tuple[str, ...]:
    names = given.split(",") if isinstance(given, str) else given
    return tuple(str(one).strip() for one in names)


def _forest(job: Job) -> Statistic:
    (largest,) = _needed(job, "largest")
    resolution = "1" if job.resolution is None else job.resolution
    return _made("Forest", largest=largest, resolution=resolution)


def _weighted(job: Job) -> Parts:
    (weight,) = _needed(job, "weight")
    return Parts((*_two(job), weight), (weight,))


def _cuts(job: Job) -> Statistic:
    from counton.events.files import read_domain

    (domain,) = _needed(job, "domain")
    nodes = list(read_domain(domain, "node"))
    return _made("Cuts", nodes=nodes, **_given(job, "lower", "upper", "resolution"))


def _sides(job: Job) -> Parts:
    if (job.weight is None) != (job.resolution is None):
        raise InvalidInput(
            f"{field('weight')} and {field('resolution')} belong together: how much an edge "
            f"weighs, and the finest difference; give both, or none"
        )
    more = () if job.weight is None else (job.weight,)
    return Parts((*_two(job), *more), more)


# -------------------------------------------------------------------------------------- tables


def _hierarchy(job: Job) -> Statistic:
    from counton.jobs.public_tables import targets_of, tree_of
    from counton.statistics import Hierarchy

    levels, domain = _needed(job, "levels", "domain")
    _refuse_of_tables(job)
    return Hierarchy(
        tree_of(domain, _names(levels, "levels"), job.value),
        targets=targets_of(job.target),
        counts=job.value is not None,
        neighbours="replace" if job.replace else "add_remove",
    )


def _ranges(job: Job) -> Statistic:
    from counton.events.files import read_domain
    from counton.jobs.public_tables import refuse_counts
    from counton.statistics import Ranges

    label, domain = _needed(job, "label", "domain")
    _refuse_of_tables(job)
    refuse_counts(domain, job.value)
    return Ranges(
        read_domain(domain, label),
        name=label,
        workload=job.workload or "ranges",
        line=None if job.line == "auto" else job.line,
        counts=job.value is not None,
        neighbours="replace" if job.replace else "add_remove",
    )


def _contingency(job: Job) -> Statistic:
    from counton.jobs.public_tables import refuse_counts, values_of
    from counton.statistics import Contingency

    columns, domain = _needed(job, "columns", "domain")
    _refuse_of_tables(job)
    refuse_counts(domain, job.value)
    return Contingency(
        values_of(domain, _names(columns, "columns")),
        equal=job.equal,
        counts=job.value is not None,
        neighbours="replace" if job.replace else "add_remove",
    )


def _moments(job: Job) -> Statistic:
    columns, bounds = _needed(job, "columns", "bounds")
    names, ends = _names(columns, "columns"), _names(bounds, "bounds")
    pairs = [tuple(part.strip() for part in each.split(":")) for each in ends]
    if len(names) != len(ends) or any(len(pair) != 2 or "" in pair for pair in pairs):
        raise InvalidInput(
            f"{field('bounds', ','.join(ends))} must be two numbers for each of the columns "
            f"{', '.join(names)}, as in 0:100,0:20"
        )
    return _made("Moments", columns=dict(zip(names, pairs, strict=True)), grid=job.grid)


def _refuse_of_tables(job: Job) -> None:
    """Refuse what does not go with rows that stand in the cells of a table."""
    reasons = {
        "by": "tells groups apart, which are to be a part of the table",
        "other": "is a group of its own, and a table has no groups",
        "spare": "reserves groups, and a table has none",
    }
    if job.value is not None:  # then what is protected is less than a row
        reasons["user"] = (
            "bounds the rows of a user, and rows with counts are of many: leave it out"
        )
        reasons["id"] = "counts rows once, and what is protected is less than a row: leave it out"
    for name, why in reasons.items():
        value = getattr(job, name)
        if value is not None:
            raise InvalidInput(
                f"{field(name, value)} does not go with a {job.what}"
                f"{' of counts' if name in ('user', 'id') else ''}: it {why}; leave it out"
            )
    if job.unknown == "discover":
        raise InvalidInput(
            f"{field('unknown', 'discover')} finds groups, and the cells of a {job.what} are "
            f"declared ({field('domain')}); leave it out"
        )


def _cells(name: str) -> Callable[[Job], Parts]:
    def parts(job: Job) -> Parts:
        (named,) = _needed(job, name)
        values = () if job.value is None else (job.value,)
        labels = (named,) if name == "label" else _names(named, name)
        return Parts((*labels, *values), values)

    return parts


def _numbers(job: Job) -> Parts:
    (columns,) = _needed(job, "columns")
    names = _names(columns, "columns")
    return Parts(names, names)


_EDGES = ("edge", "changes", "comes", "beyond")
#: All statistics by their name in jobs and commands.
KINDS: dict[str, Kind] = {
    "count": Kind("The number of rows.", (), _count, _nothing, (), ("sums",)),
    "sum": Kind(
        "What a column adds up to: values clipped to bounds and put on a grid.",
        ("value", "lower", "upper", "resolution"),
        _sum,
        _value,
        (),
        ("sums",),
    ),
    "average": Kind(
        "The mean of clipped values, and their sum and number.",
        ("value", "lower", "upper", "resolution", "number"),
        _average,
        _value,
    ),
    "quantiles": Kind(
        "How values are distributed: median and other quantiles.",
        ("value", "lower", "upper", "cells", "edges", "line", "replace"),
        _quantiles,
        _value,
        (),
        ("shares", "over"),
    ),
    "top-k": Kind(
        "The largest groups of a histogram, with intervals that hold for all of them at once.",
        ("top", "room", "replace"),
        _top_k,
        _ranked,
        ("by", "domain"),
    ),
    "hierarchy": Kind(
        "How much there is at every node of a tree, adding up over space and time.",
        ("levels", "value", "target", "replace"),
        _hierarchy,
        _cells("levels"),
        ("domain",),
    ),
    "ranges": Kind(
        "A line of cells of which every interval is accurate.",
        ("label", "value", "workload", "line", "replace"),
        _ranges,
        _cells("label"),
        ("domain",),
        ("ask", "over"),
    ),
    "contingency": Kind(
        "How much there is of all combinations of some columns' values, with all margins.",
        ("columns", "value", "equal", "replace"),
        _contingency,
        _cells("columns"),
        ("domain",),
    ),
    "moments": Kind(
        "Means, variances and covariances of columns, and their least-squares lines.",
        ("columns", "bounds", "grid"),
        _moments,
        _numbers,
    ),
    "distinct": Kind(
        "How many users there are: so far, in each window, or now.",
        ("window", "windows", "changes", "stay", "comes"),
        _distinct,
        _users,
    ),
    "substrings": Kind(
        "How often each word came as a part of the letters.",
        ("alphabet", "longest", "letter"),
        _words("Substrings"),
        _letters,
        (),
        ("ask",),
    ),
    "episodes": Kind(
        "How often each word came, with other letters in between.",
        ("alphabet", "longest", "letter"),
        _words("Episodes"),
        _letters,
        (),
        ("ask",),
    ),
    "edges": Kind("How many edges a growing graph has.", _EDGES, _graph("Edges"), _ends),
    "triangles": Kind(
        "How many triangles a growing graph has.",
        ("degree", *_EDGES),
        _graph("Triangles", "degree"),
        _ends,
    ),
    "stars": Kind(
        "How many stars of so many edges a growing graph has.",
        ("degree", "leaves", *_EDGES),
        _graph("Stars", "degree", "leaves"),
        _ends,
    ),
    "degrees": Kind(
        "How many nodes of a growing graph have so many edges.",
        ("degree", "nodes", *_EDGES),
        _graph("Degrees", "degree", nodes="nodes"),
        _ends,
    ),
    "cuts": Kind(
        "A noisy weight for every pair of nodes, so that any cut can be asked.",
        ("edge", "weight", "lower", "upper", "resolution"),
        _cuts,
        _sides,
        ("domain",),
        ("cut",),
    ),
    "forest": Kind(
        "The weight of a minimum spanning forest of a growing graph.",
        ("edge", "weight", "largest", "resolution"),
        _forest,
        _weighted,
    ),
}
#: Fields of `Job` that some statistic has and others have not.
_ANY = tuple(dict.fromkeys(name for kind in KINDS.values() for name in kind.takes))
_WHOLE = {item.name for item in fields(Job) if str(item.type) == "int | None"} | {
    "replace",
    "equal",
}
