"""Strategies that a job states: by name, or in Python an object of the user's own."""

from __future__ import annotations

import json

from counton.base.errors import InvalidInput, field
from counton.base.strategy_names import KINDS, PAPERS, PUBLISHED
from counton.frame.options import wrong_type

#: Name that stands for a strategy of the user's own.
OWN = "own"
#: Most characters of a strategy's dictionary, which every release of its stream carries.
_MOST_TEXT = 2**24


def check_strategy(given: object) -> None:
    """Refuse the name of a strategy that is not known, and an object that no state can keep.

    >>> from counton.strategies import Factorisation
    >>> check_strategy("kary")
    >>> check_strategy(Factorisation([[1, 0], [0.5, 1]]))
    >>> check_strategy("tree")
    Traceback (most recent call last):
    counton.base.errors.InvalidInput: strategy 'tree' is not known; give auto, or one of ...
    """
    if isinstance(given, str):
        if given not in ("auto", PUBLISHED, *KINDS, *PAPERS):
            raise InvalidInput(
                f"strategy {given!r} is not known; give auto, or one of "
                f"{', '.join((*KINDS, PUBLISHED, *PAPERS))}, or in Python a strategy of your own"
            )
        return
    from counton.strategies import strategy_from_dict
    from counton.strategies.strategy import StreamStrategy

    if not isinstance(given, StreamStrategy):
        raise wrong_type("strategy", given, "a strategy for streams, as Factorisation, or its name")
    text = json.dumps(given.to_dict())
    if len(text) > _MOST_TEXT:
        raise InvalidInput(
            f"{field('strategy')} takes {len(text):,} characters as JSON, and at most "
            f"{_MOST_TEXT:,} can be kept in a state; give a strategy of fewer steps"
        )
    try:
        rebuilt = strategy_from_dict(json.loads(text))
    except InvalidInput as error:
        why = str(error)
    else:
        if rebuilt == given:
            return
        why = f"it gives {rebuilt!r}"
    raise InvalidInput(
        f"{field('strategy')} is {given!r}, and counton cannot build it again from the output of "
        f"its to_dict() ({why}): correct to_dict(), or pass the matrix C to "
        "counton.strategies.Factorisation instead"
    )
