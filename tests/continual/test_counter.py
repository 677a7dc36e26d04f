"""One at a time, in batches of any size or resumed in the middle: the same values to the bit."""

import math
import pickle
import sys
import time
from collections import deque
from concurrent.futures import ThreadPoolExecutor
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from keys import chosen_key
from programs import run_program

from counton import Counter, Key, plan
from counton.base.distributions import DiscreteGaussian
from counton.base.errors import (
    HorizonExceededError,
    InvalidInputError,
    NoiseKeyError,
    StateError,
    SumOverflowError,
)
from counton.base.private import reveal
from counton.continual.checkpoint import read_checkpoint
from counton.privacy import (
    ZCDP,
    ContributionBound,
    ExpiringDP,
    ExpiringZCDP,
    PureDP,
)
from counton.strategies import (
    Binary,
    Epochs,
    Expiring,
    GrowingBlocks,
    GrowingCascade,
    GrowingSquareRoot,
    HonakerOnline,
    Independent,
    KAry,
    LeastSquaresStrategy,
    SmoothBinary,
    SqrtToeplitz,
    StreamStrategy,
)
from counton.tables import Hats

KEY = chosen_key()
STEPS = 250
STRATEGIES: list[StreamStrategy] = [
    Binary(STEPS),
    KAry(STEPS, 5, subtraction=True),
    KAry(STEPS, 4, subtraction=True),
    KAry(STEPS, 3, subtraction=False),
    SmoothBinary.best(STEPS, norm=2),
    HonakerOnline(STEPS),
    SqrtToeplitz(STEPS),
    LeastSquaresStrategy(Hats(STEPS, (8, 64), ([40] * 33, [60] * 5), bits=8)),
    LeastSquaresStrategy(Hats(21, (4,), ([70] * 7,), bits=8), (4, 3), (2, 3, 1), horizon=STEPS),
]
#: Of windows, and without a last step.
OTHERS: list[StreamStrategy] = [
    GrowingCascade(8),
    Epochs(),
    GrowingSquareRoot(),
    GrowingBlocks(block=16),
]


def name(value: object) -> str:
    return repr(value)


def counter(strategy: StreamStrategy, **options: Any) -> Counter:
    options = {"guarantee": ZCDP(0.5), "name": "visits", "key": KEY, **options}
    return Counter(strategy, options.pop("guarantee"), **options)


def inputs(shape: tuple[int, ...]) -> np.ndarray[Any, Any]:
    return np.random.default_rng(5).integers(0, 9, (STEPS, *shape))


@pytest.mark.parametrize("shape", [(), (1,), (7,), (2, 3)], ids=str)
@pytest.mark.parametrize("strategy", [*STRATEGIES, *OTHERS], ids=name)
def test_any_way_of_cutting_a_stream_gives_the_same_bits(
    strategy: StreamStrategy, shape: tuple[int, ...]
) -> None:
    xs = inputs(shape)
    batch = counter(strategy, shape=shape).release_many(xs)
    single = counter(strategy, shape=shape)
    one_by_one = [single.release(x) for x in xs]
    assert [r.step for r in one_by_one] == list(batch.steps)
    assert (np.array([r.value for r in one_by_one]) == batch.values).all()
    assert np.array([r.std for r in one_by_one]) == pytest.approx(batch.std(), rel=1e-12)
    saved = counter(strategy, shape=shape)
    parts = []
    at = 0
    for size in (1, 0, 30, 2, 100, STEPS):
        saved = Counter.resume(saved.checkpoint(), key=KEY)
        parts.append(saved.release_many(xs[at : at + size]).values)
        at += size
    assert (np.concatenate(parts) == batch.values).all()


@pytest.mark.parametrize(("values", "shape"), [(False, (7,)), (True, (2, 3))], ids=str)
@pytest.mark.parametrize("strategy", STRATEGIES, ids=name)
def test_wide_step_released_in_parts_equals_whole(
    strategy: StreamStrategy, values: bool, shape: tuple[int, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    contribution = (
        ContributionBound.values(0, 50, "0.01") if values else ContributionBound.add_remove()
    )
    xs = inputs(shape)[:20]
    options = {"shape": shape, "contribution": contribution}
    whole = counter(strategy, **options).release_many(xs)
    for most in ("_CELLS_AT_ONCE", "_MOST_NUMBERS_AHEAD"):
        monkeypatch.setattr(f"counton.continual.noise_cache.{most}", 4)
    some = counter(strategy, **options)
    each = np.array([some.release(x).value for x in xs])
    assert each.dtype == whole.values.dtype
    assert (each == whole.values).all()
    again = Counter.resume(some.checkpoint(), key=KEY)
    after = counter(strategy, **options).release_many(inputs(shape)[:21]).values[-1]
    assert (again.release(inputs(shape)[20]).value == after).all()


@pytest.mark.parametrize("strategy", STRATEGIES, ids=name)
def test_noise_has_the_stated_standard_deviation(strategy: StreamStrategy) -> None:
    cells = 4000
    zeros = np.zeros((STEPS, cells), np.int64)
    releases = counter(strategy, shape=(cells,)).release_many(zeros)
    measured = releases.values.astype(float).std(axis=1)
    assert measured / releases.std() == pytest.approx(1, abs=6 / math.sqrt(2 * cells))


@pytest.mark.parametrize("strategy", STRATEGIES, ids=name)
def test_a_neighbour_shifts_releases_by_its_prefix_sums_only(strategy: StreamStrategy) -> None:
    """Same noise, different data: releases differ by exactly the difference of the sums."""
    one = inputs(())
    two = inputs(())
    two[17] += 1
    difference = (
        counter(strategy).release_many(two).values - counter(strategy).release_many(one).values
    )
    assert difference == pytest.approx((np.arange(STEPS) >= 17).astype(float), abs=1e-9)


@pytest.mark.parametrize(
    "change",
    [
        {"name": "clicks"},
        {"guarantee": ZCDP(0.6)},
        {"contribution": ContributionBound.replace()},
        {"key": chosen_key(bytes(32))},
    ],
    ids=str,
)
def test_another_stream_budget_or_key_never_meets_the_same_noise(change: dict[str, Any]) -> None:
    zeros = np.zeros(60, np.int64)
    for strategy in [*STRATEGIES, *OTHERS]:
        usual = counter(strategy).release_many(zeros).values
        other = counter(strategy, **change).release_many(zeros).values
        assert (usual == other).mean() < 0.5


def test_clipped_sums_are_released_in_data_units() -> None:
    contribution = ContributionBound.values(0, 50, resolution=0.01)
    values = contribution.clip([3.217, 49, 120])
    stream = counter(Binary(100), contribution=contribution, guarantee=PureDP(1000))
    release = stream.release(values.sum())
    assert abs(release.value - 102.22) < 8 * release.std
    assert round(release.value * 100, 9) == pytest.approx(round(release.value * 100), abs=1e-6)
    assert release.std == pytest.approx(math.sqrt(2) * 7 * 50 / 1000, rel=1e-3)
    exact = counter(Binary(100), contribution=contribution, guarantee=PureDP(1000))
    assert exact.release(Fraction(10222, 100)).value == release.value


BAD_STEPS: list[tuple[Any, str]] = [
    (float("nan"), "finite|float"), (float("inf"), "finite|float"),
    (2.0, "ContributionBound.values"),
    (-1, "negative count"), ([1, 2], "shape"), ("3", "numbers"), (None, "type|number"),
    (1j, "numbers"), ([[1], [2, 3]], "array|shape"), (2**63, "2\\^62"), (10**30, "2\\^62"),
]  # fmt: skip


@pytest.mark.parametrize(("bad", "message"), BAD_STEPS, ids=lambda v: str(v)[:20])
def test_bad_input_is_refused_and_nothing_changes(bad: Any, message: str) -> None:
    stream = counter(Binary(100))
    stream.release_many([1, 2, 3])
    before = stream.checkpoint()
    with pytest.raises(InvalidInputError, match=message):
        stream.release(bad)
    with pytest.raises(InvalidInputError):
        stream.release_many([1, bad, 2])
    assert stream.checkpoint() == before
    assert stream.release(4).value == counter(Binary(100)).release_many([1, 2, 3, 4]).values[-1]


def test_truth_values_are_not_counts() -> None:
    with pytest.raises(InvalidInputError, match="numbers"):
        counter(Binary(10)).release(True)
    with pytest.raises(InvalidInputError, match="True at position 1"):
        counter(Binary(10)).release_many([1, True])


@pytest.mark.parametrize("shape", [(1,), (4,), (3, 1), (2, 3, 1)], ids=str)
def test_wrong_shapes_are_refused(shape: tuple[int, ...]) -> None:
    stream = counter(Binary(100), shape=(3,))
    with pytest.raises(InvalidInputError, match=r"takes \(3,\)"):
        stream.release(np.ones(shape, np.int64))
    with pytest.raises(InvalidInputError, match="shape"):
        stream.release_many(np.ones(shape, np.int64))
    with pytest.raises(InvalidInputError, match="shape"):
        stream.release_many(5)
    assert stream.step == 0


@pytest.mark.parametrize("shape", [(), (2,), (2, 3)])
def test_counter_of_single_windows_keeps_no_totals(shape: tuple[int, ...]) -> None:
    """Whatever the shape: an export or a job of several groups asks for it too."""
    counter = Counter(Independent(8), PureDP(1), key=KEY, name="own counts", shape=shape)
    counter.release_many(np.ones((3, *shape), np.int64))
    assert not reveal(counter.totals_taken).size


@pytest.mark.parametrize("windows", [False, True])
def test_exact_totals_are_integers(windows: bool) -> None:
    stream = counter(Independent(8) if windows else Binary(8))
    wrong: list[Any] = [np.array([1.5]), np.array([True]), np.array([1], np.int32)]
    for bad in wrong:
        with pytest.raises(InvalidInputError, match=f"type {bad.dtype}; give integer multiples"):
            stream.release_exact(bad)
    with pytest.raises(InvalidInputError, match="negative count"):
        stream.release_exact(np.array([-1]))
    with pytest.raises(SumOverflowError):
        stream.release_exact(np.array([2**63 - 1]))
    assert stream.step == 0


def test_steps_beyond_the_horizon_are_refused() -> None:
    stream = counter(Binary(5))
    stream.release_many([1, 1, 1])
    before = stream.checkpoint()
    with pytest.raises(
        HorizonExceededError, match=r"step 6 is after the last of the 5 steps \(2 are left"
    ):
        stream.release_many([1, 1, 1])
    assert stream.checkpoint() == before
    stream.release_many([1, 1])
    with pytest.raises(HorizonExceededError, match="more steps"):
        stream.release(1)


@pytest.mark.parametrize("strategy", [Binary(10), SqrtToeplitz(10)], ids=name)
def test_sums_beyond_the_exact_range_are_refused(strategy: StreamStrategy) -> None:
    largest = 2**61 >> strategy.facts.fraction_bits
    stream = counter(strategy)
    stream.release(largest // 2)
    before = stream.checkpoint()
    with pytest.raises(SumOverflowError, match="give a coarser resolution"):
        stream.release_many([largest // 4, largest // 2, 1])
    with pytest.raises(SumOverflowError):
        stream.release(largest)
    assert stream.checkpoint() == before
    stream.release(largest // 4)


def test_a_batch_whose_middle_overflows_is_refused() -> None:
    signed = ContributionBound.values(-(2**39), 2**39, resolution=1)
    stream = counter(Binary(10), contribution=signed)
    with pytest.raises(SumOverflowError):
        stream.release_many([2**60, 2**60, 2**60, -(2**60), -(2**60)])
    for count in (1, 7):  # wraps int64 on the second step
        with pytest.raises(SumOverflowError):
            stream.release_many([2**62] * count)
    assert stream.step == 0
    stream.release_many([2**60, 2**59, -(2**60), -(2**60)])
    assert stream.step == 4


@pytest.mark.parametrize("shape", [3, [0], (-1,), (2.0,), "ab", b"a", (2**32,), (True,)], ids=str)
def test_bad_shapes_of_a_stream_are_refused(shape: Any) -> None:
    with pytest.raises(InvalidInputError, match="tuple of positive integers"):
        counter(Binary(10), shape=shape)


def test_bad_arguments_are_refused() -> None:
    with pytest.raises(InvalidInputError, match=r"Key\.generate"):
        counter(Binary(10), key=b"secret")
    with pytest.raises(InvalidInputError, match="not empty"):
        counter(Binary(10), name="")
    with pytest.raises(InvalidInputError, match=r"KAry\.best"):
        counter("binary")  # type: ignore[arg-type]


def test_checkpoints_are_verified() -> None:
    stream = counter(Binary(100), shape=(2,))
    stream.release([1, 2])
    saved = stream.checkpoint()
    with pytest.raises(NoiseKeyError, match="but the given key is"):
        Counter.resume(saved, key=chosen_key(bytes(32)))
    with pytest.raises(StateError, match="version of counton that wrote it"):
        Counter.resume(saved.replace(b"checkpoint-3", b"checkpoint-2"), key=KEY)
    assert KEY._secret not in saved
    assert KEY._secret.hex().encode() not in saved


@pytest.mark.parametrize("strategy", [Binary(50), Expiring(1, delay=4)], ids=name)
def test_checkpoint_restores_counter_and_rejects_each_altered_bit(
    strategy: StreamStrategy,
) -> None:
    expires = isinstance(strategy, Expiring)
    options = {"shape": (7,), "guarantee": ExpiringDP(0.5) if expires else PureDP(1)}
    stream = counter(strategy, **options)
    xs = inputs((7,))[:20]
    xs[3, 2] = 2**40
    stream.release_many(xs[:12])
    packed = stream.checkpoint()
    resumed = Counter.resume(packed, key=KEY)
    assert resumed.design == stream.design  # a later version may calibrate better
    assert read_checkpoint(packed).agrees_with(read_checkpoint(resumed.checkpoint()))
    after = resumed.release_many(xs[12:]).values
    assert not read_checkpoint(packed).agrees_with(read_checkpoint(resumed.checkpoint()))
    assert (after == stream.release_many(xs[12:]).values).all()
    for place in (*range(0, len(packed), 7), len(packed) - 1):
        altered = bytearray(packed)
        altered[place] ^= 1
        with pytest.raises(StateError):
            Counter.resume(bytes(altered), key=KEY)
    for cut in (b"", packed[:-1], packed[:60], packed + b"0", b"\xff" + packed):
        with pytest.raises(StateError):
            Counter.resume(cut, key=KEY)


def test_description_states_unit_guarantee_and_strategy() -> None:
    words = counter(KAry(8760, 13, subtraction=True), guarantee=PureDP(1)).describe()
    for part in ("one unit", "added or removed", "epsilon = 1", "KAry", "standard deviation"):
        assert part in words


def test_texts_of_counter_hide_the_key() -> None:
    stream = counter(Binary(10))
    for text in (repr(stream), stream.describe(), str(stream.design), repr(stream.release(1))):
        assert KEY._secret.hex() not in text


class MakesAMaskedArray:
    """As data frames of some libraries do."""

    def __array__(self, dtype: object = None, copy: object = None) -> np.ma.MaskedArray:
        return np.ma.array([1, 777, 3], mask=[False, True, False])


@pytest.mark.parametrize(
    "hidden",
    [
        np.ma.array([1, 777, 3], mask=[False, True, False]),
        [1, np.ma.array(777, mask=True), 3],
        (1, np.ma.masked, 3),
        np.array([1, np.ma.array(777, mask=True), 3], dtype=object),
        MakesAMaskedArray(),
        deque([1, np.ma.array(777, mask=True), 3]),
    ],
    ids=["array", "list", "constant", "objects", "__array__", "deque"],
)
def test_masked_totals_are_refused(hidden: Any) -> None:
    """What a mask hides is missing, not a number."""
    stream = counter(Binary(100), shape=(3,))
    for attempt in (
        lambda: stream.release(hidden),
        lambda: stream.release_many([[1, 2, 3], hidden]),
        lambda: stream.release_many([hidden]),
    ):
        with pytest.raises(InvalidInputError, match="1 masked values"):
            attempt()
    singles: list[Any] = [np.ma.masked, np.ma.array(777, mask=True)]
    for single in singles:
        with pytest.raises(InvalidInputError, match="1 masked values"):
            counter(Binary(100)).release(single)
    assert stream.step == 0
    assert stream.release([np.ma.array(1), 2, np.int64(3)]).step == 1
    assert stream.release(np.ma.array([1, 2, 3])).step == 2


@pytest.mark.parametrize("dtype", ["i1", "u1", ">i4", "u8", "O"])
def test_every_integer_type_and_layout_gives_the_same_bits(dtype: str) -> None:
    xs = inputs((2, 3))
    expected = counter(Binary(STEPS), shape=(2, 3)).release_many(xs).values
    forms = [xs.astype(dtype), np.asfortranarray(xs.astype(dtype)), np.repeat(xs, 2, axis=0)[::2]]
    for form in forms:
        form.flags.writeable = False
        stream = counter(Binary(STEPS), shape=(2, 3))
        assert (stream.release_many(form).values == expected).all()


def test_release_of_int_equals_release_of_array() -> None:
    """A count that is an int of Python is released without arrays."""
    key = Key.generate()
    of_ints, of_arrays = (Counter(Binary(200), PureDP(1), key=key, name="a") for _ in range(2))
    for count in [3, 0, 2**40, *range(100)]:
        release = of_ints.release(count)
        other = of_arrays.release(np.array(count))
        assert (release.step, release.value, release.std) == (other.step, other.value, other.std)
        assert type(release.value) is type(other.value)
        assert of_ints.checkpoint() == of_arrays.checkpoint()
    resumed = Counter.resume(of_ints.checkpoint(), key=key)
    assert resumed.release(5).value == of_arrays.release(np.array(5)).value


@pytest.mark.parametrize("shape", [(), (3,), (40,)], ids=str)
@pytest.mark.parametrize("strategy", STRATEGIES, ids=name)
def test_counter_copies_inputs_and_returns_read_only_outputs(
    strategy: StreamStrategy, shape: tuple[int, ...]
) -> None:
    xs = inputs(shape)
    expected = counter(strategy, shape=shape).release_many(xs).values
    stream = counter(strategy, shape=shape)
    for first, stop in ((0, 5), (5, 6), (6, 7), (7, 60), (60, 61)):
        given = xs[first:stop].copy()
        values = (
            stream.release_many(given).values
            if stop - first > 1
            else np.asarray(stream.release(given[0]).value)[None]
        )
        assert (values == expected[first:stop]).all()
        given[...] = 99
        if stop - first > 1 or shape:  # a number is nobody's array
            assert not values.flags.writeable


def test_releases_refer_to_no_exact_sum_or_key() -> None:
    """Releases may be kept, copied and sent; the counter's exact sums must not travel with them."""
    stream = counter(Binary(10), shape=(2,))
    releases = stream.release_many(np.full((3, 2), 123_456_789))
    sent = pickle.loads(pickle.dumps(releases))  # noqa: S301
    assert (sent.values == releases.values).all()
    assert (sent.std() == releases.std()).all()
    reachable: list[Any] = [releases]
    seen = set()
    while reachable:
        thing = reachable.pop()
        if id(thing) in seen or isinstance(thing, type):
            continue
        seen.add(id(thing))
        assert not isinstance(thing, (Counter, Key)), "published numbers hold what is secret"
        inside = vars(thing).values() if hasattr(thing, "__dict__") else ()
        slots = (getattr(thing, name, None) for name in getattr(type(thing), "__slots__", ()))
        reachable += [*inside, *slots]


def test_counter_and_plan_refuse_invalid_contribution() -> None:
    wrong: Any = 5
    with pytest.raises(InvalidInputError, match=r"^contribution is 5; give"):
        counter(Binary(3), contribution=wrong)
    with pytest.raises(InvalidInputError, match=r"^contribution is 5; give"):
        plan(3, PureDP(1), contribution=wrong)


def test_shapes_may_be_lists_of_any_integers() -> None:
    one, other = (
        Counter(Binary(3), PureDP(1), key=KEY, name="shape", shape=shape)  # type: ignore[arg-type]
        for shape in ((2, 3), [np.int64(2), 3])
    )
    assert one.shape == other.shape == (2, 3)
    assert one.design == other.design
    assert plan(3, PureDP(1), shape=[2, 3]).best.shape == (2, 3)


@pytest.mark.parametrize(
    ("bounds", "total"), [((0, 10), -5), ((3, 10), -1), ((-10, 0), 1), ((-10, -3), 7)]
)
def test_totals_no_values_add_up_to_are_refused(bounds: tuple[int, int], total: int) -> None:
    sums = counter(Binary(9), contribution=ContributionBound.values(*bounds, resolution=1))
    sums.release(-total)
    with pytest.raises(InvalidInputError, match=rf"input {total}(\.0)? at step 2 .*values lie in"):
        sums.release(total)
    assert sums.step == 1


def test_forks_cannot_release() -> None:
    """A fork is a copy: parent and child would show the same noise over their own data."""
    program = """
import os
from counton import Counter, CountonError, Key, PureDP
from counton.strategies import Binary
counter = Counter(Binary(10), PureDP(1), key=Key.generate(), name="forked")
counter.release(1)
if os.fork() == 0:
    for release in (lambda: counter.release(100), lambda: counter.release_many([100])):
        try:
            print(release(), flush=True)
        except CountonError as error:
            print(type(error).__name__, "fork" in str(error), flush=True)
    os._exit(0)
os.wait()
print(counter.release(1).step)
"""
    done = run_program([sys.executable, "-c", program], check=True)
    assert done.stdout.split() == ["ConcurrentWriterError", "True"] * 2 + ["2"]


def test_threads_never_release_the_same_noise_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where two steps have the same noise, their difference is that of the data."""
    stream = counter(Binary(100))
    original = stream._lookahead.parts

    def slow(steps: range) -> Any:
        time.sleep(0.01)
        return original(steps)

    monkeypatch.setattr(stream._lookahead, "parts", slow)
    with ThreadPoolExecutor(4) as pool:
        releases = list(pool.map(stream.release, [0] * 12))
    releases.sort(key=lambda release: release.step)
    assert [release.step for release in releases] == list(range(1, 13))
    expected = counter(Binary(100)).release_many([0] * 12).values
    assert [release.value for release in releases] == expected.tolist()


@pytest.mark.parametrize(("of", "failing"), [(Binary, "_expand"), (Binary, "variance")])
def test_failed_release_leaves_counter_unchanged(
    of: type, failing: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    stream = counter(Binary(100))
    before = stream.checkpoint()

    def broken(*arguments: Any) -> Any:
        raise MemoryError

    with monkeypatch.context() as patch:
        patch.setattr(of, failing, broken)
        with pytest.raises(MemoryError):
            stream.release(1)
    assert stream.checkpoint() == before
    assert stream.release(1).value == counter(Binary(100)).release(1).value


def test_counter_refuses_noise_too_large_for_fixed_point() -> None:
    """Failing later would depend on noise alone, not on measurements: that is not private."""
    wide = ContributionBound.values(0, 2**30, resolution=1)
    with pytest.raises(InvalidInputError, match="HonakerOnline"):
        counter(HonakerOnline(1000), guarantee=PureDP(1), contribution=wide)
    counter(Binary(1000), guarantee=PureDP(1), contribution=wide).release(1)


@pytest.mark.parametrize(("guarantee", "factor"), [(ExpiringDP(1), 2), (ExpiringZCDP(1), 4)])
def test_units_of_two_events_have_twice_the_noise_under_expiration(
    guarantee: Any, factor: int
) -> None:
    def variance(steps: int) -> float:
        counter = Counter(
            Expiring(1), guarantee, key=Key.generate(), name="visits",
            contribution=ContributionBound.add_remove(steps=steps),
        )  # fmt: skip
        distribution: Any = counter.design.distribution
        return float(getattr(distribution, "scale", None) or distribution.sigma_squared)

    assert variance(2) == factor * variance(1)


def test_several_steps_of_unit_increase_noise_variance() -> None:
    visitor = ContributionBound.add_remove(steps=3, separation=4, unit="visitor")
    distributions = [
        Counter(
            Binary(16), ZCDP(0.5), key=Key.generate(), name="visits", contribution=contribution
        ).design.distribution
        for contribution in (ContributionBound.add_remove(), visitor)
    ]
    assert distributions == [DiscreteGaussian(Fraction(5)), DiscreteGaussian(Fraction(21))]
    assert "one visitor" in str(visitor)
