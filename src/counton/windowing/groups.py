"""Names of groups: a sequence of texts of any length.

Many names are stored and kept in compressed blocks. On first use they become a column of Arrow
texts: ten million names take 20 MB in blocks, and 190 MB as a column; a tuple of texts takes five
times as much. Few names are stored as a list in JSON, so that a run which only shows them need not
import polars.
"""

from __future__ import annotations

import io
import json
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from hashlib import sha256
from typing import TYPE_CHECKING, Any, overload

from counton.base.errors import is_text

if TYPE_CHECKING:
    import numpy as np
    import polars as pl
    from numpy.typing import NDArray

#: Most names in one block.
NAMES_PER_BLOCK = 2**20
#: Largest number of names that are looked up one by one.
_MOST_SEARCHED_NAMES = 8
#: Largest size in bytes of a block in JSON, which stays in memory beside its names.
_MOST_CACHED_BYTES = 2**14
#: Most names that a text for people shows in full.
_SHOWN_NAMES = 100


class _Few(list[str]):
    """A short list of group names, which are looked up without polars."""

    blocks: Sequence[bytes] = ()

    @property
    def column(self) -> pl.Series:
        import polars as pl

        return pl.Series("group", self, pl.String)

    def parts(self) -> Iterator[tuple[int, pl.Series]]:
        return _Many(self.column).parts()

    def at(self, places: NDArray[np.int64]) -> list[str]:
        return [self[place] for place in places.tolist()]

    def place(self, name: str) -> int | None:
        """Return the first place of a name; None if it is missing."""
        return self.index(name) if name in self else None

    def duplicate(self) -> str | None:
        return next((name for name, count in Counter(self).items() if count > 1), None)

    def with_letter(self, letter: str) -> str | None:
        return next((name for name in self if letter in name), None)


class _Many:
    """Group names as a polars column of texts, or as encoded blocks until the column is needed."""

    def __init__(self, column: pl.Series | None, blocks: Sequence[bytes] = ()) -> None:
        self._column = column
        self.blocks = blocks

    @property
    def column(self) -> pl.Series:
        if self._column is None:
            import polars as pl

            parts = [part for _, part in self.parts()]
            none = pl.Series("group", [], pl.String)
            self._column = pl.concat([none, *parts], rechunk=True)
            self.blocks = ()
        return self._column

    def parts(self) -> Iterator[tuple[int, pl.Series]]:
        """Yield the place of each part's first name, and the part as a polars column."""
        if self._column is not None:
            for start in range(0, len(self._column), NAMES_PER_BLOCK):
                yield start, self._column.slice(start, NAMES_PER_BLOCK)
            return
        import polars as pl

        start = 0
        for block in self.blocks:
            part = _read(pl.read_ipc, io.BytesIO(block))["group"]
            yield start, part
            start += len(part)

    def __getitem__(self, place: Any) -> Any:
        return self.column[place]

    def __iter__(self) -> Iterator[str]:
        for _, part in self.parts():
            yield from part.to_list()

    def at(self, places: NDArray[np.int64]) -> list[str]:
        import numpy as np

        names: Any = np.empty(len(places), object)
        for start, part in self.parts():
            in_part = np.flatnonzero((places >= start) & (places < start + len(part)))
            names[in_part] = part.gather(places[in_part] - start).to_list()
        return list(names)

    def place(self, name: str) -> int | None:
        is_match = self.column == name
        return is_match.arg_max() if is_match.any() else None

    def duplicate(self) -> str | None:
        names = self.column
        if names.hash().n_unique() == len(names):  # equal names have equal hashes
            return None
        twice = names.filter(names.is_duplicated())
        return twice[0] if len(twice) else None

    def with_letter(self, letter: str) -> str | None:
        names = self.column.filter(self.column.str.contains(letter, literal=True))
        return names[0] if len(names) else None


class GroupNames(Sequence[str]):
    """Names of groups in the order of their cells; equal to a tuple of the same names.

    >>> names = GroupNames(["home", "shop", "help"])
    >>> names[1], names.index("help"), "shop" in names, names == ("home", "shop", "help")
    ('shop', 2, True, True)
    >>> GroupNames.from_blocks(names.blocks()).plus(["blog"])
    ('home', 'shop', 'help', 'blog')
    """

    def __init__(self, names: Iterable[str] | pl.Series) -> None:
        self._held: _Few | _Many
        self._digest: str | None = None
        if isinstance(names, GroupNames):
            self._held = names._held
            self._count = len(names)
            self._digest = names._digest
            return
        short_list = (
            names if isinstance(names, list | tuple) and len(names) <= _SHOWN_NAMES else None
        )
        if short_list is not None and all(
            isinstance(name, str) and is_text(name) for name in short_list
        ):
            self._held = _Few(short_list)
            self._count = len(short_list)
            return
        import polars as pl

        series = names if isinstance(names, pl.Series) else pl.Series(list(names), dtype=pl.String)
        self._held = _Many(series.rechunk().alias("group"))
        self._count = len(series)

    @property
    def column(self) -> pl.Series:
        """The names as a polars column ``group``, which is then kept in place of the blocks."""
        return self._held.column

    def parts(self) -> Iterator[tuple[int, pl.Series]]:
        """Yield the place of each part's first name, and the part, decoded one at a time."""
        return self._held.parts()

    def at(self, places: Sequence[int] | NDArray[np.int64]) -> list[str]:
        """Return the names at these places; one block is decoded at a time."""
        import numpy as np

        return self._held.at(np.asarray(places, np.int64))

    def blocks(self) -> list[bytes]:
        """Return the names in blocks, each a table of Arrow (IPC); few names as a list in JSON."""
        if self._held.blocks:
            return [*self._held.blocks]
        blocks = []
        for _, part in self.parts():
            is_single = len(part) == len(self) < _MOST_CACHED_BYTES
            block = json.dumps(part.to_list()).encode() if is_single else b""
            blocks.append(block if 0 < len(block) <= _MOST_CACHED_BYTES else _encode(part))
        self._held.blocks = blocks
        return [*blocks]

    @property
    def digest(self) -> str:
        """Digest of the stored blocks. Equal names may be encoded, and so digested, differently."""
        if self._digest is None:
            self._digest = digest_of(self.blocks())
        return self._digest

    @classmethod
    def from_blocks(cls, blocks: Sequence[bytes]) -> GroupNames:
        """Build the names from their `blocks`."""
        names = cls.__new__(cls)
        names._digest = digest_of(blocks)
        little = blocks[0] if len(blocks) == 1 and len(blocks[0]) <= _MOST_CACHED_BYTES else b""
        if little.startswith(b"["):
            texts = _read(json.loads, little)
            names._held = _Few(texts)
            names._count = len(texts)
            names._held.blocks = blocks
            return names
        import polars as pl

        def count(block: bytes) -> int:
            return int(
                pl.scan_ipc(io.BytesIO(block)).select(pl.col("group").len()).collect().item()
            )

        if little:
            column = _read(pl.read_ipc, io.BytesIO(little))["group"]
            names._held = _Many(column, blocks)
            names._count = len(column)
        else:
            names._count = sum(_read(count, block) for block in blocks)
            names._held = _Many(None, blocks)
        return names

    def finder(self) -> Callable[[pl.Series], NDArray[np.int32]]:
        """Return a function that finds the place of each text; the number of names for others."""
        import numpy as np

        return _finder(self.column, np.arange(len(self), dtype=np.int32))

    def __len__(self) -> int:
        return self._count

    @overload
    def __getitem__(self, place: int) -> str: ...
    @overload
    def __getitem__(self, place: slice) -> GroupNames: ...
    def __getitem__(self, place: int | slice) -> str | GroupNames:
        if isinstance(place, slice) and range(len(self))[place] == range(len(self)):
            return self
        if isinstance(place, slice):
            return GroupNames(self._held[place])
        return str(self._held[int(place)])

    def __iter__(self) -> Iterator[str]:
        return iter(self._held)

    def __contains__(self, name: object) -> bool:
        return isinstance(name, str) and self._held.place(name) is not None

    def index(self, value: Any, start: int = 0, stop: int | None = None) -> int:
        """Return the place of a name from ``start`` to ``stop`` - 1; raise ValueError for none."""
        place = self[start:stop]._held.place(value)
        if place is None:
            raise ValueError(f"{value!r} is not among the names")
        return start + place

    def first_repeated(self) -> str | None:
        """Return the first name that the sequence has more than once; None if there is none."""
        return self._held.duplicate()

    def first_with(self, letter: str) -> str | None:
        """Return the first name that contains a letter; None if there is none."""
        return self._held.with_letter(letter)

    def places(self, names: Sequence[str]) -> NDArray[np.int64]:
        """Return the place of each name; -1 for a name that is missing.

        >>> GroupNames(["home", "shop"]).places(["shop", "blog", "home"]).tolist()
        [1, -1, 0]
        """
        import numpy as np

        if len(names) <= _MOST_SEARCHED_NAMES:
            indexes = [self._held.place(name) for name in names]
            return np.array([-1 if place is None else place for place in indexes], np.int64)
        places = self.finder()(GroupNames(names).column).astype(np.int64)
        return np.where(places < len(self), places, -1)

    def plus(self, *others: Sequence[str]) -> GroupNames:
        if not any(others):
            return self
        together = [self, *others]
        if sum(map(len, together)) <= _SHOWN_NAMES:
            return GroupNames([name for names in together for name in names])
        import polars as pl

        return GroupNames(pl.concat([self.column, *(GroupNames(other).column for other in others)]))

    def __eq__(self, other: object) -> bool:
        if self is other:
            return True
        if isinstance(other, GroupNames):
            if self._digest is not None and self._digest == other._digest:
                return True
            if isinstance(self._held, _Few) and isinstance(other._held, _Few):
                return self._held == other._held
            return len(self) == len(other) and self.column.equals(other.column)
        if isinstance(other, tuple | list):
            return len(other) == len(self) and list(other) == list(self)
        return NotImplemented

    def __hash__(self) -> int:
        """Return the hash of a tuple of these names, which compares equal."""
        return hash(tuple(self))

    def __repr__(self) -> str:
        if len(self) <= _SHOWN_NAMES:
            return repr(tuple(self))
        return f"GroupNames({len(self):,}: {self[0]!r}, ..., {self[-1]!r})"


def _finder(
    names: pl.Series, places: NDArray[np.int32], seed: int = 0
) -> Callable[[pl.Series], NDArray[np.int32]]:
    """Return a function that finds texts in ``names`` at these places; see `GroupNames.finder`.

    A table has one place for each value of some bits of a text's hash. Names that lose theirs to
    another name are found by further tables, with other hashes. It takes a third of a join's time.
    """
    import numpy as np

    if not len(places):
        return lambda texts: np.full(len(texts), len(names), np.int32)
    bits = max(18, (2 * len(places)).bit_length())

    def slots(texts: pl.Series) -> NDArray[np.int64]:
        return (texts.hash(seed).to_numpy() >> np.uint64(64 - bits)).view(np.int64)

    table = np.zeros(1 << bits, np.int32)
    name_slots = slots(names.gather(places) if seed else names)
    table[name_slots] = places
    rest = _finder(names, places[table.take(name_slots) != places], seed + 1)

    def find(texts: pl.Series) -> NDArray[np.int32]:
        indexes = table.take(slots(texts))
        others = names.gather(indexes).ne_missing(texts)
        if others.any():
            indexes[others.to_numpy()] = rest(texts.filter(others))
        return indexes

    return find


def _read(decode: Callable[[Any], object], block: object) -> Any:
    """Return what ``decode`` reads of a block of names; raise `ValueError` if it is damaged."""
    damage: tuple[type[Exception], ...] = (ValueError,)
    if decode is not json.loads:
        import polars as pl

        damage = (ValueError, OSError, pl.exceptions.PolarsError)
    try:
        return decode(block)
    except damage as error:
        raise ValueError(
            "stored names of groups are damaged: a block of names cannot be decoded; restore the "
            "file from a copy"
        ) from error


def _encode(part: pl.Series) -> bytes:
    """Return a part of the names as a table of Arrow, in a layout that all versions read."""
    import polars as pl

    file = io.BytesIO()
    table = part.to_frame().rechunk()
    table.write_ipc(file, compression="zstd", compat_level=pl.CompatLevel.oldest())
    return file.getvalue()


def digest_of(blocks: Sequence[bytes]) -> str:
    """Return one digest over several encoded blocks of names."""
    return sha256(b"".join(sha256(block).digest() for block in blocks)).hexdigest()
