"""Where releases are noise alone, everything that readers get is equal, byte for byte.

Two nights over rows, and over rows with one more: under one key, with one noise, to which no exact
number is added. A difference would come from exact data on another way than through the noise.
"""

import hashlib
import json
import secrets
import shutil
from itertools import count
from typing import Any

import numpy as np
import pytest
from every_option import stated_by, words_of
from every_statistic import HEADER

from counton import Counter, Key
from counton.base.private import Private
from counton.cli.print_forms import CONFIDENTIAL as EXACT
from counton.continual.checkpoint import StreamProgress
from counton.state.dedup import Secret

from .conftest import Workplace

NIGHTS = (
    ["00:10,home,ann,3,u,v,1,a,1", "00:40,shop,bob,5,v,w,1,b,2", "02:30,home,ann,4,u,w,1,a,3"],
    ["01:10,shop,cy,2,v,w,1,b,4", "03:20,shop,bob,7,v,w,1,b,5", "04:20,home,cy,2,u,v,1,a,6"],
)
USER = {"user": "user", "max_contributions": 2, "contribution_period": "1d"}
LEFT_OUT: dict[str, Any] = {"bad_rows": "quarantine:aside.csv", "missing_values": "drop"}
GROUPS = {"group_by": "page", "groups": "home", "unlisted_groups": "drop"}


@pytest.fixture
def noise_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    add_noise: Any = Counter._compute

    def without_totals(self: Any, totals: Any) -> Any:
        done, (_, after) = self._done, add_noise(self, totals)
        step, sums, waiting = self._progress()
        nothing = np.zeros_like(waiting)
        self._done = Private(StreamProgress(step, np.zeros_like(sums), nothing))
        values, _ = add_noise(self, np.zeros_like(totals))
        self._done = done
        return values, after

    monkeypatch.setattr(Counter, "_compute", without_totals)
    monkeypatch.setattr(Secret, "fresh", lambda: Secret(bytes(range(32))))


def all_that_is_shown(
    place: Workplace, name: str, said: dict[str, Any], nights: list[list[str]], key: Key
) -> list[Any]:
    """What two nights print and write, and what other commands say of the state afterwards."""
    folder = place.folder / "work"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    key.save(folder / "k.key")
    stated = stated_by(name, {**LEFT_OUT, **said, "epsilon": 1})
    first = words_of(name, stated, folder)
    shown = list[Any]()
    state = str(folder / "s.db")
    for night, until in enumerate(("03", "05")):
        lines = "".join(f"2024-03-01T{row}\n" for rows in nights[: night + 1] for row in rows)
        (folder / "e.csv").write_text(HEADER + lines)
        words = ["release", name, str(folder / "e.csv"), "--state", state]
        words += ["--key", str(folder / "k.key"), "--until", f"2024-03-01T{until}:00"]
        out = ["--output", str(folder / "t.csv")]
        done = place.by_file(*words, *out, *first).fine()
        said_apart = [line for line in done.err.splitlines() if EXACT not in line]
        report = json.loads(place.plain(*words, *out, "--json").out)
        del report["not_private"]
        shown += [done.out, said_apart, report, (folder / "t.csv").read_bytes()]
        first = []
    for command in (["inspect", state], ["methods", state, "--full"]):
        shown.append(place.plain(*command).out)
    return shown


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "said", "row"),
    [
        ("count", {**USER, **GROUPS}, (1, "00:05,home,ann,9,u,v,1,a,9")),
        ("sum", {"row_id": "id", "allowed_lateness": "1h"}, (1, "02:30,home,ann,x,u,w,1,a,3")),
        ("quantiles", {**USER, **GROUPS}, (1, "03:00,elsewhere,zed,,u,v,1,a,9")),
        ("distinct", {}, (0, "09:00,home,zed,5,u,v,1,a,9")),
    ],
    ids=str,
)
def test_row_changes_public_output_only_through_noise(
    name: str,
    said: dict[str, Any],
    row: tuple[int, str],
    place: Workplace,
    noise_alone: None,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    key = Key.generate()
    found = list[list[Any]]()
    night, more = row
    monkeypatch.setenv("XDG_STATE_HOME", str(place.folder / "work" / "home"))
    for added in ([], [more]):
        drawn = count()
        monkeypatch.setattr(
            secrets,
            "token_hex",
            lambda size, drawn=drawn: hashlib.sha256(b"%d" % next(drawn)).hexdigest()[: 2 * size],
        )
        nights = [[*rows] for rows in NIGHTS]
        nights[night] += added
        found.append(all_that_is_shown(place, name, said, nights, key))
    assert found[0] == found[1]
