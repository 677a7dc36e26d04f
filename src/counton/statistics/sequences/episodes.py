"""Occurrences of words as episodes: other letters may stand between their letters."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from typing_extensions import override

from counton.base.distributions import BoundedChange
from counton.base.errors import InvalidInputError
from counton.privacy import ContributionBound
from counton.statistics.sequences.words import Words, WordTally

#: Number of letters that are read at a time, each a bit of an integer.
_LETTERS_PER_BLOCK = 2**17
#: Row l - 1 is for words of up to l letters. Its entry k bounds the change by one changed letter
#: in all words whose letters are k given letters besides the old and the new one: the number of
#: changes (CHANGES) and the sum of their squares (SQUARES).
CHANGES = (
    (2,),
    (6, 4),
    (16, 24, 14),
    (43, 117, 143, 62),
    (110, 541, 1225, 1118, 352),
    (281, 2656, 8569),
)
SQUARES = (
    (2,),
    (6, 4),
    (18, 26, 14),
    (53, 138, 157, 62),
    (153, 759, 1603, 1308, 352),
    (433, 4810, 13915),
)


class Episodes(Words):
    """Counts of each word of up to ``longest`` letters as an episode, after every letter.

    A word occurs as an episode in a piece of the stream that contains its letters in order, perhaps
    with others between. An occurrence is minimal if no shorter piece within it contains the word.
    Minimal occurrences are counted at the step of their last letter. Noise is added to every word,
    so nothing reveals which words are frequent.

    The protected unit is one letter: neighbouring datasets have equally many letters in each step
    and differ in one letter. Comments in the source prove the sensitivity.

    Source: Fichtenberger, Henzinger and Upadhyay, "Constant matters", Corollary 5; the squared
    sensitivity stated there is 4 l q^(l-1) for q letters and l = ``longest``. For four letters and
    l = 4 this is twice the value used here. Erratum: it releases only episodes that occur at least
    S times, and this choice reveals data.

    Args:
        alphabet: the letters, as a text, or names of letters in a list.
        longest: largest number of letters of a word, l: up to 5; up to 6 if the alphabet has at
            most four letters.

    Raises:
        InvalidInputError: no letters, a letter twice, or words that are too long.

    >>> from counton import ZCDP, Key, RunningStatistic
    >>> episodes = Episodes(["JFK", "LGA", "EWR"], longest=2)
    >>> counter = RunningStatistic.start(episodes, 100, ZCDP(1), key=Key.generate(), name="flown")
    >>> results = counter.release_many(["JFK", "EWR", "EWR", "LGA", "JFK", "LGA"])
    >>> type(results[-1]["JFK", "LGA"] + results[-1].std())  # 2 and noise
    <class 'float'>
    """

    # Sensitivity. Let letter p be a in one stream and b in the other. For a word e_1 .. e_m let h_i
    # be the latest place before p from which e_1 .. e_i can be read before p, with h_0 = p. Let y_i
    # be the earliest place by which e_(i+1) .. e_m has been read after p, with y_m = p. With a at
    # p, the latest place from which e_1 .. e_i can be read up to p is x_i = h_(i-1) if e_i = a,
    # else h_i. An occurrence that began by p ends at t > p if and only if x_i > x_j for the least i
    # with y_i <= t and the least j with y_j < t; at p, if e_m = a and h_(m-1) > h_m. So the changed
    # ends depend only on which of the inequalities h_(i-1) >= h_i and y_(i-1) >= y_i are strict.
    # Now append a letter c to the letters before p. Then h_(i-1) > h_i becomes false if e_i = c and
    # e_(i-1) is not; keeps the value for i - 1 if both are c; becomes true if it held for i or i -
    # 1, and e_(i-1) = c and e_i is not; and otherwise stays. So there are finitely many states, and
    # as many, reversed, of the letters after p. All were tried for the words over each set of
    # letters, which no other letters affect, and the largest values added up
    # (tests/support/episode_states.py). With n+ more and n- fewer ends of a word, its part of ||C
    # d||^2 is at most n+^2 + n-^2 times the largest of a column: products of columns are not
    # negative. For two letters this is the largest sum over streams of any length.

    phrase = "number of times that each word came as an episode of a stream of letters"
    sources = ("constants",)

    def __init__(self, alphabet: str | Sequence[str], longest: int) -> None:
        super().__init__(alphabet, longest)
        others = min(self._others, self.longest - 1)  # limited by the length of a word
        if self.longest > len(CHANGES) or others >= len(CHANGES[self.longest - 1]):
            raise InvalidInputError(
                f"longest is {self.longest} and the alphabet has {len(self.letters):,} letters, "
                "which makes too many episodes; give a longest of at most 5, or 6 if the alphabet "
                "has at most 4 letters, or use Substrings"
            )

    @property
    def _others(self) -> int:
        """Number of letters other than a changed letter's old and new value."""
        return max(len(self.letters) - 2, 0)

    @override
    def contribution(self, *, batched: bool = False) -> ContributionBound:
        l1, l2_squared = (
            sum(
                number * math.comb(self._others, k)
                for k, number in enumerate(table[self.longest - 1])
            )
            for table in (CHANGES, SQUARES)
        )
        return ContributionBound.of_pattern(
            BoundedChange(l1, l2_squared),
            f"which begins, ends or is part of episodes, so that up to {l1:,} counts change",
            relation="replace",
            unit="letter",
        )

    @override
    def tally(self, cells: NDArray[np.int64]) -> WordTally:
        return _Ends(self, cells)


class _Ends(WordTally):
    """Exact counts of minimal occurrences.

    For each word, the bits of an integer say at which letters one ends. Words are sorted so that
    each comes after the shorter words with which it begins.
    """

    # An occurrence of w c ends at the first c after an occurrence of w. So it waits, from the
    # letter after w on, until a c comes: adding bits to a run of ones carries them to its end.

    def __init__(self, statistic: Words, cells: NDArray[np.int64]) -> None:
        super().__init__(len(cells))
        words = [tuple(statistic.word(cell)) for cell in cells.tolist()]
        tree = sorted({word[:length] for word in words for length in range(1, len(word) + 1)})
        place = {word: index for index, word in enumerate(tree)}
        self._asked = np.array([place[word] for word in words], dtype=np.intp)
        self._nodes = [(len(word), word[-1]) for word in tree]
        self._letters = sorted({letter for _, letter in self._nodes})
        #: True for a word if an occurrence of its beginning waits for its last letter.
        self._waits = [length == 1 for length, _ in self._nodes]
        self._found = [0] * len(tree)

    @override
    def advance(self, letters: NDArray[Any], stop: int) -> None:
        waits = self._waits
        counts = self._found
        for begin in range(self.read, stop, _LETTERS_PER_BLOCK):
            block = letters[begin : min(begin + _LETTERS_PER_BLOCK, stop)]
            every = (1 << len(block)) - 1
            positions = {
                letter: int.from_bytes(np.packbits(block == letter, bitorder="little"), "little")
                for letter in self._letters
            }
            # Bits of all other letters, and with a bit that waits at the first letter.
            others = {
                letter: (every ^ bits, (every ^ bits) + 1) for letter, bits in positions.items()
            }
            # For each length of the present word, the places after its occurrences.
            longest = max(length for length, _ in self._nodes)
            after = [every << 1] + [0] * longest
            for node, (length, letter) in enumerate(self._nodes):
                begins = after[length - 1]
                waiting = waits[node]
                if not begins and not waiting:
                    after[length] = 0
                    continue
                rest = others[letter]
                bits = positions[letter]
                passed = (rest[waiting] + (begins & rest[0])) | begins
                ends = passed & bits
                waits[node] = passed > every
                counts[node] += ends.bit_count()
                if length < longest:
                    after[length] = ends << 1
        self.counts = np.array(counts, np.int64)[self._asked]
