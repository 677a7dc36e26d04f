"""The input of one commit: everything that a run adds to a stream."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from counton.base.exact import name_alone

if TYPE_CHECKING:
    from counton.state.seen import Change
    from counton.statistics.statistic import Events


@name_alone
class Arrivals(NamedTuple):
    """How many rows have come for the windows of a stream so far. Exact: for the operator alone.

    Attributes:
        arrived: all of them.
        late: those that came after the release of their window.
    """

    arrived: int = 0
    late: int = 0


@name_alone
class Addition(NamedTuple):
    """Everything that one commit releases and keeps. Exact: rooms hand it on as `Private`.

    Attributes:
        inputs: totals of new steps, shape ``(n, *shape)``, in data units; None releases nothing.
        observed: totals so far by window (counted from 1), integers of any shape; they replace
            the kept ones. A later run uses them to tell late rows from vanished rows.
        sources: digests of files whose rows are now counted; a file that was counted is refused.
        remembered: change of the marks of users and ids.
        labels: index of the first new cell, and the names of the new cells; all earlier cells
            must exist.
        events: events of the new steps, and the number of events up to the end of each step. A
            statistic that takes events in order gets them in place of all other fields.
        arrivals: rows so far; None leaves them as they were.
    """

    inputs: ArrayLike | None = None
    observed: Mapping[int, ArrayLike] = MappingProxyType({})
    sources: Sequence[str] = ()
    remembered: Change | None = None
    labels: tuple[int, Sequence[str]] | None = None
    events: tuple[Events, NDArray[np.int64]] | None = None
    arrivals: Arrivals | None = None
