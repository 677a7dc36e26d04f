"""A release as a folder of Parquet files, one for each step and block of groups.

What was released never changes, so a file that is there stays, and a night adds its own. Steps are
read a few at a time: memory hangs on the groups, and not on the steps.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

from counton.base.errors import InvalidInput, field
from counton.released.description import Description
from counton.released.large_groups import block_of, large_only
from counton.released.release import Release
from counton.released.release_facts import description_of, facts_of
from counton.released.release_files import check_one_release
from counton.run.outputs import in_folder, write_table

#: Groups of one file at most, and rows that are read together, if that is more than one step.
_BLOCK, _ROWS = 2**20, 2**20


def check_foldable(definition: Description | None, folder: Path) -> None:
    """Refuse what has no such files, before anything is released.

    Args:
        definition: None for a stream that was not made from events.

    Raises:
        InvalidInput: it is neither counts nor sums, or nobody declared its groups.
    """
    if definition is None or not definition.shows_cells or definition.discovery is not None:
        raise InvalidInput(
            f"{field('out', str(folder))} has no ending, so it is a folder with a file for each "
            f"step, which is written of counts and sums of declared groups alone: name a file, "
            f"such as {folder.name}.parquet"
        )


def write_folder(
    folder: Path,
    read: Callable[[range], Release],
    steps: range,
    groups: int,
    above: float | None = None,
    surely_above: float | None = None,
) -> Release:
    """Write the files that are not there yet.

    Args:
        folder: made if missing.
        read: gives a release of some steps.
        steps: that are to be there.
        groups: how many there are.
        above, surely_above: as of `counton.run.exports.export`.

    Returns:
        The last step.

    Raises:
        InvalidInput: the folder has files of another release, or written in another way.
        OSError: a file could not be written; those before it are whole.
    """
    last = read(steps[-1:])
    present = in_folder(folder)
    if present:
        first = next(_blocks(last, groups))[1]
        shown = large_only(first, above, surely_above)
        own = shown.own_facts() or {}
        described = description_of(shown.design, shown.definition, shown.level, own)
        check_one_release(present[-1], described)
    folder.mkdir(exist_ok=True)
    names, size = {path.name for path in present}, max(1, _ROWS // groups)
    missing = [step for step in steps if not names.issuperset(_names(step, groups))]
    while missing:
        chunk = [step for step in missing[:size] if step < missing[0] + size]
        missing = missing[len(chunk) :]
        held = last if chunk == [*steps[-1:]] else read(range(chunk[0], chunk[-1] + 1))
        for step in chunk:
            for name, block in _blocks(held.only(range(step, step + 1)), groups):
                if name not in names:
                    shown = large_only(block, above, surely_above)
                    write_table(shown.lazy(), folder / name, facts_of(shown))
    return last


def _blocks(released: Release, groups: int) -> Iterator[tuple[str, Release]]:
    """The files of one step: their names, and what is in each."""
    for number, name in enumerate(_names(released.first, groups)):
        places = range(number * _BLOCK, min((number + 1) * _BLOCK, groups))
        yield name, block_of(released, places, number)


def _names(step: int, groups: int) -> list[str]:
    return [f"step-{step:06}-block-{block:04}.parquet" for block in range(-(-groups // _BLOCK))]
