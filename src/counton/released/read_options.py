"""What is shown of the readings of a statistic, and how a chart of them is worded."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from counton.base.errors import InvalidInput, field
from counton.base.exact import check_integer
from counton.base.options import TOP
from counton.numbers.fit_request import Fit
from counton.statistics import Statistic
from counton.statistics.by_group import inner_of
from counton.statistics.statistic import check_asked

if TYPE_CHECKING:
    from counton.charts.style import Caption
    from counton.released.description import Description


#: Groups that there can be where nobody declares them, unless stated.
ROOM = 1_000_000


@dataclass(frozen=True)
class View:
    """What is shown of readings; None: what the statistic shows by itself.

    Attributes:
        ask: names of cells, where they are read on demand; sets of nodes, whose cuts are asked;
            shares of quantiles; or groups, instead of the largest.
        over: how many steps up to each are shown together; None: all so far.
        top: how many groups are ranked.
        room: of groups that nobody declared, how many there can be, known to the public.
        fit: how the numbers of a table are made to fit; None: as they were released.

    >>> View(over=24).over
    24
    """

    ask: tuple[Any, ...] | None = None
    over: int | None = None
    top: int | None = None
    fit: Fit | None = None
    room: int | None = None

    def to_dict(self) -> dict[str, Any]:
        """As JSON values."""
        ask = None if self.ask is None else list(self.ask)
        found: dict[str, Any] = {"ask": ask, "over": self.over, "top": self.top}
        if self.room is not None:
            found["room"] = self.room
        return found if self.fit is None else found | {"fit": self.fit.to_dict()}

    def of_ranking(self) -> View:
        """What is shown of groups that nobody declared, by their size."""
        return View(self.ask, top=TOP if self.top is None else self.top, room=self.room or ROOM)

    @classmethod
    def from_dict(cls, saved: Mapping[str, Any]) -> View:
        """Inverse of `to_dict`."""
        ask = saved["ask"]
        ask = None if ask is None else tuple(ask)
        found = cls(ask, saved["over"], saved["top"], room=saved.get("room"))
        if not saved.get("fit"):
            return found
        return replace(found, fit=Fit.from_dict(saved["fit"]))


#: What a statistic shows by itself.
EVERYTHING = View()

#: How the name of a page for a website ends: see `counton.released.web_page`.
PAGE = ".html"
#: How a chart is worded, and how wide it is: fields of whatever asks for one.
LOOK = ("title", "axis", "source", "width")


def check_look(asked: Any) -> None:
    """Refuse words for a chart that nobody asks for, and a width that is none.

    Args:
        asked: has the fields of `LOOK`, ``plot``, and ``out``, which may be a page with a chart.

    Raises:
        InvalidInput: naming the field.
    """
    drawn = asked.plot is not None, asked.plot is not None or str(asked.out).lower().endswith(PAGE)
    for given in LOOK:
        if getattr(asked, given) is not None and not drawn[given != "width"]:
            raise InvalidInput(
                f"{field(given, getattr(asked, given))} is of a chart; give {field('plot')} too"
            )
    if asked.width is not None:
        from counton.charts.style import check_width

        check_width(asked.width)


@dataclass(frozen=True)
class Look:
    """How a chart is worded, and how wide it is: see `Release.figures`."""

    title: str | None = None
    axis: str | None = None
    source: str | None = None
    width: float | None = None

    def around(self, subtitle: str, foot: str, *, title: str = "", axis: str = "") -> Caption:
        """What stands around a chart that has these words of its own."""
        from counton.charts.style import Caption, check_width

        title = title if self.title is None else self.title
        axis = axis if self.axis is None else self.axis
        return Caption(title, subtitle, axis, foot, check_width(self.width))


def as_shown(definition: Description, shown: View) -> Description:
    """A definition whose statistic shows as many groups as are asked for.

    Raises:
        InvalidInput: what a statistic does not show.
    """
    check_shown(shown, definition.statistic)
    if shown.top is None:
        return definition
    from counton.statistics.top_k import with_top

    return replace(definition, statistic=with_top(definition.statistic, shown.top))


def check_shown(shown: View, statistic: Statistic) -> None:
    """Refuse what a statistic's readings do not have.

    Raises:
        InvalidInput: names of cells that are none, or of a statistic whose cells are all released;
            or steps to look back over that are none, or of one whose cells are read on demand.
    """
    inner = inner_of(statistic)
    if shown.over is not None:
        check_over(shown.over, inner)
    if shown.top is not None and shown.top < 1:
        raise InvalidInput(f"{field('top', shown.top)} shows nothing; give at least 1")
    if shown.room is not None:
        check_integer("room", shown.room, 1)
    if shown.fit is not None:
        check_fit(shown.fit, inner)
    for name in shown.ask or ():
        check_asked(inner, name)


def check_fit(fit: Fit, statistic: Statistic) -> None:
    """Refuse to make numbers fit that are no table's, or known totals that cannot be.

    Raises:
        InvalidInput: see above.
    """
    checked: Any = getattr(statistic, "check_fit", None)
    if checked is None:
        raise InvalidInput(
            f"{field('integers')}, {field('nonnegative')} and {field('known')} are for hierarchies "
            f"and contingency tables, and this is {statistic!r}: leave them out"
        )
    checked(fit)


def check_over(over: int, statistic: Statistic) -> int:
    """How many steps are looked back over.

    Raises:
        InvalidInput: below 1, or of a statistic whose cells are read on demand.
    """
    if statistic.card.on_demand:
        raise InvalidInput(
            f"{field('over', over)} takes an earlier reading of all cells away, and "
            f"{type(statistic).__name__} computes cells when they are asked for; leave it out"
        )
    return check_integer("over", over, 1)
