"""What one unit really changes, against what is claimed: ``python -m tools.brute_force`` tries it.

Read this file, run it, and you need not believe any formula of ``privacy/contribution.py``,
``strategies/`` or ``statistics/``. Instances are small, and within them everything is tried:

1. *Contributions.* Each change of a table of steps and cells that a contribution's own sentence
   allows goes through the matrix C of each strategy; `sensitivity_of` claims how far it moves.
2. *Statistics.* Each stream of a few events: one unit's events are taken out (or one event is
   replaced by each other one), and exact cells before noise are compared.
3. *People.* Whole jobs over files, for one night and for several: one person's rows are laid into
   them in each way, and what is released (with noise that rounds to nothing) is compared.

4. *Deliveries.* Rows of others and of one unit come in some nights' files and not in others: they
   vanish, come back, come late, come again under the same ids, in another order, zone and
   compression. By each door the changes of all nights together are held to the claim.

5. *Rows that are steps.* Where no time says when a row comes, its place does. What is promised (a
   row whose step is empty without it, a letter replaced, a row at the end) is held to the claim;
   a row that comes in the middle moves all later ones, which nobody promises, and the line says how
   far: beyond 1, and further the longer a stream is.

A line says how many pairs were tried, and the largest true movement as a share of the claim: 1.00
is exact, less is caution, and more than 1 ends the program with the pair that shows it (but for
rows in the middle).
"""

from __future__ import annotations

import gzip
import math
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from fractions import Fraction
from functools import cache, partial
from itertools import combinations, combinations_with_replacement, product
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

import numpy as np

from counton import ContributionBound, PureDP
from counton import statistics as counted
from counton.base.distributions import (
    DiscreteGaussian,
    DiscreteLaplace,
    NoiseDistribution,
    Sensitivity,
)
from counton.base.errors import InvalidInputError
from counton.continual.sensitivity import sensitivity_of
from counton.privacy.unit_changes import BoundedEvents, EventsInDifferentCells, EventsPerStep
from counton.strategies import Binary, StreamStrategy, public_strategies
from counton.strategies.strategy import column_until, node_distribution
from counton.tables import Tree

#: Changes of exact cells, each of shape (steps, cells).
Changes = np.ndarray[Any, Any]
Stream = tuple[tuple[Any, ...], ...]
#: Laws of noise that is wide against what one unit changes.
DISTRIBUTIONS: tuple[NoiseDistribution, NoiseDistribution] = (
    DiscreteLaplace(Fraction(2**20)),
    DiscreteGaussian(Fraction(2**40)),
)


class ExceededError(AssertionError):
    """The error that one unit changes more than the claimed sensitivity."""


class Tried:
    """The number of pairs of neighbouring inputs tried, and the largest change among them as a
    fraction of the claim.
    """

    def __init__(self, name: str) -> None:
        self.name = name
        self.pairs = 0
        self.shares = [0.0, 0.0]

    def hold(self, changes: Changes, nodes: Nodes, claimed: Sensitivity, pair: Any) -> None:
        """Check that changes stay within the claimed sensitivity: the 1-norm and the squared 2-norm
        of C d.

        Args:
            changes: one change d of exact cells, shape (steps, cells), or many, shape (many, steps,
                cells).
            nodes: the strategy's matrix C.
            claimed: the largest norms that are claimed.
            pair: the neighbouring inputs, for the message.

        Raises:
            ExceededError: a norm is larger than its claim.
        """
        for norm, true, most in self.look(changes, nodes, claimed):
            if true > most * (1 + 1e-9):
                for change in changes if changes.ndim > 2 else ():
                    self.hold(change, nodes, claimed, (pair, change))
                raise ExceededError(
                    f"{self.name}: {norm} {true:g}, and {most:g} is claimed: {pair}"
                )

    def look(
        self, changes: Changes, nodes: Nodes, claimed: Sensitivity
    ) -> list[tuple[str, float, int]]:
        """Compute the largest 1-norm and squared 2-norm over all changes; return each with its name
        and its claim.

        The norms are not compared with the claims here, only noted as fractions of them.
        """
        found = []
        for which, norm in enumerate(("1-norm", "squared 2-norm")):
            if nodes.weights[which] is None:
                continue
            moved = np.abs(nodes.weights[which] @ changes) ** (which + 1)
            true = float(moved.sum(axis=(-2, -1)).max())
            most = (claimed.l1, claimed.l2_squared)[which]
            self.shares[which] = max(self.shares[which], true / max(most, 1))
            found.append((norm, true, most))
        return found

    def __str__(self) -> str:
        l1, l2 = self.shares
        return f"{self.name:58} {self.pairs:8,} tried, {l1:.2f} {math.sqrt(l2):.2f} of the claim"


class Nodes(NamedTuple):
    """A strategy's matrix C, shape (nodes, steps), in units of the lattice, for Laplace and for
    Gaussian noise.

    A row is divided by how many times wider the noise of its node is than the calibrated noise, so
    a node with noise twice as wide counts half. The matrix is None if the strategy refuses such
    noise.
    """

    strategy: StreamStrategy
    weights: tuple[Changes | None, Changes | None]


@cache
def strategies(steps: int) -> tuple[Nodes, ...]:
    """Return the matrix of each public strategy, computed from the column that the strategy gives
    for each step.
    """
    found = []
    for strategy in (one for kind in public_strategies() for one in kind.examples(steps)):
        columns = [column_until(strategy, step, steps) for step in range(1, steps + 1)]
        places = sorted({node[:2] for column in columns for node in column})
        matrix = np.zeros((len(places), steps))
        for step, column in enumerate(columns):
            for node in column:
                weight = node.weight * 2**strategy.facts.lattice_bits
                matrix[places.index(node[:2]), step] += float(weight)
        weights = [
            weighted(strategy, matrix, [level for level, _ in places], distribution)
            for distribution in DISTRIBUTIONS
        ]
        found.append(Nodes(strategy, (weights[0], weights[1])))
    return tuple(found)


def weighted(
    strategy: StreamStrategy,
    matrix: Changes,
    levels: Sequence[int],
    distribution: NoiseDistribution,
) -> Changes | None:
    """Divide each row of a matrix by how many times wider its node's noise is than the calibrated
    noise.

    Return None if the strategy refuses such noise.

    Args:
        strategy: the strategy.
        matrix: its matrix C, shape (nodes, steps).
        levels: level of each node.
        distribution: the calibrated law of noise.
    """
    try:
        width = np.array(
            [node_distribution(strategy, distribution, level).variance for level in levels], float
        )
    except InvalidInputError:
        return None
    return matrix * np.sqrt(float(distribution.variance) / width)[:, None]


def shift_or_none(
    strategy: StreamStrategy, said: ContributionBound, cells: int
) -> Sensitivity | None:
    """Return the claimed sensitivity; None if the strategy refuses units with this contribution."""
    try:
        return sensitivity_of(strategy, said, (cells,))
    except InvalidInputError:
        return None


# ------------------------------------------------------------------------------ 1 contributions
STEPS = 4
#: By cells and the most that a cell may change: contributions, each of which says what is allowed.
CONTRIBUTIONS: dict[tuple[int, int], list[ContributionBound]] = {
    (2, 1): [
        *(
            ContributionBound.add_remove(cells=cells, steps=steps, separation=apart)
            for cells, steps, apart in product((1, 2), (1, 2, 3), (1, 2))
        ),
        ContributionBound.add_remove(cells=2, steps=2, every=2),
        ContributionBound.replace(cells=1),
        ContributionBound.events(2),
        ContributionBound.events(2, most_a_step=1),
        ContributionBound.events(2, once="group"),
    ],
    (1, 3): [
        ContributionBound.events(3),
        ContributionBound.events(4, most_a_step=2),
        ContributionBound.events(5, most_a_step=3),
        ContributionBound.add_remove(per_cell=2, steps=2),
        ContributionBound.values(-3, 2, resolution=1),
        ContributionBound.values(-1, 2, resolution=1, neighbours="replace"),
    ],
}


def is_allowed(said: ContributionBound, change: Changes) -> bool:
    """Return whether one unit may change the cells by ``change``, read from the sentence that
    describes the contribution.

    The check is written independently of the code that computes sensitivities.
    """
    steps = np.flatnonzero(change.any(axis=1))
    apart = np.diff(steps)
    events = said.occurrences
    if isinstance(events, BoundedEvents):  # anywhere, each in one cell of one step, by one
        each = True
        if isinstance(events, EventsInDifferentCells):
            each = bool((change.sum(axis=0) <= 1).all())
        if isinstance(events, EventsPerStep):
            each = bool((change.sum(axis=1) <= events.most_a_step).all())
        return bool((change >= 0).all()) and each and int(change.sum()) <= events.most
    if said.value_bounds is not None:  # one value, in one cell of one step
        low, high, _ = said.value_bounds
        if said.relation == "replace":
            low, high = low - high, high - low
        return len(steps) <= 1 and bool(((change >= int(low)) & (change <= int(high))).all())
    if said.relation == "replace":  # one leaves its cells, another enters its own, in one step
        left = (change < 0).sum()
        entered = (change > 0).sum()
        return len(steps) <= 1 and max(left, entered) <= said.cells
    if said.every is not None:  # a schedule: so many steps in a row, of which some are missed
        scheduled = bool((apart % said.every == 0).all())
        spread = int(steps[-1] - steps[0]) <= said.every * ((said.steps or STEPS) - 1)
        if not (scheduled and spread):
            return False
    elif len(steps) > (said.steps or 1) or bool((apart < said.separation).any()):
        return False
    few = bool((np.count_nonzero(change, axis=1) <= said.cells).all())
    return few and bool(((change >= 0) & (change <= said.per_cell)).all())


@cache
def allowed(said: ContributionBound, cells: int, most: int) -> Changes:
    """Return all changes that one unit may make, with entries from -``most`` to ``most``: shape
    (many, steps, cells).
    """
    values = product(range(-most, most + 1), repeat=STEPS * cells)
    changes = (np.reshape(one, (STEPS, cells)) for one in values if any(one))
    return np.array([change for change in changes if is_allowed(said, change)])


def try_contributions() -> Iterator[Tried]:
    """Try every allowed change of a small table with every strategy; yield the result for each
    contribution.
    """
    for (cells, most), ways in CONTRIBUTIONS.items():
        for said in ways:
            tried = Tried(str(said).replace("one unit ", "", 1))
            mine = allowed(said, cells, most)
            for nodes in strategies(STEPS):
                shift = shift_or_none(nodes.strategy, said, cells)
                if shift is not None:
                    tried.pairs += len(mine)
                    tried.hold(mine, nodes, shift, nodes.strategy)
            yield tried


# --------------------------------------------------------------------------------- 2 statistics
def _edges(*more: Any) -> list[Any]:
    return [(*edge, *more) for edge in combinations("abcd", 2)]


TREE = Tree.from_leaves({"land": ["N", "N", "S"], "town": ["a", "b", "c"]}, ["land", "town"])
OF_VALUES: tuple[Any, ...] = (-2, 3, 1)
#: Statistics, each with events that it may meet; letters are an alphabet, and edges come once.
STATISTICS: list[tuple[counted.Statistic, Sequence[Any]]] = [
    (counted.Count(), [1, 2]),
    (counted.Sum(*OF_VALUES), [-5, 1, 3]),
    (counted.Average(*OF_VALUES), [-5, 1, 3]),
    (counted.Moments({"x": (0, 4), "y": (-2, 2)}, grid=4), [(4, 2), (4, -2), (0, 1)]),
    (counted.Quantiles([0, 1, 2, 4]), [0, 1, 3]),
    (counted.Quantiles([0, 1, 2, 4], line="haar"), [0, 1, 3]),
    (counted.Ranges(["a", "b", "c"]), ["a", "b", "c"]),
    (counted.Hierarchy(TREE), [("N", "a"), ("N", "b"), ("S", "c")]),
    (counted.Contingency({"x": ["0", "1"], "y": ["0", "1"]}), [("0", "0"), ("0", "1"), ("1", "1")]),
    (counted.TopK(["a", "b"], 1), ["a", "b"]),
    (counted.Grouped(counted.Average(*OF_VALUES), ["n", "s"]), [("n", 3), ("s", -9), ("s", 1)]),
    (
        counted.Report(
            {"n": counted.Count(), "paid": counted.Average(*OF_VALUES)}, columns={"paid": "paid"}
        ),
        [(-7,), (1,), (3,)],
    ),
    (counted.Distinct(), ["ann", "bob"]),
    (counted.Distinct(changes=2), [("ann", True), ("ann", False), ("bob", True)]),
    (counted.Substrings("ab", 2), "ab"),
    (counted.Episodes("ab", 2), "ab"),
    (counted.Edges(), _edges()),
    (counted.Triangles(3), _edges()),
    (counted.Triangles(2, beyond="drop"), _edges()),
    (counted.Stars(3, 2), _edges()),
    (counted.Degrees(3, nodes=4), _edges()),
    (counted.Cuts(["a", "b", "c", "d"]), _edges()),
    (counted.Forest(2), [(*edge, 1 + number % 2) for number, edge in enumerate(_edges())]),
]
#: Streams have so many steps, with up to so many events each, or in all where edges come once.
LENGTH = 3
TOGETHER = 2
EDGES = 5


def streams(statistic: counted.Statistic, events: Sequence[Any]) -> Iterator[Stream]:
    """Yield all streams of a few steps that consist of some of these events."""
    if statistic.event == "edge":
        for number in range(1, EDGES + 1):
            for chosen in combinations(events, number):
                for where in product(range(LENGTH), repeat=number):
                    steps = (tuple(e for e, s in zip(chosen, where, strict=True) if s == step)
                             for step in range(LENGTH))  # fmt: skip
                    yield tuple(steps)
        return
    batches = [batch for size in range(TOGETHER + 1) for batch in product(events, repeat=size)]
    yield from product(batches, repeat=LENGTH)


def neighbours(stream: Stream, statistic: counted.Statistic, events: Any) -> Iterator[Stream]:
    """Yield the neighbours of a stream: without one unit, or with one event replaced by another
    one.
    """
    if statistic.contribution(batched=True).relation == "replace":
        for step, batch in enumerate(stream):
            for place, other in product(range(len(batch)), events):
                new = (*batch[:place], other, *batch[place + 1 :])
                yield (*stream[:step], new, *stream[step + 1 :])
        return
    if statistic.event in ("user", "edge"):  # with all that it does
        for unit in {event for batch in stream for event in batch}:
            yield tuple(tuple(event for event in batch if event != unit) for batch in stream)
        return
    for step, batch in enumerate(stream):
        for place in range(len(batch)):
            yield (*stream[:step], (*batch[:place], *batch[place + 1 :]), *stream[step + 1 :])


def exact_changes(statistic: counted.Statistic, stream: Stream) -> Changes:
    """Return what a stream adds to each cell at each step, before noise: shape (steps, cells)."""
    events: Any = [event for batch in stream for event in batch]
    if statistic.of_letters:
        events = "".join(events)
    stops = np.cumsum([len(batch) for batch in stream], dtype=np.int64)
    machine = statistic.begin()
    taken = machine.take(events, stops)
    if statistic.on_demand:
        cells = np.arange(math.prod(statistic.cells))
        totals = np.array([machine.counts(cells, step) for step in range(1, len(stream) + 1)])
        return np.diff(totals, axis=0, prepend=0)
    return np.asarray(taken).reshape(len(stream), -1)


def some(every: Iterable[Any], share: float) -> Iterator[Any]:
    """Yield a fraction ``share`` of the items, spread evenly over all."""
    for number, one in enumerate(every):
        if int((number + 1) * share) > int(number * share):
            yield one


def try_statistics(share: float = 1.0) -> Iterator[Tried]:
    """Try every small stream of every statistic with each of its neighbours; yield the result for
    each statistic.

    Args:
        share: fraction of the streams that is tried, spread evenly over all.
    """
    every = strategies(LENGTH)
    for statistic, events in STATISTICS:
        settled = statistic.resolve_parameters(PureDP(1), LENGTH)
        tried = Tried(f"{settled!r}"[:100])
        cells = math.prod(settled.cells)
        claims = {
            batched: [
                (nodes, shift_or_none(nodes.strategy, settled.contribution(batched=batched), cells))
                for nodes in every
            ]
            for batched in (False, True)
        }
        changes_of = cache(partial(exact_changes, settled))
        seen: set[tuple[bool, bytes]] = set()
        for stream in some(streams(settled, events), share):
            batched = max(map(len, stream)) > 1
            for other in neighbours(stream, settled, events):
                change = changes_of(stream) - changes_of(other)
                tried.pairs += 1
                if (batched, change.tobytes()) in seen:
                    continue
                seen.add((batched, change.tobytes()))
                for nodes, shift in claims[batched]:
                    if shift is not None:
                        tried.hold(change, nodes, shift, (nodes.strategy, stream, other))
        yield tried


# ------------------------------------------------------------------------------------- 3 people
#: What a job promises of a person's rows, and how its nights get theirs: all so far, or new ones.
BOUNDS: list[dict[str, Any]] = [
    {"max_contributions": 1},
    {"max_contributions": 2},
    {"max_contributions": 1, "contribution_period": "2h"},
    {"max_contributions": 2, "contribution_period": "2h"},
    {"max_contributions": 2, "max_contributions_per_window": 1},
    {"max_contributions": 3, "max_contributions_per_window": 2, "contribution_period": "4h"},
    {"max_contributions": 2, "once_per_window": True},
    {"max_contributions": 1, "distinct_users": True},
]
PROMISES = [{**bound, "append": append} for bound in BOUNDS for append in (False, True)]
#: A row: in which night's file it comes (0 or 1), its hour (two hours end each night), its group.
Row = tuple[int, int, str]
#: Others, who have one row each.
OTHERS: list[Row] = [(0, 0, "n"), (0, 1, "s"), (1, 2, "n"), (1, 3, "s")]
ROWS: list[Row] = [(night, hour, group) for night in (0, 1) for hour in range(4) for group in "ns"]


def released(rows: Sequence[tuple[str, Row]], promise: Mapping[str, Any]) -> tuple[Changes, Any]:
    """Run a job over two nights of rows; return the released change of each step and cell, and the
    contribution.

    Noise is so narrow that it rounds to nothing.

    Args:
        rows: pairs of a user and a row.
        promise: options of the job that bound a user's rows.
    """
    from counton.run import Job, run  # rows need more packages than contributions do
    from counton.state import Store

    with TemporaryDirectory() as folder:
        for night in (0, 1):
            there = [
                f"{user},2026-01-01T0{hour}:00:00,{group},{number}\n"
                for number, (user, (when, hour, group)) in enumerate(rows)
                if when == night or (when < night and not promise["append"])
            ]
            path = Path(folder, f"{night}.csv")
            path.write_text("user,at,group,night\n" + "".join(there))
            job = Job(
                "count", path, Path(folder, "state.db"), time="at", every="1h", windows=4,
                start="2026-01-01", until=f"2026-01-01T0{2 * night + 2}:00", epsilon=10**7,
                strategy="binary", group_by="group", groups="n,s", user="user",
                allow_empty_windows=True, **promise,
            )  # fmt: skip
            with run(job) as outcome:
                said = outcome.spec.contribution
            with Store(str(job.state)) as store:
                stored = store.reader(outcome.name).releases()
                values = np.asarray(stored.values, np.int64)
    return np.diff(values, axis=0, prepend=0), said


def try_people(share: float = 1.0) -> Iterator[Tried]:
    """Try up to three rows of one person in the files of two nights, in every way; yield the result
    for each bound.

    Args:
        share: fraction of the ways that is tried, spread evenly over all.
    """
    nodes = next(one for one in strategies(4) if type(one.strategy) is Binary)
    others = [(f"other {number}", row) for number, row in enumerate(OTHERS)]
    ways = [way for many in (1, 2, 3) for way in combinations_with_replacement(ROWS, many)]
    for promise in PROMISES:
        without, _ = released(others, promise)
        tried = Tried(f"people: {promise}")
        # What is promised may be promised of a person's rows in one period alone.
        whole = not promise.get("contribution_period")
        mine = [way for way in ways if whole or len({hour // 2 for _, hour, _ in way}) == 1]
        for way in some(mine, share):
            with_them, said = released([*others, *(("ann", row) for row in way)], promise)
            tried.pairs += 1
            tried.hold(with_them - without, nodes, sensitivity_of(nodes.strategy, said, (2,)), way)
        yield tried


# ---------------------------------------------------------------------------------- 4 deliveries
class Delivered(NamedTuple):
    """A row of the files of three nights.

    Attributes:
        nights: the nights whose files contain the row.
        hour: hour of the row's time; two hours end each night.
        group, user, id: values of the row.
    """

    nights: tuple[int, ...]
    hour: int
    group: str
    user: str = "-"
    id: str = "-"


NIGHTS = (0, 1, 2)
#: In each way in which a row may be in files of all events, and in one of new ones.
IN_NIGHTS = [way for many in (1, 2, 3) for way in combinations(NIGHTS, many)]
IN_ONE: list[tuple[int, ...]] = [(night,) for night in NIGHTS]
#: Rows of others in files of all events: steady ones, some that vanish, some that come late.
OTHERS_OF_ALL = [
    *(Delivered(NIGHTS[hour // 2 :], hour, group) for hour in range(6) for group in "ns"),
    Delivered((0,), 0, "n"), Delivered((1, 2), 0, "n"), Delivered((2,), 1, "s"),
    Delivered((0, 2), 1, "s"), Delivered((0, 1), 2, "n"), Delivered((2,), 2, "n"),
]  # fmt: skip
OTHERS_OF_NEW = [
    Delivered((night,), hour, group)
    for night in NIGHTS for hour in range(2 * night + 2) for group in "ns"
]  # fmt: skip
#: The same, each of a user and with an id of its own; and some who use the unit's id.
NAMED_OF_ALL, NAMED_OF_NEW = (
    [row._replace(user=f"u{number % 5}", id=f"{number}") for number, row in enumerate(rows)]
    for rows in (OTHERS_OF_ALL, OTHERS_OF_NEW)
)
SAME_ID = [
    Delivered((0, 2), 0, "n", "ann", "w"), Delivered((1,), 2, "n", "bob", "x"),
    Delivered((2,), 4, "s", "ann", "x"),
]  # fmt: skip
OF_A_USER: dict[str, Any] = {"user": "user", "max_contributions": 2}
OF_HOURS: dict[str, Any] = {
    "user": "user",
    "max_contributions": 1,
    "contribution_period": "2h",
    "row_id": "id",
}
REPORT: dict[str, Any] = {
    "statistics": {
        "n": {"statistic": "count", "group_by": "group", "groups": ["n", "s"]},
        "users": {"statistic": "distinct"},
    },
}


class Door(NamedTuple):
    """One way in which rows reach a job: the kind of files, and the protected unit.

    Attributes:
        options: options of the job, and as "what" its statistic.
        others: rows that exist with and without the unit.
        nights: for a row of the unit, the possible sets of nights whose files contain it.
        many: largest number of the unit's rows.
        hours: possible hours of the unit's rows; if the unit is a user's period, the hours of one
            period.
    """

    options: dict[str, Any]
    others: list[Delivered]
    nights: list[tuple[int, ...]]
    many: int = 1
    hours: range = range(6)


DOORS: dict[str, Door] = {
    "all events": Door({}, OTHERS_OF_ALL, IN_NIGHTS),
    "new events": Door({"append": True}, OTHERS_OF_NEW, IN_ONE),
    "all events, ids": Door({"row_id": "id"}, NAMED_OF_ALL, IN_NIGHTS, 2),
    "new events, ids": Door({"row_id": "id", "append": True}, NAMED_OF_NEW, IN_NIGHTS, 2),
    "all events, users": Door(OF_A_USER, NAMED_OF_ALL, IN_NIGHTS, 3),
    "new events, users": Door({**OF_A_USER, "append": True}, NAMED_OF_NEW, IN_NIGHTS, 3),
    "all events, a user's hours, ids": Door(
        OF_HOURS, NAMED_OF_ALL + SAME_ID, IN_NIGHTS, 2, range(2, 4)
    ),
    "new events, a user's hours, ids": Door(
        {**OF_HOURS, "append": True}, NAMED_OF_NEW + SAME_ID, IN_NIGHTS, 2, range(2, 4)
    ),
    "all events, report of users": Door({**OF_A_USER, **REPORT}, NAMED_OF_ALL, IN_NIGHTS, 3),
    "new events, report of users": Door(
        {**OF_A_USER, **REPORT, "append": True}, NAMED_OF_NEW, IN_NIGHTS, 3
    ),
    "all events, distinct users": Door(
        {**OF_A_USER, "what": "distinct"}, NAMED_OF_ALL, IN_NIGHTS, 3
    ),
    "new events, distinct users": Door(
        {**OF_A_USER, "what": "distinct", "append": True}, NAMED_OF_NEW, IN_NIGHTS, 3
    ),
}  # fmt: skip
#: Of each night how its file writes times: the same moments.
ZONES = ("Z", "+05:30", "-08:00")


def delivered(rows: Sequence[Delivered], options: Mapping[str, Any]) -> tuple[Changes, Any]:
    """Run a job over the files of three nights; return the change of each step and cell before
    noise, and the design.

    Files differ in the order of rows, in the time zone and in compression, which must not matter.

    Args:
        rows: the rows.
        options: options of the job.
    """
    from counton.run import Job, run  # rows need more packages than contributions do
    from counton.state import Store

    with TemporaryDirectory() as folder:
        for night in NIGHTS:
            zone = ZONES[night]
            lines = [
                f"{row.user},{_at(row.hour, number, zone)},{row.group},{row.id},{night}\n"
                for number, row in enumerate(rows)
                if night in row.nights
            ]
            text = "user,at,group,id,night\n" + "".join(lines[::-1] if night % 2 else lines)
            path = Path(folder, f"{night}.csv{'.gz' * (night == 1)}")
            path.write_bytes(gzip.compress(text.encode()) if night == 1 else text.encode())
            by = {} if "statistics" in options else {"group_by": "group", "groups": "n,s"}
            what = "report" if "statistics" in options else "count"
            job = Job(
                options.get("what", what), path, Path(folder, "state.db"),
                time="at", every="1h", windows=6, start="2026-01-01", strategy="binary",
                until=f"2026-01-01T0{2 * night + 2}:00", epsilon=10**7, allow_empty_windows=True,
                **{name: one for name, one in {**by, **options}.items() if name != "what"},
            )  # fmt: skip
            with run(job) as outcome:
                name = outcome.name
            with Store(str(job.state)) as store:
                reader = store.reader(name)
                design = reader.design
                values = np.asarray(reader.releases().values, float)
    values = np.rint(values / float(design.units.exact)).reshape(len(values), -1)
    return np.diff(values, axis=0, prepend=0), design


def _at(hour: int, minute: int, zone: str) -> str:
    """Write a time, given its hour and minute in UTC, in a zone such as "+05:30"."""
    east = 0 if zone == "Z" else int(zone[:3]) * 60 + int(zone[0] + zone[4:])
    days, rest = divmod(60 * hour + minute + east, 1440)
    day = "2025-12-31" if days < 0 else "2026-01-01"
    return f"{day}T{rest // 60:02}:{rest % 60:02}:00{zone}"


def try_deliveries(share: float = 1.0) -> Iterator[Tried]:
    """Try one unit's rows in the files of some nights, in every way, beside other rows that come
    and go; yield the result for each `Door`.

    Args:
        share: fraction of the ways that is tried, spread evenly over all, but at least `LEAST_WAYS`
            ways.
    """
    nodes = next(one for one in strategies(6) if type(one.strategy) is Binary)
    for name, door in DOORS.items():
        kinds = [
            Delivered(nights, hour, group, "ann", "x")
            for nights in door.nights for hour in door.hours for group in "ns"
        ]  # fmt: skip
        ways = [
            way
            for many in range(1, door.many + 1)
            for way in combinations_with_replacement(kinds, many)
        ]
        without, design = delivered(door.others, door.options)
        claimed = sensitivity_of(nodes.strategy, design.contribution, design.shape)
        tried = Tried(f"deliveries: {name}")
        for way in some(ways, max(share, min(1.0, LEAST_WAYS / len(ways)))):
            change = delivered([*door.others, *way], door.options)[0] - without
            tried.pairs += 1
            tried.hold(change, nodes, claimed, way)
        yield tried


#: So many ways of each door are taken, whatever the share.
LEAST_WAYS = 4


# --------------------------------------------------------------------------- 5 rows that are steps
USERS_OF_ROWS = [f"user {number}" for number in range(16)]
#: Statistics that count after each row, each with events that it may meet.
EACH_ROW: list[tuple[counted.Statistic, Sequence[Any]]] = [
    (counted.Distinct(), USERS_OF_ROWS),
    (counted.TopK(["a", "b"], 1), ["a", "b"]),
    (counted.Edges(), [*combinations("abcdefg", 2)]),
    (counted.Substrings("ab", 2), "ab"),
    (counted.Episodes("ab", 2), "ab"),
]
#: Rows of a stream; so many at most where all streams are tried.
ROWS_OF_STREAMS = (4, 8, 32)
ALL_OF_THEM = 8


def try_rows() -> Iterator[Tried]:
    """Try streams in which each row is a step; yield two results for each statistic and length.

    The first result is for the promised neighbours. The second is for one more row in the middle,
    which nobody promises to hide; it only shows how far the change goes. Streams: all short ones of
    two kinds of rows, and one in which each kind comes twice in a row.
    """
    for (statistic, events), rows in product(EACH_ROW, ROWS_OF_STREAMS):
        nodes = next(one for one in strategies(rows) if type(one.strategy) is Binary)
        settled = statistic.resolve_parameters(PureDP(1), rows)
        shift = shift_or_none(nodes.strategy, settled.contribution(), math.prod(settled.cells))
        assert shift is not None
        changes_of = cache(partial(exact_changes, settled))
        promised = Tried(f"{settled!r}, {rows} rows: as promised")
        moved = Tried(f"{settled!r}, {rows} rows: one more in the middle")
        twice = [event for event in events for _ in range(2)] * rows
        every = product(events[:2], repeat=rows if rows <= ALL_OF_THEM else 0)
        for stream in (*filter(None, every), tuple(twice[:rows])):
            steps: Stream = tuple((event,) for event in stream)
            ends = steps[:-1] if settled.of_letters else (*steps[:-1], ())
            end = np.zeros_like(changes_of(steps))
            end[: len(ends)] = changes_of(ends)
            for change in (
                changes_of(steps) - end,
                *(
                    changes_of(steps) - changes_of(one)
                    for one in neighbours(steps, settled, events)
                ),
            ):
                promised.pairs += 1
                promised.hold(change, nodes, shift, stream)
            for place, event in product(range(rows - 1), events[:2]):
                other = (*steps[:place], (event,), *steps[place:-1])
                moved.pairs += 1
                moved.look(changes_of(steps) - changes_of(other), nodes, shift)
        yield from (promised, moved)


def main() -> None:
    """Try everything, or the named parts, and print the results.

    ``python -m tools.brute_force [contributions] [statistics] [people] [deliveries] [rows]
    [--share=1]``
    """
    named = [word for word in sys.argv[1:] if not word.startswith("-")]
    shares = [float(word.removeprefix("--share=")) for word in sys.argv[1:] if word not in named]
    parts: dict[str, Callable[[], Iterator[Tried]]] = {
        "contributions": try_contributions,
        "statistics": lambda: try_statistics(*shares),
        "people": lambda: try_people(*(shares or [0.05])),
        "deliveries": lambda: try_deliveries(*(shares or [0.02])),
        "rows": try_rows,
    }
    for part in named or parts:
        for tried in parts[part]():
            print(tried, flush=True)  # noqa: T201


if __name__ == "__main__":
    main()
