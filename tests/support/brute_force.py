"""The truth about a statistic, found by trying: norms over neighbours, steps taken in parts."""

import itertools
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import numpy as np

from counton import Key
from counton.continual import StepRelease
from counton.noise import NoiseField
from counton.privacy import Guarantee
from counton.statistics import Exact, RunningStatistic, Statistic, unit_sensitivity
from counton.statistics.results import result_of_release
from counton.statistics.statistic import restore
from counton.strategies import Binary, KAry, SmoothBinary, SqrtToeplitz, StreamStrategy, matrices
from counton.strategies.strategy import node_distribution


def small_strategies(horizon: int) -> list[StreamStrategy]:
    """One of each kind that claims are compared over."""
    kary = KAry(horizon, 3, True), KAry(horizon, 2, False)
    return [Binary(horizon), *kary, SmoothBinary.best(horizon), SqrtToeplitz(horizon)]


def one_replaced(
    events: Iterable[Any], horizon: int, instead: Iterable[Any] = ([],)
) -> Iterator[tuple[list[Any], list[Any]]]:
    """All streams of one event a step, each beside those in which one is another, or absent."""
    for stream in itertools.product(events, repeat=horizon):
        for step, other in itertools.product(range(horizon), instead):
            yield list(stream), [*stream[:step], other, *stream[step + 1 :]]


def check_sensitivity(
    statistic: Statistic,
    horizon: int,
    neighbours: Iterable[tuple[Sequence[Any], Sequence[Any]]],
    *,
    batched: bool = False,
    slack: float = 1.0,
) -> list[tuple[float, float]]:
    """What is claimed is never below the truth, and at most ``slack`` times it; returns ratios."""
    strategies = small_strategies(horizon)
    ratios = []
    for strategy, true in zip(
        strategies, largest_norms(statistic, strategies, neighbours), strict=True
    ):
        unit = 2.0**strategy.facts.lattice_bits
        assert min(true) > 0
        found = [unit_sensitivity(statistic, strategy, p, batched=batched) for p in (1, 2)]
        for claimed, exact in zip(found, true, strict=True):
            assert exact * (1 - 1e-12) <= claimed <= exact * slack * (1 + 1e-6), (strategy, unit)
        ratios.append((found[0] / true[0], found[1] / true[1]))
    return ratios


def scores(
    statistic: Statistic,
    strategy: StreamStrategy,
    guarantee: Guarantee,
    batches: Sequence[Sequence[Any]],
    keys: int,
) -> np.ndarray[Any, Any]:
    """Noise of all released cells in standard deviations: shape (keys, steps, cells)."""
    exact = changes_of(statistic, [list(batch) for batch in batches]).cumsum(axis=0)
    stops = np.cumsum([len(batch) for batch in batches])
    events = [event for batch in batches for event in batch]
    found = []
    for number in range(keys):
        running = RunningStatistic.start(
            statistic, guarantee=guarantee, key=Key.generate(), name=str(number), strategy=strategy,
            batched=True,
        )  # fmt: skip
        releases = running.release_batches(events, stops).releases
        assert releases is not None
        noise = releases.values.reshape(len(batches), -1) - exact
        found.append(noise / releases.std()[:, None])
    return np.array(found)


def simulated(
    running: RunningStatistic, exact: np.ndarray[Any, Any] | int, step: int, runs: int
) -> Iterator[Any]:
    """Readings of a step with these exact totals in grid units, as so many other keys give them."""
    terms = running.design
    statistic = running.statistic
    field = NoiseField(
        Key.generate().derive(b"runs", b""),
        lambda level: node_distribution(terms.strategy, terms.distribution, level),
        (runs, *terms.shape),
    )
    released = terms.strategy.noise(field, range(step, step + 1))[0]
    values = terms.to_data(released + (np.asarray(exact) << terms.strategy.facts.fraction_bits))
    std = float(terms.errors.std(range(step, step + 1))[0])
    for value in values:
        yield result_of_release(statistic, StepRelease(step, value, std, terms))


def check_scores(found: np.ndarray[Any, Any]) -> None:
    """Mean 0 and variance 1 at each step, so closely that 2/5 more variance is seen.

    Args:
        found: independent along all axes but the second, the steps.
    """
    by_step = np.moveaxis(found, 1, 0).reshape(found.shape[1], -1)
    count = by_step.shape[1]
    assert count >= 600
    assert np.abs(by_step.mean(axis=1)).max() * np.sqrt(count) < 4
    # The variance of a square is 2 for normal and 5 for Laplace noise.
    assert np.abs((by_step**2).mean(axis=1) - 1).max() < 4 * np.sqrt(5 / count)


def changes_of(statistic: Statistic, stream: Sequence[Any]) -> np.ndarray[Any, Any]:
    """What a stream changes, each event (or list of events, for a batch) in a step of its own.

    Shape (steps, cells), also where cells are read on demand.
    """
    batches = [event if isinstance(event, list) else [event] for event in stream]
    events = [event for batch in batches for event in batch]
    stops = np.cumsum([len(batch) for batch in batches], dtype=np.int64)
    exact = statistic.begin()
    changes = exact.take(events, stops)
    if not statistic.on_demand:
        return changes.reshape(len(batches), -1)
    cells = np.arange(int(np.prod(statistic.cells)))
    totals = np.array([exact.counts(cells, step) for step in range(1, len(batches) + 1)])
    return np.diff(totals, axis=0, prepend=0)


def largest_norms(
    statistic: Statistic,
    strategies: Iterable[StreamStrategy],
    neighbours: Iterable[tuple[Sequence[Any], Sequence[Any]]],
) -> list[tuple[float, float]]:
    """For each strategy the largest 1- and 2-norm of C d over pairs of streams of equal length."""
    measured = [np.asarray(matrices(strategy)[1], float) for strategy in strategies]
    best = [(0.0, 0.0)] * len(measured)
    seen: set[bytes] = set()
    for one, other in neighbours:
        change = changes_of(statistic, one) - changes_of(statistic, other)
        if change.tobytes() in seen:
            continue
        seen |= {change.tobytes(), (-change).tobytes()}
        for place, enters in enumerate(measured):
            moved = enters[:, : len(change)] @ change
            norms = float(np.abs(moved).sum()), float(np.sqrt((moved**2).sum()))
            best[place] = tuple(map(max, best[place], norms))  # type: ignore[assignment]
    return best


def check_exact(statistic: Statistic, stream: Sequence[Any]) -> None:
    """One by one, at one go, undone, saved and restored: always the same counts."""
    whole = changes_of(statistic, stream)
    stops = np.arange(1, 2, dtype=np.int64)
    exact = statistic.begin()
    found = []
    for event in stream:
        batch = event if isinstance(event, list) else [event]
        ends = stops * len(batch)
        first = exact.take(batch, ends)
        saved = exact.save()
        exact.undo()
        again = exact.take(batch, ends)
        assert (first == again).all()
        assert exact.save() == saved
        exact = restore(statistic, saved)
        found.append(first.reshape(-1))
    if statistic.on_demand:
        _check_counts(statistic, exact, whole)
    else:
        np.testing.assert_array_equal(np.array(found), whole)


def _check_counts(statistic: Statistic, exact: Exact, whole: np.ndarray[Any, Any]) -> None:
    cells = np.arange(whole.shape[1])
    for step in range(1, len(whole) + 1):
        np.testing.assert_array_equal(exact.counts(cells, step), whole[:step].sum(axis=0))
