"""Words of the field: a first count prints none of them, and the glossary explains each."""

import re
from pathlib import Path
from typing import Any

import pytest

#: What readers of all pages did not understand.
WORDS = (
    "cell", "step", "added or removed", "neighbours", "least-squares", "Hats", "knots", "Epochs",
    "least of any mechanism", "checkpoint", "rollback guard", "is_certain",
    "discrete Laplace of scale 2", "rho", "36 to 38",
)  # fmt: skip


def _has(word: str, text: str) -> bool:
    """Whether a text has a word, also in the plural.

    >>> _has("cell", "two Cells"), _has("sure", "to measure"), _has("rho", "throughout")
    (True, False, False)
    """
    return re.search(rf"(?<!\w){re.escape(word)}s?(?!\w)", text, re.IGNORECASE) is not None


@pytest.mark.parametrize("word", WORDS)
def test_the_glossary_explains_each_word(word: str) -> None:
    page = (Path(__file__).parents[2] / "docs" / "reference" / "glossary.md").read_text(
        encoding="utf-8"
    )
    explained = dict(re.findall(r"^- \*\*(.+?)\*\*: (.+)$", page, re.MULTILINE))
    own = [meaning for name, meaning in explained.items() if _has(word, name)]
    assert own or any(_has(word, meaning) for meaning in explained.values())
    assert all(len(meaning.split()) >= 7 for meaning in own)


def test_the_first_count_has_none_of_them(place: Any) -> None:
    events = place.write("e.csv", ["00:10,a", "00:50,b", "01:30,a", "03:00,b"])
    done = place.count(events, "--epsilon", "1", "--until", "2013-01-01T03:00").fine()
    said = (done.out + done.err).replace(str(place.folder), "")
    assert [word for word in WORDS if _has(word, said)] == []
    # What was released, the heading, a table of three windows and two groups, and four lines.
    lines = [line for line in said.splitlines() if line.strip()]
    assert len(lines) == 13
    assert lines[0] == "Released 3 new windows (1 to 3 of 6)."
    heads = [line.partition(":")[0] for line in lines[-4:]]
    assert heads == ["Accuracy", "Privacy", "Late rows", "Next"]


def test_show_says_the_rest_without_them(place: Any) -> None:
    assert place.count(place.write("e.csv", ["00:10,a", "03:00,b"]), "--epsilon", "1").code == 0
    table = place.folder / "t.parquet"
    assert place("export", str(place.state), "--output", str(table)).code == 0
    for shown in (place.state, table):
        said = place("inspect", str(shown)).out
        assert "for each event" in said
        assert [word for word in WORDS if _has(word, said)] == []
