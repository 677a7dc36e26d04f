"""What was released: one type for every statistic, from a run or from a file alone.

Two things can have been released. Of counts and sums it is their cells, over time
(`counton.results.cells`); of every other statistic what it reads in its cells, step by step
(`counton.results.readings`). Nobody else needs to know which.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NoReturn, Self

import numpy as np
import polars as pl
from numpy.typing import NDArray

from counton.columns import WHEN
from counton.errors import InvalidInput, field
from counton.mechanisms import StreamTerms
from counton.results.description import Description
from counton.results.screen import Screen
from counton.results.series import Series, finite

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from counton.mechanisms.contrasts import Answer

#: Groups that are asked about: one, several that are added up, or weights of some.
Groups = str | Sequence[str] | Mapping[str, float]
#: Consecutive steps: ``"25:48"``, both included, a range, or None for all.
Steps = str | range | None


class Release(ABC):
    """All released steps of a stream, or some; all groups, or some. Public, like all that it says.

    Counts and sums answer every question here; another statistic says by an error what it does not.

    Attributes:
        definition: what is public of the stream.
        terms: of the stream: strategy, guarantee, noise.
        steps: 1 to the last step released.
        level: probability with which each interval holds.
    """

    definition: Description
    terms: StreamTerms
    steps: range
    level: float

    @property
    @abstractmethod
    def groups(self) -> tuple[str, ...]:
        """Names of the groups that these are of; of counts and sums without groups ``("all",)``."""

    @abstractmethod
    def only(self, steps: range | None = None, groups: Sequence[str] | None = None) -> Self:
        """Some of the steps, and some of the groups; None: all.

        Raises:
            InvalidInput: groups that are not among them.
        """

    @abstractmethod
    def table(self) -> pl.DataFrame:
        """A row for each step, and for each group or number of it, with intervals."""

    @abstractmethod
    def last_rows(self, most: int | None = None) -> pl.DataFrame:
        """The rows of the last step; of many groups at most so many, the largest."""

    @abstractmethod
    def ended(self, step: int) -> np.datetime64:
        """When the window of a step ended, in local time."""

    @abstractmethod
    def screen(self) -> Screen:
        """What a screen shows of the last step."""

    @abstractmethod
    def errors(self) -> list[str]:
        """Sentences about the noise, for `methods`."""

    @abstractmethod
    def figures(
        self,
        *,
        panels: bool = False,
        title: str | None = None,
        axis: str | None = None,
        source: str | None = None,
        width: float | None = None,
    ) -> dict[str, Figure]:
        """Charts by what they show."""

    def facts(self) -> dict[str, Any]:
        """What a file says of these numbers besides the description, as JSON values."""
        return {}

    @abstractmethod
    def described(self) -> dict[str, Any] | None:
        """What belongs to the description that a file carries, and is the statistic's own.

        None: its rows do not say enough for `counton.read` to give it back.
        """

    @property
    def totals(self) -> Series | None:
        """So far, after each step; None where they are not asked for.

        Raises:
            InvalidInput: a statistic that has none.
        """
        self._cannot("totals")

    @property
    def windows(self) -> Series | None:
        """Of each window by itself; None where that is not asked for.

        Raises:
            InvalidInput: a statistic that has none.
        """
        self._cannot("numbers of windows")

    def largest(self, count: int) -> Self:
        """The groups with the largest numbers, if there are more than ``count``.

        Raises:
            InvalidInput: a statistic that does not answer it.
        """
        self._cannot("largest groups")

    def between(self, starts: NDArray[np.int64], stops: NDArray[np.int64]) -> Series:
        """What happened in the steps start + 1 .. stop, for each pair of ends.

        Raises:
            InvalidInput: a statistic that does not answer it.
        """
        self._cannot("differences of two moments")

    def numbers(self, of: str | None = None) -> pl.DataFrame:
        """A row for each step and group, in columns of the same names whatever is published.

        Args:
            of: ``"totals"`` or ``"windows"``; None: totals, where they are released.

        Raises:
            InvalidInput: totals or windows of a statistic that has none.
        """
        if of is not None:
            raise InvalidInput(
                f"{field('of', of)} is for counts and sums, and {self.terms.name!r} is of "
                f"{self.definition.what}; leave it out"
            )
        return self.table()

    @property
    def over(self) -> int | None:
        """What came in so many steps up to each is shown; None: in all so far."""
        return None

    @property
    def rows(self) -> int | None:
        """How many rows `table` has; None where only the table says."""
        return None

    def last_numbers(self) -> dict[str, Any]:
        """The last step as JSON values: ``rows`` of its table, or numbers by group."""
        shown = self.last_rows().drop(WHEN, strict=False)
        return {"rows": finite(shown).to_dicts()}

    @property
    def drawable(self) -> bool:
        """Whether there is anything to draw."""
        return self.last_rows(1).height > 0

    def at_hand(self) -> Self:
        """The same, with its steps read, so that where they were read from may be closed."""
        return self

    def lazy(self) -> pl.LazyFrame:
        """The rows of `table`, made some at a time while they are written."""
        return self.table().lazy()

    def describe(self) -> str:
        """What is protected, what is promised and how far it has come, in words."""
        from counton.results.wording import in_words

        return in_words(self.definition, self.terms.name, self.steps)

    def methods(self) -> str:
        """The paragraph that a publication needs: unit, guarantee, attacker, mechanism, error.

        Also where the mechanism is described, and what is not protected. All of it is public.
        """
        from counton.results.wording import methods_of

        return methods_of(self.definition, self.terms, len(self.steps), self.errors(), self.over)

    def __repr__(self) -> str:
        last = self.steps.stop - 1
        return f"<{type(self).__name__} {self.terms.name!r}, steps 1 to {last:,}>"

    def __str__(self) -> str:
        return self.describe()

    def _repr_html_(self) -> str:
        from counton.results.notebook import page

        return page(self)

    def difference(
        self,
        one: Groups,
        other: Groups,
        *,
        steps: Steps = None,
        other_steps: Steps = None,
        at_once: int = 1,
    ) -> Answer:
        """How much more happened in one group, or in some steps, than in another.

        Raises:
            InvalidInput: a statistic that does not answer it.
        """
        self._cannot("differences")

    def ratio(
        self,
        one: Groups,
        other: Groups,
        *,
        steps: Steps = None,
        other_steps: Steps = None,
        at_once: int = 1,
    ) -> Answer:
        """How many times as much happened in one group, or in some steps, as in another.

        Raises:
            InvalidInput: a statistic that does not answer it.
        """
        self._cannot("ratios")

    def share(self, one: Groups, *, steps: Steps = None, at_once: int = 1) -> Answer:
        """Which part of all groups one is.

        Raises:
            InvalidInput: a statistic that does not answer it.
        """
        self._cannot("shares")

    def shares_of_groups(self, *, steps: Steps = None) -> pl.DataFrame:
        """The share of each group, with intervals that hold for all of them at once.

        Raises:
            InvalidInput: a statistic that does not answer it.
        """
        self._cannot("shares of groups")

    def combine(
        self, weights: Mapping[str, float], *, steps: Steps = None, at_once: int = 1
    ) -> Answer:
        """A sum over groups with a weight each, which may have a sign.

        Raises:
            InvalidInput: a statistic that does not answer it.
        """
        self._cannot("sums over groups")

    def sums(self, every: str) -> pl.DataFrame:
        """What happened in each day, week or month.

        Raises:
            InvalidInput: a statistic that does not answer it.
        """
        self._cannot("sums")

    def _cannot(self, what: str) -> NoReturn:
        raise InvalidInput(
            f"{self.terms.name!r} holds readings of {self.definition.what}; {what} are answered "
            f"for counts and sums"
        )
