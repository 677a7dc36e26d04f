"""The sentences that people read, and the turns of phrase that make them hard to read.

``python -m tools.sentences`` counts them. With a room, such as ``cli``, it lists those of the room;
with ``--all`` every sentence that is printed, with its place.
"""

from __future__ import annotations

import ast
import re
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[1]
SOURCES = ROOT / "src" / "counton"

#: What a sentence had better not contain, by name.
TURNS = {
    # A number that nobody names: "at most so many rows".
    "so many": re.compile(r"\bso (?:many|much|long)\b(?! (?:\w+ )?(?:that|as)\b)", re.IGNORECASE),
    # A subject without a noun: "Who has both can test a name", "What is kept says".
    "who": re.compile(r"(?:^|[.!:;] +)(?:Who|Whose|Whom)\b(?![^.?!]*\?)"),
    "what": re.compile(r"(?:^|[.!:;] +)What\b(?![^.?!]*\?)"),
    # What the sentence is about stands behind "of": "Of people a state keeps digests".
    "fronted of": re.compile(r"(?:^|[.!] +)Of (?!course\b)[a-z]"),
    # Three steps back to what a word belongs to: "of whose events", "by which it is known".
    "of which": re.compile(
        r"\b(?:of|by|in|with|from|to|at|for|under|after|before|on|over|below|beside)"
        r" (?:which|whom|whose)\b",
        re.IGNORECASE,
    ),
    # A subject that comes after its verb: "nothing of it is", "none but".
    "nothing of": re.compile(r"\b(?:nothing|nobody|none) (?:of|but) (?:it|that|them)\b", re.I),
}


class Sentence(NamedTuple):
    """A sentence, and where it stands.

    Attributes:
        place: the file, below the repository.
        line: where the text begins.
        text: the sentence, or several, on one line.
    """

    place: str
    line: int
    text: str

    @property
    def turns(self) -> Counter[str]:
        """How often each turn of phrase occurs."""
        return Counter({name: len(found.findall(self.text)) for name, found in TURNS.items()})


def _joined(node: ast.AST) -> str | None:
    """The text of a string; what is filled in is "X"."""
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return node.value
    if isinstance(node, ast.JoinedStr):
        return "".join(
            str(part.value) if isinstance(part, ast.Constant) else "X" for part in node.values
        )
    return None


def _is_prose(text: str) -> bool:
    return len(re.findall(r"[A-Za-z]{2,}", text)) > 3 and " " in text


def printed(sources: Path = SOURCES) -> Iterator[Sentence]:
    """Texts of the program that are no docstrings: what it prints, raises and explains."""
    for path in sorted(sources.rglob("*.py")):
        tree = ast.parse(path.read_text(encoding="utf-8"))
        inside, docstrings = set(), set()
        for node in ast.walk(tree):
            if isinstance(node, ast.JoinedStr):
                inside |= {id(part) for part in node.values}
            if isinstance(node, ast.Expr):
                docstrings.add(id(node.value))
        for node in ast.walk(tree):
            text = _joined(node)
            if text is None or id(node) in inside | docstrings or not _is_prose(text):
                continue
            yield Sentence(str(path.relative_to(sources.parents[1])), node.lineno, _line(text))  # type: ignore[attr-defined]


def docstrings(sources: Path = SOURCES) -> Iterator[Sentence]:
    """Docstrings of what is public, but for their examples."""
    for path in sorted(sources.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
                continue
            text = ast.get_docstring(node)
            if text is None or node.name.startswith("_"):
                continue
            prose = re.sub(r"(?m)^ *>>>.*(?:\n *\S.*)*", "", text)
            yield Sentence(str(path.relative_to(sources.parents[1])), node.lineno, _line(prose))


def pages(root: Path = ROOT) -> Iterator[Sentence]:
    """Paragraphs, items and table cells of the documents, but for code."""
    for path in (root / "README.md", *sorted((root / "docs").rglob("*.md"))):
        text = path.read_text(encoding="utf-8")
        code = re.compile(r"^---\n.*?^---$|^```.*?^```", re.DOTALL | re.MULTILINE)
        text = code.sub(lambda found: "\n" * found[0].count("\n"), text)
        for found in re.finditer(r"(?:^(?!\n).+\n?)+", text, re.MULTILINE):
            line = text.count("\n", 0, found.start()) + 1
            for part in re.split(r"\n(?=[-*|#]|\d+\.)|(?<= )\| ?", found[0]):
                if _is_prose(part):
                    yield Sentence(str(path.relative_to(root)), line, _line(part))


def _line(text: str) -> str:
    return " ".join(re.sub(r"^[-*#|> ]+", "", text.strip()).split())


def counted() -> dict[str, Counter[str]]:
    """How often each turn of phrase occurs, by where people read it."""
    found = {}
    for name, texts in (("printed", printed), ("docstrings", docstrings), ("pages", pages)):
        found[name] = Counter(dict.fromkeys(TURNS, 0))
        for sentence in texts():
            found[name].update(sentence.turns)
    return found


def lengths() -> dict[str, float]:
    """Words in a sentence of the pages, in the mean."""
    found: dict[str, list[int]] = {}
    for text in pages():
        for one in re.split(r"(?<=[.?!])\s+", text.text):
            if one.endswith((".", "?", "!")):
                found.setdefault(text.place, []).append(len(one.split()))
    return {place: sum(words) / len(words) for place, words in found.items()}


def _write(line: str) -> None:
    sys.stdout.write(f"{line}\n")


def main(asked: list[str]) -> None:
    """Print counts, or the sentences of a room that has some."""
    if not asked:
        for name, turns in counted().items():
            _write(f"{name:<11} {', '.join(f'{turn}: {many}' for turn, many in turns.items())}")
        words = lengths()
        _write(f"words in a sentence of the pages: {sum(words.values()) / len(words):.1f}")
        return
    every = "--all" in asked
    rooms = [one for one in asked if one != "--all"]
    for texts in (printed, pages, docstrings)[: 1 if every else 3]:
        for sentence in texts():
            named = [turn for turn, many in sentence.turns.items() if many]
            room = not rooms or any(f"/{one}" in f"/{sentence.place}" for one in rooms)
            if room and (every or named):
                mark = "" if every else f" [{', '.join(named)}]"
                _write(f"{sentence.place}:{sentence.line}{mark} {sentence.text}")


if __name__ == "__main__":
    main(sys.argv[1:])
