"""Files with odd lines, from which every line is taken out in turn."""

import random
from pathlib import Path
from typing import Any

import odd_lines

#: Number of files in a case.
FILES = 50


def draw(chance: random.Random) -> dict[str, Any]:
    """Some files."""
    return {"files": [odd_lines.draw(chance) for _ in range(FILES)]}


def run(case: dict[str, Any], folder: Path) -> str:
    """A line decides about no other line."""
    for drawn in case["files"]:
        odd_lines.check(drawn, odd_lines.by_counton(folder))
    return f"{len(case['files'])} files"
