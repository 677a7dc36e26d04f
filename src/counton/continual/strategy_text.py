"""Names of strategies for readers, as plans and publications show them."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from counton.base import strategy_names as names
from counton.base.wording import counted
from counton.strategies import AsOf, StreamStrategy, WindowVersions

if TYPE_CHECKING:
    from counton.continual.design import Design


def strategy_in_words(strategy: StreamStrategy, noun: str = "step") -> str:
    """Return the name of a strategy as plans show it; ``noun`` is the word for a step.

    >>> from counton.strategies import Binary, KAry
    >>> strategy_in_words(Binary(1000)), strategy_in_words(KAry(365, 20))
    ('binary', 'k-ary with subtraction')
    """
    if isinstance(strategy, AsOf):
        strategy = strategy.windows
    parameters = strategy.parameters
    name = strategy.saved_name
    if isinstance(strategy, WindowVersions):
        return f"versions of each {noun}, {strategy_in_words(strategy.inner, 'version')}"
    if strategy.facts.release == "totals" and not shares_noise(strategy):
        kind = names.EACH_STEP
    elif name == "KAry":
        kind = names.SUBTRACTING if parameters["subtraction"] else names.KARY
    elif name == "Octave":
        kind = names.WHOLE_MULTISCALE if parameters["whole"] else names.MULTISCALE
    elif name == "SmoothBinary":
        kind = (
            names.EVEN_SMOOTH if parameters["height"] == 2 * parameters["zeros"] else names.SMOOTH
        )
    elif name in _NAMES:
        kind = _NAMES[name]
    else:
        return re.sub(r"(?<=[a-z])(?=[A-Z])", " ", name).lower()
    return kind.words.replace("step", noun)


#: Number of first steps that are compared: a strategy whose steps share noise shares it among them.
_COMPARED_STEPS = 64


def shares_noise(strategy: StreamStrategy) -> bool:
    """Return whether a measurement counts several steps, so that their numbers share its noise.

    For revised windows: whether a measurement counts several versions of a window.

    >>> from counton.strategies import Binary, Independent, KAry
    >>> shares_noise(Binary(365)), shares_noise(KAry(7, 14, True)), shares_noise(Independent(365))
    (True, False, False)
    """
    if isinstance(strategy, AsOf):
        strategy = strategy.windows
    if isinstance(strategy, WindowVersions):
        return shares_noise(strategy.inner)
    if strategy.horizon is None:
        return True
    nodes_before = set[tuple[int, int]]()
    for step in range(1, min(strategy.horizon, _COMPARED_STEPS) + 1):
        nodes = {(node.level, node.index) for node in strategy.column(step)}
        if nodes & nodes_before:
            return True
        nodes_before |= nodes
    return False


def mechanism_in_words(design: Design, noun: str = "window") -> str:
    """Return the noise of a design, and whether windows share it, without names of strategies.

    Args:
        design: the design.
        noun: the word for a step.
    """
    noise = f"discrete {design.noise_kind.capitalize()} noise"
    strategy = design.strategy
    if isinstance(strategy, AsOf):
        strategy = strategy.windows
    if isinstance(strategy, WindowVersions):
        return f"{noise}, correlated over the versions of each {noun}"
    relation = "correlated over" if shares_noise(strategy) else "independent for all"
    return f"{noise}, {relation} {noun}s"


def mechanism_sources(strategy: StreamStrategy) -> tuple[str, ...]:
    """Return the names, in `counton.base.literature`, of what describes a mechanism over time.

    Of revised windows it is the strategy of the versions of one window. If no steps share noise, it
    is noise alone.
    """
    if isinstance(strategy, AsOf):
        strategy = strategy.windows
    if not shares_noise(strategy):
        return ("calibration",)
    if isinstance(strategy, WindowVersions):
        return mechanism_sources(strategy.inner)
    return tuple(strategy.sources)


#: Names of strategies for readers, by their names in states.
_NAMES = {
    "BandedRoot": names.BANDED_ROOT,
    "EndlessBandedRoot": names.BANDED_ROOT,
    "EndlessHats": names.RECENT_HATS,
    "GrowingBlocks": names.GROWING_BLOCKS,
    "GrowingCascade": names.CASCADE,
    "GrowingSquareRoot": names.GROWING_ROOT,
    "HonakerOnline": names.HONAKER,
    "Independent": names.INDEPENDENT,
    "LookAhead": names.LOOK_AHEAD,
    "NormalisedSqrt": names.NORMALISED,
    "Solved": names.LEAST_SQUARES,
    "SqrtToeplitz": names.SQUARE_ROOT,
}


#: Names, in states, of the parameters that a reader can compare with a paper.
_CONSTANTS = ("arity", "height", "zeros", "growth", "delay")


def constants_in_words(strategy: StreamStrategy, noun: str = "step") -> str:
    """Describe a strategy: its name, number of steps, and parameters that papers name.

    Args:
        strategy: the strategy.
        noun: word for a step, such as "window".

    >>> from counton.strategies import GrowingSquareRoot, KAry, SmoothBinary
    >>> constants_in_words(KAry(365, 20))
    'k-ary with subtraction; 365 steps, arity 20'
    """
    if isinstance(strategy, AsOf):
        strategy = strategy.windows
    if isinstance(strategy, WindowVersions):
        versions = strategy.lags + 1
        named = named_constants(strategy.inner) if shares_noise(strategy) else []
        parts = [f"{versions:,} versions", *named]
        return f"{strategy_in_words(strategy, noun)}; {', '.join(parts)}"
    last = strategy.horizon
    steps = f"without a last {noun}" if last is None else counted(last, noun)
    parts = [steps, *(named_constants(strategy) if shares_noise(strategy) else [])]
    return f"{strategy_in_words(strategy, noun)}; {', '.join(parts)}"


def named_constants(strategy: StreamStrategy) -> list[str]:
    """Return the parameters of a strategy that papers give a name, such as "arity"."""
    parameters = strategy.parameters
    is_custom = not type(strategy).__module__.startswith("counton.")  # all of its constants matter
    shown = [name for name in parameters if name != "horizon"] if is_custom else _CONSTANTS
    return [f"{name} {parameters[name]}" for name in shown if parameters.get(name)]
