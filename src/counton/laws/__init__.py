"""Checks of the laws of strategies and statistics: properties that every one of them must have.

The functions check this library's strategies and your own. Each raises `LawBroken` at the first law
that does not hold; the message states where. The laws of a strategy for streams:

>>> from counton.strategies import Binary
>>> from counton.laws import check_strategy
>>> check_strategy(Binary(12))

The laws of a strategy for lines:

>>> from counton.strategies.lines import SquareRoot
>>> from counton.laws import check_line_strategy
>>> check_line_strategy(SquareRoot(12))

The laws of a strategy for trees:

>>> from counton.strategies.trees import Tree
>>> from counton.strategies.trees.tree_strategy import tree_strategy_for
>>> from counton.laws import check_tree_strategy
>>> tree = Tree.from_leaves({"state": [1, 1, 2], "county": [1, 2, 3]}, ["state", "county"])
>>> check_tree_strategy(tree_strategy_for(tree, [1.0, 1.0, 2.0], norm=1)[0])

The laws of a strategy for training:

>>> from counton.strategies.training import Echo
>>> from counton.laws import check_training_strategy
>>> check_training_strategy(Echo.fit(12, 3))

The laws of a statistic:

>>> from counton.statistics import Sum
>>> from counton.laws import check_statistic
>>> check_statistic(Sum(0, 10, resolution=1), [[3, 12], [], [4]])

`check` finds and checks the laws of any of these objects:

>>> from counton.laws import check
>>> check(Sum(0, 10, resolution=1), [[3, 12], [], [4]])
"""

from typing import TYPE_CHECKING

from counton.base.lazy import attach

if TYPE_CHECKING:
    from counton.laws.checks import check as check
    from counton.laws.drawn_noise import band as band
    from counton.laws.drawn_noise import simulate as simulate
    from counton.laws.error_laws import check_endless_variance as check_endless_variance
    from counton.laws.error_laws import check_expiry as check_expiry
    from counton.laws.error_laws import check_largest_reads as check_largest_reads
    from counton.laws.error_laws import check_noise_variance as check_noise_variance
    from counton.laws.error_laws import check_released_variance as check_released_variance
    from counton.laws.error_laws import check_window_rounding as check_window_rounding
    from counton.laws.line_laws import check_line_strategy as check_line_strategy
    from counton.laws.node_noise import HashedNoise as HashedNoise
    from counton.laws.node_noise import ShiftedNoise as ShiftedNoise
    from counton.laws.pattern_laws import check_pattern_sensitivity as check_pattern_sensitivity
    from counton.laws.pattern_laws import check_short_ways as check_short_ways
    from counton.laws.rows import LawBroken as LawBroken
    from counton.laws.statistic_laws import check_statistic as check_statistic
    from counton.laws.stream_laws import check_arguments as check_arguments
    from counton.laws.stream_laws import check_causal as check_causal
    from counton.laws.stream_laws import check_endless_sensitivity as check_endless_sensitivity
    from counton.laws.stream_laws import check_factorisation as check_factorisation
    from counton.laws.stream_laws import check_node_law as check_node_law
    from counton.laws.stream_laws import check_noise_is_rows as check_noise_is_rows
    from counton.laws.stream_laws import check_noise_parts as check_noise_parts
    from counton.laws.stream_laws import check_parameters as check_parameters
    from counton.laws.stream_laws import check_participation as check_participation
    from counton.laws.stream_laws import check_reader as check_reader
    from counton.laws.stream_laws import check_sensitivity as check_sensitivity
    from counton.laws.stream_laws import check_shift as check_shift
    from counton.laws.stream_laws import check_strategy as check_strategy
    from counton.laws.stream_laws import check_variance as check_variance
    from counton.laws.stream_laws import check_window_variance as check_window_variance
    from counton.laws.stream_laws import check_windows as check_windows
    from counton.laws.training_laws import check_training_strategy as check_training_strategy
    from counton.laws.tree_laws import check_tree_strategy as check_tree_strategy

__getattr__, __dir__, __all__ = attach(__name__, __file__)
