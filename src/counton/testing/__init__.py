"""The laws of a strategy as plain functions, for this library's strategies and for your own.

>>> from counton.strategies import Binary
>>> from counton.testing import check_strategy
>>> check_strategy(Binary(12))
"""

from counton.testing.laws import check_strategy
from counton.testing.matrix_laws import (
    check_arguments,
    check_error,
    check_factorisation,
    check_parameters,
    check_sensitivity,
    check_variance,
)
from counton.testing.node_noise import HashedNoise, ShiftedNoise
from counton.testing.noise_laws import check_noise_is_rows, check_shift, check_windows
from counton.testing.tables import LawBroken

__all__ = [
    "HashedNoise",
    "LawBroken",
    "ShiftedNoise",
    "check_arguments",
    "check_error",
    "check_factorisation",
    "check_noise_is_rows",
    "check_parameters",
    "check_sensitivity",
    "check_shift",
    "check_strategy",
    "check_variance",
    "check_windows",
]
