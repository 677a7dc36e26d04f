"""Strategies of a user's own in jobs: a Python object, or a JSON file with its dictionary."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import TYPE_CHECKING, TypeGuard

from counton.base.arguments import wrong_type
from counton.base.errors import InvalidInputError, param
from counton.base.outside_input import parse_json, read_plain
from counton.base.strategy_names import FAMILIES, PAPERS, PUBLISHED

if TYPE_CHECKING:
    from counton.strategies.strategy import StreamStrategy

#: Name that stands for a strategy of the user's own.
OWN = "own"
#: Ending of the name of a file that holds a strategy's `to_dict`, in JSON.
ENDING = ".json"
#: Most characters of a strategy's dictionary, which every release of its stream carries.
_MOST_TEXT = 2**24


def is_file_of(value: object) -> TypeGuard[str]:
    """Return whether a job's option for the strategy names a file.

    >>> is_file_of("mine.json"), is_file_of("kary")
    (True, False)
    """
    return isinstance(value, str) and value.lower().endswith(ENDING)


def check_name(strategy: object) -> None:
    """Refuse the name of a strategy that is not known."""
    named = isinstance(strategy, str) and not is_file_of(strategy)
    if named and strategy not in ("auto", PUBLISHED, *FAMILIES, *PAPERS):
        raise InvalidInputError(
            f"strategy {strategy!r} is not known; give auto, or one of "
            f"{', '.join((*FAMILIES, PUBLISHED, *PAPERS))}, or the file of a strategy of your own, "
            "such as mine.json"
        )


def own_strategy(value: object) -> StreamStrategy | None:
    """Return the strategy that a job states as an object or as a file; None if it states no
    strategy, or only a name.

    Args:
        given: a strategy, such as `counton.strategies.Factorisation`; a JSON file with the output
            of its ``to_dict``; or a name.

    >>> from counton.strategies import Factorisation
    >>> mine = Factorisation([[1, 0], [0.5, 1]])
    >>> own_strategy(mine) is mine, own_strategy("kary")
    (True, None)
    """
    if value is None or (isinstance(value, str) and not is_file_of(value)):
        return None
    from counton.strategies import strategy_from_dict
    from counton.strategies.strategy import StreamStrategy

    if is_file_of(value):
        try:
            read = parse_json(read_plain(value))
        except (OSError, ValueError) as error:
            why = error.strerror if isinstance(error, OSError) else "it is not valid JSON"
            raise InvalidInputError(
                f"{param('strategy', value)} cannot be read ({why}); write the output of a "
                f"strategy's to_dict() into it, as JSON"
            ) from error
        if not isinstance(read, dict):
            raise InvalidInputError(
                f"{param('strategy', value)} does not hold a strategy; write the output of the "
                "strategy's to_dict() into it, as JSON"
            )
        return strategy_from_dict(read)
    if not isinstance(value, StreamStrategy):
        raise wrong_type("strategy", value, "a strategy for streams, as Factorisation, or its name")
    text = json.dumps(value.to_dict())
    if len(text) > _MOST_TEXT:
        raise InvalidInputError(
            f"{param('strategy')} takes {len(text):,} characters as JSON, and at most "
            f"{_MOST_TEXT:,} can be kept in a state; give a strategy of fewer steps"
        )
    try:
        rebuilt = strategy_from_dict(json.loads(text))
    except InvalidInputError as error:
        raise InvalidInputError(
            f"{param('strategy')} is {value!r}, and counton cannot build it again from the output "
            f"of its to_dict() ({error}); pass its matrix C to counton.strategies.Factorisation "
            "instead"
        ) from error
    if rebuilt != value:
        raise InvalidInputError(
            f"{param('strategy')} is {value!r}, but building it again from the output of its "
            f"to_dict() gives {rebuilt!r}; correct to_dict(), or pass the matrix C to "
            "counton.strategies.Factorisation instead"
        )
    return value


def write_strategy(strategy: StreamStrategy, path: str | os.PathLike[str]) -> None:
    """Write a strategy to a JSON file that jobs can name.

    >>> from counton.strategies import Factorisation
    >>> file = Path("mine.json")
    >>> write_strategy(Factorisation([[1, 0], [0.5, 1]]), file)
    >>> own_strategy(str(file)).horizon
    2
    """
    if not is_file_of(os.fspath(path)):
        raise InvalidInputError(
            f"{os.fspath(path)!r} must end in {ENDING}, because it is the file of a strategy; "
            "rename it"
        )
    Path(path).write_text(json.dumps(strategy.to_dict()), "utf-8")
