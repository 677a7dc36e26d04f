"""The laws of a statistic: what it counts, what it says of itself, and what one unit changes."""

from __future__ import annotations

import json
from collections.abc import Callable, Hashable, Iterator, Sequence
from typing import Any, ClassVar, Protocol

import numpy as np

from counton.arrays import Integers
from counton.errors import InvalidInput
from counton.strategies import Binary, Independent
from counton.testing.rows import require


class AnyStatistic(Protocol):
    """What the laws need of a `counton.statistics.Statistic`."""

    on_demand: ClassVar[bool]
    tallied: bool

    @property
    def cells(self) -> tuple[int, ...]:
        """Shape of what is counted."""

    def begin(self) -> Any:
        """Nothing counted yet."""

    def restore(self, saved: bytes) -> Any:
        """What was saved."""

    def contribution(self, *, batched: bool = False) -> Any:
        """What one unit changes."""

    def shift(self, strategy: Any, *, batched: bool = False) -> Any:
        """How far one unit moves all node values."""

    def to_dict(self) -> dict[str, Any]:
        """Name and parameters."""


#: The events of each step.
Batches = Sequence[Sequence[Any]]


def check_statistic(
    statistic: AnyStatistic,
    batches: Batches,
    *,
    unit_of: Callable[[Any], Hashable] | None = None,
) -> None:
    """All laws of a statistic, on the events of a small stream.

    What holds for these events is shown, and nothing about others: give events at the bounds,
    outside of them and of every sort, and steps with none, one and several.

    Args:
        statistic: what is checked; its cells are not read on demand.
        batches: the events of each step.
        unit_of: whose an event is, as ``lambda event: event[0]``; None: each event is a unit.

    Raises:
        InvalidInput: no events, or cells that are read on demand.
        LawBroken: a law does not hold; the message says which, and where.

    >>> from counton.statistics import Average
    >>> check_statistic(Average(0, 10, resolution=1), [[3, 12, -1], [], [10, 0.4]])
    """
    check_statistic_description(statistic, batches)
    if statistic.tallied:
        check_statistic_rows(statistic, batches)
    check_statistic_counts(statistic, batches)
    check_statistic_neighbours(statistic, batches, unit_of=unit_of)


def check_statistic_description(statistic: AnyStatistic, batches: Batches) -> None:
    """What is rebuilt from its name and parameters, written as JSON, is equal and counts alike.

    Raises:
        InvalidInput: no events, or cells that are read on demand.
        LawBroken: it is not, or does not.

    >>> from counton.statistics import Count
    >>> check_statistic_description(Count(), [["home"], []])
    """
    saved: Any = json.loads(json.dumps(statistic.to_dict()))
    again = type(statistic).from_dict(saved)  # type: ignore[attr-defined]
    require(again == statistic, statistic, f"{saved} makes another one, {again}")
    alike = np.array_equal(_changes(again, batches), _changes(statistic, batches))
    require(alike, statistic, f"what {saved} makes counts otherwise")


def check_statistic_counts(statistic: AnyStatistic, batches: Batches) -> None:
    """Steps taken at once and one by one, undone, saved and restored, change cells alike.

    Raises:
        InvalidInput: no events, or cells that are read on demand.
        LawBroken: they do not, or changes are not int64 of shape ``(steps, *cells)``.

    >>> from counton.statistics import Count
    >>> check_statistic_counts(Count(), [["home"], [], ["home", "shop"]])
    """
    whole, exact = _changes(statistic, batches), statistic.begin()
    for step, batch in enumerate(batches, 1):
        stops = np.array([len(batch)], np.int64)
        first, saved = exact.take(batch, stops), exact.save()
        exact.undo()
        again = exact.take(batch, stops)
        require(np.array_equal(first, again), statistic, f"step {step} changes more after undo")
        require(exact.save() == saved, statistic, f"step {step} is saved otherwise after undo")
        alike = np.array_equal(first[0], whole[step - 1])
        require(alike, statistic, f"step {step} by itself is not that among all steps")
        exact = statistic.restore(saved)


def check_statistic_rows(statistic: Any, batches: Batches) -> None:
    """Rows of a statistic that adds them up (`Tallied`): in any order, within what it says.

    Each row changes known places by no less and no more than ``row_bounds``, ``measured`` is
    linear, and the sums of two halves of the rows add up to those of all.

    Raises:
        InvalidInput: no events, or cells that are read on demand.
        LawBroken: a law does not hold.

    >>> from counton.statistics import Sum
    >>> check_statistic_rows(Sum(0, 10, resolution=1), [[3, 12], [4]])
    """
    whole = _changes(statistic, batches)
    turned = _changes(statistic, [batch[::-1] for batch in batches])
    require(np.array_equal(whole, turned), statistic, "the order of rows matters")
    halves = [_changes(statistic, [batch[k::2] for batch in batches]) for k in (0, 1)]
    require(np.array_equal(whole, sum(halves)), statistic, "halves of the rows do not add up")
    events = [event for batch in batches for event in batch]
    columns, parts = statistic.columns_of(events), statistic.parts
    if parts:
        fits = len(columns) == len(parts)
        require(fits, statistic, f"events have {len(columns)} parts; named are {len(parts)}")
        columns = [_column(*each) for each in zip(columns, parts, strict=True)]
    said = np.asarray(statistic.said(*columns))
    require(said.shape == (len(events),), statistic, f"said has shape {said.shape}")
    require(said.dtype == np.int64, statistic, f"said is {said.dtype}, not int64")
    least, most = statistic.row_bounds()
    said = said[said >= 0]  # the others are of no cell
    rows = np.arange(len(said))
    adds = np.zeros((len(said), statistic.places), np.int64)
    for place, amount in statistic.entries(said):
        places = np.broadcast_to(place, said.shape)
        known = (places >= 0) & (places < statistic.places)
        require(known.all(), statistic, f"a row changes place {places[~known][:1]}, which is none")
        np.add.at(adds, (rows, places), amount)
        amounts = np.broadcast_to(amount, said.shape)
        within = (amounts >= least) & (amounts <= most)
        told = f"a row adds {amounts[~within][:1]}, outside of row_bounds {least} and {most}"
        require(within.all(), statistic, told)
    require(
        np.array_equal(statistic.measured(adds).sum(axis=0), whole.sum(axis=0)),
        statistic,
        "measured rows do not add up to the cells",
    )


def check_statistic_neighbours(
    statistic: AnyStatistic,
    batches: Batches,
    *,
    unit_of: Callable[[Any], Hashable] | None = None,
) -> None:
    """No unit moves what is measured further than `Statistic.shift` claims.

    Each unit's events are taken away or, where neighbours replace one event, each event is replaced
    by every other one; moves are those of ``C d`` for a tree and for independent steps, exactly.

    Args:
        statistic, batches, unit_of: see `check_statistic`.

    Raises:
        InvalidInput: no events, or cells that are read on demand.
        LawBroken: a unit moves further than is claimed.

    >>> from counton.statistics import Sum
    >>> check_statistic_neighbours(Sum(-5, 10, resolution=1), [[3, 12], [-7]])
    """
    whole = _changes(statistic, batches).reshape(len(batches), -1)
    replaced = statistic.contribution(batched=True).relation == "replace"
    near = _replaced(batches) if replaced and unit_of is None else _without(batches, unit_of)
    claims = []
    for strategy in (Binary(len(batches)), Independent(len(batches))):
        matrix = np.asarray(strategy.matrices()[1], np.int64)
        claims.append((strategy, matrix, statistic.shift(strategy, batched=True)))
    for who, other in near:
        change = whole - _changes(statistic, other).reshape(len(batches), -1)
        for strategy, matrix, claimed in claims:
            moved = matrix @ change
            for norm, true, most in (
                ("1-norm", int(np.abs(moved).sum()), claimed.l1),
                ("squared 2-norm", int((moved**2).sum()), claimed.l2_squared),
            ):
                told = f"{who} moves {strategy} by {true} ({norm}), but {most} is claimed"
                require(true <= most, statistic, told)


def _column(values: Any, part: Any) -> Any:
    """What `Tallied.said` takes: floats, and of labels their places."""
    if isinstance(values, np.ndarray):
        return values
    if part.kind != "label":
        return np.asarray(values, np.float64)
    if not part.labels:
        return np.array(values, dtype=object)
    place = {None: -1, **{label: place for place, label in enumerate(part.labels)}}
    return np.array([place.get(value, -2) for value in values], np.int64)


def _without(
    batches: Batches, unit_of: Callable[[Any], Hashable] | None
) -> Iterator[tuple[str, Batches]]:
    """The stream without each of its units."""
    if unit_of is None:
        for step, batch in enumerate(batches):
            for place, event in enumerate(batch):
                left = [*batch[:place], *batch[place + 1 :]]
                yield f"event {event!r}", [*batches[:step], left, *batches[step + 1 :]]
        return
    units = dict.fromkeys(unit_of(event) for batch in batches for event in batch)
    for unit in units:
        yield (
            f"unit {unit!r}",
            [[event for event in batch if unit_of(event) != unit] for batch in batches],
        )


def _replaced(batches: Batches) -> Iterator[tuple[str, Batches]]:
    """The stream with each of its events replaced by each other one."""
    events = [event for batch in batches for event in batch]
    for step, batch in enumerate(batches):
        for place, event in enumerate(batch):
            for other in events:
                new = [*batch[:place], other, *batch[place + 1 :]]
                words = f"event {event!r}, replaced by {other!r},"
                yield words, [*batches[:step], new, *batches[step + 1 :]]


def _changes(statistic: AnyStatistic, batches: Batches) -> Integers:
    """By how much each cell changes in each step."""
    events = [event for batch in batches for event in batch]
    if statistic.on_demand:
        raise InvalidInput(
            f"the cells of {statistic} are read on demand, which these laws do not cover; check "
            f"one whose cells are all counted"
        )
    if not batches:
        raise InvalidInput("batches is empty; give the events of at least one step")
    stops = np.cumsum([len(batch) for batch in batches], dtype=np.int64)
    found: Integers = np.asarray(statistic.begin().take(events, stops))
    shape = (len(batches), *statistic.cells)
    require(found.shape == shape, statistic, f"changes have shape {found.shape}, not {shape}")
    require(found.dtype == np.int64, statistic, f"changes are {found.dtype}, not int64")
    return found
