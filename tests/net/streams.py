"""Noise of every strategy: counters of a few steps, and training of a few steps."""

import json
import re
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
from keys import chosen_key

from counton import ZCDP, ApproxDP, Counter, PureDP
from counton.base.errors import InvalidInputError
from counton.privacy import Guarantee
from counton.strategies import public_strategies
from counton.training import TrainingNoise
from counton.training.strategies import training_strategy_from_dict

STEPS = 12
CELLS = 2
STRATEGIES = Path(__file__).with_name("strategies.json")
GUARANTEES = (PureDP(1), ApproxDP(1, 1e-6), ZCDP(0.5))


def counters(guarantees: Sequence[Guarantee] = GUARANTEES) -> Iterator[tuple[str, str, list[str]]]:
    """Of every strategy and guarantee its name, what defines it, and releases of each step."""
    counts = (np.arange(STEPS * CELLS) * 7 % 11).reshape(STEPS, CELLS)
    for strategy in (one for kind in public_strategies() for one in kind.examples(STEPS)):
        for guarantee in guarantees:
            spec = f"{written(strategy)}, {guarantee}"
            try:
                counter = Counter(strategy, guarantee, key=chosen_key(), name="it", shape=(CELLS,))
            except InvalidInputError:
                continue
            of_cells = counts.reshape(STEPS, CELLS, *(1 for _ in counter.shape[1:]))
            taken = np.broadcast_to(of_cells, (STEPS, *counter.shape))  # for all versions the same
            values = counter.release_many(taken).values.reshape(STEPS, -1)
            yield f"counter, {spec}", spec, [" ".join(map(number, step)) for step in values]


def training() -> Iterator[tuple[str, str, list[str]]]:
    """Of every strategy for training its name, what defines it, and the noise of each step.

    Strategies are read from ``strategies.json`` and not searched for, as whoever goes on with a
    run does: a search ends elsewhere on another processor.
    """
    for description in json.loads(STRATEGIES.read_text()):
        strategy = training_strategy_from_dict(description)
        noise = TrainingNoise(strategy, key=chosen_key(), name="it", guarantee=ZCDP(0.5))
        steps = (noise.read(step, "w", 3) for step in range(1, STEPS + 1))
        # In single precision: a processor rounds the last of its seven digits.
        found = [" ".join(f"{float(one):.5g}" for one in step) for step in steps]
        yield f"training, {written(strategy)}", written(strategy), found


def written(strategy: object) -> str:
    """A strategy with its parameters; numbers that a search found by six digits."""
    return re.sub(r"\d+\.\d{6}\d*", lambda found: f"{float(found[0]):.6g}", str(strategy))[:200]


def number(value: object) -> str:
    """A whole number as it is, another by ten digits, since a processor rounds the rest."""
    given = float(value)  # type: ignore[arg-type]
    return str(int(given)) if given.is_integer() else f"{given:.10g}"
