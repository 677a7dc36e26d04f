"""JAX: what one example adds to a step has norm `clip` at most, or the step is refused."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from keys import chosen_key

from counton import ZCDP
from counton.base.errors import InvalidInputError
from counton.training import TrainingNoise
from counton.training.strategies import BufferedToeplitz, OctaveTraining, TrainingStrategy

pytestmark = pytest.mark.filterwarnings("ignore")
optax = pytest.importorskip("optax", reason="optax is not installed: make test-training")
jax = pytest.importorskip("jax", reason="jax is not installed: make test-training")

import counton.training.optax as optax_noise  # noqa: E402 - after the skip
from counton.training.optax import private_aggregate  # noqa: E402

jnp = jax.numpy

STRATEGIES = [BufferedToeplitz.fit(4), OctaveTraining.fit(4)]
by_strategy = pytest.mark.parametrize("strategy", STRATEGIES, ids=["buffers", "none kept"])


def aggregate(strategy: TrainingStrategy, per_example: bool = True, rho: str = "1e12") -> Any:
    noise = TrainingNoise(strategy, key=chosen_key(), name="run", guarantee=ZCDP(rho))
    return private_aggregate(noise, batch_size=1, per_example=per_example)


def shown(strategy: TrainingStrategy, parameters: Any, updates: Any, **terms: Any) -> Any:
    """Return what the first step shows, as one vector."""
    transformation = aggregate(strategy, **terms)
    found, _ = transformation.update(updates, transformation.init(parameters))
    leaves = jax.tree_util.tree_leaves(found)
    return np.concatenate([np.asarray(leaf, np.float64).reshape(-1) for leaf in leaves])


def moved(
    case: Callable[[bool], tuple[Any, Any]], strategy: TrainingStrategy, **terms: Any
) -> float:
    """Return the norm by which one example moves the first step.

    Args:
        case: Returns parameters and updates, with the example or without it.
        strategy: The strategy.
        terms: More of `aggregate`.
    """
    ends = [shown(strategy, *case(present), **terms) for present in (True, False)]
    return float(np.linalg.norm(ends[0] - ends[1]))


def sum_as_examples(present: bool) -> tuple[Any, Any]:
    """The sum of all gradients, whose first axis is no example."""
    return {"w": jnp.zeros((64, 10))}, {"w": jnp.full((64, 10), 5.0 * present)}


def examples_as_sum(present: bool) -> tuple[Any, Any]:
    """Gradients of single examples, that nobody has clipped."""
    return {"w": jnp.zeros(3)}, {"w": jnp.ones((8, 3)).at[7].mul(100.0 * present)}


def rows_of_others(present: bool) -> tuple[Any, Any]:
    """The second example is row 1 of one parameter and row 0 of the other."""
    first = jnp.ones((2, 3)).at[1].mul(-100.0 * present)
    return {"v": jnp.zeros(3), "w": jnp.zeros(3)}, {"v": first, "w": first[1:]}


def new_parameter(present: bool) -> tuple[Any, Any]:
    zeros = {"w": jnp.zeros(3)}
    return zeros, {"w": jnp.zeros(3), "v": jnp.full(3, 5.0 * present)}


SHAPES: dict[str, tuple[Callable[[bool], tuple[Any, Any]], bool, str]] = {
    "sum": (sum_as_examples, True, r"shape \(64, 10\), but with per_example=True it must be"),
    "examples": (examples_as_sum, False, r"shape \(8, 3\), but with per_example=False it must be"),
    "rows": (rows_of_others, True, "'v' has gradients of 2 examples, but 'w' of 1"),
    "new": (new_parameter, False, "there is a gradient for 'v', which was no parameter"),
}


@by_strategy
@pytest.mark.parametrize("jitted", [True, False])
@pytest.mark.parametrize("case", SHAPES)
def test_updates_of_other_names_or_shapes_are_refused(
    case: str, jitted: bool, strategy: TrainingStrategy
) -> None:
    make, per_example, message = SHAPES[case]
    parameters, updates = make(True)
    transformation = aggregate(strategy, per_example)
    state = transformation.init(parameters)
    update = jax.jit(transformation.update) if jitted else transformation.update
    with pytest.raises(InvalidInputError, match=message):
        update(updates, state)


def wrong_check(updates: Any, state: Any, *, per_example: bool) -> None:
    """A wrong implementation, which pads rows and lets new parameters through without noise."""


def test_sum_taken_for_examples_lets_an_example_move_more(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(optax_noise, "_check_updates", wrong_check)
    assert moved(sum_as_examples, STRATEGIES[0]) > 100


def test_examples_taken_for_sums_let_an_example_move_more(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(optax_noise, "_check_updates", wrong_check)
    assert moved(examples_as_sum, STRATEGIES[0], per_example=False) > 100


def test_padded_rows_let_an_example_move_more(monkeypatch: pytest.MonkeyPatch) -> None:
    def padded(present: bool) -> tuple[Any, Any]:
        parameters, updates = rows_of_others(present)
        rows = updates["w"]
        return parameters, updates | {"w": jnp.concatenate([rows, jnp.zeros_like(rows)])}

    assert moved(padded, STRATEGIES[0]) > 1.1


@by_strategy
def test_missing_gradient_is_refused_and_zeros_are_not(strategy: TrainingStrategy) -> None:
    """Without it, the state would lose the noise that the parameter carries to later steps."""
    parameters = {"v": jnp.zeros(3), "w": jnp.zeros(2)}
    transformation = aggregate(strategy, per_example=False)
    state = transformation.init(parameters)
    for updates in ({"v": jnp.ones(3)}, {"v": jnp.ones(3), "w": None}):
        with pytest.raises(InvalidInputError, match="there is no gradient for 'w'"):
            transformation.update(updates, state)
    _, state = transformation.update(parameters, state)
    assert set(state.buffers) == {"v", "w"}


def test_parameter_that_init_did_not_get_is_refused_later() -> None:
    """A frozen parameter, None, that is unfrozen after some steps."""
    transformation = aggregate(STRATEGIES[0], per_example=False)
    state = transformation.init({"v": None, "w": jnp.zeros(2)})
    _, state = transformation.update({"v": None, "w": jnp.ones(2)}, state)
    with pytest.raises(InvalidInputError, match="there is a gradient for 'v'"):
        transformation.update({"v": jnp.ones(3), "w": jnp.ones(2)}, state)


def test_whole_numbers_are_refused() -> None:
    """Noise that is rounded to whole numbers would often be 0."""
    transformation = aggregate(STRATEGIES[0], per_example=False, rho="1/2")
    state = transformation.init({"w": jnp.zeros(3)})
    with pytest.raises(InvalidInputError, match="must be real floating-point numbers"):
        transformation.update({"w": jnp.ones(3, jnp.int32)}, state)


@by_strategy
@pytest.mark.parametrize("dtype", [jnp.bfloat16, jnp.float16])
def test_sums_of_16_bit_gradients_have_32_bits(
    dtype: Any, strategy: TrainingStrategy, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A sum of 2,000 examples, rounded to 16 bits before noise, moves by 8 for one example."""
    sums = []
    whole = optax_noise._digest

    def noted(arrays: list[Any]) -> Any:
        sums.extend(arrays)
        return whole(arrays)

    monkeypatch.setattr(optax_noise, "_digest", noted)
    for count in (1997, 1998, 1999):
        rows = jnp.zeros((count, 2), dtype).at[:, 0].set(1.0)
        shown(strategy, {"w": jnp.zeros(2, dtype)}, {"w": rows})
    steps = np.diff([float(array[0]) for array in sums])
    assert np.abs(steps - 1).max() < 1e-3


def test_clipping_in_16_bits_keeps_the_norm() -> None:
    """A factor that is rounded to 8 bits would let an example have a norm of 1.003."""
    random = np.random.default_rng(1)
    sums = []
    for _ in range(20):
        row = jnp.asarray(random.standard_normal((1, 100)) * 3, jnp.bfloat16)
        total, _, _ = optax_noise._clipped_sum({"w": row}, 1.0)
        sums.append(float(np.linalg.norm(np.asarray(total["w"], np.float64))))
    assert max(sums) < 1 + 1e-5


def test_means_of_rows_do_not_pass_for_examples() -> None:
    """MultiSteps over gradients of examples would clip the mean of several examples as one."""
    several = optax.MultiSteps(aggregate(STRATEGIES[0]), every_k_schedule=2)
    state = several.init({"w": jnp.zeros(3)})
    updates = {"w": jnp.ones((2, 3))}
    with pytest.raises((InvalidInputError, TypeError, ValueError)):
        several.update(updates, several.update(updates, state)[1])
