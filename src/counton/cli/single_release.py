"""What ``hierarchy`` and ``ranges`` share: one release for a key and a name, and how it is told."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from rich.console import Console

from counton.cli.options import TableOptions
from counton.cli.outputs import PICTURES, check_output
from counton.cli.printing import print_line, print_words
from counton.mechanisms.hierarchy import HierarchyRelease
from counton.mechanisms.ranges import RangesRelease
from counton.store import Receipts
from counton.store.receipts import receipts_path

Release = HierarchyRelease | RangesRelease


def check_files(options: TableOptions, inputs: list[Path]) -> None:
    """Refuse outputs that could not be written, or would replace a file of the same run.

    Raises:
        InvalidInput: naming the file.
    """
    key_path = _key_path(options)
    kept = [*inputs, key_path, receipts_path(key_path.resolve())]
    check_output(options.out, inputs=kept)
    if options.plot is not None:
        check_output(options.plot, PICTURES, inputs=[*kept, options.out])


def receipts_for(options: TableOptions) -> Receipts:
    """The key of the output, from its file or fresh, and what it has released."""
    return Receipts(
        _key_path(options),
        remedy="choose another --out (with a new key) or another --name, which spends the "
        "guarantee again",
    )


def _key_path(options: TableOptions) -> Path:
    return options.key or options.out.with_name(f"{options.out.name}.key")


def print_head(
    console: Console,
    what: str,
    again: bool,
    release: Release,
    options: TableOptions,
    how: tuple[str, str],
    receipts: Receipts,
) -> None:
    """What was released, what is protected, ``how`` (a name and words), and where the key is."""
    repeated = f"Nothing new: these {what} were released before; here they are again."
    print_line(console, repeated if again else f"Released {what}.", bold=True)
    print_words(
        console,
        [
            ("protected", release.contribution.describe(options.unit, steps=False)),
            ("guarantee", f"{release.guarantee}: {release.guarantee.meaning_for(options.unit)}"),
            how,
            ("key", f"{receipts.key_path}; what it released: {receipts.path}"),
        ],
    )


def as_json(
    release: Release, options: TableOptions, again: bool, details: dict[str, Any]
) -> dict[str, Any]:
    """The machine-readable report; ``details`` are the command's own."""
    return {
        "name": options.name,
        "released_before": again,
        "protected": release.contribution.describe(options.unit, steps=False),
        "guarantee": release.guarantee.to_dict(),
        **details,
        "out": str(options.out),
        "plot": None if options.plot is None else str(options.plot),
    }
