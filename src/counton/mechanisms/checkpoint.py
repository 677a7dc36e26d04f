"""Checkpoints: a JSON text with a checksum, never pickle."""

from __future__ import annotations

import hashlib
import json
from base64 import b64decode, b64encode
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from counton.errors import StateError


class State(NamedTuple):
    """What a checkpoint holds. Sums are exact and therefore secret."""

    spec: dict[str, Any]
    key_fingerprint: str
    step: int
    sums: NDArray[np.int64]
    waiting: NDArray[np.int64]


def _encode(numbers: NDArray[np.int64]) -> str:
    return b64encode(np.ascontiguousarray(numbers, "<i8").tobytes()).decode("ascii")


def _decode(text: str) -> NDArray[np.int64]:
    return np.frombuffer(b64decode(text, validate=True), "<i8").astype(np.int64)


def write(
    spec: dict[str, Any],
    key_fingerprint: str,
    step: int,
    sums: NDArray[np.int64],
    waiting: NDArray[np.int64],
) -> bytes:
    """Encode a state."""
    body = json.dumps(
        {
            "spec": spec,
            "key_fingerprint": key_fingerprint,
            "step": step,
            "sums": _encode(sums),
            "waiting": _encode(waiting),
        },
        sort_keys=True,
    )
    digest = hashlib.sha256(body.encode()).hexdigest()
    return f"counton-checkpoint-1 {digest}\n{body}\n".encode()


def read(saved: bytes) -> State:
    """Decode a state.

    Raises:
        StateError: not a checkpoint, truncated, or altered.
    """
    try:
        head, body = saved.decode().rstrip("\n").split("\n", 1)
        name, digest = head.split(" ")
    except (UnicodeDecodeError, ValueError, AttributeError):
        raise StateError(
            "these bytes are not a counton checkpoint: pass what Counter.checkpoint() returned"
        ) from None
    if name != "counton-checkpoint-1":
        raise StateError(
            f"checkpoint has format {name!r}; this version reads 'counton-checkpoint-1': "
            f"resume it with the version of counton that wrote it"
        )
    if hashlib.sha256(body.encode()).hexdigest() != digest:
        raise StateError(
            "checkpoint is truncated or altered (its checksum does not fit): restore it from a copy"
        )
    fields = json.loads(body)
    return State(
        fields["spec"],
        fields["key_fingerprint"],
        fields["step"],
        _decode(fields["sums"]),
        _decode(fields["waiting"]),
    )
