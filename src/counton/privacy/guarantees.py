"""Guarantees as immutable objects: pure, approximate and zero-concentrated differential privacy.

A guarantee bounds how much the distribution of all releases may change when one protected unit is
added, removed or replaced (`ContributionBound` states which).
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from decimal import MAX_EMAX, MIN_EMIN, ROUND_CEILING, Context, Decimal
from fractions import Fraction
from typing import TYPE_CHECKING, Any, ClassVar, Protocol, Self, runtime_checkable

from counton.base.distributions import NoiseKind
from counton.base.errors import InvalidInputError, param
from counton.base.exact import Number, check_positive, exact, float_above, readable, text
from counton.base.wording import plural, with_article

if TYPE_CHECKING:
    from counton.privacy.contribution import Relation


#: Names of the parameters of guarantees that state a privacy loss.
_LOSSES = ("epsilon", "delta", "rho")


class Guarantee(ABC):
    """A guarantee. A subclass that sets ``kind`` can be saved and read back.

    Subclasses are frozen dataclasses; their fields are the constructor's parameters.
    """

    kind: ClassVar[str]
    #: The releases that the guarantee is about: words that can follow the guarantee's description.
    scope: ClassVar[str] = "for all releases of the stream together"
    #: The kinds of noise that a plan compares; the last one if it compares none.
    families: ClassVar[tuple[NoiseKind, ...]] = ("laplace", "gaussian")
    _kinds: ClassVar[dict[str, type[Guarantee]]] = {}

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        if "kind" in cls.__dict__:
            Guarantee._kinds[cls.kind] = cls

    def to_dict(self) -> dict[str, Any]:
        """Return JSON values from which `guarantee_from_dict` rebuilds the guarantee."""
        return {"guarantee": self.kind, **self._parameters(text)}

    def _parameters(self, write: Callable[[Fraction], str]) -> dict[str, object]:
        values = ((parameter.name, getattr(self, parameter.name)) for parameter in fields(self))  # type: ignore[arg-type]
        return {
            name: write(value) if isinstance(value, Fraction) else value for name, value in values
        }

    def __str__(self) -> str:
        values = self._parameters(readable)
        values.pop("expiry", None)
        parameters = " and ".join(f"{name} = {{{name}}}" for name in values)
        text = f"{self.kind} differential privacy with {parameters}"
        return text.format(**{name: str(value) for name, value in values.items()})

    @property
    def losses(self) -> dict[str, Fraction]:
        """The parameters that state a privacy loss, by name: epsilon, delta and rho.

        >>> ZCDP(0.5).losses
        {'rho': Fraction(1, 2)}
        """
        losses = ((name, getattr(self, name, None)) for name in _LOSSES)
        return {name: Fraction(loss) for name, loss in losses if loss is not None}

    @property
    def loss_in_words(self) -> str:
        """The parameters alone, as in "epsilon = 1 and delta = 1e-6"."""
        text = str(self)
        return text.partition(" with ")[2] or text

    def __repr__(self) -> str:
        parameters = (f"{name}={value}" for name, value in self._parameters(text).items())
        return f"{type(self).__name__}({', '.join(parameters)})"

    @classmethod
    def from_dict(cls, saved: dict[str, Any]) -> Self:
        """Rebuild a guarantee from the JSON values that `to_dict` returned.

        Args:
            saved: JSON values that `to_dict` of this class returned.

        Raises:
            InvalidInputError: a parameter has no allowed value.
        """
        return cls(**{name: value for name, value in saved.items() if name != "guarantee"})

    @property
    def meaning(self) -> str:
        """The guarantee in one sentence for laymen, about a "unit"."""
        return self.meaning_for("unit")

    @abstractmethod
    def meaning_for(self, unit: str, relation: Relation = "add_remove") -> str:
        """Explain the guarantee in one sentence for laymen.

        Args:
            unit: the name of a protected unit, such as "visit".
            relation: the neighbouring relation: "add_remove" or "replace".

        >>> ZCDP(0.5).meaning_for("visit")[:40]
        'between neighbouring datasets, which dif'
        """


@runtime_checkable
class AgesWithData(Protocol):
    """A guarantee whose privacy loss grows with the age of the data."""

    def at_age(self, age: int) -> PureDP | ZCDP | None:
        """Return the guarantee for a datum of ``age`` steps; None: no release counts it yet."""
        ...


def guarantee_from_dict(saved: dict[str, Any]) -> Guarantee:
    """Rebuild a guarantee of any kind from its ``to_dict``.

    Args:
        saved: JSON values that ``to_dict`` returned.

    Raises:
        InvalidInputError: an unknown kind, or missing or invalid parameters.

    >>> guarantee_from_dict(PureDP(0.1).to_dict())
    PureDP(epsilon=0.1)
    """
    kind = saved.get("guarantee")
    if kind not in Guarantee._kinds:
        names = ", ".join(sorted(Guarantee._kinds))
        raise InvalidInputError(f"there is no guarantee of kind {kind!r}; give one of {names}")
    try:
        return Guarantee._kinds[kind].from_dict(saved)
    except TypeError as error:
        raise InvalidInputError(
            f"the parameters of a {kind} guarantee cannot be read ({error}): give what to_dict "
            "wrote"
        ) from error


#: How the unit in which neighbouring datasets differ is changed.
_UNIT_IS: Mapping[Relation, str] = {
    "add_remove": "added or removed",
    "replace": "replaced by another",
}


def between_neighbours(unit: str, relation: Relation) -> str:
    """Return the beginning of a sentence about neighbouring datasets.

    Args:
        unit: the name of a protected unit, such as "visit".
        relation: the neighbouring relation: "add_remove" or "replace".

    >>> between_neighbours("visit", "add_remove")
    'between neighbouring datasets, which differ in one visit that is added or removed'
    """
    return f"between neighbouring datasets, which differ in one {unit} that is {_UNIT_IS[relation]}"


def difference(unit: str, relation: Relation) -> str:
    """Return in words what cannot be told from releases, such as "whether one visit is there"."""
    return (
        f"whether one {unit} is there"
        if relation == "add_remove"
        else f"one {unit} from another in its place"
    )


_CHANGES = 2  # a replacement is one removal and one addition
_SMALLEST_DELTA = Fraction(1, 10**300)  # no parameter is smaller


@dataclass(frozen=True, slots=True, init=False, repr=False)
class PureDP(Guarantee):
    """Pure epsilon-differential privacy.

    No output is more than e^epsilon times as likely on one of two neighbouring datasets as on the
    other.

    Raises:
        InvalidInputError: epsilon is not a finite number above 0.

    >>> print(PureDP(epsilon=1.0))
    pure differential privacy with epsilon = 1
    """

    kind: ClassVar[str] = "pure"
    families: ClassVar[tuple[NoiseKind, ...]] = ("laplace",)
    epsilon: Fraction

    def __init__(self, epsilon: Number) -> None:
        object.__setattr__(self, "epsilon", check_positive("epsilon", epsilon, "try epsilon=1"))

    def meaning_for(self, unit: str, relation: Relation = "add_remove") -> str:
        neighbours = between_neighbours(unit, relation)
        return f"{neighbours}, the privacy loss is at most epsilon = {upper_bound(self.epsilon)}"


@dataclass(frozen=True, slots=True, init=False, repr=False)
class ApproxDP(Guarantee):
    """Approximate (epsilon, delta)-differential privacy.

    No set of outputs is likelier on one of two neighbouring datasets than e^epsilon times its
    probability on the other, plus delta.

    Raises:
        InvalidInputError: epsilon is not a finite number above 0, or delta not within (0, 1).

    >>> print(ApproxDP(epsilon=1, delta=1e-6))
    approximate differential privacy with epsilon = 1 and delta = 1e-6
    """

    kind: ClassVar[str] = "approximate"
    epsilon: Fraction
    delta: Fraction

    def __init__(self, epsilon: Number, delta: Number) -> None:
        object.__setattr__(self, "epsilon", check_positive("epsilon", epsilon, "try epsilon=1"))
        number = exact(delta, "delta")
        if not 0 < number < 1:
            raise InvalidInputError(
                f"delta is {text(number)}; it must be above 0 and below 1: try 1e-9, or give "
                "PureDP for no delta"
            )
        object.__setattr__(self, "delta", number)

    def meaning_for(self, unit: str, relation: Relation = "add_remove") -> str:
        neighbours = between_neighbours(unit, relation)
        epsilon = upper_bound(self.epsilon)
        delta = upper_bound(self.delta)
        return (
            f"{neighbours}, the privacy loss is at most epsilon = {epsilon}, up to an additional "
            f"probability of delta = {delta}"
        )


@dataclass(frozen=True, slots=True, init=False, repr=False)
class ZCDP(Guarantee):
    """rho-zero-concentrated differential privacy (Bun and Steinke 2016, Def. 1.1), at whole orders.

    The Renyi divergences of the orders alpha = 2, 3, ... between neighbouring datasets are at most
    alpha rho, even if an attacker chooses inputs and steps after seeing earlier releases. For
    causal strategies and for tables this holds at all orders above 1.

    Raises:
        InvalidInputError: rho is not a finite number above 0.

    >>> print(ZCDP(rho=0.5))
    zero-concentrated differential privacy with rho = 0.5
    """

    kind: ClassVar[str] = "zero-concentrated"
    families: ClassVar[tuple[NoiseKind, ...]] = ("gaussian",)
    rho: Fraction

    def __init__(self, rho: Number) -> None:
        object.__setattr__(self, "rho", check_positive("rho", rho, "try rho=1"))

    def meaning_for(self, unit: str, relation: Relation = "add_remove") -> str:
        neighbours = between_neighbours(unit, relation)
        return (
            f"{neighbours}, the Renyi divergence of each whole order alpha from 2 on is at most "
            f"alpha times rho = {upper_bound(self.rho)}"
        )


def loss_of_many(guarantee: Guarantee, units: int) -> str:
    """Return the loss of several units as a multiple of the loss of one, in words.

    Dwork and Roth 2014, Theorem 2.2, also for delta; Bun and Steinke 2016, Proposition 1.9.

    >>> loss_of_many(ZCDP(1), 100)
    '10,000 times the rho'
    """
    names = guarantee.losses
    if "rho" in names:
        return f"{units**2:,} times the rho"
    return (
        f"{units:,} times the epsilon, and far more delta"
        if "delta" in names
        else f"{units:,} times the epsilon"
    )


#: Words for units that are people; nobody is a hundred of them.
_PERSONS = frozenset(
    (
        *("person", "reader", "user", "patient", "customer", "client", "member", "visitor"),
        *("student", "driver", "rider", "passenger", "borrower", "guest", "voter", "citizen"),
        *("resident", "respondent", "participant"),
    )
)


def users_note(guarantee: Guarantee, unit: str) -> str:
    """Return a clause that warns how much a user with many units loses under ``guarantee``.

    >>> users_note(PureDP(1), "person")
    'each event is treated as one person: a person with 100 events loses 100 times the epsilon'
    """
    loss = loss_of_many(guarantee, 100)
    if unit.lower() in _PERSONS:
        return f"each event is treated as one {unit}: a {unit} with 100 events loses {loss}"
    return f"users are not protected: a user with 100 {plural(unit)} loses {loss}"


def parts_in_words(guarantee: Guarantee, unit: str) -> str:
    """Return a clause that warns how much a user with several units loses.

    >>> parts_in_words(PureDP(1), "reader's day")
    "each reader's day is protected separately: a reader with 10 of them loses up to 10 times the
    epsilon"
    """
    loss = loss_of_many(guarantee, 10)
    owner, possessive, _ = unit.partition("'s ")
    user = owner if possessive else "user"
    return (
        f"each {unit} is protected separately: {with_article(user)} with 10 of them loses up to "
        f"{loss}"
    )


def when_replaced(guarantee: PureDP | ApproxDP | ZCDP) -> PureDP | ApproxDP | ZCDP:
    """Return the guarantee for units that are replaced, from one for units added or removed.

    A replacement is a removal and an addition. Dwork and Roth 2014, Theorem 2.2, also for delta;
    Bun and Steinke 2016, Proposition 1.9.

    >>> print(when_replaced(PureDP(0.5)), when_replaced(ZCDP(0.5)), sep="; ")
    pure differential privacy with epsilon = 1; zero-concentrated differential privacy with rho = 2
    """
    if isinstance(guarantee, PureDP):
        return PureDP(_CHANGES * guarantee.epsilon)
    if isinstance(guarantee, ZCDP):
        return ZCDP(_CHANGES**2 * guarantee.rho)
    delta = _delta_factor(guarantee.epsilon) * guarantee.delta
    if delta >= 1:
        raise InvalidInputError(
            f"{guarantee} for a unit that is added or removed guarantees nothing to a unit that is "
            f"replaced, because its delta of {text(guarantee.delta)} grows to 1 or more; give a "
            "smaller delta or epsilon"
        )
    return ApproxDP(_CHANGES * guarantee.epsilon, delta)


def guarantee_when_replaced(guarantee: PureDP | ApproxDP | ZCDP) -> PureDP | ApproxDP | ZCDP:
    """Return the guarantee for units added or removed that implies one for units replaced.

    The inverse of `when_replaced`. If delta would be below 1e-300, the result is pure.
    """
    if isinstance(guarantee, PureDP):
        return PureDP(guarantee.epsilon / _CHANGES)
    if isinstance(guarantee, ZCDP):
        return ZCDP(guarantee.rho / _CHANGES**2)
    epsilon = guarantee.epsilon / _CHANGES
    delta = guarantee.delta / _delta_factor(epsilon)
    return ApproxDP(epsilon, delta) if delta > _SMALLEST_DELTA else PureDP(epsilon)


def _delta_factor(epsilon: Fraction) -> Fraction:
    """Return 1 + e^epsilon, by which delta grows if a unit is replaced."""
    # It is rounded up. Beyond an epsilon of 709 it is cut, since the product with any delta exceeds
    # 1 anyway.
    return 1 + Fraction(math.exp(min(float_above(epsilon), 709)) * (1 + 2**-50))


def upper_bound(loss: Fraction) -> str:
    """Return a privacy parameter as text: exactly if that is short, else rounded up.

    Args:
        loss: a parameter of a guarantee, above 0.

    >>> upper_bound(Fraction(1, 10)), upper_bound(Fraction("0.12345612345678912345"))
    ('0.1', '0.123457')
    """
    exactly = readable(loss)
    if not exactly.startswith("about"):
        return exactly
    six_digits = Context(prec=6, rounding=ROUND_CEILING, Emax=MAX_EMAX, Emin=MIN_EMIN)
    above = six_digits.divide(Decimal(loss.numerator), Decimal(loss.denominator))
    return f"{float(above) or above:.6g}"


#: Largest delta of a guarantee or limit; with it, one of a thousand people may lose all privacy.
LARGEST_DELTA = Fraction(1, 1000)


def check_delta(delta: Number | None) -> None:
    """Raise `InvalidInputError` if delta is so large that the guarantee means next to nothing.

    >>> check_delta("1e-6")
    """
    if delta is None:
        return
    if LARGEST_DELTA < exact(delta, "delta") < 1:
        raise InvalidInputError(
            f"{param('delta')} is {delta}, the probability with which the guarantee may fail "
            "altogether, and publishing each row with this probability would be allowed; give at "
            f"most {float(LARGEST_DELTA)}, and far less than one divided by the number of people, "
            f"as in {param('delta', '1e-9')}"
        )


def guarantee_from(
    epsilon: Number | None, delta: Number | None, rho: Number | None
) -> PureDP | ApproxDP | ZCDP | None:
    """Return PureDP, ApproxDP or ZCDP with these parameters; None if all are None.

    >>> print(guarantee_from("1", "1e-9", None))
    approximate differential privacy with epsilon = 1 and delta = 1e-9
    """
    check_delta(delta)
    if rho is not None:
        if epsilon is not None or delta is not None:
            other = param("delta", delta) if epsilon is None else param("epsilon", epsilon)
            raise InvalidInputError(
                f"{param('rho', rho)} and {other} state the privacy loss in two ways; give only "
                "one of them"
            )
        return ZCDP(rho)
    if epsilon is None:
        if delta is not None:
            raise InvalidInputError(
                f"{param('delta', delta)} needs {param('epsilon')} too: give both"
            )
        return None
    return PureDP(epsilon) if delta is None else ApproxDP(epsilon, delta)


def one_guarantee(
    guarantee: Guarantee | None,
    epsilon: Number | None = None,
    delta: Number | None = None,
    rho: Number | None = None,
) -> Guarantee | None:
    """Return the guarantee, given as an object or by its parameters, not both; or None.

    >>> one_guarantee(None, rho=0.5), one_guarantee(PureDP(1))
    (ZCDP(rho=0.5), PureDP(epsilon=1))
    """
    parameters = {"epsilon": epsilon, "delta": delta, "rho": rho}
    if guarantee is None:
        return guarantee_from(epsilon, delta, rho)
    for name, value in parameters.items():
        if value is not None:
            raise InvalidInputError(
                f"guarantee is {guarantee!r}, and {param(name, value)} states the privacy loss "
                "too: leave one of them out"
            )
    return guarantee
