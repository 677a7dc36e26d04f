"""A stream releases once at a time: forks, copies and handlers are refused."""

import copy
import pickle
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from patience import HANGS

from counton import ZCDP, Counter, Key
from counton.base.errors import ConcurrentWriterError, InvalidInputError
from counton.continual.counter import OneAtATime
from counton.strategies import Binary, GrowingCascade


def streams() -> list[Any]:
    return [
        Counter(Binary(10_000), ZCDP(1), key=Key.generate(), name="visits"),
        Counter(GrowingCascade(14), ZCDP(1), key=Key.generate(), name="visits"),
    ]


@pytest.mark.parametrize("stream", streams(), ids=["totals", "windows"])
def test_a_release_within_a_release_is_refused(
    stream: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As a signal handler would do: both would be the same step."""
    refused: list[Any] = []

    @contextmanager
    def interrupted(turn: OneAtATime) -> Iterator[None]:
        with original(turn):
            if not refused:
                with pytest.raises(ConcurrentWriterError, match="in the middle of a release"):
                    refused.append(stream.release(1))
                refused.append(True)
            yield

    original = OneAtATime.take
    monkeypatch.setattr(OneAtATime, "take", interrupted)
    assert stream.release(1).step == 1
    monkeypatch.undo()
    assert refused == [True]
    assert stream.release(1).step == 2


@pytest.mark.parametrize("stream", streams(), ids=["totals", "windows"])
def test_copies_are_refused(stream: Any) -> None:
    for copying in (copy.copy, copy.deepcopy, pickle.dumps):
        with pytest.raises(InvalidInputError, match="cannot be copied"):
            copying(stream)


@pytest.mark.slow
def test_a_fork_is_refused_also_while_its_parent_releases() -> None:
    """The lock of a thread that the fork does not have must not be waited for."""
    program = """
import os, threading
from counton import Counter, CountonError, Key, ZCDP
from counton.strategies import GrowingCascade
stream = Counter(GrowingCascade(14), ZCDP(1), key=Key.generate(), name="visits")
inside, over = threading.Event(), threading.Event()
def hold():
    with stream._turn.take():
        inside.set()
        over.wait()
threading.Thread(target=hold).start()
inside.wait()
if os.fork() == 0:
    try:
        print(stream.release(1), flush=True)
    except CountonError as error:
        print(type(error).__name__, flush=True)
    os._exit(0)
os.wait()
over.set()
"""
    command = [sys.executable, "-W", "ignore", "-c", program]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=HANGS)
    assert done.stdout.split() == ["ConcurrentWriterError"]
