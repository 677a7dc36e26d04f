"""Substrings: what one letter changes, exactly; counts by a second way; any word at any step."""

import itertools
from collections.abc import Iterator

import numpy as np
import pytest
from brute_force import changes_of, check_exact, check_sensitivity
from started import started

from counton import ZCDP, ApproxDP, Key, PureDP, RunningStatistic, Substrings
from counton.base.distributions import Run, Runs
from counton.base.errors import InvalidInputError, StateError
from counton.statistics import unit_sensitivity
from counton.statistics.live_statistic import OnDemandResult
from counton.statistics.statistic import restore
from counton.strategies import Binary, KAry, SqrtToeplitz
from counton.strategies.participation import pattern_sensitivity

Stream = list[str]


def _replaced(alphabet: str, steps: int) -> Iterator[tuple[Stream, Stream]]:
    """All pairs of streams that differ in one letter."""
    for stream in itertools.product(alphabet, repeat=steps):
        for place, letter in itertools.product(range(steps), alphabet):
            if letter > stream[place]:
                yield list(stream), [*stream[:place], letter, *stream[place + 1 :]]


def _batches(alphabet: str, letters: int, cuts: tuple[int, ...]) -> Iterator[list[Stream]]:
    for stream in itertools.product(alphabet, repeat=letters):
        ends = zip((0, *cuts), (*cuts, letters), strict=True)
        yield [list(stream[begin:end]) for begin, end in ends]


def _changed(batches: list[Stream], alphabet: str) -> Iterator[list[Stream]]:
    """One letter replaced, or left out while others keep their steps."""
    for step, batch in enumerate(batches):
        for place, letter in itertools.product(range(len(batch)), (*alphabet, "")):
            kept = [*batch[:place], *letter, *batch[place + 1 :]]
            yield [*batches[:step], kept, *batches[step + 1 :]]


@pytest.mark.parametrize(
    ("alphabet", "longest", "steps"),
    [("ab", 1, 4), ("ab", 2, 6), ("ab", 3, 6), ("abc", 2, 4), ("abc", 3, 4), ("ab", 4, 6)],
)
def test_sensitivity_is_the_truth(alphabet: str, longest: int, steps: int) -> None:
    statistic = Substrings(alphabet, longest)
    check_sensitivity(statistic, steps, _replaced(alphabet, steps))


def test_sensitivity_of_batches_is_the_truth() -> None:
    alphabet = "ab"
    pairs = [
        (batches, other)
        for cuts in ((5, 5), (2, 4))
        for batches in _batches(alphabet, 5, cuts)
        if batches[0][0] == "a"  # others are these with the two letters exchanged
        for other in _changed(batches, alphabet)
    ]
    check_sensitivity(Substrings(alphabet, 3), 3, pairs, batched=True)
    left_out = [
        pair for pair in pairs if sum(map(len, pair[0])) > sum(map(len, pair[1]))
    ]  # moves less than a letter that is replaced
    check_sensitivity(Substrings(alphabet, 3), 3, left_out, batched=True, slack=1.5)


def test_long_horizons_agree_with_short_ones() -> None:
    """A Toeplitz strategy and trees, beyond the horizons on which columns are written out."""
    statistic = Substrings("ab", 3)
    for strategy in SqrtToeplitz(700), Binary(700), KAry(700, 7, True):
        steps = [strategy.column(step) for step in range(1, 20)]
        worst = [0.0, 0.0]
        for start in range(1, 12):  # nodes near the beginning of a tree are the widest
            norms = np.zeros(2)
            for length in (1, 2, 3):
                ends = range(max(start, length), start + length)
                for some in (ends, *([end] for end in ends)):
                    total: dict[tuple[int, int], float] = {}
                    for node in (node for end in some for node in steps[end - 1]):
                        total[node[:2]] = total.get(node[:2], 0.0) + float(node.weight)
                    values = np.array(list(total.values()))
                    norms += values.sum(), (values**2).sum()
            worst = np.maximum(worst, norms).tolist()
        found = (
            unit_sensitivity(statistic, strategy, 1),
            unit_sensitivity(statistic, strategy, 2) ** 2,
        )
        assert found == pytest.approx(worst, rel=1e-12)
    far = Runs((Run(3), Run(1, offset=2, since=3)))
    assert (
        pattern_sensitivity(Binary(2**17), far).l2_squared
        >= pattern_sensitivity(Binary(2**16), far).l2_squared
    )


def test_counts_are_those_of_words() -> None:
    check_exact(Substrings("ab", 3), list("aabababba"))
    check_exact(Substrings("ab", 2), [list("aab"), [], list("a"), list("babba"), []])
    random = np.random.default_rng(3)
    stream = "".join("abcd"[place] for place in random.integers(0, 4, 70_000))
    words = Substrings("abcd", 6)
    exact = words.begin()
    exact.take(stream, np.arange(1, len(stream) + 1))
    asked = ["a", "dd", "abc", "cab", "dabb", "bbbb", "cdcd", "acacac", "abbaba", *words.words(2)]
    cells = np.array([words.cell(word) for word in asked])
    for step in (1, 2, 65_535, 65_538, 69_999, 17, 70_000):
        wanted = [
            sum(stream.startswith(word, at) for at in range(step - len(word) + 1))
            if step < 20
            else len(_found(stream[:step], word))
            for word in asked
        ]
        assert exact.counts(cells, step).tolist() == wanted
        assert [int(exact.counts(cells[i : i + 1], step)[0]) for i in (3, 7)] == wanted[3:8:4]
    everything = exact.counts(np.arange(words.cells[0]), 70_000)
    assert everything[cells].tolist() == wanted
    assert everything.sum() == sum(70_000 - j for j in range(6))


def _found(text: str, word: str) -> list[int]:
    places = []
    at = text.find(word)
    while at >= 0:
        places.append(at)
        at = text.find(word, at + 1)
    return places


def test_words_are_counted_at_any_step_and_after_checkpoint() -> None:
    key = Key.generate()
    letters = ["JFK", "LAX", "ORD"]
    statistic = Substrings(letters, 3)
    stream = [letters[place] for place in np.random.default_rng(4).integers(0, 3, 40)]
    running = RunningStatistic.start(statistic, 40, PureDP(1), key=key, name="flown")
    for airport in stream:
        running.release(airport)
    parts = RunningStatistic.start(statistic, 40, PureDP(1), key=key, name="flown")
    parts.release_many(stream[:20])
    parts = RunningStatistic.resume(parts.checkpoint(), key=key)
    parts.release_many(np.array(stream[20:]))
    whole = running.result(33).table_columns()
    np.testing.assert_array_equal(parts.result(33).table_columns()["estimate"], whole["estimate"])
    place = whole["cell"].tolist().index("JFK ORD")
    assert running.result(33)["JFK", "ORD"] == whole["estimate"][place]
    assert parts.result(33)["JFK ORD"] == whole["estimate"][place]
    last = running.result()
    assert isinstance(last, OnDemandResult)
    ranking = last.ranking(3, among=statistic.words(2), confidence_level=0.9)
    values = [last[name] for name in statistic.words(2)]
    assert ranking.values.tolist() == sorted(values, reverse=True)[:3]
    wider = last.ranking(3, confidence_level=0.9)
    assert (wider.upper - wider.lower > ranking.upper - ranking.lower).all()


def test_noise_has_the_deviation_that_is_stated() -> None:
    statistic = Substrings("ACGT", 2)
    stream = "GATTACA" * 3
    truth = changes_of(statistic, stream).sum(axis=0)
    found = []
    for guarantee, strategy in ((PureDP(1), KAry.best(21)), (ZCDP(1), SqrtToeplitz(21))):
        for number in range(20):
            running = RunningStatistic.start(
                statistic, guarantee=guarantee, key=Key.generate(), name=str(number),
                strategy=strategy,
            )  # fmt: skip
            reading = running.release_many(stream)[-1]
            noise = reading.table_columns()["estimate"] - truth
            found.append(noise / reading.std("GA"))
    scores = np.array(found)
    assert abs(scores.mean()) * np.sqrt(scores.size) < 4
    assert abs((scores**2).mean() - 1) < 4 * np.sqrt(5 / scores.size)


def test_unknown_letter_is_refused_without_release() -> None:
    running = started(Substrings("ACGT", 3), 9, ApproxDP(1, 1e-6))
    running.release_many("ACG")
    before = running.checkpoint()
    for wrong in ("ACN", ["A", "AC"], ["A", 7], "A\U0001f600"):
        with pytest.raises(InvalidInputError, match=r"letter 2|letter 3"):
            running.release_many(wrong)
    assert running.checkpoint() == before
    for name in ("", "ACGT", "AN", 5, ["A", None]):
        with pytest.raises(InvalidInputError, match="word is"):
            running.result()[name]
    for alphabet, longest in (("", 2), ("AA", 2), ("A C", 2), ([1], 2), ("ACGT", 0), ("ACGT", 40)):
        with pytest.raises(InvalidInputError, match=r"alphabet|longest"):
            Substrings(alphabet, longest)  # type: ignore[arg-type]
    with pytest.raises(StateError, match="saved letters"):
        restore(Substrings("ab", 2), b"nothing")
