"""Sparse streams: answers by enumeration, errors as stated, nothing refused that would tell."""

import json
import math
from dataclasses import replace
from fractions import Fraction
from itertools import product
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from counton import ContributionBound, Counter, Key
from counton.base.distributions import DiscreteLaplace
from counton.base.errors import HorizonExceededError, InvalidInputError, NoiseKeyError, StateError
from counton.continual.checkpoint import StreamProgress, read_checkpoint, write_checkpoint
from counton.privacy import ZCDP, ApproxDP, Guarantee, PureDP
from counton.strategies import Binary
from papers.constants.error_quantiles import fewest_runs, largest_error_of_totals
from papers.constants.sparse import SparseCounter, SparseDesign, plan_sparse

#: Closing costs 1/2, the counter 1/2.
SMALL = SparseDesign(
    horizon=4, ones=4, guarantee=PureDP(1), contribution=ContributionBound.add_remove(),
    closing=Fraction(1, 2), threshold=2, segments=2, strategy=Binary(2),
)  # fmt: skip


def _magnitude(design: SparseDesign, reach: int) -> NDArray[np.float64]:
    """P(|X| = r) for r < reach."""
    q = math.exp(-1 / float(design.closing_distribution.scale))
    masses = np.array([2 * (1 - q) / (1 + q) * q**r for r in range(reach)])
    masses[0] /= 2
    return masses


def _answers(
    design: SparseDesign, stream: tuple[int, ...], *, fresh: bool = True, restart: bool = True
) -> dict[tuple[int, ...], float]:
    """Probability of every sequence of closings, by its definition, noise by noise.

    Args:
        fresh: whether each segment has a threshold of its own; else it is exact.
        restart: whether a segment begins with nothing in it.
    """
    reach = 120
    masses = _magnitude(design, reach)
    above = np.append(np.cumsum(masses[::-1])[::-1], 0.0)  # P(|X| >= r)

    def exceeds(count: int) -> NDArray[np.float64]:
        """P(count + nu >= threshold + rho) for each rho."""
        least = np.clip(design.threshold + np.arange(reach) * fresh - count, 0, reach)
        return above[least]

    found: dict[tuple[int, ...], float] = {}
    open_at: dict[tuple[int, ...], float] = {(): 1.0}
    while open_at:
        closings, so_far = open_at.popitem()
        begin = (closings[-1] + 1) if closings else 0
        if len(closings) == design.segments:
            found[closings] = found.get(closings, 0.0) + so_far
            continue
        below = masses / masses.sum()
        for step in range(begin, len(stream)):
            count = sum(stream[begin if restart else 0 : step + 1])
            reached = exceeds(count)
            here = float((below * reached).sum())
            open_at[*closings, step] = so_far * here
            below = below * (1 - reached)
        found[closings] = found.get(closings, 0.0) + so_far * float(below.sum())
    return found


def _loss(design: SparseDesign, **changed: bool) -> float:
    """Largest log-ratio of answers over neighbouring streams."""
    largest = 0.0
    for stream in product(range(3), repeat=design.horizon):
        one = _answers(design, stream, **changed)
        assert sum(one.values()) == pytest.approx(1)
        for step in range(design.horizon):
            more = tuple(x + (i == step) for i, x in enumerate(stream))
            other = _answers(design, more, **changed)
            assert one.keys() == other.keys()
            for closings, here in one.items():
                if min(here, other[closings]) == 0.0 < max(here, other[closings]):
                    return math.inf
                if here:
                    largest = max(largest, abs(math.log(here / other[closings])))
    return largest


def test_sparse_answers_lose_exactly_stated_epsilon() -> None:
    """Over all streams of 0, 1 and 2, all places of one more, and all sequences of answers."""
    design = replace(SMALL, horizon=3)
    assert 0.95 * 0.5 < _loss(design) <= 0.5 * (1 + 1e-9)
    # Exact thresholds, or segments that remember what was before, lose more.
    assert _loss(design, fresh=False) > 0.6
    assert _loss(design, restart=False) > 0.6


class _Table:
    """Noise from a table instead of a key."""

    def __init__(self, of_segments: list[int], of_steps: list[int]) -> None:
        self._levels = (of_segments, of_steps)

    def run(self, level: int, nodes: range) -> NDArray[np.int64]:
        """See `NoiseField.run`; nodes count from 1."""
        return np.array([self._levels[level][node - 1] for node in nodes], np.int64)


def test_segments_close_as_defined(monkeypatch: pytest.MonkeyPatch) -> None:
    """With the same noise, against a loop over steps; in batches too."""
    rng = np.random.default_rng(1)
    design = replace(SMALL, horizon=40, threshold=6, segments=5, strategy=Binary(5))
    never = 0
    for _ in range(30):
        of_segments = rng.integers(-4, 5, 6).tolist()
        of_steps = rng.integers(-4, 5, 40).tolist()
        stream = rng.integers(0, 2, 40).tolist()
        expected: list[int] = []
        held: list[int] = []
        waiting = 0
        for step, x in enumerate(stream):
            waiting += x
            if len(held) < 5:
                limit = 6 + abs(of_segments[len(held)])
                if waiting + abs(of_steps[step]) >= limit:
                    held.append(waiting)
                    waiting = 0
            expected.append(len(held))
        counter = SparseCounter(design, key=Key.generate(), name="alarms")
        monkeypatch.setattr(counter, "_field", _Table(of_segments, of_steps))
        cut = int(rng.integers(0, 41))
        parts = [counter.release_many(stream[:cut]), counter.release_many(stream[cut:])]
        assert [*parts[0].closed, *parts[1].closed] == expected
        assert counter._done.waiting == waiting
        assert counter._done.taken == sum(stream)
        never += len(held) < 5
    assert 0 < never < 30


def test_ones_that_close_segment_are_not_in_next() -> None:
    design = replace(SMALL, horizon=3, segments=2)
    counter: Any = SparseCounter(design, key=Key.generate(), name="alarms")
    counter._field = _Table([0, 0], [5, 0, 0])
    assert counter.release_many([0, 0, 0]).closed.tolist() == [1, 1, 1]


def test_sparse_counts_are_unbiased_with_stated_deviation() -> None:
    """After the last segment, over 200 keys: the exact total of closed segments plus noise."""
    design = replace(SMALL, horizon=60, threshold=4, segments=3, strategy=Binary(3))
    errors = []
    for _ in range(200):
        counter = SparseCounter(design, key=Key.generate(), name="alarms")
        last = counter.release_many([1] * 60)[-1]
        assert last.full
        errors.append(last.counted - (counter._done.taken - counter._done.waiting))
    # Binary(3) reads 2 nodes of height 2, epsilon = 1/2.
    std = math.sqrt(2 * 0.5 / math.sinh(0.5 / 4) ** 2)
    assert abs(np.mean(errors)) < 4 * std / math.sqrt(200)
    assert np.std(errors) == pytest.approx(std, rel=0.2)


@pytest.mark.parametrize("guarantee", [PureDP(2), ZCDP(2)], ids=lambda g: type(g).__name__)
def test_sparse_errors_stay_within_bound(guarantee: Guarantee) -> None:
    """Of streams that keep the promise, in bursts and evenly, at all steps at once."""
    rng = np.random.default_rng(3)
    found = plan_sparse(4000, 150, guarantee)
    design = found.design
    kept = 0
    largest = []
    for run in range(20):
        stream = np.zeros(4000, int)
        where = rng.integers(0, 4000, 150) if run % 2 else np.arange(150) + 1000
        np.add.at(stream, where, 1)
        counter = SparseCounter(design, key=Key.generate(), name="alarms")
        releases = counter.release_many(stream)
        errors = np.abs(releases.values - np.cumsum(stream))
        largest.append(errors.max())
        kept += bool(errors.max() <= design.largest_error)
        for place in (0, 1200, 3999):
            low, high = releases[place].interval()
            assert high - low == pytest.approx(2 * design.counter_error + design.lag)
    assert kept >= 17  # at least 2/3 by the union bound, nearly all in truth
    assert np.median(largest) > design.largest_error / 3


def test_sparse_counter_with_excess_ones_closes_segments_and_continues() -> None:
    counter = SparseCounter(SMALL, key=Key.generate(), name="alarms")
    releases = counter.release_many([10**6] * 4)
    assert releases.closed.tolist() == [1, 2, 2, 2]
    assert [release.full for release in releases] == [False, True, True, True]
    assert releases[1].counted == releases[3].counted
    assert releases[3].interval()[1] == math.inf
    assert "nothing is counted any more" in releases[3].describe()
    assert abs(releases[3].counted - 2 * 10**6) < 300


def test_resumed_sparse_counter_releases_same_values() -> None:
    design = plan_sparse(500, 100, PureDP(4)).design
    key = Key.generate()
    stream = np.tile([0, 0, 1, 0, 0], 100)
    whole = SparseCounter(design, key=key, name="alarms").release_many(stream)
    first = SparseCounter(design, key=key, name="alarms")
    start = [first.release(x) for x in stream[:203].tolist()]
    saved = first.checkpoint()
    second = SparseCounter.resume(saved, key=key)
    rest = second.release_many(stream[203:])
    assert [r.counted for r in start] + rest.counted.tolist() == whole.counted.tolist()
    assert [r.closed for r in start] + rest.closed.tolist() == whole.closed.tolist()
    assert whole.closed[-1] > 1
    assert SparseDesign.from_dict(design.to_dict()) == design
    # Another name, or another threshold, is other noise, of segments and of their counter.
    for other in (
        SparseCounter(design, key=key, name="others"),
        SparseCounter(replace(design, threshold=design.threshold + 1), key=key, name="alarms"),
    ):
        assert other._counter.key_fingerprint != first._counter.key_fingerprint
    with pytest.raises(NoiseKeyError):
        SparseCounter.resume(saved, key=Key.generate())
    with pytest.raises(StateError):
        SparseCounter.resume(saved[:-20], key=key)


def test_sparse_counter_refuses_invalid_input_before_release() -> None:
    counter = SparseCounter(SMALL, key=Key.generate(), name="alarms")
    for wrong, error in (
        ([0, -1], InvalidInputError),
        ([0.5], InvalidInputError),
        ([[1]], InvalidInputError),
        ([0] * 5, HorizonExceededError),
    ):
        with pytest.raises(error):
            counter.release_many(wrong)
        assert counter.step == 0
    with pytest.raises(InvalidInputError, match="leaves no epsilon"):
        replace(SMALL, closing=Fraction(1))
    with pytest.raises(InvalidInputError, match="counts in one step"):
        replace(SMALL, contribution=ContributionBound.add_remove(steps=2))
    with pytest.raises(InvalidInputError, match="2 segments"):
        replace(SMALL, strategy=Binary(1))
    with pytest.raises(InvalidInputError, match="tails are known"):
        plan_sparse(10**9, 10, PureDP(1))


def test_shares_add_up_to_the_guarantee() -> None:
    """The counter's part and that of closing, which is epsilon^2 / 2 in rho."""
    for guarantee in (PureDP(1), ApproxDP(1, 1e-6), ZCDP(0.5)):
        design = replace(SMALL, guarantee=guarantee)
        rest = design.rest
        if isinstance(guarantee, ZCDP):
            assert isinstance(rest, ZCDP)
            assert rest.rho + design.closing**2 / 2 == guarantee.rho
        else:
            assert isinstance(rest, type(guarantee))
            assert rest.epsilon + design.closing == guarantee.epsilon
    heavy = replace(SMALL, contribution=ContributionBound.add_remove(per_cell=3))
    assert heavy.closing_distribution.scale == 6


@pytest.mark.long
def test_plan_sparse_states_range_of_better_counter() -> None:
    found = plan_sparse(10**4, 100, PureDP(3))
    assert found.wins is not None
    least, most = found.wins
    for ones, best in ((least - 1, "constant"), (least, "sparse"), (most + 1, "plain")):
        assert plan_sparse(10**4, ones, PureDP(3)).best == best
    assert f"about {least:,} to {most:,} ones" in str(found)
    assert "never the best" in str(plan_sparse(100, 50, ZCDP(0.5)))


def test_stated_error_of_sparse_counter_is_tight() -> None:
    """A union bound promised 56 where 39 is measured, and the planner took the plain one at 52."""
    found = plan_sparse(8760, 500, PureDP(1))
    assert found.best == "sparse"
    said = found.sparse_quantile
    proven = found.design.largest_error
    assert said.lower <= said.value <= said.upper < 0.82 * proven
    assert str(said) in str(found)
    assert f"{proven:,.4g}" in str(found)
    rng = np.random.default_rng(3)
    within = np.zeros(3)
    for _ in range(30):
        streams = (
            np.bincount(rng.integers(0, 8760, 500), minlength=8760),
            np.repeat([1, 0], [500, 8260]),
            np.where(np.arange(8760) % 584 < 3, 11, 0),  # in bursts, 495 in all
        )
        for i, stream in enumerate(streams):
            counter = SparseCounter(found.design, key=Key.generate(), name="s")
            errors = counter.release_many(stream).values - np.cumsum(stream)
            within[i] += np.abs(errors).max() <= said.value
    assert (within >= 0.6 * 30).all()
    crowded = replace(found.design, ones=10**6)
    assert crowded.error_quantile().value == math.inf


def test_stated_error_of_plain_counter_is_tight() -> None:
    """Fresh noise of the same plain counter stays within what is said, about as often as said."""
    found = plan_sparse(500, 60, PureDP(2))
    said = found.plain_quantile
    bound = found.plain.errors.largest_error(2 / 3)
    largest = []
    for _ in range(40):
        counter = Counter(found.plain.strategy, PureDP(2), key=Key.generate(), name="s")
        largest.append(float(np.abs(counter.release_many([0] * 500).values).max()))
    within = [sum(error <= limit for error in largest) for limit in (said.value, bound)]
    assert 13 <= within[0] <= 38  # 27 of 40, by the runs of both
    assert within[1] >= 34  # the union bound holds nearly always
    # Few runs say little, and say so; none are made where they would have to be many.
    few = largest_error_of_totals(Binary(7), DiscreteLaplace(Fraction(9)), 7, 0.9, runs=5)
    assert few.upper == math.inf
    assert fewest_runs(0.9) == 36
    assert plan_sparse(10**6, 500, PureDP(1), probability=0.9).plain_quantile.runs == 0


def test_an_interrupted_release_counts_nothing_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whether the interruption comes before, or after the counter has taken the segments in."""
    design = replace(SMALL, horizon=40, ones=40, threshold=3, segments=9, strategy=Binary(9))
    key = Key.generate()
    clean = SparseCounter(design, key=key, name="s").release_many([1] * 40)
    assert clean.closed[-1] > 2
    counter = SparseCounter(design, key=key, name="s")
    counter.release_many([1] * 4)
    saved = counter.checkpoint()

    def interrupted(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    for place in ("concatenate", "searchsorted"):  # both after the counter's release
        with monkeypatch.context() as patched:
            real = counter._counter.release_many
            taken: list[int] = []

            def released(held: list[int], real: Any = real, taken: Any = taken) -> Any:
                taken.append(len(held))
                found = real(held)
                patched.setattr(np, place, interrupted)  # noqa: B023
                return found

            patched.setattr(counter._counter, "release_many", released)
            with pytest.raises(KeyboardInterrupt):
                counter.release_many([1] * 36)
            assert taken
        assert counter.step == 4
        assert counter.checkpoint() == saved
    again = counter.release_many([1] * 36)
    assert again.counted.tolist() == clean.counted[4:].tolist()
    assert again.closed.tolist() == clean.closed[4:].tolist()
    # A checkpoint whose counter has taken more in than the segments that closed is refused.
    state = read_checkpoint(saved)
    wrong = StreamProgress(state.step, state.sums + np.array([1, 0]), np.zeros(0, np.int64))
    with pytest.raises(StateError, match="closed segments"):
        SparseCounter.resume(
            write_checkpoint(
                json.dumps(state.design, sort_keys=True), state.key_fingerprint, wrong
            ),
            key=key,
        )


def test_crowded_sparse_design_states_infinite_error() -> None:
    design = plan_sparse(4000, 150, PureDP(2)).design
    assert math.isfinite(design.largest_error)
    room = design.least_in_segment * (design.segments + 1)
    assert math.isfinite(replace(design, ones=room - 1).largest_error)
    crowded = replace(design, ones=room)
    assert crowded.largest_error == math.inf
    release = SparseCounter(crowded, key=Key.generate(), name="s").release(0)
    assert "errors without a bound" in release.describe()
    low, high = release.interval()
    assert low <= 0 <= high < math.inf


@pytest.mark.parametrize("guarantee", [PureDP(800), ApproxDP(800, 1e-6), ZCDP(10**9)], ids=repr)
def test_guarantees_that_hide_nothing_plan_without_a_warning(guarantee: Guarantee) -> None:
    assert "all errors within" in plan_sparse(200, 20, guarantee).describe()
