"""A plug-in of pytest which tests the statistics and strategies of another package, one test for
each class.

``pytest -p counton.laws.pytest_plugin --statistic counton_above:Above``
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

import pytest

from counton.laws import LawBroken, check


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the options ``--statistic`` and ``--strategy``, which name the classes to check."""
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
    """Add one test for each class that the options ``--statistic`` and ``--strategy`` name."""
    for option in ("--statistic", "--strategy"):
        for named in config.getoption(option):
            items.append(Laws.from_parent(session, name=f"laws of {named}", named=named))


class Laws(pytest.Item):
    """The test that a statistic or strategy class has all properties (laws) that its kind must
    have.
    """

    def __init__(self, *, named: str, **more: Any) -> None:
        super().__init__(**more)
        self.named = named

    def runtest(self) -> None:
        """Check that all examples of the class have the properties (laws) that they must have;
        `LawBroken` fails the test.
        """
        module, colon, name = self.named.partition(":")
        if not colon:
            raise pytest.UsageError(f"{self.named!r} does not name a class: write MODULE:CLASS")
        check(getattr(import_module(module), name))

    def repr_failure(self, excinfo: Any, style: Any = None) -> Any:
        """Return the message that pytest prints for a failed check: that of the broken law, without
        a traceback.
        """
        if isinstance(excinfo.value, LawBroken):
            return f"LawBroken: {excinfo.value}"
        return super().repr_failure(excinfo, style)

    def reportinfo(self) -> tuple[Any, int | None, str]:
        """Return three values under which pytest reports the test: its path, None instead of a line
        number, and its name.
        """
        return self.path, None, self.name
