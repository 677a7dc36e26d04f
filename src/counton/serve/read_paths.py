"""Paths for reading released series."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Annotated, Any, Literal

import polars as pl
from fastapi import APIRouter, HTTPException, Path, Query
from fastapi.responses import JSONResponse, Response

from counton.numbers.intervals import check_level
from counton.run.written_files import no_formulas
from counton.serve.access import Access
from counton.serve.public_series import Journal, json_rows

Name = Annotated[str, Path(description="the stream", max_length=200)]
Moment = Annotated[str | None, Query(max_length=64, description="a time, ISO 8601")]
#: Answer if a state lacks releases that were shown.
UNSURE = (
    "the state of this stream is older than its released numbers, or its witness cannot say, so "
    "the service takes no rows and shows no numbers until an operator restores the newest state "
    "and its witness; try again later"
)
#: Answer for a stream whose job could not begin.
FAILED = "the job of this stream cannot run (the log of the service says why); try again later"


def later(status: int, why: str, seconds: int) -> HTTPException:
    """Build the error that asks a client to repeat its request, because nothing was done."""
    return HTTPException(status, why, {"Retry-After": str(seconds)})


def check_name(name: str, known: Collection[str], failed: Collection[str]) -> None:
    """Refuse a request for an unknown stream, or for one whose job could not begin."""
    if name in known:
        return
    if name in failed:
        raise later(503, FAILED, 60)
    raise HTTPException(404, "there is no such stream; GET /v1/streams lists them")


def router(
    journals: Mapping[str, Journal],
    failed: Collection[str],
    access: Access,
) -> APIRouter:
    """Build the paths for readers; the arguments give no access to rows or exact sums."""
    paths = APIRouter(
        prefix="/v1/streams",
        tags=["read"],
        dependencies=[access.needs("read")],
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

    @paths.get("")
    def streams() -> dict[str, Any]:
        """All streams whose state exists, with their public facts."""
        known = [journal for journal in list(journals.values()) if not journal.refused]
        return {"streams": [journal.about() for journal in known]}

    @paths.get("/{name}")
    def stream(name: Name) -> dict[str, Any]:
        """Return public facts and the description of one stream."""
        return of(name).describe()

    @paths.get("/{name}/series", responses={200: {"content": {"text/csv": {}}}})
    def series(
        name: Name,
        group: Annotated[
            list[str] | None, Query(description="only this group; may be repeated")
        ] = None,
        start: Annotated[Moment, Query(alias="from")] = None,
        until: Annotated[Moment, Query(alias="to")] = None,
        of_: Annotated[
            Literal["totals", "windows"] | None,
            Query(alias="of", description="for counts and sums: totals, or each window alone"),
        ] = None,
        level: Annotated[
            float | None,
            Query(
                gt=0,
                lt=1,
                description="probability that each interval holds the true number; default: as in "
                "the stream's files",
            ),
        ] = None,
        last: Annotated[
            int | None, Query(ge=1, le=2**31, description="only the newest steps, this many")
        ] = None,
        format: Literal["json", "csv"] = "json",
    ) -> Response:
        """Released steps with their intervals, by window and group."""
        journal = of(name)
        level = check_level(journal.level if level is None else level)
        found = journal.series(group or (), start, until, of_, level, last)
        if format == "csv":
            return _as_csv(name, found)
        facts = {"name": name, "level": level, **journal.promise()}
        facts["description"] = "release"  # its address, as seen from that of the numbers
        return JSONResponse({**facts, "columns": found.columns, "rows": json_rows(found)})

    @paths.get("/{name}/release")
    def release(name: Name) -> Response:
        """The whole release, in the form of a file for `counton.read`."""
        return JSONResponse(of(name).whole())

    return paths


def _as_csv(name: str, found: pl.DataFrame) -> Response:
    rows = no_formulas(found.lazy()).collect()
    text = rows.write_csv(datetime_format="%Y-%m-%dT%H:%M:%S%.f%:z")
    name = "".join(c if c.isascii() and c.isalnum() else "-" for c in name)
    return Response(
        text,
        media_type="text/csv; charset=utf-8",
        headers={"Content-Disposition": f'attachment; filename="{name}.csv"'},
    )
