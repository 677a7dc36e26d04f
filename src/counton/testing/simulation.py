"""What the noise of a strategy looks like: drawn many times, and its standard deviation by step."""

from __future__ import annotations

import numpy as np

from counton.arrays import Floats
from counton.errors import InvalidInput
from counton.exact import check_integer
from counton.laws import Law
from counton.noise import Key, NoiseField
from counton.strategies import StreamStrategy


def simulate(
    strategy: StreamStrategy,
    law: Law,
    runs: int,
    *,
    steps: int | None = None,
    key: Key | None = None,
) -> Floats:
    """Noise of releases, drawn by the samplers that streams use; no data and no guarantee.

    Args:
        strategy: how noise is correlated over time.
        law: of one node, such as ``DiscreteLaplace(5)``, in units of the strategy's lattice.
        runs: how many streams.
        steps: the first so many; None: all of its horizon.
        key: from which noise is computed; None: a fresh one.

    Returns:
        float64, shape ``(runs, steps)``, in the unit of what is counted.

    Raises:
        InvalidInput: no horizon and no steps, or numbers out of range.

    >>> from counton.laws import DiscreteGaussian
    >>> from counton.strategies import Binary
    >>> noise = simulate(Binary(63), DiscreteGaussian(9), runs=400)
    >>> noise.shape
    (400, 63)
    >>> expected = error_curve(Binary(63), DiscreteGaussian(9))
    >>> bool(abs(noise[:, -1].std() / expected[-1] - 1) < 0.25)
    True
    """
    runs, last = check_integer("runs", runs, 1), _steps(strategy, steps)
    drawn = Key.generate() if key is None else key
    field = NoiseField(
        drawn.derive(b"simulation"), lambda level: strategy.node_law(law, level), (runs,)
    )
    noise = strategy.noise(field, range(1, last + 1))
    return np.asarray(noise.T * 2.0**-strategy.fraction_bits, dtype=np.float64)


def error_curve(strategy: StreamStrategy, law: Law, steps: int | None = None) -> Floats:
    """Standard deviation of the noise at every step, exactly; shape ``(steps,)``.

    Args:
        strategy, law, steps: as of `simulate`.

    Raises:
        InvalidInput: no horizon and no steps, or more steps than it serves.

    >>> from counton.laws import DiscreteGaussian
    >>> from counton.strategies import Binary
    >>> error_curve(Binary(7), DiscreteGaussian(9)).round(2).tolist()
    [3.0, 3.0, 4.24, 3.0, 4.24, 4.24, 5.2]
    """
    variance = strategy.noise_variance(law, range(1, _steps(strategy, steps) + 1))
    return np.asarray(np.sqrt(variance), dtype=np.float64)


def _steps(strategy: StreamStrategy, steps: int | None) -> int:
    if steps is None and strategy.horizon is None:
        raise InvalidInput("steps is None, and the strategy has no last step: say how many")
    return check_integer("steps", strategy.horizon if steps is None else steps, 1)
