"""Lower bounds on the error of every mechanism for statistics of graphs whose edges are never
removed.

**By reconstruction.** A secret bit is an edge that is present or absent. If released numbers were
too accurate, many such bits could be estimated better than the guarantee allows
(`least_square_of_a_bit`).

**By counting.** If no two edges have a node in common, the number of nodes of degree 1 and the size
of the largest matching tell the number of edges. So bounds on any mechanism for running totals
apply (`least_noise_variance`), if a step may have any number of edges.

Source: these bounds are counton's own, and follow Dinur and Nissim ("Revealing information while
preserving privacy", 2003). For graphs whose edges are also removed, such growth with a root of the
number of steps was known (Raskhodnikova and Steiner, arXiv 2409.17623).
"""

# By reconstruction: let each of n secret bits be an edge of its own, there or not, and let later
# edges, which everybody knows, make released numbers tell sums of the bits over n sets, the rows of
# a matrix S of zeros and ones. With S a core of Sylvester's Hadamard matrix, n = 2^k - 1, its least
# singular value is sqrt(n + 1) / 2. If released numbers have errors of mean square at most a^2 then
# S^-1 gives estimates of the bits whose mean squares add up to at most 4 n a^2 / (n + 1). But no
# estimate of a fair bit that the guarantee hides has a mean square below v,
# `least_square_of_a_bit`, the other bits being known or not. So a^2 >= (n + 1) v / 4, which grows
# with the number of sets that can be asked for:
#
# - *degrees up to D.* Bit i is an edge at node i. To ask for a set give each of its nodes an edge
#   to a new node: if nodes had c - 1 edges beside the secret one, those of the set with a bit now
#   have c + 1, and they alone. Then give all other nodes one too. That is n edges for each of n
#   sets, and n + 1 at a node: n <= D - 1 and n (n + 1) <= T, if each step has one edge.
# - *matchings.* Bit i is the first edge of a path. Where e further edges lengthen it the largest
#   matching has ceil((e + 1) / 2) edges with the bit and ceil(e / 2) without: one more if e is
#   even, and the same if e is odd. Lengthen by one edge those paths that are to enter the sum or to
#   leave it. That is n edges at most for a set, so n (n + 1) <= T.
#
# By counting: such edges are counted by the nodes of degree 1, two for each, and by the matching,
# one for each.

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from counton.base.exact import float_above
from counton.planning.lower_bounds import least_variance
from counton.privacy import ZCDP, ApproxDP, Guarantee, PureDP
from papers.close_noise import least_noise_variance

if TYPE_CHECKING:
    from fractions import Fraction


_SAFE = 1 - 1e-9
#: From this epsilon on, e^-epsilon is taken as 0.
_LARGEST_LOSS = 700.0


def least_square_of_a_bit(guarantee: Guarantee) -> float:
    """Return a lower bound on the mean squared error of any estimate of a fair secret bit.

    The bit says whether a unit is present; 0 for guarantees without a known bound. For approximate
    privacy: Kairouz, Oh and Viswanath, "The composition theorem for differential privacy", 2015.

    >>> from counton import PureDP
    >>> [round(least_square_of_a_bit(one), 4) for one in (PureDP(1), ApproxDP(1, 0.5), ZCDP(1))]
    [0.1966, 0.0983, 0.0963]
    """
    # The best estimate has mean squared error E p (1 - p), where p is the probability of the bit
    # given the releases.
    #
    # - *Pure*: p is between 1 / (1 + e^epsilon) and one less that, so p (1 - p) is at least
    #   e^epsilon / (1 + e^epsilon)^2.
    # - *Approximate*: apart from a probability of delta, the releases can be made from a randomised
    #   answer of loss epsilon (Kairouz, Oh and Viswanath).
    # - *rho*, at whole orders: let P and Q be the two laws of the releases and M their mean, so
    #   that P = 2 p M and Q = 2 (1 - p) M. The divergences of order 2 are at most 2 rho. So the
    #   means under M of 2 p^2 / (1 - p) and of 2 (1 - p)^2 / p are at most e^(2 rho). So is half
    #   their sum, which is the mean of 1 / u - 3 with u = p (1 - p). By Jensen the mean of u is at
    #   least 1 / (3 + e^(2 rho)). A randomised answer with two values has this u and keeps rho at
    #   all whole orders, so no better bound follows from them.
    if isinstance(guarantee, ZCDP):
        kept = math.exp(-2 * _loss(guarantee.rho))
        return kept / (1 + 3 * kept) * _SAFE
    if not isinstance(guarantee, (PureDP, ApproxDP)):
        return 0.0
    delta = float_above(guarantee.delta) if isinstance(guarantee, ApproxDP) else 0.0
    kept = math.exp(-_loss(guarantee.epsilon))
    return (1 - delta) * kept / (1 + kept) ** 2 * _SAFE


def _loss(number: Fraction) -> float:
    loss = float_above(number)
    return loss if loss < _LARGEST_LOSS else math.inf


def _bits_among(nodes: int | None) -> int:
    """Return how many bits so many nodes can encode: n take n^2 + 2 n nodes; None: 2^31."""
    return 2**31 if nodes is None else math.isqrt(nodes + 1) - 1


def _reconstruction_bound(sets: int, steps: int, guarantee: Guarantee) -> float:
    """Return a lower bound on the root mean squared error at the worst step of counts in graphs.

    Releases with a smaller error would reveal sums of ``sets`` sets of secret bits, and so the
    bits; comments at the beginning of this file have the proof.
    """
    longest = (math.isqrt(4 * steps + 1) - 1) // 2  # n (n + 1) <= T
    # The largest power of two, less one, up to some number; 0 if there is none.
    most = min(sets, longest)
    bits = 2 ** ((most + 1).bit_length() - 1) - 1 if most >= 1 else 0
    return math.sqrt((bits + 1) * least_square_of_a_bit(guarantee)) / 2 if bits > 1 else 0.0


def _counting_bound(steps: int, guarantee: Guarantee) -> float:
    return math.sqrt(least_noise_variance(guarantee) * least_variance(steps, "max"))


def least_error_of_degrees(
    degree: int,
    steps: int,
    guarantee: Guarantee,
    *,
    batched: bool = False,
    nodes: int | None = None,
) -> float:
    """Return a lower bound on the root mean squared error of every mechanism for degree histograms.

    It holds at some step of some stream of edges, none of which is removed, for a protected edge.

    Args:
        degree: the largest degree of a node.
        batched: True if a step may have any number of edges, else one at most.
        nodes: number of nodes, if it is public.

    >>> from counton import PureDP
    >>> [round(least_error_of_degrees(degree, 10**6, PureDP(1)), 1) for degree in (20, 1000)]
    [0.9, 5.0]
    >>> round(least_error_of_degrees(20, 10**6, PureDP(1), batched=True), 1)
    13.8
    """
    found = _reconstruction_bound(min(degree - 1, _bits_among(nodes)), steps, guarantee)
    counted = batched and nodes is None
    return max(found, 2 * _counting_bound(steps, guarantee)) if counted else found


def least_error_of_matchings(
    steps: int, guarantee: Guarantee, *, batched: bool = False, nodes: int | None = None
) -> float:
    """Return a lower bound on the root mean squared error of every mechanism for the largest
    matching; conditions and arguments are those of `least_error_of_degrees`.

    >>> from counton import PureDP
    >>> round(least_error_of_matchings(10**6, PureDP(1)), 1)
    5.0
    """
    found = _reconstruction_bound(_bits_among(nodes), steps, guarantee)
    counted = batched and nodes is None
    return max(found, _counting_bound(steps, guarantee)) if counted else found
