"""Functions that models of options need, and that stand in modules which import the models.

Those modules register them when they are loaded.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any


def _nothing() -> Mapping[str, Any]:
    return {}


class ModelRegistry:
    """The registered functions.

    Attributes:
        model_of: returns the model of a statistic's name: see `counton.job.statistics`.
        all_models: returns the models of all statistics by name; before it is registered, none.
        make_job: makes the job of a statistic or of its name: see
            `counton.job.statistic_objects`.
    """

    model_of: Callable[[object], type[Any]]
    make_job: Callable[..., Any]

    def __init__(self) -> None:
        self.all_models: Callable[[], Mapping[str, type[Any]]] = _nothing


REGISTRY = ModelRegistry()
