"""Everything computed again from key and sums: what is right passes, and each alteration shows."""

import sqlite3
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from altered_journal import alter_values, mend_checksums
from by_reference import state_by_reference
from once import kept_line, kept_margins, kept_tree

from counton import ZCDP, ApproxDP, ContributionBound, ExpiringDP, Key, PureDP, Stream
from counton.base.errors import InvalidInputError, NoiseKeyError, StateError
from counton.base.private import Private
from counton.noise import NoiseField
from counton.privacy import Guarantee
from counton.state import Store, dedup, verify
from counton.state.commit_input import CommitInput
from counton.strategies import (
    Binary,
    Epochs,
    Expiring,
    GrowingBlocks,
    GrowingCascade,
    GrowingSquareRoot,
    HonakerOnline,
    KAry,
    MultiscaleStrategy,
    SmoothBinary,
    SqrtToeplitz,
    StreamStrategy,
)
from counton.windowing.groups import GroupNames

STRATEGIES: list[tuple[StreamStrategy, Any]] = [
    (Binary(40), PureDP(1)),
    (KAry(40, 5, subtraction=True), PureDP(1)),
    (SmoothBinary.best(40, norm=2), ZCDP(0.1)),
    (HonakerOnline(40), ZCDP(0.1)),
    (SqrtToeplitz(40), ApproxDP(1, 1e-6)),
    (GrowingCascade(6), ZCDP(0.1)),
    (MultiscaleStrategy(40), ZCDP(0.1)),
    (GrowingSquareRoot(14), ZCDP(0.1)),
    (GrowingBlocks(14, 8), ZCDP(0.1)),
    (Epochs(), PureDP(1)),
    (Expiring(1), ExpiringDP(0.5)),
    (Expiring(1, delay=4), ExpiringDP(0.5)),
]


@pytest.mark.parametrize(
    ("steps", "strategy", "guarantee"),
    [(0, *STRATEGIES[0]), (3, *STRATEGIES[1]), *((37, *one) for one in STRATEGIES)],
    ids=lambda value: str(value)[:30],
)
def test_every_strategy_is_computed_again(
    strategy: StreamStrategy, guarantee: Guarantee, steps: int, tmp_path: Path
) -> None:
    xs = np.arange(steps * 3).reshape(steps, 3) % 17
    with Stream.create(tmp_path / "s.db", "s", strategy, guarantee, shape=(3,)) as stream:
        if steps:
            stream.release_many(xs)
    before = (tmp_path / "s.db").read_bytes()
    (found,) = verify(tmp_path / "s.db")
    assert found.right, found
    assert found.values == state_by_reference(tmp_path / "s.db") == 3 * steps
    assert (tmp_path / "s.db").read_bytes() == before


def test_reference_finds_noise_error_that_verify_repeats(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Noise of one node, taken from its neighbour, is the same when it is computed again."""
    run = NoiseField.run

    def shifted(self: NoiseField, level: int, nodes: range) -> Any:
        return run(self, level, range(nodes.start + 1, nodes.stop + 1))

    monkeypatch.setattr(NoiseField, "run", shifted)
    with Stream.create(tmp_path / "s.db", "s", Binary(9), PureDP(1), shape=(2,)) as stream:
        stream.release_many([[3, 1], [0, 2]])
    (found,) = verify(tmp_path / "s.db")
    assert found.right, found
    with pytest.raises(AssertionError):
        state_by_reference(tmp_path / "s.db")


def test_sums_on_a_grid_and_scalars_are_computed_again(tmp_path: Path) -> None:
    unit = ContributionBound.values("0", "180", "0.1")
    with Stream.create(tmp_path / "s.db", "s", Binary(9), PureDP(1), contribution=unit) as stream:
        stream.release_many([0.3, 179.9, 12.0])
        stream.release(0.1)
    (found,) = verify(tmp_path / "s.db")
    assert found.right, found
    assert found.values == 4


def test_other_sums_in_a_checkpoint_show(tmp_path: Path) -> None:
    key = Key.generate()
    terms = (KAry(20, 4), PureDP(1))
    for name, last in (("s", [3, 4]), ("other", [3, 5])):
        with Stream.create(tmp_path / f"{name}.db", "s", *terms, key=key, shape=(2,)) as stream:
            stream.release_many([[1, 0], last])
    connection = sqlite3.connect(tmp_path / "other.db")
    (other,) = connection.execute("SELECT checkpoint FROM counton_streams").fetchone()
    connection.close()
    alter(tmp_path / "s.db", "UPDATE counton_streams SET checkpoint = ?", other)
    (found,) = verify(tmp_path / "s.db", key=key)
    assert "has other sums" in " ".join(found.problems)


def alter(state: Path, statement: str, *values: Any) -> None:
    """Alter a state on purpose, so that all checksums fit."""
    connection = sqlite3.connect(state)
    with connection:
        assert connection.execute(statement, values).rowcount == 1
    connection.close()
    mend_checksums(state)


@pytest.fixture
def state(tmp_path: Path) -> Path:
    """Two streams and a table of each kind."""
    state = tmp_path / "s.db"
    for name, count in (("s", 6), ("other", 3)):
        with Stream.create(state, name, KAry(20, 4), PureDP(1), shape=(2,)) as stream:
            stream.release_many(np.arange(2 * count).reshape(-1, 2))
    kept_line([5, 0, 17, 4, 9, 9], state, rho="0.5")
    kept_tree(state, rho="0.5")
    kept_margins(state, rho="0.5")
    return state


def test_verify_accepts_every_stream_of_correct_state(state: Path) -> None:
    found = verify(state)
    assert [one.name for one in found] == ["line", "margins", "other", "s", "tree"]
    assert all(one.right for one in found), found
    assert [one.values for one in found] == [6, 9, 6, 12, 3]
    assert all("the privacy ledger states its guarantee" in one.checks[0] for one in found)


def wrong(state: Path, name: str) -> str:
    (found,) = verify(state, name)
    assert not found.right
    return " ".join(found.problems)


def test_an_altered_checkpoint_or_digest_shows(state: Path) -> None:
    alter(
        state,
        "UPDATE counton_streams SET checkpoint = (SELECT checkpoint FROM counton_streams "
        "WHERE name = 'other') WHERE name = 's'",
    )
    assert "checkpoint" in wrong(state, "s")
    alter(
        state,
        "UPDATE counton_journal SET input_digests = ? WHERE stream_id = "
        "(SELECT id FROM counton_streams WHERE name = 'line')",
        b"x" * 32,
    )
    assert "digests of inputs" in wrong(state, "line")
    alter(
        state,
        "UPDATE counton_ledger SET guarantee = (SELECT guarantee FROM counton_ledger "
        "WHERE name = 's') WHERE name = 'tree'",
    )
    assert "the ledger has pure differential privacy" in wrong(state, "tree")


@pytest.mark.parametrize(
    ("name", "step", "part"),
    [("s", 3, slice(2, 3)), *((name, 1, slice(-1, None)) for name in ("line", "margins", "tree"))],
)
def test_verify_reports_one_altered_number(
    state: Path, name: str, step: int, part: slice, monkeypatch: pytest.MonkeyPatch
) -> None:
    alter_values(monkeypatch, part, -1)
    assert f"step {step} of stream '{name}' is not the sum of its inputs" in wrong(state, name)


def test_another_key_is_refused_or_skipped(state: Path, tmp_path: Path) -> None:
    with pytest.raises(NoiseKeyError):
        verify(state, "line", key=Key.generate())
    found = verify(state, key=Key.generate())
    assert {one.skipped is not None for one in found} == {True}
    (tmp_path / "s.db.key").unlink()
    assert not any(one.right for one in verify(state))


GROUPS = {
    "groups": ["home", "shop"],
    "start": "2024-03-01",
    "series": "cumulative",
    "max_contributions": 3,
}


def sealed(state: Path) -> None:
    """A stream with details that knows users and a file."""
    part = dedup.DigestSet("user", 0, np.array([3, 8], np.uint64))
    with Stream.create(
        state, "s", KAry(20, 4), PureDP(1), shape=(2,), public_facts=GROUPS
    ) as stream:
        change = dedup.DigestChange(dedup.Secret(bytes(range(32))), [part])
        inputs = np.array([[1, 2], [3, 4]])
        stream.commit(Private(CommitInput(inputs, remembered=change, sources=["file"])))


@pytest.mark.parametrize(
    ("statement", "problem"),
    [
        (
            "UPDATE counton_streams SET details = replace(details, '\"home\", ', '')",
            "not what was written under its key",
        ),
        (
            "UPDATE counton_streams SET details = replace(details, 'cumulative', 'per-window')",
            "not what was written under its key",
        ),
        ("UPDATE counton_streams SET details = 'x'", "public facts"),
        ("DELETE FROM counton_marks WHERE kind = 'user'", "not what was written"),
        ("DELETE FROM counton_marks WHERE kind = 'secret'", "not what was written"),
        ("DELETE FROM counton_sources", "not what was written"),
        ("UPDATE counton_ledger SET unit = 'household'", "the ledger counts 's' by 'household'"),
        ("UPDATE counton_journal SET std = 2 * std", "standard deviation"),
    ],
)
def test_altered_details_and_a_lost_memory_show(
    statement: str, problem: str, tmp_path: Path
) -> None:
    state = tmp_path / "s.db"
    sealed(state)
    assert all(one.right for one in verify(state))
    alter(state, statement)
    assert problem in wrong(state, "s")
    if "counton_streams" in statement or "marks" in statement:
        with pytest.raises(StateError, match=problem):
            Stream.open(state, "s")


@pytest.mark.parametrize(
    "statement",
    [
        "DELETE FROM counton_names WHERE stream_id = 1",
        "UPDATE counton_names SET names = other FROM (SELECT names AS other FROM counton_names "
        "WHERE stream_id = 2) WHERE stream_id = 1",
        "UPDATE counton_names SET names = substr(names, 1, 9) WHERE stream_id = 1",
    ],
)
def test_names_of_groups_that_are_altered_show(statement: str, tmp_path: Path) -> None:
    state = tmp_path / "s.db"
    for name, groups in (("s", ["home", "shop"]), ("t", ["shop", "home"])):
        details = {**GROUPS, "groups": GroupNames(groups)}
        Stream.create(state, name, KAry(20, 4), PureDP(1), shape=(2,), public_facts=details).close()
    with Store(state) as store:
        assert store.public_facts["s"]["groups"] == ("home", "shop")
    alter(state, statement)
    assert "names of 2 groups" in wrong(state, "s")
    with pytest.raises(
        StateError, match="names of 2 groups are not those that the stream was created with"
    ):
        Stream.open(state, "s")


def test_names_that_are_amended_replace_those_before(tmp_path: Path) -> None:
    state = tmp_path / "s.db"
    names = GroupNames([f"g{number}" for number in range(5)])
    make = Stream.create(
        state, "s", KAry(20, 4), PureDP(1), shape=(6,), public_facts={"groups": names}
    )
    with make as stream:
        stream.amend({"groups": names.plus(["new"]), "also": True})
        stream.release([1, 2, 3, 4, 5, 6])
    with Stream.open(state, "s") as stream:
        assert stream.public_facts == {"groups": [*names, "new"], "also": True}
    assert all(one.right for one in verify(state))


def test_amended_details_are_authenticated_again(tmp_path: Path) -> None:
    state = tmp_path / "s.db"
    sealed(state)
    with Stream.open(state, "s") as stream:
        stream.amend({**GROUPS, "groups": ["home", "store"]})
        stream.release([5, 6])
    assert all(one.right for one in verify(state))
    with Store(state) as store:  # to end a stream takes no key
        store.amend("s", lambda step: {**store.public_facts["s"], "ended": step})
    assert all(one.right for one in verify(state))
    Stream.open(state, "s").close()


def test_a_state_with_two_keys_is_verified_with_each(tmp_path: Path) -> None:
    state = tmp_path / "s.db"
    kept = [tmp_path / "one.key", tmp_path / "two.key"]
    for name, key in zip(("a", "b"), kept, strict=True):
        Key.generate().save(key)
        with Stream.create(state, name, KAry(20, 4), PureDP(1), key=key) as stream:
            stream.release_many([3, 4])
    for right, skipped, held in ((0, 1, kept[0]), (1, 0, Key.load(kept[1]))):
        found = verify(state, key=held)
        assert found[right].right
        assert "the given key is" in str(found[skipped].skipped)
    for name, key in zip(("a", "b"), kept, strict=True):  # what the witness knows is told with both
        old = state.read_bytes()
        with Stream.open(state, name, key=key) as stream:
            stream.release(1)
        state.write_bytes(old)
        for other in kept:
            assert name in [one.name for one in verify(state, key=other) if one.problems]


def test_verify_reports_stream_that_can_release_no_more(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A state of a version that began streams whose noise their strategy cannot add up."""
    for name, steps in (("stuck", 8), ("full", 2)):
        stream = Stream.create(tmp_path / "s.db", name, KAry(steps, 5), PureDP(1))
        with stream:
            stream.release_many(np.ones(2, np.int64))

    def refuse(self: KAry, distribution: object) -> None:
        raise InvalidInputError("sums of noise are not exact")

    monkeypatch.setattr(KAry, "_check_distribution", refuse)
    stuck, full = sorted(verify(tmp_path / "s.db"), key=lambda found: found.name, reverse=True)
    assert (len(stuck.problems), full.problems) == (1, ())
    assert "can release no further step (sums" in stuck.problems[0]
    assert any("as large as the guarantee requires" in check for check in stuck.checks)
