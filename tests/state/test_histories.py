"""Random histories of states, keys and copies: no address of noise is shown with two inputs.

Each history is a seed. `HISTORIES` says how many are tried (default 2). With a defect put back that
let old copies pass, a history of a known seed finds two released values under one noise.
"""

import os
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from histories import History, TwoInputsError, drawn, in_silence, left_behind, one_file, two_files
from states_put_back import Place, Server

MANY = int(os.environ.get("HISTORIES", "2"))
MOVES = 30


def histories(
    folder: Path, many: int, places: Callable[[Path], list[Place]], first: int = 0
) -> dict[str, int]:
    """Try so many histories, from a first seed on; how often each move came through."""
    went: dict[str, int] = {}
    for seed in range(first, first + many):
        place = folder / str(seed)
        place.mkdir()
        history = History(place, places(place))
        server = history.places[0].is_server
        history.run(drawn(random.Random(seed), MOVES, server=server))
        for move, times in history.went.items():
            went[move] = went.get(move, 0) + times
    return went


@pytest.mark.slow
@pytest.mark.parametrize("places", [one_file, two_files])
def test_no_address_has_two_inputs(tmp_path: Path, places: Any) -> None:
    went = histories(tmp_path, MANY, places)
    assert went["release"] > 2 * MANY, went  # it is not for want of trying


@pytest.mark.slow
@pytest.mark.long
def test_no_address_has_two_inputs_on_a_server(postgres: str, tmp_path: Path) -> None:
    server = Server(postgres)

    def places(_: Path) -> list[Place]:
        server.clear()
        return [server]

    histories(tmp_path, max(1, MANY // 3), places)


@pytest.mark.slow
@pytest.mark.parametrize(("defect", "seed"), [(in_silence, 6), (left_behind, 149)])
def test_histories_find_each_defect(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, defect: Any, seed: int
) -> None:
    (right := tmp_path / "right").mkdir()
    (wrong := tmp_path / "wrong").mkdir()
    histories(right, 1, two_files, seed)
    defect(monkeypatch)
    with pytest.raises(TwoInputsError):
        histories(wrong, 1, two_files, seed)
