"""A lower bound on the variance of noise that keeps (epsilon, delta) for a change by 1.

`counton.planning.lower_bounds.least_noise_variance` has the bounds for pure and zero-concentrated
privacy, and the argument that makes bounds on any mechanism of them.
"""

# In the terms of the comments in that function: V / s^2 >= E Var(p) and delta >= E (H_+ + H_-) / 2
# over the cosets, with H_+- the sum over k of max(0, p(k) - e^epsilon p(k -+ 1)). So V / s^2 + l
# delta is at least the least Var(p) + l (H_+ + H_-) / 2 of any law on the integers, for every l: a
# linear programme, each dual solution of which is a proof. Where epsilon is small, several moves
# are taken together: m of them cost (m epsilon, delta (e^(m epsilon) - 1) / (e^epsilon - 1)).

from __future__ import annotations

import math
from functools import lru_cache
from itertools import pairwise

import numpy as np

from counton.base.exact import float_above
from counton.planning import lower_bounds
from counton.privacy import ApproxDP, Guarantee

#: Factor for bounds: it lowers them by more than all rounding errors of the sums.
_SAFE = 1 - 1e-9
#: Largest epsilon for which a bound is computed: beyond it hardly anything is hidden.
_LARGEST_CLOSE = 30.0
#: In bounds for (epsilon, delta), changes by several units are considered up to this epsilon and
#: this delta. A delta below the last number is taken as the last number.
_SHORT_LOSS = 0.2
_SHORT_DELTA = 0.02
_LEAST_DELTA = 1e-15
#: Centres a, up to symmetry, at which lower bounds on E (k - a)^2 of integer noise k are computed.
_CENTRES = (0.0, 1 / 64, 1 / 16, 1 / 8, 1 / 4, 3 / 8, 1 / 2)


def least_noise_variance(guarantee: Guarantee) -> float:
    """Return a lower bound on the variance of noise that keeps a guarantee for a change by 1.

    >>> from counton import PureDP
    >>> [round(least_noise_variance(each), 3) for each in (PureDP(1), ApproxDP(1, 1e-6))]
    [1.841, 1.841]
    """
    if not isinstance(guarantee, ApproxDP):
        return lower_bounds.least_noise_variance(guarantee)
    return _least_approximate(float_above(guarantee.epsilon), float_above(guarantee.delta)) * _SAFE


@lru_cache(maxsize=128)
def _least_approximate(epsilon: float, delta: float) -> float:
    """Return a lower bound under (epsilon, delta)-privacy; for a change by s times s^2."""
    # V / s^2 in `least_noise_variance`; the best over moves of one step and of several steps at a
    # time.
    moves = max(1, math.floor(min(_SHORT_LOSS / epsilon, _SHORT_DELTA / delta)))
    loss = moves * epsilon
    if loss > _LARGEST_CLOSE:
        return 0.0
    slack = max(delta * math.expm1(loss) / math.expm1(epsilon), _LEAST_DELTA)
    return moves**2 * _least_close(loss, slack) if slack < 1 else 0.0


def _least_close(epsilon: float, delta: float) -> float:
    """Return a lower bound on the variance of noise k on the integers whose distribution is
    (epsilon, delta)-indistinguishable from that of k + 1.
    """
    # The noise may be a mixture of such noises. Its variance is the least of E (k - a)^2 over
    # centres a, and centres within [0, 1/2] suffice, since laws may be moved and mirrored. Let f(a)
    # be the least of E (k - a)^2 + l (H_+ + H_-) / 2 over all laws. Then f(a) - a^2 is a minimum of
    # affine functions, so it is concave: between two centres it is above the chord.
    price, _ = _price_and_bound(epsilon, delta, 0.0, None)
    above = [_price_and_bound(epsilon, delta, a, price)[1] - a * a for a in _CENTRES]
    least = math.inf
    for (a, of_a), (b, of_b) in pairwise(zip(_CENTRES, above, strict=True)):
        slope = (of_b - of_a) / (b - a)
        at = min(max(-slope / 2, a), b)
        least = min(least, at * at + of_a + slope * (at - a))
    return max(least - price * delta, 0.0)


def _price_and_bound(
    epsilon: float, delta: float, centre: float, price: float | None
) -> tuple[float, float]:
    """Return the price l and a lower bound on E (k - a)^2 + l (H_+ + H_-) / 2 for every k.

    a is ``centre``. H_+ and H_- measure how far k + 1 and k - 1 are from being
    epsilon-indistinguishable from k; comments in `least_noise_variance` define them. Without a
    price, l is the best at this delta.
    """
    # The bound is a dual solution of a linear programme. For any numbers up_k, down_k in [0, l / 2]
    # it is the least over k of (k - a)^2 + up_k - e^epsilon up_{k+1} + down_k - e^epsilon
    # down_{k-1}. The programme finds good numbers. The bound is computed from these numbers, so it
    # holds even if they are not the best.
    from scipy.optimize import linprog
    from scipy.sparse import block_array, csr_array, diags_array, eye_array

    factor = math.exp(epsilon)
    reach = math.ceil(4 + min((6 - math.log(delta)) / epsilon, 10 / delta))
    places = np.arange(-reach, reach + 1)
    squares = (places - centre) ** 2
    count = len(places)
    up = diags_array([-1.0, factor], offsets=[0, 1], shape=(count, count))
    down = diags_array([-1.0, factor], offsets=[0, -1], shape=(count, count))
    one = csr_array(np.ones((count, 1)))
    half = csr_array(np.full((count, 1), -0.5))
    each = eye_array(count)
    found = linprog(
        np.concatenate([np.zeros(2 * count), [-1.0, delta]]),
        A_ub=block_array(
            [[up, down, one, None], [each, None, None, half], [None, each, None, half]]
        ),
        b_ub=np.concatenate([squares, np.zeros(2 * count)]),
        bounds=[
            (0, 0),
            *[(0, None)] * (2 * count - 2),
            (0, 0),
            (None, None),
            (price or 0.0, price),
        ],
        method="highs",
    )
    if price is None:
        price = float(found.x[-1])
    ups, downs = np.clip(found.x[: 2 * count].reshape(2, -1), 0, price / 2)
    given = squares + ups + downs
    taken = factor * (np.append(ups[1:], 0) + np.append(0, downs[:-1]))
    # Places further out have no shares and larger squares.
    beyond = (reach + 1 - abs(centre)) ** 2 - factor * max(ups[0], downs[-1])
    rounding = 1e-14 * float(max(given.max(), taken.max()))
    return price, min(float((given - taken).min()), beyond) - rounding
