"""Who counts when: samplers keep what they promise, and what does not fit is refused."""

from collections import defaultdict
from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest
from keys import chosen_key
from some_cases import long

from counton import ZCDP, ApproxDP
from counton.base.errors import InvalidInputError
from counton.strategies.participation import Schedule
from counton.training import (
    FixedEpochs,
    GivenBatches,
    MinSeparation,
    PoissonBatches,
    Sampler,
    check_fit,
    noise_multiplier,
    plan,
    poisson_multiplier,
    training_plan,
)
from counton.training.strategies import BufferedToeplitz, Echo, OctaveTraining, TrainingStrategy

SAMPLERS = [
    FixedEpochs(examples=50, batch_size=8, epochs=3),
    FixedEpochs(examples=7, batch_size=7),
    MinSeparation(examples=48, batch_size=4, epochs=4, window=3),
    MinSeparation(examples=48, batch_size=4, epochs=2, window=12),
]


def echo(steps: int, epochs: int) -> Echo:
    schedule = Schedule(epochs, steps // epochs, fixed=True)
    return Echo(steps, (0.5,), (0.3,), 0.1, 0.5, schedule)


def steps_of_examples(sampler: Sampler) -> dict[int, list[int]]:
    found: dict[int, list[int]] = defaultdict(list)
    for step, batch in enumerate(sampler, 1):
        for example in batch.tolist():
            found[example].append(step)
    return found


@pytest.mark.parametrize("sampler", SAMPLERS, ids=lambda s: type(s).__name__)
def test_samplers_keep_their_schedule(sampler: Sampler) -> None:
    found = steps_of_examples(sampler)
    times, apart, fixed = sampler.schedule
    assert set(found) == set(range(sampler.examples))
    for steps in found.values():
        gaps = np.diff(steps)
        assert len(steps) == times == sampler.epochs
        assert (gaps == apart).all() if fixed else (gaps >= apart).all()
    again = GivenBatches(
        list(sampler),
        order="fixed" if sampler.schedule.fixed else "separated",
        epochs=sampler.epochs,
    )
    assert again.schedule.fixed == fixed
    assert again.schedule.apart >= apart


def test_batches_are_a_function_of_the_seed_and_the_step() -> None:
    for kind in (FixedEpochs, MinSeparation):
        one, other = (kind(48, 4, epochs=2, seed=seed) for seed in (3, 4))
        same = kind(48, 4, epochs=2, seed=3)
        assert (one.batch(17) == same.batch(17)).all()
        assert not (one.batch(17) == other.batch(17)).all()


def cost_of_removal(sampler_of: Callable[[list[int]], Sampler], examples: int, gone: int) -> float:
    """What the removal of one example costs, in units of what is promised, by matrices.

    Every example has a gradient of norm 1 in a direction of its own.
    """
    all_of_them = list(range(examples))
    rest = all_of_them[:gone] + all_of_them[gone + 1 :]
    sampler = sampler_of(all_of_them)
    strategy = BufferedToeplitz.fit(sampler.steps, sampler.epochs)
    moved = np.zeros((sampler.steps, examples))
    for ids, sign in ((all_of_them, 1), (rest, -1)):
        for step, batch in enumerate(sampler_of(ids)):
            moved[step, np.array(ids)[batch]] += sign
    return float(((strategy.encoder() @ moved) ** 2).sum() / strategy.squared_sensitivity())


def by_number(examples: list[int]) -> Sampler:
    return FixedEpochs(len(examples), 25, epochs=2)


def test_samplers_state_replacement_when_removal_costs_more() -> None:
    assert cost_of_removal(by_number, 200, 0) > 50
    for sampler in SAMPLERS:
        assert sampler.neighbours == "present or its place left empty"
        assert "one example present or its place left empty" in repr(sampler)
    assert "one example more or less" in repr(poisson())


def test_sampler_guarantee_names_unit_and_neighbours() -> None:
    people = GivenBatches([[0, 1], [2]], people=["ann", "bob", "ann"])
    for sampler, words in (
        (FixedEpochs(8, 2), "for one example present or its place left empty, which"),
        (people, "for one person present or its place left empty, which"),
    ):
        noise = plan(sampler=sampler, dimension=9).best.noise(key=chosen_key(), name="run")
        assert words in noise.guarantee_text


@pytest.mark.parametrize(
    ("people", "words"),
    [
        (["a"], "given for 1"),
        ({"a", "b"}, "by position"),
        ({"a": 1, "b": 2}, "by position"),
        ("ab", "by position"),
    ],
)
def test_given_batches_refuse_invalid_users(people: list[Any], words: str) -> None:
    with pytest.raises(InvalidInputError, match=words):
        GivenBatches([[0, 1]], people=people)


@pytest.mark.parametrize("make", [echo, OctaveTraining.fit])
def test_a_strategy_for_an_enforced_order_refuses_a_shuffle(make: object) -> None:
    strategy: TrainingStrategy = make(24, 2)  # type: ignore[operator]
    check_fit(strategy, FixedEpochs(48, 4, epochs=2))
    with pytest.raises(InvalidInputError, match="enforced order"):
        check_fit(strategy, MinSeparation(48, 4, epochs=2, window=3))


@pytest.mark.parametrize(
    ("sampler", "words"),
    [
        (FixedEpochs(48, 4, epochs=3), "has 36 steps"),
        (FixedEpochs(24, 4, epochs=4), "up to 4 times"),
        (FixedEpochs(40, 4, epochs=2), "epochs have 10 steps"),
    ],
)
def test_other_epochs_are_refused(sampler: Sampler, words: str) -> None:
    with pytest.raises(InvalidInputError, match=words):
        check_fit(echo(24, 2), sampler)


def test_a_distance_that_is_too_small_is_refused() -> None:
    strategy = BufferedToeplitz.fit(24, 2, "separated", separation=12)
    check_fit(strategy, MinSeparation(48, 4, epochs=2, window=1))
    with pytest.raises(InvalidInputError, match="plan with separation=10"):
        check_fit(strategy, MinSeparation(48, 4, epochs=2, window=3))


def test_one_example_twice_in_an_epoch_is_refused() -> None:
    with pytest.raises(InvalidInputError, match="in step 1"):
        GivenBatches([[0], [0], [0], [1]], order="fixed", epochs=2)
    with pytest.raises(InvalidInputError, match="twice"):
        GivenBatches([[0, 0]])
    twice = GivenBatches([[0], [0], [0], [1]])
    assert twice.schedule == Schedule(3, 1, False)
    with pytest.raises(InvalidInputError, match="up to 3 times"):
        check_fit(OctaveTraining.fit(4, 2), twice)


def test_user_with_several_examples_is_one_unit() -> None:
    batches = [[0, 1], [2, 3], [4], [0], [1, 5]]
    assert GivenBatches(batches).schedule == Schedule(2, 3, False)
    people = ["ann", "bob", "ann", "cleo", "dan", "ann"]
    assert GivenBatches(batches, people=people).schedule == Schedule(4, 1, False)
    with pytest.raises(InvalidInputError, match="person ann is in step 1 twice"):
        GivenBatches([[0, 2]], people=people)


def test_users_are_read_by_position() -> None:
    """A column of pandas is not looked up by label: rows 0, 2, 1, 3 belong to a, b, a, b."""
    users = ["a", "b", "a", "b"]
    shuffled = pd.Series(users, index=[0, 2, 1, 3])
    holders: list[Any] = [
        users, tuple(users), np.array(users), np.array(users, object), shuffled,
        shuffled.astype("category"), pd.Index(users), pl.Series(users),
    ]  # fmt: skip
    for people in holders:
        with pytest.raises(InvalidInputError, match="person a is in step 1 twice"):
            GivenBatches([[0, 2], [1, 3]], people=people)
        assert GivenBatches([[0, 1], [2, 3]], people=people).schedule == Schedule(2, 1, False)
    with pytest.raises(InvalidInputError, match="people is a value of type DataFrame"):
        GivenBatches([[0]], people=pl.DataFrame({"user": users}))  # type: ignore[arg-type]


def test_number_and_equal_text_are_one_user() -> None:
    """The number 7 and the text "7" are one person, as in streams."""
    with pytest.raises(InvalidInputError, match="person 7 is in step 1 twice"):
        GivenBatches([[0, 1]], people=[7, "7"])


@pytest.mark.parametrize("missing", [None, float("nan"), "", " ", pd.NA, pd.NaT, 7.0, True, (1, 2)])
def test_missing_user_is_refused(missing: Any) -> None:
    with pytest.raises(InvalidInputError, match="no whole number or text for example 1"):
        GivenBatches([[0], [1]], people=["ann", missing])


@pytest.mark.parametrize(
    "batch",
    [
        [-1],
        np.array([-1]),
        [0.9],
        [1.0],
        np.array([0.5, 1]),
        [True, False],
        np.array([True, False]),
        [None],
        ["1"],
        [[0, 1]],
        np.array([[0, 1]]),
        np.ma.array([0, 1], mask=[False, True]),
        pd.Series([0, None]),
        [2**31],
        np.array([2**63], np.uint64),
        {0, 1},
        5,
        "01",
    ],
)
def test_positions_are_integers_from_0(batch: Any) -> None:
    with pytest.raises(InvalidInputError, match="batch 2"):
        GivenBatches([[9], batch])


def test_batches_are_read_by_position() -> None:
    holders: list[Any] = [
        range(2), (0, 1), np.array([0, 1], np.uint8), np.array([0, 1], object),
        pd.Series([0, 1], index=[5, 0]), pl.Series([0, 1]),
    ]  # fmt: skip
    for batch in holders:
        assert GivenBatches([batch, []]).batch(1).tolist() == [0, 1]
    assert GivenBatches(pd.Series([[0], [1]], index=[1, 0])).batch(1).tolist() == [0]
    for batches in ({(0, 1): 1}, {(0, 1), (2,)}):
        with pytest.raises(InvalidInputError, match="batches is"):
            GivenBatches(batches)


def test_checked_batches_do_not_change_with_arrays_of_the_caller() -> None:
    given = np.array([0, 1])
    for sampler in (GivenBatches([given, [2]]), FixedEpochs(3, 2)):
        first = sampler.batch(1).tolist()
        given[:] = 2
        sampler.batch(1)[:] = 2
        assert sampler.batch(1).tolist() == first


@pytest.mark.parametrize(
    "make",
    [
        lambda: FixedEpochs(0, 1),
        lambda: FixedEpochs(5, 6),
        lambda: FixedEpochs(5, 2).batch(4),
        lambda: MinSeparation(10, 3),
        lambda: MinSeparation(12, 3, window=3),
        lambda: GivenBatches([]),
        lambda: poisson(float("nan")),
        lambda: poisson(1.5),
        lambda: GivenBatches([[0]], order="shuffled"),
        lambda: GivenBatches([[0], [1], [2]], order="fixed", epochs=2),
    ],
)
def test_samplers_refuse_invalid_arguments(make: object) -> None:
    with pytest.raises(InvalidInputError):
        make()  # type: ignore[operator]


def test_plan_for_sampler_matches_its_schedule() -> None:
    for sampler in SAMPLERS[1:3]:
        best = plan(sampler=sampler, dimension=10).best
        noise = best.noise(key=chosen_key(), name="run", sampler=sampler)
        assert noise.strategy.steps == sampler.steps
    wrong = plan(sampler=SAMPLERS[1], dimension=10).best
    with pytest.raises(InvalidInputError):
        wrong.noise(key=chosen_key(), name="run", sampler=SAMPLERS[3])


@pytest.mark.long
def test_plans_rank_by_error_and_state_memory() -> None:
    found = plan(steps=24, epochs=2, dimension=1000, guarantee=ZCDP(2), clip=0.5, buffers=1)
    errors = [choice.rmse for choice in found.choices]
    assert errors == sorted(errors)
    assert found.best.error == pytest.approx(found.best.rmse * 0.5 * 0.5)
    assert all(choice.state_bytes == 4000 * choice.strategy.buffers for choice in found.choices)
    assert {choice.strategy.buffers == 0 for choice in found.choices} == {True, False}


def test_errors_that_are_printed_are_those_to_choose_by(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(training_plan, "multiplier", lambda *_: 0.7)  # it takes ten seconds
    plans = [
        plan(sampler=poisson(0.2, 40), dimension=9, guarantee=ApproxDP(1, 1e-5)),
        plan(steps=8, dimension=9, guarantee=ZCDP(0.02), clip=3),
        plan(sampler=SAMPLERS[2], dimension=9, guarantee=ApproxDP(2, 1e-6), clip=0.1),
    ]
    for found in plans:
        for place, choice in enumerate(found.choices):
            printed = f"{choice.error:.4g}"
            assert printed != f"{choice.rmse:.4g}"
            assert f"error {printed}," in str(choice)
            assert printed in found.describe(full=True)
            assert place >= 3 or f"<td>{printed}</td>" in found._repr_html_()  # the best three
        words = f"clipped to {found.best.clip:g}, for each coordinate; {found.best.guarantee}, for"
        assert words in str(found)
        assert words in found._repr_html_()


def test_plan_in_separated_order_has_no_fixed_order_strategy() -> None:
    for choice in plan(steps=48, epochs=4, order="separated", dimension=9).choices:
        assert not choice.strategy.schedule.fixed
        assert not isinstance(choice.strategy, Echo)


@pytest.mark.parametrize(
    "arguments",
    [
        {"dimension": 9},
        {"steps": 9, "dimension": 0},
        {"steps": 9, "epochs": 2, "dimension": 9},
        {"steps": 9, "order": "any", "dimension": 9},
        {"steps": 9, "dimension": 9, "sampler": SAMPLERS[0]},
        {"steps": 9, "dimension": 9, "buffers": 0},
        {"steps": 9, "dimension": 9, "clip": float("nan")},
        {"steps": 9, "dimension": 9, "clip": 0},
        {"steps": 9, "dimension": 9, "clip": float("inf")},
        {"steps": 9, "dimension": 9, "draws": float("nan")},
    ],
)
def test_plans_that_are_refused(arguments: dict[str, object]) -> None:
    with pytest.raises(InvalidInputError):
        plan(**arguments)  # type: ignore[arg-type]


def poisson(rate: float = 0.2, steps: int = 8) -> PoissonBatches:
    return PoissonBatches(500, rate, steps, key=chosen_key(), name="run")


def test_poisson_batches_are_independent_and_have_their_rate() -> None:
    sampler = poisson(0.2, 40)
    taken = np.zeros((40, 500), bool)
    for step, batch in enumerate(sampler):
        taken[step, batch] = True
    assert abs(taken.mean() - 0.2) < 5 * np.sqrt(0.16 / taken.size)
    assert abs(np.corrcoef(taken)[np.triu_indices(40, 1)]).max() < 5 / np.sqrt(500)
    other = PoissonBatches(500, 0.2, 40, key=chosen_key(bytes(32)), name="run")
    assert not np.array_equal(other.batch(1), sampler.batch(1))
    assert np.array_equal(poisson(0.2, 40).batch(7), sampler.batch(7))
    assert len(poisson(1.0).batch(3)) == 500


@pytest.mark.long
def test_poisson_sampling_amplifies_independent_noise_and_no_other() -> None:
    sampler = poisson()
    guarantee = ApproxDP(1, 1e-5)
    best = plan(sampler=sampler, dimension=9, guarantee=guarantee).best
    noise = best.noise(key=chosen_key(), name="run")
    once = poisson_multiplier(guarantee, 0.2, 8)
    assert 1 <= noise.std / once < 1.001
    assert once < noise_multiplier(guarantee) * np.sqrt(8)
    assert best.error == pytest.approx(once * np.sqrt(4.5))
    with pytest.raises(InvalidInputError, match="only with independent noise"):
        check_fit(BufferedToeplitz.fit(8, 8), sampler)
    with pytest.raises(InvalidInputError, match="ApproxDP"):
        plan(sampler=sampler, dimension=9)
    with pytest.raises(InvalidInputError, match="rate"):
        poisson(0.0)


@pytest.mark.parametrize("rate", [0.3, *(long(one) for one in (0.05, 1.0))])
def test_amplified_noise_keeps_the_definition(rate: float) -> None:
    """One step, by integrals: hockey-stick divergence both ways, and a little less noise fails."""
    epsilon = 0.5
    delta = 1e-3
    sigma = poisson_multiplier(ApproxDP(epsilon, delta), rate, 1)

    def lost(std: float) -> float:
        at = np.linspace(-12 * std, 12 * std + 1, 200_001)
        plain, moved = (np.exp(-((at - m) ** 2) / 2 / std**2) for m in (0, 1))
        plain, moved = plain / plain.sum(), moved / plain.sum()
        mixed = (1 - rate) * plain + rate * moved
        ways = (mixed - np.exp(epsilon) * plain, plain - np.exp(epsilon) * mixed)
        return max(float(np.maximum(way, 0).sum()) for way in ways)

    assert lost(sigma) <= delta * (1 + 1e-6)
    assert sigma == pytest.approx(0.25, abs=1e-3) or lost(0.98 * sigma) > delta
