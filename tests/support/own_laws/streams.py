"""All tests of a strategy for streams of this library: the laws for all strategies, and more."""

from typing import Any

import numpy as np

from counton import laws
from counton.laws.node_noise import HashedNoise
from counton.laws.rows import (
    accepts,
    columns_in_order,
    count_steps,
    names_subject,
    require,
    tables_kept,
)
from counton.laws.stream_laws import LAWS, law_or_none
from counton.strategies import StreamStrategy
from counton.strategies.strategy import PART, EndlessStrategy
from own_laws.arguments import check_arguments
from own_laws.errors import (
    check_endless_variance,
    check_expiry,
    check_largest_reads,
    check_noise_variance,
    check_released_variance,
    check_window_rounding,
    check_window_variance,
)
from own_laws.structures import check_short_ways


@names_subject
def check_strategy(strategy: StreamStrategy, steps: int | None = None) -> None:
    """Check that a strategy for streams keeps the laws of `counton.laws`, and what this library
    computes of it besides.

    >>> from counton.strategies import Binary
    >>> check_strategy(Binary(12))
    """
    with tables_kept(strategy):
        laws.check_strategy(strategy, steps)
        check_arguments(strategy)
        check_window_variance(strategy, steps)
        check_noise_variance(strategy, steps)
        check_largest_reads(strategy, steps)
        check_node_law(strategy, steps)
        if isinstance(strategy, EndlessStrategy):
            check_endless_variance(strategy, steps)
            check_expiry(strategy, steps)
        else:
            check_short_ways(strategy)
            check_released_variance(strategy)
        few = ((3,),) if count_steps(strategy, steps) <= 64 else ()
        for shape in ((), (2, 20), *few):
            check_reader(strategy, steps, shape)
        check_window_rounding(strategy, steps)
        check_noise_parts(strategy, steps)


@names_subject
def check_node_law(strategy: StreamStrategy, steps: int | None = None) -> None:
    """Check that no node lacks a noise distribution: `node_law` must give one for each calibrated
    distribution that the strategy accepts.

    A node is one noisy measurement. Noise of several widths is tried. Whether a node's noise is
    wide enough is checked by `check_endless_sensitivity`.

    >>> from counton.strategies import Binary
    >>> check_node_law(Binary(12))
    """
    columns = columns_in_order(strategy, count_steps(strategy, steps))
    levels = sorted({level for column in columns for level, _ in column})
    for base in LAWS:
        if not accepts(strategy, base):
            continue
        for level in levels:
            law = law_or_none(strategy, base, level)
            message = (
                f"_check_law accepted the noise {base}, but node_law refuses it for nodes of level "
                f"{level}; let _check_law refuse it too"
            )
            require(law is not None, message)


@names_subject
def check_reader(
    strategy: StreamStrategy, steps: int | None = None, shape: tuple[int, ...] = ()
) -> None:
    """Check that a reader, the object that computes a running stream's noise window by window,
    returns the same numbers as ``noise``.

    Windows of growing length, parts of a window, and earlier steps are tried. A new reader must
    give the same noise, whatever the step from which it starts. Readers of two streams must not
    influence each other.

    >>> from counton.strategies import Binary
    >>> check_reader(Binary(12), shape=(2,))
    """
    count = count_steps(strategy, steps)
    tables = HashedNoise(shape), HashedNoise(shape, seed=1)
    whole = [strategy.noise(table, range(1, count + 1)) for table in tables]
    readers = [strategy._reader(table) for table in tables]
    windows, first = [], 1
    while first <= count:  # as a counter asks: one step, then more at once
        windows.append(range(first, min(2 * first, count) + 1))
        first = windows[-1].stop
    windows += [range(1, 1), range(1 + count // 2, count + 1), range(1, min(count, 3) + 1)]
    for window in windows:
        for reader, noise in zip(readers, whole, strict=True):
            found = reader.noise(window)
            same = np.array_equal(found, noise[window.start - 1 :][: len(window)])
            require(same, f"the noise of its reader (reader()) differs from noise({window})")
            require(
                found.dtype == np.int64,
                f"the noise of its reader must be int64, but is {found.dtype}",
            )
    nothing = np.empty((0, *shape), np.int64)
    for window in (range(1, count + 1), range(1 + count // 2, count + 1)):
        reader = strategy._reader(tables[0])
        for where in ("parts", "parts, asked again,"):
            parts = [part.copy() for part in reader.parts(window)]
            found = np.concatenate([nothing, *parts])
            same = np.array_equal(found, whole[0][window.start - 1 :])
            require(same, f"the {where} of its reader (reader()) differ on {window}")
        local: Any = reader.local
        require(
            local is True or local is False,
            f"its reader must have local as True or False, but has {local!r}",
        )
    for start in sorted({1, 2, 1 + count // 2, count} & set(range(1, count + 1))):
        window = range(start, min(start + 3, count + 1))
        found = strategy._reader(tables[0]).noise(window)
        same = np.array_equal(found, whole[0][start - 1 :][: len(window)])
        require(same, f"the noise of a new reader differs on {window} from noise()")


@names_subject
def check_noise_parts(strategy: StreamStrategy, steps: int | None = None) -> None:
    """Check that noise computed in parts, as for large batches, is equal to ``noise`` of all steps.

    >>> from counton.strategies import Binary
    >>> check_noise_parts(Binary(12))
    """
    count = count_steps(strategy, steps)
    window = range(1, count + 1)
    for shape in ((PART * 5 // 4 // count + 1,), (31,)):
        table = HashedNoise(shape)
        parts = [part.copy() for part in strategy._reader(table).parts(window)]
        same = np.array_equal(np.concatenate(parts), strategy.noise(table, window))
        require(
            same,
            f"noise computed in {len(parts)} parts of {shape} differs on {window} from "
            "noise() of all steps",
        )
