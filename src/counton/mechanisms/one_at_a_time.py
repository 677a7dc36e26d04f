"""One release at a time: a second use of the same steps would show their noise over other data."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager

from counton.errors import StreamConflict


class OneAtATime:
    """Lets one call at a time into a stream: of one thread, of the process that made it.

    Args:
        what: is used, in messages.
        elsewhere: what another process is to do instead, in messages.

    >>> turn = OneAtATime("stream 'visits'", elsewhere="open it there")
    >>> with turn.take():
    ...     with turn.take():
    ...         pass
    Traceback (most recent call last):
    ...
    counton.errors.StreamConflict: stream 'visits' is releasing already, ...
    """

    def __init__(self, what: str, *, elsewhere: str) -> None:
        self._what, self._elsewhere = what, elsewhere
        self._process = os.getpid()
        self._lock = threading.RLock()
        self._taken = False

    @contextmanager
    def take(self) -> Iterator[None]:
        """Wait for the turn, and hold it.

        Raises:
            StreamConflict: in a fork, or from within a release, as a signal handler is.
        """
        if os.getpid() != self._process:
            raise StreamConflict(
                f"{self._what} was made by process {self._process} and is used by its fork "
                f"{os.getpid()}, which would release the same noise over other data: let one "
                f"process release, or {self._elsewhere}"
            )
        # A lock that lets its own thread in again, since a signal handler would wait for ever.
        with self._lock:
            if self._taken:
                raise StreamConflict(
                    f"{self._what} is releasing already, further up in this thread: release again "
                    f"when that call has ended, not from a signal handler"
                )
            try:
                self._taken = True
                yield
            finally:
                self._taken = False
