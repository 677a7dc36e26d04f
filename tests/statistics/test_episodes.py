"""Episodes: minimal occurrences by their definition; what one letter changes, over all streams."""

import itertools
from collections.abc import Iterator

import numpy as np
import pytest
from brute_force import changes_of, check_exact, check_sensitivity
from episode_states import bound, contents, most_changed, words_over
from some_cases import long

from counton import Episodes
from counton.base.distributions import BoundedChange
from counton.base.errors import InvalidInputError
from counton.statistics.sequences.episodes import CHANGES, SQUARES


def _read(word: str, piece: str) -> bool:
    letters = iter(piece)
    return all(letter in letters for letter in word)


def _occurrences(word: str, stream: str) -> int:
    """Minimal ones, by their definition."""
    return sum(
        _read(word, stream[i:j])
        and not _read(word, stream[i + 1 : j] or "")
        and not _read(word, stream[i : j - 1])
        for i, j in itertools.combinations(range(len(stream) + 1), 2)
    )


def _one_by_one(word: str, stream: str) -> list[int]:
    """Minimal occurrences after each letter: from where beginnings of the word can be read."""
    latest = [-1] * (len(word) + 1)
    found = 0
    after = []
    for place, letter in enumerate(stream):
        latest[0] = place
        for i in range(len(word), 0, -1):
            if letter == word[i - 1] and latest[i - 1] > latest[i]:
                latest[i] = latest[i - 1]
                found += i == len(word)
        after.append(found)
    return after


def test_counts_are_those_of_minimal_occurrences() -> None:
    random = np.random.default_rng(5)
    for alphabet, longest, steps in (("ab", 4, 14), ("abc", 3, 12)):
        statistic = Episodes(alphabet, longest)
        names = [statistic.name_of(cell) for cell in range(statistic.cells[0])]
        stream = "".join(random.choice(list(alphabet), steps))
        totals = changes_of(statistic, stream).cumsum(axis=0)
        for step in (3, 8, steps):
            wanted = [_occurrences(word, stream[:step]) for word in names]
            assert totals[step - 1].tolist() == wanted
            assert [_one_by_one(word, stream)[step - 1] for word in names] == wanted
    check_exact(Episodes("ab", 3), list("aabababba"))
    check_exact(Episodes("ab", 2), [list("aab"), [], list("a"), list("babba"), []])


def test_blocks_of_letters_join() -> None:
    random = np.random.default_rng(6)
    stream = "".join(random.choice(list("abcdz"), 66_000, p=[0.4, 0.3, 0.2, 0.0999, 0.0001]))
    statistic = Episodes("abcdz", 4)
    exact = statistic.begin()
    exact.take(stream, np.arange(1, len(stream) + 1))
    asked = ["a", "zz", "za", "abz", "zaz", "abcd", "ddcc", "zabz"]
    cells = np.array([statistic.cell(word) for word in asked])
    wanted = [_one_by_one(word, stream) for word in asked]
    for step in (65_536, 65_537, 66_000, 40):
        assert exact.counts(cells, step).tolist() == [after[step - 1] for after in wanted]


def _replaced(alphabet: str, steps: int) -> Iterator[tuple[str, str]]:
    for letters in itertools.product(alphabet, repeat=steps):
        for place, letter in itertools.product(range(steps), alphabet):
            if letter > letters[place]:
                stream = "".join(letters)
                yield stream, stream[:place] + letter + stream[place + 1 :]


@pytest.mark.parametrize(
    ("alphabet", "longest", "steps", "slack"),
    [("ab", 1, 4, 1.0), ("ab", 2, 6, 1.67), ("ab", 3, 7, 2.0), long("abc", 2, 5, 2.0)],
)
def test_sensitivity_is_never_below_the_truth(
    alphabet: str, longest: int, steps: int, slack: float
) -> None:
    """Nodes that hold few steps see less than what streams of any length change."""
    statistic = Episodes(alphabet, longest)
    check_sensitivity(statistic, steps, _replaced(alphabet, steps), slack=slack)


def test_sensitivity_of_batches_is_never_below_the_truth() -> None:
    pairs = [
        ([list(one[:cut]), list(one[cut:])], [list(other[:cut]), list(other[cut:])])
        for one, other in _replaced("ab", 6)
        for cut in (0, 4)
    ]
    check_sensitivity(Episodes("ab", 3), 2, pairs, batched=True, slack=4.0)


def test_changes_are_the_largest_over_all_streams() -> None:
    for longest in (1, 2, 3, 4, 5):
        words = words_over("ab", range(1, longest + 1))
        assert most_changed(words, "ab") == (CHANGES[longest - 1][0], SQUARES[longest - 1][0])
    for longest, others in ((2, "z"), (3, "z"), (3, "zw")):
        words = words_over("ab" + others, range(1, longest + 1), others)
        found = most_changed(words, "ab" + others)
        assert found == (CHANGES[longest - 1][len(others)], SQUARES[longest - 1][len(others)])


def test_long_words_are_added_up() -> None:
    """Words of 4 letters and one other, apart by how many of each letter: no less than together."""
    total = np.zeros(2, int)
    for others, ways, letters in contents(4):
        if others == 1:
            words = sorted({"".join(word) for word in itertools.permutations(letters)})
            total += ways * np.array(bound(words, "abz"))
    assert (total + np.array([24, 26]) >= [CHANGES[3][1], SQUARES[3][1]]).all()


def test_no_stream_changes_more_than_is_stated() -> None:
    """Streams that change much: many words before and after, a and b nearest to the change."""
    random = np.random.default_rng(7)
    for longest, alphabet in ((4, "abcd"), (5, "abcd"), (6, "abc"), (4, "abcde")):
        statistic = Episodes(alphabet, longest)
        pattern = statistic.contribution().pattern
        assert isinstance(pattern, BoundedChange)
        cells = np.arange(statistic.cells[0])
        largest = np.zeros(2)
        for _ in range(2):
            far = ["".join(random.permutation(list(alphabet))) for _ in range(8)]
            near = ["".join(random.permutation(list(alphabet[2:]))) for _ in range(8)]
            before = "".join(far[:4] + near[:4])
            after = "".join(near[4:] + far[4:])
            ends = []
            for letter in "ab":
                exact = statistic.begin()
                stream = before + letter + after
                exact.take(stream, np.arange(1, len(stream) + 1))
                ends.append(
                    np.diff(
                        [exact.counts(cells, step) for step in range(1, len(stream) + 1)], axis=0
                    )
                )
            change = ends[1] - ends[0]
            more = (change > 0).sum(axis=0)
            fewer = (change < 0).sum(axis=0)
            largest = np.maximum(largest, [(more + fewer).sum(), (more**2 + fewer**2).sum()])
        assert largest[0] <= pattern.l1
        assert largest[1] <= pattern.l2_squared


def test_sensitivity_is_below_half_of_the_published() -> None:
    """4 l q^(l-1), for words of more than one letter over four letters."""
    for longest in (2, 3, 4):
        pattern = Episodes("ACGT", longest).contribution().pattern
        assert isinstance(pattern, BoundedChange)
        assert 2 * pattern.l2_squared < 4 * longest * 4 ** (longest - 1)


def test_longer_episodes_are_refused() -> None:
    pattern = Episodes("ACGT", 6).contribution().pattern
    assert isinstance(pattern, BoundedChange)
    assert pattern.l2_squared < 4 * 6 * 4**5
    for alphabet, longest in (("ab", 7), ("abcde", 6)):
        with pytest.raises(InvalidInputError, match="give a longest of at most 5"):
            Episodes(alphabet, longest)


def test_a_letter_changes_counts_in_many_steps() -> None:
    pattern = Episodes("ab", 2).contribution().pattern
    assert pattern is not None
    assert not getattr(pattern, "single_step", True)
