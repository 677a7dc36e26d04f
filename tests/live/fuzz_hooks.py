"""How schemathesis writes bodies of the media types that the service reads: as they are."""

from __future__ import annotations

import schemathesis


@schemathesis.serializer(
    "application/x-ndjson", "application/jsonl", "application/x-jsonlines",
    "application/vnd.apache.arrow.stream",
)  # fmt: skip
def as_it_is(_context: object, value: object) -> bytes:
    """Bytes of a value."""
    return value if isinstance(value, bytes) else str(value).encode("utf-8", "surrogatepass")


@schemathesis.hook
def map_path_parameters(
    _context: object, path_parameters: dict[str, object] | None
) -> dict[str, object] | None:
    """Ask for the stream that there is, every other time."""
    if path_parameters and len(str(path_parameters.get("name", ""))) % 2:
        path_parameters["name"] = "visits"
    return path_parameters
