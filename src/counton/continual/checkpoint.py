"""The exact state of a running stream: checks of input, totals held back, and checkpoints.

A checkpoint has a line with a checksum, JSON text, and packed exact sums. Keep it as secret as the
data.
"""

from __future__ import annotations

import hashlib
import json
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from counton.base.arrays import extremes, pack, unpack
from counton.base.errors import HorizonExceededError, InvalidInputError, StateError
from counton.base.exact import refuse_overflow
from counton.continual.design import Design, largest_sum
from counton.privacy.value_grid import Numbers
from counton.strategies.strategy import last_served_step, more_steps

#: First word of a counter's checkpoint.
_FORMAT = "counton-checkpoint-3"

#: Exact totals: integers, or numbers that are multiples of a resolution.
Totals = Numbers


class StreamProgress(NamedTuple):
    """The last step of a stream and its exact sums, which are secret.

    Attributes:
        step: the last released step.
        sums: running totals, in multiples of the resolution and the shape of a step; with
            `WindowVersions` the counts of the last windows. Empty if a release is a step's count.
        waiting: totals of the last ``delay`` steps, which are not counted yet, oldest first.
    """

    step: int
    sums: NDArray[np.int64]
    waiting: NDArray[np.int64]

    def __repr__(self) -> str:
        return f"StreamProgress(step={self.step}, secret)"

    @property
    def totals_taken(self) -> NDArray[np.int64]:
        """Exact running totals of all input, counted or waiting, in the shape of a step."""
        return self.sums + self.waiting.sum(axis=0) if len(self.waiting) else self.sums

    @classmethod
    def start(cls, design: Design) -> StreamProgress:
        """Return the progress of a stream before its first release."""
        cells = (0, *design.step_shape[1:]) if design.finds_cells else design.step_shape
        waiting = np.zeros((design.strategy.facts.delay, *cells), np.int64)
        carried = design.strategy.facts.release == "totals" or design.strategy.facts.versions > 1
        return cls(0, np.zeros(cells if carried else (0,), np.int64), waiting)

    def wider(self, cells: int) -> StreamProgress:
        """Return a copy with ``cells`` cells, of which new ones have sum 0."""
        sums = np.zeros((cells, *self.sums.shape[1:]), np.int64)
        sums[: len(self.sums)] = self.sums
        return StreamProgress(self.step, sums, np.zeros((0, cells), np.int64))


def add_arrivals(
    sums: NDArray[np.int64], arrivals: NDArray[np.int64], out: NDArray[np.int64]
) -> NDArray[np.int64]:
    """Write the counts of the last windows at the end of each step to ``out``; return the last.

    The last axis is the lag: 0 for the window that ends at the step. At each step every window
    moves to the next lag, the oldest is dropped, and the items that arrived are added.

    >>> out = np.empty((2, 3), np.int64)
    >>> add_arrivals(np.array([7, 5, 9]), np.array([[2, 1, 0], [4, 0, 3]]), out).tolist()
    [4, 2, 11]
    >>> out.tolist()
    [[2, 8, 5], [4, 2, 11]]
    """
    for before, arrived, sums_after in zip((sums, *out), arrivals, out, strict=False):
        sums_after[..., 0] = arrived[..., 0]
        np.add(before[..., :-1], arrived[..., 1:], out=sums_after[..., 1:])
    return out[-1].copy() if len(out) else sums


def arrivals_of(sums_after: NDArray[np.int64], before: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the items that arrived in each step, by lag: the inverse of `add_arrivals`."""
    arrivals = sums_after.copy()
    earlier = np.concatenate([before[None], sums_after[:-1]])
    arrivals[..., 1:] -= earlier[..., :-1]
    return arrivals


def check_totals(
    design: Design, done: StreamProgress, totals: NDArray[np.int64], smallest: int, largest: int
) -> None:
    """Refuse totals of the next steps, ``(n, *shape)``, that cannot be released exactly."""
    shape = done.sums.shape if design.finds_cells else design.step_shape
    if totals.ndim == 0 or totals.shape[1:] != shape:
        raise InvalidInputError(
            f"the input of a step has shape {totals.shape[1:]}, but this stream takes {shape}: "
            "pass one total for each cell, and a list of steps to release several"
        )
    horizon = last_served_step(design.strategy)
    if horizon is not None and done.step + len(totals) > horizon:
        raise HorizonExceededError(
            f"step {done.step + len(totals):,} is after the last of the {horizon:,} steps "
            f"({horizon - done.step:,} are left): {more_steps(design.strategy)}"
        )
    _refuse_impossible(design, done, totals, smallest, largest)
    _refuse_overflow(design, done, totals, max(-smallest, largest))


def _refuse_impossible(
    design: Design, done: StreamProgress, totals: NDArray[np.int64], smallest: int, largest: int
) -> None:
    """Refuse totals that no data has: negative counts, or sums on the wrong side of 0."""
    unit = design.contribution
    if design.strategy.facts.versions > 1:  # a later version may take rows back
        totals = totals[..., 0]
        smallest, largest = extremes(totals)
    bounds = unit.value_bounds
    if smallest < 0 and not unit.signed:
        remedy = (
            "a negative count: counts are at least 0; for sums that may be negative use "
            "ContributionBound.values(lower, upper, resolution)"
        )
    elif smallest < 0 and bounds is not None and bounds[0] >= 0:
        remedy = (
            f"below 0, but all values lie in [{bounds[0]}, {bounds[1]}]: clip them with to_grid"
        )
    elif largest > 0 and bounds is not None and bounds[1] <= 0:
        remedy = (
            f"above 0, but all values lie in [{bounds[0]}, {bounds[1]}]: clip them with to_grid"
        )
    else:
        return
    wrong = totals < 0 if smallest < 0 else totals > 0
    index = tuple(int(i) for i in np.argwhere(wrong)[0])
    value = unit.from_grid(totals[index]).item()
    raise InvalidInputError(f"input {value} at step {done.step + 1 + index[0]} is {remedy}")


def _refuse_overflow(
    design: Design, done: StreamProgress, totals: NDArray[np.int64], largest: int
) -> None:
    """Refuse totals with which an exact sum, at any of the next steps, exceeds its range.

    With a delay, totals are checked now, ``delay`` steps before they are released.
    """
    most = largest_sum(design.strategy)
    if design.strategy.facts.release == "windows":
        facts = design.strategy.facts
        if facts.versions > 1:  # a window grows at each of its versions
            largest *= min(len(totals), facts.versions)
            largest += _largest(done.sums)
        refuse_overflow(
            largest,
            most,
            lambda: (
                f"an input is {largest:,} times the resolution, but at most {most:,} times can be "
                "released exactly: give a coarser resolution, or count in larger units"
            ),
        )
        return
    if _largest(done.totals_taken) + largest * len(totals) <= most:
        return
    # Cumulative sums in two halves of 32 bits cannot wrap; floats then compare safely.
    high = np.cumsum(totals >> 32, axis=0).astype(float) * 2.0**32
    low = np.cumsum(totals & 0xFFFFFFFF, axis=0).astype(float)
    running = np.abs(high + low + done.totals_taken)
    wrong = running > most * (1 - 1e-9)
    refuse_overflow(
        float(running.max(initial=0.0)),
        most * (1 - 1e-9),
        lambda: (
            f"the running total {running[wrong][0]:.6g} at step "
            f"{done.step + 1 + int(np.argwhere(wrong)[0][0])} is more than {most:,} times the "
            "resolution, the largest sum that is exact: give a coarser resolution, or split the "
            "stream"
        ),
    )


def _largest(numbers: NDArray[np.int64]) -> int:
    smallest, largest = extremes(np.asarray(numbers))
    return max(-smallest, largest)


class Checkpoint(NamedTuple):
    """The content of a checkpoint: design, step and exact sums, which are secret."""

    design: dict[str, Any]
    key_fingerprint: str
    step: int
    sums: NDArray[np.int64]
    waiting: NDArray[np.int64]

    def __repr__(self) -> str:
        return f"Checkpoint(step={self.step}, secret)"

    def agrees_with(self, other: Checkpoint) -> bool:
        """Return whether another checkpoint has the same design, key, step and exact sums."""
        return self[:3] == other[:3] and all(map(np.array_equal, self[3:], other[3:]))

    def progress(self, design: Design) -> StreamProgress:
        """Return the step and exact sums, checked to be possible with this design."""
        start = StreamProgress.start(design)
        horizon = last_served_step(design.strategy)
        most = largest_sum(design.strategy)
        if (
            type(self.step) is not int
            or self.step < 0
            or (horizon is not None and self.step > horizon)
            or (self.sums.size != start.sums.size and not design.finds_cells)
            or self.waiting.size != start.waiting.size
            or _largest(self.sums) > most
            or _largest(self.waiting) > 2 * most
        ):
            raise StateError(
                f"the checkpoint of stream {design.name!r} has step {self.step!r}, or sums that "
                "are impossible in this stream: it was altered; restore it from a copy"
            )
        waiting = self.waiting.reshape(start.waiting.shape)
        if design.finds_cells:
            sums = self.sums.reshape(-1, *start.sums.shape[1:])
            return start.wider(len(sums))._replace(step=self.step, sums=sums)
        return StreamProgress(self.step, self.sums.reshape(start.sums.shape), waiting)


def with_checksum(form: str, *parts: bytes) -> bytes:
    """Join parts, after a line with the format's name and their checksum.

    >>> read_state(with_checksum("notes-1", b'{"step": ', b"3}"), "notes-1")
    {'step': 3}
    """
    digest = hashlib.sha256()
    for part in parts:
        digest.update(part)
    return b"".join([f"{form} {digest.hexdigest()}\n".encode(), *parts])


def _body_of(saved: bytes, form: str, source: str) -> bytes:
    """Return the content of a saved state; refuse another format or a wrong checksum."""
    try:
        head, body = bytes(memoryview(saved)).split(b"\n", 1)
        name, digest = head.decode().split(" ")
    except (UnicodeDecodeError, ValueError, TypeError):
        raise StateError(
            f"these bytes are not a checkpoint of counton: pass the bytes that {source} returned"
        ) from None
    if name != form:
        raise StateError(
            f"the checkpoint has format {name!r}, but here {form!r} is read, from {source}: resume "
            "it with the function that belongs to it, or with the version of counton that wrote it"
        )
    if hashlib.sha256(body).hexdigest() != digest:
        raise StateError(
            "the checkpoint is truncated or altered, because its checksum does not fit: restore it "
            "from a copy"
        )
    return body


def read_state(saved: bytes, form: str) -> dict[str, Any]:
    """Return the JSON values of a saved state."""
    body = _body_of(saved, form, "RunningStatistic.checkpoint()")
    try:
        fields = json.loads(body)
    except ValueError:
        fields = None
    if not isinstance(fields, dict):
        raise StateError("the checkpoint does not contain a state: restore it from a copy")
    return fields


def write_checkpoint(design_json: str, key_fingerprint: str, done: StreamProgress) -> bytes:
    """Return the bytes of a checkpoint of a design (JSON with sorted names) and its progress."""
    numbers = {"sums": done.sums, "waiting": done.waiting}
    packed = {name: pack(array.reshape(1, -1)) for name, array in numbers.items()}
    sizes = {name: [numbers[name].size, len(packed[name])] for name in numbers}
    header = {"key_fingerprint": key_fingerprint, "step": int(done.step), **sizes}
    return with_checksum(
        _FORMAT, f"{json.dumps(header)}\n{design_json}\n".encode(), *packed.values()
    )


def read_checkpoint(saved: bytes) -> Checkpoint:
    body = _body_of(saved, _FORMAT, "Counter.checkpoint()")
    try:
        header, design_json, packed = body.split(b"\n", 2)
        fields = json.loads(header)
        count, size = fields["sums"]
        waiting, _ = fields["waiting"]
        return Checkpoint(
            design=json.loads(design_json),
            key_fingerprint=fields["key_fingerprint"],
            step=fields["step"],
            sums=unpack(packed[:size], (1, count))[0],
            waiting=unpack(packed[size:], (1, waiting))[0],
        )
    except (KeyError, TypeError, ValueError) as error:
        raise StateError(
            f"the checkpoint does not contain a state ({error!r}): restore it from a copy"
        ) from error
