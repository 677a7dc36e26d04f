"""The text on methods for a publication: protected unit, guarantee, mechanism and limits."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from counton.base.distributions import DiscreteLaplace
from counton.base.exact import figures, text
from counton.base.lazy import software
from counton.base.literature import REFERENCES, origin_of, paper_of
from counton.base.locales import local_number, local_sentence, local_text, local_unit
from counton.numbers.design import Design
from counton.numbers.strategy_words import constants_in_words
from counton.privacy import ZCDP, ExpiringDP, ExpiringZCDP
from counton.privacy.guarantees import difference
from counton.strategies import Independent, KAry, StreamStrategy

if TYPE_CHECKING:
    pass


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
        sources: papers on the measurements, by their names in `counton.base.literature`. Papers on
            the stream's strategy and noise are added.
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
    protected = local_text(
        "The protected unit is one {unit}, {change}; two data sets are neighbours if they differ "
        "in one that is {neighbours}.",
        unit=local_unit(unit or contribution.unit),
        change=local_sentence(contribution.change_in_words()),
        neighbours=local_text(contribution.neighbours),
    )
    meaning = guarantee.meaning_for(unit or contribution.unit, contribution.relation)
    scope = "" if is_single_release(terms) else f", {local_sentence(guarantee.scope)}"
    promise = local_text(
        "The guarantee is {guarantee}: {meaning}.", guarantee=f"{guarantee}{scope}", meaning=meaning
    )
    paragraphs = [
        [released or _released_in_words(terms)],
        [protected],
        [promise, *before, *_attacker(terms)],
        [*errors, *(_clipping_in_words(terms) if besides is None else ())],
        [*(besides or ())],
        [mechanism or _mechanism(terms), _noise(terms)],
        [_limits_in_words(terms, unit, unprotected)],
    ]
    named = [*sources, *(() if is_single_release(terms) else terms.strategy.sources)]
    named.append("laplace" if isinstance(terms.law, DiscreteLaplace) else "gaussian")
    source = local_text("source")
    table = [
        *(
            []
            if is_single_release(terms)
            else [(local_text("strategy"), constants_in_words(terms.strategy))]
        ),
        *constants,
        *(
            (source, paper_of([name]) or local_sentence(REFERENCES[name]))
            for name in dict.fromkeys(named)
        ),
        (local_text("software"), software()),
    ]
    wide = max(len(name) for name, _ in table)
    head = local_text("Constants and sources")
    rows = [head, *(f"{name:<{wide}}  {said}" for name, said in table)]
    return "\n\n".join([*(" ".join(part) for part in paragraphs if part), "\n".join(rows)])


def is_single_release(terms: Design) -> bool:
    """Return True if a design has a single release, without earlier or later steps."""
    return terms.strategy.horizon == 1


def _released_in_words(terms: Design) -> str:
    windows = terms.strategy.facts.workload == "windows"
    what = local_text("the number of each step by itself" if windows else "the running total")
    last = terms.strategy.horizon
    until = local_text("for as many steps as come")
    if last is not None:
        until = local_text("for up to {count} steps", count=last)
    if terms.cells > 1:
        cells = local_number(f"{terms.cells:,}")
        what = local_text("{what} of {count} cells", what=what, count=cells)
    return local_text(
        "{name} is {what}, released after every step {until}.",
        name=repr(terms.name),
        what=what,
        until=until,
    )


def _attacker(terms: Design) -> list[str]:
    guarantee = terms.guarantee
    passive = is_single_release(terms) or isinstance(guarantee, ExpiringDP | ExpiringZCDP)
    knows = local_text(
        "all releases, the program and its parameters and every other row"
        if passive
        else "all releases, the program and its parameters and every other row, and who chooses "
        "rows, and the step and cells that distinguish neighbours, after seeing earlier releases"
    )
    if isinstance(guarantee, ZCDP) and not terms.strategy.facts.causal:
        knows += local_text(" (at whole orders of the divergences)")
    return [
        local_text("It holds against an attacker who knows {known}.", known=knows),
        local_text(
            "The attacker does not know the key: the noise is computed by a keyed pseudo-random "
            "function (AES-256), so it is as safe as that function."
        ),
    ]


def _mechanism(terms: Design) -> str:
    return local_text(
        "Noise is correlated over time by a factorisation of running sums, the strategy {strategy}."
        if shares_noise(terms.strategy)
        else "Each step has noise of its own, and a number of several steps adds it up: the "
        "strategy {strategy}.",
        strategy=_strategy_and_paper(terms.strategy),
    )


def _strategy_and_paper(strategy: StreamStrategy) -> str:
    return f"{strategy.saved_name} ({local_sentence(origin_of(strategy.sources))})"


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


def _noise(terms: Design) -> str:
    """Describe the noise of a measurement."""
    law, unit = terms.law, float(terms.units.noise)
    of = local_text(", in units of what is measured") if is_single_release(terms) else ""
    if isinstance(law, DiscreteLaplace):
        said = local_text("Laplace noise of scale {size}", size=_size(float(law.scale) * unit))
    else:
        variance = float(law.sigma_squared) * unit**2
        said = local_text("Gaussian noise of variance {size}", size=_size(variance))
    return local_text("Each measurement has discrete {noise}, drawn exactly.", noise=said + of)


def _size(number: float) -> str:
    return local_number(figures(number))


def _clipping_in_words(terms: Design) -> list[str]:
    bounds = terms.contribution.value_bounds
    if bounds is None:
        return []
    lower, upper, step = (local_number(text(one)) for one in bounds)
    return [
        local_text(
            "Values were clipped to [{lower}, {upper}] and rounded to multiples of {step}, an "
            "error that no interval includes.",
            lower=lower,
            upper=upper,
            step=step,
        )
    ]


def _limits_in_words(terms: Design, unit: str | None, more: Sequence[str]) -> str:
    contribution = terms.contribution
    about = difference(unit or contribution.unit, contribution.relation)
    parts = [
        local_text(
            "the parameters named here and all that was declared, which must not be chosen by the "
            "data"
        ),
        *map(local_sentence, more),
        local_text(
            "somebody who stands for several units: more can be learned than {about}", about=about
        ),
        local_text("what other releases about the same people say"),
        local_text("anything at all from whoever holds the key, the state or the rows"),
    ]
    return local_text("Not protected are: {parts}.", parts="; ".join(parts))
