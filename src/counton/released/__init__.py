"""Released numbers for everybody: tables, charts, words and files, from published values only."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from counton.base.lazy import attach, require_installed

if TYPE_CHECKING:
    from counton.released.description import Description as Description
    from counton.released.read_options import View as View
    from counton.released.release import Release as Release

_load, __dir__, __all__ = attach(__name__, __file__)


def __getattr__(name: str) -> Any:
    if name in __all__:
        require_installed("polars")
    return _load(name)
