"""Names of groups: a sequence of texts of any length.

Many names are stored and kept in compressed blocks. On first use they become a column of Arrow
texts: ten million names take 20 MB in blocks, and 190 MB as a column; a tuple of texts takes five
times as much. Few names are stored uncompressed, so that a run which only shows them need not
import polars.
"""

from __future__ import annotations

import io
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from hashlib import sha256
from typing import TYPE_CHECKING, Any, Literal, overload

from counton.base.errors import is_text

if TYPE_CHECKING:
    import numpy as np
    import polars as pl
    from numpy.typing import NDArray

#: Most names in one block.
BLOCK = 2**20
#: Largest number of names that are looked up one by one.
_FEW = 8
#: Largest size in bytes of a block that is uncompressed, and stays in memory beside its names.
_LITTLE = 2**14
#: Most names that a text for people shows in full.
_SHOWN = 100


class GroupNames(Sequence[str]):
    """Names of groups in the order of their cells; immutable, and equal to a tuple of the same
    names.

    >>> names = GroupNames(["home", "shop", "help"])
    >>> names[1], names.index("help"), "shop" in names, names == ("home", "shop", "help")
    ('shop', 2, True, True)
    >>> GroupNames.from_blocks(names.blocks()).plus(["blog"])
    ('home', 'shop', 'help', 'blog')
    """

    def __init__(self, names: Iterable[str] | pl.Series) -> None:
        self._held: pl.Series | tuple[bytes, ...] | list[str]
        self._digest: str | None = None
        self._block: bytes | None = None  # kept for few names, once they are encoded
        if isinstance(names, GroupNames):
            self._held, self._count, self._digest = names._held, len(names), names._digest
            self._block = names._block
            return
        few = isinstance(names, list | tuple) and len(names) <= _SHOWN
        if few and all(isinstance(name, str) and is_text(name) for name in names):
            self._held = list(names)
            self._count = len(self._held)
            return
        import polars as pl

        if not isinstance(names, pl.Series):
            names = pl.Series(list(names), dtype=pl.String)
        self._held, self._count = names.alias("group"), len(names)

    @property
    def column(self) -> pl.Series:
        """The names as a polars column ``group``. The first call decodes all blocks and keeps the
        result.
        """
        import polars as pl

        if isinstance(self._held, tuple):
            parts = [part for _, part in self.parts()]
            self._held = pl.concat(parts) if parts else pl.Series("group", [], pl.String)
        elif isinstance(self._held, list):
            self._held = pl.Series("group", self._held, pl.String)
        return self._held

    def parts(self) -> Iterator[tuple[int, pl.Series]]:
        """Yield the names in parts: the position of a part's first name, and the part as a column.

        Only one block is decoded at a time.

        Raises:
            ValueError: a block cannot be decoded.
        """
        import polars as pl

        if not isinstance(self._held, tuple):
            for start in range(0, len(self), BLOCK):
                yield start, self.column.slice(start, BLOCK)
            return
        start = 0
        for block in self._held:
            try:
                part = pl.read_ipc(io.BytesIO(block))["group"]
            except (pl.exceptions.PolarsError, OSError) as error:
                raise ValueError(
                    "stored names of groups are damaged: a block of names cannot be decoded; "
                    "restore the file from a copy"
                ) from error
            yield start, part
            start += len(part)

    def at(self, places: Sequence[int] | NDArray[np.int64]) -> list[str]:
        """Return the names at these positions, in their order; one block is decoded at a time.

        >>> GroupNames(["home", "shop", "help"]).at([2, 0])
        ['help', 'home']
        """
        import numpy as np

        wanted = np.asarray(places, np.int64)
        if isinstance(self._held, list):
            return [self._held[place] for place in wanted.tolist()]
        found: Any = np.empty(len(wanted), object)
        for start, part in self.parts():
            here = np.flatnonzero((wanted >= start) & (wanted < start + len(part)))
            found[here] = part.gather(wanted[here] - start).to_list()
        return list(found)

    def blocks(self) -> list[bytes]:
        """Return the names in blocks, each a table of Arrow (IPC); small ones uncompressed."""
        if isinstance(self._held, tuple):
            return [*self._held]
        if self._block is not None:
            return [self._block]
        found = []
        for _, part in self.parts():
            block = _encode(part, "uncompressed") if len(part) < _LITTLE else b""
            found.append(block if 0 < len(block) <= _LITTLE else _encode(part, "zstd"))
        if self._digest is None:
            self._digest = digest_of(found)
        if len(found) == 1 and len(found[0]) <= _LITTLE:
            self._block = found[0]
        return found

    @property
    def digest(self) -> str:
        """Digest of the encoded blocks of names. Equal names may have different digests, because
        their encoding may differ.
        """
        if self._digest is None:
            self.blocks()
        assert self._digest is not None
        return self._digest

    @classmethod
    def from_blocks(cls, blocks: Sequence[bytes]) -> GroupNames:
        """Build the names from their `blocks`.

        Raises:
            ValueError: a block holds no names.
        """
        from counton.base.plain_arrow import texts_in

        names = cls.__new__(cls)
        names._digest, names._block = digest_of(blocks), None
        little = blocks[0] if len(blocks) == 1 and len(blocks[0]) <= _LITTLE else b""
        if (texts := texts_in(little)) is not None:
            names._held, names._count, names._block = list(texts), len(texts), little
            return names
        import polars as pl

        try:
            if little:
                names._held, names._block = pl.read_ipc(io.BytesIO(little))["group"], little
                names._count = len(names._held)
            else:
                tables = [pl.scan_ipc(io.BytesIO(block)) for block in blocks]
                counts = [table.select(pl.col("group").len()).collect().item() for table in tables]
                names._held, names._count = tuple(blocks), sum(counts)
        except (pl.exceptions.PolarsError, OSError) as error:
            raise ValueError(
                "stored names of groups are damaged: a block of names cannot be decoded; restore "
                "the file from a copy"
            ) from error
        return names

    def positions(self) -> pl.DataFrame:
        """Return a table with columns ``group`` (name) and ``place`` (position), for looking up
        many names at once by a join.
        """
        return self.column.to_frame().with_row_index("place")

    def __len__(self) -> int:
        return self._count

    @overload
    def __getitem__(self, place: int) -> str: ...
    @overload
    def __getitem__(self, place: slice) -> GroupNames: ...
    def __getitem__(self, place: int | slice) -> str | GroupNames:
        if isinstance(place, slice) and range(len(self))[place] == range(len(self)):
            return self
        held = self._held if isinstance(self._held, list) else self.column
        if isinstance(place, slice):
            return GroupNames(held[place])
        return str(held[int(place)])

    def __iter__(self) -> Iterator[str]:
        if isinstance(self._held, list):
            yield from self._held
            return
        for _, part in self.parts():
            yield from part.to_list()

    def __contains__(self, name: object) -> bool:
        if isinstance(self._held, list):
            return name in self._held
        return isinstance(name, str) and bool((self.column == name).any())

    def index(self, value: Any, start: int = 0, stop: int | None = None) -> int:
        """Return the position of a name."""
        place: Any
        if isinstance(self._held, list):
            among = self._held[start:stop]
            place = among.index(value) if value in among else None
        else:
            found = (self.column == value).slice(start, None if stop is None else stop - start)
            place = found.arg_max() if found.any() else None
        if place is None:
            raise ValueError(f"{value!r} is not among the names")
        return start + int(place)

    def first_repeated(self) -> str | None:
        """Return the first name that the sequence has more than once; None if there is none.

        >>> GroupNames(["home", "shop", "blog", "shop"]).first_repeated()
        'shop'
        """
        if isinstance(self._held, list):
            return next((name for name, many in Counter(self._held).items() if many > 1), None)
        names = self.column
        return None if names.n_unique() == len(names) else names.filter(names.is_duplicated())[0]

    def first_with(self, letter: str) -> str | None:
        """Return the first name that contains a letter; None if there is none.

        >>> GroupNames(["home", "shop"]).first_with("s")
        'shop'
        """
        if isinstance(self._held, list):
            return next((name for name in self._held if letter in name), None)
        found = self.column.filter(self.column.str.contains(letter, literal=True))
        return found[0] if len(found) else None

    def places(self, names: Sequence[str]) -> NDArray[np.int64]:
        """Return the position of each given name in this sequence; -1 for a name that it lacks.

        >>> GroupNames(["home", "shop"]).places(["shop", "blog", "home"]).tolist()
        [1, -1, 0]
        """
        import numpy as np

        if isinstance(self._held, list) and len(names) <= _FEW:
            kept = self._held
            return np.array([kept.index(one) if one in kept else -1 for one in names], np.int64)
        if len(names) <= _FEW:
            found = [(self.column == name).arg_true() for name in names]
            return np.array([one[0] if len(one) else -1 for one in found], np.int64)
        asked = GroupNames(names).column.to_frame()
        joined = asked.join(self.positions(), on="group", how="left", maintain_order="left")
        return joined["place"].cast(int).fill_null(-1).to_numpy()

    def plus(self, *others: Sequence[str]) -> GroupNames:
        """Return these names followed by others."""
        if not any(others):
            return self
        import polars as pl

        return GroupNames(pl.concat([self.column, *(GroupNames(other).column for other in others)]))

    def __eq__(self, other: object) -> bool:
        if self is other:
            return True
        if isinstance(other, GroupNames):
            if self._digest is not None and self._digest == other._digest:
                return True
            if isinstance(self._held, list) and isinstance(other._held, list):
                return self._held == other._held
            return len(self) == len(other) and self.column.equals(other.column)
        if isinstance(other, tuple | list):
            return len(other) == len(self) and list(other) == list(self)
        return NotImplemented

    def __hash__(self) -> int:
        """Return the hash of a tuple of these names, because the tuple compares equal."""
        return hash(tuple(self))

    def __repr__(self) -> str:
        if len(self) <= _SHOWN:
            return repr(tuple(self))
        return f"GroupNames({len(self):,}: {self[0]!r}, ..., {self[-1]!r})"


def _encode(part: pl.Series, compression: Literal["zstd", "uncompressed"]) -> bytes:
    """Return a part of the names as a table of Arrow, in a layout that all versions read."""
    import polars as pl

    file, table = io.BytesIO(), part.to_frame().rechunk()
    table.write_ipc(file, compression=compression, compat_level=pl.CompatLevel.oldest())
    return file.getvalue()


def digest_of(blocks: Sequence[bytes]) -> str:
    """Return one digest over several encoded blocks of names."""
    return sha256(b"".join(sha256(block).digest() for block in blocks)).hexdigest()
