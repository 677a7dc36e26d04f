"""Tables released at one go: journaled in a state, or remembered by whoever holds the key.

The functions here check and state; what is measured stands in ``counton.mechanisms``, what is kept
in `counton.store.table_journal`.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from numpy.typing import ArrayLike

from counton.errors import InvalidInput
from counton.lazy import require
from counton.mechanisms.contingency import ContingencyDraft, ContingencyRelease
from counton.mechanisms.hierarchy import HierarchyDraft, HierarchyRelease
from counton.mechanisms.ranges import Asked, RangesDraft, RangesRelease, Strategies
from counton.mechanisms.tables import R, TableDraft
from counton.noise import Key
from counton.noise.key import check_key
from counton.privacy import Contribution, Guarantee

if TYPE_CHECKING:
    from counton.strategies.lines import LineStrategy

State = str | os.PathLike[str]
Kept = Key | State | None


def release_ranges(
    counts: ArrayLike,
    *,
    guarantee: Guarantee,
    contribution: Contribution | None = None,
    state: State | None = None,
    name: str = "ranges",
    key: Kept = None,
    strategy: str | LineStrategy | Strategies = "auto",
    workload: Asked | tuple[Asked, ...] = "ranges",
) -> RangesRelease:
    """Measure a line or grid of counts privately, once, so that any interval can be answered.

    The measurements y = C x + z are exact integers; everything released is a function of y.

    With ``state`` the release is journaled and its guarantee entered in the ledger before it is
    returned; asked again, the journal answers, on any machine and to the bit. Without it, keep
    books yourself: record ``terms`` and ``input_digest`` before you show the release, and refuse a
    name that was recorded with others, since the same noise on changed data gives the change away.

    Args:
        counts: non-negative integers, one axis (a line) or more (a grid).
        guarantee, contribution, strategy, workload: as in `counton.plan_ranges`.
        state: path of a SQLite file (made if missing), or a database URL.
        name: of this release; another name has other noise and spends the guarantee again.
        key: where the noise comes from: the key, or, with a state, where it is kept, as for
            `Stream.create`; ``STATE.key`` beside the state unless given.

    Raises:
        InvalidInput: counts that are not non-negative integers, no cells, neither state nor key, or
            as `counton.plan_ranges`.
        SumOverflow: counts too large to be measured exactly.
        ReplayMismatch: the state has released other data, or on other terms, under this name.
        BudgetExceeded: the guarantee goes beyond the state's limit; nothing is released.
        StateError, WrongKey, StreamConflict: the state or its key cannot be used.

    >>> from counton.privacy import ZCDP
    >>> release = release_ranges([3, 1, 4, 1, 5], guarantee=ZCDP(2), key=Key.generate())
    >>> release.strategy, bool(release.sum(0, 5) == release.sum(0, 2) + release.sum(2, 5))
    ('optimal', True)
    >>> release.std([0, 1], [5, 2]).round(2).tolist()
    [0.82, 0.57]
    """
    draft = RangesDraft(
        counts,
        guarantee=guarantee,
        contribution=contribution,
        name=name,
        strategy=strategy,
        workload=workload,
    )
    return _released(draft, state, key)


def release_hierarchy(
    leaves: Any,
    *,
    guarantee: Guarantee | None = None,
    contribution: Contribution | None = None,
    state: State | None = None,
    name: str = "hierarchy",
    key: Kept = None,
    domain: Any,
    levels: Sequence[str] | None = None,
    value: str = "count",
    targets: Mapping[str, float] | None = None,
) -> HierarchyRelease:
    """Release the counts of all nodes of a hierarchy, once, with noise that adds up.

    Everything released is a function of integer measurements with exact discrete noise.

    Args:
        leaves: a data frame or mapping of columns with one row a leaf; leaves without a row count
            0. Or, with a `Tree`, a sequence of counts in the order of ``Tree.leaves``.
        guarantee, contribution, targets: as in `counton.plan_hierarchy`.
        state, name, key: as in `release_ranges`.
        domain: which leaves exist, public: a `Tree`, or a table with the level columns.
        levels: names of the level columns, coarsest first; by default those of the `Tree`.
        value: name of the column of counts; another column has other noise.

    Raises:
        InvalidInput: leaves outside the domain or listed twice, counts that are not non-negative
            integers, a domain that is no tree, neither state nor key, or as
            `counton.plan_hierarchy`.
        SumOverflow: counts too large to be measured exactly.
        ReplayMismatch, BudgetExceeded, StateError, WrongKey, StreamConflict: as `release_ranges`.

    >>> from counton.privacy import ZCDP
    >>> domain = {"state": ["CA", "CA", "DC"], "county": ["Kings", "Napa", None]}
    >>> leaves = {"state": ["CA"], "county": ["Napa"], "count": [138019]}
    >>> release = release_hierarchy(
    ...     leaves, domain=domain, levels=["state", "county"], guarantee=ZCDP(0.5),
    ...     key=Key.generate(),
    ... )
    >>> round(release.std("state"), 3), round(release.std("county"), 3)
    (1.291, 1.291)
    >>> release.estimate("CA") == release.sum_of([("CA", "Kings"), ("CA", "Napa")])[0]
    True
    """
    draft = HierarchyDraft(
        leaves,
        guarantee=guarantee,
        contribution=contribution,
        name=name,
        domain=domain,
        levels=levels,
        value=value,
        targets=targets,
    )
    return _released(draft, state, key)


def release_contingency(
    data: Any,
    *,
    guarantee: Guarantee,
    contribution: Contribution | None = None,
    state: State | None = None,
    name: str = "contingency",
    key: Kept = None,
    columns: Sequence[str],
    domain: Mapping[str, Sequence[Any]],
    value: str | None = None,
    equal: bool = False,
) -> ContingencyRelease:
    """Release a contingency table with all its margins, once.

    Args:
        data: a data frame or mapping of columns; one row a unit, or a count in column ``value``.
        guarantee, contribution, state, name, key: as in `release_ranges`.
        columns: the columns of the table.
        domain: for each column the values it can have: public, and all of them.
        value: name of a column of counts; None counts rows.
        equal: the same variance for every margin, instead of least total error over all margins.

    Raises:
        InvalidInput: missing columns, empty or repeating domains, values outside them, counts
            that are not non-negative integers, too many cells to be measured in memory, or as
            `release_ranges`.
        SumOverflow: counts too large to be measured exactly.
        ReplayMismatch, BudgetExceeded, StateError, WrongKey, StreamConflict: as `release_ranges`.

    >>> from counton.privacy import ZCDP
    >>> data = {"sex": ["f", "m", "f"], "smokes": ["no", "no", "yes"]}
    >>> table = release_contingency(
    ...     data, columns=["sex", "smokes"], domain={"sex": ["f", "m"], "smokes": ["no", "yes"]},
    ...     guarantee=ZCDP(0.5), key=Key.generate(), equal=True,
    ... )
    >>> table.margin("sex")["sex"].tolist(), table.margin("sex")["std"].round(3).tolist()
    (['f', 'm'], [1.333, 1.333])
    >>> bool(table.margin("sex")["estimate"].sum() == table.margin()["estimate"][0])
    True
    """
    draft = ContingencyDraft(
        data,
        guarantee=guarantee,
        contribution=contribution,
        name=name,
        columns=columns,
        domain=domain,
        value=value,
        equal=equal,
    )
    return _released(draft, state, key)


def _released(draft: TableDraft[R], state: State | None, key: Kept) -> R:
    """A draft's release: by the journal of a state, or under a key alone."""
    if state is None and key is None:
        raise InvalidInput(
            "neither state nor key is given: pass state='visits.db' to have the release journaled, "
            "or a key if you keep books yourself"
        )
    if state is None:
        return draft.release(check_key(key))
    require("sqlalchemy")
    from counton.store import table_journal

    return table_journal.released(draft, state, key)
