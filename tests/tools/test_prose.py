"""The check of names and sentences finds what breaks a rule, where it is."""

import pytest

from tools import prose


@pytest.mark.parametrize(
    ("page", "lines"),
    [
        ("Runs start anew.\n", [1]),
        ("`anew` is an option.\n", []),
        ("```sh\nanew\n```\n\nThe witness\nis off by 3.\n", [5, 6]),
    ],
)
def test_forbidden_words_are_found_outside_code(page: str, lines: list[int]) -> None:
    assert sorted(line for line, _ in prose.forbidden_words(prose.prose_of(page))) == lines


@pytest.mark.parametrize(
    ("source", "names"),
    [
        ("found = 1\nrows = 2\n", ["found"]),
        ("def given(one): ...\n", ["given", "one"]),
        ("for _said in rows: pass\n", ["_said"]),
        ("rows.found\nfound_rows = 1\n", []),
    ],
)
def test_vague_names_are_found_where_they_are_bound(source: str, names: list[str]) -> None:
    messages = [message for _, message in prose.vague_names(source)]
    assert [message.split("'")[1] for message in messages] == names


def test_names_in_backticks_are_found_in_comments_and_docstrings() -> None:
    source = '"""See `OldClass`."""\nx = 1  # as `NewClass` does\ntext = "`Other`"\n'
    assert list(prose.mentioned_names(source)) == [(1, "OldClass"), (2, "NewClass")]


def test_long_sentences_are_counted() -> None:
    assert prose.long_sentences("word " * 25 + "end. " + "word " * 24 + "end.") == 1
