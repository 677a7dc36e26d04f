"""What `counton send` refuses before it asks a service."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest


@pytest.mark.parametrize(
    ("words", "code", "says"),
    [
        (["visits.jsonl"], 2, "--token is missing"),
        (["visits.parquet", "--token", "a"], 2, "is neither .jsonl, .ndjson nor .csv"),
        (["none.jsonl", "--token", "a"], 2, "cannot be read"),
        (["-", "--token", "a"], 2, "give --notes"),
        (["visits.jsonl", "--token", "a", "--batch-rows", "0"], 2, "--batch-rows 0 is too small"),
        (["visits.jsonl", "--token", "env:NONE_OF_OURS"], 2, "'NONE_OF_OURS', which is not set"),
        (["visits.jsonl", "--token", "a", "--patience", "0"], 9, "did not accept batch"),
        (["two.csv", "--token", "a"], 2, "has two columns with one name"),
    ],
)
def test_a_sender_is_told_what_is_missing(
    words: list[str], code: int, says: str, place: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(place.folder)
    monkeypatch.delenv("COUNTON_TOKEN", raising=False)
    Path("visits.jsonl").write_text('{"time": "2024-03-01T09:00"}\n')
    Path("two.csv").write_text("time,time\n2024-03-01T09:00,2024-03-01T09:00\n")
    done = place.plain("send", *words, "--to", "http://127.0.0.1:9/v1/streams/visits")
    assert (done.code, says in done.err) == (code, True), done.err


@pytest.mark.parametrize(
    "to", ["visits", "https://h/v1/streams/visits?a=b", "ftp://h/v1/streams/a"]
)
def test_an_address_is_that_of_a_stream(to: str, place: Any) -> None:
    done = place.plain("send", "-", "--to", to, "--token", "a", "--notes", "n")
    assert (
        done.code,
        "give an address of a service that ends with /v1/streams/NAME" in done.err,
    ) == (2, True)
