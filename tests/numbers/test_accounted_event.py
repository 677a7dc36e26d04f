"""A design is an event of dp_accounting that loses no less than its releases do."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import dp_accounting
import numpy as np
import pytest
from dp_accounting import NeighboringRelation
from dp_accounting.pld import PLDAccountant
from dp_accounting.rdp import RdpAccountant

from counton import ZCDP, ApproxDP, Contribution, ExpiringDP, PureDP, plan
from counton.base.distributions import DiscreteLaplace
from counton.base.errors import InvalidInput, MissingExtra
from counton.numbers import Design, dp_event
from counton.numbers.design import design_for
from counton.strategies import Binary, Expiring, HonakerOnline, KAry, StreamStrategy

ONE = Contribution.add_remove()
ORDERS = [*range(2, 65), 128, 256, 512]


def renyi(design: Design[Any], event: Any) -> Any:
    """What an accountant has for an event, at whole orders."""
    return RdpAccountant(ORDERS, NeighboringRelation.REPLACE_ONE).compose(event)._rdp


@pytest.mark.parametrize("epsilon", [0.01, 1, 8])
def test_pure_privacy_is_a_coin_of_the_same_epsilon(epsilon: float) -> None:
    event = dp_event(plan(365, PureDP(epsilon)).best)
    truth = 1 - event.noise_parameter / 2
    assert math.log(truth / (1 - truth)) == pytest.approx(epsilon, rel=1e-6)
    assert truth / (1 - truth) >= math.exp(epsilon)  # rounded towards more loss
    account = PLDAccountant(NeighboringRelation.REPLACE_ONE).compose(event)
    assert account.get_epsilon(1e-12) == pytest.approx(epsilon, rel=0.02)
    assert account.compose(event).get_epsilon(1e-12) == pytest.approx(2 * epsilon, rel=0.02)


@pytest.mark.parametrize("guarantee", [ZCDP("0.125"), ZCDP(2)])
@pytest.mark.parametrize("strategy", [Binary(100), KAry(100, arity=4), HonakerOnline(100)])
def test_concentrated_privacy_is_its_rho(guarantee: ZCDP, strategy: StreamStrategy) -> None:
    design = design_for(strategy, guarantee, Contribution.add_remove(cells=2, steps=3), (4,))
    event = dp_event(design)
    assert 0.99 * float(guarantee.rho) <= event.rho <= float(guarantee.rho) * (1 + 1e-15)
    assert event.xi == (0 if strategy.facts.causal else event.rho)


def test_bounds_hold_between_whole_orders_too() -> None:
    """Between them (alpha - 1) D <= (alpha (alpha - 1) + 1/4) rho; below order 2, D <= 2 rho."""
    event = dp_event(plan(365, ZCDP(1)).best)
    assert event.xi == event.rho == 1  # no causal strategy
    for order in np.linspace(1.001, 60, 5000):
        most = order + 1 / (4 * (order - 1))
        most = min(most, 2) if order <= 2 else most
        assert most <= event.xi + event.rho * order


@pytest.mark.parametrize("guarantee", [ApproxDP(1, 1e-6), ApproxDP(1, 0.01), ApproxDP(0.1, 1e-9)])
@pytest.mark.parametrize("strategy", [Binary(31), KAry(64, arity=8), HonakerOnline(31)])
def test_an_approximate_guarantee_is_about_what_the_event_says(
    guarantee: ApproxDP, strategy: StreamStrategy
) -> None:
    event = dp_event(design_for(strategy, guarantee, ONE))
    account = RdpAccountant(ORDERS, NeighboringRelation.REPLACE_ONE).compose(event)
    epsilon = float(guarantee.epsilon)
    assert 0.7 * epsilon < account.get_epsilon(float(guarantee.delta)) < 2.2 * epsilon


@pytest.mark.parametrize("family", ["laplace", "gaussian"])
def test_no_node_loses_more(family: str) -> None:
    """The divergence of shifted noise, summed over the values that it takes, node by node."""
    guarantee = ApproxDP(1, 0.01) if family == "laplace" else ZCDP(0.3)
    design = design_for(Binary(3), guarantee, ONE)
    assert (design.law.family, design.strategy.facts.causal) == (family, True)
    x = np.arange(-3000, 3001, dtype=float)
    if isinstance(design.law, DiscreteLaplace):
        log = -np.abs(x) / float(design.law.scale)
    else:
        log = -(x**2) / (2 * float(design.law.sigma_squared))
    log = log - np.logaddexp.reduce(log)
    nodes = max(len([*design.strategy.column(step)]) for step in range(1, 4))
    bound = renyi(design, dp_event(design))
    losses = [
        nodes * np.logaddexp.reduce(order * log[1:] + (1 - order) * log[:-1]) / (order - 1)
        for order in ORDERS[:40]
    ]
    assert all(losses <= bound[:40] * (1 + 1e-9))
    assert losses[0] > 0.6 * bound[0]


@pytest.mark.parametrize(
    ("design", "words"),
    [
        ("visits", "give the terms of a stream, as release.design"),
        (design_for(Expiring(), ExpiringDP(1), ONE), "of dp_accounting have no age"),
        (
            replace(design_for(Binary(31), PureDP(1), ONE), counters=PureDP("0.5")),
            "spends a part of its budget on choosing which groups are shown",
        ),
    ],
)
def test_what_has_no_event_is_refused(design: Any, words: str) -> None:
    with pytest.raises(InvalidInput, match=words):
        dp_event(design)


def test_an_older_package_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(dp_accounting.dp_event, "ZCDpEvent")
    with pytest.raises(MissingExtra, match=r"pip install 'dp-accounting>=0.6'"):
        dp_event(plan(31, ZCDP(1)).best)
    assert isinstance(dp_event(plan(31, PureDP(1)).best), dp_accounting.RandomizedResponseDpEvent)
