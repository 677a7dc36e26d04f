"""Paths for reading released series."""

from __future__ import annotations

import gzip
import io
from collections.abc import Collection, Mapping
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Header, HTTPException, Path, Query, Request
from fastapi.responses import JSONResponse, Response, StreamingResponse
from pydantic import BaseModel

from counton.run.written_files import no_formulas
from counton.serve.access import Access
from counton.serve.assets import takes_gzip
from counton.serve.limits import ReadingLimit, later
from counton.serve.live import Feed
from counton.serve.public_series import Against, Journal, SeriesAnswer

Name = Annotated[str, Path(description="the stream", max_length=200)]
Level = Annotated[
    float | None,
    Query(
        gt=0,
        lt=1,
        description="probability that each interval holds the true number; default: as in the "
        "stream's files",
    ),
]
Moment = Annotated[str | None, Query(max_length=64, description="a time, ISO 8601")]
Groups = Annotated[list[str] | None, Query(description="only this group; may be repeated")]
_CSV, _ARROW, _JSON = "text/csv", "application/vnd.apache.arrow.stream", "application/json"
#: Answers of at most this many bytes are not compressed.
_SHORT = 1000
_FORMATS = {_JSON: "json", _CSV: "csv", _ARROW: "arrow"}


class StreamFacts(BaseModel):
    """Public facts of a stream. Times are ISO 8601."""

    name: str
    statistic: str
    what: str
    unit: str
    guarantee: str
    protected: str
    release: str
    every: str
    timezone: str
    level: float
    group: str | None
    groups: list[str]
    units: dict[str, str]
    steps: int
    horizon: int | None
    last_window_end: str | None
    next_release: str | None


class Streams(BaseModel):
    """All streams of the service."""

    streams: list[StreamFacts]


class Budget(BaseModel):
    """The privacy of one protected unit that all streams of the state have spent.

    ``spent`` is null if the losses cannot be added. ``limit`` is null if no limit is set. ``left``
    is null if nothing is left or no limit is set. ``shared`` is true if the limit belongs to a
    ledger which other states share.
    """

    unit: str
    spent: str | None
    limit: str | None
    left: str | None
    shared: bool


class StreamDescription(StreamFacts):
    """Public facts of one stream, in more words."""

    description: list[str]
    protects: str
    people: str | None
    besides_noise: list[str]
    key_fingerprint: str
    budget: Budget
    columns: list[str]


class Protection(BaseModel):
    """The protection of the numbers in an answer, and the address of the description.

    The address is relative to the address of the numbers.
    """

    unit: str
    protected: str
    guarantee: str
    description: str


class SeriesRows(Protection):
    """Released steps: one row for each step and group."""

    name: str
    level: float
    columns: list[str]
    rows: list[dict[str, Any]]


class WholeRelease(BaseModel):
    """The content of a file: the promise in words, the whole description, and the rows."""

    name: str
    level: float
    description: dict[str, Any]
    rows: list[dict[str, Any]]
    model_config = {"extra": "allow"}


class Difference(Protection):
    """Number of events between two ends of windows, less that of another group or time, if
    ``against`` states one.
    """

    name: str
    group: str
    level: float
    estimate: float
    std: float
    lower: float
    upper: float
    model_config = {"extra": "allow"}


class Methods(BaseModel):
    """A description in words of how the numbers were made."""

    text: str
    full: str


class Refusal(BaseModel):
    """The reason of a refusal, and the remedy."""

    detail: str


#: Answer if a state lacks releases that were shown.
UNSURE = (
    "the state of this stream is older than its released numbers, or its witness cannot say, so "
    "the service takes no rows and shows no numbers until an operator restores the newest state "
    "and its witness; try again later"
)
#: Answer if nobody can tell whether a state lacks releases that were shown.
UNSEEN = (
    "no witness of this server knows the newest release of this stream, so its state may be an "
    "older copy, and the service takes no rows until the server that wrote the state goes on, or "
    "an operator confirms that it is the newest (counton verify); try again later"
)
#: Answer for a stream whose job could not begin.
FAILED = "the job of this stream cannot run (the log of the service says why); try again later"


def refusals(says: Mapping[int, str]) -> dict[int | str, dict[str, Any]]:
    """Return the documentation of the refusals of a path, by HTTP status.

    Args:
        says: explanation of each HTTP status.
    """
    return {status: {"model": Refusal, "description": why} for status, why in says.items()}


#: Refusals of every path.
REFUSALS = refusals(
    {
        401: "no token, or an unknown token",
        403: "a token without the needed scope",
        404: "no such stream",
        422: "a value that is not allowed",
        429: "more than allowed in this time; come again after Retry-After seconds",
        503: "the state cannot be used now; ask again after Retry-After seconds",
    }
)


def as_json(status: int) -> dict[str, Any]:
    """Return the documentation of a refusal with this HTTP status. Its body is JSON, also on a path
    whose other answers are not JSON.
    """
    content = {"application/json": {"schema": Refusal.model_json_schema()}}
    return {"description": REFUSALS[status]["description"], "content": content}


def check_name(name: str, known: Collection[str], failed: Collection[str]) -> None:
    """Refuse a request for an unknown stream, or for a stream whose job could not begin (``failed``
    has their names).
    """
    if name in known:
        return
    if name in failed:
        raise later(503, FAILED, 60)
    raise HTTPException(404, "there is no such stream; GET /v1/streams lists them")


def router(
    journals: Mapping[str, Journal],
    feeds: Mapping[str, Feed],
    failed: Collection[str],
    access: Access,
    limit: ReadingLimit,
) -> APIRouter:
    """Build the HTTP paths for reading released series.

    The arguments of the function give no access to rows or exact sums.

    Args:
        journals, feeds: released series and senders of new steps, by name of the stream.
        failed: names of streams whose jobs could not begin.
    """
    paths = APIRouter(
        prefix="/v1/streams",
        tags=["read"],
        dependencies=[access.needs("read"), limit.check],
        responses=REFUSALS,
    )

    def of(name: str) -> Journal:
        check_name(name, journals, failed)
        if journals[name].refused:
            raise later(503, UNSURE, 60)
        return journals[name]

    @paths.get("", response_model=Streams)
    def streams() -> dict[str, Any]:
        """All streams whose state exists, with their public facts."""
        known = [journal for journal in list(journals.values()) if not journal.refused]
        return {"streams": [journal.about() for journal in known]}

    @paths.get("/{name}", response_model=StreamDescription)
    def stream(name: Name) -> dict[str, Any]:
        """Return public facts and the description of one stream."""
        return of(name).describe()

    @paths.get(
        "/{name}/series",
        response_model=SeriesRows,
        responses={200: {"content": {_CSV: {}, _ARROW: {}}}},
    )
    def series(
        request: Request,
        name: Name,
        group: Groups = None,
        start: Annotated[Moment, Query(alias="from")] = None,
        until: Annotated[Moment, Query(alias="to")] = None,
        of_: Annotated[
            Literal["totals", "windows"] | None,
            Query(alias="of", description="for counts and sums: totals, or each window alone"),
        ] = None,
        level: Level = None,
        last: Annotated[
            int | None, Query(ge=1, le=2**31, description="only the newest steps, this many")
        ] = None,
        format: Annotated[
            Literal["json", "csv", "arrow"] | None,
            Query(description="instead of the header Accept"),
        ] = None,
    ) -> Response:
        """Released steps with their intervals, by window and group."""
        found = of(name).series(group or (), start, until, of_, level, last)
        accepted = request.headers.get("accept", "").lower().split(",")
        kinds = (one.split(";")[0].strip() for one in accepted)
        preferred = next((_FORMATS[kind] for kind in kinds if kind in _FORMATS), "json")
        return _compress(_write(found, format or preferred), request)

    @paths.get("/{name}/release", response_model=WholeRelease)
    def release(request: Request, name: Name) -> Response:
        """The whole release, in the form of a file for `counton.read`."""
        return _compress(JSONResponse(of(name).whole()), request)

    @paths.get("/{name}/difference", response_model=Difference)
    def difference(
        name: Name,
        start: Annotated[str, Query(alias="from", max_length=64, description="a time, ISO 8601")],
        until: Annotated[str, Query(alias="to", max_length=64, description="a time, ISO 8601")],
        group: Annotated[str | None, Query(description="needed if there are several")] = None,
        level: Level = None,
        against: Annotated[
            str | None, Query(max_length=1000, description="subtract the number of this group")
        ] = None,
        against_from: Annotated[
            Moment, Query(description="subtract the number between this time and against_to")
        ] = None,
        against_to: Moment = None,
    ) -> dict[str, Any]:
        """The number or sum between two moments, or its difference to another group or time."""
        other = None
        if (against_from is None) != (against_to is None):
            raise HTTPException(
                422, "against_from and against_to are the two ends of a period; give both"
            )
        if (against, against_from) != (None, None):
            other = Against(against, against_from, against_to)
        return of(name).difference(start, until, group, level, other)

    @paths.get("/{name}/methods", response_model=Methods)
    def methods(name: Name) -> dict[str, str]:
        """The text to print with the numbers, for everybody; the whole account, for specialists."""
        return {"text": of(name).methods(), "full": of(name).methods(full=True)}

    @paths.get(
        "/{name}/live",
        response_class=StreamingResponse,
        responses={200: {"content": {"text/event-stream": {}}}},
    )
    def live(
        name: Name,
        last_event_id: Annotated[
            str | None, Header(description="the last step that the reader knows", max_length=20)
        ] = None,
        after: Annotated[
            int | None, Query(ge=0, le=2**53, description="instead of the header Last-Event-ID")
        ] = None,
    ) -> StreamingResponse:
        """New steps as they are released: server-sent events."""
        of(name)
        if last_event_id is not None:
            if not last_event_id.isascii() or not last_event_id.isdigit():
                raise HTTPException(
                    422, "Last-Event-ID must be the number of a step; give a whole number"
                )
            after = int(last_event_id)
        return StreamingResponse(
            feeds[name].listen(after),
            media_type="text/event-stream",
            headers={"Cache-Control": "no-store", "X-Accel-Buffering": "no"},
        )

    return paths


def _compress(answer: Response, request: Request) -> Response:
    """Compress an answer with gzip, if its reader accepts that and it is not short."""
    answer.headers["Vary"] = "Accept, Accept-Encoding"
    if len(answer.body) > _SHORT and takes_gzip(request):
        answer.body = gzip.compress(bytes(answer.body), 5)
        answer.headers["Content-Encoding"] = "gzip"
        answer.headers["Content-Length"] = str(len(answer.body))
    return answer


def _write(found: SeriesAnswer, format: str) -> Response:
    if format == "json":
        return JSONResponse(found.as_json())
    if format == "csv":
        rows = no_formulas(found.rows.lazy()).collect()
        text = rows.write_csv(datetime_format="%Y-%m-%dT%H:%M:%S%.f%:z")
        name = "".join(c if c.isascii() and c.isalnum() else "-" for c in found.name)
        return Response(
            text,
            media_type=f"{_CSV}; charset=utf-8",
            headers={"Content-Disposition": f'attachment; filename="{name}.csv"'},
        )
    whole = io.BytesIO()
    found.rows.write_ipc_stream(whole)
    return Response(whole.getvalue(), media_type=_ARROW)
