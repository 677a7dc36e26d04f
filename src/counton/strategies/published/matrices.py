"""Measurement matrices of published mechanisms that have no strategy class of their own.

`counton.strategies.Factorisation` turns such a matrix C into a strategy, and computes B. For a
square C, this is the published B. For another C, B is the least-squares inverse: no release has a
larger error than with the published B.
"""

from __future__ import annotations

import numpy as np

from counton.base.arrays import Floats, Integers
from counton.base.exact import check_integer
from counton.strategies.participation import check_norm
from counton.strategies.strategy import LARGEST_DENSE, Norm

#: Shares up to this are rounding errors of 0.
_ROUNDING_ERROR = 1e-8


def indexed_tree_matrix(horizon: int, norm: Norm, *, spare: bool = False) -> Floats:
    """Return C of a binary indexed tree whose nodes share the weight 1 of a step.

    For each step t the tree measures the weighted sum of the steps above t - 2^i up to t, where 2^i
    is the lowest bit of t. With Laplace noise this is FDA (Cai, Wu and Wang 2016). With Gaussian
    noise it is BCRG or ABCRG (Cai, Liu, Ye, Liu and Wang, program ``dpcrpy`` 1.0.0).

    Args:
        horizon: number of steps, 1 to 4096.
        norm: 1 for FDA, where weights of a step add up to 1; 2 for BCRG, where their squares do.
        spare: measure each step alone, too, with the weight that the nodes leave (ABCRG).

    Returns:
        C, shape (measurements, steps), with columns of norm at most 1.

    Raises:
        InvalidInputError: a horizon or norm out of range.

    >>> indexed_tree_matrix(3, 1).round(3).tolist()
    [[0.442, 0.0, 0.0], [0.558, 0.558, 0.0], [0.0, 0.0, 1.0]]
    >>> from counton import PureDP, plan
    >>> from counton.strategies import Factorisation
    >>> fda = Factorisation(indexed_tree_matrix(365, norm=1))
    >>> round(plan(365, PureDP(1), strategies=[fda]).best.errors.mean_std, 2)
    18.48
    """
    horizon = check_integer("horizon", horizon, 1, LARGEST_DENSE)
    norm = check_norm(norm)
    shares = level_shares(horizon.bit_length(), norm)
    steps = np.arange(1, horizon + 1)
    firsts = steps - (steps & -steps)
    weights = node_shares(steps, shares) ** (1 / norm)
    is_inside = (steps > firsts[:, None]) & (steps <= steps[:, None])
    matrix = np.where(is_inside, weights[:, None], 0.0)
    if spare:
        rest = spare_shares(horizon, shares)
        alone = np.diag(rest ** (1 / norm))
        matrix = np.vstack([matrix, alone[rest > 0]])
    return matrix


def group_algebra_matrix(horizon: int) -> Floats:
    """Return C of the square root of a circulant matrix of twice the size.

    The circulant matrix contains the matrix of running totals, and all columns of its root have one
    norm (Henzinger and Upadhyay, SODA 2025).

    Args:
        horizon: number of steps, 1 to 4096.

    Returns:
        C, shape (2 horizon, horizon), for Gaussian noise.

    Raises:
        InvalidInputError: a horizon out of range.

    >>> from counton import ZCDP, plan
    >>> from counton.strategies import Factorisation
    >>> root = Factorisation(group_algebra_matrix(365))
    >>> round(plan(365, ZCDP(0.5), strategies=[root]).best.errors.max_std, 2)
    2.86
    """
    horizon = check_integer("horizon", horizon, 1, LARGEST_DENSE)
    size = 2 * horizon
    first_column = np.r_[np.ones(horizon), np.zeros(horizon)]
    # `rfft` and `irfft` choose conjugate roots of conjugate eigenvalues, so the root is real.
    root = np.fft.irfft(np.sqrt(np.fft.rfft(first_column).astype(complex)), size)
    shifts = np.subtract.outer(np.arange(size), np.arange(horizon))
    return np.asarray(root[shifts % size])


def level_shares(levels: int, norm: Norm) -> list[float]:
    """Return the share of a node of each level in what larger nodes leave.

    These shares make the summed error of the totals over 2^levels - 1 steps smallest.

    Args:
        levels: number of levels.
        norm: 1 if the weights of a step's nodes add up to 1, 2 if their squares do.

    >>> [round(level_shares(2, norm)[1], 4) for norm in (1, 2)]
    [0.5575, 0.5858]
    """
    power = 4 - norm
    shares = [1.0]
    error = 1.0
    size = 2.0
    for _ in range(1, levels):
        root_of_size = size ** (1 / power)
        root_of_error = error ** (1 / power)
        shares.append(root_of_size / (root_of_size + root_of_error))
        error = error + (root_of_size + root_of_error) ** power
        size = 2 * size
    return shares


def node_shares(nodes: Integers, shares: list[float]) -> Floats:
    """Return the weight of each node, or its square with norm 2.

    Args:
        nodes: nodes, by their last step.
        shares: `level_shares` of the tree.

    >>> node_shares(np.array([1, 2]), [1.0, 0.5]).tolist()
    [0.5, 0.5]
    """
    weights = np.ones(len(nodes))
    seen = np.zeros(len(nodes), bool)
    for level, share in enumerate(shares):
        bit = (nodes >> level & 1).astype(bool)
        weights *= np.where(seen, np.where(bit, 1.0, 1 - share), np.where(bit, share, 1.0))
        seen |= bit
    return weights


def spare_shares(horizon: int, shares: list[float]) -> Floats:
    """Return what the nodes leave of the weight 1 of each step.

    Nodes that end after the horizon keep their share, as in ``dpcrpy``.

    Args:
        horizon: number of steps.
        shares: `level_shares` of the tree.

    >>> spare_shares(3, [1.0, 0.5]).tolist()
    [0.0, 0.5, 0.0]
    """
    steps = np.arange(1, horizon + 1)
    rest = np.ones(horizon)
    for level in range(len(shares)):  # the node of this level that holds a step, if there is one
        last = -(-steps >> level) << level
        is_node = last >> level & 1 == 1
        rest -= np.where(is_node, node_shares(last, shares), 0.0)
    return np.where(rest > _ROUNDING_ERROR, rest, 0.0)
