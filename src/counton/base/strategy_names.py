"""Names of strategies for streams, in options and in plans.

`counton.planning` decides how strategies of a family are built and when they are considered. A job
that names a family is not planned.
"""

from __future__ import annotations

from typing import Literal, NamedTuple


class StrategyFamily(NamedTuple):
    """A family of strategies that plans compare.

    Attributes:
        name: name in options, shared by families of one class.
        words: name in plans.
        windows: whether it releases each step's own number, not totals.
        norms: 1 for Laplace, 2 for Gaussian noise, with which its errors can be computed.
        is_simple: whether its releases are integers.
        only_simple: whether another family is better when fractions may be released.
        is_endless: whether its streams have no last step.
        fewest_steps: the fewest steps of a stream.
    """

    name: str
    words: str
    windows: bool = False
    norms: tuple[Literal[1, 2], ...] = (1, 2)
    is_simple: bool = True
    only_simple: bool = False
    is_endless: bool = False
    fewest_steps: int = 1


#: Fewest steps of a multiscale strategy that publishes fractions.
_SHORTEST_MULTISCALE = 512
LEAST_SQUARES = StrategyFamily("least-squares", "least-squares", is_simple=False)
LOOK_AHEAD = StrategyFamily("look-ahead", "look-ahead tree", is_simple=False)
MULTISCALE = StrategyFamily(
    "multiscale",
    "multiscale",
    norms=(2,),
    is_simple=False,
    fewest_steps=_SHORTEST_MULTISCALE,
)
WHOLE_MULTISCALE = StrategyFamily(
    "multiscale", "multiscale, whole numbers", norms=(2,), only_simple=True
)
SUBTRACTING = StrategyFamily("kary", "k-ary with subtraction")
KARY = StrategyFamily("kary", "k-ary")
EACH_STEP = StrategyFamily("kary", "noise for each step")
SMOOTH = StrategyFamily("smooth", "smooth binary")
EVEN_SMOOTH = StrategyFamily("smooth", "smooth binary, even height")
HONAKER = StrategyFamily("honaker", "Honaker online", is_simple=False)
BINARY = StrategyFamily("binary", "binary")
SQUARE_ROOT = StrategyFamily("sqrt", "square root", is_simple=False)
NORMALISED = StrategyFamily(
    "normalised-sqrt", "normalised square root", norms=(2,), is_simple=False
)
GROWING_ROOT = StrategyFamily("growing-sqrt", "growing square root", norms=(2,), is_endless=True)
GROWING_BLOCKS = StrategyFamily(
    "growing-blocks", "growing square root over blocks", norms=(2,), is_endless=True
)
BANDED_ROOT = StrategyFamily("banded-root", "banded root")
RECENT_HATS = StrategyFamily("recent-hats", "steps and hats")
EPOCHS = StrategyFamily("epochs", "epochs", is_endless=True)
INDEPENDENT = StrategyFamily("independent", "one draw a step", windows=True)
CASCADE = StrategyFamily("cascade", "growing cascade", windows=True, is_simple=False)

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
