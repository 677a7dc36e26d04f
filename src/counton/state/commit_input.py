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
    from counton.state.journal import WindowTotals


@name_alone
class LateRowStats(NamedTuple):
    """Numbers of rows that a stream received, and of those that came late. Secret.

    A state has one column for late rows, with two meanings: `of_new_rows` and `of_snapshot` make
    one each. All runs of a stream use the same.

    Attributes:
        arrived: number of rows.
        late: number of late rows, in one of the two meanings.
    """

    arrived: int = 0
    late: int = 0

    @classmethod
    def of_new_rows(cls, *, arrived: int, counted_late: int) -> LateRowStats:
        """Return the numbers of a stream whose runs get new rows.

        Args:
            arrived: rows of all runs so far, without those of final windows.
            counted_late: those that came after the release of their windows; they count.
        """
        return cls(arrived, counted_late)

    @classmethod
    def of_snapshot(cls, *, arrived: int, never_counted: int) -> LateRowStats:
        """Return the numbers of a stream whose runs get a snapshot of windows.

        Args:
            arrived: rows of the last snapshot.
            never_counted: those that it added to final windows, so that they never count.
        """
        return cls(arrived, never_counted)


@name_alone
class CommitInput(NamedTuple):
    """Everything that one commit of a stream releases and keeps. It holds exact values, so it is
    passed on inside `Private`, which hides it from messages and logs.

    Attributes:
        inputs: totals of new steps, shape ``(n, *shape)``, int64 in multiples of the stream's
            resolution; None releases nothing.
        totals_by_window: by number of a window (from 1), totals of its rows, as integers. They
            replace the stored totals. A run gives the totals of all windows in one array, because
            a million single arrays take seconds. Its shape for each window is
            ``(2, measures, sums)``: first what was seen of each sum, then what was counted (see
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
    totals_by_window: Mapping[int, ArrayLike] | WindowTotals = MappingProxyType({})
    sources: Sequence[str] = ()
    remembered: DigestChange | None = None
    labels: tuple[int, Sequence[str]] | None = None
    late_row_stats: LateRowStats | None = None
    public_facts: Mapping[str, object] | None = None
    input_sums: InputSums | None = None
