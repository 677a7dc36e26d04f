"""Names of strategies for streams, in options and in plans.

`counton.planning` decides how strategies of a kind are built and when they are considered. A job
that names a kind is not planned.
"""

from __future__ import annotations

from typing import NamedTuple


class KindOfStrategy(NamedTuple):
    """A kind of strategy that plans compare.

    Attributes:
        name: name in options, shared by kinds of one class.
        words: name in plans.
        windows: whether it releases each step's own number, not totals.
    """

    name: str
    words: str
    windows: bool = False


SOLVED = KindOfStrategy("solved", "solved")
LOOK_AHEAD = KindOfStrategy("look-ahead", "look-ahead tree")
OCTAVE = KindOfStrategy("octave", "octave")
WHOLE_OCTAVE = KindOfStrategy("octave", "octave, whole numbers")
SUBTRACTING = KindOfStrategy("kary", "k-ary with subtraction")
KARY = KindOfStrategy("kary", "k-ary")
EACH_STEP = KindOfStrategy("kary", "noise for each step")
SMOOTH = KindOfStrategy("smooth", "smooth binary")
EVEN_SMOOTH = KindOfStrategy("smooth", "smooth binary, even height")
HONAKER = KindOfStrategy("honaker", "Honaker online")
BINARY = KindOfStrategy("binary", "binary")
SQUARE_ROOT = KindOfStrategy("sqrt", "square root")
NORMALISED = KindOfStrategy("normalised-sqrt", "normalised square root")
GROWING_ROOT = KindOfStrategy("growing-sqrt", "growing square root")
EPOCHS = KindOfStrategy("epochs", "epochs")
INDEPENDENT = KindOfStrategy("independent", "one draw a step", windows=True)
CASCADE = KindOfStrategy("cascade", "growing cascade", windows=True)

#: Name in options for the best strategy that a refereed paper describes.
PUBLISHED = "published"
#: Kinds by the names in options of mechanisms exactly as in their papers, parameters included.
PAPERS = {
    "binary-paper": BINARY,
    "honaker-paper": HONAKER,
    "kary-paper": SUBTRACTING,
    "smooth-paper": EVEN_SMOOTH,
    "sqrt-paper": SQUARE_ROOT,
}
#: All kinds, by their names in options.
KINDS: dict[str, tuple[KindOfStrategy, ...]] = {}
for _kind in [one for one in globals().values() if isinstance(one, KindOfStrategy)]:
    KINDS[_kind.name] = (*KINDS.get(_kind.name, ()), _kind)
