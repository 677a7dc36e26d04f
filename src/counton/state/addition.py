"""What a run adds to a stream, all at once."""

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
class Addition(NamedTuple):
    """What is released and kept together. Exact: rooms hand it on as `Private`.

    Attributes:
        inputs: totals of new steps, shape ``(n, *shape)``, in data units; None: none is released.
        observed: totals so far by window (counted from 1), integers of any shape; they replace
            what was kept. With them a later run tells late rows from vanished ones.
        sources: digests of files whose rows are now counted; counting one twice is refused.
        remembered: what becomes of the marks of users and ids.
        labels: of cells that come as they are needed, and the first one's cell; the ones before
            must be there.
        events: of new steps, and for each the number up to its end, instead of all these: a
            statistic takes them in their order.
    """

    inputs: ArrayLike | None = None
    observed: Mapping[int, ArrayLike] = MappingProxyType({})
    sources: Sequence[str] = ()
    remembered: Change | None = None
    labels: tuple[int, Sequence[str]] | None = None
    events: tuple[Events, NDArray[np.int64]] | None = None
