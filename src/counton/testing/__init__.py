"""The laws of a strategy as plain functions, for this library's strategies and for your own.

>>> from counton.strategies import Binary
>>> from counton.testing import check_strategy
>>> check_strategy(Binary(12))

And those of a strategy for ranges:

>>> from counton.strategies.lines import SquareRoot
>>> from counton.testing import check_range_strategy
>>> check_range_strategy(SquareRoot(12))
"""

from counton.testing.laws import check_strategy
from counton.testing.matrix_laws import (
    check_arguments,
    check_factorisation,
    check_overall_variance,
    check_parameters,
    check_sensitivity,
    check_variance,
)
from counton.testing.node_noise import HashedNoise, ShiftedNoise
from counton.testing.noise_laws import check_noise_is_rows, check_shift, check_windows
from counton.testing.range_laws import (
    check_range_description,
    check_range_estimates,
    check_range_sensitivity,
    check_range_strategy,
    check_range_variance,
    check_range_workloads,
    check_running_sums,
)
from counton.testing.tables import LawBroken

__all__ = [
    "HashedNoise",
    "LawBroken",
    "ShiftedNoise",
    "check_arguments",
    "check_factorisation",
    "check_noise_is_rows",
    "check_overall_variance",
    "check_parameters",
    "check_range_description",
    "check_range_estimates",
    "check_range_sensitivity",
    "check_range_strategy",
    "check_range_variance",
    "check_range_workloads",
    "check_running_sums",
    "check_sensitivity",
    "check_shift",
    "check_strategy",
    "check_variance",
    "check_windows",
]
