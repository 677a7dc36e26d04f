"""How far one protected unit can move the private measurements."""

from __future__ import annotations

from dataclasses import dataclass

from counton.errors import InvalidInput


@dataclass(frozen=True, slots=True)
class Shift:
    """Largest change of all node values together between neighbours, in lattice integers.

    Attributes:
        l1: largest 1-norm.
        l2_squared: largest squared 2-norm.
        entries: where known, ((magnitude, count), ...): every possible change is, entry by entry
            and up to signs and order, at most this one. Noise with log-concave laws then protects
            all of them if it protects this one.

    Raises:
        InvalidInput: a norm below 1, norms no integer vector has, or entries that contradict them.

    >>> Shift(l1=3, l2_squared=3, entries=((1, 3),)).affected
    3
    """

    l1: int
    l2_squared: int
    entries: tuple[tuple[int, int], ...] | None = None

    def __post_init__(self) -> None:
        if not 1 <= self.l1 <= self.l2_squared <= self.l1**2:
            raise InvalidInput(
                f"a shift with l1 = {self.l1} and l2_squared = {self.l2_squared} is impossible; "
                f"integer vectors have 1 <= l1 <= l2_squared <= l1^2: check the sensitivities"
            )
        if self.entries is None:
            return
        if any(magnitude < 1 or count < 1 for magnitude, count in self.entries):
            raise InvalidInput(
                f"entries {self.entries} of a shift must have magnitudes and counts of at least 1: "
                f"leave out the zeros"
            )
        l1 = sum(magnitude * count for magnitude, count in self.entries)
        l2_squared = sum(magnitude**2 * count for magnitude, count in self.entries)
        if (l1, l2_squared) != (self.l1, self.l2_squared):
            raise InvalidInput(
                f"entries {self.entries} have l1 = {l1} and l2_squared = {l2_squared}, not the "
                f"stated {self.l1} and {self.l2_squared}: pass entries=None if they are not known"
            )

    @property
    def affected(self) -> int:
        """Most node values that can change at all; integers, so never more than ``l1``."""
        if self.entries is None:
            return self.l1
        return sum(count for _, count in self.entries)
