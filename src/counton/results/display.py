"""Options that select which numbers of a statistic are shown, and the words of its charts."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple

from counton.base.arguments import DEFAULT_TOP
from counton.base.errors import InvalidInputError, param
from counton.base.exact import check_integer
from counton.statistics.by_group import inner_of

if TYPE_CHECKING:
    from counton.charts.style import Caption
    from counton.results.metadata import ReleaseMetadata


#: Default number of possible groups, if groups are not declared.
DEFAULT_POSSIBLE_GROUPS = 1_000_000


class DisplaySelection(NamedTuple):
    """A selection of released numbers to show; None leaves the choice to the statistic.

    Attributes:
        ask: intervals of cells; shares of quantiles; or groups.
        over: number of last steps that each number covers.
        top: number of groups that a ranking shows.
        room: public number of possible groups, if they are not declared.

    >>> DisplaySelection(over=24).over
    24
    """

    ask: tuple[object, ...] | None = None
    over: int | None = None
    top: int | None = None
    room: int | None = None

    def to_dict(self) -> dict[str, object]:
        """Return the selection as JSON values."""
        ask = None if self.ask is None else list(self.ask)
        options: dict[str, object] = {"ask": ask, "over": self.over, "top": self.top}
        if self.room is not None:
            options["room"] = self.room
        return options

    def of_ranking(self) -> DisplaySelection:
        """Return the selection for a ranking of undeclared groups, with defaults."""
        return DisplaySelection(
            self.ask,
            top=DEFAULT_TOP if self.top is None else self.top,
            room=self.room or DEFAULT_POSSIBLE_GROUPS,
        )

    @classmethod
    def from_dict(cls, saved: Mapping[str, Any]) -> DisplaySelection:
        """Rebuild the selection from `to_dict`.

        Args:
            saved: what `to_dict` returned.
        """
        ask = None if saved["ask"] is None else tuple(saved["ask"])
        return cls(ask, saved["over"], saved["top"], saved.get("room"))


#: The selection that leaves all choices to the statistic.
EVERYTHING = DisplaySelection()


class ChartOptions(NamedTuple):
    """The words and the width of a chart, as in `Release.figures`."""

    title: str | None = None
    axis: str | None = None
    source: str | None = None
    width: float | None = None

    def around(self, subtitle: str, foot: str, *, title: str = "", axis: str = "") -> Caption:
        """Return the words around a chart: stated ones replace the given defaults."""
        from counton.charts.style import Caption, check_width

        title = title if self.title is None else self.title
        axis = axis if self.axis is None else self.axis
        return Caption(title, subtitle, axis, foot, check_width(self.width))


def with_shown_groups(metadata: ReleaseMetadata, shown: DisplaySelection) -> ReleaseMetadata:
    """Return a description that shows the requested number of ranked groups.

    Raises:
        InvalidInputError: an option is not one of the statistic's.
    """
    check_shown(shown, metadata)
    if shown.top is None:
        return metadata
    from counton.statistics.top_k import with_top

    return replace(metadata, statistic=with_top(metadata.statistic, shown.top))


def check_shown(
    shown: DisplaySelection, metadata: ReleaseMetadata, level: float | None = None
) -> None:
    """Raise an error for a selection that does not fit a statistic.

    Raises:
        InvalidInputError: names of cells are unknown, or given although all cells are
            released; or the number of steps is malformed, or given although cells are computed on
            request, or are shown themselves; or the level is too near to 1 for the number of ranked
            groups.
    """
    inner = inner_of(metadata.statistic)
    if shown.over is not None and metadata.shows_cells:
        raise InvalidInputError(
            f"{param('over', shown.over)} shows numbers of the last windows together, but a "
            f"{metadata.kind} shows totals and single windows: leave it out, and ask the "
            "release for the sum of some windows"
        )
    for word in ("over", "top", "room"):
        if (number := getattr(shown, word)) is not None:
            check_integer(word, number, 1)
    for name in shown.ask or ():
        inner.check_asked(name)
    ranked: list[Any] = [
        statistic for statistic in (inner, *inner.statistics.values()) if statistic.ranks
    ]
    if level is None or not (ranked or metadata.ranks):
        return
    from counton.statistics.ranking import checked_ranking_levels

    rankings = [(len(statistic.groups), shown.top or statistic.k) for statistic in ranked]
    if metadata.ranks:
        seen = shown.of_ranking()
        rankings = [(seen.room or DEFAULT_POSSIBLE_GROUPS, seen.top or DEFAULT_TOP)]
    for groups, top in rankings:
        checked_ranking_levels(groups, top if shown.ask is None else groups, level)
