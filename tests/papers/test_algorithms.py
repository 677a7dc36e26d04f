"""Each algorithm of the papers has one command, which runs it small, and with the paper's noise.

What each paper's lines add to the exact total is written out here, step by step, as draws and their
weights. Variances and covariances of the releases that a command made are held against it.
"""

import math
import os
import re
import shlex
import shutil
import subprocess
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest
from forked_commands import forked_python
from one_interpreter import printed_by_each

from counton.base.distributions import DiscreteGaussian, DiscreteLaplace
from counton.state import Store
from counton.strategies.strategy import node_distribution

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "reference" / "papers.md").read_text("utf-8")
HEAD = "| Algorithm | Command | Differences from the paper |"
#: Steps whose noise is looked at.
STEPS = range(1, 41)
HORIZON = 364
#: What is added to a release: draws by name, each with its weight and its standard scale.
Draws = Mapping[Any, float]


def commands() -> dict[str, str]:
    """The command of each algorithm of the table."""
    lines = PAGE[PAGE.index(HEAD) :].split("\n\n")[0].splitlines()[2:]
    cells = [[cell.strip() for cell in line.strip("|").split(" | ")] for line in lines]
    return {algorithm: command.strip("`") for algorithm, command, _ in cells}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where each command of counton has run."""
    place = tmp_path_factory.mktemp("algorithms")
    shutil.copytree(ROOT / "examples" / "papers", place / "examples" / "papers",
                    ignore=shutil.ignore_patterns("*.db*"))  # fmt: skip
    words = [shlex.split(one) for one in commands().values()]
    ours = [one[1:] for one in words if one[0] == "counton"]
    printed = printed_by_each(ours, place, {"PYTHONPATH": str(ROOT), "COLUMNS": "160"})
    assert all("Released" in one for one in printed)
    return place


@pytest.mark.parametrize(
    "algorithm", [name for name, one in commands().items() if one.startswith("python")]
)
def test_each_command_in_python_runs(algorithm: str, folder: Path) -> None:
    words = shlex.split(commands()[algorithm])
    done = subprocess.run(
        [forked_python(), *words[1:]], cwd=folder, env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip()


def test_commands_cover_every_algorithm_of_papers() -> None:
    found = "\n".join(commands())
    for paper, numbers in (("Elders", 3), ("Smooth", 2), ("Ranges", 4), ("Expiration", 3)):
        named = "".join(re.findall(rf"^{paper}, Algorithms? ([^,(\n]*)", found, re.MULTILINE))
        assert sorted(re.findall(r"\d", named)) == [str(one) for one in range(1, numbers + 1)]
    for part in ("sections 3 and 4", *(f"Corollary {n}" for n in range(1, 6)), "section 5.6"):
        assert f"Constants, {part}" in found
    jobs = (ROOT / "examples" / "papers" / "jobs.toml").read_text("utf-8")
    run = [one.split()[-1] for one in commands().values() if one.startswith("counton run")]
    assert sorted(run) == sorted(re.findall(r"^\[jobs\.(.*)\]$", jobs, re.MULTILINE))


def digits(t: int, k: int, h: int, most: int) -> list[int]:
    """Of t to the base k, highest first, h of them, each from most - k + 1 to most."""
    found = []
    for _ in range(h):
        low = (t + k - 1 - most) % k - (k - 1 - most)
        found.append(low)
        t = (t - low) // k
    assert t == 0
    return found[::-1]


def elders_1(t: int, k: int = 17) -> Draws:
    h = math.ceil(math.log(HORIZON + 1, k))
    p = 0
    read = {}
    for level, times in zip(range(h, 0, -1), digits(t, k, h, k - 1), strict=True):
        for _ in range(times):
            read[p + 1, p + k ** (level - 1)] = float(h)
            p += k ** (level - 1)
    return read


def elders_2(t: int, k: int = 19) -> Draws:
    h = math.ceil(math.log(2 * HORIZON, k))
    p = 0
    read = {}
    for level, times in zip(range(h, 0, -1), digits(t, k, h, k // 2), strict=True):
        for _ in range(abs(times)):
            p += int(math.copysign(k ** (level - 1), times))
            read[p] = float(h)
    return read


def elders_3(t: int, k: int = 19) -> Draws:
    """With line 15 as it is meant."""
    h = math.ceil(math.log(2 * HORIZON, k))
    p = 0
    read = {}
    for level, times in zip(range(h, 0, -1), digits(t, k, h, k // 2), strict=True):
        size = k ** (level - 1)
        for _ in range(abs(times)):
            if times > 0:
                read[p + 1, p + size] = float(h)
                p += size
            else:
                read[p - size + 1, p] = -float(h)
                p -= size
    return read


def left_children(bits: str, scale: float) -> Draws:
    """Lines 4 to 13 of both algorithms of Smooth."""
    a = 1
    b = 1 << len(bits)
    read = {}
    for bit in bits:
        d = (a + b) // 2
        if bit == "1":
            read[a, d] = scale
            a = d + 1
        else:
            b = d
    return read


def smooth_1(t: int) -> Draws:
    h = math.ceil(math.log2(HORIZON + 1))
    return left_children(f"{t:0{h}b}", math.sqrt(h))  # rho = 1/2


def smooth_2(t: int) -> Draws:
    h = next(h for h in range(2, 64, 2) if math.comb(h, h // 2) > HORIZON)
    leaves = (one for one in range(1 << h) if f"{one:0{h}b}".count("0") == h // 2)
    wanted = next(one for place, one in enumerate(leaves) if place == t)  # m(t + 1)
    return left_children(f"{wanted:0{h}b}", math.sqrt(h // 2))


def ranges_2(t: int, doublings: int = 9) -> Draws:
    """The tree that it has grown to; noise comes down from the root."""
    read = {"root": 1.0}
    leaf = f"{t - 1:0{doublings}b}"
    for depth, bit in enumerate(leaf):
        sign = 1 if bit == "0" else -1
        read = {name: weight / 2 for name, weight in read.items()}
        read[leaf[:depth]] = sign * math.sqrt(3) / 2
    scale = math.sqrt(1 + doublings / 3)
    return {name: weight * scale for name, weight in read.items()}


def expiration_2(t: int, growth: int = 1, delay: int = 0) -> Draws:
    at = t - delay
    levels = range(at.bit_length() if at > 0 else 0)
    return {(level, at >> level): float(1 + level) ** (1 - growth) for level in levels}


def constants(t: int) -> Draws:
    f = [1.0]
    for k in range(1, HORIZON):
        f.append(f[-1] * (2 * k - 1) / (2 * k))
    norm = math.sqrt(sum(one * one for one in f))  # exact, and z is drawn once
    return {i: f[t - i] * norm for i in range(1, t + 1)}


WRITTEN: dict[str, Callable[[int], Draws]] = {
    "elders-1": elders_1,
    "elders-2": elders_2,
    "elders-even": lambda t: elders_2(t, 20),
    "smooth-1": smooth_1,
    "smooth-2": smooth_2,
    "ranges-2": ranges_2,
    "expiration-2": expiration_2,
    "expiration-3": lambda t: expiration_2(t, growth=2, delay=1),
    "constants-count": constants,
    "constants-histogram": constants,
    "constants-top": constants,
}


def products(draws: Callable[[int], Draws]) -> Iterator[float]:
    """Of what is added at any two steps, in squares of scales."""
    every = [draws(t) for t in STEPS]
    for one in every:
        for other in every:
            yield sum(weight * other.get(name, 0.0) for name, weight in one.items())


@pytest.mark.parametrize("job", WRITTEN)
def test_releases_have_the_noise_of_the_papers_lines(job: str, folder: Path) -> None:
    with Store(folder / "examples" / "papers" / "papers.db") as store:
        design = store.reader(job).design
    strategy = design.strategy
    distribution = design.distribution
    laplace = DiscreteLaplace if job.split("-")[0] in ("elders", "expiration") else DiscreteGaussian
    assert isinstance(distribution, laplace)

    def made(t: int) -> Draws:
        found: dict[Any, float] = defaultdict(float)
        for level, index, weight in strategy.row(t):
            here = node_distribution(strategy, distribution, level)
            scale = (
                float(here.scale)
                if isinstance(here, DiscreteLaplace)
                else math.sqrt(here.sigma_squared)
            )
            found[level, index] += float(Fraction(weight)) * scale / 2**strategy.facts.lattice_bits
        return found

    assert [*products(made)] == pytest.approx([*products(WRITTEN[job])], rel=1e-3, abs=1e-3)


def test_both_trees_with_subtraction_are_one() -> None:
    assert [*products(elders_2)] == pytest.approx([*products(elders_3)])


@pytest.mark.parametrize("wrong", ["elders-1", "smooth-1", "expiration-2", "constants-count"])
def test_comparison_separates_different_algorithms(wrong: str) -> None:
    others = [one for name, one in WRITTEN.items() if name.split("-")[0] != wrong.split("-")[0]]
    mine = [*products(WRITTEN[wrong])]
    assert all([*products(one)] != pytest.approx(mine, rel=1e-3, abs=1e-3) for one in others)


def test_tables_are_measured_by_the_cascade(folder: Path) -> None:
    """Total and differences of halves, these weighted 1 to the root of 3."""
    with Store(folder / "examples" / "papers" / "papers.db") as store:
        streams = {one["name"]: one["terms"] for one in store.summary()["streams"]}
    axes = [axis for terms in streams.values() for axis in axes_of(terms)]
    assert axes
    for total, *differences in axes:
        assert all(total / one == pytest.approx(math.sqrt(3), rel=1e-3) for one in differences)


def axes_of(terms: object) -> Iterator[list[int]]:
    """Weights of each cascade that something names."""
    if isinstance(terms, dict):
        if terms.get("strategy") == "Haar":
            yield terms["weights"]
        for part in terms.values():
            yield from axes_of(part)
    elif isinstance(terms, list):
        for part in terms:
            yield from axes_of(part)
