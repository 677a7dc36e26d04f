"""What users build on changes with a word in the CHANGELOG, and not without."""

import json
import re
from pathlib import Path
from typing import Any

import pytest
from border import RECORD, border, changes

CHANGELOG = Path(__file__).parents[2] / "CHANGELOG.md"


def unsaid(before: Any, now: Any, said: str) -> list[str]:
    """Names that have changed since a release and that a text does not mention."""
    words = {*re.findall(r"[\w./{}-]+", said)}
    return [
        name
        for name in changes(before, now)
        if not {name, name.lstrip("-"), name.rpartition(".")[2], name.rpartition(" ")[2]} & words
    ]


@pytest.mark.slow
def test_changelog_names_every_change_of_interface() -> None:
    above = CHANGELOG.read_text("utf-8").split("\n## 0.2.0")[0]
    left = unsaid(json.loads(RECORD.read_text("utf-8")), border(), above)
    assert not left, f"name what has come, gone or changed in the CHANGELOG: {sorted({*left})}"


@pytest.mark.parametrize(
    ("before", "now", "found"),
    [
        (
            {"commands": {"count": ["--group-by", "--time"]}},
            {"commands": {"count": ["--group-by"]}},
            "--time",
        ),
        ({"exit codes": {"ALARM": 10}}, {"exit codes": {"ALARM": 11}}, "ALARM"),
        ({"python": {"counton.read": "a"}}, {"python": {}}, "counton.read"),
        ({"paths": ["GET /v1/a"]}, {"paths": ["GET /v1/a", "GET /v1/b"]}, "GET /v1/b"),
    ],
)
def test_unsaid_detects_change_missing_in_text(before: Any, now: Any, found: str) -> None:
    assert unsaid(before, now, "Nothing is said.") == [found]
    assert unsaid(before, now, f"- {found} is other now.") == []
