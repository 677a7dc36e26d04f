"""Parameters at the ends of what is allowed: a release or a sentence, no other exception."""

from pathlib import Path

import pytest

from counton.privacy import contribution

from .conftest import Workplace

pytestmark = pytest.mark.slow

HEADER = "at,page,user,paid,id\n"
ROWS = ("00:10,home,ann,3,1", "00:40,shop,bob,5,2", "02:30,home,ann,4,3")
TIME = ("--time", "at", "--every", "1h", "--start", "2024-03-01", "--until", "2024-03-01T03:00")

BUDGETS = tuple(
    (f"--{loss}", size, *delta)
    for size in ("1e-300", "1e-9", "1e9", "1e300")
    for loss, delta in (("epsilon", ()), ("rho", ()), ("epsilon", ("--delta", "1e-9")))
)
RANGES = (
    *(("0", "1e300", "1e290"), ("0", "1e-300", "1e-300"), ("-1e300", "1e300", "1e299")),
    *(("1e-9", "1e300", "1e-9"), ("0", "9", "1e-15"), ("0", "1e18", "1")),
)
COUNTS = ("1000000000000", "9223372036854775807")
TABLES: dict[str, tuple[str, ...]] = {
    "count": ("release", "count", "e.csv"),
    "hierarchy": (
        "release",
        "hierarchy",
        "e.csv",
        "--levels",
        "page,user",
        "--groups",
        "places.csv",
    ),
    "ranges": ("release", "ranges", "e.csv", "--label", "page", "--groups", "home,shop"),
    "contingency": (
        "release",
        "contingency",
        "e.csv",
        "--columns",
        "page",
        "--groups",
        "page=home,shop",
    ),
    "moments": ("release", "moments", "e.csv", "--columns", "paid,id", "--bounds", "0:9,0:9"),
    "average": (
        *("release", "average", "e.csv", "--value", "paid"),
        *("--lower", "0", "--upper", "9", "--resolution", "1"),
    ),
}


@pytest.fixture
def desk(place: Workplace, monkeypatch: pytest.MonkeyPatch) -> Workplace:
    monkeypatch.chdir(place.folder)
    Path("e.csv").write_text(HEADER + "".join(f"2024-03-01T{row}\n" for row in ROWS))
    Path("places.csv").write_text("page,user\nhome,ann\nshop,bob\n")
    Path("leaves.csv").write_text("page,user,n\nhome,ann,3\nshop,bob,5\n")
    return place


def check(desk: Workplace, *words: str, by_file: bool = False) -> None:
    """A release, or a refusal in a sentence with nothing spent; warnings are errors here."""
    for old in Path().glob("zz.db*"):
        old.unlink()
    done = desk.by_file(*words) if by_file else desk.plain(*words)
    assert done.code in (0, 2, 4), (words, done.err)
    assert (done.code == 0) == ("counton: " not in done.err), (words, done.err)
    assert "Traceback" not in done.err
    if done.code:
        assert not Path("zz.db").exists(), words


@pytest.mark.parametrize("name", TABLES)
def test_every_budget_is_taken_or_refused(name: str, desk: Workplace) -> None:
    budgets = BUDGETS if name == "hierarchy" else BUDGETS[2::5]
    for number, budget in enumerate(budgets):
        ends = ("--expected-windows", "10") if number % 2 else ("--windows", "6")
        check(desk, *TABLES[name], *TIME, *ends, *budget, "--state", "zz.db", "--output", "o.csv")


@pytest.mark.parametrize("budget", BUDGETS[::5], ids=" ".join)
def test_extreme_budgets_are_planned_recorded_and_released(
    budget: tuple[str, ...], desk: Workplace
) -> None:
    for more in (("--windows", "1000"), ("--expected-windows", "1000")):
        check(desk, "plan", *more, *budget)
    limit = [word.replace("--", "--budget-") for word in budget]
    check(desk, "ledger", "zz.db", *limit)
    leaves = (
        "leaves.csv",
        "--levels",
        "page,user",
        "--groups",
        "places.csv",
        "--count-column",
        "n",
    )
    check(desk, "release", "hierarchy", *leaves, *budget, "--state", "zz.db", "--output", "o.csv")


@pytest.mark.parametrize(("lower", "upper", "step"), RANGES)
def test_every_range_of_values_is_taken_or_refused(
    lower: str, upper: str, step: str, desk: Workplace
) -> None:
    ends = (f"--lower={lower}", f"--upper={upper}", "--resolution", step)
    more = (*TIME, "--windows", "6", "--epsilon", "1", "--state", "zz.db")
    check(desk, "release", "sum", "e.csv", "--value", "paid", *ends, *more)
    check(desk, "release", "average", "e.csv", "--value", "paid", *ends, *more)
    check(desk, "release", "moments", "e.csv", "--columns", "paid,id",
          f"--bounds={lower}:{upper},0:9", *more)  # fmt: skip
    check(desk, "release", "quantiles", "e.csv", "--value", "paid",
          f"--lower={lower}", f"--upper={upper}", "--cells", "8", *more)  # fmt: skip


@pytest.mark.parametrize("count", COUNTS)
def test_every_number_is_taken_or_refused(count: str, desk: Workplace) -> None:
    more = (*TIME, "--epsilon", "1", "--state", "zz.db")
    check(desk, "release", "count", "e.csv", *more, "--windows", count)
    check(desk, "release", "count", "e.csv", *more, "--expected-windows", count)
    check(
        desk,
        "release",
        "count",
        "e.csv",
        *more,
        "--windows",
        "6",
        "--user",
        "user",
        "--max-contributions",
        count,
    )
    for option in ("--max-contributions", "--max-contributions-per-window"):
        words = ("release", "distinct", "e.csv", "--user", "user", option, count)
        check(
            desk,
            *words,
            *more,
            "--windows",
            "6",
            by_file=option == "--max-contributions-per-window",
        )


def test_check_detects_message_that_overflows_floats(
    desk: Workplace, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A wrong example: a message that writes it as a float."""
    monkeypatch.setattr(contribution, "first_digits", lambda value: f"{float(value):.3g}")
    lower, upper, step = RANGES[3]
    words = ("release", "sum", "e.csv", "--value", "paid", "--lower", lower, "--upper", upper)
    more = ("--resolution", step, *TIME, "--windows", "6", "--epsilon", "1", "--state", "zz.db")
    with pytest.raises(OverflowError):
        check(desk, *words, *more)
