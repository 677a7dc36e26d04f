"""Paths for reading released series."""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Annotated, Any, Literal
from urllib.parse import urlencode

from fastapi import APIRouter, HTTPException, Path, Query, Request
from fastapi.responses import JSONResponse, Response

from counton.base.errors import InvalidInputError, param
from counton.continual.intervals import check_confidence_level
from counton.run.outputs.output_files import escape_formulas
from counton.serve.access import Access
from counton.serve.answers import LongAnswers
from counton.serve.public_series import Journal, SeriesSelection, json_rows, refuse_many_rows
from counton.serve.settings import MOST_NAME

Name = Annotated[str, Path(description="the stream", max_length=MOST_NAME)]
Moment = Annotated[str | None, Query(max_length=64, description="a time, ISO 8601")]
#: Answer if a state lacks releases that were shown.
OLD_STATE_ANSWER = (
    "the state of this stream is older than its released numbers, or its rollback guard cannot "
    "say, so the service takes no rows and shows no numbers until an operator restores the newest "
    "state and its rollback guard; try again later"
)
#: Answer for a stream whose job could not begin.
FAILED_JOB_ANSWER = (
    "the job of this stream cannot run (the log of the service says why); try again later"
)


_CSV = "text/csv; charset=utf-8"
#: Longest address in a header: proxies refuse longer heads.
_LINK_BYTES = 2_000
#: Parameters that all pages of a series share.
_SHARED_PARAMETERS = ("group", "series", "confidence_level")


def later(status: int, why: str, seconds: int) -> HTTPException:
    """Build the error that asks a client to repeat its request, because nothing was done."""
    return HTTPException(status, why, {"Retry-After": str(seconds)})


def check_name(name: str, names: Collection[str], failed: Collection[str]) -> None:
    """Refuse a request for an unknown stream, or for one whose job could not begin."""
    if name in names:
        return
    if name in failed:
        raise later(503, FAILED_JOB_ANSWER, 60)
    raise HTTPException(404, "there is no such stream; GET /v1/streams lists them")


#: Why a request to read was not answered, by status, for the description of the paths.
_REFUSALS = {
    401: "no token, or an unknown token",
    403: "the token to write",
    404: "no such stream",
    422: "a value that is not allowed",
    503: "the state cannot be used now; ask again after Retry-After seconds",
}


def router(
    journals: Mapping[str, Journal],
    failed: Collection[str],
    access: Access,
    long_answers: LongAnswers,
) -> APIRouter:
    """Build the paths for readers; the arguments give no access to rows or exact sums.

    Args:
        journals: readers of the streams, by name.
        failed: names of streams whose jobs could not begin.
        access: the checker of tokens.
        long_answers: the long answers of the service.
    """
    paths = APIRouter(
        prefix="/v1/streams",
        tags=["read"],
        dependencies=[access.dependency("read")],
        responses={status: {"description": why} for status, why in _REFUSALS.items()},
    )
    answers = _ReadAnswers(journals, failed, long_answers)
    facts: dict[str, Any] = {"response_model": dict[str, object], "methods": ["GET"]}
    paths.add_api_route("", answers.streams, **facts)
    paths.add_api_route("/{name}", answers.stream, **facts)
    csv_too: dict[int | str, dict[str, object]] = {200: {"content": {"text/csv": {}}}}
    paths.add_api_route("/{name}/series", answers.series, methods=["GET"], responses=csv_too)
    paths.add_api_route("/{name}/release", answers.release, methods=["GET"])
    return paths


@dataclass(frozen=True)
class _ReadAnswers:
    """What the service answers to readers, a method for each path.

    The docstrings of the methods are the descriptions of the paths.

    Attributes:
        journals: readers of the streams, by name.
        failed: names of streams whose jobs could not begin.
        long_answers: the long answers of the service.
    """

    journals: Mapping[str, Journal]
    failed: Collection[str]
    long_answers: LongAnswers

    def streams(self) -> Response:
        """All streams whose state exists, with their public facts."""
        readable = [journal for journal in list(self.journals.values()) if not journal.refused]
        is_long = any(journal.has_many_groups() for journal in readable)
        return self._whole(
            lambda: JSONResponse({"streams": [journal.about() for journal in readable]}),
            is_long=is_long,
        )

    def stream(self, name: Name) -> Response:
        """Return public facts and the description of one stream."""
        journal = self._journal(name)
        is_long = journal.has_many_groups()
        return self._whole(lambda: JSONResponse(journal.describe()), is_long=is_long)

    def series(
        self,
        request: Request,
        name: Name,
        group: Annotated[
            list[str] | None, Query(description="only this group; may be repeated")
        ] = None,
        start: Annotated[Moment, Query(alias="from")] = None,
        until: Annotated[Moment, Query(alias="to")] = None,
        chosen_series: Annotated[
            Literal["cumulative", "per-window", "rolling", "decayed"] | None,
            Query(
                alias="series",
                description="for counts and sums: totals, each window alone, or recent windows",
            ),
        ] = None,
        confidence_level: Annotated[
            float | None,
            Query(
                gt=0,
                lt=1,
                description="probability that each interval holds the number without noise; "
                "default: as in the stream's files",
            ),
        ] = None,
        last: Annotated[
            int | None, Query(ge=1, le=2**31, description="only the newest steps, this many")
        ] = None,
        page: Annotated[
            str | None,
            Query(max_length=64, description="where the page begins, as in next of a JSON answer"),
        ] = None,
        format: Literal["json", "csv"] = "json",
    ) -> Response:
        """Released steps with their intervals, by window and group.

        JSON has pages of at most 5,000 rows: `next` is the address of the next one, as seen from
        this one, and null on the last one. CSV has all rows.
        """
        journal = self._journal(name)
        level = journal.level if confidence_level is None else confidence_level
        level = check_confidence_level(level)
        selection = SeriesSelection(
            groups=tuple(group or ()),
            start=start,
            until=until,
            series=chosen_series,
            level=level,
            last=last,
        )
        is_long = journal.has_many_rows(selection, page)
        if format == "csv":
            if page is not None:
                raise InvalidInputError(
                    f"{param('page', page)} is only for JSON, since CSV has all rows: leave it out"
                )
            parts = partial(_csv_parts, journal, selection)
            return self._in_parts(parts, _CSV, _as_file(name), is_long=is_long)
        shared_parameters = [
            (key, value)
            for key, value in request.query_params.multi_items()
            if key in _SHARED_PARAMETERS
        ]
        make = partial(_json_page, journal, selection, page, shared_parameters)
        return self._whole(make, is_long=is_long)

    def release(self, name: Name) -> Response:
        """The whole release, in the form of a file for `counton.read`."""
        journal = self._journal(name)
        parts = partial(_release_parts, journal)
        return self._in_parts(parts, "application/json", is_long=journal.has_many_rows())

    def _journal(self, name: str) -> Journal:
        """Return the reader of a stream, unless its numbers cannot be shown now."""
        check_name(name, self.journals, self.failed)
        if self.journals[name].refused:
            raise later(503, OLD_STATE_ANSWER, 60)
        return self.journals[name]

    def _whole(self, make: Callable[[], Response], *, is_long: bool) -> Response:
        """Return an answer now if it is short, otherwise when its turn comes."""
        return self.long_answers.whole(make) if is_long else make()

    def _in_parts(
        self,
        parts: Callable[[], Iterator[bytes]],
        media_type: str,
        headers: Mapping[str, str] | None = None,
        *,
        is_long: bool,
    ) -> Response:
        """Return an answer as a whole if it is short, otherwise part by part."""
        if is_long:
            return self.long_answers.in_parts(parts, media_type, headers)
        return Response(b"".join(parts()), media_type=media_type, headers=headers)


def _json_page(
    journal: Journal,
    selection: SeriesSelection,
    position: str | None,
    shared_parameters: Sequence[tuple[str, str]],
) -> JSONResponse:
    """Return a page of a series with the address of the next one.

    Args:
        journal: the stream.
        selection: the rows.
        position: text of the position where the page begins; None: the first page.
        shared_parameters: those of the request that the next page shares.
    """
    page = journal.page(selection, position)
    following = None
    if page.next is not None:
        following = "series?" + urlencode([*shared_parameters, ("page", str(page.next))])
    headers: dict[str, str] = {}
    if following is not None and len(following) <= _LINK_BYTES:
        headers["Link"] = f'<{following}>; rel="next"'
    answer = {
        "name": journal.name,
        "confidence_level": selection.level,
        **journal.promise(),
        "description": "release",  # its address, as seen from that of the numbers
        "columns": page.table.columns,
        "rows": json_rows(page.table),
        "next": following,
    }
    return JSONResponse(answer, headers=headers)


def _release_parts(journal: Journal) -> Iterator[bytes]:
    """Yield the parts of a whole release as JSON."""
    facts, rows = journal.whole()
    begin = json.dumps(facts, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    yield f'{begin[:-1]},"rows":['.encode()
    mark = ""
    for table in rows.parts():
        text = json.dumps(json_rows(table), ensure_ascii=False, allow_nan=False)[1:-1]
        if text:
            yield f"{mark}{text}".encode()
            mark = ","
    yield b"]}"


def _csv_parts(journal: Journal, selection: SeriesSelection) -> Iterator[bytes]:
    """Yield the parts of a series as CSV."""
    rows = journal.rows(selection)
    refuse_many_rows(rows.known_rows)
    for number, table in enumerate(rows.parts()):
        shown = escape_formulas(table.lazy()).collect()
        text = shown.write_csv(
            include_header=number == 0, datetime_format="%Y-%m-%dT%H:%M:%S%.f%:z"
        )
        yield text.encode()


def _as_file(name: str) -> dict[str, str]:
    """Return the header that makes browsers save an answer as a file."""
    plain = "".join(c if c.isascii() and c.isalnum() else "-" for c in name)
    return {"Content-Disposition": f'attachment; filename="{plain}.csv"'}
