"""Nobody asks which kind of cut, cells or counting a stream has: the parts answer."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

import counton
from tools.parsed_source import parsed

HOME = Path(counton.__file__).parent
#: Names of modes that were asked for in 305 places.
MODES = ("once", "discovery", "people", "ordered", "each_row")
#: Classes whose kind is asked for by nobody but the files that make one.
KINDS = ("Once", "PlainSteps", "Declared", "Discovery", "Added", "Bounded")


def asked(text: str) -> Iterator[str]:
    """Modes of streams that a file reads, and kinds of parts for which it looks."""
    for node in ast.walk(parsed(text)):
        if isinstance(node, ast.Attribute) and node.attr in MODES:
            owner = node.value
            name = owner.attr if isinstance(owner, ast.Attribute) else getattr(owner, "id", "")
            if name.endswith(("definition", "description", "before", "settled")):
                yield f"{name}.{node.attr}"
        elif isinstance(node, ast.Compare) and isinstance(node.left, ast.Attribute):
            named = ast.unparse(node.left)
            parts = (
                "definition.cut", "definition.cells", "definition.counting", "description.cells",
            )  # fmt: skip
            if named.endswith(parts):
                yield ast.unparse(node)
        elif isinstance(node, ast.Call) and getattr(node.func, "id", "") == "isinstance":
            kinds = {one.id for one in ast.walk(node.args[1]) if isinstance(one, ast.Name)}
            yield from (f"isinstance of {kind}" for kind in sorted(kinds & {*KINDS}))


@pytest.mark.xdist_group("source")
def test_nobody_asks_which_kind_a_part_is() -> None:
    found = {
        (file.relative_to(HOME).as_posix(), what)
        for file in HOME.rglob("*.py")
        for what in asked(file.read_text(encoding="utf-8"))
    }
    assert found == set()


@pytest.mark.parametrize(
    "wrong",
    [
        "if outcome.definition.once: pass", "rows = definition.people",
        "if definition.cut is None: pass", "if description.cells == DECLARED: pass",
        "isinstance(definition.cut, Windows | PlainSteps)", "assert isinstance(cells, Discovery)",
    ],
)  # fmt: skip
def test_a_question_is_found(wrong: str) -> None:
    assert list(asked(wrong))
