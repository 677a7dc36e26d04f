"""Every public name says what it is and shows it in an example."""

import ast
import inspect
import pkgutil
import re
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

import counton

REFERENCE = Path(__file__).parents[2] / "docs" / "reference" / "index.md"


def public_packages() -> list[str]:
    """Every package that says what it exports."""
    inner = pkgutil.walk_packages(counton.__path__, "counton.")
    names = ["counton", *(module.name for module in inner if module.ispkg)]
    return [name for name in names if hasattr(import_module(name), "__all__")]


def public_objects() -> Iterator[tuple[str, Any]]:
    for package in public_packages():
        module = import_module(package)
        for name in module.__all__:
            thing = getattr(module, name)
            if inspect.isclass(thing) or inspect.isfunction(thing):
                yield f"{package}.{name}", thing


def examples_in(thing: Any) -> bool:
    """Whether the docstring, or for a class that of one of its members, holds an example."""
    texts = [inspect.getdoc(thing)]
    if inspect.isclass(thing):
        values = list(vars(thing).values())  # to look at a model builds it
        members = (m for m in values if inspect.isroutine(m) or hasattr(m, "__get__"))
        texts += [inspect.getdoc(member) for member in members]
    return any(">>>" in (text or "") for text in texts)


def needs_no_example(thing: Any) -> bool:
    """Exceptions and warnings, and classes which cannot be instantiated."""
    return inspect.isclass(thing) and (
        issubclass(thing, BaseException)
        or inspect.isabstract(thing)
        or getattr(thing, "_is_protocol", False)
    )


def test_public_names_are_described_with_an_example() -> None:
    assert {"counton", "counton.continual", "counton.tables"} <= {*public_packages()}
    silent = []
    plain = []
    for address, thing in public_objects():
        if not (vars(thing).get("__doc__") if inspect.isclass(thing) else thing.__doc__):
            silent.append(address)
        elif not needs_no_example(thing) and not examples_in(thing):
            plain.append(address)
    assert (silent, plain) == ([], []), "without a docstring; without an example"


def undescribed(thing: Any) -> list[str]:
    """Arguments that a docstring describes and that a function does not take."""
    text = inspect.getdoc(thing) or ""
    section = re.search(r"^Args:\n((?:(?: .*)?\n)*)", text + "\n", re.MULTILINE)
    named = re.findall(r"^    ([\w*][\w*, ]*):", section[1], re.MULTILINE) if section else []
    taken = set(inspect.signature(thing).parameters)
    if inspect.isfunction(thing):  # whose signature lists options that it takes as ``**more``
        taken |= {name for name in thing.__code__.co_varnames if name == "more"}
    return [name for line in named for name in re.split(r", ?\**", line) if name not in taken]


def test_arguments_that_are_described_exist() -> None:
    wrong = []
    for address, thing in public_objects():
        things = [thing]
        if inspect.isclass(thing):
            things += [member for member in [*vars(thing).values()] if inspect.isfunction(member)]
        wrong += [
            (address, each, gone)
            for each in things
            if "Args:" in (each.__doc__ or "") and (gone := undescribed(each))
        ]
    assert wrong == []


def test_the_first_level_is_listed_completely() -> None:
    page = REFERENCE.read_text(encoding="utf-8")
    first = page.partition("## Names of the first level\n\n")[2].split("\n\n")[0]
    first = first.partition("has these names: ")[2]
    listed = re.findall(r"`(\w+)`", first)
    assert sorted(listed) == sorted(counton.__all__)


def test_dotted_names_on_pages_can_be_imported() -> None:
    """A dotted name of a page is imported as it stands."""
    root = REFERENCE.parents[2]
    missing = []
    for page in (root / "README.md", root / "CHANGELOG.md", *(root / "docs").rglob("*.md")):
        text = re.sub(r"(?s)\n### (?:Renamed|Removed)\n.*?(?=\n###? )", "", page.read_text("utf-8"))
        for name in re.findall(r"`(counton(?:\.[A-Za-z_]\w*)+)", text):
            try:
                pkgutil.resolve_name(name)
            except (ImportError, AttributeError):
                missing.append((page.name, name))
    assert missing == []


def test_exported_names_are_visible_to_type_checkers() -> None:
    """They read ``import X as X``, or a list that is written out, and compute no list."""
    hidden = []
    for package in public_packages():
        module = import_module(package)
        tree = ast.parse(Path(str(module.__file__)).read_text("utf-8"))
        if not any(ast.unparse(node).startswith("__all__ = [") for node in tree.body):
            nodes = [node for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)]
            names = [one for node in nodes for one in node.names]
            bare = {one.name for one in names} - {one.asname for one in names}
            hidden += [f"{package}.{name}" for name in bare & {*module.__all__}]
    assert not hidden
