"""Check names and sentences by the rules of CONTRIBUTING, in `make lint`.

`python -m tools.prose` lists what breaks a rule, a line for each place, and fails if there is one.
`python -m tools.prose --report` also counts long sentences for each page; these are no errors.
"""

from __future__ import annotations

import argparse
import ast
import builtins
import io
import re
import sys
import tokenize
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[1]
#: Folders whose Python files may define a name that a comment mentions.
CODE_FOLDERS = ("src", "papers", "benchmarks", "tools", "examples", "recipes", "proofs", "tests")
#: Words that readers did not understand, or that have several meanings, and what to write instead.
FORBIDDEN_WORDS = {
    r"anew": "again",
    r"at one go": "in one step",
    r"hangs? on": "depends on",
    r"have it that": "state that",
    r"how far off": "the standard deviation, or the margin of error",
    r"off by": "the standard deviation, or the margin of error",
    r"witness(?:es)?": "rollback guard",
    r"shut": "closed",
    r"gone": "deleted, or missing",
    r"doors?": "the interface that you mean",
    r"every night": "every day, or on a schedule",
}
#: Names that do not say what the value is.
VAGUE_NAMES = frozenset({"found", "given", "told", "said", "one", "known", "it", "this", "has"})
LONG_SENTENCE_WORDS = 25


class Finding(NamedTuple):
    """A place that breaks a rule.

    Attributes:
        file: The path, relative to the repository.
        line: The number of the line, from 1.
        message: What is wrong, and what to write instead.
    """

    file: str
    line: int
    message: str


def pages() -> list[Path]:
    """Return the files of prose that users read."""
    top = [ROOT / f"{name}.md" for name in ("README", "CONTRIBUTING", "SECURITY")]
    return [*top, *sorted((ROOT / "docs").rglob("*.md"))]


def prose_of(page: str) -> str:
    """Return a page whose code is replaced by blanks, so that lines keep their numbers.

    Args:
        page: The text of a Markdown file.

    Returns:
        The text without fenced blocks and without code in backticks.

    >>> prose_of("Use `--user`.\\n```sh\\nls\\n```\\nEnd")
    'Use .\\n\\n\\n\\nEnd'
    """
    without_blocks = re.sub(
        r"^ *```.*?^ *```", lambda block: "\n" * block[0].count("\n"), page, flags=re.M | re.S
    )
    return re.sub(r"`[^`\n]*`", "", without_blocks)


def forbidden_words(text: str) -> Iterator[tuple[int, str]]:
    """Yield the line and the message of each forbidden word in a text of prose."""
    for words, instead in FORBIDDEN_WORDS.items():
        for match in re.finditer(rf"\b{words}\b", text, re.IGNORECASE):
            line = text.count("\n", 0, match.start()) + 1
            yield line, f"'{match[0]}': write '{instead}'"


def bound_names(tree: ast.Module) -> Iterator[tuple[int, str]]:
    """Yield the line and the name of each function, parameter, attribute and variable."""
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            yield node.lineno, node.name
        elif isinstance(node, ast.arg):
            yield node.lineno, node.arg
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            yield node.lineno, node.id


def vague_names(source: str) -> Iterator[tuple[int, str]]:
    """Yield the line and the message of each name that does not say what the value is."""
    for line, name in bound_names(ast.parse(source)):
        if name.strip("_") in VAGUE_NAMES:
            yield line, f"the name '{name}' does not say what the value is"


def mentioned_names(source: str) -> Iterator[tuple[int, str]]:
    """Yield the line and the name of each class that a comment or a docstring has in backticks."""
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        is_docstring = token.type == tokenize.STRING and token.string.startswith(('"""', 'r"""'))
        if token.type != tokenize.COMMENT and not is_docstring:
            continue
        for match in re.finditer(r"`([A-Z][A-Za-z0-9]*[a-z][A-Za-z0-9]*)(?:\(\))?`", token.string):
            yield token.start[0] + token.string.count("\n", 0, match.start()), match[1]


def defined_names() -> set[str]:
    """Return every name that occurs in the code of the repository, and the names of Python."""
    names = set(dir(builtins))
    for folder in CODE_FOLDERS:
        for path in (ROOT / folder).rglob("*.py"):
            for token in tokenize.generate_tokens(io.StringIO(path.read_text("utf-8")).readline):
                if token.type == tokenize.NAME:
                    names.add(token.string)
    return names


def long_sentences(text: str) -> int:
    """Return how many sentences of a text of prose have more words than a reader can hold."""
    sentences = re.split(r"(?<=[.!?])\s+|\n\s*\n|\n\s*[-*|#]", text)
    return sum(len(sentence.split()) > LONG_SENTENCE_WORDS for sentence in sentences)


def findings() -> Iterator[Finding]:
    """Yield every place of the repository that breaks a rule."""
    for page in pages():
        name = str(page.relative_to(ROOT))
        for line, message in forbidden_words(prose_of(page.read_text("utf-8"))):
            yield Finding(name, line, message)
    defined = defined_names()
    for path in sorted((ROOT / "src").rglob("*.py")):
        name = str(path.relative_to(ROOT))
        source = path.read_text("utf-8")
        for line, message in vague_names(source):
            yield Finding(name, line, message)
        for line, mentioned in mentioned_names(source):
            if mentioned not in defined:
                yield Finding(name, line, f"`{mentioned}` is no name of the code")


def main() -> int:
    """Print all findings.

    Returns:
        The exit status: 1 if there is a finding.
    """
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--report", action="store_true", help="count long sentences for each page")
    arguments = parser.parse_args()
    if arguments.report:
        for page in pages():
            count = long_sentences(prose_of(page.read_text("utf-8")))
            print(  # noqa: T201
                f"{count:5} sentences above {LONG_SENTENCE_WORDS} words  {page.relative_to(ROOT)}"
            )
    all_findings = list(findings())
    for finding in all_findings:
        print(f"{finding.file}:{finding.line}: {finding.message}")  # noqa: T201
    return 1 if all_findings else 0


if __name__ == "__main__":
    sys.exit(main())
