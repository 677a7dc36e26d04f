"""``python -m tests.attack``: cases with fresh seeds, until the time ends.

``--hours 1`` or ``--seconds 60`` say how long, ``--seed`` begins with the seed that an earlier run
printed, ``--case FILE`` runs one case again that was kept, ``--only neighbours`` tries one kind.
``--mistake no_clip`` puts in a mistake of ``tests/support/slips_on_purpose.py`` (or
``histories.py``), to see that it is found. A case that finds something is made smaller, and kept;
the end is 1 then.
"""

import argparse
import itertools
import json
import random
import secrets
import sys
import time
import traceback
import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

SUPPORT = Path(__file__).parents[1] / "support"
#: Seconds in which a case that finds something is made smaller.
SHRINKING = 60


def failure(kind: Any, case: dict[str, Any]) -> str | None:
    """What a case finds; None: nothing."""
    try:
        tried(kind, case)
    except Exception as error:
        if isinstance(error, AssertionError):
            return str(error) or "".join(traceback.format_tb(error.__traceback__)[-1:])
        return f"{traceback.format_exc(limit=-3)}"
    return None


def tried(kind: Any, case: dict[str, Any]) -> str:
    """Run a case in a folder of its own; what it was a case of."""
    with TemporaryDirectory() as folder:
        return str(kind.run(case, Path(folder)))


def smaller(kind: Any, case: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """The case without some items of one of its lists: halves first, then single ones."""
    for part in kind.parts:
        name, _, place = part.partition(".")
        items = case[name][int(place)] if place else case[name]
        size = len(items)
        while size:
            size //= 2
            for start in range(0, len(items), max(size, 1)):
                left = items[:start] + items[start + max(size, 1) :]
                if place:
                    several = list(case[name])
                    several[int(place)] = left
                    yield {**case, name: several}
                else:
                    yield {**case, name: left}


def smallest(kind: Any, case: dict[str, Any], seconds: float) -> dict[str, Any]:
    """A case that still finds something, and nothing smaller does, or time has ended."""
    ends = time.monotonic() + seconds
    while True:
        for one in smaller(kind, case):
            if time.monotonic() > ends:
                return case
            if failure(kind, one) is not None:
                case = one
                break
        else:
            return case


def attack(
    seed: int,
    seconds: float,
    *,
    only: str | None = None,
    keep: Path = Path(),
    say: Callable[[str], None] = print,
    progress: Callable[[float, int], None] = lambda share, cases: None,
    most: int | None = None,
    enough: int | None = None,
) -> tuple[Counter[str], list[Path]]:
    """Try cases until the time ends.

    Args:
        seed: a function of it and of their number are the cases.
        seconds: how long.
        only: a kind; None: all of them.
        keep: folder of files with cases that found something.
        say: is told what is found.
        progress: is told the share of the time that is over, and how many cases were tried.
        most: cases after which it ends; None: it goes on.
        enough: findings after which it ends; None: it goes on.

    Returns:
        How many cases of each sort were tried, and the files of those that found something.
    """
    from tests.attack.kinds import KINDS

    began = time.monotonic()
    counts = Counter[str]()
    kept = list[Path]()
    names = [only] if only else [name for name, kind in KINDS.items() for _ in range(kind.share)]
    known: set[tuple[str, str]] = set()
    for number in itertools.count() if most is None else range(most):
        if time.monotonic() - began > seconds or (enough is not None and len(kept) >= enough):
            break
        chance = random.Random(f"{seed} {number}")
        name = chance.choice(names)
        kind = KINDS[name]
        case = json.loads(json.dumps(kind.draw(chance)))
        try:
            counts[f"{name}: {tried(kind, case)}"] += 1
        except Exception:
            found = failure(kind, case) or "found once, and not again"
            counts[f"{name}: FOUND SOMETHING"] += 1
            if (name, found[:60]) not in known:
                known.add((name, found[:60]))
                kept.append(keep_case(keep, name, f"{seed}-{number}", case, say))
        progress(min(1, (time.monotonic() - began) / seconds), number + 1)
    return counts, kept


def keep_case(
    folder: Path, name: str, seed: str, case: dict[str, Any], say: Callable[[str], None]
) -> Path:
    """Write the smallest case that finds what this one does."""
    from tests.attack.kinds import KINDS

    least = smallest(KINDS[name], case, SHRINKING)
    found = failure(KINDS[name], least) or "found once, and not again"
    path = folder / f"attack-{name}-{seed}.json"
    path.write_text(json.dumps({"kind": name, "found": found, "case": least}, indent=1) + "\n")
    say(f"{name} FOUND: {found}\n  again: python -m tests.attack --case {path}")
    return path


def again(path: Path) -> str | None:
    """What a kept case finds now."""
    from tests.attack.kinds import KINDS

    kept = json.loads(path.read_text())
    return failure(KINDS[kept["kind"]], kept["case"])


def put_in(mistake: str) -> None:
    """Make a mistake on purpose, until the process ends."""
    import histories
    import pytest
    import slips_on_purpose

    module: Any = slips_on_purpose if hasattr(slips_on_purpose, mistake) else histories
    getattr(module, mistake)(pytest.MonkeyPatch())


def main() -> int:
    """Read what is asked, and print what was tried."""
    sys.path.insert(0, str(SUPPORT))
    from rich.console import Console
    from rich.progress import Progress

    parser = argparse.ArgumentParser(prog="python -m tests.attack", description=__doc__)
    parser.add_argument("--hours", type=float, default=1)
    parser.add_argument("--seconds", type=float)
    parser.add_argument("--seed", type=int, default=secrets.randbits(48))
    parser.add_argument("--only")
    parser.add_argument("--case", type=Path)
    parser.add_argument("--mistake")
    asked = parser.parse_args()
    warnings.simplefilter("ignore")
    if asked.mistake:
        put_in(asked.mistake)
    if asked.case:
        found = again(asked.case)
        print(found or "nothing is found")
        return 1 if found else 0
    print(f"seed {asked.seed} (make attack SEED={asked.seed} tries the same cases)", flush=True)
    with Progress(console=Console(stderr=True)) as bar:
        task = bar.add_task("cases", total=1.0)
        counts, kept = attack(
            asked.seed,
            asked.seconds or 3600 * asked.hours,
            only=asked.only,
            say=lambda told: print(told, flush=True),
            progress=lambda share, cases: bar.update(
                task, completed=share, description=f"{cases:,} cases"
            ),
            enough=1 if asked.mistake else None,
        )
    for name, count in sorted(counts.items()):
        print(f"{count:8,}  {name}")
    print(f"{sum(counts.values()):8,}  in all, {len(kept)} kept")
    return 1 if kept else 0


if __name__ == "__main__":
    sys.exit(main())
