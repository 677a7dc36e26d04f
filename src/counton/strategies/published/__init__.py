"""Strategies from papers, for comparison; plans also choose some for units in few steps."""

from __future__ import annotations

from typing import TYPE_CHECKING

from counton.base.lazy import attach

if TYPE_CHECKING:
    from counton.strategies.published.matrices import group_algebra_matrix as group_algebra_matrix
    from counton.strategies.published.matrices import indexed_tree_matrix as indexed_tree_matrix

__getattr__, __dir__, __all__ = attach(__name__, __file__)
