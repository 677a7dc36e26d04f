"""The source of counton as trees, parsed once for all tests of a process that look through it."""

import ast
from functools import cache


@cache
def parsed(text: str) -> ast.Module:
    """The tree of a file's text, which nobody changes."""
    return ast.parse(text)
