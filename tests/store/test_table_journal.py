"""Tables in a state: released once for a name, and shown again to the bit wherever asked."""

from __future__ import annotations

import os
import shutil
import sqlite3
import subprocess
import sys
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from counton import (
    ZCDP,
    Contribution,
    Key,
    PureDP,
    Stream,
    release_contingency,
    release_hierarchy,
    release_ranges,
)
from counton.errors import (
    BudgetExceeded,
    InvalidInput,
    ReplayMismatch,
    StateError,
    SumOverflow,
    WrongKey,
)
from counton.mechanisms import hierarchy, ranges
from counton.mechanisms.contingency import ContingencyDraft
from counton.noise import NoiseField
from counton.store import Store, key_path
from counton.strategies import Binary
from counton.strategies.lines import Dense

DOMAIN: dict[str, list[str | None]] = {
    "state": ["CA", "CA", "NY", "DC"],
    "county": ["A", "B", "A", None],
}


def line(state: Any, last: int = 5, **changed: Any) -> Any:
    terms = {"guarantee": ZCDP(0.5), "name": "line", **changed}
    return release_ranges([3, 1, 4, 1, last], state=state, **terms)


def grid(state: Any, last: int = 5, **changed: Any) -> Any:
    counts = np.arange(24).reshape(4, 6)
    counts[-1, -1] = last
    terms = {"guarantee": PureDP(1), "name": "grid", "strategy": ("haar", "auto"), **changed}
    return release_ranges(counts, state=state, **terms)


def tree(state: Any, last: int = 5, **changed: Any) -> Any:
    terms: dict[str, Any] = {"guarantee": ZCDP(0.5), "name": "tree", "value": "people", **changed}
    leaves = {**DOMAIN, "people": [7, 0, 12, last]}
    return release_hierarchy(leaves, domain=DOMAIN, levels=[*DOMAIN], state=state, **terms)


def targets(state: Any, last: int = 5, **changed: Any) -> Any:
    wanted = {"state": 5.0, "county": 10.0}
    return tree(state, last, **{"guarantee": None, "targets": wanted, "name": "cost", **changed})


def survey(state: Any, last: int = 5, **changed: Any) -> Any:
    terms: dict[str, Any] = {"guarantee": PureDP(1), "name": "survey", **changed}
    data = {"sex": ["f", "m", "f"], "smokes": ["no", "no", "yes"], "n": [2, 3, last]}
    domain: Any = {"sex": ["f", "m"], "smokes": ["no", "yes"]}
    return release_contingency(
        data, columns=["sex", "smokes"], domain=domain, value="n", state=state, **terms
    )


KINDS: Sequence[Callable[..., Any]] = (line, grid, tree, targets, survey)
several = pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)


def values(release: Any) -> list[bytes]:
    """All released numbers and all standard deviations, to the bit."""
    if hasattr(release, "estimates"):
        return [
            array.tobytes()
            for level in release.tree.levels
            for name, array in release.table_columns(level).items()
            if name not in DOMAIN
        ]
    found = release.ranges if hasattr(release, "ranges") else release
    shape = np.array(found.shape)
    low, high = (np.zeros_like(shape), shape) if len(shape) > 1 else (0, int(shape[0]))
    return [found.cells().tobytes(), np.asarray(found.std(low, high)).tobytes()]


@several
def test_asked_again_the_journal_answers_without_plan_and_noise(
    kind: Any, state: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    key = Key.generate()
    first = kind(state, key=key)
    assert not first.repeated

    def refuse(*_: object, **__: object) -> Any:
        raise AssertionError("planned or drawn again")

    monkeypatch.setattr(ranges, "plan_ranges", refuse)
    monkeypatch.setattr(hierarchy, "plan_hierarchy", refuse)
    monkeypatch.setattr(NoiseField, "run", refuse)
    again = kind(state, key=key)
    assert again.repeated
    assert values(again) == values(first)
    assert again.terms == first.terms
    assert again.input_digest == first.input_digest
    assert str(again).splitlines()[0] == str(first).splitlines()[0]
    assert again.guarantee == first.guarantee
    with Store(state) as store:
        assert store.tables == (first.name,)
        assert [(spend.name, spend.guarantee) for spend in store.spends] == [
            (first.name, first.guarantee)
        ]


def test_another_machine_that_finds_another_matrix_shows_the_journaled_release(
    file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = line(file, strategy="optimal")
    built = vars(ranges)["built"]

    def elsewhere(name: str, *rest: Any) -> Any:
        found = built(name, *rest)
        matrix = found.matrix().copy()
        matrix[0, 0] += 1  # as another order of adding up would end
        return Dense(matrix, found.name)

    monkeypatch.setattr(ranges, "built", elsewhere)
    without = line(None, strategy="optimal", key=Key.load(key_path(file)))
    assert values(without) != values(first)
    assert values(line(file, strategy="optimal")) == values(first)


@several
def test_other_data_and_other_terms_are_refused_and_change_nothing(kind: Any, file: Path) -> None:
    kind(file)
    before = {path.name: path.read_bytes() for path in file.parent.iterdir()}
    with pytest.raises(ReplayMismatch, match="before, from other data"):
        kind(file, 6)
    with pytest.raises(ReplayMismatch, match=r"on other terms \(contribution\)"):
        kind(file, contribution=Contribution.replace())
    with pytest.raises(ReplayMismatch, match=r"on other terms \(contribution\)"):
        kind(file, contribution=Contribution.add_remove(unit="visitor"))
    if kind is not targets:
        with pytest.raises(ReplayMismatch, match=r"on other terms \(guarantee\)"):
            kind(file, guarantee=ZCDP(3))
    assert {path.name: path.read_bytes() for path in file.parent.iterdir()} == before


def test_other_questions_are_other_terms(file: Path) -> None:
    line(file)
    for changed in ({"strategy": "haar"}, {"workload": "prefixes"}, {"workload": np.eye(5)}):
        with pytest.raises(ReplayMismatch, match=r"on other terms \((strategy|workload)\)"):
            line(file, **changed)
    line(file, name="own", workload=np.eye(5))
    assert line(file, name="own", workload=np.eye(5)).repeated
    with pytest.raises(ReplayMismatch, match=r"on other terms \(workload\)"):
        line(file, name="own", workload=np.eye(5)[::-1])
    with pytest.raises(ReplayMismatch, match=r"on other terms \(kind\)"):
        tree(file, name="line")
    tree(file)
    larger = {name: [*column, "X"] for name, column in DOMAIN.items()}
    with pytest.raises(ReplayMismatch, match=r"on other terms \(tree_sha256\)"):
        release_hierarchy(
            {**DOMAIN, "people": [7, 0, 12, 5]},
            domain=larger,
            levels=[*DOMAIN],
            guarantee=ZCDP(0.5),
            state=file,
            name="tree",
            value="people",
        )


def test_the_strategy_of_a_release_asks_for_it_too(file: Path) -> None:
    first = line(file, strategy="optimal")
    assert line(file, strategy=first.strategies).repeated
    with pytest.raises(ReplayMismatch):
        line(file, strategy=Dense(np.eye(5, dtype=np.int64), "optimal"))


class Mine(Dense):
    """A strategy that is no part of counton."""


def test_a_strategy_of_ones_own_is_given_again(file: Path) -> None:
    mine = Mine(3 * np.eye(5, dtype=np.int64), "mine")
    first = line(file, strategy=mine)
    again = line(file, strategy=mine)
    assert again.repeated
    assert values(again) == values(first)


def test_names_are_shared_with_streams(file: Path) -> None:
    line(file, name="visits")
    with pytest.raises(StateError, match="has released a table 'visits' already"):
        Stream.create(file, "visits", Binary(9), PureDP(1))
    Stream.create(file, "hours", Binary(9), PureDP(1)).close()
    with pytest.raises(StateError, match="has a stream 'hours' already"):
        line(file, name="hours")
    with Store(file) as store:
        assert (store.streams, store.tables) == (("hours",), ("visits",))
        assert [spend.name for spend in store.spends] == ["visits", "hours"]
        tables = store.summary()["tables"]
    assert tables[0]["terms"] == line(file, name="visits").terms.to_dict()
    assert tables[0]["key_fingerprint"] == Key.load(key_path(file)).fingerprint


def test_the_limit_holds_for_tables(state: str) -> None:
    key = Key.generate()
    with Store(state, create=True) as store:
        store.set_limit(ZCDP(1))
    line(state, key=key)
    with pytest.raises(BudgetExceeded):
        line(state, key=key, name="second", guarantee=ZCDP(0.6))
    line(state, key=key, name="third")
    with pytest.raises(BudgetExceeded):
        Stream.create(state, "stream", Binary(9), ZCDP(0.1), key=key)
    with Store(state) as store:
        assert store.tables == ("line", "third")


def test_what_is_refused_leaves_neither_state_nor_key(file: Path) -> None:
    refused: list[tuple[type[Exception], Callable[[], Any]]] = [
        (InvalidInput, lambda: line(file, -1)),
        (InvalidInput, lambda: line(file, guarantee=None)),
        (InvalidInput, lambda: line(file, guarantee=1)),
        (InvalidInput, lambda: line(file, contribution="one")),
        (InvalidInput, lambda: line(file, name="")),
        (InvalidInput, lambda: line(file, name="half \ud800")),
        (InvalidInput, lambda: line(file, name="n" * 201)),
        (InvalidInput, lambda: line(file, key=file)),
        (InvalidInput, lambda: line(file, guarantee=ZCDP(1e-30))),
        (SumOverflow, lambda: line(file, 2**60)),
        (InvalidInput, lambda: tree(file, guarantee=None)),
    ]
    for error, attempt in refused:
        with pytest.raises(error):
            attempt()
        assert not list(file.parent.iterdir())


def test_a_key_without_its_state_is_taken_for_a_copy(file: Path) -> None:
    line(file)
    elsewhere = file.with_name("elsewhere.db")
    shutil.copy2(key_path(file), key_path(elsewhere))
    with pytest.raises(WrongKey, match="bring its own state back, or move the key away"):
        line(elsewhere, 6)
    assert not elsewhere.exists()
    with pytest.raises(StateError, match="no release"):  # the file's witness knows of it
        line(elsewhere, 6, key=Key.load(key_path(file)))
    # a key without a file is the caller's to answer for
    kept = Key.from_text(key_path(file).read_text(), "a vault")
    assert not line(elsewhere, 6, key=kept).repeated
    with pytest.raises(WrongKey, match="was released with the key"):
        line(file, key=Key.generate())
    key_path(file).unlink()
    with pytest.raises(WrongKey, match="cannot be read"):
        line(file)


def test_copies_of_state_and_key_know_what_was_released(file: Path) -> None:
    first = line(file)
    copied = file.with_name("copied.db")
    for old, new in ((file, copied), (key_path(file), key_path(copied))):
        shutil.copy2(old, new)
    assert values(line(copied)) == values(first)
    with pytest.raises(ReplayMismatch):
        line(copied, 6)


@pytest.mark.skipif(os.name != "posix", reason="modes and links of POSIX")
def test_states_and_keys_that_others_can_reach_are_refused(file: Path) -> None:
    line(file)
    file.chmod(0o640)
    with pytest.raises(StateError, match=r"mode 0640, which lets others read .*chmod 600"):
        line(file)
    file.chmod(0o600)
    os.link(key_path(file), file.with_name("second.key"))
    with pytest.raises(WrongKey, match="has 2 names"):
        line(file)
    file.with_name("second.key").unlink()
    assert line(file).repeated


def test_of_several_at_once_one_data_set_is_released(state: str) -> None:
    key = Key.generate() if "://" in state else None

    def attempt(last: int) -> Any:
        try:
            return line(state, last % 3, key=key)
        except ReplayMismatch:
            return None

    with ThreadPoolExecutor(6) as pool:
        found = [*pool.map(attempt, range(6))]
    shown = [release for release in found if release is not None]
    assert len({release.input_digest for release in shown}) == 1
    assert len({values(release)[0] for release in shown}) == 1
    assert sum(not release.repeated for release in shown) == 1
    with Store(state) as store:
        assert len(store.spends) == 1


@pytest.mark.parametrize("column", ["terms", "asked", "strategy", "released", "input_digest"])
def test_altered_rows_are_noticed(column: str, file: Path) -> None:
    line(file)
    for value in ("", "{", "3", "[]", "{}", '{"axes": [3]}', '{"cells": "1:x", "bits": 1}'):
        connection = sqlite3.connect(file)
        connection.execute(f"UPDATE counton_tables SET {column} = ?", (value,))  # noqa: S608
        connection.commit()
        connection.close()
        with pytest.raises((StateError, ReplayMismatch)):
            line(file)


def test_a_strategy_that_the_terms_do_not_name_is_noticed(file: Path) -> None:
    line(file, strategy="haar")
    line(file, name="other", strategy="cascade")
    tree(file)
    targets(file)
    connection = sqlite3.connect(file)
    for one, other in (("line", "other"), ("tree", "cost")):
        connection.execute(
            "UPDATE counton_tables SET strategy = "
            "(SELECT strategy FROM counton_tables WHERE name = ?) WHERE name = ?",
            (other, one),
        )
    connection.commit()
    connection.close()
    with pytest.raises(StateError, match="not the one that its terms name"):
        line(file, strategy="haar")
    with pytest.raises(StateError, match="are not those that its terms name"):
        tree(file)


@several
def test_under_a_key_alone_the_terms_differ_wherever_the_noise_does(kind: Any) -> None:
    """With the pattern of 0.1, several draws of noise for one table had the same terms."""
    key = Key.generate()
    changes: list[dict[str, Any]] = [
        {},
        {"name": "second"},
        {"contribution": Contribution.replace()},
        {"contribution": Contribution.add_remove(2)},
    ]
    changes += [{"guarantee": PureDP(2)}] if kind is not targets else []
    changes += [{"strategy": "identity"}] if kind in (line, grid) else []
    changes += [{"equal": True}] if kind is survey else []
    drawn = [kind(None, key=key, **change) for change in changes]
    assert len({values(release)[0] for release in drawn}) == len(drawn)
    stated = [repr(release.terms.to_dict()) for release in drawn]
    assert len(set(stated)) == len(drawn)
    assert values(kind(None, key=key))[0] == values(drawn[0])[0]
    assert kind(None, key=key).input_digest == drawn[0].input_digest
    assert kind(None, 6, key=key).input_digest != drawn[0].input_digest
    assert kind(None, key=Key.generate()).input_digest != drawn[0].input_digest


def test_masked_counts_are_refused(file: Path) -> None:
    masked = np.ma.array([3, 1, 4], mask=[False, True, False])
    with pytest.raises(InvalidInput, match="1 masked values, the first at position 2"):
        release_ranges(masked, guarantee=ZCDP(1), state=file)
    for column in ("people", "state"):
        leaves = {"state": np.array(["CA", "NY", "DC"]), "people": np.array([1, 2, 3])}
        leaves[column] = np.ma.array(leaves[column], mask=[False, False, True])
        with pytest.raises(InvalidInput, match=rf"column '{column}' .* 1 masked values"):
            release_hierarchy(
                leaves,
                domain={"state": ["CA", "NY", "DC"]},
                levels=["state"],
                value="people",
                guarantee=ZCDP(1),
                state=file,
            )
    data = {"sex": np.ma.array(["f", "m"], mask=[True, False])}
    with pytest.raises(InvalidInput, match="masked"):
        ContingencyDraft(data, guarantee=ZCDP(1), columns=["sex"], domain={"sex": ["f", "m"]})
    inside: list[Any] = [
        [masked, [1, 1, 1]],
        (1, np.ma.array(777, mask=True)),
        [1, np.ma.masked],
    ]
    for hidden in inside:
        with pytest.raises(InvalidInput, match=r"element . of the counts has 1 masked values"):
            release_ranges(hidden, guarantee=ZCDP(1), state=file)
    for labels in (["f", np.ma.masked], np.array(["f", np.ma.masked], dtype=object)):
        with pytest.raises(InvalidInput, match=r"element 2 of column 'sex' .* masked"):
            ContingencyDraft(
                {"sex": labels}, guarantee=ZCDP(1), columns=["sex"], domain={"sex": ["f", "m"]}
            )
    rows: dict[str, Any] = {"state": ["CA", "NY"], "people": [3, np.ma.array(777, mask=True)]}
    with pytest.raises(InvalidInput, match=r"element 2 of column 'people' .* masked"):
        release_hierarchy(
            rows,
            domain={"state": ["CA", "NY"]},
            levels=["state"],
            value="people",
            guarantee=ZCDP(1),
            state=file,
        )
    assert not file.exists()
    whole = np.ma.array([3, 1, 4])
    assert release_ranges(whole, guarantee=ZCDP(1), key=Key.generate()).shape == (3,)


def test_a_data_frame_is_no_line_of_counts() -> None:
    import polars as pl

    with pytest.raises(InvalidInput, match="are a data frame of type DataFrame; give one column"):
        release_ranges(pl.DataFrame({"n": [1, 2]}), guarantee=ZCDP(1), key=Key.generate())


@pytest.mark.slow
def test_of_processes_at_once_one_data_set_is_released(file: Path) -> None:
    """Each with data of its own, on a state and a key that none of them has made yet."""
    program = (
        "import sys\n"
        "from counton import ZCDP, release_ranges\n"
        "from counton.errors import ReplayMismatch\n"
        "sys.stdin.readline()\n"
        "try:\n"
        "    r = release_ranges([3, int(sys.argv[2])], guarantee=ZCDP(1), state=sys.argv[1])\n"
        "    print(r.repeated, r.cells().tobytes().hex())\n"
        "except ReplayMismatch:\n"
        "    print('refused')\n"
    )
    running = [
        subprocess.Popen(
            [sys.executable, "-c", program, str(file), str(number // 2)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        for number in range(4)  # two with each data set
    ]
    for process in running:
        assert process.stdin is not None
        process.stdin.write("go\n")
        process.stdin.flush()
    said = [process.communicate()[0].split() for process in running]
    assert sorted(words[0] for words in said) == ["False", "True", "refused", "refused"]
    assert len({words[1] for words in said if len(words) == 2}) == 1
    with Store(file) as store:
        assert [spend.name for spend in store.spends] == ["ranges"]
