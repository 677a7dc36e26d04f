"""Handwritten digits, trained privately in four ways at four budgets, with ten seeds.

The same small network, batches of 60 and 8 epochs throughout:

- DP-SGD: independent noise, and batches by Poisson sampling, which is secret and amplifies privacy;
- BLT and Echo: correlated noise, and a fixed public order;
- amplified BLT: correlated noise, and a secret place of each example in the epoch.

For each way and budget the best of four learning rates is shown. They are chosen on the test set,
which is not private, and the same for all ways. Each rate is a run with its own name, noise and
batches: what is shown of all of them costs the sum. `make demo-train` takes some minutes.

`python examples/digits.py PICTURE` draws the accuracies, and writes them to a JSON file beside the
picture. The page of training shows those of docs/images/training.json.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from scipy import stats
from sklearn.datasets import load_digits

from counton import ApproxDP, Key
from counton.training import (
    FixedEpochs,
    PoissonBatches,
    Sampler,
    SecretPlaces,
    TrainingDesign,
    plan,
)
from counton.training.strategies import BufferedToeplitz, Echo

Array = NDArray[np.float64]
TRAINED = 1440
BATCH = 60
EPOCHS = 8
PLACES = TRAINED // BATCH
HIDDEN = 32
SHAPES = ((64, HIDDEN), (HIDDEN,), (HIDDEN, 10), (10,))
DIMENSION = sum(int(np.prod(shape)) for shape in SHAPES)
CLIP = 1.0
DELTA = 1e-5
BUDGETS = (0.5, 1.0, 2.0, 4.0)
RATES = (0.1, 0.2, 0.5, 1.0)
SEEDS = 10


def split(flat: Array) -> list[Array]:
    """The network's weights from one vector."""
    ends = np.cumsum([int(np.prod(shape)) for shape in SHAPES])[:-1]
    return [part.reshape(shape) for part, shape in zip(np.split(flat, ends), SHAPES, strict=True)]


def clipped_sum(flat: Array, inputs: Array, labels: NDArray[np.int64]) -> Array:
    """Sum of the examples' gradients, each clipped to norm `CLIP`."""
    first, bias, second, last = split(flat)
    hidden = np.tanh(inputs @ first + bias)
    scores = hidden @ second + last
    scores = np.exp(scores - scores.max(axis=1, keepdims=True))
    wrong = scores / scores.sum(axis=1, keepdims=True)
    wrong[np.arange(len(labels)), labels] -= 1
    back = (wrong @ second.T) * (1 - hidden**2)
    squares = (back**2).sum(1) * ((inputs**2).sum(1) + 1)
    squares += (wrong**2).sum(1) * ((hidden**2).sum(1) + 1)
    factors = (CLIP / np.maximum(np.sqrt(squares), CLIP))[:, None]
    back = back * factors
    wrong = wrong * factors
    parts = (inputs.T @ back, back.sum(0), hidden.T @ wrong, wrong.sum(0))
    return np.concatenate([part.reshape(-1) for part in parts])


def accuracy(flat: Array, inputs: Array, labels: NDArray[np.int64]) -> float:
    """Share of digits that are told right."""
    first, bias, second, last = split(flat)
    scores = np.tanh(inputs @ first + bias) @ second + last
    return float((scores.argmax(axis=1) == labels).mean())


def trained(
    choice: TrainingDesign, samplers: Sequence[Sampler], rate: float, key: Key, name: str
) -> list[float]:
    """Accuracies of one network for each sampler; all read one table of noise side by side."""
    digits = load_digits()
    order = np.random.default_rng(0).permutation(len(digits.data))
    inputs = digits.data[order] / 16
    labels = digits.target[order]
    weights = np.array([start(seed) for seed in range(len(samplers))])
    noise = choice.noise(key=key, name=name, sampler=samplers[0])
    for step in range(1, samplers[0].steps + 1):
        drawn = noise.read(step, "weights", weights.size).reshape(weights.shape)
        for seed, sampler in enumerate(samplers):
            batch = sampler.batch(step)
            total = clipped_sum(weights[seed], inputs[batch], labels[batch])
            weights[seed] -= rate * (total + drawn[seed]) / BATCH
    return [accuracy(flat, inputs[TRAINED:], labels[TRAINED:]) for flat in weights]


def start(seed: int) -> Array:
    """Weights before training."""
    random = np.random.default_rng([1, seed])
    parts = [random.standard_normal(shape) / np.sqrt(len(shape) * shape[0]) for shape in SHAPES]
    parts[1][:] = 0
    parts[3][:] = 0
    return np.concatenate([part.reshape(-1) for part in parts])


def ways(
    epsilon: float, seeds: int, key: Key
) -> dict[str, tuple[TrainingDesign, Callable[[], list[Sampler]]]]:
    """The four ways, each with a function that makes the samplers of a run."""
    guarantee = ApproxDP(epsilon, DELTA)

    def in_order() -> list[Sampler]:
        return [FixedEpochs(TRAINED, BATCH, EPOCHS, seed=seed) for seed in range(seeds)]

    def by_chance() -> list[Sampler]:
        return [
            PoissonBatches(TRAINED, 1 / PLACES, EPOCHS * PLACES, key=key, name=f"digits {seed}")
            for seed in range(seeds)
        ]

    def in_places() -> list[Sampler]:
        return [
            SecretPlaces(TRAINED, PLACES, EPOCHS, key=key, name=f"digits {seed}")
            for seed in range(seeds)
        ]

    fixed = plan(sampler=in_order()[0], guarantee=guarantee, clip=CLIP).choices
    plain = next(choice for choice in fixed if isinstance(choice.strategy, BufferedToeplitz))
    echo = next(choice for choice in fixed if isinstance(choice.strategy, Echo))
    amplified = plan(sampler=in_places()[0], guarantee=guarantee, clip=CLIP).choices
    hidden = next(choice for choice in amplified if isinstance(choice.strategy, BufferedToeplitz))
    independent = plan(sampler=by_chance()[0], guarantee=guarantee, clip=CLIP).best
    return {
        "DP-SGD, Poisson sampling": (independent, by_chance),
        "BLT, fixed order": (plain, in_order),
        "Echo, fixed order": (echo, in_order),
        "BLT, secret places": (hidden, in_places),
    }


def interval(values: Sequence[float]) -> tuple[float, float]:
    """Mean, and half the width of its 95% interval over seeds."""
    spread = float(np.std(values, ddof=1)) / np.sqrt(len(values)) if len(values) > 1 else 0.0
    return float(np.mean(values)), float(stats.t.ppf(0.975, max(len(values) - 1, 1)) * spread)


def measured(
    budgets: Sequence[float] = BUDGETS, rates: Sequence[float] = RATES, seeds: int = SEEDS
) -> dict[str, list[tuple[float, float, float]]]:
    """For each way: (epsilon, mean accuracy, half width), at its best learning rate."""
    table: dict[str, list[tuple[float, float, float]]] = {}
    key = Key.generate()
    for epsilon in budgets:
        for name, (choice, samplers) in ways(epsilon, seeds, key).items():
            runs = [
                interval(trained(choice, samplers(), rate, key, f"{name}, {epsilon}, {rate}"))
                for rate in rates
            ]
            mean, half = max(runs)
            table.setdefault(name, []).append((epsilon, mean, half))
            print(
                f"epsilon {epsilon:>4g}  {name:<24} accuracy {mean:.3f} ± {half:.3f}"
                f"   error of sums {choice.error:8.1f}",
                flush=True,
            )
    return table


def draw(table: dict[str, list[tuple[float, float, float]]], path: Path) -> None:
    """Accuracy by budget, with intervals."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(6, 4), layout="constrained")
    axes = figure.subplots()
    for number, (name, rows) in enumerate(table.items()):
        budgets, means, halves = (np.array(column) for column in zip(*rows, strict=True))
        axes.errorbar(
            budgets * 1.02 ** (number - 1.5), means, halves, marker="o", capsize=3, label=name
        )
    axes.set_xscale("log")
    axes.set_xticks(BUDGETS, [f"{budget:g}" for budget in BUDGETS])
    axes.minorticks_off()
    axes.set_xlabel("epsilon, delta = 1e-5")
    axes.set_ylabel("accuracy on 357 digits")
    axes.grid(alpha=0.3)
    axes.legend()
    path.parent.mkdir(exist_ok=True)
    figure.savefig(path, dpi=120)


def write(table: dict[str, list[tuple[float, float, float]]], path: Path) -> None:
    """Write the accuracies and half widths by way and budget, and the task, as JSON."""
    facts = {
        "digits": TRAINED,
        "others": len(load_digits().data) - TRAINED,
        "epochs": EPOCHS,
        "steps": EPOCHS * PLACES,
        "seeds": SEEDS,
        "rates": RATES,
        "delta": DELTA,
        "accuracies": {
            name: [
                {"epsilon": epsilon, "mean": round(mean, 6), "margin": round(half, 6)}
                for epsilon, mean, half in rows
            ]
            for name, rows in table.items()
        },
    }
    path.write_text(json.dumps(facts, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    began = time.monotonic()
    print(f"{TRAINED} digits, {EPOCHS} epochs of {TRAINED // BATCH} steps, {SEEDS} seeds, 95%")
    results = measured()
    place = Path(sys.argv[1] if len(sys.argv) > 1 else "demo/digits.png")
    draw(results, place)
    numbers = place.with_suffix(".json")
    write(results, numbers)
    print(f"drawn in {place}, written to {numbers}; {time.monotonic() - began:.0f} s")
