"""The code asks jobs only for options that a job has."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

import counton
from counton.job import report, statistics
from counton.job.common_options import Job

SOURCE = Path(counton.__file__).parent
#: Methods of a job whose first argument is the name of an option.
ASKING = ("has_stated", "value_of")


#: Importing these makes all models of jobs known.
MODULES_OF_MODELS = (report, statistics)


def models(model: type[Job]) -> Iterator[type[Job]]:
    yield model
    for derived in model.__subclasses__():
        yield from models(derived)


def names_asked_for(text: str) -> set[str]:
    """Return the texts that calls of `ASKING`, and loops around them, name."""
    names = set()
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            if node.func.attr in ASKING and node.args and isinstance(node.args[0], ast.Constant):
                names.add(str(node.args[0].value))
        elif isinstance(node, ast.For) and isinstance(node.iter, ast.Tuple):
            body = "\n".join(ast.unparse(statement) for statement in node.body)
            if isinstance(node.target, ast.Name) and any(
                f".{method}({node.target.id})" in body for method in ASKING
            ):
                names |= {
                    str(item.value) for item in node.iter.elts if isinstance(item, ast.Constant)
                }
    return names


@pytest.mark.parametrize("package", ["job", "run", "cli", "serve", "spark"])
def test_code_asks_for_existing_options(package: str) -> None:
    known = {name for model in models(Job) for name in model.model_fields}
    known |= set(report.member_model("count").model_fields)
    asked = {
        name
        for path in (SOURCE / package).rglob("*.py")
        for name in names_asked_for(path.read_text(encoding="utf-8"))
    }
    assert asked <= known
    assert asked or package in ("serve", "spark")
