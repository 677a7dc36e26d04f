"""Tests of a statistic: its counts, its description, and the change by one unit."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Hashable, Iterator, Sequence
from fractions import Fraction
from functools import partial
from typing import Any

import numpy as np

from counton import strategies as catalogue
from counton.base.arrays import Integers
from counton.base.distributions import Sensitivity
from counton.base.errors import CountonError, InvalidInputError
from counton.continual import Counter, Design, StepRelease
from counton.continual.sensitivity import sensitivity_of
from counton.noise import Key
from counton.privacy import ZCDP, ContributionBound, PureDP
from counton.privacy.unit_changes import ScheduledSteps, SpacedSteps
from counton.statistics.accumulator_statistic import AccumulatorStatistic, Part
from counton.statistics.by_group import inner_of
from counton.statistics.catalogue import statistic_of_kind, statistic_to_dict
from counton.statistics.results import result_of_release
from counton.statistics.statistic import Exact, NamedCells, Statistic, place_of_name, restore
from counton.strategies import Independent, StreamStrategy, matrices
from counton.testing.rows import PropertyViolationError, names_subject, require, require_description

#: Largest number of cells of a statistic that computes cells on demand, since these checks count
#: all of them.
_MOST_CELLS = 2**12
#: Largest number of names that are looked up.
MOST_NAMES = 64
#: The events of each step.
Batches = Sequence[Sequence[Any]]


@names_subject
def check_statistic(
    statistic: Statistic, batches: Batches, *, unit_of: Callable[[Any], Hashable] | None = None
) -> None:
    """Check that a statistic has all properties, on events of a small stream.

    Only these events are tried: give events of every kind, values at the bounds and outside of
    them, and steps with no event, one and several.

    Args:
        statistic: with at most 4096 cells, if they are computed on demand.
        batches: the events of each step, first step first.
        unit_of: the unit of an event; None: each event is one.

    Raises:
        InvalidInputError: no events, or too many cells.
        PropertyViolationError: a property does not hold; the message says which, and where.

    >>> from counton.statistics import Average
    >>> check_statistic(Average(0, 10, resolution=1), [[3, 12, -1], [], [10, 0.4]])
    """
    check_statistic_description(statistic, batches)
    # `resolve_parameters` depends on the norm of the noise, so both results are checked, or one if
    # they are equal.
    steps = len(batches)
    guarantees = PureDP(1), ZCDP(Fraction(1, 2))
    first, second = (statistic.resolve_parameters(guarantee, steps) for guarantee in guarantees)
    for resolved in [first] if first == second else [first, second]:
        if not resolved.ordered:
            check_statistic_rows(resolved, batches)
        check_statistic_counts(resolved, batches)
        check_statistic_neighbours(resolved, batches, unit_of=unit_of)
    check_statistic_results(statistic, batches)


@names_subject
def check_statistic_description(statistic: Statistic, batches: Batches) -> None:
    """Check that a statistic is rebuilt from its name and its parameters as JSON.

    The copy must be equal and count the same; so must that of the result of ``resolve_parameters``,
    which ``allows`` must accept. Looking up the name of a cell must return that cell, and
    ``protects`` must name the contribution's unit.
    """
    # ``sources`` are listed in `counton.base.literature`, and the words for neighbours agree with
    # the relation.
    resolved = statistic.resolve_parameters(PureDP(1), len(batches))
    alone = resolved.resolve_parameters(PureDP(1), len(batches)) == resolved
    require(
        alone,
        f"resolve_parameters() must return its own result unchanged, but resolve_parameters() of "
        f"{resolved} returns another statistic",
    )
    require(
        statistic.allows(resolved),
        f"allows() must accept the result of resolve_parameters(), {resolved}, but refuses it",
    )
    for variant in (statistic, resolved):
        saved: Any = json.loads(json.dumps(statistic_to_dict(variant)))
        rebuilt = statistic_of_kind(type(variant), saved)
        require(
            rebuilt == variant,
            f"building it again from its saved parameters {saved} gives another statistic, "
            f"{rebuilt}; the parameters must decide all of it",
        )
        alike = np.array_equal(cell_changes(rebuilt, batches), cell_changes(variant, batches))
        require(
            alike,
            f"the statistic built again from its saved parameters {saved} counts the events "
            "differently",
        )
        for batched in (False, True):
            message = (
                f"the statistic built again from its saved parameters {saved} has another "
                "contribution()"
            )
            same = rebuilt.contribution(batched=batched) == variant.contribution(batched=batched)
            require(same, message)
    numbers: Sequence[object] = statistic.number_names
    place_of: Callable[[Any], int] = partial(place_of_name, statistic)
    if isinstance(statistic, NamedCells):
        numbers = list(map(statistic.name_of, range(min(math.prod(statistic.cells), MOST_NAMES))))
        place_of = statistic.cell
    for cell, name in enumerate([*numbers][:MOST_NAMES] if [*numbers] != [None] else ()):
        try:
            number = place_of(name)
        except InvalidInputError:
            break  # asked for in another way, as a pair of nodes
        require(
            number == cell,
            f"name_of({cell}) is the name of cell {number}: names and cells must belong "
            "together one to one",
        )
    require_description(statistic.sources, None)


@names_subject
def check_statistic_counts(statistic: Statistic, batches: Batches) -> None:
    """Check that counts do not depend on how steps are processed.

    That is at once or one by one, undone and repeated, saved and restored. Cells on demand must be
    at most ``largest``.
    """
    whole = cell_changes(statistic, batches)
    exact = statistic.begin()
    for step, batch in enumerate(batches, 1):
        first = _take_steps(statistic, exact, [batch], step)
        saved = exact.save()
        exact.undo()
        repeated = _take_steps(statistic, exact, [batch], step)
        require(
            np.array_equal(first, repeated),
            f"step {step} changes the cells differently when it is repeated after undo(); undo() "
            "must restore everything that the step changed",
        )
        require(
            exact.save() == saved,
            f"save() returns another state when step {step} is repeated after undo(); undo() must "
            "restore everything that the step changed",
        )
        alike = np.array_equal(first[0], whole[step - 1])
        require(
            alike,
            f"take() of step {step} by itself changes the cells differently than take() of all "
            "steps together",
        )
        exact = restore(statistic, saved)


@names_subject
def check_statistic_rows(statistic: Statistic, batches: Batches) -> None:
    """Check that each row changes the sums of a `AccumulatorStatistic` as stated, in any order.

    It is added to the sums of ``entries``, by amounts within ``row_bounds``; exactly 1 to one sum
    if ``counts_rows``; ``row_total`` to the sum of all cells, if stated. The cells of an
    ``additive`` statistic are its sums; those of a group (`Grouped`) are the inner statistic's over
    its rows.
    """
    # No cell measured from one row is larger than ``largest_entry`` times the largest amount of
    # ``row_bounds``. ``measure`` is linear. The sums of two halves of the rows add up to the sums
    # of all rows.
    whole = cell_changes(statistic, batches)
    turned = cell_changes(statistic, [batch[::-1] for batch in batches])
    require(
        np.array_equal(whole, turned),
        "the cells change when the rows of a step are given in another order, but here the order "
        "of rows must not matter",
    )
    halves = [cell_changes(statistic, [batch[k::2] for batch in batches]) for k in (0, 1)]
    require(
        np.array_equal(whole, sum(halves)),
        "the cells of two halves of the rows do not add up to the cells of all rows; each row "
        "must count by itself",
    )
    if inner_of(statistic) is statistic:
        assert isinstance(statistic, AccumulatorStatistic)
        _check_single_rows(statistic, batches, whole)


def _check_single_rows(statistic: AccumulatorStatistic, batches: Batches, whole: Integers) -> None:
    """Check what an accumulator statistic states of single rows; ``whole`` has the cells of all."""
    codes = _check_encoding(statistic, batches)
    adds = _check_entries(statistic, codes)
    _check_measure(statistic, adds, whole)


def _check_encoding(statistic: AccumulatorStatistic, batches: Batches) -> Integers:
    """Return the codes of all rows."""
    events = [event for batch in batches for event in batch]
    columns = columns_of(statistic, events)
    codes = np.asarray(statistic.encode(*columns))
    require(
        codes.shape == (len(events),),
        f"encode() must return one code for each row, but returns the shape {codes.shape}",
    )
    require(codes.dtype == np.int64, f"encode() must return int64, but returns {codes.dtype}")
    return codes


def _check_entries(statistic: AccumulatorStatistic, codes: Integers) -> Integers:
    """Return what each row adds to each sum: shape (rows, sums)."""
    least, most = statistic.row_bounds()
    if not all(isinstance(accumulator, int) for accumulator, _ in statistic.entries(codes)):
        codes = codes[codes >= 0]  # codes below 0 have no sum
    rows = np.arange(len(codes))
    pairs = statistic.entries(codes)
    adds = np.zeros((len(codes), statistic.n_accumulators), np.int64)
    for accumulator, amount in pairs:
        accumulators = np.broadcast_to(accumulator, codes.shape)
        is_numbered = (accumulators >= 0) & (accumulators < statistic.n_accumulators)
        require(
            is_numbered.all(),
            f"entries() names the sum {accumulators[~is_numbered][:1]}, but sums are numbered from "
            "0 to n_accumulators - 1",
        )
        np.add.at(adds, (rows, accumulators), amount)
        amounts = np.broadcast_to(amount, codes.shape)
        is_within = (amounts >= least) & (amounts <= most)
        complaint = (
            f"entries() adds {amounts[~is_within][:1]} for a row, but row_bounds() states {least} "
            f"to {most}"
        )
        require(is_within.all(), complaint)
        counts_single_rows = not statistic.counts_rows or (
            len(pairs) == 1 and bool((amounts == 1).all())
        )
        require(
            counts_single_rows,
            "counts_rows is True, but entries() does not add exactly 1 to one sum for each row",
        )
    _check_codes(
        statistic,
        codes,
        [accumulator for accumulator, _ in pairs if not isinstance(accumulator, int)],
    )
    return adds


def _check_measure(statistic: AccumulatorStatistic, adds: Integers, whole: Integers) -> None:
    """Check the measurements of single rows, of which ``adds`` has the sums."""
    units = np.eye(statistic.n_accumulators, dtype=np.int64)
    measured = statistic.measure(units).reshape(statistic.n_accumulators, -1)
    additive = not statistic.additive or np.array_equal(measured, units)
    require(additive, "additive is True, but measure() does not return the sums themselves")
    measurements = statistic.measure(units if statistic.counts_rows else adds)
    largest = int(np.abs(measurements).max(initial=0))
    entry = statistic.largest_entry
    bound = entry * max(abs(end) for end in statistic.row_bounds())
    complaint = (
        f"largest_entry is {entry}, which allows {bound} in a cell of one row, but measure() gives "
        f"{largest}; state a larger one"
    )
    require(largest <= bound, complaint)
    total = statistic.row_total
    raised = statistic.measure(adds).reshape(len(adds), -1).sum(axis=1)
    require(
        total is None or bool((raised == total).all()),
        f"row_total is {total}, but a row raises the sum of all cells by "
        f"{raised[raised != total][:1]}",
    )
    rows_alone = [(sums, np.abs(sums).astype(np.float64)) for sums in (*adds, adds.sum(axis=0))]
    for sums, sizes in rows_alone:
        cells = statistic.measure(sums[None])
        most_claimed = statistic.largest_measured(sizes)
        complaint = (
            f"largest_measured() returns {most_claimed:g}, but measure() gives a larger cell for "
            "these rows; return an upper bound"
        )
        require(int(np.abs(cells).max(initial=0)) <= most_claimed, complaint)
    complaint = (
        "counts_units and counts_rows are both True, but a row counts either by its value or once: "
        "set one of them to False"
    )
    require(not (statistic.counts_units and statistic.counts_rows), complaint)
    require(
        np.array_equal(statistic.measure(adds).sum(axis=0), whole.sum(axis=0)),
        "measure() must be linear: its results for single rows do not add up to its result for "
        "all rows",
    )


@names_subject
def check_statistic_neighbours(
    statistic: Statistic, batches: Batches, *, unit_of: Callable[[Any], Hashable] | None = None
) -> None:
    """Check that no unit changes cells, steps or measurements by more than ``contribution`` states.

    The events of each unit are removed in turn or, if neighbouring datasets replace one, replaced
    by every other. The change of the measurements is exact for `Binary` and `Independent`.
    """
    # Events are processed first in the given batches (``batched``), then one in each step.
    nothing: Batches = [] if statistic.of_letters else [[]]  # for a step without an event
    alone = [
        single_event
        for batch in batches
        for single_event in [[event] for event in batch] or nothing
    ]
    for batched, stream in ((True, batches), (False, alone)):
        if stream:
            _check_neighbours(statistic, stream, unit_of, batched=batched)


def _check_neighbours(
    statistic: Statistic,
    batches: Batches,
    unit_of: Callable[[Any], Hashable] | None,
    *,
    batched: bool,
) -> None:
    steps = len(batches)
    whole = cell_changes(statistic, batches).reshape(steps, -1)
    contribution = statistic.contribution(batched=batched)
    name = f"contribution(batched={batched})"
    replaced = contribution.relation == "replace"
    near = _replacements(batches) if replaced and unit_of is None else _without(batches, unit_of)
    falls = contribution.signed or bool((whole >= 0).all())
    require(falls, "a cell is negative, but contribution() has signed=False")
    claims: list[tuple[StreamStrategy, Integers, Sensitivity]] = []
    for tried in (catalogue.Binary(steps), Independent(steps)):
        bound = sensitivity_of(tried, contribution, statistic.cells)
        claims.append((tried, np.asarray(matrices(tried)[1], np.int64), bound))
    for who, other in near:
        change = whole - cell_changes(statistic, other).reshape(steps, -1)
        for strategy, matrix, bound in claims:
            moved = matrix @ change
            norms = int(np.abs(moved).sum()), int((moved**2).sum())
            for norm, true, claimed in (
                ("1-norm", norms[0], bound.l1),
                ("squared 2-norm", norms[1], bound.l2_squared),
            ):
                complaint = f"{who} changes {strategy} by {true} ({norm})"
                require(true <= claimed, f"{complaint}, but {claimed:g} is stated by {name}")
        excess = _beyond(contribution, change)
        require(excess is None, f"{who} {excess}, but {name} states {contribution}")


def _beyond(contribution: ContributionBound, change: Integers) -> str | None:
    """Return how a unit's change, ``(steps, cells)``, exceeds its contribution, if it does."""
    rows = np.flatnonzero(change.any(axis=1))
    if contribution.in_one_step and len(rows) > 1:
        return f"changes {len(rows)} steps"
    if not isinstance(contribution.occurrences, SpacedSteps | ScheduledSteps):
        return None  # norms say the rest
    steps = contribution.steps
    apart = np.diff(rows)
    if steps is not None and len(rows) > steps:
        return f"changes {len(rows)} steps"
    if (apart < contribution.separation).any():
        return f"changes two steps that are only {apart.min()} apart"
    if contribution.every is not None and (apart % contribution.every).any():
        return "changes steps that do not follow one schedule"
    cells = contribution.cells * (2 if contribution.relation == "replace" else 1)
    many = int(np.count_nonzero(change, axis=1).max(initial=0))
    if many > cells:
        return f"changes {many} cells of one step"
    size = int(np.abs(change).max(initial=0))
    return f"changes a cell by {size}" if size > contribution.per_cell else None


def _check_codes(
    statistic: AccumulatorStatistic, codes: Integers, accumulators: Sequence[Any]
) -> None:
    """Check that codes of rows, and indices of the sums that they change, lie within their ranges.

    ``accumulators`` has an array for each sum that a row changes.
    """
    spans = statistic.spans
    require(
        len(spans) == len(accumulators),
        f"entries() chooses {len(accumulators)} sums for each row, but spans states {spans}; state "
        "a range for each",
    )
    low, high = statistic.code_bounds()
    is_within = (codes >= low) & (codes <= high)
    require(
        is_within.all(),
        f"encode() returns the code {codes[~is_within][:1]}, which is outside of code_bounds()",
    )
    if not accumulators:
        return
    for accumulator, span in zip(accumulators, spans, strict=True):
        chosen = (accumulator >= span.start) & (accumulator < span.stop)
        require(
            bool(np.all(chosen)),
            f"entries() chooses sums outside of the range {span} that spans states for them",
        )


@names_subject
def check_statistic_results(statistic: Statistic, batches: Batches) -> None:
    """Check that what is shown of a release does not depend on the counted events.

    Objects that have counted none, half and all of them must read one release alike.
    """
    resolved = statistic.resolve_parameters(PureDP(1), len(batches))
    if resolved.on_demand:
        return
    fresh, release, _ = one_release(resolved, batches)
    try:
        expected = _shown_results(fresh, release)
    except InvalidInputError:
        raise
    except Exception as error:
        raise PropertyViolationError(
            f"its results cannot be read before it has counted events, but reading "
            f"must depend on the release alone: {type(error).__name__}: {error}"
        ) from error
    half = [batch[: len(batch) // 2] for batch in batches]
    streams = [batches, [[] for _ in batches], half] if not resolved.of_letters else [batches]
    for stream in streams:
        cell_changes(resolved, stream)
        shown = _shown_results(resolved, release)
        now, before = (
            {name: np.asarray(values).astype(str) for name, values in columns.items()}
            for columns in (shown, expected)
        )
        require(
            now.keys() == before.keys()
            and all(np.array_equal(now[name], before[name]) for name in now),
            "the results of one release change with the counted events, which would reveal "
            "them; they must depend on the release alone",
        )


def one_release(statistic: Statistic, batches: Batches) -> tuple[Statistic, StepRelease, Design]:
    """Return a copy without events, a release for it, and its design."""
    cell_changes(statistic, batches)
    last = len(batches)
    counter = Counter(
        catalogue.Binary(last),
        PureDP(1),
        key=Key.generate(),
        name="a law",
        contribution=statistic.contribution(batched=True),
        shape=statistic.cells,
        statistic=statistic_to_dict(statistic),
    )
    values = (
        np.arange(math.prod(statistic.cells), dtype=np.int64).reshape(statistic.cells) * 5 % 97 + 60
    )
    value = (
        counter.design.to_data(values) if statistic.cells else counter.design.to_data(values).item()
    )
    release = StepRelease(last, value, float(counter.std(range(last, last + 1))[0]), counter.design)
    fresh = statistic_of_kind(type(statistic), json.loads(json.dumps(statistic_to_dict(statistic))))
    return fresh, release, counter.design


def _shown_results(statistic: Statistic, release: StepRelease) -> dict[str, object]:
    """Return everything that a release shows, by name."""
    reading = result_of_release(statistic, release)
    results: dict[str, object] = dict(reading.table_columns(0.9))
    results[" words"] = np.array([reading.describe(), repr(reading)])
    for name in [*reading.number_names][:MOST_NAMES]:
        try:
            results[f" number {name}"] = np.array([reading[name], *reading.interval(name, 0.9)])
        except InvalidInputError:
            break
    return results


def columns_of(statistic: AccumulatorStatistic, events: Sequence[Any]) -> Sequence[Any]:
    """Return events as the columns of `AccumulatorStatistic.encode`."""
    columns: Sequence[object] = statistic.columns_of(events)
    parts = statistic.parts
    if not parts:
        return columns
    fits = len(columns) == len(parts)
    require(
        fits,
        f"columns_of() must return a column for each of the {len(parts)} parts, but returns "
        f"{len(columns)}",
    )
    return [_column(values, part) for values, part in zip(columns, parts, strict=True)]


def _column(values: Any, part: Part) -> Any:
    """Return one part of each event: numbers, or places of labels, -1 if missing, -2 unknown."""
    if isinstance(values, np.ndarray):
        return values
    if part.kind != "label":
        return np.asarray(values, np.float64)
    if not part.labels:
        return np.array(values, dtype=object)
    code_of: dict[str | None, int] = {label: code for code, label in enumerate(part.labels)}
    code_of[None] = -1
    return np.array([code_of.get(value, -2) for value in values], np.int64)


def _without(
    batches: Batches, unit_of: Callable[[Any], Hashable] | None
) -> Iterator[tuple[str, Batches]]:
    """Yield, for each unit, its name and the batches without it."""
    if unit_of is None:
        for step, batch in enumerate(batches):
            for index, event in enumerate(batch):
                remaining = [*batch[:index], *batch[index + 1 :]]
                yield f"event {event!r}", [*batches[:step], remaining, *batches[step + 1 :]]
        return
    units = dict.fromkeys(unit_of(event) for batch in batches for event in batch)
    for unit in units:
        yield (
            f"unit {unit!r}",
            [[event for event in batch if unit_of(event) != unit] for batch in batches],
        )


def _replacements(batches: Batches) -> Iterator[tuple[str, Batches]]:
    """Yield all replacements of one event by another, in words, and the batches."""
    events = [event for batch in batches for event in batch]
    for step, batch in enumerate(batches):
        for index, event in enumerate(batch):
            for other in events:
                new = [*batch[:index], other, *batch[index + 1 :]]
                words = f"event {event!r}, replaced by {other!r},"
                yield words, [*batches[:step], new, *batches[step + 1 :]]


def cell_changes(statistic: Statistic, batches: Batches) -> Integers:
    """Return each step's change of each cell: int64, (steps, cells)."""
    if statistic.on_demand and math.prod(statistic.cells) > _MOST_CELLS:
        raise InvalidInputError(
            f"{statistic} has {math.prod(statistic.cells):,} cells that are computed on demand, "
            f"and these checks count all of them; check a statistic with at most {_MOST_CELLS:,} "
            "cells"
        )
    if not batches:
        raise InvalidInputError("batches is empty; give the events of at least one step")
    return _take_steps(statistic, statistic.begin(), batches, 1)


def _take_steps(statistic: Statistic, exact: Exact, batches: Batches, first: int) -> Integers:
    """Let ``exact`` count further steps, from ``first`` on; return their changes."""
    events = [event for batch in batches for event in batch]
    stops = np.cumsum([len(batch) for batch in batches], dtype=np.int64)
    try:
        before = _on_demand(statistic, exact, first - 1) if statistic.on_demand else None
        changes: Integers = np.asarray(exact.take(events, stops))
        if before is not None:
            require(
                changes.shape == (len(batches), 0),
                "on_demand is True, so take() must return no cells, but it returns some",
            )
            _on_demand(statistic, exact, first)
    except CountonError:
        raise
    except NotImplementedError as error:
        raise PropertyViolationError(
            f"on_demand of {type(statistic).__name__} is True, but {type(exact).__name__}, "
            "the class of its exact counts, does not define counts() and largest; define both, or "
            "set on_demand to False"
        ) from error
    except (IndexError, TypeError, ValueError) as error:
        raise PropertyViolationError(f"take() cannot count these events: {error!r}") from error
    if before is not None:
        counts = [_on_demand(statistic, exact, first + i) for i in range(len(batches))]
        changes = np.diff(np.array([before, *counts]), axis=0)
        changes = changes.reshape(len(batches), *statistic.cells)
    shape = (len(batches), *statistic.cells)
    require(
        changes.shape == shape,
        f"take() must return changes of shape {shape}, but returns {changes.shape}",
    )
    require(changes.dtype == np.int64, f"take() must return int64, but returns {changes.dtype}")
    return changes


def _on_demand(statistic: Statistic, exact: Exact, step: int) -> Integers:
    """Return the exact counts of all cells on demand after a step."""
    cells = np.arange(math.prod(statistic.cells))
    if not step:
        return np.zeros(len(cells), np.int64)
    counts = np.asarray(exact.counts(cells, step))
    most = int(np.abs(counts).max(initial=0))
    largest = exact.largest
    require(
        most <= largest,
        f"largest is {largest}, but counts() returns {most} for a cell; return an upper bound",
    )
    return counts
