"""Signals: a service that begins ends too, and not only one that answers."""

import os
import signal

import pytest

from counton.cli import serve_command


def test_service_that_begins_ends_at_a_signal() -> None:
    """Also as the first process of a container, for which a signal has no default action."""
    before = signal.getsignal(signal.SIGTERM)
    try:
        serve_command.end_on_signal()
        with pytest.raises(SystemExit) as ended:
            os.kill(os.getpid(), signal.SIGTERM)
        assert ended.value.code == 143
    finally:
        signal.signal(signal.SIGTERM, before)
