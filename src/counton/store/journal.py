"""Arrays as blobs: what a journal row holds, and the digest by which an input is known again."""

from __future__ import annotations

import hmac
import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import sqlalchemy as sa
from numpy.typing import ArrayLike, NDArray
from sqlalchemy.engine import Connection

from counton.errors import InvalidInput, ReplayMismatch, StateError
from counton.exact import unmasked
from counton.mechanisms import Releases
from counton.store import schema
from counton.store.database import reading


class Digester:
    """Keyed digests of inputs (HMAC-SHA256).

    Counts are few and easily guessed, so a plain hash would give them away, and equal counts of two
    steps would show; hence the key, and the step in the digest.
    """

    def __init__(self, subkey: bytes) -> None:
        self._subkey = subkey

    def __call__(self, step: int, x: NDArray[np.int64]) -> bytes:
        """Digest of the exact input of a step."""
        data = np.ascontiguousarray(x, dtype="<i8").tobytes()
        return hmac.digest(self._subkey, step.to_bytes(8, "little") + data, "sha256")


class Entries(NamedTuple):
    """Consecutive journal rows: what was shown, and digests of what it was computed from."""

    values: NDArray[Any]
    std: NDArray[np.float64]
    input_digests: list[bytes]


def release_rows(
    stream_id: int, releases: Releases, xs: NDArray[np.int64], digest: Digester
) -> list[dict[str, Any]]:
    """Journal rows of released steps and their inputs."""
    values = releases.values.astype(releases.values.dtype.newbyteorder("<"), copy=False)
    return [
        {
            "stream_id": stream_id,
            "step": step,
            "input_digest": digest(step, x),
            "dtype": values.dtype.str,
            "estimates": value.tobytes(),
            "std": float(std),
        }
        for step, x, value, std in zip(releases.steps, xs, values, releases.std, strict=True)
    ]


def read(
    connection: Connection, stream_id: int, start: int, stop: int, shape: tuple[int, ...]
) -> Entries:
    """Rows of steps ``start..stop-1``, values to the bit as they were shown."""
    table = schema.journal
    found = connection.execute(
        sa.select(table.c.dtype, table.c.estimates, table.c.std, table.c.input_digest)
        .where(table.c.stream_id == stream_id, table.c.step >= start, table.c.step < stop)
        .order_by(table.c.step)
    ).all()
    kinds = {row.dtype for row in found} or {"<i8"}
    if len(found) != stop - start or not kinds <= {"<i8", "<f8"} or len(kinds) > 1:
        raise StateError(
            f"the journal holds {len(found)} readable releases of the {stop - start} from step "
            f"{start} to {stop - 1}: the state was altered; restore it from a copy"
        )
    with reading(f"the journal between steps {start} and {stop - 1}"):
        flat = np.frombuffer(b"".join(row.estimates for row in found), dtype=kinds.pop())
        values = flat.reshape(len(found), *shape)
        return Entries(
            values=values.astype(values.dtype.newbyteorder("=")),
            std=np.array([row.std for row in found], dtype=np.float64),
            input_digests=[bytes(row.input_digest) for row in found],
        )


def check_inputs(
    digests: Sequence[bytes], start: int, xs: NDArray[np.int64], digest: Digester
) -> None:
    """Raise for the first step whose input is not the one it was released with."""
    for step, (known, x) in enumerate(zip(digests, xs, strict=True), start):
        if not hmac.compare_digest(known, digest(step, x)):
            raise ReplayMismatch(
                f"step {step} was released with another input: answering both would reveal their "
                f"difference; give the input it had, or enter the change at the next step"
            )


def observed_rows(stream_id: int, observed: Mapping[int, ArrayLike]) -> list[dict[str, Any]]:
    """Rows of what has been seen of some windows.

    Raises:
        InvalidInput: a window below 1, or totals which are not integers within int64.
    """
    made = []
    for step, totals in observed.items():
        array = np.asarray(unmasked(totals, f"observed totals of window {step}"))
        if step < 1 or array.dtype.kind not in "iub" or array.dtype == np.uint64:
            raise InvalidInput(
                f"observed totals of window {step} have dtype {array.dtype}; windows count from 1 "
                f"and totals are integers within int64: convert them"
            )
        made.append(
            {
                "stream_id": stream_id,
                "step": int(step),
                "shape": json.dumps(array.shape),
                "totals": np.ascontiguousarray(array, dtype="<i8").tobytes(),
            }
        )
    return made


def write_observed(connection: Connection, new: list[dict[str, Any]]) -> None:
    """Replace what has been seen of the windows of these rows."""
    if not new:
        return
    table = schema.observed
    connection.execute(
        table.delete().where(
            table.c.stream_id == sa.bindparam("b_stream"), table.c.step == sa.bindparam("b_step")
        ),
        [{"b_stream": row["stream_id"], "b_step": row["step"]} for row in new],
    )
    connection.execute(table.insert(), new)


def read_observed(
    connection: Connection, stream_id: int, start: int, stop: int | None
) -> dict[int, NDArray[np.int64]]:
    """What has been seen of windows ``start..stop-1``; windows never seen are left out."""
    table = schema.observed
    query = sa.select(table.c.step, table.c.shape, table.c.totals).where(
        table.c.stream_id == stream_id, table.c.step >= start
    )
    if stop is not None:
        query = query.where(table.c.step < stop)
    with reading("what was observed"):
        return {
            row.step: np.frombuffer(row.totals, "<i8").reshape(json.loads(row.shape)).astype("=i8")
            for row in connection.execute(query.order_by(table.c.step))
        }


def write_sources(
    connection: Connection, stream_id: int, digests: Iterable[str], step: int
) -> None:
    """Note files as counted; a file that was counted before is refused."""
    for digest in digests:
        if source_step(connection, stream_id, digest) is not None:
            raise ReplayMismatch(
                f"source {digest} has been counted already: counting it twice would give wrong "
                f"totals; leave it out"
            )
        connection.execute(
            schema.sources.insert().values(stream_id=stream_id, digest=digest, step=step)
        )


def source_step(connection: Connection, stream_id: int, digest: str) -> int | None:
    """The step the stream was at when a source was counted, or None."""
    table = schema.sources
    return connection.execute(
        sa.select(table.c.step).where(table.c.stream_id == stream_id, table.c.digest == digest)
    ).scalar_one_or_none()
