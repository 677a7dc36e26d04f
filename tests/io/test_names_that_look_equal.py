"""Two names that look equal are shown with their code points."""

from pathlib import Path
from typing import Any

import polars as pl
import pytest

from counton import release
from counton.base.errors import InvalidInputError
from counton.base.look_alikes import look_alike, skeleton

COMPOSED = "Z\u00fcrich"
DECOMPOSED = "Zu\u0308rich"
#: Pairs of names that look equal, and the code points that tell them apart.
PAIRS = [
    (COMPOSED, DECOMPOSED, ("U+00FC", "U+0308")),
    ("shop", "shop\u00a0", ("ASCII", "U+00A0")),
    ("shop", "shop ", ("ASCII", "U+0020 at the end")),
    ("shop", "s\u200bhop", ("ASCII", "U+200B")),
    ("cap", "\u0441\u0430\u0440", ("ASCII", "U+0441, U+0430, U+0440")),
    ("a-b", "a\u2011b", ("ASCII", "U+2011")),
    ("file", "\ufb01le", ("ASCII", "U+FB01")),
    ("a b", "a\u3000b", ("ASCII", "U+3000")),
]


def refusal(folder: Path, what: Any = "count", **options: Any) -> str:
    with pytest.raises(InvalidInputError) as error:
        release(
            what, time="time", every="1d", start="2024-03-01", windows=9, epsilon=1,
            privacy_unit="event",
            until="2024-03-02", state=folder / "s.db", **options,
        )  # fmt: skip
    return str(error.value)


@pytest.mark.parametrize(("listed", "name", "points"), PAIRS)
def test_group_like_listed_one_is_refused_with_code_points(
    listed: str, name: str, points: tuple[str, str], tmp_path: Path
) -> None:
    rows = pl.DataFrame({"time": ["2024-03-01"] * 2, "city": [name, "elsewhere"]})
    said = refusal(tmp_path, events=rows, group_by="city", groups=[listed, "Bern"])
    assert "which looks like the listed" in said
    assert all(point in said for point in points), said
    assert "'elsewhere'" in said
    table = {"columns": "city", "groups": {"city": [listed, "Bern"]}}
    said = refusal(tmp_path, "contingency", events=rows, **table)
    assert all(point in said for point in points), said


def test_column_like_stated_one_is_refused_with_code_points(tmp_path: Path) -> None:
    rows = pl.DataFrame({"time": ["2024-03-01"], DECOMPOSED: ["a"]})
    said = refusal(tmp_path, events=rows, group_by=COMPOSED, groups=["a"])
    assert "U+00FC" in said
    assert "U+0308" in said


def test_names_that_look_different_are_not_alike() -> None:
    for name in ("Zurich", "z\u00fcrich", "Z\u00fcrich2", "zh", ""):
        assert look_alike(name, [COMPOSED, "a", "b"]) is None
    assert skeleton("a\u00adb") == "ab"
