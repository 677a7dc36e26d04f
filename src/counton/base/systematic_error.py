"""An error of published numbers other than noise, which no interval covers."""

from __future__ import annotations

from typing import NamedTuple


class SystematicError(NamedTuple):
    """What numbers leave out or change, and what this does to them.

    Attributes:
        subject: what is left out or changed, as a noun: "rows that cannot be read".
        effect: what happens to it, as the rest of a sentence: "are not counted".
        is_brief: whether a screen names the subject; other errors are in the text on methods alone.
        remark: what a screen adds to the subject, after a comma.

    >>> SystematicError("rows that cannot be read", "are not counted").sentence
    'rows that cannot be read are not counted'
    """

    subject: str
    effect: str
    is_brief: bool = True
    remark: str = ""

    @property
    def brief(self) -> str:
        """The noun that a screen shows, with its remark."""
        return f"{self.subject}, {self.remark}" if self.remark else self.subject

    @property
    def sentence(self) -> str:
        """The sentence on the error, without a capital and a full stop."""
        return f"{self.subject} {self.effect}"

    def of_part(self, name: str) -> SystematicError:
        """Return the error as that of one part of a report."""
        return self._replace(subject=f"{name}: {self.subject}")
