"""The files of new rows that a run counts: those that the stream has not counted.

A file is recognised by the digest of its bytes, so that it counts once, whatever its name; a data
frame, and rows of a database, by the columns that are read. A file that has the name of a counted
one and other bytes may be a corrected copy, whose rows would count twice.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from counton.base.errors import InputChangedError, InvalidInputError, param
from counton.base.private import Private, reveal
from counton.io.bad_rows import change_error
from counton.io.remote_rows import RemoteRows
from counton.io.sources import InputPart, Source
from counton.run.spec.terms import InputKind, NewRows, Snapshot

#: Function that returns whether a stream has counted the file with a digest.
IsCounted = Callable[[str], bool]


@dataclass(frozen=True, repr=False)
class UncountedFiles:
    """The files that a run has read.

    Attributes:
        name: what messages call all of them.
        number: number of files.
        new: the files that the stream has not counted, by the digests of their bytes.
        is_duplicate: whether all were counted before, so that no row is new.
        known_names: digests of their names that the state keeps already.
    """

    name: str
    number: int = 1
    new: Mapping[str, InputPart] = field(default_factory=dict)
    is_duplicate: bool = False
    known_names: frozenset[str] = frozenset()

    @property
    def digests(self) -> Sequence[str]:
        """Digests of bytes and names under which the state keeps that they are counted."""
        names = [
            _name_digest(input_part)
            for input_part in self.new.values()
            if input_part.path_without_compression is not None
        ]
        return (*self.new, *(name for name in dict.fromkeys(names) if name not in self.known_names))

    def refuse_duplicate(self, windows: int) -> None:
        """Refuse to release windows if all files were counted before: a file may be missing.

        Args:
            windows: number of windows that would be released.

        Raises:
            InvalidInputError: there are such windows.
        """
        if not self.is_duplicate or windows <= 0:
            return
        verb = "has" if self.number == 1 else "have"
        would = "window would" if windows == 1 else "windows would"
        raise InvalidInputError(
            f"{self.name} {verb} been counted already, and {windows:,} more {would} be released "
            "without any new row. Give the file of the new rows, or "
            f"{param('allow_empty_windows', True)} if there are none"
        )


def leave_out_counted_files(
    source: Private[Source],
    columns: Sequence[str],
    is_counted: IsCounted,
    *,
    are_several: bool,
) -> Private[Source]:
    """Leave out files that were counted, and those that repeat another one, before any is read.

    So if a folder gets a new file before every run, only that file is read. If all files are
    counted, only the repeats are left out.

    Args:
        source: the files.
        columns: columns of the rows, by which a data frame is recognised.
        is_counted: function that returns whether the stream has counted a digest.
        are_several: whether the job names a folder, a pattern or several files, in which a file
            with a counted name and other bytes is refused.

    Raises:
        InvalidInputError: there is such a file.
    """
    files = reveal(source)
    if files.comes_from_inbox or isinstance(files, RemoteRows):
        return source
    if not are_several and len(files.parts) == 1:  # it is hashed after its rows are read
        return source
    parts_by_digest = _by_digest(files.parts, columns)
    new = {
        digest: input_part
        for digest, input_part in parts_by_digest.items()
        if not is_counted(digest)
    }
    if are_several:
        _refuse_other_bytes(new, is_counted)
    read = list((new or parts_by_digest).values())
    left_out = [input_part for input_part in files.parts if input_part not in read]
    return Private(files.without(left_out)) if left_out else source


def recognise_files(
    source: Private[Source],
    columns: Sequence[str],
    is_counted: IsCounted,
    kind: InputKind,
    *,
    has_rows: bool,
) -> UncountedFiles:
    """Recognise files whose rows were read, by the bytes that were counted.

    Args:
        source: the files.
        columns: columns of the rows, by which a data frame is recognised.
        is_counted: function that returns whether the stream has counted a digest.
        kind: what the input holds. Rows of a snapshot, or with ids, are not recognised by files,
            but the batches of a query are recorded, so that an old copy of the state is noticed.
        has_rows: whether there is a row.

    Raises:
        InvalidInputError: a file changed while it was read.
        InputChangedError: a batch of a query was counted with other rows.
    """
    files = reveal(source)
    recognised = UncountedFiles(files.name, len(files.parts))
    is_new_rows = isinstance(kind, NewRows)
    if (
        not files.comes_from_inbox
        and not isinstance(kind, Snapshot)
        and (is_new_rows or files.may_grow)
    ):
        parts_by_digest = _by_digest(files.parts, columns)
        new = {
            digest: input_part
            for digest, input_part in parts_by_digest.items()
            if not is_counted(digest)
        }
        counted = [
            input_part for digest, input_part in parts_by_digest.items() if digest not in new
        ]
        if is_new_rows and new and counted and has_rows:
            raise _counted_already(counted[0])
        names = {
            _name_digest(input_part)
            for input_part in new.values()
            if input_part.path_without_compression is not None
        }
        known_names = frozenset(name for name in names if is_counted(name))
        is_duplicate = is_new_rows and not new
        recognised = replace(
            recognised, new=new, is_duplicate=is_duplicate, known_names=known_names
        )
    for input_part in files.parts:
        if input_part.has_changed():
            raise change_error(input_part)
    return recognised


def refuse_counted_meanwhile(
    files: UncountedFiles, is_counted: IsCounted, *, are_several: bool
) -> None:
    """Refuse files that another run has counted since they were read.

    Args:
        files: the files that were read.
        is_counted: function that returns whether the stream has counted a digest by now.
        are_several: whether the job names a folder, a pattern or several files, in which a file
            with a counted name and other bytes is refused.

    Raises:
        InputChangedError: there is one.
        InvalidInputError: there is one of the same name, and with other bytes.
    """
    for digest, input_part in files.new.items():
        if is_counted(digest):
            raise _counted_already(input_part)
    if are_several:
        _refuse_other_bytes(files.new, is_counted)


def _counted_already(input_part: InputPart) -> InputChangedError:
    return InputChangedError(
        f"{input_part.name} has been counted already; {input_part.remedy_if_counted}"
    )


def _refuse_other_bytes(new: Mapping[str, InputPart], is_counted: IsCounted) -> None:
    for input_part in new.values():
        if input_part.path_without_compression is not None and is_counted(_name_digest(input_part)):
            raise InvalidInputError(
                f"{input_part.name} was counted with other bytes, and its rows would count a "
                "second time. Put the file back as it was counted, or leave it out. If all its "
                "rows are new, give it another name. To correct wrong rows, begin a new stream "
                f"({param('stream')}) over all files, which spends the privacy loss again"
            )


def _by_digest(parts: Sequence[InputPart], columns: Sequence[str]) -> dict[str, InputPart]:
    parts_by_digest: dict[str, InputPart] = {}
    for input_part in parts:
        parts_by_digest.setdefault(f"sha256:{input_part.digest(columns)}", input_part)
    return parts_by_digest


def _name_digest(input_part: InputPart) -> str:
    path = str(input_part.path_without_compression).encode("utf-8", "backslashreplace").decode()
    return f"name:{path}"
