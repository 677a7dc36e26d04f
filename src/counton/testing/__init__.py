"""The laws of a strategy as plain functions, for this library's strategies and for your own.

>>> from counton.strategies import Binary
>>> from counton.testing import check_strategy
>>> check_strategy(Binary(12))

And those of a strategy for lines:

>>> from counton.strategies.lines import SquareRoot
>>> from counton.testing import check_line_strategy
>>> check_line_strategy(SquareRoot(12))

And of one for trees:

>>> from counton.strategies.trees import Tree
>>> from counton.strategies.trees.strategy import tree_strategy_for
>>> from counton.testing import check_tree_strategy
>>> tree = Tree.from_leaves({"state": [1, 1, 2], "county": [1, 2, 3]}, ["state", "county"])
>>> check_tree_strategy(tree_strategy_for(tree, [1.0, 1.0, 2.0], norm=1)[0])

And of one for training:

>>> from counton.strategies.training import Echo
>>> from counton.testing import check_training_strategy
>>> check_training_strategy(Echo.fit(12, 3))

And of a statistic:

>>> from counton.statistics import Sum
>>> from counton.testing import check_statistic
>>> check_statistic(Sum(0, 10, resolution=1), [[3, 12], [], [4]])
"""

from counton.testing.error_laws import (
    check_endless_variance,
    check_expiry,
    check_largest_reads,
    check_noise_variance,
    check_released_variance,
    check_window_rounding,
)
from counton.testing.line_laws import (
    check_line_description,
    check_line_estimates,
    check_line_sensitivity,
    check_line_strategy,
    check_line_variance,
    check_line_workloads,
    check_running_sums,
)
from counton.testing.node_noise import HashedNoise, ShiftedNoise
from counton.testing.pattern_laws import check_shift_by, check_short_ways
from counton.testing.rows import LawBroken
from counton.testing.simulation import band, error_curve, simulate
from counton.testing.statistic_laws import (
    check_statistic,
    check_statistic_counts,
    check_statistic_description,
    check_statistic_neighbours,
    check_statistic_reading,
    check_statistic_rows,
    check_statistic_running,
)
from counton.testing.stream_laws import (
    check_alternating,
    check_arguments,
    check_causal,
    check_endless_sensitivity,
    check_factorisation,
    check_node_law,
    check_noise_is_rows,
    check_noise_parts,
    check_overall_variance,
    check_parameters,
    check_participation,
    check_reader,
    check_sensitivity,
    check_shift,
    check_strategy,
    check_variance,
    check_window_variance,
    check_windows,
)
from counton.testing.table_laws import check_columns
from counton.testing.training_laws import (
    check_training_description,
    check_training_factorisation,
    check_training_sensitivity,
    check_training_strategy,
    check_training_variance,
)
from counton.testing.tree_laws import (
    check_tree_cells,
    check_tree_description,
    check_tree_estimates,
    check_tree_shift,
    check_tree_strategy,
    check_tree_variance,
    tree_matrix,
)

__all__ = [
    "HashedNoise",
    "LawBroken",
    "ShiftedNoise",
    "band",
    "check_alternating",
    "check_arguments",
    "check_causal",
    "check_columns",
    "check_endless_sensitivity",
    "check_endless_variance",
    "check_expiry",
    "check_factorisation",
    "check_largest_reads",
    "check_line_description",
    "check_line_estimates",
    "check_line_sensitivity",
    "check_line_strategy",
    "check_line_variance",
    "check_line_workloads",
    "check_node_law",
    "check_noise_is_rows",
    "check_noise_parts",
    "check_noise_variance",
    "check_overall_variance",
    "check_parameters",
    "check_participation",
    "check_reader",
    "check_released_variance",
    "check_running_sums",
    "check_sensitivity",
    "check_shift",
    "check_shift_by",
    "check_short_ways",
    "check_statistic",
    "check_statistic_counts",
    "check_statistic_description",
    "check_statistic_neighbours",
    "check_statistic_reading",
    "check_statistic_rows",
    "check_statistic_running",
    "check_strategy",
    "check_training_description",
    "check_training_factorisation",
    "check_training_sensitivity",
    "check_training_strategy",
    "check_training_variance",
    "check_tree_cells",
    "check_tree_description",
    "check_tree_estimates",
    "check_tree_shift",
    "check_tree_strategy",
    "check_tree_variance",
    "check_variance",
    "check_window_rounding",
    "check_window_variance",
    "check_windows",
    "error_curve",
    "simulate",
    "tree_matrix",
]
