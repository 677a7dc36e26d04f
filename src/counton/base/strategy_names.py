"""Names of strategies for streams: what users type, and what plans call them.

Each stands here once. The planner says how strategies of a kind are found and when they are
weighed; a job may name a kind instead of leaving the choice to the plan.
"""

from __future__ import annotations

from typing import NamedTuple


class KindOfStrategy(NamedTuple):
    """A kind of strategies that plans rank.

    Attributes:
        name: what users type; several kinds of one class share it.
        words: what plans call it.
        windows: it releases each step's own number, not totals.
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

#: What users type who want the best of those that a refereed paper describes.
PUBLISHED = "published"
#: Kinds by what users type for a mechanism exactly as its paper has it, parameters and all.
PAPERS = {
    "binary-paper": BINARY,
    "honaker-paper": HONAKER,
    "kary-paper": SUBTRACTING,
    "smooth-paper": EVEN_SMOOTH,
    "sqrt-paper": SQUARE_ROOT,
}
#: Every kind, by what users type.
KINDS: dict[str, tuple[KindOfStrategy, ...]] = {}
for _kind in [one for one in globals().values() if isinstance(one, KindOfStrategy)]:
    KINDS[_kind.name] = (*KINDS.get(_kind.name, ()), _kind)
