"""States that nobody's counter wrote are refused with one kind of error, and never resumed."""

import hashlib
import json
from typing import Any

import numpy as np
import pytest
from keys import chosen_key

from counton import Counter, PureDP
from counton.base.arrays import pack
from counton.base.errors import StateError
from counton.strategies import Binary, Expiring

KEY = chosen_key()


def stream(**options: Any) -> Counter:
    return Counter(Binary(100), PureDP(1), key=KEY, name="visits", shape=(2,), **options)


def sealed(body: bytes) -> bytes:
    return f"counton-checkpoint-3 {hashlib.sha256(body).hexdigest()}\n".encode() + body


def changed(terms: Any = ..., **fields: Any) -> bytes:
    """A checkpoint with a valid checksum and other contents; sums and waiting as packed bytes."""
    _, said, kept, packed = stream().checkpoint().split(b"\n", 3)
    head = json.loads(said)
    _, size = head["sums"]
    body = {"sums": packed[:size], "waiting": packed[size:]}
    for name in body.keys() & fields.keys():
        if isinstance(fields[name], tuple):
            body[name] = pack(np.array([fields[name]], np.int64))
            fields[name] = [len(fields[name]), len(body[name])]
    told = json.dumps({**head, **fields}).encode()
    kept = kept if terms is ... else json.dumps(terms).encode()
    return sealed(b"\n".join([told, kept, body["sums"] + body["waiting"]]))


@pytest.mark.parametrize(
    "body", ["", "[]", "{}", "3", "nothing", '{"terms": {}}', "3\n4\n", "\n\n"]
)
def test_bodies_that_are_no_state_are_refused(body: str) -> None:
    with pytest.raises(StateError):
        Counter.resume(sealed(body.encode()), key=KEY)


@pytest.mark.parametrize(
    "fields",
    [
        {"step": -1},
        {"step": 101},
        {"step": 1.5},
        {"step": "1"},
        {"step": True},
        {"sums": "!!"},
        {"sums": (1,)},
        {"sums": (1, 2, 3)},
        {"sums": (0, 2**62)},
        {"sums": (0, -(2**63))},
        {"sums": [2, 1]},
        {"sums": [2**40, 3]},
        {"sums": [2.5, 3]},
        {"waiting": (0, 0)},
        {"waiting": None},
        {"terms": []},
        {"terms": None},
    ],
    ids=str,
)
def test_states_out_of_range_are_refused(fields: dict[str, Any]) -> None:
    with pytest.raises(StateError):
        Counter.resume(changed(**fields), key=KEY)


@pytest.mark.parametrize("part", ["strategy", "guarantee", "contribution", "shape", "law"])
@pytest.mark.parametrize("value", [None, 3, [], ["2"], [0], "x"], ids=str)
def test_damaged_terms_are_refused(part: str, value: Any) -> None:
    if (part, value) == ("shape", []):
        value = [2, 2]  # an empty shape is that of a scalar stream, whose sums have another size
    with pytest.raises(StateError):
        Counter.resume(changed(terms={**stream().design.to_dict(), part: value}), key=KEY)


def test_a_state_is_resumed_by_its_own_strategy_only() -> None:
    """Another strategy under the same law would release too little noise, or the same twice."""
    saved = stream().checkpoint()
    assert Counter.resume(saved, key=KEY, strategy=Binary(100)).design == stream().design
    for other in (Binary(10**6), Binary(99), Expiring(1)):
        with pytest.raises(StateError, match=r"strategy.*Binary"):
            Counter.resume(saved, key=KEY, strategy=other)


def test_resumed_counter_copies_checkpoint() -> None:
    saved = stream()
    saved.release([3, 4])
    one = Counter.resume(saved.checkpoint(), key=KEY)
    two = Counter.resume(saved.checkpoint(), key=KEY)
    assert not one.release([5, 6]).value.flags.writeable
    assert (two.release([5, 6]).value == saved.release([5, 6]).value).all()
