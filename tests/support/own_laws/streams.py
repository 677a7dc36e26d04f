"""All tests of a strategy for streams of this library: the laws for all strategies, and more."""

import numpy as np

from counton import testing
from counton.strategies import StreamStrategy
from counton.strategies.strategy import NUMBERS_PER_PART, EndlessStrategy
from counton.testing.node_noise import HashedNoise
from counton.testing.rows import (
    accepts,
    columns_in_order,
    count_steps,
    names_subject,
    require,
    tables_kept,
)
from counton.testing.stream_checks import DISTRIBUTIONS, distribution_or_none
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
from own_laws.structures import check_structure


@names_subject
def check_strategy(strategy: StreamStrategy, steps: int | None = None) -> None:
    """A strategy for streams keeps the laws of `counton.testing`, and what is computed of it
    besides is right.
    """
    with tables_kept(strategy):
        testing.check_strategy(strategy, steps)
        check_arguments(strategy)
        check_window_variance(strategy, steps)
        check_noise_variance(strategy, steps)
        check_largest_reads(strategy, steps)
        check_node_distribution(strategy, steps)
        if isinstance(strategy, EndlessStrategy):
            check_endless_variance(strategy, steps)
            check_expiry(strategy, steps)
        else:
            check_structure(strategy)
            check_released_variance(strategy)
        few = ((3,),) if count_steps(strategy, steps) <= 64 else ()
        for shape in ((), (2, 20), *few):
            check_reader(strategy, steps, shape)
        check_window_rounding(strategy, steps)
        check_noise_parts(strategy, steps)


@names_subject
def check_node_distribution(strategy: StreamStrategy, steps: int | None = None) -> None:
    """`node_distribution` has noise for each node, of every calibrated law that the strategy
    accepts.

    Whether it is wide enough is checked by `check_endless_sensitivity`.
    """
    columns = columns_in_order(strategy, count_steps(strategy, steps))
    levels = sorted({level for column in columns for level, _ in column})
    for base in DISTRIBUTIONS:
        for level in levels if accepts(strategy, base) else ():
            distribution = distribution_or_none(strategy, base, level)
            require(
                distribution is not None,
                f"{base} is accepted, but refused for nodes of level {level}",
            )


@names_subject
def check_reader(
    strategy: StreamStrategy, steps: int | None = None, shape: tuple[int, ...] = ()
) -> None:
    """A reader, which computes a running stream's noise window by window, has the numbers of
    ``noise``, whatever the step from which it starts, and whatever another reader gives.
    """
    count = count_steps(strategy, steps)
    tables = HashedNoise(shape), HashedNoise(shape, seed=1)
    whole = [strategy.noise(table, range(1, count + 1)) for table in tables]
    readers = [strategy._reader(table) for table in tables]
    windows = []
    first = 1
    while first <= count:  # as a counter asks: one step, then more at once
        windows.append(range(first, min(2 * first, count) + 1))
        first = windows[-1].stop
    windows += [range(1, 1), range(1 + count // 2, count + 1), range(1, min(count, 3) + 1)]
    for window in windows:
        for reader, noise in zip(readers, whole, strict=True):
            found = reader.noise(window)
            same = np.array_equal(found, noise[window.start - 1 :][: len(window)])
            require(same, f"the noise of its reader differs from noise({window})")
            require(found.dtype == np.int64, f"the noise of its reader is {found.dtype}")
    nothing = np.empty((0, *shape), np.int64)
    for window in (range(1, count + 1), range(1 + count // 2, count + 1)):
        reader = strategy._reader(tables[0])
        for where in ("parts", "parts, asked again,"):
            parts = [part.copy() for part in reader.parts(window)]
            found = np.concatenate([nothing, *parts])
            same = np.array_equal(found, whole[0][window.start - 1 :])
            require(same, f"the {where} of its reader differ on {window}")
        require(type(reader.local) is bool, f"its reader has local={reader.local!r}")
    for start in sorted({1, 2, 1 + count // 2, count} & set(range(1, count + 1))):
        window = range(start, min(start + 3, count + 1))
        found = strategy._reader(tables[0]).noise(window)
        same = np.array_equal(found, whole[0][start - 1 :][: len(window)])
        require(same, f"the noise of a new reader differs on {window} from noise()")


@names_subject
def check_noise_parts(strategy: StreamStrategy, steps: int | None = None) -> None:
    """Noise computed in parts, as for large batches, is that of all steps."""
    count = count_steps(strategy, steps)
    window = range(1, count + 1)
    for shape in ((NUMBERS_PER_PART * 5 // 4 // count + 1,), (31,)):
        table = HashedNoise(shape)
        parts = [part.copy() for part in strategy._reader(table).parts(window)]
        same = np.array_equal(np.concatenate(parts), strategy.noise(table, window))
        require(same, f"noise in {len(parts)} parts of {shape} differs on {window} from noise()")
