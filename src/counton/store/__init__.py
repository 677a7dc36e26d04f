"""Durable streams: releases journaled in a database before they are shown."""

from __future__ import annotations

try:
    import sqlalchemy as _sqlalchemy  # noqa: F401
except ModuleNotFoundError as _error:
    raise ModuleNotFoundError(
        "durable streams need SQLAlchemy, which is not installed: pip install 'counton[store]'"
    ) from _error

from counton.store.keyfile import key_path
from counton.store.store import Store, describe_state
from counton.store.stream import Stream

__all__ = ["Store", "Stream", "describe_state", "key_path"]
