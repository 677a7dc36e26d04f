"""Totals from binary indexed trees, as the programs of Cai and others release them."""

from __future__ import annotations

import math

import numpy as np

from counton.base.arrays import Floats, Integers
from counton.strategies import Norm


def indexed_tree(horizon: int, norm: Norm, *, spare: bool = False) -> Floats:
    """Variances of the totals of each step, in units of the noise that protects a norm of 1.

    A binary indexed tree measures, for each step t, the sum of the steps above t - 2^i up to t,
    where 2^i is the lowest bit of t; a total is the sum of one such node for each bit of t. The
    nodes that hold a step share its weight 1: a node takes the part ``own[i]`` of what larger nodes
    leave.

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
    own = _own_parts(horizon.bit_length(), 4 - norm)
    steps = np.arange(1, horizon + 1)
    nodes = _shares(steps, own)
    rest = np.zeros(horizon)
    if spare:
        rest += 1
        for level in range(len(own)):  # the node of this level that holds a step, if one does
            last = -(-steps >> level) << level
            known = (last >> level & 1 == 1) & (last < 1 << len(own))
            rest -= np.where(known, _shares(last, own), 0.0)
    found = [0.0]
    for step, node, alone in zip(steps.tolist(), nodes.tolist(), rest.tolist(), strict=True):
        before = found[step & (step - 1)]
        other = found[-1] + 1 / alone - before if alone > 1e-8 else math.inf
        found.append(before + 1 / (node ** (2 / norm) + 1 / other))
    return np.array(found[1:])


def _own_parts(levels: int, power: int) -> list[float]:
    """The part of a node of each level, which makes the summed error of its totals least."""
    own = [1.0]
    error = 1.0
    size = 2.0
    for _ in range(1, levels):
        left = size ** (1 / power)
        right = error ** (1 / power)
        own.append(left / (left + right))
        error = error + (left + right) ** power
        size = 2 * size
    return own


def _shares(nodes: Integers, own: list[float]) -> Floats:
    """The weight of each node (under norm 2 its square), known by its last step."""
    found = np.ones(len(nodes))
    seen = np.zeros(len(nodes), bool)
    for level, part in enumerate(own):
        bit = (nodes >> level & 1).astype(bool)
        found *= np.where(seen, np.where(bit, 1.0, 1 - part), np.where(bit, part, 1.0))
        seen |= bit
    return found
