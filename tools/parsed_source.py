"""The source of counton as trees, parsed once for all of a process that look through it."""

import ast
from functools import cache


@cache
def parsed(text: str) -> ast.Module:
    """Return the tree of a file's text, which nobody changes."""
    return ast.parse(text)
