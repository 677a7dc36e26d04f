"""The noise of a run: its law, its addresses, shards, crashes, and what is refused."""

import math
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from keys import chosen_key

from counton import ZCDP, ApproxDP, ExpiringDP, ExpiringZCDP, Key, PureDP
from counton.base.errors import HorizonExceededError, InvalidInputError, StateError
from counton.noise.normals import COORDINATES_PER_BLOCK
from counton.training import TrainingNoise, noise_multiplier
from counton.training.strategies import (
    BandedInverseSquareRoot,
    BufferedToeplitz,
    Echo,
    OctaveTraining,
    TrainingStrategy,
    training_schedule,
)
from papers.dense_optimum import dense_optimum

STRATEGIES: list[Callable[[], TrainingStrategy]] = [
    lambda: BufferedToeplitz(12, (0.9, 0.5), (0.7, 0.2), training_schedule(12, 3)).with_scaling(
        "equal"
    ),
    lambda: Echo(12, (0.9, 0.5), (0.7, 0.2), 0.2, 0.6, training_schedule(12, 3)).with_scaling(
        "free"
    ),
    lambda: OctaveTraining.fit(12, 3),
    lambda: BandedInverseSquareRoot(12, 4, training_schedule(12, 3)),
    lambda: dense_optimum(12, 3),
]


@pytest.fixture(scope="module")
def key() -> Key:
    return chosen_key()


def noise_of(strategy: TrainingStrategy, key: Key, **more: Any) -> TrainingNoise:
    terms: dict[str, Any] = {"key": key, "name": "run", "guarantee": ZCDP(0.5)}
    return TrainingNoise(strategy, **terms | more)


@pytest.mark.parametrize("make", STRATEGIES)
def test_noise_is_the_matrix_times_the_normals(
    make: Callable[[], TrainingStrategy], key: Key
) -> None:
    """Every step's noise is std * K z, with z read at its addresses: the joint law is K K^T."""
    strategy = make()
    noise = noise_of(strategy, key)
    size = 7
    made = np.array([noise.read(step, "w", size) for step in range(1, 13)])
    matrix, nodes = strategy.increments()
    field = noise._parameters["w", 0, size].field
    normals = np.array([field.read(level, index) for level, index in nodes])
    assert np.allclose(made, noise.std * matrix @ normals, rtol=0, atol=2e-5 * noise.std)


@pytest.mark.parametrize("make", STRATEGIES[:4])
@pytest.mark.parametrize("shards", [1, 2, 4])
def test_shards_have_the_bits_of_the_whole(
    make: Callable[[], TrainingStrategy], shards: int, key: Key
) -> None:
    strategy = make()
    size = COORDINATES_PER_BLOCK + 1001
    whole = noise_of(strategy, key)
    parts = [noise_of(strategy, key) for _ in range(shards)]
    ends = [size * number // shards for number in range(shards + 1)]
    zeros = np.zeros(size)
    for step in (1, 2):
        wanted = whole.add(step, {"w": zeros})["w"]
        got = [
            part.add(step, {"w": zeros[a:b]}, shards={"w": (a, size)})["w"]
            for part, a, b in zip(parts, ends, ends[1:], strict=False)
        ]
        assert (np.concatenate(got) == wanted).all()


@pytest.mark.parametrize("make", STRATEGIES[2:4])
def test_noise_without_buffers_depends_on_key_and_step_only(
    make: Callable[[], TrainingStrategy], key: Key
) -> None:
    first = noise_of(make(), key)
    in_order = [first.read(step, "w", 9) for step in range(1, 13)]
    for step in (12, 3, 7):
        assert (noise_of(make(), key).read(step, "w", 9) == in_order[step - 1]).all()


@pytest.mark.parametrize("make", STRATEGIES[:2])
def test_buffers_are_resumed_from_a_checkpoint_or_drawn_again(
    make: Callable[[], TrainingStrategy], key: Key
) -> None:
    first = noise_of(make(), key)
    zeros = {"a": np.zeros(5), "b": np.zeros((2, 3))}
    for step in range(1, 6):
        first.add(step, zeros)
    state = first.state_dict()
    wanted = [first.add(step, zeros) for step in (6, 7)]
    loaded = noise_of(make(), key)
    replayed = noise_of(make(), key)
    loaded.load_state_dict(state)
    replayed.resume(6)
    for step, right in zip((6, 7), wanted, strict=True):
        for again in (loaded, replayed):
            found = again.add(step, zeros)
            assert all((found[name] == right[name]).all() for name in zeros)


def test_load_state_dict_refuses_state_of_other_or_broken_run(key: Key) -> None:
    noise = noise_of(STRATEGIES[0](), key)
    noise.read(1, "w", 4)
    state = noise.state_dict()
    for other in (
        noise_of(STRATEGIES[0](), chosen_key(bytes(32))),
        noise_of(STRATEGIES[0](), key, name="other"),
        noise_of(STRATEGIES[0](), key, guarantee=ZCDP(1)),
        noise_of(STRATEGIES[1](), key),
    ):
        with pytest.raises(StateError, match="or to other settings"):
            other.load_state_dict(state)
    with pytest.raises(StateError, match="format"):
        noise.load_state_dict(state | {"format": 99})
    with pytest.raises(StateError):
        noise.load_state_dict({"format": 1})


def test_keys_names_budgets_and_parameters_have_noise_of_their_own(key: Key) -> None:
    strategy = STRATEGIES[0]()
    base = noise_of(strategy, key).read(1, "w", 999)
    others = [
        noise_of(strategy, chosen_key(bytes(32))).read(1, "w", 999),
        noise_of(strategy, key, name="other").read(1, "w", 999),
        noise_of(strategy, key, guarantee=ZCDP(2)).read(1, "w", 999),
        noise_of(strategy, key, clip=2).read(1, "w", 999),
        noise_of(strategy, key).read(1, "v", 999),
        noise_of(strategy, key).read(1, "w", 1000)[:999],
        noise_of(STRATEGIES[1](), key).read(1, "w", 999),
    ]
    for other in others:
        assert abs(np.corrcoef(base, other)[0, 1]) < 5 / math.sqrt(999)


def test_trees_keep_their_form_and_names_decide(key: Key) -> None:
    strategy = OctaveTraining.fit(12, 3)
    tree: dict[str, Any] = {
        "layers": [{"w": np.ones((3, 2), np.float32)}, None],
        "out": (np.ones(4),),
    }
    found = noise_of(strategy, key).add(5, tree)
    assert found["layers"][1] is None
    assert isinstance(found["out"], tuple)
    assert found["layers"][0]["w"].dtype == np.float32
    assert tree["out"][0].tolist() == [1] * 4
    flat = noise_of(strategy, key).add(5, {"out/0": np.ones(4)})
    assert (flat["out/0"] == found["out"][0]).all()
    single = noise_of(strategy, key).add(5, np.ones(4))
    assert single.shape == (4,)


def test_the_std_covers_sensitivity_clip_and_guarantee(key: Key) -> None:
    strategy = STRATEGIES[3]()
    sensitivity = math.sqrt(strategy.squared_sensitivity())
    noise = noise_of(strategy, key, clip=0.5, guarantee=ZCDP(2))
    assert 1 <= noise.std / (sensitivity * 0.5 * 0.5) < 1.001
    approximate = noise_of(strategy, key, guarantee=ApproxDP(1, 1e-6))
    assert 1 <= approximate.std / (sensitivity * 4.224678889) < 1.001


@pytest.mark.parametrize("make", STRATEGIES[:4])
def test_sensitivity_with_rounded_weights_is_within_margin(
    make: Callable[[], TrainingStrategy],
) -> None:
    """The sensitivity of what is computed with float32 weights is below std's margin."""
    strategy = make()
    matrix, nodes = strategy.increments()
    outputs = np.array(strategy.outputs, np.float32).astype(float)
    decays = np.array(strategy.decays, np.float32).astype(float)
    at = {node: number for number, node in enumerate(nodes)}
    state = np.zeros((strategy.buffers, len(nodes)))
    used = np.empty_like(matrix)
    for step in range(1, strategy.steps + 1):
        row = np.zeros(len(nodes))
        for tap in strategy.taps(step):
            row[at[tap.level, tap.index]] += float(np.float32(tap.weight))
        used[step - 1] = (row + outputs @ state) / float(np.float32(strategy.divisor(step)))
        state = decays[:, None] * state + row
    gram = np.abs(np.linalg.inv(used @ used.T))
    times, apart, _ = strategy.schedule
    worst = max(gram[np.ix_(range(i, 12, apart), range(i, 12, apart))].sum() for i in range(apart))
    assert times * apart == 12
    assert worst < strategy.squared_sensitivity() * (1 + 1e-5)


def test_decays_that_float32_cannot_hold_are_refused(key: Key) -> None:
    near = BufferedToeplitz(9, (1 - 1e-7,), (1 - 1.23e-6,))
    with pytest.raises(InvalidInputError, match="float32"):
        noise_of(near, key)
    exactly = float(np.float32(1 - 1.23e-6))
    noise_of(BufferedToeplitz(9, (1 - 1e-7,), (exactly,)), key)


def test_multipliers_of_the_guarantees() -> None:
    assert noise_multiplier(ZCDP(Fraction(1, 2))) == 1
    assert noise_multiplier(ApproxDP(2, 1e-5)) == pytest.approx(1.993812446)
    with pytest.raises(InvalidInputError, match="Gaussian"):
        noise_multiplier(PureDP(1))


def test_steps_out_of_order_are_refused_and_change_nothing(key: Key) -> None:
    noise = noise_of(STRATEGIES[0](), key)
    noise.read(1, "w", 3)
    for step in (1, 3):
        with pytest.raises(InvalidInputError, match="drawn in order"):
            noise.add(step, {"w": np.zeros(3)})
    right = noise_of(STRATEGIES[0](), key)
    right.read(1, "w", 3)
    assert (noise.read(2, "w", 3) == right.read(2, "w", 3)).all()
    with pytest.raises(InvalidInputError, match="must be called before"):
        noise.resume(5)
    with pytest.raises(HorizonExceededError):
        noise.add(13, {"w": np.zeros(3)})


def test_no_step_is_given_noise_twice(key: Key) -> None:
    noise = noise_of(STRATEGIES[2](), key)
    noise.add(3, {"w": np.zeros(3)})
    with pytest.raises(InvalidInputError, match="reveal their difference"):
        noise.add(3, {"w": np.ones(3)})
    noise.add(2, {"w": np.zeros(3)})


@pytest.mark.parametrize(
    ("gradients", "words"),
    [
        ({"w": np.array([0, np.nan, 0])}, "not finite"),
        ({"w": np.array([0, np.inf, -np.inf])}, "not finite"),
        ({"w": np.zeros(3, int)}, "floating"),
        ({"w": "text"}, "arrays of numpy"),
        ({"a/b": np.zeros(1), "a": {"b": np.zeros(1)}}, "both called"),
        ({"w": np.zeros(2)}, "keep the shape"),
    ],
)
def test_gradients_that_are_refused(gradients: Any, words: str, key: Key) -> None:
    noise = noise_of(STRATEGIES[2](), key)
    noise.read(1, "w", 3, 0, 2)
    with pytest.raises(InvalidInputError, match=words):
        noise.add(2, gradients)


@pytest.mark.parametrize(
    "more", [{"name": ""}, {"clip": 0}, {"clip": -1}, {"guarantee": PureDP(1)}]
)
def test_training_noise_refuses_invalid_terms(more: dict[str, Any], key: Key) -> None:
    with pytest.raises(InvalidInputError):
        noise_of(STRATEGIES[2](), key, **more)


def test_shards_that_are_refused(key: Key) -> None:
    noise = noise_of(STRATEGIES[2](), key)
    with pytest.raises(InvalidInputError, match="which is not a gradient"):
        noise.add(1, {"w": np.zeros(3)}, shards={"v": (0, 9)})
    with pytest.raises(InvalidInputError, match="not all among"):
        noise.add(1, {"w": np.zeros(3)}, shards={"w": (7, 9)})


@pytest.mark.parametrize("guarantee", [ExpiringDP(1), ExpiringZCDP(1)], ids=repr)
def test_guarantee_that_expires_is_refused_with_the_reason(guarantee: Any) -> None:
    with pytest.raises(InvalidInputError, match=r"does not fit training: the published model is"):
        noise_multiplier(guarantee, 100)
