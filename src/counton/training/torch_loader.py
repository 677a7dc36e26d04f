"""Batches of a dataset for PyTorch: the sampler's batches, in the order of the run's steps.

The guarantee holds only for the batches of the sampler. So a loader takes them from the sampler of
the noise, and refuses options of ``DataLoader`` that would choose other ones. Batches that are
drawn by chance may be empty; a loader then gives tensors without rows. Under
``torch.distributed`` every process gets its part of each batch, and no example is in two parts.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

from counton.base.errors import InvalidInputError
from counton.training.batch_samplers import Sampler, check_examples

if TYPE_CHECKING:
    from counton.training.torch import PrivateSteps

#: Options of ``DataLoader`` that choose the examples of a batch.
_CHOOSING_OPTIONS = ("batch_size", "shuffle", "sampler", "batch_sampler", "drop_last")


class StepLoader:
    """The batches of a dataset for the steps of a private run, one for each step that is left.

    Args:
        private: the private steps of the optimiser.
        sampler: the sampler of the noise.
        dataset: a dataset with a number of examples and access by position.
        part: the number of this process, and the number of processes, which divide each batch.
        options: options of ``torch.utils.data.DataLoader``.

    Raises:
        InvalidInputError: the dataset has another number of examples than the sampler, or no access
            by position; or an option would choose other batches.
    """

    def __init__(
        self,
        private: PrivateSteps,
        sampler: Sampler,
        dataset: Any,
        part: tuple[int, int],
        options: Mapping[str, Any],
    ) -> None:
        for name in _CHOOSING_OPTIONS:
            if name in options:
                raise InvalidInputError(
                    f"{name} would choose other batches than those of the sampler, on which the "
                    "guarantee relies: leave it out"
                )
        _check_dataset(dataset, sampler)
        self._private = private
        self._sampler = sampler
        self._part = part
        self._options = dict(options)
        collate = self._options.pop("collate_fn", None)
        self._examples = _Examples(dataset)
        self._collate = _Collate(dataset, collate)

    def __len__(self) -> int:
        """Return the number of steps that are left."""
        return self._sampler.steps - self._private.step

    def __iter__(self) -> Iterator[Any]:
        """Yield this process's part of the batch of each step that is left.

        Raises:
            InvalidInputError: the optimiser did not take exactly one step for a batch.
        """
        from torch.utils.data import DataLoader

        loader = DataLoader(
            self._examples,
            batch_sampler=_Positions(self._sampler, self._private.step, self._part),
            collate_fn=self._collate,
            **self._options,
        )
        for batch in loader:
            step = self._private.step
            yield batch
            self._private.check_taken(step)


class _Positions:
    """The positions of the examples of each step, for one process."""

    def __init__(self, sampler: Sampler, n_taken: int, part: tuple[int, int]) -> None:
        self._sampler = sampler
        self._n_taken = n_taken
        self._part = part

    def __len__(self) -> int:
        return self._sampler.steps - self._n_taken

    def __iter__(self) -> Iterator[list[int]]:
        for step in range(self._n_taken + 1, self._sampler.steps + 1):
            yield part_of_batch(self._sampler.batch(step), *self._part).tolist()


def part_of_batch(batch: Any, number: int, processes: int) -> Any:
    """Return the part of a batch that one of several processes takes.

    The parts have no example in common, and together they are the batch.

    Args:
        batch: positions of examples.
        number: number of the process, from 0.
        processes: number of processes.

    >>> import numpy as np
    >>> [part_of_batch(np.arange(5), number, 2).tolist() for number in range(2)]
    [[0, 2, 4], [1, 3]]
    """
    return batch[number::processes]


class _Examples:
    """A dataset whose empty batches have no examples, also if the dataset refuses such batches."""

    def __init__(self, dataset: Any) -> None:
        self.dataset = dataset

    def __len__(self) -> int:
        return len(self.dataset)

    def __getitem__(self, position: int) -> Any:
        return self.dataset[position]

    def __getitems__(self, positions: list[int]) -> list[Any]:
        if positions and hasattr(self.dataset, "__getitems__"):
            return list(self.dataset.__getitems__(positions))
        return [self.dataset[position] for position in positions]


class _Collate:
    """Makes a batch from examples; an empty one has the form of a batch of one example."""

    def __init__(self, dataset: Any, collate: Callable[[list[Any]], Any] | None) -> None:
        self._dataset = dataset
        self._collate = collate

    def __call__(self, examples: list[Any]) -> Any:
        from torch.utils.data import default_collate

        collate = default_collate if self._collate is None else self._collate
        if examples:
            return collate(examples)
        return without_rows(collate([self._dataset[0]]))


def without_rows(batch: Any) -> Any:
    """Return a batch of the same form without examples.

    Args:
        batch: a batch: a tensor or array whose first axis is the example, or a mapping, tuple or
            list of such.

    >>> import numpy as np
    >>> without_rows({"inputs": np.ones((1, 3)), "names": ["a"]})
    {'inputs': array([], shape=(0, 3), dtype=float64), 'names': []}
    """
    if isinstance(batch, Mapping):
        make: Callable[[Any], Any] = type(batch)
        return make({name: without_rows(part) for name, part in batch.items()})
    if isinstance(batch, list | tuple):
        parts = [without_rows(part) for part in batch if _has_rows(part)]
        if isinstance(batch, tuple) and hasattr(batch, "_fields"):
            return type(batch)(*parts)
        return type(batch)(parts)
    return batch[:0] if _has_rows(batch) else batch


def _has_rows(part: Any) -> bool:
    return isinstance(part, Mapping | list | tuple) or bool(getattr(part, "shape", ()))


def _check_dataset(dataset: Any, sampler: Sampler) -> None:
    """Raise an error unless a sampler's positions are those of a dataset's examples.

    Raises:
        InvalidInputError: no access by position, or another number of examples.
    """
    if not hasattr(dataset, "__getitem__") or not hasattr(dataset, "__len__"):
        raise InvalidInputError(
            f"the dataset ({type(dataset).__name__}) has no examples by position. An iterable "
            "dataset gives each worker the same examples, and the sampler cannot choose among "
            "them: give a dataset with __getitem__ and __len__"
        )
    check_examples(sampler, len(dataset))
