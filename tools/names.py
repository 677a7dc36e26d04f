"""Names that are one bare participle, and class names that occur twice.

A function, a method or a type is called by what it does or by what it is. ``told`` or ``found``
says neither. A property that is true or false may be an adjective (``closed``, ``signed``), and so
may the name of a module.
"""

from __future__ import annotations

import ast
import re
import sys
from collections import defaultdict
from functools import cache
from pathlib import Path
from typing import NamedTuple

from tools.parsed_source import parsed

SOURCES = Path(__file__).resolve().parents[1] / "src" / "counton"

#: Participles without -ed.
_IRREGULAR = re.compile(
    r"""begun | bent | bought | bound | broken | brought | built | chosen | dealt | done | drawn
    | driven | felt | forgotten | found | frozen | given | gone | grown | heard | held | hidden
    | kept | known | left | lent | lost | made | meant | met | paid | proven | said | seen | sent
    | shown | sold | spent | spoken | stood | stolen | sworn | taken | taught | thought | told
    | torn | understood | won | worn | woven | written""",
    re.VERBOSE,
)
#: Words in -ed that are none.
_NOUNS = frozenset(("bed", "exceed", "feed", "need", "proceed", "red", "seed", "speed", "succeed"))

#: Participles that stay, each with the reason.
KEPT = {
    "Grouped": "the statistic has this name in states and in addresses of noise",
    **dict.fromkeys(
        ("Declared", "Added", "Bounded"),
        "a kind of the part that says which cells there are, or how rows count",
    ),
}


_Definition = ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef


class Name(NamedTuple):
    """A name in the sources, and its position.

    Attributes:
        place: path of the file in ``src/counton``.
        line: line of the definition.
        name: the name as it is written there.
    """

    place: str
    line: int
    name: str

    @property
    def room(self) -> str:
        """The top folder of the file in ``src/counton``, or the file itself if it is in no
        folder.
        """
        return self.place.partition("/")[0]


def is_participle(name: str) -> bool:
    """Return whether a name is one participle and nothing else.

    >>> [is_participle(name) for name in ("told", "_rounded", "rounded_down", "need", "release")]
    [True, True, False, False, False]
    """
    word = name.strip("_")
    if "_" in word or re.search("[A-Z]", word[1:]):
        return False
    word = word.lower()
    return bool(_IRREGULAR.fullmatch(word)) or (word.endswith("ed") and word not in _NOUNS)


@cache
def _definitions(sources: Path) -> list[tuple[str, _Definition]]:
    """Return all definitions of classes and functions, each with its file."""
    found = []
    for path in sorted(sources.rglob("*.py")):
        place = str(path.relative_to(sources))
        nodes = ast.walk(parsed(path.read_text(encoding="utf-8")))
        found += [(place, node) for node in nodes if isinstance(node, _Definition)]
    return found


def _is_adjective(node: ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
    """Return whether a method is a property that is true or false, so that its name may be an
    adjective.
    """
    is_property = any("property" in ast.unparse(one) for one in node.decorator_list)
    return is_property and node.returns is not None and ast.unparse(node.returns) == "bool"


def participles(sources: Path = SOURCES) -> list[Name]:
    """Return the functions, methods and types whose name is a bare participle, without those in
    `KEPT`.
    """
    found = []
    for place, node in _definitions(sources):
        if isinstance(node, ast.ClassDef):
            named = is_participle(node.name) and node.name not in KEPT
        else:
            named = is_participle(node.name) and not _is_adjective(node)
        if named:
            found.append(Name(place, node.lineno, node.name))
    return found


def twice(sources: Path = SOURCES) -> dict[str, list[str]]:
    """Return the class names that occur more than once, with the files in which they occur."""
    places = defaultdict(list)
    for place, node in _definitions(sources):
        if isinstance(node, ast.ClassDef):
            places[node.name].append(place)
    return {name: found for name, found in places.items() if len(found) > 1}


def main() -> None:
    """Print the names that are bare participles, and the class names that occur twice."""
    for one in participles():
        sys.stdout.write(f"{one.place}:{one.line}: {one.name}\n")
    for name, files in twice().items():
        sys.stdout.write(f"{name}: {', '.join(files)}\n")


if __name__ == "__main__":
    main()
