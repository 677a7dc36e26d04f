"""Names of groups: a sequence of texts, however many there are.

They are held as Arrow holds texts, and written in compressed blocks: ten million names take a
fifth of what a tuple of texts takes, and are read in a fraction of a second.
"""

from __future__ import annotations

import io
from collections.abc import Iterable, Iterator, Sequence
from hashlib import sha256
from typing import TYPE_CHECKING, Any, overload

if TYPE_CHECKING:
    import polars as pl

#: Names in one block at most.
BLOCK = 2**20
#: Names of which a text for people shows all.
_SHOWN = 100


class GroupNames(Sequence[str]):
    """Names in their order, which is that of their cells. A value, equal to a tuple of the same.

    >>> names = GroupNames(["home", "shop", "help"])
    >>> names[1], names.index("help"), "shop" in names, names == ("home", "shop", "help")
    ('shop', 2, True, True)
    >>> GroupNames.from_blocks(names.blocks()).plus(["blog"])
    ('home', 'shop', 'help', 'blog')
    """

    def __init__(self, names: Iterable[str] | pl.Series) -> None:
        import polars as pl

        if isinstance(names, GroupNames):
            names = names.column
        if not isinstance(names, pl.Series):
            names = pl.Series(list(names), dtype=pl.String)
        self._column = names.alias("group")
        self._digest: str | None = None

    @property
    def column(self) -> pl.Series:
        """The names as a column ``group``."""
        return self._column

    def blocks(self) -> list[bytes]:
        """The names in blocks, each a compressed table of Arrow (IPC)."""
        import polars as pl

        found = []
        for start in range(0, len(self), BLOCK):
            block = io.BytesIO()
            part = self._column.slice(start, BLOCK).to_frame().rechunk()
            part.write_ipc(block, compression="zstd", compat_level=pl.CompatLevel.oldest())
            found.append(block.getvalue())
        if self._digest is None:
            self._digest = digest_of(found)
        return found

    @property
    def digest(self) -> str:
        """Of the blocks in which the names are written; of equal names not always the same."""
        if self._digest is None:
            self.blocks()
        assert self._digest is not None
        return self._digest

    @classmethod
    def from_blocks(cls, blocks: Sequence[bytes]) -> GroupNames:
        import polars as pl

        try:
            parts = [pl.read_ipc(io.BytesIO(block))["group"] for block in blocks]
            names = cls(pl.concat(parts) if parts else ())
        except (pl.exceptions.PolarsError, OSError) as error:
            raise ValueError("blocks of names cannot be decoded") from error
        names._digest = digest_of(blocks)
        return names

    def positions(self) -> pl.DataFrame:
        """Columns ``group`` and ``place``, to find many names at once by a join."""
        return self._column.to_frame().with_row_index("place")

    def __len__(self) -> int:
        return len(self._column)

    @overload
    def __getitem__(self, place: int) -> str: ...
    @overload
    def __getitem__(self, place: slice) -> GroupNames: ...
    def __getitem__(self, place: int | slice) -> str | GroupNames:
        if isinstance(place, slice):
            return self if place == slice(0, len(self)) else GroupNames(self._column[place])
        return str(self._column[int(place)])

    def __iter__(self) -> Iterator[str]:
        for start in range(0, len(self), BLOCK):
            yield from self._column.slice(start, BLOCK).to_list()

    def __contains__(self, name: object) -> bool:
        return isinstance(name, str) and bool((self._column == name).any())

    def index(self, value: Any, start: int = 0, stop: int | None = None) -> int:
        """Where a name stands."""
        found = (self._column == value).slice(start, None if stop is None else stop - start)
        place = found.arg_max() if found.any() else None
        if place is None:
            raise ValueError(f"{value!r} is not among the names")
        return start + int(place)

    def plus(self, other: Sequence[str]) -> GroupNames:
        """These names, and then others."""
        import polars as pl

        return GroupNames(pl.concat([self._column, GroupNames(other).column]))

    def __eq__(self, other: object) -> bool:
        if self is other:
            return True
        if isinstance(other, GroupNames):
            same = self._digest is not None and self._digest == other._digest
            return same or self._column.equals(other._column)
        if isinstance(other, tuple | list):
            return len(other) == len(self) and list(other) == self._column.to_list()
        return NotImplemented

    def __hash__(self) -> int:
        """That of the tuple of the same names, which it may be equal to."""
        return hash(tuple(self))

    def __repr__(self) -> str:
        if len(self) <= _SHOWN:
            return repr(tuple(self))
        return f"GroupNames({len(self):,}: {self[0]!r}, ..., {self[-1]!r})"


def digest_of(blocks: Sequence[bytes]) -> str:
    """Digest of blocks of names, one after the other."""
    return sha256(b"".join(sha256(block).digest() for block in blocks)).hexdigest()
