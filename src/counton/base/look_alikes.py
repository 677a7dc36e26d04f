"""Names that look equal but are not: they are shown with their code points."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable

from counton.base.exact import short_repr

#: Letters of other alphabets that look like Latin ones, and these.
_LETTERS = str.maketrans(
    "\u0430\u0441\u0435\u0456\u0458\u043e\u0440\u0455\u0445\u0443"  # Cyrillic, small
    "\u0410\u0412\u0421\u0415\u041d\u0406\u0408\u041a\u041c\u041e\u0420\u0405\u0422\u0425\u0423"
    "\u03bf\u0391\u0392\u0395\u0397\u0399\u039a\u039c\u039d\u039f\u03a1\u03a4\u03a7\u03a5\u0396"
    "\u2010\u2011\u2012\u2013\u2014\u2212\u2018\u2019\u02bc\u201c\u201d",
    "aceijopsxyABCEHIJKMOPSTXYoABEHIKMNOPTXYZ------'''\"\"",
)
_SPACE_PATTERN = re.compile(r"\s+")
#: Most names that are compared with one name.
_MOST_COMPARED_NAMES = 100_000


def skeleton(name: str) -> str:
    """Return a text that is equal for names that look equal.

    >>> skeleton("Zu\\u0308rich ") == skeleton("Z\\xfcrich"), skeleton("\\u0430b\\u200b")
    (True, 'ab')
    """
    plain = unicodedata.normalize("NFKC", name)
    seen = "".join(sign for sign in plain if unicodedata.category(sign) not in ("Cf", "Cc"))
    return _SPACE_PATTERN.sub(" ", seen).strip().translate(_LETTERS)


def with_code_points(name: str) -> str:
    """Return a name as messages show it, with the code points of its unusual characters.

    >>> with_code_points("Z\\xfcrich"), with_code_points("Zurich ")
    ("'Zürich' (U+00FC)", "'Zurich ' (U+0020 at the end)")
    """
    points = [f"U+{ord(sign):04X}" for sign in name if not sign.isascii() or not sign.isprintable()]
    ends = [
        f"U+0020 at the {end}"
        for end, letter in (("beginning", name[:1]), ("end", name[-1:]))
        if letter == " "
    ]
    listed = ", ".join([*points[:8], *ends])
    return f"{short_repr(name)} ({listed or 'ASCII letters alone'})"


def look_alike(name: str, names: Iterable[str]) -> str | None:
    """Return the first of the names that looks like another name, or None.

    Args:
        name: the name that is not among them.
        names: the names to compare; only the first 100,000 are.
    """
    name_skeleton = skeleton(name)
    for index, other in enumerate(names):
        if index == _MOST_COMPARED_NAMES:
            return None
        if other != name and skeleton(other) == name_skeleton:
            return other
    return None


def shown_beside(name: str, names: Iterable[str]) -> str:
    """Return a name for a message, with what it looks like.

    >>> shown_beside("home", ["shop"]), shown_beside("shop ", ["shop"])  # doctest: +ELLIPSIS
    ("'home'", "'shop ' (U+0020 at the end), which looks like the listed 'shop' ...")
    """
    other = look_alike(name, names)
    if other is None:
        return short_repr(name)
    return f"{with_code_points(name)}, which looks like the listed {with_code_points(other)}"
