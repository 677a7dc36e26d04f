"""The text on methods for a publication: privacy unit, guarantee, mechanism and limits.

Each clause is computed from the design; `tests/results/test_claims_of_methods.py` computes all of
them once more. The words are those of NIST SP 800-226.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

from counton.base.distributions import DiscreteLaplace
from counton.base.exact import figures, figures_up, text, with_capital
from counton.base.lazy import software
from counton.base.literature import REFERENCES, origin_of, paper_of
from counton.continual.design import Design
from counton.continual.sensitivity import sensitivity_of
from counton.continual.strategy_text import (
    constants_in_words,
    mechanism_sources,
    shares_noise,
    strategy_in_words,
)
from counton.privacy import ZCDP, ExpiringDP, ExpiringZCDP
from counton.privacy.guarantees import difference
from counton.strategies import AsOf, GrowingBlocks, StreamStrategy, WindowVersions
from counton.strategies.strategy import node_distribution


def methods(
    design: Design,
    *,
    released: str | None = None,
    unit: str | None = None,
    change: str | None = None,
    noun: str = "step",
    errors: Sequence[str] = (),
    besides: Sequence[str] | None = None,
    before: Sequence[str] = (),
    unprotected: Sequence[str] = (),
    sources: Sequence[str] = (),
    constants: Sequence[tuple[str, str]] = (),
) -> str:
    r"""Return the text on methods for a publication, in Markdown: some paragraphs and a table.

    It says the release, privacy unit, guarantee, error, mechanism and assumptions, then the
    strategy, its constants, sources and software: public facts, from the design and releases.

    Args:
        design: the design of the stream, or of the table.
        released: sentences on the releases; None: derived from the design.
        unit: word for a privacy unit; None: that of the design.
        change: the most that one unit changes, as words that can follow the unit's name; None:
            derived from the design.
        noun: word for a step, such as "window".
        errors: sentences on the error.
        besides: sentences on other errors than noise; None: derived from the design.
        before: further sentences on the guarantee.
        unprotected: further facts that are not protected, as parts of one sentence.
        sources: papers on the measurements, by names in `counton.base.literature`, besides those on
            strategy and noise.
        constants: further rows of the table.

    >>> from counton import Counter, Key, PureDP
    >>> from counton.strategies import KAry
    >>> counter = Counter(KAry.best(365), PureDP(1), key=Key.generate(), name="visits")
    >>> words = methods(counter.design, errors=["The standard deviation is 27."])
    >>> print(words.split("\n\n")[1])
    The privacy unit is one unit, counted in one cell of one step by at most 1. Neighbouring data
    sets differ in one unit that is added or removed.
    """
    contribution = design.contribution
    unit = unit or contribution.unit
    if change is None:
        change = contribution.change_in_words(steps=not is_single_release(design))
    privacy = (
        f"The privacy unit is one {unit}, {change}. Neighbouring data sets differ in one {unit} "
        f"that is {contribution.neighbours}."
    )
    paragraphs = [
        [released or _released_in_words(design)],
        [privacy],
        [_guarantee_in_words(design, unit), *before],
        _attacker(design, noun),
        [*errors, *(_clipping_in_words(design) if besides is None else ())],
        [*(besides or ())],
        [*_mechanism_in_words(design, noun), *_noise_in_words(design, unit)],
        [_limits_in_words(design, unit, unprotected)],
    ]
    over_time = () if is_single_release(design) else mechanism_sources(design.strategy)
    named = [*sources, *over_time, design.distribution.family]
    table = [
        *(
            []
            if is_single_release(design)
            else [("strategy", constants_in_words(design.strategy, noun))]
        ),
        *constants,
        *(("source", paper_of([name]) or REFERENCES[name]) for name in dict.fromkeys(named)),
        ("software", software()),
    ]
    wide = max(len(name) for name, _ in table)
    rows = ["Constants and sources", *(f"{name:<{wide}}  {value}" for name, value in table)]
    return "\n\n".join([*(" ".join(part) for part in paragraphs if part), "\n".join(rows)])


def is_single_release(design: Design) -> bool:
    """Return whether a design has a single release, without earlier or later steps."""
    strategy = design.strategy
    if isinstance(strategy, AsOf):  # which describes the newest numbers of some first windows
        strategy = strategy.windows
    return strategy.horizon == 1 and strategy.facts.versions == 1


def _guarantee_in_words(design: Design, unit: str) -> str:
    """Return two sentences: the guarantee with its scope, and the privacy loss that it bounds."""
    guarantee = design.guarantee
    scope = "" if is_single_release(design) else f", {guarantee.scope}"
    meaning = guarantee.meaning_for(unit, design.contribution.relation)
    return f"The guarantee is {guarantee}{scope}. {with_capital(meaning)}."


def _released_in_words(design: Design) -> str:
    windows = design.strategy.facts.release == "windows"
    quantity = "the number of each step by itself" if windows else "the running total"
    if design.cells > 1:
        quantity = f"{quantity} of {design.cells:,} cells"
    if is_single_release(design):
        quantity = f"a table of {design.cells:,} cells" if design.cells > 1 else "a number"
        return f"{design.name!r} is {quantity}, released once."
    last = design.strategy.horizon
    steps_text = "for as many steps as come" if last is None else f"for up to {last:,} steps"
    return f"{design.name!r} is {quantity}, released after every step {steps_text}."


def _attacker(design: Design, noun: str) -> list[str]:
    guarantee = design.guarantee
    knows = "all releases, the program and its parameters and every other row"
    if not is_single_release(design) and not isinstance(guarantee, ExpiringDP | ExpiringZCDP):
        knows += (
            f", and who chooses rows, and the {noun} and cells that distinguish neighbours, after "
            "seeing earlier releases"
        )
        if isinstance(guarantee, ZCDP) and not design.strategy.facts.causal:
            knows += " (at whole orders of the divergences)"
    return [
        "The trust model is central: the publisher holds the rows, the state and the key.",
        f"The guarantee holds against an attacker who knows {knows}.",
        (
            "The attacker does not know the key: the noise is computed by a keyed "
            "pseudo-random function (AES-256), so it is as safe as that function."
        ),
    ]


def _mechanism_in_words(design: Design, noun: str) -> list[str]:
    """Return a sentence on the noise of several steps; none if there is a single release."""
    if is_single_release(design):
        return []
    strategy: StreamStrategy = design.strategy
    if isinstance(strategy, AsOf):
        strategy = strategy.windows
    paper = origin_of(mechanism_sources(strategy))
    if isinstance(strategy, WindowVersions):
        name = strategy_in_words(strategy.inner, "version")
        if shares_noise(strategy):
            versions = "Noise is correlated over the versions of a " + noun
            return [
                f"{versions}, by a factorisation of running totals, the strategy {name} ({paper}). "
                f"Numbers of different {noun}s share no noise."
            ]
        return [
            f"Each version of a {noun} has the noise of the version before it and noise of its own "
            f"({paper}). Numbers of different {noun}s share no noise."
        ]
    windows = strategy.facts.release == "windows"
    if shares_noise(strategy):
        numbers = f"the numbers of single {noun}s" if windows else "running totals"
        name = strategy_in_words(strategy, noun)
        return [
            f"Noise is correlated over time, by a factorisation of {numbers}, the strategy {name} "
            f"({paper})."
        ]
    if windows:
        return [f"Noise is independent over time: each {noun} has noise of its own ({paper})."]
    return [
        f"Noise is independent over time: each {noun} has noise of its own, which a number of "
        f"several {noun}s adds up ({paper})."
    ]


class _NodeNoise(NamedTuple):
    """The noise of a measurement, and what it hides, in one unit of measurement.

    Attributes:
        scale: scale of Laplace noise, or standard deviation of Gaussian noise.
        std: standard deviation.
        sensitivity: the most by which one privacy unit changes all measurements together, in the
            norm of the noise; None if it is not stated.
        is_scaled: whether the unit of measurement is the sensitivity, and not that of the data.
        trend: "larger" or "smaller" if the noise of higher levels of the strategy is; else "".
    """

    scale: float
    std: float
    sensitivity: float | None
    is_scaled: bool
    trend: str


def _node_noise(design: Design) -> _NodeNoise:
    distribution = design.distribution
    is_laplace = isinstance(distribution, DiscreteLaplace)
    parameter = (
        float(distribution.scale) if isinstance(distribution, DiscreteLaplace) else distribution.std
    )
    std = distribution.std
    size = float(design.units.noise)
    trend = _trend_of_levels(design)
    if trend or design.part is not None or isinstance(design.guarantee, ExpiringDP | ExpiringZCDP):
        is_scaled = design.statistic is not None
        return _NodeNoise(parameter * size, std * size, None, is_scaled, trend)
    strategy: StreamStrategy = design.strategy
    if isinstance(strategy, AsOf):
        strategy = strategy.windows
    moved = sensitivity_of(strategy, design.contribution, design.shape)
    norm = float(moved.l1) if is_laplace else math.sqrt(float(moved.l2_squared))
    if design.statistic is not None:
        return _NodeNoise(parameter / norm, std / norm, 1.0, True, trend)
    return _NodeNoise(parameter * size, std * size, norm * size, False, trend)


def _trend_of_levels(design: Design) -> str:
    """Return how noise of higher levels compares with that of the first; "" if all are equal."""
    strategy = design.strategy
    distribution = design.distribution
    if strategy.horizon is not None:
        return ""
    last = 2**12
    if isinstance(strategy, GrowingBlocks):
        last *= strategy.block  # its higher levels are those of the nodes between blocks
    nodes = [*strategy.column(1, last), *strategy.column(last, last)]  # type: ignore[call-arg]
    first, *higher = (
        node_distribution(strategy, distribution, level).variance
        for level in range(max(node.level for node in nodes) + 1)
    )
    if all(variance == first for variance in higher):
        return ""
    if min(higher) < first < max(higher):
        return "different"
    return "larger" if max(higher) > first else "smaller"


def _noise_in_words(design: Design, unit: str) -> list[str]:
    """Return sentences on the noise of a measurement, and on the sensitivity that it hides."""
    noise = _node_noise(design)
    is_laplace = isinstance(design.distribution, DiscreteLaplace)
    norm = "sum of absolute changes: L1 sensitivity"
    if not is_laplace:
        norm = "root of the sum of squared changes: L2 sensitivity"
    kind = "Laplace" if is_laplace else "Gaussian"
    if noise.is_scaled and noise.sensitivity is None:
        sentence = f"Each measurement has discrete {kind} noise, drawn exactly."
        if noise.trend:
            sentence += f" It is {noise.trend} at higher levels of the strategy."
        return [sentence]
    sentences = []
    if noise.is_scaled:
        sentences.append(
            f"Measurements are scaled so that one {unit} changes them by at most 1 ({norm})."
        )
    elif noise.sensitivity is not None:
        most = figures_up(noise.sensitivity)
        sentences.append(f"One {unit} changes the measurements by at most {most} ({norm}).")
    shape = f"of standard deviation {figures(noise.std)}"
    if is_laplace:
        shape = f"of scale {figures(noise.scale)} and standard deviation {figures(noise.std)}"
    if noise.trend:
        shape += f" at the first level of the strategy, and {noise.trend} at higher ones"
    sentences.append(f"Each measurement has discrete {kind} noise {shape}, drawn exactly.")
    return sentences


def _clipping_in_words(design: Design) -> list[str]:
    bounds = design.contribution.value_bounds
    if bounds is None:
        return []
    lower, upper, step = (text(bound) for bound in bounds)
    return [
        (
            f"Values were clipped to [{lower}, {upper}] and rounded to multiples of {step}, "
            "an error that no interval includes."
        )
    ]


def _limits_in_words(design: Design, unit: str, more: Sequence[str]) -> str:
    about = difference(unit, design.contribution.relation)
    parts = [
        (
            "the parameters named here and all that was declared, which must not be "
            "chosen by the data"
        ),
        *more,
        f"a user with several units, of whom more can be learned than {about}",
        "what other releases about the same users reveal",
        "anything from those who hold the key, the state or the rows",
    ]
    return f"Not protected are: {'; '.join(parts)}."
