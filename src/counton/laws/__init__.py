"""Checks of the laws of strategies and statistics: properties that every one of them must have.

The functions check this library's strategies and statistics, and your own. Each raises `LawBroken`
at the first law that does not hold, and states where.

>>> from counton.laws import check
>>> from counton.statistics import Sum
>>> check(Sum(0, 10, resolution=1), [[3, 12], [], [4]])
"""

from typing import TYPE_CHECKING

from counton.base.lazy import attach

if TYPE_CHECKING:
    from counton.laws.checks import check as check
    from counton.laws.node_noise import HashedNoise as HashedNoise
    from counton.laws.node_noise import ShiftedNoise as ShiftedNoise
    from counton.laws.pattern_laws import check_pattern_sensitivity as check_pattern_sensitivity
    from counton.laws.rows import LawBroken as LawBroken
    from counton.laws.statistic_laws import check_statistic as check_statistic
    from counton.laws.stream_laws import check_causal as check_causal
    from counton.laws.stream_laws import check_endless_sensitivity as check_endless_sensitivity
    from counton.laws.stream_laws import check_factorisation as check_factorisation
    from counton.laws.stream_laws import check_noise_is_rows as check_noise_is_rows
    from counton.laws.stream_laws import check_parameters as check_parameters
    from counton.laws.stream_laws import check_participation as check_participation
    from counton.laws.stream_laws import check_sensitivity as check_sensitivity
    from counton.laws.stream_laws import check_shift as check_shift
    from counton.laws.stream_laws import check_strategy as check_strategy
    from counton.laws.stream_laws import check_variance as check_variance
    from counton.laws.stream_laws import check_windows as check_windows

__getattr__, __dir__, __all__ = attach(__name__, __file__)
