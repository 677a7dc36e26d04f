"""Each mechanism of the survey is made from its name on the page, with the error stated there."""

from __future__ import annotations

from math import isqrt
from pathlib import Path
from typing import Any

import pytest

import counton.strategies
import counton.strategies.published
import counton.tables
import counton.training.strategies
from counton import plan
from counton.strategies import StreamStrategy
from papers.less_noise.numbers import GUARANTEES
from papers.survey.names import STEPS, main
from papers.survey.numbers import PUBLISHED, Published, toeplitz_errors

PAGE = Path(__file__).parents[2] / "docs" / "research" / "accuracy.md"
#: Least squares has less error than the published way to compute totals: by this factor.
LESS_BY_LEAST_SQUARES = {"ABCRG": 3.428 / 4.476, "group algebra": 2.772 / 2.859}
PACKAGES = (
    counton.strategies,
    counton.strategies.published,
    counton.tables,
    counton.training.strategies,
)
PUBLIC = {name: getattr(package, name) for package in PACKAGES for name in package.__all__}


def strategy_of(mechanism: Published, norm: int) -> Any:
    """The strategy that a reader of the page makes."""
    expression = mechanism.python[min(norm, len(mechanism.python)) - 1]
    return eval(expression, {**PUBLIC, "T": STEPS, "norm": norm, "isqrt": isqrt})


def test_command_prints_the_rows_of_the_page(capsys: pytest.CaptureFixture[str]) -> None:
    main()
    printed = capsys.readouterr().out
    assert printed.count("\n") == len(PUBLISHED)
    assert f"|--:|--:|\n{printed}\n" in PAGE.read_text("utf-8")


@pytest.mark.parametrize("mechanism", PUBLISHED, ids=lambda mechanism: mechanism.name)
def test_printed_name_has_the_printed_error(mechanism: Published) -> None:
    n_served = 0
    for guarantee, (stated, norm) in GUARANTEES.items():
        errors = mechanism.errors(STEPS, guarantee)
        if errors is None:
            continue
        n_served += 1
        strategy = strategy_of(mechanism, norm)
        if isinstance(strategy, StreamStrategy):
            mean = plan(STEPS, stated, strategies=[strategy]).best.errors.mean_std
        else:
            mean = toeplitz_errors(strategy)["mean"]
        expected = errors["mean"] * LESS_BY_LEAST_SQUARES.get(mechanism.name, 1)
        assert mean == pytest.approx(expected, rel=1e-3)
    assert n_served
