"""States that nobody's counter wrote are refused with one kind of error, and never resumed."""

from __future__ import annotations

import hashlib
import json
from base64 import b64encode
from typing import Any

import numpy as np
import pytest
from keys import chosen_key

from counton.base.errors import StateError
from counton.numbers import Counter
from counton.privacy import PureDP
from counton.strategies import Binary, Expiring

KEY = chosen_key()


def stream(**options: Any) -> Counter:
    return Counter(Binary(100), PureDP(1), key=KEY, name="visits", shape=(2,), **options)


def sealed(body: str) -> bytes:
    digest = hashlib.sha256(body.encode()).hexdigest()
    return f"counton-checkpoint-2 {digest}\n{body}\n".encode()


def changed(**fields: Any) -> bytes:
    """A checkpoint with a valid checksum and other contents."""
    body = json.loads(stream().checkpoint().decode().split("\n")[1])
    return sealed(json.dumps({**body, **fields}))


def numbers(*values: int) -> str:
    return b64encode(np.array(values, "<i8").tobytes()).decode()


@pytest.mark.parametrize("body", ["", "[]", "{}", "3", "nothing", '{"terms": {}}'])
def test_bodies_that_are_no_state_are_refused(body: str) -> None:
    with pytest.raises(StateError):
        Counter.resume(sealed(body), key=KEY)


@pytest.mark.parametrize(
    "fields",
    [
        {"step": -1},
        {"step": 101},
        {"step": 1.5},
        {"step": "1"},
        {"step": True},
        {"sums": "!!"},
        {"sums": numbers(1)},
        {"sums": numbers(1, 2, 3)},
        {"sums": numbers(0, 2**62)},
        {"sums": numbers(0, -(2**63))},
        {"sums": "AAAA"},
        {"waiting": numbers(0, 0)},
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


def test_a_resumed_counter_holds_no_view_of_what_it_read() -> None:
    saved = stream()
    saved.release([3, 4])
    one = Counter.resume(saved.checkpoint(), key=KEY)
    two = Counter.resume(saved.checkpoint(), key=KEY)
    assert not one.release([5, 6]).value.flags.writeable
    assert (two.release([5, 6]).value == saved.release([5, 6]).value).all()
