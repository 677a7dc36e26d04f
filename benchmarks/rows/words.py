"""Letters into exact counts of all words of up to six letters, and single words asked for."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import numpy as np

from benchmarks.measure import OBJECTS, fastest, object_seconds
from benchmarks.row import Row
from counton import Key, PureDP, RunningStatistic
from counton.statistics import Episodes, Substrings
from counton.strategies import KAry

LETTERS = 10**6
LONGEST = 6
ASKED = 1000


def measure() -> Iterator[Row]:
    """Measure exact counts of words, and the reading of single counts with noise; yield the
    rows.
    """
    generator = np.random.default_rng(1)
    numbers = generator.integers(0, 4, LETTERS)
    stream = "".join("ACGT"[number] for number in numbers.tolist())
    stops = np.arange(1, LETTERS + 1)

    def numpy_alone() -> None:
        for length in range(1, LONGEST + 1):
            codes = np.zeros(LETTERS - length + 1, np.int64)
            for place in range(length):
                codes = 4 * codes + numbers[place : LETTERS - length + 1 + place]
            np.bincount(codes, minlength=4**length)

    def counted(words: Substrings | Episodes) -> None:
        exact = words.begin()
        exact.take(stream, stops)
        exact.counts(np.arange(words.cells[0]), LETTERS)

    substrings = Substrings("ACGT", LONGEST)
    episodes = Episodes("ACGT", LONGEST)
    for words, bar in ((substrings, 1), (episodes, 25)):
        ours, peer = fastest(partial(counted, words), numpy_alone)
        name = f"{type(words).__name__}: all {words.cells[0]:,} counts of 10^6 letters"
        yield Row(name, ours / peer, bar, note="numpy's count of substrings")

    running = RunningStatistic.start(
        substrings,
        guarantee=PureDP(1),
        key=Key.generate(),
        name="bench",
        strategy=KAry.best(LETTERS),
    )
    running.release_many(stream)
    reading = running.result()
    names = generator.choice(substrings.words(4), ASKED).tolist()
    (seconds,) = fastest(lambda: [reading[name] for name in names])
    name = f"{ASKED:,} words of 10^6 letters, one by one, with noise"
    yield Row(name, seconds / object_seconds(), 5, note=OBJECTS)
