"""Two neighbouring datasets through whole jobs under one key: everything but numbers is the same.

With one key and one noise, what is released differs by the exact numbers alone. So the difference,
taken back through the strategy to what is measured, is that of the unit: it must lie within the
sensitivity that the noise was calibrated for, and that noise must be wide enough for the guarantee
that the ledger was charged.
"""

import math
import random
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from neighbouring_jobs import (
    EPOCH,
    GROUPS,
    KEYS,
    ODD_NAMES,
    ODD_USERS,
    ODD_VALUES,
    PEOPLE,
    TALLIED,
    USUAL_VALUES,
    Published,
    declared,
    distance_of,
    measured,
    published,
)
from scipy.special import log_ndtr, ndtr
from witnesses import without_witness

from counton import ZCDP, ApproxDP, PureDP
from counton.base.distributions import DiscreteLaplace
from counton.continual.design import Design
from counton.continual.sensitivity import sensitivity_of

Case = dict[str, Any]
#: A row's columns in cases of files, where one may be a line as it stands.
Rows = list[Any]

GUARANTEES: tuple[dict[str, Any], ...] = (
    {"epsilon": 1}, {"epsilon": "0.1"}, {"epsilon": 10}, {"rho": "0.5"}, {"rho": "0.01"},
    {"epsilon": 1, "delta": "1e-6"},
)  # fmt: skip
STRATEGIES = (None, "binary", "kary", "smooth", "honaker", "look-ahead", "least-squares")
#: Those that have normal noise.
NORMAL = ("sqrt", "normalised-sqrt")
#: Statistics beside those of the tests: what defines them.
MORE: dict[str, tuple[str, dict[str, Any]]] = {
    "found": ("count", {"group_by": "group", "unlisted_groups": "discover", "delta": "1e-6"}),
    "by group": ("count", {"group_by": "group", "groups": "1,2,z", "unlisted_groups": "drop"}),
    "ranges": ("ranges", {"label": "group", "groups": "1,2,z", "unlisted_groups": "drop"}),
    "contingency": (
        "contingency",
        {
            "columns": "group,id",
            "groups": {"group": ["1", "2"], "id": ["0", "1", "2"]},
            "unlisted_groups": "drop",
        },
    ),
    "reach": ("reach", {"user": "user", "at_least": "1,2"}),
}
#: Lines of CSV that one program or another may write; none leaves a quotation mark open.
LINES = (
    *("", " ", ",", ",,,,", "x", "1,2", "1,2,3,4,5,6,7,8,9", "\t", "# 1"),
    "at,group,user,id,value",
    *('T,"1",7,0,3', 'T,"1""",7,0,3', 'T,1,7,0,"3\n4"', 'T,"1,2",7,0,3', 'T,a"b,7,0,3'),
    "T,1,7,0,3,",
    *("T,1,7,0,nan", "T,1,7,0,inf", "T,1,7,0,-0", "nan,1,7,0,3", "1e9,1,7,0,3", " T ,1,7,0, 3 "),
    *("T,1,7,0," + "9" * 400, "T," + "x" * 70_000 + ",7,0,3", "\ufeffT,1,7,0,3", "T,1,7,0,3\r"),
    *("T,\udcff,7,0,3", "T,1,7,0,\udcfe", "\0,\0,\0,\0,\0", "T,1,\0,0,3", "T,\u202e,7,0,3"),
    *("T,e\u0301,7,0,3", "T,\xe9,7,0,3", "T,1,7,0,0x10", "T,1,7,0,1_0", "T,1,7,0,\u0663"),
    *("2024-03-01,1,7,0,3", "T.5,1,7,0,3", "-T,1,7,0,3", "9" * 30 + ",1,7,0,3", "T,1,7,0,3 # more"),
    *("T,=1+1,7,0,3", "T,'1',7,0,3", "T;1;7;0;3", "T\t1\t7\t0\t3", '"T","1","7","0","3"'),
)  # fmt: skip


def row(chance: random.Random, *, odd: bool = False) -> Rows:
    """Time in hours, group, user, id, value."""
    names, users, values = (
        (ODD_NAMES, ODD_USERS, ODD_VALUES) if odd else ((1, 2), (7, 8), USUAL_VALUES)
    )
    hour = chance.randrange(6)
    number = chance.randrange(10)
    return [hour, chance.choice(names), chance.choice(users), number, chance.choice(values)]


def terms(chance: random.Random) -> dict[str, Any]:
    """A guarantee, and a strategy that can keep it."""
    promised = dict(chance.choice(GUARANTEES))
    promised["strategy"] = chance.choice(
        STRATEGIES + (() if [*promised] == ["epsilon"] else NORMAL)
    )
    return {name: value for name, value in promised.items() if value is not None}


def draw(chance: random.Random) -> Case:
    """A job of any statistic, and one unit's rows for some of its nights."""
    name = chance.choice([*TALLIED, *MORE])
    promised = {"epsilon": chance.choice([1, 10])} if name == "found" else terms(chance)
    case: Case = {"statistic": name, "key": chance.randrange(2**63)}
    people = chance.choice([{}, {}, *PEOPLE])
    groups = chance.choice(GROUPS) if name in TALLIED else {}
    if name == "users":
        groups = {}
        people = people or PEOPLE[1]
    if name == "reach":
        groups = {}
        people = {}
    ids = chance.random() < 0.5
    policies = {"missing_values": "drop", "bad_rows": "quarantine", "append": chance.random() < 0.5}
    _, defined = (TALLIED | MORE)[name]
    own = {
        **groups,
        **defined,
        **people,
        **policies,
        **({"row_id": "id"} if ids else {}),
        **promised,
    }
    if name == "top-k":
        own.setdefault("unlisted_groups", "drop")
    case |= {
        "own": own,
        "format": chance.choice(["jsonl", "csv", "parquet", "csv.gz", "csv.zst"]),
        "nights": [[row(chance) for _ in range(chance.randint(2, 9))] for _ in range(2)],
        "unit": _unit(chance, {**people, **({"user": 1} if name == "reach" else {})}, ids),
    }
    return case


def _unit(chance: random.Random, people: dict[str, Any], ids: bool) -> list[Any]:
    """Rows of one unit, each with its night."""
    more: list[Any] = [
        [chance.randrange(2), row(chance, odd=True)] for _ in range(chance.randint(1, 4))
    ]
    if people:
        for _, one in more:
            one[2] = "someone"
            if "contribution_period" in people:
                one[0] = one[0] % 2 + 2
    elif ids:
        for _, one in more:
            one[3] = "new"
    else:
        more = more[:1]
    return more


def draw_file(chance: random.Random) -> Case:
    """Lines of CSV that are odd, in both data sets; and one that only the second has."""
    name = chance.choice(["count", "sum", "by group", "average", "report"])
    _, defined = (TALLIED | MORE)[name]
    policies = {"missing_values": "drop", "bad_rows": "quarantine", "append": chance.random() < 0.5}

    def line() -> str:
        return chance.choice(LINES).replace("T", str(EPOCH + 3600 * chance.randrange(6)), 1)

    nights: list[Rows] = [[row(chance) for _ in range(chance.randint(2, 6))] for _ in range(2)]
    for night in nights:
        for _ in range(chance.randrange(3)):
            night.insert(chance.randrange(len(night)), line())
    ending = chance.choice(["csv", "csv.gz"])  # bytes in zstd that are no UTF-8 end a run
    return {
        "statistic": name,
        "key": chance.randrange(2**63),
        "own": {**defined, **policies, **chance.choice(GUARANTEES[:3])},
        "format": ending,
        "nights": nights,
        "unit": [[chance.randrange(2), line()]],
    }


def run_both(case: Case, folder: Path) -> str:
    """Without the unit's rows, and with them.

    Raises:
        AssertionError: something but numbers differs, or numbers by more than is claimed.
    """
    name = case["statistic"]
    own = case["own"]
    what, _ = (TALLIED | MORE)[name]
    nights = [[_tupled(one) for one in night] for night in case["nights"]]
    more = [list(night) for night in nights]
    for night, one in case["unit"]:
        more[night].append(_tupled(one))
    found = []
    for rows in (nights, more):
        with _known(case["key"]):
            found.append(published(rows, case["format"], what, own, KEYS, True))
    compare(*found, found_groups=own.get("unlisted_groups") == "discover")
    return f"{name}{', refused' if found[0].design is None else ''}"


def _tupled(one: Any) -> Any:
    return one if isinstance(one, str) else tuple(one)


def _known(key: int) -> ExitStack:
    """Keys are those of a case, and no witness knows of what another case released."""
    from tests.attack.kinds import keys_of

    stack = ExitStack()
    stack.enter_context(keys_of(str(key)))
    without_witness(stack.enter_context(pytest.MonkeyPatch.context()))
    return stack


def compare(without: Published, with_it: Published, *, found_groups: bool = False) -> None:
    """Raise where two neighbours show more than a unit may move.

    Raises:
        AssertionError: what is said differs, or numbers by more than is claimed.
    """
    for one, other in zip(without.said, with_it.said, strict=True):
        assert one == other, _first_difference(one, other)
    design = without.design
    if design is None:
        return
    assert with_it.design == design, "the designs differ"
    wide_enough(design)
    if found_groups:
        change = _of_groups(without.table, with_it.table)
    else:
        change = with_it.changes - without.changes
    steps = len(change)
    if not change.size:
        return
    unit = float(design.units.released / design.units.exact)
    assert np.allclose(change / unit, np.rint(change / unit), atol=1e-3), "no whole numbers"
    moved = measured(design, list(np.reshape(change, (steps, -1))))
    far = distance_of(design)(moved, 0 * moved)
    most = declared(design)
    assert far <= most * (1 + 1e-6), f"one unit moves {far:g}, and noise is made for {most:g}"


def _first_difference(one: str, other: str) -> str:
    place = next((n for n, (a, b) in enumerate(zip(one, other, strict=False)) if a != b), 0)
    around = slice(max(0, place - 80), place + 120)
    return f"what is said differs:\n  {one[around]}\n  {other[around]}"


def _of_groups(without: pl.DataFrame, with_it: pl.DataFrame) -> np.ndarray[Any, Any]:
    """By how much the groups move at each step that both data sets show.

    Which groups are shown hangs on the unit, by delta; numbers of those shown in both do not.
    """
    one, other = (
        {(step, group): float(value) for step, group, value in table.select(
            "window_index", "group", "estimate").rows()}
        for table in (without, with_it)
    )  # fmt: skip
    groups = sorted({group for _, group in one.keys() & other.keys()})
    totals = np.zeros((max((step for step, _ in one), default=0) + 1, len(groups)))
    for step in range(1, len(totals)):
        for place, group in enumerate(groups):
            both = (step, group) in one and (step, group) in other
            totals[step, place] = (
                other[step, group] - one[step, group] if both else totals[step - 1, place]
            )
    return np.diff(totals, axis=0)


def wide_enough(design: Design) -> None:
    """By formulas of its own: the noise of a design hides what it says that a unit may move.

    Laplace noise for an approximate guarantee is composed over nodes, and not computed again here.

    Raises:
        AssertionError: the noise is too narrow.
    """
    guarantee = design.guarantee
    distribution = design.distribution
    moved = sensitivity_of(design.strategy, design.contribution, design.shape)
    slack = 1 + 1e-9
    if isinstance(distribution, DiscreteLaplace):
        epsilon = moved.l1 / float(distribution.scale)
        if isinstance(guarantee, PureDP):
            assert epsilon <= float(guarantee.epsilon) * slack, f"{distribution} for {guarantee}"
        if isinstance(guarantee, ZCDP):
            lost = min(epsilon**2 / 2, epsilon)
            assert lost <= float(guarantee.rho) * slack, f"{distribution} for {guarantee}"
        return
    apart = math.sqrt(moved.l2_squared / float(distribution.sigma_squared))
    if isinstance(guarantee, ZCDP):
        assert apart**2 / 2 <= float(guarantee.rho) * slack, f"{distribution} for {guarantee}"
    if isinstance(guarantee, ApproxDP):
        epsilon = float(guarantee.epsilon)
        lost = ndtr(apart / 2 - epsilon / apart)
        lost -= math.exp(epsilon + log_ndtr(-apart / 2 - epsilon / apart))
        assert lost <= float(guarantee.delta) * slack, f"{distribution} for {guarantee}"
    assert not isinstance(guarantee, PureDP), f"{distribution} for {guarantee}"
