"""The text on methods for a publication: protected unit, guarantee, mechanism and limits."""

from __future__ import annotations

from collections.abc import Sequence

from counton.base.distributions import DiscreteLaplace
from counton.base.exact import figures, text
from counton.base.lazy import software
from counton.base.literature import REFERENCES, origin_of, paper_of
from counton.numbers.design import Design
from counton.numbers.strategy_words import constants_in_words
from counton.privacy import ZCDP, ExpiringDP, ExpiringZCDP
from counton.privacy.guarantees import difference
from counton.strategies import Independent, KAry, StreamStrategy


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
    r"""Return the text on methods for a publication, in Markdown: some paragraphs and a table.

    It says the release, unit, guarantee, error, mechanism and assumptions, then the strategy, its
    constants, sources and software: public facts, from the design and releases.

    Args:
        released, unit, mechanism: sentence on the release, word for a unit, sentence on the
            measurements; None: derived from the design.
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
    >>> said = methods(counter.design, errors=["The standard deviation is 27."])
    >>> print(said.split("\n\n")[1])
    The protected unit is one unit, counted in one cell of one step by at most 1; two data sets are
    neighbours if they differ in one that is added or removed.
    """
    guarantee, contribution = terms.guarantee, terms.contribution
    protected = (
        f"The protected unit is one {unit or contribution.unit}, "
        f"{contribution.change_in_words()}; two data sets are neighbours if "
        f"they differ in one that is {contribution.neighbours}."
    )
    meaning = guarantee.meaning_for(unit or contribution.unit, contribution.relation)
    scope = "" if is_single_release(terms) else f", {guarantee.scope}"
    promise = f"The guarantee is {guarantee}{scope}: {meaning}."
    paragraphs = [
        [released or _released_in_words(terms)],
        [protected],
        [promise, *before],
        _attacker(terms),
        [*errors, *(_clipping_in_words(terms) if besides is None else ())],
        [*(besides or ())],
        [mechanism or _mechanism(terms), _noise(terms)],
        [_limits_in_words(terms, unit, unprotected)],
    ]
    named = [*sources, *(() if is_single_release(terms) else terms.strategy.sources)]
    named.append(terms.law.family)
    source = "source"
    table = [
        *([] if is_single_release(terms) else [("strategy", constants_in_words(terms.strategy))]),
        *constants,
        *((source, paper_of([name]) or REFERENCES[name]) for name in dict.fromkeys(named)),
        ("software", software()),
    ]
    wide = max(len(name) for name, _ in table)
    head = "Constants and sources"
    rows = [head, *(f"{name:<{wide}}  {said}" for name, said in table)]
    return "\n\n".join([*(" ".join(part) for part in paragraphs if part), "\n".join(rows)])


def is_single_release(terms: Design) -> bool:
    """Return whether a design has a single release, without earlier or later steps."""
    return terms.strategy.horizon == 1


def _released_in_words(terms: Design) -> str:
    windows = terms.strategy.facts.workload == "windows"
    what = "the number of each step by itself" if windows else "the running total"
    last = terms.strategy.horizon
    until = "for as many steps as come"
    if last is not None:
        until = f"for up to {last:,} steps"
    if terms.cells > 1:
        cells = f"{terms.cells:,}"
        what = f"{what} of {cells} cells"
    return f"{terms.name!r} is {what}, released after every step {until}."


def _attacker(terms: Design) -> list[str]:
    guarantee = terms.guarantee
    passive = is_single_release(terms) or isinstance(guarantee, ExpiringDP | ExpiringZCDP)
    knows = (
        "all releases, the program and its parameters and every other row"
        if passive
        else (
            "all releases, the program and its parameters and every other row, "
            "and who chooses rows, and the step and cells that distinguish "
            "neighbours, after seeing earlier releases"
        )
    )
    if isinstance(guarantee, ZCDP) and not terms.strategy.facts.causal:
        knows += " (at whole orders of the divergences)"
    return [
        f"The guarantee holds against an attacker who knows {knows}.",
        (
            "The attacker does not know the key: the noise is computed by a keyed "
            "pseudo-random function (AES-256), so it is as safe as that function."
        ),
    ]


def _mechanism(terms: Design) -> str:
    return (
        (
            "Noise is correlated over time by a factorisation of running sums, "
            f"the strategy {_strategy_and_paper(terms.strategy)}."
        )
        if shares_noise(terms.strategy)
        else (
            "Each step has noise of its own, and a number of several steps adds "
            f"it up: the strategy {_strategy_and_paper(terms.strategy)}."
        )
    )


def _strategy_and_paper(strategy: StreamStrategy) -> str:
    return f"{strategy.saved_name} ({origin_of(strategy.sources)})"


def shares_noise(strategy: StreamStrategy) -> bool:
    """Return True if several releases share noise; False if each step has independent noise.

    >>> from counton.strategies import Binary
    >>> shares_noise(Binary(365)), shares_noise(Independent(365))
    (True, False)
    """
    if isinstance(strategy, KAry):
        return strategy.subtraction or strategy.arity <= strategy.horizon
    return not isinstance(strategy, Independent)


def _noise(terms: Design) -> str:
    """Describe the noise of a measurement."""
    law, unit = terms.law, float(terms.units.noise)
    of = ", in units of what is measured" if is_single_release(terms) else ""
    if isinstance(law, DiscreteLaplace):
        said = f"Laplace noise of scale {_size(float(law.scale) * unit)}"
    else:
        variance = float(law.sigma_squared) * unit**2
        said = f"Gaussian noise of variance {_size(variance)}"
    return f"Each measurement has discrete {said + of}, drawn exactly."


def _size(number: float) -> str:
    return figures(number)


def _clipping_in_words(terms: Design) -> list[str]:
    bounds = terms.contribution.value_bounds
    if bounds is None:
        return []
    lower, upper, step = (text(one) for one in bounds)
    return [
        (
            f"Values were clipped to [{lower}, {upper}] and rounded to multiples of {step}, "
            "an error that no interval includes."
        )
    ]


def _limits_in_words(terms: Design, unit: str | None, more: Sequence[str]) -> str:
    contribution = terms.contribution
    about = difference(unit or contribution.unit, contribution.relation)
    parts = [
        (
            "the parameters named here and all that was declared, which must not be "
            "chosen by the data"
        ),
        *more,
        f"somebody who stands for several units: more can be learned than {about}",
        "what other releases about the same people say",
        "anything at all from whoever holds the key, the state or the rows",
    ]
    return f"Not protected are: {'; '.join(parts)}."
