"""Simulated releases: invented numbers with noise like a stream's, marked as simulated."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from secrets import token_hex
from typing import Any

import numpy as np
from numpy.typing import NDArray

from counton.base.errors import InvalidInput, field
from counton.base.exact import check_integer
from counton.numbers import Design
from counton.released.description import Description
from counton.strategies.strategy import check_steps

#: Prefix of the name of a simulated stream.
SIMULATED = "SIMULATED"
#: Largest number of simulations that are made at once.
_MOST = 10_000


def simulation_design(terms: Design, definition: Description) -> tuple[Design, Description]:
    """Return the design (strategy, guarantee and noise) and the description of a simulated stream,
    both marked as simulated.

    Its noise is independent of the noise of the real stream.
    """
    name = terms.name
    if not definition.simulated:
        name = f"{SIMULATED} {name}"
    terms = replace(terms, name=name, noise_id=token_hex(16))  # independent noise
    return terms, replace(definition, simulated=True)


def check_numbers(numbers: Any, shape: tuple[int, ...], terms: Design) -> NDArray[np.float64]:
    """Return the invented true numbers of a simulation as an array in data units, after checking
    them.

    Args:
        numbers: numbers of consecutive steps from 1 on, shape ``(steps, *shape)``.
        shape: the shape of one step.
        terms: the design of the stream (strategy, guarantee and noise).

    Raises:
        InvalidInput: the shape is wrong, there are too many steps, or numbers are not finite.
    """
    try:
        found = np.asarray(numbers, np.float64)
    except (TypeError, ValueError):
        found = np.full((1, *shape), np.nan)
    if found.ndim == 1 and shape == (1,):
        found = found[:, None]
    if found.shape[1:] != shape or not len(found) or not np.isfinite(found).all():
        raise InvalidInput(
            f"{field('numbers')} have shape {found.shape}; give finite numbers of shape (steps, "
            f"{', '.join(map(str, shape))}), a row for each step"
        )
    check_steps(terms.strategy, range(1, len(found) + 1))
    return found


def simulated_releases(
    terms: Design, numbers: NDArray[np.float64], n: int
) -> Iterator[NDArray[np.float64]]:
    """Yield ``n`` simulated releases of the same numbers, each with independent noise.

    Args:
        terms: the design of the simulated stream (strategy, guarantee and noise).
        numbers: the true number of each step, shape ``(steps, ...)``.
        n: number of simulations.
    """
    from counton.numbers.joint import fresh_noise

    delay, steps = terms.strategy.facts.delay, len(numbers)
    late = np.concatenate([np.zeros((delay, *numbers.shape[1:])), numbers])[:steps]
    truth = np.cumsum(late, axis=0) if terms.strategy.facts.workload == "totals" else late
    cells = int(np.prod(numbers.shape[1:], dtype=np.int64))
    for _ in range(check_integer("n", n, 1, _MOST)):
        noise = fresh_noise(terms, cells, steps)
        yield truth + noise.reshape(truth.shape)
