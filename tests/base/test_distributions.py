"""Laws as data: exact parameters, variances at the ends of the range, saved and read again."""

import json
import math
from decimal import Decimal
from fractions import Fraction
from typing import Any

import pytest

from counton.base.distributions import (
    Alternating,
    BoundedChange,
    DiscreteGaussian,
    DiscreteLaplace,
    Pattern,
    Run,
    Runs,
    distribution_from_dict,
    distribution_to_dict,
    pattern_from_dict,
    pattern_to_dict,
)
from counton.base.errors import InvalidInputError

KINDS = (DiscreteLaplace, DiscreteGaussian)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("value", [2.5, math.nan, math.inf, "1", None, Decimal(1)], ids=str)
def test_parameters_that_are_no_exact_rationals_are_refused(kind: Any, value: Any) -> None:
    with pytest.raises(InvalidInputError, match="Fraction"):
        kind(value)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("value", [0, -1, Fraction(-1, 2), 2**81], ids=str)
def test_parameters_out_of_range_are_refused(kind: Any, value: Any) -> None:
    with pytest.raises(InvalidInputError, match="must be"):
        kind(Fraction(value))


@pytest.mark.parametrize("kind", KINDS)
def test_distributions_too_narrow_for_floats_have_variance_zero(kind: Any) -> None:
    assert kind(Fraction(1, 10**400)).variance == 0
    assert kind(Fraction(1, 10**400)).std == 0
    assert 0 < kind(Fraction(1, 600)).variance < 1e-100


@pytest.mark.parametrize("kind", KINDS)
def test_saved_distribution_is_restored(kind: Any) -> None:
    distribution = (
        kind(Fraction(10**20 + 1, 7)) if kind is DiscreteGaussian else kind(Fraction(10**9, 7))
    )
    assert distribution_from_dict(distribution_to_dict(distribution)) == distribution
    assert hash(distribution_from_dict(distribution_to_dict(distribution))) == hash(distribution)


@pytest.mark.parametrize(
    "saved", [{}, {"law": "discrete Laplace"}, {"law": "discrete Gaussian", "sigma_squared": "1/0"}]
)
def test_damaged_distribution_is_refused(saved: dict[str, str]) -> None:
    with pytest.raises(InvalidInputError):
        distribution_from_dict(saved)


@pytest.mark.parametrize(
    "pattern",
    [
        Runs((Run(3, 1, 2, 4, 5), Run(1))), Alternating(4, 3, 2), Alternating(4),
        BoundedChange(4, 8), BoundedChange(4, 8, single_step=True),
    ],
)  # fmt: skip
def test_patterns_survive_being_saved(pattern: Pattern) -> None:
    assert pattern_from_dict(json.loads(json.dumps(pattern_to_dict(pattern)))) == pattern
