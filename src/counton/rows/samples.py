"""Samples of the facts that a file states, to find most of its rows again in another file.

A file that has lost a few rows has other bytes, and comes to other sums. Most of its rows
still say what they said. So a sample of *facts* is taken while rows are read: which time, window,
value and group, and how many rows say so. A fact is in the sample by its own hash, whatever else
the file holds and however many say it; so two samples can be compared fact by fact.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import dataclass
from threading import Lock
from typing import Any, Final

import numpy as np
import polars as pl
from numpy.typing import NDArray

from counton.base.exact import name_alone

Words = NDArray[np.uint64]

#: Facts of a sample, at most.
MOST_FACTS: Final = 512
#: Rows that are held before it is known how rare the facts of the sample are.
_HELD: Final = 2**15
#: Rows whose words are made at a time: arrays as large as batches are cost more than what is done.
_NEAR: Final = 2**14
#: What of a marked row is looked at.
_NAMES: Final = ("us", "step", "total", "group")
#: Odd numbers without a pattern: digits of the golden ratio and of pi. They stay as they are from
#: version to version, since states keep what they come to.
_PHI, _PI = (np.uint64(word) for word in (0x9E3779B97F4A7C15, 0x243F6A8885A308D3))
#: Words from which on a hash has one leading zero less.
_POWERS: Final = np.array([2**power for power in range(64)], np.uint64)

#: How rare facts are: leading zeros of a hash of the time, with the value where that is a number,
#: and of one of all that a row says. By the first most rows are passed over as they are read, and
#: by the second some groups of a time.
Rarity = NDArray[np.int64]


@name_alone
@dataclass(frozen=True)
class Sample:
    """Some facts of a file. Exact data: secret.

    Attributes:
        us: times of the facts, as words.
        said: what the rows of each say besides, as words.
        steps: their windows.
        rows: how many rows say each.
        rarity: of each, of shape (2, facts).
        least: all facts of the file of this rarity and above are in the sample; of shape (2, 1).
    """

    us: Words
    said: Words
    steps: NDArray[np.int64]
    rows: NDArray[np.int64]
    rarity: Rarity
    least: Rarity


class FactSampler:
    """Takes a sample of marked rows that pass by, in any order and by several threads.

    Args:
        steps: of the windows.
        numbers: what rows say are numbers, of which there may be any number.

    >>> sampler = FactSampler(steps=9)
    >>> rows = {"us": [5, 5, 8], "step": [1, 1, 2], "total": [1, 1, 1], "group": ["a", "b", "a"]}
    >>> len(sampler.take(pl.DataFrame(rows)))
    3
    >>> sample = sampler.sample()
    >>> sample.steps.tolist(), sample.rows.tolist(), sample.least.tolist()
    ([1, 1, 2], [1, 1, 1], [[0], [0]])
    """

    def __init__(self, steps: int, *, numbers: bool = False) -> None:
        self._steps, self._numbers, self._lock = steps, numbers, Lock()
        self._least, self._limit = 0, _HELD
        self._completed: Callable[[pl.DataFrame], pl.DataFrame] | None = None
        self._facts: pl.DataFrame | None = None
        self._held: list[pl.DataFrame] = []
        self._rows = 0

    def watch(
        self, rows: pl.LazyFrame, completed: Callable[[pl.DataFrame], pl.DataFrame] | None = None
    ) -> pl.LazyFrame:
        """Marked rows that are looked at as they pass.

        Args:
            completed: adds what such rows say, ``total``, where they do not hold it.
        """
        self._completed = completed
        return rows.map_batches(
            self.take,
            streamable=True,
            projection_pushdown=False,
            predicate_pushdown=False,
        )

    def take(self, rows: pl.DataFrame) -> pl.DataFrame:
        """Look at some rows; they come back."""
        found, least = rows, self._least
        if least and rows.height:
            found = rows[self._places_below(rows, _below(least))]
        if found.height:
            with self._lock:
                self._held.append(found)
                self._rows += found.height
                if self._rows > self._limit:
                    self._compact()
        return rows

    def sample(self) -> Sample | None:
        """The sample of all rows that have passed; None where no window has one."""
        with self._lock:
            facts = self._compact()
        if facts is None or not facts.height:
            return None
        by = [name for name in facts.columns if name != "rows"]
        facts = facts.sort(by)
        us, total = facts["us"].to_numpy(), facts["total"].to_numpy()
        groups = np.zeros(len(us), np.uint64)
        if "group" in by:
            groups = _words_of(facts["group"].cast(pl.String).fill_null(""))
        said = _scramble(groups ^ total.view(np.uint64) * _PHI)
        first = self._hashes_of(facts)
        second = _scramble(_scramble(first ^ said) * _PHI)
        rarity, least = np.stack([_rarity(first), _rarity(second)]), 0
        while (rarity[1] >= least).sum() > MOST_FACTS:
            least += 1
        kept = rarity[1] >= least
        return Sample(
            us=us[kept].view(np.uint64),
            said=said[kept],
            steps=facts["step"].cast(pl.Int64).to_numpy()[kept],
            rows=facts["rows"].to_numpy()[kept],
            rarity=rarity[:, kept],
            least=np.array([[self._least], [least]]),
        )

    def _places_below(self, rows: pl.DataFrame, bound: np.uint64) -> NDArray[np.intp]:
        """Where hashes are below a bound; of so many rows at a time as stay near the processor."""
        starts = range(0, len(rows), _NEAR)
        hashes = (self._hashes_of(rows.slice(start, _NEAR)) for start in starts)
        found = zip(starts, hashes, strict=True)
        return np.concatenate([start + np.flatnonzero(some < bound) for start, some in found])

    def _hashes_of(self, rows: pl.DataFrame) -> Words:
        """Of each row's time and, where it is a number, value: see `Rarity`."""
        words: Words = rows["us"].to_numpy().view(np.uint64)
        if self._numbers:
            words = words + rows["total"].to_numpy().view(np.uint64) * _PI
        return words * _PHI

    def _compact(self) -> pl.DataFrame | None:
        """Facts of the rows that are held, of so few times and values that they fit a sample."""
        parts = [] if self._facts is None else [self._facts]
        if self._held:
            inside = pl.col("step").is_between(1, self._steps)
            held = pl.concat(self._held, how="vertical_relaxed").filter(inside)
            held = held if self._completed is None else self._completed(held)
            names = [name for name in _NAMES if name in held.columns]
            parts.append(held.select(*names, rows=pl.lit(1, pl.Int64)))
        if not parts:
            return None
        facts = pl.concat(parts, how="vertical_relaxed")
        hashes = self._hashes_of(facts)
        ordered = np.sort(hashes)  # much faster than what finds distinct words by a table
        distinct = ordered[np.append(True, ordered[1:] != ordered[:-1])[: len(ordered)]]
        while len(distinct) > MOST_FACTS:
            self._least += 1
            distinct = distinct[distinct < _below(self._least)]
        if self._least:
            facts = facts.filter(pl.Series(hashes < _below(self._least)))
        by = [name for name in facts.columns if name != "rows"]
        self._facts = facts = facts.group_by(by).agg(pl.col("rows").sum())
        self._held, self._rows = [], facts.height
        self._limit = max(_HELD, 2 * facts.height)
        return facts


def _below(rarity: int) -> np.uint64:
    """All hashes below this have so many leading zeros, or more."""
    return np.uint64(2 ** (64 - rarity) if rarity else 2**64 - 1)


def _rarity(hashes: Words) -> Rarity:
    return 64 - np.searchsorted(_POWERS, hashes, side="right")


def _scramble(words: Words) -> Words:
    words = (words ^ (words >> np.uint64(32))) * _PI
    return words ^ (words >> np.uint64(29))


def _words_of(texts: pl.Series) -> Words:
    """Of each text a word, the same in every version."""
    distinct: dict[Any, int] = {
        text: int.from_bytes(hashlib.blake2b(text.encode(), digest_size=8).digest(), "little")
        for text in texts.unique()
    }
    return np.array([distinct[text] for text in texts], np.uint64)
