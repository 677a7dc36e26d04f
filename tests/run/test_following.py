"""A stream that follows another: who counts in one of the two alone, and what the ledger counts."""

from pathlib import Path

import pytest

from counton import Contribution, PureDP
from counton.base.errors import BudgetExceeded, InvalidInput
from counton.state import Store, Stream
from counton.strategies import Binary


def test_units_of_several_steps_follow_nothing(tmp_path: Path) -> None:
    """They could be in both streams, whichever of the two says that they are in several."""
    one, several = Contribution.add_remove(), Contribution.add_remove(steps=2)
    for number, (first, second) in enumerate(((one, several), (several, one), (several, several))):
        state = tmp_path / f"{number}.db"
        with Stream.create(state, "a", Binary(1), PureDP(1), contribution=first) as stream:
            stream.release(1)
        with pytest.raises(InvalidInput, match="may change several steps"):
            Stream.create(state, "b", Binary(1), PureDP(1), contribution=second, follows="a")
        with Store(state) as store:
            assert [spend.name for spend in store.spends] == ["a"]
        Stream.create(state, "b", Binary(1), PureDP(1), contribution=second).close()
        with Store(state) as store:
            assert [spend.follows for spend in store.spends] == [None, None]


def test_a_program_follows_what_is_over_alone(tmp_path: Path) -> None:
    state, loss = tmp_path / "s.db", PureDP("0.6")
    with Store(state, create=True) as store:
        store.set_limit(PureDP(1))
    with Stream.create(state, "a", Binary(2), loss) as stream:
        stream.release(1)
        with pytest.raises(InvalidInput, match="'a' has not released the last of its steps"):
            Stream.create(state, "b", Binary(2), loss, follows="a")
        with pytest.raises(BudgetExceeded):
            Stream.create(state, "b", Binary(2), loss)
        stream.release(1)
    with pytest.raises(
        BudgetExceeded, match="give at most the guarantee of 'a', which costs nothing more"
    ):
        Stream.create(state, "b", Binary(2), PureDP("1.1"), follows="a")
    Stream.create(state, "b", Binary(2), PureDP("0.7"), follows="a").close()
    with pytest.raises(InvalidInput, match="'b' follows 'a' already, and both count the same"):
        Stream.create(state, "c", Binary(2), PureDP("0.1"), follows="a")
    with Store(state) as store:
        assert store.ledger is not None
        assert store.ledger.remaining() == PureDP("0.3")
        assert store.summary()["ledger"][1]["follows"] == "a"
