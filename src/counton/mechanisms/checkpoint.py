"""Checkpoints: a JSON text with a checksum, never pickle."""

from __future__ import annotations

import hashlib
import json
from base64 import b64decode, b64encode
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from counton.errors import StateError
from counton.mechanisms.inputs import Progress
from counton.mechanisms.specification import Specification
from counton.mechanisms.waiting import Waiting


class State(NamedTuple):
    """What a checkpoint holds. Sums are exact and therefore secret."""

    spec: dict[str, Any]
    key_fingerprint: str
    step: int
    sums: NDArray[np.int64]
    waiting: NDArray[np.int64]

    def progress(self, spec: Specification) -> Progress:
        """How far the stream was.

        Raises:
            StateError: steps or sums which a stream of this specification never reaches.
        """
        start = Progress.start(spec)
        horizon = spec.strategy.horizon
        if (
            type(self.step) is not int
            or self.step < 0
            or (horizon is not None and self.step > horizon)
            or self.sums.size != start.sums.size
            or self.waiting.size != start.waiting.totals.size
            or not _within(self.sums, spec.largest_sum)
            or not _within(self.waiting, 2 * spec.largest_sum)
        ):
            raise StateError(
                f"checkpoint of stream {spec.name!r} has step {self.step!r} or sums that the "
                f"stream cannot have: it was altered; restore it from a copy"
            )
        waiting = self.waiting.reshape(start.waiting.totals.shape)
        return Progress(self.step, self.sums.reshape(start.sums.shape), Waiting(waiting))


def _within(numbers: NDArray[np.int64], most: int) -> bool:
    return bool(((-most <= numbers) & (numbers <= most)).all())


def _encode(numbers: NDArray[np.int64]) -> str:
    return b64encode(np.ascontiguousarray(numbers, "<i8").tobytes()).decode("ascii")


def _decode(text: str) -> NDArray[np.int64]:
    return np.frombuffer(b64decode(text, validate=True), "<i8").astype(np.int64)


def write(spec: dict[str, Any], key_fingerprint: str, done: Progress) -> bytes:
    """Encode a state."""
    body = json.dumps(
        {
            "spec": spec,
            "key_fingerprint": key_fingerprint,
            "step": done.step,
            "sums": _encode(done.sums),
            "waiting": _encode(done.waiting.totals),
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
    try:
        fields = json.loads(body)
        return State(
            spec=fields["spec"],
            key_fingerprint=fields["key_fingerprint"],
            step=fields["step"],
            sums=_decode(fields["sums"]),
            waiting=_decode(fields["waiting"]),
        )
    except (KeyError, TypeError, ValueError) as error:
        raise StateError(
            f"checkpoint does not hold a state ({error!r}): restore it from a copy"
        ) from error
