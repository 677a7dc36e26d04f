"""For mkdocstrings: what `counton.base.lazy.attach` makes public is public on pages too."""

from __future__ import annotations

import ast
from typing import Any

from griffe import Extension, Module

from counton.base.lazy import homes_of


class PublicNames(Extension):
    """Exports of packages whose ``__all__`` is computed."""

    def on_module_members(self, *, node: Any, mod: Module, **_: Any) -> None:
        """Say which they are: names that are attached, and those that are added to them."""
        if (
            mod.is_init_module
            and isinstance(node, ast.Module)
            and (found := [*homes_of(ast.unparse(node))])
        ):
            own = [
                one.value
                for one in node.body
                if isinstance(one, ast.AugAssign) and ast.unparse(one.target) == "__all__"
            ]
            mod.exports = [*found, *(name for names in own for name in ast.literal_eval(names))]
