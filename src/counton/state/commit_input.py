"""The input of one commit: everything that a run adds to a stream."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from counton.base.exact import name_alone

if TYPE_CHECKING:
    from counton.state.dedup import DigestChange
    from counton.state.input_sums import InputSums


@name_alone
class LateRowStats(NamedTuple):
    """Numbers of rows that a stream received, and of those that came late. Secret.

    They are of all runs if each run gets new rows, and of the last run if each run gets a snapshot
    of windows.

    Attributes:
        arrived: number of rows. Of new rows, those of final windows are not included.
        late: of new rows, those that came after the release of their windows; of a snapshot, those
            that were added to final windows, and so never count.
    """

    arrived: int = 0
    late: int = 0


@name_alone
class CommitInput(NamedTuple):
    """Everything that one commit of a stream releases and keeps. It holds exact values, so it is
    passed on inside `Private`, which hides it from messages and logs.

    Attributes:
        inputs: totals of new steps, shape ``(n, *shape)``, int64 in multiples of the stream's
            resolution; None releases nothing.
        totals_by_window: by number of a window (from 1), totals of its rows, as integers. They
            replace the stored totals. A run gives an array of the shape ``(2, measures, sums)``:
            first what was seen of each sum, then what was counted (see
            `counton.run.counting.step_inputs`). Other callers may give arrays of any shape, which
            the state keeps and returns.
        sources: digests of the input files whose rows this commit counts; a file counted before is
            refused.
        remembered: change of the stored keyed digests of users and row ids that have been counted.
        labels: for groups that are found in the data: index of the first new cell, and the labels
            of the new cells; all earlier cells must exist.
        late_row_stats: numbers of rows received so far; None leaves them unchanged.
        public_facts: new public facts of the stream, as `Stream.amend` takes them; None leaves them
            unchanged.
        input_sums: sums of all rows of this run's files, so that a run with the same bytes need not
            read them; None leaves those of an earlier run.
    """

    inputs: NDArray[np.int64] | None = None
    totals_by_window: Mapping[int, ArrayLike] = MappingProxyType({})
    sources: Sequence[str] = ()
    remembered: DigestChange | None = None
    labels: tuple[int, Sequence[str]] | None = None
    late_row_stats: LateRowStats | None = None
    public_facts: Mapping[str, object] | None = None
    input_sums: InputSums | None = None
