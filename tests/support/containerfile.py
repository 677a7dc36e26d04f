"""A Containerfile as its instructions, by stage."""

import re
from pathlib import Path
from typing import NamedTuple


class Instruction(NamedTuple):
    """``COPY``, and the rest of its line with the arguments filled in."""

    word: str
    rest: str


def stages(file: Path) -> list[list[Instruction]]:
    """Instructions of each stage, from its FROM on."""
    text = re.sub(r"\\\n", " ", file.read_text(encoding="utf-8"))
    arguments: dict[str, str] = {}
    found: list[list[Instruction]] = []
    for line in text.splitlines():
        if not line.strip() or line.startswith("#"):
            continue
        word, rest = line.split(maxsplit=1)
        if word == "ARG":
            name, given, value = rest.partition("=")
            if given:  # else that of before the first stage
                arguments[name] = _filled(value, arguments)
            continue
        rest = _filled(rest, arguments)
        if word == "FROM":
            found.append([])
        found[-1].append(Instruction(word, rest))
    return found


def _filled(text: str, arguments: dict[str, str]) -> str:
    """Return a text with the values of its arguments."""
    for name, value in arguments.items():
        text = text.replace(f"${{{name}}}", value)
    return text
