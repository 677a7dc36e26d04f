"""What a run did, and its stream to read from."""

from __future__ import annotations

from dataclasses import dataclass
from types import TracebackType
from typing import Self

from counton.events.tally import Tally
from counton.jobs.definition import Definition
from counton.jobs.released import Released
from counton.store import Stream


@dataclass(frozen=True)
class Outcome:
    """What a run did. Close it, or use it in a ``with`` block: it holds the stream open.

    Attributes:
        definition: of the stream.
        stream: to read the journal from.
        before, after: steps released before and after the run.
        until: microseconds; windows that ended by then are released.
        until_stated: the caller gave ``until``; else it is the newest event's time.
        tally: of the events. Exact: only for the operator.
        late: rows that arrived for windows released earlier. Exact: only for the operator.
    """

    definition: Definition
    stream: Stream
    before: int
    after: int
    until: int
    until_stated: bool
    tally: Tally
    late: int

    def released(self, level: float = 0.95) -> Released:
        """Everything released so far, from the journal, with intervals of confidence ``level``.

        Raises:
            InvalidInput: a level that is not above 0 or above 1 - 1e-9.

        >>> import tempfile
        >>> from pathlib import Path
        >>> from counton.jobs import Request, run
        >>> folder = tempfile.TemporaryDirectory()
        >>> events, state = Path(folder.name, "visits.csv"), Path(folder.name, "visits.db")
        >>> _ = events.write_text("time\\n2024-03-01T09:00\\n2024-03-02T10:15\\n")
        >>> request = Request(
        ...     "count", events, state, time="time", every="1d", start="2024-03-01", steps=365,
        ...     epsilon=1
        ... )
        >>> with run(request) as outcome:
        ...     outcome.released(level=0.9).table().select("step", "window_end").rows()[0]
        (1, datetime.datetime(2024, 3, 2, 0, 0, tzinfo=zoneinfo.ZoneInfo(key='UTC')))
        >>> folder.cleanup()
        """
        return Released.read(self.stream, self.definition, level)

    def close(self) -> None:
        """Close the stream."""
        self.stream.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()
