"""The text on methods for a publication: protected unit, guarantee, mechanism and limits."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, cast

from counton.base.distributions import DiscreteLaplace
from counton.base.exact import figures, text
from counton.base.lazy import software
from counton.base.literature import REFERENCES, origin_of, paper_of
from counton.numbers.design import Design
from counton.numbers.strategy_words import constants_in_words
from counton.privacy import ZCDP, ExpiringDP, ExpiringZCDP
from counton.privacy.guarantees import difference
from counton.strategies import Independent, KAry, StreamStrategy

if TYPE_CHECKING:
    from counton.strategies import WindowsAndTotals
    from counton.strategies.streams.windows_and_totals import LeastSquaresAsOf


def methods(
    terms: Design,
    *,
    released: str | None = None,
    unit: str | None = None,
    mechanism: str | None = None,
    errors: Sequence[str] = (),
    besides: Sequence[str] | None = None,
    before: Sequence[str] = (),
    unprotected: Sequence[str] = (),
    sources: Sequence[str] = (),
    constants: Sequence[tuple[str, str]] = (),
) -> str:
    r"""Return the text on methods for a publication: some paragraphs and a table, in Markdown.

    The paragraphs state the release, unit, guarantee, error, mechanism and assumptions. The table
    has the strategy, its constants, sources and software. The text is public: it follows from the
    design of the stream and from releases.

    Args:
        terms: design of the stream.
        released: a sentence on the release; None: derived from the design.
        unit: the word for one protected unit; None: the contribution's.
        mechanism: a sentence on the measurements; None: derived from the design.
        errors: sentences on the error.
        besides: sentences on errors other than noise; None: derived from the design.
        before: sentences on the guarantees of earlier streams that this stream continues.
        unprotected: further facts that are not protected, as parts of one sentence.
        sources: sources of the measurements, by names of `counton.base.literature`, besides those
            of the stream's strategy and noise.
        constants: further rows of the table: a name and its value.

    >>> from counton import Counter, Key, PureDP
    >>> from counton.strategies import KAry
    >>> counter = Counter(KAry.best(365), PureDP(1), key=Key.generate(), name="visits")
    >>> said = methods(counter.design, errors=["The standard deviation is 27."])
    >>> print(said.split("\n\n")[1])
    The protected unit is one unit, counted in one cell of one step by at most 1; two data sets are
    neighbours if they differ in one that is added or removed.
    """
    guarantee, contribution = terms.guarantee, terms.contribution
    meaning = guarantee.meaning_for(unit or contribution.unit, contribution.relation)
    scope = "" if is_once(terms) else f", {guarantee.scope}"
    paragraphs = [
        [released or _what_is_released(terms)],
        [_unit_in_words(terms, unit)],
        [f"The guarantee is {guarantee}{scope}: {meaning}.", *before, _attacker(terms)],
        [*errors, *(_clipping_in_words(terms) if besides is None else ())],
        [*(besides or ())],
        [mechanism or _mechanism(terms), _noise(terms)],
        [_limits_in_words(terms, unit, unprotected)],
    ]
    named = [*sources, *(() if is_once(terms) else terms.strategy.sources)]
    named.append("laplace" if isinstance(terms.law, DiscreteLaplace) else "gaussian")
    table = [
        *([] if is_once(terms) else [("strategy", constants_in_words(terms.strategy))]),
        *constants,
        *(("source", paper_of([name]) or REFERENCES[name]) for name in dict.fromkeys(named)),
        ("software", software()),
    ]
    wide = max(len(name) for name, _ in table)
    rows = ["Constants and sources", *(f"{name:<{wide}}  {said}" for name, said in table)]
    return "\n\n".join([*(" ".join(part) for part in paragraphs if part), "\n".join(rows)])


def is_once(terms: Design) -> bool:
    """Return True if a design has a single release, without earlier or later steps."""
    return terms.strategy.horizon == 1


def _what_is_released(terms: Design) -> str:
    windows = terms.strategy.facts.workload == "windows"
    what = "the number of each step by itself" if windows else "the running total"
    last = terms.strategy.horizon
    until = "for as many steps as come" if last is None else f"for up to {last:,} steps"
    cells = f" of {terms.cells:,} cells" if terms.cells > 1 else ""
    return f"{terms.name!r} is {what}{cells}, released after every step {until}."


def _unit_in_words(terms: Design, unit: str | None) -> str:
    contribution = terms.contribution
    return (
        f"The protected unit is one {unit or contribution.unit}, {contribution.change_in_words()}; "
        f"two data sets are neighbours if they differ in one that is {contribution.neighbours}."
    )


def _attacker(terms: Design) -> str:
    guarantee = terms.guarantee
    chooses = (
        "and every other row, and who chooses rows, and the step and cells that distinguish "
        "neighbours, after seeing earlier releases"
    )
    if is_once(terms) or isinstance(guarantee, ExpiringDP | ExpiringZCDP):
        chooses = "and every other row"
    orders = ""
    if isinstance(guarantee, ZCDP):
        orders = "" if terms.strategy.facts.causal else " (at whole orders of the divergences)"
    return (
        f"It holds against an attacker who knows all releases, the program and its parameters"
        f" {chooses}{orders}. The attacker does not know the key: the noise is computed by a keyed "
        f"pseudo-random function (AES-256), so it is as safe as that function."
    )


def _mechanism(terms: Design) -> str:
    if terms.strategy.facts.least_squares:
        return _two_mechanisms(cast("LeastSquaresAsOf", terms.strategy).both)
    named = f"{terms.strategy.saved_name} ({origin_of(terms.strategy.sources)})"
    if not shares_noise(terms.strategy):
        return (
            f"Each step has noise of its own, and a number of several steps adds it up: the "
            f"strategy {named}."
        )
    return (
        f"Noise is correlated over time by a factorisation of running sums, the strategy {named}."
    )


def _two_mechanisms(both: WindowsAndTotals) -> str:
    """Describe the measurement of a strategy that measures windows and totals separately."""
    named = [
        f"{one.saved_name} ({origin_of(one.sources)})" for one in (both.windows.inner, both.totals)
    ]
    return (
        f"Two things were measured with noise of their own: what is known of each window at its "
        f"end and later, with a part {1 - both.share} of the budget (strategy {named[0]}), and "
        f"the total of all that has arrived, with a part {both.share} (strategy {named[1]}). Both "
        f"parts together are the guarantee. Published numbers are their best linear unbiased "
        f"estimates, by least squares of all measurements so far, with the exact covariance."
    )


def shares_noise(strategy: StreamStrategy) -> bool:
    """Return True if several releases share noise; False if each step has independent noise.

    >>> from counton.strategies import Binary
    >>> shares_noise(Binary(365)), shares_noise(Independent(365))
    (True, False)
    >>> shares_noise(KAry(365, 366, subtraction=False))
    False
    """
    if isinstance(strategy, KAry):
        return strategy.subtraction or strategy.arity <= strategy.horizon
    return not isinstance(strategy, Independent)


def _noise(terms: Design, measured: str = "") -> str:
    """Describe the noise of a measurement.

    Args:
        terms: the design.
        measured: words after "measurement" that say which measurement is meant.
    """
    if terms.strategy.facts.least_squares:
        both = cast("LeastSquaresAsOf", terms.strategy).both
        windows = replace(terms, strategy=both.windows)
        totals = replace(terms, strategy=both.totals, law=both.law)
        return f"{_noise(windows, ' of a window')} {_noise(totals, ' of a total')}"
    law, of = terms.law, ", in units of what is measured" if is_once(terms) else ""
    unit = float(terms.units.noise)
    if isinstance(law, DiscreteLaplace):
        how = f"discrete Laplace noise of scale {figures(float(law.scale) * unit)}"
    else:
        how = f"discrete Gaussian noise of variance {figures(float(law.sigma_squared) * unit**2)}"
    return f"Each measurement{measured} has {how}{of}, drawn exactly."


def _clipping_in_words(terms: Design) -> list[str]:
    of = terms.contribution
    if of.lower is None or of.upper is None or of.resolution is None:
        return []
    return [
        f"Values were clipped to [{text(of.lower)}, {text(of.upper)}] and rounded to multiples of "
        f"{text(of.resolution)}, an error that no interval includes."
    ]


def _limits_in_words(terms: Design, unit: str | None, more: Sequence[str]) -> str:
    contribution = terms.contribution
    about = difference(unit or contribution.unit, contribution.relation)
    parts = [
        "the parameters named here and all that was declared, which must not be chosen by the data",
        *more,
        f"somebody who stands for several units: more can be learned than {about}",
        "what other releases about the same people say",
        "anything at all from whoever holds the key, the state or the rows",
    ]
    return f"Not protected are: {'; '.join(parts)}."
