"""For mkdocstrings: examples in docstrings are code, not quotations of quotations."""

from __future__ import annotations

import re
from typing import Any

from griffe import Extension, Object

#: A prompt and all that follows it without an empty line: what doctest reads as one example.
_EXAMPLES = re.compile(r"(?:^>>> .*(?:\n(?!\s*$).*)*(?:\n\n(?=>>> ))?)+", re.MULTILINE)


def fenced(text: str) -> str:
    """A docstring whose examples stand in fences.

    >>> print(fenced("Adds.\\n\\n>>> 1 + 1\\n2\\n\\nRaises:\\n    ..."))
    Adds.
    <BLANKLINE>
    ```pycon
    >>> 1 + 1
    2
    ```
    <BLANKLINE>
    Raises:
        ...
    """
    return _EXAMPLES.sub(lambda found: f"```pycon\n{found[0].rstrip()}\n```", text)


class DoctestBlocks(Extension):
    """Every docstring that griffe reads."""

    def on_object(self, *, obj: Object, **_: Any) -> None:
        """Put its examples into fences."""
        if obj.docstring:
            obj.docstring.value = fenced(obj.docstring.value)
