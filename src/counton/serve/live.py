"""New releases as they happen. All listeners of a stream share one reading of its journal."""

from __future__ import annotations

import asyncio
import json
from collections import deque
from collections.abc import AsyncIterator

import polars as pl

from counton.serve.public_series import Journal, json_rows

#: Seconds between two readings of the journal, and between two empty messages to idle listeners.
LOOK, HEARTBEAT = 1.0, 15.0
#: Number of steps that are kept as text for listeners that were away.
_KEPT = 256


class Feed:
    """Sender of new steps to any number of listeners.

    A step is read and converted once; listeners wait for one shared event, so they cost nothing
    between releases. After ``heartbeat`` seconds an idle one gets an empty message.
    """

    def __init__(self, journal: Journal, heartbeat: float = HEARTBEAT) -> None:
        self._journal, self._heartbeat = journal, heartbeat
        self._step = journal.step
        self._texts: deque[tuple[int, bytes]] = deque(maxlen=_KEPT)
        self._changed = asyncio.Event()
        self._closed = False
        self.listeners = 0

    @property
    def step(self) -> int:
        """The last step sent."""
        return self._step

    async def look(self) -> None:
        """Look for new steps, and wake all listeners."""
        step = await asyncio.to_thread(self._journal.refresh)
        if step <= self._step:
            return
        if self.listeners:
            first = max(self._step, step - _KEPT)
            self._texts.extend(await asyncio.to_thread(self._read, first))
        self._step = step
        self._wake()

    def close(self) -> None:
        """Tell all listeners that no more steps will come."""
        self._closed = True
        self._wake()

    def _wake(self) -> None:
        self._changed.set()
        self._changed = asyncio.Event()

    def _read(self, after: int) -> list[tuple[int, bytes]]:
        """Return the later steps, each as a server-sent event."""
        found = self._journal.series(since=after)
        events: list[tuple[int, bytes]] = []
        # The first new step brings the windows that were revised since.
        news = pl.max_horizontal(pl.col("step"), after + 1)
        for (step,), rows in found.rows.group_by(news, maintain_order=True):
            event = {
                "name": self._journal.name,
                "step": step,
                "level": found.level,
                "columns": rows.columns,
                "rows": json_rows(rows),
            }
            text = f"id: {step}\nevent: release\ndata: {json.dumps(event)}\n\n"
            events.append((int(str(step)), text.encode()))
        return events

    async def listen(self, after: int | None) -> AsyncIterator[bytes]:
        """Yield the later steps as they happen; None: from now on."""
        self.listeners += 1
        try:
            known = self._step if after is None else min(max(after, 0), self._step)
            yield b"retry: 2000\n\n"
            while not self._closed:
                changed, step = self._changed, self._step
                if known < step:
                    events = [one for one in self._texts if known < one[0] <= step]
                    if len({number for number, _ in events}) < step - known:  # not kept any more
                        read = await asyncio.to_thread(self._read, max(known, step - _KEPT))
                        events = [one for one in read if known < one[0] <= step]
                    for number, text in events:
                        yield text
                        known = number
                    known = max(known, step)
                    continue
                try:
                    await asyncio.wait_for(changed.wait(), self._heartbeat)
                except TimeoutError:
                    yield b": alive\n\n"
        finally:
            self.listeners -= 1
