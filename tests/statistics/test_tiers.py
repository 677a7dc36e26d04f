"""Groups with guarantees of their own: what a row of each loses, and how far off numbers are."""

from __future__ import annotations

import json
import math
from fractions import Fraction
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from by_reference import state_by_reference
from inside import inside, visit

from counton import ZCDP, ApproxDP, Key, PureDP, Running, init, read, release
from counton.base.distributions import DiscreteLaplace, Sensitivity
from counton.base.errors import InvalidInput, RequestMismatch, SumOverflow
from counton.job.job import Job
from counton.laws import statistic_laws
from counton.numbers.design import Design, design_for
from counton.privacy.calibration import calibrate
from counton.run.changes import refuse_inexact_rows
from counton.run.erasure import forget_older
from counton.run.exports import publish
from counton.run.new_stream import define, design_of, halfwidths_at
from counton.state import verify
from counton.statistics import Count, Sum
from counton.statistics.tiers import TieredGroups
from counton.strategies import Binary, KAry, StreamStrategy
from proofs import reference

LOSSES = {"France": Fraction("1.1"), "Malta": Fraction("0.2"), "Italy": Fraction("1.1")}
STEPS = 3


def tiered(of: Any = None) -> TieredGroups:
    return TieredGroups(Count() if of is None else of, [*LOSSES], [*LOSSES.values()])


def counted(statistic: TieredGroups, rows: list[tuple[int, str, float]]) -> np.ndarray:
    """The cells of each step that get noise, for rows of a step, a group and a value."""
    events = [(group, value) for at in range(STEPS) for step, group, value in rows if step == at]
    stops = np.cumsum([sum(step == at for step, _, _ in rows) for at in range(STEPS)])
    return statistic.begin().take(events, stops)


def loss(terms: Design[StreamStrategy], moved: np.ndarray) -> Fraction:
    """The largest loss by noise of these terms if neighbours' cells differ by ``moved``.

    It is over all outputs: noise of scale b is as likely as exp(-|z| / b), so a node that moves by
    m has a largest ratio of exp(|m| / b). Nodes are those of the reference, which shares no code.
    """
    change = {(step + 1, cell): int(moved[step, cell]) for step, cell in np.argwhere(moved)}
    strategy = reference.strategy_of(json.loads(json.dumps(terms.strategy.to_dict())))
    return reference.norms(strategy, [change], STEPS)[0] / scale_of(terms)


def scale_of(terms: Design[StreamStrategy]) -> Fraction:
    assert isinstance(terms.law, DiscreteLaplace)
    return terms.law.scale


@pytest.mark.parametrize("strategy", [KAry(STEPS, 2), Binary(STEPS)])
@pytest.mark.parametrize("of", [Count(), Sum(-3, 7, resolution="0.5")])
def test_a_row_loses_at_most_what_its_group_states(strategy: StreamStrategy, of: Any) -> None:
    statistic = tiered(of).settle(PureDP("1.1"), STEPS)
    bound = statistic.contribution(batched=True, horizon=STEPS)
    terms = design_for(strategy, PureDP("1.1"), bound, statistic.cells)
    others, most = [(0, "Malta", 1.0), (2, "Italy", 1.0)], dict.fromkeys(LOSSES, Fraction(0))
    for step, group, value in product(range(STEPS), LOSSES, [-3.0, 1.0, 7.0]):
        moved = counted(statistic, [*others, (step, group, value)]) - counted(statistic, others)
        most[group] = max(most[group], loss(terms, moved))
    assert most == LOSSES  # and all of it is used


def test_likelihoods_of_a_released_pair_of_neighbours() -> None:
    """One step, whose outputs are all tried: how much likelier one data set makes any of them."""
    statistic = TieredGroups(Count(), ["big", "small"], ["3/2", "1/2"])
    terms = design_for(
        KAry(1, 2), PureDP("1.5"), statistic.contribution(batched=True), statistic.cells
    )
    scale, rows = scale_of(terms), [("big", 1), ("small", 1)]
    without = statistic.begin().take(rows, np.array([2]))[0]
    for group, epsilon in (("big", Fraction(3, 2)), ("small", Fraction(1, 2))):
        more = statistic.begin().take([*rows, (group, 1)], np.array([3]))[0]
        powers = (  # of exp(1 / scale)
            sum(abs(y - a) - abs(y - b) for y, a, b in zip(out, without, more, strict=True))
            for out in product(range(-9, 15), repeat=2)
        )
        assert max(powers) / scale == epsilon


RHOS = {"France": Fraction("0.9"), "Malta": Fraction("0.1"), "Italy": Fraction("1.3")}


def in_rho(of: Any = None, rhos: dict[str, Fraction] | None = None) -> TieredGroups:
    stated = rhos or RHOS
    return TieredGroups(Count() if of is None else of, [*stated], [*stated.values()], "rho")


def rho_lost(terms: Design[StreamStrategy], moved: np.ndarray) -> Fraction:
    """The rho that noise of these terms loses if neighbours' cells differ by ``moved``.

    Gaussian noise whose node moves by m loses m^2 / (2 variance). Laplace noise loses m^2 / (2
    scale^2) by node, and all nodes together lose |m| / scale: the lesser of both is proven.
    """
    change = {(step + 1, cell): int(moved[step, cell]) for step, cell in np.argwhere(moved)}
    strategy = reference.strategy_of(json.loads(json.dumps(terms.strategy.to_dict())))
    sums, squares = reference.norms(strategy, [change], STEPS)
    if isinstance(terms.law, DiscreteLaplace):
        return min(squares / (2 * terms.law.scale**2), sums / terms.law.scale)
    return squares / (2 * terms.law.sigma_squared)


@pytest.mark.parametrize("rhos", [RHOS, {"a": Fraction(2), "b": Fraction(1, 50)}])
@pytest.mark.parametrize("of", [Count(), Sum(-3, 7, resolution="0.5")])
def test_a_row_loses_at_most_the_rho_of_its_group(of: Any, rhos: dict[str, Fraction]) -> None:
    largest = ZCDP(max(rhos.values()))
    statistic = in_rho(of, rhos).settle(largest, STEPS)
    bound = statistic.contribution(batched=True, horizon=STEPS)
    for strategy in (KAry(STEPS, 2), Binary(STEPS)):
        terms = design_for(strategy, largest, bound, statistic.cells)
        most = dict.fromkeys(rhos, Fraction(0))
        for step, group, value in product(range(STEPS), rhos, [-3.0, 1.0, 7.0]):
            moved = counted(statistic, [(step, group, value)])
            most[group] = max(most[group], rho_lost(terms, moved))
        for group, rho in rhos.items():
            assert rho * Fraction(997, 1000) <= most[group] <= rho


def test_divergences_of_a_released_pair_of_neighbours_under_rho() -> None:
    """One step, whose outputs are all tried: the Renyi divergences of several orders."""
    statistic = TieredGroups(Count(), ["big", "small"], ["1/2", "1/8"], "rho")
    bound = statistic.contribution(batched=True)
    terms = design_for(KAry(1, 2), ZCDP("0.5"), bound, statistic.cells)
    law: Any = terms.law
    variance, outputs = float(law.sigma_squared), np.arange(-25, 26)
    for group, rho in (("big", 1 / 2), ("small", 1 / 8)):
        moved = statistic.begin().take([(group, 1)], np.array([1]))[0].tolist()
        laws = [np.exp(-((outputs - move) ** 2) / (2 * variance)) for move in (0, sum(moved))]
        one, other = (law / law.sum() for law in laws)
        for order in (1.01, 2.0, 7.0):
            found = math.log((one**order * other ** (1 - order)).sum()) / (order - 1)
            assert found <= order * rho * (1 + 1e-9)


def masses(law: Any, outputs: np.ndarray, move: int) -> np.ndarray:
    """What each output of one node weighs, if noise of this law moves by a whole number."""
    moved = np.abs(outputs - move)
    if isinstance(law, DiscreteLaplace):
        weights = np.exp(-moved / float(law.scale))
    else:
        weights = np.exp(-(moved**2) / (2 * float(law.sigma_squared)))
    return np.asarray(weights / weights.sum())


def delta_lost(law: Any, moves: list[int], epsilon: float) -> float:
    """The delta that two moved nodes lose at this epsilon: all outputs are tried, both ways."""
    outputs, lost = np.arange(-150, 171), list[float]()
    for turn in (1, -1):
        one, other = (
            np.multiply.outer(*(masses(law, outputs, turn * move * by) for move in moves))
            for by in (0, 1)
        )
        lost.append(float(np.maximum(one - math.exp(epsilon) * other, 0).sum()))
    return max(lost)


@pytest.mark.parametrize(("family", "delta"), [("laplace", "0.05"), ("gaussian", "0.01")])
def test_a_unit_loses_at_most_the_epsilon_of_its_groups_with_delta(family: Any, delta: str) -> None:
    """One row in each of two steps, in any groups: the nodes of a step are those of its groups."""
    epsilons = {"big": Fraction(3, 2), "middle": Fraction(3, 4), "small": Fraction(1, 2)}
    statistic = TieredGroups(Count(), [*epsilons], [*epsilons.values()])
    promise = ApproxDP("1.5", delta)
    weights = dict(zip(epsilons, statistic.weights.tolist(), strict=True))
    heaviest = statistic.heaviest
    pattern = Sensitivity(2 * heaviest, 2 * heaviest**2, ((heaviest, 2),))
    law = calibrate(promise, pattern, family).law
    used = {}
    for rows in product(epsilons, repeat=2):
        moves = [weights[group] for group in rows]
        used[rows] = delta_lost(law, moves, float(max(epsilons[group] for group in rows)))
    assert max(used.values()) <= float(Fraction(delta)) * (1 + 1e-9)
    assert used["small", "small"] < used["middle", "middle"] < used["big", "big"]


def test_a_row_under_delta_loses_its_groups_share_of_noise_of_a_plan() -> None:
    statistic = TieredGroups(Count(), ["big", "small"], ["3/2", "1/2"])
    promise = ApproxDP("1.5", "0.02")
    bound = statistic.settle(promise, 3).contribution(batched=True)
    terms = design_for(KAry(3, 2), promise, bound, statistic.cells)
    for group, epsilon in (("big", 1.5), ("small", 0.5)):
        for step in range(3):
            counts = [statistic.begin().take([(group, 1)] * n, np.array([n])) for n in (0, 1)]
            (moved,) = set(np.abs(counts[1] - counts[0]).ravel().tolist()) - {0}
            nodes = reference.norms(
                reference.strategy_of(json.loads(json.dumps(terms.strategy.to_dict()))),
                [{(step + 1, 0): moved}],
                3,
            )[0]  # of a tree of counts: each node that reads the step moves alike
            assert nodes in (moved, 2 * moved)
            moves = [moved, int(nodes) - moved]
            assert delta_lost(terms.law, moves, epsilon) <= 0.02 * (1 + 1e-9)


def test_units_in_several_steps_need_a_causal_strategy_under_delta(tmp_path: Path) -> None:
    asked = told(tmp_path, delta="1e-6", user="who", most=2)
    with pytest.raises(InvalidInput, match="proven only for strategies that are causal: give"):
        release("count", **asked)
    assert not (tmp_path / "s.db").exists()
    statistic = tiered().settle(ApproxDP("1.1", "1e-6"), STEPS)
    row = statistic.contribution(batched=True, horizon=STEPS)
    apart = KAry(7, 3, subtraction=True)
    assert not apart.facts.causal
    statistic.check_noise(apart, ApproxDP("1.1", "1e-6"), row)  # of a row alone it is proven
    found = release("count", **asked, strategy="smooth", out=tmp_path / "t.json")
    table = found.table().filter(step=2)
    assert table["std"][1] == pytest.approx(5.5 * table["std"][0])
    said = "at most epsilon = 0.2 in Malta, each with delta = 1e-6, of a user with all rows there"
    assert said in found.methods()
    assert read(tmp_path / "t.json").methods() == found.methods()
    assert all(one.right for one in verify(tmp_path / "s.db"))
    assert state_by_reference(tmp_path / "s.db")


def test_weights_of_rhos_are_roots_rounded_down() -> None:
    for told_rhos in product(["0.1", "1/7", "0.3", "1e-4", "2"], repeat=3):
        weights = TieredGroups(Count(), ["a", "b", "c"], told_rhos, "rho").weights.tolist()
        exact = [Fraction(one) for one in told_rhos]
        for weight, rho in zip(weights, exact, strict=True):
            square = Fraction(weight, max(weights)) ** 2
            assert rho * Fraction(997, 1000) <= square * max(exact) <= rho
    assert TieredGroups(Count(), ["a", "b"], ["2", "0.5"], "rho").weights.tolist() == [2, 1]
    for rhos, said in (
        (["1", "2.1"], "the largest rho of a group is 2.1; with tiers it is at most 2"),
        (["1", "1e-7"], "from 1e-7 to 1, and the largest may be at most 1,048,576 times"),
    ):
        with pytest.raises(InvalidInput, match=said):
            TieredGroups(Count(), ["a", "b"], rhos, "rho")


def test_laplace_noise_of_a_large_rho_would_lose_more_in_a_small_tier() -> None:
    """So a rho above 2 is refused."""
    law: Any = calibrate(ZCDP(8), Sensitivity(2, 4)).law
    assert law.family == "laplace"
    lost = min(1 / (2 * law.scale**2), 1 / law.scale)  # of half the weight: a quarter of rho
    assert lost > 8 / 4


def test_a_user_loses_at_most_the_largest_and_in_one_tier_at_most_that_tiers() -> None:
    job = Job(
        *("count", "rows.csv", "tiers.db"), time="time", every="1d", start="2024-03-01",
        steps=STEPS, by="country", domain=[*LOSSES], epsilon="1.1", user="who", most=2,
    )  # fmt: skip
    plain = define(job)
    statistic = tiered().settle(PureDP("1.1"), STEPS)
    bound = plain.counting.bounding(statistic.contribution(batched=True, horizon=STEPS))
    terms = design_for(KAry(STEPS, 2), PureDP("1.1"), bound, statistic.cells)
    places = [*product(range(STEPS), LOSSES, [1.0])]
    losses = {rows: loss(terms, counted(statistic, [*rows])) for rows in product(places, repeat=2)}
    assert max(losses.values()) == max(LOSSES.values())
    alone = [one for rows, one in losses.items() if {row[1] for row in rows} == {"Malta"}]
    assert max(alone) == LOSSES["Malta"]


def test_a_user_loses_at_most_the_rho_of_the_largest_tier_of_the_rows() -> None:
    job = Job(
        *("count", "rows.csv", "tiers.db"), time="time", every="1d", start="2024-03-01",
        steps=STEPS, by="country", domain=[*RHOS], rho="1.3", user="who", most=2,
    )  # fmt: skip
    statistic = in_rho().settle(ZCDP("1.3"), STEPS)
    row = statistic.contribution(batched=True, horizon=STEPS)
    terms = design_for(
        KAry(STEPS, 2), ZCDP("1.3"), define(job).counting.bounding(row), statistic.cells
    )
    places = [*product(range(STEPS), RHOS, [1.0])]
    for rows in product(places, repeat=2):
        stated = max(RHOS[group] for _, group, _ in rows)
        assert rho_lost(terms, counted(statistic, [*rows])) <= stated


def test_laws() -> None:
    for of, values in ((Count(), (1, 1)), (Sum(-3, 7, resolution=1), (7, -9))):
        batches = [[("a", values[0]), ("b", values[1])], [], [("b", values[0])]]
        statistic = TieredGroups(of, ["a", "b"], ["1", "1/3"])
        statistic_laws.check_statistic_description(statistic, batches)
        statistic_laws.check_statistic_rows(statistic, batches)
        statistic_laws.check_statistic_counts(statistic, batches)
        statistic_laws.check_statistic_neighbours(statistic, batches)
        statistic_laws.check_statistic_reading(statistic, batches)


def test_numbers_have_the_errors_of_their_groups() -> None:
    key = Key.generate()
    stream = Running.start(tiered(), 9, PureDP("1.1"), key=key, name="visits", batched=True)
    first: Any = stream.release_batch([("France", 1), ("Malta", 1)])
    second: Any = stream.release_batch([("Malta", 1)])
    released, terms = np.ravel(second.release.value), second._design
    for place, (group, weight) in enumerate(zip(LOSSES, (11, 2, 11), strict=True)):
        number = second.of(group).number_of()
        assert number.value == pytest.approx(released[place] / weight)
        assert number.std == pytest.approx(float(terms.errors.std(2)) / weight)
        half = float(design_of_cell(terms).errors.cell_halfwidth(0, 2)) / weight
        low, high = number.interval(0.95)
        assert (low, high) == pytest.approx((number.value - half, number.value + half))
        assert number.formula.std == pytest.approx(number.std)
    table = second.table_columns()
    assert table["group"].tolist() == [*LOSSES]
    assert table["std"].tolist() == [second.of(group).number_of().std for group in LOSSES]
    assert table["upper"].tolist() == [second.of(group).interval()[1] for group in LOSSES]
    one, other = (second.of(group).number_of().formula for group in ("France", "Malta"))
    assert (one - other).std == pytest.approx(math.hypot(one.std, other.std))
    assert (one - one).std == 0  # each group has its own noise, and only that
    later = second.since(first).of("Malta").number_of()
    change = np.ravel(second.release.value)[1] - np.ravel(first.release.value)[1]
    assert later.value == pytest.approx(change / 2)


def design_of_cell(terms: Design[StreamStrategy]) -> Design[StreamStrategy]:
    """The design of one cell as it was released, with its weight."""
    return design_for(terms.strategy, terms.guarantee, terms.contribution)


@pytest.mark.parametrize(
    ("losses", "said"),
    [
        (["1", "0", "1"], "epsilon of the group 'Malta' is 0; it must be above 0"),
        (["1", "-1", "1"], "epsilon of the group 'Malta' is -1; it must be above 0"),
        (["1", "big", "1"], "epsilon of the group 'Malta' is 'big'; it must be a finite number"),
        (["1", "1"], "2 epsilons are given for 3 groups"),
        (["1", "0.12345678", "1"], "at most 1,048,576 is exact: give numbers with fewer digits"),
    ],
)
def test_bad_epsilons_are_named(losses: list[str], said: str) -> None:
    with pytest.raises(InvalidInput, match=said):
        TieredGroups(Count(), [*LOSSES], losses)


def test_sums_beyond_what_weights_leave_are_refused() -> None:
    statistic = TieredGroups(Count(), ["a", "b"], ["1", "1e-6"])
    with pytest.raises(SumOverflow, match="are exact up to 2,305,843,009,213"):
        statistic.measure(np.array([[2**42, 0]]))


ROWS = ["time,country,who", "2024-03-01,France,a", "2024-03-01,Malta,b", "2024-03-02,Malta,a"]
TABLE = ["country,loss", *(f"{group},{float(loss)}" for group, loss in LOSSES.items())]


def told(folder: Path, **more: Any) -> dict[str, Any]:
    """A job by tiers, whose files are written."""
    (folder / "rows.csv").write_text("\n".join(ROWS) + "\n")
    (folder / "groups.csv").write_text("\n".join(TABLE) + "\n")
    asked: dict[str, Any] = {"events": folder / "rows.csv", "state": folder / "s.db"}
    asked |= {"time": "time", "every": "1d", "start": "2024-03-01", "steps": 9, "by": "country"}
    asked |= {"domain": folder / "groups.csv", "tiers": "loss", "epsilon": "1.1"}
    return asked | {"until": "2024-03-03"} | more


def test_a_job_releases_plans_and_says_what_each_tier_has(tmp_path: Path) -> None:
    asked = told(tmp_path)
    found = release("count", **asked, out=tmp_path / "t.json")
    table = found.table().filter(step=2)
    assert table["group"].to_list() == [*LOSSES]
    assert table["std"][1] == pytest.approx(5.5 * table["std"][0])
    said = found.methods()
    assert "The number of events by country" in said
    assert "at most epsilon = 1.1 in France, Italy, at most epsilon = 0.2 in Malta." in said
    again = read(tmp_path / "t.json")
    assert again.table().equals(found.table())
    assert again.methods() == said
    facts = json.loads((tmp_path / "t.json.json").read_text())
    assert facts["tiers"] == {"1.1": ["France", "Italy"], "0.2": ["Malta"]}
    assert all(one.right for one in verify(tmp_path / "s.db"))
    assert state_by_reference(tmp_path / "s.db") == 6
    del asked["events"], asked["state"], asked["until"]
    terms = define(Job("count", "rows.csv", "new.db", **asked))
    assert design_of(terms, terms.shape).guarantee == PureDP("1.1")
    halves = halfwidths_at(terms, terms.shape, [2], 0.95)
    low, high = (table[end].to_list() for end in ("lower", "upper"))
    half = {f"epsilon = {loss}": (high[at] - low[at]) / 2 for at, loss in ((0, 1.1), (1, 0.2))}
    assert {name: one[0] for name, one in halves.items()} == pytest.approx(half)


def test_a_job_under_rho_is_released_checked_published_and_forgets(tmp_path: Path) -> None:
    rhos = "France,0.9\nMalta,0.1\nItaly,0.9\n"
    asked = told(tmp_path, epsilon=None, rho="0.9", user="who", most=2, per="1w")
    (tmp_path / "groups.csv").write_text(f"country,loss\n{rhos}")
    found = release("count", **asked, out=tmp_path / "t.html")
    table = found.table().filter(step=2)
    assert table["std"][1] == pytest.approx(3 * table["std"][0])
    assert "at most rho = 0.9 in France, Italy, at most rho = 0.1 in Malta, of" in found.methods()
    assert all(one.right for one in verify(tmp_path / "s.db"))
    assert state_by_reference(tmp_path / "s.db")
    publish(tmp_path / "s.db", tmp_path / "p.db")
    assert read(tmp_path / "p.db").table().equals(found.table())
    assert forget_older(tmp_path / "s.db", "1d")
    (tmp_path / "groups.csv").write_text(f"country,loss\n{rhos.replace('0.1', '0.2')}")
    later = {name: asked[name] for name in ("events", "state", "domain")}
    with pytest.raises(RequestMismatch, match=r"is 0\.2 for Malta, but .* with 0\.1 for Malta"):
        release("count", **later, until="2024-03-04")
    (tmp_path / "groups.csv").write_text(f"country,loss\n{rhos}")
    assert release("count", **later, until="2024-03-04").steps == range(1, 4)


@pytest.mark.parametrize("more", [{"tiers": "loss"}, {"what": "average"}])
def test_sums_over_windows_that_do_not_add_up_are_refused_before_a_release(
    tmp_path: Path, more: dict[str, Any]
) -> None:
    asked = told(tmp_path, release="windows", sums="1w", out=tmp_path / "t.csv")
    if what := more.get("what"):
        del asked["by"], asked["domain"], asked["tiers"]
        (tmp_path / "rows.csv").write_text("time,paid\n2024-03-01,3\n2024-03-02,4\n")
        asked |= {"value": "paid", "lower": 0, "upper": 9, "resolution": 1}
    said = "groups with tiers" if what is None else "average"
    with pytest.raises(InvalidInput, match=f"sums=1w needs totals, but release=windows of {said}"):
        release(what or "count", **asked)
    assert not (tmp_path / "s.db").exists()
    assert (
        release(what or "count", **{**asked, "sums": "1d"}).sums("1d").height == 6
    )  # of two windows


def test_sums_of_earlier_nights_have_their_weight_once(tmp_path: Path) -> None:
    (tmp_path / "wide.csv").write_text("country,loss\nFrance,1.048576\nMalta,0.000001\n")
    asked = told(tmp_path, domain=tmp_path / "wide.csv", epsilon="1.048576", value="paid", lower=0)
    asked |= {"upper": 2**20, "resolution": 1, "append": True}  # with a weight of 2^20
    for day in (1, 2):
        asked["events"] = tmp_path / f"{day}.csv"
        rows = [f"2024-03-0{day},France,{2**20}" for _ in range(2)]
        asked["events"].write_text("\n".join(["time,country,paid", *rows]) + "\n")
        release("sum", **asked | {"until": f"2024-03-0{day + 1}"})
    del asked["events"], asked["state"], asked["until"]
    terms, one = define(Job("sum", "rows.csv", "new.db", **asked)), np.array([1.0])
    refuse_inexact_rows(terms, 1, one, taken=2**61 - 2**20)
    with pytest.raises(SumOverflow, match="1 times the resolution, together with the values count"):
        refuse_inexact_rows(terms, 1, one, taken=2**61 - 2**20 + 1)


def test_a_service_shows_each_tier(tmp_path: Path) -> None:
    (tmp_path / "pages.csv").write_text("page,loss\nhome,1.1\nshop,0.2\n")
    job: dict[str, Any] = {"domain": "pages.csv", "tiers": "loss", "epsilon": 1.1}
    with inside(tmp_path, **job) as service:
        service.post("b1", [visit(0.5), visit(0.6, "shop")])
        service.at(1)
        home, shop = service.rows()
        about = service("GET", "/v1/streams/visits").json()
    assert shop["std"] == pytest.approx(5.5 * home["std"])
    assert about["what"] == "number of visits"
    assert "at most epsilon = 0.2 in shop" in about["protects"]


def test_a_later_run_may_not_state_other_epsilons(tmp_path: Path) -> None:
    asked = told(tmp_path, until="2024-03-02")
    release("count", **asked)
    later = {name: asked[name] for name in ("events", "state", "domain")} | {"until": "2024-03-03"}
    (tmp_path / "groups.csv").write_text("\n".join(TABLE).replace("0.2", "0.3"))
    ways: list[dict[str, Any]] = [{}, {"tiers": "loss", "by": "country"}]
    for more in ways:
        with pytest.raises(RequestMismatch, match=r"is 0\.3 for Malta, but .* with 0\.2 for Malta"):
            release("count", **later, **more)
    with pytest.raises(RequestMismatch, match=r"tiers is country, but .* with loss"):
        release("count", **later, tiers="country")
    assert release("count", **{**later, "domain": [*LOSSES]}).steps == range(1, 3)
    for more in ({}, {"domain": [*LOSSES]}):  # of which the totals would be taken for counts
        with pytest.raises(InvalidInput, match="has groups with a loss of their own"):
            release("count", **{**later, **more}, name="next", continues="events", epsilon=1)


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ({"epsilon": 1}, "the largest epsilon of a group is 1.1: give epsilon=1.1"),
        ({"epsilon": None, "rho": 1}, "largest rho of a group is 1.1: give rho=1.1"),
        ({"other": "rest"}, "other=rest does not go with tiers=loss"),
        ({"release": "both"}, "release=both does not go with tiers=loss"),
        (
            {"corrections": 1, "revise": "2d", "id": "who", "append": True, "steps": None},
            "corrections=1 does not go with tiers=loss, since a corrected row may move",
        ),
        (
            {"user": "who", "most": 2, "most_a_window": 1},
            "most_a_window=1 does not go with tiers=loss, where rows of a user weigh differently",
        ),
        ({"above": 9}, "above=9 does not go with tiers=loss, whose numbers have errors of several"),
        ({"tiers": "share"}, "tiers=share names no column of the table .* country, loss"),
        ({"domain": [*LOSSES]}, "tiers=loss is a column of the table of groups, and domain is no"),
        ({"by": None, "domain": None}, "tiers=loss needs domain"),
    ],
)
def test_what_does_not_go_with_tiers_is_refused(
    tmp_path: Path, more: dict[str, Any], said: str
) -> None:
    with pytest.raises(InvalidInput, match=said):
        release("count", **{**told(tmp_path), **more})
    assert not (tmp_path / "s.db").exists()


def test_a_group_without_an_epsilon_and_other_statistics_are_refused(tmp_path: Path) -> None:
    asked = told(tmp_path)
    (tmp_path / "groups.csv").write_text("country,loss\nFrance,1.1\nMalta,\n")
    with pytest.raises(InvalidInput, match="the group 'Malta' has no value in the column 'loss'"):
        release("count", **asked)
    with pytest.raises(InvalidInput, match="tiers=loss is for counts and sums"):
        release("average", **asked, value="who", lower=0, upper=1, resolution=1)
    assert not (tmp_path / "s.db").exists()


def test_numbers_of_parquet_are_epsilons_too(tmp_path: Path) -> None:
    asked = told(tmp_path) | {"domain": tmp_path / "groups.parquet"}
    pl.read_csv(tmp_path / "groups.csv", schema_overrides={"loss": pl.Float64}).write_parquet(
        asked["domain"]
    )
    found = release("count", **asked).numbers.definition
    assert {loss: set(names) for loss, names in found.tiers.items()} == {
        "1.1": {"France", "Italy"},
        "0.2": {"Malta"},
    }


TIERS = ["country,size,most", "France,big,1.1", "Malta,small,0.2", "Italy,big,1.1"]
BY_TIER = {"big": 10.0, "small": 30.0}


def wanting(folder: Path, **more: Any) -> dict[str, Any]:
    """A job of 40 steps whose tiers have half-widths of their own, and whose files are written."""
    asked = told(folder, epsilon=None, tiers="size", within="big=10,small=30", steps=40)
    (folder / "groups.csv").write_text("\n".join(TIERS) + "\n")
    return asked | more


def planned(asked: dict[str, Any], steps: list[int]) -> dict[str, tuple[float, ...]]:
    """Planned half-widths by tier, in descending order of losses."""
    own = {name: one for name, one in asked.items() if name not in ("events", "state", "until")}
    made = define(Job("count", "rows.csv", "new.db", **own))
    found = halfwidths_at(made, made.shape, steps, 0.95)
    return {name.partition(":")[0]: halves for name, halves in found.items()}


@pytest.mark.parametrize(
    "more",
    [{}, {"least": "rho"}, {"delta": "1e-6"}, {"release": "windows"}],
)
def test_each_tier_is_within_its_half_width_at_every_step(
    tmp_path: Path, more: dict[str, Any]
) -> None:
    asked = wanting(tmp_path, until="2024-04-10", quiet=99, **more)
    halves = planned(asked, [*range(1, 41)])
    for tier, most in BY_TIER.items():
        assert max(halves[tier]) <= most
        assert halves[tier][-1] >= 0.99 * most
    found = release("count", **asked)
    table = found.table().with_columns(half=(pl.col("upper") - pl.col("lower")) / 2)
    for group, tier in (("France", "big"), ("Italy", "big"), ("Malta", "small")):
        released = table.filter(group=group)["half"].to_list()
        assert released == pytest.approx(halves[tier], rel=1e-12)
    tiers = [*map(Fraction, found.numbers.definition.tiers)]
    rho = "least" in more
    assert tiers == [tiers[0], tiers[0] / (9 if rho else 3)]
    # A scale of four digits is the least: one step below it, a half-width is wider.
    own = {"epsilon": None, "tiers": "most", "within": None, "domain": tmp_path / "less.csv"}
    own |= {"rho" if rho else "epsilon": str(tiers[0] * Fraction(999, 1000))}
    less = [str(one * Fraction(999, 1000)) for one in tiers]
    (tmp_path / "less.csv").write_text(f"country,most\nFrance,{less[0]}\nMalta,{less[1]}\n")
    wider = planned({**asked, **own, "least": None}, [40])
    assert any(one[0] > most for one, most in zip(wider.values(), BY_TIER.values(), strict=True))


@pytest.mark.parametrize("more", [{}, {"tiers": "most", "within": 60}])
def test_a_row_loses_at_most_what_the_plan_found_for_its_tier(
    tmp_path: Path, more: dict[str, Any]
) -> None:
    asked = wanting(tmp_path, steps=STEPS, strategy="binary", **more)
    del asked["events"], asked["state"], asked["until"]
    made = define(Job("count", "rows.csv", "new.db", **asked))
    stated = {group: Fraction(one) for one, groups in made.tiers.items() for group in groups}
    statistic: Any = made.statistic
    most = dict.fromkeys(stated, Fraction(0))
    for step, group in product(range(STEPS), stated):
        moved = counted(statistic, [(step, group, 1.0)])
        most[group] = max(most[group], loss(design_of(made, made.shape), moved))
    assert most == stated
    assert made.guarantee == PureDP(max(stated.values()))
    if more:
        allowed = {"France": Fraction("1.1"), "Malta": Fraction("0.2"), "Italy": Fraction("1.1")}
        assert all(stated[group] <= one for group, one in allowed.items())
        assert stated["Malta"] / stated["France"] == Fraction(2, 11)


def test_numbers_of_the_table_are_the_most_that_a_half_width_may_need(tmp_path: Path) -> None:
    asked = wanting(tmp_path, tiers="most", within=20)
    with pytest.raises(
        InvalidInput, match=r"needs more epsilon .* allows: 3\.\d+ in place of 1\.1"
    ):
        release("count", **asked)
    assert not (tmp_path / "s.db").exists()
    found = release("count", **{**asked, "within": 90})
    first, second = map(Fraction, found.numbers.definition.tiers)
    assert (second / first, second < Fraction("0.2")) == (Fraction(2, 11), True)


def test_later_nights_state_the_same_tiers(tmp_path: Path) -> None:
    asked = wanting(tmp_path, until="2024-03-02")
    release("count", **asked)
    assert release("count", **{**asked, "until": "2024-03-03"}).steps == range(1, 3)
    later = {name: asked[name] for name in ("events", "state", "domain")} | {"until": "2024-03-04"}
    assert release("count", **later).steps == range(1, 4)
    with pytest.raises(
        RequestMismatch, match=r"asks for another error .* big: epsilon = .* most 9"
    ):
        release("count", **{**asked, "within": "big=9,small=30"})
    (tmp_path / "groups.csv").write_text("\n".join(TIERS).replace("small", "big"))
    with pytest.raises(
        RequestMismatch, match=r"tier of a group is big for Malta, but .* with small"
    ):
        release("count", **later)
    assert all(one.right for one in verify(tmp_path / "s.db"))
    assert state_by_reference(tmp_path / "s.db")


@pytest.mark.parametrize(
    ("more", "said"),
    [
        (
            {"within": 20},
            "the tiers are big, small; give within=big=20,small=20, or write the epsilon of",
        ),
        (
            {"within": "big=20"},
            "within=big=20 does not state one half-width for each tier: the tiers",
        ),
        ({"within": "big=9,tiny=3,small=5"}, "the tiers are big, small; give within=big=9,small=5"),
        ({"tiers": "most"}, "for all groups, and the column of tiers has no names but numbers"),
        (
            {"within": "big=1.2345678,small=3"},
            "half-widths of the tiers from 1.235 to 3 are in the",
        ),
        (
            {"within": "big=0.1,small=1", "least": "rho"},
            "largest rho of a group is at most 2; allow",
        ),
        ({"epsilon": 1}, "epsilon=1 does not go with within"),
        ({"within": None, "epsilon": 1}, "^the tiers are big, small; give within=big=20,small=20"),
        (
            {"delta": "1e-6", "user": "who", "most": 2},
            "proven only for strategies that are causal: give",
        ),
    ],
)
def test_half_widths_that_do_not_go_with_the_tiers_are_refused(
    tmp_path: Path, more: dict[str, Any], said: str
) -> None:
    with pytest.raises(InvalidInput, match=said):
        release("count", **wanting(tmp_path, **more))
    assert not (tmp_path / "s.db").exists()


@pytest.mark.parametrize(
    ("tiers", "promise"), [("size", {"within": "big=10,small=30"}), ("most", {"epsilon": "1.1"})]
)
def test_a_first_job_leaves_rows_of_other_groups_out(
    tmp_path: Path, tiers: str, promise: dict[str, Any]
) -> None:
    asked = wanting(
        tmp_path, tiers=tiers, timezone="UTC", unit="visit", **{"within": None, **promise}
    )
    (tmp_path / "rows.csv").write_text("\n".join([*ROWS, "2024-03-02,Spain,c"]) + "\n")
    job = init(**asked)
    assert (job.groups.unknown, job.groups.other) == ("drop", None)
    assert len(define(job).tiers) == 2


def test_names_and_numbers_do_not_share_a_column(tmp_path: Path) -> None:
    asked = wanting(tmp_path)
    (tmp_path / "groups.csv").write_text("\n".join(TIERS).replace("small", "0.2"))
    with pytest.raises(InvalidInput, match=r"the epsilon 0\.2 and the tier 'big' in one column"):
        release("count", **asked)
