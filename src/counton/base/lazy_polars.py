"""Polars for modules that a run with nothing new imports: polars itself is slow to import."""

from __future__ import annotations

import sys
from types import ModuleType
from typing import TYPE_CHECKING, Any

from counton.base.lazy import require


class _LazyPolars(ModuleType):
    """A module that is imported when something of it is first used."""

    def __getattr__(self, name: str) -> Any:
        if self.__name__ not in sys.modules:
            require(self.__name__)
        return getattr(sys.modules[self.__name__], name)


if TYPE_CHECKING:
    import polars as polars  # noqa: ICN001 - who imports it from here says `as pl`
else:
    polars = _LazyPolars("polars")
