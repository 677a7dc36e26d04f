"""What a stream of events releases, in words."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from datetime import time, timedelta
from importlib.metadata import version

import polars as pl

from counton.base.columns import BETWEEN, list_in_words
from counton.base.exact import quantity, text
from counton.base.windows import Windows
from counton.numbers import Design
from counton.privacy.contribution import PERIODS
from counton.privacy.guarantees import AgesWithData, difference, plural
from counton.released.description import Description
from counton.released.series import Series
from counton.strategies import Independent, StreamStrategy

#: What is known of every stream of events besides its numbers.
_WHEN = (
    "that a release took place, when, and the time of the newest row where that decided which "
    "windows had ended"
)
#: Of streams without times.
_IN_THE_MIDDLE = (
    "a row that comes or goes before others, since each row is a step, and all later ones move"
)
#: Where anybody may read what differential privacy is.
_MORE = "https://doi.org/10.6028/NIST.SP.800-226"
#: So many numbers of a statistic are told how far they may be off, each by its name.
_NAMED = 4
#: Digits of how far numbers may be off, of which some are told.
_DIGITS = 9


def methods_of(
    definition: Description,
    name: str,
    steps: range,
    level: float,
    reach: Mapping[str, float],
    over: int | None = None,
) -> str:
    """The text that a website prints with published numbers, for everybody who reads them.

    What was counted and when, whom noise protects, how far a number may be off, where more stands.

    Args:
        definition, name: of the stream.
        steps: those that are released.
        level: probability with which each interval holds.
        reach: see `counton.Release.reach`.
        over: how many steps up to each are shown together; None: all so far.
    """
    if definition.simulated:
        return _simulated_in_words(name)
    contribution, unit = definition.contribution, definition.unit
    hidden = difference(unit, contribution.relation)
    fades = isinstance(definition.guarantee, AgesWithData)
    protection = (
        f"Random noise was mixed in before publication: it limits how well anybody can tell, from "
        f"all published numbers together, {hidden}{', and less so as it gets older' * fades}."
    )
    if not definition.of_people:
        protection += f" Somebody with several {plural(unit)} is protected less."
    newest = "the numbers" if definition.once else "the newest numbers"
    far = far_in_words(reach)
    error = f"{newest} are off by at most {far}" if far else "true numbers are in published ranges"
    guarantee = str(definition.guarantee).replace("rho = ", "a parameter of ")
    return " ".join(
        [
            _published_in_words(definition, name, steps, over),
            protection,
            f"With a probability of {100 * level:g}% each, {error}.",
            *_besides_in_words(definition),
            f"The method is {guarantee}, by counton {version('counton')}; it is explained at "
            f"{_MORE}, and 'counton methods' prints the whole account of these numbers in full.",
        ]
    )


def _simulated_in_words(name: str) -> str:
    return (
        f"These numbers are SIMULATED: somebody made them up, and noise was added as to stream "
        f"{name.removeprefix('SIMULATED ')!r}. No data stand behind them; publish none."
    )


def _published_in_words(definition: Description, name: str, steps: range, over: int | None) -> str:
    """The numbers that were published, their groups and times: a sentence."""
    cut, statistic = definition.cut, definition.statistic
    called = definition.subject if statistic.additive else statistic_in_words(definition)
    if statistics := definition.inner.statistics:
        parts = [f"{one} ({part.inner.keyword})" for one, part in statistics.items()]
        called = f"report of {list_in_words(parts)}"
    if definition.what == "stream":
        called = f"{'total' if definition.release == 'totals' else 'number'} {name!r}"
    what = f"The {called.removesuffix(',')}{',' * (',' in called and definition.by is not None)}"
    if definition.discovery is not None:
        what += f" by {groups_in_words(definition)} (each group shown once it is large enough)"
    elif definition.domain is not None and definition.by is not None:
        what += (
            f" by {groups_in_words(definition)} ({definition.declares:,} groups, named beforehand)"
        )
    if definition.once:
        return f"{what}, of all rows, was published once."
    if cut is None:
        which = "" if definition.release == "windows" else " so far"
        times = "once" if len(steps) == 1 else f"{len(steps):,} times"
        row = "" if definition.what == "stream" else ", after each row"
        return f"{what}{which} was published {times}{row}."
    every = PERIODS.get(cut.every, f"period of {cut.every}")
    published = {"windows": f"in each {every}", "both": f"so far and in each {every}"}
    when = published.get(definition.release, "so far")
    if over is not None:
        when = f"in each {every}" if over == 1 else f"in the last {over:,} {plural(every)}"
    return (
        f"{what}, {when}, was published after each {every} of {span_in_words(cut, steps)} (time "
        f"zone {cut.timezone})."
    )


def error_in_words(series: Series, what: str, level: float) -> str:
    """A sentence about the noise of some numbers."""
    low, high, last = (
        quantity(one, one)
        for one in map(float, (series.std.min(), series.std.max(), series.std[-1]))
    )
    half = float(series.half[-1])
    between = "" if low == high else f" (from {low} to {high} so far)"
    return (
        f"The noise of a {what} has the standard deviation {last} at the last step{between}, and "
        f"its {100 * level:g}% interval there reaches {quantity(half, half)} to both sides."
    )


def far_in_words(reach: Mapping[str, float]) -> str:
    """How far numbers may be off, by their names where these are few; "": nothing is known.

    >>> far_in_words({"": 7.8}), far_in_words({"mean": 0.52, "sum": 112.0})
    ('7.8', '0.52 (mean) and 112 (sum)')
    """
    if 1 < len(reach) <= _NAMED:
        return list_in_words([f"{_far(far)} ({name})" for name, far in reach.items()])
    low, high = (_far(pick(reach.values(), default=0)) for pick in (min, max))
    return "" if not reach else high if low == high else f"{low} to {high}, each as its range says"


def _far(far: float) -> str:
    return quantity(far, far) if far < math.inf else "any number"


def reach_of(rows: pl.DataFrame) -> dict[str, float]:
    """How far intervals reach from the numbers in them, at most, by the names of these."""
    value = next((name for name in ("estimate", "value") if name in rows.columns), None)
    if value is None or not {"lower", "upper"} <= {*rows.columns}:
        return {}
    names = [name for name in ("statistic", "name") if name in rows.columns]
    far = pl.max_horizontal(pl.col(value) - pl.col("lower"), pl.col("upper") - pl.col(value))
    far = far.cast(pl.Float64).round_sig_figs(_DIGITS)  # ends are sums, which lose the last ones
    found = rows.select(*names, far=far).drop_nulls("far").drop_nans("far")
    if not names or not found.height:
        return {"": max(found["far"])} if found.height else {}
    most = found.group_by(names, maintain_order=True).max()
    return {" ".join(filter(_is_name, row[:-1])): row[-1] for row in most.rows()}


def _is_name(name: str | None) -> bool:
    return name not in (None, "all")


def _besides_in_words(definition: Description) -> list[str]:
    """A sentence about errors besides noise; none: there are none."""
    of, beyond = definition.contribution, definition.beyond_bound
    parts = []
    if of.lower is not None and of.upper is not None:
        parts.append(f"values were clipped to [{text(of.lower)}, {text(of.upper)}]")
    if beyond is not None and definition.statistic.tallied:
        late = ", so that late times are counted too low" * (definition.late_note is not None)
        parts.append(f"{beyond} were left out{late}")
    return [f"Besides, {list_in_words(parts)}."] if parts else []


def account_of(
    definition: Description,
    terms: Design,
    steps: int,
    errors: Sequence[str],
    over: int | None = None,
) -> str:
    """All paragraphs that a publication needs, of a stream of events.

    Args:
        definition, terms: of the stream.
        steps: how many are released.
        errors: sentences about the error.
        over: how many steps up to each are shown together; None: all so far.
    """
    from counton.numbers.methods import methods
    from counton.planning import factors_of_design, far_from_possible

    if definition.simulated:
        return _simulated_in_words(terms.name)
    of = "" if definition.statistic.additive else "a cell of what it reads"
    factors = factors_of_design(terms, definition.least)
    far = far_from_possible(terms, factors, definition.least, of=of, cited=False)
    left_out = []
    if definition.beyond_bound is not None and definition.statistic.tallied:
        left_out.append(
            "Rows of a user beyond the bound were left out, an error that no interval includes."
        )
    if definition.late_note is not None:
        left_out.append(f"{definition.late_note[0].upper()}{definition.late_note[1:]}.")
    return methods(
        terms,
        released=_released_in_words(definition, terms, steps) + _shown_in_words(definition, over),
        mechanism=getattr(definition.statistic, "mechanism", None) if definition.once else None,
        unit=definition.unit,
        errors=[*errors, *([far] if far else []), *left_out],
        unprotected=[
            *definition.inner.unprotected,
            *([_IN_THE_MIDDLE] if definition.each_row else []),
            "that a release took place, and when" if definition.once else _WHEN,
        ],
        sources=definition.statistic.sources,
        constants=[(f"least of {one.holds_for}", one.source) for one in factors],
    )


def _shown_in_words(definition: Description, over: int | None) -> str:
    if over is None:
        return ""
    step = "step" if definition.cut is None else "window"
    if over == 1:
        return f" The numbers shown at each {step} are of that {step} alone."
    return f" The numbers shown at each {step} are of the last {over:,} {step}s."


def _released_in_words(definition: Description, terms: Design, steps: int) -> str:
    """What was released so far, a sentence."""
    cut = definition.cut
    additive = definition.statistic.additive
    called = definition.subject if additive else statistic_in_words(definition)
    what = f"The {called}"
    if definition.release == "both":
        what = f"{what.removesuffix(',')}, so far and in each window,"
    elif definition.release == "windows":
        what += " in each window"
    elif additive:
        what += " so far"
    else:
        what = f"The running {called}"
    if definition.discovery is not None:
        what += f" by {definition.by} (each group shown once it is large enough)"
    elif definition.domain is not None:
        what += f" by {definition.by} ({definition.declares:,} declared groups)"
    if definition.once:
        return f"The {statistic_in_words(definition)} was released once."
    if cut is None:
        return f"{what} was released after each row, {steps:,} times so far."
    last = terms.strategy.horizon
    of = "windows" if last is None else f"up to {last:,} windows"
    begin = cut.local(cut.start)
    start = f"{begin.day} {begin:%b %Y, %H:%M}"
    return (
        f"{what} was released after each of {of} of {cut.every} from {start} ({cut.timezone}) on, "
        f"{steps:,} of them so far."
    )


def statistic_in_words(definition: Description) -> str:
    """What is released over time, without an article, for a sentence."""
    inner = definition.inner
    given = dict(inner.parameters)
    edges = given.get("edges") or [0, 0]
    columns = given.get("columns") or ()
    names = [str(one if isinstance(one, str) else one[0]) for one in columns]
    tree = getattr(inner, "tree", None)
    given |= {
        "value": definition.value or "the values",
        "units": plural(given.get("unit", "user")),
        "first": _plain(edges[0]),
        "last": _plain(edges[-1]),
        "columns": list_in_words(names),
        "statistics": list_in_words([*inner.statistics]),
        "levels": list_in_words([] if tree is None else list(tree.levels)),
    }
    return inner.phrase.format_map(given) if inner.phrase else f"statistic {type(inner).__name__}"


def _plain(edge: object) -> str:
    return f"{edge:.12g}" if isinstance(edge, float) else str(edge)


def series_in_words(definition: Description) -> str:
    """What the only curve of a chart is called, where there are no groups."""
    if definition.what == "sum":
        return str(definition.value)
    return definition.subject.removeprefix("number of ").partition(",")[0].partition(" (")[0]


def counted_in_words(definition: Description, over: int | None = None) -> str:
    """The name of what cells count, by how many steps are shown together; None: all so far."""
    people = definition.people
    if people is not None and people.distinct:
        return definition.users_once(alone=over == 1)
    return f"number of {plural(definition.unit if people is None else 'event')}"


def groups_in_words(definition: Description) -> str | None:
    """By what groups are told apart, as in "region and sex"; None: there are none."""
    by = definition.by
    return None if by is None else " and ".join(name.strip() for name in by.split(","))


def times_in_words(
    definition: Description, over: int | None = None, every: str | None = None
) -> str:
    """Of which times a chart's numbers are.

    Args:
        definition: of the stream.
        over: how many steps up to each are shown together; None: all so far.
        every: how long the steps are that are drawn; None: as those of the stream.
    """
    cut = definition.cut
    if definition.once:
        return "of all rows"
    if cut is None:
        if over is None:
            return "after each row"
        return "in each row" if over == 1 else f"in the last {over:,} rows up to each"
    every = cut.every if every is None else every
    if over == 1:
        return f"in each {PERIODS.get(every, f'window of {every}')}"
    if over is not None:
        period = PERIODS.get(every)
        windows = f"windows of {every}" if period is None else f"{period}s"
        return f"in the {over:,} {windows} up to each point"
    start = cut.local(cut.start)
    at = "" if start.hour == start.minute == 0 else f", {start:%H:%M}"
    return f"since {start.day} {start:%B %Y}{at}"


def span_in_words(cut: Windows | None, steps: range) -> str:
    """The time of some steps, both ends included; without windows their numbers.

    >>> from datetime import UTC, datetime
    >>> from counton.base.windows import Windows
    >>> days = Windows(datetime(2024, 3, 1, tzinfo=UTC), "1d", 30)
    >>> span_in_words(days, range(1, 8)), span_in_words(None, range(1, 8))
    ('1 March to 7 March 2024', 'steps 1 to 7')
    """
    first, last = steps[0], steps[-1]
    if cut is None:
        return f"step {last:,}" if first == last else f"steps {first:,} to {last:,}"
    begin = cut.local(int(cut.starts(range(first, first + 1))[0]))
    end = cut.local(int(cut.ends(range(last, last + 1))[0]))
    if begin.time() == end.time() == time():  # midnight ends the day before
        end -= timedelta(days=1)
        if begin.date() == end.date():
            return f"{end.day} {end:%B %Y}"
        year = "" if begin.year == end.year else f" {begin.year}"
        return f"{begin.day} {begin:%B}{year} to {end.day} {end:%B %Y}"
    until = f"{end:%H:%M}" if begin.date() == end.date() else f"{end.day} {end:%B %Y, %H:%M}"
    return f"{begin.day} {begin:%B %Y, %H:%M} to {until}"


def foot_of(definition: Description, source: str | None) -> str:
    """What stands below a chart: where its numbers come from, and what is protected."""
    cut = definition.cut
    whence = "" if source is None else f"Source: {source}. "
    zone = "" if cut is None else f"; times: {cut.timezone}"
    if definition.simulated:
        return f"{whence}SIMULATED: no data stand behind these numbers{zone}"
    bent = definition.people_note if definition.of_people else None
    beyond = "" if bent is None else f"; {bent}"
    return (
        f"{whence}Noise protects each single {definition.unit} ({definition.guarantee}; "
        f"{definition.contribution.neighbours}){zone}{beyond}"
    )


def in_words(definition: Description, name: str, steps: range, new: int | None = None) -> str:
    """What is protected, what is promised and how far a stream has come.

    Args:
        definition, name: of the stream.
        steps: those that are released.
        new: how many of them a call released; None: it is not said.
    """
    cut = definition.cut
    several = "s" * (len(steps) != 1)
    what = f"{len(steps):,} " + (
        f"step{several}" if cut is None else f"window{several} of {cut.every}"
    )
    more = "" if new is None else f", {new:,} of them new"
    if definition.once:
        what, more = getattr(definition.statistic, "size", definition.what), " once"
    people = "" if definition.people_note is None else f"           {definition.people_note}\n"
    if definition.simulated:
        return f"{name}: {what} simulated: no data stand behind these numbers"
    return (
        f"{name}: {what} released{more}\n"
        f"protected: {protected_in_words(definition)}\n{people}"
        f"guarantee: {definition.guarantee}"
        f"{'' if definition.once else f', {definition.guarantee.scope}'}\n"
        f"           {meaning_in_words(definition)}\n"
        f"cost:      {cost_in_words(definition)}"
    )


def meaning_in_words(definition: Description) -> str:
    """What the guarantee of a release bounds, for readers who do not know the field's terms."""
    contribution = definition.contribution
    unit = contribution.unit if definition.ordered or definition.once else definition.unit
    return definition.guarantee.meaning_for(unit, contribution.relation)


def protected_in_words(definition: Description) -> str:
    """The protected unit: of counts and sums, cells are groups, and steps of time are windows.

    >>> from types import SimpleNamespace as Named
    >>> from counton.privacy import Contribution
    >>> visits = {"unit": "visit", "contribution": Contribution.add_remove(cells=2)}
    >>> of = {"statistic": Named(additive=True), "ordered": False, "each_row": False}
    >>> counts = Named(cut=1, **of, **visits)
    >>> protected_in_words(counts)
    'one visit more or less, counted in up to 2 groups of one window by at most 1 each'
    """
    contribution = definition.contribution
    unit = contribution.unit if definition.ordered else definition.unit
    said = contribution.describe(unit).replace(" added or removed", " more or less")
    if definition.cut is not None:
        said = re.sub(r"\bstep(s?)\b", r"window\1", said)
    if definition.statistic.additive:
        return re.sub(r"\bcell(s?)\b", r"group\1", said)
    many = re.search(r"\bcells?\b", said) is not None
    said += "; a cell is one of the counts behind the numbers" * many
    return said + f"; not {_IN_THE_MIDDLE}" * definition.each_row


def cost_in_words(definition: Description) -> str:
    """What the releases of a stream, or of a table, take of the privacy of each unit."""
    guarantee, unit = definition.guarantee, definition.unit
    if isinstance(guarantee, AgesWithData):
        return f"a loss of privacy for each {unit} that grows with its age"
    spent = f"{str(guarantee).partition(' with ')[2]} of the privacy of each {unit}, spent once"
    if definition.once:
        return spent
    return (
        f"{spent} for the whole stream, which is this series of releases: later ones cost nothing "
        f"more; another stream about the same {unit} costs its own, and costs add up"
    )


def sharing_in_words(strategy: StreamStrategy) -> str:
    """How the noise is arranged: which strategy does it is for experts.

    >>> from counton.strategies import Binary
    >>> sharing_in_words(Binary(365))
    'releases share it, so that totals stay accurate'
    >>> sharing_in_words(Independent(365))
    'each release has its own'
    """
    if isinstance(strategy, Independent):
        return "each release has its own"
    return "releases share it, so that totals stay accurate"


def hidden_in_words(definition: Description) -> str:
    """What the guarantee hides, for readers who do not know the field's terms."""
    hidden = difference(definition.unit, definition.contribution.relation)
    return (
        f"the guarantee below limits how well anybody can tell, from the released numbers, {hidden}"
    )


def with_parts(table: pl.DataFrame, definition: Description) -> pl.DataFrame:
    """A table whose groups, of several columns, also stand in columns of their own.

    Args:
        table: with a column ``group``.
        definition: of the stream.
    """
    by = definition.by
    if by is None or "," not in by or "group" not in table.columns:
        return table
    names = [name.strip() for name in by.split(",")]
    if {*names} & {*table.columns}:
        return table
    parts = pl.col("group").str.split(BETWEEN)
    made = [
        pl.when(parts.list.len() == len(names))
        .then(parts.list.get(place, null_on_oob=True))
        .alias(name)
        for place, name in enumerate(names)
    ]
    order = [*table.columns]
    order[order.index("group") + 1 : order.index("group") + 1] = names
    return table.with_columns(made).select(order)
