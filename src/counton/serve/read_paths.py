"""Paths for reading released series."""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
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
from counton.serve.pages import Page
from counton.serve.public_series import Journal, json_rows, refuse_many_rows
from counton.serve.settings import MOST_NAME

Name = Annotated[str, Path(description="the stream", max_length=MOST_NAME)]
Moment = Annotated[str | None, Query(max_length=64, description="a time, ISO 8601")]
#: Answer if a state lacks releases that were shown.
UNSURE = (
    "the state of this stream is older than its released numbers, or its rollback guard cannot "
    "say, so the service takes no rows and shows no numbers until an operator restores the newest "
    "state and its rollback guard; try again later"
)
#: Answer for a stream whose job could not begin.
FAILED = "the job of this stream cannot run (the log of the service says why); try again later"


_CSV = "text/csv; charset=utf-8"
#: Longest address in a header: proxies refuse longer heads.
_LINK_BYTES = 2_000
#: Parameters that all pages of a series share.
_KEPT = ("group", "series", "confidence_level")


def later(status: int, why: str, seconds: int) -> HTTPException:
    """Build the error that asks a client to repeat its request, because nothing was done."""
    return HTTPException(status, why, {"Retry-After": str(seconds)})


def check_name(name: str, names: Collection[str], failed: Collection[str]) -> None:
    """Refuse a request for an unknown stream, or for one whose job could not begin."""
    if name in names:
        return
    if name in failed:
        raise later(503, FAILED, 60)
    raise HTTPException(404, "there is no such stream; GET /v1/streams lists them")


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
        responses={
            status: {"description": why}
            for status, why in {
                401: "no token, or an unknown token",
                403: "the token to write",
                404: "no such stream",
                422: "a value that is not allowed",
                503: "the state cannot be used now; ask again after Retry-After seconds",
            }.items()
        },
    )

    def of(name: str) -> Journal:
        check_name(name, journals, failed)
        if journals[name].refused:
            raise later(503, UNSURE, 60)
        return journals[name]

    def answer(make: Callable[[], Response], *, is_long: bool) -> Response:
        return long_answers.whole(make) if is_long else make()

    def answer_in_parts(
        parts: Callable[[], Iterator[bytes]],
        media_type: str,
        headers: Mapping[str, str] | None = None,
        *,
        is_long: bool,
    ) -> Response:
        if is_long:
            return long_answers.in_parts(parts, media_type, headers)
        return Response(b"".join(parts()), media_type=media_type, headers=headers)

    @paths.get("", response_model=dict[str, Any])
    def streams() -> Response:
        """All streams whose state exists, with their public facts."""
        readable = [journal for journal in list(journals.values()) if not journal.refused]
        is_long = any(journal.has_many_groups() for journal in readable)
        return answer(
            lambda: JSONResponse({"streams": [journal.about() for journal in readable]}),
            is_long=is_long,
        )

    @paths.get("/{name}", response_model=dict[str, Any])
    def stream(name: Name) -> Response:
        """Return public facts and the description of one stream."""
        journal = of(name)
        is_long = journal.has_many_groups()
        return answer(lambda: JSONResponse(journal.describe()), is_long=is_long)

    @paths.get("/{name}/series", responses={200: {"content": {"text/csv": {}}}})
    def series(
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
        journal = of(name)
        level = journal.level if confidence_level is None else confidence_level
        level = check_confidence_level(level)
        groups = group or ()
        is_long = journal.has_many_rows(groups, start, until, last, page)
        if format == "csv":
            if page is not None:
                raise InvalidInputError(
                    f"{param('page', page)} is only for JSON, since CSV has all rows: leave it out"
                )
            parts = partial(_csv_parts, journal, groups, start, until, chosen_series, level, last)
            return answer_in_parts(parts, _CSV, _as_file(name), is_long=is_long)
        parameters = [
            (key, value) for key, value in request.query_params.multi_items() if key in _KEPT
        ]

        def make() -> Response:
            facts = {"name": name, "confidence_level": level, **journal.promise()}
            result = journal.page(groups, start, until, chosen_series, level, last, page)
            return _json_page(result, facts, parameters)

        return answer(make, is_long=is_long)

    @paths.get("/{name}/release")
    def release(name: Name) -> Response:
        """The whole release, in the form of a file for `counton.read`."""
        journal = of(name)
        parts = partial(_release_parts, journal)
        return answer_in_parts(parts, "application/json", is_long=journal.has_many_rows())

    return paths


def _json_page(
    page: Page, facts: Mapping[str, Any], parameters: Sequence[tuple[str, str]]
) -> JSONResponse:
    """Return a page of a series with the address of the next one.

    Args:
        page: the rows, and where the next page begins.
        facts: public facts of the stream.
        parameters: those of the request that the next page shares.
    """
    following = None
    if page.next is not None:
        following = "series?" + urlencode([*parameters, ("page", str(page.next))])
    headers: dict[str, str] = {}
    if following is not None and len(following) <= _LINK_BYTES:
        headers["Link"] = f'<{following}>; rel="next"'
    answer = {
        **facts,
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


def _csv_parts(
    journal: Journal,
    groups: Sequence[str],
    start: str | None,
    until: str | None,
    series: str | None,
    level: float,
    last: int | None,
) -> Iterator[bytes]:
    """Yield the parts of a series as CSV; arguments as for `Journal.rows`."""
    rows = journal.rows(groups, start, until, series, level, last)
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
