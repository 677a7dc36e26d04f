"""Checks of properties that every strategy and every statistic must have.

The functions check this library's strategies and statistics, and your own. Each raises
`PropertyViolationError` at the first property that does not hold, and states where.

>>> from counton.testing import check
>>> from counton.statistics import Sum
>>> check(Sum(0, 10, resolution=1), [[3, 12], [], [4]])
"""

from typing import TYPE_CHECKING

from counton.base.lazy import attach

if TYPE_CHECKING:
    from counton.testing.checks import check as check
    from counton.testing.node_noise import HashedNoise as HashedNoise
    from counton.testing.node_noise import ShiftedNoise as ShiftedNoise
    from counton.testing.pattern_checks import (
        check_pattern_sensitivity as check_pattern_sensitivity,
    )
    from counton.testing.rows import PropertyViolationError as PropertyViolationError
    from counton.testing.statistic_checks import check_statistic as check_statistic
    from counton.testing.stream_checks import check_causal as check_causal
    from counton.testing.stream_checks import check_endless_sensitivity as check_endless_sensitivity
    from counton.testing.stream_checks import check_factorisation as check_factorisation
    from counton.testing.stream_checks import check_noise_is_rows as check_noise_is_rows
    from counton.testing.stream_checks import check_parameters as check_parameters
    from counton.testing.stream_checks import check_participation as check_participation
    from counton.testing.stream_checks import check_sensitivity as check_sensitivity
    from counton.testing.stream_checks import check_shift as check_shift
    from counton.testing.stream_checks import check_strategy as check_strategy
    from counton.testing.stream_checks import check_variance as check_variance
    from counton.testing.stream_checks import check_windows as check_windows

__getattr__, __dir__, __all__ = attach(__name__, __file__)
