"""Names of strategies for readers, as plans and publications show them."""

from __future__ import annotations

import re

from counton.base import strategy_names as names
from counton.strategies import AsOf, StreamStrategy, WindowVersions


def strategy_in_words(strategy: StreamStrategy, noun: str = "step") -> str:
    """Return the name of a strategy as plans show it; ``noun`` is the word for a step.

    >>> from counton.strategies import Binary, KAry
    >>> strategy_in_words(Binary(1000)), strategy_in_words(KAry(365, 20))
    ('binary', 'k-ary with subtraction')
    """
    if isinstance(strategy, AsOf):
        strategy = strategy.windows
    stated, name = strategy.parameters, strategy.saved_name
    if isinstance(strategy, WindowVersions):
        return f"versions of each {noun}, {strategy_in_words(strategy.inner, noun)}"
    if name == "KAry" and stated["arity"] > stated["horizon"]:
        kind = names.EACH_STEP
    elif name == "KAry":
        kind = names.SUBTRACTING if stated["subtraction"] else names.KARY
    elif name == "Octave":
        kind = names.WHOLE_OCTAVE if stated["whole"] else names.OCTAVE
    elif name == "SmoothBinary":
        kind = names.EVEN_SMOOTH if stated["height"] == 2 * stated["zeros"] else names.SMOOTH
    elif name in _NAMES:
        kind = _NAMES[name]
    else:
        return re.sub(r"(?<=[a-z])(?=[A-Z])", " ", name).lower()
    return kind.words.replace("step", noun)


#: Names of strategies for readers, by their names in states.
_NAMES = {
    "GrowingCascade": names.CASCADE,
    "GrowingSquareRoot": names.GROWING_ROOT,
    "HonakerOnline": names.HONAKER,
    "Independent": names.INDEPENDENT,
    "LookAhead": names.LOOK_AHEAD,
    "NormalisedSqrt": names.NORMALISED,
    "SqrtToeplitz": names.SQUARE_ROOT,
}


#: Names, in states, of the parameters that a reader can compare with a paper.
_CONSTANTS = ("arity", "height", "zeros", "growth", "delay")


def constants_in_words(strategy: StreamStrategy) -> str:
    """Describe a strategy: its name, number of steps, and parameters that papers name.

    >>> from counton.strategies import GrowingSquareRoot, KAry, SmoothBinary
    >>> constants_in_words(KAry(365, 20))
    'k-ary with subtraction; 365 steps, arity 20'
    """
    last = strategy.horizon
    steps = "without a last step" if last is None else f"{last:,} step{'s' * (last != 1)}"
    parts = [steps, *named_constants(strategy)]
    return f"{strategy_in_words(strategy)}; {', '.join(parts)}"


def named_constants(strategy: StreamStrategy) -> list[str]:
    """Return the parameters of a strategy that papers give a name, such as "arity"."""
    stated = strategy.parameters
    own = not type(strategy).__module__.startswith("counton.")  # all of its constants matter
    shown = [name for name in stated if name != "horizon"] if own else _CONSTANTS
    return [f"{name} {stated[name]}" for name in shown if stated.get(name)]
