"""The ledger: it adds up privacy loss of releases of the same data, and enforces a budget."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import replace
from fractions import Fraction
from typing import Any, Final, NamedTuple, cast, get_args

from counton.base.errors import BudgetExceededError, InvalidInputError, param
from counton.base.exact import Number, exact, text
from counton.base.expiry import checked_age
from counton.privacy.contribution import (
    ANY_UNIT,
    Relation,
    base_unit,
    canonical_unit,
    check_relation,
    checked_unit,
    clock_of,
    is_part,
    states_period,
    without_clock,
)
from counton.privacy.filter import AddableGuarantee, PrivacyFilter
from counton.privacy.guarantees import (
    ZCDP,
    AgesWithData,
    ApproxDP,
    Guarantee,
    PureDP,
    guarantee_from_dict,
    guarantee_when_replaced,
    when_replaced,
)

_HALF = Fraction(1, 2)
#: Words of the neighbouring relation, after the unit's word.
NEIGHBOURS: Final[Mapping[Relation, str]] = {
    "add_remove": "added or removed",
    "replace": "replaced",
}


class LedgerEntry(NamedTuple):
    """One entry of a ledger: a stream or table, and the guarantee that it spends.

    Attributes:
        name: name of the stream or table.
        guarantee: its guarantee.
        unit: the name of one protected unit.
        relation: the neighbouring relation: "add_remove" or "replace".

    >>> LedgerEntry("visits", PureDP(1), "visitor").relation
    'add_remove'
    """

    name: str
    guarantee: Guarantee
    unit: str = "unit"
    relation: Relation = "add_remove"

    def to_dict(self) -> dict[str, Any]:
        """Return JSON values from which `from_dict` rebuilds the entry."""
        about = {"name": self.name, "unit": self.unit, "relation": self.relation}
        return {**about, **self.guarantee.to_dict()}

    @classmethod
    def from_dict(cls, saved: Mapping[str, Any]) -> LedgerEntry:
        """Rebuild an entry from `to_dict`.

        Args:
            saved: JSON values that ``to_dict`` returned.

        Raises:
            InvalidInputError: a value is missing or invalid.
        """
        try:
            values = dict(saved)
            name, unit, relation = (values.pop(key) for key in ("name", "unit", "relation"))
        except (KeyError, TypeError, ValueError) as error:
            raise InvalidInputError(
                f"a saved entry of a ledger cannot be read ({error!r}): restore it from a copy"
            ) from error
        return cls(name, guarantee_from_dict(values), unit, relation)


class _Account(NamedTuple):
    """The loss of one kind of unit, added up under one neighbouring relation."""

    relation: Relation
    filter: PrivacyFilter

    def after(self, counted: AddableGuarantee | None) -> _Account:
        """Return the account after one more guarantee, for units of this relation."""
        return self if counted is None else _Account(self.relation, self.filter.after(counted))


class Ledger:
    """The account of releases of the same data: a budget, and the privacy loss spent so far.

    The budget holds even if earlier releases decide the next guarantee, and if streams run at the
    same time (`counton.privacy.filter` states how guarantees are added up). Call `spend` before a
    stream's first release: the guarantee for all its releases is spent at once.

    **Units.** Each kind of protected unit has a total of its own, with the whole budget: a
    guarantee for a visit is none for a visitor. With ``unit`` the ledger has one total, and refuses
    a release that does not protect this unit. A release that protects a reader counts for a
    reader's day as if the day were replaced (`counton.privacy.contribution.is_part`). Periods are
    counted by a clock, a time zone and a column: the first release that names one decides it, and
    releases with others are refused.

    **Relations.** The first entry of each kind of unit decides the relation of its total. If units
    are replaced, a guarantee for a unit added or removed counts twice its epsilon, or four times
    its rho. If units are added or removed, guarantees for replaced units are refused, since they do
    not hide whether a unit is there.

    Args:
        budget: the guarantee that all releases together must keep.
        age: the age in steps at which guarantees that weaken with age are counted: the total holds
            for data of this age or younger. Of steps of several lengths, the shortest count.
        relation: "add_remove" or "replace" for all units; None: the first entry of each decides.
        approximate_delta: for a budget of ApproxDP, the part of delta for ApproxDP guarantees; the
            rest converts others. None: all of it if the first entry is ApproxDP, else a quarter.
        unit: the unit that the budget protects, such as "reader's month"; None: each kind has a
            total. Once a clock is decided, it is part of the name: "reader's month (UTC, time)".

    Raises:
        InvalidInputError: the budget is not PureDP, ApproxDP or ZCDP, the age is negative,
            the relation is unknown, or the share exceeds the budget's delta.

    >>> ledger = Ledger(PureDP(1))
    >>> for hour in range(10):
    ...     ledger.spend(f"hour {hour}", PureDP(0.1))
    >>> print(ledger.cost(), ledger.remaining())
    pure differential privacy with epsilon = 1 None
    """

    def __init__(
        self,
        budget: AddableGuarantee,
        *,
        age: int | None = None,
        relation: Relation | None = None,
        approximate_delta: Number | None = None,
        unit: str | None = None,
    ) -> None:
        if not isinstance(budget, (PureDP, ApproxDP, ZCDP)):
            raise InvalidInputError(
                f"budget of a ledger is {budget!r}; give PureDP, ApproxDP or ZCDP"
            )
        if relation is not None:
            check_relation("relation", relation)
        PrivacyFilter.start(budget, (), approximate_delta)
        self.budget = budget
        self.age = None if age is None else checked_age(age)
        self.relation = relation
        self.unit = None if unit is None else checked_unit(unit, "unit of the ledger")
        if self.unit == ANY_UNIT:
            raise InvalidInputError(
                f"unit of the ledger is {self.unit!r}, which is not the name of a unit: give the "
                "unit that the budget protects, such as 'reader'"
            )
        self.approximate_delta = (
            None if approximate_delta is None else exact(approximate_delta, "approximate_delta")
        )
        self._accounts: dict[str, _Account] = {}
        self._spends: list[LedgerEntry] = []

    def __repr__(self) -> str:
        return f"Ledger({self.budget!r}, {len(self.entries):,} entries)"

    def __str__(self) -> str:
        return self.describe()

    def describe(self) -> str:
        """Return the budget, the spent budget and the rest, in words."""
        lines = [f"budget: {self.budget}"]
        lines += [f"{entry.name}: {entry.guarantee}" for entry in self.entries]
        if self.unit is not None:
            lines[0] += f", about one {self.unit}"
        for unit in self.units:
            rest = self.remaining(unit=unit)
            lines.append(f"remaining for one {unit}: {'nothing' if rest is None else rest}")
        return "\n".join(lines)

    @property
    def entries(self) -> tuple[LedgerEntry, ...]:
        """All entries, in the order in which they were added."""
        return tuple(self._spends)

    @property
    def units(self) -> dict[str, Relation]:
        """Neighbouring relation of each kind of unit, by the unit's name."""
        return {unit: account.relation for unit, account in self._accounts.items()}

    def spend(
        self,
        name: str,
        guarantee: Guarantee,
        *,
        unit: str = "unit",
        relation: Relation = "add_remove",
    ) -> None:
        """Record that release ``name`` spends ``guarantee``, if the budget allows it.

        Call it before the first release. If a name spends again, the guarantees add up.

        Args:
            name: name of the stream or table.
            guarantee: over all its releases.
            unit: the name of one protected unit, such as "visitor".
            relation: "add_remove" or "replace".

        Raises:
            BudgetExceededError: the total would exceed the budget; nothing is recorded.
            InvalidInputError: the guarantee cannot be counted against this budget.

        >>> ledger = Ledger(PureDP(1))
        >>> ledger.spend("visits", PureDP(0.5), relation="replace")
        >>> ledger.spend("sales", PureDP(0.5))
        Traceback (most recent call last):
        ...
        counton.base.errors.BudgetExceededError: release 'sales' asks for pure differential ...
        epsilon = 0.5, which for one unit replaced counts as pure differential privacy with
        epsilon = 1; the budget is pure differential privacy with epsilon = 1 for one unit replaced,
        of which pure differential privacy with epsilon = 0.5 is spent and pure differential privacy
        with epsilon = 0.5 is left: give at most epsilon=0.25
        """
        self._enter(_check_spend(LedgerEntry(name, guarantee, unit, relation)))

    def _enter(self, entry: LedgerEntry) -> None:
        """Add an entry to the totals, or raise an error and leave the ledger as it was."""
        before = self.unit
        self.unit = self._with_clock_of(entry)
        try:
            self._spend(entry, before or entry.unit)
        except BaseException:
            self.unit = before
            raise

    def _spend(self, entry: LedgerEntry, known_as: str) -> None:
        """Add an entry to the total of its unit, ``known_as``, or raise `BudgetExceededError`."""
        entry = self._with_canonical_unit(entry)
        unit = self.unit or entry.unit
        known_as = unit if self.unit is None else known_as
        account = self._accounts.get(known_as) or self._open_account([entry])
        counted = self._cost_of_entry(entry, account.relation)
        after = account.after(counted)
        if not after.filter.within:
            raise BudgetExceededError(self._refusal(entry, counted, account))
        self._spends.append(entry)
        self._accounts.pop(known_as, None)
        self._accounts[unit] = after

    def _with_clock_of(self, entry: LedgerEntry) -> str | None:
        """Return the unit of the budget, with the clock that ``entry`` is the first to name."""
        about = self.unit
        clock = clock_of(entry.unit)
        if about is None or not states_period(about) or clock_of(about) or not clock:
            return about
        if any(states_period(entry.unit) for entry in self._spends):  # it has no clock
            return about
        timed = f"{about} {clock}"
        return timed if is_part(timed, entry.unit) else about

    def entries_with_costs(self) -> tuple[tuple[LedgerEntry, AddableGuarantee | None], ...]:
        """Return all entries, each with the guarantee that it adds to the total of its unit.

        It depends on the total's relation and on the ledger's age; None: it has no loss yet.
        """
        return tuple(
            (entry, self._cost_of_entry(entry, self._accounts[self.unit or entry.unit].relation))
            for entry in self._spends
        )

    def cost(self, *, unit: str | None = None) -> AddableGuarantee | None:
        """Return the total of all entries, as a guarantee; None: nothing is spent.

        For a budget of ApproxDP the total is PureDP if it needs no delta; otherwise its delta
        includes all that is reserved for converting other guarantees. Guarantees that weaken with
        age may cost nothing yet at the ledger's age.

        Args:
            unit: the kind of unit; needed if the ledger has several.

        Raises:
            InvalidInputError: several kinds of units and no ``unit``.
        """
        account = self._account(unit)
        return None if account is None else account.filter.cost

    def remaining(
        self,
        kind: type[AddableGuarantee] | None = None,
        *,
        unit: str | None = None,
        relation: Relation | None = None,
    ) -> AddableGuarantee | None:
        """Return the largest guarantee known to fit in the rest of the budget; None if none fits.

        Args:
            kind: PureDP, ApproxDP or ZCDP, if a budget of ApproxDP allows several.
            unit: the kind of unit; needed if the ledger has several.
            relation: that of the next release; None: the ledger's own.

        Raises:
            InvalidInputError: several kinds of units and no ``unit``, or a relation that cannot be
                counted.

        >>> ledger = Ledger(ApproxDP(1, 1e-6))
        >>> ledger.spend("visits", ZCDP(0.01))
        >>> print(ledger.remaining(ZCDP))
        zero-concentrated differential privacy with rho = about 0.0123924
        """
        account = self._account(unit)
        if account is None:
            first = ZCDP(1) if kind is ZCDP else self.budget
            by = self.relation or relation or "add_remove"
            account = _Account(
                by, PrivacyFilter.start(self.budget, [first], self.approximate_delta)
            )
        if relation == "replace" and account.relation == "add_remove":
            raise InvalidInputError(_replacement_refusal(unit or "unit", "what remains"))
        rest = account.filter.remaining(kind)
        if rest is not None and account.relation == "replace" and relation == "add_remove":
            rest = guarantee_when_replaced(rest)
        return rest

    def to_dict(self) -> dict[str, Any]:
        """Return budget, rules and entries as JSON values, for `from_dict`."""
        return {**self.terms(), "spends": [entry.to_dict() for entry in self._spends]}

    def terms(self) -> dict[str, Any]:
        """Return the budget and all rules of the ledger, without its entries, as JSON values.

        First entries fix some rules: the relation of each kind of unit, the Renyi orders and the
        shares of delta.
        """
        share = self.approximate_delta
        return {
            **({} if self.unit is None else {"unit": self.unit}),
            "limit": self.budget.to_dict(),
            "age": self.age,
            "relation": self.relation,
            "approximate_delta": None if share is None else text(share),
            "units": _fixed_terms(self._accounts),
        }

    @classmethod
    def from_dict(cls, saved: Mapping[str, Any]) -> Ledger:
        """Rebuild a ledger from `to_dict`.

        Args:
            saved: JSON values that ``to_dict`` returned.

        Raises:
            InvalidInputError: a value is missing or invalid.
            BudgetExceededError: the entries exceed the budget.
        """
        try:
            budget: Any = guarantee_from_dict(saved["limit"])
            age, relation, share = (saved[key] for key in ("age", "relation", "approximate_delta"))
            entries = [LedgerEntry.from_dict(entry) for entry in saved["spends"]]
            fixed = dict(saved["units"])
            about = saved.get("unit")
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise InvalidInputError(
                f"the saved ledger cannot be read ({error!r}): restore it from a copy"
            ) from error
        terms = {"age": age, "relation": relation, "approximate_delta": share, "unit": about}
        ledger = cls(budget, **terms)
        ledger._accounts = _accounts_of(ledger.budget, fixed)
        try:
            ledger.enter_all(entries)
        except BudgetExceededError as error:
            raise BudgetExceededError(
                f"the saved ledger was altered, since it breaks its own budget ({error}): restore "
                "it from a copy"
            ) from error
        return ledger

    def enter_all(self, entries: Iterable[LedgerEntry]) -> None:
        """Spend several entries together, such as those made before a budget was set.

        They decide together the rules of a kind of unit that has no entry yet.

        Args:
            entries: entries in the order in which they are recorded.

        Raises:
            BudgetExceededError: the total exceeds the budget; do not use the ledger afterwards.
            InvalidInputError: a guarantee cannot be counted against this budget.
        """
        entries = [_check_spend(entry) for entry in entries]
        words = dict.fromkeys(self._accounts)
        parts = [entry for entry in entries if states_period(entry.unit)]
        if parts and not self._spends:
            self.unit = self._with_clock_of(parts[0])
        for number, entry in enumerate(entries):  # each in the spelling of the first
            entries[number] = entry = self._with_canonical_unit(entry, words)
            words.setdefault(entry.unit)
        for entry in entries:
            unit = self.unit or entry.unit
            same = [other for other in entries if unit in (self.unit, other.unit)]
            if unit not in self._accounts:
                self._accounts[unit] = self._open_account(same)
            self._enter(entry)

    def _with_canonical_unit(
        self, entry: LedgerEntry, words: Iterable[str] | None = None
    ) -> LedgerEntry:
        """Return an entry with its unit's name spelt as in ``words``, or as in the totals.

        Raises `InvalidInputError` if the budget is about a unit that this entry does not protect.
        """
        units = [*([] if self.unit is None else [self.unit]), *(words or self._accounts)]
        entry = entry._replace(unit=canonical_unit(entry.unit, units))
        if self.unit is None or is_part(self.unit, entry.unit):
            return entry
        less = "less" if is_part(entry.unit, self.unit) else "something else"
        remedy = f"protect one {self.unit}"
        if states_period(entry.unit) and is_part(
            without_clock(self.unit), without_clock(entry.unit)
        ):
            less = "a period by another clock, of which one meets several of the other"
            remedy = f"count by that time zone and column, protect one {base_unit(self.unit)}"
        raise InvalidInputError(
            f"release {entry.name!r} protects one {entry.unit}, but the budget of this ledger is "
            f"about one {self.unit}: that is {less}, so this budget cannot count the release; "
            f"{remedy}, or use another ledger"
        )

    def _open_account(self, entries: list[LedgerEntry]) -> _Account:
        """Return an empty account whose rules some entries, chosen beforehand, decide."""
        replaced = any(entry.relation == "replace" for entry in entries)
        relation = self.relation or ("replace" if replaced else "add_remove")
        counted = [self._cost_of_entry(entry, relation) for entry in entries]
        guarantees = [guarantee for guarantee in counted if guarantee is not None]
        return _Account(
            relation, PrivacyFilter.start(self.budget, guarantees, self.approximate_delta)
        )

    def _account(self, unit: str | None) -> _Account | None:
        """Return the account of a kind of unit; None: nothing is spent."""
        accounts = self._accounts
        if unit is None and len(accounts) > 1:
            raise InvalidInputError(
                f"this ledger has separate totals for {' and '.join(map(repr, accounts))}; choose "
                f"one with {param('privacy_unit')}={next(iter(accounts))!r}"
            )
        if unit is None or self.unit is not None:
            return next(iter(accounts.values()), None)
        account_unit = canonical_unit(unit, accounts)
        if account_unit not in accounts:
            short = {account: without_clock(account) for account in accounts}
            alike = [
                account
                for account in short
                if short[account] == canonical_unit(unit, short.values())
            ]
            if len(alike) > 1:
                raise InvalidInputError(
                    f"this ledger has separate totals for {' and '.join(map(repr, alike))}, each "
                    f"by its own clock; choose one with {param('privacy_unit', alike[0])}"
                )
            account_unit = next(iter(alike), account_unit)
        return accounts.get(account_unit)

    def _cost_of_entry(self, entry: LedgerEntry, relation: Relation) -> AddableGuarantee | None:
        """Return what an entry adds to a total of this relation; None: it has no loss yet."""
        guarantee: object = entry.guarantee
        if isinstance(guarantee, AgesWithData):
            if self.age is None:
                raise InvalidInputError(
                    f"release {entry.name!r} asks for {guarantee}, which weakens as data ages and "
                    f"can be added to other guarantees only at a fixed age: give {param('age')} of "
                    "the budget"
                )
            guarantee = guarantee.at_age(self.age)
        if guarantee is None:
            return None
        if not isinstance(guarantee, (PureDP, ApproxDP, ZCDP)):
            raise InvalidInputError(
                f"release {entry.name!r} asks for {guarantee}, which a ledger cannot add up: give "
                "PureDP, ApproxDP or ZCDP"
            )
        addable = isinstance(guarantee, (PureDP, type(self.budget)))
        if not addable and not isinstance(self.budget, ApproxDP):
            raise InvalidInputError(
                f"release {entry.name!r} asks for {guarantee}, which a budget of {self.budget} "
                f"never covers, however large: give "
                f"{'PureDP or ZCDP' if isinstance(self.budget, ZCDP) else 'PureDP'}, or give the "
                "ledger a budget of ApproxDP"
            )
        if entry.relation == relation and not self._is_of_whole(entry, relation):
            return guarantee
        if entry.relation == "replace":
            raise InvalidInputError(_replacement_refusal(entry.unit, f"release {entry.name!r}"))
        return when_replaced(guarantee)

    def _is_of_whole(self, entry: LedgerEntry, relation: Relation) -> bool:
        """Return whether the guarantee is of a larger unit and has to be converted."""
        return relation == "add_remove" and self.unit not in (None, entry.unit)

    def _refusal(
        self, entry: LedgerEntry, counted: AddableGuarantee | None, account: _Account
    ) -> str:
        """Return the message of `BudgetExceededError`: the request, its cost and the rest."""
        request = str(entry.guarantee)
        ways = []
        if isinstance(entry.guarantee, AgesWithData):
            ways.append(f"at age {self.age:,}")
        unit = self.unit or entry.unit
        if self._is_of_whole(entry, account.relation):
            ways.append(f"for one {unit}, a part of one {entry.unit},")
        elif entry.relation != account.relation:
            ways.append(f"for one {unit} replaced")
        if ways:
            request += f", which {' and '.join(ways)} counts as {counted}"
        if self._is_of_whole(entry, account.relation):
            request += (
                f" (more, because other rows of the {entry.unit} may count in place of those of "
                f"the {without_clock(unit)} that are taken out)"
            )
        remaining = account.filter.remaining(None if counted is None else type(counted))
        spent = account.filter.cost
        return (
            f"release {entry.name!r} asks for {request}; the budget is {self.budget} for one "
            f"{unit} {NEIGHBOURS[account.relation]}, of which "
            f"{'nothing' if spent is None else spent} is spent and "
            f"{'nothing' if remaining is None else remaining} is left: "
            f"{self._remedy(entry, counted, account, remaining)}"
        )

    def _remedy(
        self,
        entry: LedgerEntry,
        counted: AddableGuarantee | None,
        account: _Account,
        remaining: AddableGuarantee | None,
    ) -> str:
        shares = account.filter
        share = param("approximate_delta")
        shared = isinstance(self.budget, ApproxDP)
        if remaining is None and shared and not shares.orders and shares.remaining() is not None:
            return (
                "its delta is reserved for ApproxDP guarantees; ask for PureDP or ApproxDP, or set "
                f"the budget with {share} below {text(shares.approximate_delta)}"
            )
        if remaining is None:
            return "raise the budget"
        fits = self._fitting(entry, account, remaining)
        if fits is None:
            return "ask for less, or raise the budget"
        options = [param(name, text(value)) for name, value in fits.losses.items()]
        remedy = f"give at most {' '.join(options)}"
        if isinstance(entry.guarantee, ApproxDP) and not isinstance(fits, ApproxDP):
            remedy += f" without {param('delta')}"
        if shared and isinstance(counted, ApproxDP) and shares.orders:
            remedy += (
                f"; {text(shares.approximate_delta)} of its delta is set apart for ApproxDP "
                f"guarantees, the rest turns others into epsilon and delta: see {share}"
            )
        return remedy

    def _fitting(
        self, entry: LedgerEntry, account: _Account, remaining: AddableGuarantee
    ) -> Guarantee | None:
        """Return the largest such guarantee of few digits that fits in ``remaining``, or None."""
        requested = entry.guarantee
        relation = account.relation
        same = entry.relation == relation and not self._is_of_whole(entry, relation)
        rest = remaining if same else guarantee_when_replaced(remaining)
        largest: Guarantee = rest
        if isinstance(requested, AgesWithData):
            largest = self._guarantee_by_age(requested, rest)
        elif isinstance(requested, PureDP) and isinstance(rest, ZCDP):
            largest = PureDP(Fraction(math.sqrt(2 * Fraction(rest.rho))) * (1 - _ROUNDING))
        elif isinstance(requested, ApproxDP) and isinstance(rest, ApproxDP):
            largest = ApproxDP(rest.epsilon, min(Fraction(requested.delta), Fraction(rest.delta)))
        rounded = {name: rounded_down_short(value) for name, value in largest.losses.items()}
        if not all(rounded.values()):
            return None
        guarantee: Guarantee = replace(cast(Any, largest), **rounded)
        counted = self._cost_of_entry(entry._replace(guarantee=guarantee), account.relation)
        return guarantee if counted is None or account.filter.after(counted).within else None

    def _guarantee_by_age(self, requested: AgesWithData, rest: AddableGuarantee) -> Guarantee:
        """Return ``requested`` with less loss, so that at ``self.age`` it loses ``rest``."""
        assert self.age is not None
        guarantee = cast("Guarantee", requested)
        now = requested.at_age(self.age)
        name = next(iter(guarantee.losses), None)
        if name is None:
            return guarantee
        requested_loss = Fraction(0) if now is None else now.losses.get(name, Fraction(0))
        remaining_loss = rest.losses.get(name, Fraction(0))
        smaller = (
            guarantee.losses[name] * remaining_loss / requested_loss
            if requested_loss
            else Fraction(0)
        )
        return cast("Guarantee", replace(cast(Any, guarantee), **{name: smaller or _HALF}))


#: Digits of a parameter that a message suggests, and the largest relative error of a square root.
_DIGITS = 6
_ROUNDING = Fraction(1, 2**40)


def rounded_down_short(number: Fraction) -> Fraction:
    """Return a number of at most six digits that is at most ``number``; 0 if that is below 0."""
    if number <= 0:
        return Fraction(0)
    exponent = math.floor(math.log10(number)) + 1
    unit = Fraction(10) ** (exponent - _DIGITS)
    return number // unit * unit


def _fixed_terms(accounts: Mapping[str, _Account]) -> dict[str, object]:
    """Return what first entries of each kind of unit fixed: relation, orders, shares of delta."""
    return {
        unit: {"relation": account.relation, **account.filter.to_dict()}
        for unit, account in accounts.items()
    }


def _accounts_of(budget: AddableGuarantee, fixed: Mapping[str, object]) -> dict[str, _Account]:
    """Rebuild accounts, with nothing spent, from the values of `_fixed_terms`."""
    accounts = {}
    for unit, saved in fixed.items():
        if not isinstance(saved, Mapping) or saved.get("relation") not in get_args(Relation):
            raise InvalidInputError(
                f"the saved ledger cannot be read ({saved!r} of unit {unit!r}): restore it from a "
                "copy"
            )
        accounts[unit] = _Account(saved["relation"], PrivacyFilter.from_dict(budget, dict(saved)))
    return accounts


def totals(spends: Iterable[LedgerEntry]) -> dict[str, tuple[Relation, AddableGuarantee | None]]:
    """Return the total privacy loss of all releases, for each kind of unit; no budget is enforced.

    Guarantees add up by basic composition; if some are zero-concentrated, pure ones are converted
    to rho first. The sum holds if no guarantee was chosen after seeing earlier releases; otherwise
    set a budget beforehand, with `Ledger`.

    A total is None if some guarantees weaken with age, or if there are both zero-concentrated and
    approximate ones.

    >>> sales = LedgerEntry("sales", PureDP("0.5"), relation="replace")
    >>> totals([LedgerEntry("visits", PureDP(1)), sales])
    {'unit': ('replace', PureDP(epsilon=2.5))}
    """
    units: dict[str, list[LedgerEntry]] = {}
    for entry in map(_check_spend, spends):
        units.setdefault(canonical_unit(entry.unit, units), []).append(entry)
    return {unit: _total(entries) for unit, entries in units.items()}


#: The caution that is printed below several totals.
CAUTION_BELOW_TOTALS: Final = (
    "units are counted apart, and the total of one unit says nothing about another unit"
)


def totals_in_words(totals: Mapping[str, tuple[Relation, AddableGuarantee | None]]) -> list[str]:
    """Return a line for each total, and a line of caution; nothing if there are fewer than two."""
    if len(totals) < 2:
        return []
    lines = [
        f"{'no one sum' if total is None else total} for one {unit} {NEIGHBOURS[relation]}"
        for unit, (relation, total) in totals.items()
    ]
    return [*lines, f"{CAUTION_BELOW_TOTALS}; they do not add up to one guarantee"]


def _total(entries: list[LedgerEntry]) -> tuple[Relation, AddableGuarantee | None]:
    replaced = any(entry.relation == "replace" for entry in entries)
    relation: Relation = "replace" if replaced else "add_remove"
    if not all(isinstance(entry.guarantee, PureDP | ApproxDP | ZCDP) for entry in entries):
        return relation, None
    kinds = {type(entry.guarantee) for entry in entries}
    if {ZCDP, ApproxDP} <= kinds:
        return relation, None
    loss_filter = PrivacyFilter.start(ZCDP(1) if ZCDP in kinds else PureDP(1))
    if ApproxDP in kinds:
        loss_filter = PrivacyFilter.start(ApproxDP(1, _HALF), approximate_delta=_HALF)
    total = _Account(relation, loss_filter)
    for entry in entries:
        guarantee = cast("AddableGuarantee", entry.guarantee)
        total = total.after(guarantee if entry.relation == relation else when_replaced(guarantee))
    try:
        return relation, total.filter.cost
    except InvalidInputError:  # a delta of 1 or more guarantees nothing
        return relation, None


def _replacement_refusal(unit: str, release: str) -> str:
    return (
        f"{release} protects one {unit} that is replaced, which does not hide whether it is there, "
        f"but the ledger counts each {unit} as added or removed: give a contribution of "
        f"add_remove, or begin a ledger with {param('relation', 'replace')}"
    )


def _check_spend(entry: LedgerEntry) -> LedgerEntry:
    check_relation("relation", entry.relation)
    return entry._replace(unit=checked_unit(entry.unit, f"unit of release {entry.name!r}"))
