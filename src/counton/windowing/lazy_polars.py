"""Polars, imported on first use: it is slow to import, and a run without new rows needs none."""

from __future__ import annotations

import sys
from types import ModuleType
from typing import TYPE_CHECKING

from counton.base.lazy import require


class _LazyPolars(ModuleType):
    """A module that is imported when one of its attributes is first read."""

    def __getattr__(self, name: str) -> object:
        if self.__name__ not in sys.modules:
            require(self.__name__)
        return getattr(sys.modules[self.__name__], name)


if TYPE_CHECKING:
    import polars as polars  # noqa: ICN001 - who imports it from here says `as pl`
else:
    polars = _LazyPolars("polars")
