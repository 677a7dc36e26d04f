"""Every law at once."""

from __future__ import annotations

from counton.strategies import StreamStrategy
from counton.testing.matrix_laws import (
    check_arguments,
    check_factorisation,
    check_overall_variance,
    check_parameters,
    check_sensitivity,
    check_variance,
    check_window_variance,
)
from counton.testing.noise_laws import check_noise_is_rows, check_shift, check_windows
from counton.testing.tables import count_steps


def check_strategy(strategy: StreamStrategy, steps: int | None = None) -> None:
    """Check every law that applies.

    Raises:
        LawBroken: at the first law that does not hold.

    >>> from counton.strategies import Binary
    >>> check_strategy(Binary(12))
    """
    check_parameters(strategy)
    check_arguments(strategy)
    check_factorisation(strategy, steps)
    check_variance(strategy, steps)
    check_window_variance(strategy, steps)
    if strategy.horizon is not None:
        check_sensitivity(strategy)
        check_overall_variance(strategy)
    # Scalars and wide nodes take different paths; a few coordinates share that of scalars.
    few = ((3,),) if count_steps(strategy, steps) <= 64 else ()
    for shape in ((), (2, 20), *few):
        check_noise_is_rows(strategy, steps, shape)
        check_windows(strategy, steps, shape)
        check_shift(strategy, steps, shape)
