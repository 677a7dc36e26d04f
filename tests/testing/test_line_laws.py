"""Every law over every strategy for lines; a new strategy is found without a line here."""

import importlib
import inspect
import itertools
import pkgutil
from collections.abc import Iterator

import pytest
from in_turn import in_turn
from own_laws.lines import check_line_strategy

import counton.strategies.lines as in_blocks
import counton.tables as package
from counton.strategies import Norm
from counton.strategies.lines.line_strategy import LATTICE_BITS
from counton.tables import AllRanges, LineStrategy, public_line_strategies
from counton.tables.line_catalogue import NAMES, build
from counton.tables.saved_lines import SAVED_NAMES

SIZES = (1, 2, 3, 4, 5, 8, 11, 16, 27, 33)


@pytest.mark.parametrize("cells", SIZES)
@pytest.mark.parametrize("cls", public_line_strategies(), ids=lambda cls: cls.__name__)
def test_line_strategies_pass_checks(cls: type[LineStrategy], cells: int) -> None:
    for strategy in cls.examples(cells):
        check_line_strategy(strategy)


@pytest.mark.parametrize(
    ("cells", "norm", "name"), in_turn(itertools.product(SIZES, (1, 2), NAMES), 2)
)
def test_line_strategies_built_by_name_pass_checks(name: str, norm: Norm, cells: int) -> None:
    check_line_strategy(build(name, AllRanges(cells), norm, LATTICE_BITS))


def defined_in_the_package() -> Iterator[type[LineStrategy]]:
    for module in (
        *pkgutil.iter_modules(package.__path__, f"{package.__name__}."),
        *pkgutil.iter_modules(in_blocks.__path__, f"{in_blocks.__name__}."),
    ):
        for _, thing in inspect.getmembers(importlib.import_module(module.name), inspect.isclass):
            if issubclass(thing, LineStrategy) and not inspect.isabstract(thing):
                yield thing


def test_public_line_strategies_are_complete() -> None:
    assert set(public_line_strategies()) == set(defined_in_the_package())
    assert {cls.saved_name for cls in public_line_strategies()} == set(SAVED_NAMES)
    for cls in public_line_strategies():
        assert {type(strategy) for strategy in cls.examples(5)} == {cls}
