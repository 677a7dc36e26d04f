"""A client that sends batches of rows to a service, each until it is acknowledged.

A batch is sent again, with its id, until the service answers. So nothing is lost and nothing counts
twice, even if the sender or the service is killed. Acknowledged batches are recorded in a file, so
that a killed sender continues after them. The client needs only Python's standard library.
"""

from __future__ import annotations

import gzip
import hashlib
import http.client
import io
import json
import os
import secrets
import select
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

from counton.base.errors import InvalidInput, ReplayMismatch, StateUnavailable
from counton.base.errors import field as called
from counton.base.outside_input import parse_json, read_plain
from counton.released.service_address import NoRedirect, check_stream_address, held_token
from counton.state.whole_file import replace_file

#: Most rows and bytes of a batch, and seconds for which an incomplete batch waits for more rows.
ROWS, BYTES, SECONDS = 5000, 4 * 2**20, 1.0
#: Seconds for which one batch is tried, and within which each answer must begin.
PATIENCE, _TIME_OUT = 600.0, 60.0
#: Seconds before the first repetition, doubled each time up to the longest wait.
_FIRST_WAIT, _LONGEST_WAIT = 0.25, 30.0
#: Statuses after which a batch is sent again: it arrived incomplete, or was not taken yet.
_AGAIN = (400, 408, 425, 429, *range(500, 600))
_SMALL = 1000
_ANSWER = 2**16


class Receipt(NamedTuple):
    """A service's answer to a batch that it has taken.

    Attributes:
        batch: id of the batch.
        rows: number of its rows.
        counted: number of rows that count.
        counted_nowhere: numbers of the other rows, by reason.
        known: True if the service had accepted the batch before, and took nothing now.
    """

    batch: str
    rows: int
    counted: int
    counted_nowhere: Mapping[str, int]
    known: bool


class TooManyRows(InvalidInput):
    """The error that a batch is larger than the service takes; nothing was taken."""


class Client:
    """Client that sends batches of rows to a stream of a service.

    Args:
        address: address of the stream, as in ``https://counts.example/v1/streams/visits``.
        token: token with the scope ``ingest``, or ``env:NAME`` for the environment variable that
            has it; None: ``env:COUNTON_TOKEN``.
        patience: seconds for which the client tries to send a batch before it gives up.

    >>> client = Client("https://counts.example/v1/streams/visits", "counton-ingest-5a5a")
    >>> client.address
    'https://counts.example/v1/streams/visits'
    """

    def __init__(self, address: str, token: str | None = None, patience: float = PATIENCE) -> None:
        self.address, self._patience = check_stream_address(address), patience
        self._token = held_token(token)
        if self._token is None:
            raise InvalidInput(
                f"a service takes rows only with a token, and {called('token')} is missing: give "
                "it, or set COUNTON_TOKEN"
            )
        self._opener = urllib.request.build_opener(NoRedirect)

    def send(self, batch: str, rows: bytes | Iterable[Mapping[str, Any]]) -> Receipt:
        """Send a batch until it is acknowledged.

        Args:
            batch: id of the batch: letters, digits and ``. _ : -``. Equal rows with an equal id
                count once.
            rows: JSON lines, or mappings from columns to values.

        Raises:
            InvalidInput: the service refuses the rows, the token or the address.
            TooManyRows: the service takes smaller batches.
            ReplayMismatch: another batch was sent with this id.
            StateUnavailable: the service has not answered within the client's patience.
        """
        if not isinstance(rows, bytes):
            rows = "".join(json.dumps(dict(row)) + "\n" for row in rows).encode()
        begun, tried, reason = time.monotonic(), 0, ""
        while True:
            found, wait = self._try(batch, rows)
            if isinstance(found, Receipt):
                return found
            reason = found
            # Batches wait for different times, so that their senders do not come together.
            spread = hashlib.sha256(f"{batch} {tried}".encode()).digest()[0] / 255
            own = min(_LONGEST_WAIT, _FIRST_WAIT * 2.0**tried) * (0.5 + spread / 2)
            wait = max(wait, own)
            tried += 1
            if time.monotonic() + wait - begun > self._patience:
                raise StateUnavailable(
                    f"{self.address!r} did not accept batch {batch!r} in {tried} attempts within "
                    f"{self._patience:g} seconds ({reason}); nothing is lost: send it again later"
                )
            time.sleep(wait)

    def _try(self, batch: str, body: bytes) -> tuple[Receipt | str, float]:
        """Send a batch once. Return the receipt and 0; after a failure its reason, and the least
        number of seconds until the next attempt.
        """
        headers = {
            "Authorization": f"Bearer {self._token}",
            "Content-Type": "application/x-ndjson",
            "User-Agent": "counton",
        }
        if len(body) > _SMALL:
            body, headers["Content-Encoding"] = gzip.compress(body, 6, mtime=0), "gzip"
        request = urllib.request.Request(f"{self.address}/batches/{batch}", body, headers)
        try:
            with self._opener.open(request, timeout=_TIME_OUT) as answer:
                parsed = parse_json(answer.read(_ANSWER))
                numbers = parsed["rows"], parsed["counted"], parsed["counted_nowhere"]
                return Receipt(batch, *numbers, known=answer.status == 200), 0.0
        except urllib.error.HTTPError as error:
            with error:
                if error.code not in _AGAIN:
                    raise _refusal(self.address, batch, error) from None
                after = error.headers.get("Retry-After") or ""
                return f"it answers {error.code}", float(after) if after.isdecimal() else 0.0
        except (OSError, http.client.HTTPException) as error:
            return f"{getattr(error, 'reason', error) or type(error).__name__}", 0.0
        except (ValueError, LookupError, TypeError):
            return "its answer is not a receipt", 0.0


def _refusal(address: str, batch: str, error: urllib.error.HTTPError) -> Exception:
    try:
        detail = str(parse_json(error.read(_ANSWER))["detail"])[:1000]
    except (ValueError, LookupError, TypeError, OSError, http.client.HTTPException):
        detail = str(error.reason)
    message = f"{address!r} refuses batch {batch!r}: {detail}"
    if error.code == 413:
        return TooManyRows(message)
    if error.code == 409:
        return ReplayMismatch(message)
    if error.code in (401, 403):
        return InvalidInput(f"{message}; give a {called('token')} for ingest")
    if 300 <= error.code < 400:
        return InvalidInput(
            f"{address!r} redirects to another address, which would then see the token: give that "
            "address yourself if you trust it"
        )
    return InvalidInput(message)


class Shipment(NamedTuple):
    """The result of sending rows of a file or a pipe.

    Attributes:
        batches: number of batches acknowledged now, without those of an earlier run.
        rows: number of rows in these batches.
        counted: number of rows that count.
        counted_nowhere: numbers of the other rows, by reason.
    """

    batches: int
    rows: int
    counted: int
    counted_nowhere: Mapping[str, int]


@dataclass(frozen=True)
class _Notes:
    """The progress of a sender of rows, as stored in its file of notes.

    Attributes:
        address: address of the stream.
        ids: prefix of the ids of the sender's batches.
        number: number of the last planned batch.
        begin, end: positions in bytes, in the file of rows, between which the last planned batch
            lies; 0 if rows come from a pipe.
        digest: SHA-256 of the last planned batch.
        acknowledged: whether the service has acknowledged the batch.
    """

    address: str
    ids: str = field(default_factory=lambda: secrets.token_hex(12))
    number: int = 0
    begin: int = 0
    end: int = 0
    digest: str = ""
    acknowledged: bool = True

    @property
    def batch(self) -> str:
        return f"{self.ids}-{self.number}"

    def next(self, end: int, rows: bytes) -> _Notes:
        digest = hashlib.sha256(rows).hexdigest()
        begin, number = self.end, self.number + 1
        return replace(self, number=number, begin=begin, end=end, digest=digest, acknowledged=False)


def read_notes(path: Path, address: str) -> _Notes:
    """Read the file in which a sender keeps its progress; begin new notes if there is no file.

    Raises:
        InvalidInput: the file holds no notes, or those of another stream.
    """
    try:
        notes = _Notes(**parse_json(read_plain(path)))
    except FileNotFoundError:
        return _Notes(address)
    except (OSError, ValueError, TypeError) as error:
        raise InvalidInput(
            f"{str(path)!r} is not a file of notes of counton send; give another file for the "
            f"notes ({called('notes')})"
        ) from error
    if notes.address != address:
        raise InvalidInput(
            f"{str(path)!r} notes what was sent to {notes.address!r}; give another file of notes "
            f"for {address!r} ({called('notes')})"
        )
    return notes


def _note(path: Path, notes: _Notes) -> None:
    _keep(path, (json.dumps(asdict(notes)) + "\n").encode())


def _keep(path: Path, text: bytes) -> None:
    """Write a file whole or not at all; it is on the disk when the function returns."""

    def write(new: str) -> None:
        with open(new, "wb") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())

    replace_file(path, write, 0o600)


def send_file(
    client: Client,
    path: str | os.PathLike[str],
    notes: str | os.PathLike[str] | None = None,
    *,
    rows: int = ROWS,
    told: Callable[[Receipt], object] = lambda _: None,
) -> Shipment:
    """Send the rows of a file that were not sent yet.

    If the file has grown since an earlier call, its new rows are sent. A last line that is still
    being written is left for the next call.

    Args:
        client: client of the stream.
        path: path of JSON lines (.jsonl, .ndjson), or of CSV with a header.
        notes: file of the sender's progress; None: ``PATH.sent``.
        rows: largest number of rows of a batch.
        told: function that is called with each receipt.

    Raises:
        InvalidInput: the file is missing, or is not the file of an earlier call, or the service
            refuses a row; earlier batches are sent.
        StateUnavailable: the service does not answer.

    >>> client = Client("https://counts.example/v1/streams/visits", "counton-ingest-5a5a")
    >>> send_file(client, "visits.parquet")
    Traceback (most recent call last):
    counton.base.errors.InvalidInput: 'visits.parquet' is neither .jsonl, .ndjson nor .csv; ...
    """
    from counton.serve.rows_of_files import open_rows

    file = Path(path)
    place = file.with_name(f"{file.name}.sent") if notes is None else Path(notes)
    known, sent = read_notes(place, client.address), Shipment(0, 0, 0, {})
    with open_rows(file) as source:
        size = rows
        while True:
            if known.acknowledged:
                if known.digest and source.digest(known.begin, known.end) != known.digest:
                    raise _other_file(file, place)
                end = source.end_of_rows(known.end, size, BYTES)
                if end == known.end:
                    return sent
                known = known.next(end, source.bytes_of(known.end, end))
                if not source.lines(known.begin, end).strip():  # blank lines
                    known = replace(known, number=known.number - 1, acknowledged=True)
                    continue
                _note(place, known)
            elif source.digest(known.begin, known.end) != known.digest:
                raise _other_file(file, place)
            try:
                receipt = client.send(known.batch, source.lines(known.begin, known.end))
            except TooManyRows:
                size = source.count(known.begin, known.end) // 2
                if not size:
                    raise
                # Nothing was taken, so this id is free.
                known = replace(
                    known, number=known.number - 1, end=known.begin, digest="", acknowledged=True
                )
                continue
            known = replace(known, acknowledged=True)
            _note(place, known)
            sent = _together(sent, receipt)
            told(receipt)


def _together(sent: Shipment, receipt: Receipt) -> Shipment:
    nowhere = dict(sent.counted_nowhere)
    for why, number in receipt.counted_nowhere.items():
        nowhere[why] = nowhere.get(why, 0) + number
    return Shipment(
        sent.batches + 1, sent.rows + receipt.rows, sent.counted + receipt.counted, nowhere
    )


def _other_file(file: Path, notes: Path) -> InvalidInput:
    return InvalidInput(
        f"{str(file)!r} is another file than was sent before, or its beginning has changed; move "
        f"{str(notes)!r} away to send all of the file, or rename the file"
    )


def send_stream(
    client: Client,
    notes: str | os.PathLike[str],
    stream: BinaryIO | None = None,
    *,
    rows: int = ROWS,
    seconds: float = SECONDS,
    told: Callable[[Receipt], object] = lambda _: None,
) -> Shipment:
    """Send JSON lines from a pipe as they come, until it ends.

    A batch is kept beside the notes until it is acknowledged: a killed sender sends it first when
    it begins again. Lines that are not in a batch yet are lost if the sender is killed.

    Args:
        client: client of the stream.
        notes: file of the sender's progress.
        stream: stream of bytes with a file descriptor; None: standard input.
        rows: largest number of rows of a batch.
        seconds: time for which a batch waits for more rows.
        told: function that is called with each receipt.

    Raises:
        InvalidInput: the service refuses a row.
        StateUnavailable: the service does not answer.

    >>> import io
    >>> client = Client("https://counts.example/v1/streams/visits", "counton-ingest-5a5a")
    >>> with open(os.devnull, "rb") as nothing:
    ...     send_stream(client, "visits.sent", nothing).rows
    0
    """
    place, sent = Path(notes), Shipment(0, 0, 0, {})
    held = place.with_name(f"{place.name}.batch")
    known = read_notes(place, client.address)

    def deliver() -> None:
        nonlocal known, sent
        receipt = client.send(known.batch, held.read_bytes())
        known = replace(known, acknowledged=True)
        _note(place, known)
        sent = _together(sent, receipt)
        told(receipt)

    if not known.acknowledged:
        deliver()
    for batch in _batches_of(sys.stdin.buffer if stream is None else stream, rows, seconds):
        _keep(held, batch)
        known = known.next(0, batch)
        _note(place, known)
        deliver()
    held.unlink(missing_ok=True)
    return sent


def _batches_of(stream: BinaryIO, rows: int, seconds: float) -> Iterator[bytes]:
    """Yield batches of whole lines from a pipe, of at most ``rows`` lines or after ``seconds``."""
    left, number, waiting, since = b"", stream.fileno(), io.BytesIO(), 0.0
    many = 0
    while True:
        now = time.monotonic()
        wait = None if not many else max(0.0, since + seconds - now)
        there = select.select([number], [], [], wait)[0]
        part = os.read(number, 2**16) if there else None
        lines = [] if part is None else (left + part).split(b"\n")
        if part is not None:
            left = lines.pop() if part else b""
        for line in lines:
            if not line.strip():
                continue
            since = time.monotonic() if not many else since
            waiting.write(line + b"\n")
            many += 1
            if many >= rows or waiting.tell() >= BYTES:
                yield waiting.getvalue()
                waiting, many = io.BytesIO(), 0
        over = many and time.monotonic() >= since + seconds
        if many and (part == b"" or over):
            yield waiting.getvalue()
            waiting, many = io.BytesIO(), 0
        if part == b"":
            return
