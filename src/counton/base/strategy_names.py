"""Names of strategies for streams, in options and in plans.

`counton.planning` decides how strategies of a family are built and when they are considered. A job
that names a family is not planned.
"""

from __future__ import annotations

from typing import NamedTuple


class StrategyFamily(NamedTuple):
    """A family of strategies that plans compare.

    Attributes:
        name: name in options, shared by families of one class.
        words: name in plans.
        windows: whether it releases each step's own number, not totals.
    """

    name: str
    words: str
    windows: bool = False


LEAST_SQUARES = StrategyFamily("least-squares", "least-squares")
LOOK_AHEAD = StrategyFamily("look-ahead", "look-ahead tree")
MULTISCALE = StrategyFamily("multiscale", "multiscale")
WHOLE_MULTISCALE = StrategyFamily("multiscale", "multiscale, whole numbers")
SUBTRACTING = StrategyFamily("kary", "k-ary with subtraction")
KARY = StrategyFamily("kary", "k-ary")
EACH_STEP = StrategyFamily("kary", "noise for each step")
SMOOTH = StrategyFamily("smooth", "smooth binary")
EVEN_SMOOTH = StrategyFamily("smooth", "smooth binary, even height")
HONAKER = StrategyFamily("honaker", "Honaker online")
BINARY = StrategyFamily("binary", "binary")
SQUARE_ROOT = StrategyFamily("sqrt", "square root")
NORMALISED = StrategyFamily("normalised-sqrt", "normalised square root")
GROWING_ROOT = StrategyFamily("growing-sqrt", "growing square root")
BANDED_ROOT = StrategyFamily("banded-root", "banded root")
RECENT_HATS = StrategyFamily("recent-hats", "steps and hats")
EPOCHS = StrategyFamily("epochs", "epochs")
INDEPENDENT = StrategyFamily("independent", "one draw a step", windows=True)
CASCADE = StrategyFamily("cascade", "growing cascade", windows=True)

#: Name in options for the best strategy that a refereed paper describes.
PUBLISHED = "published"
#: Families by the names in options of mechanisms exactly as in their papers, parameters included.
PAPERS = {
    "binary-paper": BINARY,
    "honaker-paper": HONAKER,
    "kary-paper": SUBTRACTING,
    "smooth-paper": EVEN_SMOOTH,
    "sqrt-paper": SQUARE_ROOT,
}
#: Families for sums over recent steps, by their names; only plans of such sums consider them.
RECENT_FAMILIES = {family.name: (family,) for family in (BANDED_ROOT, RECENT_HATS)}
#: All other families, by their names in options.
FAMILIES: dict[str, tuple[StrategyFamily, ...]] = {}
for _family in [member for member in globals().values() if isinstance(member, StrategyFamily)]:
    if _family.name not in RECENT_FAMILIES:
        FAMILIES[_family.name] = (*FAMILIES.get(_family.name, ()), _family)
