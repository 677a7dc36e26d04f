"""What one changed letter changes at most in the counts of episodes, over streams of any length.

`counton.statistics.Episodes` says why it depends only on the states of the letters before and
after the changed one. Here the states are found, and all pairs of them tried, for the words over
each set of letters: "a" was replaced by "b", the others are z, w, u ... Words over different sets
of letters, and longer words with different numbers of each letter, are looked at apart and added
up, which is never less. Where even so there are too many pairs, only the states of the letters
after the change are tried, and for each word the worst of all before.

``python tests/support/episode_states.py 5`` prints the sums for words of 5 letters. Two further
numbers say how much is tried: pairs of states times values of words, and states. The more is tried,
the less is found; ``6 1e12 1e6`` takes hours and finds no more than is stated of words of 6 letters
over up to 4.
"""

import itertools
import math
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]
#: So many pairs of states times values of words are tried, and so many states found.
PAIRS = 3e11
STATES = 150_000.0
OTHERS = "zwuvy"


def states(words: Sequence[str], alphabet: str, most: float) -> dict[str, Array] | None:
    """For each beginning of a word, whether its last letter makes it begin earlier, in each state.

    None if there are more than so many states.
    """
    nodes = sorted({word[:n] for word in words for n in range(1, len(word) + 1)})
    place = {node: at for at, node in enumerate(nodes)}
    single = np.array([len(node) == 1 for node in nodes])  # may begin at the change, always later

    def after(state: Array, letter: str) -> Array:
        """A letter more, before the changed one."""
        found = state.copy()
        for node, at in place.items():
            if len(node) == 1:
                continue
            before = state[:, place[node[:-1]]]
            if node[-2] == letter:
                found[:, at] = before if node[-1] == letter else before | state[:, at]
            elif node[-1] == letter:
                found[:, at] = False
        return found

    known = new = np.packbits(single[None], axis=1)
    while len(new):
        bits = np.unpackbits(new, axis=1, count=len(nodes)).astype(bool)
        packed = np.concatenate([np.packbits(after(bits, letter), axis=1) for letter in alphabet])
        rows = np.dtype((np.void, packed.shape[1]))
        fresh = np.setdiff1d(packed.view(rows).ravel(), np.ascontiguousarray(known).view(rows))
        new = fresh.view(np.uint8).reshape(-1, packed.shape[1])
        known = np.concatenate([known, new])
        if len(known) > most:
            return None
    bits = np.unpackbits(known, axis=1, count=len(nodes)).astype(bool)
    return {node: bits[:, at] for node, at in place.items()}


def patterns(words: Sequence[str], alphabet: str, *, reverse: bool, most: float) -> Array | None:
    """For each state (a row) and word (a column) which of its places are strict, as bits.

    In order, bit i is set if the first i + 2 letters begin earlier than the first i + 1 before the
    change; reversed, if the letters from i + 1 on end later than those from i + 2 on after it.
    """
    found = states([word[::-1] for word in words] if reverse else words, alphabet, most)
    if found is None:
        return None
    columns = np.zeros((len(next(iter(found.values()))), len(words)), np.uint8)
    for column, word in enumerate(words):
        for i in range(len(word) - 1):
            node = word[i:][::-1] if reverse else word[: i + 2]
            columns[:, column] |= found[node].astype(np.uint8) << i
    return np.unique(columns, axis=0)


def changes(word: str) -> tuple[Array, Array]:
    """Number of changed ends, and sum of squares, for both patterns of a word."""
    return _changes("".join(letter if letter in "ab" else "o" for letter in word))


@lru_cache(maxsize=4096)
def _changes(word: str) -> tuple[Array, Array]:
    m = len(word)
    number = np.zeros((2 ** (m - 1), 2 ** (m - 1)), np.float32)
    squares = number.copy()
    for before, after in np.ndindex(number.shape):
        strict = [1, *(before >> i & 1 for i in range(m - 1))]
        h = [0, *itertools.accumulate(-step for step in strict)]
        old = [h[i - 1] if i and word[i - 1] == "a" else h[i] for i in range(m + 1)]
        new = [h[i - 1] if i and word[i - 1] == "b" else h[i] for i in range(m + 1)]
        # The first of the places whose letters from there on end at the same time.
        firsts = [i for i in range(1, m + 1) if i == m or after >> i - 1 & 1]
        ends = [(new[i] > new[j]) - (old[i] > old[j]) for i, j in itertools.pairwise(firsts)]
        if strict[-1]:
            ends.append((word[-1] == "b") - (word[-1] == "a"))
        more = ends.count(1)
        fewer = ends.count(-1)
        number[before, after] = more + fewer
        squares[before, after] = more**2 + fewer**2
    return number, squares


def over_pairs(words: Sequence[str], before: Array, after: Array) -> tuple[int, int]:
    """The largest sums over all pairs of states."""
    firsts = np.cumsum([0, *(2 ** (len(word) - 1) for word in words)])
    chosen = np.zeros((len(before), firsts[-1]), np.float32)
    for column, first in enumerate(firsts[:-1]):
        chosen[np.arange(len(before)), first + before[:, column].astype(np.int64)] = 1
    found = []
    for which in (0, 1):
        tables = [changes(word)[which] for word in words]
        values = np.concatenate([each[:, after[:, at]] for at, each in enumerate(tables)])
        largest = [
            (chosen[i : i + 4096] @ values[:, j : j + 4096]).max()
            for i in range(0, len(before), 4096)
            for j in range(0, len(after), 4096)
        ]
        found.append(int(max(largest)))
    return found[0], found[1]


def most_changed(words: Sequence[str], alphabet: str) -> tuple[int, int]:
    """The largest sums there are: over all pairs of states, whatever that takes."""
    before = patterns(words, alphabet, reverse=False, most=math.inf)
    after = patterns(words, alphabet, reverse=True, most=math.inf)
    assert before is not None
    assert after is not None
    return over_pairs(words, before, after)


def bound(
    words: Sequence[str], alphabet: str, pairs: float = PAIRS, most: float = STATES, last: int = 1
) -> tuple[int, int]:
    """Sums that are never exceeded: the largest there are, if that is quick to find."""
    after = patterns(words, alphabet, reverse=True, most=most)
    if after is None:  # apart by their last letters
        groups: dict[str, list[str]] = {}
        for word in words:
            groups.setdefault(word[-last:], []).append(word)
        parts = [bound(group, alphabet, pairs, most, last + 1) for group in groups.values()]
        return sum(part[0] for part in parts), sum(part[1] for part in parts)
    values = sum(2 ** (len(word) - 1) for word in words)
    if 4 * len(after) ** 2 * values <= pairs:
        before = patterns(words, alphabet, reverse=False, most=most)
        if before is not None and 4 * len(before) * len(after) * values <= pairs:
            return over_pairs(words, before, after)
    worst = [
        int(sum(changes(w)[k].max(axis=0)[after[:, at]] for at, w in enumerate(words)).max())
        for k in (0, 1)
    ]
    return worst[0], worst[1]


def words_over(alphabet: str, lengths: Sequence[int], all_of: str = "") -> list[str]:
    """Words that hold a or b, and all letters of ``all_of``."""
    every = ("".join(word) for n in lengths for word in itertools.product(alphabet, repeat=n))
    return [word for word in every if {*word} & {*"ab"} and {*all_of} <= {*word}]


def contents(length: int) -> Iterator[tuple[int, int, str]]:
    """How many other letters, how often it comes among so many others, and the letters."""
    for a, b in itertools.product(range(1, length + 1), range(length + 1)):
        if b > a or a + b > length:
            continue
        for times in _divided(length - a - b):
            ways = math.factorial(len(times)) * (1 if a == b else 2)
            for equal in Counter(times).values():
                ways //= math.factorial(equal)
            others = "".join(letter * n for letter, n in zip(OTHERS, times, strict=False))
            yield len(times), ways, "a" * a + "b" * b + others


def _divided(number: int, most: int = 9) -> Iterator[tuple[int, ...]]:
    if not number:
        yield ()
    for first in range(min(number, most), 0, -1):
        for rest in _divided(number - first, first):
            yield (first, *rest)


def main() -> None:
    """Sums over all words of one length, by the number of other letters."""
    length = int(sys.argv[1])
    pairs, most = map(float, sys.argv[2:4]) if len(sys.argv) > 2 else (PAIRS, STATES)
    totals: dict[int, list[int]] = {}
    for others, ways, letters in contents(length):
        words = sorted({"".join(word) for word in itertools.permutations(letters)})
        found = bound(words, "".join(sorted({*letters})), pairs, most)
        print(letters, "words", len(words), "changes, squares", found, "times", ways, flush=True)
        total = totals.setdefault(others, [0, 0])
        totals[others] = [total[k] + ways * found[k] for k in (0, 1)]
    print("by other letters:", dict(sorted(totals.items())))


if __name__ == "__main__":
    main()
