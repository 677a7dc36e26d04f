"""Statements with numbers, and claims about ranks and slopes, beside what is computed here."""

from __future__ import annotations

import math
from collections.abc import Iterator
from functools import lru_cache

import numpy as np

from counton.base.arrays import Floats
from counton.noise import NoiseField
from counton.privacy.gaussian import analytic_gaussian_sigma, delta_at_most
from counton.strategies import GrowingCascade
from counton.tables import AllRanges, Haar, Nodes, Tree, gaussian_bound
from counton.tables.tree_strategy import tree_strategy_for
from papers.evidence import Comparison, ErrorRow
from papers.ranges.dyadic import Dyadic
from papers.ranges.mechanisms import (
    GUARANTEE,
    MECHANISMS,
    choice,
    key,
    largest_error,
    rank,
    total_error,
)
from papers.ranges.running_sums import running_sums
from papers.ranges.workloads import TreeNodes
from papers.simulation import Measured

#: Of every simulation in quick form.
QUICK_RUNS = 40
#: Of the rows, each of which takes a while.
PARTS = 9
_formula = Comparison.with_formula
_REVERSED = (
    "the paper has HDMM and explicit factorization 'significantly worse' than the others and the "
    "binary tree 'slightly' so; with exact Gaussian noise for all it is the other way round, as "
    "the tree's eleven levels count in full and each node is read as measured"
)


def comparisons(*, quick: bool) -> Iterator[tuple[Comparison, ...]]:
    """All rows, in the paper's order, `PARTS` in all; quick simulations have fewer runs."""
    runs = QUICK_RUNS if quick else 1000
    for part in (
        _covariance(),
        _privacy(),
        _range_variances(),
        _scaling(runs),
        _chain(runs),
        _figure_2(),
        _nodes(runs),
        _other_workloads(runs),
        _estimator(runs),
    ):
        yield tuple(part)


def error_table() -> tuple[ErrorRow, ...]:
    """Root of the mean squared error over all ranges at the paper's privacy, by cells."""
    said = f"{GUARANTEE}, all ranges"
    found = []
    for mechanism in MECHANISMS:
        for cells in (2**4, 2**6, 2**8, 2**10, 2**12, 2**15):
            if cells <= mechanism.largest:
                error = total_error(mechanism.name, cells, "ranges") / AllRanges(cells).queries
                found.append(
                    ErrorRow(said, "mean", cells, mechanism.label, "counton", math.sqrt(error))
                )
    unit = analytic_gaussian_sigma(GUARANTEE.epsilon, GUARANTEE.delta) ** 2
    for cells in (2**4, 2**6, 2**8, 2**10):
        bound = unit * gaussian_bound(AllRanges(cells)) / AllRanges(cells).queries
        found.append(
            ErrorRow(said, "mean", cells, "no strategy is below", "counton", math.sqrt(bound))
        )
    return tuple(found)


@lru_cache(maxsize=16)
def defined_covariance(height: int) -> Floats:
    """C_k of Definition 3.1, by its recursion.

    >>> defined_covariance(2).tolist()[0]
    [1.0, -0.5, -0.125, -0.125]
    """
    covariance = np.ones((1, 1))
    for k in range(height):
        apart = np.full((2**k, 2**k), -(2.0 ** (-2 * k - 1)))
        covariance = np.block([[covariance, apart], [apart, covariance]])
    return covariance


def interval_variances(height: int) -> Floats:
    """Variance of every interval under Definition 3.1, from its dense matrix."""
    cells = 2**height
    sums = np.zeros((cells + 1, cells + 1))
    sums[1:, 1:] = defined_covariance(height).cumsum(0).cumsum(1)
    low, high = np.triu_indices(cells + 1, 1)
    own = sums.diagonal()
    return np.asarray(own[low] + own[high] - 2 * sums[low, high])


@lru_cache(maxsize=4)
def cascade_variances(height: int) -> Floats:
    """The same from the strategy ``cascade``, node by node."""
    strategy = Haar.cascade(2**height)
    low, high = np.triu_indices(2**height + 1, 1)
    return strategy.variance(low, high) * strategy.weights[0] ** 2


def _covariance() -> Iterator[Comparison]:
    """Figure 1, Definition 3.1, Theorem 3.3, Propositions 3.5 and B.1, Corollary B.3."""

    def drawn(height: int) -> Floats:
        """Covariance of what Algorithm 1 draws: by the strategy's decoder."""
        strategy = Haar.cascade(2**height)
        reads = strategy.estimate(np.eye(strategy.cells)) * strategy.weights[0]
        return reads @ reads.T

    pair = drawn(1)
    yield Comparison("Figure 1", "correlation of a node's halves", "-0.5", float(pair[0, 1]))
    given = float(pair[0, 0] - pair[0].sum() ** 2 / pair.sum())
    yield _formula(
        "Alg. 1", "variance of a half, given the node", 3 / 4, given, note="(sqrt(3)/2)^2"
    )
    for height in (2, 5, 8):
        away = np.abs(drawn(height) - defined_covariance(height)).max()
        yield Comparison.with_zero(
            "Prop. 3.5", f"law of Alg. 1 less Definition 3.1, k = {height}", float(away), 1e-11,
            note="largest entry; weights are integers, so sqrt(3) is a fraction",
        )  # fmt: skip
    for height in (3, 10):
        nodes = Haar.cascade(2**height).variance(*TreeNodes(2**height).intervals())
        nodes *= Haar.cascade(2**height).weights[0] ** 2
        for which, value in (("least", nodes.min()), ("largest", nodes.max())):
            yield _formula("Theorem 3.3", f"{which} variance of a node, k = {height}", 1, value)
    for height in (1, 4, 8):
        matrix = drawn(height)
        yield _formula(
            "Prop. B.1 (3)", f"sum of a row of C_k, k = {height}", 2.0**-height, matrix[0].sum()
        )
    matrix = drawn(8)
    apart = matrix[~np.eye(len(matrix), dtype=bool)]
    yield Comparison(
        "Prop. B.1 (2)", "largest off-diagonal entry, k = 8", "0", float(apart.max()), at_most=True
    )
    yield Comparison(
        "Prop. B.1 (4)", "least eigenvalue, negated, k = 8", "0",
        -float(np.linalg.eigvalsh(matrix)[0]), at_most=True,
    )  # fmt: skip
    for height in (1, 2, 5, 8):
        diagonal = np.linalg.inv(drawn(height)).diagonal()
        yield _formula(
            "Cor. B.3", f"diagonal of the inverse, k = {height}", 1 + height / 3, diagonal.max()
        )

    for height in (3, 8):
        away = np.abs(np.linalg.inv(drawn(height)) - printed_inverse(height)).max()
        yield Comparison.with_zero(
            "Lemma B.2", f"inverse of the law of Alg. 1 less the recursion, k = {height}",
            float(away), 3e-11, note="largest entry",
        )  # fmt: skip
    small = drawn(5)
    large = drawn(6)
    yield Comparison.with_zero(
        "Algorithm 2", "covariance of the first 32 cells, before and after the line is doubled",
        float(np.abs(large[:32, :32] - small).max()), 1e-14, note="largest difference",
    )  # fmt: skip
    few, many = (float(GrowingCascade(doublings).squared_sensitivity()) for doublings in (3, 9))
    yield _formula(
        "Algorithm 2", "squared sensitivity after 9 doublings over that after 3", 4 / 2, many / few,
        note="1 + j/3 after j of them",
    )  # fmt: skip
    leaves = [("a", "aa", "aaa", "aaaa"), ("a", "aa", "aaa", "aaab"), ("a", "ab"), ("b", "ba")]
    levels = {f"level {k}": [(*leaf, None, None)[k - 1] for leaf in leaves] for k in range(1, 5)}
    tree = Tree.from_leaves(levels, [*levels])
    measurement, std = tree_strategy_for(tree, [1.0] * len(tree.sizes), 2)
    nodes = np.concatenate(measurement.joint_distribution(std**2).variances)
    yield Comparison(
        "Algorithm 3", "a node's variance farthest from 1, tree with one and two children", "1",
        float(nodes[np.abs(nodes - 1).argmax()]), tolerance=1e-5,
        note=f"all {len(nodes)} nodes down to depth 4; weights are integers, rounded towards "
        "accuracy",
    )  # fmt: skip


def printed_inverse(height: int) -> Floats:
    """The inverse of C_k by the recursion of Lemma B.2, from 1 at k = 0.

    >>> printed_inverse(1).round(4).tolist()
    [[1.3333, 0.6667], [0.6667, 1.3333]]
    """
    inverse = np.ones((1, 1))
    for _ in range(height):
        all_one = np.ones_like(inverse)
        own = inverse + all_one / 3
        other = 2 / 3 * all_one
        inverse = np.block([[own, other], [other, own]])
    return inverse


def _privacy() -> Iterator[Comparison]:
    """Theorems 3.8 and 3.9 and the remark of appendix E.2."""
    height = 10
    factor = np.random.default_rng(3).standard_normal((12, 12))
    values, vectors = np.linalg.eigh(factor @ factor.T)
    encoder = (vectors / np.sqrt(values)) @ vectors.T  # C^(-1/2)
    yield _formula(
        "Theorem 3.8", "squared sensitivity under any C: largest entry of the inverse's diagonal",
        np.linalg.inv(factor @ factor.T).diagonal().max(), (encoder**2).sum(axis=0).max(),
        note="a random covariance of 12 cells, made white",
    )  # fmt: skip
    for epsilon, delta, known in ((1.0, 1e-6, "77.341"), (0.1, 1e-9, "10924.45")):
        printed = (2 + 2 * height / 3) / epsilon**2 * math.log(2 / delta)
        needed = analytic_gaussian_sigma(epsilon, delta) ** 2 * (1 + height / 3)
        at = f"n = 1024, epsilon = {epsilon:g}, delta = {delta:g}"
        yield Comparison(
            "Theorem 3.9", f"variance that suffices, {at}", f"{printed:.2f}", needed,
            expected=known,
            note=f"the printed formula is safe and {100 * (printed / needed - 1):.0f}% too large: "
            f"the exact sensitivity and the analytic Gaussian mechanism need less",
        )  # fmt: skip
        spent = delta_at_most(math.sqrt(printed / (1 + height / 3)), epsilon)
        yield Comparison(
            "Theorem 3.9", f"delta at the printed variance, {at}", f"{delta:g}", spent, at_most=True
        )
    even = next(k for k in range(1, 99) if 2 + 2 * k / 3 <= k)
    yield Comparison(
        "Appendix E.2", "log n from which 2 + (2/3) log n is at most log n", "6", even,
        note="so by the printed constants the binary tree has less noise up to n = 64",
    )  # fmt: skip
    cascade, tree = (choice(name, 2**height).strategy.axes[0] for name in ("cascade", "dyadic"))
    exact = math.sqrt(
        tree.squared_sensitivity()
        / (cascade.squared_sensitivity() / cascade.largest_entry**2)
    )  # fmt: skip
    yield Comparison(
        "Appendix E.2", "std of binary tree over ours, n = 1024",
        f"{math.sqrt(height / (2 + 2 * height / 3)):.4f}", exact, expected="1.5933",
        note="2 + (2/3) log n stands beside log n without its 2: like with like it is "
        "1 + (1/3) log n against the 1 + log n levels of the tree, and ours is smaller for all n",
    )  # fmt: skip
    yield _formula(
        "Section 5 (baseline)", "sensitivity of Privelet's weights, n = 1024", 11,
        Haar.wavelet(1024).l1_sensitivity(), note="1 + log n, of Xiao, Wang and Gehrke (2010)",
    )  # fmt: skip


def _range_variances() -> Iterator[Comparison]:
    """Lemma 3.14: how large variances of intervals are, and both halves of its proof."""
    for height in (2, 4, 6, 8, 10):
        dense = interval_variances(height)
        tree = cascade_variances(height)
        for which, formula, value in (
            ("largest", dense.max(), tree.max()),
            ("mean", dense.mean(), tree.mean()),
        ):
            yield _formula(
                "Lemma 3.14", f"{which} variance of a range, n = {2**height}", float(formula),
                float(value), note="from the dense matrix of Definition 3.1",
            )  # fmt: skip
    largest = {height: float(cascade_variances(height).max()) for height in (8, 10)}
    for height, value in largest.items():
        yield Comparison(
            "Lemma 3.14", f"largest variance, at most that of 2k - 2 nodes, k = {height}",
            str(2 * height - 2), value, at_most=True,
            note=f"2k/3 + 4/9 is {2 * height / 3 + 4 / 9:.6f}",
        )  # fmt: skip
    for height in range(2, 9):
        low, high = np.triu_indices(2**height + 1, 1)
        pieces = Dyadic(2**height).variance(low, high).max()
        yield _formula(
            "Lemma B.5", f"largest number of pieces of a range, K = {height}", 2 * height - 2,
            pieces, note="the bound is attained",
        )  # fmt: skip
    for height in range(3, 13, 2):
        printed = 1 - 2.0 ** (1 - height) * sum(2**i for i in range(height - 3, -1, -2))
        yield _formula(
            "Lemma 3.14 (proof)", f"V_K - V_(K-2), K = {height}", printed,
            _left_prefix(height) - _left_prefix(height - 2), note="at least 2/3, as is claimed",
        )  # fmt: skip


def _left_prefix(height: int) -> float:
    """V_K of the proof: variance of the first 2^(K-1) + 2^(K-3) + ... + 1 cells."""
    strategy = Haar.cascade(2**height)
    cells = sum(2**i for i in range(height - 1, -1, -2))
    variance = strategy.variance(np.array([0]), np.array([cells]))
    return float(variance[0]) * strategy.weights[0] ** 2


def _scaling(runs: int) -> Iterator[Comparison]:
    """Theorem 3.15 and the remark below Corollary 3.16: how errors grow with n, sigma fixed."""
    top = 20

    def exponent(errors: tuple[float, float]) -> float:
        return math.log2(errors[1] / errors[0])

    def totals(kind: type[Haar] | type[Nodes]) -> tuple[float, float]:
        few, many = (
            Haar.cascade(2**k) if kind is Haar else Nodes.independent(2**k) for k in (top - 1, top)
        )
        return (
            few.ranges_variance() * few.largest_entry**2,
            many.ranges_variance() * many.largest_entry**2,
        )

    yield Comparison(
        "Section 3.4.1", "independent noise: err_2 grows as n to the", "3", exponent(totals(Nodes)),
        tolerance=1e-4, note=f"from n = 2^{top - 1} to 2^{top}",
    )  # fmt: skip
    few, many = totals(Haar)
    yield Comparison(
        "Theorem 3.15", "err_2 / log n grows as n to the", "2",
        exponent((few / (top - 1), many / top)), tolerance=0.02,
        note=f"from n = 2^{top - 1} to 2^{top}; the mean variance is a multiple of log n and a "
        f"constant, which is still felt",
    )  # fmt: skip
    low = np.array([0, 0])
    high = np.array([2 ** (top - 1), 2**top])
    worst = [_worst_range(height) for height in (10, top)]
    assert math.isclose(worst[0], float(cascade_variances(10).max()), rel_tol=1e-9)
    yield Comparison(
        "Theorem 3.15", "err^inf / sigma grows as log n to the", "0.5",
        math.log2(worst[1] / worst[0]) / 2, tolerance=0.03,
        note=f"from n = 2^10 to 2^{top}, at the range that is worst up to 2^10; its variance is "
        "2/3 log n + 4/9, and the constant is still felt",
    )  # fmt: skip
    single = Nodes.independent(2**top).variance(low, high)
    yield _formula(
        "Section 3.4.1", "independent noise: err^inf grows as n to the", 0.5,
        exponent((math.sqrt(single[0]), math.sqrt(single[1]))),
    )  # fmt: skip
    ends = [largest_error("identity", 2**k, "ranges", runs) for k in (12, 14)]
    doubt = sum(end.half / end.mean for end in ends) / math.log(4)
    yield Comparison(
        "Section 3.4.1", "independent noise: err_inf grows as n to the", "0.5",
        math.log(ends[1].mean / ends[0].mean) / math.log(4), tolerance=doubt,
        note=f"from n = 2^12 to 2^14; {ends[1].told()} of {ends[1].mean:.4g}",
    )  # fmt: skip
    for height in (6, 10):
        found = largest_error("cascade", 2**height, "ranges", runs)
        unit = _node_std(2**height)
        cells = 2**height
        most = 2 * height - 2
        later = sum(cells ** -(2.0 * m * m - 2) for m in range(1, 9))
        bound = math.sqrt(4 * math.log(cells) * most) * (1 + later)
        yield Comparison(
            "Theorem 3.15 (proof)", f"err_inf / sigma for ranges, n = {cells}", f"{bound:.2f}",
            (found.mean + found.half) / unit, at_most=True,
            note=f"upper end; {found.told()}, over sigma {unit:.2f}: mean {found.mean / unit:.3f}",
        )  # fmt: skip


def _worst_range(height: int) -> float:
    """Variance of the range of about two thirds in the middle; an even height."""
    strategy = Haar.cascade(2**height)
    low = (2**height + 2) // 6
    variance = strategy.variance(np.array([low]), np.array([2**height - low]))
    return float(variance[0]) * strategy.weights[0] ** 2


def _node_std(cells: int) -> float:
    """sigma: the standard deviation of every node's noise, at the paper's privacy."""
    best = choice("cascade", cells)
    whole = best.strategy.axes[0].variance(np.array([0]), np.array([cells]))
    return math.sqrt(best.distribution.variance * float(whole[0]))


def _chain(runs: int) -> Iterator[Comparison]:
    """Proposition 3.13, for all ranges of 1024 cells and sigma = 1."""
    variances = cascade_variances(10)
    root = math.sqrt(variances.mean())
    worst = math.sqrt(2 / math.pi * variances.max())
    yield Comparison(
        "Prop. 3.13", "sqrt(err_2 / m) is at most err^inf, n = 1024", f"{worst:.6f}", root,
        at_most=True, expected="2.17990",
        note="false: the mean absolute value of a normal error is sqrt(2/pi) times its root mean "
        "square, and that factor is missing on the left",
    )  # fmt: skip
    yield Comparison(
        "Prop. 3.13", "sqrt(2/pi) sqrt(err_2 / m) is at most err^inf", f"{worst:.6f}",
        math.sqrt(2 / math.pi) * root, at_most=True, note="as it should read",
    )  # fmt: skip
    found = largest_error("cascade", 1024, "ranges", runs)
    least = (found.mean - found.half) / _node_std(1024)
    yield Comparison(
        "Prop. 3.13", "err^inf is at most err_inf", f"{least:.3f}", worst, at_most=True,
        note=f"err_inf by simulation, its lower end: {found.told()} of {found.mean:.1f}",
    )  # fmt: skip


def level_variances(name: str, cells: int) -> Floats:
    """Mean variance of the nodes of each level, leaves first: Figure 2(d, e), exact.

    >>> level_variances("identity", 32).round(-2).tolist()
    [2500.0, 5000.0, 10100.0, 20200.0, 40300.0, 80700.0]
    """
    best = choice(name, cells)
    found = []
    for level in range(cells.bit_length()):
        low = np.arange(0, cells, 1 << level)
        found.append(best.strategy.axes[0].variance(low, low + (1 << level)).mean())
    return np.array(found) * best.distribution.variance


def _figure_2() -> Iterator[Comparison]:
    """What section 5 says of Figure 2(b) to (e)."""
    errors = {each.name: total_error(each.name, 1024, "ranges") for each in MECHANISMS}
    tier = {"cascade", "wavelet", "optimal", "binary"}
    place = "Figure 2(b)"
    yield Comparison(
        place, "ours, wavelet, HDMM, hierarchical: largest rank, n = 1024", "4",
        max(rank(name, errors) for name in tier), expected="5",
        note="explicit factorization is second with the noise that it needs; with that of its own "
        "paper's equation (2), sqrt(2) too large, it is fifth: see the next row",
    )  # fmt: skip
    doubled = {**errors, "square_root": 2 * errors["square_root"]}
    yield Comparison(
        place, "the same, factorization with twice the variance", "4",
        max(rank(name, doubled) for name in tier),
    )  # fmt: skip
    worst = max(errors[name] for name in tier) / min(errors[name] for name in tier)
    yield Comparison(
        place, "first tier: largest over least error, n = 1024", "2", worst, at_most=True,
        note="'comparable', read as within a factor of 2",
    )  # fmt: skip
    for cells in (32, 1024):
        for name, label in (("cascade", "ours"), ("dyadic", "binary tree")):
            levels = level_variances(name, cells)
            yield _formula(
                "Figure 2(d, e)", f"{label}: largest over least level, n = {cells}", 1,
                levels.max() / levels.min(), note="equal at every level",
            )  # fmt: skip
        levels = level_variances("identity", cells)
        yield _formula(
            "Figure 2(d, e)", f"Gaussian: root over leaf, n = {cells}", cells,
            levels[-1] / levels[0], note="linear in the length",
        )  # fmt: skip
    levels = level_variances("wavelet", 1024)
    yield Comparison(
        "Figure 2(e)", "wavelet: variation over lengths 1 to 32", "1.01",
        levels[:6].max() / levels[:6].min(), at_most=True, note="'consistent' for short ranges",
    )  # fmt: skip
    yield _formula(
        "Figure 2(e)", "wavelet: root over leaf, n = 1024", 3 * 4**10 / (4**10 + 2),
        levels[-1] / levels[0],
        note="'increases sharply': v_child = v/4 + 1/4 from v_root = 1 leads to 1/3",
    )  # fmt: skip
    for name, label, known in (("square_root", "explicit factorization", "2.571"),
                               ("optimal", "HDMM", "5.411")):  # fmt: skip
        levels = level_variances(name, 1024)
        yield Comparison(
            "Figure 2(e)", f"{label}: root over leaf, n = 1024", "1", levels[-1] / levels[0],
            at_most=True, expected=known,
            note="'the opposite effect' of the wavelet's is read as less noise for long ranges; "
            "with exact Gaussian noise both have more, if less so than noise on the cells",
        )  # fmt: skip
    levels = level_variances("binary", 1024)
    least = int(levels.argmin())
    for which, end in (("leaves", 0), ("root", -1)):
        yield Comparison(
            "Figure 2(e)", f"hierarchical: least level over {which}, n = 1024", "1",
            levels[least] / levels[end], at_most=True, note=f"least for length {2**least}",
        )  # fmt: skip
    lows = {each.name: float(level_variances(each.name, 1024).min()) for each in MECHANISMS}
    del lows["identity"]  # least at the leaves, whatever the tree
    yield Comparison(
        "Figure 2(e)", "hierarchical: rank by least variance of a level", "1",
        rank("binary", lows), expected="3",
        note=f"{lows['binary']:,.0f}; wavelet has {lows['wavelet']:,.0f} and HDMM's cells "
        f"{lows['optimal']:,.0f} with Gaussian noise. The paper does not say which noise its "
        f"package adds",
    )  # fmt: skip


def _nodes(runs: int) -> Iterator[Comparison]:
    """Theorem C.1, Corollary C.2."""
    for cells in (16, 1024):
        strategy = Haar.cascade(cells)
        asked = TreeNodes(cells)
        unit = strategy.weights[0] ** 2
        yield _formula(
            "Theorem C.1", f"err_2 / sigma^2 for nodes, n = {cells}", 2 * cells - 1,
            asked.total(strategy) * unit,
        )  # fmt: skip
    found = _mean_absolute_node(64, runs)
    yield Comparison(
        "Theorem C.1", "err^inf / sigma for nodes, n = 64", f"{math.sqrt(2 / math.pi):.6f}",
        found.mean, tolerance=found.half, note=f"mean of |noise| over all nodes; {found.told()}",
    )  # fmt: skip
    largest = largest_error("cascade", 1024, "nodes", runs)
    later = sum(2047 / 1024.0 ** (m * m) for m in range(1, 9))
    bound = math.sqrt(2 * math.log(1024)) * (1 + later)
    yield Comparison(
        "Theorem C.1 (proof)", "err_inf / sigma for nodes, n = 1024", f"{bound:.3f}",
        (largest.mean + largest.half) / _node_std(1024), at_most=True,
        note=f"upper end; {largest.told()}, over sigma = {_node_std(1024):.2f}",
    )  # fmt: skip
    few, many = (total_error("cascade", 2**k, "nodes") / k for k in (14, 15))
    yield Comparison(
        "Cor. C.2", "err_2 / log n for nodes grows as n to the", "2", math.log2(many / few),
        expected="0.98295",
        note="the corollary says 'range queries' and n^2 log n; Theorem C.1 with Theorem 3.9's "
        "sigma gives n log n for node queries, which it is about",
    )  # fmt: skip


def _mean_absolute_node(cells: int, runs: int) -> Measured:
    """Mean absolute noise of a node over its standard deviation, in each run."""
    best = choice("cascade", cells)
    unit = _node_std(cells)
    strategy = best.strategy.axes[0]
    asked = TreeNodes(cells)
    low, high = asked.intervals()
    found = []
    for run in range(runs):
        field = NoiseField(key().derive(b"mean node", run.to_bytes(4, "big")), best.distribution)
        sums, bits = running_sums(strategy, np.zeros(cells, np.int64), field, 8)
        found.append(float(np.abs(sums[high] - sums[low]).mean()) * 2.0**-bits / unit)
    return Measured.of(found)


def _other_workloads(runs: int) -> Iterator[Comparison]:
    """What appendices E.2 and E.3 say of Figures 3 and 4."""
    nodes = {each.name: total_error(each.name, 1024, "nodes") for each in MECHANISMS}
    optimal = nodes.pop("optimal")
    three = ("binary", "wavelet", "cascade")
    yield Comparison(
        "Figure 3", "hierarchical, wavelet, ours: largest rank by err_2, HDMM aside", "3",
        max(rank(name, nodes) for name in three),
        note=f"n = 1024; the optimum has {min(nodes.values()) / optimal:.2f} times less than these",
    )  # fmt: skip
    measured = {each.name: largest_error(each.name, 1024, "nodes", runs) for each in MECHANISMS}
    largest = {name: found.mean for name, found in measured.items()}
    yield Comparison(
        "Figure 3", "Gaussian: rank by err_inf, n = 1024", "7", rank("identity", largest)
    )
    alike = [largest[name] for name in three]
    yield Comparison(
        "Figure 3", "hierarchical, wavelet, ours: largest over least err_inf, n = 1024", "1.5",
        max(alike) / min(alike), at_most=True, note="'very similarly', read as a factor of 1.5",
    )  # fmt: skip
    yield Comparison(
        "Figure 3", "binary tree: rank by err_inf, n = 1024", "4", rank("dyadic", largest),
        expected="6", note=_REVERSED,
    )  # fmt: skip
    for name, label, known in (
        ("optimal", "HDMM", "1.343"),
        ("square_root", "explicit factorization", "1.261"),
    ):
        found = largest["dyadic"] / largest[name]
        doubt = sum(measured[each].half / largest[each] for each in ("dyadic", name))
        yield Comparison(
            "Figure 3", f"binary tree over {label} by err_inf, n = 1024", "1", found, at_most=True,
            expected=known, spread=found * doubt, note=_REVERSED,
        )  # fmt: skip
    subsets = {each.name: total_error(each.name, 1024, "subsets") for each in MECHANISMS}
    for name, label, printed in (("optimal", "HDMM", "1"), ("identity", "Gaussian", "2")):
        yield Comparison(
            "Figure 4", f"{label}: rank by err_2, random subsets, n = 1024", printed,
            rank(name, subsets),
        )  # fmt: skip
    yield Comparison(
        "Figure 4", "explicit factorization: rank by err_2, n = 1024", "7",
        rank("square_root", subsets), expected="4",
        note="with exact noise it is near wavelet and ours; the binary tree, which reads a random "
        "set cell by cell, is worst by far",
    )  # fmt: skip
    few = {each.name: largest_error(each.name, 64, "subsets", runs).mean for each in MECHANISMS}
    yield Comparison(
        "Figure 4", "HDMM and Gaussian: largest rank by err_inf, n = 64", "2",
        max(rank(name, few) for name in ("optimal", "identity")),
    )  # fmt: skip
    similar = [subsets[name] for name in ("wavelet", "cascade", "binary")]
    yield Comparison(
        "Figure 4", "wavelet, ours, hierarchical: largest over least, n = 1024", "2",
        max(similar) / min(similar), at_most=True, note="'almost similarly', read as a factor of 2",
    )  # fmt: skip


def _estimator(runs: int) -> Iterator[Comparison]:
    """Appendix E.5: the paper's Monte Carlo estimates of both errors."""
    chances = chances_of_ranges(8)
    for which, chance in (("least", chances.min()), ("most", chances.max())):
        yield _formula(
            "Appendix E.5", f"probability of the {which} likely range, n = 8", 1 / 36, chance,
            note="all of them are alike, by enumeration of the coin and of both ends",
        )  # fmt: skip
    sampled = []
    ratios = []
    best = choice("cascade", 1024)
    cells = 1024
    count = 5000
    strategy = best.strategy.axes[0]
    rng = np.random.default_rng(20260103)
    for run in range(runs):
        field = NoiseField(key().derive(b"estimator", run.to_bytes(4, "big")), best.distribution)
        sums, bits = running_sums(strategy, np.zeros(cells, np.int64), field, 8)
        real = sums * 2.0**-bits
        low, high = sampled_ranges(rng, cells, count)
        errors = np.abs(real[high] - real[low])
        sampled.append(AllRanges(cells).queries * float((errors**2).mean()))
        ratios.append(float(errors.max()) / float(real.max() - real.min()))
    total = Measured.of(sampled)
    yield Comparison(
        "Appendix E.5", "err_2 of the cascade from 5,000 ranges, n = 1024",
        f"{best.expected_error:.5g}", total.mean, tolerance=total.half,
        note=f"exact sum beside the paper's estimator; {total.told()}",
    )  # fmt: skip
    ratio = Measured.of(ratios)
    yield Comparison(
        "Appendix E.5", "largest of 5,000 errors over the largest of all", "1.0", ratio.mean,
        expected="0.8435", spread=ratio.half,
        note=f"consistent, but at 5,000 of 524,800 ranges too small; {ratio.told()}. All ranges "
        f"take O(n): the largest running sum of the noise less the least",
    )  # fmt: skip


def sampled_ranges(
    rng: np.random.Generator, cells: int, count: int
) -> tuple[np.ndarray, np.ndarray]:
    """The paper's uniform ranges: heads (2/(n + 1)) one cell, tails two different ends.

    >>> low, high = sampled_ranges(np.random.default_rng(1), 8, 1000)
    >>> bool((low < high).all()), int(high.max())
    (True, 8)
    """
    first = rng.integers(0, cells, count)
    other = rng.integers(0, cells - 1, count)
    return _ends(first, other, rng.random(count) < 2 / (cells + 1))


def _ends(first: np.ndarray, other: np.ndarray, heads: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The range of a draw; other counts the cells without the first."""
    second = np.where(heads, first, other + (other >= first))
    return np.minimum(first, second), np.maximum(first, second) + 1


def chances_of_ranges(cells: int) -> Floats:
    """With which probability `sampled_ranges` draws each range.

    >>> chances_of_ranges(2).round(4).tolist()
    [0.3333, 0.3333, 0.3333]
    """
    first, other, heads = (
        each.ravel() for each in np.meshgrid(range(cells), range(cells - 1), (True, False))
    )
    low, high = _ends(first, other, heads)
    coin = np.where(heads, 2 / (cells + 1), 1 - 2 / (cells + 1)) / cells / (cells - 1)
    drawn = np.zeros((cells, cells + 1))
    np.add.at(drawn, (low, high), coin)
    return drawn[np.triu_indices(cells, 1, cells + 1)]
