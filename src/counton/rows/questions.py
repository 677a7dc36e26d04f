"""What a run asks a database for: a question to it, or a table of it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from counton.base.errors import InvalidInput, field
from counton.rows.databases import (
    DuckFile,
    DuckRelation,
    EventDatabase,
    PostgreSQL,
    Question,
    QuestionRows,
    SqliteFile,
)
from counton.rows.other_tables import open_table
from counton.rows.sources import Source


def open_question(events: Any, query: str | None) -> Source:
    """The rows that a database answers with.

    Args:
        events: ``duckdb:///FILE``, ``duckdb://`` for a database in memory, which may ask files;
            ``sqlite:///FILE``; ``postgresql://USER@HOST/DATABASE``; a relation of DuckDB, or what
            `counton.rows.other_tables.open_table` takes.
        query: one SELECT; None of a relation, which is one.
    """
    if isinstance(events, list | tuple):
        if len(events) > 1:
            raise InvalidInput(
                f"{field('events')} are {len(events)}, and a question to a database stands alone; "
                f"count the others in a run of their own ({field('append', True)}), or ask for all "
                f"rows in one question"
            )
        events = events[0]
    if not isinstance(events, str):
        if query is not None:
            raise InvalidInput(
                f"{field('events')} are a table, which is a question by itself; leave "
                f"{field('query', query[:40])} out"
            )
        of_duckdb = type(events).__module__.lstrip("_").startswith("duckdb")
        found = QuestionRows(DuckRelation(events)) if of_duckdb else open_table(events)
        return Question((found,), found.name)
    if query is None or not query.strip().rstrip(";").strip():
        raise InvalidInput(
            f"{field('events')} is a database, and no question says which rows of it are meant; "
            f"give {field('query', 'select ...')}"
        )
    question = query.strip().rstrip(";").strip()
    kinds: dict[str, Callable[[str, str], EventDatabase]] = {
        "duckdb": DuckFile,
        "sqlite": SqliteFile,
        "postgresql": PostgreSQL,
    }
    rows = QuestionRows(kinds[events.partition("://")[0].partition("+")[0]](events, question))
    return Question((rows,), rows.name)
