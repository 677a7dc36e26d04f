"""All tests of a statistic of this library: the laws for all statistics, and more."""

import math
import re
from collections.abc import Callable, Hashable
from fractions import Fraction
from typing import Any

import numpy as np

from counton import ZCDP, Key, PureDP, RunningStatistic, testing
from counton import strategies as known
from counton.base.arrays import Integers
from counton.base.errors import InvalidInputError
from counton.continual import StepRelease
from counton.statistics.by_group import inner_of
from counton.statistics.results import result_of_release
from counton.statistics.statistic import NamedCells, Statistic, shape_of
from counton.testing.rows import names_subject, require
from counton.testing.statistic_checks import (
    MOST_NAMES,
    Batches,
    cell_changes,
    check_statistic_rows,
    columns_of,
    one_release,
)

#: Least ratio of the half-width that a result shows to the half-width by its formula.
_AS_WIDE = 0.7
#: Default of ``error_of``: the error of the statistic is that of one cell.
_OF_ONE_CELL = ("one cell", 1.0, 1.0)
#: Units that have a name of their own; all others are events.
_UNITS = ("user", "edge", "letter")


@names_subject
def check_statistic(
    statistic: Statistic, batches: Batches, *, unit_of: Callable[[Any], Hashable] | None = None
) -> None:
    """A statistic keeps the laws of `counton.testing`, and what is said of it besides is right."""
    testing.check_statistic(statistic, batches, unit_of=unit_of)
    for promise in (PureDP(1), ZCDP(Fraction(1, 2))):
        one: Any = statistic.resolve_parameters(promise, len(batches))
        _check_texts(one)
        if not one.ordered and inner_of(one) is not one:
            _each_group(one, batches, cell_changes(one, batches))
    settled = statistic.resolve_parameters(PureDP(1), len(batches))
    if not settled.on_demand:
        _check_shown_numbers(settled, batches)
    check_statistic_running(statistic, batches)


def _check_shown_numbers(this: Any, batches: Batches) -> None:
    fresh, release, design = one_release(this, batches)
    value = release.value
    expected = result_of_release(fresh, release).table_columns(0.9)
    shapes = shape_of(this, None), shape_of(this, 3)
    expected_shapes = ((), (3,)) if this.additive else (this.cells, this.cells)
    require(shapes == expected_shapes, f"shape_of() returns {shapes}, not {expected_shapes}")
    named = not this.additive or this.keyword in ("count", "sum")
    require(named, "additive is True, which is allowed only for counts and sums")
    additive = not this.additive or np.array_equal(expected.get("estimate", ()), np.ravel(value))
    require(additive, "additive is True, but the results show other numbers than the released ones")
    people = this.for_people(2).contribution(batched=True)
    same_row = people == this.contribution(batched=True)
    require(same_row, "contribution() changes for people, of whom each has one row")
    _check_gives(fresh, design, batches)
    _check_numbers(fresh, release)


def _check_texts(statistic: Statistic) -> None:
    """The statistic's texts and its contribution name the same protected unit, and the same
    difference of neighbouring datasets.
    """
    for batched in (False, True):
        contribution = statistic.contribution(batched=batched)
        unit = next((one for one in _UNITS if re.search(rf"\b{one}\b", contribution.unit)), "event")
        message = f"protects names {statistic.protects!r}, contribution() {contribution.unit!r}"
        require(statistic.protects == unit, message)
        if contribution.relation == "replace":
            message = "contribution() has relation='replace', but neighbours_differ does not say so"
            require("in what one unit does" not in statistic.neighbours_differ(), message)
        message = "of_letters is True, so contribution() must have relation='replace'"
        letters = statistic.of_letters and not batched
        require(not letters or contribution.relation == "replace", message)
    known = statistic.event in _UNITS or statistic.protects in ("event", "user")
    require(known, f"event is {statistic.event!r}, but protects names {statistic.protects!r}")


def _each_group(statistic: Any, batches: Batches, whole: Integers) -> None:
    inner = statistic.inner
    groups = getattr(statistic, "groups", ())
    require(bool(groups), f"it has an inner statistic {inner}, but groups is empty")
    rows = {
        group: [[event for name, event in batch if name == group] for batch in batches]
        for group in groups
    }
    alone = np.stack([cell_changes(inner, own) for own in rows.values()], axis=1)
    for place, (group, own) in enumerate(rows.items()):
        same = np.array_equal(alone[:, place], whole[:, place])
        require(same, f"the cells of group {group!r} differ from those of {inner} over its rows")
        require(statistic.group(group) == place, f"group({group!r}) must return {place}")
        check_statistic_rows(inner, own) if any(own) else None
    by, *others = statistic.parts
    right = by.kind == "label" and tuple(others) == tuple(inner.parts)
    require(right, "parts must be a label followed by the parts of the inner statistic")
    columns = columns_of(inner, [event for batch in batches for _, event in batch])
    codes = inner.encode(*columns)
    same = np.array_equal(statistic.encode(*columns), codes)
    require(same, "encode() must return the codes of the inner statistic for each row")
    for name in ("row_bounds", "largest_entry", "counts_rows", "counts_units"):
        each = getattr(statistic, name), getattr(inner, name)
        mine, its = (one() if callable(one) else one for one in each)
        require(mine == its, f"{name} is {mine}, but for a row of {inner} it is {its}")
    added = str(statistic.entries(codes)) == str(inner.entries(codes))
    require(added, "entries() adds a row to sums that do not belong to its group")
    many = len(groups) * inner.n_accumulators
    require(
        statistic.n_accumulators == many, f"there must be {many} accumulators, those of all groups"
    )
    sums = np.arange(2 * statistic.n_accumulators, dtype=np.int64).reshape(2, -1) ** 2 % 97
    found = statistic.measure(sums)
    parts = np.split(sums, len(groups), axis=1)
    measured = np.stack([inner.measure(part) for part in parts], axis=1)
    for place, group in enumerate(groups):
        same = np.array_equal(found[:, place], measured[:, place])
        require(same, f"measure() gives {group!r} other cells than {inner} gives for its sums")


def _check_gives(statistic: Any, terms: Any, batches: Batches) -> None:
    """The count, sums and means that a statistic derives from its cells (`gives`) are those of the
    counted rows.

    Exact cells stand for released ones. Rows with codes below 0, which belong to no cell, do not
    count.
    """
    if not hasattr(statistic, "gives") or not (statistic.asks or statistic.gives(None)):
        return
    events = [event for batch in batches for event in batch]
    columns = [np.asarray(one) for one in columns_of(statistic, events)]
    counted = np.ones(len(events), np.bool_)
    if statistic.parts and statistic.spans:
        counted = np.asarray(statistic.encode(*columns)) >= 0
    number = int(counted.sum())
    value = cell_changes(statistic, batches).sum(axis=0) * float(terms.units.exact)
    release = StepRelease(len(batches), value if statistic.cells else float(value), 1.0, terms)
    reading = result_of_release(statistic, release)

    def compare(name: str, found: float, bounds: Any, column: Any) -> None:
        expected = float(number)
        room = 1e-6 * (1 + number)
        if name != "count":
            require(bounds is not None, f"gives() promises a {name}, but bounds_of() no bounds")
            low, high, step = map(float, bounds)
            values = np.clip(np.asarray(column, np.float64)[counted], low, high)
            expected = float(np.rint(values / step).sum() * step)
            room = 1e-6 * (1 + abs(expected)) + number * step
            if name == "mean":
                expected = expected / max(number, 1)
                room = room / max(number, 1)
        message = f"the promised {name} is shown as {found:g}, but the rows have {expected:g}"
        require(abs(found - expected) <= room, message)

    for place in (None, *range(len(statistic.parts))):
        for name, called in statistic.gives(place).items():
            bounds = None if place is None else statistic.bounds_of(place)
            compare(name, float(reading[called]), bounds, None if place is None else columns[place])
    for name in statistic.asks:
        table = reading.table_columns()
        at = 0 if len(statistic.asks) == 1 else table["measure"].tolist().index(name)
        own = columns[0] if statistic.parts else None
        compare(name, float(table["estimate"][at]), statistic.bounds_of(0), own)


def _check_numbers(statistic: Statistic, release: StepRelease) -> None:
    """The value and standard deviation of each named number are those that its formula gives from
    the released cells, and its error is that of one cell where ``error_of`` says so.

    If the formula is linear, the number's interval is wide enough for its noise.
    """
    reading = result_of_release(statistic, release)
    cells = math.prod(statistic.cells) if tuple(statistic.error_of) == _OF_ONE_CELL else 0
    for place, name in enumerate([*reading.number_names][:MOST_NAMES]):
        try:
            number = reading.number_of(name)
            std = reading.std(name)
        except InvalidInputError:
            return
        right = place >= cells or math.isclose(std, release.std)
        require(right, f"errors are those of one cell, {release.std:.6g}, but {name!r} has {std}")
        formula = number.formula
        if formula is None:
            continue
        message = f"the result {name!r} is {number.value} with std {number.std:.6g}"
        complaint = f"but its formula gives {formula.value} with std {formula.std:.6g}"
        same = math.isclose(number.value, formula.value, rel_tol=1e-6, abs_tol=1e-6)
        same = same and math.isclose(number.std, formula.std, rel_tol=1e-6, abs_tol=1e-9)
        require(same, f"{message}, {complaint}")
        if formula.linear:
            low, high = number.interval(0.9)  # which may be cut to what is possible
            half = max(high - number.value, number.value - low)
            wide = formula.half(0.9)
            message = f"the interval of {name!r} is {half} wide, but its noise needs {wide}"
            require(half >= _AS_WIDE * wide, message)


@names_subject
def check_statistic_running(statistic: Statistic, batches: Batches) -> None:
    """Cells on demand are shown with their released values and errors; of every statistic the
    errors of ``error_of`` have 0 < mean <= largest.
    """
    promise = PureDP(1)
    steps = len(batches)
    this = statistic.resolve_parameters(promise, steps)
    strategy = known.Binary(steps)
    if this.on_demand:
        events: Any = [event for batch in batches for event in batch]
        stops = np.cumsum([len(batch) for batch in batches], dtype=np.int64)
        named: Any = {"key": Key.generate(), "name": "a law", "batched": True}
        running, others = (
            RunningStatistic.start(statistic, guarantee=promise, strategy=strategy, **named)
            for _ in range(2)
        )
        found = running.release_batches(events, stops)
        others.release_batches([events[:1][0]] * len(events), stops)
        _check_shown_values(this, running, others, found)
    of = this.error_of
    require(0 < of.mean <= of.largest, f"error_of is {of}, but 0 < mean <= largest is needed")


def _check_shown_values(statistic: Any, machine: Any, others: Any, found: Any) -> None:
    """Each cell on demand is shown with its released value and error, and texts reveal no events:
    at each step they are equal for ``machine`` and for ``others``, which has counted other events.

    ``found`` are the releases of ``machine`` at all steps.
    """
    for place, step in enumerate(found.steps):
        readings = found[place], statistic.result_type(machine, step)
        words = {
            (one.describe(), repr(one)) for one in (*readings, statistic.result_type(others, step))
        }
        require(len(words) == 1, f"texts about step {step} change with the counted events")
        std = float(machine.design.errors.std(range(step, step + 1))[0])
        for cell in range(min(math.prod(statistic.cells), MOST_NAMES)):
            name = _query_name(statistic, cell)
            value = machine.values(np.array([cell]), step)[0].item()
            for reading in readings if name is not None else ():
                low, high = reading.interval(name, 0.9)
                shown = reading[name], (low + high) / 2, reading.std(name)
                same = np.allclose(shown, (value, value, std), rtol=1e-12)
                message = f"cell {name!r} is shown as {shown}, but {value} +- {std:.6g} is released"
                require(same and high - low > std, message)


def _query_name(statistic: NamedCells, cell: int) -> Any:
    """The name by which a user can ask for a cell, a text or a tuple of words; None: neither."""
    name = statistic.name_of(cell)
    for one in (name, tuple(name.split())):
        try:
            if statistic.cell(one) == cell:
                return one
        except InvalidInputError:
            continue
    return None
