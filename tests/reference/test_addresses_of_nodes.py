"""An address of noise that is used twice is found, whether a draw does so or a strategy."""

from collections.abc import Callable, Iterator
from fractions import Fraction

import pytest
from by_reference import check_it_estimates

from proofs import reference

#: So many that some draws of Gaussian noise are rejected.
STEPS = 300
CELLS = 2
#: What a byte is asked for by: (level, row, column), (purpose, attempt, lane), block, first, size.
Asked = tuple[reference.Place, reference.Place, int, int, int]

#: Wrong drawings: each forgets a part of the address.
FORGET: dict[str, Callable[[Asked], Asked]] = {
    "the cell": lambda asked: (*asked[:2], 0, 0, asked[4]),
    "the node": lambda asked: ((asked[0][0], 0, asked[0][2]), *asked[1:]),
    "the level": lambda asked: ((0, *asked[0][1:]), *asked[1:]),
    "which digit it is": lambda asked: (
        asked[0],
        (min(asked[1][0], reference.DIGIT), *asked[1][1:]),
        *asked[2:],
    ),
    "the attempt": lambda asked: (asked[0], (asked[1][0], 0, asked[1][2]), *asked[2:]),
    "the lane": lambda asked: (asked[0], (*asked[1][:2], 0), *asked[2:]),
    "that a word has two bytes": lambda asked: (*asked[:3], asked[3] // 2, asked[4]),
}


def noise_of_cell(
    bits: reference.Bits, distribution: reference.Laplace | reference.Gaussian, cell: int
) -> reference.Noise:
    """Noise of one law at all levels."""
    return reference.Noise(bits, lambda _: distribution, cell)


def draw_all() -> set[tuple[bytes, int]]:
    """Draw the noise of two laws and two cells; what was read."""
    read: set[tuple[bytes, int]] = set()
    tree = reference.KAry(STEPS, 3)
    for family, width in (("laplace", 10**5), ("gaussian", 10**12)):
        bits = reference.Bits(bytes(32))
        distribution = reference.noise_of(family, Fraction(width))
        for cell in range(CELLS):
            tree.noise(noise_of_cell(bits, distribution, cell), STEPS)
        read |= bits.read
    return read


def test_each_draw_reads_bytes_of_its_own() -> None:
    """Of each purpose, in several digits and attempts: the test below is not idle."""
    read = draw_all()
    purposes = {block[15] for block, _ in read}
    used = {reference.MAIN, reference.ACCEPT, reference.OFFSET, reference.RETRY}
    assert purposes == used | {reference.DIGIT, reference.DIGIT + 1}
    assert {block[13] for block, _ in read} >= {0, 1}  # attempts
    assert {block[12] for block, _ in read} >= {0, 1}  # lanes


@pytest.mark.parametrize("forgotten", FORGET)
def test_draw_with_incomplete_address_is_refused(
    forgotten: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    right = reference.Bits.part

    def wrong(self: reference.Bits, *asked: int) -> int:
        return right(self, *FORGET[forgotten](asked))  # type: ignore[arg-type]

    monkeypatch.setattr(reference.Bits, "part", wrong)
    with pytest.raises(reference.UnreadableError, match="reads bits a second time"):
        draw_all()


def test_no_bits_are_read_twice_in_one_draw() -> None:
    """Two cells with one address, and a part of a word that was read as a whole."""
    bits = reference.Bits(bytes(32))
    distribution = reference.Laplace(Fraction(3))
    first, second, again = (noise_of_cell(bits, distribution, cell) for cell in (0, 1, 1))
    assert [first(0, 4), first(0, 4), first(0, 5)] == [first(0, 4)] * 2 + [first(0, 5)]
    second(0, 4)
    with pytest.raises(reference.UnreadableError, match=r"level 0, \(4, 1\) reads bits"):
        again(0, 4)
    with pytest.raises(reference.UnreadableError, match="a second time"):
        bits.word(reference.MAIN, (0, 4, 0), 8)


class OneLevel(reference.KAry):
    """A wrong strategy: nodes of all levels have one address each, by their index alone."""

    def column(self, step: int, last: int) -> dict[reference.Node, int]:
        nodes = super().column(step, last).items()
        return reference.sums_by_key(((0, at), weight) for (_, at), weight in nodes)

    def _at(self, z: reference.Draws, step: int) -> int:
        return super()._at(lambda _, at: z(0, at), step)


class OneEpoch(reference.Epochs):
    """A wrong strategy: the levels of each epoch begin at 0 again."""

    def _epochs(self) -> Iterator[tuple[reference.LookAhead, int, int, int]]:
        return ((tree, before, size, 0) for tree, before, size, _ in super()._epochs())


@pytest.mark.parametrize(
    ("right", "wrong"),
    [(reference.KAry(STEPS, 3), OneLevel(STEPS, 3)), (reference.Epochs(4), OneEpoch(4))],
    ids=["levels", "epochs"],
)
def test_a_strategy_with_one_address_for_two_nodes_is_found(
    right: reference.Strategy, wrong: reference.Strategy
) -> None:
    """Whether both nodes are measured as one or not: what is released is no estimate any more."""
    for strategy, fails in ((right, False), (wrong, True)):
        columns = [strategy.column(step, STEPS) for step in range(1, STEPS + 1)]
        if fails:
            with pytest.raises(AssertionError):
                check_it_estimates(strategy, columns, 1)
        else:
            check_it_estimates(strategy, columns, 1)


@pytest.mark.parametrize("of", ["rows", "columns"])
def test_matrices_that_name_a_node_twice_are_refused(of: str) -> None:
    matrices = {"rows": [[[0, 1, 1]]], "columns": [[[0, 1, 1]]]}
    reference.strategy_of({"strategy": "Ternary"}, matrices)
    matrices[of] = [[[0, 1, 1], [0, 1, 2]]]
    with pytest.raises(reference.UnreadableError, match="name a node twice in a step"):
        reference.strategy_of({"strategy": "Ternary"}, matrices)
