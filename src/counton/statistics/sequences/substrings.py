"""The number of occurrences of words as substrings of a stream of letters."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from typing_extensions import override

from counton.base.distributions import BoundedChange, Run, Runs
from counton.privacy import ContributionBound
from counton.statistics.sequences.words import Words, WordTally

#: Number of letters that are read at a time.
_LETTERS_PER_BLOCK = 2**16
#: Largest number of words that are searched one by one.
_MOST_SEARCHED_WORDS = 4


class Substrings(Words):
    """Counts of each word of up to ``longest`` letters as a substring, after every letter.

    An occurrence counts at the step of its last letter. The protected unit is one letter:
    neighbouring datasets have equally many letters in each step. If each step has one letter, do
    not leave one out, because all later letters would move. Comments in the source prove the
    sensitivity.

    Source: Fichtenberger, Henzinger and Upadhyay, "Constant matters", Corollary 4. Erratum: its
    squared sensitivity is too small, because changes of a word in several steps enter the same
    nodes. The squares add up to l (l + 1) (l + 2) / 3 for words of up to l letters.

    Args:
        alphabet: the letters, as a text, or names of letters in a list.
        longest: largest number of letters of a word, l.

    Raises:
        InvalidInputError: no letters, a letter twice, or over 2^31 words.

    >>> from counton import ZCDP, Key, RunningStatistic
    >>> from counton.statistics import unit_sensitivity
    >>> from counton.strategies import SqrtToeplitz
    >>> words = Substrings(alphabet="ACGT", longest=3)
    >>> round(unit_sensitivity(words, SqrtToeplitz(9), 2) ** 2, 3)
    27.179
    >>> counter = RunningStatistic.start(words, 100, ZCDP(1), key=Key.generate(), name="reads")
    """

    # A further letter at the end of a stream changes less: one word of each length. If steps may
    # have any number of letters, a letter added or left out in the middle changes less too, as all
    # others keep their steps.
    #
    # Sensitivity. For each length j and each offset i from 0 to j - 1, the word that ends i letters
    # after the changed letter, p, counts no more, and another word does. Take two offsets i < k. If
    # both old words are equal, then s_p = s_(p + k - i), since letter p of the first is at p + k -
    # i in the second; likewise for both new words; but only one of these letters has changed. So at
    # each pair of offsets either the old words may be equal or the new ones, never both. If an old
    # word equals a new one, their signs are opposite. With columns c_t of C, whose products are not
    # negative, ||C d_j||^2 <= ||sum of c_(p + i)||^2 + sum of ||c_(p + i)||^2 over the offsets. A
    # constant stream attains this for all lengths at once: the old words of a length are all equal,
    # and the new ones all differ. In the 1-norm each of 2j words counts. Words of length j end at
    # step j at the earliest. With several letters in a step all products are at most the largest,
    # D^2. So j^2 + j of them add up: l (l + 1) (l + 2) / 3 times D^2 in all.

    phrase = "number of times that each word came in a stream of letters"
    sources = ("constants",)

    @override
    def contribution(self, *, batched: bool = False) -> ContributionBound:
        longest = self.longest
        if batched:
            pattern: Runs | BoundedChange = BoundedChange(
                longest * (longest + 1), longest * (longest + 1) * (longest + 2) // 3
            )
        else:
            runs = [Run(j, since=j) for j in range(1, longest + 1)]
            runs += [
                Run(1, offset=offset, since=j)
                for offset in range(longest)
                for j in range(offset + 1, longest + 1)
            ]
            pattern = Runs(tuple(runs))
        words = "which is a word by itself"
        if longest > 1:
            words = f"which is part of one word of length 1 up to {longest} of length {longest}"
        return ContributionBound.of_pattern(pattern, words, relation="replace", unit="letter")

    @override
    def tally(self, cells: NDArray[np.int64]) -> WordTally:
        return _Codes(self, cells)


class _Codes(WordTally):
    """Exact counts of words, read in blocks; a word is an integer whose digits are its letters."""

    # For each letter of a block, the numbers of the words that end at it are computed, and compared
    # with those of the counted words.

    def __init__(self, statistic: Words, cells: NDArray[np.int64]) -> None:
        super().__init__(len(cells))
        self._base = len(statistic.letters)
        firsts = np.array(statistic.firsts)
        lengths = np.searchsorted(firsts, cells, "right")
        #: For each requested length: places of the words, and their numbers within the length.
        self._asked = []
        for length in np.unique(lengths).tolist():
            places = np.flatnonzero(lengths == length)
            self._asked.append((length, places, cells[places] - firsts[length - 1]))

    @override
    def advance(self, letters: NDArray[Any], stop: int) -> None:
        for begin in range(self.read, stop, _LETTERS_PER_BLOCK):
            end = min(begin + _LETTERS_PER_BLOCK, stop)
            length = 1
            codes = letters[begin:end].astype(np.int64)
            for word_length, places, numbers in self._asked:
                while length < word_length:
                    before = letters[max(begin - length, 0) : max(end - length, 0)]
                    codes[len(codes) - len(before) :] += before * np.int64(self._base**length)
                    length += 1
                # The other words begin before the stream.
                whole = codes[max(word_length - 1 - begin, 0) :]
                self._count(whole, places, numbers, self._base**word_length)

    def _count(
        self, codes: NDArray[np.int64], places: Any, numbers: NDArray[np.int64], n_words: int
    ) -> None:
        """Add up how often some words occur.

        Args:
            codes: numbers of the words of a block, all of one length.
            places: places of the counts of the wanted words.
            numbers: their numbers.
            n_words: number of words of this length.
        """
        if len(numbers) <= _MOST_SEARCHED_WORDS:
            for place, number in zip(places, numbers, strict=True):
                self.counts[place] += np.count_nonzero(codes == number)
        elif n_words <= len(codes):
            self.counts[places] += np.bincount(codes, minlength=n_words)[numbers]
        elif len(codes):
            different_codes, times = np.unique(codes, return_counts=True)
            nearest = np.minimum(
                np.searchsorted(different_codes, numbers), len(different_codes) - 1
            )
            self.counts[places] += np.where(different_codes[nearest] == numbers, times[nearest], 0)
