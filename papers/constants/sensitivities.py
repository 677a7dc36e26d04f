"""Section 5: what one protected unit moves, as printed, as claimed by counton, and by trying."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from counton.statistics import Statistic
from counton.statistics.statistic_plan import unit_sensitivity
from counton.strategies import SqrtToeplitz, matrices
from papers.constants.numbers import psi_star
from papers.evidence import Comparison

_WHY = "the columns of C are not orthogonal: changes of several steps add up in its nodes"


def moved(changes: Iterable[NDArray[np.int64]], steps: int) -> float:
    """Largest squared 2-norm of C d over these differences, shape (steps, cells), in Psi*(T).

    >>> round(moved([np.eye(4, 1, dtype=np.int64)], 4), 6)
    1.0
    """
    measured = np.asarray(matrices(SqrtToeplitz(steps))[1], dtype=np.float64)
    largest = max(float(((measured @ change) ** 2).sum()) for change in changes)
    return largest / psi_star(steps)


def histogram() -> Iterator[Comparison]:
    """Corollary 2: a step is a set of at most b of u items."""
    most = 2
    for items, kinds, found in ((5, (0, 1), "4"), (3, (0, 1), "3"), (4, (-1, 0, 1), "8")):
        steps = [
            np.array(step)
            for step in itertools.product(kinds, repeat=items)
            if np.abs(step).sum() <= most
        ]
        pairs = [one - other for one, other in itertools.combinations(steps, 2)]
        what = "{-1, 0, 1}" if -1 in kinds else "{0, 1}"
        yield Comparison(
            "Corollary 2", f"squared norm in Psi*, b = {most} of {items} items in {what}",
            f"{most}", moved((np.outer(np.eye(6)[0], pair) for pair in pairs), 6), expected=found,
            tolerance=1e-5, spread=1e-5,
            note="b is that of a step added or removed; neighbours are defined as one step "
            "replaced: min(2b, u), and 4b with removals",
        )  # fmt: skip
    single = (np.outer(np.eye(6)[0], step) for step in ([1, 0, 0, 0, 0], [1, 1, 0, 0, 0]))
    yield Comparison(
        "Corollary 2", "squared norm in Psi*, a set of 2 items added or removed", "2",
        moved(single, 6), tolerance=1e-5,
    )  # fmt: skip


def cuts() -> Iterator[Comparison]:
    """Corollary 1: a step adds a weight to an edge of a graph, here one of three."""

    def updates(weights: tuple[int, ...]) -> list[NDArray[np.int64]]:
        return [weight * edge for weight in weights for edge in np.eye(3, dtype=np.int64)]

    def same_edge(one: NDArray[np.int64], other: NDArray[np.int64]) -> bool:
        return bool((one != 0).tolist() == (other != 0).tolist()) or not (one.any() and other.any())

    for what, place, weights, fixed, found, note in (
        ("weight of a fixed edge in [0, 1]", "Corollary 1", (0, 1), True, "", ""),
        ("any edge with weight in [0, 1]", "Corollary 1", (0, 1), False, "2",
         "neighbours are said to differ in weight; if the edge may differ too, two counts change"),
        ("weight of a fixed edge in [-1, 1]", "Remark 2", (-1, 0, 1), True, "4",
         "the remark extends the result to these weights; a weight then moves by 2"),
    ):  # fmt: skip
        pairs = itertools.combinations(updates(weights), 2)
        differing = (one - other for one, other in pairs if not fixed or same_edge(one, other))
        yield Comparison(
            place, f"squared norm in Psi*, {what}", "1",
            moved((np.outer(np.eye(6)[0], change) for change in differing), 6),
            tolerance=1e-5, note=note, expected=found, spread=1e-5,
        )  # fmt: skip


def covered() -> Iterator[Comparison]:
    """Corollaries 1 and 2, section 1.2: what counton covers, against all neighbouring streams."""
    from counton.statistics import Average, Cuts, TopK

    pairs = list(itertools.combinations(range(3), 2))
    signed = [(*pair, weight) for pair in pairs for weight in (-1, 1)]
    sets = [list(some) for size in (1, 2) for some in itertools.combinations("abc", size)]
    bits = Average(0, 1, resolution=1, number=1)
    for place, what, statistic, events, replaced, steps in (
        ("Corollary 1", "edges of 3 vertices", Cuts(3), pairs, False, 4),
        ("Corollary 1", "edges that may be others", Cuts(3, neighbours="replace"), pairs, True, 4),
        ("Remark 2", "weights in [-1, 1]",
         Cuts(3, lower=-1, upper=1, resolution=1, neighbours="replace"), signed, True, 3),
        ("Corollary 2", "sets of up to 2 of 3 items", TopK(list("abc"), cells=2), sets, False, 3),
        ("Corollary 2", "sets that may be others", TopK(list("abc"), cells=2, neighbours="replace"),
         sets, True, 3),
        ("Section 1.2", "bits of an average", bits, [0, 1], True, 6),
    ):  # fmt: skip
        true = by_events(statistic, events, steps, replaced=replaced)
        yield _claimed(place, f"{what}, T = {steps}", true, _claim(statistic, steps))


def by_events(statistic: Statistic, events: Sequence[Any], steps: int, *, replaced: bool) -> float:
    """Largest squared norm over all streams of so many steps, one of which is another.

    Args:
        statistic: which.
        events: all that a step can be.
        steps: of a stream.
        replaced: by an event that is another; else by none.
    """

    def differences() -> Iterator[NDArray[np.int64]]:
        for stream in itertools.product(events, repeat=steps):
            changes = changes_of(statistic, [[event] for event in stream])
            for place in range(steps):
                for other in [[event] for event in events] if replaced else [[]]:
                    there = [[event] for event in stream]
                    there[place] = list(other)
                    yield changes - changes_of(statistic, there)

    return moved(differences(), steps)


def _claim(statistic: Statistic, steps: int) -> float:
    """What counton covers, squared and in Psi*."""
    return unit_sensitivity(statistic, SqrtToeplitz(steps), 2) ** 2 / psi_star(steps)


def _claimed(place: str, what: str, true: float, claim: float) -> Comparison:
    return Comparison(
        place, f"squared norm in Psi* by trying, at most what counton covers, {what}",
        f"{claim * (1 + 1e-8):.9g}", true, at_most=True,
        own=True,
        note=f"not printed: what counton covers, {claim / true:.3f} times the truth",
    )  # fmt: skip


def changes_of(statistic: Statistic, steps: Sequence[Sequence[Any]]) -> NDArray[np.int64]:
    """By how much the events of each step change each cell: shape (steps, cells)."""
    exact = statistic.begin()
    events = [event for step in steps for event in step]
    stops = np.cumsum([len(step) for step in steps])
    changes: NDArray[np.int64] = exact.take(events, stops)
    if not statistic.on_demand:
        return changes.reshape(len(steps), -1)
    cells = np.arange(math.prod(statistic.cells))
    totals = np.array([exact.counts(cells, step) for step in range(len(steps) + 1)])
    changes = totals[1:] - totals[:-1]
    return changes


def by_letters(statistic: Statistic, letters: str, steps: int) -> float:
    """Largest squared norm over all streams of so many letters, one of which is another."""
    found = {
        stream: changes_of(statistic, list(stream))
        for stream in map("".join, itertools.product(letters, repeat=steps))
    }

    def differences() -> Iterator[NDArray[np.int64]]:
        for stream, changes in found.items():
            for place, letter in itertools.product(range(steps), letters):
                if letter > stream[place]:
                    yield changes - found[stream[:place] + letter + stream[place + 1 :]]

    return moved(differences(), steps)


def words() -> Iterator[Comparison]:
    """Corollaries 4 and 5: a letter of a stream is another."""
    from counton.statistics import Episodes, Substrings

    for kind, letters, longest, steps, found in (
        (Substrings, "ab", 2, 7, "6.88886"),
        (Substrings, "ab", 3, 7, "14.66119"),
        (Episodes, "ab", 2, 7, ""),
        (Episodes, "ab", 3, 7, ""),
        (Episodes, "abc", 2, 5, ""),
    ):
        statistic = kind(alphabet=letters, longest=longest)
        printed = longest**2
        place = "Corollary 4"
        if kind is Episodes:
            printed = 4 * len(letters) ** (longest - 1) * longest
            place = "Corollary 5"
        what = f"{kind.__name__.lower()} up to {longest} of {letters}, T = {steps}"
        true = by_letters(statistic, letters, steps)
        yield from _both(place, what, printed, true, _claim(statistic, steps), found)


def _both(
    place: str, what: str, printed: float, true: float, claim: float, found: str = ""
) -> Iterator[Comparison]:
    """The printed norm against the true one, and the true one against counton's."""
    yield Comparison(
        place, f"squared norm in Psi* by trying, {what}", f"{printed:g}", true, at_most=True,
        expected=found, note=_WHY if found else "",
    )  # fmt: skip
    yield _claimed(place, what, true, claim)


def graphs() -> Iterator[Comparison]:
    """Corollary 3: six edges of four vertices, one a step in any order, and one of them missing."""
    from counton.statistics import Degrees, Edges, Forest, Stars, Triangles

    steps = 32
    pairs = list(itertools.combinations(range(4), 2))
    weighted = [(*pair, 1 + place % 2) for place, pair in enumerate(pairs)]
    for statistic, what, edges in (
        (Edges(), "number of edges", pairs),
        (Triangles(3), "triangles, degree up to 3", pairs),
        (Stars(3, 2), "2-stars, degree up to 3", pairs),
        (Degrees(3), "degree histogram up to 3", pairs),
        (Forest(largest=2), "minimum spanning forest, weights 1 and 2", weighted),
    ):
        differences: dict[bytes, NDArray[np.int64]] = {}
        for order in itertools.permutations(edges):
            stream = [[edge] for edge in order] + [[]] * (steps - len(order))
            whole = changes_of(statistic, stream)
            own = order.index(edges[0])
            change = whole - changes_of(statistic, [*stream[:own], [], *stream[own + 1 :]])
            differences[change.tobytes()] = change
        apart = max(float((change**2).sum()) for change in differences.values())
        true = moved(differences.values(), steps)
        claim = _claim(statistic, steps)
        yield from _both("Corollary 3", f"{what}, T = {steps}", apart, true, claim)
