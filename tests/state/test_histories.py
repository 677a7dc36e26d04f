"""Random histories of states, keys and copies: no address of noise is shown with two inputs.

Each history is a seed. `HISTORIES` says how many are tried (default 3). With a defect put back that
let old copies pass, a history of a known seed finds two released values under one noise.
"""

import os
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from histories import History, TwoInputs, by_every_name, drawn, in_silence, one_file, two_files
from states_put_back import Place, Server

from counton.base.errors import StateError
from counton.state.key_and_witness import Witness

pytestmark = pytest.mark.usefixtures("one_witness")
MANY = int(os.environ.get("HISTORIES", "3"))
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
def test_no_address_has_two_inputs_on_a_server(postgres: str, tmp_path: Path) -> None:
    server = Server(postgres)

    def places(_: Path) -> list[Place]:
        server.clear()
        return [server]

    histories(tmp_path, max(1, MANY // 3), places)


@pytest.mark.slow
@pytest.mark.parametrize(("defect", "seed"), [(in_silence, 9), (by_every_name, 47)])
def test_histories_find_each_defect(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, defect: Any, seed: int
) -> None:
    (right := tmp_path / "right").mkdir()
    (wrong := tmp_path / "wrong").mkdir()
    histories(right, 1, two_files, seed)
    defect(monkeypatch)
    with pytest.raises(TwoInputs):
        histories(wrong, 1, two_files, seed)


@pytest.mark.slow
def test_histories_find_a_server_that_was_away(
    postgres: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its moves are chosen: among those that are drawn it takes many to meet them."""
    server = Server(postgres)

    def last(name: str) -> None:
        (folder := tmp_path / name).mkdir()
        server.clear()
        history = History(folder, [server])
        history.create(0)
        history.release(0)
        history.copy_key(0)
        first, copy = history.machines()
        history.away = {first}
        history.knows = {of for of in history.knows if of[0] != first}
        history.release(0, key=copy)
        history.save(0)
        history.release(0, key=copy)
        history.restore(0)
        history.comes_back(0)
        history.release(0, key=first)

    with pytest.raises(StateError, match="not seen who wrote the state last"):
        last("right")
    monkeypatch.setattr(Witness, "vouches", lambda *_: True)
    with pytest.raises(TwoInputs):
        last("wrong")
