"""A plug-in of pytest which tests another package's statistics and strategies, a test a class.

``pytest -p counton.laws.pytest_plugin --statistic counton_above:Above``
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

import pytest

from counton.laws import LawBroken, check


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the options ``--statistic`` and ``--strategy``."""
    group = parser.getgroup("counton", "laws of counton")
    for option, needs in (
        ("--statistic", "a class method examples() returns pairs of a statistic and its batches"),
        ("--strategy", "a class method examples(horizon) returns instances"),
    ):
        group.addoption(
            option, action="append", default=[], metavar="MODULE:CLASS",
            help=f"check all laws of a {option[2:]}; {needs}; may be repeated",
        )  # fmt: skip


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(
    session: pytest.Session, config: pytest.Config, items: list[pytest.Item]
) -> None:
    """Add one test for each class that the options name."""
    for option in ("--statistic", "--strategy"):
        for named in config.getoption(option):
            items.append(Laws.from_parent(session, name=f"laws of {named}", named=named))


class Laws(pytest.Item):
    """The test that a class keeps its laws."""

    def __init__(self, *, named: str, **more: Any) -> None:
        super().__init__(**more)
        self.named = named

    def runtest(self) -> None:
        """Check all examples of the class."""
        module, colon, name = self.named.partition(":")
        if not colon:
            raise pytest.UsageError(f"{self.named!r} does not name a class: write MODULE:CLASS")
        check(getattr(import_module(module), name))

    def repr_failure(self, excinfo: Any, style: Any = None) -> Any:
        """Return the message of the broken law, without a traceback."""
        if isinstance(excinfo.value, LawBroken):
            return f"LawBroken: {excinfo.value}"
        return super().repr_failure(excinfo, style)

    def reportinfo(self) -> tuple[Any, int | None, str]:
        """Return the path, no line, and the name."""
        return self.path, None, self.name
