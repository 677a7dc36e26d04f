"""The files of new rows that a run counts: those that the stream has not counted.

A file is recognised by the digest of its bytes, so that it counts once, whatever its name; a data
frame, and rows of a database, by the columns that are read. A file that has the name of a counted
one and other bytes may be a corrected copy, whose rows would count twice.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from counton.base.errors import InvalidInput, ReplayMismatch
from counton.base.errors import field as option_name
from counton.base.private import Private, open_private
from counton.rows.remote_rows import Spread
from counton.rows.sources import Rows, Source

#: Function that returns whether a stream has counted the file with a digest.
IsCounted = Callable[[str], bool]


@dataclass(frozen=True, repr=False)
class UncountedFiles:
    """The files that a run reads.

    Attributes:
        source: the rows of the files.
        digests: digests under which the state keeps that they are counted.
        is_duplicate: whether all were counted before, so that no row is new.
    """

    source: Private[Source]
    digests: Sequence[str] = ()
    is_duplicate: bool = False

    def refuse_duplicate(self, windows: int) -> None:
        """Refuse to release windows if all files were counted before: a file may be missing.

        Args:
            windows: number of windows that would be released.

        Raises:
            InvalidInput: there are such windows.
        """
        if not self.is_duplicate or windows <= 0:
            return
        source = open_private(self.source)
        verb = "has" if len(source.parts) == 1 else "have"
        would = "window would" if windows == 1 else "windows would"
        raise InvalidInput(
            f"{source.name} {verb} been counted already, and {windows:,} more {would} be released "
            "without any new row; give the file of the new rows, or "
            f"{option_name('yes', True)} if nothing happened"
        )


def find_uncounted_files(
    source: Private[Source], columns: Sequence[str], is_counted: IsCounted, *, are_several: bool
) -> UncountedFiles:
    """Leave out files that were counted, and those that repeat another one.

    Args:
        source: the files.
        columns: columns of the rows, by which a data frame is recognised.
        is_counted: function that returns whether the stream has counted a digest.
        are_several: whether the job names a folder, a pattern or several files, in which a file
            with a counted name and other bytes is refused.

    Raises:
        InvalidInput: there is such a file.
    """
    files = open_private(source)
    if files.accepted:  # rows that the state has taken already
        return UncountedFiles(source)
    by_digest: dict[str, Rows] = {}
    for part in files.parts:
        by_digest.setdefault(f"sha256:{part.digest(columns)}", part)
    new = {digest: part for digest, part in by_digest.items() if not is_counted(digest)}
    if are_several and not isinstance(files, Spread):
        _refuse_other_bytes(new, is_counted)
    read = list((new or by_digest).values())
    left_out = [part for part in files.parts if part not in read]
    names = [_name_digest(part) for part in new.values() if part.place is not None]
    new_names = [name for name in dict.fromkeys(names) if not is_counted(name)]
    rest = files if isinstance(files, Spread) or not left_out else files.without(left_out)
    return UncountedFiles(Private(rest), digests=(*new, *new_names), is_duplicate=not new)


def refuse_counted_meanwhile(files: UncountedFiles, is_counted: IsCounted) -> None:
    """Refuse files that another run has counted since they were read.

    Raises:
        ReplayMismatch: there is one.
    """
    source = open_private(files.source)
    for digest in files.digests:
        if digest.startswith("sha256:") and is_counted(digest):
            part = source.parts[0]
            raise ReplayMismatch(
                f"{source.name} has been counted already ({digest[:18]}...); {part.again}"
            )


def _refuse_other_bytes(new: dict[str, Rows], is_counted: IsCounted) -> None:
    for part in new.values():
        if part.place is not None and is_counted(_name_digest(part)):
            raise InvalidInput(
                f"{part.name} was counted with other bytes, and its rows would count a second "
                "time: put the file back as it was counted, or leave it out; if all its rows are "
                "new, give it a name that no counted file has. Wrong rows that were counted are "
                f"corrected by a new stream ({option_name('name')}) over all corrected files"
            )


def _name_digest(part: Rows) -> str:
    place = str(part.place).encode("utf-8", "backslashreplace").decode()
    return f"name:{place}"
