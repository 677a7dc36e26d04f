"""Released numbers for everybody: tables, charts, words and files, from published values only."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from counton.base.lazy import attach, require_installed

if TYPE_CHECKING:
    from counton.results.display import DisplaySelection as DisplaySelection
    from counton.results.metadata import ReleaseMetadata as ReleaseMetadata
    from counton.results.release import Release as Release

_load, __dir__, __all__ = attach(__name__, __file__)


def __getattr__(name: str) -> object:
    if name in __all__:
        require_installed("polars")
    return _load(name)
