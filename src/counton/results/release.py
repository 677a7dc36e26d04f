"""What was released: one type for every statistic, from a run or from a file alone."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NoReturn, Self

import numpy as np
import polars as pl

from counton.errors import InvalidInput
from counton.mechanisms import StreamTerms
from counton.results.description import Description

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from counton.mechanisms.contrasts import Answer

#: Groups that are asked about: one, several that are added up, or weights of some.
Groups = str | Sequence[str] | Mapping[str, float]
#: Consecutive steps: ``"25:48"``, both included, a range, or None for all.
Steps = str | range | None


class Release(ABC):
    """All released steps of a stream, or some; all groups, or some. Public, like all that it says.

    Counts and sums answer every question here; a statistic says by an error what it does not.

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
    def described(self) -> dict[str, Any]:
        """What belongs to the description that a file carries, and is the statistic's own."""

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

        return methods_of(self.definition, self.terms, len(self.steps), self.errors())

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
        self._cannot("shares_of_groups")

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
