"""Totals from binary indexed trees, as the programs of Cai and others release them."""

from __future__ import annotations

import math

import numpy as np

from counton.base.arrays import Floats
from counton.strategies import Norm
from counton.strategies.published.matrices import level_shares, node_shares, spare_shares


def indexed_tree(horizon: int, norm: Norm, *, spare: bool = False) -> Floats:
    """Variances of the totals of each step, in units of the noise that protects a norm of 1.

    A total is the sum of one node for each bit of its step.
    `counton.strategies.published.indexed_tree_matrix` has the nodes.

    Args:
        horizon: number of steps.
        norm: 1 for Laplace noise (FDA), 2 for Gaussian noise (BCRG), where squares share.
        spare: what the nodes leave of a step's weight measures the step alone, and the total mends
            itself by the one before (ABCRG).

    >>> round(float(np.sqrt(2 * indexed_tree(365, 1).mean())), 2)
    18.48
    >>> [round(float(np.sqrt(indexed_tree(365, 2, spare=one).mean())), 2) for one in (False, True)]
    [5.05, 4.48]
    """
    shares = level_shares(horizon.bit_length(), norm)
    steps = np.arange(1, horizon + 1)
    nodes = node_shares(steps, shares)
    rest = spare_shares(horizon, shares) if spare else np.zeros(horizon)
    found = [0.0]
    for step, node, alone in zip(steps.tolist(), nodes.tolist(), rest.tolist(), strict=True):
        before = found[step & (step - 1)]
        other = found[-1] + 1 / alone - before if alone else math.inf
        found.append(before + 1 / (node ** (2 / norm) + 1 / other))
    return np.array(found[1:])
