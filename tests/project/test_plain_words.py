"""Sentences that people read have few turns of phrase that make them hard to read; fewer each time.

Numbers may only fall. ``python -m tools.sentences cli`` shows what is left, and where.
"""

from __future__ import annotations

import pytest

from tools.sentences import TURNS, Sentence, counted, lengths

#: How often each turn may still occur: what there is, with a little room where much is being
#: rebuilt.
LEFT = {
    "printed": dict(zip(TURNS, (0, 0, 1, 0, 14, 0), strict=True)),
    "docstrings": dict(zip(TURNS, (21, 8, 430, 84, 385, 9), strict=True)),
    "pages": dict(zip(TURNS, (1, 5, 64, 5, 62, 5), strict=True)),
}
#: Words in a sentence of a page, in the mean.
LONGEST_MEAN = 26


def test_turns_of_phrase_only_become_fewer() -> None:
    found = counted()
    assert found.keys() == LEFT.keys()
    for readers, most in LEFT.items():
        assert most.keys() == TURNS.keys()
        over = {turn: many for turn, many in found[readers].items() if many > most[turn]}
        assert not over, f"{readers}: more than {most}: see python -m tools.sentences"


def test_sentences_of_a_page_are_short() -> None:
    assert {place: round(mean) for place, mean in lengths().items() if mean > LONGEST_MEAN} == {}


@pytest.mark.parametrize(
    ("text", "turn"),
    [
        ("at most so many rows of a user count", "so many"),
        ("Who has both can test a name.", "who"),
        ("What is kept says nothing.", "what"),
        ("Of people a state keeps digests.", "fronted of"),
        ("a group by which users count", "of which"),
        ("nothing of it is protected", "nothing of"),
    ],
)
def test_each_turn_is_found(text: str, turn: str) -> None:
    assert [name for name, many in Sentence("page", 1, text).turns.items() if many] == [turn]


@pytest.mark.parametrize(
    "text",
    [
        "so many rows that they do not fit",
        "Who chooses the step?",
        "Of course it is.",
        "the group that users count in; a number of rows",
    ],
)
def test_plain_sentences_are_left_alone(text: str) -> None:
    assert not +Sentence("page", 1, text).turns
