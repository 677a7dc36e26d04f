"""The laws of a strategy as plain functions, for this library's strategies and for your own.

>>> from counton.strategies import Binary
>>> from counton.testing import check_strategy
>>> check_strategy(Binary(12))

And those of a strategy for lines:

>>> from counton.strategies.lines import SquareRoot
>>> from counton.testing import check_line_strategy
>>> check_line_strategy(SquareRoot(12))
"""

from counton.testing.laws import check_strategy
from counton.testing.line_laws import (
    check_line_description,
    check_line_estimates,
    check_line_sensitivity,
    check_line_strategy,
    check_line_variance,
    check_line_workloads,
    check_running_sums,
)
from counton.testing.matrix_laws import (
    check_arguments,
    check_factorisation,
    check_overall_variance,
    check_parameters,
    check_sensitivity,
    check_variance,
    check_window_variance,
)
from counton.testing.node_noise import HashedNoise, ShiftedNoise
from counton.testing.noise_laws import check_noise_is_rows, check_shift, check_windows
from counton.testing.tables import LawBroken

__all__ = [
    "HashedNoise",
    "LawBroken",
    "ShiftedNoise",
    "check_arguments",
    "check_factorisation",
    "check_line_description",
    "check_line_estimates",
    "check_line_sensitivity",
    "check_line_strategy",
    "check_line_variance",
    "check_line_workloads",
    "check_noise_is_rows",
    "check_overall_variance",
    "check_parameters",
    "check_running_sums",
    "check_sensitivity",
    "check_shift",
    "check_strategy",
    "check_variance",
    "check_window_variance",
    "check_windows",
]
