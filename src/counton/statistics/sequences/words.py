"""Base class of statistics that count words of a known alphabet."""

from __future__ import annotations

import struct
from abc import abstractmethod
from collections.abc import Sequence
from functools import cached_property
from itertools import accumulate
from typing import Any

import numpy as np
from numpy.typing import NDArray
from typing_extensions import override

from counton.base.errors import InvalidInputError, StateError
from counton.base.exact import check_integer, quote
from counton.statistics.live_statistic import OnDemandResult
from counton.statistics.statistic import Events, Exact, NamedCells

#: Largest number of letters in an alphabet, and of words in a statistic; each word has a cell.
_MOST_LETTERS = 2**16
_MOST_WORDS = 2**31
#: Largest number of remembered requests for counts of words, and of words in all these requests.
_MOST_REMEMBERED_REQUESTS = 2**12
_MOST_REMEMBERED_WORDS = 2**22
_SAVED_HEADER = struct.Struct("<QQ")


class Words(NamedCells):
    """Base class for counts of all words of up to ``longest`` letters, computed on request.

    Shorter words come first, words of equal length in the order of the alphabet.
    """

    result_type = OnDemandResult
    on_demand = True
    event = "letter"
    of_letters = True

    def __init__(self, alphabet: str | Sequence[str], longest: int) -> None:
        letters = tuple(alphabet) if isinstance(alphabet, (str, list, tuple)) else ()
        if not letters or any(
            not isinstance(letter, str) or letter.split() != [letter] or "\0" in letter
            for letter in letters
        ):
            raise InvalidInputError(
                f"alphabet is {quote(alphabet)}; give a text of letters, such as 'ACGT', or a "
                f"list of names without white space and NUL"
            )
        if len(set(letters)) < len(letters):
            twice = next(
                letter for index, letter in enumerate(letters) if letter in letters[:index]
            )
            raise InvalidInputError(f"alphabet has {twice!r} twice: give each letter once")
        if len(letters) > _MOST_LETTERS:
            raise InvalidInputError(
                f"alphabet has {len(letters):,} letters, and at most {_MOST_LETTERS:,} are "
                "possible: join the letters that matter least"
            )
        self.letters = letters
        self.alphabet = "".join(letters) if max(map(len, letters)) == 1 else list(letters)
        self.longest = check_integer("longest", longest, 1, 64, "the most letters of a word")
        if (words := self.firsts[-1]) > _MOST_WORDS:
            raise InvalidInputError(
                f"longest is {self.longest}, which makes {words:.3g} words over {len(letters):,} "
                "letters, and at most 2^31 are possible: give a smaller longest"
            )

    @property
    @override
    def cells(self) -> tuple[int, ...]:
        return (self.firsts[-1],)

    @cached_property
    def firsts(self) -> tuple[int, ...]:
        """For each length, the number of its first word; last, the number of all words."""
        words = (len(self.letters) ** length for length in range(1, self.longest + 1))
        return tuple(accumulate(words, initial=0))

    @cached_property
    def number(self) -> dict[str, int]:
        """Index of each letter of the alphabet."""
        return {letter: place for place, letter in enumerate(self.letters)}

    @cached_property
    def _single(self) -> bool:
        return isinstance(self.alphabet, str)

    @override
    def neighbours_differ(self) -> str:
        return f"in one {self.event}; each step has as many in both"

    def cell(self, name: Any) -> int:
        """Return the number of a word: a text, or a list or text of names of letters.

        Raises:
            InvalidInputError: not a word of 1 to ``longest`` letters of the alphabet.
        """
        if isinstance(name, str):
            word: Sequence[object] = name if self._single else name.split()
        else:
            word = name if isinstance(name, (list, tuple)) else ()
        code = 0
        for letter in word:
            place = self.number.get(letter) if isinstance(letter, str) else None
            if place is None:
                raise InvalidInputError(
                    f"word is {quote(name)}, but {quote(letter)} is not in the alphabet "
                    f"{self._letters()}: give a word of its letters"
                )
            code = code * len(self.letters) + place
        if not 1 <= len(word) <= self.longest:
            raise InvalidInputError(
                f"word is {quote(name)}, of {len(word)} letters; give a word of 1 to {self.longest}"
            )
        return self.firsts[len(word) - 1] + code

    def word(self, cell: int) -> list[int]:
        """Return the indices of the letters of a word."""
        length = 1 + sum(cell >= first for first in self.firsts[1:])
        code = cell - self.firsts[length - 1]
        letters = []
        for _ in range(length):
            code, letter = divmod(code, len(self.letters))
            letters.append(letter)
        return letters[::-1]

    def name_of(self, cell: int) -> str:
        """Return a word as a text, with spaces between letters that are names."""
        return ("" if self._single else " ").join(self.letters[index] for index in self.word(cell))

    def words(self, length: int) -> list[str]:
        """Return all words of a length as texts, in order.

        Raises:
            InvalidInputError: the length is outside 1 to ``longest``, or there are over 2^22 words.
        """
        length = check_integer("length", length, 1, self.longest, "the letters of a word")
        numbers = range(self.firsts[length - 1], self.firsts[length])
        if len(numbers) > _MOST_REMEMBERED_WORDS:
            raise InvalidInputError(
                f"there are {len(numbers):,} words of {length} letters, and at most 2^22 can be "
                "listed: ask for single words by name"
            )
        return [self.name_of(number) for number in numbers]

    def letter_numbers(self, events: Events) -> NDArray[Any]:
        """Return the letters' indices: uint8 or uint16 of shape ``(letters,)``.

        Raises:
            InvalidInputError: a letter is not in the alphabet.
        """
        small = np.uint8 if len(self.letters) <= 256 else np.uint16
        if isinstance(events, str):
            if not self._single:
                raise InvalidInputError(
                    f"letters are {quote(events)}, but the letters of this alphabet are names: "
                    "give a list of names"
                )
            points = np.frombuffer(events.encode("utf-32-le", "surrogatepass"), np.uint32)
            if not len(points):
                return np.zeros(0, small)
            table = self._table
            numbers = table[np.minimum(points, len(table) - 1)]
            if (numbers < 0).any():
                self._refuse(int(np.argmax(numbers < 0)), events)
            return numbers.astype(small)
        listed = events.tolist() if isinstance(events, np.ndarray) else list(events)
        number_by_letter = self.number
        try:
            return np.fromiter((number_by_letter[letter] for letter in listed), small, len(listed))
        except (KeyError, TypeError):
            for place, letter in enumerate(listed):
                if not isinstance(letter, str) or letter not in number_by_letter:
                    self._refuse(place, listed)
            raise

    @cached_property
    def _table(self) -> NDArray[np.int32]:
        points = [ord(letter) for letter in self.letters]
        table = np.full(max(points) + 2, -1, np.int32)  # the last entry is for all others
        table[points] = np.arange(len(points))
        return table

    def _letters(self) -> str:
        return quote(("" if self._single else ", ").join(self.letters))

    def _refuse(self, place: int, events: Sequence[object]) -> None:
        raise InvalidInputError(
            f"letter {place + 1} is {quote(events[place])}, which is not in the alphabet "
            f"{self._letters()}: leave it out, or add a letter to the alphabet that stands for all "
            "others"
        )

    @abstractmethod
    def tally(self, cells: NDArray[np.int64]) -> WordTally:
        """Return a counter of the words with these numbers, before any letter is read."""

    @override
    def begin(self) -> Letters:
        return Letters(self)


class WordTally:
    """Counts of some words: ``counts``, int64 of shape ``(words,)``, among ``read`` letters."""

    def __init__(self, cells: int) -> None:
        self.counts = np.zeros(cells, np.int64)
        self.read = 0

    def advance(self, letters: NDArray[Any], stop: int) -> None:
        """Read the whole stream's letters on to index ``stop``, and count words that end there."""
        raise NotImplementedError


class Letters(Exact):
    """The letters, and their number at the end of each step; words are counted on request."""

    def __init__(self, statistic: Words) -> None:
        self._statistic = statistic
        self._letters = _Growing(statistic.letter_numbers([]).dtype)
        self._stops: _Growing | None = None  # None if each step has one letter
        self._steps = 0
        self._before = (0, 0)
        self._tallies: dict[bytes, WordTally] = {}

    @override
    def take(self, events: Events, stops: NDArray[np.int64]) -> NDArray[np.int64]:
        """Append the letters of further steps; return counts of no words, shape ``(steps, 0)``."""
        letters = self._statistic.letter_numbers(events)
        self._before = self._steps, len(self._letters)
        self._append(letters, stops + len(self._letters))
        return np.zeros((len(stops), 0), np.int64)

    def _append(self, letters: NDArray[Any], ends: NDArray[np.int64]) -> None:
        if self._stops is None and (ends != np.arange(len(ends)) + self._steps + 1).any():
            self._stops = _Growing(np.dtype(np.int64))
            self._stops.extend(np.arange(1, self._steps + 1))
        if self._stops is not None:
            self._stops.extend(ends)
        self._letters.extend(letters)
        self._steps += len(ends)

    @override
    def undo(self) -> None:
        self._steps, kept = self._before
        self._letters.keep(kept)
        if self._stops is not None:
            self._stops.keep(self._steps)
        self._tallies = {key: tally for key, tally in self._tallies.items() if tally.read <= kept}

    @property
    @override
    def largest(self) -> int:
        """Number of letters: each ends at most one occurrence of a word."""
        return len(self._letters)

    @override
    def save(self) -> bytes:
        letters = self._letters.all
        little = letters.astype(letters.dtype.newbyteorder("<"))
        saved = _SAVED_HEADER.pack(self._steps, len(letters)) + little.tobytes()
        if self._stops is None or np.array_equal(self._stops.all, np.arange(self._steps) + 1):
            return saved  # every step has one letter
        return saved + self._stops.all.astype("<i8").tobytes()

    @override
    def load(self, saved: bytes) -> None:
        dtype = self._letters.all.dtype
        try:
            steps, letters = _SAVED_HEADER.unpack_from(saved)
            body = _SAVED_HEADER.size + letters * dtype.itemsize
            if len(saved) not in (body, body + 8 * steps):
                raise ValueError(f"{len(saved)} bytes")
            sequence = np.frombuffer(
                saved[_SAVED_HEADER.size : body], dtype.newbyteorder("<")
            ).astype(dtype)
            stops = self._steps + np.arange(1, steps + 1)
            if len(saved) > body:
                stops = np.frombuffer(saved[body:], "<i8").astype(np.int64)
            elif steps != letters:
                raise ValueError(f"{letters} letters in {steps} steps")
        except (struct.error, ValueError) as error:
            raise StateError(
                f"saved letters of {self._statistic!r} cannot be read ({error}): restore them from "
                "a copy"
            ) from error
        self._append(sequence, stops)

    @override
    def counts(self, cells: NDArray[np.int64], step: int) -> NDArray[np.int64]:
        """Return exact counts of words up to the end of ``step``, int64 of the shape of ``cells``.

        If the same words are asked for again, only the letters that came since are read.
        """
        stop = step
        if self._stops is not None:
            stop = int(self._stops.all[step - 1]) if step else 0
        key = np.ascontiguousarray(cells).tobytes()
        tally = self._tallies.pop(key, None)
        if tally is None or tally.read > stop:
            tally = self._statistic.tally(cells)
        if tally.read < stop:
            tally.advance(self._letters.all, stop)
            tally.read = stop
        self._tallies[key] = tally  # the newest comes last
        remembered = sum(len(tally.counts) for tally in self._tallies.values())
        while len(self._tallies) > _MOST_REMEMBERED_REQUESTS or remembered > _MOST_REMEMBERED_WORDS:
            remembered -= len(self._tallies.pop(next(iter(self._tallies))).counts)
        return tally.counts.copy()


class _Growing:
    """An array that grows at its end."""

    def __init__(self, dtype: np.dtype[Any]) -> None:
        self._room = np.empty(64, dtype)
        self._length = 0

    def __len__(self) -> int:
        return self._length

    @property
    def all(self) -> NDArray[Any]:
        """All values so far; valid until the array grows."""
        return self._room[: self._length]

    def extend(self, values: NDArray[Any]) -> None:
        stop = self._length + len(values)
        if stop > len(self._room):
            room = np.empty(max(stop, 2 * len(self._room)), self._room.dtype)
            room[: self._length] = self.all
            self._room = room
        self._room[self._length : stop] = values
        self._length = stop

    def keep(self, length: int) -> None:
        self._length = length
