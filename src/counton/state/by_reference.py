"""Check released values against ``counton.reference``, a second program that computes releases and
shares no code with the first.

The reference program is given the public design, the key's bytes and exact sums; they stay in this
process. The check is slow, so it reports its progress.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from counton import reference
from counton.base.errors import InvalidInput, StateError
from counton.noise import Key
from counton.noise.key import secret_of
from counton.numbers.design import Design
from counton.strategies import StreamStrategy
from counton.strategies.strategy import column_until

#: Called with the name of the task and its finished share, from 0 to 1.
Watcher = Callable[[str, float], object]


class BeyondReference(InvalidInput):
    """The error that the releases of a stream cannot be checked, because ``counton.reference``, the
    second program that computes releases, cannot compute them.
    """


def stream_by_reference(terms: Design, key: Key, last: int) -> reference.Stream:
    """Build the stream of ``counton.reference`` (a second program that computes releases) that has
    this design, for steps 1 to ``last``.

    Raises:
        BeyondReference: the reference program cannot compute this many steps of the strategy; or
            the strategy is from another package and its matrices have entries that are not
            integers.
    """
    told = json.loads(json.dumps(terms.public()))
    own = terms.strategy.saved_name in reference.STRATEGIES
    matrices = None if own else written_out(terms.strategy, last)
    try:
        return reference.Stream(told, secret_of(key), matrices)
    except reference.Unreadable as error:
        raise BeyondReference(str(error)) from None


def written_out(strategy: StreamStrategy, last: int) -> dict[str, Any]:
    """Write the matrices of another package's strategy as JSON values, the form that
    ``counton.reference`` reads, for steps 1 to ``last``.

    Raises:
        BeyondReference: an entry is not an integer.

    >>> from counton.strategies import Binary
    >>> written_out(Binary(3), 2)["rows"]
    [[[0, 0, 1]], [[1, 0, 1]]]
    """
    steps = range(1, last + 1)
    rows = [[list(node) for node in strategy.row(step)] for step in steps]
    columns = [[list(node) for node in column_until(strategy, step, last)] for step in steps]
    if strategy.facts.lattice_bits or not all(
        type(weight) is int for of in (*rows, *columns) for *_, weight in of
    ):
        raise BeyondReference(
            f"{strategy!r} is a strategy of another package whose noise is read in fractions, and "
            "each such strategy rounds in its own way, so the reference program cannot compute it: "
            "verify this stream without it"
        )
    return {"rows": rows, "columns": columns}


def check_by_reference(
    terms: Design,
    key: Key,
    parts: Sequence[tuple[NDArray[Any], NDArray[np.int64]]],
    watcher: Watcher,
) -> str:
    """Compare all released values of a stream with those that ``counton.reference`` computes;
    return a report in words.

    Args:
        terms: design of the stream.
        key: key of the stream.
        parts: consecutive ranges of steps from step 1 on. Each is a pair of arrays of shape (steps,
            *shape): released values, and exact sums of the data up to each step as integer
            multiples of the resolution. Later parts may have more cells.
        watcher: called with the name of the task and its finished share, from 0 to 1.

    Raises:
        StateError: a released value differs from the reference's value; names the step.
        BeyondReference: the reference does not compute this stream.
    """
    flat = [[one.reshape(len(one), -1) for one in part] for part in parts]
    last, width = sum(len(values) for values, _ in flat), flat[-1][0].shape[1]
    stream = stream_by_reference(terms, key, last)
    versions = stream.strategy.versions
    cells = width // versions
    for cell in range(cells if last else 0):
        watcher(f"{terms.name}: by reference", cell / cells)
        try:
            noise = stream.strategy.numbers(stream.z(cell), last)
        except reference.Unreadable as error:
            raise BeyondReference(str(error)) from None
        for version, of in enumerate(noise):
            place = cell * versions + version
            there = [
                (values[:, place], sums[:, place])
                for values, sums in flat
                if place < values.shape[1]
            ]
            released, totals = (np.concatenate(one).tolist() for one in zip(*there, strict=True))
            first = last - len(released)  # a cell has no values before it was added
            pairs = zip(totals, of[first:], strict=True)
            mine = [stream.value(total, one) for total, one in pairs]
            for step, (right, was) in enumerate(zip(mine, released, strict=True), first + 1):
                if right != was:
                    raise StateError(
                        f"the reference program computes another value for step {step} of stream "
                        f"{terms.name!r} than was released, from its key and sums: this is a "
                        "defect of counton; please report it"
                    )
    number = f"{sum(values.size for values, _ in flat):,}"
    if terms.counters is not None:  # it would tell how many groups are hidden
        number = "all"
    return f"{number} values are those that the reference computes, one by one"
