"""The share of rows that bounds leave out: rows beyond a user's bound, and rows whose value is
clipped.

It is a statistic of a report, beside the numbers that have these bounds.
"""

# Each row of a unit enters exactly one of two cells: rows that bounds leave out, and rows that they
# do not. So the unit's rows together, at most `most` of the report, change the two cells by `most`
# in the 1-norm, and by at most `most` in the 2-norm, with equality if all are in one cell. If no
# value is clipped, at most `first` rows of a unit, its first ones, are in one cell, and at most
# `most - first` in the other: the squared 2-norm is at most first^2 + (most - first)^2. Rows beyond
# `most` are not read: without such a second bound one unit could add any number of left-out rows,
# and no noise would hide them. Whether a row is left out depends on its own value, and on its rank
# among its unit's rows, so no unit changes what the rows of another enter.

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np
from typing_extensions import override

from counton.base.arrays import Integers
from counton.base.errors import InvalidInput, field
from counton.base.exact import Number, check_integer, exact, quote, text
from counton.base.options import LOWER, UPPER, OwnColumns, Statement
from counton.numbers.formulas import Estimate
from counton.privacy import value_grid
from counton.statistics.average import Average
from counton.statistics.catalogue import statistic_named
from counton.statistics.readings import Cells
from counton.statistics.tally_statistic import X

_NAMES = {"share": "mean", "rows": "sum"}
#: Statistics whose left-out rows a job can measure, and the options that do not go with it.
_MEASURED = ("count", "sum", "average")
_EXCLUDED = {
    "first distinct most_a_window": ", which bounds the rows of users in another way",
    "within": ", which divides a stated epsilon or rho",
    "expire": ", whose promise is stated by ages",
    "number replace": ", which measures whether a row is present",
}


class ShareLeftOut(Average):
    """The share of rows that bounds leave out, and the number of these rows.

    A row is left out if its value lies beyond the bounds. In a report (several statistics of the
    same rows) the other statistics may count only the first rows of each user; then all later rows
    of a user are also left out. The share is an average of zeros and ones. Its interval is
    Fieller's, for a ratio of two noisy sums.

    Args:
        lower, upper: a row with a value below or above these bounds is left out; None: rows have no
            values.
        unit: see `Average`.

    Raises:
        InvalidInput: only one bound is given, or the lower one is not below the upper one.

    >>> ShareLeftOut(0, 60).encode(np.array([-1.0, 0.0, 60.0, 90.0])).tolist()
    [1, 0, 0, 1]
    >>> ShareLeftOut().entries_by_bound(0, beyond=1), ShareLeftOut().entries_by_bound(0, beyond=0)
    ([(0, 1), (1, 0)], [(0, 0), (1, 1)])
    """

    card = replace(
        Average.card,
        besides_noise=None,
        units=None,
        finds=False,
        keyword="left-out",
        says="The share of rows that bounds leave out.",
        phrase="share of rows that bounds leave out",
        unit_word="share",
        on_screen=("share",),
        event="row",
        also_called=(),
        options=(
            replace(Average.card.options[0], needed=False),
            replace(LOWER, needed=False),
            replace(UPPER, needed=False),
        ),
    )
    asks = ()

    def __init__(
        self,
        lower: Number | None = None,
        upper: Number | None = None,
        *,
        unit: str | None = None,
    ) -> None:
        super().__init__(0, 1, 1, unit=unit)
        self.card = replace(type(self).card, known_beforehand=("rows",))
        no_parts: Any = ()
        self.within: tuple[Fraction, Fraction] | None = None
        if lower is None and upper is None:
            self.parts = no_parts
            return
        if lower is None or upper is None or exact(lower, "lower") >= exact(upper, "upper"):
            raise InvalidInput(
                f"{field('lower')} is {quote(lower)} and {field('upper')} {quote(upper)}; give two "
                "bounds, the lower one first, or none"
            )
        self.within = exact(lower, "lower"), exact(upper, "upper")

    @classmethod
    @override
    def columns_of_spec(cls, stated: Statement) -> OwnColumns:
        value = stated["value"]
        return OwnColumns() if value is None else OwnColumns((value,), (value,))

    @classmethod
    @override
    def from_spec(cls, stated: Statement) -> ShareLeftOut:
        if (stated["value"] is None) != (stated["lower"] is None):
            stated.require("value", "lower", "upper")
        return cls(**stated.only("lower", "upper"))

    def squared_norm(self, first: int, most: int) -> int:
        """Bound the squared 2-norm of the change that all rows of one unit make in the two cells.

        One cell counts the rows that are left out, the other cell all other rows.

        Args:
            first: largest number of a unit's rows that count; later rows are left out.
            most: largest number of a unit's rows that enter the two cells; later rows are ignored.

        >>> ShareLeftOut().squared_norm(2, 5), ShareLeftOut(0, 60).squared_norm(2, 5)
        (13, 25)
        """
        return first**2 + (most - first) ** 2 if self.within is None else most**2

    @property
    @override
    def parameters(self) -> dict[str, Any]:
        ends = () if self.within is None else map(text, self.within)
        own = dict(zip(("lower", "upper"), ends, strict=False))
        return {**own, **self._parameters_of("unit")}

    @override
    def gives(self, place: int | None) -> Mapping[str, Any]:
        return {}

    @override
    def encode(self, *parts: Any) -> Integers:
        """Return 1 for each row whose value lies beyond the bounds, and 0 for all others."""
        if self.within is None:
            return np.zeros(len(parts[0]), np.int64)
        low, high = map(float, self.within)
        values = value_grid.finite(parts[0])
        return ((values < low) | (values > high)).astype(np.int64)

    @override
    def entries_by_bound(self, code: X, beyond: X) -> Sequence[tuple[X | int, X | int]]:
        return self.entries(code + beyond - code * beyond)

    @property
    @override
    def number_names(self) -> tuple[str, ...]:
        return tuple(_NAMES)

    @override
    def number_of(self, cells: Cells, name: Any = None) -> Estimate:
        if name is not None and name not in _NAMES:
            raise InvalidInput(f"name is {quote(name)}; give {' or '.join(map(repr, _NAMES))}")
        return self._estimate_of(cells, _NAMES["share" if name is None else name])


#: Name of the measured share in the report of a job that measures it.
_LEFT_OUT = "left out"


def with_left_out(what: Any, stated: Mapping[str, Any]) -> tuple[str, dict[str, Any]]:
    """Convert the options of a job that has ``measure_left_out`` to the options of a report.

    The report has two statistics: the job's, and the share of rows that its bounds leave out. Both
    share one guarantee, one entry in the ledger and one table.

    Args:
        what: the statistic of the job, or its name.
        stated: the stated options of the job and of its statistic, by name.

    Returns:
        The name of the report, and its options.

    Raises:
        InvalidInput: the share is not between 0 and 1, the statistic has no bounds, or another
            option does not go with it.

    >>> what, job = with_left_out("count", {"measure_left_out": "0.1", "user": "who", "most": 3})
    >>> what, job["most"]
    ('report', 6)
    >>> for name, member in job["statistics"].items():
    ...     print(name, member)
    count {'statistic': 'count', 'most': 3, 'share': '0.9'}
    left out {'statistic': 'left-out', 'most': 3, 'share': '0.1'}
    """
    rest = {**stated.get("options", {}), **stated}
    given, upto = rest.pop("measure_left_out"), rest.pop("measure_most", None)
    share, asked = exact(given, "measure_left_out"), field("measure_left_out", given)
    if not 0 < share < 1:
        raise InvalidInput(
            f"{asked} is the part of the privacy budget that measures what bounds leave out; give "
            "a number above 0 and below 1, such as 0.1"
        )
    if what not in _MEASURED:
        raise InvalidInput(
            f"{asked} is for {', '.join(_MEASURED[:-1])} and {_MEASURED[-1]}; leave it out, or "
            f"give a report a statistic {ShareLeftOut.card.keyword!r} of its own"
        )
    for names, why in _EXCLUDED.items():
        for name in names.split():
            if rest.get(name) not in (None, False):
                raise InvalidInput(
                    f"{field(name, rest[name])} does not go with {asked}{why}; leave one of them "
                    "out"
                )
    if rest.get("unknown") == "discover":
        raise InvalidInput(
            f"{field('unknown', 'discover')} does not go with {asked}, whose groups must be "
            f"declared; give {field('domain')}, or leave one of them out"
        )
    most = rest.get("most")
    if most is None and (rest.get("user") is not None or what == "count"):
        raise InvalidInput(
            f"{asked} needs a bound that leaves rows out: give {field('user')} and "
            f"{field('most')}, or leave it out"
        )
    own = dict[str, Any]()
    for option in statistic_named(what).card.options:
        if (one := rest.pop(option.name, None)) is not None:
            own[option.name] = one if isinstance(one, str) else text(exact(one, option.name))
    bounds = {name: one for name, one in own.items() if name in ("value", "lower", "upper")}
    first = dict[str, int]()
    if most is not None:
        first = {"most": most}
        rest["most"] = 2 * most if upto is None else check_integer("measure_most", upto, 1, 2**20)
        if rest["most"] <= most:
            raise InvalidInput(
                f"{field('measure_most', upto)} must be above {field('most', most)}, because rows "
                "between the two are measured; give a larger number, or leave it out for twice as "
                "many"
            )
    elif upto is not None:
        raise InvalidInput(
            f"{field('measure_most', upto)} needs {field('user')} and {field('most')}; leave it out"
        )
    main: dict[str, Any] = {"statistic": what, **own, **first, "share": text(1 - share)}
    beside: dict[str, Any] = {
        "statistic": ShareLeftOut.card.keyword,
        **bounds,
        **first,
        "share": text(share),
    }
    return "report", {**rest, "options": {}, "statistics": {what: main, _LEFT_OUT: beside}}


def has_left_out_share(report: Any, what: Any) -> bool:
    """Return True if `with_left_out` made a report, for a job with the statistic ``what``.

    Such a report consists of this statistic and the share of rows that its bounds leave out.
    """
    names = getattr(report, "statistics", {})
    return isinstance(what, str) and [*names] == [what, _LEFT_OUT]
